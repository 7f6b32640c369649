%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_look).
-moduledoc """
Checks the health of a node at an interval: cheap readings of the whole node, then expensive ones of
at most 24 suspects. `dyno_health_*` interpret the looks.

The first look is at the restart, with dyno's modules loaded, and has no differences; later ones are
of the interval before.

## Cost
A look takes 2 ms, the time of `m:dyno_agent_census`, in slices with pauses, and 0.1 ms for 1,000
tables. Between two looks the suspects' stacks are read 12 times, 1 us each.
""".

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0, config/1, peek/1, events/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([result/0, look/0]).

-type config() :: #{
    interval_ms := pos_integer(),
    %% Not if the node takes seconds for each.
    breakpoints => boolean()
}.

-doc "Maps, lists, numbers and binaries only, for JSON.".
-type look() :: #{atom() => term()}.

-type result() :: #{looks := [look()], worked_us := non_neg_integer()}.

-type state() :: #{
    interval_ms := pos_integer(),
    %% Whether the runtime's reports can be had.
    reports := boolean(),
    start := integer(),
    looks := [look()],
    before := map() | none,
    seen := dyno_agent_census:seen(),
    %% Stacks of the suspects since the last look, with counts.
    suspects := [pid()],
    stacks := #{pid() => #{[mfa()] => pos_integer()}},
    %% How often they collected garbage then.
    collecting := #{pid() => pos_integer()},
    %% Their least and longest queue.
    queues := #{pid() => {non_neg_integer(), non_neg_integer()}},
    probes := [pid()],
    threads := dyno_agent_threads:t(),
    %% Reports of the runtime since the last look.
    long := #{term() => {pos_integer(), non_neg_integer()}},
    worked := non_neg_integer(),
    %% The work and the duration of the last look.
    took_us := non_neg_integer(),
    took_ms := non_neg_integer(),
    %% Whether tracing the use of tables took too long.
    late := boolean(),
    counting := trace:session(),
    %% Until they began anew, and when that was.
    called := {#{atom() => non_neg_integer() | null}, BeganMs :: integer()},
    %% At the look before.
    counts := #{atom() => non_neg_integer() | null},
    timer := reference()
}.

-define(INTERVAL_MS, 2500).
-define(STACKS, 12).
-define(SHARE, 30).
-define(LARGE, 50_000).
%% Of looks, for rates and their changes.
-define(ENOUGH, 3).
%% If breakpoints take seconds, a look may, too.
-define(SOME, 2).
-define(BURST, 8).
-define(BURST_MS, 3).
-define(BURSTS_MS, 400).
-define(MOST_SUSPECTS, 24).
-define(MOST_LONG, 200).
-define(LONG_MS, 100).
-define(LONG_QUEUE, 5000).
-define(BUSY, 200_000).
%% Of the code server, for each interval; a node in production loads no code.
-define(LOADING, 500).
%% A second.
-define(FAILURES, 10).
-define(LOGGED, 100).
-define(ATOMS, 2).
-define(COLLECTS, 5).
-define(HIBERNATES, 500).
-define(SCANS, 2).
-define(LISTED, 2).
%% Of the schedulers.
-define(WORKS, 0.15).
-define(MOST_ASKED, 300).
-define(MOST_TRACED, 4).
%% A second.
-define(FEW_REDUCTIONS, 300_000).
-define(FEW_SWITCHES, 5000).
-define(FEW_PROCESSES, 5000).
%% A second.
-define(OFTEN, 20_000).
%% A thousand timers a second and more, between two looks.
-define(MORE_BYTES, 400_000).

-spec about() -> dyno_agent_instrument:about().
about() -> #{names => [health]}.

-spec config(dyno_agent_instrument:options()) -> config().
config(Options) ->
    #{
        interval_ms => maps:get(look_ms, Options, ?INTERVAL_MS),
        breakpoints => maps:get(breakpoints, Options, true)
    }.

-doc "All looks until now.".
-spec peek(pid()) -> result().
peek(Pid) -> gen_server:call(Pid, peek, infinity).

