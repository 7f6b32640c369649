%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_terminal).
-moduledoc """
What dyno's standard output and standard error are, and the only place that writes to them.

Text from elsewhere cannot steer the terminal: `print/1`, `complain/1` and `note/1` escape it
(`m:dyno_text`). What has escape sequences of dyno's own goes through `print_report/1` and
`write_error/1`, and its parts are escaped by whoever paints them.
""".

-export([prepare/0, look/0, file_look/0, is_terminal/1, columns/0, width/0, rows/0]).
-export([called_as/0, called_as/1, colour_when/1]).
-export([print/1, print_report/1, unread/0, status/1, complain/1, note/1, write_error/1]).

%% Beyond this a line is hard to read, and a file has no width.
-define(WIDEST, 160).
-define(NARROWEST, 40).
-define(FILE_WIDTH, 100).
%% How long a write to standard error is waited for, and between two looks.
-define(WRITTEN_MS, 1000).
-define(LOOK_MS, 2).
%% A write that fails does so at once.
-define(PROBE_MS, 1000).

-doc """
Takes UTF-8 on both outputs, and keeps log events off standard output, which belongs to the
report: they go to standard error where DYNO_DEBUG is set and nowhere else.
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

-doc "How a report on standard output should look.".
-spec look() -> dyno_report:options().
look() ->
    case is_terminal(standard_io) of
        true -> #{width => columns(), colour => colour(on), charset => charset()};
        false -> (file_look())#{colour => colour(off)}
    end.

-doc "When to use colours from now on: `--color`. `auto` asks the environment and the terminal.".
-spec colour_when(always | never | auto) -> ok.
colour_when(When) ->
    application:set_env(dyno, colour, When).

-doc "What a user types before a command's name: `dyno `, `./dyno `, `rebar3 dyno ` or `mix dyno.`.".
-spec called_as() -> string().
called_as() ->
    application:get_env(dyno, called_as, program()).

%% As it was typed; what was found on the PATH has an absolute name.
program() ->
    case os:getenv("ESCRIPT_NAME", "") of
        "./dyno" -> "./dyno ";
        _ -> "dyno "
    end.

-doc "Says so, in a project.".
-spec called_as(string()) -> ok.
called_as(Program) ->
    application:set_env(dyno, called_as, Program).

-doc "How a report in a file should look.".
-spec file_look() -> dyno_report:options().
file_look() ->
    #{width => ?FILE_WIDTH, colour => off, charset => unicode}.

-doc "Whether people see it as it is written.".
-spec is_terminal(standard_io | standard_error) -> boolean().
is_terminal(Device) ->
    %% The same process serves both, and knows of each.
    Key = maps:get(Device, #{standard_io => stdout, standard_error => stderr}),
    case io:getopts(standard_io) of
        Options when is_list(Options) -> proplists:get_value(Key, Options, false) =:= true;
        {error, _} -> false
    end.

-doc "The terminal's columns, within what is readable.".
-spec columns() -> pos_integer().
columns() ->
    max(?NARROWEST, min(?WIDEST, width())).

-doc "The terminal's columns, however few: for a line that must not be broken.".
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

-doc "Writes text to standard output, as `print_report/1`.".
-spec print(unicode:chardata()) -> dyno_error:exit_status().
print(Text) ->
    print_report(dyno_text:lines(Text)).

-doc """
Writes to standard output as it is, and gives the exit status: 3, and a sentence on standard error,
the first time that not all could be written. From then on nothing is written, and the command is
told to end as by an interrupt. A reader that has gone (`| head`) is no error.
""".
-spec print_report(iodata()) -> dyno_error:exit_status().
print_report(Report) ->
    maybe
        undefined ?= application:get_env(dyno, unread),
        gone ?= write(standard_io, iolist_to_binary(Report)),
        ok = lost(why_output_fails())
    end,
    status(0).

-doc "The status of a command, also where what it was to print could not be written.".
-spec status(dyno_error:exit_status()) -> dyno_error:exit_status().
status(Status) when Status =:= 0; Status =:= 130 ->
    case application:get_env(dyno, unread) of
        {ok, Why} when Why =/= epipe -> 3;
        _ -> Status
    end;
status(Status) ->
    Status.

-doc "Whether nobody gets what is written to standard output any more, for whatever reason.".
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

%% The device's process has ended without a word; one more character tells why.
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

-doc "Says in one sentence on standard error what went wrong.".
-spec complain(unicode:chardata()) -> ok.
complain(Sentence) ->
    note(["dyno: ", Sentence]).

-doc "A line on standard error that is no complaint.".
-spec note(unicode:chardata()) -> ok.
note(Line) ->
    write_error(dyno_text:lines([Line, $\n])).

-doc "Characters to standard error as they are. They are there before anything else is written.".
-spec write_error(unicode:chardata()) -> ok.
write_error(Characters) ->
    %% Nobody is left to tell where this fails.
    _ = write(standard_error, Characters),
    written(erlang:monotonic_time(millisecond) + ?WRITTEN_MS).

%% Up to OTP 27 standard error is a port, whose writes are done by a thread: what goes to standard
%% output meanwhile would come first, and be erased with a progress line.
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

%% The device's process ends with its reader, and `io` then leaves messages behind: the caller must
%% not get them, and still does what is left to do.
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

%% What was asked for by an option; then https://no-color.org and FORCE_COLOR: any value but the
%% empty one; else a terminal that can.
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
