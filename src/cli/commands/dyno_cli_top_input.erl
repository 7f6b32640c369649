%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_top_input).
-moduledoc "Decodes a terminal's input into keys for `m:dyno_cli_top_keys`. Pure.".

-export([decode/1, whole/1, line/1]).
-export_type([input/0]).

-doc "A key, a press of the mouse at a column and a row, or a turn of its wheel.".
-type input() ::
    dyno_cli_top_keys:key()
    | {click, {Column :: pos_integer(), Row :: pos_integer()}}
    | {wheel, up | down}.

-define(SEQUENCES, [
    {"\e[A", up},
    {"\e[B", down},
    {"\eOA", up},
    {"\eOB", down},
    {"\e[5~", page_up},
    {"\e[6~", page_down},
    {"\e[H", page_up},
    {"\e[Z", back_tab}
]).

-doc "The input from a terminal in raw mode. Unknown sequences are skipped.".
-spec decode(string()) -> [input()].
decode([]) ->
    [];
decode("\e[<" ++ Rest) ->
    mouse(io_lib:fread("~d;~d;~d~c", Rest));
decode([$\t | Rest]) ->
    [tab | decode(Rest)];
decode([$\e | Rest] = Text) ->
    Known = [
        {Key, lists:nthtail(length(Sequence), Text)}
     || {Sequence, Key} <- ?SEQUENCES, lists:prefix(Sequence, Text)
    ],
    case Known of
        [{Key, After} | _] -> [Key | decode(After)];
        [] when Rest =:= []; hd(Rest) =/= $[, hd(Rest) =/= $O -> [escape | decode(Rest)];
        [] -> decode(after_sequence(Rest))
    end;
decode([Character | Rest]) when Character =:= $\r; Character =:= $\n ->
    [enter | decode(Rest)];
decode([Character | Rest]) when Character =:= 127; Character =:= 8 ->
    [backspace | decode(Rest)];
decode([Character | Rest]) ->
    [Character | decode(Rest)].

-doc "The input, and the beginning of a sequence that has not come as a whole.".
-spec whole(string()) -> {string(), Rest :: string()}.
whole(Text) ->
    Pattern = "^(.*?)(\\e[[O][<0-9;]*)?$",
    {match, [Whole | Rest]} = re:run(
        Text, Pattern, [unicode, dotall, dollar_endonly, {capture, all_but_first, list}]
    ),
    {Whole, lists:append(Rest)}.

%% The last character: M for a press, m for a release.
mouse({ok, [0, Column, Row, "M"], Rest}) -> [{click, {Column, Row}} | decode(Rest)];
mouse({ok, [64, _, _, "M"], Rest}) -> [{wheel, up} | decode(Rest)];
mouse({ok, [65, _, _, "M"], Rest}) -> [{wheel, down} | decode(Rest)];
mouse({ok, _, Rest}) -> decode(Rest);
mouse(_Incomplete) -> [].

after_sequence([_ | Rest]) ->
    case lists:dropwhile(fun(C) -> C < $@ end, Rest) of
        [_Final | After] -> After;
        [] -> []
    end.

-doc "The keys of a line; after `/` a whole filter.".
-spec line(string()) -> [input()].
line([$/ | Filter]) -> [$/ | Filter] ++ [enter];
line(Text) -> decode(Text).
