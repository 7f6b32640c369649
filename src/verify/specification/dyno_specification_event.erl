%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_specification_event).
-moduledoc false.
%% The Erlang pattern and guard of a specification's event, the variables it binds, and the required
%% tracing. Only this module knows the message forms of OTP.

-export([pattern/1, variables/1, mentioned/1, shape/2, needs/2]).
-export_type([head/0]).

-type expr() :: erl_parse:abstract_expr().
-type head() :: {Pattern :: expr(), Guard :: [[expr()]]}.

%% A variable of dyno's, which no event binds for the user.
-define(TAG, 'Dyno_Tag').
-define(MESSAGE, 'Dyno_Message').
-define(ARGUMENTS, 'Dyno_Arguments').

-define(IS_TAG,
    "is_reference(Dyno_Tag) orelse (is_list(Dyno_Tag) andalso hd(Dyno_Tag) =:= alias)"
).
-define(IS_INFO,
    "Dyno_Message =/= timeout andalso not (is_tuple(Dyno_Message) andalso tuple_size(Dyno_Message) "
    "> 1 andalso (element(1, Dyno_Message) =:= '$gen_call' orelse "
    "element(1, Dyno_Message) =:= '$gen_cast' orelse element(1, Dyno_Message) =:= system orelse "
    "(tuple_size(Dyno_Message) =:= 2 andalso (is_reference(element(1, Dyno_Message)) orelse "
    "(is_list(element(1, Dyno_Message)) andalso hd(element(1, Dyno_Message)) =:= alias)))))"
).
%% Every process begins and ends, so `any` and `strict` cover the events between.
-define(IS_ANY, "element(1, Dyno_Message) =/= spawned andalso element(1, Dyno_Message) =/= exit").

-spec pattern(dyno_specification_parser:event()) -> head().
pattern(#{kind := Kind, location := Location, options := Options, guard := Guard} = Event) ->
    allowed(Kind, Options, Location),
    {Pattern, Ours} = term(Kind, map_get(pattern, Event), Options, erl_anno:new(Location)),
    {Pattern, guarded(Ours, Guard)}.

guarded([], Guard) -> Guard;
guarded(Ours, []) -> [Ours];
guarded(Ours, Guard) -> [Ours ++ Alternative || Alternative <- Guard].

term(send, Pattern, Options, A) ->
    {event(send, [Pattern, option(to, Options, A)], A), []};
term({send, call}, Pattern, Options, A) ->
    Message = tuple(['$gen_call', tuple([any(A), option(ref, Options, A)], A), Pattern], A),
    {event(send, [Message, option(to, Options, A)], A), []};
term({send, cast}, Pattern, Options, A) ->
    {event(send, [tuple(['$gen_cast', Pattern], A), option(to, Options, A)], A), []};
term('receive', Pattern, _Options, A) ->
    {event('receive', [Pattern], A), []};
term(cast, Pattern, _Options, A) ->
    {event('receive', [tuple(['$gen_cast', Pattern], A)], A), []};
term(info, Pattern, _Options, A) ->
    {event('receive', [both(?MESSAGE, Pattern, A)], A), guard(?IS_INFO, A)};
term(reply, Pattern, Options, A) ->
    {event(send, [tagged(Pattern, Options, A), any(A)], A), guard(?IS_TAG, A)};
term({'receive', reply}, Pattern, Options, A) ->
    {event('receive', [tagged(Pattern, Options, A)], A), guard(?IS_TAG, A)};
term(timeout, none, _Options, A) ->
    {event('receive', [timeout], A), []};
term(exit, Pattern, _Options, A) ->
    {event(exit, [Pattern], A), []};
term(any, none, _Options, A) ->
    {{var, A, ?MESSAGE}, guard(?IS_ANY, A)};
term(call, Pattern, Options, A) ->
    case function(Pattern) of
        {M, F, Args} when is_list(Args) ->
            {event(call, [tuple([M, F, list(Args, A)], A)], A), []};
        {M, F, Arity} ->
            {event(call, [tuple([M, F, list(lists:duplicate(Arity, any(A)), A)], A)], A), []};
        none ->
            From = tuple([any(A), option(ref, Options, A)], A),
            {event('receive', [tuple(['$gen_call', From, Pattern], A)], A), []}
    end;
term(Kind, {tuple, _, [Function, Value]}, _Options, A) when Kind =:= return; Kind =:= exception ->
    {M, F, Arity} = the_function(Function, A),
    {event(Kind, [tuple([M, F, {integer, A, arity(Arity)}], A), Value], A), []};
term(Kind, Pattern, Options, A) when Kind =:= spawn; Kind =:= spawned ->
    Other = option(other(Kind), Options, A),
    case function(Pattern) of
        {M, F, Args} when is_list(Args) ->
            {event(Kind, [Other, tuple([M, F, list(Args, A)], A)], A), []};
        %% A fun has its arity, a function its arguments.
        {M, F, Arity} ->
            Text = io_lib:format(
                "~b =:= Dyno_Arguments orelse ~b =:= length(Dyno_Arguments)", [Arity, Arity]
            ),
            {event(Kind, [Other, tuple([M, F, {var, A, ?ARGUMENTS}], A)], A), guard(Text, A)};
        none ->
            {event(Kind, [Other, Pattern], A), []}
    end.

other(spawn) -> as;
other(spawned) -> by.

allowed(Kind, Options, Location) ->
    Of = #{
        send => [to],
        {send, call} => [to, ref],
        {send, cast} => [to],
        call => [ref],
        reply => [ref],
        {'receive', reply} => [ref],
        spawn => [as],
        spawned => [by]
    },
    Allowed = maps:get(Kind, Of, []),
    case maps:keys(Options) -- Allowed of
        [] -> ok;
        [Word | _] -> throw({Location, {not_of_this_event, Word, Allowed}})
    end.

