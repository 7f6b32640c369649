%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_file).
-moduledoc """
Writes a file so that it is there whole or not at all.

The bytes go to a temporary file in the same folder, are brought to the disk, and the file is then
renamed: POSIX makes the rename atomic, so a reader, or a full disk, never leaves half a report.
""".

-compile(warn_missing_spec_all).

-export([write/2, writable/1, format_error/1]).

-export_type([reason/0]).

-doc "Why a file cannot be written.".
-type reason() :: {write, file:filename_all(), file:posix() | badarg | terminated | system_limit}.

-doc "Replaces the file by these bytes. After an error the file is as it was.".
-spec write(file:filename_all(), iodata()) -> ok | {error, reason()}.
write(Path, Bytes) ->
    Temporary = temporary(Path),
    Written =
        maybe
            false ?= filelib:is_dir(Path) andalso {error, eisdir},
            {ok, File} ?= file:open(Temporary, [write, raw, binary, exclusive]),
            ok ?= write_and_close(File, Bytes),
            file:rename(Temporary, Path)
        end,
    case Written of
        ok ->
            ok;
        {error, Posix} ->
            _ = file:delete(Temporary),
            {error, {write, Path, Posix}}
    end.

-doc "Whether the file could be written now: asked before a run, not after it.".
-spec writable(file:filename_all()) -> ok | {error, reason()}.
writable(Path) ->
    Temporary = temporary(Path),
    Tried =
        maybe
            false ?= filelib:is_dir(Path) andalso {error, eisdir},
            {ok, File} ?= file:open(Temporary, [write, raw, exclusive]),
            file:close(File)
        end,
    case Tried of
        ok ->
            _ = file:delete(Temporary),
            ok;
        {error, Posix} ->
            {error, {write, Path, Posix}}
    end.

-doc "One sentence that says what to do next.".
-spec format_error(reason()) -> unicode:chardata().
format_error({write, Path, enoent}) ->
    Folder = to_binary(filename:dirname(Path)),
    ["cannot write ", to_binary(Path), ": there is no folder ", Folder, "; create it first"];
format_error({write, Path, eisdir}) ->
    ["cannot write ", to_binary(Path), ": that is a folder; name a file in it"];
format_error({write, Path, Posix}) when Posix =:= eacces; Posix =:= eperm; Posix =:= erofs ->
    [
        "cannot write ",
        to_binary(Path),
        ": ",
        file:format_error(Posix),
        "; name a file in a folder you may write to"
    ];
format_error({write, Path, Posix}) ->
    ["cannot write ", to_binary(Path), ": ", file:format_error(Posix)].

-spec write_and_close(file:fd(), iodata()) -> ok | {error, file:posix() | badarg | terminated}.
write_and_close(File, Bytes) ->
    Written =
        maybe
            ok ?= file:write(File, Bytes),
            file:sync(File)
        end,
    Closed = file:close(File),
    case Written of
        ok -> Closed;
        {error, _} -> Written
    end.

%% Hidden, and of this VM only: two dynos may write to one folder.
-spec temporary(file:filename_all()) -> file:filename_all().
temporary(Path) ->
    Name = to_binary(filename:basename(Path)),
    filename:join(filename:dirname(Path), <<".", Name/binary, ".", (os_pid())/binary, ".tmp">>).

-spec os_pid() -> binary().
os_pid() ->
    list_to_binary(os:getpid()).

-spec to_binary(file:filename_all()) -> binary().
to_binary(Path) ->
    dyno_report_text:encode(Path).
