%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_terminal).
-moduledoc """
What dyno's standard output and standard error are, and the only place that writes to them.
""".

-export([prepare/0, look/0, file_look/0, is_terminal/1, columns/0, rows/0]).
-export([called_as/0, called_as/1, colour_when/1]).
-export([print/1, complain/1, note/1, write_error/1]).

%% Beyond this a line is hard to read, and a file has no width.
-define(WIDEST, 160).
-define(NARROWEST, 40).
-define(FILE_WIDTH, 100).
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

-doc "What a user typed before the name of a command: `dyno `, `rebar3 dyno ` or `mix dyno.`.".
-spec called_as() -> string().
called_as() ->
    application:get_env(dyno, called_as, "dyno ").

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
    case io:columns(standard_io) of
        {ok, Columns} -> max(?NARROWEST, min(?WIDEST, Columns));
        {error, _} -> 80
    end.

-doc "The terminal's rows.".
-spec rows() -> pos_integer().
rows() ->
    case io:rows(standard_io) of
        {ok, Rows} -> max(5, Rows);
        {error, _} -> 24
    end.

-doc """
Writes to standard output, and gives the exit status: 3, and a sentence on standard error, where not
all could be written. A reader that has gone (`| head`) is no error.
""".
-spec print(iodata()) -> 0 | 3.
print(Text) ->
    case write(standard_io, iolist_to_binary(Text)) of
        ok -> 0;
        gone -> lost(why_output_fails())
    end.

lost(epipe) ->
    0;
lost(unknown) ->
    complain("standard output: not all could be written"),
    3;
lost(Posix) ->
    complain(["standard output: ", file:format_error(Posix)]),
    3.

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
        {Pid, Posix} when is_atom(Posix) -> Posix;
        {'DOWN', Monitor, process, Pid, _} -> unknown
    end.

-doc "Says in one sentence on standard error what went wrong.".
-spec complain(unicode:chardata()) -> ok.
complain(Sentence) ->
    write_error(["dyno: ", Sentence, "\n"]).

-doc "A line on standard error that is no complaint.".
-spec note(unicode:chardata()) -> ok.
note(Line) ->
    write_error([Line, "\n"]).

-doc "Characters to standard error as they are.".
-spec write_error(unicode:chardata()) -> ok.
write_error(Characters) ->
    %% Nobody is left to tell where this fails.
    _ = write(standard_error, Characters),
    ok.

%% The device's process ends with its reader; what is left to do must still be done.
write(Device, Characters) ->
    try
        io:put_chars(Device, Characters)
    catch
        error:terminated -> gone;
        error:badarg when Device =:= standard_error -> gone
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
