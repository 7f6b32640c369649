%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_throttle).
-moduledoc false.
%% The functions that discover processes: of which group these are, and whether there are so many
%% that a message for each costs too much. Pure.
%%
%% A function that has discovered processes of one group only is presumed to go on so: of the next
%% processes one in twenty is identified. When such a function discovers more than so many processes
%% in a second it is throttled: its first calls send no message any more, but for a moment twice a
%% second, so that how many there are is estimated and another kind is noticed. When its
%% processes have become rare or are of several groups it is no longer throttled.

-export([new/0, limit/2, none/1, first_call/3, learn/4, group/2]).
-export([throttled/1, count/2, counted/2, window_ms/1, release_rare/2]).
-export([forget/2, leave_out/2]).
-export_type([t/0]).

-type id() :: dyno_agent_process_table:id().

-opaque t() :: #{
    %% The one group of the processes that a function has discovered, of how many, and whether one
    %% was ever identified or all had ended before they could be.
    groups := #{mfa() => {id(), pos_integer(), identified | gone} | several},
    %% First calls since a time (native), of functions that are not throttled.
    rates := #{mfa() => {integer(), pos_integer()}},
    %% From so many in a second on functions are throttled.
    limit := pos_integer() | infinity,
    throttled := #{mfa() => id()},
    %% Processes that throttled functions have discovered since a time (milliseconds), by group.
    counted := #{id() => pos_integer()},
    since_ms := integer(),
    %% How many these were before that time.
    per_second := number()
}.

-define(MAX_FUNCTIONS, 2000).
-define(PRESUMED_AFTER, 20).
-define(IDENTIFY_EVERY, 20).
%% For an estimate messages come until so many processes are to be expected.
-define(SEEN, 20).
-define(WINDOW_MS, 20).
-define(SHORT_WINDOW_MS, 5).

-doc "No functions; none is throttled until there is a limit.".
-spec new() -> t().
new() ->
    #{
        groups => #{}, rates => #{}, limit => infinity,
        throttled => #{}, counted => #{}, since_ms => 0, per_second => 0
    }.

-doc "So many processes in a second are too many.".
-spec limit(pos_integer(), t()) -> t().
limit(PerSecond, Throttle) -> Throttle#{limit := PerSecond}.

-doc "No function is throttled, now or later.".
-spec none(t()) -> t().
none(Throttle) -> Throttle#{limit := infinity, throttled := #{}}.

