%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_specification_meaning).
-moduledoc false.
%% What specifications mean, written as the textbooks do, over whole traces and without any thought
%% of time: fixed points are iterated over sets of positions, regular expressions tried every way,
%% past formulas computed from their definition. With generators, and the text of what they make.

-export([regexp/0, keyed_regexp/0, formula/0, past/0, event/0, text/1, nullable/1, holds/3]).

-include("../support/dyno_proper.hrl").

-import(proper_types, [elements/1, frequency/1]).

%% Patterns are {send | 'receive', a | b, Value}, where the value is a variable, a number or '_'.

event() ->
    ?LET(
        {Kind, Tag, Value},
        {elements([send, 'receive']), elements([a, b]), elements([1, 2])},
        case Kind of
            send -> {send, {Tag, Value}, peer};
            'receive' -> {'receive', {Tag, Value}}
        end
    ).

pattern(Values) ->
    {pattern, elements([send, 'receive']), elements([a, b]), elements(Values)}.

regexp() -> proper_types:sized(fun(Size) -> regexp(min(Size, 8), [1, 'N', 'M', '_', 'N']) end).

%% All have the key, or none of its places.
keyed_regexp() -> proper_types:sized(fun(Size) -> regexp(min(Size, 8), ['N', 'N', 'N', '_']) end).

regexp(Size, Values) when Size =< 1 ->
    pattern(Values);
regexp(Size, Values) ->
    Half = regexp(Size div 2, Values),
    frequency([
        {1, pattern(Values)},
        {4, {then, Half, Half}},
        {2, {later, Half, pattern(Values)}},
        {2, {'|', Half, Half}},
        {2, {elements([star, plus, optional]), regexp(Size - 2, Values)}}
    ]).

formula() -> proper_types:sized(fun(Size) -> formula(min(Size, 9), [], []) end).

%% A name stands behind an event only: `Usable` are those that have one between.
formula(Size, Usable, _Names) when Size =< 1 ->
    elements([true, false | [{name, Name} || Name <- Usable]]);
formula(Size, Usable, Names) ->
    Name = list_to_atom([$X, $0 + length(Names)]),
    Half = formula(Size div 2, Usable, Names),
    frequency([
        {1, elements([true, false | [{name, N} || N <- Usable]])},
        {6, {
            elements([box, diamond]),
            pattern([1, 'N', 'M', '_', 'N']),
            formula(Size - 1, Names, Names)
        }},
        {3, {elements(['and', 'or']), Half, Half}},
        {2, {elements([max, min]), Name, formula(Size - 1, Usable, [Name | Names])}}
    ]).

past() -> proper_types:sized(fun(Size) -> past(min(Size, 10)) end).

past(Size) when Size =< 1 ->
    frequency([{5, pattern([1, 2, '_'])}, {1, proper_types:boolean()}]);
past(Size) ->
    Half = past(Size div 2),
    frequency([
        {1, pattern([1, 2, '_'])},
        {4, {elements(['not', previously, once, historically]), past(Size - 1)}},
        {4, {elements(['and', 'or', implies, since]), Half, Half}}
    ]).

%% Text, with brackets wherever they may stand.

text({pattern, Kind, Tag, Value}) ->
    io_lib:format("~ts {~ts, ~ts}", [Kind, Tag, shown(Value)]);
text({then, A, B}) ->
    ["(", text(A), " then ", text(B), ")"];
text({later, A, B}) ->
    ["(", text(A), " then eventually ", text(B), ")"];
text({'|', A, B}) ->
    ["(", text(A), " | ", text(B), ")"];
text({star, A}) ->
    ["(", text(A), ")*"];
text({plus, A}) ->
    ["(", text(A), ")+"];
text({optional, A}) ->
    ["(", text(A), ")?"];
text(Truth) when is_boolean(Truth) -> atom_to_list(Truth);
text({name, Name}) ->
    atom_to_list(Name);
text({box, Pattern, A}) ->
    ["[", text(Pattern), "] ", text(A)];
text({diamond, Pattern, A}) ->
    ["<", text(Pattern), "> ", text(A)];
text({Kind, Name, A}) when Kind =:= max; Kind =:= min ->
    ["(", atom_to_list(Kind), " ", atom_to_list(Name), ". ", text(A), ")"];
