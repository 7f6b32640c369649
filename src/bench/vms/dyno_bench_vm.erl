%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_vm).
-moduledoc false.
%% Starts a VM per candidate while a function runs, and calls functions in the VMs. Calls use
%% standard input and output: the VMs need no names, cookie or port mapper, and always end with this
%% VM. If this VM is a node, so are the VMs, with its cookie: a code may need a node.
%%
%% Errors end dyno_error:attempt/1.

-export([with/3, call/3, format_error/1, fault/1]).
-export_type([vm/0, reason/0]).

-opaque vm() :: #{peer := pid(), ref := reference(), folder := file:filename_all()}.

-type reason() ::
    {no_erl, file:filename()}
    | {does_not_boot, dyno_bench_isolated:variant(), Output :: binary()}
    | {otp_too_old, file:filename(), string()}
    | {vm_died, term()}.

-define(BOOT_MS, 60_000).

-doc "Starts all VMs at the same time. The caller must trap exits.".
-spec with(
    [dyno_bench_isolated:candidate(), ...],
    dyno_bench_isolated:settings(),
    fun(([vm(), ...]) -> Value)
) -> Value.
with(Candidates, Settings, Use) ->
    Common = maps:get(code_paths, Settings, []),
    Specs = [
        Variant#{code_paths => maps:get(code_paths, Variant, []) ++ Common}
     || #{variant := Variant} <- Candidates
    ],
    Programs = [program(Spec) || Spec <- Specs],
    EndMs = erlang:monotonic_time(millisecond) + ?BOOT_MS,
    launched(lists:zip(Specs, Programs), [], fun(Vms) ->
        Started = lists:zip(Vms, Specs),
        lists:foreach(fun({Vm, Spec}) -> booted(Vm, Spec, EndMs) end, Started),
        lists:foreach(fun({Vm, Spec}) -> checked(Vm, Spec) end, Started),
        Use(Vms)
    end).

program(#{erl := Path}) ->
    Places = [Path, filename:join(Path, "erl"), filename:join([Path, "bin", "erl"])],
    case [Place || Place <- Places, filelib:is_regular(Place)] of
        [Erl | _] -> filename:absname(Erl);
        [] -> fail({no_erl, Path})
    end;
program(_OwnErl) ->
    filename:join([code:root_dir(), "bin", "erl"]).

launched([], Vms, Use) ->
    Use(lists:reverse(Vms));
launched([{Spec, Program} | Rest], Vms, Use) ->
    Vm = launched(Spec, Program),
    try
        launched(Rest, [Vm | Vms], Use)
    after
        stop(Vm)
    end.

%% The emulator's own output, mostly about wrong flags, goes to a file; its first line is shown.
launched(Spec, Program) ->
    Ref = make_ref(),
    Folder = dyno_error:ok(dyno_error:tagged(dyno_temporary, dyno_temporary:make())),
    {Node, Flags} = as_node(),
    Script = "exec 2>\"$1\"; shift; exec \"$@\"",
    Options = Node#{
        exec => {"/bin/sh", ["-c", Script, "sh", errors(Folder), Program]},
        connection => standard_io,
        wait_boot => {self(), Ref},
        %% Closing the connection ends the VM.
        shutdown => close,
        env => maps:get(env, Node, []) ++ environment(Spec),
        args => arguments(Flags, Spec)
    },
    try peer:start_link(Options) of
        {ok, Peer} -> #{peer => Peer, ref => Ref, folder => Folder};
        {ok, Peer, _Node} -> #{peer => Peer, ref => Ref, folder => Folder};
        {error, Reason} -> does_not_boot(Spec, Folder, Reason)
    catch
        exit:Reason -> does_not_boot(Spec, Folder, Reason)
    end.

