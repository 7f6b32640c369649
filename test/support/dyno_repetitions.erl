%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_repetitions).
-moduledoc false.
%% A recording as if each of its runs had been made three times, with metrics that differ by 0.1 %.

-export([thrice/1]).

-spec thrice(dyno_recording:document()) -> dyno_recording:document().
thrice(#{~"runs" := Runs} = Document) ->
    Document#{~"runs" := [again(Run, N) || Run <- Runs, N <- [1, 2, 3]]}.

again(#{~"id" := Id, ~"metrics" := Metrics} = Run, N) ->
    Run#{
        ~"id" := id(Id, N),
        ~"repetition" := N,
        ~"metrics" := [scaled(Metric, 1 + (N - 2) / 1000) || Metric <- Metrics]
    }.

id(Id, 1) -> Id;
id(Id, N) -> <<Id/binary, "#", (integer_to_binary(N))/binary>>.

%% A count stays one.
scaled(#{~"value" := Value, ~"unit" := Unit} = Metric, Factor) when
    is_number(Value), Unit =/= ~"count"
->
    Metric#{~"value" := Value * Factor};
scaled(Metric, _Factor) ->
    Metric.
