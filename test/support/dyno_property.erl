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
    Options = [long_result, {numtests, Tests}, {on_output, fun logged/2}],
    case proper:quickcheck(Property, Options) of
        true -> ok;
        Found -> ct:fail({property_does_not_hold, Found})
    end.

%% The counterexample is told before it is shrunk: shrinking may crash (proper_shrink:slice/4 does for
%% some lists).
logged(".", _) -> ok;
logged(Format, Values) -> ct:log(Format, Values).
