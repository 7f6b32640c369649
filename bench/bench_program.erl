%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_program).
-moduledoc """
Runs one of the programs in this folder: says what it does, measures, and prints its result as the
last line, `name value unit`.

A program is a module `bench_NAME` with these callbacks:

    escript bench/run.escript NAME [ARGUMENT] [--quick]

It measures dyno as it was compiled, in `_build` or in the folder that `DYNO_EBIN` names. `--quick`
takes seconds and shows that the program works; its result means little.

## Exit status
0 where a result was measured, whether it reaches its goal or not, and where the program was
skipped; 2 for wrong arguments; 3 where it could not be measured.
""".

%% Starting
-export([main/2]).
%% For the programs
-export([whole/3, median/1, say/2, interval_text/2, goal/3, times/2, number/1, shares/3]).
-export([processor_ns/1, processor_ns/0, detach/1]).

-export_type([effort/0, result/0, interval/0]).

-doc "As long as a result needs, or as short as the program can be.".
-type effort() :: full | quick.

-type interval() :: {Low :: number(), High :: number(), Level :: float()} | none.

-type result() :: #{
    name := string(),
    value := number(),
    unit := string(),
    %% Where the true value lies, and how surely; `none`, as by default, where rounds were too few.
    interval => interval(),
    %% The most that the value should be, or the least, where there is a goal.
    goal => number(),
    least => number()
}.

-doc "What is measured, and how, in a few lines.".
-callback describe() -> unicode:chardata().

-doc """
Reads the program's own argument; without one, its default. `skip` where what it needs is not there,
and need not be. A program that takes no argument has no such function.
""".
-callback argument(none | string()) ->
    {ok, Argument :: term()} | {error, unicode:chardata()} | {skip, unicode:chardata()}.

-doc "Measures.".
-callback measure(Argument :: term(), effort()) -> result().

-optional_callbacks([argument/1]).

-doc "Runs a program with the arguments of its command line, and ends the emulator.".
-spec main(file:filename(), [string()]) -> no_return().
main(Folder, Arguments) ->
    ok = io:setopts([{encoding, unicode}]),
    Compiled = filename:join(filename:basedir(user_cache, "dyno"), "bench-" ++ os:getpid()),
    Status =
        maybe
            ok ?= find_dyno(Folder),
            ok ?= compile_all(Folder, Compiled),
            {ok, Program, Words} ?= program(programs(Folder), Arguments),
            {ok, Argument, Effort} ?= arguments(Program, Words),
            run(Program, Argument, Effort)
        else
            {skip, Text} ->
                say("~ts: ~ts", [hd(Arguments), Text]),
                0;
            {error, Text} ->
                io:format(standard_error, "~ts~n", [Text]),
                2
        end,
    _ = file:del_dir_r(Compiled),
    halt(Status).

%% By their names.
programs(Folder) ->
    #{
        Name => Module
     || File <- sources(Folder),
        "bench_" ++ Name = Base <- [filename:basename(File, ".erl")],
        Module <- [list_to_atom(Base)],
        {module, _} <- [code:ensure_loaded(Module)],
        erlang:function_exported(Module, describe, 0)
    }.

program(Programs, [Name | Words]) when is_map_key(Name, Programs) ->
    {ok, map_get(Name, Programs), Words};
program(Programs, _Arguments) ->
    {error, ["the first argument is one of ", lists:join(", ", lists:sort(maps:keys(Programs)))]}.

arguments(Program, Words) ->
    {Flags, Rest} = lists:partition(fun(Word) -> lists:prefix("--", Word) end, Words),
    Takes = erlang:function_exported(Program, argument, 1),
    case {Flags -- ["--quick"], Rest} of
        {[Flag | _], _} -> {error, ["there is no option ", Flag, "; there is --quick"]};
        {[], [_, _ | _]} -> {error, "there is more than one argument; give one, or none"};
        {[], [One]} when Takes -> with_effort(Program:argument(One), Flags);
        {[], []} when Takes -> with_effort(Program:argument(none), Flags);
        {[], [_]} -> {error, "there is no argument; there is --quick"};
        {[], []} -> with_effort({ok, none}, Flags)
    end.

with_effort({ok, Argument}, []) -> {ok, Argument, full};
with_effort({ok, Argument}, _Quick) -> {ok, Argument, quick};
with_effort(Other, _Flags) -> Other.

-doc """
What a number as argument is: `Default` where there is none; else at least so much, of what the
sentence for a mistake says.
""".
-spec whole(none | string(), Default, {Least :: integer(), What :: string()}) ->
    {ok, integer() | Default} | {error, unicode:chardata()}.
whole(none, Default, _Accepted) ->
    {ok, Default};
whole(Text, _Default, {Least, What}) ->
    case string:to_integer(Text) of
        {N, ""} when N >= Least ->
            {ok, N};
        _ ->
            {error,
                io_lib:format("the argument is the number of ~ts, ~b or more, not ~ts", [
                    What, Least, Text
                ])}
    end.

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

show(#{name := Name, value := Value, unit := Unit} = Result) ->
    Interval = maps:get(interval, Result, none),
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
-spec goal(number(), interval(), {goal | least, number()}) -> string().
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
                "dyno is not compiled for OTP ",
                Release,
                "; run make OTP=",
                Release,
                ", or name its ebin folder in DYNO_EBIN"
            ]}
    end.

