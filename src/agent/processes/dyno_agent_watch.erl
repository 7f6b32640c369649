%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_watch).
-moduledoc false.
%% Which processes are followed from their birth to their end (dyno_agent_watcher), and the sums
%% over those of a kind. Chosen at birth, so that a process's fate has no part in it: of each kind
%% one every 10 ms, or less often as watching costs too much; and not the first one that comes,
%% which might be the first of each burst, but one by chance of as many as came since the one
%% before. It counts for all of these. So the cost has a limit, however many come and go, and every
%% other process costs a comparison and an addition.
%%
%% The sums are kept by the time of birth, in at most 64 slots that grow longer as time goes by:
%% slots of processes that are too young to have ended all are left out, as those that have ended
%% would be the ones that live shortly.

-export([new/1, born/3, chosen/3, watch/5, watched/4, forget/2, stop/1, figures/2, none/0]).
-export_type([t/0, slot/0, figures/0]).

-opaque t() :: #{
    %% By kind: not before that, how many since the last one, how many of these to let pass once it
    %% may be.
    next := #{kind() => {NotBefore :: integer(), Since :: non_neg_integer(), pass()}},
    %% Between two of a kind; and for how long the watchers waited awake since when.
    gap := pos_integer(),
    awake := {Since :: integer(), AwakeNs :: non_neg_integer()},
    idle := [pid()],
    busy := #{Watcher :: pid() => {pid(), kind(), Born :: integer(), Weight :: pos_integer()}},
    began := integer(),
    %% Of a slot.
    length := pos_integer(),
    kinds := #{kind() => {LongestNs :: non_neg_integer(), #{non_neg_integer() => slot()}}}
}.

-type kind() :: pos_integer().
-type pass() :: undrawn | non_neg_integer().

-doc """
Sums over the processes of a slot, each times the number of processes that it stands for: how many
that are, ... `unseen` and `outlived` are among these.
""".
-type slot() :: #{
    processes := non_neg_integer(),
    weight := number(),
    unseen := number(),
    outlived := number(),
    life_ns := number(),
    missed_ns := number(),
    seen_ns := number(),
    bytes_ns := number(),
    reductions := number(),
    tail := number(),
    tail_most := number(),
    last_ns := number(),
    last_worked_ns := number(),
    last_idle_ns := number(),
    lost_ns := number(),
    perhaps_ns := number(),
    worked := number(),
    worked_most := number(),
    worked_ns := number(),
    looks := non_neg_integer()
}.

-doc "The slots, and for how many processes of their times those stand that have not ended yet.".
-type figures() :: #{slots := [slot()], pending := non_neg_integer()}.

-define(GAP_MS, 10).
%% Of a second, for which the watchers may wait awake, on average.
-define(AWAKE_NS, 20_000_000).
-define(PACE_MS, 500).
-define(MOST_GAP_MS, 60_000).
-define(MOST, 32).
-define(SLOTS, 64).
-define(SLOT_MS, 100).

-doc "Nobody has been chosen yet, at this time (native, monotonic).".
-spec new(integer()) -> t().
new(Now) ->
    #{
        next => #{},
        gap => native(?GAP_MS),
        awake => {Now, 0},
        idle => [],
        busy => #{},
        began => Now,
        length => native(?SLOT_MS),
        kinds => #{}
    }.

-doc """
A process of a kind was born at a time, and perhaps it is watched. `Short` gives for how long but
few of the kind have lived.
""".
-spec born({pid(), kind(), integer()}, Short, t()) -> t() when
    Short :: fun(() -> pos_integer() | undefined).
born({Pid, Kind, Time}, Short, Watch) ->
    case chosen(Kind, Time, Watch) of
        {false, Next} -> Next;
        {true, Next} -> watch(Pid, Kind, Time, Short(), Next)
    end.

