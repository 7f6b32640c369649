%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_process).
-moduledoc false.
%% One measured process: what it is, how it is measured, and what is known of it besides its
%% counters. Makes of all that its part of a window. Pure.

-export([new/3, rename/2, queue/2, observe/4, ended/4, is_ended/1, next/3, part/2]).
-export([merge_buckets/2, callback_name/1]).
-export_type([t/0, outcome/0, taken/0, measured/0]).

-type t() :: #{
    server := dyno_agent_server_choice:server(),
    monitor := reference(),
    counters := dyno_agent_server_counters:t() | none,
    hook := none | asked | hooked | busy,
    %% When sys was asked.
    since := integer(),
    flagged := boolean(),
    %% Whether it is measured only since it is one of the busiest.
    busiest := boolean(),
    %% Callbacks a second in the last window, and how long the one at its end had run by then.
    rate := number(),
    ran_ns := non_neg_integer(),
    %% The length of the queue when the window began, the last seen and the longest seen.
    queue_before := non_neg_integer(),
    queue_now := non_neg_integer(),
    queue_max := non_neg_integer(),
    observed := #{binary() => callback()},
    state := alive | ended | crashed,
    reason := binary() | undefined
}.

-type outcome() :: returned | exception | stop.

-doc """
How long a callback took; `counted` where it is counted elsewhere.
""".
-type taken() :: Ns :: non_neg_integer() | unknown | counted.

-type callback() :: #{
    buckets := [{non_neg_integer(), pos_integer()}],
    %% Of which the time is not known.
    untimed := non_neg_integer(),
    exceptions := non_neg_integer(),
    stops := non_neg_integer()
}.

-doc """
What was measured in a window: by the hook its counters and the names of their series; by call_time
the count, time and words of each callback.
""".
-type measured() :: #{
    level := dyno_agent_servers:level(),
    %% Since the window began.
    elapsed_ns := non_neg_integer(),
    values := dyno_agent_server_counters:values(),
    names := #{dyno_agent_server_counters:series() => dyno_agent_server_hook:name()},
    times := #{binary() => {non_neg_integer(), CpuNs :: non_neg_integer(), Words :: integer()}},
    running := dyno_agent_servers:running() | none,
    stage := dyno_agent_servers:stage() | none,
    atom() => term()
}.

%% Infos that have callbacks of their own.
-define(INFOS, [
    ~"timeout", ~"handle_events", ~"handle_demand", ~"handle_subscribe", ~"handle_cancel",
    ~"(no callback)"
]).
-define(NOT_OBSERVED, #{buckets => [], untimed => 0, exceptions => 0, stops => 0}).
-define(BUSY, ~"it has not answered sys for two seconds").
-define(NOT_YET, ~"it has not answered sys yet").
-define(MANAGER, ~"event managers tell sys nothing of the end of a callback").

-doc "A process, with the length of its queue.".
-spec new(dyno_agent_server_choice:server(), reference(), non_neg_integer()) -> t().
new(Server, Monitor, Queue) ->
    #{
        server => Server,
        monitor => Monitor,
        counters => none,
        hook => none,
        since => 0,
        flagged => false,
        busiest => false,
        rate => 0,
        ran_ns => 0,
        queue_before => Queue,
        queue_now => Queue,
        queue_max => Queue,
        observed => #{},
        state => alive,
        reason => undefined
    }.

