%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_process).
-moduledoc false.
%% One measured process: what it is, how it is measured, and what is known of it besides its
%% counters. Makes of all that its part of a window. Pure.

-export([new/3, rename/2, queue/2, observe/4, ended/4, is_ended/1, next/2, part/3]).
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
    %% Callbacks a second in the last window.
    rate := number(),
    %% The length of the queue when the window began, the last seen and the longest seen.
    queue_before := non_neg_integer(),
    queue_now := non_neg_integer(),
    queue_max := non_neg_integer(),
    observed := #{binary() => callback()},
    state := alive | ended | crashed,
    reason := binary() | undefined
}.

-doc "How a callback ended.".
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
    values := dyno_agent_server_counters:values(),
    names := #{dyno_agent_server_counters:series() => dyno_agent_server_hook:name()},
    times := #{binary() => {non_neg_integer(), CpuNs :: non_neg_integer(), Words :: integer()}},
    by := hook | call_time | none,
    why_not_hook := binary() | undefined
}.

%% Infos that have callbacks of their own.
-define(INFOS, [
    ~"timeout", ~"handle_events", ~"handle_demand", ~"handle_subscribe", ~"handle_cancel",
    ~"(no callback)"
]).
-define(OWN_QUEUE, ~"not known: it keeps a queue of its own").
-define(DELAY_METHOD, ~"arrival between two samples of the queue's length").

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
    None = #{buckets => [], untimed => 0, exceptions => 0, stops => 0},
    Before = maps:get(Name, Observed, None),
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

