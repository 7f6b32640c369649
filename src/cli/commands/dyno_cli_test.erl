%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_test).
-moduledoc """
`dyno test`: runs a suite, shows and keeps what was measured, and says whether it passed.

The suite runs in a process of its own, so that this one can draw the progress line and take an
interrupt at any time.
""".

-behaviour(dyno_cli_command).

-import(dyno_cli_command, [option/3, repeated/3]).

-export([spec/0, groups/0, examples/0, run/1]).

-define(LEVELS, [off, count, discovery, time, memory, all]).

%% What the command line asks for.
-type plan() :: #{
    source := string(),
    options := dyno_test:options(),
    format := dyno_report:format() | none,
    %% Without the recording, which dyno_test writes.
    outputs := [dyno_cli_value:output()],
    progress := dyno_cli_progress:mode(),
    baseline := dyno_cli_test_baseline:plan(),
    saved := binary() | none
}.

-doc "Its arguments.".
-spec spec() -> argparse:command().
spec() ->
    #{
        help => "run a performance test of a system at growing sizes",
        arguments => [
            #{
                name => suite,
                type => binary,
                help =>
                    {"SUITE", [
                        "a suite's file (.erl, .exs or .beam), or the name of a suite's module"
                    ]}
            },
            option(
                sizes,
                "--sizes N,N,...",
                "the sizes to run at, one after the other (default: the suite's)"
            ),
            option(
                duration,
                "--duration TIME",
                "how long each size is measured: 500ms, 10s, 2min (default: the suite's, or 5s)"
            ),
            option(
                warmup,
                "--warmup TIME",
                "how long it is loaded before that, unmeasured; 0 for not at all (default: the "
                "suite's, or 500ms)"
            ),
            option(
                repeat,
                "--repeat N",
                "how often each size is run, in random order (default: the suite's, or once)"
            ),
            option(
                seed,
                "--seed N",
                "makes the random choices of an earlier test again, of its order and its load; the "
                "recording has its seed (default: drawn anew)"
            ),
            option(
                timeout,
                "--timeout TIME",
                "the longest that a callback of the suite may take (default: the suite's, or 1min)"
            ),
            repeated(
                pattern,
                "--pattern PATTERN",
                "functions of the targets: my_mod, my_mod:f/1, my_* or app:my_app (default: the "
                "suite's); may be given more than once"
            ),
            option(
                level,
                "--level LEVEL",
                "what of them: off, count (calls), discovery (who calls them), time (calls, own "
                "time), memory (calls, words) or all (default: the suite's, or time)"
            ),
            repeated(
                distribution,
                "--distribution PATTERN",
                "functions of which single calls are timed, a sample of them (default: the "
                "suite's, or none); may be given more than once"
            ),
            option(
                interval,
                "--interval TIME",
                "time from one look at the VM, the system and the processes to the next (default: "
                "the suite's, or 1s)"
            ),
            option(
                without,
                "--without LIST",
                "what is switched off, with commas between: functions, processes, vm, os, ets, "
                "ports (default: the suite's, or nothing)"
            ),
            flag(
                control,
                "--control",
                "also run each size shortly without measuring, to say what measuring costs "
                "(default: where calls are traced and the load is steady)"
            ),
            flag(no_control, "--no-control", "no such runs"),
            repeated(
                agent,
                "--agent FILE",
                "a custom agent to run in the targets, besides the suite's; may be given more than "
                "once"
            ),
            repeated(
                instrument,
                "--instrument FILE",
                "an instrument to run in the targets besides dyno's; may be given more than once"
            ),
            (option(
                custom_agents, "-C, --custom_agents FILE,...", "the same, as PerformERL has it"
            ))#{short => $C},
            repeated(
                threshold,
                "--threshold EXPRESSION",
                "a figure's limit, such as \"latency.p99 < 20 ms\", in place of the suite's; may "
                "be given more than once"
            ),
            repeated(
                invariant,
                "--invariant CHECK",
                "what holds in the targets at every moment, besides the suite's, such as "
                "\"memory: erlang:memory(total) =< 500000000\"; may be given more than once"
            ),
            flag(quiet, $q, "-q, --quiet", "no progress, and no report but what is asked for"),
            flag(verbose, $v, "-v, --verbose", "where there is no terminal: a line for each phase"),
            repeated(pa, "--pa FOLDER", "a folder for the code path; may be given more than once"),
            option(name, "--name NAME", "the name of dyno's own Erlang node (default: dyno-PID)"),
            option(
                cookie, "--cookie COOKIE", "the cookie of the Erlang nodes (default: this user's)"
            )
        ] ++
            dyno_cli_output:arguments(
                " (default: console)",
                "may be given more than once. Without a .json or .jsonl the recording goes to "
                "dyno-SUITE-TIME.json here"
            ) ++ dyno_cli_test_load:arguments() ++ dyno_cli_test_baseline:arguments()
    }.

