%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_truth_verdicts_SUITE).
-moduledoc """
What `dyno verify` says of programs whose answer is known: what was cut off, or not seen, does not
pass; what lived before dyno came is not told as broken, a late reply once; woven code needs no
dyno.
""".

-include_lib("stdlib/include/assert.hrl").

-import(dyno_truth, [rows/2]).

-compile([export_all, nowarn_export_all]).

%% A pump sends itself numbers; a server answers late, or once dyno is there, calls from before; of
%% the loops some break the property, each once.
-define(SYSTEM, """
-module(known).
-behaviour(gen_server).
-export([pumps/1, pump/1, server/0, pool/0, loops/2, loop/1, labelled/1]).
-export([init/1, handle_call/3, handle_cast/2]).
pumps(N) -> [spawn(known, pump, [0]) || _ <- lists:seq(1, N)].
pump(N) -> self() ! {n, N}, receive {n, N} -> ok end, timer:sleep(1), pump(N + 1).
loops(N, Broken) -> [spawn(known, loop, [I =< Broken]) || I <- lists:seq(1, N)].
loop(IsBroken) ->
    receive
        {request, X} ->
            self() ! {reply, X},
            IsBroken andalso (self() ! {reply, X}),
            loop(IsBroken);
        stop -> ok;
        _ -> loop(IsBroken)
    end.
labelled(Label) -> spawn(fun() -> proc_lib:set_label(Label), loop(false) end).
server() -> gen_server:start({local, known_server}, known, [], []).
pool() -> gen_server:start({local, known_pool}, known, pool, []).
init(State) -> {ok, State}.
handle_call({wait, Ms}, From, State) ->
    _ = spawn(fun() -> timer:sleep(Ms), gen_server:cast(known_server, {answer, From}) end),
    {noreply, State};
handle_call(hold, From, Held) -> {noreply, [From | Held]};
handle_call({checkout, W}, _, State) -> {reply, {ok, W}, State};
handle_call(_, _, State) -> {reply, done, State}.
handle_cast(release, Held) -> [gen_server:reply(From, done) || From <- Held], {noreply, []};
handle_cast({answer, From}, State) -> gen_server:reply(From, done), {noreply, State}.

""").

-define(SPINS, """
-module(known_spins).
-export([spin/0]).
spin() -> spin().

""").

-define(WOVEN, """
-module(known_woven).
-compile({parse_transform, dyno_inline}).
-export([start/0, loop/1, request/0]).
start() -> spawn(known_woven, loop, [0]).
loop(N) ->
    receive
        {ping, nobody} -> loop(N);
        {answer, From} -> From ! {pong, N}, loop(N);
        {ping, From} -> From ! {pong, N}, loop(N + 1);
        {request, From} -> request(), From ! requested, loop(N)
    end.
request() ->
    Self = self(),
    Id = spawn_request(fun() -> Self ! hello end, [{reply_tag, mine}, monitor]),
    Pid = receive {mine, Id, ok, Child} -> Child end,
    receive hello -> ok end,
    receive {'DOWN', Id, process, Pid, normal} -> ok end.

""").

-define(SLOW, """
-module(known_slow).
-export([needs/0, init/1, event/3]).
needs() -> #{select => [{module, known_woven}], events => ['receive']}.
init(_) -> 0.
event({'receive', {ping, _}}, _, N) -> timer:sleep(4000), {next, N + 1};
event(_, _, N) -> {next, N}.
""").

-define(HANGS, """
-module(known_hang).
-export([needs/0, init/1, event/3]).
needs() -> #{select => [{module, known}], events => [send]}.
init(_) -> 0.
event({send, _, _}, _, 20) -> hang();
event(_, _, N) -> {next, N + 1}.
hang() -> hang().
""").

