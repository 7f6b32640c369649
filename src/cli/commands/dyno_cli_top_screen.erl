%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_top_screen).
-moduledoc """
Draws `dyno top`: on a terminal a screen that takes single keys and the mouse (before OTP 28, keys
with Enter); elsewhere a line for each node and reading.
""".

-export([run/3]).

-type options() :: #{
    interval_ms := pos_integer(), count := pos_integer() | infinity, format := json | none
}.

-type state() :: #{
    view := dyno_cli_top_view:view(),
    looking := dyno_top:looking(),
    mode := screen | lines | json,
    keys := raw | lines,
    left := non_neg_integer() | infinity,
    interval_ms := pos_integer(),
    due_ms := integer()
}.

-define(ALTERNATE, "\e[?1049h\e[?25l").
-define(NORMAL, "\e[?25h\e[?1049l").
%% Presses and the wheel, in the form of xterm that has no limit of columns.
-define(MOUSE_ON, "\e[?1000h\e[?1006h").
-define(MOUSE_OFF, "\e[?1006l\e[?1000l").
%% A rate needs some time.
-define(SOONEST_MS, 200).
-define(WHEEL_ROWS, 3).
-define(NARROWEST, 40).

-doc "Draws until the end; returns the exit status, and the nodes to leave.".
-spec run(dyno_cli_top_view:view(), dyno_top:looking(), options()) ->
    {dyno_error:exit_status(), dyno_top:looking()}.
run(View, Looking, #{interval_ms := IntervalMs, count := Count, format := Format}) ->
    Mode = mode(Format),
    Keys = keys(Mode),
    _ = [dyno_cli_terminal:write_error(?ALTERNATE) || Mode =:= screen],
    _ = [dyno_cli_terminal:write_error(?MOUSE_ON) || Keys =:= raw],
    State = #{
        view => dyno_cli_top_view:with_input(Keys, View),
        looking => Looking,
        mode => Mode,
        keys => Keys,
        left => Count,
        interval_ms => IntervalMs,
        due_ms => now_ms() + IntervalMs
    },
    Ended = loop(drawn(State)),
    _ = [dyno_cli_terminal:write_error(?MOUSE_OFF) || Keys =:= raw],
    _ = [dyno_cli_terminal:write_error(?NORMAL) || Mode =:= screen],
    Ended.

mode(json) ->
    json;
mode(none) ->
    Outputs = [dyno_cli_terminal:is_terminal(Of) || Of <- [standard_error, standard_io]],
    case {Outputs, os:getenv("TERM", "dumb")} of
        {[true, true], Terminal} when Terminal =/= "dumb" -> screen;
        _ -> lines
    end.

keys(screen) ->
    Self = self(),
    Keys =
        case raw() of
            ok -> raw;
            {error, _} -> lines
        end,
    _ = spawn_link(fun() -> read(Keys, Self, "") end),
    Keys;
keys(_Mode) ->
    lines.

%% Since OTP 28; OTP 27 accepts the argument too, but starts a shell that takes the keys.
raw() ->
    case list_to_integer(erlang:system_info(otp_release)) of
        Release when Release >= 28 -> shell:start_interactive({noshell, raw});
        _ -> {error, not_supported}
    end.

read(Keys, Reader, Before) ->
    Read =
        case Keys of
            raw -> io:get_chars("", 1024);
            lines -> io:get_line("")
        end,
    case Read of
        Text when is_list(Text); is_binary(Text) ->
            {Input, Rest} = decoded(Keys, Before ++ unicode:characters_to_list(Text)),
            Reader ! {keys, Input},
            read(Keys, Reader, Rest);
        _ ->
            ok
    end.

decoded(raw, Text) ->
    {Whole, Rest} = dyno_cli_top_input:whole(Text),
    {dyno_cli_top_input:decode(Whole), Rest};
decoded(lines, "\n") ->
    {[enter], ""};
decoded(lines, Text) ->
    {dyno_cli_top_input:line(string:trim(Text, trailing, "\n")), ""}.

