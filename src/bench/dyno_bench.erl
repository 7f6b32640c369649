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
    %% What decides, where it is not the time: see dyno_bench_metric.
    metric => dyno_bench_metric:name(),
    %% `whole`: also what the codes make other processes do; `profile`: which functions take the
    %% time.
    extras => [whole | profile],
    %% The codes, functions of arity 1, are compared with each of these.
    inputs => [dyno_bench_inputs:input()],
    %% Measures in this node; see m:dyno_bench_remote.
    node => node(),
    %% To show it; this node's own.
    cookie => atom(),
    %% Each code in VMs of its own; see m:dyno_bench_isolated. Then the budget is 30000.
    isolated => dyno_bench_isolated:settings(),
    %% Each code with these revisions of the project in the current folder.
    revisions => dyno_bench_revision:settings(),
    seed => integer()
}.

-type reason() ::
    dyno_bench_inputs:reason()
    | dyno_bench_isolated:reason()
    | {revision, dyno_bench_revision:reason()}
    | {remote, dyno_bench_remote:reason()}
    | dyno_bench_file:reason()
    | no_codes
    | {too_many, pos_integer(), pos_integer()}
    | {option, atom(), term(), binary()}
    | {mode, dyno_bench_mode:reason()}
    | dyno_bench_slots:reason()
    | {crashed, term()}.

