%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report).
-moduledoc """
Shows a recording in one of the formats dyno knows.

This module is the behaviour of a format and the one list of formats. A new output is one new
module with `c:format/2`, and one line in `registry/0` below.
""".

%% The list of formats
-export([formats/0, format_names/0, file_endings/0, format_of_name/1, format_of_file/1]).
%% Showing
-export([render/3, format_error/1]).

-export_type([document/0, format/0, options/0, reason/0]).

-doc "A recording as `json:decode/1` gives it; doc/recording.md describes its fields.".
-type document() :: #{binary() => json:decode_value()}.

-doc "The name of a format: one of `formats/0`.".
-type format() :: atom().

-doc "What the place where the report is shown can do; every key has a default.".
-type options() :: #{
    %% Colours as ANSI escape sequences. Default: off.
    colour => on | off,
    %% Columns of the terminal or file. Default: 100.
    width => pos_integer(),
    %% Whether lines, bars and ellipses may leave ASCII. Default: unicode.
    charset => unicode | ascii,
    %% Rows shown of a long table (functions, processes, growth). Default: 10.
    top => pos_integer(),
    %% Profiles: the functions that took most, or trees of calls from the outermost function down or
    %% from the innermost up. Default: top.
    view => top | down | up,
    %% Of a test or a recording of nodes: everything, or the answer in about 30 lines. Default:
    %% true.
    full => boolean(),
    %% Where the page of the same recording is, which the answer names.
    page => file:filename_all()
}.

-doc "Why a report could not be made or written.".
-type reason() ::
    {unknown_format, binary()}
    | {unknown_extension, file:filename_all()}
    | {format, dyno_error:error()}
    | dyno_file:reason().

-doc "Makes the report. Pure: nothing is read or written.".
-callback format(document(), options()) -> {ok, iodata()} | {error, dyno_error:error()}.

-doc "The formats' names.".
-spec formats() -> [format(), ...].
formats() ->
    [Format || {Format, _Module, _Extensions} <- registry()].

-doc "The formats' names as help texts list them: `console, json or html`.".
-spec format_names() -> string().
format_names() ->
    alternatives([atom_to_list(Format) || Format <- formats()]).

-doc "The endings of files' names that say a format, as help texts list them.".
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
The format that a file's extension asks for.

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
The document in that format, in UTF-8. Its texts come from elsewhere: here, and for all formats, what
would steer a terminal or mislead the reader is escaped (`m:dyno_text`). The formats that are read
back have it as JSON escapes.
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
    [
        "the name of ", dyno_report_text:encode(Path),
        " does not say its format; the endings known are ", Known
    ];
format_error({format, Error}) ->
    dyno_error:format(Error);
format_error(Reason) ->
    dyno_file:format_error(Reason).

%% The one place where formats are registered: name, module, endings of file names.
registry() ->
    [
        {console, dyno_report_console, [~".txt"]},
        {json, dyno_report_json, [~".json"]},
        {jsonl, dyno_report_jsonl, [~".jsonl"]},
        {html, dyno_report_html, [~".html", ~".htm"]},
        {csv, dyno_report_csv, [~".csv"]},
        {md, dyno_report_markdown, [~".md", ~".markdown"]},
        {junit, dyno_report_junit, [~".xml"]},
        %% Text as well, but .txt is the console's.
        {benchstat, dyno_report_benchstat, []},
        %% For a step's log; JSON, but .json is the recording's.
        {github, dyno_report_github, []},
        {gitlab, dyno_report_gitlab, []},
        {folded, dyno_report_folded, [~".folded"]},
        {speedscope, dyno_report_speedscope, [~".speedscope.json", ~".speedscope"]},
        {pprof, dyno_report_pprof, [~".pb.gz", ~".pprof"]},
        {callgrind, dyno_report_callgrind, [~".callgrind"]}
    ].
