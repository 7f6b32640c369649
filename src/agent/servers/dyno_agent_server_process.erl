%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_process).
-moduledoc false.
%% One measured process: its identity, the facts beside the counters, its part of a window. Pure.

-export([new/3, rename/2, named/2, queue/2, observe/4, ended/4, is_ended/1, next/4, part/2]).
-export([woken/2, hook/3, flag/3, is_silent/2]).
-export([merge_buckets/2, callback_name/1, is_message/1]).
-export_type([t/0, outcome/0, taken/0, measured/0]).

-type t() :: #{
    server := dyno_agent_process_filter:process(),
    monitor := reference(),
    counters := dyno_agent_server_counters:t() | none,
    hook := none | asked | hooked | busy,
    since := integer(),
    flagged := boolean(),
    %% In this window: known from, ended at, and how long with a hook and timed. Monotonic.
    from := integer(),
    until := integer() | none,
    hook_time := time(),
    flag_time := time(),
    %% Whether the hook missed the calls of the last window.
    silent := boolean(),
    %% Measured only as one of the busiest.
    busiest := boolean(),
    %% Callbacks a second in the last window; the run time of the callback at its end.
    rate := number(),
    ran_ns := non_neg_integer(),
    %% The queue length: at the window's start, the last seen, the longest seen.
    queue_before := non_neg_integer(),
    queue_now := non_neg_integer(),
    queue_max := non_neg_integer(),
    observed := #{binary() => callback()},
    %% The delays of messages that found it idle, and the number of all that were traced.
    woken := {[{Index :: non_neg_integer(), pos_integer()}], non_neg_integer()},
    %% The message that ended it.
    last := [{dyno_agent_server_hook:name(), Ns :: non_neg_integer()}],
    state := alive | dyno_agent_server_end:how(),
    reason := binary() | undefined
}.

-type time() :: {Ns :: non_neg_integer(), Since :: integer() | none}.

-type outcome() :: returned | exception | stop.

-doc "The time of a callback; `counted` if counted elsewhere.".
-type taken() :: Ns :: non_neg_integer() | unknown | counted.

-type callback() :: #{
    buckets := [{non_neg_integer(), pos_integer()}],
    untimed := non_neg_integer(),
    exceptions := non_neg_integer(),
    stops := non_neg_integer()
}.

-type measured() :: #{
    level := dyno_agent_servers:level(),
    elapsed_ns := non_neg_integer(),
    now := integer(),
    values := dyno_agent_server_counters:values(),
    names := #{dyno_agent_server_counters:series() => dyno_agent_server_hook:name()},
    times := #{binary() => {non_neg_integer(), CpuNs :: non_neg_integer(), Words :: integer()}},
    running := dyno_agent_servers:running() | none,
    stage := dyno_agent_servers:stage() | none,
    manager := dyno_agent_server_managers:busy() | {undefined, 0},
    atom() => term()
}.