-define(KEYS, """
-module(known_keys).
-export([needs/0, init/1, key/2, event/3]).
needs() -> #{property => ~"held", select => [{module, m}], events => [send], key => true}.
init(_) -> free.
key({send, {a, L}, _}, _) -> {ok, L};
key(_, _) -> none.
event(_, _, free) -> {next, held};
event(_, _, held) -> {no, #{}, held}.
""").

-define(NUMBERS, "property numbers of module known follows (send {n, N} then receive {n, N})*.").

suite() -> [{timetrap, {minutes, 2}}].

all() -> [{group, cases}].

groups() ->
    [
        {cases, [parallel], [
            cut_off_is_unknown,
            late_across_is_unknown,
            a_monitor_that_hangs,
            a_monitor_that_exits,
            a_crash_of_any_function,
            an_idle_server_is_unknown,
            a_call_that_is_out,
            a_late_reply_is_one_fault,
            how_many_processes_broke_it,
            live_and_replay_are_equal,
            woven_code_needs_no_dyno,
            who_is_in_a_monitor_lives,
            deadlines_under_each_instrumentation,
            started_by_another_node,
            replay_chooses_by_name,
            what_is_not_monitored_is_unknown,
            who_came_meanwhile_is_unknown
        ]}
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    Config.

end_per_suite(_Config) -> ok.

%% Beside it two processes spin: both processors are busy.
cut_off_is_unknown(Config) ->
    in_node(fun(Node) ->
        known_spins = dyno_peers:load(Node, ?SPINS),
        Spin = [erpc:call(Node, erlang, spawn, [known_spins, spin, []]) || _ <- [1, 2]],
        _ = erpc:call(Node, known, pumps, [50]),
        Arguments = ["--for", "1s", "--limit-rate", "100"],
        %% Its recording says so, too.
        File = filename:join(folder(Config), "cut.rec"),
        Text =
            ?NUMBERS
            "\nproperty shared of module known across N "
            "never send {n, N} then send {m, N}.",
        {Status, Output} = verify(Config, Text, Node, Arguments ++ ["--record", File]),
        %% As an undecided threshold of dyno test.
        ?assertEqual(1, Status),
        says(Output, "UNKNOWN *numbers .* 50 of 50 processes were cut off"),
        says(Output, "UNKNOWN *shared .* 50 of 50 processes were cut off"),
        says(Output, "UNDECIDED: 2 of 2 properties could not be decided"),
        says_not(Output, "PASS"),
        {ok, Again} = dyno_verify_replay:run(
            [specification(Config, Text)], list_to_binary(File), #{}
        ),
        ?assertMatch(
            [#{~"result" := ~"unknown"}, #{~"result" := ~"unknown"}], map_get(~"verdicts", Again)
        ),
        %% What dyno may leave in a node that has no turn for it.
        [exit(Pid, kill) || Pid <- Spin],
        {ok, _} = dyno_agent:leave(Node, #{})
    end).

%% What was seen until an event came too late may be in the wrong order; too many keys are as bad.
late_across_is_unknown(Config) ->
    Path = filename:join(folder(Config), "known_keys.erl"),
    ok = file:write_file(Path, ?KEYS),
    {ok, [{Module, Beam, File}]} = dyno_verify_monitors:read([list_to_binary(Path)]),
    ok = dyno_code:load(Module, File, Beam),
    [A, B] = [list_to_pid("<0." ++ N ++ ".0>") || N <- ["1000", "1001"]],
    Seen = fun(Events) ->
        Verdicts = dyno_agent_verdicts:new([Module], self()),
        Started = [{Pid, {spawned, self(), {m, f, []}}, 0} || Pid <- [A, B]],
        _ = lists:foldl(
            fun({Pid, Event, Ms}, Core) ->
                {Next, Effects} = dyno_agent_partition:event(Pid, Event, Ms * 1_000_000, Core),
                ok = dyno_agent_verdicts:effects(Effects, Verdicts),
                Next
            end,
            dyno_agent_partition:new([Module], #{}),
            Started ++ Events
        ),
        #{monitors := #{Module := #{no := No, inconclusive := Unsure}}} =
            dyno_agent_verdicts:read(Verdicts),
        {No, Unsure}
    end,
    Send = fun(Pid, L, Ms) -> {Pid, {send, {a, L}, self()}, Ms} end,
    InTime = [Send(A, 1, 1), Send(B, 2, 100), Send(B, 3, 200)],
    ?assertEqual({0, 0}, Seen(InTime)),
    ?assertEqual({0, 1}, Seen(InTime ++ [Send(A, 2, 50), Send(A, 4, 60)])),
    ?assertEqual({1, 0}, Seen(InTime ++ [Send(A, 2, 210), Send(A, 5, 300)])),
    ?assertEqual({0, 1}, Seen([Send(A, L, L) || L <- lists:seq(1, 100_050)])),
    %% One process that was cut off as well is still one.
    Cut = dyno_agent_verdicts:new([Module], spawn(fun() -> ok end)),
    Report = #{verdict => inconclusive, trace => gap, monitor => Module, process => #{pid => A}},
    Effects = [{opened, #{pid => A}, [Module]}, {unsure, Module, late}],
    ok = dyno_agent_verdicts:effects(
        Effects ++ [{decided, Module, A, cut}, {verdict, Report}], Cut
    ),
    #{monitors := #{Module := Counts}} = dyno_agent_verdicts:read(Cut),
    ?assertMatch(#{processes := 1, cut := 1, inconclusive := 1}, Counts),
    ok = dyno_code:unload([Module]),
    Told = fun Told() ->
        receive
            {dyno_agent_verdicts, {fault, Text}} -> [iolist_to_binary(Text) | Told()];
            {dyno_agent_verdicts, _} -> Told()
        after 0 -> []
        end
    end,
    [Late, Full] = Told(),
    says(Late, "^held: an event came later than it may"),
    says(Full, "^held: there are more keys than are looked at").

%% Of a function that only asks, too, and of an answer that is none.
a_crash_of_any_function(Config) ->
    [
        ?assertEqual({Function, {0, 1}}, {Function, crashed(Function, HasKey, Config)})
     || {Function, HasKey} <- [
            {"deadline(_) -> error(oops).", false},
            {"deadline(_) -> error(oops).", true},
            {"deadline(_) -> soon.", false},
            {"deadline(N) when N < 2 -> infinity; deadline(_) -> 1.5.", false},
            {"names(_) -> error(oops).", false},
            {"names(_) -> error(oops).", true},
            {"names(_) -> maybe_so.", false},
            {"key(_, _) -> undefined.", true}
        ]
    ].

crashed(Function, HasKey, Config) ->
    Module = "known_bad",
    Name = hd(string:split(Function, "(")),
    Arity = proplists:get_value(Name, [{"key", "2"}], "1"),
    Key = [["key(_, _) -> {ok, all}.\n"] || HasKey, Name =/= "key"],
    Path = filename:join(folder(Config), Module ++ ".erl"),
    ok = file:write_file(Path, [
        "-module(",
        Module,
        ").\n-export([needs/0, init/1, event/3, timeout/2, ",
        Name,
        "/",
        Arity,
        [", key/2" || Key =/= []],
        "]).\n",
        io_lib:format(
            "needs() -> #{select => [{module, m}], events => [send], key => ~tp}.\n", [HasKey]
        ),
        "init(_) -> 0.\nevent(_, _, N) -> {next, N + 1}.\ntimeout(_, N) -> {next, N}.\n",
        Function,
        "\n",
        Key
    ]),
    {ok, [{Monitor, Beam, File}]} = dyno_verify_monitors:read([list_to_binary(Path)]),
    ok = dyno_code:load(Monitor, File, Beam),
    Pid = list_to_pid("<0.1000.0>"),
    Verdicts = dyno_agent_verdicts:new([Monitor], self()),
    {Core, Effects} = lists:foldl(
        fun({Event, Ms}, {Before, Earlier}) ->
            {Next, New} = dyno_agent_partition:event(Pid, Event, Ms * 1_000_000, Before),
            {Next, Earlier ++ New}
        end,
        {dyno_agent_partition:new([Monitor], #{}), []},
        [{{spawned, self(), {m, f, []}}, 0}, {{send, a, self()}, 1}, {{send, b, self()}, 100}]
    ),
    {_, Last} = dyno_agent_partition:timeouts(200_000_000, Core),
    ok = dyno_agent_verdicts:effects(Effects ++ Last, Verdicts),
    #{monitors := #{Monitor := #{no := No, crashed := Crashed}}} =
        dyno_agent_verdicts:read(Verdicts),
    ok = dyno_agent_verdicts:delete(Verdicts),
    ok = dyno_code:unload([Monitor]),
    {No, min(1, Crashed)}.

%% A server that ends and is started anew under its name and label: the file has names, too.
replay_chooses_by_name(Config) ->
    Text =
        "property answers of registered known_server each R "
        "follows (call _ ref R then reply _ ref R)*.\n"
        "property labelled of label named each N "
        "follows (receive {request, N} then send {reply, N})*.\n"
        "property module of module known each R follows (call _ ref R then reply _ ref R)*.",
    File = filename:join(folder(Config), "names.rec"),
    in_node(fun(Node) ->
        Live = verified(Config, Text, Node, #{record => list_to_binary(File)}, fun() ->
            [
                begin
                    {ok, Server} = erpc:call(Node, known, server, []),
                    done = gen_server:call(Server, now),
                    Out = gen_server:send_request(Server, {wait, 60_000}),
                    done = gen_server:call(Server, now),
                    exit(Server, kill),
                    {error, _} = gen_server:wait_response(Out, 10_000)
                end
             || _ <- [1, 2, 3]
            ],
            Labelled = erpc:call(Node, known, labelled, [named]),
            Labelled ! {request, 1},
            Labelled ! stop
        end),
        ?assertEqual(
            [{~"answers", ~"fail"}, {~"labelled", ~"pass"}, {~"module", ~"fail"}], results(Live)
        ),
        {ok, Again} = dyno_verify_replay:run(
            [specification(Config, Text)], list_to_binary(File), #{}
        ),
        ?assertEqual({~"answers", ~"broken at least 3 times, by 3 of 3 processes"}, hd(texts(Live))),
        ?assertEqual(texts(Live), texts(Again))
    end).

%% A property across processes under RIARC, and a process that ran before.
what_is_not_monitored_is_unknown(Config) ->
    Text =
        "property across of module known across N "
        "never send {n, N} then eventually receive {n, N}.\n"
        "property before of module known never receive {nothing, _}.",
    in_node(fun(Node) ->
        [_] = erpc:call(Node, known, pumps, [1]),
        [
            begin
                Document = verified(Config, Text, Node, #{instrumentation => By}, fun() ->
                    _ = erpc:call(Node, known, loops, [3, 0]),
                    timer:sleep(300)
                end),
                ?assertNot(lists:keymember(~"pass", 2, results(Document)), Document)
            end
         || By <- [dyno_agent_riarc_verify, inline]
        ]
    end).

%% The tracer is killed while no process is monitored: some may have come and gone before the next.
who_came_meanwhile_is_unknown(Config) ->
    Text =
        "property requests of module known "
        "follows (receive {request, N} then send {reply, N})*.",
    in_node(fun(Node) ->
        Document = verified(Config, Text, Node, #{}, fun() ->
            [Tracer] = tracers(Node),
            exit(Tracer, kill),
            again(Node, Tracer),
            [Loop] = erpc:call(Node, known, loops, [1, 0]),
            Loop ! {request, 1},
            Loop ! stop,
            timer:sleep(300)
        end),
        [#{~"result" := ~"unknown", ~"text" := Said}] = map_get(~"verdicts", Document),
        says(Said, "^monitoring of .* began anew, and processes may have been missed$")
    end).

tracers(Node) ->
    [
        Pid
     || Pid <- erpc:call(Node, erlang, processes, []),
        dyno_agent_verify_tracer <- [erpc:call(Node, proc_lib, get_label, [Pid])]
    ].

again(Node, Tracer) ->
    case tracers(Node) of
        [Other] when Other =/= Tracer -> timer:sleep(100);
        _ -> again(Node, Tracer)
    end.

%% Each process is counted once, though it has another partition afterwards.
a_monitor_that_hangs(Config) ->
    Path = filename:join(folder(Config), "known_hang.erl"),
    ok = file:write_file(Path, ?HANGS),
    in_node(fun(Node) ->
        _ = erpc:call(Node, known, pumps, [20]),
        {ok, Document} = dyno_verify:run(
            [list_to_binary(Path), specification(Config, ?NUMBERS)], [Node], #{for_ms => 5_500}
        ),
        [Hang, Numbers] = map_get(~"verdicts", Document),
        ?assertMatch(
            #{~"result" := ~"unknown", ~"text" := ~"20 of 20 processes were cut off"}, Hang
        ),
        ?assertMatch(
            #{~"result" := ~"unknown", ~"text" := ~"20 of 20 processes were cut off"}, Numbers
        ),
        [Partitions] = rows(~"partitions", Document),
        ?assertMatch(#{~"gap" := 20, ~"open" := 0, ~"partial" := 0}, Partitions),
        %% Of the time in which there were events, without that until the shards were given up.
        #{~"events" := Events, ~"rate" := Rate} = Partitions,
        ?assert(abs(Events / Rate - 5.5) < 1, {Events, Rate})
    end).

%% It kills what runs it, again and again: one fault, with its number.
a_monitor_that_exits(Config) ->
    Path = filename:join(folder(Config), "known_exits.erl"),
    Exits = string:replace(?HANGS, "20) -> hang()", "20) -> exit(self(), kill)"),
    ok = file:write_file(Path, string:replace(Exits, "known_hang", "known_exits")),
    in_node(fun(Node) ->
        _ = erpc:call(Node, known, pumps, [3]),
        {_, Output} = dyno_command:run([
            "verify",
            Path,
            atom_to_list(Node),
            "--cookie",
            atom_to_list(erlang:get_cookie()),
            "--for",
            "2s",
            "-o",
            filename:rootname(Path) ++ ".json"
        ]),
        ct:log("~ts", [Output]),
        says(Output, "\\([0-9]+ times\\)"),
        ?assertMatch([_, _], binary:matches(Output, ~": killed; 3 processes were cut off"))
    end).

an_idle_server_is_unknown(Config) ->
    in_node(fun(Node) ->
        {ok, _} = erpc:call(Node, known, server, []),
        Text =
            "property answers of registered known_server each R "
            "follows (call _ ref R then reply _ ref R)*.",
        {1, Output} = verify(Config, Text, Node, ["--for", "500ms"]),
        says(Output, "UNKNOWN *answers .* nothing that it is about was seen of 1 process")
    end).

%% Calls, and what a pool has given away, from before dyno came. What breaks it later is told.
a_call_that_is_out(Config) ->
    Text =
        "property answers of registered known_server each R "
        "follows (call _ ref R then reply _ ref R)*.\n"
        "property once of registered known_server each R "
        "always reply _ ref R implies once call _ ref R.\n"
        "property requests of module known "
        "follows (receive {request, N} then receive {reply, N})*.\n"
        "property owner of registered known_pool each W "
        "follows (reply {ok, W} then call {checkin, W})*.\n",
    in_node(fun(Node) ->
        {ok, Server} = erpc:call(Node, known, server, []),
        {ok, Pool} = erpc:call(Node, known, pool, []),
        [Loop] = erpc:call(Node, known, loops, [1, 0]),
        Checkout = fun(W) -> {ok, W} = gen_server:call(Pool, {checkout, W}) end,
        Checkin = fun(W) -> done = gen_server:call(Pool, {checkin, W}) end,
        Checkout(1),
        Waiting = [gen_server:send_request(Server, hold) || _ <- lists:seq(1, 20)],
        Document = verified(Config, Text, Node, #{}, fun() ->
            Checkin(1),
            ok = gen_server:cast(Server, release),
            [{reply, done} = gen_server:wait_response(Id, 10_000) || Id <- Waiting],
            Loop ! {reply, before},
            [Loop ! {request, N} || N <- [1]],
            done = gen_server:call(Server, now),
            %% Given back twice.
            Checkout(2),
            Checkin(2),
            Checkin(2),
            Checkout(1),
            Checkin(1)
        end),
        ?assertEqual(
            [
                {~"answers", ~"pass"},
                {~"once", ~"unknown"},
                {~"requests", ~"unknown"},
                {~"owner", ~"fail"}
            ],
            results(Document)
        ),
        [~"for 1 of 1 process it depends on events before the trace began"] =
            [T || {~"once", T} <- texts(Document)],
        [#{~"text" := Broken}] =
            [V || #{~"name" := ~"owner"} = V <- map_get(~"verdicts", Document)],
        ?assertEqual(~"broken at least once, by 1 of 1 process", Broken)
    end).

a_late_reply_is_one_fault(Config) ->
    Text =
        "property soon of registered known_server each R "
        "follows (call _ ref R then reply _ ref R within 50 ms)*.",
    in_node(fun(Node) ->
        {ok, Server} = erpc:call(Node, known, server, []),
        Document = verified(Config, Text, Node, #{}, fun() ->
            [done = gen_server:call(Server, {wait, Ms}) || Ms <- [1, 300, 1, 300]]
        end),
        [#{~"text" := Said}] = map_get(~"verdicts", Document),
        ?assertEqual(~"broken 2 times, by 1 of 1 process", Said),
        ?assertEqual(2, length(rows(~"violations", Document)))
    end).

how_many_processes_broke_it(Config) ->
    Text = "property once of module known each N never receive {reply, N} then receive {reply, N}.",
    in_node(fun(Node) ->
        Document = verified(Config, Text, Node, #{}, fun() ->
            Loops = erpc:call(Node, known, loops, [3, 1]),
            [Loop ! {request, N} || N <- [1, 2, 3], Loop <- Loops],
            timer:sleep(300),
            [Loop ! stop || Loop <- Loops]
        end),
        [#{~"result" := ~"fail", ~"text" := Said}] = map_get(~"verdicts", Document),
        ?assertEqual(~"broken 3 times, by 1 of 3 processes", Said)
    end).

live_and_replay_are_equal(Config) ->
    Text =
        "property punctual of registered known_server each R "
        "follows (call _ ref R then reply _ ref R within 150 ms)*.\n"
        "property beats of registered known_pool at least 1 call _ within 300 ms.\n"
        "property replies of registered known_server each R "
        "always reply _ ref R implies once call _ ref R.",
    File = filename:join(folder(Config), "equal.rec"),
    in_node(fun(Node) ->
        {ok, Server} = erpc:call(Node, known, server, []),
        {ok, _} = erpc:call(Node, known, pool, []),
        Live = verified(Config, Text, Node, #{record => list_to_binary(File)}, fun() ->
            [done = gen_server:call(Server, {wait, Ms}) || Ms <- [1, 300, 1]],
            _ = gen_server:send_request(Server, {wait, 20_000}),
            timer:sleep(500)
        end),
        {ok, Again} = dyno_verify_replay:run(
            [specification(Config, Text)], list_to_binary(File), #{}
        ),
        ?assertEqual(texts(Live), texts(Again)),
        ?assertEqual(
            [
                {~"punctual", ~"broken 2 times, by 1 of 1 process"},
                {~"beats", ~"broken at least once, by 1 of 1 process"},
                {~"replies", ~"held by 1 process"}
            ],
            texts(Live)
        )
    end).

woven_code_needs_no_dyno(Config) ->
    Spec = "property pongs of module known_woven follows (receive {ping, _} then send {pong, _})*.",
    in_node(fun(Node) ->
        ok = weave(Node),
        Pings = fun(Pid) ->
            Pid ! {ping, self()},
            receive
                {pong, _} -> ok
            after 5_000 -> ct:fail(no_pong)
            end
        end,
        Before = erpc:call(Node, known_woven, start, []),
        ok = Pings(Before),
        Options = #{instrumentation => inline},
        Document = verified(Config, Spec, Node, Options, fun() ->
            During = erpc:call(Node, known_woven, start, []),
            [ok = Pings(During) || _ <- lists:seq(1, 10)],
            ok = Pings(Before),
            During ! {request, self()},
            receive
                requested -> ok
            after 5_000 -> ct:fail(no_request)
            end,
            self() ! {during, During}
        end),
        ?assertEqual([{~"pongs", ~"pass"}], results(Document)),
        Lives =
            receive
                {during, Of} -> Of
            end,
        ?assertEqual([], [
            M
         || {M, _} <- erpc:call(Node, code, all_loaded, []),
            lists:prefix("dyno_", atom_to_list(M))
        ]),
        ok = Pings(Before),
        ok = Pings(Lives)
    end).

%% A purge would kill it: the modules stay as long as it is there.
who_is_in_a_monitor_lives(Config) ->
    Path = filename:join(folder(Config), "known_slow.erl"),
    ok = file:write_file(Path, ?SLOW),
    in_node(fun(Node) ->
        ok = weave(Node),
        Self = self(),
        Pinged = spawn_link(fun() ->
            dyno_suites:await(fun() ->
                erpc:call(Node, persistent_term, get, [dyno_inline, none]) =/= none
            end),
            Pid = erpc:call(Node, known_woven, start, []),
            Pid ! {ping, Self},
            Self ! {pinged, self(), Pid}
        end),
        {ok, Document} = dyno_verify:run(
            [list_to_binary(Path)], [Node], #{for_ms => 1000, instrumentation => inline}
        ),
        Pid =
            receive
                {pinged, Pinged, Of} -> Of
            end,
        [Left] = [T || #{~"code" := ~"modules_left", ~"text" := T} <- warned(Document)],
        says(Left, "a process is still in a monitor that is woven into it"),
        {error, {dyno_agent, {inside, Node}}} = dyno_agent:leave(Node, #{}),
        receive
            {pong, 0} -> ok
        after 10_000 -> ct:fail(no_pong)
        end,
        Pid ! {ping, self()},
        receive
            {pong, 1} -> ok
        after 5_000 -> ct:fail(no_pong)
        end,
        {ok, _} = dyno_agent:leave(Node, #{})
    end).

%% A process that waits breaks a deadline, too; what it does later is no second fault.
deadlines_under_each_instrumentation(Config) ->
    Spec =
        "property in_time of module known_woven "
        "follows (receive {ping, _} then send {pong, _} within 100 ms)*.",
    in_node(fun(Node) ->
        ok = weave(Node),
        [
            begin
                %% Those of the last round, which riarc does not monitor.
                [
                    erpc:call(Node, erlang, exit, [Pid, kill])
                 || Pid <- erpc:call(Node, erlang, processes, []),
                    {_, {known_woven, _, _}} <-
                        [erpc:call(Node, erlang, process_info, [Pid, initial_call])]
                ],
                Document = verified(Config, Spec, Node, #{instrumentation => By}, fun() ->
                    [Silent, Late, Good] = [
                        erpc:call(Node, known_woven, start, [])
                     || _ <- [1, 2, 3]
                    ],
                    Silent ! {ping, nobody},
                    Late ! {ping, nobody},
                    Good ! {ping, self()},
                    receive
                        {pong, _} -> ok
                    end,
                    timer:sleep(500),
                    Late ! {answer, self()},
                    receive
                        {pong, _} -> ok
                    end
                end),
                ?assertEqual(
                    {By, [{~"in_time", ~"broken at least 2 times, by 2 of 3 processes"}]},
                    {By, texts(Document)}
                )
            end
         || By <- [partition, dyno_agent_riarc_verify, inline]
        ]
    end).

%% With erpc, and what that starts: their parents are not seen.
started_by_another_node(Config) ->
    Text =
        "property unique of module known each N never receive {reply, N} then receive {reply, N}.",
    in_node(fun(Node) ->
        [
            begin
                Document = verified(Config, Text, Node, #{instrumentation => By}, fun() ->
                    Loops =
                        [spawn(Node, known, loop, [IsBroken]) || IsBroken <- [true, false]] ++
                            erpc:call(Node, known, loops, [2, 1]),
                    [Loop ! {request, 1} || Loop <- Loops],
                    timer:sleep(300),
                    [Loop ! stop || Loop <- Loops],
                    timer:sleep(100)
                end),
                ?assertEqual(
                    {By, [{~"unique", ~"broken at least 2 times, by 2 of 4 processes"}]},
                    {By, texts(Document)}
                ),
                ?assertMatch([#{~"complete" := 4, ~"gap" := 0}], rows(~"partitions", Document))
            end
         || By <- [partition, dyno_agent_riarc_verify]
        ]
    end).

weave(Node) ->
    {ok, known_woven, Beam} = compile:forms(dyno_peers:forms(?WOVEN), [warnings_as_errors]),
    {module, _} = erpc:call(Node, code, load_binary, [known_woven, "woven", Beam]),
    ok.

warned(Document) ->
    [Warning || #{~"code" := _} = Warning <- maps:get(~"warnings", Document, [])].

in_node(Test) -> dyno_leftovers:in_node([?SYSTEM], Test).

verify(Config, Text, Node, Arguments) ->
    Spec = specification(Config, Text),
    {Status, Output} = dyno_command:run([
        "verify",
        unicode:characters_to_list(Spec),
        atom_to_list(Node),
        "--cookie",
        atom_to_list(erlang:get_cookie()),
        "-o",
        filename:rootname(binary_to_list(Spec)) ++ ".json"
        | Arguments
    ]),
    ct:log("~ts", [Output]),
    {Status, Output}.

%% The document, of what is done while this runs.
verified(Config, Text, Node, Options, Work) ->
    Self = self(),
    Spec = specification(Config, Text),
    {Pid, Ref} = spawn_monitor(fun() ->
        exit(
            {result,
                dyno_verify:run([Spec], [Node], Options#{
                    show => fun(Event) ->
                        _ = [Self ! counted || {counted, _} <- [Event]],
                        ok
                    end
                })}
        )
    end),
    receive
        counted -> ok;
        {'DOWN', Ref, process, Pid, Early} -> ct:fail(Early)
    end,
    _ = Work(),
    Pid ! stop,
    receive
        {'DOWN', Ref, process, Pid, {result, {ok, Document}}} ->
            ct:log("~tp", [Document]),
            Document
    end.

specification(Config, Text) ->
    Name = io_lib:format("~b.dyno", [erlang:unique_integer([positive])]),
    Path = filename:join(folder(Config), Name),
    ok = file:write_file(Path, Text),
    unicode:characters_to_binary(Path).

folder(Config) -> proplists:get_value(priv_dir, Config).

results(Document) ->
    [{N, R} || #{~"name" := N, ~"result" := R} <- map_get(~"verdicts", Document)].

texts(Document) ->
    [{N, T} || #{~"name" := N, ~"text" := T} <- map_get(~"verdicts", Document)].

says(Output, Pattern) ->
    ?assertMatch({match, _}, re:run(Output, Pattern, [unicode]), Output).

says_not(Output, Pattern) ->
    ?assertEqual(nomatch, re:run(Output, Pattern, [unicode]), Output).
