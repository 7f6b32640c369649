#!/usr/bin/env escript
%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors
%%
%% Draws the pictures of doc/logger-overload.md from recordings of `dyno servers`: the queue of the
%% event manager over time, and the time of a write against the queue.
%%
%%   scripts/otp run 29 escript scripts/logger_pictures.escript EBIN [FOLDER]
%%
%% EBIN is the folder with dyno's compiled modules; the pictures go to FOLDER (doc/images). Each writer
%% is recorded for 30 seconds in a node of its own; the burst comes after the first two.

-mode(compile).

-define(WRITERS, [
    {disk_log, "disk_log", "#b03a06"}, {raw, "raw file", "#0067a5"}, {middleman, "middleman", "#00896a"}
]).
-define(BURST, 100_000).
-define(BURSTS, [3000, 10_000, 30_000]).
-define(SHORT_MS, 6000).
-define(BEFORE_MS, 2000).
-define(FOR_MS, 30_000).
-define(WINDOW_MS, 200).
%% From here on the manager is never idle.
-define(BUSY, 100).
-define(WIDTH, 720).
-define(HEIGHT, 320).
-define(LEFT, 76).
-define(RIGHT, 120).
-define(TOP, 40).
-define(BOTTOM, 48).

main([Ebin]) ->
    main([Ebin, "doc/images"]);
