%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_html_SUITE).
-moduledoc false.

%% The HTML report: what the text of the page must be, and, in a real browser, what a reader sees.

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 10}}].

all() ->
    [
        one_file_with_everything,
        policy_forbids_the_network,
        policy_fits_the_code,
        recording_survives,
        hostile_names_stay_text,
        is_small,
        without_scripts_it_is_the_console,
        a_missing_part_is_named,
        computes_without_a_browser,
        opens_in_a_browser,
        is_used_in_a_browser
    ].

slow() -> [is_used_in_a_browser].

one_file_with_everything(_Config) ->
    Page = page(),
    Parts = [
        ~"<!doctype html>",
        ~"<html lang=\"en\">",
        ~"<meta charset=\"utf-8\">",
        ~"<meta http-equiv=\"Content-Security-Policy\"",
        ~"<title>Cowboy answering HTTP requests",
        ~"<style>",
        ~"<div id=\"page\"></div>",
        ~"<noscript>",
        ~"</noscript>",
        ~"<script type=\"application/json\" id=\"recording\">{",
        ~"<script>",
        ~"</html>"
    ],
    Places = [place(Part, Page) || Part <- Parts],
    ?assertEqual(lists:sort(Places), Places),
    ?assertEqual(nomatch, re:run(Page, "<(link|script|img)[^>]*(src|href)=.(?!data:,)")).

policy_forbids_the_network(_Config) ->
    Policy = policy(page()),
    ?assertMatch({match, _}, re:run(Policy, "default-src 'none'")),
    ?assertEqual(nomatch, re:run(Policy, "http|\\*|unsafe")).

%% The hashes are made by another program than the page: they must be those of its bytes.
policy_fits_the_code(_Config) ->
    Page = page(),
    Policy = policy(Page),
    [
        begin
            Hash = base64:encode(crypto:hash(sha256, Text)),
            ?assertNotEqual(nomatch, binary:match(Policy, <<"'sha256-", Hash/binary, "'">>))
        end
     || Text <- [script(Page), style(Page)]
    ],
    %% Nothing in them ends their element.
    ?assertEqual(nomatch, re:run(script(Page), "</script|<!--", [caseless])),
    ?assertEqual(nomatch, re:run(style(Page), "</style", [caseless])).

is_small(_Config) ->
    Page = page(),
    ?assert(byte_size(script(Page)) + byte_size(style(Page)) < 170_000).

recording_survives(_Config) ->
    Document = dyno_report_html_data:document(),
    ?assertEqual(normal(Document), json:decode(recording(page()))).

hostile_names_stay_text(_Config) ->
    Title = ~"</title><script>\"'&</noscript>",
    Page = page((dyno_report_html_data:document())#{~"name" := Title}),
    ?assertEqual(nomatch, re:run(Page, "<img|<!--", [caseless])),
    %% The recording, its findings, and the code.
    ?assertEqual(3, count(~"</script>", Page)),
    ?assertEqual(1, count(~"</title>", Page)),
    ?assertEqual(1, count(~"</noscript>", Page)),
    ?assertEqual(1, count(~"<title>&lt;/title&gt;&lt;script&gt;\"'&amp;", Page)).

without_scripts_it_is_the_console(_Config) ->
    Document = (dyno_report_html_data:document())#{~"name" := ~"plain"},
    {ok, Text} = dyno_report:render(console, Document, #{}),
    [_, Rest] = binary:split(page(Document), ~"<noscript><pre>\n"),
    [Shown, _] = binary:split(Rest, ~"</pre></noscript>"),
    Entities = #{~"&lt;" => ~"<", ~"&gt;" => ~">", ~"&amp;" => ~"&"},
    Meant = fun(Entity) -> map_get(Entity, Entities) end,
    Plain = binary:replace(Shown, maps:keys(Entities), Meant, [global]),
    ?assertEqual(iolist_to_binary(Text), Plain).

a_missing_part_is_named(_Config) ->
    Text = dyno_priv:format_error({missing, "/ü/report.js"}),
    ?assertNotEqual(nomatch, string:find(Text, "/ü/report.js")),
    ?assertNotEqual(nomatch, string:find(Text, "install dyno again")).

%% ui/test/pure.test.mjs: trees of stacks, addresses, places of labels.
computes_without_a_browser(_Config) ->
    Node = node_program(),
    Root = dyno_project:root(),
    {0, _} = run(filename:join([Root, "scripts", "page"]), ["packages"], Root, []),
    {Status, Output} = run(
        Node, ["--test", "test/pure.test.mjs"], filename:join(Root, "ui"), []
    ),
    ?assertEqual(0, Status, Output).

%% A few of the tests of ui/test, on pages that cost nothing to make.
opens_in_a_browser(Config) ->
    Pages = #{~"weather" => dyno_report_weather:document(), ~"node" => dyno_report_node:document()},
    Names = ["says the verdict first", "does not know", "without scripts", "running node"],
    in_browser(Config, Pages, [["--test-name-pattern=", Name] || Name <- Names]).

is_used_in_a_browser(Config) ->
    Pages = (dyno_report_html_benches:documents())#{
        ~"several" => dyno_report_html_data:several(),
        ~"node" => dyno_report_node:document(),
        ~"large" => dyno_large_recording:document()
    },
    in_browser(Config, Pages, []).

%% One browser opens all pages.
in_browser(Config, Pages, Options) ->
    Node = node_program(),
    Root = dyno_project:root(),
    Files =
        #{
            Name => written(Name, Document, Config)
         || Name := Document <- Pages#{~"report" => dyno_report_html_data:document()}
        },
    [?assert(filelib:file_size(Large) < 10_000_000) || #{~"large" := Large} <- [Files]],
    {0, _} = run(filename:join([Root, "scripts", "page"]), ["packages"], Root, []),
    {0, Printed} = run(filename:join([Root, "scripts", "browser"]), [], Root, []),
    Browser = string:trim(lists:last(string:split(string:trim(Printed), "\n", all))),
    Environment = [
        %% Some suites have one whose name is too long for Chromium's socket.
        {"TMPDIR", false},
        {"DYNO_PAGES", unicode:characters_to_list(json:encode(Files))},
        {"DYNO_BROWSER", Browser}
    ],
    Arguments =
        ["--test"] ++ [lists:flatten(Option) || Option <- Options] ++
            ["test/report.test.mjs"],
    {Status, Output} = run(Node, Arguments, filename:join(Root, "ui"), Environment),
    ct:log("~ts", [Output]),
    ?assertEqual(0, Status, Output).

written(Name, Document, Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), <<Name/binary, ".html">>),
    ok = file:write_file(File, page(Document)),
    unicode:characters_to_binary(File).

%% Pages

page() ->
    page(dyno_report_html_data:document()).

page(Document) ->
    {ok, Page} = dyno_report:render(html, Document, #{}),
    iolist_to_binary(Page).

policy(Page) ->
    {match, [Policy]} = re:run(Page, "Content-Security-Policy\" content=\"([^\"]*)\"", [
        {capture, all_but_first, binary}
    ]),
    Policy.

recording(Page) -> between(~"id=\"recording\">", ~"</script>", Page).

script(Page) -> between(~"<script>", ~"</script>", Page).

style(Page) -> between(~"<style>", ~"</style>", Page).

between(Before, Behind, Page) ->
    [_, Rest] = binary:split(Page, Before),
    [Content, _] = binary:split(Rest, Behind),
    Content.

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
