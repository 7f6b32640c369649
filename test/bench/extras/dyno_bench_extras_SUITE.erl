%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_extras_SUITE).
-moduledoc "Other metrics than the time, and what codes make other processes do.".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 5}}].

%% The others are about options, files and reports.
each_release() -> [spawned_ones_are_found, large_messages, nothing_is_left].

all() ->
    [
        exact_metrics_decide,
        metrics_of_rounds,
        none_is_no_factor,
        servers_are_found,
        spawned_ones_are_found,
        alone_nobody_works,
        an_idle_server_does_not_count,
        large_messages,
        after_samples,
        after_samples_in_fresh_vms,
        samples_of_calls_by_metric,
        one_at_a_time_in_a_node,
        nothing_is_left,
        traced_events,
        refused,
        the_gate,
        another_machine,
        formats
    ].

%% The messages are as large as what the tracer may hold.
slow() -> [after_samples_in_fresh_vms, large_messages, after_samples].

init_per_suite(Config) -> dyno_command:with_server(Config).

end_per_suite(Config) -> dyno_command:without_server(Config).

%% The exit status and all that was printed.
bench(Config, Arguments) -> dyno_command:asked(Config, ["bench" | Arguments]).

run(Codes, Options) ->
    {ok, Document} = dyno_bench:run(Codes, maps:merge(#{budget_ms => 50}, Options)),
    ?assertMatch({ok, _}, dyno_recording:validate(Document)),
    Document.

rows(Name, Document) ->
    [Run | _] = dyno_recording:runs(Document),
    case dyno_recording:table(Run, Name) of
        {ok, Table} -> dyno_recording:rows(Table);
        _ -> []
    end.

%% However busy the machine is, and although the one of more words is the faster one.
exact_metrics_decide(_Config) ->
    Codes = ["lists:reverse(lists:seq(1, 9)).", "lists:seq(9, 1, -1)."],
    Words = run(Codes, #{metric => words}),
    ?assertMatch(
        [
            #{~"code" := ~"lists:seq(9, 1, -1).", ~"verdict" := ~"least", ~"value" := 18.0},
            #{~"verdict" := ~"more", ~"ratio" := 2.0, ~"ratio_low" := 2.0, ~"ratio_high" := 2.0}
        ],
        rows(~"codes", Words)
    ),
    ?assertMatch(#{~"parameters" := #{~"metric" := ~"words", ~"threshold" := 0.001}}, Words),
    {ok, Text} = dyno_report_console:format(Words, #{}),
    ?assertMatch({match, _}, re:run(Text, ~"allocates 2\\.00 times as many words as lists:seq")),
    Reductions = run(["lists:seq(1, 9).", "lists:seq(1, 9)."], #{metric => reductions}),
    ?assertMatch([_, #{~"verdict" := ~"same"}], rows(~"codes", Reductions)),
    %% Three codes: more runs, so that each pair has its interval.
    Three = run(["lists:seq(1, 9).", "lists:seq(1, 10).", "lists:seq(1, 11)."], #{metric => words}),
    ?assertEqual([~"least", ~"more", ~"more"], [V || #{~"verdict" := V} <- rows(~"codes", Three)]).

metrics_of_rounds(_Config) ->
    [
        begin
            Document = run(["lists:seq(1, 9).", "lists:seq(1, 999)."], #{
                metric => Metric, budget_ms => 5000
            }),
            ?assertMatch(
                [#{~"verdict" := Best}, #{~"verdict" := Worse, ~"value" := _}],
                rows(~"codes", Document)
            ),
            [Run] = dyno_recording:runs(Document),
            ?assertMatch([_, _], dyno_recording:series(Run, ~"bench.value")),
            {ok, Text} = dyno_report_console:format(Document, #{}),
            ?assertMatch({match, _}, re:run(Text, Sentence), Text)
        end
     || {Metric, Best, Worse, Sentence} <- [
            {wall, ~"fastest", ~"slower", "takes .* times as much wall-clock time as"},
            {gc, ~"least", ~"more", "makes .* times as many collections as"}
        ]
    ],
    case dyno_clock:missing() of
        none ->
            [_, #{~"verdict" := ~"slower"}] =
                rows(
                    ~"codes",
                    run(["lists:seq(1, 9).", "lists:seq(1, 999)."], #{
                        metric => cpu, budget_ms => 5000
                    })
                );
        {missing, _} ->
            {error, {_, {no_metric, cpu, _}} = Error} = dyno_bench:run(["ok."], #{metric => cpu}),
            ?assertEqual(3, dyno_error:exit_status(Error))
    end,
    [#{~"value" := Bytes} | _] = rows(~"codes", run(["lists:seq(1, 9)."], #{metric => memory})),
    ?assert(Bytes > 1000).

none_is_no_factor(_Config) ->
    Document = run(["ok.", "lists:seq(1, 9)."], #{metric => words}),
    ?assertMatch(
        [#{~"value" := +0.0}, #{~"verdict" := ~"more", ~"ratio" := null}], rows(~"codes", Document)
    ),
    {ok, Text} = dyno_report_console:format(Document, #{}),
    ?assertMatch({match, _}, re:run(Text, ~"allocates words, unlike ok")).

%% A server in front of another one, which does the work.
servers_are_found(_Config) ->
    Back = server(dyno_costs_back, fun() -> lists:sum(lists:seq(1, 100)) end),
    Front = server(dyno_costs_front, fun() -> call(Back) end),
    Code = #{runner => fun call/1, init_runner => fun() -> Front end, label => "call"},
    try
        Document = run([Code], #{extras => [side_effects]}),
        Rows = rows(~"side_effects", Document),
        [#{~"reductions_per_call" := OfBack}] = named(~"dyno_costs_back", Rows),
        [#{~"reductions_per_call" := OfFront}] = named(~"dyno_costs_front", Rows),
        %% 100 elements summed up take some hundred reductions; passing on takes a few.
        ?assert(OfBack > 100),
        ?assert(OfFront > 1 andalso OfFront < OfBack, {OfFront, OfBack}),
        %% The request, and at the one in front the other's answer.
        ?assertMatch([#{~"messages_per_call" := 1.0}], named(~"dyno_costs_back", Rows)),
        ?assertMatch([#{~"messages_per_call" := 2.0}], named(~"dyno_costs_front", Rows)),
        [#{~"messages_per_call" := 4.0, ~"whole_reductions_per_call" := All}] =
            rows(~"codes", Document),
        ?assert(All > OfBack + OfFront),
        {ok, Text} = dyno_report_console:format(Document, #{}),
        ?assertMatch({match, _}, re:run(Text, ~"Other processes' work for a call: call")),
        beside_other_programs(fun() -> run([Code], #{extras => [side_effects]}) end)
    after
        [exit(P, kill) || P <- [Back, Front]]
    end.

%% There an epoch whose clocks disagree is run again: its messages were counted twice.
beside_other_programs(Measure) ->
    Spinning = dyno_truth:spin(),
    try
        ?assertMatch([#{~"messages_per_call" := 4.0}], rows(~"codes", Measure()))
    after
        dyno_truth:calm(Spinning)
    end.

named(Name, Rows) -> [Row || #{~"process" := P} = Row <- Rows, P =:= Name].

server(Name, Work) ->
    Pid = spawn(fun() -> serve(Work) end),
    register(Name, Pid),
    Pid.

serve(Work) ->
    receive
        {From, Ref} ->
            From ! {Ref, Work()},
            serve(Work)
    end.

call(Pid) ->
    Ref = make_ref(),
    Pid ! {self(), Ref},
    receive
        {Ref, Result} -> Result
    end.

spawned_ones_are_found(_Config) ->
    Code =
        "{P, R} = spawn_monitor(lists, seq, [1, 1000]), "
        "receive {'DOWN', R, process, P, _} -> ok end.",
    Document = run([Code], #{extras => [side_effects]}),
    [#{~"process" := ~"lists:seq/2", ~"kind" := ~"spawned", ~"count" := 1.0} = Row] =
        rows(~"side_effects", Document),
    #{~"reductions_per_call" := Reductions, ~"own_time_per_call" := Ns} = Row,
    ?assert(Reductions > 200 andalso Reductions < 3000, Reductions),
    ?assert(Ns > 0),
    ?assertMatch([#{~"spawned_per_call" := 1.0}], rows(~"codes", Document)).

alone_nobody_works(_Config) ->
    Document = run(["lists:seq(1, 9)."], #{extras => [side_effects]}),
    ?assertEqual([], rows(~"side_effects", Document)),
    [#{~"whole_reductions_per_call" := All, ~"reductions_per_call" := Own}] =
        rows(~"codes", Document),
    ?assert(abs(All - Own) < 1, {All, Own}).

%% Something that always works is not the code's doing.
an_idle_server_does_not_count(_Config) ->
    Ticker = spawn(fun Tick() ->
        receive
        after 1 ->
            _ = lists:seq(1, 100),
            Tick()
        end
    end),
    register(dyno_costs_ticker, Ticker),
    try
        Rows = rows(~"side_effects", run(["lists:seq(1, 9)."], #{extras => [side_effects]})),
        ?assertEqual([], named(~"dyno_costs_ticker", Rows))
    after
        exit(Ticker, kill)
    end.

%% The trace would have copies of them: tracing ends, and all else is measured.
large_messages(_Config) ->
    Sink = spawn(fun Drop() ->
        receive
            _ -> Drop()
        end
    end),
    Code = #{
        runner => "r({P, L}) -> P ! L.",
        init_runner => fun() -> {Sink, lists:seq(1, 9_000_000)} end,
        label => "large"
    },
    try
        {ok, Document} = dyno_bench:run([Code], #{budget_ms => 1, extras => [side_effects]}),
        ?assertMatch([#{~"code" := ~"large"}], rows(~"codes", Document)),
        #{~"warnings" := Warnings} = Document,
        Of = [T || #{~"code" := ~"side_effects", ~"text" := T} <- Warnings],
        ?assertMatch([_], [T || T <- Of, string:find(T, "too large") =/= nomatch])
    after
        exit(Sink, kill)
    end.

%% There are as many samples as the mode says; what they do not tell comes after them.
after_samples(Config) ->
    [
        measured_after(Samples, Mode, #{})
     || {_, #{samples := Samples}} = Mode <- [
            {continuous, #{sample_ms => 5, samples => 4}},
            {timed, #{iterations => 10, samples => 4}}
        ]
    ],
    %% The time decides if there is no other metric.
    Timed = run(["lists:seq(1, 9).", "lists:seq(1, 900)."], #{
        mode => {continuous, #{sample_ms => 5, samples => 6}}, extras => [side_effects]
    }),
    ?assertMatch([#{~"verdict" := ~"fastest"}, #{~"verdict" := ~"slower"}], rows(~"codes", Timed)),
    {0, _} = bench(Config, ["lists:seq(1, 9)", "-d", "5", "--whole", "--metric", "reductions"]).

after_samples_in_fresh_vms(_Config) ->
    measured_after(1, {continuous, #{sample_ms => 5, samples => 1}}, #{isolated => #{vms => 6}}).

measured_after(Samples, Mode, Where) ->
    Codes = ["lists:reverse(lists:seq(1, 9)).", "lists:seq(9, 1, -1)."],
    Document = run(Codes, Where#{
        mode => Mode, metric => words, extras => [side_effects]
    }),
    ?assertMatch(
        [
            #{
                ~"code" := ~"lists:seq(9, 1, -1).",
                ~"value" := 18.0,
                ~"verdict" := ~"least",
                ~"words_per_call" := 18.0,
                ~"messages_per_call" := +0.0
            },
            #{~"verdict" := ~"more", ~"ratio" := 2.0}
        ],
        rows(~"codes", Document)
    ),
    [Run] = dyno_recording:runs(Document),
    [
        ?assertEqual(Samples, length(Times))
     || #{~"values" := Times} <- dyno_recording:series(Run, ~"bench.time")
    ].

samples_of_calls_by_metric(_Config) ->
    Code = fun(Length) -> io_lib:format("lists:seq(1, ~b).", [Length]) end,
    %% Longer lists are collected in dirty schedulers: beside other programs their time is not known.
    Document = run([lists:flatten(Code(N)) || N <- [9, 9_000]], #{
        metric => wall, mode => {timed, #{iterations => 10, samples => 6}}
    }),
    ?assertMatch(
        [#{~"verdict" := ~"fastest", ~"value" := V}, #{~"verdict" := ~"slower"}] when V > 0,
        rows(~"codes", Document)
    ).

%% Who looks at the whole node waits for who does; an interrupt ends the waiting.
one_at_a_time_in_a_node(_Config) ->
    Self = self(),
    Measuring = fun() ->
        {Pid, _} = spawn_monitor(fun() ->
            Self !
                {measured,
                    dyno_bench:run(["lists:seq(1, 9)."], #{
                        budget_ms => 1, extras => [side_effects]
                    })}
        end),
        Pid
    end,
    dyno_bench_slots:exclusively(
        fun() ->
            First = Measuring(),
            waits_for(dyno_bench_exclusive, 1),
            dyno_bench:interrupt(First),
            receive
                %% With what the rounds had given.
                {measured, Result} -> ?assertMatch({ok, #{~"status" := ~"interrupted"}}, Result)
            end,
            _ = Measuring(),
            _ = Measuring(),
            waits_for(dyno_bench_exclusive, 2)
        end
    ),
    [
        receive
            {measured, {ok, _Document}} -> ok
        end
     || _ <- [1, 2]
    ].

%% The allocator of the lock has its owner's monitor; so many others wait.
waits_for(Name, Count) ->
    {monitored_by, Pids} = process_info(whereis(Name), monitored_by),
    case length(Pids) of
        Count ->
            ok;
        _ ->
            receive
            after 10 -> waits_for(Name, Count)
            end
    end.

nothing_is_left(_Config) ->
    Before = trace:session_info(all),
    _ = run(["lists:seq(1, 9)."], #{extras => [side_effects]}),
    ?assertEqual(Before, trace:session_info(all)),
    {error, _} = dyno_bench:run(["error(boom)."], #{extras => [side_effects]}),
    ?assertEqual(Before, trace:session_info(all)).

%% The counting alone, with a trace as it can come.
traced_events(_Config) ->
    [Worker, Server, Child] = [spawn(fun() -> ok end) || _ <- [1, 2, 3]],
    Events = [
        {trace_ts, Worker, send, hello, Server, 10},
        {trace_ts, Worker, send, done, self(), 11},
        {trace_ts, Server, in, {m, f, 1}, 20},
        {trace_ts, Server, out, {m, f, 1}, 50},
        %% Was running before it was traced.
        {trace_ts, Worker, out, {m, f, 1}, 60},
        {trace_ts, Child, spawned, Worker, {erlang, apply, [fun() -> ok end, []]}, 100},
        {trace_ts, Child, exit, normal, 140},
        {trace_ts, Child, out_exited, 0, 150},
        {trace_ts, Server, send, x, {name, 'other@host'}, 160},
        {trace_ts, Server, send, x, make_ref(), 170},
        {something, other}
    ],
    State = lists:foldl(
        fun dyno_bench_side_effects_tracer:event/2,
        dyno_bench_side_effects_tracer:new(self()),
        Events
    ),
    ?assertMatch(
        #{
            remote := 1,
            ports := 0,
            seen := #{
                Worker := #{sent := 1, own_ns := 0},
                Server := #{received := 1, sent := 2, own_ns := 30},
                Child := #{own_ns := 40, ended := true, born := {?MODULE, _, 0}}
            }
        },
        State
    ).

refused(_Config) ->
    [
        begin
            {error, Reason} = dyno_bench:run(["ok."], Options),
            ?assertEqual(2, dyno_error:exit_status(Reason)),
            ?assertMatch({match, _}, re:run(dyno_error:format(Reason), Pattern))
        end
     || {Pattern, Options} <- [
            {"metric is size; time, wall, cpu", #{metric => size}},
            {"extras is \\[all\\]", #{extras => [all]}},
            {"dyno:profile\\(\\[\\]", #{extras => [profile]}},
            {"the highest throughput", #{metric => words, mode => {squeeze, #{}}}},
            {"the highest throughput", #{extras => [side_effects], mode => {squeeze, #{}}}},
            {"because samples in VMs are of time", #{
                metric => gc, isolated => #{}, mode => {timed, #{iterations => 1}}
            }}
        ]
    ],
    [
        begin
            {error, Error} =
                case dyno_command:values("bench", Values) of
                    {ok, Read} -> dyno_cli_bench_mode:mode(Read, 1);
                    Refused -> Refused
                end,
            Sentence = dyno_error:format(Error),
            ?assertMatch({match, _}, re:run(Sentence, Pattern), Sentence)
        end
     || {Pattern, Values} <- [
            {"did you mean words", #{metric => ~"word"}},
            {"leave out -q, and give -c N", #{whole => true, squeeze => true}},
            {"leave out -q, and give -c N", #{metric => ~"words", squeeze => true}},
            {"or add -o FILE", #{whole => true, report => ~"full"}},
            {"--threshold is for -q", #{threshold => ~"3"}}
        ]
    ].

%% Exit statuses follow the metric, on any machine.
the_gate(Config) ->
    Base = filename:join(proplists:get_value(priv_dir, Config), "base.json"),
    Bench = fun(Code, More) ->
        bench(Config, [Code, "--label", "x", "--for", "20ms", "--metric", "words" | More])
    end,
    {0, _} = Bench("lists:seq(1, 1000).", ["-o", Base]),
    {0, _} = Bench("lists:seq(1, 1000).", ["--baseline", Base, "--fail-if", "worse > 0.05%"]),
    %% 1001 elements for 1000 are a tenth of a percent more.
    {1, Text} = Bench("lists:seq(1, 1001).", ["--baseline", Base, "--fail-if", "worse > 0.05%"]),
    ?assertMatch({match, _}, re:run(Text, ~"x: words was 2000 and is 2002")),
    {1, Github} = Bench("lists:seq(1, 1001).", [
        "--baseline", Base, "--fail-if", "words > 0.05%", "--format", "github"
    ]),
    ?assertMatch(
        {match, _}, re:run(Github, ~"(?m)^::error title=.*words > 0\\.05%25::x: words was")
    ),
    {2, Wrong} = Bench("ok.", ["--baseline", Base, "--fail-if", "size > 1%"]),
    ?assertMatch({match, _}, re:run(Wrong, ~"there is no metric size; the closest are")).

%% A baseline of another processor serves for what does not depend on it.
another_machine(Config) ->
    Base = filename:join(proplists:get_value(priv_dir, Config), "other.json"),
    #{~"environment" := Environment} =
        Document = run(
            [#{runner => "lists:seq(1, 9).", label => "x"}], #{}
        ),
    ok = dyno_recording_file:write(
        Base, Document#{~"environment" := Environment#{~"cpu_model" := ~"Z80", ~"cores" := 1}}
    ),
    Bench = fun(Condition) ->
        Gate = ["--baseline", Base, "--fail-if", Condition],
        bench(Config, ["lists:seq(1, 9).", "--label", "x", "--for", "20ms" | Gate])
    end,
    {2, Refused} = Bench("slower > 5%"),
    ?assertMatch({match, _}, re:run(Refused, ~"Z80")),
    {0, _} = Bench("words > 0.1%").

formats(_Config) ->
    Verdicts = [
        #{~"name" => ~"slower > 5%", ~"result" => ~"fail", ~"text" => ~"a: 100 %, twice,\nso: bad"},
        #{~"name" => ~"words > 0%", ~"result" => ~"pass", ~"text" => ~"fine"},
        #{~"name" => ~"gc > 0%", ~"result" => ~"unknown", ~"text" => ~"nothing to compare"}
    ],
    Document = (run(["lists:seq(1, 9)."], #{}))#{
        ~"verdicts" => Verdicts, ~"name" => ~"a_bench.erl"
    },
    {ok, Github} = dyno_report:render(github, Document, #{}),
    [First, Second | _] = Lines = binary:split(iolist_to_binary(Github), ~"\n", [global, trim]),
    ?assertEqual(~"::error title=a_bench.erl%3A slower > 5%25::a: 100 %25, twice, so: bad", First),
    ?assertMatch(<<"::error title=a_bench.erl%3A gc", _/binary>>, Second),
    ?assertEqual(
        ~"::notice title=a_bench.erl::1 of 3 thresholds did not hold, and 1 could not be evaluated",
        lists:last(Lines)
    ),
    %% A threshold of three sizes is one.
    Thrice = [
        #{~"name" => ~"p99 < 1 s", ~"result" => ~"pass", ~"text" => ~"fine"}
     || _ <- [1, 2, 3]
    ],
    {ok, Held} = dyno_report:render(github, Document#{~"verdicts" := Thrice}, #{}),
    ?assertMatch({_, _}, binary:match(iolist_to_binary(Held), ~"bench.erl::the threshold holds\n")),
    {ok, Gitlab} = dyno_report:render(gitlab, Document, #{}),
    ?assertMatch(
        [
            #{
                ~"check_name" := ~"dyno: slower > 5%",
                ~"severity" := ~"major",
                ~"fingerprint" := <<_:32/binary>>,
                ~"location" := #{~"path" := ~"a_bench.erl", ~"lines" := #{~"begin" := 1}}
            },
            #{~"severity" := ~"critical"}
        ],
        json:decode(iolist_to_binary(Gitlab))
    ),
    {error, _} = dyno_report:render(folded, Document, #{}),
    %% A test that failed is an error in its own right.
    {ok, Failed} = dyno_report:render(
        gitlab, Document#{~"status" => ~"failed", ~"verdicts" => []}, #{}
    ),
    ?assertMatch([#{~"check_name" := ~"dyno: completed"}], json:decode(iolist_to_binary(Failed))).
