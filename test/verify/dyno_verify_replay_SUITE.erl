%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_replay_SUITE).
-moduledoc false.
%% Events from files: the paper's text, OTP's trace port, dyno's own; and that only each process's
%% own order counts.

-compile([export_all, nowarn_export_all]).

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

-import(proper_types, [elements/1, list/1, range/2]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [
        text_of_the_paper,
        text_without_beginnings,
        text_is_wrong,
        own_file,
        own_file_was_cut_off,
        trace_port_file,
        what_is_no_file_of_events,
        a_file_makes_no_atoms,
        unknown_names_are_told_apart,
        terms_in_text,
        broken_files,
        a_file_called_null,
        deadline_at_the_end,
        deadline_of_one_that_has_decided,
        process_from_its_middle,
        every_order_gives_the_same
    ].

-define(PROPERTIES,
    ~"""
property in_order of module dyno_verify_replay_SUITE, module worker
follows (receive {request, N} then send {reply, N})*.

property in_time of module worker
each N never receive {request, N} then send {late, N}.

property soon of module worker
each N follows (receive {request, N} then send {reply, N} within 5 ns)*.

property arrives of module worker
across N always send {reply, N} implies once receive {request, N}.
"""
).

init_per_suite(Config) ->
    {ok, Compiled} = dyno_specification:compile(?PROPERTIES),
    Monitors = [
        begin
            {module, Module} = code:load_binary(Module, "", Beam),
            Module
        end
     || {Module, Beam, _} <- Compiled
    ],
    [{monitors, Monitors} | Config].

end_per_suite(Config) ->
    [code:delete(Module) || Module <- proplists:get_value(monitors, Config)],
    ok.

text_of_the_paper(Config) ->
    Result = replayed(Config, [
        "% Two workers, of which the second answers wrongly.\n",
        "\n",
        "fork(<0.10.0>, <0.11.0>, {worker,init,[<0.10.0>, 1]})\n",
        "init(<0.11.0>, <0.10.0>, {worker,init,[<0.10.0>, 1]}).\n",
        "init(<7.12.0>, <0.10.0>, {worker,init,[\"text\", 2.5]}) % spawned\n",
        "recv(<0.11.0>, {request, 1})\n",
        "recv(<7.12.0>, {request, 2})\n",
        "send(<0.11.0>, <0.10.0>, {reply, 1})\n",
        "send(<7.12.0>, <0.10.0>, {reply, 3}) delayed by 200\n",
        "exit(<0.11.0>, normal)\n"
    ]),
    #{open := [Second], counts := #{events := 8, complete := 1, opened := 2}} = Result,
    ?assertMatch("node" ++ _, atom_to_list(node(Second))),
    First = list_to_pid("<0.11.0>"),
    ?assertMatch(
        [
            {~"in_order", First, yes, #{}},
            {~"in_order", Second, no, #{step := ~"send {reply, N}", bindings := #{'N' := 2}}},
            {~"soon", First, yes, #{}},
            {~"soon", Second, no, #{because := deadline}}
        ],
        [V || {P, _, _, _} = V <- verdicts(Result), P =:= ~"in_order" orelse P =:= ~"soon"]
    ),
    ?assertMatch([{_, Second, no, _}], [V || {~"arrives", _, _, _} = V <- verdicts(Result)]).

%% The tool of the paper writes no `init`, and a fork may come after what the child does.
text_without_beginnings(Config) ->
    Result = replayed(Config, [
        "recv(<0.11.0>, {request, 1})\n",
        "fork(<0.10.0>, <0.11.0>, {worker,init,[1]})\n",
        "fork(<0.10.0>, <0.12.0>, {worker,init,[2]})\n",
        "exit(<0.12.0>, normal)\n",
        "exit(<0.11.0>, normal)\n"
    ]),
    ?assertMatch(
        [{_, _, no, #{because := ended}}, {_, _, yes, _}],
        [V || {~"in_order", _, _, _} = V <- verdicts(Result)]
    ).

text_is_wrong(Config) ->
    [
        begin
            {error, {Module, Reason}} = replay(Config, ["exit(<0.1.0>, a)\n", Line, "\n"]),
            Text = unicode:characters_to_list(Module:format_error(Reason)),
            ?assertMatch({match, _}, re:run(Text, ", line 2: expected fork"), Line)
        end
     || Line <- [
            "fork(<0.1.0>)",
            "sned(<0.1.0>, <0.2.0>, a)",
            "send(a, <0.2.0>, a)",
            "recv(<0.1.0>, X)",
            "recv(<0.1.0>, {a)",
            "recv(<0.1.0>, a) delayed by soon",
            "init(<0.1.0>, <0.2.0>, f)",
            <<"recv(<0.1.0>, \"", 255, "\")">>
        ]
    ].

own_file(Config) ->
    File = file(Config),
    Items = [
        {self(), {spawned, self(), {worker, init, [fun own_file/1, make_ref()]}}, 1},
        {self(), {'receive', {request, #{<<"a">> => 1}}}, 2},
        {process, #{pid => self(), initial_call => {worker, init, 1}, partial => true}, 3},
        {gap, 4}
    ],
    ok = written(File, Items),
    ?assertEqual({ok, lists:reverse(Items)}, dyno_verify_log:fold(File, fun cons/2, [])),
    {ok, Result} = dyno_verify_replay:file(File, monitors(Config), #{}),
    ?assertMatch(#{counts := #{gap := 1}, open := []}, Result),
    ?assertEqual(3, decided(inconclusive, Result)).

%% Whoever wrote it was killed: what is whole is read.
own_file_was_cut_off(Config) ->
    File = file(Config),
    ok = written(File, [{self(), {exit, N}, N} || N <- lists:seq(1, 10)]),
    {ok, Whole} = file:read_file(File),
    [
        begin
            ok = file:write_file(File, binary:part(Whole, 0, Size)),
            {ok, Items} = dyno_verify_log:fold(File, fun cons/2, []),
            ?assertEqual([{self(), {exit, N}, N} || N <- lists:seq(length(Items), 1, -1)], Items)
        end
     || Size <- lists:seq(14, byte_size(Whole))
    ].

%% As dyno_agent_recorder does.
written(File, Items) ->
    file:write_file(File, [
        dyno_agent_recorder:header() | [dyno_agent_recorder:frame(Item) || Item <- Items]
    ]).

trace_port_file(Config) ->
    File = file(Config),
    {ok, _} = dbg:tracer(port, dbg:trace_port(file, File)),
    {ok, _} = dbg:p(new, [m, procs, monotonic_timestamp]),
    Pids = [worker(N) || N <- [1, 2, 3]],
    _ = dbg:flush_trace_port(),
    ok = dbg:stop(),
    {ok, Result} = dyno_verify_replay:file(File, monitors(Config), #{}),
    Verdicts = [{Pid, Verdict} || {~"in_order", Pid, Verdict, _} <- verdicts(Result)],
    ?assertEqual(lists:sort(lists:zip(Pids, [yes, no, yes])), Verdicts).

%% The second answers wrongly.
worker(N) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        receive
            {request, 2} -> Self ! {reply, 1};
            {request, Number} -> Self ! {reply, Number}
        end
    end),
    Pid ! {request, N},
    receive
        {'DOWN', Monitor, process, Pid, normal} -> Pid
    end.

what_is_no_file_of_events(Config) ->
    File = file(Config),
    Words = fun({error, {Module, Reason}}) ->
        unicode:characters_to_list(Module:format_error(Reason))
    end,
    Nowhere = dyno_verify_replay:file("/nowhere/x", [], #{}),
    ?assertEqual(
        "cannot read /nowhere/x: no such file or directory", Words(Nowhere)
    ),
    [
        begin
            ok = file:write_file(File, Bytes),
            Text = Words(dyno_verify_replay:file(File, [], #{})),
            ?assertMatch({match, _}, re:run(Text, "is neither a recording|line 1: expected"), Text)
        end
     || Bytes <- [
            <<0, 0, 0, 0, 3, 1, 2, 3>>,
            <<1, 0, 0, 0, 3, 9, 1, 2, 3, 4>>,
            <<0, 255, 255, 255, 255, 1>>,
            <<"dyno events 1\n", 0, 0, 0, 1, 7>>,
            <<"dyno events 1\n", 255, 0, 0, 1, 7>>,
            <<"{\"format\": 1}">>,
            <<200, 201>>
        ]
    ],
    ok = file:write_file(File, <<>>),
    [
        ?assertMatch({match, _}, re:run(Words(dyno_verify_replay:file(Path, [], #{})), Part), Path)
     || {Path, Part} <- [
            {File, "is empty; give a file"},
            {"/dev/null", "is empty; give a file"},
            {proplists:get_value(priv_dir, Config), "is a folder; give a file"}
        ]
    ],
    ok = written(File, []),
    ?assertMatch(
        {ok, #{counts := #{events := 0}}}, dyno_verify_replay:file(File, monitors(Config), #{})
    ).

%% There is room for a million atoms, and they stay.
a_file_makes_no_atoms(Config) ->
    Names = [unknown(N) || N <- lists:seq(1, 2_000)],
    Text = [
        [
            "init(<0.11.0>, <7.10.0>, {",
            Name,
            ",f",
            Name,
            ",['a",
            Name,
            "']})\n",
            "send(<0.11.0>, <0.10.0>, #{k",
            Name,
            " => [",
            Name,
            "|t",
            Name,
            "]})\n"
        ]
     || Name <- Names
    ],
    Own = [
        with_name(Name, {self(), {spawned, self(), {zzzzzzzz, zzzzzzzz, [zzzzzzzz]}}, 1})
     || Name <- Names
    ],
    Port = [
        with_name(Name, {trace_ts, self(), send, {zzzzzzzz, zzzzzzzz}, zzzzzzzz, 1})
     || Name <- Names
    ],
    [
        begin
            ok = file:write_file(file(Config), [Header, Bytes]),
            %% What the first reading loads is not of the file.
            {ok, _} = dyno_verify_replay:file(file(Config), monitors(Config), #{}),
            Before = erlang:system_info(atom_count),
            {ok, _} = dyno_verify_replay:file(file(Config), monitors(Config), #{}),
            ?assertEqual(Before, erlang:system_info(atom_count)),
            ?assert(Before < 100_000)
        end
     || {Header, Bytes} <- [
            {"", Text},
            {dyno_agent_recorder:header(), [[<<(byte_size(F)):32>>, F] || F <- Own]},
            {"", [[<<0, (byte_size(F)):32>>, F] || F <- Port]}
        ]
    ],
    ?assertError(badarg, list_to_existing_atom(hd(Names))).

%% Eight letters that nobody else writes.
unknown(N) -> lists:flatten(io_lib:format("q~7..0b", [N])).

%% As a node writes it that has the atom.
with_name(Name, Term) ->
    binary:replace(term_to_binary(Term), ~"zzzzzzzz", list_to_binary(Name), [global]).

%% Names that this node does not have are as good as others to a property, and in a report.
unknown_names_are_told_apart(Config) ->
    Lines = fun(Reply) ->
        [
            "init(<0.11.0>, <0.10.0>, {worker,init,[1]})\n",
            "fork(<0.11.0>, <0.12.0>, {qzq_module,qzq_function,[1]})\n",
            "recv(<0.11.0>, {request, qzq_one})\n",
            "send(<0.11.0>, <0.10.0>, {reply, ",
            Reply,
            "})\n"
        ]
    end,
    ?assertEqual([], verdicts(replayed(Config, Lines("qzq_one")))),
    #{verdicts := [Report | _]} = replayed(Config, Lines("qzq_two")),
    Text = unicode:characters_to_list(dyno_verify_text:report(Report#{node => node()})),
    [
        ?assertNotEqual(nomatch, string:find(Text, Part), Text)
     || Part <- [
            "sends {reply,qzq_two} to",
            "receives {request,qzq_one}",
            "starts <0.12.0>: qzq_module:qzq_function(1)"
        ]
    ].

terms_in_text(_Config) ->
    Is = fun(Term) ->
        Line = unicode:characters_to_binary(io_lib:format("k(~0tp)", [Term])),
        dyno_verify_line:parse(Line) =:= {~"k", [Term], 0}
    end,
    Fixed = [
        self(),
        make_ref(),
        'it\'s',
        'Öd',
        öd,
        a@b,
        1 bsl 70,
        -1.5e-7,
        "a\"\n\e\x{202E}",
        ~"ä",
        <<1, 2, 3:4>>,
        [1 | 2],
        #{{a} => [], ~"k" => #{}},
        <<>>,
        {},
        '',
        "\d\0001"
    ],
    [?assert(Is(Term), Term) || Term <- Fixed],
    dyno_property:holds(?FORALL(Term, proper_types:any(), Is(Term)), {100, 1000}),
    ?assertEqual(
        {~"k", [16#FF, $a, $\n, "ab", {'$dyno', ~"#Fun<shop.1.2>"}], 5},
        dyno_verify_line:parse(~B' k( 16#FF , $a,$\n, "a" "b", #Fun<shop.1.2>) delayed by 5. % so')
    ).

%% Bytes that are changed, or missing, never do more than an error.
broken_files(Config) ->
    File = file(Config),
    Text = ~"recv(<0.11.0>, [{request, #{a => \"b\"}}])\nfork(<0.11.0>, <0.12.0>, {m, f, [1]})\n",
    ok = written(File, [
        {self(), {spawned, self(), {proc_lib, init_p, [self(), [], worker, init, [1]]}}, 1},
        {self(), {send, {reply, [1, "a", #{b => make_ref()}]}, self()}, 2},
        {process, #{pid => self(), initial_call => {worker, init, 1}, partial => true}, 3}
    ]),
    {ok, Own} = file:read_file(File),
    Port = with_name(
        "qzqzqzqz", {trace_ts, self(), spawned, self(), {worker, zzzzzzzz, [1]}, {1, 2}}
    ),
    Traced = <<0, (byte_size(Port)):32, Port/binary>>,
    dyno_property:holds(
        ?FORALL(
            {Whole, Changes},
            {
                elements([Text, Own, Traced]),
                proper_types:non_empty(list({range(0, 300), range(0, 255)}))
            },
            begin
                Broken = lists:foldl(fun changed/2, Whole, Changes),
                ok = file:write_file(File, Broken),
                case dyno_verify_replay:file(File, monitors(Config), #{}) of
                    {ok, #{crashes := []}} ->
                        true;
                    {error, {Module, Reason}} ->
                        is_binary(unicode:characters_to_binary(Module:format_error(Reason)))
                end
            end
        ),
        {100, 5000}
    ).

changed({At, Byte}, Whole) when At < byte_size(Whole) ->
    <<Before:At/binary, _, Behind/binary>> = Whole,
    <<Before/binary, Byte, Behind/binary>>;
changed({_, 0}, Whole) ->
    binary:part(Whole, 0, byte_size(Whole) div 2);
changed(_, Whole) ->
    Whole.

%% `null` is an atom that JSON takes for itself.
a_file_called_null(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "null"),
    ok = file:write_file(File, "recv(<0.11.0>, {request, 1})\n"),
    Spec = filename:join(proplists:get_value(priv_dir, Config), "null.dyno"),
    ok = file:write_file(Spec, "property p of module worker never send late."),
    {ok, Document} = dyno_verify_replay:run([list_to_binary(Spec)], list_to_binary(File), #{}),
    {ok, #{~"parameters" := #{~"nodes" := [~"null"]}}} = dyno_recording:validate(Document).

%% No event of the process shows that its reply is late; another process's does at the end.
deadline_at_the_end(Config) ->
    Lines = [
        "init(<0.11.0>, <0.10.0>, {worker,init,[1]})\n",
        "init(<0.12.0>, <0.10.0>, {worker,init,[1]})\n",
        "recv(<0.11.0>, {request, 1})\n"
    ],
    ?assertEqual([], verdicts(replayed(Config, Lines))),
    ?assertMatch(
        [{~"soon", _, no, #{because := deadline}}],
        verdicts(replayed(Config, Lines ++ ["recv(<0.12.0>, x) delayed by 1\n"]))
    ).

%% Another monitor of the process goes on.
deadline_of_one_that_has_decided(Config) ->
    {ok, Compiled} = dyno_specification:compile(
        "property decides of module worker "
        "follows (receive {request, N} then send {reply, N} within 50 ns)*. "
        "property other of module worker never send never."
    ),
    Monitors = [
        begin
            {module, Module} = code:load_binary(Module, "", Beam),
            Module
        end
     || {Module, Beam, _} <- Compiled
    ],
    Items = [
        {self(), {spawned, self(), {worker, init, []}}, 1},
        {self(), {'receive', {request, 1}}, 2},
        {self(), {send, {reply, 2}, x}, 3},
        {self(), {'receive', {request, 3}}, 100}
    ],
    #{verdicts := [#{verdict := no, property := ~"decides"}], open := [_]} =
        of_items(Config, Monitors, Items).

process_from_its_middle(Config) ->
    Process = #{pid => self(), initial_call => {worker, init, 1}, partial => true},
    Items = [{process, Process, 1}, {self(), {send, {reply, 1}, x}, 2}],
    Result = of_items(Config, monitors(Config), Items),
    %% The request may have been there before.
    #{counts := #{opened := 1}, verdicts := Verdicts} = Result,
    ?assertEqual([inconclusive], lists:usort([Is || #{verdict := Is} <- Verdicts])),
    ?assert(lists:member(~"arrives", [Name || #{property := Name} <- Verdicts])),
    Twice = of_items(Config, monitors(Config), Items ++ [{self(), {send, {reply, 1}, x}, 3}]),
    ?assertMatch(#{verdicts := [#{trace := partial} | _]}, Twice),
    ?assertEqual(2, decided(no, Twice)).

%% However the events of several processes are mixed.
every_order_gives_the_same(Config) ->
    Property = ?FORALL(
        {Traces, Choices},
        {list(trace()), list(range(0, 100))},
        begin
            Processes = [whole(I, Trace) || {I, Trace} <- lists:enumerate(Traces)],
            Expected = outcome(Config, lists:append(Processes)),
            Mixed = mixed(Processes, Choices),
            Got = outcome(Config, Mixed),
            ?WHENFAIL(ct:pal("~p~n~p~n~p", [Mixed, Expected, Got]), Expected =:= Got)
        end
    ),
    dyno_property:holds(Property, 200).

trace() ->
    list({
        elements([
            {'receive', {request, 1}},
            {'receive', {request, 2}},
            {send, {reply, 1}, x},
            {send, {reply, 2}, x},
            {send, {late, 1}, x}
        ]),
        range(1, 6)
    }).

%% Times are unique, as strict monotonic time is.
whole(I, Trace) ->
    Pid = list_to_pid("<0." ++ integer_to_list(I) ++ ".77>"),
    {Events, End} = lists:mapfoldl(
        fun({Event, Wait}, Time) -> {{Pid, Event, Time + Wait * 100}, Time + Wait * 100} end,
        I,
        Trace
    ),
    Begin = {Pid, {spawned, self(), {worker, init, [I]}}, I},
    Exit = [{Pid, {exit, normal}, End + 100} || I rem 3 =/= 0],
    [Begin | Events] ++ Exit.

mixed(Traces, Choices) ->
    mixed([Trace || [_ | _] = Trace <- Traces], Choices, Choices).

mixed([], _Choices, _All) ->
    [];
mixed(Traces, [], []) ->
    lists:append(Traces);
mixed(Traces, [], All) ->
    mixed(Traces, All, All);
mixed(Traces, [Choice | Choices], All) ->
    {Before, [[Item | Rest] | After]} = lists:split(Choice rem length(Traces), Traces),
    [Item | mixed(Before ++ [Rest || Rest =/= []] ++ After, Choices, All)].

outcome(Config, Items) ->
    #{counts := Counts, open := Open, crashes := [], verdicts := Verdicts} =
        of_items(Config, monitors(Config), Items),
    {Counts, Open, lists:sort(Verdicts)}.

of_items(Config, Monitors, Items) ->
    ok = written(file(Config), Items),
    {ok, Result} = dyno_verify_replay:file(file(Config), Monitors, #{}),
    Result.

%% Small things

decided(Verdict, #{counts := #{monitors := Monitors}}) ->
    lists:sum([map_get(Verdict, Counts) || Counts <- maps:values(Monitors)]).

monitors(Config) -> proplists:get_value(monitors, Config).

cons(Item, Items) -> [Item | Items].

file(Config) -> filename:join(proplists:get_value(priv_dir, Config), "events").

replay(Config, Lines) ->
    ok = file:write_file(file(Config), Lines),
    dyno_verify_replay:file(file(Config), monitors(Config), #{}).

replayed(Config, Lines) ->
    {ok, Result} = replay(Config, Lines),
    #{crashes := []} = Result,
    Result.

verdicts(#{verdicts := Reports}) ->
    lists:sort([
        {Property, Pid, Verdict, Explanation}
     || #{
            property := Property,
            verdict := Verdict,
            process := #{pid := Pid},
            explanation := Explanation
        } <- Reports
    ]).
