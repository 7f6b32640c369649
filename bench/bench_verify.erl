%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_verify).

-behaviour(bench_program).

-export([describe/0, argument/1, measure/2]).
%% In the emulator of a run.
-export([once/2, needs/0, init/1, event/3, ended/1]).

-behaviour(dyno_agent_monitor).

-define(WAYS, [baseline, partition, dyno_agent_riarc_verify, inline]).
-define(GOAL, 4.0).
-define(ROUNDS, 3).
-define(MOST_MS, 380_000).
-compile({no_auto_import, [round/1]}).

describe() ->
    "Response time, CPU time, memory and duration of a synthetic system under each instrumentation,\n"
    "over those of the same system without monitors, with the coefficient of variation of each over\n"
    "the rounds, and the peak use of the schedulers: near 100 % the mean response time is only the\n"
    "length of a queue. Argument: steady, pulse or burst with one or several numbers of workers, as in\n"
    "steady2500 or pulse500,1000,2000; or messages250, of 10,000 requests each. x1,2,4 behind it has\n"
    "each worker checked by so many monitors, and +5us gives monitors that take 5 us an event. Three\n"
    "rounds each, or as many as there is time for in six minutes. Several numbers give charts, too:\n"
    "dyno-results/verify-ARGUMENT.html, and .json for dyno report.".

argument(none) ->
    argument("steady2500");
