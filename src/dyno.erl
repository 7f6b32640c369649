%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno).
-moduledoc """
A dynamometer for the BEAM, for the Erlang shell: one function a command.

```erlang
1> {ok, Recording} = dyno:test("examples/ets_cache.erl", #{sizes => [1, 4], duration_ms => 1000}).
ets_cache: complete, 2 runs in 5.21 s
...
PASSED: all 3 thresholds hold
2> ok = dyno:report(Recording, "ets_cache.html").
```

The same as `dyno test` and `dyno report` at the command line, but that nothing is written unless it
is asked for, and that options are a map. dyno's modules must be on the code path: after `make
install` `ERL_LIBS=/usr/local/lib erl` or, in a shell that runs,
`code:add_path("/usr/local/lib/dyno/ebin").` `dyno:help()` lists the functions.
""".

-export([test/1, test/2, bench/1, bench/2, bench/3, servers/1, servers/2]).
-export([verify/2, verify/3, trace/2, trace/3, profile/1, profile/2, workload/1]).
-export([doctor/1, doctor/2, record/1, record/2, top/1, top/2, leave/1, leave/2]).
-export([compare/2, compare/3, report/1, report/2]).
-export([format_error/1, version/0, help/0]).

-export_type([recording/0, codes/0, reason/0]).

%% How long servers are measured, and processes verified, where nothing else is said.
-define(FOR_MS, 10_000).
-define(LOOK_MS, 1000).

-doc "A recording, or the file that holds one.".
-type recording() :: dyno_recording:document() | file:filename_all().

-doc "One code, or a list of them; a list of calls is a list of codes.".
-type codes() :: dyno_bench_code:code() | [dyno_bench_code:code()].

-doc "Why there is no result; `format_error/1` says it in words.".
-type reason() :: dyno_error:error().

