%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_throttle).
-moduledoc false.
%% The functions that discover processes: of which group these are, and whether there are so many that a
%% message for each costs too much. Pure.
%%
%% A function that has discovered processes of one group only is presumed to go on so: of the next
%% processes one in twenty is identified. If such a function discovers more than so many processes in a
%% second it is throttled: its first calls send no message any more, but in a short window twice a second.
%% If its processes have become rare or are of several groups it is throttled no longer.
%%
%% How many it discovers between two windows is estimated by the numbers of the processes, which the
%% runtime gives one after the other:
%%
%%   number of a process   ...  17 18 19 20  |  21 ... 9020  |  9021 9022 9023 ...
%%                              messages     |  silence      |  messages
%%
%% In a window it is seen which share of the numbers are its processes: often all. The same share of the
%% numbers in between is taken to be. So nothing depends on when a breakpoint takes effect.

-export([new/0, limit/2, first_call/4, learn/4, group/2]).
-export([throttled/1, opened/1, is_each_seen/1, closed/3, settled/3, release/2]).
-export_type([t/0, silent/0]).

-type id() :: dyno_agent_process_table:id().

-opaque t() :: #{
    %% The one group of the processes that a function has discovered, of how many, and whether one
    %% was ever identified or all had ended before they could be.
    groups := #{mfa() => {id(), pos_integer(), identified | gone} | several},
    %% First calls since a time (native), of functions that are not throttled.
    rates := #{mfa() => {integer(), pos_integer()}},
    %% From so many in a second on functions are throttled.
    limit := pos_integer() | infinity,
    throttled := #{mfa() => throttled()}
}.

-type throttled() :: #{
    id := id(),
    %% The greatest number before the window; the least and the greatest in it, and how many came.
    last := number_of(),
    from := number_of() | none,
    to := number_of(),
    seen := non_neg_integer(),
    %% In all windows, the latest ones more: processes that it discovered, of all.
    first := number(),
    all := number(),
    %% When the last window was closed (native).
    since := integer()
}.

-type number_of() :: non_neg_integer().

-doc "Processes of groups that were discovered without a message.".
-type silent() :: #{id() => non_neg_integer()}.

-define(MAX_FUNCTIONS, 2000).
-define(PRESUMED_AFTER, 20).
-define(IDENTIFY_EVERY, 20).
%% As many processes in windows are forgotten by half.
-define(REMEMBER, 5000).

-doc "No functions; none is throttled until there is a limit.".
-spec new() -> t().
new() -> #{groups => #{}, rates => #{}, limit => infinity, throttled => #{}}.

-doc "So many processes in a second are too many.".
-spec limit(pos_integer(), t()) -> t().
limit(PerSecond, Throttle) -> Throttle#{limit := PerSecond}.

-doc """
A function has discovered a process with a number, at a time (native): the process is to be
identified (`ask`) or presumed to be of a group; `throttle`: the function is throttled from now on.
""".
-spec first_call(mfa(), number_of(), integer(), t()) ->
    {ask, t()} | {presume | throttle, id(), t()}.
