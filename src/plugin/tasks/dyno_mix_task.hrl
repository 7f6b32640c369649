%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% The functions of a task of Mix.

-export([run/1, '__info__'/1]).

-doc "Called by Mix.".
-spec run([binary()]) -> ok.
run(Arguments) -> dyno_mix:run(?COMMAND, Arguments).

-doc false.
-spec '__info__'(atom()) -> term().
'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).