-doc "Its options by what they are about.".
-spec groups() -> [dyno_cli_command:group()].
groups() ->
    [
        {"The load, in place of the suite's", [
            Name || #{name := Name} <- dyno_cli_test_load:arguments()
        ]},
        {"What is measured inside the targets", [
            pattern, level, distribution, interval, without, control, no_control, agent, instrument,
            custom_agents
        ]},
        {"What must hold: exit status 1 where it does not", [
            threshold, invariant, baseline, fail_if
        ]},
        {"Reports", [output, format, quiet, verbose]},
        {"Code and nodes", [pa, name, cookie]}
    ].

-doc "Its uses.".
-spec examples() -> [dyno_cli_command:example()].
examples() ->
    [
        {~"dyno new suite shop_perf", ~"writes shop_perf.erl, a suite to start from"},
        {~"dyno test shop_perf.erl", ~"runs it as it is"},
        {~"dyno test shop_perf.erl --sizes 1,10 --duration 2s -o shop.html",
            ~"runs it shortly, and makes a report to open in a browser"},
        {~"dyno test shop_perf.erl --threshold \"latency.p99 < 20 ms\"",
            ~"exits with status 1 where the 99th percentile is 20 ms or more"},
        {~"dyno test shop_perf.erl --rate 500 --duration 10s --load-nodes 1",
            ~"offers 500 operations a second, from a node of its own"},
        {~"dyno test shop_perf.erl --sizes 16 --search \"latency.p99 < 5 ms\"",
            ~"finds the highest rate at which that holds, at size 16"},
        {~"dyno test shop_perf.erl --repeat 5 -o before.json",
            ~"runs each size five times, in random order, and keeps the recording"},
        {~"dyno test shop_perf.erl --repeat 5 --baseline before.json",
            ~"exits with status 1 where it is slower than it was"},
        {~"dyno test shop_perf.erl --distribution logger_formatter:format/2",
            ~"also shows how long single calls of that function take"},
        {~"dyno test shop_perf.erl --without os,ports --no-control",
            ~"measures less of the system, and not what measuring costs"},
        {~"dyno test shop_perf.erl --invariant \"mem: erlang:memory(total) < 900000000\"",
            ~"exits with status 1 where that did not hold, if only for a moment"},
        {~"dyno test my_suite --pa _build/default/lib/my_app/ebin",
            ~"runs a suite that is compiled already"},
        {~"dyno test load_gen.erl -C agent.erl",
            ~"runs a suite that was written for PerformERL, with its custom agent"}
    ].

-doc "Runs the test.".
-spec run(argparse:arg_map()) -> dyno_cli_command:exit_status().
run(Values) ->
    case plan(Values) of
        {ok, Plan} ->
            ok = dyno_cli_interrupt:subscribe(),
            execute(Plan);
        {error, {baseline, Text}} ->
            dyno_cli_command:refused({error, Text});
        {error, Reason} ->
            dyno_cli_command:refused({error, dyno_cli_value, Reason})
    end.

