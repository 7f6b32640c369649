%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_durations).
-moduledoc """
Measures the durations of single calls of a function, as a histogram.

A trace session of its own sends the calls and ends of the functions here, with their times. This
costs a call some microseconds and a copy of the returned term. So tracing is on in windows only:
one opens five times a second and closes after 500 calls; pending calls are waited for. The
overhead, measured with an empty function, is subtracted.

Tracing of a function ends, with the reason in its `state`, if
* its calls pile up before the window can be closed (`called_too_often`),
* it calls itself a hundred times before it returns, if ever (`never_returns`): to see the end of a
  call, the runtime keeps a stack frame for it, even for a tail call,
* its module is loaded again (`reloaded`).

Start it before `dyno_agent_calls`. The runtime runs the breakpoint set last first. If `call_time`
finds a frame of this session on the stack, it puts none of its own there and misses the return. It
then adds to the function all later work of the process outside measured functions
(doc/architecture.md, "Traps of the runtime"). So the functions have a breakpoint from the start,
which only counts while no window is open.

## Cost
13 ns for each call of the functions. At most 2,500 calls a second are traced, at 1 to 2 us each:
half a percent of one scheduler, and part of the own times of the functions and their callers.
Opening and closing a window changes the functions' code, 100 us each.
""".

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0, config/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
%% Called from outside its own clause, so that the calls are calls.
-export([leaf/0]).
-export([overhead_ns/0]).
-export_type([config/0, result/0]).

-type config() :: #{patterns := [dyno_agent_patterns:pattern()]}.

-doc "Buckets: from, to (exclusive), count. Times in nanoseconds.".
-type result() :: [
    #{
        mfa := mfa(),
        count := non_neg_integer(),
        sum_ns := non_neg_integer(),
        min_ns := non_neg_integer(),
        max_ns := non_neg_integer(),
        buckets := [{non_neg_integer(), pos_integer(), pos_integer()}],
        state := state_of(),
        overhead_ns := non_neg_integer()
    }
].

-type state_of() :: measured | called_too_often | never_returns | reloaded.

-type state() :: #{
    session := trace:session(),
    functions := #{mfa() => state_of()},
    histograms := #{mfa() => dyno_agent_event_histogram:t()},
    pending := dyno_agent_event_calls:t(),
    left := non_neg_integer() | closed,
    seen := #{mfa() => pos_integer()},
    overhead_ns := non_neg_integer()
}.

-define(EVERY_MS, 200).
-define(BUDGET, 500).
%% Of the budget, in one window: more calls come only if closing takes too long.
-define(TOO_OFTEN, 20).
-define(DEEPEST, 100).
-define(MAX_PENDING, 20_000).
%% Opening a window changes the code of each.
-define(MAX_FUNCTIONS, 50).
-define(LEAF_CALLS, 200).
-define(BOTH_ENDS, [{'_', [], [{exception_trace}]}]).

-doc "Always on: naming functions switches it on.".
-spec about() -> dyno_agent_instrument:about().
about() -> #{names => [durations], parts => dyno_agent_duration_parts, traces => true}.

