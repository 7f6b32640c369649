%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_html).
-moduledoc """
Shows a recording as one HTML page that opens from disk, without a network.

The page contains its style, code and the recording as JSON. Its content security policy forbids
every request, and every script except dyno's own. Style and code are built from `ui/` into
`priv/report/`. Without scripts the page shows the console's text.

The recording is escaped once, here. In JSON a `<` can stand only inside a string, and `\u003c`
means the same there, so neither `</script>` nor `<!--` in a name can end or change the element. The
page's code inserts text as text, never as markup.
""".

-behaviour(dyno_report).

-export([format/2]).

-spec format(dyno_report:document(), dyno_report:options()) -> dyno_error:result(iodata()).
format(Document, _Options) ->
    maybe
        {ok, Js} ?= dyno_priv:read("report/report.js"),
        {ok, Css} ?= dyno_priv:read("report/report.css"),
        {ok, Hashes} ?= dyno_priv:read("report/hashes.json"),
        {ok, Text} ?= dyno_report_console:format(Document, #{}),
        {ok, page(Document, escape(Text), Js, Css, json:decode(Hashes))}
    end.

%% The page

page(Document, Text, Js, Css, #{~"js" := JsHash, ~"css" := CssHash}) ->
    [
        ~"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
        ~"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ",
        ~"base-uri 'none'; form-action 'none'; img-src data:; script-src '",
        [JsHash, ~"'; style-src '", CssHash, ~"'\">\n"],
        ~"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
        ~"<link rel=\"icon\" href=\"data:,\">\n",
        [~"<title>", title(Document), ~"</title>\n"],
        [~"<style>", Css, ~"</style>\n"],
        ~"</head>\n<body>\n<div id=\"page\"></div>\n",
        [~"<noscript><pre>\n", Text, ~"</pre></noscript>\n"],
        [~"<script type=\"application/json\" id=\"recording\">", data(Document), ~"</script>\n"],
        [
            ~"<script type=\"application/json\" id=\"findings\">",
            data(dyno_report_findings:json(Document)),
            ~"</script>\n"
        ],
        [~"<script>", Js, ~"</script>\n"],
        ~"</body>\n</html>\n"
    ].

title(Document) ->
    escape([dyno_report_document:name(~"name", Document), " – dyno"]).

data(Value) ->
    Json = iolist_to_binary(json:encode(Value)),
    binary:replace(Json, ~"<", ~"\\u003c", [global]).

escape(Text) ->
    Entities = #{~"&" => ~"&amp;", ~"<" => ~"&lt;", ~">" => ~"&gt;"},
    binary:replace(
        dyno_report_text:encode(Text),
        maps:keys(Entities),
        fun(Character) -> map_get(Character, Entities) end,
        [global]
    ).
