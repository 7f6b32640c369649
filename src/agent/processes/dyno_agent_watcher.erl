%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_watcher).
-moduledoc false.
%% A process that follows one process of the target after the other from the call that revealed it
%% to its end, and estimates without bias what it held while it lived and which reductions it had
%% done at its end.
%%
%% A life is cut into spans. Where one begins the reductions are read: these are exact. Within each
%% span one instant is drawn, every instant as likely as any other, and if the process lives it is
%% looked at: what it holds then stands for the whole span. A process that ends halfway is seen in
%% half of the cases and counts for a whole span, so that on average as much time is seen as it has
%% lived. What it does in its last span, after the last exact reading, is estimated in the same way:
%% where it is at work at that instant, by the speed at which it goes on, times the span. That is
%% rough where a process works now and then for a moment, so spans are an eighth of a short life of
%% the kind, and a quarter of the age: little is left to the last.
%%
%% The runtime's timers all end when a millisecond does, those of the processes as well: who looks
%% then finds them at work whenever they have any. So the instant is waited for awake for the last
%% part of a millisecond, which is what watching costs; where the span is hardly the last of the
%% life, it is looked at by chance in one of eight cases, and counts for eight.
%%
%% A process that runs answers when it waits or has another turn, and not any more where it ends
%% before. That time is missed, as is what was before the first reading, and is counted; what it
%% does in its last turn before the end, 4,000 reductions at most, is never seen.

-export([start/1, stop/1, watch/3]).
-export([init/1]).
-export_type([result/0]).

-type seen() :: #{
    %% From the first call until the end was noticed.
    life_ns := non_neg_integer(),
    %% Of it, before the first reading and where no answer came.
    missed_ns := number(),
    %% From the spawn to the last exact reading, and after it, where known: as estimated, and at
    %% the most; how long that span is; whether it was at work at its instant, or waited.
    reductions := number(),
    tail := number(),
    tail_most := number(),
    last_ns := non_neg_integer(),
    last_worked_ns := non_neg_integer(),
    last_idle_ns := non_neg_integer(),
    %% The time in it when it was at work, but how fast is not known; and of which it is not
    %% known whether it was alive.
    lost_ns := number(),
    perhaps_ns := number(),
    %% Of all looks at work, the reductions that those stand for, and at the most, and the time.
    worked := number(),
    worked_most := number(),
    worked_ns := number(),
    %% On average as much of the life as could be looked at, ...
    seen_ns := number(),
    %% ... and the bytes held then, times this time.
    bytes_ns := number(),
    looks := non_neg_integer()
}.

-doc """
What became of it. `unseen`: it had ended before anybody could look. `outlived`: it was followed for
as long as is allowed.
""".
-type result() :: seen() | {unseen, LifeNs :: non_neg_integer()} | outlived.

-type course() :: #{
    pid := pid(),
    monitor := reference(),
    since := integer(),
    %% Before that hardly any ends.
    short := integer(),
    %% The span: where it began, its length, the reductions by then.
    from := integer(),
    span := pos_integer(),
    base := non_neg_integer(),
    queue := non_neg_integer(),
    lost := number(),
    %% While it was at work: reductions, those at the most, time.
    worked := {number(), number(), number()},
    seen := number(),
    missed := number(),
    bytes := number(),
    looks := non_neg_integer()
}.

%% Nobody is followed for longer.
-define(LONGEST_MS, 10_000).
%% A span is such a part of the age; the first one of a short life.
-define(PART, 4).
-define(FIRST_PART, 8).
%% Where the span is not the last, one look in so many.
-define(SELDOM, 8).
%% A first span without any known life, and at least, and at most.
-define(SPAN_NS, 1_000_000).
-define(LEAST_NS, 50_000).
-define(MOST_NS, 500_000_000).
%% Timers have milliseconds: what is shorter is waited for awake.
-define(AWAKE_US, 1000).
-define(LATE_US, 100).
%% What it takes to see that it is not time yet; one machine.
-define(ROUND_NS, 250).
%% `memory` takes time in proportion to the queue.
-define(LONG_QUEUE, 10_000).