tagged(Pattern, Options, A) ->
    tuple([both(?TAG, option(ref, Options, A), A), Pattern], A).

option(Name, Options, A) -> maps:get(Name, Options, any(A)).

event(Kind, Elements, A) -> tuple([Kind | Elements], A).

tuple(Elements, A) -> {tuple, A, [element_of(Element, A) || Element <- Elements]}.

element_of(Atom, A) when is_atom(Atom) -> {atom, A, Atom};
element_of(Expr, _A) -> Expr.

list(Elements, A) ->
    lists:foldr(fun(Element, Tail) -> {cons, A, Element, Tail} end, {nil, A}, Elements).

any(A) -> {var, A, '_'}.

both(Ours, Pattern, A) -> {match, A, {var, A, Ours}, Pattern}.

guard(Text, A) ->
    {ok, Tokens, _} = erl_scan:string(lists:flatten(Text) ++ "."),
    {ok, Guard} = erl_parse:parse_exprs(Tokens),
    [erl_parse:map_anno(fun(_) -> A end, Test) || Test <- Guard].

function({call, _, {remote, _, M, F}, Args}) -> {M, F, Args};
function({op, _, '/', {remote, _, M, F}, {integer, _, Arity}}) -> {M, F, Arity};
function(_) -> none.

%% The traced functions must be known before an event.
the_function(Pattern, A) ->
    case function(Pattern) of
        {{atom, _, _}, {atom, _, _}, _} = Function -> Function;
        _ -> throw({erl_anno:location(A), function_expected})
    end.

arity(Args) when is_list(Args) -> length(Args);
arity(Arity) -> Arity.

-spec variables(dyno_specification_parser:event()) -> [atom()].
variables(Event) ->
    {Pattern, _} = pattern(Event),
    lists:uniq(variables_of(Pattern)) -- [?TAG, ?MESSAGE, ?ARGUMENTS].

-spec mentioned(dyno_specification_parser:event()) -> [atom()].
mentioned(Event) ->
    {Pattern, Guard} = pattern(Event),
    lists:uniq(variables_of([Pattern, Guard])) -- [?TAG, ?MESSAGE, ?ARGUMENTS].

variables_of({var, _, '_'}) ->
    [];
variables_of({var, _, Name}) ->
    [Name];
variables_of(Exprs) when is_list(Exprs) -> lists:append([variables_of(Expr) || Expr <- Exprs]);
variables_of(Expr) when is_tuple(Expr), tuple_size(Expr) > 2 ->
    variables_of(lists:nthtail(2, tuple_to_list(Expr)));
variables_of(_) ->
    [].

