%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_truth_properties_SUITE).
-moduledoc """
What dyno verify says of systems whose violations are known: the events that led to the violation of
a key, an event that comes later than the next, tasks of Elixir, and that monitoring has begun.
""".

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

%% Key 7 is acquired twice, by two processes, with twenty others' events in between.
-define(LOCKS, """
-module(locks).
-export([run/1, server/0, client/2]).
run(Rounds) ->
    Server = spawn(locks, server, []),
    Server ! {acquire, 7, first},
    [Server ! {What, K, other} || K <- lists:seq(100, 99 + Rounds), What <- [acquire, release]],
    Server ! {acquire, 7, second},
    Server ! stop.
server() -> receive stop -> ok; _ -> server() end.
client(Server, Key) ->
    Server ! {acquire, Key},
    receive stop -> ok end.

""").

%% The task's module of Elixir as far as a trace sees it.
-define(TASKS, """
-module('Elixir.Task.Supervised').
-export([reply/3, noreply/4, async/1, start/1]).
async(MFA) ->
    Owner = self(),
    Pid = proc_lib:spawn_link('Elixir.Task.Supervised', reply, [{n, n, Owner}, [], nomonitor]),
    Ref = make_ref(),
    Pid ! {Owner, Ref, Owner, [], MFA},
    receive {Ref, Value} -> Value end.
start(MFA) -> proc_lib:spawn('Elixir.Task.Supervised', noreply, [self(), [], [], MFA]).
reply({_, _, Owner} = From, _Ancestors, _Monitor) ->
    receive {Owner, Ref, To, _Callers, MFA} -> To ! {Ref, invoke_mfa(From, MFA)} end.
noreply(Owner, _Ancestors, _Callers, MFA) -> invoke_mfa(Owner, MFA).
invoke_mfa(_Owner, {M, F, Args}) -> apply(M, F, Args).

""").

-define(SHOP, """
-module('Elixir.Shop').
-export([run/1, price/1, other/1]).
run(N) ->
    [begin
        price = 'Elixir.Task.Supervised':async({'Elixir.Shop', price, [K]}),
        price = 'Elixir.Task.Supervised':async({erlang, apply, [fun() -> price(K) end, []]}),
        other = 'Elixir.Task.Supervised':async({'Elixir.Shop', other, [K]}),
        'Elixir.Task.Supervised':start({'Elixir.Shop', price, [K]})
     end || K <- lists:seq(1, N)].
price(K) -> self() ! #{'__struct__' => 'Elixir.Shop.Price', of_key => K}, price.
other(_) -> other.

""").

%% For each number eight tasks that run price/1, and two that run a function in run/1.
-define(REAL, """
defmodule RealShop do
  def price(k), do: send(self(), %{price: k})
  def run(n) do
    {:ok, sup} = Task.Supervisor.start_link()
    Process.unlink(sup)
    for k <- 1..n do
      Task.await(Task.async(RealShop, :price, [k]))
      Task.await(Task.async(fn -> price(k) end))
      {:ok, _} = Task.start(RealShop, :price, [k])
      Task.await(Task.Supervisor.async(sup, RealShop, :price, [k]))
      Task.await(Task.Supervisor.async_nolink(sup, RealShop, :price, [k]))
      {:ok, _} = Task.Supervisor.start_child(sup, RealShop, :price, [k])
    end
    Enum.to_list(Task.async_stream(1..n, RealShop, :price, []))
    Enum.to_list(Task.async_stream(1..n, fn k -> price(k) end))
    Enum.to_list(Task.Supervisor.async_stream(sup, 1..n, RealShop, :price, []))
    Enum.to_list(Task.Supervisor.async_stream_nolink(sup, 1..n, RealShop, :price, []))
    :done
  end
end
""").

suite() ->
    [{timetrap, {seconds, 30}}].

%% In a run of all tests the processors are taken anyway, and these take them from all others.
slow() -> [{group, beside_others}].

