%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_schema_SUITE).
-moduledoc false.
%% The files that modules write are up to date, and a validator that is not ours agrees with
%% dyno_recording_check.

-compile([export_all, nowarn_export_all]).

-include_lib("stdlib/include/assert.hrl").

suite() -> [{timetrap, {minutes, 1}}].

all() -> [documents_are_up_to_date, each_field_is_described, another_validator_agrees].

documents_are_up_to_date(_) ->
    Escript = filename:join([code:root_dir(), "bin", "escript"]),
    Arguments = [
        "scripts/written.escript",
        "check",
        filename:dirname(
            code:which(dyno_recording_schema)
        )
    ],
    ?assertEqual({0, ~""}, run(Escript, Arguments)).

each_field_is_described(_) ->
    Objects = dyno_recording_schema:objects(),
    [
        begin
            ?assertEqual({Object, Name, $.}, {Object, Name, binary:last(Meaning)}),
            %% A default is of the field's type.
            case Presence of
                {default, Default} ->
                    {ok, _} = dyno_recording_check:check(Object, valid(Object, Name, Default));
                _ ->
                    ok
            end
        end
     || Object <- Objects, {Name, _, Presence, Meaning} <- dyno_recording_schema:fields(Object)
    ],
    ?assertEqual(Objects, lists:uniq(Objects)),
    %% Each type of a field is known: an object with fields, or a type of the check.
    Types = [T || Object <- Objects, {_, T, _, _} <- dyno_recording_schema:fields(Object)],
    [?assertEqual({T, true}, {T, is_known(T)}) || T <- Types],
    {ok, Text} = file:read_file(filename:join(dyno_project:root(), "doc/recording.schema.json")),
    #{~"$defs" := #{~"unit" := #{~"examples" := Units}}} = json:decode(Text),
    ?assertEqual(dyno_unit:units(), Units).

is_known({List, Type}) when List =:= list; List =:= nullable -> is_known(Type);
is_known({Texts, [_ | _]}) when Texts =:= one_of; Texts =:= open -> true;
is_known({either, One, Other}) ->
    is_known(One) andalso is_known(Other);
is_known(Type) ->
    dyno_recording_schema:fields(Type) =/= [] orelse
        lists:member(Type, [
            string,
            boolean,
            integer,
            natural,
            positive,
            number,
            json,
            any_object,
            labels,
            bucket,
            row,
            unit
        ]).

%% An object with what must be there, and one field more.
valid(Object, Name, Value) ->
    Required =
        #{
            Field => example(Field, Type)
         || {Field, Type, required, _} <- dyno_recording_schema:fields(Object)
        },
    Required#{Name => Value}.

example(_, {one_of, [First | _]}) -> First;
example(_, {list, _}) -> [];
example(_, boolean) -> true;
example(_, Type) when Type =:= natural; Type =:= number -> 1;
example(_, {nullable, _}) -> null;
example(Name, _) -> Name.

%% Of recordings that the generator makes, of one that was measured, and of what is wrong.
another_validator_agrees(Config) ->
    case run(os:find_executable("python3"), ["-c", "import jsonschema"]) of
        {0, _} -> agrees(Config);
        _ -> {skip, "no Python with jsonschema"}
    end.

agrees(Config) ->
    {ok, Measured} = dyno_bench:run(["lists:seq(1, 9)."], #{budget_ms => 200}),
    {ok, Generated} = proper_gen:pick(proper_types:vector(100, dyno_recording_gen:document())),
    Right = [Measured | Generated],
    Wrong = [
        maps:remove(~"name", Measured),
        Measured#{~"version" := 1},
        Measured#{~"status" := ~"done"},
        Measured#{~"runs" := [#{~"id" => ~"1"}]},
        Measured#{~"verdicts" := [#{~"kind" => ~"k"}]}
    ],
    [?assertMatch({ok, _}, dyno_recording:validate(Document)) || Document <- Right],
    [?assertMatch({error, _}, dyno_recording:validate(Document)) || Document <- Wrong],
    Path = filename:join(proplists:get_value(priv_dir, Config), "recordings.jsonl"),
    ok = file:write_file(Path, [[json:encode(Document), $\n] || Document <- Right ++ Wrong]),
    Program =
        "import json, sys, jsonschema\n"
        "schema = json.load(open(sys.argv[1], encoding='utf-8'))\n"
        "jsonschema.Draft202012Validator.check_schema(schema)\n"
        "validator = jsonschema.Draft202012Validator(schema)\n"
        "for line in open(sys.argv[2], encoding='utf-8', newline='\\n'):\n"
        "    print('right' if validator.is_valid(json.loads(line)) else 'wrong')\n",
    {0, Said} = run(os:find_executable("python3"), [
        "-c", Program, "doc/recording.schema.json", Path
    ]),
    ?assertEqual(
        [~"right" || _ <- Right] ++ [~"wrong" || _ <- Wrong],
        binary:split(Said, ~"\n", [global, trim_all])
    ).

run(false, _) ->
    {127, ~""};
run(Program, Arguments) ->
    Port = open_port({spawn_executable, Program}, [
        {args, Arguments}, {cd, dyno_project:root()}, binary, exit_status, stderr_to_stdout
    ]),
    dyno_command:output(Port).
