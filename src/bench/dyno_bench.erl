%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench).
-moduledoc """
Measures and compares codes: which is faster, by how much, and how certain is that?

```erlang
{ok, Recording} = dyno_bench:run(["lists:seq(1, 9).", "[1, 2, 3, 4, 5, 6, 7, 8, 9]."], #{}).
```
""".

-export([run/2, run_file/2, interrupt/1, format_error/1, fault/1]).
-export_type([options/0, reason/0]).

-type options() :: #{
    %% Workers that run the same code at the same time. Default: 1.
    concurrency => pos_integer(),
    %% Measuring time. Default: 1000 per code. Ends earlier when all pairs are decided, and later if
    %% a verdict needs more: up to five times this value if given.
    budget_ms => pos_integer(),
    %% A smaller relative difference does not matter. Default: 0.03.
    threshold => float(),
    %% Limit of a part, and of an epoch; 30000. Also of a revision's build, there half an hour.
    timeout_ms => pos_integer(),
    %% Workers' least heap size in words, or the runtime's; by default each round draws a size.
    heap => default | pos_integer(),
    %% Default: compare.
    mode => dyno_bench_mode:mode(),
    %% Further folders of beam files.
    code_paths => [file:filename()],
    %% The deciding metric. Default: time. See dyno_bench_metric.
    metric => dyno_bench_metric:name(),
    %% Also measures work in other processes.
    extras => [side_effects],
    %% Compares the codes, functions of arity 1, with each input.
    inputs => [dyno_bench_inputs:input()],
    %% Default: this node. See m:dyno_bench_remote.
    node => node(),
    %% Cookie of the node. Default: this node's.
    cookie => atom(),
    %% Runs each code in VMs of its own (m:dyno_bench_isolated). The budget's default is then 30000.
    isolated => dyno_bench_isolated:settings(),
    %% Measures each code with these revisions of the project in the current folder.
    revisions => dyno_bench_revision:settings(),
    %% Called now and then, before a round.
    progress => fun((dyno_bench_rounds:progress()) -> term()),
    seed => integer()
}.

-type reason() ::
    no_codes | {too_many, pos_integer(), pos_integer()} | {crashed, term()}.

%% Besides those that dyno_bench_engine checks.
-define(OPTIONS, [code_paths, cookie, inputs, isolated, mode, node, progress, revisions, seed]).
-define(LEVEL, (dyno_stats_interval:level())).
-define(TIMEOUT_MS, 30_000).
%% Starting a VM takes longer than measuring in it.
-define(ISOLATED_MS, 30_000).
-define(REMOTE_MS, 3_600_000).

-doc """
Measures codes on this node in turn, never at the same time. See dyno_bench_code for the forms of a
code. Returns when all pairs are decided or the time is over.
""".
-spec run([dyno_bench_code:code()], options()) -> dyno_error:result(dyno_recording:document()).
run([], _Options) ->
    {error, {?MODULE, no_codes}};
run(Codes, Options) ->
    maybe
        ok ?= not_too_many(length(Codes), dyno_bench_slots:most_codes()),
        ok ?= dyno_option:check(dyno_bench_engine:checks(), ?OPTIONS, Options),
        run_codes(Codes, Options)
    end.

not_too_many(Count, Most) when Count > Most -> {error, {?MODULE, {too_many, Count, Most}}};
not_too_many(_Count, _Most) -> ok.

