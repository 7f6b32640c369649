%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_path_events).
-moduledoc false.
%% Turns traced calls into a tree of call paths (`dyno_agent_paths`): a consumer of
%% `dyno_agent_event_tracer`.
%%
%% Functions whose calls are shorter than their tracing lose their breakpoints: their measured time
%% is noise, and then counts for their callers. Short functions that call no other short function go
%% first; with their time added, a caller may be long enough.
%%
%% If calls come too fast, processes are silenced until the backlog and useless breakpoints are
%% gone; then they report their functions. Silent time is not counted.
%%
%% For extents of one function, `begins` and `ends` are the meta trace's messages. An extent that
%% begins while the process's flags are being removed is left out.

-behaviour(dyno_agent_event_tracer).

-export([init/1, event/2, info/2, stopped/2, nothing/2]).
-export_type([config/0, result/0]).

-type config() :: #{
    sink := pid(),
    paths := dyno_agent_paths:config(),
    %% Measured before.
    costs := dyno_agent_path_tree:costs(),
    %% The number of extents; `none`: all calls.
    extents := pos_integer() | infinity | none,
    %% Flags of processes, which the end of an extent removes.
    flags := [atom()],
    %% Those of processes that begin later.
    new := [atom()],
    %% Functions that are not traced.
    without := [dyno_agent_patterns:pattern()],
    %% The shortest calls to time, in costs of tracing a call and its return; `none`: all.
    least := float() | none
}.

-type result() :: #{
    nodes := [dyno_agent_path_tree:node_()],
    costs := dyno_agent_path_tree:costs(),
    %% Functions that were removed, after this number of calls.
    hidden := [{mfa(), pos_integer()}],
    full := non_neg_integer(),
    extents := non_neg_integer(),
    events := non_neg_integer(),
    %% Silenced time.
    silent_ns := non_neg_integer(),
    reason := term()
}.

-type state() :: #{
    config := config(),
    paths := dyno_agent_paths:t(),
    session := trace:session() | none,
    hands := pid() | none,
    probe := dyno_agent_path_cost:probe() | none,
    events := non_neg_integer(),
    next_look := pos_integer(),
    %% The next check of the queue, in events; start of the current silence; earlier silence.
    next_check := pos_integer(),
    silent := integer() | none,
    silent_for := non_neg_integer(),
    %% At the last check: calls, and own time without tracing.
    before := #{mfa() => {non_neg_integer(), integer()}},
    hidden := #{mfa() => pos_integer()},
    %% Ended before the last check.
    dead := #{pid() => true},
    inside := #{pid() => {seen | unseen, Depth :: pos_integer()}},
    %% Processes outside the function since; processes whose flags are, or soon will be, removed.
    outside := #{pid() => integer()},
    released := #{pid() => soon | integer()},
    begun := non_neg_integer(),
    ended := non_neg_integer()
}.

-define(FIRST_LOOK, 4096).
-define(LOOK_EVERY, 65_536).
%% Calls since the last check that are enough to decide.
-define(ENOUGH, 200).
-define(CHECK_EVERY, 512).
%% The backlog at which processes are silenced.
-define(BEHIND, 10_000).
-define(MOST_STACKS, 500).
-define(OUTSIDE_MS, 5).

