%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_trace_sums).
-moduledoc false.
%% Sums call times of functions, or values of an argument, each second, and shows slow calls one by
%% one. A consumer of `dyno_agent_event_tracer`.
%%
%% Frequent functions are sampled: five times a second breakpoints are set, for 500 calls.
%%
%% The runtime tells the end of calls that a function makes of itself as its last step all together:
%% these are counted (`turns`) and not timed.

-behaviour(dyno_agent_event_tracer).

-export([init/1, event/2, info/2, stopped/2]).
-export_type([config/0]).

-type config() :: #{
    sink := pid(),
    %% The number of an argument, from 1 on.
    what := latency | {argument, pos_integer()},
    %% Longer calls are shown with their arguments.
    above_ns => pos_integer(),
    terms := dyno_agent_event_term:limits()
}.

-type state() :: #{
    config := config(),
    sender := dyno_agent_trace_sender:t(),
    open := dyno_agent_event_calls:t(),
    %% Calls left in this sampling window.
    left := non_neg_integer(),
    ticks := non_neg_integer(),
    slow := non_neg_integer(),
    count := non_neg_integer(),
    %% Whether only a part of the calls was seen.
    sampled := #{second := boolean(), all := boolean()},
    %% Of the last second, and of the whole run.
    second := sums(),
    all := sums(),
    overhead_ns := non_neg_integer()
}.

%% `{turns, MFA}`: calls as the last step of the same function.
-type sums() :: #{mfa() | term() => dyno_agent_event_histogram:t() | pos_integer()}.

-define(TICK_MS, 200).
-define(TICKS, 5).
-define(WINDOW, 500).
-define(MOST_SLOW, 10).
-define(MOST_OPEN, 10_000).
%% The most functions that call each other as their last steps.
-define(LONGEST, 30).
%% The most different values; later ones are merged.
-define(VALUES, 100).

