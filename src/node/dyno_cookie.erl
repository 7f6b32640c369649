%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cookie).
-moduledoc false.
%% Sets this node's cookie, and gives it secretly to nodes that this node starts.
%%
%% `erl` reads or makes the user's file `.erlang.cookie`, or ends without a writable home folder.
%% dyno continues with a random cookie: enough for its own nodes, and targets with a given cookie.
%%
%% All users can read a program's arguments, so a cookie is never one. A node on this machine reads
%% the user's file, or this node's at boot, or gets its cookie over its control pipe (`agree/1`).

-export([prepare/0, own/0, environment/0, file/0, agree/1, missing/0, forget/0]).
-export([format_error/1, fault/1]).
-export_type([reason/0]).

-type reason() :: {unreadable, unicode:chardata()}.

-define(OWN, {?MODULE, own}).
-define(FOLDER, {?MODULE, folder}).
-define(NAME, ".erlang.cookie").
-define(OTHERS, 8#077).

-doc """
Call before this node gets a name. The program dyno is started with `-nocookie`, so that
`m:dyno_epmd` can set the cookie; in another Erlang, such as rebar3's, OTP reads the file.
""".
-spec prepare() -> dyno_error:result().
prepare() ->
    case {init:get_argument(setcookie), init:get_argument(nocookie)} of
        {{ok, _}, _} ->
            ok;
        {error, {ok, _}} ->
            _ = own(),
            ok;
        {error, error} ->
            case users() of
                {ok, _} -> ok;
                {error, Why} -> {error, {?MODULE, {unreadable, Why}}}
            end
    end.

-spec own() -> atom().
own() ->
    {ok, {Cookie, _}} = dyno_once:value(?OWN, fun() ->
        case users() of
            {ok, Users} -> {ok, {Users, users}};
            {error, Why} -> {ok, {random(), Why}}
        end
    end),
    Cookie.

-spec missing() -> none | {ok, unicode:chardata()}.
missing() ->
    Cookie = erlang:get_cookie(),
    case dyno_once:made(?OWN) of
        {ok, {Cookie, Why}} when Why =/= users -> {ok, Why};
        _ -> none
    end.

-doc "Environment variables by which a node on this machine finds a cookie at boot.".
-spec environment() -> [{string(), string()}].
environment() ->
    case users() of
        {ok, _} -> [];
        {error, _} -> [{"HOME", filename:dirname(file())}]
    end.

-doc "A file with this node's cookie, readable only by its user; `forget/0` removes it.".
-spec file() -> file:filename_all().
file() ->
    Made = dyno_once:value(?FOLDER, fun() ->
        maybe
            {ok, Folder} ?= dyno_error:tagged(dyno_temporary, dyno_temporary:make()),
            File = filename:join(Folder, ?NAME),
            ok = dyno_file:first(File, atom_to_binary(erlang:get_cookie(), latin1)),
            {ok, Folder}
        end
    end),
    filename:join(dyno_error:ok(Made), ?NAME).

-spec forget() -> ok.
forget() ->
    case dyno_once:made(?FOLDER) of
        none ->
            ok;
        {ok, Folder} ->
            ok = dyno_temporary:remove(Folder),
            dyno_once:forget(?FOLDER)
    end.

-doc "Gives a node started with `environment/0` this node's cookie and home, by standard input.".
-spec agree(Peer :: pid()) -> ok.
agree(Peer) ->
    Own = erlang:get_cookie(),
    _ = [
        true = peer:call(Peer, erlang, set_cookie, [Own])
     || peer:call(Peer, erlang, get_cookie, []) =/= Own
    ],
    Private = dyno_once:made(?FOLDER),
    case {{ok, peer:call(Peer, os, getenv, ["HOME"])}, os:getenv("HOME")} of
        {Private, false} -> true = peer:call(Peer, os, unsetenv, ["HOME"]);
        {Private, Home} -> true = peer:call(Peer, os, putenv, ["HOME", Home]);
        _ -> true
    end,
    ok.

%% As in kernel's module auth, so that nodes started here find the same file. This file is written
%% at once with its content: of two writers one would otherwise read half.
users() ->
    case places() of
        [] -> {error, "HOME is not set"};
        [First | _] = Places -> users(Places, First)
    end.

places() ->
    Home = [filename:join(Folder, ?NAME) || {ok, [[Folder]]} <- [init:get_argument(home)]],
    case Home =/= [] orelse os:getenv("XDG_CONFIG_HOME", "") =/= "" of
        true -> Home ++ [filename:join(filename:basedir(user_config, "erlang"), ?NAME)];
        false -> []
    end.

users([], New) ->
    Made = dyno_file:first(New, atom_to_binary(random())),
    case {read(New), Made} of
        {{ok, _} = Read, _} -> Read;
        {{error, enoent}, {error, Reason}} -> {error, dyno_file:format_error(Reason)};
        {{error, Why}, _} -> {error, Why}
    end;
users([Place | Places], New) ->
    case read(Place) of
        {error, enoent} -> users(Places, New);
        {ok, Cookie} -> {ok, Cookie};
        {error, Why} -> {error, Why}
    end.

read(File) ->
    maybe
        {ok, Info} ?= file:read_file_info(File, [raw]),
        {regular, _} ?= {element(3, Info), File},
        0 ?= element(8, Info) band ?OTHERS,
        {ok, Text} ?= file:read_file(File, [raw]),
        {match, [Cookie]} ?= re:run(Text, ~"^([ -~]{1,255})\\s*$", [{capture, [1], binary}]),
        {ok, binary_to_atom(string:trim(Cookie, trailing))}
    else
        {error, enoent} -> {error, enoent};
        {error, Posix} -> {error, [File, " cannot be read: ", text(Posix)]};
        {_, File} -> {error, [File, " is no regular file"]};
        nomatch -> {error, [File, " holds no cookie"]};
        _ -> {error, [File, " can be read by other users"]}
    end.

text(Posix) -> file:format_error(Posix).

random() ->
    {ok, Device} = file:open("/dev/urandom", [read, raw, binary]),
    {ok, Bytes} = file:read(Device, 16),
    ok = file:close(Device),
    binary_to_atom(binary:encode_hex(Bytes)).

-spec format_error(reason()) -> unicode:chardata().
format_error({unreadable, Why}) ->
    ["this Erlang has no cookie: ", Why, "; set HOME to a folder that you can write to"].

-spec fault(reason()) -> dyno_error:fault().
fault(_Reason) -> dyno.
