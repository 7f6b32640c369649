%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_file).
-moduledoc """
Reads and writes files of recordings.

A file is written atomically (`m:dyno_file`): it always holds a whole recording, old or new. A file
named `.jsonl` consists of lines instead, for commands that run for hours: only new data is
appended. If the writer dies, the file can be read up to the last whole line.
""".

-export([read/1, write/2, access/1, format_error/1]).

-export_type([reason/0]).

-type reason() ::
    {read, file:filename_all(), file:posix() | badarg | terminated | system_limit}
    | {json, file:filename_all(), dyno_recording_json:reason()}
    | {content, file:filename_all(), dyno_recording:reason()}
    | dyno_file:reason().

%% Longer than the last line of a hundred thousand runs.
-define(TAIL, 1_048_576).

-doc "Reads and checks a recording.".
-spec read(file:filename_all()) -> {ok, dyno_recording:document()} | {error, reason()}.
read(Path) ->
    case file:read_file(Path) of
        {ok, Text} -> decoded(Path, dyno_recording_lines:is_first(Text), Text);
        {error, Reason} -> {error, {read, Path, Reason}}
    end.

decoded(Path, true, Text) ->
    %% Text after the last line end was left by a writer that died.
    case decoded_lines(lists:droplast(binary:split(Text, ~"\n", [global])), 0, []) of
        {ok, Lines} -> content(Path, dyno_recording:validate(dyno_recording_lines:read(Lines)));
        {error, Reason} -> {error, {json, Path, Reason}}
    end;
decoded(Path, false, Text) ->
    case dyno_recording_json:decode(Text) of
        {ok, Value} -> content(Path, dyno_recording:validate(Value));
        {error, Reason} -> {error, {json, Path, Reason}}
    end.

decoded_lines([], _, Lines) ->
    {ok, lists:reverse(Lines)};
decoded_lines([Text | Texts], At, Lines) ->
    case dyno_recording_json:decode(Text) of
        {ok, Line} -> decoded_lines(Texts, At + byte_size(Text) + 1, [Line | Lines]);
        {error, Reason} -> {error, setelement(2, Reason, At + element(2, Reason))}
    end.

-doc """
Writes a recording, replacing an existing file. A file of lines gets only new data of the same
recording, without unfinished runs.

A document that `read/1` would refuse is not written.
""".
-spec write(file:filename_all(), dyno_recording:document()) -> ok | {error, reason()}.
write(Path, Document) ->
    maybe
        {ok, Checked} ?= content(Path, dyno_recording:validate(Document)),
        case dyno_recording_lines:is_name(Path) of
            true -> write_lines(Path, Checked);
            false -> dyno_file:write(Path, access(Checked), dyno_recording_json:encode(Checked))
        end
    end.

write_lines(Path, Document) ->
    First = iolist_to_binary(dyno_recording_lines:first(Document)),
    case written(Path, First) of
        {ok, Written} ->
            append(Path, dyno_recording_lines:rest(Document, Written));
        none ->
            Lines = [First, dyno_recording_lines:rest(Document, #{})],
            dyno_file:write(Path, access(Document), Lines)
    end.

-doc """
The access rights of a recording's file. Recordings of `dyno verify` hold arguments and messages;
crash reasons in `dyno servers` and findings of `dyno doctor` and `dyno record` may.
""".
-spec access(dyno_recording:document()) -> dyno_file:access().
access(#{~"command" := Command}) when
    Command =:= ~"verify";
    Command =:= ~"servers";
    Command =:= ~"doctor";
    Command =:= ~"record"
->
    private;
%% A comparison contains both.
access(#{~"recordings" := #{} = Compared}) ->
    case lists:member(private, [access(Of) || Of <- maps:values(Compared)]) of
        true -> private;
        false -> shared
    end;
access(_Document) ->
    shared.

written(Path, First) ->
    case file:open(Path, [read, raw, binary]) of
        {ok, File} ->
            try
                {ok, First} = file:pread(File, 0, byte_size(First)),
                dyno_recording_lines:written(last_line(File))
            catch
                error:{badmatch, _} -> none
            after
                file:close(File)
            end;
        {error, _} ->
            none
    end.

last_line(File) ->
    {ok, Size} = file:position(File, eof),
    {ok, Tail} = file:pread(File, max(0, Size - ?TAIL), ?TAIL),
    [<<>>, Last | _] = lists:reverse(binary:split(Tail, ~"\n", [global])),
    Last.

append(_Path, []) ->
    ok;
append(Path, Bytes) ->
    dyno_file:add(Path, Bytes).

-spec format_error(reason()) -> unicode:chardata().
format_error({read, Path, Reason}) ->
    [dyno_file:shown(Path), ": ", unread(Reason)];
format_error({json, Path, Reason}) ->
    [dyno_file:shown(Path), ": ", no_json(Reason)];
format_error({content, Path, Reason}) ->
    [dyno_file:shown(Path), ": ", dyno_recording:format_error(Reason)];
format_error(Reason) ->
    dyno_file:format_error(Reason).

unread(enoent) -> "no such file; give the path of a recording that dyno has written";
unread(eisdir) -> "this is a folder; give the path of a recording";
unread(eacces) -> "not permitted to read it; change its permissions";
unread(Reason) -> ["cannot be read: ", file:format_error(Reason)].

no_json({not_utf8, At}) ->
    ["not UTF-8 at byte ", integer_to_binary(At), "; a recording is JSON in UTF-8"];
no_json({unexpected_end, 0}) ->
    "the file is empty; a recording is JSON";
no_json({unexpected_end, At}) ->
    [
        "not JSON: the text ends too early, at byte ",
        integer_to_binary(At),
        "; was the file cut off?"
    ];
no_json({too_large, At, Found}) ->
    io_lib:format(
        "the number at byte ~b, ~ts, is larger than any that can be measured; give the path of "
        "a recording",
        [At, Found]
    );
no_json({unexpected, At, Found}) ->
    io_lib:format(
        "not JSON at byte ~b, at ~ts; give the path of a recording",
        [At, json:encode(Found)]
    ).

%% Internals

content(_, {ok, Document}) -> {ok, Document};
content(Path, {error, Reason}) -> {error, {content, Path, Reason}}.
