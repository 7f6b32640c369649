%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report).
-moduledoc """
Shows a recording in one of dyno's formats: this module is their behaviour and their one list. A new
format is a module with `c:format/2`, and a line in `registry/0` below.
""".

%% Formats
-export([formats/0, format_names/0, file_endings/0, format_of_name/1, format_of_file/1]).
%% Rendering
-export([render/3, format_error/1]).

-export_type([document/0, format/0, options/0, reason/0]).

-doc "A recording as decoded JSON; doc/recording.md describes its fields.".
-type document() :: #{binary() => json:decode_value()}.

-type format() :: atom().

-type options() :: #{
    %% ANSI colours. Default: off.
    colour => on | off,
    %% Columns of the terminal or file. Default: 100.
    width => pos_integer(),
    %% Whether lines, bars and ellipses may leave ASCII. Default: unicode.
    charset => unicode | ascii,
    %% Rows shown of a long table (functions, processes, growth). Default: 10.
    top => pos_integer(),
    %% Profiles: functions with most time (top, default), call trees down, or up.
    view => top | down | up,
    %% Tests and recordings of nodes: everything, or about 30 lines. Default: true.
    full => boolean(),
    page => file:filename_all()
}.

-type reason() ::
    {unknown_format, binary()}
    | {unknown_extension, file:filename_all()}
    | {format, dyno_error:error()}
    | dyno_file:reason().

-doc "Renders the report. Pure: no file is read or written.".
-callback format(document(), options()) -> dyno_error:result(iodata()).

-doc "The formats' names.".
-spec formats() -> [format(), ...].
formats() ->
    [Format || {Format, _Module, _Extensions} <- registry()].

-doc "The formats' names as in help texts: `console, json or html`.".
-spec format_names() -> string().
format_names() ->
    alternatives([atom_to_list(Format) || Format <- formats()]).

-doc "The file endings of formats, as in help texts.".
-spec file_endings() -> string().
file_endings() ->
    alternatives([binary_to_list(Ending) || {_, _, [Ending | _]} <- registry()]).

alternatives(Words) ->
    lists:flatten([lists:join(", ", lists:droplast(Words)), " or ", lists:last(Words)]).

-doc """
The format of that name.

```erlang
1> dyno_report:format_of_name(~"json").
{ok,json}
```
""".
-spec format_of_name(binary()) -> {ok, format()} | {error, reason()}.
format_of_name(Name) ->
    case [Format || Format <- formats(), atom_to_binary(Format) =:= Name] of
        [Format] -> {ok, Format};
        [] -> {error, {unknown_format, Name}}
    end.

-doc """
The format of a file's extension.

```erlang
1> dyno_report:format_of_file("report.html").
{ok,html}
```
""".
-spec format_of_file(file:filename_all()) -> {ok, format()} | {error, reason()}.
format_of_file(Path) ->
    Name = string:lowercase(dyno_report_text:encode(filename:basename(Path))),
    %% .speedscope.json is longer than .json.
    Endings = [
        {byte_size(Ending), Format}
     || {Format, _, Of} <- registry(), Ending <- Of, ends_so(Name, Ending)
    ],
    case lists:reverse(lists:sort(Endings)) of
        [{_, Format} | _] -> {ok, Format};
        [] -> {error, {unknown_extension, Path}}
    end.

ends_so(Name, Ending) ->
    Size = byte_size(Name) - byte_size(Ending),
    Size > 0 andalso binary:part(Name, Size, byte_size(Ending)) =:= Ending.

-doc """
The document in a format, as UTF-8. Texts from targets, which could control a terminal, are escaped
here (`m:dyno_text`); formats meant to be read back use JSON escapes.
""".
-spec render(format(), document(), options()) -> {ok, iodata()} | {error, reason()}.
render(Format, Document, Options) ->
    {Format, Module, _Extensions} = lists:keyfind(Format, 1, registry()),
    maybe
        {error, Error} ?= Module:format(shown(Format, Document), Options),
        {error, {format, Error}}
    end.

shown(Format, Document) when Format =:= json; Format =:= jsonl -> Document;
shown(_Format, Document) -> clean(Document).

clean(Text) when is_binary(Text) -> dyno_text:lines(Text);
clean(List) when is_list(List) -> [clean(Value) || Value <- List];
clean(Object) when is_map(Object) -> #{clean(Key) => clean(Value) || Key := Value <- Object};
clean(Value) -> Value.

-spec format_error(reason()) -> unicode:chardata().
format_error({unknown_format, Name}) ->
    Names = lists:join(", ", [atom_to_binary(Format) || Format <- formats()]),
    ["there is no format ", $", Name, $", "; the formats are ", Names];
format_error({unknown_extension, Path}) ->
    Known = lists:join(", ", lists:append([Extensions || {_, _, Extensions} <- registry()])),
    io_lib:format(
        "the name of ~ts does not say its format; the endings known are ~ts",
        [dyno_report_text:encode(Path), Known]
    );
format_error({format, Error}) ->
    dyno_error:format(Error);
format_error(Reason) ->
    dyno_file:format_error(Reason).

%% The only registry of formats: name, module, file endings.
registry() ->
    [
        {console, dyno_report_console, [~".txt"]},
        {json, dyno_report_json, [~".json"]},
        {jsonl, dyno_report_jsonl, [~".jsonl"]},
        {html, dyno_report_html, [~".html", ~".htm"]},
        {csv, dyno_report_csv, [~".csv"]},
        {md, dyno_report_markdown, [~".md", ~".markdown"]},
        {junit, dyno_report_junit, [~".xml"]},
        %% Text too, but .txt is the console's.
        {benchstat, dyno_report_benchstat, []},
        %% For a step's log; JSON, but .json is the recording's.
        {github, dyno_report_github, []},
        {gitlab, dyno_report_gitlab, []},
        {folded, dyno_report_folded, [~".folded"]},
        {speedscope, dyno_report_speedscope, [~".speedscope.json", ~".speedscope"]},
        {pprof, dyno_report_pprof, [~".pb.gz", ~".pprof"]},
        {callgrind, dyno_report_callgrind, [~".callgrind"]}
    ].
