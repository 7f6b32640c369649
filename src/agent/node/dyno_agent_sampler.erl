%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_sampler).
-moduledoc """
Samples the VM and the operating system at random intervals (dyno_agent_instants).

Sends the caller `{dyno_sample, Sampler, TimeMs, Statistics, CostUs}`: the target's time since the
last `restart/1`, the statistics since the previous sample, and the processor time of the sample.
""".

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0, config/1, last_look/1]).
-export([describe/1, clock/1, started_ns/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([config/0]).

%% The last sample covers at least a quarter of an interval.
-define(LEAST_PARTS, 4).

-type config() :: #{
    sink := pid(),
    interval_ms := pos_integer(),
    %% Default: both.
    reads => [source()]
}.

-type source() :: vm | os.

-type state() :: #{
    sink := pid(),
    interval_ms := pos_integer(),
    start := integer(),
    %% The previous sample, or the start.
    last := integer(),
    %% None after the last look.
    timer := reference() | none,
    raw := #{vm => dyno_agent_vm:raw(), os => dyno_agent_os:raw()}
}.

-doc "Also runs without sources, because it has the target's clock.".
-spec about() -> dyno_agent_instrument:about().
about() -> #{names => [vm, os], always => true}.

-spec config(dyno_agent_instrument:options()) -> config().
config(#{sink := Sink, interval_ms := IntervalMs, names := Names}) ->
    #{sink => Sink, interval_ms => IntervalMs, reads => Names}.

-doc "Takes the last sample, just before the end of the load.".
-spec last_look(pid()) -> ok.
last_look(Pid) ->
    gen_server:cast(Pid, last_look).

-doc "This node's clocks in nanoseconds: monotonic time and system time.".
-spec clock(pid()) -> {integer(), integer()}.
clock(Pid) ->
    gen_server:call(Pid, clock, infinity).

-doc "The monotonic time of the last restart.".
-spec started_ns(pid()) -> integer().
started_ns(Pid) ->
    gen_server:call(Pid, started_ns, infinity).

-doc "The values of this node, with units and titles.".
-spec describe(pid()) -> [dyno_agent_vm:metric()].
describe(Pid) ->
    gen_server:call(Pid, describe, infinity).

-spec init(config()) -> {ok, state()}.
init(#{sink := Sink, interval_ms := IntervalMs} = Config) ->
    Reads = maps:get(reads, Config, [vm, os]),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    _ = [dyno_agent_vm:enable() || lists:member(vm, Reads)],
    {ok, restarted(Reads, #{sink => Sink, interval_ms => IntervalMs, timer => none})}.

restarted(Reads, State) ->
    Raw = read_all(Reads),
    Now = erlang:monotonic_time(),
    schedule(State#{start => Now, last => Now, raw => Raw}).

read_all(Reads) ->
    #{Source => read_one(Source) || Source <- Reads}.

%% Written as calls, so that the agent's transfer finds these modules.
read_one(vm) -> dyno_agent_vm:read();
read_one(os) -> dyno_agent_os:read().

describe_one(vm) -> dyno_agent_vm:describe();
describe_one(os) -> dyno_agent_os:describe().

difference(vm, Earlier, Later) -> dyno_agent_vm:difference(Earlier, Later);
difference(os, Earlier, Later) -> dyno_agent_os:difference(Earlier, Later).

schedule(#{interval_ms := IntervalMs} = State) ->
    Ms = dyno_agent_instants:next_ms(IntervalMs),
    (unscheduled(State))#{timer := erlang:start_timer(Ms, self(), sample)}.

unscheduled(#{timer := Timer} = State) -> State#{timer := dyno_agent_instants:cancel(Timer)}.

-spec handle_call(restart | read | describe | clock | started_ns, gen_server:from(), state()) ->
    {reply, ok | [dyno_agent_vm:metric()] | {integer(), integer()} | integer(), state()}.
handle_call(clock, _From, State) ->
    {reply, {erlang:monotonic_time(nanosecond), erlang:system_time(nanosecond)}, State};
handle_call(started_ns, _From, #{start := Start} = State) ->
    {reply, erlang:convert_time_unit(Start, native, nanosecond), State};
handle_call(describe, _From, #{raw := Raw} = State) ->
    {reply, lists:append([describe_one(S) || S <- [vm, os], is_map_key(S, Raw)]), State};
handle_call(restart, _From, #{raw := Raw} = State) ->
    {reply, ok, restarted(maps:keys(Raw), State)};
handle_call(read, _From, #{timer := none} = State) ->
    {reply, ok, State};
handle_call(read, _From, State) ->
    {reply, ok, last_sample(State)}.

-spec handle_cast(last_look, state()) -> {noreply, state()}.
handle_cast(last_look, State) ->
    {noreply, unscheduled(last_sample(State))};
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({timeout, Timer, sample}, #{timer := Timer} = State) ->
    {noreply, schedule(sample(State))};
handle_info(_Other, State) ->
    {noreply, State}.

%% Rates over a moment are random: no sample soon after another.
last_sample(#{start := Start, last := Last, interval_ms := IntervalMs} = State) ->
    Ms = erlang:convert_time_unit(erlang:monotonic_time() - Last, native, millisecond),
    case Last > Start andalso ?LEAST_PARTS * Ms < IntervalMs of
        true -> State;
        false -> sample(State)
    end.

sample(#{sink := Sink, start := Start, raw := Earlier} = State) ->
    Waking = dyno_agent_process:waking(),
    Before = erlang:monotonic_time(),
    Raw = read_all(maps:keys(Earlier)),
    Differences = [difference(Source, Read, map_get(Source, Raw)) || Source := Read <- Earlier],
    Statistics = lists:foldl(fun maps:merge/2, #{}, Differences),
    After = erlang:monotonic_time(),
    TimeMs = erlang:convert_time_unit(Before - Start, native, millisecond),
    CostUs = erlang:convert_time_unit(Waking + After - Before, native, microsecond),
    %% Opens no connection: it would search the network for a caller whose node is gone.
    _ = erlang:send(Sink, {dyno_sample, self(), TimeMs, Statistics, CostUs}, [noconnect]),
    State#{raw := Raw, last := Before}.
