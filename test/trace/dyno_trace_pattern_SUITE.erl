%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace_pattern_SUITE).
-moduledoc "What patterns mean, and what is said of those that mean nothing.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() ->
    [
        functions,
        arguments,
        elixir,
        elixir_is_matched,
        several_guards,
        messages,
        actions,
        what_is_wrong,
        breakpoints
    ].

functions(_Config) ->
    [
        ?assertEqual({call, Function}, {
            map_get(event, parsed(Text)), map_get(function, parsed(Text))
        })
     || {Text, Function} <- [
            {"lists:seq/2", {lists, seq, 2}},
            {"lists:seq", {lists, seq, '_'}},
            {"lists:seq/_", {lists, seq, '_'}},
            {" lists:_ ", {lists, '_', '_'}},
            {"lists", {lists, '_', '_'}},
            {"_:_", {'_', '_', '_'}},
            {"send:more/1", {send, more, 1}},
            {"'odd module':'a-b'/0", {'odd module', 'a-b', 0}},
            {"MyApp.Mod.fun/2", {'Elixir.MyApp.Mod', 'fun', 2}},
            {"MyApp.Mod.ok?(1)", {'Elixir.MyApp.Mod', 'ok?', 1}},
            {"Elixir.MyApp.go!", {'Elixir.MyApp', 'go!', '_'}},
            {"MyApp", {'Elixir.MyApp', '_', '_'}},
            {"Elixir.MyApp.Mod:fun/2", {'Elixir.MyApp.Mod', 'fun', 2}},
            {"Elixir.MyApp.Mod:fun", {'Elixir.MyApp.Mod', 'fun', '_'}},
            {"Elixir.MyApp:fun(_, n)", {'Elixir.MyApp', 'fun', 2}},
            {"'Elixir.MyApp':'fun'(_, N)", {'Elixir.MyApp', 'fun', 2}},
            {":lists.seq/2", {lists, seq, 2}},
            {":lists.seq(a, _)", {lists, seq, 2}},
            {"MyApp.+/2", {'Elixir.MyApp', '+', 2}},
            {"MyApp.\"-go/1-fun-0-\"/1", {'Elixir.MyApp', '-go/1-fun-0-', 1}}
        ]
    ].

