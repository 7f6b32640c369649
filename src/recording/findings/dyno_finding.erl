%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding).
-moduledoc """
A finding: a problem, its evidence, and advice. Pure.

A recording holds findings in the table `findings` of a run or of all runs, the worst first
(`table/2`), and doubts about numbers as warnings with the same fields (`note/1`). `read/1` returns
both, also from older recordings. `m:dyno_finding_limits` has the limits and their reasons.
""".

-export([new/3, ranked/1, ranked_with/1, in_order/1, worst/1, verdict/3]).
-export([spec/0, table/2, note/1, read/1]).
-export_type([t/0, severity/0]).

-doc """
`critical`: the node is lost, or stops serving. `warning`: it serves late, or wastes. `doubt`: a
number is less reliable than it looks. `note`: worth knowing, no harm yet.
""".
-type severity() :: critical | warning | doubt | note.

-doc """
* `check`: the check, for programs.
* `subject`: the process, table, function or resource.
* `value`, `limit`, `unit`: both numbers; `beyond`: value by limit, or for a lower limit, limit by
  value.
* `text`: the problem in one sentence. `evidence`: its observations. `why`: why it matters.
* `advice`: the remedy. `look_closer`: dyno's command for more details, without the node.
* `weight`: orders findings of one severity, the largest first.
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

-doc "A finding of a check with `text` and `severity`; a named limit is compared with `value`.".
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
        advice => ~"",
        look_closer => ~"",
        weight => 0,
        beyond => beyond(maps:get(value, Fields, undefined), Limit)
    },
    maps:merge(Defaults, Fields).

beyond(Value, Limit) when is_number(Value), is_number(Limit), Limit > 0 -> Value / Limit;
beyond(_Value, _Limit) -> 1.

-doc "The worst first.".
-spec ranked([t()]) -> [t()].
ranked(Findings) ->
    [F || {_, F} <- ranked_with([{none, F} || F <- Findings])].

-doc "The same, of findings with something else.".
-spec ranked_with([{Else, t()}]) -> [{Else, t()}].
ranked_with(Findings) ->
    [With || {_, With} <- lists:keysort(1, [{rank(F), With} || {_, F} = With <- Findings])].

rank(#{severity := Severity, weight := Weight, beyond := Beyond}) ->
    {severity_rank(Severity), -Weight, -Beyond}.

severity_rank(critical) -> 1;
severity_rank(warning) -> 2;
severity_rank(doubt) -> 3;
severity_rank(note) -> 4.

-doc "Adds weights that keep this order within a severity.".
-spec in_order([t()]) -> [t()].
in_order(Findings) ->
    [F#{weight := Weight} || {Weight, F} <- lists:enumerate(length(Findings), -1, Findings)].

-doc "The worst severity; none without a finding.".
-spec worst([t()]) -> severity() | none.
worst([]) ->
    none;
worst(Findings) ->
    #{severity := Worst} = hd(ranked(Findings)),
    Worst.

-doc "The verdict on a subject: only critical findings fail. Adds the given fields.".
-spec verdict(Name :: binary(), [t()], #{atom() => term()}) -> #{atom() => term()}.
verdict(Name, Findings, Fields) ->
    {Result, Text} =
        case ranked(Findings) of
            [] -> {pass, ~"nothing found"};
            [#{severity := critical, text := Worst} | _] -> {fail, Worst};
            [#{text := Worst} | _] -> {pass, Worst}
        end,
    Fields#{kind => finding, name => Name, result => Result, text => Text}.

-doc "The table of a recording.".
-spec spec() -> dyno_recording_table:spec().
spec() ->
    #{
        name => ~"findings",
        title => ~"Findings, the worst first",
        derived => true,
        columns => [
            {~"severity", ~"Severity", string, severity},
            {~"subject", ~"Of", string, key, subject},
            {~"text", ~"Problem", string, text},
            {~"evidence", ~"Evidence", string, evidence},
            {~"why", ~"Why it matters", string, why},
            {~"advice", ~"Advice", string, advice},
            {~"look_closer", ~"Look closer", string, look_closer},
            {~"value", ~"Value", number, value},
            {~"limit", ~"Limit", number, note, limit},
            {~"unit", ~"Unit", string, unit},
            {~"beyond", ~"Times the limit", number, note, beyond},
            {~"weight", ~"Weight", number, note, weight},
            {~"check", ~"Check", string, key, check}
        ]
    }.

-doc "The findings of a node, or of all, as a table.".
-spec table(node() | binary() | undefined, [t()]) -> dyno_recording_table:table().
table(Node, Findings) ->
    dyno_recording_table:make(spec(), ranked(Findings), #{node => Node}).

-doc "A finding as a recording's warning, with its check as code.".
-spec note(t()) -> #{atom() => term()}.
note(#{check := Check} = Finding) ->
    Known = maps:filter(
        fun(Key, Value) ->
            not lists:member(Key, [check, beyond, weight]) andalso Value =/= ~"" andalso
                Value =/= undefined
        end,
        Finding
    ),
    Known#{code => Check}.

-doc "The findings of a recording or a run, not of its runs, with nodes' roles, the worst first.".
-spec read(dyno_recording:document() | dyno_recording:run()) -> [{Node :: binary() | null, t()}].
read(Of) ->
    All =
        [
            {Node, from_row(Row)}
         || #{~"node" := Node} = Table <- dyno_recording:tables(Of, ~"findings"),
            Row <- dyno_recording:rows(Table)
        ] ++
            [
                {null, from_note(Note)}
             || #{~"warnings" := [_ | _] = Notes} <- [Of],
                #{~"code" := Code} = Note <- Notes,
                Code =/= ~"not_known"
            ] ++ of_before(Of),
    ranked_with(All).

from_row(Row) ->
    maps:merge(from_note(Row), known([beyond, weight], Row)).

%% Another program may have written it.
from_note(Row) ->
    Texts = known([subject, text, evidence, why, advice, look_closer, unit], Row),
    Fields = maps:merge(#{text => ~""}, maps:merge(Texts, known([value, limit], Row))),
    Check = check(maps:get(~"check", Row, maps:get(~"code", Row, ~""))),
    new(Check, none, Fields#{severity => severity(maps:get(~"severity", Row, Check))}).

known(Keys, Row) ->
    #{
        Key => Value
     || Key <- Keys,
        Value <- [maps:get(atom_to_binary(Key), Row, null)],
        is_binary(Value) orelse is_number(Value)
    }.

%% A recording may be of a later dyno.
check(Name) ->
    try
        binary_to_existing_atom(Name)
    catch
        error:badarg -> unknown
    end.

severity(~"critical") ->
    critical;
severity(~"warning") ->
    warning;
severity(~"note") ->
    note;
%% The severity of warnings without one; remains in a node are no doubt.
severity(Lacks) when
    Lacks =:= not_called; Lacks =:= node_left; Lacks =:= node_lost; Lacks =:= unfinished
->
    warning;
severity(modules_left) ->
    note;
severity(_) ->
    doubt.

%% Sentences of older tables, in order.
of_before(Of) ->
    Read = fun(Name, Severity) ->
        in_order([
            new(binary_to_atom(Name), none, #{severity => Severity, text => Text})
         || #{~"text" := Text} <- dyno_recording:rows(Of, Name)
        ])
    end,
    [{null, F} || F <- Read(~"saturation", warning) ++ Read(~"server_findings", note)].
