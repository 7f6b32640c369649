%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace_item).
-moduledoc """
What was traced, one thing at a time, as it is shown, written as a line of JSON and read again: all
terms are texts by now, all times nanoseconds.
""".

-export([of_event/3, name/2, encode/1, fold/3, format_error/1]).
-export_type([t/0, reason/0]).

-doc """
The kinds, in `event`: `call`, `return`, `exception`, `send`, `receive`, `slow` (a call that took
longer than it should), `latency` and `argument` (of a second, or of all), `stopped`.
""".
-type t() :: #{event := atom(), at => integer(), node := binary(), atom() => term()}.

-type reason() :: {File :: binary(), file:posix() | badarg | {line, pos_integer()}}.

-define(FORMAT, ~"dyno trace 1").

-doc "An event of an agent; `Ahead` is what its node's monotonic time is ahead of our time of day.".
-spec of_event(node(), dyno_agent_trace_sender:event(), Ahead :: integer()) -> t().
of_event(Node, Event, Ahead) ->
    maps:map(fun(Key, Value) -> value(Key, Value, Ahead) end, Event#{node => atom_to_binary(Node)}).

value(at, Ns, Ahead) -> Ns - Ahead;
value(function, MFA, _) -> dyno_agent_name:mfa(MFA);
value(call, {M, F, Args}, _) when is_list(Args) ->
    text([name(M, F), $(, lists:join(", ", [term(Arg) || Arg <- Args]), $)]);
value(call, none, _) -> null;
value(call, MFA, _) -> dyno_agent_name:mfa(MFA);
value(caller, {M, F, A, Where}, _) -> place({M, F, A}, Where);
value(caller, undefined, _) -> ~"the start of the process";
value(stack, Frames, _) -> [frame(Frame) || Frame <- Frames];
value(Key, Term, _) when Key =:= value; Key =:= message; Key =:= to -> text(term(Term));
value(functions, Functions, _) -> [latency(MFA, Of) || MFA := Of <- Functions];
value(values, Values, _) ->
    lists:reverse(lists:sort([[Count, text(term(Value))] || {Value, Count} <- Values]));
value(reason, {Limit, Value}, _) when is_integer(Value) -> #{limit => Limit, value => Value};
value(reason, Other, _) when is_atom(Other) -> #{limit => Other};
value(reason, Other, _) -> #{limit => failed, text => text(io_lib:format("~0tP", [Other, 12]))};
value(_Key, Value, _) -> Value.

-doc "A function as its language writes it, without its arity.".
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

%% Texts among the terms stand as they are, and so does what was left out.
term(Term) ->
    Text = io_lib:format("~0tp", [Term]),
    case string:find(Text, "{'$dyno',<<\"") of
        nomatch ->
            Text;
        _ ->
            Plain = "{'\\$dyno',<<\"((?:[^\"\\\\]|\\\\.)*)\">>}",
            Shown = re:replace(Text, Plain, "\\1", [global, unicode]),
            re:replace(Shown, "\\.\\.\\. => \\.\\.\\.", "...", [global, unicode])
    end.

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

-doc "As a line of JSON.".
-spec encode(t() | header) -> iolist().
encode(header) -> [dyno_text:json(#{format => ?FORMAT}), $\n];
encode(Item) -> [dyno_text:json(Item), $\n].

-doc "Calls the function with each item of a file.".
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
            #{~"event" := _} = Decoded = decoded(Line, Number),
            items(Fd, Number + 1, Fun, Fun(known(Decoded), Acc));
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

%% Keys and kinds are atoms of this version; others are left out.
known(Decoded) ->
    maps:from_list([
        {Key, atoms(Key, Value)}
     || Text := Value <- Decoded, {ok, Key} <- [atom(Text)]
    ]).

atoms(Key, Text) when Key =:= event; Key =:= of_what; Key =:= class; Key =:= limit ->
    case atom(Text) of
        {ok, Atom} -> Atom;
        error -> Text
    end;
atoms(Key, Map) when Key =:= reason; Key =:= visit ->
    known(Map);
atoms(functions, Functions) ->
    [known(Function) || Function <- Functions];
atoms(_Key, Value) ->
    Value.

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
