%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_census).
-moduledoc false.
%% Finds the processes that run or are ready at an instant.
%%
%% Asking a process costs 0.1 us. Listing all costs 0.6 ms and more, even if few exist, since the
%% runtime goes through its whole table. So the list is renewed every few hundred milliseconds; in
%% between, newer processes are found by their numbers, which are consecutive. (After a million
%% processes numbers are reused in the order in which they became free; then some of the youngest
%% are missed until the next list.)
%%
%% Of many processes a part is asked at each instant, in turn, and each found one counts for the
%% unasked ones too. Always asked are processes found running before, and those with reductions
%% (dyno_agent_stack_seeds). Of very many processes the list holds a part, another one each time:
%% collecting a longer list would stop its scheduler for more than 1 ms.

-export([new/1, instant/1, listed/1, list_cost/1, seeded/2, count/1, some/2]).
-export_type([t/0, found/0]).

-opaque t() :: #{
    %% All or a part at the last list; the number of all; the place in the list of the next turn.
    all := tuple(),
    count := non_neg_integer(),
    asked := non_neg_integer(),
    %% Found running while not all are asked; the idle instants since.
    active := #{pid() => non_neg_integer()},
    %% The next process's number at the last list, and now.
    listed := non_neg_integer(),
    now := non_neg_integer(),
    %% When the next list is due; the cost of a list at the last instant (native).
    list_every := pos_integer(),
    next_list := integer(),
    cost := non_neg_integer(),
    %% The last processes of dyno that told a number: ended, unless others take the processors.
    own := [pid()]
}.

-doc "A process, and the number of processes it counts for.".
-type found() :: {pid(), Weight :: number()}.

-define(FEW, 1000).
-define(PART, 400).
-define(MOST, 50_000).
-define(MOST_ACTIVE, 500).
-define(FORGET_AFTER, 100).
%% Of processes started since: the youngest, and some of the others.
-define(YOUNGEST, 48).
-define(YOUNG, 24).
-define(OWN, 20).
-define(NUMBER_BITS, 28).

-doc "Lists all processes if that last took less than a part, `ListEvery`, of the time since.".
-spec new(ListEvery :: pos_integer()) -> t().
new(ListEvery) ->
    #{
        list_every => ListEvery,
        all => {},
        count => 0,
        asked => 0,
        active => #{},
        listed => 0,
        now => 0,
        next_list => erlang:monotonic_time(),
        cost => 0,
        own => []
    }.

-doc "The running or ready processes without the calling one.".
-spec instant(t()) -> {[found()], t()}.
instant(Census) ->
    Listed = listed(Census),
    Young = young(Listed),
    {Known, Next} = known(Listed, [Pid || {Pid, _} <- Young]),
    {Young ++ Known, Next}.

-doc "Like `instant/1`, but does not ask which processes run.".
-spec listed(t()) -> t().
listed(#{next_list := NextList, list_every := ListEvery, own := Before} = Census) ->
    {Newest, Now} = dyno_agent_process:newest(),
    Own = lists:sublist([Newest | Before], ?OWN),
    Start = erlang:monotonic_time(),
    case Start < NextList of
        true ->
            Census#{now := Now, cost := 0, own := Own};
        false ->
            All = list_to_tuple(dyno_agent_process_list:some(?MOST) -- [self() | Own]),
            End = erlang:monotonic_time(),
            Census#{
                all := All,
                count := max(tuple_size(All), erlang:system_info(process_count) - 2),
                asked := rand:uniform(tuple_size(All)) - 1,
                listed := Now,
                now := Now,
                next_list := End + ListEvery * (End - Start),
                cost := End - Start,
                own := Own
            }
    end.

pid(Number) ->
    Low = integer_to_list(Number band (1 bsl ?NUMBER_BITS - 1)),
    list_to_pid("<0." ++ Low ++ [$. | integer_to_list(Number bsr ?NUMBER_BITS)] ++ ">").

known(#{all := All, count := Count} = Census, _Young) when Count =< ?FEW ->
    {[{Pid, 1} || Pid <- tuple_to_list(All), is_ready(Pid)], Census#{active := #{}}};
known(#{all := All, count := Count, asked := Last, active := Active} = Census, Young) ->
    {Asked, Passive} = part(Last, All, ?PART, 0, [], Active),
    Weight = max(1, Count - map_size(Active)) / max(1, Passive),
    Again = maps:filtermap(fun still_active/2, Active),
    Still = [{Pid, 1} || Pid := 0 <- Again],
    Next = limited(Young ++ Asked, Again),
    {Still ++ [{Pid, Weight} || Pid <- Asked], Census#{
        asked := (Last + ?PART) rem tuple_size(All), active := Next
    }}.

limited(Pids, Active) ->
    maps:merge(
        maps:from_keys(lists:sublist(Pids, max(0, ?MOST_ACTIVE - map_size(Active))), 1), Active
    ).

still_active(Pid, Since) ->
    case is_ready(Pid) of
        true -> {true, 0};
        false when Since < ?FORGET_AFTER -> {true, Since + 1};
        false -> false
    end.

part(_Last, _All, 0, Passive, Found, _Active) ->
    {Found, Passive};
part(Last, All, Most, Passive, Found, Active) when Last >= tuple_size(All) ->
    part(0, All, Most, Passive, Found, Active);
part(Last, All, Most, Passive, Found, Active) ->
    Pid = element(Last + 1, All),
    case is_map_key(Pid, Active) of
        true ->
            part(Last + 1, All, Most - 1, Passive, Found, Active);
        false ->
            More = [Pid || is_ready(Pid)],
            part(Last + 1, All, Most - 1, Passive + 1, More ++ Found, Active)
    end.

%% Reused numbers may be lower.
young(#{listed := Listed, now := Now, active := Active, own := Own}) ->
    From =
        case Now > Listed of
            true -> Listed + 1;
            false -> max(0, Now - ?YOUNGEST)
        end,
    Oldest = max(From, Now - ?YOUNGEST),
    Older = Oldest - From,
    Ready =
        ready(lists:seq(Oldest, Now - 1), 1) ++
            case Older =< ?YOUNG of
                true ->
                    ready(lists:seq(From, Oldest - 1), 1);
                false ->
                    Some = [From + rand:uniform(Older) - 1 || _ <- lists:seq(1, ?YOUNG)],
                    ready(Some, Older / ?YOUNG)
            end,
    [
        Found
     || {Pid, _} = Found <- Ready, not is_map_key(Pid, Active), not lists:member(Pid, Own)
    ].

ready(Numbers, Weight) ->
    [{Pid, Weight} || Number <- Numbers, Pid <- [pid(Number)], is_ready(Pid)].

is_ready(Pid) ->
    case process_info(Pid, status) of
        {status, running} -> true;
        {status, runnable} -> true;
        {status, garbage_collecting} -> true;
        _ -> false
    end.

-doc "The time for a list of all processes at the last instant (native).".
-spec list_cost(t()) -> non_neg_integer().
list_cost(#{cost := Cost}) -> Cost.

-spec seeded([pid()], t()) -> t().
seeded(Pids, #{active := Active} = Census) -> Census#{active := limited(Pids, Active)}.

-spec count(t()) -> non_neg_integer().
count(#{count := Count}) -> Count.

-spec some(pos_integer(), t()) -> [pid()].
some(Most, #{all := All, count := Count}) when Count =< Most -> tuple_to_list(All);
some(Most, #{all := All}) ->
    lists:uniq([element(rand:uniform(tuple_size(All)), All) || _ <- lists:seq(1, Most)]).