-spec flag(atom(), string(), string()) -> argparse:argument().
flag(Name, Usage, Text) ->
    (option(Name, Usage, Text))#{
        long => tl(Usage), type => boolean, action => {store, true}
    }.

-spec flag(atom(), char(), string(), string()) -> argparse:argument().
flag(Name, Short, Usage, Text) ->
    (option(Name, Usage, Text))#{short => Short, type => boolean, action => {store, true}}.

-spec baseline(argparse:arg_map()) ->
    {ok, dyno_cli_test_baseline:plan()} | {error, {baseline, unicode:chardata()}}.
baseline(Values) ->
    case dyno_cli_test_baseline:parse(Values) of
        {ok, Baseline} -> {ok, Baseline};
        {error, Text} -> {error, {baseline, Text}}
    end.

-spec plan(argparse:arg_map()) ->
    {ok, plan()} | {error, dyno_cli_value:reason() | {baseline, unicode:chardata()}}.
plan(#{suite := Suite} = Values) ->
    Given = maps:get(output, Values, []),
    {Files, Saved} = with_recording(Given, Suite),
    maybe
        {ok, Converted} ?= converted(maps:to_list(Values), #{}),
        {ok, Load} ?= dyno_cli_test_load:options(Values),
        Agents = #{agents => Of || [_ | _] = Of <- [agents(Values)]},
        Options = maps:merge(maps:merge(Converted, Load), Agents),
        {ok, Format} ?= format(Values),
        {ok, Outputs} ?= dyno_cli_value:outputs(Files),
        [{_, Recording} = Recorded | _] = [
            Output
         || Kept <- [jsonl, json], {Of, _} = Output <- Outputs, Of =:= Kept
        ],
        Others = lists:delete(Recorded, Outputs),
        {ok, Baseline} ?= baseline(Values),
        {ok, #{
            baseline => Baseline,
            source => unicode:characters_to_list(Suite),
            options => Options#{recording => Recording},
            format => Format,
            outputs => Others,
            progress => progress_mode(Values),
            saved => Saved
        }}
    end.

-spec converted([{atom(), term()}], map()) -> {ok, map()} | {error, dyno_cli_value:reason()}.
converted([], Options) ->
    {ok, Options};
converted([{Name, Value} | Values], Options) ->
    maybe
        {ok, Key, Converted} ?= convert(Name, Value),
        converted(Values, Options#{Key => Converted})
    else
        ignored -> converted(Values, Options);
        Error -> Error
    end.

-spec convert(atom(), term()) -> {ok, atom(), term()} | ignored | {error, dyno_cli_value:reason()}.
convert(sizes, Text) -> keyed(sizes, dyno_cli_value:sizes(Text));
convert(duration, Text) -> keyed(duration_ms, dyno_cli_value:duration_ms(~"--duration", Text));
convert(warmup, Text) when Text =:= ~"0"; Text =:= ~"0s"; Text =:= ~"0ms" ->
    {ok, warmup_ms, 0};
convert(warmup, Text) -> keyed(warmup_ms, dyno_cli_value:duration_ms(~"--warmup", Text));
convert(interval, Text) -> keyed(interval_ms, dyno_cli_value:duration_ms(~"--interval", Text));
convert(timeout, Text) -> keyed(timeout_ms, dyno_cli_value:duration_ms(~"--timeout", Text));
convert(level, Text) -> keyed(level, dyno_cli_value:choice(~"--level", Text, ?LEVELS));
convert(without, Text) -> {ok, without, [binary_to_atom(N) || N <- string:lexemes(Text, ", ")]};
convert(repeat, Text) -> keyed(repeat, dyno_cli_value:positive(~"--repeat", Text));
convert(seed, Text) -> keyed(seed, dyno_cli_value:positive(~"--seed", Text));
convert(control, true) -> {ok, control, true};
convert(no_control, true) -> {ok, control, false};
convert(distribution, Texts) -> {ok, distribution, strings(Texts)};
convert(pattern, Texts) -> {ok, patterns, strings(Texts)};
convert(threshold, Texts) -> {ok, thresholds, strings(Texts)};
convert(invariant, Texts) -> {ok, invariants, strings(Texts)};
convert(instrument, Texts) -> {ok, instruments, strings(Texts)};
convert(pa, Texts) -> {ok, code_paths, strings(Texts)};
convert(name, Text) -> {ok, name, binary_to_atom(Text)};
convert(cookie, Text) -> {ok, cookie, binary_to_atom(Text)};
convert(_, _) -> ignored.

%% Named by their files, or as modules of the code path.
-spec agents(argparse:arg_map()) -> [string()].
agents(Values) ->
    Listed = binary:split(maps:get(custom_agents, Values, ~""), ~",", [global, trim_all]),
    strings(maps:get(agent, Values, []) ++ [string:trim(File) || File <- Listed]).

-spec keyed(atom(), {ok, term()} | {error, dyno_cli_value:reason()}) ->
    {ok, atom(), term()} | {error, dyno_cli_value:reason()}.
keyed(Key, {ok, Value}) -> {ok, Key, Value};
keyed(_Key, {error, Reason}) -> {error, Reason}.

-spec strings([binary()]) -> [string()].
strings(Texts) ->
    [unicode:characters_to_list(Text) || Text <- Texts].

-spec format(argparse:arg_map()) ->
    {ok, dyno_report:format() | none} | {error, dyno_cli_value:reason()}.
format(#{format := Text}) -> dyno_cli_value:choice(~"--format", Text, dyno_report:formats());
format(#{quiet := true}) -> {ok, none};
format(_) -> {ok, console}.

-spec progress_mode(argparse:arg_map()) -> dyno_cli_progress:mode().
progress_mode(#{quiet := true}) ->
    silent;
progress_mode(Values) ->
    case {dyno_cli_terminal:is_terminal(standard_error), Values} of
        {true, _} -> redrawn;
        {false, #{verbose := true}} -> lines;
        {false, _} -> warnings
    end.

%% The recording is always kept: a measurement cannot be had twice.
-spec with_recording([binary()], binary()) -> {[binary(), ...], binary() | none}.
with_recording(Files, Suite) ->
    case [File || File <- Files, {ok, Of} <- [dyno_report:format_of_file(File)], is_recording(Of)] of
        [_ | _] ->
            {Files, none};
        [] ->
            Default = default_recording(Suite),
            {Files ++ [Default], Default}
    end.

is_recording(Format) -> Format =:= json orelse Format =:= jsonl.

-spec default_recording(binary()) -> binary().
default_recording(Suite) ->
    Base = filename:basename(filename:rootname(Suite)),
    Name = re:replace(Base, "[^A-Za-z0-9_.-]", "_", [global]),
    {{Year, Month, Day}, {Hour, Minute, Second}} = calendar:universal_time(),
    Time = io_lib:format("~4..0b~2..0b~2..0bT~2..0b~2..0b~2..0b", [
        Year, Month, Day, Hour, Minute, Second
    ]),
    iolist_to_binary(["dyno-", Name, "-", Time, ".json"]).

-spec execute(plan()) -> dyno_cli_command:exit_status().
execute(#{source := Source, options := Options, progress := Mode} = Plan) ->
    Self = self(),
    Report = fun(Event) ->
        Self ! {progress, Event},
        ok
    end,
    {Runner, Monitor} = spawn_monitor(fun() ->
        %% What a suite prints must not get into a report on standard output.
        group_leader(whereis(standard_error), self()),
        Self ! {finished, self(), dyno_test:run(Source, Options#{progress => Report})}
    end),
    {Result, Shown} = await(Runner, Monitor, dyno_cli_progress:new(Mode)),
    _ = dyno_cli_progress:clear(Shown),
    finish(Result, Plan).

-spec await(pid(), reference(), dyno_cli_progress:t()) -> {term(), dyno_cli_progress:t()}.
await(Runner, Monitor, Progress) ->
    receive
        {progress, Event} ->
            await(Runner, Monitor, dyno_cli_progress:show(Event, Progress));
        dyno_interrupt ->
            ok = dyno_test:interrupt(Runner),
            Cleared = dyno_cli_progress:clear(Progress),
            dyno_cli_terminal:note("dyno: stopping; interrupt again to stop at once"),
            await(Runner, Monitor, Cleared);
        {finished, Runner, Result} ->
            erlang:demonitor(Monitor, [flush]),
            {Result, Progress};
        {'DOWN', Monitor, process, Runner, Reason} ->
            {{crashed, Reason}, Progress}
    end.

-spec finish(term(), plan()) -> dyno_cli_command:exit_status().
finish({ok, Document}, #{baseline := Baseline, options := #{recording := Path}} = Plan) ->
    case dyno_cli_test_baseline:judge(Baseline, Document) of
        {ok, Document} ->
            shown(Document, Plan);
        {ok, Judged} ->
            case dyno_recording_file:write(Path, Judged) of
                ok ->
                    shown(Judged, Plan);
                {error, Reason} ->
                    dyno_cli_terminal:complain(dyno_recording_file:format_error(Reason)),
                    _ = shown(Judged, Plan),
                    3
            end;
        {error, Text} ->
            _ = shown(Document, Plan),
            dyno_cli_terminal:complain(Text),
            2
    end;
finish({error, Error}, _Plan) ->
    dyno_cli_terminal:complain(dyno_error:format(Error)),
    dyno_error:exit_status(Error);
finish({crashed, {Reason, [_ | _] = Stack}}, _Plan) ->
    dyno_cli_crash:report(exit, Reason, [Frame || Frame <- Stack, is_tuple(Frame)]);
finish({crashed, Reason}, _Plan) ->
    dyno_cli_crash:report(exit, Reason, []).

-spec shown(dyno_recording:document(), plan()) -> dyno_cli_command:exit_status().
shown(Document, #{format := Format, outputs := Outputs, saved := Saved} = Plan) ->
    Delivered = dyno_cli_output:deliver(Document, Format, Outputs),
    mention(Document, Plan),
    case Saved of
        none -> ok;
        _ when map_get(progress, Plan) =:= silent -> ok;
        _ when Delivered =/= 0 -> ok;
        Path -> dyno_cli_terminal:note(["dyno: the recording is in ", Path])
    end,
    %% An output that failed is dyno's failure, unless the test has a worse word to say.
    case status(Document) of
        0 -> Delivered;
        Status -> Status
    end.

%% Where the console report is not shown, standard error says what went wrong.
-spec mention(dyno_report:document(), plan()) -> ok.
mention(_Document, #{format := console}) ->
    ok;
mention(Document, #{progress := Mode}) ->
    Warnings = [Text || Mode =/= silent, #{~"text" := Text} <- listed(~"warnings", Document)],
    Errors = [Text || #{~"text" := Text} <- [maps:get(~"error", Document, null)]],
    Verdicts = [
        [Name, ": ", Text]
     || #{~"result" := Result, ~"name" := Name, ~"text" := Text} <- listed(~"verdicts", Document),
        Result =/= ~"pass"
    ],
    lists:foreach(
        fun dyno_cli_terminal:complain/1,
        [["warning: ", Text] || Text <- Warnings] ++ Errors ++ Verdicts
    ).

%% A gate that could not be evaluated must not pass.
-spec status(dyno_report:document()) -> dyno_cli_command:exit_status().
status(#{~"status" := ~"interrupted"}) ->
    130;
status(#{~"status" := ~"complete"} = Document) ->
    case [not_passed || #{~"result" := R} <- listed(~"verdicts", Document), R =/= ~"pass"] of
        [] -> 0;
        _ -> 1
    end;
status(_) ->
    3.

-spec listed(binary(), dyno_report:document()) -> [map()].
listed(Key, Document) ->
    case Document of
        #{Key := List} when is_list(List) -> List;
        #{} -> []
    end.
