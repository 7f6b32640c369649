%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace_pattern).
-moduledoc """
Parses the patterns of a trace.

| text | what |
| --- | --- |
| `shop:order/2`, `shop:order` | calls of a function, with any number of arguments |
| `shop:_`, `shop` | of all functions of a module; `_:_` of the node |
| `shop:order(_, {key, K}) when K > 5` | calls with such arguments |
| `MyApp.Shop.order/2`, `:shop.order/2` | in Elixir's spelling, or `Elixir.MyApp.Shop:order/2` |
| `MyApp.Shop.order(_, %{id: n}) when n > 5` | then arguments and guards are Elixir's, too |
| `send`, `send({request, _})`, `send(To, Message)` | messages that are sent |
| `receive`, `receive({'$gen_call', _, _})` | messages that arrive |

After `->` follow actions for calls: `return` (the result or exception, and the duration), `time`
(only the duration), `caller`, `stack`.

```erlang
1> {ok, Pattern} = dyno_trace_pattern:parse(~"shop:order(_, K) when K > 5 -> return").
2> maps:with([function, clauses, actions], Pattern).
#{function => {shop,order,2}, clauses => [{['_','$1'],[{'>','$1',5}]}], actions => [return]}
```

Patterns become match specifications, so the runtime itself filters.
""".

-export([parse/1, functions/2, messages/2, format_error/1]).
-export_type([t/0, reason/0]).

-type t() :: #{
    text := binary(),
    event := call | send | 'receive',
    %% Of calls.
    function => {module() | '_', atom(), arity() | '_'},
    %% Heads and guards of match specifications.
    clauses := [{'_' | [term()], [term()]}],
    actions := [action()]
}.

-type action() :: return | time | caller | stack.

-type reason() :: {Pattern :: binary(), Column :: pos_integer(), Text :: unicode:chardata()}.

-define(ACTIONS, [return, time, caller, stack]).
-define(EXAMPLE, "shop:order(_, {key, K}) when K > 5 -> return").
-define(ELIXIR_EXAMPLE, "Shop.order(_, %{id: n}) when n > 5 -> return").

