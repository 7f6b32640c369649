%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_servers_screen).
-moduledoc """
What `dyno servers` shows while it measures: on a terminal a table, drawn anew at each window, that
takes commands; elsewhere, and with `--each`, lines.
""".

-export([start_link/1, stop/1, has_progress/1, quits/2, show/2, clear/2]).
-export_type([screen/0]).

-import(dyno_cli_servers_view, [new/1, with_event/2, with_input/2]).

-doc "The process that draws, and how.".
-opaque screen() :: {pid(), mode()}.

-type mode() :: table | lines | each | silent.

-type state() :: #{
    mode := mode(),
    view := dyno_cli_servers_view:view(),
    quits := pid() | none,
    drawn := boolean()
}.

-doc "Starts it, for the values of the command.".
-spec start_link(dyno_cli_command:values()) -> screen().
start_link(Values) ->
    Mode = mode(Values),
    Pid = spawn_link(fun() ->
        case Mode of
            table -> read_input(self());
            _ -> ok
        end,
        loop(#{mode => Mode, view => new(Values), quits => none, drawn => false})
    end),
    {Pid, Mode}.

%% What is redrawn needs a terminal that can, and leaves standard output to a report in a pipe.
mode(#{quiet := true}) ->
    silent;
mode(#{each := _}) ->
    each;
mode(Values) ->
    Outputs = [dyno_cli_terminal:is_terminal(Of) || Of <- [standard_error, standard_io]],
    case {Outputs, os:getenv("TERM", "dumb"), Values} of
        {[true, true], Terminal, _} when Terminal =/= "dumb" -> table;
        {[true, false], Terminal, #{format := _}} when Terminal =/= "dumb" -> table;
        {_, _, #{format := _}} -> silent;
        {_, _, _} -> lines
    end.

%% A line at a time: single keys can be read from OTP 28 on only.
read_input(Screen) ->
    _ = spawn_link(fun() -> read_lines(Screen) end),
    ok.

read_lines(Screen) ->
    case io:get_line("") of
        Line when is_list(Line); is_binary(Line) ->
            Screen ! {input, string:trim(unicode:characters_to_list(Line))},
            read_lines(Screen);
        %% Nobody types.
        _ ->
            ok
    end.

-doc "Ends it.".
-spec stop(screen()) -> ok.
stop({Screen, _}) ->
    unlink(Screen),
    Ref = monitor(process, Screen),
    exit(Screen, kill),
    receive
        {'DOWN', Ref, process, Screen, _} -> ok
    end.

-doc "Whether a line of progress has its place: it would stand in a table, or between messages.".
-spec has_progress(screen()) -> boolean().
has_progress({_, Mode}) -> Mode =/= table andalso Mode =/= each.

-doc "Whom the command `q` ends.".
-spec quits(screen(), pid()) -> ok.
quits({Screen, _}, Pid) ->
    Screen ! {quits, Pid},
    ok.

-doc "Shows a window; returns when it is drawn, so that windows come no faster than that.".
-spec show(screen(), dyno_servers_run:event()) -> ok.
show(Screen, Event) -> call(Screen, {show, Event}).

-doc "Removes the table, so that a report can be written; of single messages says why they ended.".
-spec clear(screen(), Result :: term()) -> ok.
clear(Screen, {ok, #{~"status" := Status}}) -> call(Screen, {clear, Status});
clear(Screen, {error, _}) -> call(Screen, {clear, failed}).

call({Screen, _}, Request) ->
    Ref = monitor(process, Screen),
    Screen ! {self(), Ref, Request},
    receive
        {Ref, ok} ->
            true = demonitor(Ref, [flush]),
            ok;
        {'DOWN', Ref, process, Screen, _} ->
            ok
    end.

-spec loop(state()) -> no_return().
loop(#{view := View, quits := Quits} = State) ->
    receive
        {quits, Pid} ->
            loop(State#{quits := Pid});
        {Pid, Ref, {show, Event}} ->
            New = drawn(Event, State#{view := with_event(Event, View)}),
            Pid ! {Ref, ok},
            loop(ended(Event, New));
        {Pid, Ref, {clear, Status}} ->
            New = cleared(Status, State),
            Pid ! {Ref, ok},
            loop(New);
        {input, "q"} when is_pid(Quits) ->
            Quits ! stop,
            loop(State);
        {input, Text} ->
            loop(drawn(input, State#{view := with_input(Text, View)}))
    end.

drawn({each, Call}, #{mode := each, view := View} = State) ->
    case dyno_cli_servers_view:shown(View) of
        {Shown, Most} when Shown =< Most ->
            _ = dyno_cli_terminal:print([dyno_cli_servers_view:call(Call), $\n]),
            State;
        _ ->
            State
    end;
drawn({window, Window}, #{mode := lines, view := View} = State) ->
    _ = dyno_cli_terminal:print([
        [Line, $\n]
     || Line <- dyno_cli_servers_view:lines(Window, View)
    ]),
    State;
drawn(_Event, #{mode := table, view := View, drawn := Before} = State) ->
    #{colour := Colour, charset := Charset} = dyno_cli_terminal:look(),
    Layout = #{
        width => dyno_cli_terminal:columns(),
        indent => 0,
        colour => Colour,
        charset => Charset
    },
    [Prompt | Lines] = dyno_cli_servers_view:screen(View, Layout, dyno_cli_terminal:rows()),
    %% What somebody types stands behind the prompt, in the first line, which is drawn once and
    %% after each command; the cursor goes back there.
    Top =
        case Before andalso not dyno_cli_servers_view:is_new(View) of
            true -> "\e7";
            false -> ["\e[H\e[2J", Prompt, "\e7"]
        end,
    Drawn = [[Line, "\e[K\r\n"] || Line <- Lines],
    dyno_cli_terminal:write_error([Top, "\e[2;1H", Drawn, "\e[J\e8"]),
    State#{drawn := true, view := dyno_cli_servers_view:seen(View)};
drawn(_Event, State) ->
    State.

ended({each, _}, #{view := View, quits := Quits} = State) ->
    case dyno_cli_servers_view:shown(View) of
        {All, All} -> Quits ! stop;
        _ -> more
    end,
    State;
ended(_Event, State) ->
    State.

cleared(Status, #{mode := each, view := View} = State) when Status =/= failed ->
    dyno_cli_terminal:note(dyno_cli_servers_view:calls(Status, View)),
    State#{mode := silent};
cleared(_Status, #{drawn := true} = State) ->
    dyno_cli_terminal:write_error("\e[H\e[2J"),
    State#{drawn := false, mode := silent};
cleared(_Status, State) ->
    State#{mode := silent}.
