%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_top_view).
-moduledoc """
The state of `dyno top`'s screen, and the effect of keys and of the mouse. Pure.

`with_reading/3` takes a node's latest reading, `with_key/2` a key, and `with_click/2` what
`m:dyno_cli_top_draw` has drawn at a place.
""".

-export([new/1, with_input/2, with_reading/3, with_findings/3, with_detail/2]).
-export([with_key/2, with_click/2]).
-export([ask/1, selected/1, plain/1, json/1]).
-export_type([view/0, key/0, target/0]).

-type key() ::
    char() | up | down | page_up | page_down | tab | back_tab | enter | escape | backspace.

-doc "A place of the screen that takes a click.".
-type target() :: none | {row, non_neg_integer()} | {sort, atom()} | {view, dyno_agent_top:view()}.

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

-type effect() :: draw | ask | detail | state | quit.

-define(HISTORY, 60).
-define(SORTS, [
    {$r, [reductions]}, {$u, [queue, waiting]}, {$w, [growth]}, {$m, [memory, bytes, held]}
]).
-define(MOST_ROWS, 100).
-define(PAGE, 10).

-doc "The first screen of these nodes, with a command's values.".
-spec new(#{nodes := [node(), ...], atom() => term()}) -> view().
new(#{nodes := [First | _] = Nodes} = Values) ->
    Shown = maps:get(view, Values, processes),
    #{
        nodes => Nodes,
        node => First,
        shown => Shown,
        sorts => #{Shown => Key || #{sort := Sort} <- [Values], Key <- own(Sort, Shown)},
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

%% A command's sort key is called after the column in some views.
own(Sort, Shown) ->
    Names = lists:append([Names || {_, Names} <- ?SORTS, lists:member(Sort, Names)]),
    [Key || Key <- dyno_cli_top_columns:sorts(Shown, false), lists:member(Key, Names)].

-doc "How keys come: one by one, or as lines.".
-spec with_input(raw | lines, view()) -> view().
with_input(Input, View) -> View#{input := Input}.

-doc "The request for the next reading.".
-spec ask(view()) -> dyno_agent_top:ask().
ask(#{shown := Shown, filter := Filter} = View) ->
    #{view => Shown, sort => sort(View), filter => Filter, most => ?MOST_ROWS}.

sort(#{shown := Shown, sorts := Sorts}) ->
    maps:get(Shown, Sorts, dyno_cli_top_columns:first_sort(Shown)).

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

%% Only of a reading of this view: another one may be on its way.
row(#{node := Node, row := Row, readings := Readings, shown := Shown, grouped := Grouped}) ->
    case Readings of
        #{Node := #{view := Shown, rows := Rows, groups := Groups}} ->
            Items =
                if
                    Grouped -> Groups;
                    true -> Rows
                end,
            lists:nth(1, lists:nthtail(min(Row, length(Items)), Items) ++ [none]);
        #{} ->
            none
    end.

-doc "Shows a process instead of the table, or the table again.".
-spec with_detail(#{atom() => term()} | none, view()) -> view().
with_detail(Detail, View) -> View#{detail := Detail}.

-doc """
Applies a key; `detail` asks for `selected/1`, `state` for the state of the open process, `ask` for
another reading at once.
""".
-spec with_key(key(), view()) -> {effect(), view()}.
with_key(Key, #{typing := Typed} = View) when Typed =/= none ->
    typed(Key, Typed, View);
with_key(Key, View) when Key =:= $q; Key =:= 3 ->
    {quit, View};
with_key(escape, View) ->
    {draw, View#{detail := none, helping := false}};
with_key($S, #{detail := #{stack := _}} = View) ->
    {state, View};
with_key(Key, #{helping := Helping} = View) when Key =:= $h; Key =:= $? ->
    {draw, View#{helping := not Helping}};
with_key(Key, #{frozen := Frozen} = View) when Key =:= $f; Key =:= $\s ->
    {draw, View#{frozen := not Frozen}};
with_key($g, #{grouped := Grouped, shown := Shown} = View) ->
    case dyno_cli_top_columns:can_group(Shown) of
        true -> {draw, View#{grouped := not Grouped, row := 0, detail := none}};
        false -> {draw, View}
    end;
with_key($/, #{filter := Filter} = View) ->
    {draw, View#{typing := Filter}};
with_key($n, #{nodes := Nodes, node := Node} = View) ->
    [_ | After] = lists:dropwhile(fun(N) -> N =/= Node end, Nodes ++ [hd(Nodes)]),
    {draw, View#{node := hd(After ++ Nodes), row := 0, detail := none}};
with_key(up, View) ->
    {draw, moved(-1, View)};
with_key(down, View) ->
    {draw, moved(1, View)};
with_key(page_up, View) ->
    {draw, moved(-?PAGE, View)};
with_key(page_down, View) ->
    {draw, moved(?PAGE, View)};
with_key(Key, #{shown := Shown} = View) when Key =:= tab; Key =:= back_tab ->
    Views = [V || {_, V, _, _} <- dyno_cli_top_columns:views()],
    Order =
        if
            Key =:= tab -> Views;
            true -> lists:reverse(Views)
        end,
    {_, [_ | After]} = lists:splitwith(fun(V) -> V =/= Shown end, Order),
    viewed(hd(After ++ Order), View);
with_key($s, #{shown := Shown, grouped := Grouped} = View) ->
    Keys = dyno_cli_top_columns:sorts(Shown, Grouped),
    Now = lists:dropwhile(fun(Key) -> Key =/= sort(View) end, Keys),
    sorted(hd(lists:nthtail(min(1, length(Now)), Now) ++ Keys), View);
with_key(enter, View) ->
    entered(row(View), View);
with_key(Key, View) when Key >= $1, Key =< $9 ->
    case lists:keyfind(Key, 1, dyno_cli_top_columns:views()) of
        {_, Shown, _, _} -> viewed(Shown, View);
        false -> {draw, View}
    end;
with_key(Key, #{shown := Shown, grouped := Grouped} = View) ->
    Keys = proplists:get_value(Key, ?SORTS, []),
    case [K || K <- dyno_cli_top_columns:sorts(Shown, Grouped), lists:member(K, Keys)] of
        [Sort | _] -> sorted(Sort, View);
        [] -> {draw, View}
    end.

moved(By, #{row := Row} = View) ->
    View#{row := max(0, min(?MOST_ROWS - 1, Row + By))}.

sorted(Sort, #{shown := Shown, sorts := Sorts} = View) ->
    {ask, View#{sorts := Sorts#{Shown => Sort}, row := 0}}.

viewed(Shown, #{shown := Shown} = View) ->
    {draw, View#{detail := none, helping := false}};
viewed(Shown, View) ->
    {ask, View#{
        shown := Shown,
        row := 0,
        detail := none,
        helping := false,
        filter := ~"",
        grouped := false
    }}.

%% A group or an application opens as its processes, tables or ports.
entered(#{group := Group}, #{grouped := true} = View) ->
    {ask, View#{grouped := false, filter := Group, row := 0}};
entered(#{group := Name}, #{shown := applications} = View) ->
    {ask, Next} = viewed(processes, View),
    {ask, Next#{filter := <<"app:", Name/binary>>}};
entered(#{pid := _}, View) ->
    {detail, View};
entered(_, View) ->
    {draw, View}.

-doc "Applies a click: a row is selected, and opened by the next click.".
-spec with_click(target(), view()) -> {effect(), view()}.
with_click({row, Row}, #{row := Row} = View) -> with_key(enter, View);
with_click({row, Row}, View) -> {draw, View#{row := Row}};
with_click({sort, Key}, View) -> sorted(Key, View);
with_click({view, Shown}, View) -> viewed(Shown, View);
with_click(none, View) -> {draw, View#{detail := none, helping := false}}.

typed(enter, Typed, View) ->
    {ask, View#{filter := Typed, typing := none, row := 0}};
typed(escape, _Typed, View) ->
    {draw, View#{typing := none}};
typed(backspace, ~"", View) ->
    {draw, View};
typed(backspace, Typed, View) ->
    {draw, View#{typing := string:slice(Typed, 0, string:length(Typed) - 1)}};
typed(Key, Typed, View) when is_integer(Key), Key >= 32 ->
    {draw, View#{typing := <<Typed/binary, Key/utf8>>}};
typed(_Key, _Typed, View) ->
    {draw, View}.

%% For programs

-doc "One line for each node: for a pipe or a log.".
-spec plain(view()) -> [binary()].
plain(#{nodes := Nodes, readings := Readings}) ->
    [line(Node, maps:get(Node, Readings)) || Node <- Nodes, is_map_key(Node, Readings)].

line(Node, {lost, Why}) ->
    dyno_recording_part:text("~ts ~ts", [Node, dyno_text:clean(dyno_report_text:encode(Why))]);
line(Node, #{values := Values, facts := #{time_ms := TimeMs}, rows := Rows, processes := Count}) ->
    Of = fun(Name, Unit) ->
        Text = dyno_cli_top_columns:value(maps:get(Name, Values, unknown), Unit),
        re:replace(Text, " ", "", [{return, binary}])
    end,
    Longest =
        case [Queue || #{queue := Queue} <- Rows] of
            [] -> "-";
            Queues -> integer_to_list(lists:max(Queues))
        end,
    dyno_recording_part:text(
        "~ts ~ts utilisation=~ts run_queue=~ts memory=~ts rss=~ts processes=~b "
        "longest_queue=~ts top=~ts",
        [
            calendar:system_time_to_rfc3339(TimeMs, [{unit, millisecond}, {offset, "Z"}]),
            Node,
            Of(~"vm.scheduler_utilisation.normal", ~"ratio"),
            Of(~"vm.run_queue.normal", ~"count"),
            Of(~"vm.memory.total", ~"B"),
            Of(~"os.vm.rss", ~"B"),
            Count,
            Longest,
            re:replace(hd([Name || #{name := Name} <- Rows] ++ [~"-"]), " ", "_", [global])
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
