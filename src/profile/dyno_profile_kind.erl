%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_kind).
-moduledoc """
The behaviour of a kind of profile: which instruments look into the node, and what is made of their
results.

A kind is one module and one line in `all/0`. It says which instruments run (`c:instruments/1`);
these measure in the target and describe, as data, their profiles, tables, metrics and warnings
(`m:dyno_agent_instrument`). `m:dyno_profile` attaches them, waits, reads, and records.

```
dyno profile NODE TARGET --kind sample
  dyno_process_filter        which processes: selectors, checked in the node
  dyno_profile_kind          instruments/1: which instruments, with which options
  dyno_targets               attach, restart, ... read
  dyno_target_results        their profiles and tables
  dyno_profile_kind          parts/2: what else is made of them
```

An instrument finds the options of the profile in those of its `c:dyno_agent_instrument:config/1`: of
interest is `processes`, the selectors of dyno_agent_process_filter. One that has seen enough sends
`{dyno_profile, enough}` to the process in the option `sink`: the profile ends then.
""".

-export([all/0, names/0, module/1]).
-export_type([instruments/0]).

-doc """
* `on`: the names of dyno's own instruments that run (`dyno_agent_instrument:names/1`); the others
  are switched off.
* `instruments`: others, which are sent to the node.
* `level` and `patterns` as in `t:dyno_targets:options/0`; by default the level is `discovery` and
  no function is measured.
* `warmup_ms`: the instruments run so long before what is recorded; 0 by default.
* What else the instruments' `config/1` are to find.
""".
-type instruments() :: #{
    on => [atom()],
    instruments => [module()],
    level => dyno_agent_instrument:level(),
    patterns => [dyno_agent_patterns:pattern()],
    warmup_ms => non_neg_integer(),
    atom() => term()
}.

-doc "Which instruments, for these options of a profile.".
-callback instruments(dyno_profile:options()) ->
    {ok, instruments()} | {error, dyno_error:error()}.

-doc """
The parts of the run, made of what the instruments' results gave. Where it is not exported the
parts stay as they are; either way each profile gets its table of functions afterwards.
""".
-callback parts(dyno_target_results:parts(), dyno_profile:options()) ->
    dyno_target_results:parts().

-optional_callbacks([parts/2]).

-doc "Each kind's name, module, and what it shows, in the order of the help; the first is the default.".
-spec all() -> [{atom(), module(), Help :: string()}, ...].
all() ->
    [
        {sample, dyno_profile_sample, "stacks at random instants, at little cost"},
        {cpu, dyno_profile_cpu,
            "stacks by processor time, also of short-lived processes, BIFs and NIFs; loads a library "
            "into the node, and removes it"},
        {time, dyno_profile_exact, "own time and calls of each function"},
        {count, dyno_profile_exact, "calls of each function"},
        {memory, dyno_profile_exact, "words that each function allocates"},
        {calls, dyno_profile_calls, "a tree of all calls of some processes, or within one function"},
        {schedulers, dyno_profile_schedulers, "the numbers of ready processes and of busy schedulers"}
    ].

-doc "The kinds' names.".
-spec names() -> [atom(), ...].
names() -> [Name || {Name, _, _} <- all()].

-doc "The module of a kind.".
-spec module(atom()) -> module().
module(Name) ->
    {Name, Module, _} = lists:keyfind(Name, 1, all()),
    Module.
