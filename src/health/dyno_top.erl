%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_top).
-moduledoc """
Observes running nodes next to other measurements: attaches `m:dyno_agent_top`, takes readings,
leaves.

A node that is lost or does not answer is reported, and attached again. In a node of at most 20,000
processes `m:dyno_agent_look` looks as in `dyno doctor`. The owner gets
`{findings, Node, {Findings, Share}}` after five seconds and then every ten, the worst finding
first; the share is what looking took of a scheduler.
""".

-export([once/2, as_json/2, cost/2, is_examined/1]).
-export([open/2, nodes/1, reading/3, detail/3, state/3, close/1]).
-export_type([looking/0]).

-opaque looking() :: #{
    connection := #{name => atom(), cookie => atom()},
    targets := #{node() => dyno_target:t() | {lost, dyno_error:error()}}
}.

%% A saturated node answers late.
-define(ANSWER_MS, 10_000).
-define(ONCE_MS, 1000).
-define(LOOK_MS, 2500).
%% More processes would make a look cost more than 2 % of a scheduler.
-define(MOST_PROCESSES, 20_000).
%% From here on looks are half as frequent.
-define(MANY_PROCESSES, 5000).

-doc "One reading of a second, as data.".
-spec once(node(), #{name => atom(), cookie => atom()}) -> dyno_error:result(#{binary() => term()}).
once(Node, Connection) ->
    Ask = #{view => processes, sort => reductions, most => 60, filter => ~""},
    maybe
        {ok, Looking} ?= open([Node], Connection),
        timer:sleep(?ONCE_MS),
        {Reading, Last} = reading(Node, Ask, Looking),
        _ = close(Last),
        case Reading of
            {lost, _} -> {error, {dyno_agent, {node_down, Node}}};
            #{} -> {ok, as_json(Node, Reading)}
        end
    end.

-doc "A node's reading in the form of `--format json`.".
-spec as_json(node(), dyno_agent_top:reading() | {lost, unicode:chardata()}) ->
    #{binary() => term()}.
as_json(Node, {lost, Why}) ->
    #{~"name" => atom_to_binary(Node), ~"error" => unicode:characters_to_binary(Why)};
as_json(Node, #{rows := Rows, groups := Groups, limits := Limits, facts := Facts} = Reading) ->
    Same = maps:with([interval_ns, values, processes, view, count, notes], Reading),
    plain_row(Same#{
        name => Node,
        at_ms => map_get(time_ms, Facts),
        otp => map_get(release, Facts),
        limits =>
            #{
                atom_to_binary(Name) => #{~"used" => Used, ~"limit" => Limit}
             || Name := {Used, Limit} <- Limits
            },
        share_read => map_get(share, Reading),
        top => [plain_row(Row) || Row <- Rows],
        groups => [plain_row(Group) || Group <- Groups]
    }).

-doc """
The share of one scheduler that looking takes: a reading, and the looks for findings. On a busy
machine the schedulers wait for a processor in a part of their working time, which does not count.
""".
-spec cost(dyno_agent_top:reading(), float()) -> float().
cost(#{took_us := Us, interval_ns := Ns, threads := Threads}, Looks) ->
    Ran =
        case Threads of
            #{normal := #{cpu_ns := Cpu, ready_ns := Ready}} when Cpu > 0 -> Cpu / (Cpu + Ready);
            #{} -> 1.0
        end,
    Ran * (Us * 1000 / Ns + Looks).

-doc "Whether there are looks for findings in a node with so many processes.".
-spec is_examined(non_neg_integer()) -> boolean().
is_examined(Processes) -> Processes =< ?MOST_PROCESSES.

plain_row(Row) ->
    #{
        atom_to_binary(Key) =>
            case Value of
                unknown -> null;
                _ when is_pid(Value) -> list_to_binary(pid_to_list(Value));
                _ when is_atom(Value) -> atom_to_binary(Value);
                _ -> Value
            end
     || Key := Value <- Row
    }.

