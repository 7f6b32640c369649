%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_errors_SUITE).
-moduledoc """
The sentences for what goes wrong, and whose fault it is; also for what a test cannot bring about,
such as an Erlang without a compiler. What users get wrong is in dyno_bench_mistakes_SUITE.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() ->
    [sentences, failures, interrupted, places, options, unknown_options, nowhere_to_write].

sentences(_Config) ->
    Endless = dyno_bench_failure:error(~"x", run, {timeout, 100}),
    check([
        {caller, "no code", {dyno_bench, no_codes}},
        {dyno, "measuring process died: oops", {dyno_bench, {crashed, oops}}},
        {code, "a and b differ", {dyno_bench_engine, {check, "a and b differ"}}},
        {dyno, "^x: cpu cannot be measured here: ", {dyno_bench_engine, {no_metric, cpu, ~"x"}}},
        {dyno, "^x: its messages are too large", {dyno_bench_engine, {overrun, ~"x"}}},
        {dyno, "64 measurements and jobs run", {dyno_bench_slots, {too_many_runs, 64}}},
        {caller, "does not run any more", {dyno_bench_member, ended}},
        {caller, "the node is only monitored", {dyno_bench_member, no_code}},
        {caller, "x.*more than 2 GB", {dyno_bench_code, {costly_compilation, ~"x"}}},
        {code, "^code 2: x: had not ended", dyno_bench_code:in_code(2, Endless)},
        {code, "^the input n: x: had not", {dyno_bench_inputs, {input, ~"n", Endless}}},
        {code, "^with n: x: had not ended",
            dyno_bench_inputs:in_run(#{id => ~"n", input => 1}, Endless)},
        {code, "^f.erl:7: x: had not", {dyno_bench_file, {at, {"f.erl", 7}, Endless}}},
        {dyno, "Elixir is not installed", {dyno_bench_elixir, no_elixir}},
        {dyno, "Elixir's compiler failed: badarg", {dyno_bench_elixir, {elixir_raised, badarg}}},
        {caller, "not compiled after 5 ms", {dyno_bench_code, {endless_compilation, ~"x", 5}}},
        {caller, "has no compiler", {dyno_bench_vm_server, no_compiler}},
        {dyno, "died: killed", {dyno_bench_vm_server, {server_died, killed}}},
        {code, "look whether the code calls halt()", {dyno_bench_vm, {vm_died, noconnection}}},
        {caller, "is Erlang/OTP 26; dyno needs 27", {dyno_bench_vm, {otp_too_old, "/erl", "26"}}},
        {caller, "flags \\+Zz does not start: no", {
            dyno_bench_vm, {does_not_boot, #{flags => ["+Zz"]}, ~"no"}
        }},
        {dyno, "of its own does not start: no", {dyno_bench_vm, {does_not_boot, #{}, ~"no"}}},
        {caller, "not in 3 revisions", {dyno_bench_isolated, {squeezed_variants, 3}}},
        {caller, "there is no git", {dyno_bench_revision, no_git}},
        {code, "v1 does not build: make ended with status 2; its last lines:\n  oops", {
            dyno_bench_revision, {build, ~"v1", ~"make", {status, 2}, [~"oops"]}
        }},
        {dyno, "made in /x: no such file", {dyno_temporary, {no_folder, "/x", enoent}}},
        {dyno, "git could not check the revision out; no output", {
            dyno_bench_checkout, {git, []}
        }},
        {caller, "has a module m of its own", {dyno_bench_remote, {taken_module, a@b, m}}},
        {dyno, "was ended after 60 s", {dyno_bench_remote, {gave_up, a@b, {limit_ms, 60_000}}}},
        {dyno, "connection to a@b was lost", {dyno_bench_remote, {node_lost, a@b}}},
        {caller, "a@b is not one of", {dyno_bench_cluster, {no_node, a@b}}},
        {code, "^a@b: x: had not ended", {dyno_bench_cluster, {in_node, a@b, Endless}}}
    ]).

check(Table) ->
    [
        begin
            Sentence = unicode:characters_to_binary(dyno_error:format(Error)),
            ?assertMatch({match, _}, re:run(Sentence, Pattern, [dotall]), {Error, Sentence}),
            ?assertEqual(Fault, dyno_error:fault(Error), Sentence)
        end
     || {Fault, Pattern, Error} <- Table
    ].

failures(_Config) ->
    Raised = fun(Reason) -> {raised, error, Reason, [{dyno_bench_loop_1, repeat, 2, []}]} end,
    Missing = fun(Module, Function, Caller) ->
        {raised, error, undef, [{Module, Function, [1], []}, {Caller, loop, 3, []}]}
    end,
    check([
        {Fault, Pattern, dyno_bench_failure:error(Label, Stage, Failure)}
     || {Fault, Pattern, Label, Stage, Failure} <- [
            {code, "^x: the code raised error:boom$", ~"x", run, Raised(boom)},
            %% Down to the loop that calls the code.
            {code,
                "^x: the code raised error:function_clause\n"
                "  in lists:nth\\(5, \\[1\\]\\) \\(lists.erl, line 180\\)\n  in shop:total/0$",
                ~"x", run,
                {raised, error, function_clause, [
                    {lists, nth, [5, [1]], [{file, "lists.erl"}, {line, 180}]},
                    {shop, total, 0, []},
                    {dyno_bench_loop_1, repeat, 2, [{file, "runner"}, {line, 1}]},
                    {dyno_bench_worker, run, 4, []}
                ]}},
            {code, "in m:f/7\n  in m:f/8\n  \\.\\.\\.$", ~"x", run,
                {raised, throw, ball, [{m, f, N, []} || N <- lists:seq(1, 9)]}},
            {code, "^x: init raised error:boom$", ~"x", init, Raised(boom)},
            {code, "^the input n raised error:boom$", ~"the input n", none, Raised(boom)},
            {code, "^f.erl: benchmarks/0 had not ended after 9 ms$", ~"f.erl", 'benchmarks/0',
                {timeout, 9}},
            {code, "^x: its process died in setup: killed$", ~"x", setup, {died, killed}},
            {code, "^the input n: its process died: killed$", ~"the input n", none, {died, killed}},
            %% What the code names itself is the caller's mistake; what it calls has its own.
            {caller, "^x: there is no module listz; did you mean lists", ~"x", run,
                Missing(listz, sort, dyno_bench_loop_1)},
            {caller, "^x: there is no function lists:srt/1; did you mean lists:sort/1", ~"x", run,
                Missing(lists, srt, dyno_bench_loop_1)},
            {code, "^x: the code raised error:undef: there is no lists:srt/1\n  in shop:loop/3$",
                ~"x", run, Missing(lists, srt, shop)}
        ]
    ]).

%% However deep it comes from, it stays what it is.
interrupted(_Config) ->
    Interrupted = {dyno_error, interrupted},
    ?assertEqual(Interrupted, dyno_bench_failure:error(~"x", run, interrupted)),
    ?assertEqual(Interrupted, dyno_bench_code:in_code(1, Interrupted)),
    ?assertEqual(Interrupted, dyno_bench_inputs:in_run(#{id => ~"n", input => 1}, Interrupted)),
    ?assertEqual(130, dyno_error:exit_status(Interrupted)).

places(_Config) ->
    Stack = [{lists, map, 2, []}, {shop_bench, f, 0, [{file, "shop.erl"}, {line, 7}]}],
    Error = dyno_bench_failure:error(~"x", run, {raised, error, boom, Stack}),
    InRun = dyno_bench_inputs:in_run(#{id => ~"n", input => 1}, Error),
    ?assertEqual({"shop.erl", 7}, dyno_bench_failure:place(shop_bench, InRun)),
    ?assertEqual(undefined, dyno_bench_failure:place(other, InRun)),
    ?assertEqual(undefined, dyno_bench_failure:place(shop_bench, {dyno_bench, no_codes})).

options(_Config) ->
    Checks = [{size, fun is_integer/1, ~"an integer"}, {name, fun is_atom/1, ~"an atom"}],
    ?assertEqual(ok, dyno_option:check(Checks, #{})),
    ?assertEqual(ok, dyno_option:check(Checks, #{size => 1, name => a, other => "x"})),
    {error, Error} = dyno_option:check(Checks, #{size => a, name => 1}),
    ?assertEqual("size is a; an integer is accepted", lists:flatten(dyno_error:format(Error))),
    ?assertEqual({error, Error}, dyno_option:error(size, a, ~"an integer")),
    Unknown = fun(Options) ->
        {error, Of} = dyno_option:known([size, name], Options),
        lists:flatten(dyno_error:format(Of))
    end,
    ?assertEqual(ok, dyno_option:known([size, name], #{name => a})),
    ?assertEqual("there is no option sise; did you mean size?", Unknown(#{sise => 1, size => 1})),
    ?assertEqual("there is no option 17; there are name, size", Unknown(#{17 => 1})).

%% As on a full disk, where VMs of their own would find no modules; nothing stays there.
nowhere_to_write(Config) ->
    Remembered = dyno_suites:with_temporary([]),
    true = os:putenv("TMPDIR", "/dev/null"),
    {error, Error} = dyno_bench_modules:written(fun() -> [] end),
    check([{dyno, "take 2 MB: .* made in /dev/null: not a directory; set TMPDIR", Error}]),
    true = os:putenv("TMPDIR", proplists:get_value(priv_dir, Config)),
    Object = {m, ~"no code", "m.beam"},
    {ok, Folder} = dyno_bench_modules:written(fun() -> [Object] end),
    _ = dyno_suites:without_temporary(Remembered),
    ?assertEqual({ok, ~"no code"}, file:read_file(filename:join(Folder, "m.beam"))),
    ok = dyno_bench_modules:forget(),
    ?assertNot(filelib:is_dir(Folder)).

%% Whoever takes options in a map.
unknown_options(_Config) ->
    Slips = [
        {dyno_bench:run(["ok"], #{budget => 100}), "no option budget; did you mean budget_ms"},
        {dyno_bench:run_file("none.erl", #{modes => 1}), "no option modes; did you mean mode"},
        {dyno_bench:run(["ok"], #{isolated => #{vm => 1}}), "no option vm; did you mean vms"},
        {
            dyno_bench_cluster:start_link(#{nodes => [a@b], concurency => 1}),
            "did you mean concurrency"
        },
        {dyno_bench_calls:record({lists, seq, 2}, #{mots => 1}), "did you mean most"},
        {dyno_bench_calls:record({lists, '_', '_'}, #{}), "of one function are recorded.*lists,'_'"}
    ],
    [
        ?assertMatch({match, _}, re:run(dyno_error:format(Error), Pattern), Pattern)
     || {{error, Error}, Pattern} <- Slips
    ],
    ?assertEqual([], [Slip || {Result, _} = Slip <- Slips, element(1, Result) =/= error]).
