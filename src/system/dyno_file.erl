%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_file).
-moduledoc """
Writes files whole or not at all: recordings and reports. `m:dyno_stream` writes growing files.

`write/3` writes a file in a hidden folder beside the target, syncs it and renames it. POSIX renames
are atomic: readers always see a whole file, old or new, also after a crash or with a full disk.
`writable/1` checks this before a long measurement.

A `private` file has the mode 0600: it may hold arguments of calls. A symbolic link stays, and its
target is written; another user's link in a shared folder, such as /tmp, is refused, as in Linux,
and so are other files that are not regular (/dev/stdout, a pipe).
""".

-include_lib("kernel/include/file.hrl").

-export([write/2, write/3, first/2, add/2, create/2, open/2, writable/1]).
-export([near/2, format_error/1, fault/1, shown/1]).

-export_type([reason/0, access/0]).

-type reason() ::
    {write, file:filename_all(), posix()}
    | {not_a_file, file:filename_all()}
    | {link_of_another, file:filename_all()}
    %% A grown file keeps this many of the entries.
    | {cut, file:filename_all(), posix(), Kept :: non_neg_integer(), Entries :: pos_integer()}.

-type posix() :: file:posix() | badarg | terminated | system_limit.

-doc "Readers of a file: only the user; or as before, and for a new file as the umask says.".
-type access() :: private | shared.

-define(MOST_LINKS, 40).
-define(NEW, "new").
%% Another path would help.
-define(WRONG_PATH, [
    enoent, enotdir, eisdir, eacces, eperm, erofs, eexist, eloop, enametoolong, badarg, einval
]).

-doc "Replaces the file by these bytes, for all readers. See `write/3`.".
-spec write(file:filename_all(), iodata()) -> ok | {error, reason()}.
write(Path, Bytes) ->
    write(Path, shared, Bytes).

-doc "Replaces the file by these bytes. After an error the file is unchanged.".
-spec write(file:filename_all(), access(), iodata()) -> ok | {error, reason()}.
write(Path, Access, Bytes) ->
    written(Path, Access, Bytes, fun file:rename/2).

written(Path, Access, Bytes, Move) ->
    beside(Path, fun(Temporary, Target) ->
        maybe
            {ok, File} ?= new(Temporary, Access, Target),
            ok ?= closed(File, synced(File, file:write(File, Bytes))),
            Move(Temporary, Target)
        end
    end).

-doc "Checks, by a small file beside it, that `write/3` can write there; creates no folder.".
-spec writable(file:filename_all()) -> ok | {error, reason()}.
writable(Path) ->
    beside(Path, fun(Temporary, _Target) -> file:write_file(Temporary, ~"dyno\n", [raw]) end).

