%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_similar).
-moduledoc false.
%% What somebody probably meant by a name that is not known. Names are compared by their Jaro
%% similarity: 0 means nothing in common, 1 the same.

-export([nearest/2, closest/2, closest_are/1, is_slip/2]).

%% Below it, two names are not a slip of the fingers apart: "--sises" and "--sizes" are 0.90 alike,
%% "cowbyo" and "cowboy" 0.94, "load" and "level" 0.63.
-define(SUGGESTED, 0.75).
%% A name that is nobody's mistake may be like another by chance: end_run/1 and init_run/1 are, and
%% init_workers/2 is more like init_worker/2. Whoever warns about a name that works must be surer
%% than whoever explains one that fails.
-define(SLIP, 0.93).
-define(CLOSEST, 3).
%% What other tools, or other commands of dyno, call an option; the first that is there is meant.
-define(OTHER_NAMES, #{
    "vus" => ["workers", "sizes", "concurrency"],
    "users" => ["workers", "sizes", "concurrency"],
    "workers" => ["sizes", "concurrency"],
    "concurrency" => ["sizes"],
    "time" => ["budget_ms", "duration_ms", "duration", "for"],
    "duration" => ["duration_ms", "budget_ms", "time", "for"]
}).

-doc """
The name that is most like the one that somebody wrote, where one is near enough to suggest it.

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

%% Of options of the command line and of those of a function.
by_other_name(Written, Names) ->
    Plain = fun(Name) -> string:trim(unicode:characters_to_list(Name), leading, "-") end,
    [
        Name
     || Meant <- maps:get(Plain(Written), ?OTHER_NAMES, []), Name <- Names, Plain(Name) =:= Meant
    ].

-doc "The few names that are most like the written one, the nearest first.".
-spec closest(unicode:chardata(), [Name]) -> [Name] when Name :: unicode:chardata().
closest(Written, Names) ->
    [Name || {_, Name} <- lists:sublist(ranked(Written, Names), ?CLOSEST)].

ranked(Written, Names) ->
    lists:usort([{-string:jaro_similarity(Written, Name), Name} || Name <- Names]).

-doc "The end of a sentence about a name that is not there: those of `closest/2`.".
-spec closest_are([unicode:chardata()]) -> unicode:chardata().
closest_are([]) -> "";
closest_are(Names) -> ["; the closest are ", lists:join(", ", Names)].

-doc "Whether a name that is in use is so like another that it was probably meant to be that one.".
-spec is_slip(unicode:chardata(), unicode:chardata()) -> boolean().
is_slip(Written, Name) ->
    string:jaro_similarity(Written, Name) > ?SLIP.
