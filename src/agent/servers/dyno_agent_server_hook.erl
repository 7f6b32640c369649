%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_hook).
-moduledoc false.
%% Measures a server process from inside, as a debug function of sys: takes the time of each message
%% and counts into dyno_agent_server_counters. No message is sent; message and state are not copied.
%%
%%   sys event            gen_server, supervisor, GenStage      gen_statem
%%   begin                {in, Message}                         {in, {Type, Content}, State}
%%   end                  {out, ...}, {noreply, State}          {consume, ...}, {postpone, ...}
%%   without a begin      {continue, Term}: since the last end  consume: since the last end
%%
%% gen_event reports only the begin, so event managers get no hook. If a callback raises an
%% exception, there is no end: the begin stays in the counters, for the instrument.
%%
%% sys drops a debug function that returns `done` or fails: a hook goes with the first message after
%% its deadline, or if this module was removed. A purge kills processes that hold a local function.
%%
%% One message in `rarity` + 1, at random, gets a close look (queue, delay, deadline) and stands for
%% those; the rarity follows the rate. The first after a pause gets one that stands for none.
%%
%% In a flood (more than 100,000 messages a second for 0.1 s) one message of 16 is timed, at random
%% distances, and stands for those skipped before it. A callback of more than 100 us counts for
%% itself only. The clock is read at every eighth message: a slow skipped callback shows as a gap
%% with at least the messages of a flood waiting behind it. A gap with fewer was, or may have been,
%% a pause.

-export([debug/3, event/3, id/0]).
-export([buckets/2]).
-export_type([shared/0, name/0]).

-import(dyno_agent_server_names, [kind/1, in_state/2, done/2]).

-doc """
The state shared by all hooks. `clock`: the origin of times, in nanoseconds. `control`: an atomics;
1 is the deadline, 2 the number of single calls that may still be reported, the others are
dyno_agent_server_heart's. `names`: dyno_agent_server_names. `asked`: when demand was last sent, by
asking and asked stage. `each`: the process that gets single calls.
""".
-type shared() :: #{
    clock := integer(),
    control := atomics:atomics_ref(),
    names := ets:table(),
    asked := atomics:atomics_ref(),
    each := pid() | none
}.

-doc "The callback, or the state and type of a state machine; and the kind of the message.".
-type name() :: {atom() | {State :: atom(), Type :: atom()}, Kind :: atom()}.

-record(hook, {
    counters :: dyno_agent_server_counters:t(),
    shared :: shared(),
    clock :: integer(),
    pace = dyno_agent_server_delay:pace() :: dyno_agent_server_delay:pace(),
    looked :: integer(),
    names = #{} :: #{atom() | tuple() => #{atom() => non_neg_integer()}},
    next = 1 :: pos_integer(),
    blocks = #{} :: dyno_agent_server_counters:blocks(),
    delay :: dyno_agent_server_delay:t(),
    %% Of GenStage: the other stages, and whether the user's module is known.
    peers = #{} :: #{pid() => peer()},
    stage = false :: boolean(),
    %% Of a stage in the middle: the series of messages that ran its callback, and that did not.
    ran = none :: none | {non_neg_integer(), non_neg_integer()},
    %% Time and message from which a flood is looked for; `never` with continuations.
    flood :: {integer(), Received :: non_neg_integer()} | never,
    %% The argument of a single call to report.
    told = none :: none | binary()
}).

%% The positions in `asked` for our and for its demand.
-type peer() :: {dyno_agent_server_counters:peer(), Ours :: pos_integer(), Its :: pos_integer()}.

%% The fields that change with each message: small, to leave little garbage.
-record(hot, {
    %% The start of the callback under way; 0 if there is none.
    begun = 0 :: integer(),
    series = 0 :: non_neg_integer(),
    event = none :: none | {term(), term()},
    ended :: integer(),
    received = 0 :: non_neg_integer(),
    %% Event messages that a stage in the middle keeps until there is demand.
    kept = unknown :: unknown | non_neg_integer(),
    %% In a flood the number of the timed message, else 1; `weight`: the messages it stands for.
    distance = 1 :: pos_integer(),
    weight = 1 :: pos_integer(),
    hook :: #hook{}
}).

