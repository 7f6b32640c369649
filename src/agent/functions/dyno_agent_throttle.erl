%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_throttle).
-moduledoc false.
%% The functions that discover processes: the group of these, and whether they are too many for a
%% message each. Pure.
%%
%% If a function has discovered processes of one group only, further ones are presumed to be of that
%% group, and one in twenty is identified. If the function discovers more than the limit a second,
%% it is throttled: its first calls send messages only in a short window twice a second. The
%% throttle ends when its processes become rare or are of several groups.
%%
%% The discoveries between two windows are estimated from the process numbers, which the runtime
%% gives in order:
%%
%%   number of a process   ...  17 18 19 20  |  21 ... 9020  |  9021 9022 9023 ...
%%                              messages     |  silence      |  messages
%%
%% A window shows the function's share of the numbers, often all. The same share is assumed between
%% windows. So the estimate does not depend on when a breakpoint takes effect.

-export([new/0, limit/2, first_call/4, learn/4, group/2]).
-export([throttled/1, opened/1, is_each_seen/1, closed/3, settled/3, release/2]).
-export_type([t/0, silent/0]).

-type id() :: dyno_agent_process_table:id().

-opaque t() :: #{
    %% The one group of a function's processes, their number, and whether one was identified.
    groups := #{mfa() => {id(), pos_integer(), identified | gone} | several},
    %% First calls since a time (native), of functions not throttled.
    rates := #{mfa() => {integer(), pos_integer()}},
    %% The discoveries a second that throttle a function.
    limit := pos_integer() | infinity,
    throttled := #{mfa() => throttled()}
}.

-type throttled() :: #{
    id := id(),
    %% The greatest number before the window; the least and greatest in it, and their count.
    last := number_of(),
    from := number_of() | none,
    to := number_of(),
    seen := non_neg_integer(),
    %% Over all windows, recent ones weighted more: processes it discovered, of all.
    first := number(),
    all := number(),
    %% When the last window closed (native).
    since := integer()
}.

-type number_of() :: non_neg_integer().

-type silent() :: #{id() => non_neg_integer()}.

-define(MAX_FUNCTIONS, 2000).
-define(PRESUMED_AFTER, 20).
-define(IDENTIFY_EVERY, 20).
%% Beyond this number of processes in windows, older windows lose weight.
-define(REMEMBER, 5000).

-spec new() -> t().
new() -> #{groups => #{}, rates => #{}, limit => infinity, throttled => #{}}.

-spec limit(pos_integer(), t()) -> t().
limit(PerSecond, Throttle) -> Throttle#{limit := PerSecond}.