argument(Text) ->
    {Whole, Work} =
        case string:split(Text, "+") of
            [Only] -> {Only, 0};
            [Before, "5us"] -> {Before, 5000};
            _ -> {Text, 0}
        end,
    {Load, Checks} =
        case string:split(Whole, "x") of
            [Of, Many] -> {Of, numbers(Many)};
            [Of] -> {Of, [1]}
        end,
    Shapes = [
        {"steady", #{shape => steady}},
        {"pulse", #{shape => pulse}},
        {"burst", #{shape => burst}},
        {"messages", #{shape => steady, requests => 10_000}}
    ],
    maybe
        [{Numbers, Options}] ?=
            [
                {Rest, Shape}
             || {Name, Shape} <- Shapes, Rest <- [string:prefix(Load, Name)], is_list(Rest)
            ],
        Workers = numbers(Numbers),
        false ?= lists:member(error, Workers ++ Checks),
        {ok, {[Options#{workers => N, checks => K} || N <- Workers, K <- Checks], Work, Text}}
    else
        _ -> {error, ["no such load: ", Text]}
    end.

numbers(Text) ->
    [
        case string:to_integer(Number) of
            {N, []} when is_integer(N), N > 0 -> N;
            _ -> error
        end
     || Number <- string:split(Text, ",", all)
    ].

measure({Loads, Work, Argument}, Effort) ->
    Points = [point(Load, Work, Effort, length(Loads)) || Load <- Loads],
    ok = charts(Argument, Loads, Points),
    Each = [Ratio || {Ratio, _} <- Points],
    #{
        name => "response_time_under_partition",
        value => lists:last(Each),
        unit => "times",
        goal => ?GOAL
    }.

%% Of one number of workers.
point(Asked, Work, Effort, Points) ->
    {Load, Results} =
        case Effort of
            full ->
                Begun = erlang:monotonic_time(millisecond),
                {Asked, rounds(Asked, Work, 1, Begun, ?MOST_MS div Points)};
            quick ->
                Small = Asked#{workers => 100, requests => 20, time_ms => 300},
                {Small, round(Small, Work)}
        end,
    bench_program:say("workers ~b, monitors of each ~b, rounds ~b", [
        map_get(workers, Load), map_get(checks, Load), length(Results) div length(?WAYS)
    ]),
    All = fun(Way, Key) -> [map_get(Key, Result) || {W, Result} <- Results, W =:= Way] end,
    Of = fun(Way, Key) -> dyno_stats:median(All(Way, Key)) end,
    lists:foreach(
        fun(Way) ->
            bench_program:say("~-24s ~s; peak use ~b %; checked ~b whole, ~b broken, ~b cut", [
                Way,
                lists:join(", ", [
                    io_lib:format("~s ~.3g (~.2fx, CV ~s)", [
                        Title,
                        Of(Way, Key) / Unit,
                        Of(Way, Key) / max(1, Of(baseline, Key)),
                        variation(All(Way, Key))
                    ])
                 || {Title, Key, Unit} <- [
                        {"response us", response, 1.0e3},
                        {"cpu s", cpu, 1.0e9},
                        {"peak MB", peak, 1.0e6},
                        {"run s", duration, 1.0e9}
                    ]
                ]),
                trunc(100 * Of(Way, use)),
                trunc(Of(Way, yes)),
                trunc(Of(Way, no)),
                trunc(Of(Way, gap))
            ])
        end,
        ?WAYS
    ),
    Metrics = [
        #{
            name => iolist_to_binary([Name, $., atom_to_binary(Way)]),
            title => atom_to_binary(Way),
            value => Of(Way, Key),
            unit => Unit,
            count => length(All(Way, Key)),
            group => ~"sweep"
        }
     || {Key, Name, Unit} <- [
            {response, ~"response_time", ~"ns"},
            {cpu, ~"processor_time", ~"ns"},
            {peak, ~"peak_memory", ~"B"},
            {duration, ~"duration", ~"ns"},
            {use, ~"peak_use_of_schedulers", ~"ratio"}
        ],
        Way <- ?WAYS
    ],
    {Of(partition, response) / Of(baseline, response), Metrics}.

%% Each figure over the numbers of workers, or of monitors, with a line for each instrumentation.
charts(_Argument, [_], _Points) ->
    ok;
charts(Argument, Loads, Points) ->
    Key =
        case lists:usort([Workers || #{workers := Workers} <- Loads]) of
            [_] -> checks;
            _ -> workers
        end,
    New = dyno_recording:new(
        sweep, list_to_binary(Argument), #{size_label => Key}, dyno_environment:collect()
    ),
    Document = lists:foldl(
        fun({Load, {_, Metrics}}, Before) ->
            dyno_recording:add_run(Before, #{
                status => complete,
                size => map_get(Key, Load),
                labels => #{size => map_get(Key, Load)},
                started_at => dyno_environment:now_utc(),
                duration_ns => 0,
                metrics => Metrics
            })
        end,
        New,
        lists:zip(Loads, Points)
    ),
    Whole = dyno_recording:put(Document, status, complete),
    ok = filelib:ensure_path("dyno-results"),
    lists:foreach(
        fun({Format, Ending}) ->
            {ok, Text} = dyno_report:render(Format, Whole, #{}),
            File = filename:join("dyno-results", "verify-" ++ Argument ++ Ending),
            ok = file:write_file(File, Text),
            bench_program:say("written   ~ts", [File])
        end,
        [{json, ".json"}, {html, ".html"}]
    ).

%% One round says nothing of it.
variation([_]) ->
    "-";
variation(Values) ->
    Mean = lists:sum(Values) / length(Values),
    Squares = [(Value - Mean) * (Value - Mean) || Value <- Values],
    Deviation = math:sqrt(lists:sum(Squares) / (length(Values) - 1)),
    io_lib:format("~.1f %", [100 * Deviation / max(1.0e-9, Mean)]).

%% Three, or as many as there is time for; at least one.
rounds(Load, Work, Number, Begun, MostMs) ->
    Results = round(Load, Work),
    TookMs = erlang:monotonic_time(millisecond) - Begun,
    case Number < ?ROUNDS andalso TookMs * (Number + 1) div Number < MostMs of
        true -> Results ++ rounds(Load, Work, Number + 1, Begun, MostMs);
        false -> Results
    end.

round(Load, Work) -> [{Way, in_emulator(Way, Load, Work)} || Way <- ?WAYS].

in_emulator(Way, Load, Work) ->
    {ok, Peer, _} = peer:start_link(#{
        connection => standard_io,
        args => ["+sbwt", "none" | lists:append([["-pa", P] || P <- dyno_code:own_paths()])]
    }),
    Result = peer:call(Peer, ?MODULE, once, [Way, {Load, Work}], 300_000),
    ok = peer:stop(Peer),
    Result.

once(Way, {#{checks := Checks} = Load, Work}) ->
    persistent_term:put(?MODULE, Work),
    Stop = started(Way, Checks),
    {_, _} = erlang:statistics(runtime),
    #{responses := Responses, memory_peak := Peak, duration_ns := Duration, samples := Samples} =
        dyno_workload:once(maps:remove(checks, Load)),
    Verdicts = Stop(),
    {_, Cpu} = erlang:statistics(runtime),
    Verdicts#{
        response => dyno_histogram:mean(Responses),
        peak => Peak,
        duration => Duration,
        cpu => Cpu * 1_000_000,
        use => lists:max([0.0 | [Use || #{utilisation := Use} <- Samples]])
    }.

started(baseline, _Checks) ->
    fun() -> #{yes => 0, no => 0, gap => 0} end;
started(Way, Checks) ->
    Way =:= inline andalso weave(),
    {ok, Config} = dyno_verify_target:instrumentation(Way),
    Monitors = [?MODULE | [another(N) || N <- lists:seq(2, Checks)]],
    {ok, Pid} = dyno_agent_verifier:start_link(Config#{monitors => Monitors, sink => self()}),
    fun() ->
        timer:sleep(100),
        #{verdicts := #{monitors := Of, gap := Gap, cut := Cut}} =
            dyno_agent_verifier:finish(Pid),
        %% By all of them.
        Least = fun(Key) -> lists:min([map_get(Key, Counts) || _ := Counts <- Of]) end,
        #{yes => Least(yes), no => Least(no), gap => Gap + Cut}
    end.

%% The same monitor by another name.
another(Number) ->
    Module = list_to_atom("bench_verify_" ++ integer_to_list(Number)),
    Forms = [
        begin
            {ok, Tokens, _} = erl_scan:string(Form),
            {ok, Parsed} = erl_parse:parse_form(Tokens),
            Parsed
        end
     || Form <- [
            "-module(" ++ atom_to_list(Module) ++ ").",
            "-export([needs/0, init/1, event/3, ended/1]).",
            "needs() -> bench_verify:needs().",
            "init(Process) -> bench_verify:init(Process).",
            "event(Event, TimeNs, State) -> bench_verify:event(Event, TimeNs, State).",
            "ended(State) -> bench_verify:ended(State)."
        ]
    ],
    {ok, Module, Beam} = compile:forms(Forms),
    {module, Module} = code:load_binary(Module, "", Beam),
    Module.

weave() ->
    lists:foreach(
        fun(Module) ->
            Source = proplists:get_value(source, Module:module_info(compile)),
            {ok, Module, Beam} = compile:file(Source, [binary, {parse_transform, dyno_inline}]),
            _ = code:delete(Module),
            _ = code:purge(Module),
            {module, Module} = code:load_binary(Module, Source, Beam)
        end,
        [dyno_workload_master, dyno_workload_worker]
    ),
    true.

%% The monitor: the worker's numbers are complete and in order, and some work more.

needs() -> dyno_agent_workload_monitor:needs().

init(Process) -> dyno_agent_workload_monitor:init(Process).

event(Event, TimeNs, State) ->
    case persistent_term:get(?MODULE) of
        0 -> ok;
        Ns -> spin(erlang:monotonic_time(nanosecond) + Ns)
    end,
    dyno_agent_workload_monitor:event(Event, TimeNs, State).

ended(_State) -> none.

spin(Until) ->
    case erlang:monotonic_time(nanosecond) < Until of
        true -> spin(Until);
        false -> ok
    end.
