%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_discovery).
-moduledoc false.
%% The state of the discovery and what follows from each event: groups, counts, throttled functions,
%% lifetimes, and when the call statistics are to be read. Pure: dyno_agent_processes turns messages
%% into events and carries out the effects, in their order, at once.
%%
%% The rows of the processes themselves are in dyno_agent_process_table. An event about a process is
%% sent only when that table does not have it yet: so each process is counted once, whichever way it
%% was discovered.

-export([new/0, event/2, results/2]).
-export_type([t/0, event/0, effect/0, answer/0]).

-type id() :: dyno_agent_process_table:id().

-opaque t() :: #{
    groups := dyno_agent_groups:t(),
    discovered := non_neg_integer(),
    throttle := dyno_agent_throttle:t(),
    %% Where nobody reads.
    estimate := dyno_agent_first_call_estimate:t(),
    lifetimes := dyno_agent_lifetimes:sample(),
    %% Not sampled since they were discovered, and how many that are.
    unsampled := {non_neg_integer(), [{pid(), id()}]},
    %% Discovered so early in their lives that they may have got a name since.
    unnamed := [{pid(), id()}],
    %% Whether anybody keeps, and reads, the calls of these processes.
    reader := none | subscribed,
    %% Discovered since the statistics were last reset.
    unread := non_neg_integer(),
    %% Have ended; the table forgets them when their calls were read.
    ended := [pid()],
    reading := idle | {under_way, [pid()]},
    %% When they were last read and reset.
    read_ms := integer() | never,
    %% When they are to be asked again because of throttled functions, and whether a `read_due` is
    %% to come that looks whether it is time.
    read_at_ms := integer() | at_once,
    due := pending | none,
    %% Whether throttled functions send messages for a moment: during a reading, or between two;
    %% `closing` while those of a window may still come.
    window := open | for_lifetimes | closing | closed,
    opened_ms := integer(),
    %% Whether they have been silenced before it closes.
    silenced := yes | no,
    %% Whether processes are discovered, or there were too many.
    discovers := yes | gave_up
}.

-doc "What the runtime knows of a process; `gone` where it had ended.".
-type answer() ::
    gone
    | {[{term(), term()}], Reductions :: non_neg_integer(), Collections :: non_neg_integer()}.

