%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_path_profile).
-moduledoc false.
%% Traces each call of chosen processes, or in extents of one function, and builds a tree of call
%% paths: time, calls, and time off the schedulers.
%%
%% dyno_agent_path_cost: what does tracing take here?
%%         |
%%         v                                 dyno_agent_path_hands: wakes, takes breakpoints away
%% dyno_agent_event_watchdog -- session -- tracer -- dyno_agent_path_events
%%         |  limits                            dyno_agent_paths:  stack of each process, tree
%%         v                                                       |
%%    this process  <------------------- result when it has ended -+
%%
%% Tracing starts at the restart. After a limit, or the requested extents, the result stays, and the
%% process `sink` gets `{dyno_profile, enough}`.

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0, config/1, start_link/1, peek/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([config/0, result/0]).

-type config() :: #{
    sink := pid(),
    processes := [dyno_agent_process_filter:selector()],
    %% Calls of one function, and their number.
    inside => mfa(),
    count => pos_integer(),
    without => [dyno_agent_patterns:pattern()],
    %% Whether to time also very short calls.
    short_calls => boolean(),
    limits => dyno_agent_event_watchdog:limits()
}.

-type result() :: #{
    duration_ns := non_neg_integer(),
    %% The cost of tracing a call and its return, near and far.
    call_ns := {non_neg_integer(), non_neg_integer()},
    extents := non_neg_integer() | none,
    nodes := [dyno_agent_path_tree:node_()],
    hidden := [{mfa(), pos_integer()}],
    reason := term(),
    atom() => term()
}.

-type state() :: #{
    config := config(),
    costs := dyno_agent_path_tree:costs(),
    far := non_neg_integer(),
    watchdog := pid() | none,
    tracer := pid() | none,
    since := integer(),
    %% When the watchdog ended, and the waiting callers.
    result := map() | none,
    ended := integer(),
    %% At the restart: scheduler threads' time on a processor, and ready without one.
    threads := {non_neg_integer(), non_neg_integer()},
    waiting := [gen_server:from()]
}.

-define(NODES, 20_000).
%% In costs of tracing a call; shorter ones are not timed. The cost may be wrong by a third: with
%% 0.5 shares of known phases were wrong by up to 8 points, with 2 by two (bench/profile_truth).
-define(LEAST, 2.0).
%% Messages gather for 2 ms.
-define(LIMITS, #{queue => 200_000, bytes => 268_435_456}).
-define(FLAGS, [call, return_to, arity, running]).
-define(WHO, [
    registered_name, label, initial_call, {dictionary, '$initial_call'}, current_stacktrace
]).

-spec about() -> dyno_agent_instrument:about().
about() -> #{names => [paths], traces => true, parts => dyno_agent_path_parts}.

-spec config(dyno_agent_instrument:options()) -> config().
config(Options) ->
    maps:merge(
        maps:with([sink, processes, inside, count, short_calls, limits], Options),
        #{without => maps:get(not_traced, Options, [])}
    ).

-spec start_link(config()) -> gen_server:start_ret().
start_link(Config) ->
    gen_server:start_link(?MODULE, Config, []).

-spec peek(pid()) -> result().
peek(Pid) ->
    gen_server:call(Pid, peek, infinity).

-spec init(config()) -> {ok, state()} | {error, term()}.
init(Config) ->
    process_flag(trap_exit, true),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    ok = dyno_agent_stack_depth:raise(),
    case unknown(Config) of
        [] ->
            {Costs, Far} = dyno_agent_path_cost:measure(),
            {ok, #{
                config => Config,
                costs => Costs,
                far => Far,
                watchdog => none,
                tracer => none,
                since => erlang:monotonic_time(),
                result => none,
                ended => 0,
                threads => {0, 0},
                waiting => []
            }};
        Unmatched ->
            {error, {unmatched, Unmatched}}
    end.

