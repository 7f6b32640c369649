%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_file).
-moduledoc """
Reads recordings from files and writes them, whole or not at all.

`write/2` and `writable/1` are those of `m:dyno_file`: at any time the file holds a whole recording,
the former or the new one.
""".

-export([read/1, write/2, writable/1, format_error/1]).

-export_type([reason/0]).

-doc "What went wrong with which file.".
-type reason() ::
    {read, file:filename_all(), file:posix() | badarg | terminated | system_limit}
    | {json, file:filename_all(), dyno_recording_json:reason()}
    | {content, file:filename_all(), dyno_recording:reason()}
    | dyno_file:reason().

-doc "Reads and checks a recording.".
-spec read(file:filename_all()) -> {ok, dyno_recording:document()} | {error, reason()}.
read(Path) ->
    case file:read_file(Path) of
        {ok, Text} ->
            case dyno_recording_json:decode(Text) of
                {ok, Value} -> content(Path, dyno_recording:validate(Value));
                {error, Reason} -> {error, {json, Path, Reason}}
            end;
        {error, Reason} ->
            {error, {read, Path, Reason}}
    end.

-doc """
Writes a recording, replacing the file if there is one.

A document that `read/1` would refuse is not written.
""".
-spec write(file:filename_all(), dyno_recording:document()) -> ok | {error, reason()}.
write(Path, Document) ->
    case content(Path, dyno_recording:validate(Document)) of
        {ok, Checked} -> dyno_file:write(Path, dyno_recording_json:encode(Checked));
        {error, _} = Error -> Error
    end.

-doc "Checks that `write/2` can write there, before a long measurement.".
-spec writable(file:filename_all()) -> ok | {error, reason()}.
writable(Path) ->
    dyno_file:writable(Path).

-doc "One sentence that says what is wrong and what to do next.".
-spec format_error(reason()) -> binary().
format_error({read, Path, enoent}) ->
    sentence([shown(Path), ": no such file; give the path of a recording that dyno has written"]);
format_error({read, Path, eisdir}) ->
    sentence([shown(Path), ": this is a folder; give the path of a recording"]);
format_error({read, Path, eacces}) ->
    sentence([shown(Path), ": not permitted to read it; change its permissions"]);
format_error({read, Path, Reason}) ->
    sentence([shown(Path), ": cannot be read: ", file:format_error(Reason)]);
format_error({json, Path, {not_utf8, Position}}) ->
    sentence([
        shown(Path), ": not UTF-8 at byte ", integer_to_binary(Position),
        "; a recording is JSON in UTF-8"
    ]);
format_error({json, Path, {unexpected_end, 0}}) ->
    sentence([shown(Path), ": the file is empty; a recording is JSON"]);
format_error({json, Path, {unexpected_end, Position}}) ->
    sentence([
        shown(Path), ": not JSON: the text ends too early, at byte ", integer_to_binary(Position),
        "; was the file cut off?"
    ]);
format_error({json, Path, {unexpected, Position, Found}}) ->
    sentence([
        shown(Path), ": not JSON at byte ", integer_to_binary(Position), ", at ",
        json:encode(Found), "; give the path of a recording"
    ]);
format_error({content, Path, Reason}) ->
    sentence([shown(Path), ": ", dyno_recording:format_error(Reason)]);
format_error(Reason) ->
    dyno_file:format_error(Reason).

%% Internals

-spec content(file:filename_all(), {ok, Document} | {error, dyno_recording:reason()}) ->
    {ok, Document} | {error, reason()}.
content(_, {ok, Document}) -> {ok, Document};
content(Path, {error, Reason}) -> {error, {content, Path, Reason}}.

-spec shown(file:filename_all()) -> unicode:chardata().
shown(Path) ->
    dyno_file:shown(Path).

-spec sentence(unicode:chardata()) -> binary().
sentence(Chars) ->
    dyno_recording_schema:text(Chars).