-doc "Makes a file for the user only (mode 0400), unless it exists; readers see it whole.".
-spec first(file:filename_all(), iodata()) -> ok | {error, reason()}.
first(Path, Bytes) ->
    written(Path, private, Bytes, fun(Temporary, Target) ->
        maybe
            ok ?= file:change_mode(Temporary, 8#400),
            file:make_link(Temporary, Target)
        end
    end).

-doc "Replaces the file by an empty one, and opens it.".
-spec open(file:filename_all(), access()) -> {ok, file:fd()} | {error, reason()}.
open(Path, Access) ->
    beside(Path, fun(Temporary, Target) ->
        maybe
            {ok, File} ?= new(Temporary, Access, Target),
            case file:rename(Temporary, Target) of
                ok -> {ok, File};
                Error -> closed(File, Error)
            end
        end
    end).

append(Path) ->
    maybe
        {ok, Target} ?= target(Path),
        {error, Reason} ?= file:open(Target, [append, raw, binary]),
        {error, {write, Path, Reason}}
    end.

-doc "Appends bytes.".
-spec add(file:filename_all(), iodata()) -> ok | {error, reason()}.
add(Path, Bytes) ->
    maybe
        {ok, File} ?= append(Path),
        {error, Reason} ?= closed(File, synced(File, file:write(File, Bytes))),
        {error, {write, Path, Reason}}
    end.

-doc "Writes a file that must not exist; a link of its name is not followed.".
-spec create(file:filename_all(), iodata()) -> ok | {error, reason()}.
create(Path, Bytes) ->
    maybe
        {ok, File} ?= file:open(Path, [write, raw, binary, exclusive]),
        {error, Why} ?= closed(File, file:write(File, Bytes)),
        _ = file:delete(Path, [raw]),
        {error, {write, Path, Why}}
    else
        ok -> ok;
        {error, Reason} -> {error, {write, Path, Reason}}
    end.

%% In a folder closed to others the file gets its mode before its content. The folder is beside the
%% target, because a rename cannot cross file systems.
beside(Path, Use) ->
    maybe
        {ok, Target} ?= target(Path),
        {folder, {ok, Folder}} ?= {folder, dyno_temporary:make(filename:dirname(Target))},
        Used = Use(filename:join(Folder, ?NEW), Target),
        ok = dyno_temporary:remove(Folder, ?NEW),
        case Used of
            {error, Reason} -> {error, {write, Path, Reason}};
            _ -> Used
        end
    else
        {folder, {error, {no_folder, _, Posix}}} -> {error, {write, Path, Posix}};
        {error, _} = Error -> Error
    end.

new(Temporary, Access, Target) ->
    maybe
        {ok, File} ?= file:open(Temporary, [write, raw, binary, exclusive]),
        case mode(Temporary, Access, file:read_file_info(Target)) of
            ok -> {ok, File};
            Error -> closed(File, Error)
        end
    end.

mode(Temporary, private, _Former) -> file:change_mode(Temporary, 8#600);
mode(Temporary, shared, {ok, #file_info{mode = M}}) -> file:change_mode(Temporary, M band 8#777);
mode(_Temporary, shared, {error, _}) -> ok.

synced(File, ok) -> file:sync(File);
synced(_File, Error) -> Error.

%% A full disk or quota may show only at closing.
closed(File, Result) ->
    Closed = file:close(File),
    case Result of
        ok -> Closed;
        {error, _} -> Result
    end.

%% What is to be written

target(Path) -> target(Path, filename:absname(Path), ?MOST_LINKS).

target(Path, _Target, 0) ->
    {error, {write, Path, eloop}};
target(Path, Target, Left) ->
    case file:read_link_info(Target) of
        {ok, #file_info{type = symlink} = Info} ->
            maybe
                {ok, Next} ?= followed(Path, Target, Info),
                target(Path, Next, Left - 1)
            end;
        {ok, #file_info{type = Type}} when Type =/= regular ->
            {error, {not_a_file, Path}};
        _ ->
            {ok, Target}
    end.

followed(Path, Link, #file_info{uid = Owner}) ->
    Folder = filename:dirname(Link),
    maybe
        ok ?= trusted(Owner, file:read_file_info(Folder), dyno_temporary:user()),
        {ok, Next} ?= file:read_link_all(Link),
        %% /dev/stdout leads to /proc, to something that only looks like a file.
        nomatch ?= string:prefix(shown(Next), "/proc/"),
        {ok, filename:join(Folder, Next)}
    else
        untrusted -> {error, {link_of_another, Path}};
        {error, Reason} -> {error, {write, Path, Reason}};
        _ -> {error, {not_a_file, Path}}
    end.

%% In folders open to all users (fs.protected_symlinks).
trusted(Owner, {ok, #file_info{mode = Mode, uid = OfFolder}}, User) when
    Mode band 8#1002 =:= 8#1002
->
    case Owner =:= OfFolder orelse {ok, Owner} =:= User of
        true -> ok;
        false -> untrusted
    end;
trusted(_Owner, _Folder, _User) ->
    ok.

-doc "This file, or one in a folder if there is none in the current folder.".
-spec near(file:name_all(), Folder :: file:name_all()) -> file:name_all().
near(File, Folder) ->
    Near = filename:join(Folder, File),
    case not filelib:is_regular(File) andalso filelib:is_regular(Near) of
        true -> Near;
        false -> File
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({write, Path, Reason}) ->
    [shown(Path), ": ", unwritten(Reason, shown(filename:dirname(Path)))];
format_error({cut, Path, Reason, Kept, Entries}) ->
    io_lib:format("~ts: ~ts; ~b of ~b entries were written", [
        shown(Path), unwritten(Reason, shown(filename:dirname(Path))), Kept, Entries
    ]);
format_error({link_of_another, Path}) ->
    [shown(Path), ": a link of another user's is in the way; give another path"];
format_error({not_a_file, Path}) ->
    [shown(Path), ": this is not a regular file; give the path of a file to write"].

unwritten(enospc, _Folder) ->
    "the disk is full; make room, or give another path";
unwritten(edquot, _Folder) ->
    "the disk quota is used up; make room, or give another path";
unwritten(enoent, Folder) ->
    ["cannot be written: there is no folder ", Folder, "; create the folder, or give another path"];
unwritten(enotdir, Folder) ->
    ["cannot be written: ", Folder, " is not a folder; give a path in a folder"];
unwritten(Reason, _Folder) when Reason =:= eacces; Reason =:= eperm; Reason =:= erofs ->
    [
        "cannot be written: ",
        file:format_error(Reason),
        "; give a path in a folder you may write to"
    ];
unwritten(Reason, _Folder) ->
    ["cannot be written: ", file:format_error(Reason), "; give another path"].

-doc "With a full disk, the path is right.".
-spec fault(reason()) -> dyno_error:fault().
fault({write, _Path, Reason}) ->
    case lists:member(Reason, ?WRONG_PATH) of
        true -> caller;
        false -> dyno
    end;
fault({cut, _, _, _, _}) ->
    dyno;
fault(_Reason) ->
    caller.

-doc "A path as printable text, also if its bytes are not UTF-8.".
-spec shown(file:filename_all()) -> unicode:chardata().
shown(Path) when is_binary(Path) ->
    case unicode:characters_to_binary(Path) of
        Path -> Path;
        _ -> io_lib:format("~w", [Path])
    end;
shown(Path) ->
    Path.
