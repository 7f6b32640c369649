%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench).
-moduledoc """
Measures codes and compares them: which is faster, by how much, and how sure is that?

```erlang
{ok, Recording} = dyno_bench:run(["lists:seq(1, 9).", "[1, 2, 3, 4, 5, 6, 7, 8, 9]."], #{}).
```
""".

-export([run/2, run_file/2, interrupt/1, format_error/1, exit_status/1]).
-export_type([options/0, reason/0]).

-type options() :: #{
    %% Workers that run the same code at the same time; 1.
    concurrency => pos_integer(),
    %% The time for measuring; it ends earlier when everything is decided. 1000 a code.
    budget_ms => pos_integer(),
    %% A difference of less than this share does not matter; 0.03.
    threshold => float(),
    %% The longest that a part of a code, or one epoch, may take; 30000.
    timeout_ms => pos_integer(),
    %% How it is measured; compare.
    mode => dyno_bench_mode:mode(),
    %% More folders of beam files.
    code_paths => [file:filename()],
    %% The codes, functions of arity 1, are compared with each of these.
    inputs => [dyno_bench_inputs:input()],
    seed => integer()
}.

-type reason() ::
    dyno_bench_inputs:reason()
    | dyno_bench_file:reason()
    | no_codes
    | {too_many, pos_integer(), pos_integer()}
    | {option, atom(), term(), binary()}
    | {mode, dyno_bench_mode:reason()}
    | {crashed, term()}.

%% Each pair has its interval: with many codes none would ever be decided.
-define(MAX_CODES, 20).
-define(LEVEL, 0.95).

-doc """
Measures codes on this node, in turn, never at the same time; see dyno_bench_code for what a code
is. Returns when all is decided or the time is over.
""".
-spec run([dyno_bench_code:code()], options()) ->
    {ok, dyno_recording:document()} | {error, reason()}.
run([], _Options) ->
    {error, no_codes};
run(Codes, _Options) when length(Codes) > ?MAX_CODES ->
    {error, {too_many, length(Codes), ?MAX_CODES}};
run(Codes, Options) ->
    case {maps:get(inputs, Options, []), maps:get(mode, Options, compare)} of
        {[], Mode} ->
            in_mode(Codes, Mode, Options);
        {Inputs, compare} ->
            case dyno_bench_inputs:plan(Codes, Inputs) of
                {ok, Plan} -> measured(undefined, Plan, Options);
                {error, _} = Error -> Error
            end;
        {_, Mode} ->
            {error, {option, mode, Mode, ~"compare, because there are inputs,"}}
    end.

