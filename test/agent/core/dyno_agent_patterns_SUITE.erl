%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_patterns_SUITE).
-moduledoc "Patterns of functions: their text, and what they mean on this node.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-import(proper_types, [oneof/1, integer/2, list/1, non_empty/1]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        reads_text,
        refuses_text,
        prints_what_it_reads,
        validates_terms,
        matches_as_the_naive_way,
        finds_functions,
        resolves_applications,
        names_what_means_nothing,
        modules_may_come_and_go,
        suggests,
        names_are_their_languages,
        stars_of_elixir
    ].

reads_text(_Config) ->
    Cases = [
        {"lists:sort/1", {lists, sort, 1}},
        {" lists:sort/1 ", {lists, sort, 1}},
        {"lists:sort/_", {lists, sort, '_'}},
        {"lists:sort", {lists, sort, '_'}},
        {"lists", {lists, '_', '_'}},
        {"cowboy_*", {'cowboy_*', '_', '_'}},
        {"cowboy_*:handle*", {'cowboy_*', 'handle*', '_'}},
        {"app:cowboy", {application, cowboy}},
        {"'Elixir.My.Mod':run?/2", {'Elixir.My.Mod', 'run?', 2}},
        {"Elixir.My.Mod", {'Elixir.My.Mod', '_', '_'}},
        {"My.Mod", {'Elixir.My.Mod', '_', '_'}},
        {"Mod", {'Elixir.Mod', '_', '_'}},
        {"My.*", {'Elixir.My.*', '_', '_'}},
        {"My.Mod*", {'Elixir.My.Mod*', '_', '_'}},
        {"My.Mod.get!", {'Elixir.My.Mod', 'get!', '_'}},
        {"My.Mod.valid?/2", {'Elixir.My.Mod', 'valid?', 2}},
        {"My.Mod.+/2", {'Elixir.My.Mod', '+', 2}},
        {"My.\"-get/1-fun-0-\"/1", {'Elixir.My', '-get/1-fun-0-', 1}},
        {":lists.sort/1", {lists, sort, 1}},
        {":ets", {ets, '_', '_'}},
        {"'My':get/1", {'My', get, 1}},
        {"Elixir.My.Mod:get/1", {'Elixir.My.Mod', get, 1}},
        {"Elixir.My.Mod:get", {'Elixir.My.Mod', get, '_'}},
        {"Elixir.My:'-get/1-fun-0-'/1", {'Elixir.My', '-get/1-fun-0-', 1}},
        {~"lists:sort/1", {lists, sort, 1}}
    ],
    [
        ?assertEqual({ok, Pattern}, dyno_agent_patterns:parse(Text), Text)
     || {Text, Pattern} <- Cases
    ].

refuses_text(_Config) ->
    lists:foreach(
        fun(Text) ->
            {error, Reason} = dyno_agent_patterns:parse(Text),
            Sentence = unicode:characters_to_list(dyno_agent_patterns:format_error(Reason)),
            ?assertMatch({match, _}, re:run(Sentence, "is not a pattern")),
            ?assertEqual(nomatch, re:run(Sentence, "\n"))
        end,
        [
            "",
            " ",
            "lists:sort/x",
            "lists:sort/256",
            "a b",
            "lists:sort/1/2",
            "lists:sort/-1",
            ":f/1",
            "My/2"
        ]
    ).

prints_what_it_reads(_Config) ->
    Chars = oneof([
        integer($a, $z), integer($A, $Z), integer($0, $9), $_, $*, $?, $., $\s, $:, $/
    ]),
    Name = non_empty(list(Chars)),
    Property = proper:forall(
        {oneof([whole, function, arity, application]), Name, Name, integer(0, 255)},
        fun({Kind, M, F, A}) ->
            Pattern = pattern(Kind, name(M), name(F), A),
            dyno_agent_patterns:parse(dyno_agent_patterns:print(Pattern)) =:= {ok, Pattern}
        end
    ),
    dyno_property:holds(Property, 1000).

pattern(whole, M, _F, _A) -> {M, '_', '_'};
pattern(function, M, F, _A) -> {M, F, '_'};
pattern(arity, M, F, A) -> {M, F, A};
pattern(application, M, _F, _A) -> {application, M}.