-doc """
A function has discovered a process with this number, at a time (native). `ask`: identify the
process; `presume`: its group is this; `throttle`: also throttle the function.
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

%% A process older than the window tells nothing of those started in the window.
seen(MFA, Number, #{throttled := Throttled} = Throttle) ->
    case Throttled of
        #{MFA := #{last := Last, seen := Seen} = Function} when Number > Last ->
            #{from := From, to := To} = Function,
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

-spec learn(mfa(), dyno_agent_processes:group() | gone, id(), t()) -> t().
learn(MFA, Kind, Id, #{groups := Groups} = Throttle) ->
    case learned(Kind, Id, maps:get(MFA, Groups, unknown)) of
        New when is_map_key(MFA, Groups); map_size(Groups) < ?MAX_FUNCTIONS ->
            Throttle#{groups := Groups#{MFA => New}};
        _ ->
            Throttle
    end.

learned(gone, Id, unknown) ->
    {Id, 1, gone};
learned(gone, _, {Id, Count, How}) ->
    {Id, Count + 1, How};
learned({Kind, _}, Id, Before) when Kind =:= initial_call; Kind =:= first_call ->
    case Before of
        unknown -> {Id, 1, identified};
        {Id, Count, _} -> {Id, Count + 1, identified};
        {_, _, gone} -> {Id, 1, identified};
        _ -> several
    end;
%% A name or a label tells nothing of the next process.
learned(_Kind, _Id, _Before) ->
    several.

-spec group(mfa(), t()) -> {ok, id()} | unknown.
group(MFA, #{groups := Groups}) ->
    case Groups of
        #{MFA := {Id, _, _}} -> {ok, Id};
        #{} -> unknown
    end.

-spec throttled(t()) -> #{mfa() => id()}.
throttled(#{throttled := Throttled}) -> #{MFA => Id || MFA := #{id := Id} <- Throttled}.

-spec opened(t()) -> t().
opened(#{throttled := Throttled} = Throttle) ->
    Throttle#{throttled := #{MFA => open(Function) || MFA := Function <- Throttled}}.

-spec is_each_seen(t()) -> boolean().
is_each_seen(#{throttled := Throttled}) -> [] =:= [MFA || MFA := #{seen := 0} <- Throttled].

-doc """
The window has ended at this time and process number. Returns the processes discovered without a
message before; releases functions whose processes have become rare or are of several groups.
""".
-spec closed(integer(), number_of(), t()) -> {silent(), t()}.
closed(Time, Newest, #{throttled := Before} = Throttle) ->
    Closed = #{MFA => closed_one(Time, Newest, Function) || MFA := Function <- Before},
    Throttled =
        #{
            MFA => Function
         || MFA := {_, PerSecond, Function} <- Closed,
            PerSecond * 2 >= map_get(limit, Throttle),
            group(MFA, Throttle) =:= {ok, map_get(id, Function)}
        },
    {sums([{Id, N} || _ := {N, _, #{id := Id}} <- Closed]), Throttle#{throttled := Throttled}}.

%% In a window without processes of the function: none come any more.
closed_one(Time, Newest, #{seen := 0, last := Last} = Function) ->
    {share(Newest - Last, Function), 0, open(Function#{last := max(Newest, Last), since := Time})};
closed_one(Time, _Newest, #{seen := Seen, from := From, to := To, last := Last} = Function) ->
    #{first := First, all := All, since := Since} = Function,
    Weight = min(1, ?REMEMBER / max(1, First)),
    %% One process marks the start of the window.
    Learned = Function#{first := Weight * First + Seen - 1, all := Weight * All + To - From},
    Silent = share(From - Last - 1, Learned),
    Seconds = max(1.0e-3, erlang:convert_time_unit(Time - Since, native, microsecond) / 1.0e6),
    {Silent, (Silent + Seen) / Seconds, open(Learned#{last := To, since := Time})}.

share(Numbers, #{all := All}) when Numbers =< 0; All =:= 0 -> 0;
share(Numbers, #{first := First, all := All}) -> round(Numbers * min(1, First / All)).

-spec settled(integer(), number_of(), t()) -> {silent(), t()}.
settled(Time, Newest, #{throttled := Before} = Throttle) ->
    Settled =
        #{
            MFA => {N + share(Newest - map_get(last, Function), Function), Function}
         || MFA := Open <- Before, {N, _, Function} <- [closed_one(Time, Newest, Open)]
        },
    {sums([{Id, N} || _ := {N, #{id := Id}} <- Settled]), Throttle#{
        throttled :=
            #{
                MFA => open(Function#{last := max(Newest, Last)})
             || MFA := {_, #{last := Last} = Function} <- Settled
            }
    }}.

sums(Silent) ->
    maps:map(
        fun(_, Of) -> lists:sum(Of) end,
        maps:groups_from_list(fun({Id, _}) -> Id end, fun({_, N}) -> N end, Silent)
    ).

-spec release(fun((mfa()) -> boolean()), t()) -> t().
release(IsReleased, #{throttled := Throttled} = Throttle) ->
    Throttle#{throttled := maps:filter(fun(MFA, _) -> not IsReleased(MFA) end, Throttled)}.
