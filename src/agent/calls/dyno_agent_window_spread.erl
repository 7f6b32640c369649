%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_window_spread).
-moduledoc false.
%% What windows say of a function when they differ. Pure.
%%
%% * How often it was called is in proportion to how much work falls into a window. Functions whose
%%   calls are counted all the time tell how much that is; where no such function was called, the
%%   lengths of the windows do. How far windows are from that gives the error of the sum, that of a
%%   ratio estimator (Cochran, Sampling Techniques, 6.3).
%% * What a call takes is the median over the windows. Where the operating system gives the processor
%%   to somebody else, that counts as time of the function that runs then: some milliseconds, more
%%   than all calls of a short function in a window take. A sum would be made of such accidents.

-export([new/0, add/2, windows/1, ns/1, errors/1, typical/1]).
-export_type([t/0, window/0, errors/0]).

-opaque t() :: #{
    windows := non_neg_integer(),
    ns := non_neg_integer(),
    %% By calls of counted functions, and by lengths: the sum over all windows and of its squares.
    counted := {number(), number()},
    lengths := {number(), number()},
    functions := #{mfa() => seen()}
}.

%% Of its calls the sum, of their squares, of their products with the counted calls and with the
%% lengths; and the calls and microseconds of the latest windows in which it was called.
-type seen() :: {{number(), number(), number(), number()}, [{pos_integer(), number()}]}.

-doc """
`counted`: how often functions were called in it that are counted all the time; `functions`: calls
and times of all.
""".
-type window() :: #{
    ns := pos_integer(),
    counted := non_neg_integer(),
    functions := #{mfa() => {Calls :: pos_integer(), Us :: number()}}
}.

-doc "The standard errors of the number of calls and of the time of one, as a share of these.".
-type errors() :: #{mfa() => {Calls :: float(), Time :: float()}}.

%% With fewer calls of counted functions in all windows, lengths tell more.
-define(LEAST_COUNTED, 100).
%% For medians.
-define(LATEST, 100).
-define(LEAST_WINDOWS, 3).
%% The standard error of a median by that of a mean, and the standard deviation by the median of the
%% distances from the median, of a normal distribution.
-define(OF_MEDIAN, 1.2533).
-define(OF_DISTANCE, 1.4826).

-spec new() -> t().
new() ->
    #{windows => 0, ns => 0, counted => {0, 0}, lengths => {0, 0}, functions => #{}}.

-doc "Adds a window.".
-spec add(window(), t()) -> t().
add(#{ns := Ns, counted := C, functions := Functions}, #{functions := Before} = Spread) ->
    #{windows := Windows, ns := All, counted := {C1, C2}, lengths := {L1, L2}} = Spread,
    L = Ns / 1000,
    Spread#{
        windows := Windows + 1,
        ns := All + Ns,
        counted := {C1 + C, C2 + C * C},
        lengths := {L1 + L, L2 + L * L},
        functions := maps:fold(
            fun(MFA, {X, _} = Window, Acc) ->
                {{S, S2, SC, SL}, Latest} = maps:get(MFA, Acc, {{0, 0, 0, 0}, []}),
                Acc#{
                    MFA => {
                        {S + X, S2 + X * X, SC + X * C, SL + X * L},
                        lists:sublist([Window | Latest], ?LATEST)
                    }
                }
            end,
            Before,
            Functions
        )
    }.

-doc "How many windows there were.".
-spec windows(t()) -> non_neg_integer().
windows(#{windows := Windows}) -> Windows.

-doc "How long all were together.".
-spec ns(t()) -> non_neg_integer().
ns(#{ns := Ns}) -> Ns.

-doc "Of each function; none where there was only one window.".
-spec errors(t()) -> errors().
errors(#{windows := Windows}) when Windows < 2 ->
    #{};
errors(#{windows := Windows, functions := Functions} = Spread) ->
    #{counted := {Counted, _} = ByCounted, lengths := ByLength} = Spread,
    Error =
        case Counted >= ?LEAST_COUNTED of
            true -> fun({S, S2, SC, _}) -> error_of(S, S2, SC, ByCounted, Windows) end;
            false -> fun({S, S2, _, SL}) -> error_of(S, S2, SL, ByLength, Windows) end
        end,
    #{MFA => {Error(Calls), time_error(Latest)} || MFA := {Calls, Latest} <- Functions}.

%% The residuals from being in proportion.
error_of(S, S2, SX, {X, X2}, Windows) ->
    Ratio = S / X,
    Residuals = S2 - 2 * Ratio * SX + Ratio * Ratio * X2,
    math:sqrt(max(0.0, Residuals) * Windows / (Windows - 1)) / S.

time_error(Latest) when length(Latest) < 2 ->
    1.0;
time_error(Latest) ->
    PerCall = per_call(Latest),
    case median(PerCall) of
        Median when Median > 0 ->
            Distance = median([{abs(Us - Median), Calls} || {Us, Calls} <- PerCall]),
            ?OF_MEDIAN * ?OF_DISTANCE * Distance / Median / math:sqrt(length(Latest));
        _ ->
            0.0
    end.

-doc """
What a function's calls typically take, by what they have taken in the windows: a factor for each
function.
""".
-spec typical(t()) -> #{mfa() => float()}.
typical(#{functions := Functions}) ->
    #{
        MFA => median(per_call(Latest)) * lists:sum([Calls || {Calls, _} <- Latest]) / Us
     || MFA := {_, Latest} <- Functions,
        length(Latest) >= ?LEAST_WINDOWS,
        Us <- [lists:sum([Of || {_, Of} <- Latest])],
        Us > 0
    }.

per_call(Latest) -> [{Us / Calls, Calls} || {Calls, Us} <- Latest].

%% Half of the calls are of windows with less.
median(PerCall) ->
    Half = lists:sum([Calls || {_, Calls} <- PerCall]) / 2,
    median(lists:sort(PerCall), Half).

median([{Us, _}], _Half) -> Us;
median([{Us, Calls} | _], Half) when Calls >= Half -> Us;
median([{_, Calls} | Rest], Half) -> median(Rest, Half - Calls).
