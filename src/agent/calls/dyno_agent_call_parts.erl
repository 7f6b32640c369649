%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_parts).
-moduledoc false.
%% Counted calls in the recording: the tables of functions and of their callers, and warnings where
%% the numbers are uncertain. Pure, and needed on the caller's side only.

-export([tables/0, metrics/0, warnings/2]).

-type result() :: dyno_agent_calls:result().

%% Counts that may be off by more than this share cause a warning.
-define(INEXACT, 0.002).

-spec tables() -> [dyno_agent_instrument:table()].
tables() ->
    [
        #{
            name => ~"functions",
            title => ~"Functions",
            columns => function_columns(),
            items => fun functions/1,
            total => fun total/1
        },
        #{
            name => ~"callers",
            title => ~"Who calls what",
            items => fun callers/1,
            columns => [
                {~"function", ~"Function", string, #{role => key}, fun({MFA, _, _, _}) ->
                    dyno_agent_kind:mfa(MFA)
                end},
                {~"processes", ~"Processes", string, #{role => key}, fun({_, Group, _, _}) ->
                    element(1, dyno_agent_kind:print(Group))
                end},
                {~"calls", ~"Calls", count, fun({_, _, Calls, _}) -> Calls end},
                {~"own_time", ~"Own time", ns, #{better => lower}, fun({_, _, _, Ns}) -> Ns end}
            ]
        }
    ].

%% No function is measured where the level says processes only.
functions(#{measured_functions := 0}) -> none;
functions(#{functions := Functions}) -> heaviest_first(Functions).

callers(#{callers := []}) -> none;
callers(#{callers := Callers}) -> Callers.

total(Results) ->
    case [Functions || #{functions := [_ | _] = Functions} <- Results] of
        [_, _ | _] = Several -> heaviest_first(summed(lists:append(Several)));
        _ -> none
    end.

summed(Functions) ->
    Add = fun
        (mfa, MFA, _) -> MFA;
        (_, A, B) -> A + B
    end,
    maps:values(
        lists:foldl(
            fun(#{mfa := MFA} = F, Acc) ->
                maps:update_with(MFA, fun(Sum) -> maps:merge_with(Add, Sum, F) end, F, Acc)
            end,
            #{},
            Functions
        )
    ).

heaviest_first(Functions) ->
    TotalNs = lists:sum([maps:get(own_time_ns, F, 0) || F <- Functions]),
    [
        F#{total_ns => TotalNs}
     || F <- lists:sort(fun(A, B) -> weight(A) >= weight(B) end, Functions)
    ].

weight(#{calls := Calls} = F) -> {maps:get(own_time_ns, F, 0), maps:get(words, F, 0), Calls}.

function_columns() ->
    Name = fun(#{mfa := MFA}) -> dyno_agent_kind:mfa(MFA) end,
    [
        {~"function", ~"Function", string, Name},
        {~"calls", ~"Calls", count, fun(#{calls := Calls}) -> Calls end}
    ] ++ [measured(own_time_ns, C) || C <- time_columns()] ++
        [measured(words, C) || C <- word_columns()].

%% A column is there only where the level asks for what it is made of.
measured(Key, {Name, Title, Kind, Properties, Cell}) ->
    {Name, Title, Kind, Properties#{optional => true}, fun
        (Function) when is_map_key(Key, Function) -> Cell(Function);
        (_) -> undefined
    end}.

time_columns() ->
    [
        {~"own_time", ~"Own time", ns,
            #{
                help =>
                    <<"Without the measured functions it called, and without what measuring it "
                        "cost.">>,
                better => lower
            },
            fun(#{own_time_ns := Ns}) -> Ns end},
        {~"own_time_uncertainty", <<"Own time, ±"/utf8>>, ns,
            #{
                help =>
                    <<
                        "The runtime cuts each process's time in a function to whole microseconds, "
                        "and what measuring cost is uncertain by some nanoseconds for each call of "
                        "it, and for each measured call that it made."
                    >>,
                role => note
            },
            fun(#{uncertain_ns := Ns}) -> Ns end},
        {~"time_per_call", ~"Time per call", {number, ~"ns/call"}, #{better => lower}, fun
            (#{own_time_ns := Ns, calls := Calls}) -> Ns / max(1, Calls)
        end},
        {~"share", ~"Share", ratio, #{help => ~"Of the own time of all measured functions."}, fun
            (#{own_time_ns := Ns, total_ns := TotalNs}) -> Ns / max(1, TotalNs)
        end},
        {~"raw_time", ~"Raw time", ns,
            #{help => ~"As the runtime has it: the own time, and what measuring added to it."},
            fun(#{raw_time_ns := Ns}) -> Ns end}
    ].

word_columns() ->
    [
        {~"words", ~"Words", {integer, ~"words"}, #{better => lower}, fun(#{words := N}) -> N end},
        {~"words_per_call", ~"Words per call", {number, ~"words/call"}, #{better => lower}, fun
            (#{words := Words, calls := Calls}) -> Words / max(1, Calls)
        end}
    ].

-spec metrics() -> [dyno_agent_instrument:metric()].
metrics() ->
    [
        #{
            name => ~"instrument.overhead",
            title => ~"What measuring adds to the time of one call, and is taken out",
            unit => ~"ns/call",
            group => ~"instrument",
            value => fun(Results) ->
                case [Ns || #{least_overhead_ns := Ns} <- Results, is_float(Ns)] of
                    [] -> none;
                    Overheads -> {lists:max(Overheads), length(Overheads)}
                end
            end
        }
    ].

-spec warnings(Role :: binary(), result()) -> [dyno_agent_instrument:warning()].
warnings(Role, #{lost := Lost, reloaded := Reloaded, functions := Functions, off_by := OffBy}) ->
    Sum = fun(Key) -> lists:sum([maps:get(Key, F, 0) || F <- Functions]) end,
    {UncertainNs, OwnNs} = {Sum(uncertain_ns), Sum(own_time_ns)},
    [
        {~"lost_counts",
            "~ts of ~ts was loaded anew before its counters could be read; some of its calls are missing",
            [Module, Role]}
     || Module <- Lost
    ] ++
        [
            {~"reloaded",
                "~ts of ~ts was loaded again during the run; its calls within the milliseconds "
                "around it may be missing or count twice; do not load it once more before the "
                "processes that ran it have ended: to trace them then can crash the emulator "
                "(doc/architecture.md, Traps of the runtime)",
                [Module, Role]}
         || Module <- Reloaded
        ] ++
        [
            {~"cut_times",
                "own times of ~ts may be off by ~ts of ~ts: the runtime cuts each process's time "
                "in a function to whole microseconds, and these processes are short-lived",
                [Role, {UncertainNs, ~"ns"}, {OwnNs, ~"ns"}]}
         || UncertainNs * 10 > OwnNs
        ] ++
        [
            {~"inexact_counts",
                "calls in ~ts may be off by ~ts: so many processes start there that their counters "
                "had to be read while the load went on",
                [Role, {OffBy, ~"ratio"}]}
         || OffBy > ?INEXACT
        ].