-doc "The event with any earlier bindings, without guards on these: it names a match.".
-spec shape(dyno_specification_parser:event(), Keys :: [atom()]) -> head().
shape(Event, Keys) ->
    {Pattern, Guard} = pattern(Event),
    Wide = wide(Pattern),
    Bound = variables_of(Wide) ++ Keys,
    case lists:uniq(variables_of(Guard)) -- Bound of
        [] -> {Wide, Guard};
        _ -> {Wide, element(2, pattern(Event#{guard := []}))}
    end.

%% A map's key and a size must be bound, which may fail without the earlier bindings.
wide({map, A, Fields}) ->
    case variables_of([Key || {_, _, Key, _} <- Fields]) of
        [] -> {map, A, [{Kind, B, Key, wide(Value)} || {Kind, B, Key, Value} <- Fields]};
        _ -> any(A)
    end;
wide({bin, A, Segments}) ->
    case variables_of([Size || {bin_element, _, _, Size, _} <- Segments]) of
        [] -> {bin, A, Segments};
        _ -> any(A)
    end;
wide({tuple, A, Elements}) ->
    {tuple, A, [wide(Element) || Element <- Elements]};
wide({cons, A, Head, Tail}) ->
    {cons, A, wide(Head), wide(Tail)};
wide({match, A, Left, Right}) ->
    {match, A, wide(Left), wide(Right)};
wide(Pattern) ->
    Pattern.

-doc "The tracing required to see all these events, and if strict, all others.".
-spec needs([dyno_specification_parser:event()], Strict :: boolean()) ->
    [dyno_agent_monitor:event_filter()].
needs(Events, Strict) ->
    All = [Need || Strict, Need <- all()],
    Needs = lists:usort(All ++ lists:append([need(Event) || Event <- Events])),
    Plain = [Need || Need <- Needs, is_atom(Need)],
    Heads = fun(Kind) -> [Head || {K, Head} <- Needs, K =:= Kind] end,
    Filters = [
        {Kind, Heads(Kind)}
     || Kind <- [send, 'receive'], not lists:member(Kind, Plain), Heads(Kind) =/= []
    ],
    Plain ++ Filters ++ [Need || Need <- Needs, is_tuple(Need), tuple_size(Need) > 2].

all() -> [send, 'receive', spawn, exit].

need(#{kind := any}) ->
    all();
need(#{location := Location} = Event) ->
    case pattern(Event) of
        {{tuple, _, [{atom, _, send}, Message, To]}, _} ->
            filter(send, [head(To)], head(Message));
        {{tuple, _, [{atom, _, 'receive'}, Message]}, _} ->
            filter('receive', ['_', '_'], head(Message));
        {{tuple, _, [{atom, _, call}, {tuple, _, [{atom, _, M}, {atom, _, F}, Args]}]}, _} ->
            [{call, M, F, elements(Args), undefined}];
        {{tuple, _, [{atom, _, call} | _]}, _} ->
            throw({Location, function_expected});
        {{tuple, _, [{atom, _, Kind}, {tuple, _, [{_, _, M}, {_, _, F}, {_, _, A}]}, _]}, _} when
            Kind =:= return; Kind =:= exception
        ->
            [{return, M, F, A}];
        {{tuple, _, [{atom, _, spawned} | _]}, _} ->
            [];
        {{tuple, _, [{atom, _, Kind} | _]}, _} ->
            [Kind]
    end.

filter(Kind, ['_'], '_') ->
    [Kind];
filter(Kind, ['_', '_'], '_') ->
    [Kind];
filter(Kind, Before, {'$1', _} = Reply) ->
    IsAlias = {'andalso', {is_list, '$1'}, {'=:=', {hd, '$1'}, alias}},
    Tag = {'orelse', {is_reference, '$1'}, IsAlias},
    [{Kind, {Before ++ [Reply], [Tag]}}];
filter(Kind, Before, Message) ->
    [{Kind, {Before ++ [Message], []}}].

elements({cons, _, _, Tail}) -> 1 + elements(Tail);
elements({nil, _}) -> 0.

%% The part of a pattern that a match specification can express; wider if necessary.
head({atom, _, Atom}) -> Atom;
head({integer, _, Integer}) -> Integer;
head({char, _, Char}) -> Char;
head({string, _, String}) -> String;
head({nil, _}) -> [];
head({cons, _, Head, Tail}) -> [head(Head) | head(Tail)];
head({tuple, _, Elements}) -> list_to_tuple([head(Element) || Element <- Elements]);
head({match, _, {var, _, ?TAG}, _}) -> '$1';
head({match, _, {var, _, _}, Pattern}) -> head(Pattern);
head({match, _, Pattern, _}) -> head(Pattern);
head(_) -> '_'.