-doc "Parses a pattern. Creates its atoms.".
-spec parse(unicode:chardata()) -> {ok, t()} | {error, {?MODULE, reason()}}.
parse(Text) ->
    Characters = string:trim(unicode:characters_to_list(Text), trailing),
    try
        {ok, (pattern(Characters))#{text => unicode:characters_to_binary(string:trim(Characters))}}
    catch
        throw:{Column, Why} ->
            {error, {?MODULE, {unicode:characters_to_binary(Characters), Column, Why}}}
    end.

pattern(Text) ->
    End = length(Text) + 1,
    case dyno_agent_patterns:elixir(Text) of
        {ok, Module, Function, Rest} -> elixir({call, Module, Function}, Rest, End);
        no -> erlang(Text, End)
    end.

erlang(Text, End) ->
    {Head, Rest} = function(tokens(Text, 1, End), End),
    behind(Head, Rest, End).

%% Nothing, the number of arguments, a guard alone, or actions.
behind(Head, Tokens, End) ->
    {Left, Actions} = arrow(Tokens),
    with_arguments(Head, Left, End, actions(Actions, Head)).

elixir({call, Module, Function} = Head, Text, End) ->
    Rest = string:trim(Text, leading),
    At = End - length(Rest),
    case Rest of
        "(" ++ _ when Function =:= '_' ->
            throw({At, "arguments need the name of a function"});
        "(" ++ _ ->
            {Tokens, Behind, Column} = dyno_trace_elixir:tokens(Rest, At),
            {[], Arrow} = arrow(tokens(Behind, Column, End)),
            {Written, Guards, Anno} = parsed(Tokens, Column),
            {Arguments, Meant} = dyno_trace_elixir:erlang(Written, Guards),
            Clauses = specification(Arguments, Meant, Anno),
            made({call, Module, Function}, length(Arguments), Clauses, actions(Arrow, Head));
        ":" ++ _ ->
            throw(
                {At, "a dot follows a module of Elixir; one of Erlang begins with a small letter"}
            );
        _ ->
            behind(Head, tokens(Rest, At, End), End)
    end.

tokens(Text, Column, End) ->
    case erl_scan:string(Text, {1, Column}) of
        {ok, Tokens, _} -> Tokens;
        {error, {At, Module, Why}, _} -> throw({min(End, column(At)), Module:format_error(Why)})
    end.

function([{'receive', _} | Rest], _End) ->
    {'receive', Rest};
function([{atom, _, send}, {':', _} = Colon | Rest], End) ->
    qualified(send, [Colon | Rest], End);
function([{atom, _, send} | Rest], _End) ->
    {send, Rest};
function([{atom, _, Module} | Rest], End) ->
    qualified(Module, Rest, End);
function([{var, _, '_'} | Rest], End) ->
    qualified('_', Rest, End);
function([Token | _], _End) ->
    throw({column(element(2, Token)), "a pattern begins with a module, send or receive"});
function([], _End) ->
    throw({1, "nothing is named here"}).

qualified(Module, [{':', _}, {atom, _, Function} | Rest], _End) ->
    {{call, Module, Function}, Rest};
qualified(Module, [{':', _}, {var, _, '_'} | Rest], _End) ->
    {{call, Module, '_'}, Rest};
qualified(_Module, [{':', _}, Token | _], _End) ->
    throw({column(element(2, Token)), "a function's name or _ stands here"});
qualified(_Module, [{':', _}], End) ->
    throw({End, "a function's name or _ stands here"});
qualified(Module, Rest, _End) ->
    {{call, Module, '_'}, Rest}.

column({_Line, Column}) -> Column;
column(Anno) -> erl_anno:column(Anno).

arrow(Tokens) ->
    case lists:splitwith(fun(Token) -> element(1, Token) =/= '->' end, Tokens) of
        {Left, []} -> {Left, none};
        {Left, [Arrow | Right]} -> {Left, {Arrow, Right}}
    end.

actions(none, _Head) ->
    [];
actions({{_, At}, _}, Event) when Event =:= send; Event =:= 'receive' ->
    throw({column(At), "nothing stands behind a message"});
actions({{_, At}, []}, _Head) ->
    throw({column(At) + 2, accepted()});
actions({_Arrow, Tokens}, _Head) ->
    named_actions(Tokens).

named_actions([{atom, At, Action}]) ->
    [action(Action, At)];
named_actions([{atom, At, Action}, {Separator, _} | [_ | _] = More]) when
    Separator =:= ','; Separator =:= ';'
->
    [action(Action, At) | named_actions(More)];
named_actions([{atom, At, Action}, Token | _]) ->
    _ = action(Action, At),
    throw({column(element(2, Token)), "a comma and one more of return, time, caller and stack"});
named_actions([Token | _]) ->
    throw({column(element(2, Token)), accepted()}).

action(Action, At) ->
    case lists:member(Action, ?ACTIONS) of
        true ->
            Action;
        false ->
            Names = [atom_to_list(Name) || Name <- ?ACTIONS],
            Meant = dyno_similar:nearest(atom_to_list(Action), Names),
            throw({column(At), [accepted(), dyno_similar:meant(Meant)]})
    end.

accepted() -> "behind the arrow stand return, time, caller or stack, with commas between them".

%% Any arguments, their number, or patterns.
with_arguments(Head, [], _End, Actions) ->
    made(Head, '_', [{'_', []}], Actions);
with_arguments({call, _, _} = Head, [{'/', _}, {integer, _, Arity}], _End, Actions) when
    Arity < 256
->
    made(Head, Arity, [{'_', []}], Actions);
with_arguments({call, _, _} = Head, [{'/', _}, {var, _, '_'}], _End, Actions) ->
    made(Head, '_', [{'_', []}], Actions);
with_arguments({call, _, _}, [{'/', _}, {integer, _, _}, Token | _], _End, _Actions) ->
    throw({column(element(2, Token)), "-> or nothing follows the number of arguments"});
with_arguments({call, _, _}, [{'/', At} | _], _End, _Actions) ->
    throw({column(At) + 1, "the number of arguments stands here"});
with_arguments({call, _, '_'}, [{'(', At} | _], _End, _Actions) ->
    throw({column(At), "arguments need the name of a function"});
with_arguments(Head, [{'(', _} | _] = Tokens, End, Actions) ->
    Matched = [{matched(Head, Arguments), Guards} || {Arguments, Guards} <- clause(Tokens, End)],
    [{{Arity, _}, _} | _] = Matched,
    made(Head, Arity, [{Arguments, Guards} || {{_, Arguments}, Guards} <- Matched], Actions);
with_arguments(_Head, [{'when', At} | _], _End, _Actions) ->
    throw({column(At), "a guard needs arguments to speak of, such as (_, K) when K > 5"});
with_arguments(_Head, [Token | _], _End, _Actions) ->
    throw({column(element(2, Token)), "not understood from here on"}).

made({call, '_', Function}, _Arity, _Clauses, _Actions) when Function =/= '_' ->
    throw({1, "a function of any module can't be traced: name the module, or take _:_"});
made({call, Module, Function}, Arity, Clauses, Actions) ->
    #{
        event => call, function => {Module, Function, Arity}, clauses => Clauses, actions => Actions
    };
