%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_vm).
-moduledoc false.
%% VMs of their own for codes. They are spoken to over their standard input and output, so they need
%% no names, no cookie and no port mapper, and end when this VM ends, however that happens. Where
%% this VM is a node, they are nodes, too, with its cookie: a code may need that.

-export([start/1, call/5, stop/1, format_error/1, fault/1]).
-export_type([spec/0, vm/0, reason/0]).

-type spec() :: #{
    %% Which Erlang: its program erl, or the folder where it is installed; this one.
    erl => file:filename(),
    %% More arguments for it.
    flags => [string()],
    %% Folders of beam files, before all others.
    code_paths => [file:filename()]
}.

-opaque vm() :: #{peer := pid(), ref := reference(), errors := file:filename_all()}.

-type reason() ::
    {no_erl, file:filename()}
    | {does_not_boot, spec(), Output :: binary()}
    | {otp_too_old, file:filename(), string()}
    | {vm_died, term()}.

-define(BOOT_MS, 60_000).
-define(FLOOR, 27).

-doc "Starts VMs, all at the same time. The caller must trap exits; they end with it.".
-spec start([spec(), ...]) -> {ok, [vm(), ...]} | {error, dyno_error:error()}.
start(Specs) ->
    maybe
        {ok, Programs} ?= dyno_error:each(fun program/1, Specs),
        EndMs = erlang:monotonic_time(millisecond) + ?BOOT_MS,
        {ok, Vms} ?= launched(Programs, []),
        {ok, Booted} ?= booted(Vms, lists:zip(Vms, Specs), EndMs),
        checked(Booted, Specs)
    end.

