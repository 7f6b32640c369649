%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_top_keys).
-moduledoc "The effect of keys and clicks on the screen of `dyno top`. Pure.".

-export([with_key/2, with_click/2]).
-export_type([key/0, target/0]).

-type key() ::
    char() | up | down | page_up | page_down | tab | back_tab | enter | escape | backspace.

-doc "A place of the screen that takes a click.".
-type target() :: none | {row, non_neg_integer()} | {sort, atom()} | {view, dyno_agent_top:view()}.

-type effect() :: draw | ask | detail | state | quit.

-define(PAGE, 10).

-doc "Applies a key; `detail` and `state` ask for the selected process, `ask` for a new reading.".
-spec with_key(key(), dyno_cli_top_view:view()) -> {effect(), dyno_cli_top_view:view()}.
with_key(3, View) ->
    {quit, View};
with_key(Key, #{typing := Typed} = View) when Typed =/= none ->
    typed(Key, Typed, View);
with_key($q, View) ->
    {quit, View};
with_key(escape, View) ->
    {draw, View#{detail := none, helping := false}};
with_key($S, #{detail := #{stack := _}} = View) ->
    {state, View};
with_key(Key, #{helping := true} = View) when Key < $1; Key > $9 ->
    {draw, View#{helping := false}};
with_key(Key, View) when Key =:= $h; Key =:= $? ->
    {draw, View#{helping := true}};
with_key(enter, #{detail := #{}} = View) ->
    {detail, View};
with_key(Key, #{detail := #{from := From} = Detail} = View) when
    Key =:= up; Key =:= down; Key =:= page_up; Key =:= page_down
->
    {draw, View#{detail := Detail#{from := max(0, From + moves(Key))}}};
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
with_key(Key, #{row := Row} = View) when
    Key =:= up; Key =:= down; Key =:= page_up; Key =:= page_down
->
    {draw, View#{row := max(0, min(dyno_cli_top_view:most_rows() - 1, Row + moves(Key)))}};
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
    Now = lists:dropwhile(fun(Key) -> Key =/= dyno_cli_top_view:sort(View) end, Keys),
    sorted(hd(lists:nthtail(min(1, length(Now)), Now) ++ Keys), View);
with_key(enter, View) ->
    entered(dyno_cli_top_view:row(View), View);
with_key(Key, View) when Key >= $1, Key =< $9 ->
    case lists:keyfind(Key, 1, dyno_cli_top_columns:views()) of
        {_, Shown, _, _} -> viewed(Shown, View);
        false -> {draw, View}
    end;
with_key(Key, #{shown := Shown, grouped := Grouped} = View) ->
    case dyno_cli_top_columns:sorts_by(Key, Shown, Grouped) of
        [Sort | _] -> sorted(Sort, View);
        [] -> {draw, View}
    end.

moves(up) -> -1;
moves(down) -> 1;
moves(page_up) -> -?PAGE;
moves(page_down) -> ?PAGE.

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
-spec with_click(target(), dyno_cli_top_view:view()) -> {effect(), dyno_cli_top_view:view()}.
with_click({row, Row}, #{row := Row} = View) -> with_key(enter, View);
with_click({row, Row}, View) -> {draw, View#{row := Row}};
with_click({sort, Key}, View) -> sorted(Key, View);
with_click({view, Shown}, View) -> viewed(Shown, View);
with_click(none, View) -> {draw, View#{detail := none, helping := false}}.

typed(enter, Typed, View) ->
    {ask, View#{filter := Typed, typing := none, row := 0}};
typed(escape, _Typed, View) ->
    {draw, View#{typing := none}};
typed(21, _Typed, View) ->
    {draw, View#{typing := ~""}};
typed(backspace, ~"", View) ->
    {draw, View};
typed(backspace, Typed, View) ->
    {draw, View#{typing := string:slice(Typed, 0, string:length(Typed) - 1)}};
typed(Key, Typed, View) when is_integer(Key), Key >= 32 ->
    {draw, View#{typing := <<Typed/binary, Key/utf8>>}};
typed(_Key, _Typed, View) ->
    {draw, View}.
