%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_window_spread).
-moduledoc false.
%% What windows say of a function when they differ. Pure.
%%
%% * How often it was called is in proportion to how much work falls into a window. Functions whose
%%   calls are counted all the time tell how much that is; where these were hardly called, the
%%   reductions of the node do. How far windows are from that gives the error of the sum, that of a
%%   ratio estimator (Cochran, Sampling Techniques, 6.3).
%% * What a call takes is the median over the windows. Where the operating system gives the
%%   processor to somebody else, that counts as time of the function that runs then: some
%%   milliseconds, more than all calls of a short function in a window take. A sum would be made of
%%   such accidents.
%% * On a machine with more to do than it can, that happens in most windows, and mostly where a
%%   function wakes another program up: a call that sends to a socket took 25 us, or 300 with the
%%   time of who got the processor then. Accidents only make times longer. So where the node's
%%   schedulers had no processor for a share S of their time, it is not the median, but the quantile
%%   (1 - S) / 2 of what calls take in single processes, as if that share of the calls were accidents
%%   and came last; and times may be off by half that share, however many windows there are.

-export([new/0, add/2, windows/1, ns/1, reductions/1, least_counted/0, errors/1, typical/1]).
-export_type([t/0, window/0, errors/0]).

-opaque t() :: #{
    windows := non_neg_integer(),
    ns := non_neg_integer(),
    %% Calls of counted functions, and reductions: the sum over all windows and of its squares.
    counted := {number(), number()},
    reductions := {number(), number()},
    functions := #{mfa() => seen()},
    latest := [{times(), work()}],
    %% Of single processes.
    rows := #{mfa() => [{pos_integer(), number()}]}
}.

%% Of its calls the sum, of their squares, of their products with the counted calls and with the
%% reductions.
-type seen() :: {number(), number(), number(), number()}.

%% How long the schedulers worked, and had a processor for that.
-type work() :: {Schedulers :: integer(), Processor :: integer()}.

-type times() :: #{mfa() => {Calls :: pos_integer(), Us :: number()}}.

-doc """
`counted`: how often functions were called in it that are counted all the time; `rows`: calls and
times of each function by process.
""".
-type window() :: #{
    ns := pos_integer(),
    reductions := non_neg_integer(),
    counted := non_neg_integer(),
    worked := work(),
    rows := #{mfa() => [{Calls :: pos_integer(), Us :: number()}, ...]}
}.

-doc """
The standard errors of the number of calls and of the time of one, as a share of these; and by what
share of it the time may be off in all windows alike.
""".
-type errors() :: #{mfa() => {Calls :: float(), Time :: float(), Alike :: float()}}.

%% With fewer calls of counted functions in all windows, reductions tell more.
-define(LEAST_COUNTED, 100).
%% For medians.
-define(LATEST, 100).
-define(LEAST_WINDOWS, 3).
%% With less of a processor for what the schedulers do, single processes are looked at: so many of
%% a window, so many in all.
-define(STARVED, 0.9).
-define(ROWS_OF_WINDOW, 20).
-define(ROWS, 500).
%% The standard error of a median by that of a mean, and the standard deviation by the median of the
%% distances from the median, of a normal distribution.
-define(OF_MEDIAN, 1.2533).
-define(OF_DISTANCE, 1.4826).

-spec new() -> t().
new() ->
    #{
        windows => 0,
        ns => 0,
        counted => {0, 0},
        reductions => {0, 0},
        functions => #{},
        latest => [],
        rows => #{}
    }.

-doc "Adds a window.".
-spec add(window(), t()) -> t().
add(#{ns := Ns, reductions := R, counted := C, worked := Worked, rows := Rows}, Spread) ->
    Functions = #{
        MFA => {lists:sum([Calls || {Calls, _} <- Of]), lists:sum([Us || {_, Us} <- Of])}
     || MFA := Of <- Rows
    },
    #{windows := Windows, ns := All, counted := {C1, C2}} = Spread,
    #{reductions := {R1, R2}} = Spread,
    #{functions := Before, latest := Latest, rows := RowsBefore} = Spread,
    Spread#{
        windows := Windows + 1,
        ns := All + Ns,
        counted := {C1 + C, C2 + C * C},
        reductions := {R1 + R, R2 + R * R},
        functions := maps:fold(
            fun(MFA, {X, _}, Acc) ->
                {Sum, Squares, OfCounted, OfWork} = maps:get(MFA, Acc, {0, 0, 0, 0}),
                Acc#{MFA => {Sum + X, Squares + X * X, OfCounted + X * C, OfWork + X * R}}
            end,
            Before,
            Functions
        ),
        latest := lists:sublist([{Functions, Worked} | Latest], ?LATEST),
        rows := maps:merge_with(
            fun(_, Old, New) -> lists:sublist(New ++ Old, ?ROWS) end,
            RowsBefore,
            #{MFA => lists:sublist(Of, ?ROWS_OF_WINDOW) || MFA := Of <- Rows}
        )
    }.

