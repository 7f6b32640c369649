%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_parts).
-moduledoc false.
%% Records a window of servers in a test: tables of servers and callbacks, histograms, and warnings
%% if something could not be measured. Servers of one name and module are one row. Pure; caller's
%% side only.

-export([tables/0, metrics/0, histograms/0, warnings/2]).
-export([waited/2, waited_columns/4, is_biased/2, ranks/3, is_near/2, untimed_ns/1]).
-export_type([waited/0]).

-type window() :: dyno_agent_servers:window().
-type row() :: #{atom() => term()}.

-doc "The delay of messages and its bounds; `undefined` if unknown.".
-type waited() :: {
    Ns :: non_neg_integer() | undefined,
    LowNs :: non_neg_integer() | undefined,
    HighNs :: non_neg_integer() | undefined
}.

-type delays() :: none | #{buckets := buckets(), _ => _}.
-type buckets() :: [{non_neg_integer(), pos_integer()}].

-define(MOST_HISTOGRAMS, 50).
%% If counted for less of its life, a server is known in part.
-define(WHOLE, 0.99).
%% The rest stands for all if no more are missing, and a quantile is told if its bounds are as near.
-define(FEW, 0.1).
%% More callbacks a second, of a server with a hook, are not timed (half of the agent's limit).
-define(OFTEN, 1000).
%% Below this, waking a process may be more than a tenth; and medians of those that were traced were
%% 0.78 to 1.11 times the true ones, so only bounds are told.
-define(LEAST_NS, 500_000).
%% A delay is unknown if its upper bound is more times the lower one.
-define(NEAR, 1.25).
%% Tracing keeps schedulers awake, and what is taken out for that is of another server.
-define(WOKEN_ERROR, 1.3).
%% Fewer say nothing of how many there are.
-define(FEW_TRACED, 4).

-spec tables() -> [dyno_agent_instrument:table()].
tables() ->
    Busy = ~"The share of the time in callbacks; the sum of several processes.",
    [
        #{
            name => ~"servers",
            title => ~"Servers",
            items => fun(Window) -> some(servers(Window)) end,
            columns => [
                {~"server", ~"Server", string, key, name},
                {~"module", ~"Module", string, key, module},
                {~"processes", ~"Processes", count, processes},
                at_least(~"processes", count, processes, unseen),
                {~"served", ~"Messages", count, served},
                at_least(~"served", count, served, in_part),
                {~"busy", ~"Busy", {number, ~"ratio"}, [lower, Busy], busy},
                at_least(~"busy", {number, ~"ratio"}, busy, busy_in_part),
                {~"cpu", ~"On the processor", ns, lower, cpu_ns},
                at_least(~"cpu", ns, cpu_ns, cpu_in_part),
                {~"cpu_high", ~"At most", ns, [optional, {high, ~"cpu"}], cpu_high}
            ] ++ waited_columns(~"delay_p50", ~"Waited p50", delay_p50, []) ++
                waited_columns(~"delay_p90", ~"Waited p90", delay_p90, []) ++
                waited_columns(~"delay", ~"Waited p99", delay, lower) ++
                [
                    {~"queue_max", ~"Longest queue", count, lower, queue_max},
                    {~"crashes", ~"Crashes", count, lower, crashes},
                    at_least(~"crashes", count, crashes, unasked)
                ],
            sort => {~"busy", descending}
        },
        #{
            name => ~"callbacks",
            title => ~"Callbacks of servers",
            items => fun(Window) -> some(callbacks(Window)) end,
            columns => [
                {~"server", ~"Server", string, key, name},
                {~"callback", ~"Callback", string, key, callback},
                {~"calls", ~"Calls", count, count},
                at_least(~"calls", count, count, in_part),
                {~"exceptions", ~"Exceptions", count, lower, exceptions},
                {~"time", ~"Time", ns, lower, sum_ns},
                at_least(~"time", ns, sum_ns, untimed),
                {~"p50", ~"p50", ns, lower, p50},
                {~"p99", ~"p99", ns, lower, p99}
            ],
            sort => {~"time", descending}
        }
    ].