made(Event, _Arity, Clauses, Actions) ->
    #{event => Event, clauses => Clauses, actions => Actions}.

%% Of messages the runtime matches more.
matched({call, _, _}, Arguments) -> {length(Arguments), Arguments};
matched(send, [Message]) -> {'_', ['_', Message]};
matched(send, [To, Message]) -> {'_', [To, Message]};
matched('receive', [Message]) -> {'_', ['_', '_', Message]};
matched(send, _) -> throw({5, "send takes one message, or its receiver and the message"});
matched('receive', _) -> throw({8, "receive takes one message"}).

clause(Tokens, End) ->
    {Arguments, Guards, Anno} = parsed(Tokens, End),
    specification(Arguments, Guards, Anno).

%% Erlang's parser reads it as a fun's clause.
parsed(Tokens, End) ->
    At = {1, End},
    Fun = [{'fun', {1, 1}}] ++ Tokens ++ [{'->', At}, {atom, At, true}, {'end', At}, {dot, At}],
    case erl_parse:parse_exprs(Fun) of
        {ok, [{'fun', _, {clauses, [{clause, Anno, Arguments, Guards, _Body}]}}]} ->
            {Arguments, Guards, Anno};
        {ok, _} ->
            throw({column(element(2, hd(Tokens))), "one list of arguments stands here"});
        {error, Error} ->
            {Where, Why} = dyno_syntax:error(Tokens, At, Error),
            throw({column(Where), Why})
    end.

specification(Arguments, Guards, Anno) ->
    _ = [throw({column(At), no_division()}) || At <- divisions(Guards)],
    List = lists:foldr(
        fun(Argument, Tail) -> {cons, Anno, Argument, Tail} end, {nil, Anno}, Arguments
    ),
    Clause = {clause, Anno, [List], said(Guards), [{atom, Anno, true}]},
    case ms_transform:transform_from_shell(dbg, [Clause], []) of
        [{_, _, _} | _] = Clauses -> [{Head, Of} || {Head, Of, _Body} <- Clauses];
        {error, [{_, [{At, Module, Why} | _]} | _], _} -> throw({column(At), why(Module, Why)})
    end.

%% Guards with other names in match specifications.
said({call, A, {atom, _, tuple_size}, [Tuple]}) ->
    {call, A, {atom, A, size}, [said(Tuple)]};
