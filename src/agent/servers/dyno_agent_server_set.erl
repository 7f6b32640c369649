%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_set).
-moduledoc false.
%% The measured processes: finds new ones, has them measured at the current level, and records how
%% each ended. Nothing here waits for a process: requests are messages, answered when the process
%% has time.
%%
%%   hook   none --> asked --> hooked        sys was asked, has answered
%%                     `--> busy --^         not within two seconds

-export([new/4, select/2, unselect/2, scan/1, scan_due/1, described/3, busiest/1, begun/3]).
-export([answered/3, down/4, woken/2]).
-export([adjust/2, births/2, hooked_again/1, sample_queues/2, next/4, unknown/2, unseen/2]).
-export([to_list/1, is_flagged/1, unselected/1, managers/1, stage_modules/1, running/2, call/3]).
-export_type([t/0]).

-import(dyno_agent_server_process, [is_ended/1, observe/4]).

-opaque t() :: #{
    filter := dyno_agent_process_filter:t(),
    most := pos_integer(),
    shared := dyno_agent_server_hook:shared(),
    flag := fun((pid(), boolean() | gone) -> ok),
    measured := #{pid() => dyno_agent_server_process:t()},
    %% Measured processes that ended in this window.
    ended := non_neg_integer(),
    %% Processes not measured; servers if the busiest are looked for.
    other := #{pid() => none | dyno_agent_process_filter:process()},
    unselected := #{pid() => []},
    %% The number of processes not asked yet, and the processes that have not answered.
    unasked := non_neg_integer(),
    asked := #{pid() => []},
    newest := integer(),
    due := integer(),
    reductions := #{pid() => non_neg_integer()},
    %% Whether the runtime times new processes from their first message on.
    is_flagging := boolean(),
    %% The description of a module's processes that ended before they could be asked.
    templates := #{
        {gen_server | gen_statem, module(), atom()} => dyno_agent_process_filter:process()
    }
}.

-define(ANSWER_NS, 2_000_000_000).
%% Listing all processes takes a hundredth of the time.
-define(SCAN_EVERY, 100).
%% Asking a process for its description takes 3 us.
-define(ASKED_AT_ONCE, 50_000).
-define(DESCRIBED_MS, 200).
%% A flag takes 0.2 ms: the most changed at once.
-define(FLAGS, 100).
%% With fewer callbacks a second, the runtime times a process beside the hook.
-define(SELDOM, 2000).

-spec new([dyno_agent_process_filter:selector()], pos_integer(), Shared, Flag) -> t() when
    Shared :: dyno_agent_server_hook:shared(),
    Flag :: fun((pid(), boolean() | gone) -> ok).
new(Selectors, Most, Shared, Flag) ->
    #{
        filter => dyno_agent_process_filter:add(Selectors, dyno_agent_process_filter:none()),
        most => Most,
        shared => Shared,
        flag => Flag,
        measured => #{},
        ended => 0,
        other => #{},
        unselected => #{},
        unasked => 0,
        asked => #{},
        newest => -1,
        due => erlang:monotonic_time(),
        reductions => #{},
        is_flagging => false,
        templates => #{}
    }.

-doc "The measured processes, without stages that may turn out not to be selected.".
-spec to_list(t()) -> [{pid(), dyno_agent_server_process:t()}].
to_list(#{measured := All, filter := Filter}) ->
    [
        {Pid, One}
     || Pid := #{server := Server, busiest := Busiest} = One <- All,
        Busiest orelse dyno_agent_process_filter:is_surely(Server, Filter)
    ].

-spec unselected(t()) -> non_neg_integer().
unselected(#{unselected := Unselected, unasked := Unasked, asked := Asked}) when
    is_integer(Unasked)
->
    map_size(Unselected) + Unasked + map_size(Asked).

%% Choosing

-spec select([dyno_agent_process_filter:selector()], t()) -> t().
select(More, #{filter := Filter} = Set) ->
    Wider = dyno_agent_process_filter:add(More, Filter),
    scan(Set#{filter := Wider, other := #{}, unselected := #{}}).

-doc "Removes selectors; processes that no other selector matches are released.".
-spec unselect([dyno_agent_process_filter:selector()], t()) -> t().
unselect(Less, #{filter := Filter, measured := All} = Set) ->
    Left = dyno_agent_process_filter:remove(Less, Filter),
    Unmeant = [
        Pid
     || Pid := #{server := Server, busiest := Busiest} <- All,
        not (Busiest andalso dyno_agent_process_filter:busiest(Left) > 0),
        not dyno_agent_process_filter:is_chosen(Server, Left)
    ],
    Smaller = lists:foldl(fun drop/2, Set#{filter := Left}, Unmeant),
    scan(Smaller#{other := #{}, unselected := #{}}).

drop(Pid, #{measured := All, shared := Shared, flag := Flag, ended := Ended} = Set) ->
    {#{monitor := Monitor} = One, Rest} = maps:take(Pid, All),
    true = demonitor(Monitor, [flush]),
    _ = unhooked(Pid, One),
    ok = dyno_agent_server_names:forget(Pid, Shared),
    _ = [ok = Flag(Pid, gone) || not is_ended(One)],
    Set#{measured := Rest, ended := Ended - length([Pid || is_ended(One)])}.

-doc "Scans if processes were started since: 0.6 ms and more, so for a hundredth of the time.".
-spec scan_due(t()) -> t().
scan_due(#{newest := Before} = Set) ->
    case {dyno_agent_process:newest(), unselected(Set)} of
        %% The one new process was started here.
        {{_, Now}, 0} when Now =:= Before + 1 -> known_names(Set#{newest := Now});
        {_, _} -> scan_if_due(erlang:monotonic_time(), Set)
    end.

scan_if_due(Start, #{due := Due} = Set) when Start < Due ->
    known_names(Set);
scan_if_due(Start, Set) ->
    Scanned = scan(Set),
    End = erlang:monotonic_time(),
    Scanned#{due := End + ?SCAN_EVERY * (End - Start)}.

-spec scan(t()) -> t().
scan(Before) ->
    {_, Newest} = dyno_agent_process:newest(),
    Set = Before#{newest := Newest},
    Pids = dyno_agent_process:select(fun dyno_agent_process:is_proc_lib/1),
    #{measured := All, other := Other, asked := Waiting} = Current = current(Pids, Set),
    Known = maps:merge(maps:merge(All, Other), Waiting),
    New = [Pid || Pid <- Pids, not is_map_key(Pid, Known)],
    {Asked, Later} = lists:split(min(?ASKED_AT_ONCE, length(New)), New),
    ok = dyno_agent_process:each_beside(
        Asked, {?MODULE, described}, {fun dyno_agent_process_filter:describe/2, #{}}
    ),
    Scanned = Current#{asked := maps:merge(Waiting, maps:from_keys(Asked, []))},
    Deadline = erlang:monotonic_time(millisecond) + ?DESCRIBED_MS,
    known_names((described_until(Deadline, Scanned))#{unasked := length(Later)}).

described_until(_Deadline, #{asked := Asked} = Set) when map_size(Asked) =:= 0 ->
    Set;
described_until(Deadline, Set) ->
    receive
        {{?MODULE, described}, Pid, Server} ->
            described_until(Deadline, described(Pid, Server, Set))
    after max(0, Deadline - erlang:monotonic_time(millisecond)) -> Set
    end.

-spec described(pid(), dyno_agent_process_filter:process() | gone, t()) -> t().
described(Pid, Server, #{asked := Asked, measured := All} = Before) ->
    Set = Before#{asked := maps:remove(Pid, Asked)},
    case Server of
        gone -> Set;
        _ when is_map_key(Pid, All) -> Set;
        _ -> choose(Pid, Server, {found, now_ns()}, Set)
    end.

%% The hook tells names that `global` or a `via` module has, and the modules of stages.
known_names(#{measured := All, shared := Shared} = Set) ->
    Named =
        #{
            Pid => One#{server := dyno_agent_process_filter:named(Name, Server)}
         || Pid := #{server := #{kind := module} = Server} = One <- All,
            <<Name/binary>> <- [dyno_agent_server_names:name(Pid, Shared)]
        },
    lists:foldl(fun known_stage/2, Set#{measured := maps:merge(All, Named)}, [
        Pid
     || Pid := #{server := Server} <- All, dyno_agent_process_filter:is_unknown_stage(Server)
    ]).

current(Pids, #{other := Other, unselected := Unselected} = Set) ->
    case has_room(Set) of
        %% Processes beyond the limit are new again.
        true when map_size(Unselected) > 0 ->
            Set#{other := maps:without(maps:keys(Unselected), Other), unselected := #{}};
        _ when map_size(Other) > 2 * length(Pids) ->
            Set#{other := maps:with(Pids, Other), unselected := maps:with(Pids, Unselected)};
        _ ->
            Set
    end.

%% Ended processes stay until the window's end, at most as many again.
has_room(#{measured := All, ended := Ended, most := Most}) ->
    map_size(All) - Ended < Most andalso Ended =< Most.

%% A stage names its module with its first callback; until then the stage may be a selected one.
known_stage(Pid, #{measured := All, shared := Shared, filter := Filter} = Set) ->
    case dyno_agent_server_names:peers(Pid, Shared) of
        {_Peers, unknown, unknown} ->
            Set;
        {_Peers, Module, _Kind} ->
            #{Pid := #{busiest := Busiest} = One} = All,
            #{server := Server} = Renamed = dyno_agent_server_process:rename(Module, One),
            Known = Set#{measured := All#{Pid := Renamed}},
            case Busiest orelse dyno_agent_process_filter:is_chosen(Server, Filter) of
                true ->
                    Known;
                false ->
                    #{other := Other} = Without = drop(Pid, Known),
                    Without#{other := Other#{Pid => candidate(Server, Set)}}
            end
    end.

%% A scan met it before it had its name or label. The runtime has timed it from its beginning.
found({Pid, Of, _, _}, #{measured := All, is_flagging := IsFlagging} = Set) when
    is_map_key(Pid, All)
->
    #{Pid := #{from := From, busiest := Busiest} = One} = All,
    Named = named(Of, One),
    case IsFlagging andalso not (Busiest orelse is_ended(Named)) of
        true ->
            Flagged = dyno_agent_server_process:flag(true, From, Named),
            Set#{measured := All#{Pid := Flagged}};
        false ->
            Set#{measured := All#{Pid := Named}}
    end;
found({Pid, Of, At, _InitNs}, #{filter := Filter, is_flagging := IsFlagging} = Set) ->
    Since =
        case IsFlagging of
            true -> {begun, At};
            false -> {found, At}
        end,
    case dyno_agent_process_filter:describe(Pid, #{}) of
        {gone, _} when element(2, Of) =:= supervisor ->
            Set;
        {gone, _} ->
            %% Measured only if the runtime counted its calls.
            #{templates := Templates} = Known = with_template(Of, Set),
            Server = (map_get(Of, Templates))#{pid := Pid},
            case dyno_agent_process_filter:is_chosen(Server, Filter) of
                true -> choose(Pid, Server, Since, Known);
                false -> Known
            end;
        {Server, _} ->
            choose(Pid, with_name(Of, Server), Since, Set)
    end.

%% A process that is ending has lost its registered name.
with_name(Of, #{kind := module, pid := Pid} = Server) ->
    Keys = [registered, label, kind, name],
    maps:merge(Server, maps:with(Keys, dyno_agent_process_filter:ended(Pid, Of)));
with_name(_Of, Server) ->
    Server.

named(Of, #{server := #{kind := module, pid := Pid}} = One) ->
    Server =
        case dyno_agent_process_filter:describe(Pid, #{}) of
            {gone, _} -> dyno_agent_process_filter:ended(Pid, Of);
            {Described, _} -> with_name(Of, Described)
        end,
    dyno_agent_server_process:named(Server, One);
named(_Of, One) ->
    One.

with_template(Of, #{templates := Templates} = Set) when is_map_key(Of, Templates) ->
    Set;
with_template(Of, #{templates := Templates} = Set) ->
    Server = dyno_agent_process_filter:ended(self(), Of),
    Set#{templates := Templates#{Of => Server}}.

choose(Pid, #{behaviour := none}, _Since, #{other := Other} = Set) ->
    Set#{other := Other#{Pid => none}};
choose(Pid, Server, Since, #{filter := Filter, other := Other, unselected := Over} = Set) ->
    case {dyno_agent_process_filter:is_chosen(Server, Filter), has_room(Set)} of
        {true, true} -> measure(Pid, Server, false, Since, Set);
        {true, false} -> Set#{other := Other#{Pid => none}, unselected := Over#{Pid => []}};
        {false, _} -> Set#{other := Other#{Pid => candidate(Server, Set)}}
    end.

candidate(#{system := true}, _Set) ->
    none;
candidate(Server, #{filter := Filter}) ->
    case dyno_agent_process_filter:busiest(Filter) of
        0 -> none;
        _ -> Server
    end.

measure(Pid, Server, Busiest, Since, #{measured := All, other := Other} = Set) ->
    Queue = number(Pid, message_queue_len),
    New = dyno_agent_server_process:new(Server, Queue, Since),
    Set#{measured := All#{Pid => New#{busiest := Busiest}}, other := maps:remove(Pid, Other)}.

-spec busiest(t()) -> t().
busiest(#{filter := Filter} = Set) -> busiest(dyno_agent_process_filter:busiest(Filter), Set).

busiest(0, Set) ->
    Set;
busiest(Count, #{measured := All, other := Other, reductions := Before} = Set) ->
    Busiest = [Pid || Pid := #{busiest := true} <- All],
    Candidates = Busiest ++ [Pid || Pid := #{} <- Other],
    Now = #{Pid => number(Pid, reductions) || Pid <- Candidates},
    Done = lists:sort([{maps:get(Pid, Before, 0) - N, Pid} || Pid := N <- Now]),
    Top = [Pid || {_, Pid} <- lists:sublist(Done, Count)],
    %% Hysteresis: a process near the edge stays.
    Far = lists:nthtail(min(2 * Count, length(Done)), Done),
    Gone = [Pid || {_, Pid} <- Far, is_map_key(Pid, All)],
    Left = lists:foldl(fun drop/2, Set#{reductions := Now}, Gone),
    lists:foldl(
        fun(Pid, Grown) ->
            case {Other, has_room(Grown)} of
                {#{Pid := #{} = Server}, true} ->
                    measure(Pid, Server, true, {found, now_ns()}, Grown);
                _ ->
                    Grown
            end
        end,
        Left,
        Top
    ).

number(Pid, Item) ->
    case process_info(Pid, Item) of
        {Item, Number} -> Number;
        undefined -> 0
    end.

%% Measuring

-spec woken(#{pid() => dyno_agent_server_wakes:woken()}, t()) -> t().
woken(Woken, Set) ->
    maps:fold(
        fun(Pid, Of, Before) ->
            change(Pid, fun(One) -> dyno_agent_server_process:woken(Of, One) end, Before)
        end,
        Set,
        Woken
    ).

-spec adjust(dyno_agent_servers:level(), t()) -> t().
adjust(Level, #{measured := All, shared := Shared, flag := Flag} = Set) ->
    Hooked = maps:map(fun(Pid, One) -> adjust_hook(Pid, One, Level, Shared) end, All),
    Wrong = [
        Pid
     || Pid := #{flagged := Flagged} = One <- Hooked,
        not is_ended(One),
        Flagged =/= is_flag_due(Level, One)
    ],
    Flagged = maps:map(
        fun(Pid, #{flagged := Before} = One) ->
            ok = Flag(Pid, not Before),
            dyno_agent_server_process:flag(not Before, now_ns(), One)
        end,
        maps:with(lists:sublist(Wrong, ?FLAGS), Hooked)
    ),
    Set#{measured := maps:merge(Hooked, Flagged), is_flagging := births(Level, Set) =/= []}.

-doc "The beginning processes that the runtime times at this level.".
-spec births(dyno_agent_servers:level(), t()) -> [{gen_server | gen_statem, [term()]}].
births(rate, _Set) -> [];
births(_Level, #{filter := Filter}) -> dyno_agent_process_filter:births(Filter).

-spec is_flagged(t()) -> boolean().
is_flagged(#{measured := All}) -> lists:any(fun(#{flagged := Is}) -> Is end, maps:values(All)).

change(Pid, Change, #{measured := All} = Set) ->
    case All of
        #{Pid := One} -> Set#{measured := All#{Pid := Change(One)}};
        #{} -> Set
    end.

adjust_hook(Pid, #{hook := Hook} = One, Level, Shared) ->
    case {Hook, is_hook_due(Level, One)} of
        {none, true} ->
            ask(Pid, One, Shared);
        {hooked, false} ->
            unhooked(Pid, One);
        {Awaited, _} when Awaited =:= asked; Awaited =:= busy ->
            awaited(One, Shared);
        _ ->
            One
    end.

%% The hook counts from its first message on, also if the answer of sys comes late.
awaited(#{hook := Hook, since := Asked, from := From, counters := Counters} = One, Shared) ->
    case dyno_agent_server_counters:time(Counters, first) of
        none when Hook =:= asked ->
            case now_ns() - Asked > ?ANSWER_NS of
                true -> dyno_agent_server_process:hook(busy, now_ns(), One);
                false -> One
            end;
        none ->
            One;
        First ->
            dyno_agent_server_process:hook(hooked, max(From, map_get(clock, Shared) + First), One)
    end.

is_hook_due(Level, #{server := #{behaviour := Behaviour}} = One) ->
    (Level =:= distribution orelse Level =:= each) andalso Behaviour =/= gen_event andalso
        not is_ended(One).

is_flag_due(rate, _One) -> false;
is_flag_due(time, _One) -> true;
is_flag_due(_Level, #{hook := hooked, rate := Rate}) -> Rate < ?SELDOM;
is_flag_due(_Level, _NoHook) -> true.

%% The answer comes with the next system message. A hook put back goes on with its counters.
ask(Pid, #{counters := Before} = One, Shared) ->
    Counters =
        case Before of
            none -> dyno_agent_server_counters:new();
            _ -> Before
        end,
    Until =
        case dyno_agent_server_counters:time(Before, gone) of
            none -> now_ns();
            Gone -> map_get(clock, Shared) + Gone
        end,
    ok = dyno_agent_server_counters:hook_begins(Counters),
    Debug = dyno_agent_server_hook:debug(Pid, Counters, Shared),
    ok = dyno_agent_server_names:hooks(Pid, Counters, Shared),
    _ = Pid ! {system, {self(), {?MODULE, Pid, hooked}}, {debug, {install, Debug}}},
    Asked = One#{counters := Counters, since := now_ns(), silent := false},
    dyno_agent_server_process:hook(asked, Until, Asked).

unhooked(Pid, #{hook := hooked} = One) ->
    Remove = {debug, {remove, dyno_agent_server_hook:id()}},
    _ = Pid ! {system, {self(), {?MODULE, Pid, none}}, Remove},
    dyno_agent_server_process:hook(none, now_ns(), One);
unhooked(_Pid, One) ->
    One.

-spec answered(pid(), hooked | none, t()) -> t().
answered(Pid, hooked, #{measured := All, shared := Shared} = Set) ->
    case All of
        #{Pid := #{hook := Before, state := alive} = One} when Before =/= none ->
            Hooked = dyno_agent_server_process:hook(hooked, now_ns(), awaited(One, Shared)),
            Set#{measured := All#{Pid := Hooked}};
        #{} ->
            Set
    end;
answered(_Pid, none, Set) ->
    Set.

-doc """
Puts hooks back that ended by themselves, because their deadline was not renewed for seconds, and
hooks that sys or another user removed: calls went on there and the hook counted none.
""".
-spec hooked_again(t()) -> t().
hooked_again(#{measured := All, shared := Shared} = Set) ->
    Lost = [
        Pid
     || Pid := #{hook := hooked, silent := Silent, counters := Counters} = One <- All,
        not is_ended(One),
        Silent orelse dyno_agent_server_counters:time(Counters, gone) =/= none
    ],
    Again = maps:map(fun(Pid, One) -> ask(Pid, One, Shared) end, maps:with(Lost, All)),
    Set#{measured := maps:merge(All, Again)}.

-spec managers(t()) -> [pid()].
managers(#{measured := All}) ->
    [Pid || Pid := #{server := #{behaviour := gen_event}} = One <- All, not is_ended(One)].

-spec stage_modules(t()) -> [module()].
stage_modules(#{measured := All}) ->
    lists:usort([Of || _ := #{server := #{behaviour := gen_stage, module := Of}} <- All]).

-doc "Samples the queue lengths of all processes, or of those without a hook.".
-spec sample_queues(all | unhooked, t()) -> t().
sample_queues(Which, #{measured := All} = Set) ->
    Set#{measured := maps:map(fun(Pid, One) -> sample_queue(Which, Pid, One) end, All)}.

sample_queue(Which, Pid, #{hook := Hook} = One) ->
    case is_ended(One) orelse {Which, Hook} =:= {unhooked, hooked} of
        true -> One;
        false -> dyno_agent_server_process:queue(queue(number(Pid, message_queue_len), Hook), One)
    end.

%% The request to sys is not the server's.
queue(Length, Hook) when Hook =:= asked; Hook =:= busy -> max(0, Length - 1);
queue(Length, _Hook) -> Length.

%% Beginnings and ends

-doc "A process serves: measured from its first message on. Counts init, also for the supervisor.".
-spec begun(dyno_agent_server_life:birth(), dyno_agent_servers:level(), t()) -> t().
begun({Pid, {Behaviour, Module, {named, Name}}, At, InitNs}, Level, Before) ->
    Set = begun({Pid, {Behaviour, Module, undefined}, At, InitNs}, Level, Before),
    #{measured := All, shared := #{names := Table}} = Set,
    _ = [ok = dyno_agent_server_names:name(Pid, Name, Table) || is_map_key(Pid, All)],
    Set;
begun({Pid, _, _, InitNs} = Birth, Level, #{shared := Shared} = Before) ->
    Set = took(InitNs, Pid, found(Birth, Before)),
    change(Pid, fun(One) -> adjust_hook(Pid, One, Level, Shared) end, Set).

took(unknown, _Pid, Set) ->
    Set;
took(InitNs, Pid, #{measured := All} = Set) ->
    Supervisor =
        case All of
            #{Pid := #{server := #{ancestors := [Name | _]}}} when is_atom(Name) -> whereis(Name);
            #{Pid := #{server := #{ancestors := [Of | _]}}} -> Of;
            #{} -> none
        end,
    Took = fun(What) -> fun(One) -> observe(What, returned, InitNs, One) end end,
    change(Supervisor, Took(~"start child"), change(Pid, Took(~"init"), Set)).

-spec unknown(dyno_agent_server_breakpoints:times(), t()) -> dyno_agent_server_breakpoints:times().
unknown(Times, #{measured := All, other := Other, unselected := Unselected}) ->
    maps:filter(
        fun(Pid, _) ->
            not is_map_key(Pid, All) andalso
                (is_map_key(Pid, Unselected) orelse not is_map_key(Pid, Other))
        end,
        Times
    ).

-doc "Ended processes that are in no row, and their calls.".
-spec unseen(dyno_agent_server_breakpoints:times(), t()) ->
    #{processes := non_neg_integer(), calls := non_neg_integer()}.
unseen(Times, Set) ->
    Ended = maps:filter(fun(Pid, _) -> not is_process_alive(Pid) end, unknown(Times, Set)),
    Calls = [Count || Of <- maps:values(Ended), {Count, _, _} <- maps:values(Of)],
    #{processes => map_size(Ended), calls => lists:sum(Calls)}.

%% A process may have ended in a callback, and its message waits meanwhile: the runtime knows.
-spec running(pid(), t()) -> dyno_agent_servers:running() | none.
running(Pid, #{measured := All, shared := #{clock := Clock} = Shared}) ->
    #{Pid := #{counters := Counters, hook := Hook} = One} = All,
    IsSeen = not is_ended(One) andalso Hook =/= none,
    case IsSeen andalso dyno_agent_server_counters:under_way(Counters) of
        {begun, Since, Series} ->
            Running = #{
                callback => dyno_agent_server_end:name(Pid, Series, Shared),
                ns => max(0, now_ns() - Clock - Since)
            },
            case process_info(Pid, message_queue_len) of
                {_, _} -> Running;
                undefined -> none
            end;
        _ ->
            none
    end.

-spec call(pid(), dyno_agent_server_counters:series(), t()) ->
    [#{pid := pid(), name := binary(), module := module(), callback := binary(), tag := binary()}].
call(Pid, Series, #{measured := All, shared := Shared}) ->
    [
        (maps:with([pid, name, module], Server))#{
            callback => dyno_agent_server_process:callback_name(Callback),
            tag => atom_to_binary(Kind)
        }
     || #{Pid := #{server := Server}} <- [All],
        #{Series := {Callback, Kind}} <- [dyno_agent_server_names:names(Pid, Shared)]
    ].

-spec down(pid(), reference(), {Reason, dyno_agent_server_life:ending() | none}, t()) -> t() when
    Reason :: term().
down(Pid, Monitor, {Reason, Ending}, #{measured := All, ended := Ended, shared := Shared} = Set) ->
    case All of
        #{Pid := #{monitor := Monitor} = One} ->
            Last = dyno_agent_server_end:ended(Reason, Ending, One, Shared),
            Set#{measured := All#{Pid := Last}, ended := Ended + 1};
        #{} ->
            Set
    end.

-doc """
Begins a window; takes callbacks a second, run times of current callbacks, its time, and the
processes with silent hooks. Ended processes are removed.
""".
-spec next(#{pid() => number()}, #{pid() => non_neg_integer()}, {integer(), [pid()]}, t()) -> t().
next(Rates, Running, {Now, Silent}, #{measured := All, shared := Shared} = Set) ->
    Ended = [Pid || Pid := One <- All, is_ended(One)],
    lists:foreach(fun(Pid) -> dyno_agent_server_names:forget(Pid, Shared) end, Ended),
    Left =
        #{
            Pid => dyno_agent_server_process:next(
                maps:get(Pid, Rates, 0), maps:get(Pid, Running, 0), Now, One
            )
         || Pid := One <- maps:without(Ended, All)
        },
    Of = maps:map(fun(_, One) -> One#{silent := true} end, maps:with(Silent, Left)),
    Set#{ended := 0, measured := maps:merge(Left, Of)}.

now_ns() -> erlang:monotonic_time(nanosecond).
