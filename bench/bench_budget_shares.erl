%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_budget_shares).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).

-define(GOAL, 3.0).
-define(CONNECTIONS, 16).
-define(WARMUP_MS, 1000).
%% As `dyno test` has it by default.
-define(INTERVAL_MS, 1000).
%% The two that end in the operating system, where dyno and the level `time` are furthest apart:
%% what the kernel does for them, and what Erlang does below them.
-define(FUNCTIONS, [
    {
        {ranch_tcp, send, 2},
        "tcp_sendmsg",
        "(gen_tcp|inet_tcp|prim_inet|ranch_tcp):send/|lookup_socket"
    },
    {
        {ranch_tcp, setopts, 2},
        "do_epoll_ctl",
        "(inet|prim_inet|ranch_tcp):setopts/|prim_inet:(ctl|enc)_"
    }
]).

describe() ->
    """
    By how many points the shares of ranch_tcp:send/2 and ranch_tcp:setopts/2 in Cowboy's time, as
    dyno test samples them, are off from those of Linux's perf. One node serves 16 connections;
    perf and dyno look at it by turns. perf samples what its schedulers do, with the stacks of C: a
    sample of a process is one whose outermost C function was called by compiled Erlang code, and
    which of these functions is send's is told by what the kernel did below it. The result is the
    larger difference, of the medians of the turns. Of the level time the shares are told as well:
    there the time in which another program had the processor counts as well.

    Skipped where there is no Cowboy, or no perf that may sample. Takes no argument.
    """.

argument(none) ->
    case {code:which(cowboy), os:find_executable("perf")} of
        {non_existing, _} -> {skip, "skipped: Cowboy is not to be had here"};
        {_, false} -> {skip, "skipped: perf is not to be had here"};
        _ -> may_sample(os:cmd("perf stat -e cpu-clock true >/dev/null 2>&1; echo $?"))
    end;
argument(Other) ->
    {error, ["there is no argument ", Other]}.

may_sample("0\n") -> {ok, none};
may_sample(_) -> {skip, "skipped: perf may not sample here"}.

measure(none, Effort) ->
    {Turns, Ms} = effort(Effort),
    Arguments = ["+JPperf", "map", "+JPperf", "no_fp"],
    {ok, Node} = dyno_peer:start(#{name => "cowboy", arguments => Arguments}),
    {ok, Port} = erpc:call(Node, http_demo, serve, []),
    Clients = [client(Id, Port) || Id <- lists:seq(1, ?CONNECTIONS)],
    #{patterns := Given} = http_demo:suite(),
    {ok, #{patterns := Patterns}} = dyno_suite:options(#{sizes => [1], patterns => Given}),
    timer:sleep(?WARMUP_MS),
    Measured = [
        {How, shares(How, {Node, Patterns}, Ms)}
     || _ <- lists:seq(1, Turns), How <- [perf, cpu, time]
    ],
    lists:foreach(fun(Client) -> Client ! stop end, Clients),
    Process = erpc:call(Node, os, getpid, []),
    ok = dyno_peer:stop(Node),
    _ = [
        file:delete(Left ++ Process ++ End)
     || {Left, End} <- [{"/tmp/perf-", ".map"}, {"/tmp/jit-", ".dump"}]
    ],
    bench_program:say("turns     ~b of ~b s each", [Turns, Ms div 1000]),
    Off = [off(Function, Measured) || {Function, _, _} <- ?FUNCTIONS],
    #{
        name => budget_shares,
        value => lists:max(Off),
        unit => "points",
        goal => ?GOAL
    }.

effort(full) -> {5, 8000};
effort(quick) -> {1, 1000}.

off(Function, Measured) ->
    Of = fun(How) ->
        [maps:get(Function, Shares, {0.0, 0.0, 0.0}) || {H, Shares} <- Measured, H =:= How]
    end,
    Times = [Share || {Share, _, _} <- Of(time)],
    Median = fun(N, How) -> dyno_stats:median([element(N, Share) || Share <- Of(How)]) end,
    bench_program:say(
        "~ts: perf ~.1f %; samples ~.1f % (~.1f to ~.1f); time ~.1f % (turns from ~.1f to ~.1f)",
        [dyno_agent_name:mfa(Function), Median(1, perf)] ++
            [Median(N, cpu) || N <- [1, 2, 3]] ++
            [Median(1, time), lists:min(Times), lists:max(Times)]
    ),
    abs(Median(1, cpu) - Median(1, perf)).

%% perf

shares(perf, {Node, _}, Ms) ->
    File = filename:join(filename:basedir(user_cache, "dyno"), "perf-" ++ os:getpid()),
    ok = filelib:ensure_dir(File),
    Perf = io_lib:format(
        "perf record -q -e cpu-clock -F 1500 --call-graph dwarf,4096 "
        "-o ~ts -p ~ts -- sleep ~b 2>&1",
        [File, erpc:call(Node, os, getpid, []), Ms div 1000]
    ),
    _ = os:cmd(lists:flatten(Perf)),
    Text = os:cmd("perf script -F comm,ip,sym,dso -i " ++ File ++ " 2>/dev/null"),
    ok = file:delete(File),
    Samples = [
        [string:trim(Frame) || Frame <- Frames]
     || Block <- string:split(Text, "\n\n", all),
        ["erts_sched" ++ _ | [_ | _] = Frames] <- [string:lexemes(Block, "\n")]
    ],
    Processes = [Sample || Sample <- Samples, is_process(Sample)],
    #{
        Function => {100 * count(Kernel, Erlang, Processes) / max(1, length(Processes)), 0.0, 0.0}
     || {Function, Kernel, Erlang} <- ?FUNCTIONS
    };