program(#{erl := Path} = Spec) ->
    Places = [Path, filename:join(Path, "erl"), filename:join([Path, "bin", "erl"])],
    case [Place || Place <- Places, filelib:is_regular(Place)] of
        [Erl | _] -> {ok, {Spec, filename:absname(Erl)}};
        [] -> {error, {?MODULE, {no_erl, Path}}}
    end;
program(Spec) ->
    {ok, {Spec, undefined}}.

%% What the emulator itself has to say, about wrong flags above all, goes to a file of which only
%% the first line is shown; what codes print comes by way of the connection.
launched([], Vms) ->
    {ok, lists:reverse(Vms)};
launched([{Spec, Erl} | Rest], Vms) ->
    Ref = make_ref(),
    Errors = errors_file(),
    Program =
        case Erl of
            undefined -> filename:join([code:root_dir(), "bin", "erl"]);
            _ -> Erl
        end,
    Options = #{
        exec => {"/bin/sh", ["-c", "exec 2>\"$1\"; shift; exec \"$@\"", "sh", Errors, Program]},
        connection => standard_io,
        wait_boot => {self(), Ref},
        %% Its end closes the connection, and that ends the VM.
        shutdown => close,
        env => environment(Erl),
        args => arguments(Spec, Erl)
    },
    try peer:start_link(maps:merge(Options, name())) of
        {ok, Peer} ->
            launched(Rest, [#{peer => Peer, ref => Ref, errors => Errors} | Vms]);
        {error, Reason} ->
            does_not_boot(Vms, Spec, Errors, Reason)
    catch
        exit:Reason -> does_not_boot(Vms, Spec, Errors, Reason)
    end.

name() ->
    case is_alive() of
        true ->
            #{
                name => peer:random_name("dyno_bench"),
                longnames => net_kernel:longnames() =:= true
            };
        false ->
            #{}
    end.

errors_file() ->
    Name = io_lib:format("dyno-~ts-vm-~b", [os:getpid(), erlang:unique_integer([positive])]),
    filename:join(os:getenv("TMPDIR", "/tmp"), lists:flatten(Name)).

does_not_boot(Vms, Spec, Errors, Reason) ->
    Output =
        case file:read_file(Errors) of
            {ok, <<_, _/binary>> = Text} -> hd(binary:split(string:trim(Text), ~"\n"));
            _ -> unicode:characters_to_binary(io_lib:format("~0tP", [Reason, 10]))
        end,
    _ = file:delete(Errors),
    stop(Vms),
    {error, {?MODULE, {does_not_boot, Spec, Output}}}.

%% The program erl of another installation must not find this one's files.
environment(Erl) ->
    %% Where the clock's library is.
    Folders = [Folder || Folder <- dyno_clock:folders(), filelib:is_dir(Folder)],
    Priv = [{"DYNO_PRIV", Folder} || Folder <- lists:sublist(Folders, 1)],
    case Erl of
        undefined -> Priv;
        _ -> [{"ROOTDIR", ""}, {"BINDIR", ""}, {"EMU", ""}, {"PROGNAME", ""} | Priv]
    end.

arguments(Spec, Erl) ->
    Cookie =
        case is_alive() of
            true ->
                [
                    "-setcookie",
                    atom_to_list(erlang:get_cookie()),
                    "-connect_all",
                    "false",
                    "-hidden"
                ];
            false -> []
        end,
    %% Whoever waits must not take the processor from the one that is measured.
    ["+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"] ++ own_flags(Erl) ++
        Cookie ++ paths(Spec) ++ maps:get(flags, Spec, []).

%% The emulator flags of this VM; another release may not know them.
own_flags(undefined) ->
    [unicode:characters_to_list(Flag) || Flag <- dyno_environment:emulator_flags()];
own_flags(_Erl) ->
    [].

paths(Spec) ->
    Folders = [filename:absname(P) || P <- maps:get(code_paths, Spec, [])],
    %% There since the options were checked.
    {ok, Ours} = dyno_bench_modules:folder(),
    ["-pa", Ours] ++ lists:append(
        [["-pa", F] || F <- lists:reverse(Folders)]
    ).

booted(Vms, [], _EndMs) ->
    {ok, Vms};
booted(Vms, [{#{peer := Peer, ref := Ref, errors := Errors}, Spec} | Rest], EndMs) ->
    receive
        {Ref, {started, _Node, Peer}} ->
            _ = file:delete(Errors),
            booted(Vms, Rest, EndMs);
        {'EXIT', Peer, Reason} ->
            does_not_boot(Vms, Spec, Errors, Reason);
        dyno_interrupt ->
            stop(Vms),
            {error, {dyno_error, interrupted}}
    after max(0, EndMs - erlang:monotonic_time(millisecond)) ->
        does_not_boot(Vms, Spec, Errors, timeout)
    end.

checked(Vms, Specs) ->
    Releases = [
        {Erl, call(Vm, erlang, system_info, [otp_release], ?BOOT_MS)}
     || {Vm, #{erl := Erl}} <- lists:zip(Vms, Specs)
    ],
    Wrong = [Pair || {_, Release} = Pair <- Releases, not is_recent(Release)],
    case Wrong of
        [] ->
            {ok, Vms};
        [{Erl, {ok, Release}} | _] ->
            stop(Vms),
            {error, {?MODULE, {otp_too_old, Erl, Release}}};
        [{_, {error, Reason}} | _] ->
            stop(Vms),
            {error, Reason}
    end.

is_recent({ok, Release}) ->
    case string:to_integer(Release) of
        {Number, _} when is_integer(Number) -> Number >= ?FLOOR;
        _ -> false
    end;
is_recent({error, _}) ->
    false.

-doc "Calls a function in a VM.".
-spec call(vm(), module(), atom(), [term()], TimeoutMs :: timeout()) ->
    {ok, term()} | {error, dyno_error:error()}.
call(#{peer := Peer}, Module, Function, Arguments, TimeoutMs) ->
    Ref = make_ref(),
    Caller = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        Caller ! {Ref, called(Peer, Module, Function, Arguments, TimeoutMs)}
    end),
    receive
        {Ref, Answer} ->
            true = demonitor(Monitor, [flush]),
            Answer;
        dyno_interrupt ->
            true = demonitor(Monitor, [flush]),
            exit(Pid, kill),
            {error, {dyno_error, interrupted}};
        {'DOWN', Monitor, process, Pid, Reason} ->
            {error, {?MODULE, {vm_died, Reason}}}
    end.

called(Peer, Module, Function, Arguments, TimeoutMs) ->
    try
        {ok, peer:call(Peer, Module, Function, Arguments, TimeoutMs)}
    catch
        exit:{Reason, {gen_server, call, _}} -> {error, {?MODULE, {vm_died, Reason}}};
        %% Also where it has ended.
        _:Reason -> {error, {?MODULE, {vm_died, Reason}}}
    end.

-doc "Ends VMs; returns when they are gone.".
-spec stop([vm()]) -> ok.
stop(Vms) ->
    lists:foreach(
        fun(#{peer := Peer, ref := Ref, errors := Errors}) ->
            true = unlink(Peer),
            _ = file:delete(Errors),
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
            end
        end,
        Vms
    ).

-spec format_error(reason()) -> unicode:chardata().
format_error({no_erl, Path}) ->
    io_lib:format(
        "there is no erl at ~ts; give the program, or the folder it is installed in", [Path]
    );
format_error({does_not_boot, #{flags := [_ | _] = Flags}, Output}) ->
    io_lib:format("a VM with the flags ~ts does not start: ~ts", [lists:join(" ", Flags), Output]);
format_error({does_not_boot, #{erl := Erl}, Output}) ->
    io_lib:format("a VM of ~ts does not start: ~ts", [Erl, Output]);
format_error({does_not_boot, _Spec, Output}) ->
    ["a VM of its own does not start: ", Output];
format_error({otp_too_old, Erl, Release}) ->
    io_lib:format("~ts is Erlang/OTP ~ts; dyno needs ~b or later", [Erl, Release, ?FLOOR]);
format_error({vm_died, Reason}) ->
    io_lib:format("the VM of a code has ended (~0tP); look whether the code ends it", [Reason, 10]).

-spec fault(reason()) -> dyno_error:fault().
fault({vm_died, _}) -> code;
fault({does_not_boot, #{flags := [_ | _]}, _}) -> caller;
fault({does_not_boot, _, _}) -> dyno;
fault(_) -> caller.