-doc "As `test/2`, with the suite's own options.".
-spec test(dyno_suite_source:source()) -> {ok, dyno_recording:document()} | {error, reason()}.
test(Suite) ->
    test(Suite, #{}).

-doc """
Runs a suite (a file or a module, see `m:dyno_suite`), prints the report and returns the recording.

`m:dyno_test` has the options; `recording => "FILE.json"` keeps the recording as it grows. Where the
shell's node is not distributed yet, it becomes a hidden node, because targets are nodes.

## Examples

```erlang
{ok, _} = dyno:test(my_suite).
{ok, _} = dyno:test("my_suite.erl", #{
    sizes => [1, 10],
    duration_ms => 2000,
    thresholds => ["latency.p99 < 20 ms"]
}).
```

## Errors
Nothing was measured: the suite or an option is wrong. A test whose target fails gives a recording
with the status `failed`, and one that misses a threshold says so in its `verdicts`.
""".
-spec test(dyno_suite_source:source(), dyno_test:options()) ->
    {ok, dyno_recording:document()} | {error, reason()}.
test(Suite, Options) ->
    reported(dyno_test:run(Suite, Options)).

-doc "As `bench/2`, with the options' defaults.".
-spec bench(codes()) -> {ok, dyno_recording:document()} | {error, reason()}.
bench(Codes) ->
    bench(Codes, #{}).

-doc """
Measures a code, or compares several, prints the report and returns the recording.

`m:dyno_bench_code` says what a code is, `m:dyno_bench` has the options, `m:dyno_bench_mode` the
modes.

## Examples

```erlang
{ok, _} = dyno:bench("rand:uniform().").
{ok, _} = dyno:bench([fun() -> lists:seq(1, 9) end, {lists, seq, [1, 9]}]).
Samples = #{sample_ms => 100, samples => 20},
{ok, _} = dyno:bench("rand:uniform().", #{mode => {continuous, Samples}}).
```

## Errors
Nothing was measured: a code or an option is wrong, or a code failed.
""".
-spec bench(codes(), dyno_bench:options()) -> {ok, dyno_recording:document()} | {error, reason()}.
bench(Codes, Options) ->
    reported(dyno_bench:run(listed(Codes), Options)).

-doc """
Measures a call of a function; or, with two maps, looks for the concurrency with the highest
throughput of a code: the settings of the mode `squeeze` come last.

## Examples

```erlang
{ok, _} = dyno:bench(lists, seq, [1, 9]).
{ok, _} = dyno:bench("rand:uniform().", #{}, #{max => 8}).
```
""".
-spec bench
    (module(), atom(), [term()]) -> {ok, dyno_recording:document()} | {error, reason()};
    (dyno_bench_code:code(), dyno_bench:options(), Squeeze :: #{atom() => pos_integer()}) ->
        {ok, dyno_recording:document()} | {error, reason()}.
bench(Module, Function, Arguments) when is_atom(Module), is_atom(Function), is_list(Arguments) ->
    bench({Module, Function, Arguments}, #{});
bench(Code, Options, Squeeze) when is_map(Options), is_map(Squeeze) ->
    bench([Code], Options#{mode => {squeeze, Squeeze}}).

%% A list of characters is one code.
listed([]) ->
    [];
listed(Codes) when is_list(Codes) ->
    case io_lib:char_list(Codes) of
        true -> [Codes];
        false -> Codes
    end;
listed(Code) ->
    [Code].

-doc "As `servers/2`, of all servers of a node, for ten seconds.".
-spec servers(node()) -> {ok, dyno_recording:document()} | {error, reason()}.
servers(Node) ->
    servers(Node, #{}).

-doc """
Measures the server processes of a running node for a while, prints the report and returns the
recording. `m:dyno_servers` measures them from code, window by window.

## Examples

```erlang
{ok, _} = dyno:servers('shop@host', #{for_ms => 30_000, servers => [~"orders", ~"app:shop"]}).
```

## Errors
No node can be reached, or an option is wrong.
""".
-spec servers(node() | [node(), ...], dyno_servers_run:options()) ->
    {ok, dyno_recording:document()} | {error, reason()}.
servers(Nodes, Options) ->
    reported(
        dyno_servers_run:run(lists:flatten([Nodes]), maps:merge(#{for_ms => ?FOR_MS}, Options))
    ).

-doc "As `doctor/2`, within ten seconds.".
-spec doctor(node() | [node(), ...]) -> {ok, dyno_recording:document()} | {error, reason()}.
doctor(Nodes) ->
    doctor(Nodes, #{}).

-doc """
Says what is wrong with running nodes, the worst first, and what to do, and returns the recording.
`m:dyno_doctor` has the options.

## Examples

```
{ok, _} = dyno:doctor('shop@host', #{for_ms => 10_000}).
```

## Errors

A node cannot be reached.
""".
-spec doctor(node() | [node(), ...], dyno_doctor:options()) ->
    {ok, dyno_recording:document()} | {error, reason()}.
doctor(Nodes, Options) ->
    reported(dyno_doctor:run(lists:flatten([Nodes]), Options)).

-doc "As `record/2`, for half a minute.".
-spec record(node() | [node(), ...]) -> {ok, dyno_recording:document()} | {error, reason()}.
record(Nodes) ->
    record(Nodes, #{}).

-doc """
Records what nodes do that run, with every instrument and without a load, prints a report, and
returns the recording. `m:dyno_record` has the options.

## Examples

```
{ok, _} = dyno:record('shop@host', #{duration_ms => 10_000, patterns => ["app:shop"]}).
```

## Errors

A node cannot be reached, or an option is wrong.
""".
-spec record(node() | [node(), ...], dyno_record:options()) ->
    {ok, dyno_recording:document()} | {error, reason()}.
record(Nodes, Options) ->
    reported(dyno_record:run(lists:flatten([Nodes]), Options)).

-doc "As `verify/3`, for ten seconds.".
-spec verify(file:filename_all(), node()) -> {ok, dyno_recording:document()} | {error, reason()}.
verify(Specification, Node) ->
    verify(Specification, Node, #{}).

-doc """
Checks whether the processes of running nodes keep to a specification, prints a report, and returns
the recording. `m:dyno_verify` has the options.

## Examples

```
{ok, _} = dyno:verify("worker.dyno", 'shop@host', #{for_ms => 30_000}).
```

## Errors

The specification is wrong, or a node cannot be reached.
""".
-spec verify(file:filename_all(), node() | [node(), ...], dyno_verify:options()) ->
    {ok, dyno_recording:document()} | {error, reason()}.
verify(Specification, Nodes, Options) ->
    reported(
        dyno_verify:run(
            [unicode:characters_to_binary(Specification)],
            lists:flatten([Nodes]),
            maps:merge(#{for_ms => ?FOR_MS}, Options)
        )
    ).

-doc "As `profile/2`, for ten seconds.".
-spec profile(node() | [node(), ...]) -> {ok, dyno_recording:document()} | {error, reason()}.
profile(Node) ->
    profile(Node, #{}).

-doc """
Finds where the time or the memory of running nodes goes, prints a report, and returns the
recording. `m:dyno_profile` has the options.

## Examples

```
{ok, _} = dyno:profile('shop@host', #{targets => [~"app:shop"], for_ms => 30_000}).
```

## Errors

A node cannot be reached, or a target means nothing there.
""".
-spec profile(node() | [node(), ...], dyno_profile:options()) ->
    {ok, dyno_recording:document()} | {error, reason()}.
profile(Nodes, Options) ->
    reported(dyno_profile:run(lists:flatten([Nodes]), Options)).

-doc "As `trace/3`, of the next ten calls within 15 seconds.".
-spec trace(node() | [node(), ...], Pattern | [Pattern]) -> {ok, pid()} | {error, reason()} when
    Pattern :: unicode:chardata().
trace(Nodes, Patterns) ->
    trace(Nodes, Patterns, #{}).

-doc """
Prints calls and messages of running nodes as they happen. It returns at once; `m:dyno_trace` has
the options, the patterns are in `m:dyno_trace_pattern`. It ends by itself, or with the calling
process.

## Examples

```
{ok, Trace} = dyno:trace('shop@host', "shop:order/2 -> return", #{count => 100}).
ok = dyno_trace:add(Trace, "shop:price/1").
{ok, _} = dyno_trace:stop(Trace).
```

## Errors

A pattern is not understood, a function is not there, or a node cannot be reached.
""".
-spec trace(node() | [node(), ...], Pattern | [Pattern], dyno_trace:options()) ->
    {ok, pid()} | {error, reason()}
when
    Pattern :: unicode:chardata().
trace(Nodes, Patterns, Options) ->
    dyno_trace:start(lists:flatten([Nodes]), listed(Patterns), Options).

-doc "As `top/2`, with this node's cookie.".
-spec top(node()) -> {ok, #{binary() => term()}} | {error, reason()}.
top(Node) ->
    top(Node, #{}).

-doc """
What a node and its processes do now, in a reading of a second: what `dyno top NODE --format json`
prints for a node. Another dyno may measure meanwhile.

## Cost
5 us of the node's processor for each of its processes, 10,000 of them at most.
""".
-spec top(node(), #{cookie => atom(), name => atom()}) ->
    {ok, #{binary() => term()}} | {error, reason()}.
top(Node, Options) ->
    dyno_top:once(Node, Options).

-doc "As `leave/2`, with this node's cookie.".
-spec leave(node()) -> {ok, Removed :: [module()]} | {error, reason()}.
leave(Node) ->
    leave(Node, #{}).

-doc """
Removes the modules that dyno left in a node, because removing them would have cost the node too
much.

## Cost
2 to 5 us of the node's processor for each of its processes and each module.
""".
-spec leave(node(), #{cookie => atom(), name => atom()}) ->
    {ok, Removed :: [module()]} | {error, reason()}.
leave(Node, Options) ->
    maybe
        {ok, #{modules := Modules}} ?= dyno_agent:leave(Node, Options),
        {ok, Modules}
    end.

-doc """
Runs a synthetic system of a master and workers in this node, prints a report, and returns the
recording. `m:dyno_workload` has the options.

## Examples

```
{ok, _} = dyno:workload(#{shape => burst, workers => 10_000}).
```
""".
-spec workload(dyno_workload:options()) -> {ok, dyno_recording:document()} | {error, reason()}.
workload(Options) ->
    reported(dyno_workload:run(Options)).

-doc "As `compare/3`, where both were made under the same conditions.".
-spec compare(Old :: recording(), New :: recording()) ->
    {ok, dyno_recording:document()} | {error, reason()}.
compare(Old, New) ->
    compare(Old, New, #{}).

-doc """
Compares two recordings, prints what became slower or faster, and returns the comparison.

`m:dyno_compare` has the options.

## Examples

```erlang
{ok, _} = dyno:compare("before.json", "after.json").
{ok, _} = dyno:compare("laptop.json", "server.json", #{incomparable => warn}).
```
""".
-spec compare(Old :: recording(), New :: recording(), dyno_compare:options()) ->
    {ok, dyno_recording:document()} | {error, reason()}.
compare(Old, New, Options) ->
    maybe
        {ok, OldDocument} ?= document(Old),
        {ok, NewDocument} ?= document(New),
        Compared = dyno_compare:compare(OldDocument, NewDocument, Options),
        reported(dyno_error:tagged(dyno_compare, Compared))
    end.

reported({ok, Recording}) ->
    maybe
        ok ?= report(Recording),
        {ok, Recording}
    end;
reported(Error) ->
    Error.

-doc "Prints a recording as text.".
-spec report(recording()) -> ok | {error, reason()}.
report(Recording) ->
    report(Recording, console).

-doc """
Prints a recording in a format, or writes it to a file whose ending says the format.

## Examples

```erlang
ok = dyno:report("before.json", console).
ok = dyno:report("before.json", "before.html").
```
""".
-spec report(recording(), dyno_report:format() | file:filename_all()) -> ok | {error, reason()}.
report(Recording, Format) when is_atom(Format) ->
    maybe
        {ok, Document} ?= document(Recording),
        {ok, Text} ?= dyno_error:tagged(dyno_report, render(Format, Document, look())),
        io:put_chars(iolist_to_binary(Text))
    end;
report(Recording, File) ->
    maybe
        {ok, Document} ?= document(Recording),
        {ok, Format} ?= dyno_error:tagged(dyno_report, dyno_report:format_of_file(File)),
        {ok, Report} ?= dyno_error:tagged(dyno_report, dyno_report:render(Format, Document, #{})),
        Access = dyno_recording_file:access(Document),
        dyno_error:tagged(dyno_file, dyno_file:write(File, Access, Report))
    end.

-doc "One sentence for a reason, with what to do next.".
-spec format_error(reason()) -> binary().
format_error(Error) ->
    dyno_text:lines(dyno_error:format(Error)).

-doc "dyno's version, as in its application file.".
-spec version() -> binary().
version() ->
    dyno_version:version().

-doc "Lists the functions of this module, each with what it is for; `h(dyno, test)` says more.".
-spec help() -> ok.
help() ->
    Docs =
        case code:get_doc(?MODULE) of
            {ok, {docs_v1, _, _, _, _, _, Of}} -> Of;
            %% Modules without their documentation, as in a release that was stripped.
            {error, _} -> []
        end,
    Said = #{{F, A} => Text || {{function, F, A}, _, _, #{~"en" := Text}, _} <- Docs},
    io:put_chars([
        [
            io_lib:format("~ts~n    ~ts~n", [Call, first_sentence(maps:get(Function, Said, ~""))])
         || {_, Function, Call} <- lists:sort([
                {F, {F, A}, io_lib:format("dyno:~ts/~b", [F, A])}
             || {F, A} <- ?MODULE:module_info(exports), F =/= module_info
            ])
        ],
        "\nIn the shell: h(dyno, test). At the command line: dyno --help\n"
    ]).

first_sentence(Text) ->
    [Paragraph | _] = string:split(Text, "\n\n"),
    [Sentence | _] = string:split(re:replace(Paragraph, "\\s+", " ", [global, unicode]), ". "),
    Sentence.

document(Document) when is_map(Document) ->
    dyno_error:tagged(dyno_recording, dyno_recording:validate(Document));
document(File) ->
    dyno_error:tagged(dyno_recording_file, dyno_recording_file:read(File)).

render(Name, Document, Options) ->
    maybe
        {ok, Format} ?= dyno_report:format_of_name(atom_to_binary(Name)),
        dyno_report:render(Format, Document, Options)
    end.

%% The caller's shell, which may be a remote one. It may answer no such questions, as the leader of
%% a test that passes them on to somebody who has ended.
look() ->
    {Pid, Ref} = spawn_monitor(fun ask/0),
    receive
        {'DOWN', Ref, process, Pid, {look, Columns, Options}} -> look(Columns, Options);
        {'DOWN', Ref, process, Pid, _} -> #{}
    after ?LOOK_MS ->
        true = exit(Pid, kill),
        true = demonitor(Ref, [flush]),
        #{}
    end.

-spec ask() -> no_return().
ask() -> exit({look, io:columns(), io:getopts()}).

look(Columns, Options) ->
    Widths = [{width, max(40, min(160, Of))} || {ok, Of} <- [Columns]],
    Charsets = [
        {charset, ascii}
     || is_list(Options), proplists:get_value(encoding, Options) =:= latin1
    ],
    maps:from_list(Widths ++ Charsets).
