%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_program).
-moduledoc """
Runs one of the programs in this folder: says what it does, measures, and prints its result as the
last line, `name value unit`.

A program is a module with three callbacks and an escript of the same name that starts it:

    escript bench/NAME.escript [ARGUMENT] [--quick]

It measures dyno as it was compiled, in `_build` or in the folder that `DYNO_EBIN` names. `--quick`
takes seconds and shows that the program works; its result means little.

## Exit status
0 where a result was measured, whether it reaches its goal or not, and where the program was
skipped; 2 for wrong arguments; 3 where it could not be measured.
""".

%% Starting
-export([main/2]).
%% For the programs
-export([median/2, say/2, interval_text/2, goal/3, number/1, loads/0]).

-export_type([effort/0, result/0]).

-doc "As long as a result needs, or as short as the program can be.".
-type effort() :: full | quick.

-type result() :: #{
    name := string(),
    value := number(),
    unit := string(),
    %% Where the true value lies, and how surely; `none` where there were too few rounds.
    interval := {Low :: number(), High :: number(), Level :: float()} | none,
    %% The most that the value should be, or the least, where there is a goal.
    goal => number(),
    least => number()
}.

-doc "What is measured, and how, in a few lines.".
-callback describe() -> unicode:chardata().

-doc """
Reads the program's own argument; without one, its default. `skip` where what it needs is not there,
and need not be.
""".
-callback argument(none | string()) ->
    {ok, Argument :: term()} | {error, unicode:chardata()} | {skip, unicode:chardata()}.

-doc "Measures.".
-callback measure(Argument :: term(), effort()) -> result().

-doc "Runs a program with the arguments of its command line, and ends the emulator.".
-spec main(file:filename(), [string()]) -> no_return().
main(Folder, Arguments) ->
    [Name | Words] = Arguments,
    Program = list_to_atom("bench_" ++ Name),
    ok = io:setopts([{encoding, unicode}]),
    Compiled = filename:join(filename:basedir(user_cache, "dyno"), "bench-" ++ os:getpid()),
    Status =
        maybe
            ok ?= find_dyno(Folder),
            ok ?= compile_all(Folder, Compiled),
            {ok, Argument, Effort} ?= arguments(Program, Words),
            run(Program, Argument, Effort)
        else
            {skip, Text} ->
                io:format("~ts: ~ts~n", [Name, Text]),
                0;
            {error, Text} ->
                io:format(standard_error, "~ts: ~ts~n", [Name, Text]),
                2
        end,
    _ = file:del_dir_r(Compiled),
    halt(Status).

arguments(Program, Words) ->
    {Flags, Rest} = lists:partition(fun(G) -> lists:prefix("--", G) end, Words),
    Effort =
        case Flags of
            [] -> full;
            _ -> quick
        end,
    case {[F || F <- Flags, F =/= "--quick"], Rest} of
        {[], []} -> with_effort(Program:argument(none), Effort);
        {[], [One]} -> with_effort(Program:argument(One), Effort);
        {[], _} -> {error, "there is more than one argument; give one, or none"};
        {[Flag | _], _} -> {error, ["there is no option ", Flag, "; there is --quick"]}
    end.

with_effort({ok, Argument}, Effort) -> {ok, Argument, Effort};
with_effort(Other, _Effort) -> Other.

run(Program, Argument, Effort) ->
    io:format("~ts~n~n", [string:trim(Program:describe())]),
    say("machine   ~ts", [machine()]),
    say("load      ~ts before", [loads()]),
    try Program:measure(Argument, Effort) of
        Result ->
            say("load      ~ts after", [loads()]),
            show(Result),
            0
    catch
        Class:Reason:Stack ->
            io:format(standard_error, "~tw could not measure: ~tp: ~tp~n~tp~n", [
                Program, Class, Reason, Stack
            ]),
            3
    end.

