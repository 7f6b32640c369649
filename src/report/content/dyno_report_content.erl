%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_content).
-moduledoc """
The content of a report as sections in reading order, for the console and Markdown.

Tables, metrics, series, distributions, events, profiles and verdicts of any command are shown
without code of their own, except a test's load and a benchmark's codes.
""".

-export([sections/2, answer/2, environment/1]).

-export_type([weight/0]).

-import(dyno_report_document, [get/2, get/3, name/2, text/3]).

-type section() :: dyno_report_section:section().

-type weight() :: summary | details.

-doc "All sections before the verdicts.".
-spec sections(dyno_report:document(), dyno_report:options()) -> [{weight(), section()}].
sections(Document, Options) ->
    Tables = fun(Part) -> dyno_report_content_tables:sections(Document, Part, Options) end,
    [
        {Weight, Section}
     || {Weight, Sections} <- [
            {summary, dyno_report_content_load:load(Document)},
            {details, Tables(load)},
            {details, dyno_report_content_load:failures(Document)},
            {details, dyno_report_content_load:machines(Document)},
            {summary, dyno_report_content_bench:codes(Document)},
            {summary, Tables(concurrency)},
            {summary, dyno_report_content_bench:concurrency(Document)},
            {details, Tables(other)},
            {details, dyno_report_content_parts:sections(Document, Options)},
            {details, dyno_report_content_load:costs(Document)},
            {summary, Tables(changes)}
        ],
        Section <- Sections
    ].

-doc """
The sections below the problems: changes, the load with what failed, functions and servers with most
time; of nodes without a load also how busy they were, and calls in which processes wait.
""".
-spec answer(dyno_report:document(), dyno_report:options()) -> [section()].
answer(Document, Options) ->
    Tables = fun(Names) -> dyno_report_content_tables:named(Names, Document, Options) end,
    Functions = Tables([~"functions"]),
    Load = dyno_report_content_load:load(Document),
    Tables([~"since_last"]) ++
        case Load of
            [] -> dyno_report_content_load:machines(Document);
            _ -> Load ++ failed(Tables)
        end ++
        case Functions of
            [] -> dyno_report_content_parts:profiles(Document, Options);
            _ -> Functions
        end ++ Tables([~"servers" | [~"waiting" || Load =:= []]]).

failed(Tables) ->
    case Tables([~"errors"]) of
        [] -> [];
        Errors -> Tables([~"operations"]) ++ Errors
    end.

-doc "Place and time; of nodes, their release, beside dyno's own with its version.".
-spec environment(dyno_report:document()) -> [binary()].
environment(Document) ->
    Environment = get(~"environment", Document, #{}),
    Version = prefixed(~"dyno ", text(~"dyno_version", Environment, ~"")),
    {First, Last} =
        case targets(Document) of
            [] ->
                Schedulers = counted(get(~"schedulers_online", Environment), ~"scheduler"),
                {[release(Environment), Schedulers], Version};
            Targets ->
                {Targets, <<Version/binary, (prefixed(~" on ", release(Environment)))/binary>>}
        end,
    Facts =
        First ++
            [
                iolist_to_binary(
                    lists:join(" ", [text(Key, Environment, ~"") || Key <- [~"os", ~"kernel"]])
                ),
                processor(Environment),
                prefixed(~"host ", text(~"hostname", Environment, ~"")),
                date(text(~"started_at", Document, ~"")),
                revision(get(~"git", Environment)),
                Last
            ],
    [Fact || Fact <- Facts, string:trim(Fact) =/= ~""].

targets(Document) ->
    Nodes = maps:from_list([
        {name(~"name", Node), {release(Node), get(~"schedulers_online", Node)}}
     || Run <- dyno_recording:runs(Document),
        #{~"otp" := Otp} = Node <- get(~"nodes", Run, []),
        is_binary(Otp)
    ]),
    Alike = maps:groups_from_list(
        fun({_, Of}) -> Of end, fun({Name, _}) -> Name end, maps:to_list(Nodes)
    ),
    [
        iolist_to_binary([
            case Names of
                [Name] -> Name;
                _ -> [integer_to_binary(length(Names)), " nodes"]
            end,
            " on ",
            lists:join(" with ", [Of || Of <- [Release, counted(Count, ~"scheduler")], Of =/= ~""])
        ])
     || {Release, Count} := Names <- maps:iterator(Alike, ordered)
    ].

release(Environment) ->
    Jit = maps:get(get(~"jit", Environment), #{true => ~" (JIT)", false => ~" (no JIT)"}, ~""),
    case text(~"otp", Environment, ~"") of
        ~"" -> ~"";
        Otp -> <<"OTP ", Otp/binary, Jit/binary>>
    end.

processor(Environment) ->
    Cores = counted(get(~"cores", Environment), ~"core"),
    case text(~"cpu_model", Environment, ~"") of
        ~"" -> Cores;
        Model when Cores =:= ~"" -> Model;
        Model -> <<Model/binary, " (", Cores/binary, ")">>
    end.

%% 2026-01-02T03:04:05.678Z reads better as 2026-01-02 03:04:05 UTC.
date(<<Day:10/binary, "T", Time:8/binary, _/binary>>) -> <<Day/binary, " ", Time/binary, " UTC">>;
date(Other) -> Other.

revision(Git) when is_map(Git) ->
    Short = string:slice(text(~"revision", Git, ~""), 0, 10),
    Changes = iolist_to_binary([" with changes" || get(~"dirty", Git) =:= true]),
    <<"git ", Short/binary, Changes/binary>>;
revision(_) ->
    ~"".

counted(1, Noun) -> <<"1 ", Noun/binary>>;
counted(N, Noun) when is_integer(N) -> <<(integer_to_binary(N))/binary, " ", Noun/binary, "s">>;
counted(_, _Noun) -> ~"".

prefixed(_Prefix, ~"") -> ~"";
prefixed(Prefix, Text) -> <<Prefix/binary, Text/binary>>.
