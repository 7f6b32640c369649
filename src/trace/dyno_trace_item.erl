%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace_item).
-moduledoc false.
%% Traced items: the events of an agent, as texts. All times are nanoseconds.

-export([of_event/3, name/2]).
-export_type([t/0]).

-doc """
The kinds, in `event`: `call`, `return`, `exception`, `send`, `receive`, `slow` (a call beyond the
time limit), `latency` and `argument` (of a second, or of all), `stopped`.
""".
-type t() :: #{event := atom(), at => integer(), node := binary(), atom() => term()}.

-doc """
The item of an agent's event. `ahead` is the lead of the node's monotonic time over this node's time
of day, `records` are those defined by its modules.
""".
-spec of_event(node(), dyno_agent_trace_sender:event(), #{
    ahead := integer(), records := dyno_trace_term:records(), _ => _
}) -> t().
of_event(Node, Event, Of) ->
    maps:map(fun(Key, Value) -> value(Key, Value, Of) end, Event#{node => atom_to_binary(Node)}).

value(at, Ns, #{ahead := Ahead}) ->
    Ns - Ahead;
value(function, MFA, _) ->
    dyno_agent_name:mfa(MFA);
value(call, {M, F, Args}, Of) when is_list(Args) ->
    text([name(M, F), $(, lists:join(", ", [term(Arg, Of) || Arg <- Args]), $)]);
value(call, none, _) ->
    null;
value(call, MFA, _) ->
    dyno_agent_name:mfa(MFA);
value(caller, {M, F, A, Where}, _) ->
    place({M, F, A}, Where);
value(caller, undefined, _) ->
    ~"the start of the process";
value(stack, Frames, _) ->
    [frame(Frame) || Frame <- Frames];
value(Key, Term, Of) when Key =:= value; Key =:= message; Key =:= to -> text(term(Term, Of));
value(functions, Functions, _) ->
    [latency(MFA, Of) || MFA := Of <- Functions];
value(open, Open, _) ->
    [Of#{function => dyno_agent_name:mfa(MFA)} || MFA := Of <- maps:iterator(Open, ordered)];
value(values, Values, Of) ->
    lists:reverse(lists:sort([[Count, text(term(Value, Of))] || {Value, Count} <- Values]));
value(reason, {Limit, Value}, _) when is_integer(Value) -> #{limit => Limit, value => Value};
value(reason, Other, _) when is_atom(Other) -> #{limit => Other};
value(reason, Other, _) ->
    #{limit => failed, text => text(io_lib:format("~0tP", [Other, 12]))};
value(_Key, Value, _) ->
    Value.

-doc "A function in its language's syntax, without arity.".
-spec name(module(), atom()) -> binary().
name('_', _) ->
    ~"_:_";
name(M, '_') ->
    dyno_agent_name:module(M);
name(M, F) ->
    dyno_agent_name:call(M, F).

frame({M, F, A, Info}) ->
    Place = maps:from_list(Info),
    case Place of
        #{file := File, line := Line} -> place({M, F, A}, {File, Line});
        #{} -> dyno_agent_name:mfa({M, F, A})
    end.

place(MFA, {File, Line}) when is_list(File) ->
    text([dyno_agent_name:mfa(MFA), " (", filename:basename(File), $:, integer_to_list(Line), $)]);
place(MFA, _) ->
    dyno_agent_name:mfa(MFA).

term(Term, #{records := Records}) -> dyno_trace_term:text(Term, Records).

text(Characters) ->
    case unicode:characters_to_binary(Characters) of
        <<Text/binary>> -> Text;
        _ -> iolist_to_binary(io_lib:format("~0p", [Characters]))
    end.

%% The overhead of tracing is subtracted; a time within its error is less than `below`.
latency(MFA, #{overhead_ns := OverheadNs} = Of) ->
    #{count := Count, sum_ns := Sum, max_ns := Max, buckets := Buckets, turns := Turns} = Of,
    Histogram = maps:without([overhead_ns, turns], Of),
    Known = fun
        (Ns) when Ns < OverheadNs -> null;
        (Ns) -> round(Ns)
    end,
    Quantile = fun(Q) -> Known(dyno_agent_event_histogram:quantile(Q, Histogram)) end,
    Below = power(2 * OverheadNs - 1, 1),
    #{
        function => dyno_agent_name:mfa(MFA),
        count => Count,
        turns => Turns,
        mean => Known(Sum div Count),
        p50 => Quantile(0.5),
        p90 => Quantile(0.9),
        p99 => Quantile(0.99),
        max => Known(Max),
        below => Below,
        bars => bars(Buckets, Below)
    }.

%% By powers of two.
bars(Buckets, Least) ->
    Sums = lists:foldl(
        fun({Low, _High, N}, Acc) ->
            maps:update_with(power(Low, Least), fun(Sum) -> Sum + N end, N, Acc)
        end,
        #{},
        Buckets
    ),
    [[High, N] || High := N <- maps:iterator(Sums, ordered)].

power(Low, High) when Low < High -> High;
power(Low, High) -> power(Low, 2 * High).
