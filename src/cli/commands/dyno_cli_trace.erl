%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_trace).
-moduledoc "`dyno trace`: shows calls and messages of running nodes as they happen.".

-behaviour(dyno_cli_command).
-import(dyno_cli_command, [contradiction/1]).

-export([command/0, run/1]).

%% Of the events that wait in the node.
-define(LEAST_WAITING, 2000).
-define(MOST_WAITING, 100_000).

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand(
                "[NODE]",
                "a running Erlang node, such as shop@host; none with --replay",
                #{nargs => 'maybe', required => false}
            ),
            dyno_cli_command:operand(
                "[PATTERN...]",
                "mod:fun, mod:fun/2, \"mod:fun(_, {key, K}) when K > 5 -> return\", mod:_, "
                "MyApp.Mod.fun/2, \"MyApp.Mod.fun(_, n) when n > 5\", send or receive with a "
                "message; after -> return, time, caller, stack; NAME@HOST is one more node",
                #{nargs => list, required => false, default => []}
            )
        ],
        options => [
            {"", [
                {"--process PROCESS",
                    "only of these processes: " ++ dyno_process_filter:forms(processes) ++
                        "; repeatable (default: all but those of kernel)",
                    {many, {custom, fun filter/1, "processes"}}, processes},
                {"--tree", "shows the calls of each process as a tree, with their results"},
                {"--latency", "shows durations of calls, each second, and a histogram at the end"},
                {"--above TIME", "with --latency: shows longer calls, with their arguments",
                    {custom, fun above/1, "a duration, such as 10ms or 50us"}, above_ns},
                {"--args N", "counts the values of the Nth argument", {whole, 1, 255}, args}
            ]},
            {"Limits", [
                {"--count N", "ends after N calls and messages (default: 10)",
                    {whole, 1, infinity}},
                {"--for TIME", "how long to trace (default: 15s)", duration, for_ms},
                {"--limit-rate N",
                    "the most events a second, a fifth of which may wait in the node (default: "
                    "10000)", {whole, 1, infinity}, rate},
                {"--arity", "shows the number of arguments, not the arguments"},
                {"--depth N", "shows a term N deep (default: 8)", {whole, 1, 1000}}
            ]},
            {"Output", [
                {"--format FORMAT", "text, or json, a line each (default: text)",
                    {one_of, [text, json]}},
                {"-o, --output FILE", "writes FILE.jsonl, lines of JSON, for --replay",
                    {custom, fun output/1, "a file's path"}},
                {"--replay FILE", "shows a file of -o instead of a node's calls", text}
            ]},
            dyno_cli_nodes:options()
        ],
        common =>
            "--process --count --for --tree --latency --above --args --arity --output "
            "--replay --format --cookie",
        examples =>
            """
            dyno trace shop@host "shop:order/2 -> return"
                shows the next ten calls, with results and durations
            dyno trace shop@host "shop:order(_, N) when N > 100 -> return, caller" --count 3
                shows only calls with such arguments, and the callers
            dyno trace shop@host shop:_ --tree --process orders
                shows the tree of calls of one process
            dyno trace shop@host shop:order/2 --latency --above 10ms --for 1min
                shows the durations of a function, and the arguments of its long calls
            dyno trace a@host b@host MyApp.Orders.create/1 -o calls.jsonl
                traces two nodes, and keeps the calls for dyno trace --replay calls.jsonl
            """
    }.

output(Path) ->
    case lists:member(filename:extension(Path), [~".jsonl", ~".json"]) of
        true -> dyno_cli_output:path(Path);
        false -> contradiction(ending(Path))
    end.

ending(Path) ->
    ["trace writes lines of JSON: give a name that ends in .jsonl in place of ", Path].

filter(Text) -> dyno_process_filter:parse(Text, processes).

above(Text) ->
    case dyno_unit:parse(Text) of
        {ok, {Ns, ~"ns"}} when Ns > 0 -> {ok, round(Ns)};
        _ -> error
    end.

