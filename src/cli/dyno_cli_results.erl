%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_results).
-moduledoc """
Where recordings go that nobody has named a file for, and what changed since the last one there.

In a project of rebar3 or Mix that is `_build/dyno/`, elsewhere `dyno-results/`, with a `.gitignore`
of its own. Of each suite or node the last 20 recordings are kept. Each new one is compared with the
last that was made under the same conditions; what is judged to differ is in its table `since_last`,
and where nothing does there is no such table.
""".

-export([new_path/1, since_last/2]).

-define(KEPT, 20).
%% So many are looked through for one that can be compared.
-define(LOOKED_AT, 5).

-doc "A file for a recording of this name; its folder is there.".
-spec new_path(binary()) -> file:filename_all().
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

%% Where that fails, the one who writes the recording says why.
prepare(Folder) ->
    Ignore = filename:join(Folder, ".gitignore"),
    maybe
        ok ?= filelib:ensure_dir(Ignore),
        false ?= filelib:is_regular(Ignore),
        file:write_file(Ignore, "*\n")
    end.

-doc """
The recording with what changed since the last one of its kind, in the folder of its own file; older
files than the last few are removed there.
""".
-spec since_last(file:filename_all(), dyno_recording:document()) -> dyno_recording:document().
since_last(Path, #{~"status" := ~"complete"} = Document) ->
    [New | Earlier] = lists:reverse(lists:sort([Path | of_the_same(Path) -- [Path]])),
    Last = [Old || New =:= Path, Old <- lists:sublist(Earlier, ?LOOKED_AT)],
    lists:foreach(fun file:delete/1, lists:nthtail(min(?KEPT - 1, length(Earlier)), Earlier)),
    case comparable(Last, Document) of
        {ok, Old} -> compared(Old, Document);
        none -> Document
    end;
since_last(_Path, Document) ->
    Document.

%% NAME-TIME.json; the time is 15 characters.
of_the_same(Path) ->
    File = filename:basename(Path),
    Prefix = binary:part(File, 0, byte_size(File) - byte_size(~"20260102T030405.json")),
    case file:list_dir(filename:dirname(Path)) of
        {ok, Names} ->
            [
                filename:join(filename:dirname(Path), Name)
             || Text <- Names,
                Name <- [unicode:characters_to_binary(Text)],
                byte_size(Name) =:= byte_size(File),
                binary:longest_common_prefix([Name, Prefix]) =:= byte_size(Prefix),
                re:run(Name, ~"[0-9]{8}T[0-9]{6}\\.json$", [{capture, none}]) =:= match
            ];
        {error, _} ->
            []
    end.

comparable([], _Document) ->
    none;
comparable([Path | Paths], Document) ->
    maybe
        {ok, #{~"name" := Name} = Old} ?= dyno_recording_file:read(Path),
        true ?= Name =:= map_get(~"name", Document),
        ok ?= dyno_compare:comparable(Old, Document),
        {ok, Old}
    else
        _ -> comparable(Paths, Document)
    end.

compared(#{~"started_at" := When} = Old, Document) ->
    Judged = [slower, faster, more, less],
    Changes = [
        Change
     || #{verdict := Verdict} = Change <- dyno_compare:changes({Old, Document}, #{}),
        lists:member(Verdict, Judged)
    ],
    case Changes of
        [] ->
            Document;
        _ ->
            Title = <<"Since the last one, of ", When/binary>>,
            dyno_recording:add_tables(Document, [
                (dyno_compare:table(Changes))#{name := ~"since_last", title := Title}
            ])
    end.