-doc "A new window begins; in the last one it had so many callbacks a second.".
-spec next(number(), t()) -> t().
next(Rate, #{queue_now := Queue} = Process) ->
    Process#{rate := Rate, queue_before := Queue, queue_max := Queue, observed := #{}}.

-doc "Both together.".
-spec merge_buckets(Buckets, Buckets) -> Buckets when
    Buckets :: [{non_neg_integer(), pos_integer()}].
merge_buckets([{I, A} | As], [{I, B} | Bs]) -> [{I, A + B} | merge_buckets(As, Bs)];
merge_buckets([{I, _} = A | As], [{J, _} | _] = Bs) when I < J -> [A | merge_buckets(As, Bs)];
merge_buckets([_ | _] = As, [B | Bs]) -> [B | merge_buckets(As, Bs)];
merge_buckets([], Bs) -> Bs;
merge_buckets(As, []) -> As.

-doc "Its part of a window that began so long ago.".
-spec part(t(), measured(), dyno_agent_servers:stage() | none) -> dyno_agent_servers:server().
part(Process, #{by := By, why_not_hook := Why, times := Times} = Measured, Stage) ->
    #{server := Server, state := State, reason := Reason} = Process,
    Callbacks = callbacks(Process, Measured),
    Served = lists:sum([Count || #{name := Name, count := Count} <- Callbacks, is_served(Name)]),
    #{pid := Pid, ancestors := Ancestors} = Server,
    (maps:with([name, kind, module, behaviour, application], Server))#{
        pid => Pid,
        supervisor => supervisor(Ancestors),
        state => State,
        reason => Reason,
        measured => By,
        why_not_hook => Why,
        callbacks => Callbacks,
        queue => queues(Process, Measured),
        delay => delay(Server, Measured),
        wall_ns => lists:sum([Sum || #{wall := #{sum := Sum}} <- Callbacks]),
        cpu_ns => sum_of(2, Times),
        words => sum_of(3, Times),
        arrived => arrived(By, Served, Process),
        served => Served,
        tags => tags(Measured),
        stage => Stage
    }.

%% What comes from a message.
is_served(~"init") -> false;
is_served(~"terminate") -> false;
is_served(~"handle_continue") -> false;
is_served(~"start child") -> false;
is_served(_Name) -> true.

arrived(none, _Served, _Process) -> undefined;
arrived(_By, _Served, #{state := State}) when State =/= alive -> undefined;
arrived(_By, Served, #{queue_before := Before, queue_now := Now}) -> max(0, Served + Now - Before).

supervisor([Name | _]) when is_atom(Name) -> dyno_agent_name:module(Name);
supervisor([Pid | _]) -> list_to_binary(pid_to_list(Pid));
supervisor([]) -> undefined.

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
            maps:get(Name, Observed, #{buckets => [], untimed => 0, exceptions => 0, stops => 0}),
            maps:get(Name, Times, none)
        )
     || Name <- Names
    ].

%% To gen_server a timeout and the messages of GenStage are all infos, which the hook tells apart:
%% what they took of the processor together is none's alone. So it is with the events of a state
%% machine.
times_of(Times, Hooked) when map_size(Hooked) =:= 0 ->
    Times;
times_of(Times, Hooked) ->
    case maps:size(maps:with(?INFOS, Hooked)) of
        0 -> maps:remove(~"(event)", Times);
        _ -> maps:without([~"(event)", ~"handle_info"], Times)
    end.

by_callback(Measured) ->
    lists:foldl(
        fun({{Callback, _Kind}, Buckets}, Sums) ->
            Name = callback_name(Callback),
            Sums#{Name => merge_buckets(Buckets, maps:get(Name, Sums, []))}
        end,
        #{},
        named(Measured)
    ).

named(#{values := #{series := Series}, names := Names}) ->
    [{maps:get(Id, Names), Buckets} || Id := Buckets <- Series, is_map_key(Id, Names)].

-doc "The name of a callback in a window.".
-spec callback_name(atom() | {atom(), atom()}) -> binary().
callback_name({State, Type}) ->
    <<(atom_to_binary(State))/binary, "/", (atom_to_binary(Type))/binary>>;
callback_name(Name) ->
    atom_to_binary(Name).

callback(Name, Hooked, Observed, Time) ->
    #{buckets := More, untimed := Untimed, exceptions := Exceptions, stops := Stops} = Observed,
    Buckets = merge_buckets(Hooked, More),
    Wall = dyno_agent_server_counters:histogram(Buckets),
    #{
        name => Name,
        count =>
            case {Wall, Time} of
                {#{count := Timed}, _} -> Timed + Untimed;
                {none, {Calls, _, _}} -> max(Calls, Untimed);
                {none, none} -> Untimed
            end,
        exceptions => Exceptions,
        stops => Stops,
        wall => Wall,
        cpu_ns => element_of(2, Time),
        words => element_of(3, Time)
    }.

element_of(_Position, none) -> undefined;
element_of(Position, Time) -> element(Position, Time).

%% Messages

queues(#{queue_now := Now, queue_max := Seen}, #{values := #{queue_max := Max} = Values}) ->
    #{
        now => Now,
        max => max(Seen, Max),
        at_dispatch =>
            dyno_agent_server_counters:lengths(of_series(dyno_agent_server_hook:queue(), Values))
    }.

delay(#{queue := own}, _Measured) ->
    #{histogram => none, method => ?OWN_QUEUE, error_ns => undefined};
delay(_Server, #{values := #{delay_error := ErrorNs} = Values}) ->
    Waited = of_series(dyno_agent_server_hook:delay(), Values),
    Histogram = dyno_agent_server_counters:histogram(Waited),
    Mean =
        case Histogram of
            none -> undefined;
            #{count := Count} -> ErrorNs div Count
        end,
    #{histogram => Histogram, method => ?DELAY_METHOD, error_ns => Mean}.

of_series(Id, #{series := Series}) -> maps:get(Id, Series, []).

tags(Measured) ->
    Tags = [
        #{
            tag => atom_to_binary(Kind),
            callback => tag_callback(Callback),
            count => lists:sum([Count || {_, Count} <- Buckets]),
            wall_ns => maps:get(sum, dyno_agent_server_counters:histogram(Buckets))
        }
     || {{Callback, Kind}, Buckets} <- named(Measured), Kind =/= none
    ],
    lists:reverse(lists:sort(fun(A, B) -> map_get(wall_ns, A) =< map_get(wall_ns, B) end, Tags)).

tag_callback({State, _Type}) -> State;
tag_callback(Name) -> Name.