-doc """
Starts one, linked to the caller, who gets `{dyno_watched, Watcher, Pid, AwakeNs, Result}` of each
process.
""".
-spec start(Owner :: pid()) -> pid().
start(Owner) ->
    spawn_link(?MODULE, init, [Owner]).

-doc "Ends it.".
-spec stop(pid()) -> ok.
stop(Watcher) ->
    true = unlink(Watcher),
    true = exit(Watcher, kill),
    ok.

-doc """
Lets it follow a process that is known since `Since` (native, monotonic), of a kind of which only
few have lived for a shorter time than `ShortNs`.
""".
-spec watch(pid(), {pid(), Since :: integer()}, ShortNs :: pos_integer() | undefined) -> ok.
watch(Watcher, {Pid, Since}, ShortNs) ->
    Watcher ! {watch, Pid, Since, ShortNs},
    ok.

-doc false.
-spec init(pid()) -> no_return().
init(Owner) ->
    proc_lib:set_label(?MODULE),
    idle(Owner).

idle(Owner) ->
    receive
        {watch, Pid, Since, ShortNs} ->
            _ = put(awake, 0),
            Result = follow(Pid, Since, ShortNs),
            Owner ! {dyno_watched, self(), Pid, get(awake), Result},
            idle(Owner)
    end.

follow(Pid, Since, ShortNs) ->
    Monitor = monitor(process, Pid),
    case process_info(Pid, [reductions, message_queue_len]) of
        [{reductions, Base}, {message_queue_len, Queue}] ->
            %% Drawn as well, so that lives of one length do not all end at the same place of a
            %% span.
            Span = native(span_ns(ShortNs), nanosecond) * (0.5 + rand:uniform()),
            Now = erlang:monotonic_time(),
            span(#{
                pid => Pid,
                monitor => Monitor,
                since => Since,
                short => Since + native(short_ns(ShortNs), nanosecond),
                from => Now,
                span => max(1, round(Span)),
                base => Base,
                queue => Queue,
                lost => 0,
                worked => {0, 0, 0},
                seen => 0,
                missed => max(0, Now - Since),
                bytes => 0,
                looks => 0
            });
        undefined ->
            receive
                {'DOWN', Monitor, process, _, _} -> ok
            end,
            {unseen, ns(erlang:monotonic_time() - Since)}
    end.

span_ns(undefined) -> ?SPAN_NS;
span_ns(ShortNs) -> max(?LEAST_NS, min(?MOST_NS, ShortNs div ?FIRST_PART)).

short_ns(undefined) -> 0;
short_ns(ShortNs) -> ShortNs * 3 div 4.