%% In a folder, so that the nodes that are measured find the modules too. A folder of its own for
%% each program that runs: others may be running, with another release.
compile_all(Folder, Out) ->
    Root = filename:dirname(filename:absname(Folder)),
    Riarc = filelib:wildcard(filename:join(Root, "test/agent/verify/riarc/dyno_agent_*[a-z].erl")),
    Sources = [filename:join(Root, "examples/http_demo.erl") | sources(Folder) ++ Riarc],
    ok = filelib:ensure_path(Out),
    true = code:add_patha(Out),
    Problems = [S || S <- Sources, compile:file(S, [report, {outdir, Out}]) =:= error],
    case Problems of
        [] -> ok;
        _ -> {error, ["these do not compile: ", lists:join(", ", Problems)]}
    end.

sources(Folder) -> filelib:wildcard(filename:join(Folder, "bench_*.erl")).

%% Where we are

machine() ->
    #{~"cpu_model" := Model} = dyno_environment:collect(),
    io_lib:format("~ts, ~b processors online, OTP ~ts (erts ~ts, ~w), clock NIF: ~ts", [
        [Model || is_binary(Model)],
        erlang:system_info(logical_processors_available),
        erlang:system_info(otp_release),
        erlang:system_info(version),
        erlang:system_info(emu_flavor),
        case dyno_clock:available() of
            true -> "yes";
            false -> "no"
        end
    ]).

%% The system's load averages over 1, 5 and 15 minutes, where it tells them.
loads() ->
    case file:read_file("/proc/loadavg") of
        {ok, Text} -> lists:join(" ", lists:sublist(binary:split(Text, ~" ", [global]), 3));
        {error, _} -> "unknown"
    end.

-doc "The processor time of all threads of a process of the system; 0 where the system has none.".
-spec processor_ns(OsPid :: string()) -> non_neg_integer().
processor_ns(OsPid) ->
    lists:sum([
        binary_to_integer(hd(binary:split(Text, ~" ")))
     || File <- filelib:wildcard("/proc/" ++ OsPid ++ "/task/*/schedstat"),
        {ok, Text} <- [file:read_file(File)]
    ]).

-doc """
That of this emulator. The runtime's own statistics, which stand in, leave out the time in the
system, which is most of what it takes to wake a scheduler, and tell whole milliseconds.
""".
-spec processor_ns() -> non_neg_integer().
processor_ns() ->
    case processor_ns("self") of
        0 -> 1_000_000 * element(1, statistics(runtime));
        Ns -> Ns
    end.

-doc "The median, and its interval of 95 % where there are enough values for one.".
-spec median([number()]) -> {float(), interval()}.
median(Values) ->
    case dyno_stats_interval:median(Values, 0.95) of
        {ok, Interval} -> {dyno_stats:median(Values), Interval};
        {error, too_few} -> {dyno_stats:median(Values), none}
    end.

-doc "Prints the phases' true shares and those that were found; the largest difference, in points.".
-spec shares(Found :: string(), Truth :: #{atom() => float()}, #{atom() => float()}) -> float().
shares(Word, Truth, Found) ->
    lists:max([
        begin
            Share = maps:get(Phase, Found, 0.0),
            say("~-9s truth ~5.1f %, ~ts ~5.1f %", [Phase, True, Word, Share]),
            abs(Share - True)
        end
     || Phase := True <- Truth
    ]).

-doc "Ends the agents of targets that `m:dyno_targets` has attached.".
-spec detach([dyno_targets:target()]) -> ok.
detach(Targets) ->
    _ = dyno_agent:detach_all([Agent || #{agent := Agent} <- Targets]),
    ok.

-doc "Prints a line.".
-spec say(io:format(), [term()]) -> ok.
say(Format, Arguments) ->
    io:format(Format ++ "~n", Arguments).

-doc "An interval in words.".
-spec interval_text(interval(), string()) -> unicode:chardata().
interval_text(none, _Unit) ->
    "too few rounds for an interval";
interval_text({Low, High, Level}, Unit) ->
    io_lib:format("between ~ts and ~ts ~ts (~.1f %)", [
        number(Low), number(High), Unit, 100.0 * Level
    ]).

-doc "So many times, and whether that is at most what it should be.".
-spec times({number(), interval()}, Most :: number() | none) -> unicode:chardata().
times({Value, Interval}, Most) ->
    Goal = [
        ["; at most ", number(Most), ": ", goal(Value, Interval, {goal, Most})]
     || Most =/= none
    ],
    [number(Value), " times, ", interval_text(Interval, "times"), Goal].

-doc "Three significant digits, never in powers of ten.".
-spec number(number()) -> unicode:chardata().
number(Value) when abs(Value) >= 100 -> integer_to_list(round(Value));
number(Value) when abs(Value) >= 10 -> io_lib:format("~.1f", [float(Value)]);
number(Value) when abs(Value) >= 1 -> io_lib:format("~.2f", [float(Value)]);
number(Value) -> io_lib:format("~.3f", [float(Value)]).