%% Each pair has its interval: with many codes none would ever be decided.
-define(MAX_CODES, 20).
-define(LEVEL, 0.95).
-define(TIMEOUT_MS, 30_000).
%% To start a VM takes longer than to measure in it.
-define(ISOLATED_MS, 30_000).
%% The longest in another node, unless more is asked for.
-define(REMOTE_MS, 3_600_000).

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
run(_Codes, #{revisions := #{revisions := Revisions}, mode := {squeeze, _}}) ->
    {error, {squeezed_variants, length(Revisions)}};
run(Codes, #{revisions := _} = Options) ->
    %% To build takes long: what is wrong with the codes is said before.
    Wrong = [
        {N, Why}
     || {N, C} <- lists:enumerate(Codes),
        {error, Why} <- [dyno_bench_code:read(C)],
        not dyno_bench_elixir:is_of_build(Why)
    ],
    case Wrong of
        [] -> with_revisions(fun(With) -> run(Codes, With) end, Options);
        %% With inputs a code may lack what they give.
        [{_, {needs, _, _}} | _] -> with_revisions(fun(With) -> run(Codes, With) end, Options);
        [{Number, Reason} | _] -> {error, {code, Number, Reason}}
    end;
run(_Codes, #{node := _, isolated := _}) ->
    {error, {option, isolated, true, ~"no VM of its own in another node,"}};
run(Codes, #{node := Node} = Options) when Node =/= node() ->
    Inputs = maps:get(inputs, Options, []),
    Read = fun() -> portable({Codes, Inputs}) end,
    case in_process(Read, maps:get(code_paths, Options, [])) of
        {ok, {Portable, PortableInputs}} ->
            run_with(Portable, PortableInputs, Options);
        {error, _} = Error ->
            Error
    end;
run(Codes, Options) ->
    run_with(Codes, maps:get(inputs, Options, []), Options).

%% For another node, which may have no Elixir, and in which nothing of it shall stay.
portable({Codes, Inputs}) ->
    maybe
        {ok, Portable} ?= portable(code, lists:enumerate(Codes), []),
        {ok, PortableInputs} ?= portable(input, Inputs, []),
        {ok, {[Code || {_, Code} <- Portable], PortableInputs}}
    end.

portable(_Kind, [], Portable) ->
    {ok, lists:reverse(Portable)};
portable(Kind, [{Name, Callable} | Rest], Portable) ->
    case dyno_bench_code:portable(Callable) of
        {ok, Same} -> portable(Kind, Rest, [{Name, Same} | Portable]);
        {error, Reason} -> {error, {Kind, Name, Reason}}
    end;
portable(Kind, [Other | Rest], Portable) ->
    %% No input, as is said later.
    portable(Kind, Rest, [Other | Portable]).

run_with(Codes, Given, Options) ->
    case {Given, maps:get(mode, Options, compare)} of
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

%% Revisions are variants of code paths.
with_revisions(Run, #{revisions := #{revisions := Revisions} = Settings} = Options) ->
    Isolated = maps:get(isolated, Options, #{}),
    case dyno_bench_revision:open(Revisions, Settings) of
        {ok, #{variants := Variants} = Built} ->
            try
                Crossed = dyno_bench_isolated:cross(Variants, maps:get(variants, Isolated, [#{}])),
                Run((maps:remove(revisions, Options))#{isolated => Isolated#{variants => Crossed}})
            after
                dyno_bench_revision:close(Built)
            end;
        {error, interrupted} = Error ->
            Error;
        {error, Reason} ->
            {error, {revision, Reason}}
    end.

in_mode(Codes, Given, Options) ->
    maybe
        ok ?= dyno_bench_mode:alone(Given, Options),
        {ok, Checked} ?= checked(length(Codes), Options),
        {mode, {ok, Mode}} ?= {mode, dyno_bench_mode:check(Given, length(Codes))},
        Call = fun(Own) -> {dyno_bench_mode, run, [Mode, Codes, Own]} end,
        {ok, {#{arms := Arms} = Measured, Where}} ?= executed(Call, Checked, Options),
        Labels = [Label || #{label := Label} <- Arms],
        Document = dyno_bench_mode:document(
            Mode, parameters(Labels, Checked), Measured, dyno_environment:collect()
        ),
        {ok, described(Document, Arms, Where)}
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
run_file(Path, #{revisions := _} = Options) ->
    with_revisions(fun(With) -> run_file(Path, With) end, Options);
run_file(Path, Options) ->
    For =
        case Options of
            #{node := _} -> portable;
            #{isolated := _} -> portable;
            #{} -> own
        end,
    TimeoutMs = maps:get(timeout_ms, Options, ?TIMEOUT_MS),
    Read = in_process(
        fun() -> dyno_bench_file:read(Path, {For, TimeoutMs}) end, maps:get(code_paths, Options, [])
    ),
    case Read of
        {ok, #{name := Name, plan := Plan} = File} ->
            With = with_file(File, Options),
            try measured(Name, [overridden(M, Options) || M <- Plan], With) of
                {error, {Kind, _, _, _}} = Error when Kind =:= option -> Error;
                {error, interrupted} = Error -> Error;
                {error, {Kind, _}} = Error when Kind =:= crashed; Kind =:= remote -> Error;
                {error, Reason} -> {error, dyno_bench_file:locate(File, Reason)};
                {ok, _} = Ok -> Ok
            after
                ok = dyno_bench_file:forget(File)
            end;
        {error, _} = Error ->
            Error
    end.

%% Other VMs need its module, which is nowhere but in this one.
with_file(#{modules := Modules}, #{isolated := Settings} = Options) ->
    Options#{isolated := Settings#{modules => Modules}};
with_file(#{modules := Modules}, #{node := _} = Options) ->
    Options#{file_modules => Modules};
with_file(_File, Options) ->
    Options.

overridden(#{options := Own} = Measurement, Options) ->
    Measurement#{options := maps:without(maps:keys(Options), Own)}.

measured(Name, Plan, Options) ->
    maybe
        {ok, Checked} ?= checked(lists:sum([length(C) || #{codes := C} <- Plan]), Options),
        Call = fun(Own) -> {dyno_bench_inputs, measure, [Plan, Own]} end,
        {ok, {Outcomes, Where}} ?= executed(Call, Checked, Options#{input_count => length(Plan)}),
        Document = dyno_bench_inputs:document(
            {Name, all_parameters(Outcomes, Checked)}, Outcomes, dyno_environment:collect()
        ),
        Arms = lists:append([Arms || #{result := #{arms := Arms}} <- Outcomes]),
        {ok, described(Document, Arms, Where)}
    end.

%% Here, or in another node, which has no compiler perhaps.
executed(Call, Checked, #{node := Node} = Options) when Node =/= node() ->
    #{budget_ms := BudgetMs} = Checked,
    Remote = (maps:with([cookie], Options))#{
        limit_ms => max(?REMOTE_MS, 2 * BudgetMs), inputs => maps:get(input_count, Options, 0)
    },
    Files = maps:get(file_modules, Options, []),
    Measure = fun() ->
        %% Makes this node one of the network, which the other compiles at.
        case dyno_target_node:connect(Node, maps:with([cookie], Remote)) of
            ok ->
                There = Call(Checked#{compiler => node()}),
                dyno_bench_remote:run(Node, There, Files, Remote);
            {error, Reason} ->
                {error, {agent, Reason}}
        end
    end,
    case in_process(Measure, maps:get(code_paths, Options, [])) of
        {ok, {{ok, Result}, Description}} -> {ok, {Result, Description}};
        {ok, {{error, _} = Error, _}} -> Error;
        {error, {crashed, _}} = Error -> Error;
        {error, Reason} -> {error, {remote, Reason}}
    end;
executed(Call, Checked, Options) ->
    case dyno_bench_slots:lease_run() of
        {ok, Lease} ->
            {Module, Function, Arguments} =
                Call(Checked#{run => dyno_bench_slots:run_number(Lease)}),
            Measure = fun() -> apply(Module, Function, Arguments) end,
            try in_process(Measure, maps:get(code_paths, Options, [])) of
                {ok, Result} -> {ok, {Result, here}};
                {error, _} = Error -> Error
            after
                dyno_bench_slots:release(Lease)
            end;
        {error, _} = Error ->
            Error
    end.

described(Document, _Arms, here) ->
    Document;
described(Document, Arms, Description) ->
    Waiting = [x || #{waiting := undefined} <- Arms] =:= [],
    dyno_bench_remote:described(Document, Description, #{waiting => Waiting}).

checked(Count, Options) ->
    Defaults = #{
        concurrency => 1,
        budget_ms => budget_ms(Count, Options),
        threshold => dyno_bench_metric:threshold(
            case Options of
                #{metric := M} -> M;
                #{} -> time
            end
        ),
        timeout_ms => ?TIMEOUT_MS
    },
    Merged = maps:merge(
        Defaults, maps:without([code_paths, inputs, mode, node, cookie, file_modules], Options)
    ),
    Checks = [
        {concurrency, fun(N) -> is_integer(N) andalso N >= 1 andalso N =< 10_000 end,
            ~"an integer from 1 to 10000"},
        {budget_ms, fun(N) -> is_integer(N) andalso N >= 1 end, ~"a positive integer"},
        {threshold, fun(T) -> is_float(T) andalso T > 0 andalso T < 1 end,
            ~"a number between 0 and 1"},
        {metric, fun(M) -> lists:member(M, dyno_bench_metric:names()) end,
            iolist_to_binary(
                lists:join(~", ", [atom_to_binary(M) || M <- dyno_bench_metric:names()])
            )},
        {extras, fun(E) -> is_list(E) andalso E -- [whole, profile] =:= [] end,
            ~"a list of whole and profile"},
        {timeout_ms, fun(N) -> is_integer(N) andalso N >= 1 end, ~"a positive integer"}
    ],
    Wrong = [
        {K, map_get(K, Merged), Text}
     || {K, Is, Text} <- Checks, is_map_key(K, Merged), not Is(map_get(K, Merged))
    ],
    case Wrong of
        [] -> isolated(Merged#{level => ?LEVEL}, Options);
        [{Key, Value, Accepted} | _] -> {error, {option, Key, Value, Accepted}}
    end.

budget_ms(_Count, #{isolated := _}) -> ?ISOLATED_MS;
budget_ms(Count, _Options) -> 1000 * Count.

isolated(#{isolated := Settings} = Merged, Options) ->
    case dyno_bench_isolated:check(Settings) of
        ok ->
            Paths = [filename:absname(P) || P <- maps:get(code_paths, Options, [])],
            {ok, Merged#{isolated := Settings#{code_paths => Paths ++ inherited()}}};
        {error, _} = Error ->
            Error
    end;
isolated(Merged, _Options) ->
    {ok, Merged}.

%% This node's code path without OTP's, which another may have in another version, and without ours.
inherited() ->
    dyno_code:own_paths() -- [dyno_bench_modules:folder()].

%% In a process of its own: a code that is killed takes nobody with it, and the caller's process
%% is not the one whose flags and messages change.
in_process(Measure, Paths) ->
    dyno_code:with_paths(Paths, fun() ->
        Caller = self(),
        {Pid, Ref} = spawn_monitor(fun() ->
            proc_lib:set_label(?MODULE),
            %% What runs the code is linked, and may be killed by it.
            _ = process_flag(trap_exit, true),
            watch(Caller),
            Caller ! {?MODULE, self(), Measure()}
        end),
        Result = wait(Pid, Ref),
        ok = dyno_bench_modules:forget(),
        Result
    end).

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
    parameters(lists:uniq(Labels), Options).

parameters(Labels, #{isolated := Settings} = Options) ->
    Isolated = dyno_bench_isolated:parameters(Settings),
    (parameters(Labels, maps:remove(isolated, Options)))#{isolated => Isolated};
parameters(Labels, Options) ->
    #{
        codes => Labels,
        concurrency => map_get(concurrency, Options),
        budget_ms => map_get(budget_ms, Options),
        threshold => map_get(threshold, Options),
        level => map_get(level, Options),
        metric => maps:get(metric, Options, time)
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
format_error({too_many_runs, Most}) ->
    io_lib:format("~b comparisons run in this node already; wait until one of them has ended", [
        Most
    ]);
format_error({option, Key, Value, Accepted}) ->
    io_lib:format("~ts is ~0tp; ~ts is accepted", [Key, Value, Accepted]);
format_error({mode, Reason}) ->
    dyno_bench_mode:format_error(Reason);
format_error({remote, Reason}) ->
    dyno_bench_remote:format_error(Reason);
format_error({revision, Reason}) ->
    dyno_bench_revision:format_error(Reason);
format_error({crashed, Reason}) ->
    io_lib:format("the measuring process died: ~0tP", [Reason, 15]);
format_error(Reason) when
    element(1, Reason) =:= at;
    element(1, Reason) =:= no_file;
    element(1, Reason) =:= does_not_compile;
    element(1, Reason) =:= taken_name;
    element(1, Reason) =:= no_benchmarks;
    element(1, Reason) =:= benchmarks_raised;
    element(1, Reason) =:= benchmarks_endless;
    element(1, Reason) =:= endless_compilation;
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
exit_status({error, {benchmarks_endless, _, _}}) -> 1;
exit_status({error, {input_raised, _, _, _}}) -> 1;
exit_status({error, {input_endless, _, _}}) -> 1;
exit_status({error, {late, _, _, _}}) -> 1;
exit_status({error, {raised, _, _, _, _, _}}) -> 1;
exit_status({error, {check, _}}) -> 1;
exit_status({error, {failed, _, _, _}}) -> 1;
exit_status({error, {endless, _, _}}) -> 1;
exit_status({error, {code, _, no_elixir}}) -> 3;
exit_status({error, {input, _, no_elixir}}) -> 3;
exit_status({error, {code, _, {elixir_raised, _}}}) -> 3;
exit_status({error, {no_metric, _, _}}) -> 3;
exit_status({error, {overrun, _}}) -> 3;
exit_status({error, {too_many_runs, _}}) -> 3;
exit_status({error, {too_many_jobs, _}}) -> 3;
exit_status({error, {crashed, _}}) -> 3;
exit_status({error, {stand_died, _}}) -> 3;
exit_status({error, {remote, {taken_module, _, _}}}) -> 2;
exit_status({error, {remote, _}}) -> 3;
exit_status({error, {revision, {git, _}}}) -> 3;
exit_status({error, {revision, {no_folder, _, _}}}) -> 3;
exit_status({error, {revision, {build, _, _, _, _}}}) -> 1;
exit_status({error, {does_not_boot, #{flags := [_ | _]}, _}}) -> 2;
exit_status({error, {does_not_boot, _, _}}) -> 3;
exit_status({error, {vm_died, _}}) -> 1;
exit_status({error, _}) -> 2.
