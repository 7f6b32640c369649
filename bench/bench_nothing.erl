%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_nothing).
-moduledoc "A suite whose operation does nothing: all that is measured is the load generator.".

-behaviour(dyno_suite).

-export([suite/0, operation/1]).

suite() ->
    #{name => "nothing", sizes => [1]}.

operation(State) ->
    {ok, State}.
