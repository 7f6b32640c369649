%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_comparison).
%% What the programs about `dyno bench` have in common.

-export([run/2, rows/2, time/2, verdict/3, count/2, under_load/2, share/2]).

run(Codes, Options) ->
    {ok, Document} = dyno_bench:run(Codes, Options),
    [Run] = dyno_recording:runs(Document),
    Run.

%% The rows of a run's table, as maps.
rows(Name, Run) ->
    {ok, #{~"columns" := Columns, ~"rows" := Rows}} = dyno_recording:table(Run, Name),
    Names = [N || #{~"name" := N} <- Columns],
    [maps:from_list(lists:zip(Names, Row)) || Row <- Rows].

%% Of a call, in nanoseconds.
time(Code, Options) ->
    [#{~"time_per_call" := Ns}] = rows(~"codes", run([Code], Options)),
    Ns.

%% What one code is called by the other, and by what ratio.
verdict(Code, Other, Options) ->
    Run = run([Code, Other], Options),
    [#{~"verdict" := Verdict, ~"ratio" := Ratio}] = rows(~"comparisons", Run),
    {Verdict, Ratio}.

%% How often each value is there.
count(Values, Accepted) ->
    length([V || V <- Values, lists:member(V, Accepted)]).

share(Part, All) -> 100 * Part / All.

%% Calls a function while other programs keep so many processors busy. They end with it, or by
%% themselves.
under_load(0, Fun) ->
    Fun();
under_load(Loops, Fun) ->
    Ports = [
        open_port({spawn_executable, "/bin/sh"}, [
            {args, ["-c", "exec timeout 900 sh -c 'while :; do :; done'"]}, {env, []}
        ])
     || _ <- lists:seq(1, Loops)
    ],
    Pids = [element(2, erlang:port_info(P, os_pid)) || P <- Ports],
    try
        Fun()
    after
        %% timeout passes the signal on to its loop.
        [os:cmd("kill -TERM " ++ integer_to_list(Pid)) || Pid <- Pids]
    end.
