%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_specification_SUITE).
-moduledoc false.
%% Specifications are compiled and run on traces. What they mean is written a second time in
%% dyno_specification_meaning, plainly, over whole traces; random properties and traces have to
%% agree with it.

-compile([export_all, nowarn_export_all]).

-include_lib("stdlib/include/assert.hrl").
-include("../../support/dyno_proper.hrl").

-import(proper_types, [list/1, non_empty/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [
        regular_expressions,
        eventually,
        elixir,
        warnings,
        unknown_past,
        traffic_of_otp,
        functions_and_processes,
        deadlines,
        rates,
        across_processes,
        strict,
        explanations,
        needs,
        mistakes,
        finished_keys_take_no_memory,
        regular_expressions_mean,
        formulas_mean,
        past_means,
        keys_mean,
        examples_compile
    ].

-define(REF, make_ref()).

regular_expressions(_) ->
    Answers = "follows (receive {request, N} then send {reply, N})*",
    table(Answers, [
        {[r({request, 1}), s({reply, 1}), r({request, 2}), s({reply, 2})], yes},
        {[], yes},
        {[r({request, 1}), s({reply, 2})], no},
        {[r({request, 1}), s({reply, 1}), s({reply, 1})], no},
        {[r({request, 1}), r({request, 2}), s({reply, 1})], no},
        {[r({request, 1}), s(other), r(other), s({reply, 1})], yes},
        %% One reply is missing in the end.
        {[r({request, 1})], no},
        {[r({request, 1}), going_on], inconclusive}
    ]),
    table("never receive stop then send _", [
        {[s(a), r(stop)], yes},
        {[r(stop), s(a)], no},
        {[r(stop), r(other), s(a)], no},
        {[s(a), going_on], inconclusive}
    ]),
    table("never receive {open, F} then send {write, F}", [
        {[r({open, 1}), s({write, 2}), r({open, 3}), r({open, 2}), s({write, 2})], no},
        {[r({open, 1}), s({write, 2}), s({write, 1})], yes}
    ]),
    table("follows send a | send b then send c", [
        {[s(a)], yes}, {[s(b), s(c)], yes}, {[s(b)], no}, {[s(c)], no}, {[s(a), s(c)], no}
    ]),
    table("follows (send a | send b)+ then send c?", [
        {[s(a), s(b), s(c)], yes}, {[s(a)], yes}, {[s(c)], no}, {[], no}, {[s(a), s(c), s(a)], no}
    ]),
    %% What both alternatives bind is bound behind them; in a repetition each time anew.
    table("follows (send {a, X} | receive {b, {X, _}}) then send X", [
        {[s({a, 1}), s(1)], yes}, {[r({b, {2, 3}}), s(2)], yes}, {[r({b, {2, 3}}), s(3)], no}
    ]),
    table("follows (send {a, X} then receive X)+ then send {a, X} then send done", [
        {[s({a, 1}), r(1), s({a, 2}), r(2), s({a, 3}), s(done)], yes},
        {[s({a, 1}), r(1), s({a, 2}), r(1)], no}
    ]),
    table(
        "follows send {n, X} when X > 3, is_integer(X) ; X =:= a then send {m, Y} when (Y =< X)", [
            {[s({n, 4}), s({m, 4})], yes},
            {[s({n, a}), s({m, 1})], yes},
            {[s({n, 4}), s({m, 5})], no},
            %% Named by nobody, and skipped.
            {[s({n, 3}), s({n, 4}), s({m, 2})], yes}
        ]
    ),
    table("follows send any then any* then send last", [
        {[s(any), r(1), s(2), s(last)], yes}, {[s(any), s(last), r(1)], no}
    ]).

%% `then` means the next event that is named, `then eventually` any later one.
eventually(_) ->
    Miss = "never receive {pay, N} then send {refund, N}",
    Later = "never receive {pay, N} then eventually send {refund, N}",
    Between = [r({pay, 1}), r({pay, 2}), s({refund, 1})],
    table(Miss, [{Between, yes}, {[r({pay, 1}), s({refund, 1})], no}]),
    table(Later, [
        {Between, no},
        {[r({pay, 1}), s({refund, 1})], no},
        {[s({refund, 1}), r({pay, 1}), s({refund, 2})], yes}
    ]),
    %% The time counts from what is before, not from the last event that was let by.
    table("never receive a then eventually send b within 5 ms", [
        {[r(a), {3, s(b)}], no},
        {[r(a), {3, r(a)}, {7, s(b)}], no},
        {[r(a), {7, s(b)}], yes}
    ]),
    table("never receive a then eventually (send b then send c | exit bad)", [
        {[r(a), s(c), s(b), s(c)], no},
        {[r(a), s(b), r(a), s(c)], yes},
        {[r(a), s(b), {exit, bad}], no}
    ]),
    table("follows receive a then eventually send b", [
        {[r(a), r(a), s(b)], yes},
        {[r(a), r(a)], no},
        {[r(a), s(b), r(a), s(b)], yes},
        {[r(a), s(b), r(a)], no}
    ]),
    {Module, _} = compiled(Later),
    {[], {no, Why}} = run(Module, Between),
    ?assertMatch(
        #{step := ~"eventually send {refund, N}", bindings := #{'N' := 1}, because := event}, Why
    ).

%% Maps and structs as Elixir writes them.
elixir(_) ->
    table("follows send %{id: N, \"name\" => \"bo\", end: :ok} then send {%{at: %{n: N}}, N}", [
        {
            [s(#{id => 1, ~"name" => ~"bo", 'end' => ok}), s({#{at => #{n => 1}, more => 2}, 1})],
            yes
        },
        {[s(#{id => 1, ~"name" => ~"bo", 'end' => ok}), s({#{at => #{n => 2}}, 1})], no},
        {[s(#{id => 1, "name" => "bo", 'end' => ok})], no}
    ]),
    User = fun(Id, M) -> s(#{'__struct__' => M, id => Id}) end,
    table("never send %My.App.User{id: 7, kind: Shop.Kind} | send %User{}", [
        {[s(#{'__struct__' => 'Elixir.My.App.User', id => 7, kind => 'Elixir.Shop.Kind'})], no},
        {[User(7, 'Elixir.My.App.User')], yes},
        {[User(8, 'Elixir.User')], no},
        {[s(#{id => 7})], yes}
    ]),
    %% A comment is one as before.
    table("% %{\n always send \"%{\" implies true %% %A{\n", [{[s("%{")], yes}]),
    {Module, _} = compiled("never send %My.User{id: N, to: \"é\"}"),
    {[], {no, #{step := Step}}} = run(
        Module, [s(#{'__struct__' => 'Elixir.My.User', id => 1, to => ~"é"})]
    ),
    ?assertEqual(~"send %My.User{id: N, to: \"é\"}", Step).

%% A warning only if something can come between.
warnings(_) ->
    Warned = fun(Property) ->
        {_, #{warnings := Warnings}} = compiled(Property),
        length(Warnings)
    end,
    [
        ?assertEqual({Expected, Property}, {Warned(Property), Property})
     || {Expected, Property} <- [
            {0, "never receive stop then send _"},
            {0, "never (receive stop | receive halt) then (send _ | exit _)"},
            {0, "each N never receive {pay, N} then send {refund, N}"},
            {0, "never receive {pay, N} then eventually send {refund, N}"},
            {0, "follows receive {pay, N} then send {refund, N}"},
            {0, "never send a"},
            {1, "never receive {pay, N} then send {refund, N}"},
            {1, "never receive {pay, N} then send {refund, M} when M > N"},
            {1, "never receive a then send b then send c"},
            {1, "never receive a then eventually send b then send c"},
            {1, "never (receive a then send b) | (receive c then send d)"},
            {1, "strict never receive stop then send _"}
        ]
    ],
    {_, #{warnings := [Text]}} = compiled("never receive {pay, N} then send {refund, N}"),
    ?assertEqual(
        <<
            "line 1: \"it\": 'never A then B' is broken only if B is the next event after A, of "
            "the events that the property names; a later B does not break it. For any later B "
            "write 'never A then eventually B'."
        >>,
        Text
    ).

%% Of a process that ran before: what may have happened then neither passes nor breaks.
unknown_past(_) ->
    Partial = fun(Property, Rows) ->
        {Module, _} = compiled(Property),
        [
            ?assertEqual(
                {Expected, Property, Events},
                {
                    in_part(run(Module, Events, 0, Module:init(#{partial => true}))),
                    Property,
                    Events
                }
            )
         || {Events, Expected} <- Rows
        ]
    end,
    Partial("always send data implies once receive hello", [
        {[r(hello), s(data)], yes},
        {[s(data)], inconclusive},
        {[s(data), s(data), r(hello), s(data)], inconclusive},
        {[], yes}
    ]),
    Partial("always send pong implies once receive ping within 50 ms", [
        {[r(ping), {50, s(pong)}], yes},
        {[s(pong)], inconclusive},
        {[s(pong), {51, s(pong)}], no},
        {[r(ping), {51, s(pong)}], no}
    ]),
    Partial("always send b implies previously send a", [
        {[s(a), s(b)], yes}, {[s(b)], inconclusive}, {[s(b), s(b)], no}
    ]),
    Partial("always receive bye implies historically not send secret", [
        {[r(bye)], inconclusive}, {[s(secret), r(bye)], no}, {[s(secret)], yes}
    ]),
    Partial("always not send write or (not receive close since receive open)", [
        {[s(write)], inconclusive},
        {[r(open), s(write)], yes},
        {[r(close), s(write)], no}
    ]),
    Partial("each K always send {b, K} implies once send {a, K}", [
        {[s({a, 1}), s({b, 1})], yes},
        {[s({a, 1}), s({b, 2}), s({b, 1})], inconclusive}
    ]),
    Partial("never receive {pay, N} then eventually send {refund, N}", [
        {[r({pay, 1}), s({refund, 2})], inconclusive},
        {[r({pay, 1}), s({refund, 1})], no},
        {[r({pay, 1})], yes}
    ]),
    Partial("never receive a then eventually send b within 5 ms", [
        {[s(b)], inconclusive}, {[r(a), {6, s(b)}], yes}, {[r(a), {3, s(b)}], no}
    ]),
    Partial("each N never receive {pay, N} then eventually send {refund, N} then send done", [
        {[s({refund, 1}), s(done)], inconclusive}, {[s({refund, 1})], yes}
    ]),
    %% A may have been the last event before.
    Partial("never receive stop then send _", [
        {[s(a)], inconclusive}, {[r(stop), s(a)], no}, {[r(stop)], yes}
    ]),
    Partial("never receive a then send b within 5 ms", [
        {[s(b)], inconclusive}, {[r(a), {6, s(b)}], yes}, {[r(a), {3, s(b)}], no}
    ]),
    Partial("each T never receive {revoke, T} then send {use, T}", [
        {[s({use, 1})], inconclusive},
        {[r({revoke, 1}), s({use, 1}), s({use, 1})], no},
        {[r({revoke, 1})], yes}
    ]),
    Partial("follows (receive {request, N} then send {reply, N})*", [
        {[r({request, 2}), s({reply, 2})], yes},
        {[s({reply, 1}), r({request, 2}), s({reply, 2})], inconclusive},
        {[s({reply, 1}), s({reply, 1})], no}
    ]),
    %% A busy server always has a conversation that is open.
    Partial("each N follows (receive {request, N} then send {reply, N})*", [
        {[s({reply, 1}), r({request, 2}), s({reply, 2})], yes},
        {[s({reply, 1}), s({reply, 1})], no}
    ]).

in_part({[#{because := past} | Reports], Ended}) ->
    case verdict({Reports, Ended}) of
        no -> no;
        _ -> inconclusive
    end;
in_part(Ran) ->
    verdict(Ran).

traffic_of_otp(_) ->
    R = ?REF,
    Tag = [alias | R],
    Call = r({'$gen_call', {self(), Tag}, get}),
    table("follows (call get ref R then reply _ ref R)*", [
        {[Call, s({Tag, 1})], yes},
        {[Call, s({?REF, 1})], no},
        {[Call, s({a_pair, 1}), s({Tag, 1})], yes},
        {[Call], no}
    ]),
    table("follows cast {log, X} then info X then timeout", [
        {[r({'$gen_cast', {log, 1}}), r(1), r(timeout)], yes},
        {[r({'$gen_cast', {log, 1}}), r({'$gen_cast', {log, 1}})], no},
        {[r({log, 1})], no}
    ]),
    table("never info _", [
        {[Call, r({'$gen_cast', a}), r({Tag, reply}), r(timeout), r({system, a, b})], yes},
        {[r({tcp, a, b})], no}
    ]),
    table("follows (send call {get, K} to db ref R then receive reply {ok, K} ref R)*", [
        {[{send, {'$gen_call', {self(), Tag}, {get, k}}, db}, r({Tag, {ok, k}})], yes},
        {[{send, {'$gen_call', {self(), Tag}, {get, k}}, db}, r({Tag, {ok, j}})], no},
        {[{send, {'$gen_call', {self(), Tag}, {get, k}}, other}], yes}
    ]),
    table("never send cast stop to P then send cast _ to P", [
        {[{send, {'$gen_cast', stop}, a}, {send, {'$gen_cast', x}, a}], no},
        {[{send, {'$gen_cast', stop}, a}, {send, {'$gen_cast', x}, b}], yes}
    ]).

functions_and_processes(_) ->
    Self = self(),
    table("follows spawned m:f(Id) by P then send {Id, P} then exit normal", [
        {[{spawned, Self, {m, f, [7]}}, s({7, Self}), {exit, normal}], yes},
        {[{spawned, Self, {m, f, [7]}}, s({7, Self}), {exit, killed}], no}
    ]),
    table("never spawn m:f/1 as C then send _ to C", [
        {[{spawn, Self, {m, f, [1]}}, {send, a, Self}], no},
        {[{spawn, Self, {m, f, 1}}, {send, a, Self}], no},
        {[{spawn, Self, {m, f, [1, 2]}}, {send, a, Self}], yes}
    ]),
    table("follows (call lists:nth(N, _) then return lists:nth/2 N)*", [
        {[{call, {lists, nth, [1, [1]]}}, {return, {lists, nth, 2}, 1}], yes},
        {[{call, {lists, nth, [1, [7]]}}, {return, {lists, nth, 2}, 7}], no}
    ]),
    table("never exception m:f/0 {error, badarg}", [
        {[{exception, {m, f, 0}, {error, badarg}}], no},
        {[{exception, {m, f, 0}, {exit, badarg}}], yes}
    ]),
    table("never call m:f/2", [{[{call, {m, f, [1, 2]}}], no}, {[{call, {m, f, [1]}}], yes}]).

deadlines(_) ->
    Replies = "follows (receive {request, N} then send {reply, N} within 50 ms)*",
    table(Replies, [
        {[r({request, 1}), {50, s({reply, 1})}, {500, r({request, 2})}, {550, s({reply, 2})}], yes},
        {[r({request, 1}), {51, s({reply, 1})}], no},
        %% No reply, but what comes later shows that it is late, or a timer does.
        {[r({request, 1}), {51, s(other)}, going_on], no},
        {[r({request, 1}), {timeout, 51}, going_on], no},
        {[r({request, 1}), {timeout, 50}, {50, s({reply, 1})}], yes}
    ]).

rates(_) ->
    table("at most 2 send x within 10 ms", [
        {[s(x), {5, s(x)}, {10, s(x)}, {15, s(x)}], yes},
        {[s(x), {5, s(x)}, {9, s(x)}], no},
        {[s(y), s(y), s(y)], yes}
    ]),
    table("at most 0 send x within 1 s", [{[s(x)], no}]),
    table("at least 1 send beat within 10 ms", [
        {[{10, s(beat)}, {20, s(beat)}, going_on], inconclusive},
        {[{10, s(beat)}, {21, s(beat)}], no},
        {[r(a), {timeout, 11}], no}
    ]).

across_processes(_) ->
    {Module, #{key := true}} = compiled(
        "across R follows (send call _ ref R then call _ ref R then reply _ ref R "
        "then receive reply _ ref R)*"
    ),
    [R1, R2] = [[alias | ?REF], [alias | ?REF]],
    Client = fun(R) -> {{send, {'$gen_call', {c, R}, x}, p}, {'receive', {R, ok}}} end,
    Server = fun(R) -> {{'receive', {'$gen_call', {c, R}, x}}, {send, {R, ok}, c}} end,
    {A1, A4} = Client(R1),
    {A2, A3} = Server(R1),
    {B1, B4} = Client(R2),
    {B2, B3} = Server(R2),
    ?assertMatch({[], {yes, _}}, run(Module, [A1, B1, B2, A2, A3, B3, B4, A4])),
    ?assertMatch({[_ | _], _}, run(Module, [A1, B2, A2, A3, A4])),
    ?assertEqual({ok, all}, Module:key(A1, #{})).

strict(_) ->
    table("strict follows (receive a then send b)*", [
        {[{spawned, self(), {m, f, []}}, r(a), s(b), {exit, normal}], yes}, {[r(a), r(c), s(b)], no}
    ]).

explanations(_) ->
    Why = fun(Property, Events) ->
        {Module, _} = compiled(Property),
        {Reports, Ended} = run(Module, Events),
        [#{property := ~"it", step := Step, bindings := Bindings, because := Because} | _] =
            Reports ++ [element(2, Ended)],
        {Step, Bindings, Because}
    end,
    Answers = "follows (receive {request, N} then send {reply, N})*",
    ?assertEqual(
        {~"send {reply, N}", #{'N' => 1}, event}, Why(Answers, [r({request, 1}), s({reply, 2})])
    ),
    ?assertEqual({~"send {reply, N}", #{'N' => 1}, ended}, Why(Answers, [r({request, 1})])),
    ?assertEqual(
        {~"nothing more or receive {request, N}", #{}, event}, Why(Answers, [s({reply, 2})])
    ),
    ?assertEqual(
        {~"[send {reply, M} when M =/= N]", #{'N' => 1, 'M' => 2}, event},
        Why(
            "satisfies [receive {request, N}] [send {reply, M} when M  =/=  N] false",
            [r({request, 1}), s({reply, 2})]
        )
    ),
    ?assertEqual(
        {~"send b within 5 ms", #{}, deadline},
        Why("follows send a then send b within 5 ms", [
            s(a), {timeout, 6}
        ])
    ),
    ?assertEqual(
        {~"send {b, K} implies once send {a, K}", #{'K' => 3}, event},
        Why("each K always send {b, K} implies once send {a, K}", [s({b, 3})])
    ),
    ?assertEqual(
        {~"at most 1 send _ within 1 s", #{}, event},
        Why("at most 1 send _ within 1 s", [s(1), s(2)])
    ).

needs(_) ->
    Needs = fun(Property) ->
        {_, #{events := Events}} = compiled(Property),
        lists:sort(Events)
    end,
    ?assertEqual(
        [exit, {'receive', [{['_', '_', {a, '_'}], []}]}],
        Needs(
            "never receive {a, X} then exit X"
        )
    ),
    ?assertEqual([send], Needs("never send _ then send {a}")),
    ?assertEqual(
        [{send, [{['_', {a}], []}, {[p, [1, 2 | '_']], []}]}],
        Needs(
            "never send {a} then send [1, 2 | _] to p"
        )
    ),
    ?assertEqual(
        [{return, m, f, 2}, {call, m, f, 2, undefined}],
        Needs(
            "never call m:f(_, 1) then return m:f/2 ok"
        )
    ),
    ?assertEqual([exit, 'receive', send, spawn], Needs("strict follows send a")),
    ?assertEqual([], Needs("never spawned m:f/2")),
    [{send, [{['_', Head], [Guard]}]}] = Needs("never reply {ok, _}"),
    Matches = ets:match_spec_compile([{Head, [Guard], [true]}]),
    R = ?REF,
    ?assertEqual(
        [true, true],
        ets:match_spec_run(
            [{R, {ok, 1}}, {[alias | R], {ok, 2}}, {a, {ok, 1}}, {R, no}, {[], {ok, 1}}], Matches
        )
    ),
    {_, #{select := Select}} = compile(
        "property it of m:f/1, m:g, m:at, module never, module n, registered r, application a, "
        "label {x, \"y\", 1} never send x."
    ),
    ?assertEqual(
        [
            {function, m, f, 1},
            {function, m, g, '_'},
            {function, m, at, '_'},
            {module, never},
            {module, n},
            {registered, r},
            {application, a},
            {label, {x, "y", 1}}
        ],
        Select
    ).

%% Each mistake is told where it is.
mistakes(_) ->
    [
        begin
            Result = dyno_specification:compile(Text),
            ?assertMatch({error, {_, _, _}}, Result, Text),
            {error, {Line, Column, _} = Reason} = Result,
            Words = unicode:characters_to_list(dyno_specification:format_error(Reason)),
            ?assertEqual({Line, Column, Text}, {L, C, Text}, Words),
            Place = lists:flatten(io_lib:format("line ~b, column ~b: ", [L, C])),
            ?assertEqual(Place ++ Said, Words, Text)
        end
     || {Text, L, C, Said} <- [
            {"", 1, 1, "there is no property; one begins with 'property NAME of ...'"},
            {<<"property a ", 255>>, 1, 1, "the text is not in UTF-8"},
            {"proprety a of m:f never send x.", 1, 1, "expected 'property', found 'proprety'"},
            {"property of m:f never send x.", 1, 10,
                "expected the property's name, an atom or a string, found 'of'"},
            {"property a never send x.", 1, 12, "expected 'of' and which processes, found 'never'"},
            {"property a of m never send x.", 1, 15,
                "expected 'Module:Function/Arity', 'module NAME', 'registered NAME', "
                "'application NAME' or 'label TERM', found 'm'"},
            %% Cut short in front of a name.
            {"property a of shop: never send x.", 1, 21,
                "expected the function's name, found 'never'"},
            {"property a of shop:\nfollows (send x)*.", 2, 1,
                "expected the function's name, found 'follows'"},
            {"property a of module never send x.", 1, 22, "expected a name, found 'never'"},
            {"property a of m:f\nsend x.", 2, 1,
                "expected what holds: 'follows', 'never', 'satisfies', 'always', 'at most' or "
                "'at least', found 'send'"},
            {"property a of m:f\nnever sned x.", 2, 7,
                "there is no event 'sned'; did you mean 'send'?"},
            {"property a of m:f\nnever receive {x.", 2, 17, "expected '}', found a full stop"},
            {"property a of m:f\nnever receive", 2, 14,
                "expected a pattern, found the end of the file"},
            {"property a of m:f\nfollows send x send y.", 2, 16,
                "expected 'then', '|', '*', '+', '?', 'within' or a full stop, found 'send'"},
            {"property a of m:f never (send x then send y.", 1, 44,
                "expected 'then', '|' or ')', found a full stop"},
            {"property a of m:f follows send x within 5 sec.", 1, 43,
                "expected ns, us, ms, s, min or h, found 'sec'"},
            {"property a of m:f follows send x within soon.", 1, 41,
                "expected a time such as '50 ms', found 'soon'"},
            {"property a of m:f never send {X, Y} when X > Z.", 1, 46, "variable 'Z' is unbound"},
            {"property a of m:f never send X when foo(X).", 1, 37, "illegal guard expression"},
            {"property a of m:f never send {a, b c}.", 1, 36, "syntax error before: c"},
            {"property a of m:f never send X when X >.", 1, 40,
                "not complete: something is missing at the end"},
            {"property a of m:f never send X when X > > 3.", 1, 41, "syntax error before: >"},
            {"property a of m:f never send #{N := 1}.", 1, 32, "variable 'N' is unbound"},
            {"property a of m:f never send x when .", 1, 37, "expected a guard, found a full stop"},
            {"property a of m:f never send x y.", 1, 32,
                "expected 'then', '|', '*', '+', '?', 'within' or a full stop, found 'y'"},
            {"property a of m:f never (send x)*.", 1, 26,
                "this matches without any event, so it would always be broken; "
                "at least one event must stand outside of '*' and '?'"},
            {"property a of m:f satisfies [send a X.", 1, 37,
                "expected 'when', 'within' or ']', found 'X'"},
            {"property a of m:f satisfies [send a] X.", 1, 38,
                "X is no variable of a 'max' or 'min' around it"},
            {"property a of m:f satisfies max X. ([send a] X and X).", 1, 52,
                "X comes back to 'max X.' without an event between, so it says nothing; put an "
                "event in front of it, as in '[any] X'"},
            {"property a of m:f never send x then eventually (send y)*.", 1, 37,
                "'eventually' stands in front of an event, or of a bracket that begins with one; "
                "'*', '+' and '?' do not fit there"},
            {"property a of m:f satisfies max x. [send a] x.", 1, 33,
                "expected a variable and '.', found 'x'"},
            {"property a of m:f always send {a, N} implies once send {b, N}.", 1, 51,
                "N stands in two events; between them it means the same only with 'each N'"},
            {"property a of m:f each K never send x.", 1, 24, "no event has the key K"},
            {"property a of m:f each K, L never send {K, L} then send K.", 1, 52,
                "this event has some keys, but not L; it must have all of them or none"},
            {"property a of m:f never send x ref R.", 1, 25,
                "this event has no 'ref'; it may have 'to'"},
            {"property a of m:f never exit x to y.", 1, 25, "this event has no 'to'"},
            {"property a of m:f never send x to a to b.", 1, 37, "'to' stands twice"},
            {"property a of m:f never return ok 1.", 1, 25,
                "expected the name of a function, as in 'call lists:sort(_)' or "
                "'return lists:sort/1 _'"},
            {"property a of m:f never call M:f(1).", 1, 25,
                "expected the name of a function, as in 'call lists:sort(_)' or "
                "'return lists:sort/1 _'"},
            {"property a of m:f at most send x within 1 s.", 1, 27,
                "expected how often, a whole number, found 'send'"},
            {"property a of m:f at most 1 send x.", 1, 35,
                "expected 'within' and a time, found a full stop"},
            {"property a of label X never send x.", 1, 15, "a label is a term without variables"},
            {"property a of m:f never send x.\nproperty a of m:f never send y.", 2, 1,
                "there are two properties a"},
            {"property a of m:f each 1 never send x.", 1, 24, "expected a variable, found '1'"},
            {"property a of m:f never send \"x.", 1, 31, "unterminated string starting with \"x.\""}
        ]
    ].

finished_keys_take_no_memory(_) ->
    {Module, _} = compiled("each L follows (send {acquire, L} then send {release, L})*"),
    Empty = last_state(Module, [s({acquire, 0})]),
    Many = lists:append([[s({acquire, N}), s({release, N})] || N <- lists:seq(1, 1000)]),
    ?assert(erts_debug:flat_size(last_state(Module, Many)) =< erts_debug:flat_size(Empty)).

last_state(Module, Events) ->
    lists:foldl(
        fun(Event, State) ->
            {next, Next} = Module:event(Event, 0, State),
            Next
        end,
        Module:init(#{}),
        Events
    ).

%% Against the plain meaning

regular_expressions_mean(_) ->
    Property = ?FORALL(
        {Kind, Regexp, Trace},
        {
            proper_types:oneof([follows, never]),
            dyno_specification_meaning:regexp(),
            trace()
        },
        case Kind =:= never andalso dyno_specification_meaning:nullable(Regexp) of
            true ->
                true;
            false ->
                Text = [atom_to_list(Kind), " ", dyno_specification_meaning:text(Regexp)],
                agree(
                    ["strict ", Text], Trace, dyno_specification_meaning:holds(Kind, Regexp, Trace)
                )
        end
    ),
    dyno_property:holds(Property, {80, 400}).

formulas_mean(_) ->
    Property = ?FORALL(
        {Formula, Trace},
        {dyno_specification_meaning:formula(), trace()},
        agree(
            ["strict satisfies ", dyno_specification_meaning:text(Formula)],
            Trace,
            dyno_specification_meaning:holds(satisfies, Formula, Trace)
        )
    ),
    dyno_property:holds(Property, {100, 600}).

past_means(_) ->
    Property = ?FORALL(
        {Past, Trace},
        {dyno_specification_meaning:past(), non_empty(trace())},
        agree(
            ["strict always ", dyno_specification_meaning:text(Past)],
            Trace,
            dyno_specification_meaning:holds(always, Past, Trace)
        )
    ),
    dyno_property:holds(Property, {80, 400}).

%% Each value's own events decide, and only events that are named.
%% An event of all keys may break one that had long been over.
keys_mean(_) ->
    table("each N follows receive {a, _} then (send {a, N} | send {b, _})", [
        {[r({a, 1}), s({b, 1})], yes}, {[r({a, 1}), s({a, 1}), s({b, 1})], no}
    ]),
    table(
        "each N follows receive {a, _} then "
        "(send {a, N} | send {b, _} | (receive {a, N} then send {a, N}))",
        [{[r({a, 1}), s({b, 1}), s({b, 1})], no}]
    ),
    Property = ?FORALL(
        {Regexp, Trace},
        {dyno_specification_meaning:keyed_regexp(), trace()},
        begin
            Text = dyno_specification_meaning:text(Regexp),
            string:find(Text, "N") =:= nomatch orelse
                agree(
                    ["each N follows ", Text],
                    Trace,
                    dyno_specification_meaning:holds(each, Regexp, Trace)
                )
        end
    ),
    dyno_property:holds(Property, {80, 400}).

agree(Property, Trace, Expected) ->
    {Module, _} = compiled(Property),
    Got = verdict(run(Module, Trace)),
    ?WHENFAIL(
        ct:pal("~ts~n~p~nexpected ~p, got ~p", [Property, Trace, Expected, Got]),
        Got =:=
            case Expected of
                true -> yes;
                false -> no
            end
    ).

%% With PropEr's own lengths the plain meaning takes minutes.
trace() -> ?LET(Events, list(dyno_specification_meaning:event()), lists:sublist(Events, 12)).

examples_compile(_) ->
    Files = filelib:wildcard(filename:join([dyno_project:root(), "examples", "verify", "*.dyno"])),
    ?assertMatch([_, _, _, _, _ | _], Files),
    [
        begin
            {ok, Text} = file:read_file(File),
            ?assertMatch({ok, [_ | _]}, dyno_specification:compile(Text), File)
        end
     || File <- Files
    ].

%% Running

s(Message) -> {send, Message, peer}.
r(Message) -> {'receive', Message}.

table(Property, Rows) ->
    {Module, _} = compiled(Property),
    [
        ?assertEqual({Expected, Property, Events}, {verdict(run(Module, Events)), Property, Events})
     || {Events, Expected} <- Rows
    ].

compiled(Property) ->
    compile(["property it of m:f ", Property, "."]).

compile(Text) ->
    case dyno_specification:compile(lists:flatten(Text)) of
        {ok, [{Module, Beam, Needs}]} ->
            ?assertEqual(Needs, (load(Module, Beam)):needs()),
            {Module, Needs};
        {error, Reason} ->
            ct:fail("~ts~n~ts", [Text, dyno_specification:format_error(Reason)])
    end.

load(Module, Beam) ->
    {module, Module} = code:load_binary(Module, "", Beam),
    code:purge(Module),
    Module.

%% What was reported, and how it ended: {Verdict, Explanation} or going_on.
run(Module, Events) ->
    Whole =
        case Events of
            [{spawned, _, _} | _] -> Events;
            _ -> [{spawned, self(), {m, f, []}} | Events]
        end,
    run(Module, Whole, 0, Module:init(#{})).

run(Module, [], _Time, State) ->
    {[], Module:ended(State)};
run(_Module, [going_on], _Time, _State) ->
    {[], going_on};
run(Module, [{timeout, Ms} | Events], _Time, State) when is_integer(Ms) ->
    Time = Ms * 1_000_000,
    stepped(Module, Events, Time, timeouts(Module, Time, State));
run(Module, [{Ms, Event} | Events], _Time, State) when is_integer(Ms) ->
    Time = Ms * 1_000_000,
    stepped(Module, Events, Time, Module:event(Event, Time, State));
run(Module, [Event | Events], Time, State) ->
    stepped(Module, Events, Time, Module:event(Event, Time, State)).

timeouts(Module, Time, State) ->
    case Module:deadline(State) of
        Deadline when is_integer(Deadline), Deadline =< Time -> Module:timeout(Time, State);
        _ -> {next, State}
    end.

stepped(Module, Events, Time, {next, State}) ->
    run(Module, Events, Time, State);
stepped(Module, Events, Time, {report, _, Explanation, State}) ->
    {Reports, Ended} = run(Module, Events, Time, State),
    {[Explanation | Reports], Ended};
stepped(_Module, _Events, _Time, {Verdict, Explanation, _State}) ->
    {[], {Verdict, Explanation}}.

verdict({[_ | _], _}) -> no;
verdict({[], going_on}) -> inconclusive;
verdict({[], none}) -> yes;
verdict({[], {Verdict, _}}) -> Verdict.
