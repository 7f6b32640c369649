%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_profile).
-moduledoc "`dyno profile`: finds the functions that take time or memory in running nodes.".

-behaviour(dyno_cli_command).

-export([command/0, run/1]).

-spec command() -> dyno_cli_command:t().
command() ->
    #{
        operands => [
            dyno_cli_command:operand(
                "[NODE]",
                "a running Erlang node; none with --eval or --run",
                #{nargs => 'maybe', required => false}
            ),
            dyno_cli_nodes:processes(processes, "which processes", "all")
        ],
        options => [
            {"", [
                {"--kind KIND", kinds(), {one_of, dyno_profile_kind:names()}},
                {"--for TIME", "how long to profile: 30s, 10min (default: 10s)", duration, for_ms},
                {"--pattern PATTERN",
                    "of time, count and memory: only these functions, such as my_mod, my_mod:f/2, "
                    "app:shop or my_*; repeatable",
                    {many, {custom, fun pattern/1, "a pattern of functions"}}, patterns}
            ]},
            {"Of --kind calls", [
                {"--inside FUNCTION",
                    "only within calls of this function, such as \"my_mod:handle_call/3\", in any "
                    "process", {custom, fun function/1, "a function with its module"}},
                {"--count N", "the number of these calls (default: all until the end)",
                    {whole, 1, infinity}},
                {"--exclude PATTERN",
                    "does not trace these functions: their time belongs to their callers; "
                    "repeatable", {many, {custom, fun pattern/1, "a pattern of functions"}},
                    not_traced}
            ]},
            {"Instead of a NODE", [
                {"--eval EXPRESSION",
                    "profiles an Erlang expression, repeated in a node of its own", text},
                {"--run COMMAND",
                    "profiles the first Erlang emulator that a command starts, to its end", text},
                dyno_cli_option:code_paths()
            ]},
            {"Limits; the exit status is 1 if one does not hold", [
                {"--threshold EXPRESSION",
                    "a limit, such as \"profile my_mod:f/2 total < 5 %\"; repeatable",
                    {many, {custom, fun threshold/1, "a threshold"}}, thresholds}
            ]},
            {"Reports", [dyno_cli_output:view() | dyno_cli_measurement:options()]},
            dyno_cli_nodes:options()
        ],
        common => "--kind --for --pattern --inside --eval --run --threshold --output --cookie",
        examples =>
            """
            dyno profile shop@host
                shows the functions that take the processor time of a node
            dyno profile shop@host --kind cpu
                includes short-lived processes and BIFs, by native code
            dyno profile shop@host app:shop --for 30s -o shop.html
                profiles an application's processes, and writes a page with a flame graph
            dyno profile shop@host orders --kind time --pattern orders
                times each call of a module's functions in one process and its children
            dyno profile shop@host --kind calls --inside orders:handle_call/3 --count 100
                shows the tree of the next hundred calls of a function, exactly
            dyno profile shop@host --view up
                shows the callers of the costly functions
            dyno profile --eval 'lists:sort([rand:uniform() || _ <- lists:seq(1, 1000)])'
                profiles an expression
            dyno profile --run 'rebar3 compile' -o compile.speedscope.json
                profiles a command, for speedscope
            dyno profile shop@host --threshold "profile my_mod:f/2 total < 5 %"
                exits with status 1 if a function takes more
            """
    }.

kinds() ->
    Of = [[atom_to_list(Name), " (", Help, ")"] || {Name, Help} <- dyno_profile_kind:all()],
    Default = atom_to_list(hd(dyno_profile_kind:names())),
    lists:flatten([lists:join(", ", Of), "; default: ", Default, ", with --eval and --run cpu"]).

pattern(Text) ->
    dyno_error:tagged(dyno_agent_patterns, dyno_agent_patterns:parse(Text)).

function(Text) ->
    maybe
        {ok, {_, Name, _} = Function} ?= pattern(Text),
        true ?= Name =/= '_' andalso not lists:suffix("*", atom_to_list(Name)),
        {ok, Function}
    else
        {error, _} = Error -> Error;
        _ -> {error, {dyno_profile_kind, {no_function, unicode:characters_to_binary(Text)}}}
    end.

threshold(Text) -> dyno_threshold:read(Text, dyno_profile_recording:known()).

-spec run(dyno_cli_command:values()) -> dyno_cli_command:result().
run(Values) ->
    case maps:keys(maps:with([node, eval, run], Values)) of
        [Which] ->
            of_one(Which, Values);
        _ ->
            dyno_cli_command:contradiction(
                "give one of them: a NODE such as shop@host, --eval EXPRESSION, --run COMMAND"
            )
    end.

of_one(Which, Values) when Which =:= eval; Which =:= run ->
    profile(atom_to_binary(Which), [], maps:with([Which], Values), Values);
of_one(node, #{node := First} = Values) ->
    maybe
        {ok, Nodes, Filters} ?=
            dyno_cli_nodes:read([First | maps:get(process, Values, [])], processes),
        profile(First, Nodes, #{targets => targets(Filters)}, Values)
    end.

profile(Name, Nodes, Subject, Values) ->
    Given = maps:with([kind, for_ms, patterns, thresholds, inside, count, not_traced], Values),
    Options = maps:merge(maps:merge(Given, dyno_cli_nodes:connection(Values)), Subject),
    Job = #{
        keep => Name,
        measure => fun(#{progress := Report}) ->
            dyno_profile:run(Nodes, Options#{
                show => fun(Ms) -> Report(progress(Ms, Name, Options)) end
            })
        end
    },
    dyno_cli_measurement:run(Job, Values).

%% Commands and counted calls end at an unknown time.
progress(PassedMs, Name, Options) ->
    Kind = dyno_profile:kind(Options),
    ForMs = dyno_profile:for_ms(Options),
    #{
        phase => measuring,
        run => ~"profile",
        text => ["profiling ", Name, ", ", atom_to_binary(Kind)],
        elapsed_ms => PassedMs,
        remaining_ms => max(0, ForMs - PassedMs),
        at_most => is_map_key(run, Options) orelse is_map_key(count, Options)
    }.

targets([]) -> [all];
targets(Filters) -> Filters.