text({Word, A, B}) ->
    ["(", text(A), " ", atom_to_list(Word), " ", text(B), ")"];
text({Word, A}) ->
    [atom_to_list(Word), " (", text(A), ")"].

shown(Value) when is_integer(Value) -> integer_to_list(Value);
shown(Name) -> atom_to_list(Name).

%% Meaning

holds(follows, Regexp, Trace) ->
    lists:any(fun({Rest, _}) -> Rest =:= [] end, matches(Regexp, Trace, #{}));
holds(never, Regexp, Trace) ->
    not lists:any(fun(From) -> matches(Regexp, From, #{}) =/= [] end, suffixes(Trace));
holds(satisfies, Formula, Trace) ->
    lists:member(0, where(Formula, Trace, #{}, #{}));
holds(always, Past, Trace) ->
    lists:all(fun(At) -> at(Past, At, Trace) end, lists:seq(1, length(Trace)));
%% Of each value of N that some event has where the pattern has N: the events with that value or
%% with none, as long as they are named at all.
holds(each, Regexp, Trace) ->
    Patterns = patterns(Regexp),
    Keys = [N || Event <- Trace, P <- Patterns, {key, N} <- [named(P, Event)]],
    lists:all(
        fun(Key) ->
            Own = [
                E
             || E <- Trace,
                lists:any(fun(P) -> lists:member(named(P, E), [all, {key, Key}]) end, Patterns)
            ],
            lists:any(fun({Rest, _}) -> Rest =:= [] end, matches(Regexp, Own, #{'N' => Key}))
        end,
        lists:usort(Keys)
    ).

named({pattern, _, _, 'N'} = Pattern, Event) ->
    case match(Pattern, Event, #{}) of
        {ok, #{'N' := Key}} -> {key, Key};
        no -> no
    end;
named(Pattern, Event) ->
    case match(Pattern, Event, #{}) of
        {ok, _} -> all;
        no -> no
    end.

patterns({pattern, _, _, _} = Pattern) -> [Pattern];
patterns({_, A, B}) -> patterns(A) ++ patterns(B);
patterns({_, A}) -> patterns(A).

suffixes([]) -> [[]];
suffixes([_ | Rest] = Trace) -> [Trace | suffixes(Rest)].

match({pattern, Kind, Tag, Value}, Event, Env) ->
    case {element(1, Event), element(2, Event), Value, Env} of
        {Kind, {Tag, _}, '_', _} ->
            {ok, Env};
        {Kind, {Tag, Number}, Number, _} ->
            {ok, Env};
        {Kind, {Tag, Number}, Name, #{}} when is_atom(Name), not is_map_key(Name, Env) ->
            {ok, Env#{Name => Number}};
        {Kind, {Tag, Number}, Name, _} when map_get(Name, Env) =:= Number -> {ok, Env};
        _ ->
            no
    end.

%% What may be left of the trace after a match of its beginning, with what is bound.
matches({pattern, _, _, _} = Pattern, [Event | Rest], Env) ->
    case match(Pattern, Event, Env) of
        {ok, Bound} -> [{Rest, Bound}];
        no -> []
    end;
matches({pattern, _, _, _}, [], _Env) ->
    [];
matches({then, A, B}, Trace, Env) ->
    lists:usort([M || {Rest, Bound} <- matches(A, Trace, Env), M <- matches(B, Rest, Bound)]);
matches({later, A, B}, Trace, Env) ->
    lists:usort([
        M
     || {Rest, Bound} <- matches(A, Trace, Env),
        From <- suffixes(Rest),
        M <- matches(B, From, Bound)
    ]);
matches({'|', A, B}, Trace, Env) ->
    Common = maps:keys(Env) ++ [V || V <- binds(A), lists:member(V, binds(B))],
    lists:usort([
        {Rest, maps:with(Common, Bound)}
     || {Rest, Bound} <- matches(A, Trace, Env) ++ matches(B, Trace, Env)
    ]);
matches({optional, A}, Trace, Env) ->
    lists:usort([{Trace, Env} | [{Rest, Env} || {Rest, _} <- matches(A, Trace, Env)]]);
matches({plus, A}, Trace, Env) ->
    Once = lists:usort([Rest || {Rest, _} <- matches(A, Trace, Env)]),
    lists:usort([M || Rest <- Once, M <- repeats(A, Rest, Env)]);
matches({star, A}, Trace, Env) ->
    repeats(A, Trace, Env).

repeats(A, Trace, Env) ->
    Shorter = [Rest || {Rest, _} <- matches(A, Trace, Env), length(Rest) < length(Trace)],
    lists:usort([{Trace, Env} | [M || Rest <- Shorter, M <- repeats(A, Rest, Env)]]).

%% What is bound behind it.
binds({pattern, _, _, Value}) when is_atom(Value), Value =/= '_' -> [Value];
binds({pattern, _, _, _}) -> [];
binds({Then, A, B}) when Then =:= then; Then =:= later -> lists:usort(binds(A) ++ binds(B));
binds({'|', A, B}) -> [V || V <- binds(A), lists:member(V, binds(B))];
binds({_, _}) -> [].

nullable({pattern, _, _, _}) -> false;
nullable({then, A, B}) -> nullable(A) andalso nullable(B);
nullable({later, _, _}) -> false;
nullable({'|', A, B}) -> nullable(A) orelse nullable(B);
nullable({plus, A}) -> nullable(A);
nullable({_, _}) -> true.

%% The positions (0 is before the first event) where a formula holds; `Sets` are those of the names.
where(true, Trace, _Env, _Sets) ->
    positions(Trace);
where(false, _Trace, _Env, _Sets) ->
    [];
where({name, Name}, _Trace, _Env, Sets) ->
    map_get(Name, Sets);
where({'and', A, B}, Trace, Env, Sets) ->
    ordsets:intersection(where(A, Trace, Env, Sets), where(B, Trace, Env, Sets));
where({'or', A, B}, Trace, Env, Sets) ->
    ordsets:union(where(A, Trace, Env, Sets), where(B, Trace, Env, Sets));
where({Modality, Pattern, A}, Trace, Env, Sets) when Modality =:= box; Modality =:= diamond ->
    Matches = [match(Pattern, Event, Env) || Event <- Trace],
    After = #{Bound => where(A, Trace, Bound, Sets) || {ok, Bound} <- lists:usort(Matches)},
    [
        Position
     || {Position, Match} <- lists:enumerate(0, Matches ++ [no]),
        case Match of
            {ok, Bound} -> lists:member(Position + 1, map_get(Bound, After));
            no -> Modality =:= box
        end
    ];
where({max, Name, A}, Trace, Env, Sets) ->
    fixed_point(Name, A, Trace, Env, Sets, positions(Trace));
where({min, Name, A}, Trace, Env, Sets) ->
    fixed_point(Name, A, Trace, Env, Sets, []).

fixed_point(Name, A, Trace, Env, Sets, Set) ->
    case where(A, Trace, Env, Sets#{Name => Set}) of
        Set -> Set;
        Next -> fixed_point(Name, A, Trace, Env, Sets, Next)
    end.

positions(Trace) -> lists:seq(0, length(Trace)).

at(Truth, _At, _Trace) when is_boolean(Truth) -> Truth;
at({pattern, _, _, _} = Pattern, At, Trace) ->
    match(Pattern, lists:nth(At, Trace), #{}) =/= no;
at({'not', A}, At, Trace) ->
    not at(A, At, Trace);
at({previously, A}, At, Trace) ->
    At > 1 andalso at(A, At - 1, Trace);
at({once, A}, At, Trace) ->
    lists:any(fun(I) -> at(A, I, Trace) end, lists:seq(1, At));
at({historically, A}, At, Trace) ->
    lists:all(fun(I) -> at(A, I, Trace) end, lists:seq(1, At));
at({'and', A, B}, At, Trace) ->
    at(A, At, Trace) andalso at(B, At, Trace);
at({'or', A, B}, At, Trace) ->
    at(A, At, Trace) orelse at(B, At, Trace);
at({implies, A, B}, At, Trace) ->
    not at(A, At, Trace) orelse at(B, At, Trace);
at({since, A, B}, At, Trace) ->
    lists:any(
        fun(I) ->
            at(B, I, Trace) andalso
                lists:all(fun(J) -> at(A, J, Trace) end, lists:seq(I + 1, At))
        end,
        lists:seq(1, At)
    ).