-spec run(dyno_cli_command:values()) -> dyno_cli_command:result().
run(#{replay := _, node := _}) ->
    contradiction("--replay shows what a file has; give no NODE");
run(#{replay := File, output := File}) ->
    contradiction("-o would replace the file that --replay reads; give another path");
run(#{latency := true, args := _}) ->
    contradiction("--latency and --args are two questions; ask one of them");
run(#{tree := true} = Values) when is_map_key(latency, Values); is_map_key(args, Values) ->
    contradiction("--tree shows single calls; leave out --latency and --args");
run(#{above_ns := _} = Values) when not is_map_key(latency, Values) ->
    contradiction("--above says which calls --latency shows; add --latency");
run(#{replay := File} = Values) ->
    shown(Values, [file], fun(Show) ->
        Replay = fun(Item, {Count, Ended}) -> {Count + 1, replayed(Show, Item, Ended)} end,
        case dyno_trace:replay(File, Replay, {0, []}) of
            {ok, {Count, []}} -> cut_short(File, Count);
            {ok, {_, Ended}} -> {0, Ended};
            Error -> dyno_cli_command:refused(Error)
        end
    end);
run(#{node := First} = Values) ->
    {Others, Patterns} = lists:partition(
        fun dyno_cli_nodes:is_node/1, maps:get(pattern, Values, [])
    ),
    case {dyno_cli_nodes:names([First | Others]), Patterns} of
        {{ok, _}, []} ->
            contradiction("give a PATTERN to trace, such as my_mod:my_fun/2");
        {{ok, Nodes}, _} ->
            shown(Values, Nodes, fun(Show) -> traced(Nodes, Patterns, Values, Show) end);
        {Error, _} ->
            Error
    end;
run(_Values) ->
    contradiction("say which NODE, or --replay FILE").

traced(Nodes, Patterns, Values, Show) ->
    Keys = [processes, tree, above_ns, count, for_ms, rate, depth],
    Given = maps:merge(maps:with(Keys, Values), dyno_cli_nodes:connection(Values)),
    Options = (maps:merge(Given, waiting_of(Given)))#{
        show => Show,
        arguments => not is_map_key(arity, Values),
        what =>
            case Values of
                #{latency := true} -> latency;
                #{args := N} -> {argument, N};
                #{} -> events
            end
    },
    ok = dyno_cli_interrupt:subscribe(),
    case dyno_trace:start(Nodes, Patterns, Options) of
        {ok, Trace} -> waiting(Trace, monitor(process, Trace));
        Error -> dyno_cli_command:refused(Error)
    end.

waiting_of(#{rate := Rate}) -> #{queue => min(max(Rate div 5, ?LEAST_WAITING), ?MOST_WAITING)};
waiting_of(_Given) -> #{}.

waiting(Trace, Ref) ->
    receive
        {dyno_trace, Trace, {ended, Ended}} ->
            {status(Ended), Ended};
        dyno_interrupt ->
            case dyno_trace:stop(Trace) of
                {ok, Ended} -> {130, Ended};
                {error, _} -> waiting(Trace, Ref)
            end;
        {'DOWN', Ref, process, Trace, Reason} ->
            dyno_cli_crash:report(exit, Reason, [])
    end.

status(Ended) ->
    Limits = lists:usort([Limit || #{reason := #{limit := Limit}} <- Ended]),
    case Limits -- [count, for_ms, stopped] of
        [] -> 0;
        _ -> 3
    end.

%% The last line has the reason of the end, if written.
cut_short(File, Count) ->
    Format =
        "dyno: ~ts ends before its trace did, after line ~b: later events and the tracing time are "
        "not known",
    dyno_cli_terminal:note(io_lib:format(Format, [File, Count + 1])),
    {0, []}.

replayed(Show, Item, Ended) ->
    _ = Show(Item),
    [Item || #{event := stopped} <- [Item]] ++ Ended.

%% The process with an item also shows it, and so waits for a slow terminal.
shown(Values, Nodes, Run) ->
    case opened(Values) of
        {ok, File} ->
            Print = printer(Values, Nodes),
            Result = Run(fun(Item) ->
                ok = kept(Item, File),
                Print(Item)
            end),
            Status = finished(Result, Nodes),
            max(Status, closed(File));
        {error, Reason} ->
            {error, {dyno_file, Reason}}
    end.

opened(#{output := Path}) ->
    dyno_stream:open(Path, #{header => dyno_trace_lines:encode(header)});
opened(_Values) ->
    {ok, none}.

%% An error is reported at the end, with the number of kept items.
kept(_Item, none) ->
    ok;
kept(Item, File) ->
    _ = dyno_stream:write(File, dyno_trace_lines:encode(Item)),
    ok.

closed(none) ->
    0;
closed(File) ->
    case dyno_stream:close(File) of
        ok ->
            0;
        {error, Reason} ->
            dyno_cli_terminal:complain(dyno_file:format_error(Reason)),
            3
    end.

printer(#{format := json}, _Nodes) ->
    fun(Item) -> dyno_cli_terminal:print(dyno_trace_lines:encode(Item)) end;
printer(Values, Nodes) ->
    Options = #{tree => is_map_key(tree, Values), nodes => length(Nodes) > 1},
    dyno_trace_text:printer(Options, fun dyno_cli_terminal:print/1).

finished({Status, Ended}, Nodes) ->
    lists:foreach(
        fun(#{node := Node} = Stopped) ->
            Of = [[Node, ": "] || length(Nodes) > 1],
            dyno_cli_terminal:note(["dyno: ", Of, dyno_trace_text:ending(Stopped)])
        end,
        [Stopped || Stopped <- Ended, not dyno_cli_terminal:unread()]
    ),
    Status;
finished(Status, _Nodes) ->
    Status.