-spec span(course()) -> seen() | outlived.
span(#{from := From, span := Span, short := Short} = Course) ->
    case From + Span < Short andalso rand:uniform(?SELDOM) =/= 1 of
        %% That it ends in it all the same is no likelier than what one in a few stands for.
        true -> next(none, Course);
        false when From + Span < Short -> span(?SELDOM, Course);
        false -> span(1, Course)
    end.

span(Times, #{pid := Pid, from := From, span := Span} = Course) ->
    At = From + trunc(rand:uniform() * Span),
    maybe
        ok ?= exactly(At, Course),
        %% This is told at once, also while it runs.
        {status, Status} ?= process_info(Pid, status),
        {Tail, Looked} = look(state(Status), Times * Span, Course),
        next(Tail, Looked)
    else
        {ended, Now} ->
            ended(Now, before(At, Now, Times * Span), Course);
        undefined ->
            Now = end_of(Course),
            ended(Now, before(At, Now, Times * Span), Course)
    end.

%% One that is found to have ended when we come too late may have been alive at that instant.
before(At, Now, Stands) ->
    case Now - At > native(?LATE_US, microsecond) of
        true -> {perhaps, Stands};
        false -> none
    end.

state(running) -> runs;
state(garbage_collecting) -> runs;
state(runnable) -> in_queue;
state(_Waiting) -> waits.

%% To the span's end; the process is looked at no more in it. `lost`: what it does in it is not
%% known, should it be the last, for that time.
next(Tail, #{pid := Pid, from := From, span := Span, since := Since} = Course) ->
    maybe
        ok ?= until(From + Span, Course),
        [{reductions, Base}, {message_queue_len, Queue}] ?=
            process_info(Pid, [reductions, message_queue_len]),
        Now = erlang:monotonic_time(),
        case Now - Since > native(?LONGEST_MS, millisecond) of
            true ->
                true = demonitor(map_get(monitor, Course), [flush]),
                outlived;
            false ->
                Longer = longer(Now, Course),
                span(Course#{from := Now, span := Longer, base := Base, queue := Queue})
        end
    else
        {ended, Ended} -> ended(Ended, Tail, Course);
        undefined -> ended(end_of(Course), Tail, Course)
    end.

%% Of a kind of which nothing is known each is as long as all before it.
longer(Now, #{since := Since, short := Since, span := Span}) -> max(Span, Now - Since);
longer(Now, #{short := Short, span := Span}) -> max(Span, (Now - Short) div ?PART).

%% One that waits does nothing at this instant.
look(_State, Stands, #{queue := Queue, missed := Missed} = Course) when Queue > ?LONG_QUEUE ->
    {{lost, Stands}, Course#{missed := Missed + Stands}};
look(waits, Stands, #{pid := Pid} = Course) ->
    {{idle, Stands}, seen(process_info(Pid, memory), Stands, Course)};
look(State, Stands, #{pid := Pid} = Course) ->
    At = erlang:monotonic_time(),
    %% To tell its memory it must have its turn.
    case process_info(Pid, [reductions, memory]) of
        [{reductions, First}, Memory] ->
            Turn = erlang:monotonic_time(),
            Seen = seen(Memory, Stands, Course),
            case process_info(Pid, [reductions, memory]) of
                [{reductions, Last}, _] ->
                    Next = erlang:monotonic_time(),
                    worked(State, Last - First, {At, Turn, Next}, Stands, Seen);
                undefined ->
                    {last_turn(State, Turn, Stands), Seen}
            end;
        undefined ->
            {last_turn(in_queue, At, Stands), seen(undefined, Stands, Course)}
    end.

%% What it did after the instant was in its last turn, which nothing is known of, or in the one
%% before; or it had more of them while we were kept from asking.
last_turn(State, Since, Stands) ->
    case erlang:monotonic_time() - Since > native(?LATE_US, microsecond) of
        false when State =:= in_queue -> none;
        _ -> {lost, Stands}
    end.

%% From one turn to the next. One that was found in the queue, or came to be there because we look,
%% waits for its turn for some time, too: for none of it, at the most, was it as fast.
worked(runs, Did, {_, Turn, Next}, Stands, Course) ->
    Speed = Did / max(1, Next - Turn),
    worked(Speed, Speed, Stands, Course);
worked(in_queue, Did, {At, Turn, Next}, Stands, Course) ->
    worked(Did / max(1, Next - At), Did / max(1, Next - Turn), Stands, Course).

worked(Speed, Fastest, Stands, #{worked := {Done, Most, Time}} = Course) ->
    {{worked, Speed * Stands, Fastest * Stands, Stands}, Course#{
        worked := {Done + Speed * Stands, Most + Fastest * Stands, Time + Stands}
    }}.

seen({memory, Now}, Stands, #{seen := Seen, bytes := Bytes, looks := Looks} = Course) ->
    Course#{seen := Seen + Stands, bytes := Bytes + Stands * Now, looks := Looks + 1};
seen(undefined, Stands, #{missed := Missed} = Course) ->
    Course#{missed := Missed + Stands}.

end_of(#{monitor := Monitor}) ->
    receive
        {'DOWN', Monitor, process, _, _} -> erlang:monotonic_time()
    end.

ended(Now, Tail, #{since := Since, span := Span, base := Base, worked := Worked} = Course) ->
    #{seen := Seen, missed := Missed, bytes := Bytes, looks := Looks} = Course,
    {Done, Most, Time} = Worked,
    %% We may have come too late to read where the span ended.
    Over = max(0, Now - map_get(from, Course) - Span),
    {{Last, LastMost}, {AtWork, Idle}, Lost, Perhaps} =
        case Tail of
            none -> {{0, 0}, {0, 0}, 0, 0};
            {idle, Stands} -> {{0, 0}, {0, Stands}, 0, 0};
            {lost, Stands} -> {{0, 0}, {Stands, 0}, Stands, 0};
            {perhaps, Stands} -> {{0, 0}, {0, 0}, 0, Stands};
            {worked, Did, DidMost, Stands} -> {{Did, DidMost}, {Stands, 0}, 0, 0}
        end,
    #{
        life_ns => ns(Now - Since),
        missed_ns => ns(Missed),
        reductions => Base,
        tail => Last,
        tail_most => LastMost,
        last_ns => ns(Span),
        last_worked_ns => ns(AtWork),
        last_idle_ns => ns(Idle),
        lost_ns => ns(round(Lost)),
        perhaps_ns => ns(round(Perhaps + Over)),
        worked => Done,
        worked_most => Most,
        worked_ns => ns(Time),
        seen_ns => ns(Seen),
        bytes_ns => ns(Bytes),
        looks => Looks
    }.

%% Waits, unless the process ends before; to the millisecond.
until(At, #{monitor := Monitor} = Course) ->
    Left = At - erlang:monotonic_time(),
    case erlang:convert_time_unit(Left, native, microsecond) of
        LeftUs when LeftUs > ?AWAKE_US ->
            receive
                {'DOWN', Monitor, process, _, _} -> {ended, erlang:monotonic_time()}
            after LeftUs div 1000 -> ok
            end;
        LeftUs when LeftUs > 0 ->
            short(LeftUs, At, Course);
        _ ->
            ok
    end.

%% Only where the spans are as short.
short(LeftUs, At, #{span := Span, monitor := Monitor} = Course) ->
    case Span > native(2 * ?AWAKE_US, microsecond) of
        true when LeftUs > ?AWAKE_US div 2 ->
            receive
                {'DOWN', Monitor, process, _, _} -> {ended, erlang:monotonic_time()}
            after 1 -> ok
            end;
        true ->
            ok;
        false ->
            awake(At, Course)
    end.

%% To a moment of which the part of a millisecond is chance's.
exactly(At, #{monitor := Monitor} = Course) ->
    case erlang:convert_time_unit(At - erlang:monotonic_time(), native, microsecond) of
        LeftUs when LeftUs >= 2 * ?AWAKE_US ->
            receive
                {'DOWN', Monitor, process, _, _} -> {ended, erlang:monotonic_time()}
            after (LeftUs - ?AWAKE_US div 2) div 1000 ->
                Part = trunc(rand:uniform() * native(?AWAKE_US, microsecond)),
                awake(erlang:monotonic_time() + Part, Course)
            end;
        _ ->
            awake(At, Course)
    end.

%% Everybody else has a turn first: what it costs is told by how often it goes round, not by the
%% time.
awake(At, #{monitor := Monitor} = Course) ->
    _ = put(awake, get(awake) + ?ROUND_NS),
    receive
        {'DOWN', Monitor, process, _, _} -> {ended, erlang:monotonic_time()}
    after 0 ->
        case erlang:monotonic_time() < At of
            true ->
                true = erlang:yield(),
                awake(At, Course);
            false ->
                ok
        end
    end.

native(Time, Unit) -> erlang:convert_time_unit(Time, Unit, native).

ns(Native) -> max(0, erlang:convert_time_unit(Native, native, nanosecond)).
