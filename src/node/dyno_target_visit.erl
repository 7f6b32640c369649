%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_target_visit).
-moduledoc false.
%% The cost of the agent's visit to a node, and its remains: measured by `dyno_agent`, and recorded
%% with the run. The cost is at most the node's processor time while dyno attached, started its
%% instruments, and left, since it includes the node's own work.

%% Measuring
-export([meter/0, metered/3, idle/2, ended/4]).
%% Recording
-export([parts/1, known/0, texts/1]).
-export_type([t/0, meter/0]).

-type t() :: #{
    node := node(),
    leaving_ms := non_neg_integer(),
    %% Of both.
    cpu_ms := dyno_target_cleaner:cpu_ms(),
    left := non_neg_integer() | unknown,
    %% Whether they stayed because a process runs them.
    inside := boolean(),
    %% Whether the node was still connected.
    is_here := boolean()
}.

-opaque meter() :: counters:counters_ref().

-define(CPU, 1).
-define(UNKNOWN, 2).

-spec meter() -> meter().
meter() -> counters:new(2, []).

-spec metered(dyno_target_cleaner:cleaner(), meter(), fun(() -> Result)) -> Result.
metered(Cleaner, Meter, Fun) ->
    Before = dyno_target_cleaner:cpu_ms(Cleaner),
    Result = Fun(),
    case {Before, dyno_target_cleaner:cpu_ms(Cleaner)} of
        {Ms, Now} when is_integer(Ms), is_integer(Now) -> ok = counters:add(Meter, ?CPU, Now - Ms);
        _ -> ok = counters:add(Meter, ?UNKNOWN, 1)
    end,
    Result.

-spec idle(node(), meter()) -> t().
idle(Node, Meter) ->
    ended(Node, Meter, 0, {ok, #{modules => [], cpu_ms => 0, inside => false}}).

-spec ended(
    node(), meter(), LeavingMs :: non_neg_integer(), {ok, dyno_target_cleaner:left()} | {error, _}
) -> t().
ended(Node, Meter, LeavingMs, Answer) ->
    {Left, CpuMs, IsInside} =
        case Answer of
            {ok, #{modules := Modules, cpu_ms := Ms, inside := Is}} -> {length(Modules), Ms, Is};
            {error, _} -> {unknown, unknown, false}
        end,
    #{
        node => Node,
        leaving_ms => LeavingMs,
        cpu_ms => sum(CpuMs, counters:get(Meter, ?CPU), counters:get(Meter, ?UNKNOWN)),
        left => Left,
        inside => IsInside,
        is_here => dyno_target_silence:is_connected(Node)
    }.

sum(CpuMs, Arriving, 0) when is_integer(CpuMs) -> CpuMs + Arriving;
sum(_CpuMs, _Arriving, _Unknown) -> unknown.

-doc "The visits' total cost, and a warning for each node that keeps modules, as parts of a run.".
-spec parts([t()]) -> #{metrics := [map()], warnings := [{binary(), binary()}]}.
parts(Visits) ->
    Costs = [Ms || #{cpu_ms := Ms} <- Visits],
    #{
        metrics => [
            dyno_recording_part:metric(
                Name, Title, lists:sum(Costs) * 1_000_000, Unit, length(Costs), Group
            )
         || Costs =/= [],
            lists:all(fun is_integer/1, Costs),
            #{name := Name, title := Title, unit := Unit, group := Group} <- known()
        ],
        warnings => [{~"modules_left", Text} || Visit <- Visits, Text <- texts(Visit)]
    }.

-spec known() -> [#{name | title | unit | group := binary()}].
known() ->
    [
        #{
            name => ~"instrument.visit",
            title => ~"Processor time for attaching and leaving, at most",
            unit => ~"ns",
            group => ~"instrument"
        }
    ].

-spec texts(t() | #{}) -> [binary()].
%% An ended node keeps nothing, and its loss is reported.
texts(#{node := Node, left := unknown, is_here := true}) ->
    [
        dyno_recording_part:text(
            "~ts did not answer as dyno left; the agent ends by itself. Modules may have stayed "
            "there: dyno leave ~ts removes them",
            [Node, Node]
        )
    ];
texts(#{node := Node, left := Left, inside := true}) when is_integer(Left), Left > 0 ->
    [
        dyno_recording_part:text(
            "left ~b modules in ~ts, because a process is still in a monitor that is woven into "
            "it, and removing them would kill it; dyno leave ~ts removes them when it has returned",
            [Left, Node, Node]
        )
    ];
texts(#{node := Node, left := Left}) when is_integer(Left), Left > 0 ->
    [
        dyno_recording_part:text(
            "left ~b modules in ~ts, because removing them would cost it too much; nothing runs "
            "there, and the next dyno uses them again. dyno leave ~ts removes them",
            [Left, Node, Node]
        )
    ];
texts(_Visit) ->
    [].