%% Of a value counted part of the time (`in_part`), or partly timed (`untimed`), the lower bound.
at_least(Name, Kind, Key, If) ->
    {<<Name/binary, "_low">>, ~"At least", Kind, [optional, {low, Name}], fun
        (#{If := true, Key := Value}) -> Value;
        (_) -> undefined
    end}.

some([]) -> none;
some(Rows) -> Rows.

servers(#{servers := Servers, duration_ns := DurationNs} = Window) ->
    IsUnseen = unseen(Window) > 0,
    [
        #{
            name => Name,
            module => dyno_agent_name:module(Module),
            processes => at_once(Of),
            unseen => IsUnseen,
            in_part => InPart,
            cpu_in_part => InPart orelse lists:sum([untimed_ns(One) || One <- Of]) > 0,
            %% One process at a time is busy all of the time, and no more.
            busy_in_part =>
                is_number(Busy) andalso Busy < at_once(Of) andalso
                    (InPart orelse sum(missed, Of) > 0 orelse lists:any(fun is_untimed/1, Of)),
            served => sum(served, Of),
            busy => Busy,
            cpu_ns => known_cpu(Of),
            cpu_high => high_cpu(Of),
            delay_p50 => waited(0.5, Waited),
            delay_p90 => waited(0.9, Waited),
            delay => waited(0.99, Waited),
            queue_max => lists:max([Max || #{queue_max := Max} <- Of]),
            crashes => length([crashed || #{state := crashed} <- Of]),
            unasked => IsUnseen orelse [unknown || #{state := unknown} <- Of] =/= []
        }
     || {Name, Module} := Of <- by([name, module], Servers),
        InPart <- [IsUnseen orelse lists:any(fun is_in_part/1, Of)],
        Busy <- [share([Ns || #{busy_ns := Ns} <- Of, is_integer(Ns)], DurationNs)],
        Waited <- [
            #{
                delay => joined(delay, Of),
                delay_low => joined(delay_low, Of),
                delay_high => joined(delay_high, Of),
                woken => joined(woken, Of),
                woken_of => sum(woken_of, Of),
                woken_high => joined(woken_high, Of),
                missed => sum(delay_missed, Of) + may_miss(Of, Window)
            }
        ]
    ].

%% A call in a dirty scheduler may wait for the system.
known_cpu(Of) -> hd([sum(cpu_ns, Of) || sum(dirty, Of) =< 1] ++ [undefined]).

high_cpu(Of) -> hd([sum(cpu_ns, Of) || sum(dirty, Of) > 1] ++ [undefined]).

-spec waited_columns(binary(), binary(), atom(), dyno_recording_table:properties()) ->
    [dyno_recording_table:column()].
waited_columns(Name, Title, Key, Properties) ->
    Help = ~"From a message's arrival to its callback.",
    Low = <<Name/binary, "_low">>,
    High = <<Name/binary, "_high">>,
    [
        {Name, Title, ns, [Properties, Help], [Key, 1]},
        {Low, <<Title/binary, ", at least">>, ns, [optional, {low, Name}], [Key, 2]},
        {High, <<Title/binary, ", at most">>, ns, [optional, {high, Name}], [Key, 3]}
    ].

-doc """
The delay that this share of the messages did not exceed, with bounds, if these are near each other.
A missed message may have waited for any time.
""".
-spec waited(float(), #{
    delay := delays(),
    delay_low := delays(),
    delay_high := delays(),
    woken => delays(),
    woken_of => non_neg_integer(),
    woken_high => delays(),
    missed := non_neg_integer(),
    _ => _
}) -> waited().
waited(_Share, #{delay := Delay}) when Delay =:= none; map_get(buckets, Delay) =:= [] ->
    {undefined, undefined, undefined};
waited(Share, #{delay_high := Known, missed := Missed} = Sum) ->
    {Least, Middle, Most, Scale, Off, Error} = with_woken(Sum),
    Seen = sum_of(Middle),
    Before = Scale * Missed,
    Rank = max(1, ceil(Share * (Seen + Before))),
    Ns = value(max(1, ceil(Share * Seen)), Middle),
    OffBy = Off(Ns),
    LowNs = round(value(max(1, Rank - Before - OffBy), Least) / Error(Ns)),
    KnownNs = most(ceil(Rank / Scale), Seen div Scale, Known),
    %% An atom is more than any number.
    case times_at_most(Error(Ns), min(KnownNs, most(Rank + OffBy, Seen, Most))) of
        HighNs when is_integer(HighNs), LowNs >= ?LEAST_NS, HighNs =< ?NEAR * LowNs ->
            {max(LowNs, min(Ns, HighNs)), LowNs, HighNs};
        HighNs ->
            {undefined, LowNs, HighNs}
    end.

times_at_most(Factor, Ns) when is_integer(Ns) -> round(Factor * Ns);
times_at_most(_Factor, undefined) -> undefined.

%% Messages that found the server idle waited like those of them that were traced: counted in
%% numbers `Scale` times as large, and by two standard deviations of the share below a value more or
%% less. If fewer than four were above a value, or below, the share is as if there were four: the
%% longest of 100 traced says little about the p99. None waited longer than the looks allow.
with_woken(#{woken := #{buckets := [_ | _] = Woken}, woken_high := #{buckets := High}} = Sum) ->
    #{delay := #{buckets := [{Zero, _} | _] = Middle}, woken_of := Of} = Sum,
    #{delay_low := Low, delay_high := #{buckets := Most}} = Sum,
    Traced = sum_of(Woken),
    Idle = sum_of(High),
    case is_biased(Of, Of - Traced) orelse Zero > 0 orelse Traced < 2 of
        true ->
            without_woken(Sum);
        false ->
            With = fun(Buckets) ->
                dyno_agent_server_process:merge_buckets(
                    times(Traced, Buckets), times(Idle, Woken)
                )
            end,
            {Longest, _} = lists:last(Woken),
            Off = fun(Ns) ->
                Index = dyno_agent_server_counters:index(Ns),
                Below = sum_of([B || {I, _} = B <- Woken, I =< Index]),
                Few = min(?FEW_TRACED, Traced / 2),
                Share = min(Traced - Few, max(Few, Below)) / Traced,
                Above = sum_of([B || {I, _} = B <- High, I >= Index]),
                min(Above * Traced, ceil(2 * math:sqrt(Share * (1 - Share) * Traced) * Idle))
            end,
            Error = fun(Ns) ->
                case dyno_agent_server_counters:index(Ns) =< Longest of
                    true -> ?WOKEN_ERROR;
                    false -> 1
                end
            end,
            [Least, Between] = [
                With(minus(Buckets, [{0, Idle}]))
             || Buckets <- [merged([Low]), Middle]
            ],
            {Least, Between, #{buckets => With(minus(Most, High))}, Traced, Off, Error}
    end;
with_woken(Sum) ->
    without_woken(Sum).

without_woken(#{delay := #{buckets := Middle}, delay_low := Low, delay_high := Most}) ->
    {merged([Low]), Middle, Most, 1, fun(_) -> 0 end, fun(_) -> 1 end}.

times(N, Buckets) -> [{Index, N * Count} || {Index, Count} <- Buckets].

minus(Buckets, Less) ->
    Counts = maps:from_list(Less),
    [
        {Index, Left}
     || {Index, Count} <- Buckets, Left <- [Count - maps:get(Index, Counts, 0)], Left > 0
    ].

%% A message may have been counted between the readings of the two histograms.
most(Rank, Seen, #{buckets := [_ | _] = Most}) when Rank =< Seen ->
    Index = at(min(Rank, sum_of(Most)), Most),
    case Index =:= dyno_agent_server_counters:index(1 bsl 62) of
        true -> undefined;
        false -> middle(Index)
    end;
most(_Rank, _Seen, _Missed) ->
    undefined.

unseen(Window) -> maps:get(calls, maps:get(unseen, Window, #{}), 0).

%% A process that lives on is not one of the unseen ones.
may_miss([#{state := alive}], _Window) -> 0;
may_miss(_Of, Window) -> unseen(Window).

-doc "Whether too many are missing, of processes that ended: the quickest lives are missed.".
-spec is_biased(All :: non_neg_integer(), Missing :: non_neg_integer()) -> boolean().
is_biased(All, Missing) -> Missing > ?FEW * All.

-doc "The ranks of a quantile in some values if all the missing ones are less, or more.".
-spec ranks(Share :: float(), Count :: pos_integer(), Missing :: non_neg_integer()) ->
    {pos_integer(), pos_integer()}.
ranks(Share, Count, Missing) ->
    Rank = max(1, ceil(Share * (Count + Missing))),
    {max(1, Rank - Missing), Rank}.

-doc "Whether the values at two ranks are nearly equal. The second one is missing if not known.".
-spec is_near({number(), number()}, IsKnown :: boolean()) -> boolean().
is_near({Low, High}, IsKnown) -> IsKnown andalso High =< (1 + ?FEW) * Low.

%% A server that was busy when dyno came had no hook yet; its calls were counted by turns.
is_in_part(#{life_ns := LifeNs} = Server) -> counted_ns(Server) < ?WHOLE * LifeNs.

-doc "The time in which the runtime did not time a server, as it is called often.".
-spec untimed_ns(#{served := non_neg_integer(), atom() => _}) -> number().
untimed_ns(#{served := Served, life_ns := LifeNs} = Server) ->
    #{busy_of_ns := HookNs, cpu_of_ns := TimedNs} = Server,
    case Served * 1.0e9 > ?OFTEN * LifeNs of
        true -> max(0, HookNs - TimedNs);
        false -> 0
    end.

counted_ns(#{busy_of_ns := BusyOfNs, cpu_of_ns := CpuOfNs, life_ns := LifeNs}) ->
    min(LifeNs, max(BusyOfNs, CpuOfNs)).

%% A registered name is one server, over all restarts.
at_once([#{kind := Kind} | _]) when Kind =:= registered; Kind =:= named -> 1;
at_once(Of) -> length(Of).

by(Keys, Maps) ->
    Values = fun(Map) -> list_to_tuple([map_get(Key, Map) || Key <- Keys]) end,
    maps:iterator(maps:groups_from_list(Values, Maps), ordered).

share([], _DurationNs) -> undefined;
share(WallNs, DurationNs) -> lists:sum(WallNs) / DurationNs.

sum(Key, Maps) ->
    lists:sum([Value || #{Key := Value} <- Maps, is_number(Value)]).

-spec callbacks(window()) -> [row()].
callbacks(#{servers := Servers} = Window) ->
    Rows = [
        #{
            name => Name,
            callback => Callback,
            in_part => InPart,
            untimed => InPart orelse lists:any(fun is_untimed/1, Calls),
            count => sum(count, Calls),
            exceptions => exceptions(Of, sum(exceptions, Calls)),
            sum_ns => lists:sum([time(Call) || Call <- Calls]),
            p50 => quantile(0.5, Missing, Buckets),
            p99 => quantile(0.99, Missing, Buckets),
            buckets => Buckets
        }
     || {Name, _Module} := Of <- by([name, module], Servers),
        InPart <- [unseen(Window) > 0 orelse lists:any(fun is_in_part/1, Of)],
        {Callback} := Calls <- by([name], lists:append([C || #{callbacks := C} <- Of])),
        All <- [merged([Wall || #{wall := Wall} <- Calls])],
        Missing <- [missing(sum_of(All), Calls, Of, may_miss(Of, Window))],
        Buckets <- [[B || not is_biased(sum_of(All) + Missing, Missing), B <- All]]
    ],
    lists:sort(fun(A, B) -> map_get(sum_ns, A) >= map_get(sum_ns, B) end, Rows).

%% Of processes that ended, those that are not timed may be unlike the others.
missing(Timed, Calls, Servers, Unseen) ->
    case lists:any(fun(#{state := State}) -> State =/= alive end, Servers) orelse Unseen > 0 of
        true -> max(0, sum(count, Calls) + Unseen - Timed);
        false -> 0
    end.

%% An event manager removes a handler that fails, and goes on.
exceptions([#{behaviour := gen_event} | _], 0) -> undefined;
exceptions(_Servers, Count) -> Count.

%% A call takes at least its processor time, as does a server that ended without a hook.
is_untimed(#{wall := Wall, missed := Missed}) -> Wall =:= none orelse Missed > 0;
is_untimed(#{busy_ns := undefined}) -> true;
is_untimed(#{wall_ns := undefined, module := Module, state := State}) ->
    Module =/= gen_event andalso State =/= alive;
is_untimed(_Server) -> false.

%% The processor time stands for an unknown wall time.
time(#{wall := #{sum := Ns}}) -> Ns;
time(#{cpu_ns := undefined}) -> 0;
time(#{cpu_ns := Ns}) -> Ns.

joined(Key, Maps) -> #{buckets => merged([Histogram || #{Key := Histogram} <- Maps])}.

merged(Histograms) ->
    Counted = [Buckets || #{buckets := Buckets} <- Histograms],
    lists:foldl(fun dyno_agent_server_process:merge_buckets/2, [], Counted).

quantile(_Share, _Missing, []) ->
    undefined;
quantile(Share, Missing, Buckets) ->
    Count = sum_of(Buckets),
    {Least, Most} = ranks(Share, Count, Missing),
    case is_near({value(Least, Buckets), value(min(Count, Most), Buckets)}, Most =< Count) of
        true -> value(max(1, ceil(Share * Count)), Buckets);
        false -> undefined
    end.

sum_of(Buckets) -> lists:sum([Count || {_, Count} <- Buckets]).

value(Rank, Buckets) -> middle(at(Rank, Buckets)).

middle(Index) ->
    {Low, High} = dyno_agent_server_counters:bounds(Index),
    (Low + High - 1) div 2.

at(Rank, [{Index, Count} | Buckets]) when Rank =< Count; Buckets =:= [] -> Index;
at(Rank, [{_, Count} | Buckets]) -> at(Rank - Count, Buckets);
at(_Rank, []) -> 0.

-spec metrics() -> [dyno_agent_instrument:metric()].
metrics() ->
    [
        #{
            name => ~"instrument.servers",
            title => ~"Time of one scheduler for measuring servers",
            unit => ~"ratio",
            group => ~"instrument",
            value => fun(Windows) ->
                {
                    lists:max([Cost || #{cost := Cost} <- Windows]),
                    lists:sum([length(Servers) || #{servers := Servers} <- Windows])
                }
            end
        }
    ].

-spec histograms() -> [dyno_agent_instrument:histogram()].
histograms() ->
    [
        #{
            name => ~"server.callback",
            title => ~"Durations of callbacks",
            unit => ~"ns",
            group => ~"servers",
            items => fun(Window) ->
                Timed = [Row || #{buckets := [_ | _]} = Row <- callbacks(Window)],
                [histogram(Row) || Row <- lists:sublist(Timed, ?MOST_HISTOGRAMS)]
            end
        }
    ].

histogram(#{name := Name, callback := Callback, buckets := Buckets}) ->
    (dyno_agent_server_counters:histogram(Buckets))#{
        labels => #{server => Name, callback => Callback},
        buckets := [
            {Low, High, Count}
         || {Index, Count} <- Buckets, {Low, High} <- [dyno_agent_server_counters:bounds(Index)]
        ]
    }.

-spec warnings(Role :: binary(), window()) -> [dyno_agent_instrument:warning()].
warnings(Role, #{unselected := Over, stepped_down := Why, servers := Servers} = Window) ->
    #{asked := Asked, level := Level} = Window,
    Partly = [Server || #{measured := By} = Server <- Servers, By =/= none, is_in_part(Server)],
    Unseen = unseen(Window),
    Missed = sum(missed, Servers),
    Counted = lists:sum([sum(count, Callbacks) || #{callbacks := Callbacks} <- Servers]),
    Unhooked = [Pid || #{pid := Pid, measured := call_time, why := <<_/binary>>} <- Servers],
    Possible = [
        {
            Over > 0,
            ~"servers_left_out",
            "up to ~ts more servers of ~ts are not measured: nothing is known of them",
            [{Over, ~"count"}, Role]
        },
        {
            Unseen > 0,
            ~"servers_unseen",
            "~ts callbacks of ~ts are in no row: their processes ended before dyno could ask what "
            "they were, or before there was room for them; rows are lower bounds (>), and "
            "percentiles that they may change by more than 10 % are not known",
            [{Unseen, ~"count"}, Role]
        },
        {
            not maps:get(followed, Window, true),
            ~"servers_unfollowed",
            "processes of ~ts began and ended too fast to follow each: numbers of servers and "
            "their crashes are lower bounds",
            [Role]
        },
        {
            is_binary(Why),
            ~"servers_level",
            "the servers of ~ts were measured with the detail ~ts, not ~ts: ~ts",
            [Role, Level, Asked, Why]
        },
        {
            Unhooked =/= [],
            ~"servers_without_hook",
            "~ts servers of ~ts could not be measured from inside: of callbacks only the time on "
            "the processor is known",
            [{length(Unhooked), ~"count"}, Role]
        },
        {
            Missed > 0,
            ~"servers_untimed",
            "~ts of ~ts callbacks of ~ts were counted and not timed, in processes that had just "
            "begun or answered sys late: times in callbacks are lower bounds (>)",
            [{Missed, ~"count"}, {Counted, ~"count"}, Role]
        },
        {
            Partly =/= [],
            ~"servers_in_part",
            "callbacks of ~ts servers of ~ts were counted in ~ts of their time: what they handled "
            "is a lower bound (>)",
            [{length(Partly), ~"count"}, Role, {share_counted(Partly), ~"ratio"}]
        }
    ],
    [{Code, Format, Arguments} || {true, Code, Format, Arguments} <- Possible].

share_counted(Servers) ->
    lists:sum([counted_ns(Server) || Server <- Servers]) /
        max(1, lists:sum([Ns || #{life_ns := Ns} <- Servers])).