-spec init(config()) -> state().
init(#{sink := Sink, what := What} = Config) ->
    _ = erlang:send_after(?TICK_MS, self(), tick),
    #{
        config => maps:merge(#{above_ns => infinity}, Config),
        sender => dyno_agent_trace_sender:start_link(Sink),
        open => dyno_agent_event_calls:new(),
        left => ?WINDOW,
        ticks => 0,
        slow => 0,
        count => 0,
        sampled => #{second => false, all => false},
        second => #{},
        all => #{},
        overhead_ns =>
            case What of
                latency -> dyno_agent_durations:overhead_ns();
                _ -> 0
            end
    }.

-spec event(tuple(), state()) -> dyno_agent_event_tracer:answer().
event({trace_ts, Pid, return_from, MFA, _Value, Time}, State) ->
    {ok, returned(Pid, MFA, Time, State)};
event({trace_ts, Pid, exception_from, MFA, _Exception, Time}, State) ->
    {ok, returned(Pid, MFA, Time, State)};
event({trace_ts, Pid, call, Call, _, Time}, #{left := 0, open := Open} = State) ->
    MFA = dyno_agent_event:mfa(Call),
    {pause, State#{open := dyno_agent_event_calls:unseen(Pid, MFA, Time, Open)}};
event({trace_ts, Pid, call, Call, Told, Time}, #{left := Left, count := Count} = State) ->
    New = called(Pid, {Call, Told}, Time, State#{left := Left - 1, count := Count + 1}),
    case Left of
        1 -> {pause, New#{sampled := #{second => true, all => true}}};
        _ -> {ok, New}
    end;
event(_Other, State) ->
    {ok, State}.

called(Pid, {Call, {_, Caller, _}}, Time, #{config := #{what := latency} = Config} = State) ->
    #{open := Open, second := Second, all := All} = State,
    MFA = dyno_agent_event:mfa(Call),
    case is_turn(MFA, Caller, dyno_agent_event_calls:last(Pid, ?LONGEST, Open)) of
        true ->
            Opened = dyno_agent_event_calls:call(Pid, MFA, Time, {turn, Caller}, bounded(Open)),
            Turn = {turns, MFA},
            State#{open := Opened, second := plus(Turn, Second), all := plus(Turn, All)};
        false ->
            %% Arguments are kept if a slow call must show them.
            Shown =
                case Config of
                    #{above_ns := infinity} -> none;
                    #{terms := Limits} -> dyno_agent_event_term:call(Call, Limits)
                end,
            Tag = {Caller, Shown},
            State#{open := dyno_agent_event_calls:call(Pid, MFA, Time, Tag, bounded(Open))}
    end;
called(_Pid, {{_, _, Args}, _}, _Time, #{config := #{what := {argument, N}}} = State) when
    length(Args) >= N
->
    #{second := Second, all := All} = State,
    Value = copy(lists:nth(N, Args), State),
    State#{second := value(Value, Second), all := value(Value, All)};
called(_Pid, _Call, _Time, State) ->
    State.

%% All between return to the same place; otherwise the call returns into the function itself.
is_turn(MFA, MFA, _Last) ->
    false;
is_turn(MFA, _Caller, [{MFA, unseen} | _]) ->
    true;
is_turn(MFA, Caller, [{Of, Tag} | Before]) ->
    returns_to(Caller, Tag) andalso (Of =:= MFA orelse is_turn(MFA, Caller, Before));
is_turn(_MFA, _Caller, []) ->
    false.

returns_to(Caller, {turn, Caller}) -> true;
returns_to(Caller, {Caller, _Shown}) -> true;
returns_to(_Caller, _Tag) -> false.

plus(Key, Sums) -> maps:update_with(Key, fun(N) -> N + 1 end, 1, Sums).

%% Most of their processes have ended.
bounded(Open) ->
    case dyno_agent_event_calls:size(Open) of
        Size when Size >= ?MOST_OPEN -> dyno_agent_event_calls:new();
        _ -> Open
    end.

copy(Term, #{config := #{terms := Limits}}) -> dyno_agent_event_term:bounded(Term, Limits).

value(Value, Values) when is_map_key({value, Value}, Values); map_size(Values) < ?VALUES ->
    plus({value, Value}, Values);
value(_Value, Values) ->
    plus(others, Values).

returned(Pid, MFA, Time, #{open := Open, overhead_ns := Overhead} = State) ->
    case dyno_agent_event_calls:return(Pid, MFA, Open) of
        {{_, NotTimed}, Left} when NotTimed =:= unseen; element(1, NotTimed) =:= turn ->
            State#{open := Left};
        {{Start, {_Caller, Call}}, Left} ->
            Ns = max(0, erlang:convert_time_unit(Time - Start, native, nanosecond) - Overhead),
            #{second := Second, all := All} = State,
            New = State#{
                open := Left, second := recorded(MFA, Ns, Second), all := recorded(MFA, Ns, All)
            },
            slow(Ns, {Pid, MFA, Call, Start}, New);
        none ->
            State
    end.

recorded(MFA, Ns, Sums) ->
    Histogram = maps:get(MFA, Sums, dyno_agent_event_histogram:new()),
    Sums#{MFA => dyno_agent_event_histogram:record(Ns, Histogram)}.

slow(Ns, {Pid, MFA, Call, Start}, #{config := #{above_ns := Above}, slow := Slow} = State) when
    Ns > Above, Slow < ?MOST_SLOW
->
    tell(
        #{
            event => slow,
            pid => Pid,
            function => MFA,
            call => Call,
            duration_ns => Ns,
            at => dyno_agent_event:time_ns(Start)
        },
        State#{slow := Slow + 1}
    );
slow(_Ns, _Call, State) ->
    State.

tell(Event, #{sender := Sender} = State) ->
    State#{sender := dyno_agent_trace_sender:send(Event, Sender)}.

-spec info(tick | term(), state()) -> dyno_agent_event_tracer:answer().
info(tick, #{ticks := Ticks, sampled := Sampled} = State) ->
    _ = erlang:send_after(?TICK_MS, self(), tick),
    Next = State#{ticks := Ticks + 1, left := ?WINDOW},
    case (Ticks + 1) rem ?TICKS of
        0 ->
            Begun = Next#{second := #{}, slow := 0, sampled := Sampled#{second := false}},
            {resume, tell(sums(second, Next), Begun)};
        _ ->
            {resume, Next}
    end;
info(_Other, State) ->
    {ok, State}.

sums(Of, #{config := #{what := What}, sampled := Sampled, overhead_ns := OverheadNs} = State) ->
    Sums = map_get(Of, State),
    Event = #{
        of_what => Of, at => erlang:monotonic_time(nanosecond), sampled => map_get(Of, Sampled)
    },
    case What of
        latency ->
            Event#{
                event => latency,
                open => open(Of, State),
                functions =>
                    #{
                        MFA => (dyno_agent_event_histogram:read(Histogram))#{
                            overhead_ns => OverheadNs, turns => maps:get({turns, MFA}, Sums, 0)
                        }
                     || {_, _, _} = MFA := Histogram <- Sums
                    }
            };
        {argument, N} ->
            Event#{
                event => argument,
                argument => N,
                values => [{Value, Count} || {value, Value} := Count <- Sums],
                others => maps:get(others, Sums, 0)
            }
    end.

%% Of calls under way at the end the time is not known, and they may be the longest.
open(second, _State) ->
    #{};
open(all, #{open := Open, all := Sums}) ->
    Now = erlang:monotonic_time(),
    Calls = [
        {MFA, Start}
     || {Pid, MFA, Start, Tag} <- dyno_agent_event_calls:open(Open),
        Tag =:= unseen orelse element(1, Tag) =/= turn,
        is_process_alive(Pid)
    ],
    #{
        MFA => #{
            count => length(Starts),
            ns => erlang:convert_time_unit(Now - lists:min(Starts), native, nanosecond),
            %% Unless they are with the times.
            turns => lists:sum([N || #{{turns, MFA} := N} <- [Sums], not is_map_key(MFA, Sums)])
        }
     || MFA := Starts <- maps:groups_from_list(
            fun({MFA, _}) -> MFA end, fun({_, Start}) -> Start end, Calls
        )
    }.

-spec stopped(dyno_agent_event_tracer:ended(), state()) -> ok.
stopped(#{reason := Reason, dropped := Dropped}, #{count := Count, sampled := Sampled} = State) ->
    Ended =
        case Dropped of
            0 -> State;
            %% Returns may be among them.
            _ -> State#{open := dyno_agent_event_calls:new()}
        end,
    #{sender := Sender} = tell(sums(all, Ended), State),
    Event = #{
        event => stopped,
        reason => Reason,
        count => Count,
        dropped => Dropped,
        sampled => map_get(all, Sampled)
    },
    dyno_agent_trace_sender:last(Event, Sender).