shares(cpu, {Node, _}, Ms) ->
    {ok, Instruments} = dyno_profile_kind:instruments(#{kind => cpu}),
    {ok, [#{instruments := Started}] = Targets} = dyno_targets:attach([Node], Instruments#{
        processes => []
    }),
    {dyno_agent_stacks, Stacks} = lists:keyfind(dyno_agent_stacks, 1, Started),
    timer:sleep(?WARMUP_MS),
    ok = dyno_agent_instrument:restart(Stacks),
    timer:sleep(Ms),
    #{stacks := Found, elsewhere := Elsewhere, other := Other, cpu := #{samples := Count}} =
        dyno_agent_stack_parts:result(dyno_agent_instrument:read(Stacks)),
    ok = bench_program:detach(Targets),
    All = Elsewhere + Other + lists:sum([Weight || {_, _, Weight} <- Found]),
    #{
        Function => share(
            lists:sum([W || {_, Stack, W} <- Found, is_in(Erlang, Stack)]) / All, Count
        )
     || {Function, _, Erlang} <- ?FUNCTIONS
    };
shares(Level, {Node, Patterns}, Ms) ->
    {ok, Targets} = dyno_targets:attach([Node], #{
        patterns => Patterns, level => Level, interval_ms => ?INTERVAL_MS, without => []
    }),
    timer:sleep(?WARMUP_MS),
    ok = dyno_targets:restart(Targets),
    timer:sleep(Ms),
    [#{results := #{dyno_agent_calls := #{functions := Functions}}}] = dyno_targets:read(Targets),
    ok = bench_program:detach(Targets),
    All = max(1, lists:sum([Ns || #{own_time_ns := Ns} <- Functions])),
    #{
        MFA => {
            100 * Ns / All,
            100 * maps:get(own_time_low_ns, F, Ns) / All,
            100 * maps:get(own_time_high_ns, F, Ns) / All
        }
     || #{mfa := MFA, own_time_ns := Ns} = F <- Functions
    }.

is_in(Erlang, Stack) ->
    lists:any(fun(MFA) -> has(Erlang, dyno_agent_name:mfa(MFA)) end, [F || {_, _, _} = F <- Stack]).

share(Share, Count) ->
    {Low, High} = dyno_stats_interval:share(Share, Count),
    {100 * Share, 100 * Low, 100 * High}.

%% Compiled Erlang code is in the map, and the outermost frame that perf finds is of it; that of
%% the emulator's loop is a scheduler's own work, that of beamasm a process that ends.
is_process(Sample) ->
    Outermost = lists:last(Sample),
    is_compiled(Outermost) andalso not has("process_main|erts_beamasm", Outermost).

is_compiled(Frame) -> has("\\.map", Frame).

has(Pattern, Frame) -> re:run(Frame, Pattern, [{capture, none}]) =:= match.

%% Samples of the C function below which the kernel does this, and of these Erlang functions.
count(Kernel, Erlang, Samples) ->
    Entries = [
        Entry
     || Sample <- Samples, lists:any(fun(F) -> has(Kernel, F) end, Sample), Entry <- entry(Sample)
    ],
    Entry =
        case [{length([E || E <- Entries, E =:= X]), X} || X <- lists:usort(Entries)] of
            [] -> none;
            Counted -> [element(2, lists:max(Counted))]
        end,
    length([
        Sample
     || [Innermost | _] = Sample <- Samples,
        entry(Sample) =:= Entry orelse (is_compiled(Innermost) andalso has(Erlang, Innermost))
    ]).

%% Where the outermost C function was when it called on.
entry(Sample) ->
    InC = lists:takewhile(fun(Frame) -> not is_compiled(Frame) end, Sample),
    case [Frame || Frame <- InC, has("beam\\.smp", Frame)] of
        [] -> [];
        Frames -> [hd(string:lexemes(lists:last(Frames), " "))]
    end.

%% The load

%% Without a pause: Cowboy closes connections that are idle for 5 s.
client(Id, Port) ->
    spawn_link(fun() ->
        {ok, Socket} = http_demo:init_worker(Id, #{port => Port}),
        requests(Socket)
    end).

requests(Socket) ->
    receive
        stop -> http_demo:end_worker(Socket)
    after 0 ->
        {ok, Next} = http_demo:operation(Socket),
        requests(Next)
    end.
