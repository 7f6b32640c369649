%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_test_choice).
-moduledoc """
A hook of Common Test that leaves out what a run does not ask for, by the variable `DYNO_TESTS`:

* `quick`: what `make test` runs, without the slow cases;
* `older`: of those, with an older release, what rests on the runtime system itself: the suites of
  the folders below, and what other suites name with `each_release() -> [Case] | all`;
* `slow`: only the slow cases;
* anything else, or not set: all, as when one suite is run by hand and in `make check`.

A suite names its slow cases with `slow() -> [Case | {group, Group}] | all`: those that are no more
than belt and braces, or need minutes. Of these, `only_in_check() -> [Case]` are left out of `slow`,
too: the programs of bench/ measure for minutes. In the folders below, `newest_release_only() ->
[Case] | all` names what says nothing of the release.

Each suite has a private folder of its own, where Common Test has one for all suites of a run. With
the variable `DYNO_TESTS_ALONE` set, the cases of a group run one after the other.
""".

-export([id/1, init/2, post_groups/2, post_all/3, cases/1]).
-export([pre_init_per_suite/3, pre_end_per_suite/3, pre_init_per_group/4, pre_end_per_group/4]).
-export([pre_init_per_testcase/4]).

%% Tracing, processes, nodes, code and files. The rest of dyno stands on these.
-define(EACH_RELEASE, ["agent", "node", "system"]).

id(_Options) ->
    ?MODULE.

init(_Id, _Options) ->
    {ok, none}.

post_groups(Suite, Groups) ->
    Slow = named(Suite, slow),
    [
        {Name, alone(Properties), chosen(Suite, lists:member({group, Name}, Slow), Cases)}
     || {Name, Properties, Cases} <- Groups
    ].

alone(Properties) ->
    case os:getenv("DYNO_TESTS_ALONE", "") of
        "" -> Properties;
        _ -> Properties -- [parallel]
    end.

chosen(_Suite, true, Cases) ->
    case lists:member(os:getenv("DYNO_TESTS"), ["quick", "older"]) of
        true -> [];
        false -> Cases
    end;
chosen(Suite, false, Cases) ->
    chosen(Suite, Cases).

%% Each run has at least one case, or Common Test would call the suite broken.
post_all(Suite, Cases, Groups) when is_list(Cases) ->
    Empty = [Name || {Name, _, []} <- Groups],
    [Case || Case <- chosen(Suite, Cases), not lists:member(group_name(Case), Empty)];
post_all(_Suite, Other, _Groups) ->
    Other.

pre_init_per_suite(Suite, Config, State) -> {private(Suite, Config), State}.

pre_end_per_suite(Suite, Config, State) -> {private(Suite, Config), State}.

pre_init_per_group(Suite, _Group, Config, State) -> {private(Suite, Config), State}.

pre_end_per_group(Suite, _Group, Config, State) -> {private(Suite, Config), State}.

pre_init_per_testcase(Suite, _Case, Config, State) -> {private(Suite, Config), State}.

%% Common Test sets its own before each of these.
private(Suite, Config) ->
    case lists:keytake(priv_dir, 1, Config) of
        {value, {priv_dir, Folder}, Rest} ->
            Own = filename:join(Folder, Suite) ++ "/",
            ok = filelib:ensure_path(Own),
            [{priv_dir, Own} | Rest];
        false ->
            Config
    end.

-doc "How many cases of a suite a run has, and how many there are.".
-spec cases(module()) -> {Chosen :: non_neg_integer(), All :: pos_integer()}.
cases(Suite) ->
    {module, Suite} = code:ensure_loaded(Suite),
    Groups = named(Suite, groups),
    Chosen = post_groups(Suite, Groups),
    {count(post_all(Suite, Suite:all(), Chosen), Chosen), count(Suite:all(), Groups)}.

count(Cases, Groups) ->
    Grouped = lists:append([Of || {_, _, Of} <- Groups]),
    length([Case || Case <- Cases ++ Grouped, group_name(Case) =:= none]).

group_name({group, Name}) -> Name;
group_name({group, Name, _}) -> Name;
group_name({group, Name, _, _}) -> Name;
group_name(_) -> none.

chosen(Suite, Cases) ->
    case os:getenv("DYNO_TESTS") of
        "quick" -> without(named(Suite, slow), Cases);
        "older" -> older(Suite, without(named(Suite, slow), Cases));
        "slow" -> without(named(Suite, only_in_check), only(named(Suite, slow), Cases));
        _ -> Cases
    end.

older(Suite, Cases) ->
    case lists:member(folder(Suite), ?EACH_RELEASE) of
        true -> without(named(Suite, newest_release_only), Cases);
        false -> only(named(Suite, each_release), Cases)
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

%% That in test/ in which it lies, at whatever depth.
folder(Suite) ->
    Source = proplists:get_value(source, Suite:module_info(compile)),
    [Folder | _] = lists:reverse(
        lists:takewhile(fun(Name) -> Name =/= "test" end, lists:reverse(filename:split(Source)))
    ),
    Folder.
