%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_probe).
-moduledoc false.
%% Measures the cost of measuring on this node: an empty server handles the same messages with and
%% without it, and the fastest rounds are compared, one right after the other. A server with few
%% messages looks at each closely: the hook itself is timed for this.

-behaviour(gen_server).

-export([hook_ns/1, look_ns/1, flag_ns/1]).
-export([start_link/1, waited/1]).
-export([init/1, handle_call/3, handle_cast/2]).

%% The assumed cost of a flag if it cannot be measured.
-define(FLAG_NS, 150).
-define(ROUNDS, 60).
-define(MESSAGES, 100).
-define(LOOKS, 200).
%% More than get a close look before they count as a flood.
-define(BURST, 3000).

-doc "The cost of the hook. Takes some 20 ms.".
-spec hook_ns(dyno_agent_server_hook:shared()) -> non_neg_integer().
hook_ns(Shared) ->
    added(fun(Pid) ->
        Counters = dyno_agent_server_counters:new(),
        ok = sys:install(Pid, dyno_agent_server_hook:debug(Pid, Counters, Shared))
    end).

-doc "The additional cost of a close look, which each message of a server with few messages gets.".
-spec look_ns(dyno_agent_server_hook:shared()) -> non_neg_integer().
look_ns(Shared) ->
    Counters = dyno_agent_server_counters:new(),
    {_, _, Hook} = dyno_agent_server_hook:debug(self(), Counters, Shared),
    _ = timed(Hook),
    {_, _, New} = dyno_agent_server_hook:debug(self(), Counters, Shared),
    Numbers = lists:seq(1, ?LOOKS),
    Closely = [Ns || _ <- Numbers, {Ns, _} <- [timed(New)]],
    {_, Rare} = lists:mapfoldl(fun(_, Before) -> timed(Before) end, New, lists:seq(1, ?BURST)),
    {Rarely, _} = lists:mapfoldl(fun(_, Before) -> timed(Before) end, Rare, Numbers),
    ok = dyno_agent_server_names:forget(self(), Shared),
    max(0, median(Closely) - median(Rarely)).

timed(Hook) ->
    Before = erlang:monotonic_time(nanosecond),
    Begun = dyno_agent_server_hook:event(Hook, {in, {'$gen_cast', message}}, name),
    Ended = dyno_agent_server_hook:event(Begun, {noreply, none}, name),
    {erlang:monotonic_time(nanosecond) - Before, Ended}.

median(Times) -> lists:nth((length(Times) + 1) div 2, lists:sort(Times)).

-spec flag_ns(dyno_agent_server_breakpoints:t()) -> non_neg_integer().
flag_ns(Times) ->
    case dyno_agent_server_breakpoints:speed(Times) of
        fast -> added(fun(Pid) -> dyno_agent_server_breakpoints:flag([call], Pid, true, Times) end);
        slow -> ?FLAG_NS
    end.

added(Measure) ->
    %% On a saturated node a message would otherwise wait for all other processes.
    Options = [{spawn_opt, [{priority, high}]}],
    {ok, Plain} = gen_server:start_link(?MODULE, [], Options),
    {ok, Measured} = gen_server:start_link(?MODULE, [], Options),
    ok = Measure(Measured),
    Rounds = [{round_ns(Plain), round_ns(Measured)} || _ <- lists:seq(1, ?ROUNDS)],
    lists:foreach(fun end_server/1, [Plain, Measured]),
    {Without, With} = lists:unzip(Rounds),
    max(0, lists:min(With) - lists:min(Without)) div ?MESSAGES.

round_ns(Pid) ->
    Before = erlang:monotonic_time(nanosecond),
    lists:foreach(fun(_) -> gen_server:cast(Pid, message) end, lists:seq(1, ?MESSAGES)),
    ok = gen_server:call(Pid, done, infinity),
    erlang:monotonic_time(nanosecond) - Before.

end_server(Pid) ->
    unlink(Pid),
    ok = gen_server:stop(Pid),
    receive
        {'EXIT', Pid, _} -> ok
    after 0 -> ok
    end.

-doc "A server with a hook, which takes the times that messages `{sent, Now}` waited.".
-spec start_link(dyno_agent_server_hook:shared()) -> {pid(), dyno_agent_server_counters:t()}.
start_link(Shared) ->
    {ok, Pid} = gen_server:start_link(?MODULE, [], []),
    Counters = dyno_agent_server_counters:new(),
    %% Its messages are none of those that are told one by one.
    Own = Shared#{each := none},
    ok = sys:install(Pid, dyno_agent_server_hook:debug(Pid, Counters, Own)),
    {Pid, Counters}.

-doc "The times since the last call.".
-spec waited(pid()) -> [integer()].
waited(Pid) -> gen_server:call(Pid, waited, infinity).

-type state() :: [WaitedNs :: integer()].

-spec init([]) -> {ok, state()}.
init([]) ->
    proc_lib:set_label(?MODULE),
    {ok, []}.

-spec handle_call(done | waited, gen_server:from(), state()) -> {reply, ok | state(), state()}.
handle_call(done, _From, State) -> {reply, ok, State};
handle_call(waited, _From, Waited) -> {reply, Waited, []}.

-spec handle_cast(message | {sent, integer()}, state()) -> {noreply, state()}.
handle_cast(message, State) -> {noreply, State};
handle_cast({sent, At}, Waited) -> {noreply, [erlang:monotonic_time(nanosecond) - At | Waited]}.
