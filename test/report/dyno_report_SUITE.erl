%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_SUITE).
-moduledoc """
Every format shows every valid recording, and each part of a recording whose command no format has
code for.
""".

-include_lib("stdlib/include/assert.hrl").
-include("../support/dyno_proper.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [{group, together}].

groups() ->
    [
        {together, [parallel], [
            console,
            a_search,
            markdown,
            csv,
            folded,
            junit,
            each_format_shows_each_recording,
            lines_fit_the_width,
            no_format_misleads,
            csv_has_no_formula,
            broken_recordings
        ]}
    ].

console(_Config) ->
    Text = render(console, dyno_report_weather:document()),
    [
        ?assertNotEqual(nomatch, re:run(Text, Part), Part)
     || Part <- [
            "^Lisbon: complete, 2 runs\n",
            "\nClouds at monday\n +kind of cloud +height +interval +amount +mood\n"
            "  cirrus +8000 m +7950 m \\.\\. 8050 m +25 % +aloof\n"
            "  cumulus +900 m +850 m \\.\\. 950 m +4 +cheerful\n",
            "\nMetrics\n +metric +monday +tuesday\n"
            "  Strongest gust +12.5 m/s \\(12 m/s \\.\\. 13 m/s\\) ",
            "\n  Air pressure of tower +monday +1011 hPa +1009 hPa +1013 hPa +1009 hPa\n",
            "\n  Sizes of drops +monday +10 +1.5 mm +3 mm +3 mm +4 mm\n",
            "\nEvents at monday\n.*\n +1.5 s +tower +<0.99.0> +lightning +a flash over the river\n",
            "2 more events were not kept",
            "\nWhere the heat goes, Rua Augusta at monday\n.*\n"
            "  sun:shine/1 +60 J +60 % +100 % +5 mg.*\n  roof:glow/2 +30 J +30 % +30 % +7 mg",
            "\nForecasts\n.*\n  FAIL +it stays dry +tuesday +it rained at noon\n",
            "\nThresholds\n.*\n  PASS +wind.max < 20 +12.5 m/s +monday\n",
            "\nFAILED: 1 of 2 demands did not hold\n$"
        ]
    ].

%% Its throughput is no figure of the whole search.
a_search(_Config) ->
    Metric = fun(Name, Value) ->
        dyno_recording_part:metric(Name, Name, Value, ~"1/s", 1, ~"load")
    end,
    Text = fun(Found) ->
        Run = #{
            labels => #{},
            size => 1,
            status => complete,
            duration_ns => 1,
            metrics => [Metric(~"errors.count", 0), Metric(~"throughput", 2000) | Found]
        },
        New = dyno_recording:new(test, ~"shop", #{}, #{}),
        render(console, dyno_recording:put(dyno_recording:add_run(New, Run), status, complete))
    end,
    [
        ?assertMatch({_, _}, binary:match(Text(Found), <<"\n", Title/binary, "\n">>), Title)
     || {Title, Found} <- [
            {~"Load", []},
            {~"Load, probes at the rate found", [Metric(~"load.search.rate", 2000)]},
            {~"Load, probes at the rate found, or the last ones", [Metric(~"load.search.rate", 0)]}
        ]
    ].

markdown(_Config) ->
    Text = render(md, dyno_report_weather:document()),
    [
        ?assertNotEqual(nomatch, re:run(Text, Part), Part)
     || Part <- [
            "\n\\| cirrus \\| 8000 m \\| 7950 m .. 8050 m \\| 25 % \\| aloof \\|\n",
            "\n\\| Strongest gust \\| 12.5 m/s \\(12 m/s .. 13 m/s\\) \\|",
            "\n\\| 1.5 s \\| tower \\| .* \\| lightning \\| a flash over the river \\|\n",
            "\n\\| sun:shine/1 \\| 60 J \\| 60 % \\| 100 % \\| 5 mg \\|\n",
            "\n\\| FAIL \\| it stays dry \\| tuesday \\| it rained at noon \\|\n"
        ]
    ],
    %% Without an answer of its own there is nothing to fold away.
    ?assertEqual(nomatch, binary:match(Text, ~"<details>")).

csv(_Config) ->
    Text = render(csv, dyno_report_weather:document()),
    [
        ?assertNotEqual(nomatch, binary:match(Text, Line), Line)
     || Line <- [
            ~"\r\nmonday,,1,,metrics,,wind.max,value,12.5,m/s\r\n",
            ~"\r\nmonday,,1,,metrics,,wind.max,low,12.0,m/s\r\n",
            ~"\r\nmonday,,1,tower,series,,pressure,lowest,1009,hPa\r\n",
            ~"\r\nmonday,,1,tower,clouds,1,cirrus,height,8000,m\r\n",
            ~"\r\nmonday,,1,tower,clouds,1,cirrus,amount,0.25,ratio\r\n",
            ~"\r\nmonday,,1,tower,clouds,1,cirrus,mood,aloof,\r\n",
            ~"\r\nmonday,,1,tower,events,1,lightning,time,1500,ms\r\n",
            ~"\r\nmonday,,1,,heat,1,sun:shine/1;roof:glow/2,warmth,30,J\r\n",
            ~"\r\ntuesday,,,,verdicts,1,it stays dry,result,fail,\r\n"
        ]
    ].

folded(_Config) ->
    [First | _] =
        Lines = binary:split(render(folded, dyno_report_weather:document()), ~"\n", [
            global, trim
        ]),
    ?assertEqual(~"monday;Rua Augusta;sun:shine/1;roof:glow/2 30", First),
    ?assertEqual(6, length(Lines)),
    %% They are added up: what counts something else than the first profile is not among them.
    ?assertEqual(Lines, folded_beside(~"waiting", ~"J")),
    ?assertEqual(Lines, folded_beside(~"warmth", ~"s")),
    ?assertEqual([~"monday;shade;sun:set/0 5"], folded_beside(~"warmth", ~"J") -- Lines),
    %% What the labels of a sample say comes before its functions.
    Labelled = #{
        ~"frames" => [~"a:b/1"],
        ~"samples" => [
            #{~"stack" => [0], ~"values" => [1], ~"labels" => #{~"processes" => ~"shop;1"}}
        ]
    },
    ?assertMatch([{~"shop,1;a:b/1", _}], dyno_report_folded:stacks(Labelled)).