%% "app" as a module's name would be read as an application.
name(Text) -> list_to_atom(first(Text) ++ lists:sublist(Text, 30)).

%% A capital letter begins a module of Elixir, unless it is quoted.
first([C | _]) when C >= $A, C =< $Z -> [];
first(_Text) -> "m".

validates_terms(_Config) ->
    Good = [{lists, sort, 1}, {lists, '_', '_'}, {'_', '_', '_'}, {application, kernel}],
    Bad = [lists, {lists, sort}, {lists, sort, 256}, {lists, sort, -1}, {"lists", sort, 1}, {}],
    [?assertEqual(ok, dyno_agent_patterns:validate(P)) || P <- Good],
    [?assertEqual({error, {bad_pattern, P}}, dyno_agent_patterns:validate(P)) || P <- Bad].

%% Over all functions of stdlib: by the module's functions, and by trying each.
matches_as_the_naive_way(_Config) ->
    {ok, Modules} = application:get_key(stdlib, modules),
    Loaded = [M || M <- Modules, erlang:module_loaded(M)],
    Patterns = [
        {'gen_*', 'init*', '_'}, {lists, '_', 2}, {'_', format_status, '_'}, {maps, '_', '_'}
    ],
    Naive = [
        {M, F, A}
     || M <- Loaded,
        {F, A} <- erlang:get_module_info(M, functions),
        lists:any(fun(P) -> means(P, {M, F, A}) end, Patterns)
    ],
    Ours = [F || M <- Loaded, F <- dyno_agent_patterns:functions(M, Patterns)],
    ?assert(length(Naive) > 100),
    ?assertEqual(lists:sort(Naive), lists:sort(Ours)),
    [?assert(dyno_agent_patterns:matches(MFA, Patterns)) || MFA <- Naive],
    ?assertNot(dyno_agent_patterns:matches({lists, sort, 1}, Patterns)).

means({PM, PF, PA}, {M, F, A}) ->
    means_name(PM, M) andalso means_name(PF, F) andalso (PA =:= '_' orelse PA =:= A).

means_name('_', _) -> true;
means_name('gen_*', M) -> re:run(atom_to_list(M), "^gen_") =/= nomatch;
means_name('init*', F) -> re:run(atom_to_list(F), "^init") =/= nomatch;
means_name(Name, Name) -> true;
means_name(_, _) -> false.

finds_functions(_Config) ->
    ?assertEqual(
        [{lists, F, A} || {F, A} <- lists:module_info(functions)],
        dyno_agent_patterns:functions(lists, [{lists, '_', '_'}])
    ),
    ?assertEqual([{lists, '_', '_'}], dyno_agent_patterns:specs(lists, [{lists, '_', '_'}])),
    ?assertEqual([{lists, sort, 1}], dyno_agent_patterns:functions(lists, [{lists, sort, 1}])),
    ?assertEqual([], dyno_agent_patterns:functions(lists, [{maps, '_', '_'}])),
    ?assertEqual([], dyno_agent_patterns:functions(no_such_module, [{no_such_module, f, 1}])).

resolves_applications(_Config) ->
    {ok, Modules} = application:get_key(stdlib, modules),
    Resolved = dyno_agent_patterns:resolve([{application, stdlib}, {application, stdlib}]),
    ?assertEqual(lists:sort([{M, '_', '_'} || M <- Modules]), Resolved),
    ?assertEqual(
        [{application, no_such_app}], dyno_agent_patterns:resolve([{application, no_such_app}])
    ).

names_what_means_nothing(_Config) ->
    Bad = [{listz, '_', '_'}, {lists, sorted, 1}, {application, no_such_app}, {'zzzz*', '_', '_'}],
    %% On the code path, loaded or not.
    Good = [{lists, sort, 1}, {zip, '_', '_'}, {application, stdlib}, {'list*', '_', '_'}],
    ?assertEqual(
        lists:zip(Bad, [{ok, "lists"}, {ok, "sort/1"}, none, none]),
        dyno_agent_patterns:unmatched(Bad)
    ),
    ?assertEqual([], dyno_agent_patterns:unmatched(Good)).

