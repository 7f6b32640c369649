%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_kind).
-moduledoc """
The kinds of profile: their instruments in the node.

The instruments describe their profiles, tables, metrics and warnings as data
(`m:dyno_agent_instrument`). `m:dyno_profile` attaches them, waits, reads, and records.

```
dyno profile NODE TARGET --kind sample
  dyno_process_filter        which processes: selectors, checked in the node
  dyno_profile_kind          which instruments, with which options
  dyno_targets               attach, restart, ... read
  dyno_target_results        their profiles and tables
  dyno_profile_exact         for time, count and memory: the table of functions as a profile
```

An instrument gets the profile's options in its `c:dyno_agent_instrument:config/1`, such as
`processes`, the selectors of dyno_agent_process_filter. To end the profile early, an instrument
sends `{dyno_profile, enough}` to the process in the option `sink`.
""".

-export([all/0, names/0, instruments/1, format_error/1]).

-doc """
* `on`: the names of dyno's running instruments (`dyno_agent_instrument:names/1`); the others are
  switched off.
* `instruments`: further ones, which are sent to the node.
* `level` and `patterns` as in `t:dyno_targets:options/0`; by default the level is `discovery` and
  no function is measured.
* `warmup_ms`: the running time of instruments before the recorded part; 0 by default.
* Further keys for the instruments' `config/1`.
""".
-type instruments() :: #{
    on => [atom()],
    instruments => [module()],
    level => dyno_agent_instrument:level(),
    patterns => [dyno_agent_patterns:pattern()],
    warmup_ms => non_neg_integer(),
    atom() => term()
}.

-type reason() ::
    no_processes
    | no_processes_of_counts
    | processes_and_inside
    | count_without_inside
    | {no_function, binary()}.

%% The time in which calls of the first functions are followed (dyno_agent_call_sample).
-define(WARMUP_MS, 500).
%% Each sample of the VM and the system wakes schedulers: up to 5 ms of an idle node.
-define(INTERVAL_MS, 10_000).

-doc "Each kind's name and description, in the order of the help; the first is the default.".
-spec all() -> [{atom(), Help :: string()}, ...].
all() ->
    [
        {sample, "stacks at random instants"},
        {cpu,
            "stacks by processor time, with BIFs, NIFs and short-lived processes; loads a library "
            "into the node"},
        {time, "own time and calls of each function"},
        {count, "calls of each function"},
        {memory, "words that each function allocates"},
        {calls, "the tree of all calls"},
        {schedulers, "ready processes and busy schedulers"}
    ].

-doc "The kinds' names.".
-spec names() -> [atom(), ...].
names() -> [Name || {Name, _} <- all()].

-doc "The instruments for a profile's options.".
-spec instruments(dyno_profile:options()) -> {ok, instruments()} | {error, {?MODULE, reason()}}.
instruments(#{kind := sample}) ->
    {ok, #{on => [stacks, vm, os]}};
%% In a node that dyno has started: if it is impossible, samples of processes' stacks.
instruments(#{kind := cpu, default_kind := true}) ->
    {ok, with_cpu(preferred)};
instruments(#{kind := cpu}) ->
    {ok, (with_cpu(required))#{interval_ms => ?INTERVAL_MS}};
instruments(#{kind := schedulers}) ->
    {ok, #{on => [vm, os, schedulers], instruments => [dyno_agent_schedulers]}};
instruments(#{kind := calls} = Options) ->
    calls(Options);
instruments(#{kind := count, processes := [_ | _]}) ->
    {error, {?MODULE, no_processes_of_counts}};
instruments(#{kind := Level} = Options) ->
    {ok, #{
        on => [functions, discovery, vm, os],
        level => Level,
        patterns => maps:get(patterns, Options, [{'_', '_', '_'}]),
        warmup_ms => ?WARMUP_MS
    }}.

with_cpu(Use) -> #{on => [stacks, vm, os], cpu => dyno_target_cpu:option(Use)}.

calls(#{inside := _, processes := [_ | _]}) ->
    {error, {?MODULE, processes_and_inside}};
calls(#{count := _} = Options) when not is_map_key(inside, Options) ->
    {error, {?MODULE, count_without_inside}};
calls(#{processes := []} = Options) when
    not is_map_key(inside, Options), not is_map_key(eval, Options), not is_map_key(run, Options)
->
    {error, {?MODULE, no_processes}};
calls(Options) ->
    {ok, (maps:with([inside, count, not_traced], Options))#{
        on => [vm, os, paths], instruments => [dyno_agent_path_profile]
    }}.

-spec format_error(reason()) -> unicode:chardata().
format_error(no_processes) ->
    "--kind calls traces each call, which is too much for a whole node: name processes after NODE, "
    "or a function with --inside";
format_error(no_processes_of_counts) ->
    "the runtime counts the calls of all processes together; leave TARGET away, or take --kind "
    "time, which has the calls of each process";
format_error(processes_and_inside) ->
    "--inside follows whichever process calls the function; leave TARGET away";
format_error(count_without_inside) ->
    "--count is how many calls of a function are followed; name it with --inside";
format_error({no_function, Text}) ->
    io_lib:format("~ts is not one function: write my_mod:handle_call/3 or my_mod:handle_call", [
        Text
    ]).