-type event() ::
    %% A function that the patterns mean was a process's first one, at a time (native).
    {first_call, pid(), mfa(), integer()}
    | {answer, pid(), mfa(), integer(), answer()}
    %% The call statistics had these processes of throttled functions.
    | {callers, [{pid(), id()}]}
    | {sampled_first, #{id() => {All :: pos_integer(), Alive :: non_neg_integer()}},
        Ended :: [pid()], Alive :: [{pid(), id(), Reductions :: non_neg_integer()}]}
    | {named, [{pid(), id(), dyno_agent_kind:kind()}]}
    | {monitored, reference(), id(), Since :: integer(), Now :: integer()}
    | {ended, reference(), term(), Now :: integer(), {ok, id()} | unknown}
    | begin_scan
    | {samples, [dyno_agent_process_table:sample()]}
    | end_scan
    %% Somebody reads the calls; `by_process` where the statistics tell who has called what. For
    %% `windows` only of some moments: then how many processes throttled functions discover is
    %% estimated.
    | {subscribed, by_process | sums | windows}
    %% From so many in a second on that a function discovers it is throttled.
    | {limit, PerSecond :: pos_integer()}
    | {read_due, NowMs :: integer()}
    | was_read
    %% What nobody has seen is estimated until now.
    | settle
    %% Calls of throttled functions at a time (native): their messages come since then, or did until
    %% then.
    | {opened | closing | settled, dyno_agent_first_call_estimate:counts(), integer()}
    | {close_window, NowMs :: integer()}
    %% All messages of the window have come.
    | {closed, NowMs :: integer()}
    %% So many messages wait.
    | {behind, pos_integer(), NowMs :: integer()}
    | {loaded, module()}
    %% These are called too often to discover by.
    | {leave_out, [mfa()]}
    | {restart, Alive :: #{id() => pos_integer()}, Ended :: [pid()]}.

-type effect() ::
    {table, dyno_agent_process_table:change()}
    %% What gives another event at once
    | {ask, pid(), mfa(), integer()}
    | {sample_first, [{pid(), id()}]}
    | {find_names, [{pid(), id()}]}
    | {monitor, pid(), id(), Since :: integer()}
    | {demonitor, [reference()]}
    | {first_calls, dyno_agent_first_calls:change()}
    %% To whoever reads the calls: find the callers of throttled functions, or read and reset the
    %% statistics; then say `was_read`
    | find_callers
    | read_and_reset
    %% Gives the event of that name.
    | {count_calls, [mfa()], opened | closing | settled}
    | {later, Ms :: non_neg_integer(), read_due | close_window | closed}.

-type result() :: {t(), [effect()]}.

%% The unsampled are not left for longer than that.
-define(MAX_UNSAMPLED, 5000).
%% The runtime's statistics take about 50 bytes for each function and process, in each of two
%% sessions: 20,000 processes of Cowboy's, with 30 functions each, some 60 MB. Each reading makes
%% the counts a little inexact: not more than one in two seconds, unless it must be.
-define(READ_AFTER, 10_000).
-define(READ_AT_ONCE_AFTER, 20_000).
-define(READ_EVERY_MS, 2000).
%% So often the messages of throttled functions come for a moment, and so long at least: at each
%% reading, the first of which comes as soon, and between readings for the sample of lifetimes.
-define(SAMPLE_LIFETIMES_MS, 250).
%% Where so many messages wait that cannot be kept away, no more are discovered: they would take
%% 25 MB, and soon all there is.
-define(MOST_WAITING, 100_000).
-define(WINDOW_MS, 20).
-define(REST, 10).
%% Where they come only to estimate how many processes there are.
-define(ESTIMATE_MS, 500).

-doc "Nothing was discovered.".
-spec new() -> t().
new() ->
    #{
        groups => dyno_agent_groups:new(),
        discovered => 0,
        throttle => dyno_agent_throttle:new(),
        estimate => dyno_agent_first_call_estimate:new(),
        lifetimes => dyno_agent_lifetimes:new(),
        unsampled => {0, []},
        unnamed => [],
        reader => none,
        unread => 0,
        ended => [],
        reading => idle,
        read_ms => never,
        read_at_ms => at_once,
        due => none,
        window => closed,
        opened_ms => 0,
        silenced => no,
        discovers => yes
    }.