-spec loop(state()) -> {dyno_error:exit_status(), dyno_top:looking()}.
loop(#{left := 0, looking := Looking}) ->
    {0, Looking};
loop(#{due_ms := DueMs, looking := Looking} = State) ->
    receive
        {keys, Keys} ->
            case lists:foldl(fun key/2, {draw, State}, Keys) of
                {quit, #{looking := Last}} -> {0, Last};
                {ask, Next} -> loop(drawn(Next#{due_ms := min(DueMs, now_ms() + ?SOONEST_MS)}));
                {_, Next} -> loop(drawn(Next))
            end;
        {findings, Node, Found} ->
            #{view := View} = State,
            loop(drawn(State#{view := dyno_cli_top_view:with_findings(Node, Found, View)}));
        dyno_interrupt ->
            {0, Looking};
        _Other ->
            loop(State)
    after max(0, DueMs - now_ms()) ->
        loop(drawn(looked(State)))
    end.

key(_Key, {quit, State}) ->
    {quit, State};
key({wheel, Key}, Before) ->
    lists:foldl(fun key/2, Before, lists:duplicate(?WHEEL_ROWS, Key));
key(Key, {Before, #{view := View} = State}) ->
    Applied =
        case Key of
            {click, Place} ->
                {Layout, Rows} = size(),
                Target = dyno_cli_top_draw:target(Place, View, Layout, Rows),
                dyno_cli_top_keys:with_click(Target, View);
            _ ->
                dyno_cli_top_keys:with_key(Key, View)
        end,
    case Applied of
        {detail, Next} -> {Before, detailed(State#{view := Next})};
        {state, Next} -> {Before, with_state(State#{view := Next})};
        {draw, Next} -> {Before, State#{view := Next}};
        {Do, Next} -> {Do, State#{view := Next}}
    end.

%% An open process is read again.
detailed(#{view := #{detail := Open} = View, looking := Looking} = State) ->
    Process =
        case Open of
            #{is := Is} -> Is;
            none -> dyno_cli_top_view:selected(View)
        end,
    Detail =
        case Process of
            {Node, Pid} ->
                Read = dyno_top:detail(Node, Pid, Looking),
                Read#{is => Process, at_ms => os:system_time(millisecond)};
            none ->
                none
        end,
    State#{view := dyno_cli_top_view:with_detail(Detail, View)}.

with_state(
    #{view := #{detail := #{is := {Node, Pid}} = Detail} = View, looking := Looking} = State
) ->
    Of = Detail#{state => dyno_top:state(Node, Pid, Looking)},
    State#{view := dyno_cli_top_view:with_detail(Of, View)}.

looked(#{view := View, looking := Looking, interval_ms := IntervalMs, left := Left} = State) ->
    Ask = dyno_cli_top_view:ask(View),
    {Next, Last} = lists:foldl(
        fun(Node, {V, L}) ->
            {Reading, After} = dyno_top:reading(Node, Ask, L),
            {dyno_cli_top_view:with_reading(Node, Reading, V), After}
        end,
        {View, Looking},
        dyno_top:nodes(Looking)
    ),
    _ = [written(Mode, Next) || #{mode := Mode} <- [State]],
    State#{
        view := Next,
        looking := Last,
        left := less(Left),
        due_ms := max(maps:get(due_ms, State), now_ms() - IntervalMs) + IntervalMs
    }.

less(infinity) -> infinity;
less(Left) -> Left - 1.

written(lines, View) ->
    [dyno_cli_terminal:print([Line, $\n]) || Line <- dyno_cli_top_view:plain(View)];
written(json, View) ->
    dyno_cli_terminal:print([json:encode(dyno_cli_top_view:json(View)), $\n]);
written(screen, _View) ->
    [].

drawn(#{mode := screen, view := View} = State) ->
    {Layout, Rows} = size(),
    Lines = dyno_cli_top_draw:screen(View, Layout, Rows),
    dyno_cli_terminal:write_error([
        "\e[H", lists:join("\r\n", [[Line, "\e[K"] || Line <- Lines]), "\e[J"
    ]),
    State;
drawn(State) ->
    State.

size() ->
    Look = maps:with([colour, charset], dyno_cli_terminal:look()),
    {
        Look#{width => max(?NARROWEST, dyno_cli_terminal:width()), indent => 0},
        dyno_cli_terminal:rows()
    }.

now_ms() -> erlang:monotonic_time(millisecond).