first_call(MFA, Number, Time, #{groups := Groups} = Before) ->
    Throttle = seen(MFA, Number, Before),
    case Groups of
        #{MFA := {Id, Count, How}} when Count >= ?PRESUMED_AFTER, Count rem ?IDENTIFY_EVERY =/= 0 ->
            Next = Throttle#{groups := Groups#{MFA := {Id, Count + 1, How}}},
            rate(MFA, {Id, Number, Time}, Next);
        #{} ->
            {ask, Throttle}
    end.

%% A process that is older than the window says nothing of those that were started in it.
seen(MFA, Number, #{throttled := Throttled} = Throttle) ->
    case Throttled of
        #{MFA := #{last := Last, seen := Seen} = Function} when Number > Last ->
            #{from := From, to := To} = Function,
            %% An atom is more than any number.
            More = Function#{from := min(From, Number), to := max(To, Number), seen := Seen + 1},
            Throttle#{throttled := Throttled#{MFA := More}};
        #{} ->
            Throttle
    end.

rate(MFA, {Id, _, _}, #{throttled := Throttled} = Throttle) when is_map_key(MFA, Throttled) ->
    {presume, Id, Throttle};
rate(MFA, {Id, Number, Time}, #{rates := Rates, limit := Limit} = Throttle) ->
    #{throttled := Throttled} = Throttle,
    Second = erlang:convert_time_unit(1, second, native),
    case Rates of
        #{MFA := {Since, Count}} when Time - Since < Second, Count >= Limit ->
            Function = #{id => Id, last => Number, first => 0, all => 0, since => Time},
            {throttle, Id, Throttle#{
                throttled := Throttled#{MFA => open(Function)}, rates := maps:remove(MFA, Rates)
            }};
        #{MFA := {Since, Count}} when Time - Since < Second ->
            {presume, Id, Throttle#{rates := Rates#{MFA := {Since, Count + 1}}}};
        #{} ->
            {presume, Id, Throttle#{rates := Rates#{MFA => {Time, 1}}}}
    end.

open(#{last := Last} = Function) -> Function#{from => none, to => Last, seen => 0}.

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
throttled(#{throttled := Throttled}) -> #{MFA => Id || MFA := #{id := Id} <- Throttled}.

-doc "A window begins for all throttled functions: they send messages.".
-spec opened(t()) -> t().
opened(#{throttled := Throttled} = Throttle) ->
    Throttle#{throttled := #{MFA => open(Function) || MFA := Function <- Throttled}}.

-doc "Whether processes of each throttled function came in the window.".
-spec is_each_seen(t()) -> boolean().
is_each_seen(#{throttled := Throttled}) -> [] =:= [MFA || MFA := #{seen := 0} <- Throttled].

-doc """
The window has ended, at a time (native) at which the newest process had a number: how many were
discovered without a message before it. Functions whose processes have become rare or are of several
groups are throttled no longer.
""".
-spec closed(integer(), number_of(), t()) -> {silent(), t()}.
closed(Time, Newest, #{throttled := Before} = Throttle) ->
    Closed = #{MFA => closed_one(Time, Newest, Function) || MFA := Function <- Before},
    Throttled = #{
        MFA => Function
     || MFA := {_, PerSecond, Function} <- Closed,
        PerSecond * 2 >= map_get(limit, Throttle),
        group(MFA, Throttle) =:= {ok, map_get(id, Function)}
    },
    {sums([{Id, N} || _ := {N, _, #{id := Id}} <- Closed]), Throttle#{throttled := Throttled}}.

%% In a window without any they have ended to come.
closed_one(Time, Newest, #{seen := 0, last := Last} = Function) ->
    {share(Newest - Last, Function), 0, open(Function#{last := max(Newest, Last), since := Time})};
closed_one(Time, _Newest, #{seen := Seen, from := From, to := To, last := Last} = Function) ->
    #{first := First, all := All, since := Since} = Function,
    Weight = min(1, ?REMEMBER / max(1, First)),
    %% One marks where the window begins.
    Learned = Function#{first := Weight * First + Seen - 1, all := Weight * All + To - From},
    Silent = share(From - Last - 1, Learned),
    Seconds = max(1.0e-3, erlang:convert_time_unit(Time - Since, native, microsecond) / 1.0e6),
    {Silent, (Silent + Seen) / Seconds, open(Learned#{last := To, since := Time})}.

share(Numbers, #{all := All}) when Numbers =< 0; All =:= 0 -> 0;
share(Numbers, #{first := First, all := All}) -> round(Numbers * min(1, First / All)).

-doc "How many were discovered without a message until now, also after the last window.".
-spec settled(integer(), number_of(), t()) -> {silent(), t()}.
settled(Time, Newest, #{throttled := Before} = Throttle) ->
    Settled = #{
        MFA => {N + share(Newest - map_get(last, Function), Function), Function}
     || MFA := Open <- Before, {N, _, Function} <- [closed_one(Time, Newest, Open)]
    },
    {sums([{Id, N} || _ := {N, #{id := Id}} <- Settled]), Throttle#{
        throttled := #{
            MFA => open(Function#{last := max(Newest, Last)})
         || MFA := {_, #{last := Last} = Function} <- Settled
        }
    }}.

sums(Silent) ->
    maps:map(
        fun(_, Of) -> lists:sum(Of) end,
        maps:groups_from_list(fun({Id, _}) -> Id end, fun({_, N}) -> N end, Silent)
    ).

-doc "First calls of functions send messages again, or never any more.".
-spec release(fun((mfa()) -> boolean()), t()) -> t().
release(IsReleased, #{throttled := Throttled} = Throttle) ->
    Throttle#{throttled := maps:filter(fun(MFA, _) -> not IsReleased(MFA) end, Throttled)}.
