%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_lines).
-moduledoc false.
%% A recording as lines, each a JSON object, for what is written bit by bit. Pure.
%%
%%   {"head": the recording without what follows}      once, first
%%   {"run": a run without what follows}               when the run has ended
%%   {"part": "series", "run": "100", "item": ...}     a series, histogram, table, event or profile
%%   {"part": "verdicts", "run": null, "item": ...}    a table over all runs, a verdict or a warning
%%   {"end": what is written by now, and the status}   after each of these appendings
%%
%% A writer needs the first line and the last one to know what is still to be written.

-export([first/1, rest/2, written/1]).
-export([is_name/1, is_first/1, read/1]).

-type object() :: dyno_recording:object().

-doc "What the file has: the runs by their ids, and how many of the other parts.".
-type written() :: #{binary() => [binary()] | non_neg_integer()}.

%% Of a run; of the recording.
-define(PARTS, [~"histograms", ~"series", ~"tables", ~"profiles"]).
-define(LISTS, [~"tables", ~"verdicts", ~"warnings"]).
-define(AT_THE_END, [~"status", ~"duration_ns", ~"error"]).

-doc "The first line.".
-spec first(dyno_recording:document()) -> iolist().
first(Document) ->
    line(~"head", maps:without([~"runs" | ?LISTS] ++ ?AT_THE_END, Document)).

-doc "The lines that follow where some parts are written already: those of the runs that ended.".
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

-doc "What a last line, without its end, says is written; none where it says nothing of that.".
-spec written(binary()) -> {ok, written()} | none.
written(Line) ->
    case dyno_recording_json:decode(Line) of
        {ok, #{~"end" := #{} = Written}} -> {ok, Written};
        _ -> none
    end.

-doc "Whether a file of this name is to be made of lines.".
-spec is_name(file:filename_all()) -> boolean().
is_name(Path) ->
    lists:member(filename:extension(Path), [".jsonl", ~".jsonl"]).

-doc "Whether a text begins like a recording in lines.".
-spec is_first(binary()) -> boolean().
is_first(<<"{\"head\": ", _/binary>>) -> true;
is_first(_) -> false.

-doc "The recording of decoded lines; without a last one it is partial.".
-spec read([object()]) -> object().
read(Lines) ->
    Nothing = #{head => #{}, runs => #{}, parts => #{}, 'end' => #{}},
    #{head := Head, runs := Runs, parts := Parts, 'end' := End} =
        lists:foldl(fun take/2, Nothing, Lines),
    Order = [Id || Listed <- [maps:get(~"runs", End, [])], is_list(Listed), Id <- Listed],
    %% Of a run that was being written when the writer died, what there is.
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
    %% Of a later dyno.
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
