%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_discovery).
-moduledoc false.
%% Handles first calls of processes: identifies the process or presumes its group, counts it, and
%% adds a row to dyno_agent_process_table; monitors some for their lifetimes. A function that
%% discovers too many is throttled (dyno_agent_throttle).
%%
%% Runs in dyno_agent_processes, the session's owner, which gets all messages, also for `due/2`.

-export([new/2, first_call/4, ended/4, read/1, table/1]).
-export([begin_scan/1, samples/2, end_scan/1, settle/1, restart/1]).
-export([limit/2, loaded/2, leave_out/2, behind/2, due/2]).
-export_type([t/0, due/0]).

-type id() :: dyno_agent_process_table:id().

-opaque t() :: #{
    table := dyno_agent_process_table:t(),
    first_calls := dyno_agent_first_calls:t(),
    groups := dyno_agent_groups:t(),
    discovered := non_neg_integer(),
    %% The newest process at the beginning, and the known ones that are not newer.
    newest := non_neg_integer(),
    there := non_neg_integer(),
    throttle := dyno_agent_throttle:t(),
    lifetimes := dyno_agent_lifetimes:sample(),
    unsampled := [{pid(), id()}],
    %% Discovered so early that they may have got a name since.
    unnamed := [{pid(), id()}],
    %% Discovered since the table last forgot ended processes.
    unread := non_neg_integer(),
    %% Ended since then, and before: until then readers of calls look up their groups.
    ended := [pid()],
    ended_before := [pid()],
    %% Whether throttled functions send messages; `closing`: the last window's may still come.
    window := open | closing | closed,
    opened := integer(),
    timer := reference() | none,
    discovers := yes | in_part | gave_up
}.

-type due() :: open_window | close_window | closed.

%% After this number of discoveries all are sampled, and the table forgets processes ended before.
-define(FORGET_AFTER, 10_000).
%% If so many messages wait, discovery stops: the queue would soon take all memory.
-define(MOST_WAITING, 100_000).
%% The windows of throttled functions; longer if one sent no message.
-define(EVERY_MS, 500).
-define(WINDOW_MS, 10).
-define(MOST_WINDOW_MS, 150).

-spec new(dyno_agent_first_calls:t(), Unset :: [module()]) -> t().
new(FirstCalls, Unset) ->
    #{
        table => dyno_agent_process_table:new(),
        first_calls => FirstCalls,
        groups => dyno_agent_groups:new(),
        discovered => 0,
        newest => newest(),
        there => 0,
        throttle => dyno_agent_throttle:new(),
        lifetimes => dyno_agent_lifetimes:new(),
        unsampled => [],
        unnamed => [],
        unread => 0,
        ended => [],
        ended_before => [],
        window => closed,
        opened => 0,
        timer => none,
        discovers => hd([in_part || Unset =/= []] ++ [yes])
    }.