-spec config(dyno_agent_instrument:options()) -> config() | off.
config(#{distribution := []}) -> off;
config(#{distribution := Patterns}) -> #{patterns => Patterns}.

-spec init(config()) -> {ok, state()} | {error, term()}.
init(#{patterns := Patterns}) ->
    process_flag(message_queue_data, off_heap),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    Functions = functions(dyno_agent_patterns:resolve(Patterns)),
    case dyno_agent_patterns:unmatched(Patterns) of
        [] when length(Functions) =< ?MAX_FUNCTIONS ->
            Overhead = overhead_ns(),
            Session = trace:session_create(dyno_durations, self(), []),
            _ = dyno_agent_flags:all(Session, true, [call, arity, monotonic_timestamp]),
            _ = [trace:function(Session, MFA, true, [call_count]) || MFA <- Functions],
            self() ! open,
            {ok, #{
                session => Session,
                functions => maps:from_keys(Functions, measured),
                histograms => #{},
                pending => dyno_agent_event_calls:new(),
                left => closed,
                seen => #{},
                overhead_ns => Overhead
            }};
        [] ->
            {error, {too_many_functions, length(Functions), ?MAX_FUNCTIONS}};
        Unmatched ->
            {error, {unmatched, Unmatched}}
    end.

functions(Patterns) ->
    [
        MFA
     || Module <- dyno_agent_patterns:measured(Patterns),
        MFA <- dyno_agent_patterns:functions(Module, Patterns)
    ].

-spec handle_call(restart | read, gen_server:from(), state()) -> {reply, ok | result(), state()}.
handle_call(restart, _From, State) ->
    {reply, ok, State#{histograms := #{}}};
handle_call(read, _From, #{functions := Functions, histograms := Histograms} = State) ->
    #{overhead_ns := OverheadNs} = State,
    None = dyno_agent_event_histogram:new(),
    Statistics = [
        (dyno_agent_event_histogram:read(maps:get(MFA, Histograms, None)))#{
            mfa => MFA, state => Is, overhead_ns => OverheadNs
        }
     || MFA := Is <- Functions, Is =/= measured orelse is_map_key(MFA, Histograms)
    ],
    {reply, Statistics, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({trace_ts, Pid, call, MFA, Time}, State) ->
    {noreply, called(Pid, MFA, Time, State)};
handle_info({trace_ts, Pid, return_from, MFA, _Value, Time}, State) ->
    {noreply, returned(Pid, MFA, Time, State)};
handle_info({trace_ts, Pid, exception_from, MFA, _Exception, Time}, State) ->
    {noreply, returned(Pid, MFA, Time, State)};
handle_info(open, State) ->
    _ = erlang:send_after(?EVERY_MS, self(), open),
    {noreply, open(State)};
handle_info(_Other, State) ->
    {noreply, State}.

open(#{session := Session, functions := Functions} = State) ->
    opened(State#{functions := maps:map(fun(F, Is) -> checked(Session, F, Is) end, Functions)}).

%% A window stays open until its budget is used up.
opened(#{left := Left} = State) when is_integer(Left) ->
    State#{left := ?BUDGET, seen := #{}};
opened(#{session := Session, functions := Functions, pending := Pending} = State) ->
    _ = [trace:function(Session, MFA, ?BOTH_ENDS, [local]) || MFA := measured <- Functions],
    Open = State#{left := ?BUDGET, seen := #{}},
    case dyno_agent_event_calls:size(Pending) < ?MAX_PENDING of
        true -> Open;
        %% The pending calls never return: their processes have ended.
        false -> Open#{pending := dyno_agent_event_calls:new()}
    end.

%% In code loaded since, other sessions' breakpoints come first.
checked(Session, MFA, measured) ->
    case trace:info(Session, MFA, call_count) of
        {call_count, Count} when is_integer(Count) -> measured;
        _ -> reloaded
    end;
checked(_Session, _MFA, Is) ->
    Is.

%% Calls of a function given up may still come, by the thousand.
called(_Pid, MFA, _Time, #{functions := Functions} = State) when
    map_get(MFA, Functions) =/= measured
->
    State;
called(Pid, MFA, Time, #{pending := Pending, seen := Seen0} = State0) ->
    Seen = maps:update_with(MFA, fun(N) -> N + 1 end, 1, Seen0),
    State = close_when_full(State0#{
        pending := dyno_agent_event_calls:call(Pid, MFA, Time, none, Pending), seen := Seen
    }),
    case Seen of
        #{MFA := N} when N > ?BUDGET * ?TOO_OFTEN -> stop(MFA, called_too_often, State);
        #{MFA := N} when N > ?DEEPEST -> stop_if_deep({Pid, MFA}, Pending, State);
        #{} -> State
    end.

stop_if_deep({_, MFA} = Of, Pending, State) ->
    case dyno_agent_event_calls:same(Of, ?DEEPEST, Pending) of
        ?DEEPEST -> stop(MFA, never_returns, State);
        _ -> State
    end.

%% The times of a function that calls itself endlessly show only its depth.
stop(MFA, Why, #{session := Session, functions := Functions, histograms := Histograms} = State) ->
    _ = trace:function(Session, MFA, false, [local]),
    Kept =
        case Why of
            never_returns -> maps:remove(MFA, Histograms);
            called_too_often -> Histograms
        end,
    State#{functions := Functions#{MFA := Why}, histograms := Kept}.

close_when_full(#{left := closed} = State) ->
    State;
close_when_full(#{left := 1, session := Session, functions := Functions} = State) ->
    _ = [trace:function(Session, MFA, false, [local]) || MFA := measured <- Functions],
    State#{left := closed};
close_when_full(#{left := Left} = State) ->
    State#{left := Left - 1}.

returned(Pid, MFA, Time, #{pending := Pending} = State) ->
    case dyno_agent_event_calls:return(Pid, MFA, Pending) of
        {{Start, none}, Left} ->
            Ns = erlang:convert_time_unit(Time - Start, native, nanosecond),
            add(MFA, Ns, State#{pending := Left});
        none ->
            State
    end.

add(MFA, _Ns, #{functions := Functions} = State) when map_get(MFA, Functions) =:= never_returns ->
    State;
add(MFA, Ns, #{histograms := Histograms, overhead_ns := Overhead} = State) ->
    Before = maps:get(MFA, Histograms, dyno_agent_event_histogram:new()),
    After = dyno_agent_event_histogram:record(max(0, Ns - Overhead), Before),
    State#{histograms := Histograms#{MFA => After}}.

-doc "The overhead: the duration of a traced call of an empty function.".
-spec overhead_ns() -> non_neg_integer().
overhead_ns() ->
    Session = trace:session_create(dyno_durations_calibration, self(), []),
    _ = trace:function(Session, {?MODULE, leaf, 0}, ?BOTH_ENDS, [local]),
    {Pid, Ref} = spawn_monitor(fun() ->
        receive
            go -> [?MODULE:leaf() || _ <- lists:seq(1, ?LEAF_CALLS)]
        end
    end),
    _ = trace:process(Session, Pid, true, [call, arity, monotonic_timestamp]),
    Pid ! go,
    receive
        {'DOWN', Ref, process, Pid, _} -> ok
    end,
    Delivered = trace:delivered(Session, Pid),
    receive
        {trace_delivered, Pid, Delivered} -> ok
    end,
    _ = trace:session_destroy(Session),
    case leaf_times(Pid) of
        [] -> 0;
        Times -> lists:nth(1 + length(Times) div 4, lists:sort(Times))
    end.

leaf_times(Pid) ->
    receive
        {trace_ts, Pid, call, {?MODULE, leaf, 0}, Start} ->
            receive
                {trace_ts, Pid, return_from, {?MODULE, leaf, 0}, _, End} ->
                    [erlang:convert_time_unit(End - Start, native, nanosecond) | leaf_times(Pid)]
            after 0 -> []
            end
    after 0 -> []
    end.

-doc false.
-spec leaf() -> ok.
leaf() -> ok.

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{session := Session}) ->
    _ = trace:session_destroy(Session),
    ok.
