%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_kind).
-moduledoc """
The behaviour of a kind of profile: its instruments in the node, and the parts of its recording.

A kind is one module and one line in `all/0`. It chooses the instruments (`c:instruments/1`), which
describe as data their profiles, tables, metrics and warnings (`m:dyno_agent_instrument`).
`m:dyno_profile` attaches them, waits, reads, and records.

```
dyno profile NODE TARGET --kind sample
  dyno_process_filter        which processes: selectors, checked in the node
  dyno_profile_kind          instruments/1: which instruments, with which options
  dyno_targets               attach, restart, ... read
  dyno_target_results        their profiles and tables
  dyno_profile_kind          parts/2: what else is made of them
```

An instrument gets the profile's options in its `c:dyno_agent_instrument:config/1`, such as
`processes`, the selectors of dyno_agent_process_filter. To end the profile early, an instrument
sends `{dyno_profile, enough}` to the process in the option `sink`.
""".

-export([all/0, names/0, module/1]).
-export_type([instruments/0]).

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

-doc "The instruments for a profile's options.".
-callback instruments(dyno_profile:options()) ->
    {ok, instruments()} | {error, dyno_error:error()}.

-doc """
The run's parts, from the instruments' results. Without this callback the parts stay unchanged; each
profile gets its table of functions afterwards.
""".
-callback parts(dyno_target_results:parts(), dyno_profile:options()) ->
    dyno_target_results:parts().

-optional_callbacks([parts/2]).

-doc """
Each kind's name, module and description, in the order of the help; the first is the default.
""".
-spec all() -> [{atom(), module(), Help :: string()}, ...].
all() ->
    [
        {sample, dyno_profile_sample, "stacks at random instants"},
        {cpu, dyno_profile_cpu,
            "stacks by processor time, with BIFs, NIFs and short-lived processes; loads a library "
            "into the node"},
        {time, dyno_profile_exact, "own time and calls of each function"},
        {count, dyno_profile_exact, "calls of each function"},
        {memory, dyno_profile_exact, "words that each function allocates"},
        {calls, dyno_profile_calls, "the tree of all calls"},
        {schedulers, dyno_profile_schedulers, "ready processes and busy schedulers"}
    ].

-doc "The kinds' names.".
-spec names() -> [atom(), ...].
names() -> [Name || {Name, _, _} <- all()].

-doc "The module of a kind.".
-spec module(atom()) -> module().
module(Name) ->
    {Name, Module, _} = lists:keyfind(Name, 1, all()),
    Module.
