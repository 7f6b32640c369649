%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_html).
-moduledoc """
Shows a recording as one HTML page that opens from disk, without a network.

The page holds everything it needs: style, code and the recording itself, as JSON. Its content
security policy forbids every request, and every script but the one built with dyno.

The style and the code come from `ui/`, which `make` builds into `priv/report/` where Node.js is
installed. Without them the page has the same figures as plain tables, and says what is missing.

The recording is escaped once, here: in JSON a `<` can stand only inside a string, where `\u003c`
means the same, so neither `</script>` nor `<!--` in a name can end or change the element that
holds it. The page's code puts text into the page as text, never as markup.
""".

-behaviour(dyno_report).

%% The format
-export([format/2, format_error/1]).
%% Its parts
-export([format/3, assets/0]).

-export_type([assets/0, reason/0]).

-doc "What the page is made of, apart from the recording.".
-type assets() :: #{
    js := binary(),
    css := binary(),
    %% For the content security policy: `sha256-...` of exactly these bytes.
    js_hash := binary(),
    css_hash := binary()
}.
-doc "Why there are no assets.".
-type reason() ::
    {assets_missing, file:filename_all()} | {assets_damaged, file:filename_all()}.

-doc """
The page for a recording, with the style and code that `assets/0` finds.

The options are those of the other formats; the page needs none of them.
""".
-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(Document, Options) ->
    format(Document, Options, assets()).

-doc """
The page for a recording, made with these assets. Pure.

Where the assets could not be read the page is plain but complete, and says why at its top.
""".
-spec format(dyno_report:document(), dyno_report:options(), {ok, assets()} | {error, reason()}) ->
    {ok, iodata()}.
format(Document, _Options, {ok, Assets}) ->
    {ok, page(Document, Assets)};
format(Document, _Options, {error, Reason}) ->
    {ok, dyno_report_html_plain:page(Document, format_error(Reason))}.

-doc """
The style and the code of the page, as `make` built them: from dyno's `priv` folder, or from the
same place inside dyno's escript.
""".
-spec assets() -> {ok, assets()} | {error, reason()}.
assets() ->
    Folder = filename:join(priv_folder(), "report"),
    maybe
        {ok, Js} ?= asset(Folder, "report.js"),
        {ok, Css} ?= asset(Folder, "report.css"),
        {ok, Hashes} ?= asset(Folder, "hashes.json"),
        {ok, JsHash, CssHash} ?= hashes(filename:join(Folder, "hashes.json"), Hashes),
        {ok, #{js => Js, css => Css, js_hash => JsHash, css_hash => CssHash}}
    end.

-doc "One sentence for a reason of `assets/0`, with what to do about it.".
-spec format_error(reason()) -> string().
format_error({assets_missing, File}) ->
    sentence(
        "dyno was built without the report's page (~ts is not there): install Node.js, run `make` "
        "in dyno's folder, then write the report again from its recording.",
        File
    );
format_error({assets_damaged, File}) ->
    sentence(
        "the report's page is damaged (~ts is not what the build writes): run `make` in dyno's "
        "folder, then write the report again from its recording.",
        File
    ).

%% Assets

%% The code server knows an application by its folder's name; where that differs, the place of
%% this module's own code tells.
-spec priv_folder() -> file:filename_all().
priv_folder() ->
    case code:priv_dir(dyno) of
        {error, bad_name} ->
            {file, Beam} = code:is_loaded(?MODULE),
            filename:join(filename:dirname(filename:dirname(Beam)), "priv");
        Folder ->
            Folder
    end.

%% The loader reads files inside archives too, which `file` does not.
-spec asset(file:filename_all(), string()) -> {ok, binary()} | {error, reason()}.
asset(Folder, Name) ->
    File = filename:join(Folder, Name),
    case erl_prim_loader:get_file(File) of
        {ok, <<>>, _} -> {error, {assets_damaged, File}};
        {ok, Content, _} -> {ok, Content};
        error -> {error, {assets_missing, File}}
    end.

-spec hashes(file:filename_all(), binary()) -> {ok, binary(), binary()} | {error, reason()}.
hashes(File, Json) ->
    try json:decode(Json) of
        #{~"js" := <<"sha256-", _/binary>> = Js, ~"css" := <<"sha256-", _/binary>> = Css} ->
            {ok, Js, Css};
        _ ->
            {error, {assets_damaged, File}}
    catch
        error:_ -> {error, {assets_damaged, File}}
    end.

-spec sentence(io:format(), file:filename_all()) -> string().
sentence(Format, File) ->
    lists:flatten(io_lib:format(Format, [File])).

%% The page

-spec page(dyno_report:document(), assets()) -> iolist().
page(Document, #{js := Js, css := Css} = Assets) ->
    [
        ~"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
        [~"<meta http-equiv=\"Content-Security-Policy\" content=\"", policy(Assets), ~"\">\n"],
        ~"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
        ~"<link rel=\"icon\" href=\"data:,\">\n",
        [~"<title>", dyno_report_html_plain:title(Document), ~"</title>\n"],
        [~"<style>", Css, ~"</style>\n"],
        ~"</head>\n<body>\n<div id=\"page\"></div>\n",
        [~"<noscript>\n", dyno_report_html_plain:summary(Document), ~"</noscript>\n"],
        [~"<script type=\"application/json\" id=\"recording\">", data(Document), ~"</script>\n"],
        [~"<script>", Js, ~"</script>\n"],
        ~"</body>\n</html>\n"
    ].

-spec policy(assets()) -> iolist().
policy(#{js_hash := JsHash, css_hash := CssHash}) ->
    [
        ~"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; script-src '",
        JsHash,
        ~"'; style-src '",
        CssHash,
        ~"'"
    ].

-spec data(dyno_report:document()) -> binary().
data(Document) ->
    Json = iolist_to_binary(json:encode(Document)),
    binary:replace(Json, ~"<", ~"\\u003c", [global]).
