%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_tries).
-moduledoc """
For statements about measured times and instants. On a machine that does other things, such a
statement may fail once, and no bound is wide enough; what is wrong always fails each time.
""".

-export([hold/2]).

-doc "Does it, and where it raises does it again, so often at most. The last exception is the caller's.".
-spec hold(pos_integer(), fun(() -> Result)) -> Result.
hold(1, Fun) ->
    Fun();
hold(Tries, Fun) ->
    try
        Fun()
    catch
        error:Reason:Stack ->
            ct:pal("once more: ~tp~n~tp", [Reason, Stack]),
            hold(Tries - 1, Fun)
    end.
