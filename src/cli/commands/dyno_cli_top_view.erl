%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_top_view).
-moduledoc "The state of `dyno top`'s screen, which `m:dyno_cli_top_keys` changes. Pure.".

-export([new/1, with_input/2, with_reading/3, with_findings/3, with_detail/2]).
-export([ask/1, sort/1, row/1, items/2, most_rows/0, selected/1, plain/1, json/1]).
-export_type([view/0]).

-doc "For `m:dyno_cli_top_draw`.".
-type view() :: #{
    nodes := [node()],
    node := node(),
    shown := dyno_agent_top:view(),
    %% Where another column was chosen.
    sorts := #{dyno_agent_top:view() => atom()},
    grouped := boolean(),
    filter := binary(),
    %% A filter being typed.
    typing := binary() | none,
    frozen := boolean(),
    helping := boolean(),
    readings := #{node() => dyno_agent_top:reading() | {lost, unicode:chardata()}},
    %% The worst first.
    findings := #{node() => [dyno_finding:t()]},
    %% The share of a scheduler that the looks for them take.
    looks := #{node() => float()},
    %% The latest first.
    history := #{node() => [{Busy :: number(), Queue :: number(), Memory :: number()}]},
    row := non_neg_integer(),
    detail := #{atom() => term()} | none,
    %% Whether a key needs Enter: there is no mouse either.
    input := raw | lines
}.

-define(HISTORY, 60).
-define(MOST_ROWS, 100).

-doc "The first screen of these nodes, with a command's values.".
-spec new(#{nodes := [node(), ...], atom() => term()}) -> view().
new(#{nodes := [First | _] = Nodes} = Values) ->
    Shown = maps:get(view, Values, processes),
    #{
        nodes => Nodes,
        node => First,
        shown => Shown,
        sorts =>
            #{
                Shown => Key
             || #{sort := Sort} <- [Values],
                Key <- dyno_cli_top_columns:sorts_by(Sort, Shown, false)
            },
        grouped => maps:get(grouped, Values, false),
        filter => maps:get(filter, Values, ~""),
        typing => none,
        frozen => false,
        helping => false,
        readings => #{},
        findings => #{},
        looks => #{},
        history => #{},
        row => 0,
        detail => none,
        input => raw
    }.

-doc "How keys come: one by one, or as lines.".
-spec with_input(raw | lines, view()) -> view().
with_input(Input, View) -> View#{input := Input}.

