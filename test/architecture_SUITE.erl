%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% Checks from the compiled modules what doc/architecture.md and the style say of all of them. Each
%% check is tried, too, on a module that breaks the rule.
-module(architecture_SUITE).

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(MAX_LINES, 600).
-define(MAX_COLUMNS, 100).

suite() ->
    [{timetrap, {minutes, 5}}].

each_release() -> [the_oldest_release_can_load_the_agent].

all() ->
    [
        all_modules_are_seen,
        calls_only_go_downwards,
        the_agent_needs_only_kernel_and_stdlib,
        names_have_the_prefix,
        modules_are_documented,
        functions_are_documented,
        functions_have_specifications,
        modules_are_short,
        lines_are_short,
        the_oldest_release_can_load_the_agent,
        nothing_that_crashes_is_called,
        violations_are_found,
        good_modules_pass
    ].

%% Our modules

%% Without this, a change of the build's folders would leave nothing to check, and all would pass.
all_modules_are_seen(_Config) ->
    Seen = [Module || #{module := Module} <- ours()],
    _ = application:load(dyno),
    {ok, Built} = application:get_key(dyno, modules),
    ?assertEqual(lists:sort(Built), lists:sort(Seen)),
    Folders = lists:usort([Folder || #{folder := Folder} <- ours()]),
    ?assert(lists:member("agent", Folders), Folders),
    ?assert(lists:member("", Folders), Folders).

calls_only_go_downwards(_Config) ->
    none(upward_calls(ours())).

the_agent_needs_only_kernel_and_stdlib(_Config) ->
    none(foreign_agent_calls(ours())).

names_have_the_prefix(_Config) ->
    none(wrong_names(ours())).

modules_are_documented(_Config) ->
    none(undocumented_modules(ours())).

functions_are_documented(_Config) ->
    none(undocumented_functions(ours())).

functions_have_specifications(_Config) ->
    none(unspecified_functions(ours())).

modules_are_short(_Config) ->
    none([
        {too_long, Module, Lines}
     || #{module := Module, source := Source} <- ours(),
        Lines <- [line_count(Source)],
        Lines > ?MAX_LINES
    ]).

%% Except what `make format` writes, and rows of tables in documentation.
lines_are_short(_Config) ->
    Root = dyno_project:root(),
    Files = [
        File
     || File <- filelib:wildcard("src/**/*.erl", Root),
        string:find(File, "plugin/tasks/") =:= nomatch
    ],
    ?assert(length(Files) > 300),
    none([
        {too_wide, File, Number}
     || File <- Files,
        {ok, Text} <- [file:read_file(filename:join(Root, File))],
        {Number, Line} <- lists:enumerate(binary:split(Text, ~"\n", [global])),
        byte_size(Line) > ?MAX_COLUMNS,
        string:length(Line) > ?MAX_COLUMNS,
        binary:first(Line) =/= $|
    ]).

%% A target may run an older release than the caller's compiler.
the_oldest_release_can_load_the_agent(_Config) ->
    none(too_new(ours())).

%% doc/architecture.md, "Traps of the runtime".
nothing_that_crashes_is_called(_Config) ->
    none(crashing_calls(ours())).

%% The checks themselves

violations_are_found(_Config) ->
    Bad = compiled(
        "src/agent/bad_name.erl",
        "-module(bad_name).\n"
        "-export([run/0, loaded/0]).\n"
        "run() -> {dyno_cli:main([]), ssl:start(), dyno:version()}.\n"
        "loaded() -> erlang:loaded().\n"
    ),
    Stats = compiled(
        "src/stats/dyno_bad.erl",
        "-module(dyno_bad).\n"
        "-moduledoc \"Breaks rules.\".\n"
        "-export([run/0]).\n"
        "run() -> {dyno_recording:new(a, b), dyno_agent_os:read()}.\n"
    ),
    Bench = compiled(
        "src/bench/dyno_bad_bench.erl",
        "-module(dyno_bad_bench).\n"
        "-export([run/0]).\n"
        "run() -> {dyno_test:run(a, b), dyno_report:format(a, b), dyno_stats:mean([])}.\n"
    ),
    Callee = fun(Module, Folder) -> #{module => Module, folder => Folder} end,
    Known = [
        Callee(dyno_cli, "cli"),
        Callee(dyno, ""),
        Callee(dyno_recording, "recording"),
        Callee(dyno_agent_os, "agent"),
        Callee(dyno_test, "suite"),
        Callee(dyno_report, "report"),
        Callee(dyno_stats, "stats")
    ],
    ?assertEqual(
        [{bad_name, dyno}, {bad_name, dyno_cli}],
        caller_and_callee(upward_calls([Bad], Known))
    ),
    ?assertEqual(
        [{dyno_bad, dyno_agent_os}, {dyno_bad, dyno_recording}],
        caller_and_callee(upward_calls([Stats], Known))
    ),
    ?assertEqual(
        [{dyno_bad_bench, dyno_report}, {dyno_bad_bench, dyno_test}],
        caller_and_callee(upward_calls([Bench], Known))
    ),
    ?assertEqual(
        [{bad_name, dyno}, {bad_name, dyno_cli}, {bad_name, ssl}],
        caller_and_callee(foreign_agent_calls([Bad]))
    ),
    ?assertEqual([{crashes, bad_name, {erlang, loaded, 0}}], crashing_calls([Bad, Stats])),
    %% The module was compiled for the release that runs.
    TooNew = [{not_for_the_oldest_release, bad_name} || erlang:system_info(otp_release) > "27"],
    ?assertEqual(TooNew, too_new([Bad])),
    ?assertEqual([{wrong_name, bad_name}], wrong_names([Bad, Stats])),
    ?assertEqual([{no_moduledoc, bad_name}], undocumented_modules([Bad, Stats])),
    ?assertEqual([{no_doc, dyno_bad, {run, 0}}], undocumented_functions([Stats])),
    ?assertEqual([{no_spec, dyno_bad, {run, 0}}], unspecified_functions([Stats])).

good_modules_pass(_Config) ->
    Good = compiled(
        "src/cli/dyno_good.erl",
        "-module(dyno_good).\n"
        "-moduledoc \"Keeps rules.\".\n"
        "-behaviour(gen_event).\n"
        "-export([init/1, handle_event/2, handle_call/2, run/0]).\n"
        "-spec init(term()) -> {ok, term()}.\n"
        "init(A) -> {ok, A}.\n"
        "-spec handle_event(term(), term()) -> {ok, term()}.\n"
        "handle_event(_, S) -> {ok, S}.\n"
        "-spec handle_call(term(), term()) -> {ok, ok, term()}.\n"
        "handle_call(_, S) -> {ok, ok, S}.\n"
        "-doc \"Runs.\".\n"
        "-spec run() -> ok.\n"
        "run() -> dyno_stats:mean([]), ok.\n"
    ),
    Known = [#{module => dyno_stats, folder => "stats"}],
    ?assertEqual([], upward_calls([Good], Known)),
    ?assertEqual([], wrong_names([Good])),
    ?assertEqual([], undocumented_modules([Good])),
    ?assertEqual([], undocumented_functions([Good])),
    ?assertEqual([], unspecified_functions([Good])).

none([]) ->
    ok;
none(Violations) ->
    ct:fail("~b violations:~n~p", [length(Violations), Violations]).

caller_and_callee(Violations) ->
    lists:usort([{Caller, Callee} || {_Rule, Caller, {Callee, _, _}} <- Violations]).

%% The rules

upward_calls(Facts) ->
    upward_calls(Facts, Facts).

upward_calls(Facts, Known) ->
    Folders = #{Module => Folder || #{module := Module, folder := Folder} <- Known},
    [
        {upward_call, Caller, Callee}
     || #{module := Caller, folder := From, imports := Imports} <- Facts,
        {Module, _, _} = Callee <- Imports,
        {ok, To} <- [maps:find(Module, Folders)],
        not may_call(From, To)
    ].

%% doc/architecture.md. The folder "" holds the API, above all others but the plugins; a folder that
%% is not named here is a capability.
may_call(Same, Same) ->
    true;
may_call("plugin", _To) ->
    true;
may_call("", To) ->
    To =/= "plugin";
may_call("cli", To) ->
    not lists:member(To, ["", "plugin"]);
may_call("report", To) ->
    lists:member(To, ["recording", "stats", "system"]);
may_call("observe", To) ->
    lists:member(To, ["node", "agent", "recording", "stats", "system"]);
may_call("load", To) ->
    lists:member(To, ["node", "agent", "recording", "stats", "system"]);
may_call("node", To) ->
    lists:member(To, ["agent", "recording", "stats", "system"]);
may_call("recording", To) ->
    lists:member(To, ["stats", "system"]);
may_call("stats", _To) ->
    false;
may_call("system", _To) ->
    false;
may_call("agent", _To) ->
    false;
may_call(_Capability, To) ->
    lists:member(To, ["observe", "node", "load", "agent", "recording", "stats", "system"]).

foreign_agent_calls(Facts) ->
    Agent = [Module || #{module := Module, folder := "agent"} <- Facts],
    [
        {not_in_a_target, Caller, Callee}
     || #{module := Caller, folder := "agent", imports := Imports} <- Facts,
        {Module, _, _} = Callee <- Imports,
        not lists:member(Module, Agent),
        not lists:member(application_of(Module), ["erts", "kernel", "stdlib"])
    ].

application_of(Module) ->
    case code:which(Module) of
        preloaded ->
            "erts";
        File when is_list(File) ->
            Folder = filename:basename(filename:dirname(filename:dirname(File))),
            hd(string:split(Folder, "-"));
        _ ->
            unknown
    end.

too_new(Facts) ->
    [
        {not_for_the_oldest_release, Module}
     || #{module := Module, folder := "agent", loadable_from := Release} <- Facts, Release > 27
    ].

crashing_calls(Facts) ->
    [
        {crashes, Module, Called}
     || #{module := Module, imports := Imports} <- Facts,
        {erlang, loaded, 0} = Called <- Imports
    ].

wrong_names(Facts) ->
    [
        {wrong_name, Module}
     || #{module := Module} <- Facts,
        Module =/= dyno,
        string:prefix(atom_to_list(Module), "dyno_") =:= nomatch,
        %% Mix finds a task by its module's name, which it makes of the task's.
        string:prefix(atom_to_list(Module), "Elixir.Mix.Tasks.Dyno.") =:= nomatch,
        Module =/= 'Elixir.Dyno'
    ].

%% `-moduledoc false` is an answer, too: a comment says what an inner module is for.
undocumented_modules(Facts) ->
    [{no_moduledoc, Module} || #{module := Module, moduledoc := none} <- Facts].

undocumented_functions(Facts) ->
    [
        {no_doc, Module, Function}
     || #{module := Module, docs := Docs, callbacks := Callbacks} = Fact <- Facts,
        map_get(moduledoc, Fact) =/= hidden,
        {Function, none} <- Docs,
        not lists:member(Function, Callbacks),
        %% dyno_error says what they are.
        not lists:member(Function, [{format_error, 1}, {fault, 1}])
    ].

unspecified_functions(Facts) ->
    [
        {no_spec, Module, Function}
     || #{module := Module, exports := Exports, specs := Specs, callbacks := Callbacks} <- Facts,
        Function <- Exports,
        not lists:member(Function, Specs),
        not lists:member(Function, Callbacks)
    ].

line_count(Source) ->
    {ok, Text} = file:read_file(Source),
    length(binary:matches(Text, ~"\n")).

%% The facts

ours() ->
    Folder = filename:join(code:lib_dir(dyno), "ebin"),
    [facts(element(2, file:read_file(File))) || File <- filelib:wildcard(Folder ++ "/*.beam")].

compiled(Source, Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, Module, Beam, _Warnings} = compile:forms(
        [element(2, erl_parse:parse_form(Form)) || Form <- split(Tokens)],
        [debug_info, return, beam_docs, {source, filename:absname(Source)}]
    ),
    true = is_atom(Module),
    facts(Beam).

split(Tokens) ->
    case lists:splitwith(fun(Token) -> element(1, Token) =/= dot end, Tokens) of
        {Form, [Dot | Rest]} -> [Form ++ [Dot] | split(Rest)];
        {[], []} -> []
    end.

facts(Beam) ->
    {ok, {Module, Chunks}} = beam_lib:chunks(Beam, [imports, exports, compile_info, debug_info]),
    {debug_info_v1, Backend, Data} = proplists:get_value(debug_info, Chunks),
    {ok, Forms} = Backend:debug_info(erlang_v1, Module, Data, []),
    Source = proplists:get_value(source, proplists:get_value(compile_info, Chunks)),
    {ModuleDoc, Docs} = docs(Beam),
    Generated = [{module_info, 0}, {module_info, 1}, {behaviour_info, 1}],
    #{
        module => Module,
        source => Source,
        folder => folder(filename:split(Source)),
        loadable_from => loadable_from(Beam),
        imports => proplists:get_value(imports, Chunks),
        exports => proplists:get_value(exports, Chunks) -- Generated,
        specs => [Function || {attribute, _, spec, {Function, _}} <- Forms],
        callbacks => lists:append([
            Behaviour:behaviour_info(callbacks)
         || {attribute, _, Kind, Behaviour} <- Forms, Kind =:= behaviour orelse Kind =:= behavior
        ]),
        moduledoc => ModuleDoc,
        docs => Docs
    }.

%% The outermost folder: .../src/agent/functions/dyno_x.erl -> "agent"; .../src/dyno.erl -> "".
folder(Path) ->
    case lists:splitwith(fun(Part) -> Part =/= "src" end, lists:reverse(Path)) of
        {[_File], ["src" | _]} -> "";
        {[_ | _] = Inside, ["src" | _]} -> lists:last(Inside)
    end.

%% From release 28 on the count of atoms is negative where their lengths are in the new form, and
%% there is an instruction above 183 (erts/emulator, genop.tab of OTP 27).
loadable_from(Beam) ->
    {ok, {_, [{"AtU8", <<Atoms:32/signed, _/binary>>}, {"Code", Code}]}} =
        beam_lib:chunks(Beam, ["AtU8", "Code"]),
    <<_HeaderSize:32, _InstructionSet:32, MaxInstruction:32, _/binary>> = Code,
    case Atoms > 0 andalso MaxInstruction =< 183 of
        true -> 27;
        false -> 28
    end.

docs(Beam) ->
    case beam_lib:chunks(Beam, ["Docs"], [allow_missing_chunks]) of
        {ok, {_, [{"Docs", missing_chunk}]}} ->
            {none, []};
        {ok, {_, [{"Docs", Chunk}]}} ->
            {docs_v1, _, _, _, ModuleDoc, _, Entries} = binary_to_term(Chunk),
            {
                presence(ModuleDoc),
                [
                    {{Name, Arity}, presence(Doc)}
                 || {{function, Name, Arity}, _, _, Doc, Meta} <- Entries,
                    not is_map_key(equiv, Meta)
                ]
            }
    end.

presence(#{}) -> present;
presence(Answer) -> Answer.
