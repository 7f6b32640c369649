%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_lines).
-moduledoc false.
%% A recording as lines, each a JSON object, to write step by step. Pure.
%%
%%   {"head": the recording without the parts below}   once, first
%%   {"run": a run without its parts}                  when the run has ended
%%   {"part": "series", "run": "100", "item": ...}     a series, histogram, table, event or profile
%%   {"part": "verdicts", "run": null, "item": ...}    a table over all runs, a verdict or a warning
%%   {"end": the parts written so far, and the status} after each append
%%
%% The first and last line tell a writer what remains to be written.

-export([first/1, rest/2, written/1]).
-export([is_name/1, is_first/1, read/1]).

-type object() :: dyno_recording:object().

-type written() :: #{binary() => [binary()] | non_neg_integer()}.

-define(PARTS, [~"histograms", ~"series", ~"tables", ~"profiles"]).
-define(LISTS, [~"tables", ~"verdicts", ~"warnings"]).
-define(AT_THE_END, [~"status", ~"duration_ns", ~"error"]).

-spec first(dyno_recording:document()) -> iolist().
first(Document) ->
    line(~"head", maps:without([~"runs" | ?LISTS] ++ ?AT_THE_END, Document)).

-doc "The lines for new parts of ended runs.".
-spec rest(dyno_recording:document(), written()) -> iolist().
rest(#{~"runs" := Runs} = Document, Written) ->
    Ended = [Run || #{~"status" := Status} = Run <- Runs, Status =/= ~"partial"],
    Ids = [Id || #{~"id" := Id} <- Ended],
    Before = maps:get(~"runs", Written, []),
    Counts = #{Key => length(Items) || Key := Items <- maps:with(?LISTS, Document)},
    case maps:merge(maps:with(?AT_THE_END, Document), Counts#{~"runs" => Ids}) of
        Written ->
            [];
        End ->
            [
                [run(Run) || #{~"id" := Id} = Run <- Ended, not lists:member(Id, Before)],
                [
                    parts(Key, null, lists:nthtail(maps:get(Key, Written, 0), Items))
                 || Key := Items <- maps:with(?LISTS, Document)
                ],
                line(~"end", End)
            ]
    end.

run(#{~"id" := Id, ~"events" := #{~"items" := Events} = Of} = Run) ->
    [
        line(~"run", (maps:without(?PARTS, Run))#{~"events" := Of#{~"items" := []}}),
        [parts(Key, Id, map_get(Key, Run)) || Key <- ?PARTS],
        parts(~"events", Id, Events)
    ].

parts(Key, Run, Items) ->
    Start = ["{\"part\": \"", Key, "\", \"run\": ", dyno_text:json(Run), ", \"item\": "],
    [[Start, dyno_text:json(Item), "}\n"] || Item <- Items].

line(Key, Value) ->
    ["{\"", Key, "\": ", dyno_text:json(Value), "}\n"].

-spec written(binary()) -> {ok, written()} | none.
written(Line) ->
    case dyno_recording_json:decode(Line) of
        {ok, #{~"end" := #{} = Written}} -> {ok, Written};
        _ -> none
    end.

-spec is_name(file:filename_all()) -> boolean().
is_name(Path) ->
    lists:member(filename:extension(Path), [".jsonl", ~".jsonl"]).

-spec is_first(binary()) -> boolean().
is_first(<<"{\"head\": ", _/binary>>) -> true;
is_first(_) -> false.

-spec read([object()]) -> object().
read(Lines) ->
    Nothing = #{head => #{}, runs => #{}, parts => #{}, 'end' => #{}},
    #{head := Head, runs := Runs, parts := Parts, 'end' := End} =
        lists:foldl(fun take/2, Nothing, Lines),
    Order = [Id || Listed <- [maps:get(~"runs", End, [])], is_list(Listed), Id <- Listed],
    %% If the writer died within a run, its existing parts.
    Ids = Order ++ (lists:sort(maps:keys(Runs)) -- Order),
    maps:merge(
        maps:merge(Head, in_order(?LISTS, null, Parts)),
        (maps:merge(#{~"status" => ~"partial"}, maps:with(?AT_THE_END, End)))#{
            ~"runs" => [whole(map_get(Id, Runs), Parts) || Id <- Ids, is_map_key(Id, Runs)]
        }
    ).

take(#{~"head" := #{} = Head}, Read) ->
    Read#{head := Head};
take(#{~"run" := #{~"id" := Id} = Run}, #{runs := Runs} = Read) ->
    Read#{runs := Runs#{Id => Run}};
take(#{~"part" := Key, ~"run" := Id, ~"item" := Item}, #{parts := Parts} = Read) ->
    Of = maps:get(Id, Parts, #{}),
    Read#{parts := Parts#{Id => Of#{Key => [Item | maps:get(Key, Of, [])]}}};
take(#{~"end" := #{} = End}, Read) ->
    Read#{'end' := End};
take(_, Read) ->
    %% From a later dyno.
    Read.

in_order(Keys, Id, Parts) ->
    Of = maps:get(Id, Parts, #{}),
    #{Key => lists:reverse(maps:get(Key, Of, [])) || Key <- Keys}.

whole(#{~"id" := Id} = Run, Parts) ->
    #{~"events" := Items} = Of = in_order([~"events" | ?PARTS], Id, Parts),
    Events =
        case Run of
            #{~"events" := #{} = Known} -> Known;
            #{} -> #{}
        end,
    maps:merge(Run, Of#{~"events" := Events#{~"items" => Items}}).