as_node() ->
    case is_alive() of
        true ->
            #{args := Listening} = Options = dyno_own_node:peer("dyno_bench", here),
            {Options#{env => dyno_cookie:environment()}, [
                "-connect_all", "false", "-hidden" | Listening
            ]};
        false ->
            {#{}, []}
    end.

errors(Folder) -> filename:join(Folder, "errors").

-spec does_not_boot(dyno_bench_isolated:variant(), file:filename(), term()) -> no_return().
does_not_boot(Spec, Folder, Reason) ->
    Output =
        case file:read_file(errors(Folder)) of
            {ok, <<_, _/binary>> = Text} -> hd(binary:split(string:trim(Text), ~"\n"));
            _ -> unicode:characters_to_binary(io_lib:format("~0tP", [Reason, 10]))
        end,
    ok = dyno_temporary:remove(Folder),
    fail({does_not_boot, Spec, Output}).

-spec fail(reason()) -> no_return().
fail(Reason) ->
    dyno_error:fail({?MODULE, Reason}).

environment(Spec) ->
    Folders = [Folder || Folder <- dyno_clock:folders(), filelib:is_dir(Folder)],
    %% Another installation's `erl` must not find the files of this installation.
    Own = [{Key, ""} || Key <- ["ROOTDIR", "BINDIR", "EMU", "PROGNAME"], is_map_key(erl, Spec)],
    Own ++ [{"DYNO_PRIV", Folder} || Folder <- lists:sublist(Folders, 1)].

arguments(NodeFlags, #{code_paths := Folders} = Spec) ->
    %% Another release may not know this VM's emulator flags.
    OwnFlags = [Flag || Flag <- dyno_environment:emulator_flags(), not is_map_key(erl, Spec)],
    %% Cannot fail: the check of the options made the folder.
    {ok, Ours} = dyno_bench_modules:folder(),
    Paths = [["-pa", filename:absname(F)] || F <- [Ours | lists:reverse(Folders)]],
    %% A waiting VM must not take processor time from the measured VM.
    ["+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"] ++
        [unicode:characters_to_list(Flag) || Flag <- OwnFlags] ++
        NodeFlags ++ lists:append(Paths) ++ maps:get(flags, Spec, []).

booted(#{peer := Peer, ref := Ref, folder := Folder}, Spec, EndMs) ->
    receive
        {Ref, {started, _Node, Peer}} ->
            ok = dyno_temporary:remove(Folder),
            agreed(Peer);
        {'EXIT', Peer, Reason} ->
            does_not_boot(Spec, Folder, Reason);
        dyno_interrupt ->
            dyno_error:fail({dyno_error, interrupted})
    after max(0, EndMs - erlang:monotonic_time(millisecond)) ->
        does_not_boot(Spec, Folder, timeout)
    end.

agreed(Peer) ->
    case is_alive() of
        true -> dyno_cookie:agree(Peer);
        false -> ok
    end.

checked(Vm, #{erl := Erl}) ->
    Release = called(Vm, {erlang, system_info, [otp_release]}, ?BOOT_MS),
    case dyno_version:is_supported(Release) of
        true -> ok;
        false -> fail({otp_too_old, Erl, Release})
    end;
checked(_Vm, _OwnErl) ->
    ok.

-spec call(vm(), {module(), atom(), [term()]}, TimeoutMs :: timeout()) -> term().
call(Vm, Call, TimeoutMs) ->
    dyno_error:ok(called(Vm, Call, TimeoutMs)).

called(#{peer := Peer}, {Module, Function, Arguments}, TimeoutMs) ->
    Call = fun() -> peer:call(Peer, Module, Function, Arguments, TimeoutMs) end,
    case dyno_sandbox:once(Call, infinity) of
        {ok, Answer} -> Answer;
        {error, interrupted} -> dyno_error:fail({dyno_error, interrupted});
        {error, {raised, exit, {Reason, {gen_server, call, _}}, _}} -> fail({vm_died, Reason});
        %% Also if the VM has already ended.
        {error, {raised, _, Reason, _}} -> fail({vm_died, Reason});
        {error, Failure} -> fail({vm_died, Failure})
    end.

stop(#{peer := Peer, ref := Ref, folder := Folder}) ->
    true = unlink(Peer),
    ok = dyno_temporary:remove(Folder),
    try
        peer:stop(Peer)
    catch
        _:_ -> ok
    end,
    receive
        {'EXIT', Peer, _} -> ok
    after 0 -> ok
    end,
    receive
        {Ref, _} -> ok
    after 0 -> ok
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({no_erl, Path}) ->
    io_lib:format("there is no erl at ~ts; give the program, or its folder", [Path]);
format_error({does_not_boot, #{flags := [_ | _] = Flags}, Output}) ->
    io_lib:format("a VM with the flags ~ts does not start: ~ts", [lists:join(" ", Flags), Output]);
format_error({does_not_boot, #{erl := Erl}, Output}) ->
    io_lib:format("a VM of ~ts does not start: ~ts", [Erl, Output]);
format_error({does_not_boot, _Spec, Output}) ->
    ["a VM of its own does not start: ", Output];
format_error({otp_too_old, Erl, Release}) ->
    Least = dyno_version:least_otp(),
    io_lib:format("~ts is Erlang/OTP ~ts; dyno needs ~b or later", [Erl, Release, Least]);
format_error({vm_died, Reason}) ->
    io_lib:format("the VM of a code has ended (~0tP); look whether the code calls halt()", [
        Reason, 10
    ]).

-spec fault(reason()) -> dyno_error:fault().
fault({vm_died, _}) -> code;
fault({does_not_boot, #{flags := [_ | _]}, _}) -> caller;
fault({does_not_boot, _, _}) -> dyno;
fault(_) -> caller.
