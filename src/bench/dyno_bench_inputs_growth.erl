%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_inputs_growth).
-moduledoc false.
%% How the time and the words of each code grow with the size of its input. Pure.

-export([tables/2]).

-doc "The table `growth` for groups of runs and their sizes; none where there are no groups.".
-spec tables([{Group :: binary(), [{Run :: binary(), Size :: pos_integer()}]}],
    dyno_recording:document()) -> [#{atom() => term()}].
tables(Groups, Document) ->
    case lists:append([rows(Group, Runs, Document) || {Group, Runs} <- Groups]) of
        [] -> [];
        Rows -> [table(Rows)]
    end.

rows(Group, Runs, Document) ->
    Codes = [{Size, codes(Id, Document)} || {Id, Size} <- Runs],
    [{_, First} | _] = Codes,
    lists:append([
        fitted(Kind, title(Group, Name), Unit, [
            {Size, map_get(Column, Row)}
         || {Size, Rows} <- Codes, #{~"code" := N} = Row <- Rows, N =:= Name
        ])
     || {Kind, Column, Unit} <- [
            {~"code", ~"time_per_call", ~"ns/call"}, {~"words", ~"words_per_call", ~"words/call"}
        ],
        #{~"code" := Name} <- First
    ]).

title(~"", Name) -> Name;
title(Group, Name) -> <<Group/binary, ": ", Name/binary>>.

codes(Id, Document) ->
    {ok, Run} = dyno_recording:run(Document, Id),
    dyno_recording:rows(Run, ~"codes").

%% A code that allocates nothing has no growth of it.
fitted(Kind, Name, Unit, Points) ->
    dyno_recording_growth:fit(Kind, Name, Unit, [P || {_, Value} = P <- Points, is_number(Value)]).

table(Growths) ->
    Spec = #{
        name => ~"growth",
        title => ~"Growth with the size of the input",
        derived => true,
        columns => dyno_recording_growth:columns()
    },
    dyno_recording_table:make(Spec, Growths).
