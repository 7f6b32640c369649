%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace_item).
-moduledoc false.
%% Traced items: shown, written as a line of JSON, and read again. All terms are texts, all times
%% nanoseconds.

-export([of_event/3, name/2, encode/1, fold/3, format_error/1]).
-export_type([t/0, reason/0]).

-doc """
The kinds, in `event`: `call`, `return`, `exception`, `send`, `receive`, `slow` (a call beyond the
time limit), `latency` and `argument` (of a second, or of all), `stopped`.
""".
-type t() :: #{event := atom(), at => integer(), node := binary(), atom() => term()}.

-type reason() :: {File :: binary(), file:posix() | badarg | {line, pos_integer()}}.

-define(FORMAT, ~"dyno trace 1").
-define(INTEGERS, [
    at, id, depth, duration_ns, count, dropped, not_shown, argument, others, observed_ms, asked_ms
]).
-define(TEXTS, [node, pid, name, function, caller, value, message, to]).
%% Each with a value.
-define(LIMITS, [count, for_ms, rate, queue, bytes, open]).

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

latency(MFA, #{count := Count, sum_ns := Sum, max_ns := Max, buckets := Buckets} = Histogram) ->
    Quantile = fun(Q) -> round(dyno_agent_event_histogram:quantile(Q, Histogram)) end,
    #{
        function => dyno_agent_name:mfa(MFA),
        count => Count,
        mean => Sum div Count,
        p50 => Quantile(0.5),
        p90 => Quantile(0.9),
        p99 => Quantile(0.99),
        max => Max,
        bars => bars(Buckets)
    }.

%% By powers of two.
bars(Buckets) ->
    Sums = lists:foldl(
        fun({Low, _High, N}, Acc) ->
            maps:update_with(power(Low, 1), fun(Sum) -> Sum + N end, N, Acc)
        end,
        #{},
        Buckets
    ),
    [[High, N] || High := N <- maps:iterator(Sums, ordered)].

power(Low, High) when Low < High -> High;
power(Low, High) -> power(Low, 2 * High).

-spec encode(t() | header) -> iolist().
encode(header) -> [dyno_text:json(#{format => ?FORMAT}), $\n];
encode(Item) -> [dyno_text:json(Item), $\n].

-spec fold(file:name_all(), fun((t(), Acc) -> Acc), Acc) ->
    {ok, Acc} | {error, {?MODULE, reason()}}.
fold(File, Fun, Acc) ->
    Name = unicode:characters_to_binary(File),
    case file:open(File, [read, raw, binary, {read_ahead, 65_536}]) of
        {ok, Fd} ->
            try
                ok = header(file:read_line(Fd)),
                {ok, items(Fd, 2, Fun, Acc)}
            catch
                throw:Why -> {error, {?MODULE, {Name, Why}}}
            after
                file:close(Fd)
            end;
        {error, Why} ->
            {error, {?MODULE, {Name, Why}}}
    end.

header({ok, Line}) ->
    case decoded(Line, 1) of
        #{~"format" := ?FORMAT} -> ok;
        _ -> throw({line, 1})
    end;
header(_) ->
    throw({line, 1}).

items(Fd, Number, Fun, Acc) ->
    case file:read_line(Fd) of
        {ok, Line} ->
            Item = known(decoded(Line, Number)),
            _ = is_well_typed(Item) orelse throw({line, Number}),
            items(Fd, Number + 1, Fun, Fun(Item, Acc));
        eof ->
            Acc;
        {error, Why} ->
            throw(Why)
    end.

decoded(Line, Number) ->
    try json:decode(Line) of
        #{} = Map when Number =:= 1; is_map_key(~"event", Map) -> Map;
        _ -> throw({line, Number})
    catch
        error:_ -> throw({line, Number})
    end.

%% Keys and kinds are atoms of this version; others are dropped.
known(Decoded) ->
    maps:from_list([
        {Key, atoms(Key, Value)}
     || Text := Value <- Decoded, {ok, Key} <- [atom(Text)]
    ]).

atoms(Key, Text) when
    is_binary(Text),
    (Key =:= event orelse Key =:= of_what orelse Key =:= class orelse Key =:= limit)
->
    case atom(Text) of
        {ok, Atom} -> Atom;
        error -> Text
    end;
atoms(Key, #{} = Map) when Key =:= reason; Key =:= visit ->
    known(Map);
atoms(Key, [_ | _] = Functions) when Key =:= functions; Key =:= open ->
    [known(Function) || #{} = Function <- Functions];
atoms(_Key, Value) ->
    Value.

%% Whether each field has its type, and the lines of text have all they need. A file may be written
%% by hand, or by a later dyno.
is_well_typed(#{event := Event} = Item) ->
    lists:all(fun(Key) -> is_map_key(Key, Item) end, needed(Event)) andalso
        is(maps:with(maps:keys(Item), types()), Item).

needed(call) -> [at, node, pid, call];
needed(return) -> [at, node, pid, id, function, duration_ns];
needed(exception) -> [class | needed(return)];
needed(send) -> [to | needed('receive')];
needed('receive') -> [at, node, pid, message];
needed(slow) -> [at, node, pid, function, duration_ns];
needed(latency) -> [at, node, of_what, functions];
needed(argument) -> [at, node, of_what, argument, values, others];
needed(stopped) -> [node, reason];
needed(_Other) -> [].

types() ->
    Latency = maps:from_keys([count, mean, p50, p90, p99, max], integer),
    Others = #{
        call => text_or_null,
        stack => {list, text},
        values => {list, {integer, text}},
        functions => {list, Latency#{function => text, bars => {some, {integer, integer}}}},
        open => {list, #{function => text, count => integer, ns => integer}},
        sampled => boolean,
        class => atom,
        reason => reason,
        visit => #{}
    },
    maps:merge(
        maps:merge(maps:from_keys(?INTEGERS, integer), maps:from_keys(?TEXTS, text)), Others
    ).

is(integer, Value) ->
    is_integer(Value);
is(text, Value) ->
    is_binary(Value);
is(text_or_null, Value) ->
    is_binary(Value) orelse Value =:= null;
is(boolean, Value) ->
    is_boolean(Value);
is(atom, Value) ->
    is_atom(Value);
is({list, Type}, Values) ->
    is_list(Values) andalso lists:all(fun(Value) -> is(Type, Value) end, Values);
is({some, Type}, Values) ->
    Values =/= [] andalso is({list, Type}, Values);
is({First, Second}, [One, Other]) ->
    is(First, One) andalso is(Second, Other);
is(reason, #{limit := Limit} = Reason) ->
    is_atom(Limit) andalso is_integer(maps:get(value, Reason, 0)) andalso
        is_binary(maps:get(text, Reason, ~"")) andalso
        (is_map_key(value, Reason) orelse not lists:member(Limit, ?LIMITS)) andalso
        (is_map_key(text, Reason) orelse Limit =/= failed);
is(Fields, #{} = Map) when is_map(Fields) ->
    lists:all(
        fun({Key, Type}) -> is_map_key(Key, Map) andalso is(Type, map_get(Key, Map)) end,
        maps:to_list(Fields)
    );
is(_Type, _Value) ->
    false.

atom(Text) ->
    try
        {ok, binary_to_existing_atom(Text)}
    catch
        error:badarg -> error
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({File, {line, 1}}) ->
    [File, " is no file that dyno trace -o has written"];
format_error({File, {line, N}}) ->
    io_lib:format("~ts: line ~b is no line of a trace; those before it are fine", [File, N]);
format_error({File, Posix}) ->
    [File, ": ", file:format_error(Posix)].
