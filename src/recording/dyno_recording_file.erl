%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_file).
-moduledoc """
Reads recordings from files and writes them, whole or not at all.

`write/2` writes a temporary file beside the target, syncs it and renames it: whoever reads the file
at any time sees a whole recording, the former or the new one, and a writer that dies or finds the
disk full leaves the former one as it was. `writable/1` tells before a long measurement whether that
will work.
""".

-compile(warn_missing_spec_all).

-export([read/1, write/2, writable/1, format_error/1]).

-export_type([reason/0]).

-doc "What went wrong with which file.".
-type reason() ::
    {read, file:filename_all(), file:posix() | badarg | terminated | system_limit}
    | {write, file:filename_all(), file:posix() | badarg | terminated | system_limit}
    | {not_a_file, file:filename_all()}
    | {no_folder, Folder :: file:filename_all(), file:posix() | badarg}
    | {json, file:filename_all(), dyno_recording_json:reason()}
    | {content, file:filename_all(), dyno_recording:reason()}.

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
        {ok, Checked} -> replace(Path, dyno_recording_json:encode(Checked));
        {error, _} = Error -> Error
    end.

-doc """
Checks that `write/2` can write there: creates the file's folder if only that is missing, and writes
and removes a small file in it.
""".
-spec writable(file:filename_all()) -> ok | {error, reason()}.
writable(Path) ->
    case file:read_file_info(Path) of
        {ok, Info} when element(3, Info) =/= regular ->
            {error, {not_a_file, Path}};
        _ ->
            Folder = filename:dirname(Path),
            case make_folder(Folder) of
                ok -> try_to_write(Path);
                {error, Reason} -> {error, {no_folder, Folder, Reason}}
            end
    end.

-doc "One sentence that says what is wrong and what to do next.".
-spec format_error(reason()) -> binary().
format_error({read, Path, enoent}) ->
    sentence([quoted(Path), ": no such file; give the path of a recording that dyno has written"]);
format_error({read, Path, eisdir}) ->
    sentence([quoted(Path), ": this is a folder; give the path of a recording"]);
format_error({read, Path, eacces}) ->
    sentence([quoted(Path), ": not permitted to read it; change its permissions"]);
format_error({read, Path, Reason}) ->
    sentence([quoted(Path), ": cannot be read: ", file:format_error(Reason)]);
format_error({write, Path, enospc}) ->
    sentence([quoted(Path), ": the disk is full; make room, or give another path"]);
format_error({write, Path, edquot}) ->
    sentence([quoted(Path), ": the disk quota is used up; make room, or give another path"]);
format_error({write, Path, Reason}) when Reason =:= eacces; Reason =:= eperm; Reason =:= erofs ->
    sentence([
        quoted(Path), ": cannot be written: ", file:format_error(Reason),
        "; give a path in a folder you may write to"
    ]);
format_error({write, Path, Reason}) ->
    sentence([
        quoted(Path), ": cannot be written: ", file:format_error(Reason), "; give another path"
    ]);
format_error({not_a_file, Path}) ->
    sentence([quoted(Path), ": this is not a regular file; give the path of a file to write"]);
format_error({no_folder, Folder, enoent}) ->
    sentence([
        quoted(Folder), ": neither this folder nor the one above exists; create it, ",
        "or give another path"
    ]);
format_error({no_folder, Folder, Reason}) when Reason =:= eexist; Reason =:= enotdir ->
    sentence([quoted(Folder), ": this is not a folder; give a path in a folder"]);
format_error({no_folder, Folder, Reason}) ->
    sentence([
        quoted(Folder), ": the folder cannot be created: ", file:format_error(Reason),
        "; create it, or give another path"
    ]);
format_error({json, Path, {not_utf8, Position}}) ->
    sentence([
        quoted(Path), ": not UTF-8 at byte ", integer_to_binary(Position),
        "; a recording is JSON in UTF-8"
    ]);
format_error({json, Path, {unexpected_end, 0}}) ->
    sentence([quoted(Path), ": the file is empty; a recording is JSON"]);
format_error({json, Path, {unexpected_end, Position}}) ->
    sentence([
        quoted(Path), ": not JSON: the text ends too early, at byte ", integer_to_binary(Position),
        "; was the file cut off?"
    ]);
format_error({json, Path, {unexpected, Position, Found}}) ->
    sentence([
        quoted(Path), ": not JSON at byte ", integer_to_binary(Position), ", at ",
        json:encode(Found), "; give the path of a recording"
    ]);
format_error({content, Path, Reason}) ->
    sentence([quoted(Path), ": ", dyno_recording:format_error(Reason)]).

%% Internals

-spec content(file:filename_all(), {ok, Document} | {error, dyno_recording:reason()}) ->
    {ok, Document} | {error, reason()}.
content(_, {ok, Document}) -> {ok, Document};
content(Path, {error, Reason}) -> {error, {content, Path, Reason}}.

-spec replace(file:filename_all(), iodata()) -> ok | {error, reason()}.
replace(Path, Text) ->
    Temporary = temporary(Path),
    Written =
        case write_whole(Temporary, Text) of
            ok -> file:rename(Temporary, Path);
            {error, _} = Error -> Error
        end,
    case Written of
        ok ->
            ok;
        {error, Reason} ->
            _ = file:delete(Temporary, [raw]),
            {error, {write, Path, Reason}}
    end.

%% `exclusive`: a file that is there already is not ours.
-spec write_whole(file:filename_all(), iodata()) -> ok | {error, file:posix() | badarg}.
write_whole(Path, Text) ->
    case file:open(Path, [write, raw, binary, exclusive]) of
        {ok, File} ->
            Written =
                case file:write(File, Text) of
                    ok -> file:sync(File);
                    {error, _} = Error -> Error
                end,
            %% Closing can be what tells of a full disk or quota.
            case {Written, file:close(File)} of
                {ok, Closed} -> Closed;
                {{error, _}, _} -> Written
            end;
        {error, _} = Error ->
            Error
    end.

-spec try_to_write(file:filename_all()) -> ok | {error, reason()}.
try_to_write(Path) ->
    Temporary = temporary(Path),
    Written = write_whole(Temporary, ~"dyno\n"),
    _ = file:delete(Temporary, [raw]),
    case Written of
        ok -> ok;
        {error, Reason} -> {error, {write, Path, Reason}}
    end.

-spec make_folder(file:filename_all()) -> ok | {error, file:posix() | badarg}.
make_folder(Folder) ->
    case file:make_dir(Folder) of
        ok ->
            ok;
        {error, Reason} ->
            %% eexist, but also eisdir for "/" and erofs where the folder exists.
            case filelib:is_dir(Folder) of
                true -> ok;
                false -> {error, Reason}
            end
    end.

%% Hidden, in the folder of the target (a rename does not cross file systems), and no other's.
-spec temporary(file:filename_all()) -> file:filename_all().
temporary(Path) ->
    Unique = integer_to_list(erlang:unique_integer([positive])),
    Name = ["." ++ os:getpid(), Unique, "dyno.tmp"],
    filename:join(filename:dirname(Path), lists:flatten(lists:join("-", Name))).

-spec quoted(file:filename_all()) -> unicode:chardata().
quoted(Path) when is_binary(Path) ->
    case unicode:characters_to_binary(Path) of
        Path -> Path;
        _ -> io_lib:format("~w", [Path])
    end;
quoted(Path) ->
    Path.

-spec sentence(unicode:chardata()) -> binary().
sentence(Chars) ->
    dyno_recording_schema:text(Chars).