-doc "The request for the next reading.".
-spec ask(view()) -> dyno_agent_top:ask().
ask(#{shown := Shown, filter := Filter} = View) ->
    #{view => Shown, sort => sort(View), filter => Filter, most => ?MOST_ROWS}.

-doc "The column that the table is sorted by.".
-spec sort(view()) -> atom().
sort(#{shown := Shown, sorts := Sorts}) ->
    maps:get(Shown, Sorts, dyno_cli_top_columns:first_sort(Shown)).

-doc "The most rows of a reading.".
-spec most_rows() -> pos_integer().
most_rows() -> ?MOST_ROWS.

-doc "Adds a reading; a frozen screen ignores it.".
-spec with_reading(node(), dyno_agent_top:reading() | {lost, unicode:chardata()}, view()) -> view().
with_reading(_Node, _Reading, #{frozen := true} = View) ->
    View;
with_reading(Node, Reading, #{readings := Readings, history := History} = View) ->
    View#{
        readings := Readings#{Node => Reading},
        history := History#{Node => remembered(Reading, maps:get(Node, History, []))}
    }.

-doc "Adds a node's findings from `m:dyno_health`, and the share of a scheduler that they took.".
-spec with_findings(node(), {[dyno_finding:t()], float()}, view()) -> view().
with_findings(Node, {Found, Share}, #{findings := Findings, looks := Looks} = View) ->
    View#{findings := Findings#{Node => Found}, looks := Looks#{Node => Share}}.

remembered(#{values := Values}, Before) ->
    Of = fun(Name) -> maps:get(Name, Values, 0) end,
    Now = {
        Of(~"vm.scheduler_utilisation.normal"), Of(~"vm.run_queue.normal"), Of(~"vm.memory.total")
    },
    lists:sublist([Now | Before], ?HISTORY);
remembered({lost, _}, Before) ->
    Before.

-doc "The process of the selected row, its owner if it is no process, and its node.".
-spec selected(view()) -> {node(), pid()} | none.
selected(#{grouped := true}) ->
    none;
selected(#{node := Node} = View) ->
    case row(View) of
        #{pid := Pid} -> {Node, Pid};
        _ -> none
    end.

-doc "The item of the selected row, only from a reading of this view: another may be on its way.".
-spec row(view()) -> map() | none.
row(#{node := Node, row := Row, readings := Readings, shown := Shown} = View) ->
    case Readings of
        #{Node := #{view := Shown} = Reading} ->
            Items = items(Reading, View),
            lists:nth(1, lists:nthtail(min(Row, length(Items)), Items) ++ [none]);
        #{} ->
            none
    end.

-doc "The rows of a reading, or its groups.".
-spec items(dyno_agent_top:reading(), view()) -> [map()].
items(#{groups := Groups}, #{grouped := true}) -> Groups;
items(#{rows := Rows}, _View) -> Rows.

-doc "Shows a process instead of the table, or the table again.".
-spec with_detail(#{atom() => term()} | none, view()) -> view().
with_detail(none, View) -> View#{detail := none};
with_detail(Detail, View) -> View#{detail := maps:merge(#{from => 0}, Detail)}.

%% For programs

-doc "One line for each node: for a pipe or a log.".
-spec plain(view()) -> [binary()].
plain(#{nodes := Nodes, readings := Readings}) ->
    [line(Node, maps:get(Node, Readings)) || Node <- Nodes, is_map_key(Node, Readings)].

line(Node, {lost, Why}) ->
    dyno_recording_part:text("~ts ~ts", [Node, dyno_text:clean(dyno_report_text:encode(Why))]);
line(Node, #{values := Values, facts := #{time_ms := TimeMs}} = Reading) ->
    #{rows := Rows, processes := Count, share := Share} = Reading,
    Show = fun(Value, Unit) ->
        re:replace(dyno_cli_top_columns:value(Value, Unit), " ", "", [{return, binary}])
    end,
    Of = fun(Name, Unit) -> Show(maps:get(Name, Values, unknown), Unit) end,
    Longest =
        case maps:get(longest_queue, Reading, none) of
            {exact, Queue} -> integer_to_list(Queue);
            {at_least, Queue} when Queue > 0 -> [">=", integer_to_list(Queue)];
            _ -> "-"
        end,
    dyno_recording_part:text(
        "~ts ~ts utilisation=~ts run_queue=~ts memory=~ts rss=~ts processes=~b "
        "longest_queue=~ts top=~ts~ts",
        [
            calendar:system_time_to_rfc3339(TimeMs, [{unit, millisecond}, {offset, "Z"}]),
            Node,
            Of(~"vm.scheduler_utilisation.normal", ~"ratio"),
            Of(~"vm.run_queue.normal", ~"count"),
            Of(~"vm.memory.total", ~"B"),
            Of(~"os.vm.rss", ~"B"),
            Count,
            Longest,
            re:replace(hd([Name || #{name := Name} <- Rows] ++ [~"-"]), " ", "_", [global]),
            [[" read=", Show(Share, ~"ratio")] || Share < 1]
        ]
    ).

-doc "The same as data.".
-spec json(view()) -> #{binary() => term()}.
json(#{nodes := Nodes, readings := Readings}) ->
    #{
        ~"nodes" => [
            dyno_top:as_json(Node, maps:get(Node, Readings))
         || Node <- Nodes, is_map_key(Node, Readings)
        ]
    }.
