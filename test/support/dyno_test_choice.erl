%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_choice).
-moduledoc """
A hook of Common Test that leaves out what a run does not ask for, by the variable `DYNO_TESTS`:

* `quick`: what `make test` runs, without the slow cases;
* `older`: the same with an older release, without what does not depend on the release;
* `slow`: only the slow cases;
* anything else, or not set: all, as when one suite is run by hand.

A suite names its slow cases with `slow() -> [Case] | all`: those that are no more than belt and
braces, or need minutes. With `newest_release_only() -> [Case] | all` it names those that say
nothing of the release, besides all suites of the folders below.
""".

-export([id/1, init/2, post_groups/2, post_all/3]).

%% What they test is arithmetic and text.
-define(ANY_RELEASE, ["recording", "report", "stats"]).

id(_Options) ->
    ?MODULE.

init(_Id, _Options) ->
    {ok, none}.

post_groups(Suite, Groups) ->
    [
        {Name, Properties, chosen(Suite, Cases)}
     || {Name, Properties, Cases} <- Groups
    ].

%% Each run has at least one case, or Common Test would call the suite broken.
post_all(Suite, Cases, Groups) when is_list(Cases) ->
    Empty = [Name || {Name, _, []} <- Groups],
    [Case || Case <- chosen(Suite, Cases), not lists:member(group_name(Case), Empty)];
post_all(_Suite, Other, _Groups) ->
    Other.

group_name({group, Name}) -> Name;
group_name({group, Name, _}) -> Name;
group_name({group, Name, _, _}) -> Name;
group_name(_) -> none.

chosen(Suite, Cases) ->
    case os:getenv("DYNO_TESTS") of
        "quick" -> without(named(Suite, slow), Cases);
        "older" -> older(Suite, without(named(Suite, slow), Cases));
        "slow" -> only(named(Suite, slow), Cases);
        _ -> Cases
    end.

older(Suite, Cases) ->
    case lists:member(folder(Suite), ?ANY_RELEASE) of
        true -> [];
        false -> without(named(Suite, newest_release_only), Cases)
    end.

without(all, _Cases) -> [];
without(Named, Cases) -> [Case || Case <- Cases, not lists:member(name(Case), Named)].

%% Groups stay: their cases are chosen in post_groups/2.
only(all, Cases) -> Cases;
only(Named, Cases) -> [C || C <- Cases, is_tuple(C) orelse lists:member(C, Named)].

name({testcase, Case, _}) -> Case;
name(Case) -> Case.

named(Suite, Function) ->
    case erlang:function_exported(Suite, Function, 0) of
        true -> Suite:Function();
        false -> []
    end.

folder(Suite) ->
    Source = proplists:get_value(source, Suite:module_info(compile)),
    filename:basename(filename:dirname(Source)).
