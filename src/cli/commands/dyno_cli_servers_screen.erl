%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_servers_screen).
-moduledoc false.
%% The output of `dyno servers`: on a terminal a table that takes commands, else lines.

-behaviour(gen_server).

-export([start_link/1, stop/1, has_progress/1, quits/2, show/2, clear/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([screen/0]).

-import(dyno_cli_servers_view, [new/1, with_event/2, with_input/2]).

-opaque screen() :: {pid(), mode()}.

-type mode() :: table | lines | each | silent.

-type state() :: #{
    mode := mode(),
    view := dyno_cli_servers_view:view(),
    quits := pid() | none,
    drawn := boolean()
}.

-spec start_link(dyno_cli_command:values()) -> screen().
start_link(Values) ->
    Mode = mode(Values),
    {ok, Screen} = gen_server:start_link(?MODULE, {Mode, Values}, []),
    {Screen, Mode}.

%% Redrawing needs a capable terminal, and leaves standard output to a report in a pipe.
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

-spec stop(screen()) -> ok.
stop({Screen, _}) ->
    %% A stopped terminal may block it. The reader of typed keys ends too.
    dyno_sandbox:kill(Screen).

-doc "Whether a progress line fits: it would disturb a table or messages.".
-spec has_progress(screen()) -> boolean().
has_progress({_, Mode}) -> Mode =/= table andalso Mode =/= each.

-doc "Sets the process that the command `q` ends.".
-spec quits(screen(), pid()) -> ok.
quits({Screen, _}, Pid) -> gen_server:cast(Screen, {quits, Pid}).

-doc "Shows a window; returns when drawn, so that windows come no faster.".
-spec show(screen(), dyno_servers_run:event()) -> ok.
show({Screen, _}, Event) -> gen_server:call(Screen, {show, Event}, infinity).

-doc "Removes the table before a report; for single messages prints why they ended.".
-spec clear(screen(), Result :: term()) -> ok.
clear({Screen, _}, Result) ->
    Status =
        case Result of
            {ok, #{~"status" := Ended}} -> Ended;
            {error, _} -> failed
        end,
    gen_server:call(Screen, {clear, Status}, infinity).

-spec init({mode(), dyno_cli_command:values()}) -> {ok, state()}.
init({Mode, Values}) ->
    Screen = self(),
    %% A line at a time: single keys can be read only since OTP 28.
    _ = [spawn_link(fun() -> read_lines(Screen) end) || Mode =:= table],
    {ok, #{mode => Mode, view => new(Values), quits => none, drawn => false}}.

read_lines(Screen) ->
    case io:get_line("") of
        Line when is_list(Line); is_binary(Line) ->
            Screen ! {input, string:trim(unicode:characters_to_list(Line))},
            read_lines(Screen);
        %% There is no input.
        _ ->
            ok
    end.

-spec handle_call({show, dyno_servers_run:event()} | {clear, term()}, gen_server:from(), state()) ->
    {reply, ok, state()}.
handle_call({show, Event}, _From, #{view := View} = State) ->
    {reply, ok, ended(Event, drawn(Event, State#{view := with_event(Event, View)}))};
handle_call({clear, Status}, _From, State) ->
    {reply, ok, cleared(Status, State)}.

-spec handle_cast({quits, pid()}, state()) -> {noreply, state()}.
handle_cast({quits, Pid}, State) -> {noreply, State#{quits := Pid}}.

-spec handle_info({input, string()}, state()) -> {noreply, state()}.
handle_info({input, "q"}, #{quits := Quits} = State) when is_pid(Quits) ->
    Quits ! stop,
    {noreply, State};
handle_info({input, Text}, #{view := View} = State) ->
    {noreply, drawn(input, State#{drawn := false, view := with_input(Text, View)})}.

drawn({each, Call}, #{mode := each, view := View} = State) ->
    case dyno_cli_servers_view:shown(View) of
        {Shown, Most} when Shown =< Most ->
            _ = dyno_cli_terminal:print([dyno_cli_servers_view:call(Call), $\n]),
            State;
        _ ->
            State
    end;
drawn({alarm, _, Text}, #{mode := lines} = State) ->
    _ = dyno_cli_terminal:print([dyno_cli_servers_view:alarm(Text), $\n]),
    State;
drawn({window, Window}, #{mode := lines, view := View} = State) ->
    Lines = dyno_cli_servers_view:lines(Window, View),
    _ = dyno_cli_terminal:print([[Line, $\n] || Line <- Lines]),
    State;
drawn(_Event, #{mode := table, view := View, drawn := Before} = State) ->
    Look = maps:with([colour, charset], dyno_cli_terminal:look()),
    Layout = Look#{width => dyno_cli_terminal:columns(), indent => 0},
    [Prompt | Lines] = dyno_cli_servers_view:screen(View, Layout, dyno_cli_terminal:rows()),
    Top =
        case Before of
            true -> "\e7";
            false -> ["\e[H\e[2J", Prompt, "\e7"]
        end,
    Drawn = [[Line, "\e[K\r\n"] || Line <- Lines],
    dyno_cli_terminal:write_error([Top, "\e[2;1H", Drawn, "\e[J\e8"]),
    State#{drawn := true};
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