-doc "GenStage has told the user's module.".
-spec rename(module(), t()) -> t().
rename(Module, #{server := #{kind := module} = Server} = Process) ->
    Process#{server := Server#{module := Module, name := dyno_agent_name:module(Module)}};
rename(Module, #{server := Server} = Process) ->
    Process#{server := Server#{module := Module}}.

-doc "The length of its queue now.".
-spec queue(non_neg_integer(), t()) -> t().
queue(Queue, #{queue_max := Max} = Process) ->
    Process#{queue_now := Queue, queue_max := max(Max, Queue)}.

-doc "A callback that the hook cannot see the end of, and its time.".
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

outcome(returned, Callback) -> Callback;
outcome(exception, #{exceptions := Count} = Callback) -> Callback#{exceptions := Count + 1};
outcome(stop, #{stops := Count} = Callback) -> Callback#{stops := Count + 1}.

-doc "It has ended, with a callback under way or without; its reason is printed shortly.".
-spec ended(ended | crashed, term(), {binary(), outcome(), taken()} | none, t()) -> t().
ended(How, Reason, UnderWay, Process) ->
    Text = io_lib:format("~0tP", [Reason, 12], [{chars_limit, 120}]),
    Ended = Process#{state := How, reason := unicode:characters_to_binary(Text), queue_now := 0},
    case UnderWay of
        none -> Ended;
        {Name, Outcome, Ns} -> observe(Name, Outcome, Ns, Ended)
    end.

-spec is_ended(t()) -> boolean().
is_ended(#{state := State}) -> State =/= alive.

-doc """
A new window begins; in the last one it had so many callbacks a second, and one ran so long at its
end.
""".
-spec next(number(), non_neg_integer(), t()) -> t().
next(Rate, RanNs, #{queue_now := Queue} = Process) ->
    Process#{
        rate := Rate, ran_ns := RanNs, queue_before := Queue, queue_max := Queue, observed := #{}
    }.

-spec merge_buckets(Buckets, Buckets) -> Buckets when
    Buckets :: [{non_neg_integer(), pos_integer()}].
merge_buckets([{I, A} | As], [{I, B} | Bs]) -> [{I, A + B} | merge_buckets(As, Bs)];
merge_buckets([{I, _} = A | As], [{J, _} | _] = Bs) when I < J -> [A | merge_buckets(As, Bs)];
merge_buckets([_ | _] = As, [B | Bs]) -> [B | merge_buckets(As, Bs)];
merge_buckets([], Bs) -> Bs;
merge_buckets(As, []) -> As.

-spec part(t(), measured()) -> dyno_agent_servers:server().
part(Process, #{values := #{queue_max := Max} = Values, times := Times} = Measured) ->
    #{server := Server, queue_now := Now, queue_max := Seen} = Process,
    #{ancestors := Ancestors} = Server,
    Callbacks = callbacks(Process, Measured),
    Served = lists:sum([Count || #{name := Name, count := Count} <- Callbacks, is_served(Name)]),
    {By, Why} = by(Process, Measured),
    {WallNs, BusyNs} = busy(By, Callbacks, running_ns(Process, Measured)),
    {Delay, Method, ErrorNs} = delay(Server, Values),
    Known = [pid, name, kind, module, behaviour, application, state, reason, running, stage],
    (maps:with(Known, maps:merge(Server, maps:merge(Process, Measured))))#{
        supervisor => supervisor(Ancestors),
        measured => By,
        why => Why,
        callbacks => Callbacks,
        queue_now => Now,
        queue_max => max(Seen, Max),
        queue => dyno_agent_server_counters:lengths(dyno_agent_server_hook:buckets(queue, Values)),
        delay => Delay,
        delay_method => Method,
        delay_error_ns => ErrorNs,
        wall_ns => WallNs,
        busy_ns => BusyNs,
        cpu_ns => sum_of(2, Times),
        words => sum_of(3, Times),
        arrived => arrived(By, Served, Process),
        served => Served,
        tags => tags(Measured)
    }.

by(#{hook := hooked}, _Measured) -> {hook, undefined};
by(_NoHook, #{level := rate}) -> {none, undefined};
by(#{flagged := true} = Process, _Measured) -> {call_time, why(Process)};
by(Process, _Measured) -> {none, why(Process)}.

why(#{hook := asked}) -> ?NOT_YET;
why(#{hook := busy}) -> ?BUSY;
why(#{server := #{behaviour := gen_event}}) -> ?MANAGER;
why(_Process) -> undefined.

%% Only the hook knows.
busy(hook, Callbacks, RunningNs) ->
    WallNs = lists:sum([Sum || #{wall := #{sum := Sum}} <- Callbacks]),
    {WallNs, WallNs + RunningNs};
busy(_By, _Callbacks, _RunningNs) ->
    {undefined, undefined}.

%% A callback is counted when it has ended, with all of its time: a server that is blocked for ten
%% windows would be idle in nine and busy ten times over in the last. So each gets what ran in it.
running_ns(#{state := alive, ran_ns := Before}, #{running := #{ns := Ns}} = Measured) ->
    %% What the first window does not know began before it.
    min(Ns, Before + map_get(elapsed_ns, Measured)) - Before;
running_ns(#{ran_ns := Before}, _NoneRuns) ->
    -Before.

%% What comes from a message.
is_served(Name) ->
    not lists:member(Name, [~"init", ~"terminate", ~"handle_continue", ~"start child"]).

arrived(none, _Served, _Process) -> undefined;
arrived(_By, _Served, #{state := State}) when State =/= alive -> undefined;
arrived(_By, Served, #{queue_before := Before, queue_now := Now}) -> max(0, Served + Now - Before).

supervisor([Name | _]) when is_atom(Name) -> dyno_agent_name:module(Name);
supervisor([Pid | _]) -> list_to_binary(pid_to_list(Pid));
supervisor([]) -> undefined.

delay(#{queue := own}, _Values) ->
    {none, ~"not known: it keeps a queue of its own", undefined};
delay(_Server, #{delay_error := ErrorNs} = Values) ->
    Method = ~"arrival between two samples of the queue's length",
    case dyno_agent_server_counters:histogram(dyno_agent_server_hook:buckets(delay, Values)) of
        none -> {none, Method, undefined};
        #{count := Count} = Histogram -> {Histogram, Method, ErrorNs div Count}
    end.

sum_of(_Position, Times) when map_size(Times) =:= 0 -> undefined;
sum_of(Position, Times) -> lists:sum([element(Position, Time) || Time <- maps:values(Times)]).

%% Callbacks

callbacks(#{observed := Observed}, #{times := All} = Measured) ->
    Hooked = by_callback(Measured),
    Times = times_of(All, Hooked),
    Names = lists:usort(maps:keys(Observed) ++ maps:keys(Times) ++ maps:keys(Hooked)),
    [
        callback(
            Name,
            maps:get(Name, Hooked, []),
            maps:get(Name, Observed, ?NOT_OBSERVED),
            maps:get(Name, Times, {0, undefined, undefined})
        )
     || Name <- Names
    ].

%% To gen_server a timeout and the messages of GenStage are all infos, which the hook tells apart:
%% what they took of the processor together is none's alone. So it is with the events of a state
%% machine.
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

callback(Name, Hooked, #{buckets := More, untimed := Untimed} = Observed, {Calls, CpuNs, Words}) ->
    Wall = dyno_agent_server_counters:histogram(merge_buckets(Hooked, More)),
    (maps:with([exceptions, stops], Observed))#{
        name => Name,
        count =>
            case Wall of
                none -> max(Calls, Untimed);
                #{count := Timed} -> Timed + Untimed
            end,
        wall => Wall,
        cpu_ns => CpuNs,
        words => Words
    }.

tags(Measured) ->
    [
        #{
            tag => atom_to_binary(Kind), callback => callback_name(Callback),
            count => Count, wall_ns => Sum
        }
     || {{Callback, Kind}, Buckets} <- named(Measured),
        Kind =/= none,
        #{count := Count, sum := Sum} <- [dyno_agent_server_counters:histogram(Buckets)]
    ].
