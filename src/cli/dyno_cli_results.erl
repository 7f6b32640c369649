%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_results).
-moduledoc """
Default files of recordings, and changes since the last recordings there.

A rebar3 or Mix project uses `_build/dyno/`, other folders `dyno-results/`, with its own
`.gitignore`. The last 20 recordings of each suite or node are kept, and the last 100 of each
benchmark's command line (`{Name, What}`). Each new recording is compared with the last ones under
the same conditions (`m:dyno_compare_history`), back to the last change. The table `since_last` has
the changes, if any.
""".

-export([new_path/1, since_last/2]).
-export_type([name/0]).

-doc "A name, or a common name with the distinguishing data.".
-type name() :: binary() | {binary(), What :: term()}.

-type file() :: #{
    path := file:filename_all(), name := binary(), what := binary(), time := binary()
}.

-define(KEPT, 20).
-define(KEPT_OF_MANY, 100).
-define(TABLE, ~"since_last").
-define(DIGITS, 16#100000000).

-doc "A file for a recording of this name; creates its folder if possible.".
-spec new_path(name()) -> file:filename_all().
new_path({Name, What}) ->
    Number = erlang:phash2(What, ?DIGITS),
    new_path(iolist_to_binary(io_lib:format("~ts-~8.16.0b", [Name, Number])));
new_path(Name) ->
    Folder = folder(),
    _ = prepare(Folder),
    {{Year, Month, Day}, {Hour, Minute, Second}} = calendar:universal_time(),
    Time = io_lib:format("~4..0b~2..0b~2..0bT~2..0b~2..0b~2..0b", [
        Year, Month, Day, Hour, Minute, Second
    ]),
    Base = re:replace(Name, "[^A-Za-z0-9_.-]", "_", [global]),
    iolist_to_binary([Folder, "/", Base, "-", Time, ".json"]).

folder() ->
    case lists:any(fun filelib:is_regular/1, ["rebar.config", "mix.exs"]) of
        true -> "_build/dyno";
        false -> "dyno-results"
    end.

%% If this fails, writing the recording reports the reason.
prepare(Folder) ->
    Ignore = filename:join(Folder, ".gitignore"),
    maybe
        ok ?= filelib:ensure_dir(Ignore),
        false ?= filelib:is_regular(Ignore),
        dyno_file:create(Ignore, ~"*\n")
    end.

-doc "The recording with changes since the last of its kind there; removes old files.".
-spec since_last(file:filename_all(), dyno_recording:document()) -> dyno_recording:document().
since_last(Path, #{~"status" := ~"complete"} = Document) ->
    #{name := Name, what := What, time := Time} = file(Path),
    Others = latest_first(Name, filename:dirname(Path), filename:basename(Path)),
    ok = remove_old(What, Others),
    Paths = [Old || #{what := Of, time := T, path := Old} <- Others, Of =:= What, T =< Time],
    compared(comparable(lists:sublist(Paths, dyno_compare_history:most()), Document), Document);
since_last(_Path, Document) ->
    Document.

remove_old(What, Others) ->
    Kept = maps:get(What, #{~"" => ?KEPT}, ?KEPT_OF_MANY),
    Old = lists:nthtail(min(Kept - 1, length(Others)), Others),
    lists:foreach(fun(#{path := Path}) -> file:delete(Path) end, Old).

latest_first(Name, Folder, Own) ->
    Files = [
        File
     || {ok, Names} <- [file:list_dir(Folder)],
        Text <- Names,
        Base <- [unicode:characters_to_binary(Text)],
        Base =/= Own,
        #{name := Of, what := _} = File <- [file(filename:join(Folder, Base))],
        Of =:= Name
    ],
    lists:sort(fun(#{time := A}, #{time := B}) -> A >= B end, Files).

%% NAME-TIME.json, or NAME-WHAT-TIME.json.
-spec file(file:filename_all()) -> file() | none.
file(Path) ->
    Pattern = ~"^(.+?)(?:-([0-9a-f]{8}))?-([0-9]{8}T[0-9]{6})\\.json$",
    case re:run(filename:basename(Path), Pattern, [{capture, all_but_first, binary}]) of
        {match, [Name, What, Time]} -> #{path => Path, name => Name, what => What, time => Time};
        nomatch -> none
    end.

%% Recordings before the last change do not compare.
comparable([], _Document) ->
    [];
comparable([Path | Paths], Document) ->
    maybe
        {ok, #{~"name" := Name} = Old} ?= dyno_recording_file:read(Path),
        true ?= Name =:= map_get(~"name", Document),
        ok ?= dyno_compare:comparable(Old, Document, all),
        [Old | [O || dyno_recording:rows(Old, ?TABLE) =:= [], O <- comparable(Paths, Document)]]
    else
        _ -> comparable(Paths, Document)
    end.

compared([], Document) ->
    Document;
%% Samples include the effect of other programs.
compared(_Earlier, #{~"command" := ~"bench", ~"parameters" := #{~"mode" := Mode}} = Document) when
    Mode =/= ~"compare"
->
    Document;
compared(Earlier, Document) ->
    case dyno_compare_history:changes(Earlier, Document) of
        [] ->
            Document;
        Changes ->
            dyno_recording:add_tables(Document, [
                (dyno_compare:table(Changes))#{name := ?TABLE, title := title(Earlier)}
            ])
    end.

title([#{~"started_at" := When}]) ->
    <<"Since the last one, of ", When/binary>>;
title([#{~"started_at" := When} | _] = Earlier) ->
    Many = integer_to_binary(length(Earlier)),
    <<"Since the last ", Many/binary, ", up to that of ", When/binary>>.
