%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_sums).
-moduledoc false.
%% Sums call statistics by function and group of processes. Pure. The size grows with functions and
%% groups, not with processes: undiscovered processes are in the group `other`.
%%
%% The runtime cuts each process's time in a function to whole microseconds. If short-lived
%% processes call a function once, all times and their sum would be 0. So a time of N > 0 us counts
%% as N + 0.5, right on average. A time of 0 lies between the overhead of its calls and 1 us; such a
%% time counts as the mean of the log-uniform distribution between the two. The possible error of
%% both is kept.

-export([new/0, add/4, functions/2, callers/2]).
-export_type([t/0, reading/0, group_of/0, overhead/0]).

-type reading() :: #{
    calls := non_neg_integer(),
    words := non_neg_integer(),
    time := [{pid(), Calls :: non_neg_integer(), Seconds :: integer(), Us :: integer()}],
    memory => [{pid(), Calls :: non_neg_integer(), Words :: non_neg_integer()}]
}.

-type group_of() :: fun((pid()) -> term()) | none.

-type overhead() :: #{
    group_of => group_of(),
    %% The reported time of one call of an empty function.
    least_ns := number() | undefined,
    call_ns => fun((Callers :: number()) -> number())
}.

-type sums() :: #{
    calls := non_neg_integer(),
    words := non_neg_integer(),
    own_time_ns := non_neg_integer(),
    uncertain_ns := non_neg_integer(),
    total_overhead_ns := float(),
    groups := #{term() => {Calls :: non_neg_integer(), Ns :: non_neg_integer()}}
}.

-opaque t() :: #{mfa() => sums()}.

%% The resolution of the runtime's times.
-define(CUT_NS, 1000).
%% No measured call takes less.
-define(LEAST_NS, 20).
%% Of longer times at most a twentieth is cut.
-define(SHORT_US, 10).

-spec new() -> t().
new() -> #{}.

-spec add(mfa(), reading(), overhead(), t()) -> t().
add(MFA, #{calls := Counted, words := Words, time := Time}, Overhead, All) ->
    #{group_of := GroupOf, least_ns := LeastNs} = Overhead,
    #{groups := Before} = Sums = maps:get(MFA, All, zero()),
    None = {0, 0, 0, 0, {0, 0, 0}, Before},
    {ByProcess, Ns, OffNs, Squares, Short, Groups} = sum(Time, GroupOf, least(0, LeastNs), None),
    case max(Counted, ByProcess) of
        0 when Words =:= 0 ->
            All;
        Calls ->
            Add = fun(Key, Value) -> map_get(Key, Sums) + Value end,
            AddedNs = overhead_ns(Calls, Squares, Overhead),
            All#{
                MFA => Sums#{
                    calls := Add(calls, Calls),
                    words := Add(words, Words),
                    own_time_ns := Add(own_time_ns, Ns),
                    uncertain_ns := Add(uncertain_ns, OffNs + short_uncertain_ns(Short)),
                    total_overhead_ns := Add(total_overhead_ns, AddedNs),
                    groups := Groups
                }
            }
    end.

%% The effective number of calling processes, weighted by calls (the inverse of Simpson's index).
%% One that calls a million times and a thousand that call once are one.
overhead_ns(Calls, Squares, #{call_ns := CallNs}) when Squares > 0 ->
    Calls * CallNs(Calls * Calls / Squares);
overhead_ns(_Calls, _Squares, _Overhead) ->
    0.0.

%% One pass: there is a row for each function and process, of thousands.
sum([], _GroupOf, _Zero, Sum) ->
    Sum;
sum([{_, 0, _, _} | Rest], GroupOf, Zero, Sum) ->
    sum(Rest, GroupOf, Zero, Sum);
sum([{_, C, 0, 0} | _] = Rows, GroupOf, {Of, _, _, LeastNs}, Sum) when Of =/= C ->
    sum(Rows, GroupOf, least(C, LeastNs), Sum);
sum([{Pid, C, S, Us} | Rest], GroupOf, {_, Mean, Off, _} = Zero, Sum) ->
    {Calls, Ns, OffNs, Squares, Short, Groups} = Sum,
    {Took, More} =
        case {S, Us} of
            {0, 0} -> {Mean, Off};
            _ -> {S * 1_000_000_000 + Us * ?CUT_NS + ?CUT_NS div 2, 0}
        end,
    sum(Rest, GroupOf, Zero, {
        Calls + C,
        Ns + Took,
        OffNs + More,
        Squares + C * C,
        short(S, Us, Short),
        group(GroupOf, Pid, C, Took, Groups)
    }).

short(0, Us, {N, Sum, Squares}) when Us > 0, Us < ?SHORT_US ->
    {N + 1, Sum + Us, Squares + Us * Us};
short(_S, _Us, Short) ->
    Short.

group(none, _Pid, _Calls, _Ns, Groups) ->
    Groups;
group(GroupOf, Pid, Calls, Ns, Groups) ->
    Group = GroupOf(Pid),
    {C, T} = maps:get(Group, Groups, {0, 0}),
    Groups#{Group => {C + Calls, T + Ns}}.

%% If times are alike, N + 0.5 may be wrong for all in the same way. Times close around a whole
%% number are cut to N and N - 1, a share P to N: the error is |P - 1/2|, shown by their variance P
%% (1 - P). If times differ by more, the errors cancel: for a normal distribution, with sigma in
%% units of the cut, all but exp(-2 pi^2 sigma^2) / pi.
short_uncertain_ns({0, _Sum, _Squares}) ->
    0;
short_uncertain_ns({N, Sum, Squares}) ->
    Variance = Squares / N - (Sum / N) * (Sum / N),
    %% The cut itself adds 1/12.
    Spread = math:exp(-2 * math:pi() * math:pi() * max(0.0, Variance - 1 / 12)) / math:pi(),
    round(N * ?CUT_NS * max(math:sqrt(max(0.0, 1 / 4 - Variance)), Spread)).

%% The estimate of a time of 0, and its possible error.
least(Calls, LeastNs) ->
    Least =
        case LeastNs of
            undefined -> ?LEAST_NS;
            _ -> min(max(?LEAST_NS, Calls * LeastNs), ?CUT_NS * 0.9)
        end,
    Mean = (?CUT_NS - Least) / math:log(?CUT_NS / Least),
    {Calls, round(Mean), round(max(?CUT_NS - Mean, Mean - Least)), LeastNs}.

zero() ->
    #{
        calls => 0,
        words => 0,
        own_time_ns => 0,
        uncertain_ns => 0,
        total_overhead_ns => 0.0,
        groups => #{}
    }.

-spec functions([atom()], t()) -> [#{atom() => term()}].
functions(Measures, All) ->
    Keys = #{call_time => [own_time_ns, uncertain_ns, total_overhead_ns], call_memory => [words]},
    Measured = [calls | lists:append([maps:get(Measure, Keys, []) || Measure <- Measures])],
    [(maps:with(Measured, Sums))#{mfa => MFA} || MFA := Sums <- All].

-spec callers(pos_integer(), t()) ->
    [{mfa(), Group :: term(), Calls :: non_neg_integer(), Ns :: non_neg_integer()}].
callers(MaxRows, All) ->
    Rows = [
        {MFA, Group, Calls, Ns}
     || MFA := #{groups := Groups} <- All, Group := {Calls, Ns} <- Groups
    ],
    lists:sublist(lists:reverse(lists:keysort(4, Rows)), MaxRows).
