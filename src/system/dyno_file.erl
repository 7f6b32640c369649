%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_file).
-moduledoc """
Writes files whole or not at all: recordings and reports.

`write/2` writes a temporary file beside the target, syncs it and renames it, which POSIX makes
atomic: whoever reads the file at any time sees a whole one, the former or the new one, and a writer
that dies or finds the disk full leaves the former one as it was. `writable/1` tells before a long
measurement whether that will work.
""".

-export([write/2, writable/1, format_error/1, fault/1, shown/1]).

-export_type([reason/0]).

-doc "What went wrong with which file.".
-type reason() ::
    {write, file:filename_all(), file:posix() | badarg | terminated | system_limit}
    | {not_a_file, file:filename_all()}.

-doc "Replaces the file by these bytes. After an error the file is as it was.".
-spec write(file:filename_all(), iodata()) -> ok | {error, reason()}.
write(Path, Bytes) ->
    with_temporary(Path, Bytes, fun(Temporary) -> file:rename(Temporary, Path) end).

-doc """
Checks that `write/2` can write there: writes and removes a small file beside it. A folder that is
missing is not created: more often than not its name is mistyped, and the result would be elsewhere.
""".
-spec writable(file:filename_all()) -> ok | {error, reason()}.
writable(Path) ->
    with_temporary(Path, ~"dyno\n", fun(_Temporary) -> ok end).

with_temporary(Path, Bytes, Use) ->
    maybe
        ok ?= regular(Path),
        Temporary = temporary(Path),
        Used =
            maybe
                ok ?= write_whole(Temporary, Bytes),
                Use(Temporary)
            end,
        %% It is gone where it was renamed.
        _ = file:delete(Temporary, [raw]),
        case Used of
            ok -> ok;
            {error, Reason} -> {error, {write, Path, Reason}}
        end
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({write, Path, Reason}) ->
    [shown(Path), ": ", unwritten(Reason, shown(filename:dirname(Path)))];
format_error({not_a_file, Path}) ->
    [shown(Path), ": this is not a regular file; give the path of a file to write"].

unwritten(enospc, _Folder) ->
    "the disk is full; make room, or give another path";
unwritten(edquot, _Folder) ->
    "the disk quota is used up; make room, or give another path";
unwritten(enoent, Folder) ->
    ["cannot be written: there is no folder ", Folder, "; create it, or give another path"];
unwritten(enotdir, Folder) ->
    ["cannot be written: ", Folder, " is not a folder; give a path in a folder"];
unwritten(Reason, _Folder) when Reason =:= eacces; Reason =:= eperm; Reason =:= erofs ->
    ["cannot be written: ", file:format_error(Reason), "; give a path in a folder you may write to"];
unwritten(Reason, _Folder) ->
    ["cannot be written: ", file:format_error(Reason), "; give another path"].

-doc "Who can do something about it: where the disk is full, the path is right.".
-spec fault(reason()) -> dyno_error:fault().
fault({write, _Path, Full}) when Full =:= enospc; Full =:= edquot -> dyno;
fault(_Reason) -> caller.

-doc "A path as text that can be shown, also where its bytes are no UTF-8.".
-spec shown(file:filename_all()) -> unicode:chardata().
shown(Path) when is_binary(Path) ->
    case unicode:characters_to_binary(Path) of
        Path -> Path;
        _ -> io_lib:format("~w", [Path])
    end;
shown(Path) ->
    Path.

%% A rename would replace a link or a pipe by a file, and cannot replace a folder.
regular(Path) ->
    case file:read_file_info(Path) of
        {ok, Info} when element(3, Info) =/= regular -> {error, {not_a_file, Path}};
        _ -> ok
    end.

%% `exclusive`: a file that is there already is not ours.
write_whole(Path, Bytes) ->
    case file:open(Path, [write, raw, binary, exclusive]) of
        {ok, File} ->
            Written =
                maybe
                    ok ?= file:write(File, Bytes),
                    file:sync(File)
                end,
            %% Closing can be what tells of a full disk or quota.
            Closed = file:close(File),
            case Written of
                ok -> Closed;
                {error, _} -> Written
            end;
        {error, _} = Error ->
            Error
    end.

%% Hidden, in the folder of the target (a rename does not cross file systems), and no other's.
temporary(Path) ->
    Unique = integer_to_list(erlang:unique_integer([positive])),
    Name = ["." ++ os:getpid(), Unique, "dyno.tmp"],
    filename:join(filename:dirname(Path), lists:flatten(lists:join("-", Name))).