-define(INFOS, [
    ~"timeout",
    ~"handle_events",
    ~"handle_demand",
    ~"handle_subscribe",
    ~"handle_cancel",
    ~"(no callback)"
]).
%% A flag is set a moment after the process is found.
-define(SOON_NS, 1_000_000).
%% An error of the delay that does not matter.
-define(FINE_NS, 500_000).
-define(NOT_OBSERVED, #{buckets => [], untimed => 0, exceptions => 0, stops => 0}).
-define(BUSY, ~"it has not answered sys for two seconds").
-define(NOT_YET, ~"it has not answered sys yet").
-define(MANAGER, ~"event managers tell sys nothing of the end of a callback").

-doc "A process known since this time; if its beginning was seen, all of its calls were timed.".
-spec new(dyno_agent_process_filter:process(), Queue, {found | begun, integer()}) -> t() when
    Queue :: non_neg_integer().
new(#{pid := Pid} = Server, Queue, {How, From}) ->
    #{
        server => Server,
        monitor => monitor(process, Pid),
        counters => none,
        hook => none,
        since => 0,
        flagged => How =:= begun,
        from => From,
        until => none,
        hook_time => {0, none},
        flag_time =>
            case How of
                begun -> {0, From};
                found -> {0, none}
            end,
        silent => false,
        busiest => false,
        rate => 0,
        ran_ns => 0,
        queue_before => Queue,
        queue_now => Queue,
        queue_max => Queue,
        observed => #{},
        woken => {[], 0},
        last => [],
        state => alive,
        reason => undefined
    }.

-spec hook(none | asked | hooked | busy, integer(), t()) -> t().
hook(hooked, Now, #{hook_time := Time} = Process) ->
    Process#{hook := hooked, hook_time := runs(Now, Time)};
hook(Hook, Now, #{hook_time := Time} = Process) ->
    Process#{hook := Hook, hook_time := stands(Now, Time)}.

-spec flag(boolean(), integer(), t()) -> t().
flag(true, Now, #{flag_time := Time} = Process) ->
    Process#{flagged := true, flag_time := runs(Now, Time)};
flag(false, Now, #{flag_time := Time} = Process) ->
    Process#{flagged := false, flag_time := stands(Now, Time)}.

runs(Now, {Ns, none}) -> {Ns, Now};
runs(_Now, Time) -> Time.

stands(_Now, {_, none} = Time) -> Time;
stands(Now, {Ns, Since}) -> {Ns + max(0, Now - Since), none}.

-spec rename(module(), t()) -> t().
rename(Module, #{server := #{kind := module} = Server} = Process) ->
    Process#{server := Server#{module := Module, name := dyno_agent_name:module(Module)}};
rename(Module, #{server := Server} = Process) ->
    Process#{server := Server#{module := Module}}.

-spec named(dyno_agent_process_filter:process(), t()) -> t().
named(#{kind := Kind} = Described, #{server := Server} = Process) when Kind =/= module ->
    Named = maps:with([registered, label, kind, name], Described),
    Process#{server := maps:merge(Server, Named)};
named(_Unnamed, Process) ->
    Process.

-spec queue(non_neg_integer(), t()) -> t().
queue(Queue, #{queue_max := Max} = Process) ->
    Process#{queue_now := Queue, queue_max := max(Max, Queue)}.

-doc "Counts a callback whose end the hook cannot see.".
-spec observe(binary(), outcome(), taken(), t()) -> t().
observe(Name, Outcome, Ns, #{observed := Observed} = Process) ->
    Before = maps:get(Name, Observed, ?NOT_OBSERVED),
    Process#{observed := Observed#{Name => outcome(Outcome, timed(Ns, Before))}}.

timed(counted, Callback) ->
    Callback;
timed(unknown, #{untimed := Untimed} = Callback) ->
    Callback#{untimed := Untimed + 1};
timed(Ns, #{buckets := Buckets} = Callback) ->
    Callback#{buckets := merge_buckets(Buckets, [{dyno_agent_server_counters:index(Ns), 1}])}.

-spec woken(dyno_agent_server_wakes:woken(), t()) -> t().
woken({Delays, Seen}, #{woken := {Buckets, Before}} = Process) ->
    Add = fun(Ns, Sum) -> merge_buckets(Sum, [{dyno_agent_server_counters:index(Ns), 1}]) end,
    Process#{woken := {lists:foldl(Add, Buckets, Delays), Before + Seen}}.

outcome(returned, Callback) -> Callback;
outcome(exception, #{exceptions := Count} = Callback) -> Callback#{exceptions := Count + 1};
outcome(stop, #{stops := Count} = Callback) -> Callback#{stops := Count + 1}.

-spec ended(How, term(), {dyno_agent_server_hook:name(), outcome(), taken()} | none, t()) ->
    t()
when
    How :: dyno_agent_server_end:how().
ended(How, Reason, UnderWay, Process) ->
    Now = erlang:monotonic_time(nanosecond),
    Ended = flag(
        false,
        Now,
        hook(none, Now, Process#{
            state := How,
            reason := printed(Reason),
            queue_now := 0,
            until := Now
        })
    ),
    case UnderWay of
        none ->
            Ended;
        {{Callback, _} = Name, Outcome, Ns} ->
            Last = [{Name, Ns} || is_integer(Ns)],
            observe(callback_name(Callback), Outcome, Ns, Ended#{last := Last})
    end.

printed(noproc) ->
    ~"it had ended before dyno could ask why";
printed({init, Why}) ->
    text("~0tP in init", [Why, 12]);
%% An exception of Elixir's.
printed({#{'__exception__' := true, '__struct__' := Module, message := <<Message/binary>>}, _}) ->
    text("~ts: ~ts", [dyno_agent_name:module(Module), Message]);
printed(Reason) ->
    dyno_agent_name:in_elixir(text("~0tP", [Reason, 12])).

text(Format, Arguments) ->
    <<_/binary>> = unicode:characters_to_binary(
        io_lib:format(Format, Arguments, [{chars_limit, 120}])
    ).

-spec is_ended(t()) -> boolean().
is_ended(#{state := State}) -> State =/= alive.

-doc "Begins a window; takes callbacks a second, and the run time of the callback at its end.".
-spec next(number(), non_neg_integer(), integer(), t()) -> t().
next(Rate, RanNs, Now, #{queue_now := Queue, hook_time := Hook, flag_time := Flag} = Process) ->
    Process#{
        rate := Rate,
        ran_ns := RanNs,
        queue_before := Queue,
        queue_max := Queue,
        observed := #{},
        woken := {[], 0},
        last := [],
        from := Now,
        hook_time := restarted(Now, Hook),
        flag_time := restarted(Now, Flag)
    }.

restarted(_Now, {_, none}) -> {0, none};
restarted(Now, {_, _}) -> {0, Now}.

-spec is_silent(t(), measured()) -> boolean().
is_silent(#{hook := hooked, from := From, hook_time := {_, Since}}, Measured) when
    Since =< From, map_get(running, Measured) =:= none
->
    #{times := Times, values := #{series := Series}} = Measured,
    map_size(Series) =:= 0 andalso lists:sum([Count || {Count, _, _} <- maps:values(Times)]) > 0;
is_silent(_Process, _Measured) ->
    false.

-spec merge_buckets(Buckets, Buckets) -> Buckets when
    Buckets :: [{non_neg_integer(), pos_integer()}].
merge_buckets([{I, A} | As], [{I, B} | Bs]) -> [{I, A + B} | merge_buckets(As, Bs)];
merge_buckets([{I, _} = A | As], [{J, _} | _] = Bs) when I < J -> [A | merge_buckets(As, Bs)];
merge_buckets([_ | _] = As, [B | Bs]) -> [B | merge_buckets(As, Bs)];
merge_buckets([], Bs) -> Bs;
merge_buckets(As, []) -> As.

-spec part(t(), measured()) -> dyno_agent_servers:server().
part(Process, #{values := #{queue_max := Max} = Values, times := Times} = Measured) ->
    #{server := Server, queue_before := Before, queue_now := Now, queue_max := Seen} = Process,
    Queue = dyno_agent_server_counters:lengths(dyno_agent_server_hook:buckets(queue, Values)),
    #{ancestors := Ancestors} = Server,
    Callbacks = callbacks(Process, Measured),
    Served = lists:sum([
        Count
     || #{name := Name, count := Count} <- Callbacks, is_served(Name, map_get(behaviour, Server))
    ]),
    {By, Why} = by(Process, Measured),
    WallNs = wall_ns(By, Callbacks),
    {BusyNs, BusyOfNs} = busy(By, WallNs, Process, Measured),
    {Delay, Unknown, Method} = delay(Server, Values),
    #{woken := {Woken, WokenOf}} = Process,
    MostWoken = dyno_agent_server_hook:buckets(most_woken, Values),
    Known = [pid, name, kind, module, behaviour, application, state, reason, running, stage],
    (maps:with(Known, maps:merge(Server, maps:merge(Process, Measured))))#{
        supervisor => supervisor(Ancestors),
        measured => By,
        why => Why,
        callbacks => Callbacks,
        queue_now => Now,
        queue_max => max(Seen, Max),
        queue_low => lists:min([Before, Now | [Min || #{min := Min} <- [Queue]]]),
        queue => Queue,
        delay => Delay,
        delay_low => delay_low(Delay, Values),
        delay_missed => delay_missed(Served, Delay, {Process, Measured}),
        delay_high => delay_high(Delay, postponed(Callbacks), Values),
        delay_method => Method,
        woken => dyno_agent_server_counters:histogram(Woken),
        woken_of => WokenOf,
        woken_high => dyno_agent_server_counters:histogram(MostWoken),
        delay_unknown => Unknown,
        wall_ns => WallNs,
        busy_ns => BusyNs,
        busy_of_ns => BusyOfNs,
        life_ns => life_ns(Process, Measured),
        cpu_of_ns => ns(map_get(flag_time, Process), Measured),
        asked_ns => asked_ns(Process, Measured),
        missed => lists:sum([N || #{missed := N} <- Callbacks]),
        cpu_ns => sum_of(2, Times),
        words => sum_of(3, Times),
        grown => grown(By, Process),
        dirty => map_get(dirty, Values),
        served => Served,
        tags => tags(Process, Measured)
    }.

by(Process, Measured) ->
    IsSilent = is_silent(Process, Measured),
    case {ns(map_get(hook_time, Process), Measured), ns(map_get(flag_time, Process), Measured)} of
        {HookNs, _} when HookNs > 0, not IsSilent -> {hook, undefined};
        {_, FlagNs} when FlagNs > 0 -> {call_time, why(Process)};
        {_, _} -> {none, why(Process)}
    end.

ns({Ns, none}, _Measured) -> Ns;
ns({Ns, Since}, #{now := Now}) -> Ns + max(0, Now - Since).

%% The request to sys waits behind all messages of other processes.
asked_ns(#{hook := Hook, since := Since, state := alive}, #{now := Now}) when
    Hook =:= asked; Hook =:= busy
->
    max(0, Now - Since);
asked_ns(_Process, _Measured) ->
    undefined.

life_ns(#{from := From, until := none}, #{now := Now}) -> max(1, Now - From);
life_ns(#{from := From, until := Until}, _Measured) -> max(1, Until - From).

why(#{state := State}) when State =/= alive -> undefined;
why(#{hook := asked}) -> ?NOT_YET;
why(#{hook := busy}) -> ?BUSY;
why(#{server := #{behaviour := gen_event}}) -> ?MANAGER;
why(_Process) -> undefined.

%% A supervisor starts a child in another callback.
wall_ns(hook, Callbacks) ->
    lists:sum([
        Sum
     || #{name := Name, wall := #{sum := Sum}} <- Callbacks, Name =/= ~"start child"
    ]);
wall_ns(_By, _Callbacks) ->
    undefined.

%% The busy time, and the time it is a part of; the processor time may be a lower bound.
busy(_By, _WallNs, #{server := #{behaviour := gen_event}}, #{manager := Busy}) ->
    Busy;
busy(By, WallNs, #{state := State} = Process, #{times := Times} = Measured) ->
    HookNs = ns(map_get(hook_time, Process), Measured),
    LifeNs = life_ns(Process, Measured),
    case {By, is_flagged_longer(Process, Measured)} of
        {hook, true} when 2 * HookNs < LifeNs ->
            {max(WallNs + running_ns(Process, Measured), sum_of(2, Times, 0)), LifeNs};
        {hook, _} ->
            {WallNs + running_ns(Process, Measured), HookNs};
        {call_time, true} when State =/= alive ->
            {sum_of(2, Times, 0), LifeNs};
        {_, _} when map_get(hook, Process) =:= busy ->
            #{server := #{pid := Pid}} = Process,
            case process_info(Pid, [status, message_queue_len, current_stacktrace]) of
                %% On a saturated node it may wait for its turn; or its answer is on its way.
                [{_, Status}, {_, Waiting}, {_, Stack}] when Status =/= runnable, Waiting > 0 ->
                    %% A server that was idle once since then would have answered sys.
                    NeverIdleNs = min(LifeNs, asked_ns(Process, Measured)),
                    case is_in_callback(Stack) of
                        true -> {NeverIdleNs, NeverIdleNs};
                        false -> {undefined, 0}
                    end;
                _ ->
                    {undefined, 0}
            end;
        {_, _} ->
            {undefined, 0}
    end.

%% Suspended between two callbacks, or before the first one: its name is not registered yet.
is_in_callback([{Innermost, _, _, _} | _] = Stack) ->
    not lists:any(fun({M, F, _, _}) -> {M, F} =:= {gen, register_name} end, Stack) andalso
        not lists:member(Innermost, [gen_server, gen_statem, gen_event, gen_fsm]);
is_in_callback([]) ->
    false.

%% It began in this window, or ended before the hook was there; event managers are never timed.
is_flagged_longer(#{server := #{behaviour := gen_event}}, _Measured) ->
    false;
is_flagged_longer(#{hook_time := Hook, flag_time := Flag} = Process, Measured) ->
    FlagNs = ns(Flag, Measured),
    FlagNs > ns(Hook, Measured) andalso FlagNs + ?SOON_NS >= life_ns(Process, Measured).

%% A callback counts at its end, with all of its time. A server blocked for ten windows would be
%% idle in nine and busy ten times over in the last. So each window gets the time that ran in it.
running_ns(#{state := alive, ran_ns := Before}, #{running := #{ns := Ns}} = Measured) ->
    %% A callback unknown to the first window began earlier.
    min(Ns, Before + map_get(elapsed_ns, Measured)) - Before;
running_ns(#{ran_ns := Before}, _NoneRuns) ->
    -Before.

%% Callbacks of messages. An event manager may call several handlers for one message, or none.
is_served(Name, gen_event) ->
    Name =:= ~"(message)";
is_served(Name, _Behaviour) ->
    is_message(Name).

-doc "Whether it is for a message done then: no continuation, postponed or internal event.".
-spec is_message(binary()) -> boolean().
is_message(Name) ->
    not lists:member(Name, [~"init", ~"terminate", ~"handle_continue", ~"start child"]) andalso
        binary:match(Name, [~"/internal", ~" (postponed)"]) =:= nomatch.

grown(none, _Process) -> undefined;
grown(_By, #{state := State}) when State =/= alive -> undefined;
grown(_By, #{queue_before := Before, queue_now := Now}) -> Now - Before.

supervisor([Name | _]) when is_atom(Name) -> dyno_agent_name:module(Name);
supervisor([Pid | _]) -> list_to_binary(pid_to_list(Pid));
supervisor([]) -> undefined.

delay(#{queue := own}, _Values) ->
    {none, 0, ~"not known: it keeps a queue of its own"};
delay(_Server, Values) ->
    Method = ~"arrival between two samples of the queue's length",
    Of = fun(What) ->
        dyno_agent_server_counters:histogram(dyno_agent_server_hook:buckets(What, Values))
    end,
    case {Of(delay), Of(least_delay)} of
        %% If messages are rare, the samples do not tell their arrival: the lower bound is no wait.
        {#{count := Count, sum := Ns}, #{sum := LeastNs}} when
            Ns - LeastNs > ?FINE_NS * Count, Ns > 2 * LeastNs
        ->
            {dyno_agent_server_counters:histogram([{0, Count}]), Count, Method};
        {Delay, _} ->
            {Delay, 0, Method}
    end.

%% Those that were served before there was a hook.
delay_missed(Served, #{count := Count}, {#{hook_time := Time} = Process, Measured}) ->
    case ns(Time, Measured) + ?SOON_NS < life_ns(Process, Measured) of
        true -> max(0, Served - Count);
        false -> 0
    end;
delay_missed(Served, none, _Process) ->
    Served.

delay_low(none, _Values) -> none;
delay_low(_Delay, Values) ->
    dyno_agent_server_counters:histogram(dyno_agent_server_hook:buckets(least_delay, Values)).

%% A postponed message waits on, unseen: each may be one of those that seemed to wait the least.
delay_high(none, _Postponed, _Values) ->
    none;
delay_high(#{count := Count}, Postponed, Values) ->
    Most = merge_buckets(
        dyno_agent_server_hook:buckets(most_delay, Values),
        dyno_agent_server_hook:buckets(most_woken, Values)
    ),
    Endless = [{dyno_agent_server_counters:index(1 bsl 62), min(Count, Postponed)}],
    dyno_agent_server_counters:histogram(
        without_least(Postponed, Most) ++ [Of || {_, N} = Of <- Endless, N > 0]
    ).

without_least(N, [{_, Count} | Buckets]) when N >= Count -> without_least(N - Count, Buckets);
without_least(N, [{Index, Count} | Buckets]) -> [{Index, Count - N} | Buckets];
without_least(_N, []) -> [].

postponed(Callbacks) ->
    lists:sum([
        Count
     || #{name := Name, count := Count} <- Callbacks,
        binary:match(Name, ~" (postponed)") =/= nomatch
    ]).

sum_of(Position, Times) -> sum_of(Position, Times, undefined).

sum_of(_Position, Times, None) when map_size(Times) =:= 0 -> None;
sum_of(Position, Times, _None) ->
    lists:sum([element(Position, Time) || Time <- maps:values(Times)]).

%% Callbacks

callbacks(#{observed := Observed} = Process, #{times := All} = Measured) ->
    Hooked = by_callback(Measured),
    Times = times_of(All, Hooked),
    Longer = is_flagged_longer(Process, Measured),
    Names = lists:usort(maps:keys(Observed) ++ maps:keys(Times) ++ maps:keys(Hooked)),
    [
        callback(
            Name,
            maps:get(Name, Hooked, []),
            maps:get(Name, Observed, ?NOT_OBSERVED),
            maps:get(Name, Times, {0, undefined, undefined}),
            {Longer, under_way(Name, Measured)}
        )
     || Name <- Names
    ].

%% The runtime counts begins, the hook ends: a callback between windows would count in two.
under_way(Name, #{running := #{callback := Name}}) -> 1;
under_way(_Name, _Measured) -> 0.

%% For gen_server, a timeout and GenStage's messages are all infos, which only the hook
%% distinguishes: their processor time is shared. The same holds for the events of a state machine.
times_of(Times, Hooked) ->
    Together =
        [~"(event)" || map_size(Hooked) > 0] ++
            [~"handle_info" || map_size(maps:with(?INFOS, Hooked)) > 0],
    maps:without(Together, Times).

by_callback(Measured) ->
    lists:foldl(
        fun({{Callback, _Kind}, Buckets}, Sums) ->
            Merge = fun(Before) -> merge_buckets(Before, Buckets) end,
            maps:update_with(callback_name(Callback), Merge, Buckets, Sums)
        end,
        #{},
        named(Measured)
    ).

named(#{values := #{series := Series}, names := Names}) ->
    [{Name, Buckets} || Id := Buckets <- Series, #{Id := Name} <- [Names]].

-spec callback_name(atom() | {atom(), atom()}) -> binary().
callback_name({State, Type}) ->
    <<(atom_to_binary(State))/binary, "/", (atom_to_binary(Type))/binary>>;
callback_name(Name) ->
    atom_to_binary(Name).

callback(Name, Hooked, Observed, {Calls, CpuNs, Words}, {Longer, UnderWay}) ->
    #{buckets := More, untimed := Untimed} = Observed,
    Wall = dyno_agent_server_counters:histogram(merge_buckets(Hooked, More)),
    Ended =
        case Wall of
            none -> Untimed;
            #{count := Timed} -> Timed + Untimed
        end,
    Count =
        case Wall of
            _ when Longer -> max(Calls - UnderWay, Ended);
            none -> max(Calls - UnderWay, Ended);
            #{} -> Ended
        end,
    (maps:with([exceptions, stops], Observed))#{
        name => Name,
        count => Count,
        missed =>
            case Longer of
                true -> Count - Ended;
                false -> 0
            end,
        wall => Wall,
        cpu_ns => CpuNs,
        words => Words
    }.

tags(#{last := Last}, Measured) ->
    Hooked = [
        {Name, Count, Sum}
     || {Name, Buckets} <- named(Measured),
        #{count := Count, sum := Sum} <- [dyno_agent_server_counters:histogram(Buckets)]
    ],
    Ended = [{Name, 1, Ns} || {Name, Ns} <- Last],
    [
        #{
            tag => atom_to_binary(Kind),
            callback => callback_name(Callback),
            count => lists:sum([Count || {_, Count, _} <- Of]),
            wall_ns => lists:sum([Ns || {_, _, Ns} <- Of])
        }
     || {Callback, Kind} := Of <- maps:groups_from_list(
            fun({Name, _, _}) -> Name end, Hooked ++ Ended
        ),
        Kind =/= none
    ].
