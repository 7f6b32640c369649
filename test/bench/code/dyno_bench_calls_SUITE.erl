%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_calls_SUITE).
-moduledoc "Files of recorded calls, the recording of calls, and their replay.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [
        text_and_terms,
        round_trips,
        mistakes,
        long_lists,
        records,
        records_no_more_than_asked,
        command_line
    ].

file(Config, Name) ->
    filename:join(proplists:get_value(priv_dir, Config), Name).

%% As text, one by one or in a list; and erlperf's way.
text_and_terms(Config) ->
    Calls = [{lists, seq, [1, 9]}, {ets, info, [x, "ł"]}],
    File = file(Config, "calls"),
    [
        begin
            ok = file:write_file(File, unicode:characters_to_binary(Content)),
            ?assertEqual({ok, Calls}, dyno_bench_calls:read(File))
        end
     || Content <- [
            "{lists, seq, [1, 9]}.\n{ets, info, [x, \"ł\"]}.\n",
            "[{lists, seq, [1, 9]}, {ets, info, [x, \"ł\"]}].\n",
            "% a comment\n[{lists, seq, [1, 9]}]. {ets, info, [x, \"ł\"]}."
        ]
    ],
    ok = file:write_file(File, term_to_binary(Calls)),
    ?assertEqual({ok, Calls}, dyno_bench_calls:read(File)).

round_trips(Config) ->
    File = file(Config, "written"),
    [
        begin
            ok = dyno_bench_calls:write(File, Calls),
            ?assertEqual({ok, Calls}, dyno_bench_calls:read(File))
        end
     || Calls <- [
            [{m, f, []}],
            [{m, f, [1.5, "żółw", ~"żółw", <<1:3>>, #{a => [$a]}, 'with space']} || _ <- [1, 2]],
            %% They have no text that can be read again.
            [{erlang, send, [self(), make_ref()]}],
            [{lists, map, [fun lists:reverse/1, []]}]
        ]
    ].

mistakes(Config) ->
    Bad = file(Config, "bad"),
    [
        begin
            ok = file:write_file(Bad, Content),
            {error, Reason} = dyno_bench_calls:read(Bad),
            Sentence = unicode:characters_to_binary(dyno_error:format(Reason)),
            ?assertMatch({match, _}, re:run(Sentence, Expected), Sentence)
        end
     || {Content, Expected} <- [
            {"", "it is empty"},
            {"{a, b}.", "one term is {a,b}"},
            {"{a, b, c}.", "one term is {a,b,c}"},
            {"{a, b, []", "1: "},
            {<<131, 1, 2, 3>>, "that of an external term, the rest is not"},
            {term_to_binary(a), "one term is a"}
        ]
    ],
    {error, {dyno_bench_calls, {no_file, _, enoent}}} = dyno_bench_calls:read(file(Config, "none")),
    {error, {_, {no_function, {nothing, f, 0}}}} =
        dyno_bench_calls:record({nothing, f, 0}, #{}),
    {error, {dyno_option, {most, 0, _}}} = dyno_bench_calls:record({lists, seq, 2}, #{most => 0}).

%% More than fit into the arguments of a function; in their order; no atoms for each.
long_lists(_Config) ->
    Table = ets:new(counted, [public]),
    Calls =
        [
            {ets, insert, [Table, {last, N}]}
         || N <- lists:seq(1, 2000)
        ] ++ [{ets, lookup, [Table, last]}],
    {ok, Parsed} = dyno_bench_code:read(Calls),
    {
        ok, #{binary := Binary, constants := Constants}
    } = dyno_bench_code:compile(recorded_calls, Parsed, #{}),
    {ok, _} = dyno_bench:run([lists:sublist(Calls, 30)], #{budget_ms => 20}),
    Atoms = erlang:system_info(atom_count),
    {module, _} = code:load_binary(recorded_calls, "recorded_calls", Binary),
    ?assertEqual([{last, 2000}], recorded_calls:loop(2, Constants, undefined)),
    {ok, _} = dyno_bench:run([Calls], #{budget_ms => 20}),
    ?assert(erlang:system_info(atom_count) - Atoms < 100),
    true = code:delete(recorded_calls),
    _ = code:purge(recorded_calls).

records(Config) ->
    Caller = calling(),
    {ok, Calls} = dyno_bench_calls:record({ets, lookup, 2}, #{duration_ms => 2000, most => 5}),
    exit(Caller, kill),
    ?assertEqual(5, length(Calls)),
    Own = [Key || {ets, lookup, [recorded_table, {key, Key}]} <- Calls],
    ?assertEqual(lists:sort(Own), Own),
    ?assertEqual([], [S || {S, _} <- trace:session_info(all), S =:= dyno_bench_calls]),
    ok = dyno_bench_calls:write(file(Config, "lookups.calls"), Calls).

%% A process that calls ets:lookup/2 with ever larger keys.
calling() ->
    Self = self(),
    Pid = spawn(fun() ->
        ets:new(recorded_table, [named_table, public]),
        Self ! ready,
        call(1)
    end),
    receive
        ready -> Pid
    end.

call(N) ->
    _ = ets:lookup(recorded_table, {key, N}),
    receive
    after 1 -> call(N + 1)
    end.

records_no_more_than_asked(_Config) ->
    {ok, []} = dyno_bench_calls:record({lists, zf, 2}, #{duration_ms => 10}),
    Caller = calling(),
    {ok, [_]} = dyno_bench_calls:record({ets, lookup, 2}, #{duration_ms => 60_000, most => 1}),
    exit(Caller, kill).

command_line(Config) ->
    File = file(Config, "some.calls"),
    ok = dyno_bench_calls:write(File, [{lists, seq, [1, 3]} || _ <- lists:seq(1, 30)]),
    {0, Out} = dyno_command:run(["bench", File, "lists:seq(1, 3).", "-l", "100", "-r", "basic"]),
    ?assertMatch({match, _}, re:run(Out, "some.calls +1 ")),
    ok = file:write_file(File, "nonsense"),
    {2, Wrong} = dyno_command:run(["bench", File]),
    ?assertMatch({match, _}, re:run(Wrong, "some.calls is no file of recorded calls")).
