%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_terminal).
-moduledoc """
The only module that writes to standard output and standard error.

Foreign text cannot control the terminal: `print/1`, `complain/1` and `note/1` escape it
(`m:dyno_text`). Text with dyno's own escape sequences goes through `print_report/1` and
`write_error/1`; its painter must escape the parts.
""".

-export([prepare/0, look/0, file_look/0, is_terminal/1, columns/0, width/0, rows/0]).
-export([called_as/0, called_as/1, colour_when/1]).
-export([print/1, print_report/1, unread/0, status/1, complain/1, note/1, write_error/1]).

%% Longer lines are hard to read, and a file has no width.
-define(WIDEST, 160).
-define(NARROWEST, 40).
-define(FILE_WIDTH, 100).
-define(WRITTEN_MS, 1000).
-define(LOOK_MS, 2).
%% A failing write fails at once.
-define(PROBE_MS, 1000).

-doc """
Sets UTF-8 on both outputs, and keeps log events off standard output, which belongs to the report:
they go to standard error if DYNO_DEBUG is set, otherwise nowhere.
""".
-spec prepare() -> ok.
prepare() ->
    _ = io:setopts(standard_io, [{encoding, unicode}]),
    _ = io:setopts(standard_error, [{encoding, unicode}]),
    _ = logger:remove_handler(default),
    case dyno_cli_crash:debugging() of
        true ->
            _ = logger:add_handler(default, logger_std_h, #{config => #{type => standard_error}}),
            ok;
        false ->
            ok
    end.

-doc "The abilities of standard output for a report.".
-spec look() -> dyno_report:options().
look() ->
    case is_terminal(standard_io) of
        true -> #{width => columns(), colour => colour(on), charset => charset()};
        false -> (file_look())#{colour => colour(off)}
    end.

-doc "Sets the use of colours: `--color`. `auto` asks the environment and the terminal.".
-spec colour_when(always | never | auto) -> ok.
colour_when(When) ->
    application:set_env(dyno, colour, When).

-doc "The text before a command's name: `dyno `, `./dyno `, `rebar3 dyno ` or `mix dyno.`.".
-spec called_as() -> string().
called_as() ->
    application:get_env(dyno, called_as, program()).

program() ->
    case os:getenv("ESCRIPT_NAME", "") of
        "./dyno" -> "./dyno ";
        _ -> "dyno "
    end.

-doc "Sets this text, in a project.".
-spec called_as(string()) -> ok.
called_as(Program) ->
    application:set_env(dyno, called_as, Program).

-doc "The abilities of a report in a file.".
-spec file_look() -> dyno_report:options().
file_look() ->
    #{width => ?FILE_WIDTH, colour => off, charset => unicode}.

-doc "Whether people see the output as it is written.".
-spec is_terminal(standard_io | standard_error) -> boolean().
is_terminal(Device) ->
    %% One process serves both, and knows each.
    Key = maps:get(Device, #{standard_io => stdout, standard_error => stderr}),
    case io:getopts(standard_io) of
        Options when is_list(Options) -> proplists:get_value(Key, Options, false) =:= true;
        {error, _} -> false
    end.

-doc "The terminal's columns, within readable limits.".
-spec columns() -> pos_integer().
columns() ->
    max(?NARROWEST, min(?WIDEST, width())).

-doc "The terminal's actual columns, for a line that must not break.".
-spec width() -> pos_integer().
width() ->
    case io:columns(standard_io) of
        {ok, Columns} -> max(2, Columns);
        {error, _} -> 80
    end.

-doc "The terminal's rows.".
-spec rows() -> pos_integer().
rows() ->
    case io:rows(standard_io) of
        {ok, Rows} -> max(5, Rows);
        {error, _} -> 24
    end.

-doc "Writes text to standard output, like `print_report/1`.".
-spec print(unicode:chardata()) -> dyno_error:exit_status().
print(Text) ->
    print_report(dyno_text:lines(Text)).

-doc """
Writes to standard output unchanged. The first failed write gives exit status 3 and a sentence on
standard error. After it nothing is written, and the command gets an interrupt. A reader that has
gone (`| head`) is no error.
""".
-spec print_report(iodata()) -> dyno_error:exit_status().
print_report(Report) ->
    maybe
        undefined ?= application:get_env(dyno, unread),
        gone ?= write(standard_io, iolist_to_binary(Report)),
        ok = lost(why_output_fails())
    end,
    status(0).

-doc "The status of a command, including failed output.".
-spec status(dyno_error:exit_status()) -> dyno_error:exit_status().
status(Status) when Status =:= 0; Status =:= 130 ->
    case application:get_env(dyno, unread) of
        {ok, Why} when Why =/= epipe -> 3;
        _ -> Status
    end;
status(Status) ->
    Status.

-doc "Whether standard output has no reader any more.".
-spec unread() -> boolean().
unread() ->
    application:get_env(dyno, unread) =/= undefined.

lost(Why) ->
    ok = application:set_env(dyno, unread, Why),
    case Why of
        epipe -> ok;
        unknown -> complain("standard output: not all could be written");
        _ -> complain(["standard output: ", file:format_error(Why), ""])
    end,
    dyno_cli_interrupt:unread().

%% The device's process has ended silently; one more character shows why.
why_output_fails() ->
    Asking = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        _ = process_flag(trap_exit, true),
        Port = open_port({fd, 1, 1}, [out, binary]),
        Port ! {self(), {command, ~"\n"}},
        receive
            {'EXIT', Port, Reason} -> Asking ! {self(), Reason}
        after ?PROBE_MS -> ok
        end
    end),
    receive
        {Pid, Posix} when is_atom(Posix) ->
            true = demonitor(Monitor, [flush]),
            Posix;
        {'DOWN', Monitor, process, Pid, _} ->
            unknown
    end.

-doc "Prints an error on standard error, in a sentence.".
-spec complain(unicode:chardata()) -> ok.
complain(Sentence) ->
    note(["dyno: ", Sentence]).

-doc "Prints a line on standard error that is no error.".
-spec note(unicode:chardata()) -> ok.
note(Line) ->
    write_error(dyno_text:lines([Line, $\n])).

-doc "Writes characters to standard error unchanged, before any later output.".
-spec write_error(unicode:chardata()) -> ok.
write_error(Characters) ->
    %% A failure here cannot be reported.
    _ = write(standard_error, Characters),
    written(erlang:monotonic_time(millisecond) + ?WRITTEN_MS).

%% Up to OTP 27 standard error is a port with a writing thread: text on standard output could
%% overtake it, and be erased with a progress line.
written(EndMs) ->
    Waiting = [
        Port
     || Pid <- [whereis(standard_error)],
        is_pid(Pid),
        {links, Links} <- [process_info(Pid, links)],
        Port <- Links,
        is_port(Port),
        {queue_size, Bytes} <- [erlang:port_info(Port, queue_size)],
        Bytes > 0
    ],
    case Waiting =/= [] andalso erlang:monotonic_time(millisecond) < EndMs of
        true ->
            receive
            after ?LOOK_MS -> written(EndMs)
            end;
        false ->
            ok
    end.

%% The device's process ends with its reader; the caller must not get messages that `io` leaves.
write(Device, Characters) ->
    Caller = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        Written =
            try
                io:put_chars(Device, Characters)
            catch
                error:_ -> gone
            end,
        Caller ! {self(), Written}
    end),
    receive
        {Pid, Written} ->
            true = demonitor(Monitor, [flush]),
            Written;
        {'DOWN', Monitor, process, Pid, _} ->
            gone
    end.

%% The option; https://no-color.org and FORCE_COLOR, if not empty; the terminal's ability.
colour(Device) ->
    Values = [os:getenv(Name, "") || Name <- ["NO_COLOR", "FORCE_COLOR"]],
    case {application:get_env(dyno, colour, auto), Values, os:getenv("TERM", "dumb")} of
        {always, _, _} -> on;
        {never, _, _} -> off;
        {auto, ["", [_ | _]], _} -> on;
        {auto, ["", ""], Terminal} when Terminal =/= "dumb", Terminal =/= "" -> Device;
        {auto, _, _} -> off
    end.

%% The first of these that is set decides (POSIX, 8.2 Internationalization Variables).
charset() ->
    Names = ["LC_ALL", "LC_CTYPE", "LANG"],
    Values = [Value || Name <- Names, Value <- [os:getenv(Name, "")], Value =/= ""],
    case re:run(hd(Values ++ [""]), "utf-?8", [caseless, {capture, none}]) of
        match -> unicode;
        nomatch -> ascii
    end.