show(#{name := Name, value := Value, unit := Unit, interval := Interval} = Result) ->
    say("result    ~ts ~ts, ~ts", [number(Value), Unit, interval_text(Interval, Unit)]),
    lists:foreach(
        fun({Bound, Goal}) ->
            say("goal      ~ts ~ts ~ts: ~ts", [
                bound(Bound), number(Goal), Unit, goal(Value, Interval, {Bound, Goal})
            ])
        end,
        [{Bound, Goal} || Bound := Goal <- maps:with([goal, least], Result)]
    ),
    say("~ts ~ts ~ts", [Name, number(Value), Unit]).

bound(goal) -> "at most";
bound(least) -> "at least".

-doc """
Whether a result reaches its goal. A value within it is not enough: the interval must be, too; and
where only a part of that is, it is not decided.
""".
-spec goal(number(), {number(), number(), float()} | none, {goal | least, number()}) -> string().
goal(Value, {Low, High, _Level}, {Bound, Goal}) ->
    case {is_within(Low, Bound, Goal), is_within(High, Bound, Goal)} of
        {true, true} -> "reached";
        {false, false} -> "missed";
        _ -> "not decided, the value is " ++ side(Value, Bound, Goal)
    end;
goal(Value, none, {Bound, Goal}) ->
    "too few rounds to tell, the value is " ++ side(Value, Bound, Goal).

is_within(Value, goal, Goal) -> Value =< Goal;
is_within(Value, least, Goal) -> Value >= Goal.

side(Value, Bound, Goal) ->
    case is_within(Value, Bound, Goal) of
        true -> "within it";
        false -> "beyond it"
    end.

%% Where dyno and its suites are

%% In a folder named dyno, so that its priv folder is found as well.
find_dyno(Folder) ->
    Release = erlang:system_info(otp_release),
    Root = filename:dirname(filename:absname(Folder)),
    Built = [
        filename:join([Root, "_build", R, "default/lib/dyno/ebin"])
     || R <- [Release, "."]
    ],
    Candidates = [Ebin || Ebin <- [os:getenv("DYNO_EBIN")], Ebin =/= false] ++ Built,
    IsThere = fun(Ebin) -> filelib:is_regular(filename:join(Ebin, "dyno_agent.beam")) end,
    case lists:search(IsThere, Candidates) of
        {value, Ebin} ->
            true = code:add_patha(Ebin),
            ok;
        false ->
            {error, [
                "dyno is not compiled for OTP ", Release, "; run make OTP=", Release,
                ", or name its ebin folder in DYNO_EBIN"
            ]}
    end.

%% In a folder, so that the nodes that are measured find the modules too. A folder of its own for
%% each program that runs: others may be running, with another release.
compile_all(Folder, Out) ->
    Examples = filename:join(filename:dirname(filename:absname(Folder)), "examples"),
    Sources =
        filelib:wildcard(filename:join(Folder, "bench_*.erl")) ++
            [filename:join(Examples, "http_demo.erl")],
    ok = filelib:ensure_path(Out),
    true = code:add_patha(Out),
    Problems = [S || S <- Sources, compile:file(S, [report, {outdir, Out}]) =:= error],
    case Problems of
        [] -> ok;
        _ -> {error, ["these do not compile: ", lists:join(", ", Problems)]}
    end.

%% Where we are

machine() ->
    io_lib:format("~ts, ~b processors online, OTP ~ts (erts ~ts, ~w), clock NIF: ~ts", [
        processor(),
        erlang:system_info(logical_processors_available),
        erlang:system_info(otp_release),
        erlang:system_info(version),
        erlang:system_info(emu_flavor),
        case dyno_clock:available() of
            true -> "yes";
            false -> "no"
        end
    ]).

processor() ->
    case file:read_file("/proc/cpuinfo") of
        {ok, Text} ->
            case re:run(Text, ~"model name\\s*: (.*)", [{capture, all_but_first, binary}]) of
                {match, [Name]} -> Name;
                nomatch -> erlang:system_info(system_architecture)
            end;
        {error, _} ->
            erlang:system_info(system_architecture)
    end.

-doc "The system's load averages over 1, 5 and 15 minutes, where it tells them.".
-spec loads() -> unicode:chardata().
loads() ->
    case file:read_file("/proc/loadavg") of
        {ok, Text} -> lists:join(" ", lists:sublist(binary:split(Text, ~" ", [global]), 3));
        {error, _} -> "unknown"
    end.

-doc "The median, and its interval where there are enough values for one.".
-spec median([number()], float()) ->
    {number(), {number(), number(), float()} | none}.
median(Values, Level) ->
    case dyno_stats_interval:median(Values, Level) of
        {ok, Interval} -> {dyno_stats:median(Values), Interval};
        {error, too_few} -> {dyno_stats:median(Values), none}
    end.

-doc "Prints a line.".
-spec say(io:format(), [term()]) -> ok.
say(Format, Arguments) ->
    io:format(Format ++ "~n", Arguments).

-doc "An interval in words.".
-spec interval_text({number(), number(), float()} | none, string()) -> unicode:chardata().
interval_text(none, _Unit) ->
    "too few rounds for an interval";
interval_text({Low, High, Level}, Unit) ->
    io_lib:format("between ~ts and ~ts ~ts (~.1f %)", [
        number(Low), number(High), Unit, 100.0 * Level
    ]).

-doc "Three significant digits, never in powers of ten.".
-spec number(number()) -> unicode:chardata().
number(Value) when abs(Value) >= 100 -> integer_to_list(round(Value));
number(Value) when abs(Value) >= 10 -> io_lib:format("~.1f", [float(Value)]);
number(Value) when abs(Value) >= 1 -> io_lib:format("~.2f", [float(Value)]);
number(Value) -> io_lib:format("~.3f", [float(Value)]).
