%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace_lines).
-moduledoc false.
%% The file of a trace: a line of JSON for each item, written and read.

-export([encode/1, fold/3, format_error/1]).
-export_type([reason/0]).

-type reason() :: {File :: binary(), file:posix() | badarg | {line, pos_integer()}}.

-define(FORMAT, ~"dyno trace 1").
-define(INTEGERS, [
    at, id, depth, duration_ns, count, dropped, not_shown, argument, others, observed_ms, asked_ms
]).
-define(TEXTS, [node, pid, name, function, caller, value, message, to]).
%% Each with a value.
-define(LIMITS, [count, for_ms, rate, queue, bytes, open]).

-spec encode(dyno_trace_item:t() | header) -> iolist().
encode(header) -> [dyno_text:json(#{format => ?FORMAT}), $\n];
encode(Item) -> [dyno_text:json(Item), $\n].

-spec fold(file:name_all(), fun((dyno_trace_item:t(), Acc) -> Acc), Acc) ->
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

%% Whether each field has its type: a file may be by hand, or of a later dyno.
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
