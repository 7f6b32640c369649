%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_temporary).
-moduledoc false.
%% Makes temporary folders that no other user can enter, and removes those of a killed dyno.
%%
%% A folder is new, has a random name and the mode 0700. Its file `.dyno` names the owner process:
%% pid and start time, with the boot and the namespaces in which they are valid. `make/0` first
%% removes folders whose owner is gone, if this user owns the folder, it is no link, and its mark is
%% of this boot and these namespaces. On a system without /proc nothing is certain, and all folders
%% stay.

-export([make/0, make/1, folder/0, random/0, remove/1, remove/2, user/0, format_error/1, fault/1]).
-export_type([reason/0]).

-include_lib("kernel/include/file.hrl").

-type reason() ::
    {no_folder, Parent :: file:filename_all(), file:posix() | badarg | system_limit}
    %% Everybody may rename in it what is another's.
    | {no_sticky, Parent :: file:filename_all()}.

-define(MARK, ".dyno").
-define(HEAD, "dyno temporary 1\n").
%% A mark has some 150 bytes; a larger file is no mark.
-define(MOST_BYTES, 1024).
-define(NAME, "^(\\.?)dyno-[0-9a-f]{16}$").
%% The one file in a folder of `make/1`.
-define(NEW, "new").
-define(TRIES, 8).

-doc "The folder for temporary files: TMPDIR, or /tmp.".
-spec folder() -> file:filename_all().
folder() ->
    case os:getenv("TMPDIR", "") of
        "" -> "/tmp";
        Folder -> filename:absname(Folder)
    end.

