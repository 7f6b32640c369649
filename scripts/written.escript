#!/usr/bin/env escript
%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors
%%
%% Writes the files that follow from modules: doc/recording.schema.json, from dyno_recording_schema;
%% doc/options.md, from the commands' options; and the tasks of Mix, from dyno_commands.
%%
%%   escript scripts/written.escript write|check EBIN
%%
%% `check` writes nothing, and ends with status 1 if a file is not what would be written. EBIN is
%% the folder with dyno's compiled modules.

-mode(compile).

-define(SCHEMA, "doc/recording.schema.json").
-define(OPTIONS, "doc/options.md").

main([Mode, Ebin]) when Mode =:= "write"; Mode =:= "check" ->
    true = code:add_patha(Ebin),
    Files = [
        {?SCHEMA, iolist_to_binary(dyno_recording_json:encode(json_schema()))},
        {?OPTIONS, unicode:characters_to_binary(dyno_cli_reference:markdown())}
        | [task(Name, Help) || {Name, _, Help} <- dyno_commands:all()]
    ],
    lists:foreach(fun({Path, Text}) -> file(Mode, Path, Text) end, Files);
main(_) ->
    io:put_chars(standard_error, "written: write or check, and the folder of modules\n"),
    halt(2).

file("write", Path, Text) ->
    ok = file:write_file(Path, Text);
file("check", Path, Text) ->
    case file:read_file(Path) of
        {ok, Text} ->
            ok;
        _ ->
            io:put_chars(standard_error, [Path, " is not what make format writes\n"]),
            halt(1)
    end.

%% Mix finds a task by the name of its module. In Erlang, so that dyno needs no Elixir to be built.
task(Name, Help) ->
    Module = "Elixir.Mix.Tasks.Dyno." ++ string:titlecase(Name),
    Text = [
        "%% SPDX-License-Identifier: Apache-2.0\n%% Copyright 2026 The dyno authors\n\n"
        "%% Written by make format.\n\n"
        "-module('", Module, "').\n"
        "-moduledoc \"mix dyno.", Name, ": ", Help, ". Its options are those of dyno ", Name,
        "; mix dyno.", Name, " --help lists them, with examples.\".\n"
        "-shortdoc(<<\"dyno: ", Help, "\">>).\n\n"
        "-export([run/1, '__info__'/1]).\n\n"
        "-doc \"Called by Mix.\".\n-spec run([binary()]) -> ok.\n"
        "run(Arguments) -> dyno_mix:run(\"", Name, "\", Arguments).\n\n"
        "-doc false.\n-spec '__info__'(atom()) -> term().\n"
        "'__info__'(Kind) -> dyno_mix:info(?MODULE, Kind).\n"
    ],
    {filename:join("src/plugin/tasks", Module ++ ".erl"), unicode:characters_to_binary(Text)}.

%% JSON Schema 2020-12

json_schema() ->
    #{
        ~"$schema" => ~"https://json-schema.org/draft/2020-12/schema",
        ~"title" => <<"A recording of dyno, version ", (version())/binary>>,
        ~"description" =>
            <<
                "Written from src/recording/dyno_recording_schema.erl. Fields that are not named "
                "here are allowed, and left alone."
            >>,
        ~"$ref" => reference(document),
        ~"$defs" => #{
            atom_to_binary(Object) => object(Object)
         || Object <- dyno_recording_schema:objects()
        }
    }.

version() -> integer_to_binary(dyno_recording_schema:version()).

object(Object) ->
    Fields = dyno_recording_schema:fields(Object),
    #{
        ~"type" => ~"object",
        ~"description" => dyno_recording_schema:meaning(Object),
        ~"required" => [Name || {Name, _, required, _} <- Fields],
        ~"properties" => #{
            Name => maps:merge(
                (schema(Type))#{~"description" => Meaning},
                case Presence of
                    {default, Default} -> #{~"default" => Default};
                    _ -> #{}
                end
            )
         || {Name, Type, Presence, Meaning} <- Fields
        }
    }.

schema(string) -> #{~"type" => ~"string"};
schema(boolean) -> #{~"type" => ~"boolean"};
schema(integer) -> #{~"type" => ~"integer"};
schema(natural) -> #{~"type" => ~"integer", ~"minimum" => 0};
schema(positive) -> #{~"type" => ~"integer", ~"minimum" => 1};
schema(number) -> #{~"type" => ~"number"};
schema(json) -> #{};
schema(any_object) -> #{~"type" => ~"object"};
schema(unit) -> schema({open, dyno_unit:units()});
schema(row) -> #{~"type" => ~"array"};
schema(labels) ->
    #{
        ~"type" => ~"object",
        ~"additionalProperties" => #{~"type" => [~"string", ~"number"]}
    };
schema(bucket) ->
    #{
        ~"type" => ~"array",
        ~"prefixItems" => [schema(number), schema(number), schema(natural)],
        ~"items" => false,
        ~"minItems" => 3
    };
schema({list, Type}) -> #{~"type" => ~"array", ~"items" => schema(Type)};
schema({one_of, Values}) -> #{~"enum" => Values};
schema({open, Known}) -> #{~"type" => ~"string", ~"examples" => Known};
schema({either, One, Other}) -> #{~"anyOf" => [schema(One), schema(Other)]};
schema({nullable, Type}) ->
    case schema(Type) of
        #{~"type" := Name} = Schema -> Schema#{~"type" := [Name, ~"null"]};
        #{~"enum" := Values} = Schema -> Schema#{~"enum" := Values ++ [null]};
        Schema -> #{~"anyOf" => [Schema, #{~"type" => ~"null"}]}
    end;
schema(Object) -> #{~"$ref" => reference(Object)}.

reference(Object) -> <<"#/$defs/", (atom_to_binary(Object))/binary>>.
