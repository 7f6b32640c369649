%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_window_spread_SUITE).
-moduledoc false.
%% What a call takes, by windows in which another program often had the processor.

-export([newest_release_only/0, all/0]).
-export([quiet_machine/1, busy_machine/1, always_busy/1, by_work_where_little_is_counted/1]).

-include_lib("stdlib/include/assert.hrl").

-define(SEND, {ranch_tcp, send, 2}).
-define(INIT, {cowboy_stream_h, init, 3}).

newest_release_only() -> all.

all() -> [quiet_machine, busy_machine, always_busy, by_work_where_little_is_counted].

%% All windows count: in one of four a call takes three times as long, and that is the function's.
quiet_machine(_Config) ->
    Times = [25, 26, 25, 75, 25, 24, 25, 75, 26, 25, 25, 75],
    ?assertEqual(25, round(send_us([{Us, {35, 35}} || Us <- Times]))).

%% As seen with Cowboy on two processors and a load of 18: send wakes up who takes the processor.
busy_machine(_Config) ->
    Times = [350, 38, 150, 90, 25, 33, 50, 60, 300, 130, 28, 42],
    Us = send_us([{Us, {35, 12}} || Us <- Times]),
    ?assert(Us >= 25 andalso Us =< 38, Us).

%% Where no window is quiet, the interval says so.
always_busy(_Config) ->
    Spread = spread([{Us, {35, 12}} || Us <- [350, 380, 150, 90, 260, 900, 500, 160]]),
    #{?SEND := {_, _, Alike}} = dyno_agent_window_spread:errors(Spread),
    ?assertEqual(33, round(100 * Alike)).

%% Windows of the same length in which the node did once more, once less: what was called is in
%% proportion to that, so nothing is uncertain. By another measure much would be.
by_work_where_little_is_counted(_Config) ->
    Error = fun(ReductionsOf) ->
        Spread = lists:foldl(
            fun(Calls, Acc) ->
                Window = #{
                    ns => 35_000_000,
                    reductions => ReductionsOf(Calls),
                    counted => Calls rem 3,
                    worked => {35, 35},
                    rows => #{?SEND => [{Calls, 25 * Calls}]}
                },
                dyno_agent_window_spread:add(Window, Acc)
            end,
            dyno_agent_window_spread:new(),
            [100, 400, 20, 250]
        ),
        #{?SEND := {OfCalls, _, _}} = dyno_agent_window_spread:errors(Spread),
        OfCalls
    end,
    ?assert(Error(fun(Calls) -> 700 * Calls end) < 1.0e-9),
    ?assert(Error(fun(_) -> 80_000 end) > 0.3).

%% As the sum of all windows, by the factor.
send_us(Windows) ->
    Spread = spread(Windows),
    #{?SEND := Factor} = dyno_agent_window_spread:typical(Spread),
    Factor * lists:sum([Us || {Us, _} <- Windows]) / length(Windows).

spread(Windows) ->
    lists:foldl(
        fun({Us, Worked}, Spread) ->
            Window = #{
                ns => 35_000_000,
                reductions => 80_000,
                counted => 100,
                worked => Worked,
                rows => #{?SEND => [{100, 100 * Us}], ?INIT => [{50, 300}, {50, 300}]}
            },
            dyno_agent_window_spread:add(Window, Spread)
        end,
        dyno_agent_window_spread:new(),
        Windows
    ).
