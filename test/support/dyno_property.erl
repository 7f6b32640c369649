%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_property).
-moduledoc "Checks PropEr's properties without its dots, of which a log would be full.".

-export([holds/2]).

-doc """
Fails the test case, with the smallest counterexample, where the property does not hold. A property
that takes long is given two numbers: of its tests in `make test`, and of all in `make check`.
""".
-spec holds(proper:outer_test(), pos_integer() | {pos_integer(), pos_integer()}) -> ok.
holds(Property, {Few, All}) ->
    case os:getenv("DYNO_TESTS") of
        Quick when Quick =:= "quick"; Quick =:= "older" -> holds(Property, Few);
        _ -> holds(Property, All)
    end;
holds(Property, Tests) ->
    case proper:quickcheck(Property, [quiet, long_result, {numtests, Tests}]) of
        true -> ok;
        Found -> ct:fail({property_does_not_hold, Found})
    end.
