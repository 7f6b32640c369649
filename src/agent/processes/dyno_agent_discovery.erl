%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_discovery).
-moduledoc false.
%% The state of the discovery and what follows from each event: groups, counts, throttled functions,
%% and lifetimes. Pure: dyno_agent_processes turns messages into events and carries out the effects, in
%% their order, at once.
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
    estimate := dyno_agent_first_call_estimate:t(),
    lifetimes := dyno_agent_lifetimes:sample(),
    %% Not sampled since they were discovered, and how many that are.
    unsampled := {non_neg_integer(), [{pid(), id()}]},
    %% Discovered so early in their lives that they may have got a name since.
    unnamed := [{pid(), id()}],
    %% Discovered since the table last forgot who had ended.
    unread := non_neg_integer(),
    %% Have ended since then, and before: whoever reads calls looks their groups up until then.
    ended := [pid()],
    ended_before := [pid()],
    %% Whether a `read_due` is to come.
    due := pending | none,
    %% Whether throttled functions send messages for a moment; `closing` while those of a window may
    %% still come.
    window := open | closing | closed,
    %% Whether processes are discovered, or there were too many.
    discovers := yes | in_part | gave_up
}.

-doc "What the runtime knows of a process; `gone` where it had ended.".
-type answer() ::
    gone
    | {[{term(), term()}], Reductions :: non_neg_integer(), Collections :: non_neg_integer()}.

-type event() ::
    %% A function that the patterns mean was a process's first one, at a time (native).
    {first_call, pid(), mfa(), integer()}
    | {answer, pid(), mfa(), integer(), answer()}
    | {sampled_first, #{id() => {All :: pos_integer(), Alive :: non_neg_integer()}},
        Ended :: [pid()], Alive :: [{pid(), id(), Reductions :: non_neg_integer()}]}
    | {named, [{pid(), id(), dyno_agent_kind:kind()}]}
    | {monitored, reference(), id(), Since :: integer(), Now :: integer()}
    | {ended, reference(), term(), Now :: integer(), {ok, id()} | unknown}
    | begin_scan
    | {samples, [dyno_agent_process_table:sample()]}
    | end_scan
    %% From so many in a second on that a function discovers it is throttled.
    | {limit, PerSecond :: pos_integer()}
    | {read_due, NowMs :: integer()}
    %% What nobody has seen is estimated until now.
    | settle
    %% Calls of throttled functions at a time (native): their messages come since then, or did until
    %% then.
    | {opened | closing | settled, dyno_agent_first_call_estimate:counts(), integer()}
    | {close_window, NowMs :: integer()}
    %% All messages of the window have come.
    | {closed, NowMs :: integer()}
    %% So many messages wait.
    | {behind, pos_integer()}
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
    %% Gives the event of that name.
    | {count_calls, [mfa()], opened | closing | settled}
    | {later, Ms :: non_neg_integer(), read_due | close_window | closed}.

-type result() :: {t(), [effect()]}.

%% The unsampled are not left for longer than that.
-define(MAX_UNSAMPLED, 5000).
%% After so many more the table forgets those that had ended before.
-define(FORGET_AFTER, 10_000).
%% Where so many messages wait that cannot be kept away, no more are discovered: they would take
%% 25 MB, and soon all there is.
-define(MOST_WAITING, 100_000).
%% So often the messages of throttled functions come for a moment: to estimate how many processes there
%% are, and for the sample of lifetimes.
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
        unread => 0,
        ended => [],
        ended_before => [],
        due => none,
        window => closed,
        discovers => yes
    }.