folded_beside(Name, Unit) ->
    #{~"runs" := [Run | Runs]} = Document = dyno_report_weather:document(),
    #{~"profiles" := Profiles} = Run,
    Other = #{
        ~"name" => ~"shade",
        ~"values" => [#{~"name" => Name, ~"unit" => Unit}],
        ~"frames" => [~"sun:set/0"],
        ~"samples" => [#{~"stack" => [0], ~"values" => [5]}]
    },
    More = Run#{~"profiles" := Profiles ++ [Other]},
    binary:split(render(folded, Document#{~"runs" := [More | Runs]}), ~"\n", [global, trim]).

junit(_Config) ->
    Text = render(junit, dyno_report_weather:document()),
    ?assertNotEqual(nomatch, binary:match(Text, ~"<failure message=\"it rained at noon\">")).

each_format_shows_each_recording(_Config) ->
    dyno_property:holds(
        ?FORALL(
            {Document, Format},
            {document(), proper_types:oneof(dyno_report:formats())},
            is_form(Format, dyno_report:render(Format, Document, #{}))
        ),
        {100, 3000}
    ).

%% Whatever a recording holds, and a name of any node can come into it.
no_format_misleads(_Config) ->
    Steers = <<"=a\e[2J\r\n\x{9B}b\x{202E}c\x{2028}\x{200B}"/utf8>>,
    Document = hostile(dyno_report_weather:document(), Steers),
    [
        begin
            {ok, Report} = dyno_report:render(Format, Document, #{}),
            Shown =
                case Format of
                    pprof -> re:replace(zlib:gunzip(Report), "[^a-z\\x80-\\xff\e]", "", [global]);
                    _ -> re:replace(Report, "[\n\t]|\r\n", "", [global])
                end,
            ?assertEqual(nomatch, misleads(Format, iolist_to_binary(Shown)), Format)
        end
     || Format <- dyno_report:formats(), Format =/= benchstat
    ].

%% The compressed form of one has numbers of one byte each.
misleads(pprof, Bytes) ->
    binary:match(Bytes, [~"\e[2J", <<"\x{202E}"/utf8>>, <<"\x{9B}"/utf8>>]);
misleads(_Format, Text) ->
    dyno_text_SUITE:misleading(Text).

%% All texts, but those that a recording is checked by.
hostile(#{} = Object, Steers) ->
    Fixed = [
        ~"format",
        ~"status",
        ~"command",
        ~"type",
        ~"role",
        ~"order",
        ~"result",
        ~"better",
        ~"started_at",
        ~"time",
        ~"column",
        ~"of"
    ],
    maps:map(
        fun(Key, Value) ->
            case lists:member(Key, Fixed) of
                true -> Value;
                false -> hostile(Value, Steers)
            end
        end,
        Object
    );
hostile(List, Steers) when is_list(List) -> [hostile(Value, Steers) || Value <- List];
hostile(Text, Steers) when is_binary(Text) -> <<Steers/binary, Text/binary>>;
hostile(Value, _Steers) ->
    Value.

%% Excel, LibreOffice and others run what looks like a formula.
csv_has_no_formula(_Config) ->
    Names = [~"=1+1", ~"+1+1", ~"-1+1", ~"@SUM(1)", ~"\t=1", <<"\x{FF1D}1"/utf8>>],
    Numbers = [~"-1", ~"+2.5", ~"-1.0e-5", ~"1"],
    #{~"runs" := [Run | _]} = Document = dyno_report_weather:document(),
    Metric = #{~"unit" => ~"1", ~"value" => -1},
    Metrics = [Metric#{~"name" => Name} || Name <- Names ++ Numbers],
    {ok, Valid} = dyno_recording:validate(
        Document#{~"runs" := [Run#{~"metrics" := Metrics}], ~"verdicts" := []}
    ),
    Text = render(csv, Valid),
    [
        ?assertNotEqual(nomatch, binary:match(Text, [<<",'", N/binary, ",value,-1,1">>]), N)
     || N <- Names
    ],
    [?assertNotEqual(nomatch, binary:match(Text, <<",", N/binary, ",value">>), N) || N <- Numbers].

%% What may be shortened is; other text, such as numbers with long units, needs its room.
lines_fit_the_width(_Config) ->
    Long = ~"a name that is longer than its column",
    Cell = proper_types:oneof([~"", ~"-", ~"1.5 ms", Long, ~" ", ~"日本語"]),
    dyno_property:holds(
        ?FORALL(
            {Rows, Width},
            {
                proper_types:non_empty(proper_types:list(proper_types:vector(5, Cell))),
                proper_types:range(72, 120)
            },
            begin
                Fits = [flexible, flexible, optional, optional, sentence],
                Columns = [#{title => ~"t", align => left, fit => Fit} || Fit <- Fits],
                Layout = #{width => Width, indent => 2, colour => off, charset => unicode},
                Lines = dyno_report_table:lines(Columns, Rows, Layout),
                lists:all(fun(Line) -> dyno_report_text:width(Line) =< Width end, Lines)
            end
        ),
        100
    ).

%% Any JSON value in any place: it is refused with a sentence, or all formats show it, and it can be
%% compared.
broken_recordings(_Config) ->
    Values = values(),
    #{~"parameters" := Parameters} = Weather = dyno_report_weather:document(),
    {ok, Deep} = dyno_recording:validate(Weather#{
        ~"parameters" := Parameters#{~"x" => deep(100_000)}
    }),
    [true = shows(Format, Deep) || Format <- [console, html, json, csv]],
    %% Its bench decided by something that is no text.
    Odd = dyno_recording:add_tables(
        dyno_recording:new(bench, ~"a", #{metric => #{}}, #{}),
        [
            dyno_recording_table:make(
                #{
                    name => ~"comparisons",
                    title => ~"c",
                    columns => [
                        {Name, Name, string, fun(_) -> Name end}
                     || Name <- [~"a", ~"b", ~"verdict"]
                    ]
                },
                [row]
            )
        ]
    ),
    [true = shows(Format, Odd) || Format <- [console, html, junit, md]],
    dyno_property:holds(
        ?FORALL(
            {Document, Choices, Nth, Format},
            {
                document(),
                proper_types:non_empty(proper_types:list(proper_types:non_neg_integer())),
                proper_types:range(1, length(Values)),
                proper_types:oneof(dyno_report:formats())
            },
            case dyno_recording:validate(changed(Document, Choices, lists:nth(Nth, Values))) of
                {ok, Valid} ->
                    {ok, Same} = dyno_recording:validate(Document),
                    _ = [
                        case dyno_compare:compare(Old, New, #{incomparable => warn}) of
                            {ok, Compared} -> true = shows(Format, Compared);
                            {error, Reason} -> _ = text(dyno_compare:format_error(Reason))
                        end
                     || {Old, New} <- [{Valid, Same}, {Same, Valid}]
                    ],
                    shows(Format, Valid);
                {error, Reason} ->
                    is_binary(text(dyno_recording:format_error(Reason)))
            end
        ),
        {40, 3000}
    ).

values() ->
    [
        null,
        true,
        -1,
        0,
        0.0,
        1 bsl 2000,
        -(1 bsl 2000),
        1.0e308,
        1.0e100,
        -1.0e100,
        5.0e-324,
        ~"",
        ~"x",
        [],
        #{},
        [[]],
        [1],
        [~"x"],
        #{~"a" => 1},
        [#{}],
        deep(1000)
    ].

deep(Levels) -> lists:foldl(fun(_, Inner) -> [Inner] end, [], lists:seq(1, Levels)).

changed(#{} = Object, [Choice | Choices], Value) when map_size(Object) > 0 ->
    Keys = lists:sort(maps:keys(Object)),
    Key = lists:nth(Choice rem length(Keys) + 1, Keys),
    Object#{Key := changed(map_get(Key, Object), Choices, Value)};
changed([_ | _] = List, [Choice | Choices], Value) ->
    {Before, [Element | After]} = lists:split(Choice rem length(List), List),
    Before ++ [changed(Element, Choices, Value) | After];
changed(_Leaf, _Choices, Value) ->
    Value.

shows(Format, Document) -> is_form(Format, dyno_report:render(Format, Document, #{})).

text(Characters) -> unicode:characters_to_binary(Characters).

document() ->
    ?LET(
        {Document, Command},
        {
            dyno_recording_gen:document(),
            proper_types:oneof([~"test", ~"bench", ~"compare", ~"weather"])
        },
        begin
            {ok, Valid} = dyno_recording:validate(Document#{~"command" := Command}),
            Valid
        end
    ).

%% What a reader of the format asks for.
is_form(Format, {error, {format, {_, no_stacks}}}) when
    Format =:= folded; Format =:= speedscope; Format =:= pprof; Format =:= callgrind
->
    true;
is_form(pprof, {ok, Report}) ->
    is_binary(zlib:gunzip(Report));
is_form(benchstat, {error, {format, {dyno_report_benchstat, no_measurements}}}) ->
    true;
is_form(Format, {ok, Report}) ->
    Text = iolist_to_binary(Report),
    Text =:= unicode:characters_to_binary(Text) andalso is_form_of(Format, Text).

is_form_of(Json, Text) when Json =:= json; Json =:= gitlab; Json =:= speedscope ->
    _ = json:decode(Text),
    true;
is_form_of(junit, Text) ->
    {_, []} = xmerl_scan:string(binary_to_list(Text), [{quiet, true}]),
    true;
is_form_of(csv, Text) ->
    binary:last(Text) =:= $\n;
is_form_of(html, Text) ->
    binary:longest_common_suffix([Text, ~"</html>\n"]) =:= 8;
is_form_of(_, _) ->
    true.

render(Format, Document) ->
    {ok, Report} = dyno_report:render(Format, Document, #{}),
    iolist_to_binary(Report).
