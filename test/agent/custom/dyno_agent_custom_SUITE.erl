%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_custom_SUITE).
-moduledoc """
Custom code that does what it should not: what the host says of it, in this node.
dyno_test_custom_SUITE has whole runs.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() ->
    [{group, custom}].

groups() ->
    [
        {custom, [parallel], [
            sampler_does_not_begin,
            sampler_does_not_sample,
            sampler_takes_too_much_memory,
            sampler_gives_no_results,
            performerl_does_not_start,
            performerl_gives_no_results,
            performerl_ends_early
        ]}
    ].

-define(INIT, "init(_) -> {ok, 0}. ").
-define(SAMPLE, "sample(S) -> {ok, #{}, S}. ").
-define(GET, "get_results_and_stop() -> {ok, 1}. ").
-define(FOREVER, "receive after infinity -> ok end").

%% Runs the code: `Do` gets the host, or why there is none.
with(Form, Text, LimitMs, Do) ->
    Module = list_to_atom("probe_" ++ integer_to_list(erlang:unique_integer([positive]))),
    Head = io_lib:format("-module(~s). -compile(export_all). ", [Module]),
    Forms = dyno_peers:forms(lists:flatten([Head, Text])),
    {ok, Module, Binary} = compile:forms(Forms, [nowarn_export_all]),
    {module, Module} = code:load_binary(Module, "probe", Binary),
    Started = dyno_agent_instrument:start_link(dyno_agent_custom, #{
        sink => self(),
        module => Module,
        form => Form,
        config => #{test => self()},
        interval_ms => 10,
        limit_ms => LimitMs
    }),
    Result =
        case Started of
            {ok, Host} -> Do(Host);
            {error, {dyno_agent_custom, Why}} -> Why
        end,
    _ = [gen_server:stop(Pid) || {ok, Pid} <- [Started]],
    _ = [code:F(Module) || F <- [purge, delete, purge]],
    Result.

says(Text, Parts) ->
    [?assertNotEqual(nomatch, binary:match(Text, Part), {Text, Part}) || Part <- Parts].

%% Who never returns is waited for shortly; on a busy machine anything else may take a while.
limit_ms(?FOREVER) -> 50;
limit_ms(_Does) -> 5000.

opened(Form, Text, LimitMs) ->
    with(Form, Text, LimitMs, fun(_Host) -> ok end).

%% What comes of a sample.
sampled(Text, LimitMs) ->
    with(sampler, Text, LimitMs, fun(Host) ->
        ok = dyno_agent_instrument:restart(Host),
        receive
            {dyno_probe, Host, _, {Event, Of}} when Event =/= sample -> {Event, Of}
        end
    end).

finished(Form, Text, LimitMs) ->
    with(Form, Text, LimitMs, fun(Host) ->
        ok = dyno_agent_instrument:read(Host),
        result(Host)
    end).

result(Host) ->
    receive
        {dyno_probe, Host, _, {sample, _}} -> result(Host);
        {dyno_probe, Host, _, Event} -> Event
    after 0 -> none
    end.

sampler_does_not_begin(_Config) ->
    [
        begin
            Text = opened(
                sampler, ["init(_) -> ", Does, ". ", ?SAMPLE], limit_ms(Does)
            ),
            says(Text, Parts)
        end
     || {Does, Parts} <- [
            {"{error, closed}", [~"init/1 returned {error,closed}"]},
            {"oops", [~"init/1 returned oops", ~"{ok, State}"]},
            {"exit(oops)", [~"init/1 raised exit:oops"]},
            {?FOREVER, [~"init/1", ~"50 ms"]}
        ]
    ],
    {ignored, Text} = opened(sampler, "init(_) -> ignore. " ++ ?SAMPLE, 5000),
    says(Text, [~"init/1 returned ignore"]).

%% One that fails is left out; after one that never returns there are no more.
sampler_does_not_sample(_Config) ->
    {failed, Odd} = sampled(
        ?INIT "sample(S) when S rem 2 =:= 0 -> {ok, #{even => S}, S + 1}; sample(S) -> {odd, S}. ",
        5000
    ),
    says(Odd, [~"sample/1 returned {odd,1}"]),
    {failed, Raised} = sampled(?INIT "sample(_) -> error(oops). ", 5000),
    says(Raised, [~"sample/1 raised error:oops"]),
    {ended, Late} = sampled(?INIT "sample(_) -> " ?FOREVER ". ", 50),
    says(Late, [~"sample/1", ~"50 ms"]).

sampler_takes_too_much_memory(_Config) ->
    {ended, Text} = sampled(
        ?INIT "sample(_) -> {ok, #{}, lists:seq(1, 40000000)}. ", 60_000
    ),
    says(Text, [~"sample/1 was ended", ~"128 MiB"]).

sampler_gives_no_results(_Config) ->
    {no_results, Text} = finished(sampler, ?INIT ?SAMPLE "results(_) -> error(oops). ", 5000),
    says(Text, [~"results/1 raised error:oops"]),
    ?assertEqual({results, 0}, finished(sampler, ?INIT ?SAMPLE "results(S) -> S. ", 5000)),
    ?assertEqual(none, finished(sampler, ?INIT ?SAMPLE, 5000)).

performerl_does_not_start(_Config) ->
    [
        begin
            Text = opened(
                performerl, ["start(_) -> ", Does, ". ", ?GET], limit_ms(Does)
            ),
            says(Text, Parts)
        end
     || {Does, Parts} <- [
            {"{error, no_port}", [~"start/1 returned {error,no_port}"]},
            {"no_pid", [~"no_pid", ~"{ok, Pid}"]},
            {"error(oops)", [~"start/1 raised error:oops"]},
            {?FOREVER, [~"start/1", ~"50 ms"]}
        ]
    ],
    {ignored, Text} = opened(performerl, "start(_) -> ignore. " ++ ?GET, 5000),
    says(Text, [~"start/1 returned ignore"]).

performerl_gives_no_results(_Config) ->
    Start = "start(_) -> {ok, spawn(fun() -> " ?FOREVER " end)}. ",
    [
        begin
            {no_results, Text} = finished(
                performerl, [Start, "get_results_and_stop() -> ", Does, ". "], limit_ms(Does)
            ),
            says(Text, Parts)
        end
     || {Does, Parts} <- [
            {"stopped", [~"get_results_and_stop/0 returned stopped", ~"{ok, Results}"]},
            {"error(oops)", [~"get_results_and_stop/0 raised error:oops"]},
            {?FOREVER, [~"get_results_and_stop/0", ~"50 ms"]}
        ]
    ],
    ?assertEqual({results, 1}, finished(performerl, Start ++ ?GET, 5000)).

performerl_ends_early(_Config) ->
    Text =
        "start(#{test := Test}) -> Pid = spawn(fun() -> "
        ?FOREVER
        " end), Test ! {agent, Pid}, "
        "{ok, Pid}. "
        ?GET,
    with(performerl, Text, 5000, fun(Host) ->
        receive
            {agent, Pid} -> exit(Pid, worn_out)
        end,
        receive
            {dyno_probe, Host, _, {ended, Ended}} -> says(Ended, [~"worn_out"])
        end
    end).