said({call, A, {atom, _, is_boolean}, [X]}) ->
    [IsTrue, IsFalse] = [{op, A, '=:=', said(X), {atom, A, Is}} || Is <- [true, false]],
    {op, A, 'orelse', IsTrue, IsFalse};
said(Form) when is_tuple(Form) -> list_to_tuple(said(tuple_to_list(Form)));
said([First | Rest]) ->
    [said(First) | said(Rest)];
said(Form) ->
    Form.

%% The runtime accepts it, but then no call matches.
divisions({op, At, '/', _, _}) -> [At];
divisions(Form) when is_tuple(Form) -> divisions(tuple_to_list(Form));
divisions(Forms) when is_list(Forms) -> lists:flatmap(fun divisions/1, Forms);
divisions(_) -> [].

no_division() -> "a match specification can't divide: multiply the other side, or take div".

why(_Module, {7, Record}) ->
    io_lib:format("records are not known here: write the tuple, {~tw, ...}", [Record]);
why(_Module, {6, Variable}) ->
    io_lib:format("~ts stands in no argument", [Variable]);
why(_Module, {17, Function, Arity}) ->
    io_lib:format("~tw/~b is no function of guards", [Function, Arity]);
why(_Module, {11, _Variable}) ->
    "a binary can't be taken apart here: name it, and look at it in a guard";
why(Module, Why) ->
    string:trim(Module:format_error(Why)).

-doc """
Numbered patterns' functions and match specifications; more exact ones later, since the last one
counts. A message has its pattern's number. `Ends` asks for ends of calls; `times` for callers.
""".
-spec functions([{pos_integer(), t()}], ends | times | as_asked) ->
    [{{module(), atom(), arity() | '_'}, dyno_agent_event_tracer:match_spec(), [local]}].
functions(Patterns, Ends) ->
    Clauses = maps:groups_from_list(
        fun({Function, _}) -> Function end,
        fun({_, Of}) -> Of end,
        [
            {Function, {Head, Guards, body(Id, Actions, Ends)}}
         || {Id, #{function := Function, clauses := All, actions := Actions}} <- Patterns,
            {Head, Guards} <- All
        ]
    ),
    Sorted = lists:sort(
        fun(A, B) -> generality(A) >= generality(B) end, maps:keys(Clauses)
    ),
    [{Function, map_get(Function, Clauses), [local]} || Function <- Sorted].

generality({M, F, A}) -> length([any || '_' <- [M, F, A]]).

body(Id, Actions, Ends) ->
    Part = fun(Action, Call) ->
        case lists:member(Action, Actions) of
            true -> Call;
            false -> []
        end
    end,
    HasEnd = Ends =/= as_asked orelse Actions -- [caller, stack] =/= [],
    Caller =
        case Ends of
            times -> {caller};
            _ -> Part(caller, {caller_line})
        end,
    [{exception_trace} || HasEnd] ++
        [{message, {{Id, Caller, Part(stack, {current_stacktrace})}}}].

-doc "The match specification of sent or received messages; empty without such a pattern.".
-spec messages(send | 'receive', [t()]) -> dyno_agent_event_tracer:match_spec().
messages(Event, Patterns) ->
    [
        {Head, Guards, []}
     || #{event := Of, clauses := All} <- Patterns, Of =:= Event, {Head, Guards} <- All
    ].

-doc "The place and reason of a parse error.".
-spec format_error(reason()) -> unicode:chardata().
format_error({Text, Column, Why}) ->
    Example =
        case dyno_agent_patterns:elixir(unicode:characters_to_list(Text)) of
            {ok, _, _, _} -> ?ELIXIR_EXAMPLE;
            no -> ?EXAMPLE
        end,
    io_lib:format(
        "this pattern is not understood: ~ts\n  ~ts\n  ~ts^\na pattern that is: ~ts",
        [Why, Text, lists:duplicate(Column - 1, $\s), Example]
    ).