unknown(#{without := Without} = Config) ->
    dyno_agent_patterns:unmatched(
        dyno_agent_patterns:resolve([MFA || #{inside := MFA} <- [Config]] ++ Without)
    ).

-spec handle_call(restart | read | peek, gen_server:from(), state()) ->
    {reply, ok | result(), state()} | {noreply, state()}.
handle_call(restart, _From, #{config := Config} = State) ->
    #{consumer := {_, ForConsumer}} = ForWatchdog = watchdog(State),
    case dyno_agent_event_watchdog:start_link(ForWatchdog) of
        {ok, Watchdog} ->
            {reply, ok, State#{
                watchdog := Watchdog,
                result := none,
                since := erlang:monotonic_time(),
                threads := threads()
            }};
        {error, no_process} ->
            #{sink := Sink} = Config,
            Sink ! {dyno_profile, enough},
            {reply, ok, ended(dyno_agent_path_events:nothing(ForConsumer, no_process), State)}
    end;
handle_call(read, _From, #{result := #{} = _Known} = State) ->
    {reply, result(State), State};
handle_call(read, From, #{watchdog := Watchdog, waiting := Waiting} = State) ->
    ok = dyno_agent_event_watchdog:stop(Watchdog),
    {noreply, State#{waiting := [From | Waiting]}};
handle_call(peek, _From, #{result := #{}} = State) ->
    {reply, result(State), State};
handle_call(peek, From, #{tracer := Tracer} = State) ->
    Tracer ! {peek, From},
    {noreply, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({dyno_agent_path_events, tracer, Tracer}, State) ->
    {noreply, State#{tracer := Tracer}};
handle_info({dyno_agent_path_events, {peeked, From}, Result}, State) ->
    ok = gen_server:reply(From, result(ended(Result, State))),
    {noreply, State};
handle_info({dyno_agent_path_events, #{reason := Reason} = Result}, State) ->
    #{waiting := Waiting, config := #{sink := Sink}} = State,
    Ended = ended(Result, State),
    lists:foreach(fun(From) -> gen_server:reply(From, result(Ended)) end, Waiting),
    _ = [Sink ! {dyno_profile, enough} || Reason =/= stopped],
    {noreply, Ended#{waiting := []}};
handle_info({'EXIT', Watchdog, Reason}, #{watchdog := Watchdog, result := none} = State) ->
    {stop, {shutdown, Reason}, State};
handle_info({'EXIT', Watchdog, _Reason}, #{watchdog := Watchdog} = State) ->
    {noreply, State};
handle_info({'EXIT', _Guard, Reason}, State) ->
    {stop, {shutdown, Reason}, State};
handle_info(_Other, State) ->
    {noreply, State}.

ended(#{nodes := Nodes} = Result, #{threads := Before} = State) ->
    Stretch = stretch(Before, threads()),
    Stretched = [
        {Id, Parent, Name, Sums#{taken := round(Stretch * Taken)}}
     || {Id, Parent, Name, #{taken := Taken} = Sums} <- Nodes
    ],
    State#{result := Result#{nodes := Stretched}, ended := erlang:monotonic_time()}.

%% If other programs use the processors, steps take longer by the clock, unlike the probe's costs.
stretch({RunBefore, WaitBefore}, {Run, Wait}) when Run > RunBefore ->
    1 + (Wait - WaitBefore) / (Run - RunBefore);
stretch(_Before, _Now) ->
    1.

threads() -> dyno_agent_threads:normal_ns(dyno_agent_threads:find()).

result(#{result := Result, since := Since, ended := Ended, config := Config}) ->
    #{costs := {_, Near, NearNext, _, _, Far, FarNext, _}} = Result,
    Extents =
        case Config of
            #{inside := _} -> map_get(extents, Result);
            #{} -> none
        end,
    (maps:remove(costs, Result))#{
        duration_ns => ns(Ended - Since),
        call_ns => {ns(round(Near + NearNext)), ns(round(Far + FarNext))},
        extents := Extents
    }.

ns(Native) -> erlang:convert_time_unit(Native, native, nanosecond).

watchdog(#{config := Config, costs := Costs, far := Far}) ->
    Extents = is_map_key(inside, Config),
    Plan = plan(Config),
    #{
        owner => self(),
        limits => maps:merge(?LIMITS, maps:get(limits, Config, #{})),
        consumer =>
            {dyno_agent_path_events, #{
                sink => self(),
                flags => ?FLAGS,
                new => dyno_agent_event_watchdog:flags_of_new(Plan),
                without => dyno_agent_patterns:resolve(map_get(without, Config)),
                extents =>
                    case Extents of
                        true -> maps:get(count, Config, infinity);
                        false -> none
                    end,
                least =>
                    case Config of
                        #{short_calls := true} -> none;
                        #{} -> ?LEAST
                    end,
                costs => Costs,
                paths => #{
                    far => Far,
                    most => ?NODES,
                    group => fun group/1,
                    extents => Extents
                }
            }},
        plan => Plan
    }.

plan(#{inside := MFA} = Config) ->
    Flags = {trace, [], [monotonic_timestamp | ?FLAGS]},
    Enter = [{'_', [], [{exception_trace}, Flags]}],
    #{processes => none, flags => [], functions => functions(Config) ++ [{MFA, Enter, [meta]}]};
plan(#{processes := Processes} = Config) ->
    #{processes => Processes, flags => ?FLAGS, functions => functions(Config)}.

functions(#{without := Without}) ->
    Spec = [{'_', [], [{message, {caller}}]}],
    Patterns = dyno_agent_patterns:resolve(Without),
    Probe = dyno_agent_path_cost:functions(),
    [{{'_', '_', '_'}, Spec, [local]}, {on_load, Spec, [local]}] ++
        [{{Module, '_', '_'}, false, [local]} || {Module, _, _} <- lists:sublist(Probe, 1)] ++
        [{MFA, Spec, [local]} || MFA <- Probe] ++
        [
            {Functions, false, [local]}
         || Patterns =/= [],
            Module <- dyno_agent_patterns:loaded(),
            Functions <- dyno_agent_patterns:specs(Module, Patterns)
        ].

group(Pid) ->
    case process_info(Pid, ?WHO) of
        undefined ->
            other;
        Who ->
            {current_stacktrace, Frames} = lists:last(Who),
            dyno_agent_kind:by_stack(Who, Frames)
    end.
