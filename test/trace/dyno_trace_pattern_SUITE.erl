%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace_pattern_SUITE).
-moduledoc "What patterns mean, and what is said of those that mean nothing.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

all() -> [functions, arguments, messages, actions, what_is_wrong, breakpoints].

functions(_Config) ->
    [
        ?assertEqual({call, Function}, {map_get(kind, parsed(Text)), map_get(function, parsed(Text))})
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
            {"MyApp", {'Elixir.MyApp', '_', '_'}}
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

messages(_Config) ->
    ?assertMatch(#{kind := send, clauses := [{'_', []}]}, parsed("send")),
    ?assertMatch(#{kind := send, clauses := [{['_', {a, '_'}], []}]}, parsed("send({a, _})")),
    ?assertMatch(#{kind := send, clauses := [{[to, '_'], []}]}, parsed("send(to, _)")),
    ?assertMatch(
        #{kind := 'receive', clauses := [{['_', '_', '$1'], [{is_list, '$1'}]}]},
        parsed("receive(M) when is_list(M)")
    ),
    ?assertEqual(
        [{'_', [], []}, {['_', x], [], []}],
        dyno_trace_pattern:messages(send, [parsed("send"), parsed("receive"), parsed("send(x)")])
    ),
    ?assertEqual([], dyno_trace_pattern:messages('receive', [parsed("send")])).

actions(_Config) ->
    ?assertMatch(#{actions := []}, parsed("m:f")),
    ?assertMatch(#{actions := [return, stack, caller, time]}, parsed("m:f/1 -> return, stack, caller; time")),
    ?assertMatch(#{actions := [time], clauses := [{[_], [_]}]}, parsed("m:f(X) when X > 1 -> time")).

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
            {"m:f(a", 6, "syntax error"},
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
            {"send -> return", 6, "nothing stands behind"}
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
