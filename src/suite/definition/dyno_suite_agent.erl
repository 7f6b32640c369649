%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_suite_agent).
-moduledoc """
The behaviour of a custom agent: your code that runs in each target under load, and samples values
unknown to dyno. Samples become series and charts of the report, and thresholds can name them.

```erlang
-module(mailboxes).
-behaviour(dyno_suite_agent).
-export([metrics/0, init/1, sample/1]).

metrics() ->
    [#{name => "mailbox.longest", unit => count, title => "Longest mailbox"}].

init(#{}) ->
    {ok, none}.

sample(State) ->
    Lengths = [N || P <- processes(), {_, N} <- [process_info(P, message_queue_len)]],
    {ok, #{"mailbox.longest" => lists:max(Lengths)}, State}.
```

A suite names agents (`agents => [mailboxes]` or `agents => ["mailboxes.erl"]`), or the command line
does (`--agent mailboxes.erl`). The module is sent to the targets and removed afterwards; it may
call the target's modules, at least kernel and stdlib. `init`, `sample`, `results` and `terminate`
run in one process in the target, with at most 128 MiB and 5 seconds each.

PerformERL's four callbacks (`performerl_custom_agent`) work too: `get_config/3` and
`process_results/2` run here, `start/1` and `get_results_and_stop/0` in the target. The recording
and the report have the result of `process_results`.
""".

-export([form/1]).
-export_type([metric/0, value/0]).

-doc "A value's name, unit and title; doc/recording.md has the units, `count` and so on.".
-type metric() :: #{
    name := atom() | string() | binary(),
    unit => atom() | string() | binary(),
    title => string() | binary()
}.

-doc "A number in the unit of `metrics/0`, or with its unit.".
-type value() :: number() | {number(), atom() | string() | binary()}.

-doc "Descriptions of the values, if names and numbers are not enough.".
-callback metrics() -> [metric()].

-doc "The argument of `init/1` for a target and a size; runs in dyno's node. `#{}` by default.".
-callback config(node(), Size :: non_neg_integer()) -> term().

-doc "Begins, in the target.".
-callback init(Config :: term()) -> {ok, State :: term()} | ignore | {error, term()}.

-doc "Takes a sample, in the target, every `interval_ms`. New names may appear later.".
-callback sample(State :: term()) ->
    {ok, #{atom() | string() | binary() => value()}, State :: term()}.

-doc "Results for the report at the end: a number, a text, a map or a list of these.".
-callback results(State :: term()) -> term().

-doc "Ends, in the target. Linked processes end anyway.".
-callback terminate(State :: term()) -> term().

-optional_callbacks([metrics/0, config/2, results/1, terminate/1]).

-define(OURS, [{init, 1}, {sample, 1}]).
-define(PERFORMERL, [
    {get_config, 3}, {process_results, 2}, {start, 1}, {get_results_and_stop, 0}
]).

-doc "The form of a module: PerformERL's four callbacks, or `init/1` and `sample/1`.".
-spec form(module()) ->
    dyno_agent_custom:form() | {missing, Behaviour :: atom(), [{atom(), arity()}]}.
form(Module) ->
    Exports = Module:module_info(exports),
    case {?OURS -- Exports, ?PERFORMERL -- Exports} of
        {[], _} -> sampler;
        {_, []} -> performerl;
        {_, Missing} when length(Missing) =< 2 -> {missing, performerl_custom_agent, Missing};
        {Missing, _} -> {missing, ?MODULE, Missing}
    end.