-doc "How many windows there were.".
-spec windows(t()) -> non_neg_integer().
windows(#{windows := Windows}) -> Windows.

-doc "How long all were together.".
-spec ns(t()) -> non_neg_integer().
ns(#{ns := Ns}) -> Ns.

-doc "The node's reductions in all together.".
-spec reductions(t()) -> non_neg_integer().
reductions(#{reductions := {Reductions, _}}) -> Reductions.

-doc "By so many calls of counted functions in windows, and not fewer, the others are estimated.".
-spec least_counted() -> pos_integer().
least_counted() -> ?LEAST_COUNTED.

-doc "Of each function; none where there was only one window.".
-spec errors(t()) -> errors().
errors(#{windows := Windows}) when Windows < 2 ->
    #{};
errors(#{windows := Windows, functions := Functions} = Spread) ->
    #{counted := {Counted, _} = ByCounted, reductions := ByWork} = Spread,
    Error =
        case Counted >= ?LEAST_COUNTED of
            true -> fun({S, S2, SC, _}) -> error_of(S, S2, SC, ByCounted, Windows) end;
            false -> fun({S, S2, _, SR}) -> error_of(S, S2, SR, ByWork, Windows) end
        end,
    #{latest := Latest} = Spread,
    Times = times(Latest),
    Alike = starved(Latest) / 2,
    #{
        MFA => {Error(Calls), time_error(maps:get(MFA, Times, [])), Alike}
     || MFA := Calls <- Functions
    }.

%% The residuals from being in proportion.
error_of(_S, _S2, _SX, {X, _X2}, _Windows) when X == 0 ->
    1.0;
error_of(S, S2, SX, {X, X2}, Windows) ->
    Ratio = S / X,
    Residuals = S2 - 2 * Ratio * SX + Ratio * Ratio * X2,
    math:sqrt(max(0.0, Residuals) * Windows / (Windows - 1)) / S.

time_error(Times) when length(Times) < 2 ->
    1.0;
time_error(Times) ->
    PerCall = per_call(Times),
    case median(PerCall) of
        Median when Median > 0 ->
            Distance = median([{abs(Us - Median), Calls} || {Us, Calls} <- PerCall]),
            ?OF_MEDIAN * ?OF_DISTANCE * Distance / Median / math:sqrt(length(Times));
        _ ->
            0.0
    end.

-doc """
What a function's calls typically take, by what they have taken in the windows: a factor for each
function.
""".
-spec typical(t()) -> #{mfa() => float()}.
typical(#{latest := Latest, rows := Rows}) ->
    Typical =
        case starved(Latest) of
            Share when Share > 0 ->
                fun(MFA, _Times) -> quantile((1 - Share) / 2, per_call(map_get(MFA, Rows))) end;
            _ ->
                fun(_MFA, Times) -> median(per_call(Times)) end
        end,
    #{
        MFA => Typical(MFA, Times) * lists:sum([Calls || {Calls, _} <- Times]) / Us
     || MFA := Times <- times(Latest),
        length(Times) >= ?LEAST_WINDOWS,
        Us <- [lists:sum([OfWindow || {_, OfWindow} <- Times])],
        Us > 0
    }.

-spec times([{times(), work()}]) -> #{mfa() => [{pos_integer(), number()}, ...]}.
times(Windows) ->
    maps:groups_from_list(
        fun({MFA, _}) -> MFA end,
        fun({_, Times}) -> Times end,
        lists:append([maps:to_list(Window) || {Window, _} <- Windows])
    ).

%% For what share of the time that the schedulers worked they had no processor; 0.0 where it was
%% small.
starved(Windows) ->
    Sum = fun(N) -> lists:sum([element(N, Worked) || {_, Worked} <- Windows]) end,
    case Sum(2) / max(1, Sum(1)) of
        Had when Had < ?STARVED -> 1 - max(0.0, Had);
        _ -> 0.0
    end.

per_call(Times) -> [{Us / Calls, Calls} || {Calls, Us} <- Times].

%% Half of the calls are of windows with less.
median(PerCall) -> quantile(0.5, PerCall).

quantile(Part, PerCall) ->
    Least = Part * lists:sum([Calls || {_, Calls} <- PerCall]),
    first_of(lists:sort(PerCall), Least).

first_of([{Us, _}], _Least) -> Us;
first_of([{Us, Calls} | _], Least) when Calls >= Least -> Us;
first_of([{_, Calls} | Rest], Least) -> first_of(Rest, Least - Calls).