%% Up to ?MOST are callbacks with kinds of messages, up to ?REST callbacks without.
-define(MOST, 20).
-define(REST, 25).
-define(LEAST_DELAY, 32).
-define(MOST_WOKEN, 26).
-define(MOST_DELAY, 27).
-define(QUEUE, 28).
-define(DELAY, 29).
-define(BATCH, 30).
-define(ANSWER, 31).
-define(OTHER, '(other)').
-define(NO_CALLBACK, '(no callback)').
%% A process without a message for this long has waited.
-define(IDLE_NS, 3000).
%% A process that was merely preempted seldom paused this long.
-define(PAUSE_NS, 2_000_000).
%% A process that waits for a message answers within this time.
-define(ANSWER_NS, 2_000_000).
%% Messages closer than FLOOD_NS for FLOOD_FOR_NS are a flood.
-define(FLOOD_NS, 10_000).
-define(FLOOD_FOR_NS, 100_000_000).
-define(SLOW_NS, 100_000).
-define(DISTANCE, 16).
%% A flood leaves messages behind a slow callback; a pause leaves fewer, by this factor.
-define(FEWER, 4).
-define(ASKED, 1024).
-define(PEERS, 20).
%% Print limits of an argument.
-define(DEPTH, 20).
-define(CHARACTERS, 400).

-spec id() -> term().
id() -> {?MODULE, hook}.

-doc "Queue lengths, message delays, events per GenStage message, or times from demand to events.".
-spec buckets(atom(), dyno_agent_server_counters:values()) ->
    [{Index :: non_neg_integer(), Count :: pos_integer()}].
buckets(What, #{series := Series}) ->
    Ids = #{
        queue => ?QUEUE,
        delay => ?DELAY,
        least_delay => ?LEAST_DELAY,
        most_delay => ?MOST_DELAY,
        most_woken => ?MOST_WOKEN,
        batch => ?BATCH,
        answer => ?ANSWER
    },
    maps:get(map_get(What, Ids), Series, []).

