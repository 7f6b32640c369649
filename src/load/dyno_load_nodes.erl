%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_nodes).
-moduledoc false.
%% Starts or connects the nodes that generate a load: on this machine, over ssh, or already running.
%% They keep the generator off the target's processors. Each node gets the generator's and the
%% suite's code; its clock is compared with this node's.

-export([read/1, named/1, start/2, stop/1, clock/1, format_error/1, fault/1]).
-export_type([spec/0, started/0, reason/0]).

-doc """
`{peer, N}`: N nodes on this machine, each with one scheduler; a map may give other `arguments` for
erl. `{ssh, Host}`: a node on another machine, by `ssh Host erl`; the map may give another
`program`, the whole `command`, other `arguments` for erl, and the `host` in the node's name. A node
name: a running node with the same cookie.
""".
-type spec() ::
    node()
    | {peer, pos_integer() | #{arguments => [string()]}}
    | {ssh, string() | binary()}
    | {ssh, string() | binary(), #{
        program => string(), command => [string()], arguments => [string()], host => string()
    }}.

-type started() :: #{node := node(), own := boolean()}.

-type reason() ::
    {bad_load_nodes, term()}
    | {not_started, Place :: unicode:chardata(), dyno_error:error()}
    | {no_ssh, string()}
    | {not_short | not_long, string()}
    | {unreachable, node(), dyno_error:error()}
    | {no_code, node(), dyno_code:reason()}.

-define(TIMEOUT_MS, 10_000).
%% More modules than that are not a suite's own: the code path is wrong.
-define(MOST_MODULES, 5000).

-spec read(term()) -> {ok, [spec()]} | {error, reason()}.
read(Count) when is_integer(Count), Count > 0 ->
    {ok, [{peer, Count}]};
read(Specs) when is_list(Specs) ->
    case lists:all(fun is_spec/1, Specs) of
        true -> {ok, Specs};
        false -> {error, {bad_load_nodes, Specs}}
    end;
read(Other) ->
    {error, {bad_load_nodes, Other}}.

is_spec({peer, Count}) when is_integer(Count) -> Count > 0;
is_spec({peer, Options}) when is_map(Options) -> maps:keys(Options) -- [arguments] =:= [];
is_spec({ssh, Host}) ->
    is_list(Host) orelse is_binary(Host);
is_spec({ssh, Host, Options}) when is_map(Options) ->
    is_spec({ssh, Host}) andalso
        maps:keys(Options) -- [program, command, arguments, host] =:= [];
is_spec(Node) when is_atom(Node) ->
    lists:member($@, atom_to_list(Node));
is_spec(_) ->
    false.

-doc "Names of nodes that may be on other machines, for their hosts.".
-spec named([spec()]) -> [node()].
named(Specs) ->
    [
        case Spec of
            {ssh, Host} -> at(Host);
            {ssh, Host, Options} -> at(maps:get(host, Options, Host));
            Node -> Node
        end
     || Spec <- Specs, not is_peer(Spec)
    ].

is_peer({peer, _}) -> true;
is_peer(_Spec) -> false.

at(Host) ->
    list_to_atom("ssh@" ++ after_user(unicode:characters_to_list(Host))).

-doc "Starts the nodes, linked to the caller, and loads a suite's module and code into each.".
-spec start([spec()], module()) -> {ok, [started()]} | {error, reason()}.
start(Specs, Module) ->
    start(lists:flatmap(fun single/1, Specs), Module, []).