-doc "What follows from an event.".
-spec event(event(), t()) -> result().
event({first_call, Pid, MFA, Time}, #{throttle := Throttle, estimate := Estimate} = State) ->
    IsThrottled = is_map_key(MFA, dyno_agent_throttle:throttled(Throttle)),
    case dyno_agent_first_call_estimate:first_call(MFA, Time, Estimate) of
        {yes, Next} when IsThrottled -> first_call(Pid, MFA, Time, State#{estimate := Next});
        no when IsThrottled -> {State, []};
        _ -> first_call(Pid, MFA, Time, State)
    end;
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
    {State#{throttle := dyno_agent_throttle:limit(PerSecond, Throttle)}, []};
event({read_due, _NowMs}, #{discovers := gave_up} = State) ->
    {State#{due := none}, []};
event({read_due, _NowMs}, State) ->
    open_window(State#{due := none});
event(settle, State) ->
    {State, [{count_calls, throttled(State), settled}]};
event({settled, Counts, _Time}, #{estimate := Estimate} = State) ->
    {Silent, Next} = dyno_agent_first_call_estimate:settled(Counts, Estimate),
    {silent(Silent, State#{estimate := Next}), []};
event({opened, Counts, Time}, #{estimate := Estimate, throttle := Throttle} = State) ->
    Throttled = dyno_agent_throttle:throttled(Throttle),
    Opened = dyno_agent_first_call_estimate:opened(Counts, Time, Throttled, Estimate),
    {State#{estimate := Opened}, []};
event({closing, Counts, Time}, #{estimate := Estimate} = State) ->
    {State#{estimate := dyno_agent_first_call_estimate:closing(Counts, Time, Estimate)}, []};
event({close_window, _NowMs}, #{window := closed} = State) ->
    {State, []};
event({close_window, _NowMs}, State) ->
    %% What comes from now on is in the mailbox behind the messages of the window.
    Throttled = throttled(State),
    {State#{window := closing}, [
        {count_calls, Throttled, closing}, {first_calls, {throttle, Throttled}}, {later, 0, closed}
    ]};
event({closed, NowMs}, #{window := closing} = State) ->
    estimated(NowMs, State);
event({closed, _NowMs}, State) ->
    {State, []};
event({behind, Waiting}, State) when Waiting >= ?MOST_WAITING ->
    give_up(State);
event({behind, _Waiting}, State) ->
    {State, []};
event({loaded, _Module}, #{discovers := gave_up} = State) ->
    {State, []};
event({loaded, Module}, #{throttle := Throttle} = State) ->
    changed({add, Module}, dyno_agent_throttle:forget(Module, Throttle), State);
event({leave_out, Functions}, #{throttle := Throttle, discovers := Before} = State) ->
    Discovers =
        case Before of
            gave_up -> gave_up;
            _ -> in_part
        end,
    Left = dyno_agent_throttle:leave_out(Functions, Throttle),
    changed({leave_out, Functions}, Left, State#{discovers := Discovers});
event({restart, Alive, JustEnded}, #{groups := Groups, ended := Ended} = State) ->
    {Refs, Lifetimes} = dyno_agent_lifetimes:forget(map_get(lifetimes, State)),
    {
        State#{
            groups := dyno_agent_groups:restart(Alive, Groups),
            discovered := lists:sum(maps:values(Alive)),
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
            after_effects([Insert], enough(State));
        {yes, Next} ->
            Monitor = {monitor, element(1, Row), element(2, Row), Time},
            after_effects([Insert, Monitor], enough(State#{lifetimes := Next}))
    end.

%% Enough new ones, and the table forgets; enough unsampled ones ask for a sample.
enough(#{unread := Unread} = State) when Unread < ?FORGET_AFTER ->
    sample_many(State);
enough(#{ended := Ended, ended_before := Before} = State) ->
    Next = State#{unread := 0, ended := [], ended_before := Ended},
    then({Next, [{table, {delete, Before}}]}, fun sample_first/1).

give_up(#{discovers := gave_up} = State) ->
    {State, []};
give_up(#{throttle := Throttle} = State) ->
    changed(stop, dyno_agent_throttle:none(Throttle), State#{
        discovers := gave_up, window := closed
    }).

throttle(MFA, #{window := Window, throttle := Throttle} = State) ->
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
            {State#{window := open}, Effects ++ [{later, Ms, close_window}]};
        _ ->
            {State, Effects}
    end.

%% Throttled functions send messages for a moment.
open_window(#{throttle := Throttle} = State) ->
    case throttled(State) of
        [] ->
            {State, []};
        Throttled ->
            {State#{window := open}, [
                {first_calls, {subscribe, Throttled}},
                {count_calls, Throttled, opened},
                {later, dyno_agent_throttle:window_ms(Throttle), close_window}
            ]}
    end.

estimated(NowMs, #{throttle := Throttle, estimate := Estimate} = State) ->
    {Silent, Closed} = dyno_agent_first_call_estimate:closed(Estimate),
    Counted = dyno_agent_throttle:counted(Silent, Throttle),
    Next = dyno_agent_throttle:release_rare(NowMs, Counted),
    Throttled = dyno_agent_throttle:throttled(Next),
    Released = maps:keys(dyno_agent_throttle:throttled(Throttle)) -- maps:keys(Throttled),
    Left = dyno_agent_first_call_estimate:only(Throttled, Closed),
    Estimated = silent(Silent, State#{throttle := Next, estimate := Left}),
    Again = {first_calls, {subscribe, Released}},
    case dyno_agent_first_call_estimate:is_open(Left) of
        true ->
            %% Throttled meanwhile.
            {Estimated#{window := open}, [Again, {later, 0, close_window}]};
        false ->
            Effects = [Again, {table, {throttled, Throttled}}],
            Rest = Estimated#{window := closed},
            case map_size(Throttled) of
                0 -> {Rest, Effects};
                _ -> then({Rest, Effects}, fun(S) -> due_in(?ESTIMATE_MS, S) end)
            end
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
