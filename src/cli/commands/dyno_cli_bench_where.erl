%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench_where).
-moduledoc false.
%% The options of `dyno bench` for the place of codes: VMs of their own, with other flags, another
%% Erlang or another revision of the project, or other nodes.

-import(dyno_cli_command, [contradiction/1]).

-export([options/0, place/1, cluster/1]).

-define(NOT_WATCHED, [
    {isolated, "--isolated"},
    {vms, "--vms"},
    {erl_flags, "--erl-flags"},
    {erl, "--erl"},
    {rev, "--rev"},
    {build, "--build"},
    {squeeze, "--squeeze"},
    {iterations, "--loop"},
    {sample_ms, "--duration"},
    {samples, "--samples"},
    {warmup, "--warmup"},
    {cv, "--cv"},
    {report, "--report"},
    {input, "--input"},
    {baseline, "--baseline"},
    {fail_if, "--fail-if"},
    {heap, "--heap"},
    {verbose, "--verbose"}
]).

-spec options() -> [dyno_cli_option:row()].
options() ->
    [
        {"-i, --isolated", "runs each code in fresh VMs of its own, again and again"},
        {"--vms N",
            "the number of VMs for each code (default: 8, up to 32 if not decided); implies -i",
            {whole, 1, 1000}},
        {"--erl-flags FLAGS", "starts these VMs with flags of erl; repeat to compare; implies -i",
            {many, {custom, fun flags/1, "flags, each quote of which is closed"}}},
        {"--erl PATH",
            "starts these VMs with this Erlang, a program or folder; repeat to compare; implies -i",
            {many, text}},
        {"--rev REV1..REV2",
            "compares two git revisions of the project, or REV1 with the working tree",
            {many, text}},
        {"--build COMMAND",
            "with --rev: the build command, such as 'make app' (default: by the project's files)"},
        {"--node NAME",
            "runs the code in this node; repeat to run in several at once, with a line each second",
            {many, {custom, fun dyno_cli_nodes:name/1, "a name such as shop@host"}}},
        lists:keyfind("--cookie COOKIE", 1, dyno_cli_nodes:rows())
    ].

-doc "Nodes that run a code at once, if several.".
-spec cluster(dyno_cli_command:values()) ->
    dyno_error:result(none | #{nodes := [node(), ...], cookie => atom()}).
cluster(#{node := [_, _ | _] = Nodes} = Values) ->
    case [Option || {Key, Option} <- ?NOT_WATCHED, is_map_key(Key, Values)] of
        [] ->
            {ok, (dyno_cli_nodes:connection(Values))#{nodes => Nodes}};
        [Option | _] ->
            contradiction([Option, " is for one --node, not for several at once"])
    end;
cluster(_Values) ->
    {ok, none}.

-doc "The place of codes as options of m:dyno_bench.".
-spec place(dyno_cli_command:values()) -> dyno_error:result(dyno_bench:options()).
place(#{build := _} = Values) when not is_map_key(rev, Values) ->
    contradiction("--build says how revisions are built, but there is no --rev; give both or none");
place(Values) ->
    Isolated = maps:with([isolated, vms, erl_flags, erl, rev], Values),
    case {Values, map_size(Isolated)} of
        {#{node := _}, N} when N > 0 ->
            contradiction(
                "--node measures in that very node, which -i, --vms, --erl and --rev do not; give "
                "one of them"
            );
        {#{node := [Node]}, 0} ->
            {ok, (dyno_cli_nodes:connection(Values))#{node => Node}};
        {#{}, 0} ->
            {ok, #{}};
        {#{}, _} ->
            isolated(Values)
    end.

isolated(Values) ->
    Settings = (maps:with([vms], Values))#{
        variants => dyno_bench_isolated:cross(erls(Values), variants(Values))
    },
    maybe
        ok ?= dyno_bench_isolated:check(Settings),
        {ok, Revisions} ?= revisions(Values),
        {ok, Revisions#{isolated => Settings}}
    end.

%% A single one needs no name.
erls(#{erl := [One]}) ->
    [#{erl => unicode:characters_to_list(One)}];
erls(#{erl := Several}) ->
    Paths = [unicode:characters_to_list(Path) || Path <- Several],
    Versions = lists:append([version(Path) || Path <- Paths]),
    Labels =
        case length(lists:uniq(Versions)) =:= length(Paths) of
            true -> [["OTP ", Version] || Version <- Versions];
            false -> Several
        end,
    [#{erl => P, label => iolist_to_binary(Label)} || {P, Label} <- lists:zip(Paths, Labels)];
erls(_) ->
    [#{}].

%% From the installation; a program or its folder is accepted too.
version(Path) ->
    Above = filename:dirname(filename:absname(Path)),
    Roots = [Path, Above, filename:dirname(Above)],
    Files = [filelib:wildcard(filename:join(R, "releases/*/OTP_VERSION")) || R <- Roots],
    lists:sublist(
        [
            string:trim(Version)
         || File <- lists:append(Files), {ok, Version} <- [file:read_file(File)]
        ],
        1
    ).

variants(#{erl_flags := [{Words, _Label}]}) -> [#{flags => Words}];
variants(#{erl_flags := Several}) -> [#{flags => Words, label => L} || {Words, L} <- Several];
variants(_) -> [#{}].

flags(Text) ->
    case words(string:trim(unicode:characters_to_list(Text)), none, [], []) of
        error -> error;
        Words -> {ok, {Words, flags_label(Text)}}
    end.

flags_label(Text) ->
    case dyno_text:clean(iolist_to_binary(string:trim(Text))) of
        ~"" -> ~"no flags";
        Trimmed -> Trimmed
    end.

%% Words as in a shell: blanks separate, quotes group.
words([], none, [], Words) -> lists:reverse(Words);
words([], none, Word, Words) -> lists:reverse([lists:reverse(Word) | Words]);
words([], _Quote, _Word, _Words) -> error;
words([Quote | Rest], Quote, Word, Words) -> words(Rest, none, Word, Words);
words([C | Rest], none, Word, Words) when C =:= $"; C =:= $' -> words(Rest, C, Word, Words);
words([$\s | Rest], none, [], Words) -> words(Rest, none, [], Words);
words([$\s | Rest], none, Word, Words) -> words(Rest, none, [], [lists:reverse(Word) | Words]);
words([C | Rest], Quote, Word, Words) -> words(Rest, Quote, [C | Word], Words).

revisions(#{rev := Texts} = Values) ->
    case dyno_bench_revision:parse(Texts) of
        {ok, Revisions} ->
            {ok, #{revisions => (maps:with([build], Values))#{revisions => Revisions}}};
        Error ->
            Error
    end;
revisions(_) ->
    {ok, #{}}.