-doc """
A function has discovered a process, at a time (native): the process is to be identified (`ask`) or
presumed to be of a group; `throttle` means that the function is throttled from now on.
""".
-spec first_call(mfa(), integer(), t()) -> {ask, t()} | {presume | throttle, id(), t()}.
first_call(MFA, Time, #{groups := Groups} = Throttle) ->
    case Groups of
        #{MFA := {Id, Count, How}} when Count >= ?PRESUMED_AFTER, Count rem ?IDENTIFY_EVERY =/= 0 ->
            rate(MFA, Id, Time, Throttle#{groups := Groups#{MFA := {Id, Count + 1, How}}});
        #{} ->
            Ids = [Id || #{MFA := Id} <- [map_get(throttled, Throttle)]],
            {ask, count(Ids, Throttle)}
    end.

rate(MFA, Id, _Time, #{throttled := Throttled} = Throttle) when is_map_key(MFA, Throttled) ->
    {presume, Id, count([Id], Throttle)};
rate(MFA, Id, Time, #{rates := Rates, limit := Limit} = Throttle) ->
    Second = erlang:convert_time_unit(1, second, native),
    case Rates of
        #{MFA := {Since, Count}} when Time - Since < Second, Count >= Limit ->
            {throttle, Id, throttle(MFA, Id, Time, Throttle)};
        #{MFA := {Since, Count}} when Time - Since < Second ->
            {presume, Id, Throttle#{rates := Rates#{MFA := {Since, Count + 1}}}};
        #{} ->
            {presume, Id, Throttle#{rates := Rates#{MFA => {Time, 1}}}}
    end.

throttle(MFA, Id, Time, #{throttled := Throttled, rates := Rates} = Throttle) ->
    Next = Throttle#{throttled := Throttled#{MFA => Id}, rates := maps:remove(MFA, Rates)},
    case map_size(Throttled) of
        0 -> Next#{since_ms := erlang:convert_time_unit(Time, native, millisecond)};
        _ -> Next
    end.

-doc "A process of a kind was identified, as of a group; or had ended, and counts as of it.".
-spec learn(mfa(), dyno_agent_processes:group() | gone, id(), t()) -> t().
learn(MFA, Kind, Id, #{groups := Groups} = Throttle) ->
    case learned(Kind, Id, maps:get(MFA, Groups, unknown)) of
        New when is_map_key(MFA, Groups); map_size(Groups) < ?MAX_FUNCTIONS ->
            Throttle#{groups := Groups#{MFA => New}};
        _ ->
            Throttle
    end.

learned(gone, Id, unknown) -> {Id, 1, gone};
learned(gone, _, {Id, Count, How}) -> {Id, Count + 1, How};
learned({Kind, _}, Id, Before) when Kind =:= initial_call; Kind =:= first_call ->
    case Before of
        unknown -> {Id, 1, identified};
        {Id, Count, _} -> {Id, Count + 1, identified};
        {_, _, gone} -> {Id, 1, identified};
        _ -> several
    end;
%% A name or a label says nothing about the next process.
learned(_Kind, _Id, _Before) -> several.

-doc "The one group of the processes that a function has discovered.".
-spec group(mfa(), t()) -> {ok, id()} | unknown.
group(MFA, #{groups := Groups}) ->
    case Groups of
        #{MFA := {Id, _, _}} -> {ok, Id};
        #{} -> unknown
    end.

-doc "The throttled functions, and the groups of the processes that they discover.".
-spec throttled(t()) -> #{mfa() => id()}.
throttled(#{throttled := Throttled}) -> Throttled.

-doc "Processes of these groups were discovered by throttled functions.".
-spec count([id()], t()) -> t().
count(Ids, #{counted := Counted} = Throttle) ->
    Count = fun(Id, Acc) -> maps:update_with(Id, fun(N) -> N + 1 end, 1, Acc) end,
    Throttle#{counted := lists:foldl(Count, Counted, Ids)}.

-doc "So many more processes of groups were discovered by throttled functions.".
-spec counted(#{id() => non_neg_integer()}, t()) -> t().
counted(More, #{counted := Counted} = Throttle) ->
    Throttle#{counted := maps:merge_with(fun(_, A, B) -> A + B end, Counted, More)}.

-doc "For how long messages are to come to see some more processes.".
-spec window_ms(t()) -> pos_integer().
window_ms(#{per_second := PerSecond}) ->
    round(max(?SHORT_WINDOW_MS, min(?WINDOW_MS, 1000 * ?SEEN / max(1, PerSecond)))).

-doc """
Processes were counted until a time (milliseconds): functions whose processes have become rare or are
of several groups are no longer throttled.
""".
-spec release_rare(integer(), t()) -> t().
release_rare(NowMs, #{since_ms := Since, counted := Counted, limit := Limit} = Throttle) ->
    TookMs = max(1, NowMs - Since),
    IsFrequent = fun(MFA, Id) ->
        maps:get(Id, Counted, 0) * 1000 >= TookMs * Limit div 2 andalso
            group(MFA, Throttle) =:= {ok, Id}
    end,
    Throttle#{
        throttled := maps:filter(IsFrequent, map_get(throttled, Throttle)),
        counted := #{},
        since_ms := NowMs,
        per_second := lists:sum(maps:values(Counted)) * 1000 / TookMs
    }.

-doc "A module was loaded anew: all its first calls send messages again.".
-spec forget(module(), t()) -> t().
forget(Module, #{throttled := Throttled} = Throttle) ->
    Throttle#{throttled := maps:filter(fun({M, _, _}, _) -> M =/= Module end, Throttled)}.

-doc "These functions discover no process any more.".
-spec leave_out([mfa()], t()) -> t().
leave_out(Functions, #{throttled := Throttled} = Throttle) ->
    Throttle#{throttled := maps:without(Functions, Throttled)}.