-doc "The debug function for `sys`, as a triple; continues with the counters of an earlier hook.".
-spec debug(pid(), dyno_agent_server_counters:t(), shared()) -> {term(), fun(), term()}.
debug(Pid, Counters, #{clock := Clock} = Shared) ->
    Now = erlang:monotonic_time(nanosecond),
    Series = dyno_agent_server_names:names(Pid, Shared),
    {Peers, Module, _} = dyno_agent_server_names:peers(Pid, Shared),
    Hook = #hook{
        counters = Counters,
        shared = Shared,
        clock = Clock,
        looked = Now,
        names = maps:fold(fun add_name/3, #{}, Series),
        next = map_size(Series) + 1,
        blocks = dyno_agent_server_counters:blocks(Counters),
        peers =
            #{
                Other => {Number, asked({Pid, Other}), asked({Other, Pid})}
             || Number := Other <- Peers
            },
        stage = Module =/= unknown,
        flood = {Now, 0},
        delay = dyno_agent_server_delay:new(Now)
    },
    {id(), fun ?MODULE:event/3, #hot{ended = Now, hook = Hook}}.

add_name(Number, {Callback, Kind}, Names) ->
    Names#{Callback => (maps:get(Callback, Names, #{}))#{Kind => Number}}.

-spec event(#hot{}, term(), Name :: term()) -> #hot{} | done.
event(#hot{received = 0} = Hot, Event, Name) ->
    ok = dyno_agent_server_names:tell(Name, Hot#hot.hook#hook.shared),
    event(Hot, Event);
event(Hot, Event, _Name) ->
    event(Hot, Event).

event(#hot{distance = 1} = Hot, {in, Message}) ->
    in(Message, Hot);
event(#hot{distance = Distance, hook = #hook{counters = Counters}} = Hot, {in, Message}) ->
    case is_of_stage(Message) orelse dyno_agent_server_counters:skip(Counters) of
        true -> in(Message, Hot);
        Skipped when Skipped >= Distance; Skipped band 7 =:= 0 -> check(Message, Skipped, Hot);
        _Skipped -> Hot
    end;
event(#hot{begun = 0, distance = Distance} = Hot, Event) when
    Distance > 1, element(1, Event) =/= continue
->
    Hot;
event(Hot, {out, _Reply, _From, State}) ->
    ends(stage(State, Hot));
event(Hot, {noreply, State}) ->
    ends(stage(State, Hot));
event(#hot{distance = Distance, hook = Hook} = Hot, {continue, _Term}) when Distance > 1 ->
    Hot#hot{distance = 1, hook = Hook#hook{flood = never}};
event(Hot, {continue, Term}) ->
    since_last(handle_continue, kind(Term), Hot);
%% An event that a machine gives itself comes in during another; then no beginning was seen.
event(#hot{begun = 0} = Hot, {in, {Type, _} = Event, State}) ->
    Now = erlang:monotonic_time(nanosecond),
    begins(in_state(State, Type), none, Event, Now, Hot#hot{event = Event});
event(#hot{event = Begun, hook = Hook} = Hot, {Done, {Type, _} = Event, State, _Next}) when
    Done =:= consume; Done =:= postpone
->
    Callback = done(Done, in_state(State, Type)),
    case Event of
        Begun when Done =:= consume ->
            ends(Hot#hot{event = none});
        Begun ->
            {Series, Named} = series(Callback, none, Hook),
            ends(Hot#hot{event = none, series = Series, hook = Named});
        _ ->
            since_last(Callback, none, Hot#hot{begun = 0, event = none})
    end;
event(Hot, _Other) ->
    Hot.

in(Message, Hot) ->
    Now = erlang:monotonic_time(nanosecond),
    case Message of
        {'$gen_call', _From, Request} -> begins(handle_call, kind(Request), Message, Now, Hot);
        {'$gen_cast', Request} -> begins(handle_cast, kind(Request), Message, Now, Hot);
        timeout -> begins(timeout, timeout, Message, Now, Hot);
        {'$gen_consumer', From, What} -> consumer(From, What, Message, Now, Hot);
        {'$gen_producer', From, What} -> producer(From, What, Message, Now, Hot);
        _ -> begins(handle_info, kind(Message), Message, Now, Hot)
    end.

%% Floods

%% The events and the demand of these messages are counted, each.
is_of_stage({'$gen_consumer', _, _}) -> true;
is_of_stage({'$gen_producer', _, _}) -> true;
is_of_stage(_Message) -> false.

weighted(#hot{hook = #hook{counters = Counters}} = Hot) ->
    Hot#hot{weight = dyno_agent_server_counters:stand_for_skipped(Counters)}.

check(Message, Skipped, #hot{ended = Before, distance = Distance, hook = Hook} = Hot) ->
    Now = erlang:monotonic_time(nanosecond),
    Gap = Now - Before,
    case Gap > ?SLOW_NS andalso process_info(self(), message_queue_len) of
        false when Skipped < Distance ->
            Hot#hot{ended = Now};
        false ->
            in(Message, weighted(Hot));
        {message_queue_len, Left} when Left * ?FLOOD_NS < Gap div ?FEWER ->
            in(Message, weighted(Hot#hot{distance = 1}));
        {message_queue_len, _} ->
            ok = dyno_agent_server_counters:add(Hook#hook.counters, skipped, -1),
            {Series, Named} = series(callback(Message), ?OTHER, Hook),
            Recorded = record(Series, Gap, 1, Named),
            in(Message, weighted(Hot#hot{ended = Now, hook = Recorded}))
    end.

callback({'$gen_call', _, _}) -> handle_call;
callback({'$gen_cast', _}) -> handle_cast;
callback(_Message) -> handle_info.

%% After a look: the distance to the next timed message.
flood(Now, #hot{event = none, received = Received, hook = #hook{flood = {Since, Before}}}) when
    Now - Since > ?FLOOD_FOR_NS
->
    case Now - Since < (Received - Before) * ?FLOOD_NS of
        true -> {distance(Now), {Now, Received}};
        false -> {1, {Now, Received}}
    end;
flood(_Now, #hot{distance = Distance, hook = #hook{flood = Flood}}) ->
    {Distance, Flood}.

distance(1, _Now) -> 1;
distance(_Distance, Now) -> distance(Now).

distance(Now) -> 2 + erlang:phash2(Now, 2 * ?DISTANCE - 3).

%% The beginning of a callback

begins(Callback, Kind, Message, Now, #hot{hook = #hook{names = Names} = Hook} = Hot) ->
    case Names of
        #{Callback := #{Kind := Series}} ->
            begins(Series, Message, Now, Hot);
        #{} ->
            {Series, Named} = new_series(Callback, Kind, Hook),
            begins(Series, Message, Now, Hot#hot{hook = Named})
    end.

begins(Series, Message, Now, Hot) ->
    #hot{received = Before, weight = Weight, ended = Ended, hook = Hook} = Hot,
    #hook{counters = Counters, clock = Clock, pace = {Rarity, _}} = Hook,
    _ = [ok = dyno_agent_server_counters:put(Counters, first, Now - Clock) || Before =:= 0],
    ok = dyno_agent_server_counters:begin_callback(Counters, Now - Clock, Series),
    Received = Before + Weight,
    Begun = Hot#hot{begun = Now, series = Series, received = Received},
    %% Multiples of the golden ratio: no pattern of messages can be in step.
    case ((Received band 16#3FFFFFF) * 2_654_435_769 bsr 26) band Rarity of
        0 -> closely(Message, Begun);
        _ when Now - Ended > ?PAUSE_NS -> woken(Begun);
        _ -> Begun
    end.

woken(#hot{hook = Hook} = Hot) ->
    {message_queue_len, Left} = process_info(self(), message_queue_len),
    {_, Delay} = since_pause(Left, Hot),
    %% The time of the look is not the callback's.
    Hot#hot{begun = erlang:monotonic_time(nanosecond), hook = Hook#hook{delay = Delay}}.

since_pause(Left, #hot{begun = Now, ended = Ended, received = Received} = Hot) when
    Now - Ended > ?PAUSE_NS
->
    #hot{hook = #hook{counters = Counters, clock = Clock, delay = Delay}} = Hot,
    {Asked, Seen} = seen(Clock - Ended, Counters, Clock),
    Known = dyno_agent_server_delay:stood(Received, [Look || {_, 0} = Look <- Seen], Delay),
    %% If messages were seen waiting, or no answer came, it was not waiting for messages.
    case [waits || {_, Queue} <- Seen, Queue > 0] of
        [] when Asked =:= none; Now - Clock - Asked < ?ANSWER_NS ->
            {before(Left, Hot), dyno_agent_server_delay:woken({Received, Now, Left}, Known)};
        _ ->
            {Now, dyno_agent_server_delay:stood(Received, Seen, Delay)}
    end;
since_pause(Left, #hot{hook = #hook{delay = Delay}} = Hot) ->
    {before(Left, Hot), Delay}.

seen(State, Counters, Clock) ->
    {Asked, Looks} = dyno_agent_server_counters:seen(Counters, State),
    {Asked, [{At + Clock, Queue} || {At, Queue} <- Looks]}.

closely(Message, #hot{begun = Now, received = Received, weight = Weight, hook = Hook} = Hot) ->
    #hook{shared = #{control := Control}, clock = Clock, counters = Counters} = Hook,
    case atomics:get(Control, 1) of
        Deadline when Now - Clock > Deadline ->
            ok = dyno_agent_server_counters:hook_ends(Counters, Now - Clock),
            done;
        _ ->
            {message_queue_len, Left} = process_info(self(), message_queue_len),
            ok = raise(Left, Counters),
            #hook{pace = {Rarity, _} = Pace, looked = Looked} = Hook,
            {Before, Known} = since_pause(Left, Hot),
            {{LeastNs, Ns, MostNs}, Delay} = dyno_agent_server_delay:received(
                {Received, Now, Left}, Before, Known
            ),
            Count = Weight * (Rarity + 1),
            Most =
                case {Before, Ns} of
                    {waited, 0} -> ?MOST_WOKEN;
                    _ -> ?MOST_DELAY
                end,
            Counted = lists:foldl(
                fun({Series, Value}, Recorded) -> record(Series, Value, Count, Recorded) end,
                Hook,
                [
                    {?QUEUE, dyno_agent_server_counters:scaled(Left)},
                    {?LEAST_DELAY, LeastNs},
                    {?DELAY, Ns},
                    {Most, MostNs}
                ]
            ),
            {Distance, Flood} = flood(Now, Hot),
            Told = told(Message, Control, Counted#hook{
                pace = dyno_agent_server_delay:pace(Now - Looked, Pace),
                looked = Now,
                delay = Delay,
                flood = Flood
            }),
            Hot#hot{
                begun = erlang:monotonic_time(nanosecond), distance = Distance, hook = Told
            }
    end.

%% The end of the last callback. In a flood any time until now.
before(0, #hot{distance = Distance}) when Distance > 1 -> waited;
before(_Left, #hot{begun = Now, distance = Distance}) when Distance > 1 -> Now;
before(_Left, #hot{begun = Now, ended = Ended}) when Now - Ended > ?IDLE_NS -> waited;
before(_Left, #hot{ended = Ended}) -> Ended.

record(Series, Value, Count, #hook{counters = Counters, blocks = Before} = Hook) ->
    case dyno_agent_server_counters:record(Counters, Series, Value, Count, Before) of
        Blocks when map_size(Blocks) =:= map_size(Before) -> Hook;
        Blocks -> Hook#hook{blocks = Blocks}
    end.

raise(Left, Counters) ->
    case dyno_agent_server_counters:get(Counters, queue_max) of
        Max when Left > Max -> dyno_agent_server_counters:put(Counters, queue_max, Left);
        _ -> ok
    end.

told(_Message, _Control, #hook{shared = #{each := none}} = Hook) ->
    Hook;
told(Message, Control, Hook) ->
    case atomics:get(Control, 2) > 0 andalso atomics:sub_get(Control, 2, 1) >= 0 of
        true ->
            Text = io_lib:format("~0tP", [Message, ?DEPTH], [{chars_limit, ?CHARACTERS}]),
            Hook#hook{told = unicode:characters_to_binary(Text)};
        false ->
            Hook
    end.

%% The end of a callback

ends(#hot{begun = 0} = Hot) ->
    Hot#hot{ended = erlang:monotonic_time(nanosecond)};
ends(#hot{begun = Begun, series = Series, hook = Hook, distance = Distance} = Hot) ->
    Now = erlang:monotonic_time(nanosecond),
    #hook{counters = Counters, clock = Clock, blocks = Before} = Hook,
    Weight = weight(Now - Begun, Hot),
    Seen = seen_meanwhile(Now, Hot),
    Blocks = dyno_agent_server_counters:record(Counters, Series, Now - Begun, Weight, Before),
    ok = dyno_agent_server_counters:end_callback(Counters, Now - Clock, Series),
    Next = distance(Distance, Now),
    case Hook of
        #hook{told = none} when map_size(Blocks) =:= map_size(Before), Seen =:= [] ->
            Hot#hot{begun = 0, ended = Now, weight = 1, distance = Next};
        #hook{delay = Delay} ->
            Known = dyno_agent_server_delay:stood(Hot#hot.received + 1, Seen, Delay),
            Told = tell(Now - Begun, Series, Hook#hook{blocks = Blocks, delay = Known}),
            Hot#hot{begun = 0, ended = Now, weight = 1, distance = Next, hook = Told}
    end.

%% In a flood the numbers are not exact.
seen_meanwhile(Now, #hot{begun = Begun, distance = 1, hook = Hook}) when Now - Begun > ?PAUSE_NS ->
    #hook{counters = Counters, clock = Clock} = Hook,
    {_, Seen} = seen(dyno_agent_server_counters:state(Counters), Counters, Clock),
    Seen;
seen_meanwhile(_Now, _Quick) ->
    [].

weight(_Ns, #hot{weight = 1}) ->
    1;
weight(Ns, #hot{weight = Weight, hook = #hook{counters = Counters}}) when Ns > ?SLOW_NS ->
    ok = dyno_agent_server_counters:add(Counters, skipped, Weight - 1),
    1;
weight(_Ns, #hot{weight = Weight}) ->
    Weight.

tell(_Ns, _Series, #hook{told = none} = Hook) ->
    Hook;
tell(Ns, Series, #hook{told = Text, shared = #{each := Told}} = Hook) ->
    _ = Told ! {?MODULE, self(), Series, Text, Ns},
    Hook#hook{told = none}.

%% No beginning was seen: the process called it itself, right after the last callback.
since_last(Callback, Kind, #hot{ended = Ended, hook = Hook} = Hot) ->
    Now = erlang:monotonic_time(nanosecond),
    {Series, #hook{counters = Counters, clock = Clock} = Named} = series(Callback, Kind, Hook),
    Counted = record(Series, Now - Ended, 1, Named),
    ok = dyno_agent_server_counters:end_callback(Counters, Now - Clock, Series),
    Hot#hot{ended = Now, hook = Counted}.

%% Names

series(Callback, Kind, #hook{names = Names} = Hook) ->
    case Names of
        #{Callback := #{Kind := Series}} -> {Series, Hook};
        #{} -> new_series(Callback, Kind, Hook)
    end.

new_series(Callback, Kind, #hook{next = Next} = Hook) when Next =< ?MOST ->
    named(Callback, Kind, Hook);
new_series(Callback, _Kind, #hook{names = Names, next = Next} = Hook) ->
    case Names of
        #{Callback := #{?OTHER := Series}} -> {Series, Hook};
        #{} when Next < ?REST -> named(Callback, ?OTHER, Hook);
        #{?OTHER := #{?OTHER := Series}} -> {Series, Hook};
        #{} -> named(?OTHER, ?OTHER, Hook)
    end.

named(Callback, Kind, #hook{names = Names, next = Next, shared = #{names := Table}} = Hook) ->
    true = ets:insert(Table, {{self(), series, Next}, {Callback, Kind}}),
    Of = maps:get(Callback, Names, #{}),
    {Next, Hook#hook{names = Names#{Callback => Of#{Kind => Next}}, next = Next + 1}}.

%% GenStage

consumer({Pid, _}, Events, Message, Now, Hot) when is_list(Events), is_pid(Pid) ->
    case begins(handle_events, none, Message, Now, Hot) of
        done ->
            done;
        #hot{hook = Hook} = Begun ->
            {{Peer, Ours, _}, #hook{counters = Counters} = Met} = peer(Pid, Hook),
            %% The stage itself does as much for each event.
            Size = length(Events),
            ok = dyno_agent_server_counters:add(Counters, {events, Peer}, Size),
            more_kept(with_hook(sampled(Size, Ours, Hot, Met), Begun))
    end;
consumer(_From, What, Message, Now, Hot) ->
    begins(control(What), none, Message, Now, Hot).

%% If the message got a close look.
sampled(Size, Ours, #hot{hook = #hook{looked = Before, pace = {Rarity, _}}}, Hook) ->
    case Hook of
        #hook{looked = Before} ->
            Hook;
        #hook{looked = Now, clock = Clock, shared = #{asked := Asked}} ->
            Scaled = dyno_agent_server_counters:scaled(Size),
            Counted = record(?BATCH, Scaled, Rarity + 1, Hook),
            case atomics:get(Asked, Ours) of
                0 -> Counted;
                At -> record(?ANSWER, Now - Clock - At, Rarity + 1, Counted)
            end
    end.

producer({Pid, _}, {ask, Demand}, Message, Now, Hot) when is_integer(Demand), is_pid(Pid) ->
    case begins(on_demand(Hot), none, Message, Now, Hot) of
        done ->
            done;
        #hot{hook = Hook} = Begun ->
            {{Peer, _, Its}, #hook{counters = Counters, clock = Clock} = Met} = peer(Pid, Hook),
            #hook{shared = #{asked := Asked}} = Met,
            ok = dyno_agent_server_counters:add(Counters, {demand, Peer}, Demand),
            ok = atomics:put(Asked, Its, Now - Clock),
            with_hook(Met, Begun)
    end;
producer(_From, What, Message, Now, Hot) ->
    begins(control(What), none, Message, Now, Hot).

with_hook(Hook, #hot{hook = Hook} = Hot) -> Hot;
with_hook(Hook, Hot) -> Hot#hot{hook = Hook}.

%% A stage in the middle has no handle_demand: demand releases the events it keeps.
on_demand(#hot{kept = unknown}) -> handle_demand;
on_demand(#hot{kept = 0}) -> ?NO_CALLBACK;
on_demand(_Hot) -> handle_events.

more_kept(#hot{kept = unknown} = Hot) -> Hot;
more_kept(#hot{kept = Kept} = Hot) -> Hot#hot{kept = Kept + 1}.

control(What) ->
    case kind(What) of
        subscribe -> handle_subscribe;
        cancel -> handle_cancel;
        _ -> handle_info
    end.

asked(Pids) -> 1 + erlang:phash2(Pids, ?ASKED).

peer(Pid, #hook{peers = Peers, shared = #{names := Table}} = Hook) ->
    case Peers of
        #{Pid := Peer} ->
            {Peer, Hook};
        #{} ->
            Number = map_size(Peers) + 1,
            Peer = {Number, asked({self(), Pid}), asked({Pid, self()})},
            case Number of
                ?PEERS ->
                    {Peer, Hook};
                _ ->
                    true = ets:insert(Table, {{self(), peer, Number}, Pid}),
                    {Peer, Hook#hook{peers = Peers#{Pid => Peer}}}
            end
    end.

stage(#{'__struct__' := 'Elixir.GenStage', buffer := Buffer} = State, #hot{hook = Hook} = Hot) ->
    case Buffer of
        {_, Buffered, _} when is_integer(Buffered) ->
            dyno_agent_server_counters:put(Hook#hook.counters, buffered, Buffered);
        _ ->
            ok
    end,
    kept(State, Hot#hot{hook = stage_told(State, Hook)});
stage(_State, Hot) ->
    Hot.

%% Kept events tell whether the ending message ran its callback; before the first, an atom.
kept(#{type := producer_consumer, events := {Queue, Demand}}, Hot) when is_integer(Demand) ->
    #hot{series = Series, kept = Before, hook = #hook{ran = Ran}} = Hot,
    case {queue:len(Queue), Ran} of
        {Before, {_, Series}} -> Hot;
        {Kept, {Series, _}} when Kept < Before -> Hot#hot{kept = Kept};
        {Kept, _} -> ran(Kept < Before, Hot#hot{kept = Kept})
    end;
kept(_State, Hot) ->
    Hot.

ran(HasRun, #hot{hook = #hook{ran = none} = Hook} = Hot) ->
    {Run, Named} = series(handle_events, none, Hook),
    {Not, Both} = series(?NO_CALLBACK, none, Named),
    ran(HasRun, Hot#hot{hook = Both#hook{ran = {Run, Not}}});
ran(HasRun, #hot{series = Series, hook = #hook{ran = {Run, Not}, names = Names}} = Hot) ->
    case Series =:= Run orelse Series =:= Not orelse Names of
        true when HasRun -> Hot#hot{series = Run};
        true -> Hot#hot{series = Not};
        #{handle_demand := #{none := Series}} -> Hot#hot{series = Run};
        #{} -> Hot
    end.

stage_told(#{mod := Of, type := Type}, #hook{stage = false, shared = #{names := Table}} = Hook) ->
    true = ets:insert(Table, {{self(), stage, 1}, {Of, Type}}),
    Hook#hook{stage = true};
stage_told(_State, Hook) ->
    Hook.