%% The emulator crashes within a second where erlang:loaded/0 is asked for them meanwhile.
modules_may_come_and_go(_Config) ->
    {ok, Peer, _Node} = peer:start(#{
        connection => standard_io,
        args => ["-pa", filename:dirname(code:which(?MODULE)) | paths()]
    }),
    ?assertEqual(ok, peer:call(Peer, ?MODULE, look_while_they_come_and_go, [2000], 60_000)),
    peer:stop(Peer).

paths() -> ["-pa", filename:dirname(code:which(dyno_agent_patterns))].

look_while_they_come_and_go(Ms) ->
    Objects = [
        begin
            Forms = [{attribute, 1, module, list_to_atom("come_" ++ integer_to_list(N))}],
            {ok, Module, Binary} = compile:forms(Forms),
            {Module, Binary}
        end
     || N <- lists:seq(1, 50)
    ],
    _ = spawn_link(fun() -> come_and_go(Objects, Objects) end),
    look(erlang:monotonic_time(millisecond) + Ms).

come_and_go([], Objects) ->
    come_and_go(Objects, Objects);
come_and_go([{Module, Binary} | Rest], Objects) ->
    {module, Module} = code:load_binary(Module, "come", Binary),
    true = code:delete(Module),
    _ = code:purge(Module),
    come_and_go(Rest, Objects).

look(EndMs) ->
    true = lists:member(lists, dyno_agent_patterns:loaded()),
    case erlang:monotonic_time(millisecond) < EndMs of
        true -> look(EndMs);
        false -> ok
    end.

suggests(_Config) ->
    ?assertEqual({ok, "cowboy"}, dyno_agent_patterns:nearest("cowbyo", ["cowboy", "ranch"])),
    ?assertEqual(none, dyno_agent_patterns:nearest("xyz", ["cowboy", "ranch"])),
    ?assertEqual(none, dyno_agent_patterns:nearest("xyz", [])).

%% As it is printed, so it is read.
names_are_their_languages(_Config) ->
    [
        begin
            ?assertEqual(Text, dyno_agent_name:mfa(MFA)),
            ?assertEqual({ok, MFA}, dyno_agent_patterns:parse(Text)),
            ?assertEqual(Text, dyno_agent_patterns:print(MFA))
        end
     || {Text, MFA} <- [
            {~"lists:sort/1", {lists, sort, 1}},
            {~"Shop.price/1", {'Elixir.Shop', price, 1}},
            {~"Shop.Cart.empty?/1", {'Elixir.Shop.Cart', 'empty?', 1}},
            {~"Shop.Cart.add!/2", {'Elixir.Shop.Cart', 'add!', 2}},
            {~"Shop.+/2", {'Elixir.Shop', '+', 2}},
            {~"Shop.\"-price/1-fun-0-\"/1", {'Elixir.Shop', '-price/1-fun-0-', 1}},
            {~"Shop.größe/0", {'Elixir.Shop', 'größe', 0}}
        ]
    ],
    ?assertEqual(~"'Elixir':f/1", dyno_agent_name:mfa({'Elixir', f, 1})),
    ?assertEqual(~"'Elixir.shop'", dyno_agent_name:module('Elixir.shop')).

%% Shop.* means Shop as well; shop_* has no such module.
stars_of_elixir(_Config) ->
    Pattern = [{'Elixir.Shop.*', '_', '_'}],
    Means = fun(M) -> dyno_agent_patterns:matches_module(M, Pattern) end,
    ?assertEqual(
        [true, true, false, false],
        [Means(M) || M <- ['Elixir.Shop', 'Elixir.Shop.Cart', 'Elixir.Shopping', 'Elixir.Sho']]
    ),
    ?assertNot(dyno_agent_patterns:matches_module(shop, [{'shop_*', '_', '_'}])),
    %% Not loaded, but on the code path.
    false = code:is_loaded(diameter),
    ?assertEqual([], dyno_agent_patterns:unmatched([{'diameter_t*', '_', '_'}])),
    ?assertMatch([_], dyno_agent_patterns:unmatched([{'diametric_*', '_', '_'}])).
