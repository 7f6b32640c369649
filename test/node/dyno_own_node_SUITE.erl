%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_own_node_SUITE).
-moduledoc """
dyno's own node and those that it starts, in Erlangs that have the program's flags: their cookies,
their names, where they listen, and the port mapper that they find or not.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [
        no_secret_in_sight,
        secret_of_a_command,
        flags_of_the_environment,
        no_home,
        another_users_home,
        no_cookie_for_a_target,
        not_the_program,
        no_temporary_folder,
        a_cookie_from_the_start,
        two_make_one_cookie,
        many_start_at_once,
        names_are_few,
        a_name_is_taken,
        listens_on_loopback,
        listens_for_other_machines,
        without_a_port_mapper,
        no_port_mapper
    ].

%% An Erlang without a name that has the program's flags, controlled over its standard input; with a
%% port mapper of its own, so that no other test's nodes are seen.
program(Config, Environment) ->
    program(Config, Environment, #{}).

program(Config, Environment, Options) ->
    {ok, Peer} = peer:start(
        maps:merge(
            #{
                connection => standard_io,
                wait_boot => {self(), make_ref()},
                env => [{"ERL_EPMD_PORT", get(port, Config)} | Environment],
                args => dyno_command:flags() ++ paths()
            },
            Options
        )
    ),
    receive
        {Ref, {started, _, Peer}} when is_reference(Ref) -> Peer
    end.

paths() ->
    lists:append([["-pa", filename:dirname(code:which(M))] || M <- [dyno_cookie, ?MODULE]]).

call(Peer, Function, Arguments) ->
    peer:call(Peer, ?MODULE, Function, Arguments, 60_000).

get(Key, Config) -> proplists:get_value(Key, Config).

init_per_testcase(_Case, Config) ->
    {ok, Listen} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listen),
    ok = gen_tcp:close(Listen),
    %% Free for everybody: a case changes the user.
    Temporary = filename:join(get(priv_dir, Config), integer_to_list(Port)),
    ok = filelib:ensure_path(Temporary),
    %% file:change_mode/2 sets no sticky bit.
    "" = os:cmd("chmod 1777 '" ++ Temporary ++ "'"),
    Home = filename:join(Temporary, "home"),
    ok = file:make_dir(Home),
    [{port, integer_to_list(Port)}, {temporary, Temporary}, {home, Home} | Config].

end_per_testcase(_Case, Config) ->
    epmd(Config, ["-kill"]).

newest_release_only() ->
    [
        no_home,
        another_users_home,
        names_are_few,
        many_start_at_once,
        a_name_is_taken,
        no_cookie_for_a_target,
        not_the_program,
        no_temporary_folder,
        secret_of_a_command,
        listens_for_other_machines,
        no_port_mapper
    ].

epmd(Config, Arguments) ->
    _ = dyno_command:output(
        open_port({spawn_executable, filename:join(bin(), "epmd")}, [
            {args, ["-port", get(port, Config) | Arguments]}, exit_status, stderr_to_stdout, binary
        ])
    ),
    ok.

bin() ->
    filename:join([code:root_dir(), "erts-" ++ erlang:system_info(version), "bin"]).

%% Secrets

%% Its own cookie is not that of the file, which other nodes would read.
no_secret_in_sight(Config) ->
    Peer = program(Config, []),
    {Cookies, Seen} = call(Peer, secrets, []),
    ?assertMatch([Cookie, Cookie, Cookie], Cookies),
    ?assertEqual([], Seen),
    peer:stop(Peer).

%% In the Erlang.
secrets() ->
    Secret = secret(),
    ok = dyno_target_node:ensure_distribution(#{}),
    true = erlang:set_cookie(Secret),
    {ok, Node} = dyno_peer:start(#{name => "shop"}),
    {ok, Error} = {ok, {dyno_peer, {does_not_boot, "x", why, ["-setcookie", "SECRET"]}}},
    nomatch = string:find(dyno_error:format(Error), "SECRET"),
    true = lists:prefix("shop-", atom_to_list(Node)),
    process_flag(trap_exit, true),
    {Of, Shown} = dyno_bench_vm:with(
        [#{variant => #{}}],
        #{},
        fun([#{peer := Vm}]) -> {peer:call(Vm, erlang, get_cookie, []), shown(Secret)} end
    ),
    {[Secret, erpc:call(Node, erlang, get_cookie, []), Of], Shown}.

secret() ->
    list_to_atom("secret" ++ os:getpid() ++ integer_to_list(rand:uniform(1 bsl 60))).

%% Processes whose arguments or environment have it in them.
shown(Secret) ->
    [
        File
     || What <- ["cmdline", "environ"],
        File <- filelib:wildcard("/proc/[0-9]*/" ++ What),
        {ok, Text} <- [file:read_file(File)],
        binary:match(Text, atom_to_binary(Secret)) =/= nomatch
    ].

secret_of_a_command(Config) ->
    Peer = program(Config, []),
    ?assertEqual({true, []}, call(Peer, command, [filename:join(bin(), "../../bin/erl")])),
    peer:stop(Peer).

command(Erl) ->
    ok = dyno_target_node:ensure_distribution(#{targets => ['run@localhost']}),
    Secret = secret(),
    true = erlang:set_cookie(Secret),
    Command = [Erl, " -noshell -eval 'timer:sleep(60000), halt().'"],
    {ok, #{node := Node} = Subject} = dyno_profile_subject:command(iolist_to_binary(Command)),
    Shown = shown(Secret),
    Agreed = erpc:call(Node, erlang, get_cookie, []) =:= Secret,
    ok = dyno_profile_subject:stop(Subject),
    {Agreed, Shown}.

flags_of_the_environment(Config) ->
    Cases = ["ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS"],
    [?assertEqual({abc, abc}, agreed(Config, [{Name, "-setcookie abc"}]), Name) || Name <- Cases].

agreed(Config, Environment) ->
    Peer = program(Config, Environment),
    Agreed = call(Peer, cookies, []),
    peer:stop(Peer),
    Agreed.

cookies() ->
    {ok, Node} = dyno_peer:start(#{}),
    {erlang:get_cookie(), erpc:call(Node, erlang, get_cookie, [])}.

%% Homes

no_home(Config) ->
    Temporary = get(temporary, Config),
    File = filename:join(Temporary, "file"),
    ok = file:write_file(File, ""),
    ReadByAll = filename:join(Temporary, "open"),
    ok = file:make_dir(ReadByAll),
    ok = file:write_file(filename:join(ReadByAll, ".erlang.cookie"), "ABC"),
    ok = file:change_mode(filename:join(ReadByAll, ".erlang.cookie"), 8#644),
    {Target, Node} = target(Config, "given"),
    [
        homeless(Config, Node, Home, #{})
     || Home <- [
            false,
            filename:join(Temporary, "no/home"),
            filename:join(File, "home"),
            ReadByAll
        ]
    ],
    peer:stop(Target).

%% As in a container that runs as whoever it is told to.
another_users_home(Config) ->
    case {os:cmd("id -u"), os:find_executable("setpriv")} of
        {"0\n", [_ | _] = Program} ->
            Temporary = get(temporary, Config),
            Roots = filename:join(Temporary, "root"),
            ok = file:make_dir(Roots),
            ok = file:write_file(filename:join(Roots, ".erlang.cookie"), "ABC"),
            ok = file:change_mode(Roots, 8#700),
            Erl = filename:join([code:root_dir(), "bin", "erl"]),
            As = #{exec => {Program, ["--reuid", "12345", "--clear-groups", Erl]}},
            {Target, Node} = target(Config, "given"),
            [homeless(Config, Node, Home, As) || Home <- ["/", Roots, get(home, Config)]],
            peer:stop(Target);
        {_, false} ->
            {skip, "there is no setpriv"};
        _ ->
            {skip, "only root can become another user"}
    end.

%% Nodes of its own, and a target whose cookie is given.
homeless(Config, Node, Home, Options) ->
    Temporary = get(temporary, Config),
    Peer = program(
        Config,
        [{"HOME", Home}, {"XDG_CONFIG_HOME", false}, {"TMPDIR", Temporary}],
        Options
    ),
    ?assertEqual({own, Home, ok}, call(Peer, own_and_given, [Node])),
    peer:stop(Peer).

own_and_given(Given) ->
    {ok, Node} = dyno_peer:start(#{}),
    true = erlang:get_cookie() =:= erpc:call(Node, erlang, get_cookie, []),
    Home = erpc:call(Node, os, getenv, ["HOME"]),
    process_flag(trap_exit, true),
    Vms = fun([#{peer := Vm}]) -> peer:call(Vm, erlang, is_alive, []) end,
    true = dyno_bench_vm:with([#{variant => #{}}], #{}, Vms),
    ok = dyno_cookie:forget(),
    {own, Home, dyno_target_node:connect(Given, #{cookie => given})}.

%% Neither a home nor a folder for its cookie.
no_temporary_folder(Config) ->
    Missing = filename:join(get(temporary, Config), "no/folder"),
    Environment = [{"HOME", Missing}, {"XDG_CONFIG_HOME", false}, {"TMPDIR", Missing}],
    Peer = program(Config, Environment),
    [_, _] = [
        contains(Text, [Missing, "TMPDIR"])
     || Text <- call(Peer, no_temporary_folder, [])
    ],
    peer:stop(Peer).

no_temporary_folder() ->
    [
        unicode:characters_to_list(dyno_error:format(Error))
     || {error, Error} <- [dyno_peer:start(#{}), dyno_profile_subject:command(~"true")]
    ].

target(Config, Cookie) ->
    {ok, Target, Node} = peer:start(#{
        name => peer:random_name(),
        host => "localhost",
        connection => standard_io,
        env => [{"ERL_EPMD_PORT", get(port, Config)}, {"ERL_FLAGS", "-setcookie " ++ Cookie}],
        args => ["-kernel", "logger_level", "emergency"]
    }),
    {Target, Node}.

no_cookie_for_a_target(Config) ->
    {Target, Node} = target(Config, "given"),
    Missing = filename:join(get(temporary, Config), "no/home"),
    Peer = program(Config, [{"HOME", Missing}, {"XDG_CONFIG_HOME", false}]),
    Text = call(Peer, refused, [Node]),
    contains(Text, ["no cookie", Missing, "DYNO_COOKIE"]),
    %% A wrong one that was given is just wrong.
    contains(call(Peer, refused, [Node, #{cookie => wrong}]), ["its cookie is another one"]),
    peer:stop(Peer),
    peer:stop(Target).

refused(Node) ->
    refused(Node, #{}).

refused(Node, Options) ->
    {error, Error} = dyno_target_node:connect(Node, Options),
    3 = dyno_error:exit_status(Error),
    unicode:characters_to_list(dyno_error:format(Error)).

contains(Text, Parts) ->
    [?assertMatch([_ | _], string:find(Text, Part), {Text, Part}) || Part <- Parts].

%% rebar3's Erlang, or a user's.
not_the_program(Config) ->
    Missing = filename:join(get(temporary, Config), "no/home"),
    Plain = #{args => paths()},
    Peer = program(Config, [{"HOME", Missing}, {"XDG_CONFIG_HOME", false}], Plain),
    contains(call(Peer, unnamed, [#{}]), ["no cookie", Missing, "set HOME"]),
    peer:stop(Peer),
    WithHome = program(Config, [{"HOME", get(home, Config)}], Plain),
    {Cookie, Same} = call(WithHome, cookies, []),
    ?assertEqual({Cookie, Cookie}, {Same, file_cookie(Config)}),
    peer:stop(WithHome).

file_cookie(Config) ->
    {ok, Text} = file:read_file(filename:join(get(home, Config), ".erlang.cookie")),
    binary_to_atom(Text).

unnamed(Options) ->
    {error, Error} = dyno_target_node:ensure_distribution(Options),
    3 = dyno_error:exit_status(Error),
    unicode:characters_to_list(dyno_error:format(Error)).

%% Whoever gives the Erlang its name: no moment in which it has a cookie that everybody knows.
a_cookie_from_the_start(Config) ->
    Peer = program(Config, [{"HOME", get(home, Config)}]),
    ok = call(Peer, named_by_others, []),
    ?assertEqual(file_cookie(Config), peer:call(Peer, erlang, get_cookie, [])),
    peer:stop(Peer).

%% The first one starts the port mapper.
named_by_others() ->
    ok = dyno_target_node:ensure_distribution(#{}),
    ok = net_kernel:stop(),
    {ok, _} = net_kernel:start(named_by_others, #{name_domain => shortnames}),
    ok.

two_make_one_cookie(Config) ->
    Peers = [program(Config, [{"HOME", get(home, Config)}]) || _ <- [1, 2, 3]],
    Made = at_once(Peers, fun(Peer) -> peer:call(Peer, dyno_cookie, own, []) end),
    ?assertEqual([file_cookie(Config)], lists:usort(Made)),
    ?assertEqual({ok, [".erlang.cookie"]}, file:list_dir_all(get(home, Config))),
    {ok, Info} = file:read_file_info(filename:join(get(home, Config), ".erlang.cookie")),
    ?assertEqual(8#400, element(8, Info) band 8#777),
    [peer:stop(Peer) || Peer <- Peers].

at_once(Peers, Call) ->
    Self = self(),
    Calls = [spawn_link(fun() -> Self ! {self(), Call(Peer)} end) || Peer <- Peers],
    [
        receive
            {Pid, Value} -> Value
        end
     || Pid <- Calls
    ].

%% Names

%% Each node has its own name, though nobody has started one before.
many_start_at_once(_Config) ->
    {Peer, Node} = dyno_peers:start(),
    ok = erpc:call(Node, code, add_paths, [paths_of_dyno()]),
    Asked = fun(Ask) ->
        Requests = [erpc:send_request(Node, Ask) || _ <- lists:seq(1, 20)],
        [erpc:receive_response(Request) || Request <- Requests]
    end,
    lists:foreach(
        fun(_) ->
            ok = erpc:call(Node, dyno_once, forget, [dyno_own_node]),
            Names = Asked(fun() -> map_get(name, dyno_own_node:peer("many", here)) end),
            ?assertEqual(Names, lists:uniq(Names)),
            %% What is made once is there, and one.
            Object = {m, ~"code", "m.beam"},
            Files = [
                [_] = lists:usort(Asked(Ask))
             || Ask <- [
                    fun dyno_cookie:file/0,
                    fun() ->
                        {ok, Of} = dyno_bench_modules:written(fun() -> [Object] end),
                        filename:join(Of, "m.beam")
                    end
                ]
            ],
            [?assert(filelib:is_regular(File)) || [File] <- Files],
            [ok, ok] = [erpc:call(Node, M, forget, []) || M <- [dyno_cookie, dyno_bench_modules]],
            [?assertNot(filelib:is_file(filename:dirname(File))) || [File] <- Files]
        end,
        lists:seq(1, 5)
    ),
    dyno_peers:stop({Peer, Node}).

paths_of_dyno() -> [filename:dirname(code:which(dyno)), filename:dirname(code:which(?MODULE))].

%% Each Erlang has the name that the one before it had.
names_are_few(Config) -> few_names(Config, [1, 1]).

few_names(Config, Times) ->
    {Target, Node} = target(Config, "given"),
    Attached = fun(N) ->
        Peer = program(Config, []),
        {Own, Peers} = call(Peer, attached, [Node, N]),
        peer:stop(Peer),
        {Own, Peers, peer:call(Target, erlang, system_info, [atom_count])}
    end,
    _ = Attached(1),
    Before = Attached(1),
    ?assertMatch({dyno1@localhost, _, _}, Before),
    ?assertMatch("dyno_load-1-" ++ _, atom_to_list(element(2, Before))),
    ?assertEqual([Before], lists:usort([Attached(N) || N <- Times])),
    peer:stop(Target).

%% With a node of its own that the target gets to know, and one that asks for the target's name.
attached(Node, Times) ->
    [Name, Host] = string:split(atom_to_list(Node), "@"),
    {ok, Node} = dyno_target_probe:name(Name, Host),
    Options = #{cookie => given},
    _ = [
        begin
            {ok, Agent} = dyno_agent:attach(Node, Options),
            dyno_agent:detach(Agent)
        end
     || _ <- lists:seq(1, Times)
    ],
    {ok, Load} = dyno_peer:start(#{name => "dyno_load"}),
    true = erpc:call(Load, erlang, set_cookie, [Node, given]),
    true = erpc:call(Load, net_kernel, connect_node, [Node]),
    {node(), Load}.

a_name_is_taken(Config) ->
    {First, Second} = {program(Config, []), program(Config, [])},
    ok = peer:call(First, dyno_target_node, ensure_distribution, [#{name => shop}]),
    contains(call(Second, unnamed, [#{name => shop}]), ["is called shop", "--name"]),
    [Own1, Own2] = at_once([First, Second], fun(Peer) ->
        _ = peer:call(Peer, net_kernel, stop, []),
        ok = peer:call(Peer, dyno_target_node, ensure_distribution, [#{}]),
        hd(string:split(atom_to_list(peer:call(Peer, erlang, node, [])), "@"))
    end),
    ?assertEqual(["dyno1", "dyno2"], lists:sort([Own1, Own2])),
    [peer:stop(Peer) || Peer <- [First, Second]].

%% Where they listen

listens_on_loopback(Config) ->
    {Target, Node} = target(Config, "given"),
    Peer = program(Config, []),
    [Own, Started, Vm] = call(Peer, listening, [Node]),
    [?assertMatch([_ | _], At) || At <- [Own, Started, Vm]],
    ?assertEqual(["0100007F"], lists:usort(Own ++ Started ++ Vm)),
    peer:stop(Peer),
    peer:stop(Target).

listening(Node) ->
    ok = dyno_target_node:connect(Node, #{cookie => given}),
    {ok, Started} = dyno_peer:start(#{}),
    process_flag(trap_exit, true),
    Vm = dyno_bench_vm:with([#{variant => #{}}], #{}, fun([#{peer := Peer}]) ->
        sockets(peer:call(Peer, os, getpid, []))
    end),
    [sockets(os:getpid()), sockets(erpc:call(Started, os, getpid, [])), Vm].

%% The addresses, as Linux shows them, at which a process listens.
sockets(Pid) ->
    Links = [file:read_link(File) || File <- filelib:wildcard("/proc/" ++ Pid ++ "/fd/*")],
    Own = ["socket:[" ++ Inode ++ "]" || {ok, "socket:[" ++ Text} <- Links, Inode <- inode(Text)],
    [
        hd(string:split(Address, ":"))
     || File <- ["tcp", "tcp6"],
        {ok, Text} <- [file:read_file("/proc/net/" ++ File)],
        Line <- tl(string:lexemes(binary_to_list(Text), "\n")),
        [_, Address, _, "0A", _, _, _, _, _, Inode | _] <- [string:lexemes(Line, " ")],
        lists:member("socket:[" ++ Inode ++ "]", Own)
    ].

inode(Text) -> [lists:droplast(Text)].

%% Those that are to come to nodes that dyno starts; of the documentation's addresses.
listens_for_other_machines(Config) ->
    Peer = program(Config, []),
    ?assertMatch([_ | _], [At || At <- call(Peer, elsewhere, []), At =/= "0100007F"]),
    peer:stop(Peer),
    Specs = [{peer, 2}, {ssh, "me@192.0.2.1"}, {ssh, "x", #{host => "192.0.2.2"}}, 'a@192.0.2.3'],
    ?assertEqual(
        ['ssh@192.0.2.1', 'ssh@192.0.2.2', 'a@192.0.2.3'], dyno_load_nodes:named(Specs)
    ).

elsewhere() ->
    ok = dyno_target_node:ensure_distribution(#{others => ['load@192.0.2.1']}),
    sockets(os:getpid()).

%% The port mapper

%% Two at once, each time without one.
without_a_port_mapper(Config) ->
    Peers = [program(Config, []), program(Config, [])],
    [
        begin
            Named = at_once(Peers, fun(Peer) ->
                peer:call(Peer, dyno_target_node, ensure_distribution, [#{}], 60_000)
            end),
            ?assertEqual([ok, ok], Named, Try),
            [ok = peer:call(Peer, net_kernel, stop, []) || Peer <- Peers],
            ok = kill_epmd(Config)
        end
     || Try <- lists:seq(1, 20)
    ],
    [peer:stop(Peer) || Peer <- Peers].

%% It ends only without a name, and hears of an end a moment later; it answers before it ends.
kill_epmd(Config) ->
    epmd(Config, ["-kill"]),
    Port = list_to_integer(get(port, Config)),
    case gen_tcp:connect({127, 0, 0, 1}, Port, []) of
        {ok, Socket} ->
            ok = gen_tcp:close(Socket),
            kill_epmd(Config);
        {error, econnrefused} ->
            ok
    end.

no_port_mapper(Config) ->
    Peer = program(Config, [], #{
        args => ["-start_epmd", "false" | dyno_command:flags() ++ paths()]
    }),
    contains(call(Peer, unnamed, [#{}]), ["epmd", get(port, Config), "does not answer"]),
    peer:stop(Peer).