-spec table(t()) -> dyno_agent_process_table:t().
table(#{table := Table}) -> Table.

-spec first_call(pid(), mfa(), integer(), t()) -> t().
first_call(Pid, MFA, Time, #{table := Table, throttle := Throttle, there := There} = Before) ->
    case dyno_agent_process_table:is_known(Pid, Table) of
        true ->
            Before;
        false ->
            Number = dyno_agent_process:number(Pid),
            Older = length([old || Number =< map_get(newest, Before)]),
            State = Before#{there := There + Older},
            case dyno_agent_throttle:first_call(MFA, Number, Time, Throttle) of
                {ask, Next} ->
                    asked(Pid, MFA, Time, dyno_agent_process:who(Pid), State#{throttle := Next});
                {presume, Id, Next} ->
                    presumed(Pid, Id, Time, State#{throttle := Next});
                {throttle, Id, Next} ->
                    throttle(presumed(Pid, Id, Time, State#{throttle := Next}))
            end
    end.

asked(Pid, MFA, Time, gone, #{throttle := Throttle} = State) ->
    {Id, Next} =
        case dyno_agent_throttle:group(MFA, Throttle) of
            {ok, Group} -> {Group, State};
            unknown -> id({first_call, MFA}, State)
        end,
    presumed(Pid, Id, Time, learned(MFA, gone, Id, Next));
asked(Pid, MFA, Time, {Info, Reductions}, State) ->
    Kind = dyno_agent_kind:of_process(Info, MFA),
    case dyno_agent_kind:is_own(Kind) of
        true ->
            State;
        false ->
            {Id, #{unnamed := Unnamed} = Next} = id(Kind, State),
            Counted = count(Id, 1, 1, Next#{unnamed := [{Pid, Id} | Unnamed]}),
            Row = {Pid, Id, Reductions, Reductions, 0},
            new(Row, Time, learned(MFA, Kind, Id, Counted))
    end.

learned(MFA, Kind, Id, #{throttle := Throttle} = State) ->
    State#{throttle := dyno_agent_throttle:learn(MFA, Kind, Id, Throttle)}.

%% Identifying takes microseconds. A presumed one is not sampled until the next scan.
presumed(Pid, Id, Time, #{unsampled := Unsampled} = State) ->
    new({Pid, Id}, Time, State#{unsampled := [{Pid, Id} | Unsampled]}).

new(Row, Time, #{table := Table, discovered := N, unread := Unread} = State) ->
    #{lifetimes := Lifetimes} = State,
    {Pid, Id} = {element(1, Row), element(2, Row)},
    ok = dyno_agent_process_table:write({insert, Row}, Table),
    Sampled =
        case dyno_agent_lifetimes:is_wanted(Id, Time, Lifetimes) of
            false ->
                Lifetimes;
            true ->
                Ref = monitor(process, Pid),
                dyno_agent_lifetimes:monitored(Ref, Id, Time, erlang:monotonic_time(), Lifetimes)
        end,
    forget(State#{discovered := N + 1, unread := Unread + 1, lifetimes := Sampled}).

forget(#{unread := Unread} = State) when Unread < ?FORGET_AFTER ->
    State;
forget(#{table := Table, ended := Ended, ended_before := Before} = State) ->
    ok = dyno_agent_process_table:write({delete, Before}, Table),
    sample_first(State#{unread := 0, ended := [], ended_before := Ended}).

-spec ended(reference(), pid(), term(), t()) -> t().
ended(Ref, Pid, Reason, #{table := Table, lifetimes := Lifetimes, groups := Groups} = State) ->
    Now = erlang:monotonic_time(),
    %% The process may have got a name since its discovery, and so another group.
    Group = dyno_agent_process_table:group_of(Pid, Table),
    case {dyno_agent_lifetimes:ended(Ref, Reason, Now, Lifetimes), Group} of
        {{ok, Ns, Rest}, {ok, Id}} ->
            State#{groups := dyno_agent_groups:lived(Id, Ns, Groups), lifetimes := Rest};
        {{ok, _Ns, Rest}, unknown} ->
            State#{lifetimes := Rest};
        {unknown, _} ->
            State
    end.

%% Scans

-spec begin_scan(t()) -> t().
begin_scan(#{groups := Groups} = State) ->
    sample_first(State#{groups := dyno_agent_groups:begin_scan(Groups)}).

-spec samples([dyno_agent_process_table:sample()], t()) -> t().
samples(Samples, #{groups := Groups, ended := Ended} = State) ->
    State#{
        groups := lists:foldl(fun dyno_agent_groups:sampled/2, Groups, Samples),
        ended := [Pid || {ended, _Id, Pid, _Reductions} <- Samples] ++ Ended
    }.

-doc "Samples the processes that came meanwhile, so that the groups' numbers add up.".
-spec end_scan(t()) -> t().
end_scan(#{groups := Groups} = State) ->
    sample_first(State#{groups := dyno_agent_groups:end_scan(Groups)}).

sample_first(#{unsampled := Rows, unnamed := Unnamed, table := Table, ended := Before} = State) ->
    {Counts, Ended, Alive} = lists:foldl(
        fun dyno_agent_process:sample_first/2, {#{}, [], []}, Rows
    ),
    Young = [{P, Id, R, R, 0} || {P, Id, R} <- Alive],
    ok = dyno_agent_process_table:write({insert, Young}, Table),
    Counted = maps:fold(
        fun(Id, {All, Sampled}, Acc) -> count(Id, All, Sampled, Acc) end,
        State#{unsampled := [], unnamed := [], ended := Ended ++ Before},
        Counts
    ),
    Nameless = Unnamed ++ [{Pid, Id} || {Pid, Id, _} <- Alive],
    MayHave = dyno_agent_groups:may_have_names(Nameless, map_get(groups, Counted)),
    lists:foldl(fun named/2, Counted, lists:filtermap(fun dyno_agent_process:find_name/1, MayHave)).

%% Calls read so far remain in the former group.
named({Pid, From, Kind}, #{discovered := N, table := Table} = State) ->
    case dyno_agent_kind:is_own(Kind) of
        true ->
            %% A process of dyno's, discovered before it was labelled.
            ok = dyno_agent_process_table:write({delete, [Pid]}, Table),
            count(From, -1, -1, State#{discovered := N - 1});
        false ->
            {To, Next} = id(Kind, State),
            ok = dyno_agent_process_table:write({move, Pid, To}, Table),
            count(To, 1, 1, count(From, -1, -1, Next))
    end.

count(Id, More, Sampled, #{groups := Groups} = State) ->
    State#{groups := dyno_agent_groups:count(Id, More, Sampled, Groups)}.

id(Kind, #{groups := Groups, table := Table} = State) ->
    case dyno_agent_groups:id(Kind, Groups) of
        {known, Id, _} ->
            {Id, State};
        {new, Id, Next} ->
            ok = dyno_agent_process_table:write({name, Id, Kind}, Table),
            {Id, State#{groups := Next}}
    end.

-spec restart(t()) -> t().
restart(Before) ->
    #{table := Table, groups := Groups} = State = begin_scan(settle(Before)),
    {Alive, Ended} = dyno_agent_process_table:restart(Table),
    {Refs, Forgotten} = dyno_agent_lifetimes:forget(map_get(lifetimes, State)),
    lists:foreach(fun(Ref) -> demonitor(Ref, [flush]) end, Refs),
    Known = lists:sum(maps:values(Alive)),
    State#{
        groups := dyno_agent_groups:restart(Alive, Groups),
        discovered := Known,
        newest := newest(),
        there := Known,
        unread := 0,
        ended := Ended ++ map_get(ended, State),
        lifetimes := Forgotten
    }.

-spec read(t()) -> #{atom() => term()}.
read(#{table := Table, groups := Groups, lifetimes := Lifetimes} = State) ->
    (maps:with([discovers, discovered, there], State))#{
        groups => dyno_agent_groups:read(Groups),
        alive => dyno_agent_process_table:alive(Table),
        followed => dyno_agent_lifetimes:alive(Lifetimes)
    }.

%% Too many

-spec limit(pos_integer(), t()) -> t().
limit(PerSecond, #{throttle := Throttle} = State) ->
    State#{throttle := dyno_agent_throttle:limit(PerSecond, Throttle)}.

-spec loaded(module(), t()) -> t().
loaded(_Module, #{discovers := gave_up} = State) ->
    State;
loaded(Module, #{throttle := Throttle} = State) ->
    IsOfModule = fun({M, _, _}) -> M =:= Module end,
    changed({add, Module}, State#{throttle := dyno_agent_throttle:release(IsOfModule, Throttle)}).

-spec leave_out([mfa()], t()) -> t().
leave_out(Functions, #{throttle := Throttle, discovers := Before} = State) ->
    Discovers =
        case Before of
            gave_up -> gave_up;
            _ -> in_part
        end,
    IsLeftOut = fun(MFA) -> lists:member(MFA, Functions) end,
    changed({leave_out, Functions}, State#{
        throttle := dyno_agent_throttle:release(IsLeftOut, Throttle), discovers := Discovers
    }).

-spec behind(non_neg_integer(), t()) -> t().
behind(Waiting, State) when Waiting >= ?MOST_WAITING ->
    changed(stop, State#{
        throttle := dyno_agent_throttle:new(), window := closed, discovers := gave_up
    });
behind(_Waiting, State) ->
    State.

changed(Change, State) ->
    ok = change(Change, State),
    tell(State).

tell(#{throttle := Throttle, table := Table} = State) ->
    Throttled = dyno_agent_throttle:throttled(Throttle),
    ok = dyno_agent_process_table:write({throttled, Throttled}, Table),
    State.

%% The function still sends messages: a first window, which shows its share of the process numbers.
throttle(#{window := closed} = State) -> open(tell(State));
throttle(State) -> tell(State).

open(State) ->
    Now = erlang:monotonic_time(millisecond),
    later(?WINDOW_MS, close_window, State#{window := open, opened := Now}).

later(Ms, Due, #{timer := Timer} = State) ->
    _ = [erlang:cancel_timer(Timer) || Timer =/= none],
    State#{timer := erlang:send_after(Ms, self(), Due)}.

-spec due(due(), t()) -> t().
due(open_window, #{window := closed, throttle := Throttle} = State) ->
    case throttled(State) of
        [] ->
            State;
        Throttled ->
            ok = change({subscribe, Throttled}, State),
            open(State#{throttle := dyno_agent_throttle:opened(Throttle)})
    end;
due(close_window, #{window := open, opened := Opened, throttle := Throttle} = State) ->
    IsLong = erlang:monotonic_time(millisecond) - Opened > ?MOST_WINDOW_MS,
    case IsLong orelse dyno_agent_throttle:is_each_seen(Throttle) of
        true ->
            ok = change({throttle, throttled(State)}, State),
            %% Messages from now on come after those of the window.
            later(0, closed, State#{window := closing});
        false ->
            later(?WINDOW_MS, close_window, State)
    end;
due(closed, #{window := closing, throttle := Throttle} = State) ->
    {Silent, Next} = dyno_agent_throttle:closed(erlang:monotonic_time(), newest(), Throttle),
    Closed = tell(silent(Silent, State#{throttle := Next, window := closed})),
    Released = throttled(State) -- throttled(Closed),
    ok = change({subscribe, Released}, State),
    later(?EVERY_MS, open_window, Closed);
due(_Late, State) ->
    State.

change(Change, #{first_calls := FirstCalls}) -> dyno_agent_first_calls:change(Change, FirstCalls).

throttled(#{throttle := Throttle}) -> maps:keys(dyno_agent_throttle:throttled(Throttle)).

newest() -> element(2, dyno_agent_process:newest()).

-spec settle(t()) -> t().
settle(#{throttle := Throttle} = State) ->
    {Silent, Next} = dyno_agent_throttle:settled(erlang:monotonic_time(), newest(), Throttle),
    silent(Silent, State#{throttle := Next}).

silent(Silent, #{discovered := N, groups := Groups} = State) ->
    State#{
        discovered := N + lists:sum(maps:values(Silent)),
        groups := dyno_agent_groups:count(Silent, Groups)
    }.