single({peer, Count}) when is_integer(Count) -> lists:duplicate(Count, {peer, #{}});
single(Spec) -> [Spec].

start([], _Module, Started) ->
    {ok, lists:reverse(Started)};
start([Spec | Specs], Module, Started) ->
    maybe
        {ok, #{node := Node} = New} ?= one(Spec),
        {sent, _, ok} ?= {sent, New, send_code(Node, Module)},
        start(Specs, Module, [New | Started])
    else
        {error, _} = Error ->
            stop(Started),
            Error;
        {sent, Last, {error, _} = Error} ->
            stop([Last | Started]),
            Error
    end.

one({peer, Options}) ->
    %% One scheduler: a generator waits by yielding and should not occupy every processor.
    Arguments = maps:get(arguments, Options, ["+S", "1"]),
    own(dyno_peer:start(#{name => "dyno_load", arguments => Arguments}), "on this machine");
one({ssh, Host}) ->
    one({ssh, Host, #{}});
one({ssh, Host0, Options}) ->
    Host = unicode:characters_to_list(Host0),
    Program = maps:get(program, Options, "ssh"),
    NodeHost = maps:get(host, Options, after_user(Host)),
    case {os:find_executable(Program), net_kernel:longnames(), lists:member($., NodeHost)} of
        {false, _, _} ->
            {error, {no_ssh, Program}};
        {_, false, true} ->
            {error, {not_short, NodeHost}};
        {_, true, false} ->
            {error, {not_long, NodeHost}};
        {Path, _, _} ->
            Command = maps:get(command, Options, ["-o", "BatchMode=yes", Host, "erl"]),
            Started = dyno_peer:start(#{
                name => "dyno_load",
                host => NodeHost,
                exec => {Path, Command},
                arguments => maps:get(arguments, Options, [])
            }),
            own(Started, ["on ", Host, " by ", Program])
    end;
one(Node) ->
    case dyno_target_node:connect(Node, #{}) of
        ok -> {ok, #{node => Node, own => false}};
        {error, Reason} -> {error, {unreachable, Node, Reason}}
    end.

after_user(Host) ->
    case lists:dropwhile(fun(Char) -> Char =/= $@ end, Host) of
        [$@ | Name] -> Name;
        [] -> Host
    end.

own({ok, Node}, _Place) -> {ok, #{node => Node, own => true}};
own({error, Reason}, Place) -> {error, {not_started, Place, Reason}}.

-doc "Ends the nodes that dyno started; other nodes stay.".
-spec stop([started()]) -> ok.
stop(Started) ->
    lists:foreach(fun dyno_peer:stop/1, [Node || #{node := Node, own := true} <- Started]).

%% The generator's modules in this version; of the suite and code path, those the node lacks.
send_code(Node, Suite) ->
    Generator = [
        dyno_load_pool,
        dyno_load_worker,
        dyno_load_recorder,
        dyno_load_schedule_ahead,
        dyno_load_schedule,
        dyno_client,
        dyno_feed,
        dyno_feed_file,
        dyno_feed_zipf,
        dyno_histogram
    ],
    maybe
        {ok, Missing} ?= dyno_code:missing(Node, Generator),
        ok ?= dyno_code:send(Node, Missing),
        Own = own_modules(Suite),
        {ok, There} ?= dyno_code:available(Node, Own),
        {ok, Lacking} ?= dyno_code:missing(Node, [Suite | Own -- [Suite | There]]),
        ok ?= dyno_code:send(Node, Lacking)
    else
        {error, Reason} -> {error, {no_code, Node, Reason}}
    end.

own_modules(Suite) ->
    Folders = dyno_code:own_paths() -- [filename:dirname(code:which(?MODULE))],
    Beams = lists:flatmap(
        fun(Path) -> filelib:wildcard(filename:join(Path, "*.beam")) end, Folders
    ),
    Modules = [list_to_atom(filename:basename(Beam, ".beam")) || Beam <- Beams],
    lists:uniq([Suite | lists:sublist(Modules, ?MOST_MODULES)]).

-doc "The lead of a node's clock over this node's, and its uncertainty.".
-spec clock(node()) -> {OffsetNs :: integer(), UncertainNs :: non_neg_integer()}.
clock(Node) when Node =:= node() ->
    {0, 0};
clock(Node) ->
    Read = fun() -> {erpc:call(Node, erlang, monotonic_time, [nanosecond], ?TIMEOUT_MS), 0} end,
    #{monotonic_ns := AheadNs, error_ns := ErrorNs} = dyno_target_clock:measure(Read),
    {AheadNs, ErrorNs}.

-spec format_error(reason()) -> unicode:chardata().
format_error({bad_load_nodes, Term}) ->
    io_lib:format(
        "load_nodes is ~0tP; accepted are a number of nodes to start here, and a list of "
        "{peer, N}, {peer, #{arguments => [...]}}, {ssh, Host} and names of running nodes",
        [Term, 12]
    );
format_error({not_started, Place, Reason}) ->
    io_lib:format("no load node could be started ~ts: ~ts", [Place, dyno_error:format(Reason)]);
format_error({unreachable, _Node, Reason}) ->
    ["load node: ", dyno_error:format(Reason)];
format_error({no_code, _Node, Reason}) ->
    ["load node: ", dyno_code:format_error(Reason)];
format_error({Kind, Name}) ->
    io_lib:format(sentence(Kind), [Name]).

sentence(no_ssh) ->
    "there is no program ~ts to start a load node with; install it";
sentence(not_short) ->
    "no load node on ~ts: dyno's node has a short name, and such nodes reach no host with a dot in "
    "its name; give the host's name without its domain, or dyno a long name by --name "
    "dyno@HOST.DOMAIN (or @ADDRESS)";
sentence(not_long) ->
    "no load node on ~ts: dyno's node has a long name, and such nodes reach only hosts with a dot "
    "in their names; give the host's full name or its address".

-spec fault(reason()) -> dyno_error:fault().
fault({bad_load_nodes, _}) -> caller;
fault(_Reason) -> dyno.