-doc "Makes a folder in `folder/0`. The caller removes it with `remove/1`.".
-spec make() -> {ok, file:filename()} | {error, reason()}.
make() ->
    Parent = folder(),
    case file:read_file_info(Parent) of
        {ok, #file_info{type = directory, mode = Mode}} when Mode band 8#1002 =:= 8#0002 ->
            {error, {no_sticky, Parent}};
        _ ->
            make(Parent, "dyno-", ?TRIES)
    end.

-doc "Makes a hidden folder for a file `new` to be moved up; `remove/2` removes it.".
-spec make(file:filename_all()) -> {ok, file:filename_all()} | {error, reason()}.
make(Parent) ->
    make(Parent, ".dyno-", ?TRIES).

make(Parent, Prefix, Tries) ->
    Folder = filename:join(Parent, Prefix ++ random()),
    case made(Folder) of
        {ok, User} ->
            ok = sweep(Parent, filename:basename(Folder), User),
            {ok, Folder};
        {error, Taken} when Tries > 1, Taken =:= eexist orelse Taken =:= taken ->
            make(Parent, Prefix, Tries - 1);
        {error, taken} ->
            {error, {no_folder, Parent, eexist}};
        {error, Reason} ->
            {error, {no_folder, Parent, Reason}}
    end.

-spec random() -> string().
random() ->
    {Bytes, _} = rand:bytes_s(8, rand:seed_s(exsss)),
    binary_to_list(binary:encode_hex(Bytes, lowercase)).

%% `make_dir` fails on any existing name, even a link, but cannot set the mode at once. Files put
%% into the folder before it got its mode are found by listing it.
made(Folder) ->
    maybe
        ok ?= file:make_dir(Folder),
        ok ?= marked(Folder),
        {ok, #file_info{uid = User}} ?= file:read_link_info(Folder),
        {ok, User}
    end.

%% Not recursively: any content is another user's.
marked(Folder) ->
    maybe
        ok ?= closed(Folder),
        Mark = filename:join(Folder, ?MARK),
        {error, _} =
            Error ?=
                file:write_file(Mark, mark(own_place(), own_process()), [exclusive, raw]),
        _ = file:delete(Mark),
        _ = file:del_dir(Folder),
        Error
    else
        {error, _} = Other ->
            _ = file:del_dir(Folder),
            Other;
        ok ->
            ok
    end.

closed(Folder) ->
    maybe
        ok ?= file:change_mode(Folder, 8#700),
        {ok, #file_info{type = directory, mode = Mode}} ?= file:read_link_info(Folder),
        8#700 ?= Mode band 8#777,
        {ok, []} ?= file:list_dir_all(Folder),
        ok
    else
        {error, _} = Error -> Error;
        _ -> {error, taken}
    end.

-doc "Removes a folder with its content; links in it are removed, not followed.".
-spec remove(file:filename_all()) -> ok.
remove(Folder) ->
    _ = file:del_dir_r(Folder),
    ok.

-doc "Removes a folder of `make/1` and its file, nothing else: it may be a link by now.".
-spec remove(file:filename_all(), file:filename_all()) -> ok.
remove(Folder, Name) ->
    _ = [file:delete(filename:join(Folder, Of), [raw]) || Of <- [Name, ?MARK]],
    _ = file:del_dir(Folder),
    ok.

%% The mark

mark({ok, Place}, {ok, Process}) -> [?HEAD, Process, $\n, Place, $\n];
%% A folder with this mark stays until its owner removes it.
mark(_, _) -> [?HEAD, "not known\n"].

own_process() ->
    Pid = os:getpid(),
    maybe
        %% Otherwise /proc is of another namespace.
        {ok, Pid} ?= file:read_link("/proc/self"),
        {ok, Start} ?= start_time(Pid),
        {ok, [Pid, " ", Start]}
    else
        _ -> unknown
    end.

%% Pids are valid within a boot and a namespace, start times within a namespace, too.
own_place() ->
    maybe
        {ok, Boot} ?= file:read_file("/proc/sys/kernel/random/boot_id"),
        {ok, Pids} ?= file:read_link("/proc/self/ns/pid"),
        Times = [Link || {ok, Link} <- [file:read_link("/proc/self/ns/time")]],
        {ok, lists:join(" ", [string:trim(Boot), Pids | Times])}
    else
        _ -> unknown
    end.

%% The 22nd field of /proc/PID/stat; the second one, a name in parentheses, may have spaces.
start_time(Pid) ->
    case file:read_file(["/proc/", Pid, "/stat"]) of
        {ok, Stat} ->
            Fields = string:lexemes(lists:last(binary:split(Stat, ~")", [global])), " \n"),
            case length(Fields) >= 20 of
                true -> {ok, lists:nth(20, Fields)};
                false -> unknown
            end;
        %% The process has ended.
        {error, Gone} when Gone =:= enoent; Gone =:= esrch ->
            gone;
        {error, _} ->
            unknown
    end.

%% Folders of a dyno that was killed

sweep(Parent, Own, User) ->
    case {own_place(), file:read_file_info(Parent), file:list_dir(Parent)} of
        {{ok, Place}, {ok, Info}, {ok, Names}} ->
            Text = iolist_to_binary([Place, $\n]),
            _ = [
                Remove(Folder)
             || Name <- Names,
                Name =/= Own,
                Remove <- remover(re:run(Name, ?NAME, [{capture, [1], list}]), Info, User),
                Folder <- [filename:join(Parent, Name)],
                is_left(Folder, Text, User)
            ],
            ok;
        _ ->
            ok
    end.

remover({match, ["."]}, _Parent, _User) -> [fun(Folder) -> remove(Folder, ?NEW) end];
remover({match, [""]}, Parent, User) -> [fun remove/1 || is_safe(Parent, User)];
remover(nomatch, _Parent, _User) -> [].

%% A user who may rename others' files can replace a folder by a link during its removal.
is_safe(#file_info{mode = Mode, uid = Owner}, User) ->
    (Mode band 8#022 =:= 0 orelse Mode band 8#1000 =/= 0) andalso lists:member(Owner, [0, User]).

is_left(Folder, Place, User) ->
    maybe
        {ok, #file_info{type = directory, uid = User}} ?= file:read_link_info(Folder),
        {ok, Rest} ?= read_mark(filename:join(Folder, ?MARK), User),
        [Process, Place] ?= binary:split(Rest, ~"\n"),
        [Pid, Start] ?= string:lexemes(Process, " "),
        match ?= re:run(Pid, "^[0-9]+$", [{capture, none}]),
        gone =:= owner(Start, start_time(binary_to_list(Pid)))
    else
        _ -> false
    end.

read_mark(File, User) ->
    maybe
        {ok, #file_info{type = regular, uid = User, size = Size}} ?= file:read_link_info(File),
        true ?= Size =< ?MOST_BYTES,
        {ok, <<?HEAD, Rest/binary>>} ?= file:read_file(File),
        {ok, Rest}
    else
        _ -> none
    end.

owner(Start, {ok, Start}) -> alive;
owner(_Start, {ok, _Other}) -> gone;
owner(_Start, Other) -> Other.

-spec user() -> {ok, non_neg_integer()} | unknown.
user() ->
    case file:read_file_info("/proc/self") of
        {ok, #file_info{uid = User}} when is_integer(User) -> {ok, User};
        _ -> unknown
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({no_folder, Parent, Reason}) ->
    io_lib:format(
        "no temporary folder can be made in ~ts: ~ts; set TMPDIR to a folder that can be written",
        [Parent, file:format_error(Reason)]
    );
format_error({no_sticky, Parent}) ->
    io_lib:format(
        "every user may write to ~ts, which has no sticky bit, and exchange files that dyno puts "
        "there; set TMPDIR to another folder, or type: chmod +t ~ts",
        [Parent, Parent]
    ).

-spec fault(reason()) -> dyno_error:fault().
fault(_Reason) -> dyno.
