%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_specification).
-moduledoc """
Compiles a specification: a text of properties, each of which becomes a module of the behaviour
`m:dyno_agent_monitor`.

```
property "no message after stop"
of module worker
never receive stop then send _.
```

`doc/verify-specifications.md` describes the language.
""".

-export([compile/1, format_error/1]).
-export_type([reason/0, compiled/0]).

-doc "The place and reason of an error. `format_error/1` formats the reason.".
-type reason() :: {Line :: pos_integer(), Column :: pos_integer(), problem()}.

-type problem() ::
    not_utf8
    | no_property
    | {same_name, binary()}
    | {erlang, string()}
    | {expected, What :: unicode:chardata(), Found :: unicode:chardata()}
    | {unknown_event, atom(), {ok, string()} | none}
    | {twice, atom()}
    | label_is_no_value
    | function_expected
    | {not_of_this_event, atom(), Allowed :: [atom()]}
    | matches_nothing
    | eventually_repeats
    | {unguarded, max | min, atom()}
    | {no_fixed_point | not_a_key | key_in_no_event | key_missing, atom()}.

-doc "A monitor's module, its object code, and its needs.".
-type compiled() :: {module(), Beam :: binary(), dyno_agent_monitor:needs()}.

-doc """
Compiles all properties of a text, or returns the first mistake, with its line and column.

```erlang
1> dyno_specification:compile(~"property a of module m never sned _.").
{error,{1,31,{unknown_event,sned,{ok,"send"}}}}
```
""".
-spec compile(unicode:chardata()) -> {ok, [compiled(), ...]} | {error, reason()}.
compile(Text) ->
    try
        Chars = unicode:characters_to_list(Text),
        is_list(Chars) orelse throw({{1, 1}, not_utf8}),
        Properties = dyno_specification_parser:parse(Chars),
        _ = lists:foldl(fun named_once/2, [], Properties),
        {ok, [dyno_specification_module:compile(Property) || Property <- Properties]}
    catch
        throw:{{Line, Column}, Problem} -> {error, {Line, Column, Problem}}
    end.

named_once(#{name := Name, location := Location}, Names) ->
    lists:member(Name, Names) andalso throw({Location, {same_name, Name}}),
    [Name | Names].

-spec format_error(reason()) -> unicode:chardata().
format_error({Line, Column, Problem}) ->
    io_lib:format("line ~b, column ~b: ~ts", [Line, Column, problem(Problem)]).

problem(not_utf8) ->
    "the text is not in UTF-8";
problem(no_property) ->
    "there is no property; one begins with 'property NAME of ...'";
problem({same_name, Name}) ->
    ["there are two properties ", Name];
problem({erlang, Text}) ->
    Text;
problem({expected, What, Found}) ->
    ["expected ", What, ", found ", Found];
problem({unknown_event, Word, {ok, Meant}}) ->
    io_lib:format("there is no event '~ts'; did you mean '~ts'?", [Word, Meant]);
problem({unknown_event, Word, none}) ->
    io_lib:format(
        "there is no event '~ts'; there are send, receive, call, cast, info, reply, timeout, "
        "spawn, spawned, exit, return, exception, any",
        [Word]
    );
problem({twice, Word}) ->
    io_lib:format("'~ts' stands twice", [Word]);
problem(label_is_no_value) ->
    "a label is a term without variables";
problem(function_expected) ->
    "expected the name of a function, as in 'call lists:sort(_)' or 'return lists:sort/1 _'";
problem({not_of_this_event, Word, []}) ->
    io_lib:format("this event has no '~ts'", [Word]);
problem({not_of_this_event, Word, Allowed}) ->
    Words = lists:join(" and ", [["'", atom_to_list(A), "'"] || A <- Allowed]),
    io_lib:format("this event has no '~ts'; it may have ~ts", [Word, Words]);
problem(matches_nothing) ->
    "this matches without any event, so it would always be broken; "
    "at least one event must stand outside of '*' and '?'";
problem(eventually_repeats) ->
    "'eventually' stands in front of an event, or of a bracket that begins with one; "
    "'*', '+' and '?' do not fit there";
problem({unguarded, Fixed, Name}) ->
    io_lib:format(
        "~ts comes back to '~ts ~ts.' without an event between, so it says nothing; put an event "
        "in front of it, as in '[any] ~ts'",
        [Name, Fixed, Name, Name]
    );
problem({no_fixed_point, Name}) ->
    io_lib:format("~ts is no variable of a 'max' or 'min' around it", [Name]);
problem({not_a_key, Name}) ->
    io_lib:format(
        "~ts stands in two events; between them it means the same only with 'each "
        "~ts'",
        [Name, Name]
    );
problem({key_in_no_event, Name}) ->
    io_lib:format("no event has the key ~ts", [Name]);
problem({key_missing, Name}) ->
    io_lib:format(
        "this event has some keys, but not ~ts; it must have all of them or none", [Name]
    ).