arguments(_Config) ->
    ?assertMatch(
        #{function := {m, f, 2}, clauses := [{['_', {key, '$1'}], [{'>', '$1', 5}]}]},
        parsed("m:f(_, {key, K}) when K > 5")
    ),
    ?assertMatch(#{function := {m, f, 0}, clauses := [{[], []}]}, parsed("m:f()")),
    ?assertMatch(#{clauses := [{['$1', '$1'], []}]}, parsed("m:f(A, A)")),
    ?assertMatch(#{clauses := [{[#{id := '$1'}], [_]}]}, parsed("m:f(#{id := I}) when is_atom(I)")),
    ?assertMatch(#{clauses := [{["abc", ~"d"], []}]}, parsed("m:f(\"abc\", ~\"d\")")).

%% Small letters are variables, where the module is in Elixir's spelling.
elixir(_Config) ->
    [
        ?assertEqual({Text, Clauses}, {Text, map_get(clauses, parsed(Text))})
     || {Text, Clauses} <- [
            {"Shop.order(_, n) when n > 5 -> return", [{['_', '$1'], [{'>', '$1', 5}]}]},
            {"Shop.f(:n, _x, nil, true, Shop.Cart)", [
                {[n, '$1', nil, true, 'Elixir.Shop.Cart'], []}
            ]},
            {"Shop.f(%{\"a\" => x, id: x}, %{})", [{[#{~"a" => '$1', id => '$1'}, #{}], []}]},
            {"Shop.f(%Cart{id: id}) when id in [1, 2]", [
                {[#{'__struct__' => 'Elixir.Cart', id => '$1'}], [
                    {'orelse', {'=:=', '$1', 1}, {'=:=', '$1', 2}}
                ]}
            ]},
            {"Shop.f([a: 1, b: x], [h | _], {:ok, -1}, 'ab', ?c, 0xF, 1_000.5)", [
                {[[{a, 1}, {b, '$1'}], ['$2' | '_'], {ok, -1}, "ab", $c, 15, 1000.5], []}
            ]},
            {"Shop.f(\"a\" <> \"b\")", [{[~"ab"], []}]},
            {"Shop.f(x) when x == 1 and not is_nil(x) or x != 2", [
                {['$1'], [
                    {'orelse', {'andalso', {'==', '$1', 1}, {'not', {'=:=', '$1', nil}}},
                        {'/=', '$1', 2}}
                ]}
            ]}
        ]
    ].

%% As the runtime matches.
elixir_is_matched(_Config) ->
    [
        begin
            Specs = [{Head, Guards, [true]} || {Head, Guards} <- map_get(clauses, parsed(Text))],
            {ok, Is, _, _} = erlang:match_spec_test(Arguments, Specs, trace),
            ?assertEqual({Text, Arguments, Expected}, {Text, Arguments, Is})
        end
     || {Text, Yes, No} <- [
            {"Shop.f(\"ab\" <> _)", [[~"abc"], [~"ab"]], [[~"a"], [~"ba"], [ab]]},
            {"Shop.f(%{})", [[#{}], [#{a => 1}]], [[5], [[]], [{}]]},
            {"Shop.f(%{id: 1})", [[#{id => 1}], [#{id => 1, a => 2}]], [[#{id => 2}], [#{}]]},
            {"Shop.f(%Cart{})", [[#{'__struct__' => 'Elixir.Cart', id => 1}]], [[#{id => 1}]]},
            {"Shop.f(%name{}) when name == Cart", [[#{'__struct__' => 'Elixir.Cart'}]], [[#{}]]},
            {"Shop.f(x) when x in 1..3", [[1], [3]], [[0], [4], [1.5], [a]]},
            {"Shop.f(x) when x not in [1, :a]", [[2]], [[1], [a]]},
            {"Shop.f(x) when not x in [1]", [[2]], [[1]]},
            {"Shop.f(x) when x.id > 3 when is_nil(x)", [[#{id => 4}], [nil]], [[#{id => 3}], [4]]},
            {"Shop.f(t) when elem(t, 1) === 2 and tuple_size(t) == 2", [[{1, 2}]], [[{1, 2, 3}]]},
            {"Shop.f(x) when is_boolean(x)", [[true], [false]], [[nil]]},
            {"m:f(T) when tuple_size(T) =:= 1, is_boolean(element(1, T))", [[{true}]], [[{1}]]},
            {"Shop.f(x) when is_struct(x, Cart)", [[#{'__struct__' => 'Elixir.Cart'}]], [[#{}]]},
            {"Shop.f(m) when is_map_key(m, :a)", [[#{a => 1}]], [[#{b => 1}]]},
            {"Shop.f(x) when -x < 3 and (x + 1) * 2 >= 4", [[1], [7]], [[0], [-3]]},
            {"Shop.f(x) when div(x, 2) == 3 and rem(x, 2) != 0", [[7]], [[6]]}
        ],
        {Expected, All} <- [{true, Yes}, {false, No}],
        Arguments <- All
    ].

several_guards(_Config) ->
    ?assertMatch(
        #{clauses := [{['$1'], [{'>', '$1', 5}]}, {['$1'], [{'<', '$1', 0}]}]},
        parsed("m:f(A) when A > 5; A < 0")
    ).

messages(_Config) ->
    ?assertMatch(#{event := send, clauses := [{'_', []}]}, parsed("send")),
    ?assertMatch(#{event := send, clauses := [{['_', {a, '_'}], []}]}, parsed("send({a, _})")),
    ?assertMatch(#{event := send, clauses := [{[to, '_'], []}]}, parsed("send(to, _)")),
    ?assertMatch(
        #{event := 'receive', clauses := [{['_', '_', '$1'], [{is_list, '$1'}]}]},
        parsed("receive(M) when is_list(M)")
    ),
    ?assertEqual(
        [{'_', [], []}, {['_', x], [], []}],
        dyno_trace_pattern:messages(send, [parsed("send"), parsed("receive"), parsed("send(x)")])
    ),
    ?assertEqual([], dyno_trace_pattern:messages('receive', [parsed("send")])).

actions(_Config) ->
    ?assertMatch(#{actions := []}, parsed("m:f")),
    ?assertMatch(
        #{actions := [return, stack, caller, time]}, parsed("m:f/1 -> return, stack, caller; time")
    ),
    ?assertMatch(
        #{actions := [time], clauses := [{[_], [_]}]}, parsed("m:f(X) when X > 1 -> time")
    ).

%% The column of the caret, and a part of the sentence.
what_is_wrong(_Config) ->
    [
        begin
            {error, {dyno_trace_pattern, {_, Column, _} = Reason}} = dyno_trace_pattern:parse(Text),
            Said = unicode:characters_to_list(dyno_trace_pattern:format_error(Reason)),
            ?assertEqual({Text, At}, {Text, Column}),
            ?assertNotEqual(nomatch, string:find(Said, Part), Said)
        end
     || {Text, At, Part} <- [
            {"", 1, "nothing is named"},
            {"12", 1, "begins with a module"},
            {"m:", 3, "function's name"},
            {"m:12", 3, "function's name"},
            {"_:f", 1, "_:_"},
            {"Mod:f", 4, "a dot follows"},
            {"m:f/x", 5, "number of arguments"},
            {"m:f/1 return", 7, "->"},
            {"m:f(a b)", 7, "syntax error before: b"},
            {"m:f(a", 4, "this ( is not closed"},
            {"m:f([a, {b", 9, "this { is not closed"},
            {"m:f(A) when A >", 16, "something is missing at the end"},
            {"m:f(\"a", 6, "unterminated"},
            {"m:f(a) -> retrun", 11, "did you mean return?"},
            {"m:f(a) ->", 10, "return, time, caller or stack"},
            {"m:f(a) -> return stack", 18, "comma"},
            {"m:f when K > 1", 5, "needs arguments"},
            {"m:f(K) when L > 1", 13, "L stands in no argument"},
            {"m:f(K) when g(K)", 13, "g/1 is no function of guards"},
            {"m:f(#r{a = 1})", 5, "records are not known"},
            {"m:_(a)", 4, "need the name"},
            {"receive(a, b)", 8, "takes one message"},
            {"send -> return", 6, "nothing stands behind"},
            {"m:f(K) when K / 2 > 1", 15, "can't divide"},
            {"Shop.f(x) when x / 2 > 1", 18, "can't divide"},
            {"Shop.f(X) when X > 1", 16, "X is a module here"},
            {"Shop.f(^x)", 8, "not understood"},
            {"Shop.f(<<a>>)", 8, "syntax error"},
            {"Shop.f(x = 1)", 10, "not understood"},
            {"Shop.f(x) when x && y", 18, "not understood"},
            {"Shop.f(x) when foo(x)", 16, "no function of guards"},
            {"Shop.f(x) when y > 1", 16, "y stands in no argument"},
            {"Shop.f(n: 1)", 8, "not understood"},
            {"Shop.f(x", 7, "this ( is not closed"},
            {"Shop.f(x) foo", 11, "syntax error"},
            {"Shop.f(\"a", 8, "not understood"},
            {"Shop.f(\"#{a}\")", 8, "not understood"},
            {"Shop.f(x) when x in y", 18, "1..9"},
            {"Shop(x)", 5, "need the name"},
            {"Shop.f(x) -> retrun", 14, "did you mean return?"}
        ]
    ].

%% What is more exact comes later; several patterns of one function are clauses of one.
breakpoints(_Config) ->
    Texts = ["m:f/1 -> return", "m:_", "m:f(a)", "m:f(b) -> caller"],
    Numbered = [{N, parsed(Text)} || {N, Text} <- lists:enumerate(Texts)],
    ?assertMatch(
        [
            {{m, '_', '_'}, [{'_', [], [{message, {{2, [], []}}}]}], [local]},
            {
                {m, f, 1},
                [
                    {'_', [], [{exception_trace}, {message, _}]},
                    {[a], [], [{message, _}]},
                    {[b], [], [{message, {{4, {caller_line}, []}}}]}
                ],
                [local]
            }
        ],
        dyno_trace_pattern:functions(Numbered, as_asked)
    ),
    [{_, [{_, _, Body}], _} | _] = dyno_trace_pattern:functions(Numbered, ends),
    ?assertMatch([{exception_trace}, _], Body).

parsed(Text) ->
    {ok, Pattern} = dyno_trace_pattern:parse(Text),
    Pattern.
