%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_modules).
-moduledoc false.
%% The dyno modules that another VM needs to measure, and a folder with these modules.

-export([to_measure/0, folder/0, written/1, forget/0, format_error/1, fault/1]).
-export_type([reason/0]).

-type reason() :: {not_written, dyno_error:error()}.

%% Roots of the call graph. A benchmark file's plan has funs of the module that reads the file.
-define(ROOTS, [
    dyno_bench_vm_server,
    dyno_bench_remote_guard,
    dyno_bench_member,
    dyno_bench_mode,
    dyno_bench_inputs,
    dyno_bench_file
]).

-spec to_measure() -> [module(), ...].
to_measure() ->
    dyno_code:closure(?ROOTS).

-doc "A folder for the code path of a VM here; `forget/0` removes an escript's copy of modules.".
-spec folder() -> {ok, file:filename_all()} | {error, {?MODULE, reason()}}.
folder() ->
    {_, _, File} = code:get_object_code(?MODULE),
    Folder = filename:absname(filename:dirname(File)),
    case filelib:is_dir(Folder) of
        true -> {ok, Folder};
        false -> written(fun() -> dyno_code:objects(to_measure()) end)
    end.

-spec written(fun(() -> [dyno_code:object()])) ->
    {ok, file:filename_all()} | {error, {?MODULE, reason()}}.
written(Objects) ->
    dyno_once:value(?MODULE, fun() ->
        maybe
            {ok, Folder} ?= dyno_error:tagged(dyno_temporary, dyno_temporary:make()),
            case dyno_error:tagged(dyno_file, dyno_code:write(Folder, Objects())) of
                ok ->
                    {ok, Folder};
                {error, Error} ->
                    ok = dyno_temporary:remove(Folder),
                    {error, {?MODULE, {not_written, Error}}}
            end
        else
            {error, NoFolder} -> {error, {?MODULE, {not_written, NoFolder}}}
        end
    end).

-spec forget() -> ok.
forget() ->
    case dyno_once:made(?MODULE) of
        none ->
            ok;
        {ok, Folder} ->
            ok = dyno_temporary:remove(Folder),
            dyno_once:forget(?MODULE)
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({not_written, Error}) ->
    ["dyno's modules, which VMs of their own need, take 2 MB: ", dyno_error:format(Error)].

-spec fault(reason()) -> dyno_error:fault().
fault(_Reason) -> dyno.
