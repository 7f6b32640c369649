%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_similar).
-moduledoc false.
%% Finds the meaning of an unknown name, by Jaro similarity: from 0, nothing in common, to 1.

-export([nearest/2, meant/1, closest/2, closest_are/1, is_slip/2]).

%% The least similarity of a typing error: "--sises" and "--sizes" have 0.90, "cowbyo" and "cowboy"
%% 0.94,
%% "load" and "level" 0.63.
-define(SUGGESTED, 0.75).
%% A correct name may be similar by chance: end_run/1 and init_run/1 are, and init_workers/2 is more
%% like init_worker/2. So a warning about a working name needs more similarity.
-define(SLIP, 0.93).
-define(CLOSEST, 3).
%% Names of options in other tools or other commands of dyno; the first existing one is meant.
-define(OTHER_NAMES, #{
    "vus" => ["workers", "sizes", "concurrency"],
    "users" => ["workers", "sizes", "concurrency"],
    "workers" => ["sizes", "concurrency"],
    "concurrency" => ["sizes"],
    "time" => ["budget_ms", "duration_ms", "duration", "for"],
    "duration" => ["duration_ms", "budget_ms", "time", "for"]
}).

-doc """
The name most like the written one, if similar enough.

```erlang
1> dyno_similar:nearest("--sises", ["--sizes", "--level"]).
{ok,"--sizes"}
```
""".
-spec nearest(unicode:chardata(), [Name]) -> {ok, Name} | none when Name :: unicode:chardata().
nearest(Written, Names) ->
    case {by_other_name(Written, Names), ranked(Written, Names)} of
        {[Name | _], _} -> {ok, Name};
        {[], [{Distance, Name} | _]} when Distance =< -?SUGGESTED -> {ok, Name};
        _ -> none
    end.

%% For options of the command line and of functions.
by_other_name(Written, Names) ->
    Plain = fun(Name) -> string:trim(unicode:characters_to_list(Name), leading, "-") end,
    [
        Name
     || Meant <- maps:get(Plain(Written), ?OTHER_NAMES, []), Name <- Names, Plain(Name) =:= Meant
    ].

-doc "The end of a sentence about an unknown name: the result of `nearest/2`.".
-spec meant({ok, unicode:chardata()} | none) -> unicode:chardata().
meant({ok, Name}) -> ["; did you mean ", Name, "?"];
meant(none) -> "".

-doc "The few most similar names, nearest first.".
-spec closest(unicode:chardata(), [Name]) -> [Name] when Name :: unicode:chardata().
closest(Written, Names) ->
    [Name || {_, Name} <- lists:sublist(ranked(Written, Names), ?CLOSEST)].

ranked(Written, Names) ->
    lists:usort([{-likeness(Written, Name), Name} || Name <- Names]).

%% By p99 users mean latency.p99, the shortest name that ends so.
likeness(Written, Name) ->
    case string:find(Name, [$., Written], trailing) of
        nomatch ->
            string:jaro_similarity(Written, Name);
        Found ->
            case string:equal(Found, [$., Written]) of
                true -> 1 + 1 / string:length(Name);
                false -> string:jaro_similarity(Written, Name)
            end
    end.

-doc "The end of a sentence about an unknown name: those of `closest/2`.".
-spec closest_are([unicode:chardata()]) -> unicode:chardata().
closest_are([]) -> "";
closest_are(Names) -> ["; the closest are ", lists:join(", ", Names)].

-doc "Whether a used name is so similar to another that it is probably an error.".
-spec is_slip(unicode:chardata(), unicode:chardata()) -> boolean().
is_slip(Written, Name) ->
    string:jaro_similarity(Written, Name) > ?SLIP.