-doc "Each look as an event.".
-spec events(result()) -> [dyno_agent_instrument:event()].
events(#{looks := Looks}) ->
    [
        #{time_ms => TimeMs, kind => ~"look", text => ~"what the node was like", data => Look}
     || #{time_ms := TimeMs} = Look <- Looks
    ].

-spec init(config()) -> {ok, state()}.
init(#{interval_ms := IntervalMs} = Config) ->
    Breakpoints = maps:get(breakpoints, Config, true),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    ok = dyno_agent_vm:enable(),
    Reports = dyno_agent_reports:open(?LONG_MS),
    {ok, #{
        interval_ms => IntervalMs,
        reports => Reports,
        start => erlang:monotonic_time(millisecond),
        looks => [],
        before => none,
        seen => dyno_agent_census:new(),
        suspects => [],
        stacks => #{},
        collecting => #{},
        queues => #{},
        probes => dyno_agent_lateness:start_link(),
        threads => dyno_agent_suspect:within(fun dyno_agent_threads:find/0, #{}),
        long => #{},
        worked => 0,
        took_us => 0,
        took_ms => 0,
        late => not Breakpoints,
        counting => dyno_agent_some_calls:count(Breakpoints),
        called => {#{}, erlang:monotonic_time(millisecond)},
        counts => #{exits => 0, logged => 0, atoms => 0},
        timer => make_ref()
    }}.

-spec handle_call(restart | peek | read, gen_server:from(), state()) ->
    {reply, ok | result(), state()}.
handle_call(restart, _From, #{probes := Probes} = State) ->
    _ = dyno_agent_lateness:read(Probes),
    Fresh = State#{
        start := erlang:monotonic_time(millisecond),
        looks := [],
        before := none,
        seen := dyno_agent_census:new(),
        long := #{},
        counts := #{},
        worked := 0
    },
    %% The caller does not wait for the first look.
    self() ! look,
    {reply, ok, Fresh};
handle_call(peek, _From, State) ->
    {reply, result(State), State};
%% Looks once more, if the last look is old; on a saturated node three are enough.
handle_call(read, _From, #{looks := Looks, interval_ms := IntervalMs, start := Start} = State) ->
    Age = erlang:monotonic_time(millisecond) - Start - last_ms(Looks),
    %% In a large node the next look is later.
    NextMs = max(IntervalMs, each_ms(State) * (?STACKS + 1)),
    Enough =
        case State of
            #{late := true} -> ?SOME;
            #{} -> ?ENOUGH
        end,
    IsSlow = length(Looks) >= Enough andalso map_get(took_ms, State) > IntervalMs div 4,
    Last =
        case Age > NextMs div 2 andalso not IsSlow of
            true -> look(State);
            false -> State
        end,
    {reply, result(Last), Last}.

result(#{looks := Looks, worked := WorkedUs}) ->
    #{looks => lists:reverse(Looks), worked_us => WorkedUs}.

last_ms([#{time_ms := Ms} | _]) -> Ms;
last_ms([]) -> -1_000_000.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast(_Request, State) -> {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info(look, State) ->
    {noreply, scheduled(?STACKS, look(State))};
handle_info({timeout, Timer, {stacks, 0}}, #{timer := Timer} = State) ->
    {noreply, scheduled(?STACKS, look(State))};
handle_info({timeout, Timer, {stacks, N}}, #{timer := Timer} = State) ->
    BeganMs = erlang:monotonic_time(millisecond),
    Next = worked(fun stacks/1, State),
    Late = (erlang:monotonic_time(millisecond) - BeganMs) div each_ms(State),
    {noreply, scheduled(max(0, N - 1 - Late), Next)};
handle_info({monitor, Who, Kind, Info}, #{long := Long} = State) when
    map_size(Long) < ?MOST_LONG
->
    Key = {Who, Kind},
    {Count, Most} = maps:get(Key, Long, {0, 0}),
    Ms = proplists:get_value(timeout, Info, 0),
    {noreply, State#{long := Long#{Key => {Count + 1, max(Most, Ms)}}}};
handle_info(_Other, State) ->
    {noreply, State}.

%% In a large node looking takes at most a thirtieth of the time.
scheduled(N, State) ->
    State#{timer := erlang:start_timer(each_ms(State), self(), {stacks, N})}.

each_ms(#{interval_ms := IntervalMs, took_us := TookUs, took_ms := TookMs}) ->
    RestMs = max(IntervalMs - TookMs, IntervalMs div 4),
    max(1, max(RestMs, ?SHARE * TookUs div 1000) div (?STACKS + 1)).

%% The runtime's reports, for JSON. The reported process may be in a long call now.
long(Long) ->
    dyno_agent_suspect:within(
        fun() ->
            [
                #{
                    kind => Kind,
                    process => named(fun dyno_agent_census:name/1, Who),
                    group => named(fun dyno_agent_census:group/1, Who),
                    count => N,
                    most_ms => Ms
                }
             || {Who, Kind} := {N, Ms} <- Long
            ]
        end,
        []
    ).

named(Name, Who) when is_pid(Who) -> Name(Who);
named(_Name, Who) -> dyno_agent_census:pid(Who).

worked(Fun, #{worked := Worked} = State) ->
    {Next, Us} = dyno_agent_census:timed(fun() -> Fun(State) end),
    Next#{worked := Worked + Us}.

stacks(#{suspects := Suspects, stacks := Stacks, collecting := Before, queues := Queues} = State) ->
    %% No question: it would wait for the end of the collection.
    Now =
        #{
            Pid => maps:get(Pid, Before, 0) + 1
         || Pid <- Suspects, {status, garbage_collecting} =:= process_info(Pid, status)
        },
    Queued =
        #{
            Pid => {min(Least, N), max(Most, N)}
         || Pid <- Suspects,
            {_, N} <- [process_info(Pid, message_queue_len)],
            {Least, Most} <- [maps:get(Pid, Queues, {N, N})]
        },
    State#{
        queues := maps:merge(Queues, Queued),
        stacks := lists:foldl(fun count/2, Stacks, dyno_agent_suspect:functions(Suspects)),
        collecting := maps:merge(Before, Now)
    }.

count({Pid, Stack}, Stacks) ->
    Of = maps:get(Pid, Stacks, #{}),
    Stacks#{Pid => Of#{Stack => maps:get(Stack, Of, 0) + 1}}.

%% A look

look(#{looks := Looks, worked := Worked} = State) ->
    BeganMs = erlang:monotonic_time(millisecond),
    {{Look, Next}, TookUs} = dyno_agent_census:timed(fun() -> looked(BeganMs, State) end),
    TookMs = erlang:monotonic_time(millisecond) - BeganMs,
    #{processes := #{count := Count}} = Look,
    Next#{
        looks := [Look#{took_ms => TookMs} | Looks],
        worked := Worked + TookUs + probed(Look, State),
        took_ms := TookMs,
        took_us :=
            if
                Count > ?LARGE -> TookUs;
                true -> 0
            end
    }.

probed(#{interval_ms := Ms}, #{probes := Probes}) ->
    dyno_agent_census:woken(dyno_agent_lateness:wakings(Probes, Ms)).

looked(BeganMs, #{start := Start, before := Before, seen := Seen} = State) ->
    #{probes := Probes, threads := Threads} = State,
    Read = dyno_agent_condition:read(Threads),
    {Census, SeenNow} = dyno_agent_census:take([self() | Probes], Seen),
    Now = Read#{
        children => dyno_agent_condition:supervised(SeenNow), reports => map_get(reports, State)
    },
    Chosen = chosen(Census, [Pid || {Pid, _} := _ <- maps:get(long, State), is_pid(Pid)]),
    #{stacks := Stacks, collecting := Collecting, queues := Queues} =
        burst(State#{suspects := Chosen}),
    #{waiting := Others, named := Named} = Census,
    Waiting = Named ++ Others,
    Standing = dyno_agent_suspect:functions(Waiting),
    Between = dyno_agent_condition:between(Before, Now),
    Calls = called(Between, State),
    Often = often(Between),
    Used = used(Chosen, Census, Often, State),
    Suspects = [
        S#{
            collecting => maps:get(Pid, Collecting, 0),
            queues => tuple_to_list(maps:get(Pid, Queues, {}))
        }
     || {Pid, S} <- suspects(Chosen, Census, Stacks, SeenNow, Used)
    ],
    #{interval_ms := Ms} = Between,
    Counts = Calls#{atoms => erlang:system_info(atom_count)},
    Some = lists:sublist(Chosen ++ Others ++ Named, ?MOST_ASKED),
    IfOften = fun(Key, PerS, Ask) ->
        case {Counts, map_get(counts, State)} of
            {#{Key := Count}, #{Key := Then}} when is_integer(Count), is_integer(Then) ->
                lists:append([Ask(Some) || 1000 * (Count - Then) > PerS * Ms]);
            _ ->
                []
        end
    end,
    Tidy = fun(Kind) -> fun(Pids) -> dyno_agent_some_calls:tidy(Kind, Pids) end end,
    Look = (maps:merge(Between, Calls))#{
        time_ms => BeganMs - Start,
        long => long(maps:get(long, State)),
        suspended => maps:get(suspended_count, Census),
        full_links => dyno_agent_condition:full_links(maps:get(suspended_count, Census)),
        binaries => dyno_agent_condition:held(Census),
        lateness => dyno_agent_lateness:read(Probes),
        processes => maps:with([count, every], Census),
        groups => [maps:remove(newest, Group) || Group <- maps:get(groups, Census)],
        places => dyno_agent_suspect:places(Standing),
        calls => dyno_agent_suspect:calls(
            dyno_agent_suspect:functions(Chosen -- Waiting) ++ Standing
        ),
        own_bytes => element(2, process_info(self(), memory)),
        services => dyno_agent_services:read(),
        breakpoints => breakpoints(Before),
        reloads => reloads(Between),
        failures => IfOften(exits, ?FAILURES, fun dyno_agent_some_calls:failures/1),
        log_events => IfOften(logged, ?LOGGED, fun dyno_agent_some_calls:log_events/1),
        collectors => IfOften(collects, ?COLLECTS, Tidy(collects)),
        hibernators => IfOften(hibernates, ?HIBERNATES, Tidy(hibernates)),
        scans => IfOften(scanned, ?SCANS, fun dyno_agent_some_calls:scans/1),
        searches => searches(Between, Some),
        listings => IfOften(listed, ?LISTED, fun dyno_agent_some_calls:listings/1),
        atom_makers => IfOften(atoms, ?ATOMS, fun dyno_agent_some_calls:atom_makers/1),
        often => Often,
        intervals => dyno_agent_some_calls:intervals(
            dyno_agent_census:of_group(~"timer:interval_loop", SeenNow)
        ),
        suspects => Suspects
    },
    Long = long_runs(Between, State),
    {Look, (counting_anew(Calls, State))#{
        before := Now,
        seen := SeenNow,
        suspects := Chosen,
        stacks := #{},
        collecting := #{},
        queues := #{},
        long := Long,
        late := Used =:= late,
        counts := Counts
    }}.

%% Before OTP 28 the end of a session that traces also ends the counts of built-in functions in
%% other sessions: all are counted anew after each look. Calls during it are added by their rate.
called(#{interval_ms := Ms}, #{counting := Session, reports := false, called := {Then, BeganMs}}) ->
    Counted = max(1, erlang:monotonic_time(millisecond) - BeganMs),
    Add = fun
        (_, Total, N) when is_integer(N), is_integer(Total) ->
            Total + round(N * max(1, Ms / Counted));
        (_, _, _) ->
            null
    end,
    maps:merge_with(Add, Then, dyno_agent_some_calls:counts(Session));
called(_Between, #{counting := Session}) ->
    dyno_agent_some_calls:counts(Session).

counting_anew(Calls, #{counting := Session, reports := false, late := false} = State) ->
    true = trace:session_destroy(Session),
    State#{
        counting := dyno_agent_some_calls:count(true),
        called := {Calls, erlang:monotonic_time(millisecond)}
    };
counting_anew(_Calls, State) ->
    State.

%% Before OTP 28 the runtime reports none; few run much, since there are few reductions.
long_runs(
    #{values := #{~"vm.reductions" := R, ~"vm.context_switches" := Switches} = Values}, #{
        reports := false
    }
) when R < ?FEW_REDUCTIONS, Switches < ?FEW_SWITCHES ->
    Busy = maps:get(~"vm.scheduler_utilisation.normal", Values, 0),
    case Busy > 0.1 andalso erlang:system_info(process_count) < ?FEW_PROCESSES of
        true ->
            #{
                {Pid, long_schedule} => {1, Ms}
             || Pid := Ms <- dyno_agent_some_calls:long_runs()
            };
        false ->
            #{}
    end;
long_runs(_Between, _State) ->
    #{}.

%% Only if blocks as of timers are made often.
often(#{interval_ms := Ms, fixed_blocks := Made}) when 1000 * Made > ?OFTEN * Ms ->
    dyno_agent_some_calls:often();
often(_Between) ->
    #{}.

%% Asking each function takes 20 ms.
breakpoints(none) -> dyno_agent_services:breakpoints();
breakpoints(_Before) -> #{}.

%% Only of a node that works.
searches(#{values := #{~"vm.scheduler_utilisation.normal" := Busy}}, Some) when Busy > ?WORKS ->
    dyno_agent_some_calls:searches(Some);
searches(_Between, _Some) ->
    [].

reloads(#{code_server := Reductions}) when Reductions > ?LOADING ->
    dyno_agent_some_calls:reloads();
reloads(_Between) ->
    [].

%% How processes with long queues look at themselves, and which tables the busiest write.
used(_Chosen, _Census, _Often, #{late := true}) ->
    late;
used(Chosen, #{queues := Queues, busiest := Busiest}, Often, #{looks := Looks}) ->
    Long = [
        Pid
     || #{pid := Pid, queue := Queue, status := Status} <- Queues,
        Queue > ?LONG_QUEUE,
        Status =/= waiting
    ],
    Inspected = dyno_agent_some_calls:inspections(Long),
    Least =
        case dyno_agent_census:is_full() of
            %% They share the schedulers; with fewer reductions a process waits most of the time.
            true -> ?BUSY div 100;
            false -> ?BUSY
        end,
    Working = [
        Pid
     || #{pid := Pid, reductions := Reductions} <- Busiest,
        is_integer(Reductions),
        Reductions > Least,
        lists:member(Pid, Chosen)
    ],
    Some = lists:sublist(Working, ?MOST_TRACED),
    case dyno_agent_some_calls:tables(Some) of
        late ->
            late;
        Tables ->
            Set = dyno_agent_some_calls:setters([
                Pid
             || Often =/= #{} orelse makes_more(Looks), Pid <- Some
            ]),
            Both = fun(_, A, B) -> maps:merge(A, B) end,
            maps:merge_with(Both, Set, maps:merge_with(Both, Inspected, Tables))
    end.

%% Timers, monitors and links have blocks of fixed sizes. Those that end soon only show as work.
makes_more([#{allocators := Before} | _]) ->
    Now = dyno_agent_condition:allocator(fix_alloc),
    fixed(Now) - fixed(Before) > ?MORE_BYTES orelse dyno_agent_census:is_full();
makes_more([]) ->
    false.

fixed(Allocators) -> lists:sum([N || #{name := fix_alloc, used_bytes := N} <- Allocators]).

%% Processes in a native function answer late.
burst(State) -> burst(?BURST, erlang:monotonic_time(millisecond) + ?BURSTS_MS, State).

burst(0, _EndMs, State) ->
    State;
burst(N, EndMs, State) ->
    ok = dyno_agent_census:pause(?BURST_MS),
    Next = stacks(State),
    case erlang:monotonic_time(millisecond) < EndMs of
        true -> burst(N - 1, EndMs, Next);
        false -> Next
    end.

%% Longest queues and who waits for these, suspended, busiest, largest, and newest processes.
chosen(#{queues := Queues, busiest := Busiest, groups := Groups} = Census, Long) ->
    #{suspended := Suspended, native := Native, heaviest := Heaviest} = Census,
    Of = fun(Processes, Most) -> [Pid || #{pid := Pid} <- lists:sublist(Processes, Most)] end,
    Growing = lists:sort(
        fun(#{started := A, ended := B}, #{started := C, ended := D}) -> A - B >= C - D end,
        Groups
    ),
    Newest = [Pid || #{newest := Pid} <- lists:sublist(Growing, 3), is_pid(Pid)],
    Queued = Of(Queues, 8),
    Waited = dyno_agent_suspect:waited(dyno_agent_suspect:functions(Queued)),
    All =
        Queued ++ Of(Suspended, 4) ++ Of(Native, 2) ++ lists:sublist(Long, 2) ++
            lists:sublist(Waited, 2) ++ Of(Busiest, 6) ++ Newest ++ Of(Heaviest, 4),
    lists:sublist(lists:uniq(All), ?MOST_SUSPECTS).

suspects(Chosen, Census, Stacks, Seen, Used) ->
    #{queues := Queues, busiest := Busiest, suspended := Suspended} = Census,
    #{native := Native, heaviest := Heaviest} = Census,
    Known =
        #{
            Pid => P
         || #{pid := Pid} = P <- lists:reverse(Queues ++ Busiest ++ Suspended ++ Native ++ Heaviest)
        },
    Seldom = [Pid || #{pid := Pid} <- Native],
    [
        {Pid,
            maps:merge(Named, #{
                native => lists:member(Pid, Seldom),
                looks => lists:sum([N || {_, N} <- Found]),
                stacks => [
                    #{stack => dyno_agent_suspect:frames(Stack), count => N}
                 || {Stack, N} <- lists:sublist(lists:reverse(lists:keysort(2, Found)), 5)
                ]
            })}
     || {Pid, Detail} <- dyno_agent_suspect:details(Chosen),
        #{group := Group} = Named <- [
            maps:merge(
                maps:with([reductions], maps:get(Pid, Known, #{})),
                maps:merge(named_by(Seen, Pid, Detail), of_used(Pid, Used))
            )
        ],
        not dyno_agent_census:is_own(Group),
        Found <- [maps:to_list(maps:get(Pid, Stacks, #{}))]
    ].

of_used(_Pid, late) -> #{};
of_used(Pid, Used) -> maps:get(Pid, Used, #{}).

%% A process that does not answer is named by its start function.
named_by(Seen, Pid, #{answered := false} = Detail) ->
    Group = dyno_agent_census:known_group(Pid, Seen),
    Detail#{
        group := Group, name := <<(dyno_agent_census:pid(Pid))/binary, " (", Group/binary, ")">>
    };
named_by(_Seen, _Pid, Detail) ->
    Detail.