run_codes(_Codes, #{revisions := #{revisions := Revisions}, mode := {squeeze, _}}) ->
    {error, {dyno_bench_isolated, {squeezed_variants, length(Revisions)}}};
run_codes(Codes, #{revisions := _} = Options) ->
    %% Building takes long, so errors in the codes are reported first.
    Errors = [
        dyno_bench_code:in_code(Number, Error)
     || {Number, Code} <- lists:enumerate(Codes),
        {error, Error} <- [dyno_bench_code:read(Code)],
        not may_be_right(Error)
    ],
    case Errors of
        [] -> with_revisions(fun(With) -> run(Codes, With) end, Options);
        [Error | _] -> {error, Error}
    end;
run_codes(_Codes, #{node := _, isolated := _}) ->
    dyno_option:error(isolated, true, ~"no VM of its own in another node,");
run_codes(Codes, Options) ->
    run_with(Codes, maps:get(inputs, Options, []), Options).

%% Inputs, or the modules of a revision, may provide the missing part.
may_be_right({dyno_bench_code, {needs, _, _}}) -> true;
may_be_right(Error) -> dyno_bench_elixir:may_lack_modules(Error).

run_with(Codes, Inputs, Options) ->
    case {Inputs, maps:get(mode, Options, compare)} of
        {[], Mode} ->
            run_mode(Codes, Mode, Options);
        {_, compare} ->
            maybe
                {ok, Plan} ?=
                    in_process(fun() -> dyno_bench_inputs:plan(Codes, Inputs) end, Options),
                run_plan(undefined, Plan, Options, fun(Error) -> Error end)
            end;
        {_, Mode} ->
            dyno_option:error(mode, Mode, ~"compare, because there are inputs,")
    end.

with_revisions(Run, #{revisions := Settings} = Options) ->
    Isolated = maps:get(isolated, Options, #{}),
    maybe
        {ok, #{variants := Variants} = Built} ?= dyno_bench_revision:open(Settings, Options),
        Crossed = dyno_bench_isolated:cross(Variants, maps:get(variants, Isolated, [#{}])),
        try
            Run((maps:remove(revisions, Options))#{isolated => Isolated#{variants => Crossed}})
        after
            dyno_bench_revision:close(Built)
        end
    end.

run_mode(Codes, Mode, Options) ->
    maybe
        ok ?= dyno_bench_mode:check_options(Mode, Options),
        {ok, Checked} ?= checked(length(Codes), Options),
        {ok, CheckedMode} ?= dyno_bench_mode:check(Mode, length(Codes)),
        Call = fun(Own) -> {dyno_bench_mode, run, [CheckedMode, Codes, Own]} end,
        {ok, {Outcome, Where}} ?= executed(Call, Checked, Options),
        {ok, #{candidates := Candidates} = Result} ?= Outcome,
        Labels = [Label || #{label := Label} <- Candidates],
        Document = dyno_bench_mode:document(
            CheckedMode, parameters(Labels, Checked), Result, dyno_environment:collect()
        ),
        {ok, described(Document, Candidates, Where)}
    end.

-doc "Measures a file's cases (dyno_bench_file) with these `concurrency` and `threshold`.".
-spec run_file(file:filename_all(), options()) -> dyno_error:result(dyno_recording:document()).
run_file(Path, Options) ->
    maybe
        ok ?= dyno_option:check(dyno_bench_engine:checks(), ?OPTIONS, Options),
        file(Path, Options)
    end.

file(_Path, #{inputs := [_ | _] = Inputs}) ->
    dyno_option:error(inputs, Inputs, ~"none, because the file has its own,");
file(_Path, #{mode := Mode}) when Mode =/= compare ->
    dyno_option:error(mode, Mode, ~"compare, because there is a file,");
file(Path, #{revisions := _} = Options) ->
    with_revisions(fun(With) -> file(Path, With) end, Options);
file(Path, Options) ->
    For =
        case map_size(maps:with([node, isolated], Options)) of
            0 -> own;
            _ -> portable
        end,
    TimeoutMs = maps:get(timeout_ms, Options, ?TIMEOUT_MS),
    Read = fun() -> dyno_bench_file:read(Path, {For, TimeoutMs}) end,
    maybe
        {ok, #{name := Name, plan := Plan} = File} ?= in_process(Read, Options),
        Overridden = [
            Measurement#{options := maps:without(maps:keys(Options), Own)}
         || #{options := Own} = Measurement <- Plan
        ],
        Locate = fun(Error) -> dyno_bench_file:locate(File, Error) end,
        try
            run_plan(Name, Overridden, with_file(File, Options), Locate)
        after
            ok = dyno_bench_file:forget(File)
        end
    end.

%% Other VMs need the module, which exists only in this VM.
with_file(#{modules := Modules}, #{isolated := Settings} = Options) ->
    Options#{isolated := Settings#{modules => Modules}};
with_file(#{modules := Modules}, #{node := _} = Options) ->
    Options#{file_modules => Modules};
with_file(_File, Options) ->
    Options.

run_plan(Name, Plan, Options, Locate) ->
    maybe
        {ok, Checked} ?= checked(lists:sum([length(C) || #{codes := C} <- Plan]), Options),
        Call = fun(Own) -> {dyno_bench_inputs, measure, [Plan, Own]} end,
        {ok, {Outcome, Where}} ?= executed(Call, Checked, Options#{input_count => length(Plan)}),
        {measured, {ok, Outcomes}} ?= {measured, Outcome},
        Document = dyno_bench_inputs:document(
            {Name, all_parameters(Outcomes, Checked)}, Outcomes, dyno_environment:collect()
        ),
        {ok, described(Document, candidates(Outcomes), Where)}
    else
        {measured, {error, Error}} -> {error, Locate(Error)};
        {error, _} = Error -> Error
    end.

%% Calls here, or in another node, which may have no compiler.
executed(Call, Checked, #{node := Node} = Options) when Node =/= node() ->
    #{budget_ms := BudgetMs} = Checked,
    Remote = (maps:with([cookie], Options))#{
        limit_ms => max(?REMOTE_MS, 2 * BudgetMs), inputs => maps:get(input_count, Options, 0)
    },
    Files = maps:get(file_modules, Options, []),
    %% The other node compiles here: this node's name is final only once it is connected.
    There = fun() -> Call((maps:remove(progress, Checked))#{compiler => node()}) end,
    in_process(fun() -> dyno_bench_remote:run(Node, There, Files, Remote) end, Options);
executed(Call, Checked, Options) ->
    maybe
        {ok, Slot} ?= dyno_bench_slots:acquire_run(),
        {Module, Function, Arguments} = Call(Checked#{run => dyno_bench_slots:run_number(Slot)}),
        try
            in_process(fun() -> {ok, {apply(Module, Function, Arguments), here}} end, Options)
        after
            dyno_bench_slots:release(Slot)
        end
    end.

described(Document, _Candidates, here) ->
    Document;
described(Document, Candidates, Description) ->
    Waiting = [x || #{waiting := undefined} <- Candidates] =:= [],
    dyno_bench_remote:described(Document, Description, #{waiting => Waiting}).

checked(Count, Options) ->
    Defaults = #{
        concurrency => 1,
        budget_ms => budget_ms(Count, Options),
        threshold => dyno_bench_metric:threshold(maps:get(metric, Options, time)),
        limit_ms => limit_ms(Count, Options),
        timeout_ms => ?TIMEOUT_MS
    },
    Merged = maps:merge(
        Defaults, maps:without([code_paths, inputs, mode, node, cookie, file_modules], Options)
    ),
    isolated(Merged#{level => ?LEVEL}, Options).

%% Without a given time, codes get a verdict however long, if they remain as fast as at first.
limit_ms(_Count, #{budget_ms := BudgetMs}) when is_integer(BudgetMs) ->
    dyno_bench_engine:longest_ms(BudgetMs);
limit_ms(1, Options) ->
    dyno_bench_engine:longest_ms(budget_ms(1, Options));
limit_ms(_Count, _Options) ->
    infinity.

budget_ms(_Count, #{isolated := _}) -> ?ISOLATED_MS;
budget_ms(Count, _Options) -> 1000 * Count.

isolated(#{isolated := Settings} = Merged, Options) ->
    maybe
        ok ?= dyno_bench_isolated:check(Settings),
        {ok, Folder} ?= dyno_bench_modules:folder(),
        %% This node's code path without OTP's, whose version may differ there, and without dyno's.
        Paths =
            [filename:absname(P) || P <- dyno_code:listed(maps:get(code_paths, Options, []))] ++
                (dyno_code:own_paths() -- [Folder]),
        {ok, Merged#{isolated := Settings#{code_paths => Paths}}}
    end;
isolated(Merged, _Options) ->
    {ok, Merged}.

%% In its own process: killing a code kills no other, and the caller's flags stay unchanged.
in_process(Measure, Options) ->
    dyno_code:with_paths(maps:get(code_paths, Options, []), fun() ->
        Measured = dyno_interruptible:call(kill, fun() ->
            proc_lib:set_label(?MODULE),
            %% The process that runs the code is linked, and the code may kill it.
            _ = process_flag(trap_exit, true),
            Measure()
        end),
        ok = dyno_bench_modules:forget(),
        case Measured of
            {ok, Result} -> Result;
            {crashed, _} = Crashed -> {error, {?MODULE, Crashed}}
        end
    end).

candidates(Outcomes) ->
    lists:append([Candidates || #{result := #{candidates := Candidates}} <- Outcomes]).

all_parameters(Outcomes, Options) ->
    Labels = [Label || #{label := Label} <- candidates(Outcomes)],
    parameters(lists:uniq(Labels), Options).

parameters(Labels, #{isolated := Settings} = Options) ->
    Isolated = dyno_bench_isolated:parameters(Settings),
    %% Not measured in rounds, so no heap is drawn.
    Own = maps:merge(#{heap => runtime}, maps:remove(isolated, Options)),
    (parameters(Labels, Own))#{isolated => Isolated};
parameters(Labels, Options) ->
    (maps:with([concurrency, budget_ms, threshold, level], Options))#{
        codes => Labels,
        metric => maps:get(metric, Options, time),
        heap => dyno_bench_heap:of_options(Options)
    }.

-doc "Ends the comparison that a process runs.".
-spec interrupt(pid()) -> ok.
interrupt(Pid) ->
    Pid ! dyno_interrupt,
    ok.

-spec format_error(reason()) -> unicode:chardata().
format_error(no_codes) ->
    "there is no code to measure";
format_error({too_many, Count, Max}) ->
    io_lib:format("~b codes; at most ~b can be compared at once", [Count, Max]);
format_error({crashed, Reason}) ->
    io_lib:format("the measuring process died: ~0tP", [Reason, 15]).

-spec fault(reason()) -> dyno_error:fault().
fault({crashed, _}) -> dyno;
fault(_) -> caller.
