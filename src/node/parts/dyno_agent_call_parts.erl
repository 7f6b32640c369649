%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_parts).
-moduledoc false.
%% Counted calls in a recording: tables and warnings. Pure, for the caller's side only.

-export([config/1, result/1, tables/0, metrics/0, warnings/2]).

-type result() :: dyno_agent_call_times:result().

%% A warning if times of more than this share of the run are missing.
-define(MISSING, 0.05).
%% A warning if functions' times are off by more than this share of the total.
-define(UNCERTAIN, 0.1).
%% Times above this multiple of the processor time are mostly waiting.
-define(WAITED, 1.25).
%% Smaller excesses are within the error.
-define(OVER_BUDGET, 1.5).
-define(MODULES, 3).

-spec config(dyno_agent_instrument:options()) -> dyno_agent_calls:config() | off.
config(#{patterns := []}) ->
    off;
config(#{level := off}) ->
    off;
config(#{level := budget, patterns := Patterns} = Options) ->
    Stacks = #{stacks => Pid || #{dyno_agent_stacks := Pid} <- [Options]},
    (with_processes(Options, Stacks))#{
        patterns => Patterns,
        budget => maps:get(budget, Options, dyno_agent_call_budget:default()),
        may_time => maps:get(own_node, Options, false)
    };
config(#{patterns := Patterns, level := Level} = Options) ->
    with_processes(Options, #{
        patterns => Patterns,
        measures => measures(Level),
        select => maps:get(processes, Options, [])
    }).

with_processes(#{dyno_agent_processes := Processes}, Config) -> Config#{processes => Processes};
with_processes(_Options, Config) -> Config.

measures(discovery) -> [];
measures(count) -> [call_count];
measures(time) -> [call_time];
measures(memory) -> [call_memory];
measures(all) -> [call_time, call_memory].

-spec result(dyno_agent_calls:reading()) -> result().
result(Reading) -> dyno_agent_call_times:result(Reading).

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
            title => ~"Callers and callees",
            items => fun callers/1,
            columns => [
                {~"function", ~"Function", string, key, fun({MFA, _, _, _}) ->
                    dyno_agent_name:mfa(MFA)
                end},
                {~"processes", ~"Processes", string, key, fun({_, Group, _, _}) ->
                    element(1, dyno_agent_kind:print(Group))
                end},
                {~"calls", ~"Calls", count, 3},
                {~"own_time", ~"Own time", ns, lower, 4}
            ]
        }
    ].

%% At the level of processes no function is measured.
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
    ByMFA = maps:groups_from_list(fun(#{mfa := MFA}) -> MFA end, fun between/1, Functions),
    Add = fun(F, Sum) -> maps:merge_with(fun add/3, Sum, F) end,
    [lists:foldl(Add, First, Others) || _ := [First | Others] <- ByMFA].

between(#{counted := exact, calls := Calls} = F) -> F#{calls_low => Calls, calls_high => Calls};
between(F) -> F.

add(mfa, MFA, _) -> MFA;
add(counted, A, A) -> A;
add(counted, A, B) when A =:= no; B =:= no -> no;
add(counted, A, B) when A =:= at_least; B =:= at_least -> at_least;
add(counted, _, _) -> estimated;
add(time_from, A, A) -> A;
add(time_from, _, _) -> both;
add(_, A, B) -> A + B.

heaviest_first(Functions) ->
    Bounded = [bounded(F) || F <- lists:sort(fun(A, B) -> weight(A) >= weight(B) end, Functions)],
    Sums =
        #{
            Key => lists:sum([maps:get(Key, F, 0) || F <- Bounded])
         || Key <- [own_time_ns, own_time_low_ns, own_time_high_ns, own_samples]
        },
    [F#{sums => Sums#{functions => length(Bounded)}} || F <- Bounded].

weight(F) -> {maps:get(own_time_ns, F, 0), maps:get(words, F, 0), maps:get(calls, F, 0)}.

%% The bounds of the own time. Time that is mostly the instrument's may all be the function's.
bounded(#{own_time_low_ns := _} = F) ->
    F;
bounded(#{own_time_ns := Ns, raw_time_ns := RawNs, uncertain_ns := OffNs} = F) ->
    case is_told(F) of
        true -> F#{own_time_low_ns => max(0, Ns - OffNs), own_time_high_ns => Ns + OffNs};
        false -> F#{own_time_low_ns => 0, own_time_high_ns => RawNs + OffNs}
    end;
bounded(F) ->
    F.

is_told(#{own_time_ns := Ns, raw_time_ns := RawNs}) -> RawNs - Ns =< Ns;
is_told(_) -> true.

function_columns() ->
    Name = fun(#{mfa := MFA}) -> dyno_agent_name:mfa(MFA) end,
    [
        {~"function", ~"Function", string, Name},
        {~"calls", ~"Calls", count, fun calls/1}
    ] ++ [optional(C) || C <- call_columns() ++ time_columns() ++ word_columns()].

%% Columns that exist only at levels that measure their values.
optional({Name, Title, Kind, Properties, Cell}) ->
    {Name, Title, Kind, [optional, Properties], Cell}.

calls(#{counted := no}) -> undefined;
calls(#{calls := Calls}) -> Calls.

estimate(Bound, #{counted := estimated} = F) -> maps:get(Bound, F, undefined);
estimate(_Bound, _F) -> undefined.

call_columns() ->
    Estimated =
        <<
            "estimated: by its calls while it was counted; to count all of them would cost more "
            "than the budget. at least: its module was loaded again."
        >>,
    [
        bound(~"calls", ~"Calls", count, low, fun(F) -> estimate(calls_low, F) end),
        bound(~"calls", ~"Calls", count, high, fun(F) -> estimate(calls_high, F) end),
        {~"counted", ~"Counted", string, Estimated, fun
            (#{counted := no}) -> ~"not counted";
            (#{counted := at_least}) -> ~"at least";
            (#{counted := Counted}) -> Counted;
            (_) -> undefined
        end}
    ].

bound(Of, Title, Kind, Role, Cell) ->
    Words = #{low => ~"from", high => ~"to"},
    {
        <<Of/binary, "_", (atom_to_binary(Role))/binary>>,
        <<Title/binary, ", ", (map_get(Role, Words))/binary>>,
        Kind,
        {Role, Of},
        Cell
    }.

time_columns() ->
    Own =
        <<
            "Without the measured functions it called, and without the cost of measuring. Calls "
            "of functions that are not measured are in it."
        >>,
    Total = ~"With all functions that it called, from samples.",
    Share = ~"Of the own time of all measured functions.",
    Raw = ~"As the runtime has it: the own time with the cost of measuring.",
    From =
        <<
            "samples: the stacks of running processes at random instants. calls: each call was "
            "timed."
        >>,
    Note =
        <<
            "Below what can be told: measuring added more to the function's time than is left of "
            "it."
        >>,
    Ns = fun(Ns, _) -> Ns end,
    PerCall = {number, ~"ns/call"},
    lists:append([
        of_time({~"own_time", ~"Own time", ns, [lower, Own]}, own_time_ns, Ns),
        of_time({~"total_time", ~"Total time", ns, [lower, Total]}, total_time_ns, Ns),
        of_time({~"time_per_call", ~"Time per call", PerCall, lower}, own_time_ns, fun per_call/2),
        of_time({~"share", ~"Share", ratio, Share}, own_time_ns, fun share/2),
        [
            {~"raw_time", ~"Raw time", ns, Raw, raw_time_ns},
            {~"time_from", ~"Time from", string, From, time_from},
            {~"note", ~"Note", string, Note, fun(F) -> note(is_told(F)) end}
        ]
    ]).

%% A value computed from the own time, with its bounds.
of_time({Name, Title, Kind, Properties}, Key, Made) ->
    {Least, Most} = bounds(Key),
    Cell = fun(Bound) ->
        fun(F) ->
            case F of
                #{Bound := Ns} -> Made(Ns, F#{bound => Bound});
                _ -> undefined
            end
        end
    end,
    [
        {Name, Title, Kind, Properties, Cell(Key)},
        bound(Name, Title, Kind, low, Cell(Least)),
        bound(Name, Title, Kind, high, Cell(Most))
    ].

bounds(own_time_ns) -> {own_time_low_ns, own_time_high_ns};
bounds(total_time_ns) -> {total_time_low_ns, total_time_high_ns}.

%% The least time belongs to the most calls. If there may have been no calls, it is unknown.
per_call(_Ns, #{counted := estimated, calls_low := 0}) ->
    undefined;
per_call(Ns, #{bound := Bound} = F) ->
    Of = #{own_time_low_ns => calls_high, own_time_high_ns => calls_low},
    case {calls(F), maps:get(maps:get(Bound, Of, calls), F, calls(F))} of
        {undefined, _} -> undefined;
        {_, Calls} when Calls > 0 -> Ns / Calls;
        {_, _} -> undefined
    end.

%% Of samples; a single function has all of its time for certain.
share(
    _Ns, #{bound := Bound, own_samples := N, sums := #{own_samples := All, functions := Many}}
) when
    Bound =/= own_time_ns, All > 0, Many > 1
->
    {Low, High} = dyno_stats_interval:share(N / All, All),
    case Bound of
        own_time_low_ns -> Low;
        own_time_high_ns -> High
    end;
%% The others' times are off, too: the least share belongs to their most.
share(Ns, #{sums := Sums, bound := Bound} = F) ->
    Opposite = #{own_time_low_ns => own_time_high_ns, own_time_high_ns => own_time_low_ns},
    Key =
        case F of
            #{time_from := samples} -> own_time_ns;
            #{} -> maps:get(Bound, Opposite, Bound)
        end,
    case map_get(Key, Sums) - map_get(Key, F) + Ns of
        0 -> 0.0;
        AllNs -> Ns / AllNs
    end.

note(true) -> undefined;
note(false) -> ~"below what can be told".

word_columns() ->
    [
        {~"words", ~"Words", {integer, ~"words"}, lower, words},
        {~"words_per_call", ~"Words per call", {number, ~"words/call"}, lower, fun
            (#{words := Words, calls := Calls}) -> Words / max(1, Calls);
            (_) -> undefined
        end}
    ].

-spec metrics() -> [dyno_agent_instrument:metric()].
metrics() ->
    [
        #{
            name => Name,
            title => Title,
            unit => Unit,
            group => ~"instrument",
            value => fun(Results) ->
                case lists:flatmap(Values, Results) of
                    [] -> none;
                    Found -> {lists:max(Found), length(Found)}
                end
            end
        }
     || {Name, Title, Unit, Values} <- [
            {
                ~"instrument.overhead",
                ~"Time that measuring adds to one call, taken out",
                ~"ns/call",
                fun(Result) -> [Ns || #{least_overhead_ns := Ns} <- [Result], is_float(Ns)] end
            },
            {
                ~"instrument.spent",
                ~"Share of the processor time that measuring functions took, as reckoned",
                ~"ratio",
                fun(Result) -> [Spent || #{budget := #{spent := Spent}} <- [Result]] end
            },
            {~"instrument.timed", ~"Share of the run in which calls were timed", ~"ratio", fun
                (#{timed := Timed, measured_functions := N}) when N > 0 -> [Timed];
                (_) -> []
            end}
        ]
    ].

-define(BY_SAMPLES, ~"See shares of the time by samples instead (--level budget, --kind sample).").

-spec warnings(Role :: binary(), result()) -> [dyno_agent_instrument:warning()].
warnings(Role, #{functions := Functions} = Result) ->
    lists:append([
        not_called(Role, Result),
        counts(Role, Result),
        unset(Role, Result),
        times(Role, Functions),
        waited(Role, Result)
        | [
            Of(Role, Functions, Budget)
         || #{budget := Budget} <- [Result],
            Of <- [fun spent/3, fun left_out/3]
        ]
    ]).

%% Otherwise a report without functions would look like an answer.
not_called(Role, #{functions := Functions, measured_functions := N}) ->
    [
        {
            ~"nothing_called",
            "none of the ~b functions that the patterns mean was called in ~ts",
            [N, Role],
            ~"Name those that the load reaches (--pattern)."
        }
     || Functions =:= [], N > 0
    ].

counts(Role, #{reloaded := Reloaded, off_by := OffBy}) ->
    [
        {
            ~"reloaded",
            "~ts of ~ts was loaded again during the run: calls before that are missing. Do not "
            "load it once more before the processes that ran it have ended: to trace them then can "
            "crash the emulator (doc/architecture.md, Traps of the runtime)",
            [modules(Reloaded), Role]
        }
     || Reloaded =/= []
    ] ++
        [
            {
                ~"times_missing",
                "times in ~ts leave out ~ts of the run: so many processes start there that the "
                "times had to be read while the load went on",
                [Role, {OffBy, ~"ratio"}]
            }
         || OffBy > ?MISSING
        ].

unset(Role, Result) ->
    [
        {
            ~"unset",
            "~ts modules of ~ts are not measured: breakpoints took longer than 3 s, as if native "
            "code or other programs keep its schedulers",
            [{N, ~"count"}, Role],
            ~"Name fewer functions (--pattern)."
        }
     || #{unset := N} <- [Result], N > 0
    ].

modules([Module]) ->
    dyno_agent_name:module(Module);
modules(Modules) ->
    Names = [dyno_agent_name:module(M) || M <- lists:sublist(lists:sort(Modules), ?MODULES)],
    Others = [[" and ", integer_to_list(N), " more"] || N <- [length(Modules) - ?MODULES], N > 0],
    ["each of ", lists:join(", ", Names), Others].

%% If each call is timed.
times(Role, Functions) ->
    Timed = [F || #{raw_time_ns := _} = F <- Functions],
    {Told, Below} = lists:partition(fun is_told/1, Timed),
    Sum = fun(Key, Of) -> lists:sum([map_get(Key, F) || F <- Of]) end,
    {OffNs, OwnNs} = {Sum(uncertain_ns, Told), Sum(own_time_ns, Told)},
    [
        {
            ~"instrument_times",
            "the own time of ~ts in ~ts is below what can be told: measuring each call added more "
            "to it than is left",
            [named(heaviest_first(Below)), Role],
            ?BY_SAMPLES
        }
     || Sum(raw_time_ns, Below) > ?UNCERTAIN * Sum(raw_time_ns, Timed)
    ] ++
        [
            {
                ~"cut_times",
                "~ts of ~ts may be off by ~ts of ~ts: each process's time in a function is cut to "
                "whole microseconds, and the cost of measuring a call is known to some "
                "nanoseconds",
                [others(Below), Role, {OffNs, ~"ns"}, {OwnNs, ~"ns"}],
                ?BY_SAMPLES
            }
         || OffNs > ?UNCERTAIN * OwnNs
        ].

%% The runtime times calls by the clock.
waited(Role, #{functions := Functions, processor_ns := ProcessorNs}) ->
    Ns = lists:sum([OwnNs || #{own_time_ns := OwnNs, raw_time_ns := _} <- Functions]),
    [
        {
            ~"waited_times",
            "own times in ~ts add up to ~ts, and it had ~ts of the processors: the rest is the "
            "time in which other programs had them, and lies in the functions that they "
            "interrupted or that woke them up, such as one that sends to a socket",
            [Role, {Ns, ~"ns"}, {ProcessorNs, ~"ns"}],
            ~"Measure on a quiet machine, or with --level budget, which takes it out."
        }
     || Ns > ?WAITED * ProcessorNs
    ];
waited(_Role, _Result) ->
    [].

others([]) -> "own times";
others(_Below) -> "other own times".

named([#{mfa := MFA} | Others]) ->
    Name = dyno_agent_name:mfa(MFA),
    case length(Others) of
        0 -> Name;
        1 -> [Name, " and of another function"];
        N -> [Name, " and of ", integer_to_list(N), " other functions"]
    end.

%% Otherwise their callers would seem to do the work.
left_out(Role, Functions, #{left_out := LeftOut}) ->
    Told = [MFA || #{mfa := MFA, own_time_ns := _} <- Functions],
    [
        {
            ~"left_out",
            "the time of ~ts in ~ts is in that of the callers: timing what is called so often, for "
            "so short, would mostly time dyno",
            [named([#{mfa => MFA} || MFA <- Hidden]), Role]
        }
     || [_ | _] = Hidden <- [LeftOut -- Told], [] =/= [F || #{time_from := calls} = F <- Functions]
    ].

spent(Role, _Functions, #{share := Share, spent := Spent}) ->
    [
        {
            ~"over_budget",
            "measuring functions took some ~ts of the processor time of ~ts; the budget was ~ts",
            [{Spent, ~"ratio"}, Role, {Share, ~"ratio"}],
            ~"Measure fewer functions (--pattern)."
        }
     || Spent > ?OVER_BUDGET * Share
    ].
