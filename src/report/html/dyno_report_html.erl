%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_html).
-moduledoc """
Shows a recording as one HTML page that opens from disk, without a network.

The page holds everything it needs: style, code and the recording itself, as JSON. Its content
security policy forbids every request, and every script but the one built with dyno.

The style and the code are built from `ui/` and stand in `priv/report/`. Where scripts are off, the
page shows what the console would.

The recording is escaped once, here: in JSON a `<` can stand only inside a string, where `\u003c`
means the same, so neither `</script>` nor `<!--` in a name can end or change the element that
holds it. The page's code puts text into the page as text, never as markup.
""".

-behaviour(dyno_report).

-export([format/2]).

-doc "The page for a recording. The options are those of the other formats; the page needs none.".
-spec format(dyno_report:document(), dyno_report:options()) ->
    {ok, iodata()} | {error, dyno_error:error()}.
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

%% Text that means itself inside an element.
escape(Text) ->
    Entities = #{~"&" => ~"&amp;", ~"<" => ~"&lt;", ~">" => ~"&gt;"},
    binary:replace(
        dyno_report_text:encode(Text),
        maps:keys(Entities),
        fun(Character) -> map_get(Character, Entities) end,
        [global]
    ).
