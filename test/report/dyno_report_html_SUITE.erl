%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_html_SUITE).
-moduledoc false.

%% The HTML report: what the text of the page must be, and, in a real browser, what a reader sees.

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0]).
-export([
    one_file_with_everything/1,
    policy_forbids_the_network/1,
    policy_fits_the_assets/1,
    recording_survives/1,
    hostile_names_stay_text/1,
    missing_assets_give_plain_page/1,
    plain_page_is_complete/1,
    plain_page_compares/1,
    empty_recordings_have_a_page/1,
    assets_are_found/1,
    reasons_are_explained/1,
    browser/1
]).

suite() -> [{timetrap, {minutes, 10}}].

all() ->
    [
        one_file_with_everything,
        policy_forbids_the_network,
        policy_fits_the_assets,
        recording_survives,
        hostile_names_stay_text,
        missing_assets_give_plain_page,
        plain_page_is_complete,
        plain_page_compares,
        empty_recordings_have_a_page,
        assets_are_found,
        reasons_are_explained,
        browser
    ].

one_file_with_everything(_Config) ->
    Page = page(some_assets()),
    Parts = [
        ~"<!doctype html>",
        ~"<html lang=\"en\">",
        ~"<meta charset=\"utf-8\">",
        ~"<meta http-equiv=\"Content-Security-Policy\"",
        ~"<title>Cowboy answering HTTP requests",
        ~"<style>body{}</style>",
        ~"<div id=\"page\"></div>",
        ~"<noscript>",
        ~"</noscript>",
        ~"<script type=\"application/json\" id=\"recording\">{",
        ~"<script>start()</script>",
        ~"</html>"
    ],
    Places = [place(Part, Page) || Part <- Parts],
    ?assertEqual(lists:sort(Places), Places),
    ?assertEqual(nomatch, re:run(Page, "<(link|script|img)[^>]*(src|href)=.(?!data:,)")).

policy_forbids_the_network(_Config) ->
    Policies = [policy(page(Assets)) || Assets <- [some_assets(), no_assets()]],
    [
        begin
            ?assertMatch({match, _}, re:run(Policy, "default-src 'none'")),
            ?assertEqual(nomatch, re:run(Policy, "http|\\*|unsafe-eval|script-src [^;]*unsafe"))
        end
     || Policy <- Policies
    ].