-doc "What follows from an event.".
-spec event(event(), t()) -> result().
event({first_call, Pid, MFA, Time}, #{reader := none, throttle := Throttle} = State) ->
    #{estimate := Estimate} = State,
    IsThrottled = is_map_key(MFA, dyno_agent_throttle:throttled(Throttle)),
    case dyno_agent_first_call_estimate:first_call(MFA, Time, Estimate) of
        {yes, Next} when IsThrottled -> first_call(Pid, MFA, Time, State#{estimate := Next});
        no when IsThrottled -> {State, []};
        _ -> first_call(Pid, MFA, Time, State)
    end;
event({first_call, Pid, MFA, Time}, State) ->
    first_call(Pid, MFA, Time, State);
event({answer, Pid, MFA, Time, gone}, #{throttle := Throttle} = State) ->
    {Id, {Next, Effects}} =
        case dyno_agent_throttle:group(MFA, Throttle) of
            {ok, Group} -> {Group, {State, []}};
            unknown -> id({first_call, MFA}, State)
        end,
    Learned = dyno_agent_throttle:learn(MFA, gone, Id, Throttle),
    after_effects(Effects, presumed(Pid, Id, Time, Next#{throttle := Learned}));
event({answer, Pid, MFA, Time, {Info, Reductions, Collections}}, State) ->
    Kind = dyno_agent_kind:of_process(Info, MFA),
    case dyno_agent_kind:is_own(Kind) of
        true ->
            {State, []};
        false ->
            {Id, {#{unnamed := Unnamed, throttle := Throttle} = Next, Effects}} = id(Kind, State),
            Learned = Next#{
                unnamed := [{Pid, Id} | Unnamed],
                throttle := dyno_agent_throttle:learn(MFA, Kind, Id, Throttle)
            },
            Row = {Pid, Id, Reductions, Reductions, 0, Collections},
            after_effects(Effects, identified(Row, Time, Learned))
    end;
event({callers, Rows}, #{throttle := Throttle} = State) ->
    Counted = dyno_agent_throttle:count([Id || {_, Id} <- Rows], Throttle),
    Found = lists:foldl(fun found/2, State#{throttle := Counted}, Rows),
    then({Found, [{table, {insert, Rows}}]}, fun sample_many/1);
event({sampled_first, Counts, JustEnded, Alive}, #{ended := Ended} = State) ->
    Counted = maps:fold(
        fun(Id, {All, Sampled}, Acc) -> count(Id, All, Sampled, Acc) end,
        State#{ended := JustEnded ++ Ended},
        Counts
    ),
    %% Such processes are young: all their collections count.
    {Counted, [
        {table, {insert, [{Pid, Id, R, R, 0, 0} || {Pid, Id, R} <- Alive]}},
        {find_names, may_have_names([{Pid, Id} || {Pid, Id, _} <- Alive], State)}
    ]};
event({named, Processes}, State) ->
    lists:foldl(fun named/2, {State, []}, Processes);
event({monitored, Ref, Id, Since, Now}, #{lifetimes := Lifetimes} = State) ->
    {State#{lifetimes := dyno_agent_lifetimes:monitored(Ref, Id, Since, Now, Lifetimes)}, []};
event({ended, Ref, Reason, Now, Group}, #{lifetimes := Lifetimes, groups := Groups} = State) ->
    case {dyno_agent_lifetimes:ended(Ref, Reason, Now, Lifetimes), Group} of
        {{ok, Ns, Rest}, {ok, Id}} ->
            {State#{groups := dyno_agent_groups:lived(Id, Ns, Groups), lifetimes := Rest}, []};
        {{ok, _Ns, Rest}, unknown} ->
            {State#{lifetimes := Rest}, []};
        {unknown, _} ->
            {State, []}
    end;
event(begin_scan, #{lifetimes := Lifetimes, groups := Groups} = State) ->
    sample_first(State#{
        lifetimes := dyno_agent_lifetimes:refill(Lifetimes),
        groups := dyno_agent_groups:begin_scan(Groups)
    });
event({samples, Samples}, #{groups := Groups, ended := Ended} = State) ->
    Next = State#{
        groups := lists:foldl(fun dyno_agent_groups:sampled/2, Groups, Samples),
        ended := [Pid || {ended, _Id, Pid, _Reductions} <- Samples] ++ Ended
    },
    {Next, []};
event(end_scan, #{groups := Groups} = State) ->
    %% So that the groups' numbers add up to the number of all that were discovered.
    sample_first(State#{groups := dyno_agent_groups:end_scan(Groups)});
event({limit, PerSecond}, #{throttle := Throttle} = State) ->
    {State#{throttle := dyno_agent_throttle:allow(PerSecond, Throttle)}, []};
event({subscribed, windows}, #{throttle := Throttle} = State) ->
    {State#{throttle := dyno_agent_throttle:allow(Throttle)}, []};
event({subscribed, by_process}, #{throttle := Throttle} = State) ->
    {State#{reader := subscribed, throttle := dyno_agent_throttle:allow(Throttle)}, []};
event({subscribed, sums}, State) ->
    {State#{reader := subscribed}, []};
event({read_due, NowMs}, #{discovers := gave_up, reader := subscribed} = State) ->
    %% Nobody counts the new ones now.
    Due = State#{due := none},
    Next =
        case Due of
            #{reading := idle} -> read(NowMs, Due);
            #{} -> {Due, []}
        end,
    then(Next, fun(S) -> due_in(?READ_EVERY_MS, S) end);
event({read_due, _NowMs}, #{reading := {under_way, _}} = State) ->
    {State#{due := none}, []};
event({read_due, NowMs}, #{reader := none} = State) ->
    sample_lifetimes(NowMs, State#{due := none});
event(settle, #{reader := none} = State) ->
    {State, [{count_calls, throttled(State), settled}]};
event(settle, State) ->
    {State, []};
event({settled, Counts, _Time}, #{estimate := Estimate} = State) ->
    {Silent, Next} = dyno_agent_first_call_estimate:settled(Counts, Estimate),
    {silent(Silent, State#{estimate := Next}), []};
event({opened, Counts, Time}, #{estimate := Estimate, throttle := Throttle} = State) ->
    Throttled = dyno_agent_throttle:throttled(Throttle),
    Opened = dyno_agent_first_call_estimate:opened(Counts, Time, Throttled, Estimate),
    OpenedMs = erlang:convert_time_unit(Time, native, millisecond),
    {State#{opened_ms := OpenedMs, estimate := Opened}, []};
event({closing, Counts, Time}, #{estimate := Estimate} = State) ->
    {State#{estimate := dyno_agent_first_call_estimate:closing(Counts, Time, Estimate)}, []};
event({read_due, NowMs}, #{read_at_ms := AtMs, window := closed} = State) when
    is_integer(AtMs), NowMs < AtMs
->
    sample_lifetimes(NowMs, State#{due := none});
event({read_due, NowMs}, #{unread := Unread, throttle := Throttle} = State) ->
    Expected = Unread + dyno_agent_throttle:expected(NowMs, Throttle),
    case is_to_be_reset(Expected, NowMs, State) of
        true -> read(NowMs, State#{due := none});
        false -> with_messages(find_callers, NowMs, State#{due := none, reading := {under_way, []}})
    end;
event(was_read, #{reading := {under_way, Ended}, window := Window} = State) ->
    %% All their calls are in the sums.
    {State#{reading := idle}, [
        {table, {delete, Ended}} | [{later, ?WINDOW_MS, close_window} || Window =:= open]
    ]};
event(was_read, State) ->
    {State, []};
event({close_window, _NowMs}, #{reading := {under_way, _}} = State) ->
    {State, []};
event({close_window, _NowMs}, #{window := closed} = State) ->
    {State, []};
event({close_window, _NowMs}, #{reader := none} = State) ->
    %% What comes from now on is in the mailbox behind the messages of the window.
    Throttled = throttled(State),
    {State#{window := closing}, [
        {count_calls, Throttled, closing}, {first_calls, {throttle, Throttled}}, {later, 0, closed}
    ]};
event({closed, NowMs}, #{window := closing} = State) ->
    estimated(NowMs, State);
event({closed, _NowMs}, State) ->
    {State, []};
event({close_window, NowMs}, #{window := for_lifetimes} = State) ->
    close_window(NowMs, State);
event({close_window, NowMs}, #{throttle := Throttle} = State) ->
    {AfterMs, Next} = dyno_agent_throttle:release_rare(NowMs, Throttle),
    close_window(NowMs, State#{throttle := Next, read_at_ms := NowMs + AfterMs});
event({behind, Waiting, NowMs}, State) when Waiting >= ?MOST_WAITING ->
    give_up(NowMs, State);
event({behind, _Waiting, _NowMs}, #{window := W, silenced := Silenced, reader := R} = State) when
    W =:= closed; Silenced =:= yes; R =:= none
->
    {State, []};
event({behind, Waiting, _NowMs}, #{reading := {under_way, _}} = State) when
    Waiting < ?MOST_WAITING div 2
->
    %% Who makes its first call while the statistics change sessions is known by its message only.
    {State, []};
event({behind, _Waiting, _NowMs}, State) ->
    %% That the window is to close is the last of what waits.
    {State#{silenced := yes}, [{first_calls, {throttle, throttled(State)}}]};
event({loaded, _Module}, #{discovers := gave_up} = State) ->
    {State, []};
event({loaded, Module}, #{throttle := Throttle} = State) ->
    changed({add, Module}, dyno_agent_throttle:forget(Module, Throttle), State);
event({leave_out, Functions}, #{throttle := Throttle} = State) ->
    changed({leave_out, Functions}, dyno_agent_throttle:leave_out(Functions, Throttle), State);
event({restart, Alive, JustEnded}, #{groups := Groups, ended := Ended} = State) ->
    {Refs, Lifetimes} = dyno_agent_lifetimes:forget(map_get(lifetimes, State)),
    {
        State#{
            groups := dyno_agent_groups:restart(Alive, Groups),
            discovered := lists:sum(maps:values(Alive)),
            %% Who reads the calls was restarted before.
            unread := 0,
            ended := JustEnded ++ Ended,
            lifetimes := Lifetimes
        },
        [{demonitor, Refs}]
    }.

first_call(Pid, MFA, Time, #{throttle := Throttle} = State) ->
    case dyno_agent_throttle:first_call(MFA, Time, Throttle) of
        {ask, Next} ->
            {State#{throttle := Next}, [{ask, Pid, MFA, Time}]};
        {presume, Id, Next} ->
            presumed(Pid, Id, Time, State#{throttle := Next});
        {throttle, Id, Next} ->
            then(presumed(Pid, Id, Time, State#{throttle := Next}), fun(S) -> throttle(MFA, S) end)
    end.

%% Who reads the calls finds in the table which functions are throttled.
changed(FirstCalls, Throttle, State) ->
    Throttled = dyno_agent_throttle:throttled(Throttle),
    {State#{throttle := Throttle}, [{table, {throttled, Throttled}}, {first_calls, FirstCalls}]}.

then({State, Effects}, Next) ->
    after_effects(Effects, Next(State)).

after_effects(Effects, {State, More}) ->
    {State, Effects ++ More}.

%% To identify a process takes microseconds. One whose group is presumed is not sampled until the
%% next scan; most have ended by then.
presumed(Pid, Id, Time, State) ->
    new({Pid, Id}, Time, found({Pid, Id}, State)).

found(Row, #{discovered := N, unread := Unread, unsampled := {Count, Rows}} = State) ->
    State#{discovered := N + 1, unread := Unread + 1, unsampled := {Count + 1, [Row | Rows]}}.

identified(Row, Time, #{discovered := N, unread := Unread} = State) ->
    new(Row, Time, count(element(2, Row), 1, 1, State#{discovered := N + 1, unread := Unread + 1})).

%% It may be chosen for the sample of lifetimes.
new(Row, Time, #{lifetimes := Lifetimes} = State) ->
    Insert = {table, {insert, Row}},
    case dyno_agent_lifetimes:choose(element(2, Row), Time, Lifetimes) of
        no ->
            after_effects([Insert], enough(Time, State));
        {yes, Next} ->
            Monitor = {monitor, element(1, Row), element(2, Row), Time},
            after_effects([Insert, Monitor], enough(Time, State#{lifetimes := Next}))
    end.

%% Enough unread processes ask for a reading, enough unsampled ones for a sample.
enough(_Time, #{unread := Unread} = State) when Unread < ?READ_AFTER ->
    sample_many(State);
enough(_Time, #{reader := none, ended := Ended} = State) ->
    %% Nobody needs their groups.
    then({State#{unread := 0, ended := []}, [{table, {delete, Ended}}]}, fun sample_first/1);
enough(Time, #{reading := idle, unread := Unread} = State) ->
    NowMs = erlang:convert_time_unit(Time, native, millisecond),
    case is_to_be_reset(Unread, NowMs, State) of
        true -> read(NowMs, State);
        false -> sample_many(State)
    end;
enough(_Time, State) ->
    sample_many(State).

%% To find the callers of throttled functions loses no call: only where there are too many rows for
%% that are they read and reset.
is_to_be_reset(Unread, _NowMs, _State) when Unread < ?READ_AFTER -> false;
is_to_be_reset(Unread, _NowMs, _State) when Unread >= ?READ_AT_ONCE_AFTER -> true;
is_to_be_reset(_Unread, _NowMs, #{read_ms := never}) -> true;
is_to_be_reset(_Unread, NowMs, #{read_ms := LastMs}) -> NowMs - LastMs >= ?READ_EVERY_MS.

read(NowMs, #{ended := Ended} = State) ->
    with_messages(read_and_reset, NowMs, State#{
        reading := {under_way, Ended}, ended := [], unread := 0, read_ms := NowMs
    }).

%% Meanwhile throttled functions send messages, or a process that makes its first call just between
%% two readings would be missing.
with_messages(Request, NowMs, State) ->
    Throttled = throttled(State),
    Window =
        case Throttled of
            [] -> closed;
            _ -> open
        end,
    {State#{window := Window, opened_ms := NowMs, silenced := no}, [
        {first_calls, {subscribe, Throttled}}, Request
    ]}.

give_up(_NowMs, #{discovers := gave_up} = State) ->
    {State, []};
give_up(NowMs, #{throttle := Throttle, reader := Reader} = State) ->
    GivenUp = State#{discovers := gave_up, window := closed, read_at_ms := NowMs},
    Stopped = changed(stop, dyno_agent_throttle:none(Throttle), GivenUp),
    case Reader of
        none -> Stopped;
        subscribed -> then(Stopped, fun(S) -> due_in(?READ_EVERY_MS, S) end)
    end.

throttle(MFA, #{reader := none, window := Window, throttle := Throttle} = State) ->
    Throttled = dyno_agent_throttle:throttled(Throttle),
    Effects = [
        {table, {throttled, Throttled}},
        {first_calls, {count, [MFA]}},
        {count_calls, maps:keys(Throttled), opened}
    ],
    %% It goes on sending messages: a first window, from which the share of first calls is known.
    case Window of
        closed ->
            Ms = dyno_agent_throttle:window_ms(Throttle),
            {State#{window := for_lifetimes}, Effects ++ [{later, Ms, close_window}]};
        _ ->
            {State, Effects}
    end;
throttle(MFA, #{throttle := Throttle, reading := idle, window := closed} = State) ->
    Changed = changed({throttle, [MFA]}, Throttle, State),
    then(Changed, fun(S) -> due_in(?SAMPLE_LIFETIMES_MS, S) end);
throttle(_MFA, #{throttle := Throttle, window := Window} = State) ->
    %% It is when the window closes.
    Next =
        case Window of
            closed -> open;
            _ -> Window
        end,
    {State#{window := Next}, [{table, {throttled, dyno_agent_throttle:throttled(Throttle)}}]}.

%% Between two readings messages come for a moment, so that lifetimes are sampled also in a run that
%% is shorter than the time from one reading to the next.
sample_lifetimes(NowMs, #{throttle := Throttle, reader := Reader} = State) ->
    Ms =
        case Reader of
            none -> dyno_agent_throttle:window_ms(Throttle);
            subscribed -> ?WINDOW_MS
        end,
    case throttled(State) of
        [] ->
            {State, []};
        Throttled ->
            {State#{window := for_lifetimes, opened_ms := NowMs, silenced := no}, [
                {first_calls, {subscribe, Throttled}},
                {count_calls, Throttled, opened},
                {later, Ms, close_window}
            ]}
    end.

close_window(NowMs, #{throttle := Throttle, read_at_ms := AtMs, opened_ms := OpenedMs} = State) ->
    Throttled = dyno_agent_throttle:throttled(Throttle),
    Effects = [
        {table, {throttled, Throttled}}
        %% Where nobody reads they are silent already.
        | [{first_calls, {throttle, maps:keys(Throttled)}} || map_get(reader, State) =/= none]
    ],
    %% On a busy machine to open and close it takes long.
    RestMs = max(?SAMPLE_LIFETIMES_MS, ?REST * (NowMs - OpenedMs - ?WINDOW_MS)),
    Closed = State#{window := closed},
    case Throttled =:= #{} of
        true ->
            {Closed, Effects};
        false ->
            DueMs =
                case State of
                    #{reader := none} -> ?ESTIMATE_MS;
                    _ -> max(1, min(RestMs, AtMs - NowMs))
                end,
            then({Closed, Effects}, fun(S) -> due_in(DueMs, S) end)
    end.

estimated(NowMs, #{throttle := Throttle, estimate := Estimate} = State) ->
    {Silent, Closed} = dyno_agent_first_call_estimate:closed(Estimate),
    Counted = dyno_agent_throttle:counted(Silent, Throttle),
    {_AfterMs, Next} = dyno_agent_throttle:release_rare(NowMs, Counted),
    Throttled = dyno_agent_throttle:throttled(Next),
    Released = maps:keys(dyno_agent_throttle:throttled(Throttle)) -- maps:keys(Throttled),
    Left = dyno_agent_first_call_estimate:only(Throttled, Closed),
    Estimated = silent(Silent, State#{throttle := Next, estimate := Left}),
    case dyno_agent_first_call_estimate:is_open(Left) of
        true ->
            %% Throttled meanwhile.
            {Estimated#{window := for_lifetimes}, [
                {first_calls, {subscribe, Released}}, {later, 0, close_window}
            ]};
        false ->
            after_effects([{first_calls, {subscribe, Released}}], close_window(NowMs, Estimated))
    end.

throttled(#{throttle := Throttle}) -> maps:keys(dyno_agent_throttle:throttled(Throttle)).

silent(Silent, #{discovered := N, groups := Groups} = State) ->
    State#{
        discovered := N + lists:sum(maps:values(Silent)),
        groups := dyno_agent_groups:count(Silent, Groups)
    }.

due_in(Ms, #{due := none} = State) -> {State#{due := pending}, [{later, Ms, read_due}]};
due_in(_Ms, #{due := pending} = State) -> {State, []}.

sample_many(#{unsampled := {Count, _}} = State) when Count >= ?MAX_UNSAMPLED ->
    sample_first(State);
sample_many(State) ->
    {State, []}.

sample_first(#{unsampled := {_, Rows}, unnamed := Unnamed} = State) ->
    {State#{unsampled := {0, []}, unnamed := []}, [
        {sample_first, Rows}, {find_names, may_have_names(Unnamed, State)}
    ]}.

may_have_names(Rows, #{groups := Groups}) -> dyno_agent_groups:may_have_names(Rows, Groups).

%% The calls of it that were read until then remain in the former group.
named({Pid, From, Kind}, {#{discovered := N} = State, Effects}) ->
    case dyno_agent_kind:is_own(Kind) of
        true ->
            %% One of dyno's, discovered before it had said so.
            Left = count(From, -1, -1, State#{discovered := N - 1}),
            {Left, [{table, {delete, [Pid]}} | Effects]};
        false ->
            {To, {Next, Named}} = id(Kind, State),
            Moved = count(To, 1, 1, count(From, -1, -1, Next)),
            {Moved, Named ++ [{table, {move, Pid, To}} | Effects]}
    end.

count(Id, More, Sampled, #{groups := Groups} = State) ->
    State#{groups := dyno_agent_groups:count(Id, More, Sampled, Groups)}.

id(Kind, #{groups := Groups} = State) ->
    case dyno_agent_groups:id(Kind, Groups) of
        {known, Id, _} -> {Id, {State, []}};
        {new, Id, Next} -> {Id, {State#{groups := Next}, [{table, {name, Id, Kind}}]}}
    end.

-doc "The results, with how many of each group are alive and their reductions.".
-spec results(#{id() => {non_neg_integer(), non_neg_integer()}}, t()) ->
    dyno_agent_processes:results().
results(Alive, #{groups := Groups, discovered := Discovered, discovers := Discovers} = State) ->
    Followed = dyno_agent_lifetimes:alive(map_get(lifetimes, State)),
    #{
        discovers => Discovers,
        groups => dyno_agent_groups:results(Alive, Followed, Groups),
        discovered => Discovered
    }.