-doc "Whether that one is to be watched.".
-spec chosen(kind(), integer(), t()) -> {boolean(), t()}.
chosen(Kind, Time, #{next := Next} = Watch) ->
    case Next of
        #{Kind := {NotBefore, Since, Pass}} when Time < NotBefore ->
            {false, Watch#{next := Next#{Kind := {NotBefore, Since + 1, Pass}}}};
        #{Kind := {NotBefore, Since, undrawn}} when Since > 0 ->
            may(Kind, Time, {NotBefore, Since, rand:uniform(Since + 1) - 1}, Watch);
        #{Kind := {NotBefore, Since, Pass}} ->
            may(Kind, Time, {NotBefore, Since, Pass}, Watch);
        #{} ->
            may(Kind, Time, {Time, 0, 0}, Watch)
    end.

may(Kind, _Time, {NotBefore, Since, Pass}, #{next := Next} = Watch) when
    is_integer(Pass), Pass > 0
->
    {false, Watch#{next := Next#{Kind => {NotBefore, Since + 1, Pass - 1}}}};
may(Kind, _Time, {NotBefore, Since, _}, #{next := Next, idle := [], busy := Busy} = Watch) when
    map_size(Busy) >= ?MOST
->
    {false, Watch#{next := Next#{Kind => {NotBefore, Since + 1, 0}}}};
may(Kind, Time, {_, Since, _}, #{next := Next} = Watch) ->
    #{gap := Gap} = Paced = paced(Time, Watch),
    %% By chance, that work which is done regularly is neither always hit nor always missed.
    NotBefore = Time + trunc(Gap * (0.5 + rand:uniform())),
    {true, Paced#{next := Next#{Kind => {NotBefore, Since + 1, undrawn}}}}.

%% From time to time the gap follows what watching costs.
paced(Time, #{awake := {Since, AwakeNs}, gap := Gap} = Watch) ->
    case Time - Since < native(?PACE_MS) of
        true ->
            Watch;
        false ->
            Share = AwakeNs * native(1000) / (Time - Since) / ?AWAKE_NS,
            Next = trunc(Gap * max(0.25, min(2, Share))),
            Bounded = max(native(?GAP_MS), min(native(?MOST_GAP_MS), Next)),
            Watch#{awake := {Time, 0}, gap := Bounded}
    end.

-doc """
Watches a process that `chosen/3` has chosen, of a kind of which only few have lived for a shorter
time than `ShortNs`.
""".
-spec watch(pid(), kind(), Born :: integer(), ShortNs :: pos_integer() | undefined, t()) -> t().
watch(Pid, Kind, Born, ShortNs, #{idle := Idle, busy := Busy, next := Next} = Watch) ->
    #{Kind := {NotBefore, Weight, Pass}} = Next,
    {Watcher, Rest} =
        case Idle of
            [First | Others] -> {First, Others};
            [] -> {dyno_agent_watcher:start(self()), []}
        end,
    ok = dyno_agent_watcher:watch(Watcher, {Pid, Born}, ShortNs),
    Watch#{
        idle := Rest,
        busy := Busy#{Watcher => {Pid, Kind, Born, Weight}},
        next := Next#{Kind := {NotBefore, 0, Pass}}
    }.

-doc "Takes in what a watcher has found; the process may be known to be of another kind by now.".
-spec watched(pid(), {AwakeNs, dyno_agent_watcher:result()}, kind() | unknown, t()) -> t() when
    AwakeNs :: non_neg_integer().
watched(Watcher, {AwakeNs, Result}, Kind, #{busy := Busy, idle := Idle, awake := Awake} = Watch) ->
    case maps:take(Watcher, Busy) of
        {{_, Was, Born, Weight}, Rest} ->
            Is =
                case Kind of
                    unknown -> Was;
                    _ -> Kind
                end,
            {Since, Before} = Awake,
            add(Is, Born, sums(Weight, Result), Watch#{
                busy := Rest, idle := [Watcher | Idle], awake := {Since, Before + AwakeNs}
            });
        error ->
            %% Of before the restart.
            Watch
    end.

sums(Weight, Result) ->
    Of = one(Result),
    (maps:map(fun(_, Value) -> Weight * Value end, Of))#{
        processes => 1, looks => map_get(looks, Of)
    }.

one(outlived) ->
    (nothing())#{weight := 1, outlived := 1};
one({unseen, LifeNs}) ->
    (nothing())#{weight := 1, unseen := 1, life_ns := LifeNs, missed_ns := LifeNs};
one(#{} = Seen) ->
    maps:merge((nothing())#{weight := 1}, Seen).

nothing() ->
    #{
        processes => 0,
        weight => 0,
        unseen => 0,
        outlived => 0,
        life_ns => 0,
        missed_ns => 0,
        seen_ns => 0,
        bytes_ns => 0,
        reductions => 0,
        tail => 0,
        tail_most => 0,
        last_ns => 0,
        last_worked_ns => 0,
        last_idle_ns => 0,
        lost_ns => 0,
        perhaps_ns => 0,
        worked => 0,
        worked_most => 0,
        worked_ns => 0,
        looks => 0
    }.

add(Kind, Born, Sums, #{began := Began, length := Length, kinds := Kinds} = Watch) ->
    case max(0, Born - Began) div Length of
        Slot when Slot < ?SLOTS ->
            {Longest, Slots} = maps:get(Kind, Kinds, {0, #{}}),
            Before = maps:get(Slot, Slots, nothing()),
            %% For one that stands for many all of them may have lived that long.
            LifeNs = map_get(life_ns, Sums) div max(1, map_get(weight, Sums)),
            Added = Slots#{Slot => plus(Before, Sums)},
            Watch#{kinds := Kinds#{Kind => {max(Longest, LifeNs), Added}}};
        _ ->
            Halved = #{K => {Longest, pairs(Slots)} || K := {Longest, Slots} <- Kinds},
            add(Kind, Born, Sums, Watch#{length := 2 * Length, kinds := Halved})
    end.

pairs(Slots) ->
    maps:fold(
        fun(Slot, Sums, Acc) ->
            Acc#{(Slot div 2) => plus(Sums, maps:get(Slot div 2, Acc, nothing()))}
        end,
        #{},
        Slots
    ).

plus(A, B) ->
    maps:merge_with(fun(_, X, Y) -> X + Y end, A, B).

-doc "Nothing is known any more: from now on it counts.".
-spec forget(integer(), t()) -> t().
forget(Now, #{next := Next, gap := Gap} = Watch) ->
    ok = stop(Watch),
    (new(Now))#{gap := Gap, next := #{Kind => {Now, 0, undrawn} || Kind := _ <- Next}}.

-doc "Ends the watchers.".
-spec stop(t()) -> ok.
stop(#{idle := Idle, busy := Busy}) ->
    lists:foreach(fun dyno_agent_watcher:stop/1, Idle ++ maps:keys(Busy)).

-doc "Nobody was watched.".
-spec none() -> figures().
none() ->
    #{slots => [], pending => 0}.

-doc "What is known of each kind by now.".
-spec figures(Now :: integer(), t()) -> #{kind() => figures()}.
figures(Now, #{began := Began, length := Length, busy := Busy, kinds := Known}) ->
    %% Also those of which none has ended.
    Kinds = maps:merge(#{Kind => {0, #{}} || {_, Kind, _, _} <- maps:values(Busy)}, Known),
    #{
        Kind => figures_of(Kind, until(Now, Began, LongestNs), Began, Length, Busy, Slots)
     || Kind := {LongestNs, Slots} <- Kinds
    }.

%% Those born later may live on, where no one of the kind has lived for longer than that. At least
%% one half of the time counts.
until(Now, Began, LongestNs) ->
    Longest = erlang:convert_time_unit(LongestNs, nanosecond, native),
    Now - min(Longest, (Now - Began) div 2).

figures_of(Kind, Until, Began, Length, Busy, Slots) ->
    Whole = (Until - Began) div Length,
    Weights = [
        Weight
     || {_, Of, Born, Weight} <- maps:values(Busy),
        Of =:= Kind,
        (Born - Began) div Length < Whole
    ],
    #{
        slots => [Sums || {Slot, Sums} <- lists:keysort(1, maps:to_list(Slots)), Slot < Whole],
        pending => lists:sum(Weights)
    }.

native(Ms) -> erlang:convert_time_unit(Ms, millisecond, native).
