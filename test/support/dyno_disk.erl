%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_disk).
-moduledoc "A small disk, to be full or read-only when a test needs that; only root can have one.".

-export([mount/2, fill/1, unmount/1]).

-doc "Makes the folder a file system of so many kB; else the reason to skip the case.".
-spec mount(file:filename(), pos_integer()) -> ok | {skip, string()}.
mount(Folder, KB) ->
    ok = filelib:ensure_path(Folder),
    Command = io_lib:format(
        "mount -t tmpfs -o size=~bk none '~ts' && printf mounted", [KB, Folder]
    ),
    case os:cmd(Command) of
        "mounted" -> ok;
        Other -> {skip, "no small disk can be mounted here: " ++ string:trim(Other)}
    end.

-doc "Leaves no room in it.".
-spec fill(file:filename()) -> ok.
fill(Folder) ->
    {error, enospc} = file:write_file(
        filename:join(Folder, "ballast"), binary:copy(~"0123456789abcdef", 1 bsl 16)
    ),
    ok.

-doc "Takes it away, where it is there.".
-spec unmount(file:filename()) -> ok.
unmount(Folder) ->
    _ = [os:cmd("umount '" ++ Folder ++ "'") || filelib:is_dir(Folder)],
    ok.