main([Ebin, Folder]) ->
    true = code:add_patha(Ebin),
    ok = dyno_target_node:ensure_distribution(#{}),
    {ok, Module, Code} = compile:file("examples/logger_overload_demo", [binary]),
    Demo = {Module, Code},
    All = [
        {Name, Colour, points(recorded(Writer, ?BURST, ?FOR_MS, Demo))}
     || {Writer, Name, Colour} <- ?WRITERS
    ],
    %% A queue that never gets shorter shows one length only.
    Smaller = lists:append([points(recorded(disk_log, N, ?SHORT_MS, Demo)) || N <- ?BURSTS]),
    Queue = [
        {Name, Colour, [{Ms / 1000, N} || #{ms := Ms, queue := N} <- Points, is_number(N)]}
     || {Name, Colour, Points} <- All
    ],
    %% While messages wait the manager does nothing else, so the rate gives the time of each.
    Write = [
        {Name, Colour, lists:sort([
            {N, 1.0e6 / Rate}
         || #{queue := N, rate := Rate} <- Points ++ [P || Name =:= "disk_log", P <- Smaller],
            is_number(N), N >= ?BUSY, is_number(Rate), Rate > 0
        ])}
     || {Name, Colour, Points} <- All
    ],
    ok = write(Folder, "logger-queue.svg", line, Queue, #{
        title => "Messages that wait, after a burst of 100,000",
        x => {"seconds", linear, 0, ?FOR_MS / 1000},
        y => {"messages", linear, 0, 120_000}
    }),
    ok = write(Folder, "logger-write.svg", dots, Write, #{
        title => "Time for a message (three writes), against the messages that wait",
        x => {"messages that wait", log, 100, 200_000},
        y => {"us", log, 10, 100_000}
    }).

recorded(Writer, Burst, ForMs, {Module, Code}) ->
    {ok, Node} = dyno_peer:start(#{name => atom_to_list(Writer)}),
    {module, Module} = erpc:call(Node, code, load_binary, [Module, "demo", Code]),
    %% Its processes belong to none of ours.
    ok = erpc:call(Node, Module, start, [Writer]),
    {ok, Filter} = dyno_process_filter:parse(~"log_events", servers),
    _ = spawn(fun() ->
        timer:sleep(?BEFORE_MS),
        erpc:call(Node, Module, burst, [Burst])
    end),
    {ok, Recording} = dyno_servers_run:run([Node], #{
        for_ms => ForMs, interval_ms => ?WINDOW_MS, servers => [Filter]
    }),
    ok = dyno_peer:stop(Node),
    Recording.

points(#{~"runs" := [#{~"series" := Series}]}) ->
    Of = fun(Name) ->
        maps:from_list(
            lists:append([
                lists:zip([round(Ms) || Ms <- Times], Values)
             || #{~"name" := N, ~"times_ms" := Times, ~"values" := Values} <- Series, N =:= Name
            ])
        )
    end,
    {Queue, Rate} = {Of(~"servers.queue"), Of(~"servers.rate")},
    [
        #{ms => Ms, queue => N, rate => maps:get(Ms, Rate, null)}
     || {Ms, N} <- lists:sort(maps:to_list(Queue))
    ].

%% Pictures

write(Folder, File, Kind, Lines, #{title := Title, x := X, y := Y}) ->
    {XTitle, _, _, _} = X,
    {YTitle, _, _, _} = Y,
    Names = names(Kind, Lines, X, Y),
    Svg = [
        io_lib:format(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ~b ~b\" width=\"~b\" "
            "font-family=\"sans-serif\" font-size=\"13\">~n"
            "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>~n",
            [?WIDTH, ?HEIGHT, ?WIDTH]
        ),
        text(?LEFT, 22, "start", "#1b1f24", ["<tspan font-weight=\"bold\">", Title, "</tspan>"]),
        [tick(x, X, V) || V <- ticks(X)],
        [tick(y, Y, V) || V <- ticks(Y)],
        text((?LEFT + ?WIDTH - ?RIGHT) / 2, ?HEIGHT - 8, "middle", "#5c6570", XTitle),
        text(?LEFT + 4, ?TOP + 12, "start", "#5c6570", YTitle),
        [drawn(Kind, Colour, Points, X, Y) || {_, Colour, Points} <- Lines],
        Names,
        "</svg>\n"
    ],
    file:write_file(filename:join(Folder, File), Svg).

%% At the end of its line, or beside the middle of the last dots; labels need room.
names(Kind, Lines, X, Y) ->
    Ends = [
        {at(y, Y, V), at(x, X, At), Name, Colour}
     || {Name, Colour, Points} <- Lines, Points =/= [], {At, V} <- [last(Kind, Points)]
    ],
    {Named, _} = lists:mapfoldl(
        fun({Top, Left, Name, Colour}, Before) ->
            Place = max(Top, Before + 16),
            {text(Left + 8, Place + 4, "start", Colour, Name), Place}
        end,
        -100,
        lists:sort(Ends)
    ),
    Named.

last(line, Points) ->
    lists:last(Points);
last(dots, Points) ->
    Last = lists:nthtail(max(0, length(Points) - 15), Points),
    Values = lists:sort([V || {_, V} <- Last]),
    {element(1, lists:last(Points)), lists:nth((length(Values) + 1) div 2, Values)}.

drawn(line, Colour, Points, X, Y) ->
    io_lib:format("<polyline fill=\"none\" stroke=\"~s\" stroke-width=\"2\" points=\"~s\"/>~n", [
        Colour,
        lists:join(" ", [
            io_lib:format("~.1f,~.1f", [at(x, X, A), at(y, Y, V)])
         || {A, V} <- Points
        ])
    ]);
drawn(dots, Colour, Points, X, Y) ->
    [
        io_lib:format("<circle cx=\"~.1f\" cy=\"~.1f\" r=\"3\" fill=\"~s\" fill-opacity=\"0.65\"/>~n", [
            at(x, X, A), at(y, Y, V), Colour
        ])
     || {A, V} <- Points
    ].

tick(x, Axis, Value) ->
    At = at(x, Axis, Value),
    [
        line(At, ?TOP, At, ?HEIGHT - ?BOTTOM),
        text(At, ?HEIGHT - ?BOTTOM + 17, "middle", "#5c6570", number(Value))
    ];
tick(y, Axis, Value) ->
    At = at(y, Axis, Value),
    [
        line(?LEFT, At, ?WIDTH - ?RIGHT, At),
        text(?LEFT - 8, At + 4, "end", "#5c6570", number(Value))
    ].

line(X0, Y0, X1, Y1) ->
    io_lib:format("<path d=\"M~.1f ~.1fL~.1f ~.1f\" stroke=\"#e1e4e8\"/>~n", [float(V) || V <- [X0, Y0, X1, Y1]]).

text(X, Y, Anchor, Colour, Text) ->
    io_lib:format("<text x=\"~.1f\" y=\"~.1f\" text-anchor=\"~s\" fill=\"~s\">~s</text>~n", [
        float(X), float(Y), Anchor, Colour, Text
    ]).

number(V) when V >= 10_000 -> integer_to_list(round(V / 1000)) ++ ",000";
number(V) when V >= 1000 -> integer_to_list(round(V) div 1000) ++ "," ++ tl(integer_to_list(1000 + round(V) rem 1000));
number(V) -> integer_to_list(round(V)).

ticks({_, log, Low, High}) -> [V || E <- lists:seq(0, 6), V <- [math:pow(10, E)], V >= Low, V =< High];
ticks({_, linear, Low, High}) -> lists:seq(round(Low), round(High), round((High - Low) / 6)).

at(Which, {_, Scale, Low, High}, Value) ->
    Share =
        case Scale of
            log -> math:log(max(Low, Value) / Low) / math:log(High / Low);
            linear -> (Value - Low) / (High - Low)
        end,
    case Which of
        x -> ?LEFT + min(1, Share) * (?WIDTH - ?LEFT - ?RIGHT);
        y -> ?HEIGHT - ?BOTTOM - min(1, Share) * (?HEIGHT - ?TOP - ?BOTTOM)
    end * 1.0.
