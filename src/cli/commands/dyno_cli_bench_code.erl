%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench_code).
-moduledoc false.
%% The codes of `dyno bench` with their set-up, or a file of benchmarks.

-export([options/0, input/0, read/1, inputs/1, format_error/1]).
-export_type([measured/0, reason/0]).

-type measured() :: {codes, [dyno_bench_code:code()]} | {file, binary()}.

-type reason() ::
    {not_with_a_file, Option :: string()}
    | {file_and_codes, File :: binary()}
    | {no_file, binary()}
    | {too_often, atom(), pos_integer(), Codes :: pos_integer()}
    | {too_few_labels, pos_integer(), Codes :: pos_integer()}.

%% The part of a code that an option sets: the n-th use for the n-th code, or for all.
-define(PARTS, [init, init_runner, done, label]).
-define(PARTS_OF_ALL, #{init => init_all, init_runner => init_runner_all, done => done_all}).

-spec options() -> [dyno_cli_option:row()].
options() ->
    [
        {"--init CODE",
            "runs once before; its value goes to init_runner and done. The n-th --init, "
            "--init_runner, --done or --label belongs to the n-th code", {many, text}},
        {"--init_runner CODE", "runs once in each process; its value is the code's argument",
            {many, text}},
        {"--done CODE", "runs once after the last measurement", {many, text}},
        {"--label NAME", "the name of the code in the report", {many, text}}
    ].

-spec input() -> dyno_cli_option:row().
input() ->
    {"--input NAME=CODE", "an input for functions of arity 1; repeat to compare inputs",
        {many, {custom, fun input/1, "NAME=CODE, such as n=100"}}}.

input(Text) ->
    case binary:split(Text, ~"=") of
        [Name, Code] when Name =/= <<>>, Code =/= <<>> -> {ok, {string:trim(Name), Code}};
        _ -> error
    end.

-spec inputs(dyno_cli_command:values()) -> [dyno_bench_inputs:input()].
inputs(Values) ->
    Language = language(Values),
    [{Name, callable(input, Code, Language)} || {Name, Code} <- maps:get(input, Values, [])].

-doc "Reads codes. A text that ends like a file's name is none: it would be a call of erl/0.".
-spec read(dyno_cli_command:values()) -> dyno_error:result(measured()).
read(#{code := Texts} = Values) ->
    Options = [input | ?PARTS] ++ maps:values(?PARTS_OF_ALL),
    case {[T || T <- Texts, is_benchmarks(T)], Texts} of
        {[], _} ->
            codes(Texts, Values);
        {[File], [File]} ->
            case [Name || Name <- Options, is_map_key(Name, Values)] of
                [] -> {ok, {file, File}};
                [Name | _] -> wrong({not_with_a_file, atom_to_list(Name)})
            end;
        {[File | _], _} ->
            wrong({file_and_codes, File})
    end.

is_benchmarks(Text) ->
    lists:member(filename:extension(Text), [~".erl", ~".exs", ~".ex"]).

wrong(Reason) ->
    {error, {?MODULE, Reason}}.

codes(Texts, Values) ->
    Count = length(Texts),
    Parts = [{Name, maps:get(Name, Values, [])} || Name <- ?PARTS],
    {label, Labels} = lists:keyfind(label, 1, Parts),
    case [{Name, length(Of)} || {Name, Of} <- Parts, length(Of) > Count] of
        [{Name, N} | _] ->
            wrong({too_often, Name, N, Count});
        [] when Labels =/= [], length(Labels) < Count ->
            wrong({too_few_labels, length(Labels), Count});
        [] ->
            Read = fun({N, Text}) -> recorded(code(Text, N, Parts, Values)) end,
            maybe
                {ok, Codes} ?= dyno_error:each(Read, lists:enumerate(Texts)),
                {ok, {codes, Codes}}
            end
    end.

recorded(#{runner := Text} = Code) when is_binary(Text) ->
    case {not is_source(Text) andalso filelib:is_regular(Text), is_file_name(Text)} of
        {true, _} ->
            maybe
                {ok, Calls} ?= dyno_bench_calls:read(Text),
                Label = #{label => unicode:characters_to_binary(filename:basename(Text))},
                {ok, maps:merge(Label, Code#{runner := Calls})}
            end;
        {false, true} ->
            wrong({no_file, Text});
        {false, false} ->
            {ok, Code}
    end;
recorded(Code) ->
    {ok, Code}.

%% No Erlang code looks like it.
is_file_name(Text) ->
    Pattern = ~"^([\\w./~+-]*\\w\\.[a-z]\\w*|(/|\\./|\\.\\./|~/)[\\w./+-]+)$",
    re:run(string:trim(Text), Pattern, [unicode, {capture, none}]) =:= match.

is_source(Text) ->
    case string:trim(Text) of
        <<>> -> true;
        Trimmed -> binary:last(Trimmed) =:= $.
    end.

code(Text, N, Parts, Values) ->
    Language = language(Values),
    OfAll =
        #{
            Name => callable(Name, map_get(Key, Values), Language)
         || Name := Key <- ?PARTS_OF_ALL, is_map_key(Key, Values)
        },
    Own =
        #{
            Name => callable(Name, lists:nth(N, Texts), Language)
         || {Name, Texts} <- Parts, length(Texts) >= N
        },
    maps:merge(OfAll, Own#{runner => callable(runner, Text, Language)}).

language(Values) -> maps:get(language, Values, erlang).

%% {Module, Function, Arguments} and lists of those are terms; everything else is source.
callable(label, Text, _Language) ->
    Text;
callable(runner, Text, elixir) ->
    case filelib:is_regular(Text) of
        true -> Text;
        false -> {elixir, Text}
    end;
callable(_Name, Text, elixir) ->
    {elixir, Text};
callable(input, Text, erlang) ->
    %% A value: no input is called.
    Text;
callable(Name, Text, erlang) ->
    Trimmed = string:trim(Text),
    case Trimmed of
        <<First, _/binary>> when First =:= ${; First =:= $[ -> calls(Name, Text, term(Trimmed));
        _ -> Text
    end.

%% If only a call makes sense, a tuple that is no call is an error.
calls(_Name, _Text, {ok, {M, F, A} = Call}) when is_atom(M), is_atom(F), is_list(A) ->
    Call;
calls(_Name, Text, {ok, [_ | _] = Terms}) ->
    case lists:all(fun(Term) -> is_tuple(Term) andalso tuple_size(Term) =:= 3 end, Terms) of
        true -> Terms;
        false -> Text
    end;
calls(runner, _Text, {ok, Tuple}) when is_tuple(Tuple) ->
    Tuple;
calls(_Name, Text, _) ->
    Text.

%% With a full stop it is an expression.
term(Text) ->
    maybe
        {ok, Tokens, _} ?= erl_scan:string(unicode:characters_to_list(Text)),
        false ?= lists:keymember(dot, 1, Tokens),
        {ok, Term} ?= erl_parse:parse_term(Tokens ++ [{dot, 1}]),
        {ok, Term}
    else
        _ -> none
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({not_with_a_file, Option}) ->
    ["--", Option, " can't be given with a file, which has its own"];
format_error({file_and_codes, File}) ->
    ["a file of benchmarks is measured alone; give ", File, " without other codes"];
format_error({no_file, Text}) ->
    io_lib:format(
        "there is no file \"~ts\"; give one of recorded calls, or Erlang source",
        [dyno_text:clean(Text)]
    );
format_error({too_often, Part, N, Codes}) ->
    Are = maps:get(Codes, #{1 => "is only 1 code"}, io_lib:format("are only ~b codes", [Codes])),
    dyno_recording_part:text("--~ts is given ~b times, but there ~ts", [Part, N, Are]);
format_error({too_few_labels, N, Codes}) ->
    Format = "--label is given ~b times for ~b codes; name all of them, or none",
    dyno_recording_part:text(Format, [N, Codes]).
