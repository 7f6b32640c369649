%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors
%%
%% The macros of PropEr that the suites here use: Debian's package brings its modules only.

-define(FORALL(X, Type, Property), proper:forall(Type, fun(X) -> Property end)).
-define(LET(X, Type, Expression), proper_types:bind(Type, fun(X) -> Expression end, false)).
-define(WHENFAIL(Action, Property), proper:whenfail(fun() -> Action end, fun() -> Property end)).