-spec init(config()) -> state().
init(#{sink := Sink} = Config) ->
    Sink ! {?MODULE, tracer, self()},
    initial(Config).

initial(#{paths := Paths} = Config) ->
    #{
        config => Config,
        paths => dyno_agent_paths:new(Paths),
        session => none,
        hands => none,
        next_check => ?CHECK_EVERY,
        silent => none,
        silent_for => 0,
        probe => none,
        events => 0,
        next_look => ?FIRST_LOOK,
        before => #{},
        hidden => #{},
        dead => #{},
        inside => #{},
        outside => #{},
        released => #{},
        begun => 0,
        ended => 0
    }.

-spec event(tuple(), state()) -> dyno_agent_event_tracer:answer().
event({trace_ts, Pid, call, {M, F, Args}, Time}, State) when is_list(Args) ->
    {ok, begins(Pid, {M, F, length(Args)}, Time, State)};
event({trace_ts, Pid, Left, _MFA, _Value, Time}, State) when
    Left =:= return_from; Left =:= exception_from
->
    ends(Pid, Time, State);
event(Message, #{events := Events, next_look := Events} = State) ->
    event(Message, looked(State#{next_look := min(2 * Events, Events + ?LOOK_EVERY)}));
event(Message, #{events := Events, next_check := Events} = State) ->
    event(Message, checked(State#{next_check := Events + ?CHECK_EVERY}));
event(Message, #{paths := Paths, events := Events, probe := Probe} = State) ->
    case dyno_agent_path_cost:probed(Message, Probe) of
        other ->
            {ok, State#{paths := dyno_agent_paths:event(Message, Paths), events := Events + 1}};
        Next ->
            {ok, State#{probe := Next}}
    end.

checked(#{silent := none} = State) ->
    case process_info(self(), message_queue_len) of
        {_, Waiting} when Waiting > ?BEHIND -> silenced(State);
        _ -> State
    end;
checked(State) ->
    State.

silenced(#{session := Session, paths := Paths, hands := Hands} = State) ->
    ok = silent(fun() -> dyno_agent_flags:all(Session, true, [silent]) end),
    Time = erlang:monotonic_time(),
    Looked = looked(State),
    ok = dyno_agent_path_hands:echo(Hands, audible),
    Looked#{silent := Time, paths := dyno_agent_paths:pause(Time, Paths)}.

%% The session may be gone.
silent(Set) ->
    try
        _ = Set(),
        ok
    catch
        error:badarg -> ok
    end.

audible(#{silent := Since, silent_for := Before, session := Session, paths := Paths} = State) ->
    #{config := #{without := Without, new := New}} = State,
    Stacks = maps:from_list([
        {Pid, [
            MFA
         || {M, F, A, _} <- Frames,
            MFA <- [{M, F, A}],
            not dyno_agent_patterns:matches(MFA, Without)
        ]}
     || Pid <- lists:sublist(dyno_agent_paths:processes(Paths), ?MOST_STACKS),
        {_, Frames} <- [process_info(Pid, current_stacktrace)]
    ]),
    ok = silent(fun() -> dyno_agent_flags:audible(Session, New) end),
    Time = erlang:monotonic_time(),
    Inside = maps:map(fun(_, {_, Depth}) -> {unseen, Depth} end, map_get(inside, State)),
    State#{
        silent := none,
        silent_for := Before + Time - Since,
        inside := Inside,
        paths := dyno_agent_paths:resume(Time, Stacks, Paths)
    }.

%% Meta traces carry the system time.

begins(Pid, MFA, TimeOfDay, #{inside := Inside} = State) ->
    Time = monotonic(TimeOfDay),
    case Inside of
        #{Pid := {Seen, Depth}} ->
            State#{inside := Inside#{Pid := {Seen, Depth + 1}}};
        #{} ->
            Next = State#{outside := maps:remove(Pid, map_get(outside, State))},
            entered(Pid, {MFA, Time}, is_wanted(Pid, Time, State), Next)
    end.

is_wanted(Pid, Time, #{begun := Begun, released := Released, config := #{extents := Most}}) ->
    Begun < Most andalso
        case Released of
            #{Pid := soon} -> false;
            #{Pid := At} -> Time > At;
            #{} -> true
        end.

entered(Pid, Entry, true, #{inside := Inside, begun := Begun, paths := Paths} = State) ->
    State#{
        inside := Inside#{Pid => {seen, 1}},
        begun := Begun + 1,
        paths := dyno_agent_paths:begins(Pid, Entry, Paths)
    };
entered(Pid, _Entry, false, #{inside := Inside} = State) ->
    State#{inside := Inside#{Pid => {unseen, 1}}}.

ends(Pid, TimeOfDay, #{inside := Inside} = State) ->
    case Inside of
        #{Pid := {seen, 1}} ->
            #{paths := Paths, ended := Ended} = State,
            left(Pid, State#{
                paths := dyno_agent_paths:ends(Pid, monotonic(TimeOfDay), Paths),
                ended := Ended + 1
            });
        #{Pid := {unseen, 1}} ->
            left(Pid, State);
        #{Pid := {Seen, Depth}} ->
            {ok, State#{inside := Inside#{Pid := {Seen, Depth - 1}}}};
        #{} ->
            {ok, State}
    end.

%% Flags stay if a process enters the function over and over: removal would come too late.
left(Pid, #{inside := Inside, outside := Outside, ended := Ended} = State) ->
    #{config := #{extents := Most}} = State,
    Next = State#{
        inside := maps:remove(Pid, Inside), outside := Outside#{Pid => erlang:monotonic_time()}
    },
    case Ended of
        Most -> {{stop, {extents, Most}}, Next};
        _ -> {ok, Next}
    end.

released(#{outside := Outside} = State) when map_size(Outside) =:= 0 ->
    State;
released(#{outside := Outside, released := Released, hands := Hands} = State) ->
    #{config := #{flags := Flags}} = State,
    Before = erlang:monotonic_time() - erlang:convert_time_unit(?OUTSIDE_MS, millisecond, native),
    Gone = [Pid || Pid := Since <- Outside, Since < Before],
    lists:foreach(fun(Pid) -> dyno_agent_path_hands:release(Hands, Pid, Flags) end, Gone),
    State#{
        outside := maps:without(Gone, Outside),
        released := maps:merge(Released, maps:from_keys(Gone, soon))
    }.

monotonic({Mega, Seconds, Micro}) ->
    Microseconds = (Mega * 1_000_000 + Seconds) * 1_000_000 + Micro,
    erlang:convert_time_unit(Microseconds, microsecond, native) - erlang:time_offset().

%% Functions that are left out

looked(#{config := #{least := none}} = State) ->
    swept(State);
looked(#{paths := Paths, config := #{least := Part}, before := Before, hidden := Hidden} = State) ->
    Costs = costs(State),
    Least = Part * (element(2, Costs) + element(3, Costs)),
    Functions = dyno_agent_path_tree:functions(Costs, dyno_agent_paths:tree(Paths)),
    %% Functions in which a process waits are kept, however short the rest of a call is.
    Now =
        #{
            MFA => {Calls, Own - Taken + Off}
         || MFA := {#{calls := Calls, own := Own, taken := Taken, off := Off}, _} <- Functions
        },
    Since =
        #{
            MFA => since(Sums, maps:get(MFA, Before, {0, 0}))
         || MFA := Sums <- Now, not is_map_key(MFA, Hidden)
        },
    Short = [MFA || MFA := {Calls, Left} <- Since, Calls >= ?ENOUGH, Left < Least * Calls],
    Out = first(Short, Functions),
    lists:foreach(fun(MFA) -> hide(MFA, State) end, Out),
    New = #{MFA => Calls || MFA <- Out, #{MFA := {Calls, _}} <- [Now]},
    swept(State#{before := Now, hidden := maps:merge(Hidden, New)}).

costs(#{probe := Probe, config := #{costs := Measured}}) ->
    dyno_agent_path_cost:costs(Probe, Measured).

since({Calls, Left}, {CallsBefore, LeftBefore}) -> {Calls - CallsBefore, Left - LeftBefore}.

hide(_MFA, #{hands := none}) -> ok;
hide(MFA, #{hands := Hands}) -> dyno_agent_path_hands:hide(Hands, MFA).

%% Functions that call the short ones less often than they are called, or all.
first(Short, Functions) ->
    IsShort = maps:from_keys(Short, true),
    Made = maps:groups_from_list(
        fun({Caller, _}) -> Caller end,
        fun({_, N}) -> N end,
        [
            {Caller, N}
         || MFA <- Short,
            {_, By} <- [map_get(MFA, Functions)],
            Caller := N <- By,
            Caller =/= MFA,
            is_map_key(Caller, IsShort)
        ]
    ),
    Leaves = [
        MFA
     || MFA <- Short,
        {#{calls := Calls}, _} <- [map_get(MFA, Functions)],
        2 * lists:sum(maps:get(MFA, Made, [])) < Calls
    ],
    case Leaves of
        [] -> Short;
        _ -> Leaves
    end.

%% Events of an ended process may still wait: it is dropped at the next check.
swept(#{paths := Paths, dead := Dead} = State) ->
    Gone = [Pid || Pid <- dyno_agent_paths:processes(Paths), not is_process_alive(Pid)],
    {Forgotten, New} = lists:partition(fun(Pid) -> is_map_key(Pid, Dead) end, Gone),
    State#{
        dead := maps:from_keys(New, true),
        paths := lists:foldl(fun dyno_agent_paths:forget/2, Paths, Forgotten),
        inside := maps:without(Forgotten, map_get(inside, State)),
        outside := maps:without(Forgotten, map_get(outside, State)),
        released := maps:without(Forgotten, map_get(released, State))
    }.

-spec info(term(), state()) -> dyno_agent_event_tracer:answer().
info({dyno_agent_path_hands, pace, Hands}, State) ->
    ok = dyno_agent_path_hands:paced(Hands),
    {ok, released(State)};
info({traces, Session}, State) ->
    Hands = dyno_agent_path_hands:start_link(Session),
    {parent, Watchdog} = process_info(self(), parent),
    _ = [trace:process(Session, Own, false, [all]) || Own <- [Hands, Watchdog], is_pid(Own)],
    {ok, State#{session := Session, hands := Hands, probe := dyno_agent_path_cost:probe(Session)}};
info(audible, #{silent := Since} = State) when is_integer(Since) ->
    {ok, audible(State)};
info({released, Pid, Time}, #{released := Released} = State) ->
    {ok, State#{released := Released#{Pid => Time}}};
info({peek, From}, #{config := #{sink := Sink}} = State) ->
    Sink ! {?MODULE, {peeked, From}, result(running, State)},
    {ok, State};
info(_Other, State) ->
    {ok, State}.

-spec stopped(dyno_agent_event_tracer:ended(), state()) -> ok.
stopped(#{reason := Reason}, #{config := #{sink := Sink}} = State) ->
    Sink ! {?MODULE, result(Reason, State)},
    ok.

-spec nothing(config(), Reason :: atom()) -> result().
nothing(Config, Reason) -> result(Reason, initial(Config)).

result(Reason, #{silent := Since} = State) when is_integer(Since) ->
    #{silent_for := Before} = State,
    Now = erlang:monotonic_time(),
    result(Reason, State#{silent := none, silent_for := Before + Now - Since});
result(Reason, #{paths := Paths, hidden := Hidden, ended := Ended} = State) ->
    Tree = dyno_agent_paths:tree(Paths),
    Costs = costs(State),
    #{
        nodes => dyno_agent_path_tree:nodes(Costs, Tree),
        costs => Costs,
        hidden => maps:to_list(Hidden),
        full => dyno_agent_path_tree:full(Tree),
        extents => Ended,
        events => map_get(events, State),
        silent_ns => erlang:convert_time_unit(map_get(silent_for, State), native, nanosecond),
        reason => Reason
    }.
