%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_renamed).
-moduledoc "Options that have another name now, or are gone: their sentences.".

-export([all/0, instead/2]).

-doc "Each command's former options, with the rest of a sentence.".
-spec all() -> [{Command :: string(), Option :: string(), Instead :: string()}, ...].
all() ->
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

-doc "The rest of the sentence for this option of a command.".
-spec instead(Command :: string(), Option :: string()) -> {ok, string()} | none.
instead(Command, Option) ->
    case [Instead || {C, O, Instead} <- all(), C =:= Command, O =:= Option] of
        [Instead] -> {ok, Instead};
        [] -> none
    end.
