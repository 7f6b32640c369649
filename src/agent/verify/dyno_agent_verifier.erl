%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_verifier).
-moduledoc """
The behaviour of what runs monitors in a target: dyno_agent_verify and those that it is compared
with.

`c:start_link/1` starts it below dyno_agent_guard. From then on its sink gets
`{dyno_verify, node(), Message}`, with `t:message/0`, and `c:finish/1` gives what was counted, when
all events of until then are done.
""".

-export_type([config/0, message/0, summary/0]).

-type config() :: #{
    monitors := [module(), ...],
    sink := pid(),
    %% In place of the monitors' own.
    select => [dyno_agent_monitor:selector()],
    %% The most events that wait, the memory that these may take, the most a second.
    limits => dyno_agent_event_flow:limits(),
    %% Of the last ones so many are shown with a verdict.
    events => non_neg_integer(),
    shards => pos_integer(),
    %% What a monitor may take for one event.
    step_ms => pos_integer(),
    atom() => term()
}.

-type message() ::
    {verdict, dyno_agent_monitor:report()}
    | {crashed, module(), dyno_agent_event:process(), {atom(), term(), list()}}
    | {fault, unicode:chardata()}
    %% Nothing is monitored any more; the fault before it says why.
    | gave_up.

-type summary() :: #{
    node := node(),
    duration_ns := non_neg_integer(),
    %% What happened to dyno's own processes.
    faults := [unicode:chardata()],
    verdicts := dyno_agent_verdicts:summary(),
    properties := #{module() => unicode:chardata()},
    %% More of the instrumentation's own: name and number.
    more => [{binary(), number()}]
}.

-callback start_link(config()) -> gen_server:start_ret().
-doc "What was counted until now.".
-callback peek(pid()) -> summary().
-doc "Traces no more, and gives what was counted when all that came is done.".
-callback finish(pid()) -> summary().