in_mode(Codes, Given, Options) ->
    maybe
        {ok, Checked} ?= checked(length(Codes), Options),
        {mode, {ok, Mode}} ?= {mode, dyno_bench_mode:check(Given, length(Codes))},
        Measure = fun() -> dyno_bench_mode:run(Mode, Codes, Checked) end,
        {ok, #{arms := Arms} = Measured} ?=
            in_process(Measure, maps:get(code_paths, Options, [])),
        Labels = [Label || #{label := Label} <- Arms],
        {ok,
            dyno_bench_mode:document(
                Mode, parameters(Labels, Checked), Measured, dyno_environment:collect()
            )}
    else
        {mode, {error, Reason}} -> {error, {mode, Reason}};
        {error, _} = Error -> Error
    end.

-doc """
Measures the cases of a benchmark file (dyno_bench_file). Where `concurrency` or `threshold` is
given, it is that of all cases.
""".
-spec run_file(file:filename_all(), options()) ->
    {ok, dyno_recording:document()} | {error, reason()}.
run_file(_Path, #{inputs := [_ | _] = Inputs}) ->
    {error, {option, inputs, Inputs, ~"none, because the file has its own,"}};
run_file(_Path, #{mode := Mode}) when Mode =/= compare ->
    {error, {option, mode, Mode, ~"compare, because there is a file,"}};
run_file(Path, Options) ->
    Read = in_process(fun() -> dyno_bench_file:read(Path) end, maps:get(code_paths, Options, [])),
    case Read of
        {ok, #{name := Name, plan := Plan} = File} ->
            try measured(Name, [overridden(M, Options) || M <- Plan], Options) of
                {error, {Kind, _, _, _}} = Error when Kind =:= option -> Error;
                {error, interrupted} = Error -> Error;
                {error, {crashed, _}} = Error -> Error;
                {error, Reason} -> {error, dyno_bench_file:locate(File, Reason)};
                {ok, _} = Ok -> Ok
            after
                ok = dyno_bench_file:forget(File)
            end;
        {error, _} = Error ->
            Error
    end.

overridden(#{options := Own} = Measurement, Options) ->
    Measurement#{options := maps:without(maps:keys(Options), Own)}.

measured(Name, Plan, Options) ->
    maybe
        {ok, Checked} ?= checked(lists:sum([length(C) || #{codes := C} <- Plan]), Options),
        Measured = in_process(
            fun() -> dyno_bench_inputs:measure(Plan, Checked) end,
            maps:get(code_paths, Options, [])
        ),
        ok = dyno_bench_inputs:forget(Plan),
        {ok, Outcomes} ?= Measured,
        {ok,
            dyno_bench_inputs:document(
                {Name, all_parameters(Outcomes, Checked)}, Outcomes, dyno_environment:collect()
            )}
    end.

checked(Count, Options) ->
    Defaults = #{
        concurrency => 1,
        budget_ms => 1000 * Count,
        threshold => 0.03,
        timeout_ms => 30_000
    },
    Merged = maps:merge(Defaults, maps:without([code_paths, inputs, mode], Options)),
    Checks = [
        {concurrency, fun(N) -> is_integer(N) andalso N >= 1 andalso N =< 10_000 end,
            ~"an integer from 1 to 10000"},
        {budget_ms, fun(N) -> is_integer(N) andalso N >= 1 end, ~"a positive integer"},
        {threshold, fun(T) -> is_float(T) andalso T > 0 andalso T < 1 end,
            ~"a number between 0 and 1"},
        {timeout_ms, fun(N) -> is_integer(N) andalso N >= 1 end, ~"a positive integer"}
    ],
    case [{K, map_get(K, Merged), Text} || {K, Is, Text} <- Checks, not Is(map_get(K, Merged))] of
        [] -> {ok, Merged#{level => ?LEVEL}};
        [{Key, Value, Accepted} | _] -> {error, {option, Key, Value, Accepted}}
    end.

%% In a process of its own: a code that is killed takes nobody with it, and the caller's process
%% is not the one whose flags and messages change.
in_process(Measure, Paths) ->
    Absolute = [filename:absname(P) || P <- Paths],
    ok = code:add_pathsa(Absolute),
    Caller = self(),
    {Pid, Ref} = spawn_monitor(fun() ->
        proc_lib:set_label(?MODULE),
        watch(Caller),
        Caller ! {?MODULE, self(), Measure()}
    end),
    Result = wait(Pid, Ref),
    code:del_paths(Absolute),
    Result.

watch(Caller) ->
    Self = self(),
    _ = spawn(fun() ->
        CallerRef = monitor(process, Caller),
        SelfRef = monitor(process, Self),
        receive
            {'DOWN', CallerRef, process, Caller, _} -> exit(Self, kill);
            {'DOWN', SelfRef, process, Self, _} -> ok
        end
    end),
    ok.

wait(Pid, Ref) ->
    receive
        dyno_interrupt ->
            Pid ! dyno_interrupt,
            wait(Pid, Ref);
        {?MODULE, Pid, Result} ->
            true = demonitor(Ref, [flush]),
            Result;
        {'DOWN', Ref, process, Pid, Reason} ->
            {error, {crashed, Reason}}
    end.

all_parameters(Outcomes, Options) ->
    Labels = [Label || #{result := #{arms := Arms}} <- Outcomes, #{label := Label} <- Arms],
    maps:merge(
        parameters(lists:uniq(Labels), Options), dyno_bench_inputs:parameters(Outcomes)
    ).

parameters(Labels, Options) ->
    #{
        codes => Labels,
        concurrency => map_get(concurrency, Options),
        budget_ms => map_get(budget_ms, Options),
        threshold => map_get(threshold, Options),
        level => map_get(level, Options)
    }.

-doc "Ends the comparison that a process runs.".
-spec interrupt(pid()) -> ok.
interrupt(Pid) ->
    Pid ! dyno_interrupt,
    ok.

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error(no_codes) ->
    "there is no code to measure";
format_error({too_many, Count, Max}) ->
    io_lib:format("~b codes; at most ~b can be compared at once", [Count, Max]);
format_error({option, Key, Value, Accepted}) ->
    io_lib:format("~ts is ~0tp; ~ts is accepted", [Key, Value, Accepted]);
format_error({mode, Reason}) ->
    dyno_bench_mode:format_error(Reason);
format_error({crashed, Reason}) ->
    io_lib:format("the measuring process died: ~0tP", [Reason, 15]);
format_error(Reason) when
    element(1, Reason) =:= at;
    element(1, Reason) =:= no_file;
    element(1, Reason) =:= does_not_compile;
    element(1, Reason) =:= taken_name;
    element(1, Reason) =:= no_benchmarks;
    element(1, Reason) =:= benchmarks_raised;
    element(1, Reason) =:= bad_case
->
    dyno_bench_file:format_error(Reason);
format_error(Reason) ->
    dyno_bench_inputs:format_error(Reason).

-doc "Whose fault an error is: 1 the code's, 2 the caller's, 3 dyno's, 130 interrupted.".
-spec exit_status({error, reason()}) -> 1 | 2 | 3 | 130.
exit_status({error, interrupted}) -> 130;
exit_status({error, {at, _, Reason}}) -> exit_status({error, Reason});
exit_status({error, {benchmarks_raised, _, _, _}}) -> 1;
exit_status({error, {in_run, _, Reason}}) -> exit_status({error, Reason});
exit_status({error, {input_raised, _, _, _}}) -> 1;
exit_status({error, {raised, _, _, _, _, _}}) -> 1;
exit_status({error, {check, _}}) -> 1;
exit_status({error, {failed, _, _, _}}) -> 1;
exit_status({error, {endless, _, _}}) -> 1;
exit_status({error, {crashed, _}}) -> 3;
exit_status({error, _}) -> 2.