-doc "Attaches to all nodes; returns the first error.".
-spec open([node(), ...], #{name => atom(), cookie => atom()}) -> dyno_error:result(looking()).
open(Nodes, Connection) ->
    maybe
        ok ?= dyno_target_node:ensure_distribution(Connection#{targets => Nodes}),
        {ok, Targets} ?= dyno_target:all(Nodes, fun(Node) -> attached(Node, Connection) end),
        {ok, #{
            connection => Connection,
            targets => #{Node => Target || #{node := Node} = Target <- Targets}
        }}
    end.

attached(Node, Connection) ->
    Modules = dyno_code:closure([dyno_agent_guard, dyno_agent_look, dyno_agent_top]),
    Options = Connection#{modules => Modules, beside => true},
    dyno_target:hold(Node, Options, fun(#{agent := Agent} = Bare) ->
        maybe
            {ok, Pid} ?= dyno_agent:start(Agent, dyno_agent_top, #{}),
            ok ?= examined(Agent),
            {ok, Bare#{top => Pid}}
        end
    end).

examined(Agent) ->
    Count = dyno_agent:processes(Agent),
    case is_examined(Count) of
        true ->
            IntervalMs =
                if
                    Count > ?MANY_PROCESSES -> 2 * ?LOOK_MS;
                    true -> ?LOOK_MS
                end,
            maybe
                {ok, Look} ?=
                    dyno_agent:start(Agent, dyno_agent_look, #{interval_ms => IntervalMs}),
                Opener = self(),
                _ = spawn(fun() ->
                    _ = monitor(process, Opener),
                    _ = monitor(process, Look),
                    examine(dyno_agent:node(Agent), Look, Opener, {2 * IntervalMs, 4 * IntervalMs})
                end),
                ok
            end;
        false ->
            ok
    end.

examine(Node, Look, Opener, {AfterMs, NextMs}) ->
    ok = dyno_agent_instrument:restart(Look),
    receive
        {'DOWN', _, process, _, _} -> ok
    after AfterMs ->
        #{looks := Looks, worked_us := WorkedUs} = dyno_agent_instrument:read(Look),
        Name = atom_to_binary(Node),
        Outcomes = dyno_health:examined(Name, [dyno_recording:document(L) || L <- Looks]),
        Found = dyno_finding:ranked(lists:append([F || {_, F} <- Outcomes, is_list(F)])),
        Opener ! {findings, Node, {Found, WorkedUs / (1000 * AfterMs)}},
        examine(Node, Look, Opener, {NextMs, NextMs})
    end.

-doc "The nodes, unordered.".
-spec nodes(looking()) -> [node()].
nodes(#{targets := Targets}) -> maps:keys(Targets).

-doc "A node's next reading, or why there is none.".
-spec reading(node(), dyno_agent_top:ask(), looking()) ->
    {dyno_agent_top:reading() | {lost, unicode:chardata()}, looking()}.
reading(Node, Ask, #{targets := Targets, connection := Connection} = Looking) ->
    case maps:get(Node, Targets) of
        {lost, _} ->
            case attached(Node, Connection) of
                {ok, Again} -> reading(Node, Ask, Looking#{targets := Targets#{Node := Again}});
                {error, Error} -> lost(Node, Error, Looking)
            end;
        #{top := Pid} ->
            case dyno_agent_top:take(Pid, Ask, ?ANSWER_MS) of
                {ok, Reading} -> {Reading, Looking};
                {error, timeout} -> {{lost, "does not answer within 10 s"}, Looking};
                {error, gone} -> lost(Node, {dyno_agent, {node_down, Node}}, Looking)
            end
    end.

lost(Node, Error, #{targets := Targets} = Looking) ->
    {{lost, dyno_error:format(Error)}, Looking#{targets := Targets#{Node := {lost, Error}}}}.

-doc "All details of a node's process.".
-spec detail(node(), pid(), looking()) -> #{atom() => term()}.
detail(Node, Pid, #{targets := Targets}) ->
    case Targets of
        #{Node := #{top := Top}} ->
            case dyno_agent_top:detail(Top, Pid) of
                {ok, Detail} -> Detail;
                {error, _} -> #{answered => false}
            end;
        #{} ->
            #{answered => false}
    end.

-doc "The state of a server, in print, or why it is not known.".
-spec state(node(), pid(), looking()) -> dyno_agent_top_process:state().
state(Node, Pid, #{targets := Targets}) ->
    maybe
        #{Node := #{top := Top}} ?= Targets,
        {ok, State} ?= dyno_agent_top:state(Top, Pid),
        State
    else
        _ -> {error, ~"the node does not answer"}
    end.

-doc "Leaves all nodes; returns sentences about remains.".
-spec close(looking()) -> [unicode:chardata()].
close(#{targets := Targets}) ->
    Here = [Target || #{} = Target <- maps:values(Targets)],
    lists:append([dyno_target_visit:texts(Visit) || Visit <- dyno_target:leave(Here)]).
