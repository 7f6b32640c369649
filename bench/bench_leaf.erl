%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_leaf).
-moduledoc "The function that is traced: it does nothing, so that only the tracing is seen.".

-export([leaf/1]).

-doc "Gives back what it is given.".
-spec leaf(Term) -> Term.
leaf(Term) -> Term.
