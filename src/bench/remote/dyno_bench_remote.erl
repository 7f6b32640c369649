%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_remote).
-moduledoc """
Measures in another node, possibly a production node. Codes are compiled here. The modules that
measure are sent as `m:dyno_agent` sends its modules, and removed afterwards. A node on this machine
loads the NIF of `m:dyno_clock` from dyno's folder.

## Cost
Some 70 modules, below 1 MB, during the measurement, and a scheduler for each worker.
""".

-export([run/4, attach/3, described/3, format_error/1, fault/1]).
-export_type([options/0, description/0, reason/0]).

-type options() :: #{
    %% Cookie of the node. Default: this node's.
    cookie => atom(),
    %% Time limit. Default: an hour.
    limit_ms => pos_integer(),
    limit_bytes => pos_integer(),
    %% The largest number of modules of inputs.
    inputs => non_neg_integer()
}.

-type file_module() :: {module(), file:filename(), binary()}.

-doc "Facts of a node, by the names of recordings.".
-type description() :: #{node := map(), environment := map()}.

-type reason() ::
    {taken_module, node(), module()}
    | {gave_up, node(), term()}
    | {node_lost, node()}.

-define(LIMIT_MS, 3_600_000).
-define(CALL_MS, 30_000).

-doc """
Sends the needed modules, calls a function in a process of a node, and returns the result. `Call`
names the function once the node is connected. The function must end when its process receives
`dyno_interrupt`; so does this function.
""".
-spec run(node(), fun(() -> {module(), atom(), [term()]}), [file_module()], options()) ->
    dyno_error:result({term(), description()}).
run(Node, Call, Files, Options) ->
    maybe
        {ok, Target} ?= attach(Node, Files, Options),
        try
            _ = erpc:call(Node, dyno_clock, load_from, [dyno_clock:folders()], ?CALL_MS),
            Description = description(Node),
            maybe
                {ok, Result} ?= called(Target, Call()),
                {ok, {Result, Description}}
            end
        after
            _ = dyno_target:leave([Target])
        end
    end.

-doc "Starts a guard in a node, with all modules that measure.".
-spec attach(node(), [file_module()], options()) -> dyno_error:result(dyno_target:t()).
attach(Node, Files, Options) ->
    AgentOptions = maps:merge(#{limit_ms => ?LIMIT_MS}, maps:remove(inputs, Options)),
    maybe
        ok ?= dyno_target_node:connect(Node, maps:with([cookie], Options)),
        {ok, More} ?= more_modules(Node, Files),
        ForAgent = AgentOptions#{
            guard => dyno_bench_remote_guard,
            modules => dyno_bench_modules:to_measure(),
            more_modules => More,
            names => names(maps:get(inputs, Options, 0))
        },
        dyno_target:hold(Node, ForAgent, fun(Bare) -> {ok, Bare} end)
    end.

%% Modules that a run loads and unloads itself unless killed.
names(Inputs) ->
    [
        dyno_bench_loop_empty
        | [
            list_to_atom(Prefix ++ integer_to_list(N))
         || {Prefix, Count} <- [
                {"dyno_bench_loop_", dyno_bench_slots:most_codes()}, {"dyno_bench_input_", Inputs}
            ],
            N <- lists:seq(1, Count)
        ]
    ].

%% Modules that only this node has, in the agent's format; the other node must have none.
more_modules(Node, Files) ->
    case dyno_code:available(Node, [M || {M, _, _} <- Files]) of
        {ok, []} -> {ok, [{M, Binary, File} || {M, File, Binary} <- Files]};
        {ok, [Module | _]} -> {error, {?MODULE, {taken_module, Node, Module}}};
        {error, Reason} -> {error, {dyno_code, Reason}}
    end.

called(#{agent := Agent} = Target, Call) ->
    Guard = dyno_agent:guard(Agent),
    ok = gen_server:cast(Guard, {run, Call}),
    await(Target, Guard).

%% The guard reports why it ends, if possible.
await(#{node := Node, ref := Ref, monitor := Monitor} = Target, Guard) ->
    receive
        {dyno_bench_remote_guard, Ref, Result} ->
            {ok, Result};
        {dyno_agent, Ref, {gave_up, Reason}} ->
            {error, {?MODULE, {gave_up, Node, Reason}}};
        dyno_interrupt ->
            Guard ! dyno_interrupt,
            await(Target, Guard);
        {'DOWN', Monitor, process, Guard, _} ->
            {error, {?MODULE, {node_lost, Node}}}
    end.

description(Node) ->
    Info = fun(Key) -> erpc:call(Node, erlang, system_info, [Key], ?CALL_MS) end,
    {ok, Host} = erpc:call(Node, inet, gethostname, [], ?CALL_MS),
    Facts = dyno_recording:document(dyno_target_node:facts(Node)),
    Schedulers = [schedulers, dirty_cpu_schedulers, dirty_io_schedulers],
    Environment = #{atom_to_binary(Key) => Info(Key) || Key <- Schedulers},
    #{
        node => Facts,
        environment => maps:merge(
            maps:with([~"otp", ~"erts", ~"schedulers_online"], Facts),
            Environment#{
                ~"jit" => Info(emu_flavor) =:= jit,
                ~"hostname" => unicode:characters_to_binary(Host),
                ~"emulator_flags" => null
            }
        )
    }.

-doc "Adds the measured node to the recording.".
-spec described(dyno_recording:document(), description(), #{waiting := boolean()}) ->
    dyno_recording:document().
described(Document, #{node := Node, environment := Environment}, #{waiting := Waiting}) ->
    #{~"runs" := Runs, ~"environment" := Local} = Document,
    #{~"name" := Name} = Node,
    #{Name := Role} = dyno_recording_run:roles([Name]),
    %% The processor of this machine says nothing about another machine.
    Foreign =
        case {Local, Environment} of
            {#{~"hostname" := Host}, #{~"hostname" := Host}} ->
                #{};
            _ ->
                #{Key => null || Key <- [~"os", ~"kernel", ~"cpu_model", ~"cores", ~"memory_bytes"]}
        end,
    Described = Document#{
        ~"runs" := [Run#{~"nodes" => [Node#{~"role" => Role}]} || Run <- Runs],
        ~"environment" := maps:merge(maps:merge(Local, Foreign), Environment)
    },
    Text =
        <<"in ", Name/binary,
            " only the wall clock is read: time in which other programs had the "
            "processor counts as time of the code">>,
    dyno_recording:add_warnings(Described, [{~"clock", Text} || not Waiting]).

-spec format_error(reason()) -> unicode:chardata().
format_error({taken_module, Node, Module}) ->
    io_lib:format("~ts has a module ~ts of its own; give the file's another name", [Node, Module]);
format_error({gave_up, Node, {limit_ms, Ms}}) ->
    io_lib:format(
        "the measurement in ~ts was ended after ~ts, the time limit",
        [Node, dyno_unit:format(Ms, ~"ms")]
    );
format_error({gave_up, Node, {limit_bytes, Limit, Bytes}}) ->
    io_lib:format("the measurement in ~ts was ended: its processes took ~b MiB, more than ~b", [
        Node, Bytes bsr 20, Limit bsr 20
    ]);
format_error({gave_up, Node, Reason}) ->
    io_lib:format("the measurement in ~ts ended: ~0tP", [Node, Reason, 12]);
format_error({node_lost, Node}) ->
    io_lib:format(
        "the connection to ~ts was lost during the measurement; all that runs there ends by itself",
        [Node]
    ).

-spec fault(reason()) -> dyno_error:fault().
fault({taken_module, _, _}) -> caller;
fault(_) -> dyno.