all() ->
    [{group, in_nodes}, {group, beside_others}].

groups() ->
    Cases = [
        keys_have_their_events,
        across_says_who,
        later_than_next,
        tasks_of_elixir,
        real_tasks_of_elixir
    ],
    [
        {in_nodes, [],
            Cases ++ [the_command, a_monitor_for_the_oldest_release, a_monitor_of_a_later_release]},
        {beside_others, [], [keys_have_their_events, tasks_of_elixir, real_tasks_of_elixir]}
    ].

init_per_suite(Config) ->
    ok = dyno_target_node:ensure_distribution(#{}),
    {_, Node} = Peer = dyno_peers:start(["+S", "2"]),
    [
        Module = dyno_peers:load(Node, Source)
     || {Module, Source} <- [
            {locks, ?LOCKS},
            {'Elixir.Task.Supervised', ?TASKS},
            {'Elixir.Shop', ?SHOP},
            {'Elixir.Kernel', "-module('Elixir.Kernel').\n"}
        ]
    ],
    [{peer, Peer}, {target, Node} | Config].

end_per_suite(Config) ->
    dyno_peers:stop(?config(peer, Config)).

init_per_group(beside_others, Config) ->
    Spinners = [
        open_port({spawn_executable, "/bin/sh"}, [{args, ["-c", "exec 2>&-; while :; do :; done"]}])
     || _ <- "12"
    ],
    [{spinners, [element(2, erlang:port_info(Port, os_pid)) || Port <- Spinners]} | Config];
init_per_group(_Group, Config) ->
    Config.

end_per_group(beside_others, Config) ->
    [os:cmd("kill " ++ integer_to_list(Pid)) || Pid <- ?config(spinners, Config)];
end_per_group(_Group, _Config) ->
    ok.

keys_have_their_events(Config) ->
    Specification =
        "property locks of module locks each L "
        "follows (receive {acquire, L, _} then receive {release, L, _})*.",
    {[Report], _} = verified(Specification, Config, fun(Node) ->
        erpc:call(Node, locks, run, [20])
    end),
    Text = text(Report),
    ct:log("~ts", [Text]),
    #{events := Events, explanation := Explanation} = Report,
    ?assertMatch(
        [{'receive', {acquire, 7, first}}, {'receive', {acquire, 7, second}}],
        [Event || {_, Event} <- Events]
    ),
    [{First, _}, {Last, _}] = Events,
    ?assert(First < Last),
    ?assertNot(is_map_key(key_events, Explanation)),
    ?assertEqual(nomatch, string:find(Text, "other")),
    ?assertMatch(<<_/binary>>, string:find(Text, "receives {acquire,7,first}")).

%% Two clients hold the same key: each is named.
across_says_who(Config) ->
    Specification =
        "property held of locks:client/2 across L never send {acquire, L} then send {acquire, L}.",
    {[Report], Pids} = verified(Specification, Config, fun(Node) ->
        Server = erpc:call(Node, erlang, spawn, [locks, server, []]),
        Keys = [7] ++ lists:seq(100, 119) ++ [7],
        Clients = [
            {Key, erpc:call(Node, erlang, spawn, [locks, client, [Server, Key]])}
         || Key <- Keys
        ],
        timer:sleep(50),
        [Pid ! stop || {_, Pid} <- Clients],
        Server ! stop,
        [Pid || {7, Pid} <- Clients]
    end),
    ?assertEqual(Pids, [Pid || {_, Pid, {send, {acquire, 7}, _}} <- map_get(events, Report)]),
    ?assertEqual(2, length(map_get(events, Report))),
    ct:log("~ts", [text(Report)]).

later_than_next(Config) ->
    Of = "property ~ts of module locks never receive {acquire, L, _} then ~ts {acquire, L, _}.\n",
    Specification = io_lib:format(Of ++ Of, [
        "next", "receive", "later", "eventually receive"
    ]),
    {Reports, _} = verified(Specification, Config, fun(Node) ->
        erpc:call(Node, locks, run, [20])
    end),
    ?assertEqual([~"later"], [map_get(property, Report) || Report <- Reports]),
    [Warning] = told(warning),
    ?assertMatch(<<"line 1: \"next\": 'never A then B' is broken only if", _/binary>>, Warning).

%% Those that get what they run by a message, and those that have it from the start.
tasks_of_elixir(Config) ->
    Specification =
        "property price of 'Elixir.Shop':price/1 never send %Shop.Price{of_key: K}.\n"
        "property in_fun of 'Elixir.Shop':run/1 never send %Shop.Price{}.",
    {Reports, _} = verified(Specification, Config, fun(Node) ->
        erpc:call(Node, 'Elixir.Shop', run, [10])
    end),
    Of = fun(Name) -> [Report || #{property := Of} = Report <- Reports, Of =:= Name] end,
    ?assertEqual({20, 10}, {length(Of(~"price")), length(Of(~"in_fun"))}),
    ?assertEqual([complete], lists:usort([map_get(trace, Report) || Report <- Reports])),
    #{events := [{_, First} | _]} = hd(Of(~"price")),
    ?assertMatch({spawned, _, {'Elixir.Shop', price, [_]}}, First).

%% As Elixir itself starts them.
real_tasks_of_elixir(Config) ->
    case dyno_elixir:folders() of
        [] -> {skip, "there is no Elixir"};
        Folders -> real_tasks_of_elixir(Folders, Config)
    end.

real_tasks_of_elixir(Folders, Config) ->
    {_, Node} = Peer = dyno_peers:start(lists:append([["-pa", Folder] || Folder <- Folders])),
    {ok, _} = erpc:call(Node, application, ensure_all_started, [elixir]),
    [_] = erpc:call(Node, 'Elixir.Code', compile_string, [?REAL]),
    Specification =
        "property price of 'Elixir.RealShop':price/1 never send %{price: K}.\n"
        "property in_fun of 'Elixir.RealShop':run/1 never send %{price: K}.",
    {Reports, done} = verified(Specification, [{target, Node} | Config], fun(_) ->
        erpc:call(Node, 'Elixir.RealShop', run, [4])
    end),
    Of = fun(Name) -> [Report || #{property := Of} = Report <- Reports, Of =:= Name] end,
    ?assertEqual({32, 8}, {length(Of(~"price")), length(Of(~"in_fun"))}),
    ?assertEqual([complete], lists:usort([map_get(trace, Report) || Report <- Reports])),
    #{events := [{_, First} | _]} = hd(Of(~"price")),
    ?assertMatch({spawned, _, {'Elixir.RealShop', price, [_]}}, First),
    dyno_peers:stop(Peer).

%% On standard error, before what happens then.
the_command(Config) ->
    File = file(
        "command.dyno",
        "property next of module locks never receive {a, L} then receive {b, L}.",
        Config
    ),
    Target = atom_to_list(?config(target, Config)),
    %% Nothing is seen.
    {1, Output} = dyno_command:run([
        "verify",
        File,
        Target,
        "--cookie",
        atom_to_list(erlang:get_cookie()),
        "--for",
        "1s",
        "-o",
        filename:join(?config(priv_dir, Config), "command.json")
    ]),
    ct:log("~ts", [Output]),
    [
        ?assertMatch({_, _}, binary:match(Output, iolist_to_binary(Text)))
     || Text <- [
            ["dyno: monitoring has begun in ", Target],
            ~"warning: line 1: \"next\": 'never A then B' is broken only if B is the next event"
        ]
    ].

a_monitor_for_the_oldest_release(Config) ->
    Source =
        "-module(dyno_truth_monitor).\n-export([needs/0, init/1, event/3]).\n"
        "needs() -> #{select => [{module, m}], events => [send]}.\n"
        "init(_) -> #{literal => [a, b]}.\nevent(_, _, S) -> {next, S}.\n",
    File = list_to_binary(file("dyno_truth_monitor.erl", Source, Config)),
    {ok, [{_, Beam, _}]} = dyno_verify_monitors:read([File]),
    {ok, _, ForOldest} = dyno_code:compile_file(binary_to_list(File), [r27]),
    Chunks = fun(Of) ->
        {ok, _, All} = beam_lib:all_chunks(Of),
        [Chunk || {Id, _} = Chunk <- All, Id =/= "CInf", Id =/= "Dbgi"]
    end,
    ?assertEqual(Chunks(ForOldest), Chunks(Beam)).

%% The sentence says which release compiled the file, and what to do; here the file asks for an
%% instruction of a release to come.
a_monitor_of_a_later_release(Config) ->
    Source =
        "-module(dyno_truth_later).\n-export([needs/0, init/1, event/3]).\n"
        "needs() -> #{select => [{module, m}], events => [send]}.\n"
        "init(_) -> 0.\nevent(_, _, S) -> {next, S}.\n",
    {ok, Module, Beam} = dyno_code:compile_file(file("dyno_truth_later.erl", Source, Config), []),
    {ok, _, Chunks} = beam_lib:all_chunks(Beam),
    {ok, Later} = beam_lib:build_module([
        case Chunk of
            {"Code", <<Size:32, Set:32, _MaxOpcode:32, Rest/binary>>} ->
                {"Code", <<Size:32, Set:32, 250:32, Rest/binary>>};
            _ ->
                Chunk
        end
     || Chunk <- Chunks
    ]),
    File = file("dyno_truth_later.beam", "", Config),
    ok = file:write_file(File, Later),
    Node = ?config(target, Config),
    {error, Here} = dyno_verify:run([list_to_binary(File)], [Node], #{}),
    {error, There} = dyno_code:send(Node, [{Module, Later, File}]),
    [
        ?assertMatch(
            {match, _},
            re:run(
                unicode:characters_to_binary(dyno_error:format(Error)),
                [
                    "^.*dyno_truth_later.beam was compiled by Erlang/OTP ",
                    erlang:system_info(otp_release),
                    " and cannot be loaded in ",
                    atom_to_list(In),
                    ", .* give its source"
                ]
            )
        )
     || {In, Error} <- [{node(), Here}, {Node, {dyno_code, There}}]
    ],
    ?assertEqual(caller, dyno_error:fault(Here)).

%% What is told while the function runs, and what that returns.
verified(Specification, Config, Run) ->
    Node = ?config(target, Config),
    Name = io_lib:format("~b.dyno", [erlang:unique_integer([positive])]),
    File = file(lists:flatten(Name), Specification, Config),
    Self = self(),
    Show = fun(Event) ->
        _ = Self ! {shown, Event},
        ok
    end,
    {Runner, Ref} = spawn_monitor(fun() ->
        {ok, Document} = dyno_verify:run([list_to_binary(File)], [Node], #{show => Show}),
        Self ! {document, Document}
    end),
    receive
        {shown, {began, [Node]}} -> ok;
        {'DOWN', Ref, process, Runner, Why} -> ct:fail(Why)
    end,
    Result = Run(Node),
    timer:sleep(200),
    Runner ! stop,
    receive
        {document, _} -> ok
    end,
    receive
        {'DOWN', Ref, process, Runner, normal} -> ok
    end,
    {told(verdict), Result}.

told(Kind) ->
    receive
        {shown, {Kind, What}} -> [What | told(Kind)]
    after 0 -> []
    end.

text(Report) -> unicode:characters_to_binary(dyno_verify_text:report(Report)).

file(Name, Text, Config) ->
    File = filename:join(?config(priv_dir, Config), Name),
    ok = file:write_file(File, unicode:characters_to_binary(Text)),
    File.
