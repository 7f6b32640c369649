%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding).
-moduledoc """
A finding: one thing that is wrong, what shows it, and what to do. Pure.

A recording holds findings in the table `findings`, the worst first (`table/2`); `read/1` gives them
back. The limits are in `m:dyno_finding_limits`, each with its reason.
""".

-export([new/3, ranked/1, spec/0, table/2, read/1, worst/1]).
-export_type([t/0, severity/0]).

-doc """
`critical`: the node is lost, or stops serving. `warning`: it serves late, or wastes. `note`: worth
knowing, no harm yet.
""".
-type severity() :: critical | warning | note.

-doc """
* `check`: which check found it, for programs.
* `subject`: the process, table, function or resource.
* `value`, `limit`, `unit`: both numbers; `beyond`: how many times the limit the value is.
* `text`: one sentence, what is wrong. `evidence`: what shows it. `why`: why it matters.
* `advice`: what to do. `look_closer`: the command of dyno that shows more, without the node.
* `weight`: of two of one severity the one with more comes first.
""".
-type t() :: #{
    check := atom(),
    subject := binary(),
    severity := severity(),
    value := number() | undefined,
    limit := number() | undefined,
    unit := binary(),
    beyond := number(),
    text := binary(),
    evidence := binary(),
    why := binary(),
    advice := binary(),
    look_closer := binary(),
    weight := number()
}.

-doc """
A finding of a check. The fields `text`, `advice` and `severity` must be given; `value` is compared
with the limit of that name, if there is one.
""".
-spec new(atom(), dyno_finding_limits:name() | none, #{atom() => term()}) -> t().
new(Check, Name, Fields) ->
    {Limit, Unit, Why} = dyno_finding_limits:of_name(Name),
    Defaults = #{
        check => Check,
        subject => ~"",
        value => undefined,
        limit => Limit,
        unit => Unit,
        why => Why,
        evidence => ~"",
        look_closer => ~"",
        weight => 0
    },
    #{value := Value} = Given = maps:merge(Defaults, Fields),
    Given#{beyond => beyond(Value, Limit)}.

beyond(Value, Limit) when is_number(Value), is_number(Limit), Limit > 0 -> Value / Limit;
beyond(_Value, _Limit) -> 1.

-doc "The worst first.".
-spec ranked([t()]) -> [t()].
ranked(Findings) ->
    Rank = fun(#{severity := Severity, weight := Weight, beyond := Beyond}) ->
        {rank(Severity), -Weight, -Beyond}
    end,
    [F || {_, F} <- lists:keysort(1, [{Rank(F), F} || F <- Findings])].

rank(critical) -> 1;
rank(warning) -> 2;
rank(note) -> 3.

-doc "The worst severity; none without a finding.".
-spec worst([t()]) -> severity() | none.
worst([]) ->
    none;
worst(Findings) ->
    #{severity := Worst} = hd(ranked(Findings)),
    Worst.

-doc "The table of a recording.".
-spec spec() -> dyno_recording_table:spec().
spec() ->
    #{
        name => ~"findings",
        title => ~"Findings, the worst first",
        derived => true,
        columns => [
            {~"severity", ~"Severity", string, fun(#{severity := S}) -> atom_to_binary(S) end},
            {~"subject", ~"Of", string, #{role => key}, field(subject)},
            {~"text", ~"What is wrong", string, field(text)},
            {~"evidence", ~"What shows it", string, field(evidence)},
            {~"why", ~"Why it matters", string, field(why)},
            {~"advice", ~"What to do", string, field(advice)},
            {~"look_closer", ~"Look closer", string, field(look_closer)},
            {~"value", ~"Value", number, #{role => note}, field(value)},
            {~"limit", ~"Limit", number, #{role => note}, field(limit)},
            {~"unit", ~"Unit", string, field(unit)},
            {~"beyond", ~"Times the limit", number, #{role => note}, field(beyond)},
            {~"weight", ~"Weight", number, #{role => note}, field(weight)},
            {~"check", ~"Check", string, #{role => key}, fun(#{check := C}) ->
                atom_to_binary(C)
            end}
        ]
    }.

field(Key) -> fun(#{Key := Value}) -> Value end.

-doc "The findings of a node as a table.".
-spec table(node(), [t()]) -> dyno_recording_table:table().
table(Node, Findings) ->
    dyno_recording_table:make(spec(), ranked(Findings), #{node => Node}).

-doc "The findings in a run, each with the role of its node, the worst first.".
-spec read(dyno_recording:run()) -> [{Node :: binary(), t()}].
read(Run) ->
    All = [
        {Node, from_row(Row)}
     || #{~"node" := Node} = Table <- dyno_recording:tables(Run, ~"findings"),
        Row <- dyno_recording:rows(Table)
    ],
    Ranked = ranked([Finding#{node => Node} || {Node, Finding} <- All]),
    [{Node, maps:remove(node, Finding)} || #{node := Node} = Finding <- Ranked].

from_row(#{~"severity" := Severity, ~"check" := Check} = Row) ->
    Texts =
        #{
            Key => map_get(atom_to_binary(Key), Row)
         || Key <- [subject, text, evidence, why, advice, look_closer, unit]
        },
    Numbers =
        #{
            Key => number(map_get(atom_to_binary(Key), Row))
         || Key <- [value, limit, beyond, weight]
        },
    maps:merge(maps:merge(Texts, Numbers), #{
        severity => severity(Severity), check => binary_to_atom(Check)
    }).

number(null) -> undefined;
number(Number) -> Number.

severity(~"critical") -> critical;
severity(~"warning") -> warning;
severity(_) -> note.
