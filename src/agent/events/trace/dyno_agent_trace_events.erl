%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_trace_events).
-moduledoc false.
%% Shows single events of processes as they happen: calls with return values, messages. A consumer
%% of `dyno_agent_event_tracer`, pure but for the sender.
%%
%% After the requested number of events only returns of open calls are still traced.

-behaviour(dyno_agent_event_tracer).

-export([init/1, event/2, info/2, stopped/2]).
-export_type([config/0, pattern/0]).

-doc "The end of a call: not shown, its time, or its time and value.".
-type pattern() :: none | time | value.

-type config() :: #{
    sink := pid(),
    %% The most calls and messages.
    count := pos_integer() | infinity,
    patterns := #{Id :: pos_integer() => pattern()},
    terms := dyno_agent_event_term:limits()
}.

-type state() :: #{
    config := config(),
    sender := dyno_agent_trace_sender:t(),
    open := dyno_agent_event_calls:t(),
    %% Calls and messages so far, without dropped ones.
    count := non_neg_integer()
}.

%% The most open calls: the runtime keeps a frame for each, also of an endless loop.
-define(MOST_OPEN, 10_000).

-spec init(config()) -> state().
init(#{sink := Sink} = Config) ->
    #{
        config => Config,
        sender => dyno_agent_trace_sender:start_link(Sink),
        open => dyno_agent_event_calls:new(),
        count => 0
    }.

-spec event(tuple(), state()) -> dyno_agent_event_tracer:answer().
event({trace_ts, Pid, return_from, MFA, Value, Time}, State) ->
    returned(Pid, MFA, {return, Value}, Time, State);
event({trace_ts, Pid, exception_from, MFA, Exception, Time}, State) ->
    returned(Pid, MFA, {exception, Exception}, Time, State);
%% Beyond the requested number: it came before the breakpoints were gone.
event(Message, #{count := Count, config := #{count := Count}} = State) ->
    {ok, unseen(Message, State)};
event(Message, #{sender := Sender} = State) ->
    case dyno_agent_trace_sender:is_full(Sender) of
        %% A dropped event does not count towards the requested number.
        true -> {ok, unseen(Message, State#{sender := dyno_agent_trace_sender:drop(Sender)})};
        false -> new(Message, State)
    end.

unseen({trace_ts, Pid, call, Call, {Id, _, _}, Time}, #{open := Open} = State) ->
    #{config := #{patterns := Patterns}} = State,
    case Patterns of
        #{Id := Returns} when Returns =/= none ->
            MFA = dyno_agent_event:mfa(Call),
            State#{open := dyno_agent_event_calls:unseen(Pid, MFA, Time, Open)};
        #{} ->
            State
    end;
unseen(_Message, State) ->
    State.

new({trace_ts, Pid, call, Call, {Id, Caller, Stack}, Time}, State) ->
    called({Pid, Call, Time}, Id, {Caller, Stack}, State);
new({trace_ts, Pid, 'receive', Message, Time}, State) ->
    counted(tell(#{event => 'receive', pid => Pid, message => copy(Message, State)}, Time, State));
new({trace_ts, Pid, _SendOrToNobody, Message, To, Time}, State) ->
    Event = #{event => send, pid => Pid, message => copy(Message, State), to => copy(To, State)},
    counted(tell(Event, Time, State));
new(_Other, State) ->
    {ok, State}.

called({Pid, Call, Time}, Id, {Caller, Stack}, State) ->
    #{open := Open, count := Count, config := #{patterns := Patterns, terms := Limits}} = State,
    MFA = dyno_agent_event:mfa(Call),
    Event = maps:filter(fun(_, Value) -> Value =/= [] end, #{
        event => call,
        id => Count,
        pid => Pid,
        depth => dyno_agent_event_calls:depth(Pid, Open),
        function => MFA,
        call => dyno_agent_event_term:call(Call, Limits),
        caller => Caller,
        stack => Stack
    }),
    case maps:get(Id, Patterns, none) of
        none ->
            counted(tell(Event, Time, State));
        _ ->
            Told = tell(Event#{returns => true}, Time, State),
            opened(Pid, MFA, Time, {Count, Id}, Told)
    end.

opened(Pid, MFA, Time, Tag, #{open := Open} = State) ->
    New = dyno_agent_event_calls:call(Pid, MFA, Time, Tag, Open),
    case dyno_agent_event_calls:size(New) of
        Size when Size >= ?MOST_OPEN -> {{stop, {open, ?MOST_OPEN}}, State#{open := New}};
        _ -> counted(State#{open := New})
    end.

returned(Pid, MFA, End, Time, #{open := Open} = State) ->
    case dyno_agent_event_calls:return(Pid, MFA, Open) of
        {{_, unseen}, Left} ->
            ended(State#{open := Left});
        {{Start, {Call, Id}}, Left} ->
            #{config := #{patterns := Patterns}} = State,
            Event = maps:merge(value(End, maps:get(Id, Patterns, value), State), #{
                event => element(1, End),
                id => Call,
                pid => Pid,
                depth => dyno_agent_event_calls:depth(Pid, Left),
                function => MFA,
                duration_ns => erlang:convert_time_unit(Time - Start, native, nanosecond)
            }),
            ended(tell(Event, Time, State#{open := Left}));
        none ->
            {ok, State}
    end.

value({return, _}, time, _State) -> #{};
value({return, Value}, _, State) -> #{value => copy(Value, State)};
value({exception, {Class, Reason}}, _, State) -> #{class => Class, value => copy(Reason, State)}.

copy(Term, #{config := #{terms := Limits}}) -> dyno_agent_event_term:bounded(Term, Limits).

tell(Event, Time, #{sender := Sender} = State) ->
    At = Event#{at => dyno_agent_event:time_ns(Time)},
    State#{sender := dyno_agent_trace_sender:send(At, Sender)}.

counted(#{count := Count} = State) -> ended(State#{count := Count + 1}).

ended(#{count := Count, config := #{count := Count}, open := Open} = State) ->
    case dyno_agent_event_calls:size(Open) of
        0 -> {{stop, {count, Count}}, State};
        _ -> {pause, State}
    end;
ended(State) ->
    {ok, State}.

-spec info({patterns, #{pos_integer() => pattern()}} | term(), state()) ->
    dyno_agent_event_tracer:answer().
info({patterns, Patterns}, #{config := Config} = State) ->
    {ok, State#{config := Config#{patterns := Patterns}}};
info(_Other, State) ->
    {ok, State}.

-spec stopped(dyno_agent_event_tracer:ended(), state()) -> ok.
stopped(#{reason := Reason, at := At, dropped := Dropped}, State) ->
    #{sender := Sender, count := Count, config := #{count := Most}} = State,
    %% If only returns are missing at the end of the time, the count was reached.
    {Why, Lost} =
        case Count of
            Most -> {{count, Most}, 0};
            _ -> {Reason, Dropped}
        end,
    Event = #{
        event => stopped,
        reason => Why,
        count => Count,
        dropped => Lost,
        at => dyno_agent_event:time_ns(At)
    },
    dyno_agent_trace_sender:last(Event, Sender).
