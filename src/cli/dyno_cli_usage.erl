%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_usage).
-moduledoc "Words argparse's errors: the argument, its place, accepted forms, the nearest name.".

-export([format_error/2, no_text/1, renamed/0]).

-type error() :: {
    [string()], argparse:argument() | undefined, string() | [] | undefined, unicode:chardata()
}.

-doc "The sentence for an error of `argparse:parse/3` on this tree of commands.".
-spec format_error(error(), argparse:command()) -> unicode:chardata().
format_error({[_], undefined, undefined, _}, Tree) ->
    ["a command is missing; the commands are ", listed(commands(Tree))];
format_error({[_], undefined, "-" ++ _ = Option, _}, _Tree) ->
    Before = ["--help", "--version", "--color", "--otp"],
    ["there is no option ", Option, " before a command", near(Option, Before, "; see dyno --help")];
format_error({[_], undefined, Name, _}, Tree) ->
    Names = commands(Tree),
    Otherwise = ["; the commands are ", listed(Names)],
    ["there is no command ", quoted(Name), near(Name, Names, Otherwise)];
format_error({[_, Command], undefined, "-" ++ _ = Given, _}, Tree) ->
    [Option | _] = string:split(Given, "="),
    Instead =
        case instead(Command, Option) of
            {ok, Text} -> ["; ", Text];
            none -> near(Option, options(Command, Tree), ["; see dyno ", Command, " --help-all"])
        end,
    ["dyno ", Command, " has no option ", Option, Instead];
format_error({[_, Command], undefined, Extra, _}, Tree) ->
    Taken = [usage(Argument) || Argument <- arguments(Command, Tree), not is_option(Argument)],
    One = lists:join(" ", Taken),
    ["dyno ", Command, " takes one ", One, ", so ", quoted(Extra), " is too much"];
format_error({[_, Command], Argument, Given, _}, _Tree) when Given =:= undefined; Given =:= [] ->
    case is_option(Argument) of
        true -> [name(Argument), " needs a value, which must not begin with -: ", usage(Argument)];
        false -> ["dyno ", Command, " needs ", usage(Argument), ": ", text(Argument)]
    end;
format_error({[_, _Command], Argument, Value, Details}, _Tree) ->
    [name(Argument), " ", quoted(Value), ": ", Details].

-doc "The sentence for an argument that is no text; the runtime returns the readable part.".
-spec no_text(term()) -> unicode:chardata().
no_text({_, Read, _}) when is_list(Read) ->
    ["an argument is not UTF-8 text: the part after ", quoted(Read), " can't be read"];
no_text(_) ->
    "an argument is not UTF-8 text".

near(Name, Names, Otherwise) ->
    case dyno_similar:nearest(Name, Names) of
        {ok, Other} -> ["; did you mean ", Other, "?"];
        none -> Otherwise
    end.

commands(#{commands := Commands}) ->
    lists:sort(maps:keys(Commands)) ++ ["help", "completion", "man", "version"].

arguments(Command, #{commands := Commands}) ->
    maps:get(arguments, maps:get(Command, Commands), []).

%% A single letter resembles everything: suggest only long names.
options(Command, Tree) ->
    ["-" ++ Long || #{long := Long} <- arguments(Command, Tree)] ++ ["--help"].

%% Each option has a long name.
is_option(Argument) -> is_map_key(long, Argument).

name(#{long := Long}) -> ["-", Long];
name(Argument) -> usage(Argument).

usage(#{help := {Usage, _}}) -> Usage.

text(#{help := {_, [Text]}}) -> Text.

quoted(Text) ->
    [$", dyno_text:clean(unicode:characters_to_binary(Text)), $"].

listed(Names) ->
    lists:join(", ", Names).

-doc "Each command's former options, with the rest of a sentence.".
-spec renamed() -> [{Command :: string(), Option :: string(), Instead :: string()}, ...].
renamed() ->
    [
        {"bench", "--time", "use --for TIME"},
        {"bench", "--patience", "use -t N"},
        {"bench", "--watch", "dyno record NODE --watch prints a line each second"},
        {"bench", "--profile", "dyno profile --eval CODE tells which functions take the time"},
        {"bench", "--log", "2>> FILE adds the lines on standard error to a file"},
        {"compare", "--threshold", "use --tolerance SHARE"},
        {"test", "--duration", "use --for TIME"},
        {"test", "--no-control", "use --without control"},
        {"record", "--duration", "use --for TIME"},
        {"record", "--servers", "give PROCESS after the NODE: dyno record shop@host orders"},
        {"profile", "--function", "use --pattern PATTERN"},
        {"profile", "--without", "use --exclude PATTERN"},
        {"profile", "--short-calls", "--kind time measures functions with short calls"},
        {"profile", "--perf-script", "--kind cpu does without perf"},
        {"servers", "--level", "use --detail DETAIL"},
        {"servers", "--most", "at most 1000 processes of a node are measured; name fewer of them"},
        {"trace", "--rate", "use --limit-rate N"},
        {"trace", "--queue", "a fifth of --limit-rate may wait"},
        {"trace", "--size", "a term is shown with at most 80 elements; --depth N shows less"},
        {"verify", "--must-decide", "the exit status is 1 if a property is UNKNOWN"},
        {"verify", "--shards", "one process of each node runs the monitors"},
        {"verify", "--events", "the last 10 events before a verdict are shown"},
        {"doctor", "--from", "use --replay FILE"},
        {"demo", "--name", "give the name alone: dyno demo NAME"},
        {"workload", "--time", "use --for TIME"},
        {"workload", "--repetitions", "use --repeat N"},
        {"workload", "--spread", in_the_shell("spread_ms")},
        {"workload", "--pinch", in_the_shell("pinch_ms")},
        {"workload", "--send", in_the_shell("send")},
        {"workload", "--recv", in_the_shell("recv")}
    ].

in_the_shell(Key) -> "in the shell, dyno:workload/1 takes " ++ Key.

instead(Command, Option) ->
    case [Instead || {C, O, Instead} <- renamed(), C =:= Command, O =:= Option] of
        [Instead] -> {ok, Instead};
        [] -> none
    end.
