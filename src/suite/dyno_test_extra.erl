%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_extra).
-moduledoc false.
%% What a run has beyond its load and its standard instruments, gathered while it goes on and added
%% to the run that dyno_test_figures makes: metrics, series, tables, warnings. Pure.

-export([new/0, metrics/2, series/2, tables/2, warning/2, verdicts/2, add/2, judged/1]).
-export_type([t/0]).

-type part() :: #{atom() => term()}.

-opaque t() :: #{
    metrics := [part()],
    series := [part()],
    tables := [part()],
    warnings := [part()],
    verdicts := [part()]
}.

-spec new() -> t().
new() ->
    #{metrics => [], series => [], tables => [], warnings => [], verdicts => []}.

-spec metrics([part()], t()) -> t().
metrics(Metrics, #{metrics := Before} = Extra) ->
    Extra#{metrics := Before ++ Metrics}.

-spec series([part()], t()) -> t().
series(Series, #{series := Before} = Extra) ->
    Extra#{series := Before ++ Series}.

-spec tables([part()], t()) -> t().
tables(Tables, #{tables := Before} = Extra) ->
    Extra#{tables := Before ++ Tables}.

-spec warning({Code :: binary(), Text :: binary()}, t()) -> t().
warning({Code, Text}, #{warnings := Before} = Extra) ->
    Extra#{warnings := Before ++ [#{code => Code, text => Text}]}.

-spec verdicts([part()], t()) -> t().
verdicts(Verdicts, #{verdicts := Before} = Extra) ->
    Extra#{verdicts := Before ++ Verdicts}.

-doc "A run with all of it; its own metrics stay first, and verdicts are there for `judged/1`.".
-spec add(t(), Run :: part()) -> Run :: part().
add(Extra, Run) ->
    maps:fold(fun(Key, Parts, Acc) -> Acc#{Key => maps:get(Key, Acc, []) ++ Parts} end, Run, Extra).

-doc "The verdicts of a run, which are the recording's, and the run without them.".
-spec judged(Run :: part()) -> {[part()], Run :: part()}.
judged(#{verdicts := Verdicts} = Run) -> {Verdicts, maps:remove(verdicts, Run)};
judged(Run) -> {[], Run}.