%% The hashes are made by another program than the page: they must be those of its bytes.
policy_fits_the_assets(_Config) ->
    {ok, #{js := Js, css := Css} = Assets} = built_assets(),
    Policy = policy(page({ok, Assets})),
    [
        begin
            Hash = base64:encode(crypto:hash(sha256, Text)),
            ?assertNotEqual(nomatch, binary:match(Policy, <<"'sha256-", Hash/binary, "'">>))
        end
     || Text <- [Js, Css]
    ],
    %% Nothing in them ends their element.
    ?assertEqual(nomatch, re:run(Js, "</script|<!--", [caseless])),
    ?assertEqual(nomatch, re:run(Css, "</style", [caseless])).

recording_survives(_Config) ->
    Document = dyno_report_html_data:document(),
    ?assertEqual(normal(Document), json:decode(recording(page(some_assets())))).

hostile_names_stay_text(_Config) ->
    With = page(some_assets()),
    Without = page(no_assets()),
    [?assertEqual(nomatch, re:run(Page, "<img|<!--", [caseless])) || Page <- [With, Without]],
    %% The recording, and the code.
    ?assertEqual(2, count(~"</script>", With)),
    ?assertEqual(0, count(~"<script", Without)),
    ?assert(count(~"&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;", Without) > 0),
    Title = ~"</title><script>\"'&",
    Document = (dyno_report_html_data:document())#{~"name" := Title},
    {ok, Titled} = dyno_report_html:format(Document, #{}, no_assets()),
    Escaped = ~"<title>&lt;/title&gt;&lt;script&gt;&quot;&#39;&amp;",
    ?assertEqual(1, count(Escaped, iolist_to_binary(Titled))).

missing_assets_give_plain_page(_Config) ->
    Page = page(no_assets()),
    {Start, _} = binary:match(Page, ~"<body>"),
    {Notice, _} = binary:match(Page, ~"install Node.js, run `make`"),
    {Heading, _} = binary:match(Page, ~"<h1>"),
    ?assert(Start < Notice andalso Notice < Heading).

%% Each table row, metric, series and verdict of the recording is there.
plain_page_is_complete(_Config) ->
    Page = page(no_assets()),
    #{~"runs" := Runs, ~"tables" := Tables, ~"verdicts" := Verdicts} =
        dyno_report_html_data:document(),
    AllTables = Tables ++ [Table || #{~"tables" := Of} <- Runs, Table <- Of],
    Texts =
        [Cell || #{~"rows" := Rows} <- AllTables, Row <- Rows, Cell <- Row, is_binary(Cell)] ++
            [Name || #{~"metrics" := Of} <- Runs, #{~"name" := Name} <- Of] ++
            [Title || #{~"series" := Of} <- Runs, #{~"title" := Title} <- Of] ++
            [Name || #{~"name" := Name} <- Verdicts],
    Missing = [
        Text
     || Text <- lists:uniq(Texts), count(dyno_report_html_plain:escape(Text), Page) =:= 0
    ],
    ?assertEqual([], Missing),
    ?assertEqual(1, count(~"<td>latency.p99 &lt; 20 ms</td><td>10000</td>", Page)).

%% What the page with charts draws of a comparison is there as tables: both recordings, and what
%% differed where they were made.
plain_page_compares(_Config) ->
    Old = dyno_report_html_data:document(),
    #{~"environment" := Environment, ~"runs" := [#{~"metrics" := [Metric | _]} = Run | _]} = Old,
    New = Old#{
        ~"environment" := Environment#{~"otp" := ~"27.3"},
        ~"runs" := [Run#{~"metrics" := [Metric#{~"value" := 17, ~"low" => 16, ~"high" => 18}]}]
    },
    {ok, Compared} = dyno_compare:compare(Old, New, #{incomparable => warn}),
    {ok, Page} = dyno_report_html:format(Compared, #{}, no_assets()),
    Text = iolist_to_binary(Page),
    ?assertEqual(1, count(~"<td>otp</td><td>29.1</td><td>27.3</td>", Text)),
    [
        ?assert(count(Part, Text) > 0)
     || Part <- [~"<h2>Old: ", ~"<h2>New: ", ~"17 1/s (16 1/s to 18 1/s)", ~"<h3>Distributions"]
    ],
    ?assertEqual(0, count(~"The suite sets no thresholds", Text)).

%% A recording whose writer died, and one with values that this version does not expect.
empty_recordings_have_a_page(_Config) ->
    Odd = #{
        ~"runs" => [#{~"tables" => [#{~"rows" => [[1, null], ~"x"]}], ~"error" => #{}}, null],
        ~"environment" => null,
        ~"verdicts" => [#{}]
    },
    [
        ?assertMatch({ok, _}, dyno_report_html:format(Document, #{}, Assets))
     || Document <- [#{}, Odd], Assets <- [some_assets(), no_assets()]
    ].

assets_are_found(_Config) ->
    {ok, #{js := Js, css := Css}} = built_assets(),
    ?assert(byte_size(Js) + byte_size(Css) < 150_000),
    {ok, Page} = dyno_report_html:format(dyno_report_html_data:document(), #{}),
    ?assert(count(Js, iolist_to_binary(Page)) =:= 1).

reasons_are_explained(_Config) ->
    [
        begin
            Text = dyno_report_html:format_error({Reason, "/ü/report.js"}),
            ?assertNotEqual(nomatch, string:find(Text, "/ü/report.js")),
            ?assertNotEqual(nomatch, string:find(Text, "make"))
        end
     || Reason <- [assets_missing, assets_damaged]
    ].

browser(Config) ->
    ok = dyno_project:newest_release_only(),
    Node = node_program(),
    Root = root(),
    Ui = filename:join(Root, "ui"),
    {ok, Assets} = built_assets(),
    Report = filename:join(proplists:get_value(priv_dir, Config), "report.html"),
    ok = file:write_file(Report, page({ok, Assets})),
    Write = fun(Name, Document) ->
        File = filename:join(proplists:get_value(priv_dir, Config), Name),
        {ok, Page} = dyno_report_html:format(Document, #{}, {ok, Assets}),
        ok = file:write_file(File, Page),
        File
    end,
    Several = Write("several.html", dyno_report_html_data:several()),
    LargeFile = Write("large.html", dyno_large_recording:document()),
    ?assert(filelib:file_size(LargeFile) < 20_000_000),
    Benches = #{
        Name => unicode:characters_to_binary(
            Write(unicode:characters_to_list(Name) ++ ".html", Document)
        )
     || Name := Document <- dyno_report_html_benches:documents()
    },
    {0, Printed} = run(filename:join([Root, "scripts", "browser"]), [], Root, []),
    Browser = string:trim(lists:last(string:split(string:trim(Printed), "\n", all))),
    Environment = [
        {"DYNO_REPORT", Report},
        {"DYNO_REPORT_SEVERAL", Several},
        {"DYNO_REPORT_LARGE", LargeFile},
        {"DYNO_REPORT_BENCHES", unicode:characters_to_list(json:encode(Benches))},
        {"DYNO_BROWSER", Browser}
    ],
    {Status, Output} = run(Node, ["--test", "test/report.test.mjs"], Ui, Environment),
    ct:log("~ts", [Output]),
    ?assertEqual(0, Status, Output).

%% Pages

page(Assets) ->
    {ok, Page} = dyno_report_html:format(dyno_report_html_data:document(), #{}, Assets),
    iolist_to_binary(Page).

some_assets() ->
    Hash = ~"sha256-AAAA",
    {ok, #{js => ~"start()", css => ~"body{}", js_hash => Hash, css_hash => Hash}}.

no_assets() ->
    {error, {assets_missing, "priv/report/report.js"}}.

%% Without Node.js the page cannot be built; with it, it must have been.
built_assets() ->
    _ = node_program(),
    dyno_report_html:assets().

policy(Page) ->
    {match, [Policy]} = re:run(Page, "Content-Security-Policy\" content=\"([^\"]*)\"", [
        {capture, all_but_first, binary}
    ]),
    Policy.

recording(Page) ->
    [_, Rest] = binary:split(Page, ~"id=\"recording\">"),
    [Json, _] = binary:split(Rest, ~"</script>"),
    Json.

%% What a document is after a trip through JSON: 1.0e3 and 1000.0 are one number.
normal(Document) ->
    json:decode(iolist_to_binary(json:encode(Document))).

place(Part, Page) ->
    case binary:match(Page, Part) of
        {Place, _} -> Place;
        nomatch -> ct:fail("~ts is not in the page", [Part])
    end.

count(Part, Page) ->
    length(binary:matches(Page, Part)).

%% Programs

node_program() ->
    case os:find_executable("node") of
        false -> throw({skip, "Node.js is not installed, so there is no page to open"});
        Node -> Node
    end.

run(Program, Arguments, Folder, Environment) ->
    Port = open_port({spawn_executable, Program}, [
        {args, Arguments},
        {cd, Folder},
        {env, Environment},
        exit_status,
        stderr_to_stdout,
        binary
    ]),
    collect(Port, <<>>).

collect(Port, Output) ->
    receive
        {Port, {data, Data}} -> collect(Port, <<Output/binary, Data/binary>>);
        {Port, {exit_status, Status}} -> {Status, unicode:characters_to_list(Output)}
    end.

%% The checkout: the nearest folder above the compiled suite that has the page's sources.
root() ->
    root(filename:dirname(code:which(?MODULE))).

root(Folder) ->
    case filelib:is_regular(filename:join([Folder, "ui", "package.json"])) of
        true -> Folder;
        false when Folder =/= "/" -> root(filename:dirname(Folder))
    end.
