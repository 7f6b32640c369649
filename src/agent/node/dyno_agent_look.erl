%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_look).
-moduledoc """
Checks the health of a node at an interval: cheap readings of the whole node, then expensive ones of
at most 24 suspects. `dyno_health_*` interpret the looks.

The first look is at the restart, with dyno's modules loaded, and has no differences; later ones are
of the interval before.

## Cost
A look takes 2 ms and 4 us a process, in slices with pauses, and 0.1 ms for 1,000 tables. Between
two looks the suspects' stacks are read 12 times, 1 us each.
""".

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0, config/1, start_link/1, restart/1, read/1, events/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([result/0, look/0]).

-type config() :: #{interval_ms := pos_integer()}.

-doc "Maps, lists, numbers and binaries only, for JSON.".
-type look() :: #{atom() => term()}.

-type result() :: #{looks := [look()], worked_us := non_neg_integer()}.

-type state() :: #{
    interval_ms := pos_integer(),
    start := integer(),
    looks := [look()],
    before := map() | none,
    seen := dyno_agent_census:seen(),
    %% Stacks of the suspects since the last look, with counts.
    suspects := [pid()],
    stacks := #{pid() => #{[mfa()] => pos_integer()}},
    probes := [pid()],
    threads := dyno_agent_threads:t(),
    %% Reports of the runtime since the last look.
    long := #{term() => {pos_integer(), non_neg_integer()}},
    worked := non_neg_integer(),
    %% The duration of the last look.
    took_us := non_neg_integer(),
    timer := reference()
}.

-define(INTERVAL_MS, 2500).
-define(STACKS, 12).
-define(SHARE, 20).
-define(LARGE, 50_000).
-define(BURST, 8).
-define(BURST_MS, 3).
-define(MOST_SUSPECTS, 24).
-define(MOST_LONG, 200).
-define(LONG_MS, 100).
-define(LONG_QUEUE, 5000).
-define(BUSY, 200_000).
-define(MOST_TRACED, 4).

-spec about() -> dyno_agent_instrument:about().
about() -> #{names => [health]}.

-spec config(dyno_agent_instrument:options()) -> config().
config(Options) -> #{interval_ms => maps:get(look_ms, Options, ?INTERVAL_MS)}.

-doc "Starts the process; the first look is at the restart.".
-spec start_link(config()) -> gen_server:start_ret().
start_link(Config) -> dyno_agent_process:start_link(?MODULE, Config).

-spec restart(pid()) -> ok.
restart(Pid) -> gen_server:call(Pid, restart, infinity).

-doc "Looks once more, if the last look is old, and returns all looks.".
-spec read(pid()) -> result().
read(Pid) -> gen_server:call(Pid, read, infinity).

-doc "Each look as an event.".
-spec events(result()) -> [dyno_agent_instrument:event()].
events(#{looks := Looks}) ->
    [
        #{time_ms => TimeMs, kind => ~"look", text => ~"what the node was like", data => Look}
     || #{time_ms := TimeMs} = Look <- Looks
    ].

-spec init(config()) -> {ok, state()}.
init(#{interval_ms := IntervalMs}) ->
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    ok = dyno_agent_vm:enable(),
    ok = reports(),
    {ok, #{
        interval_ms => IntervalMs,
        start => erlang:monotonic_time(millisecond),
        looks => [],
        before => none,
        seen => dyno_agent_census:new(),
        suspects => [],
        stacks => #{},
        probes => dyno_agent_lateness:start_link(),
        threads => dyno_agent_suspect:within(fun dyno_agent_threads:find/0, #{}),
        long => #{},
        worked => 0,
        took_us => 0,
        timer => make_ref()
    }}.

%% Sessions of system events exist from OTP 28 on. Before, there is one for the whole node, which is
%% not dyno's to take.
reports() ->
    case code:ensure_loaded(trace) of
        {module, trace} ->
            case erlang:function_exported(trace, system, 3) of
                true ->
                    Session = trace:session_create(?MODULE, self(), []),
                    _ = [
                        apply(trace, system, [Session, Event, ?LONG_MS])
                     || Event <- [long_schedule, long_gc]
                    ],
                    %% The session lives while a process holds it.
                    _ = put(session, Session),
                    ok;
                false ->
                    ok
            end;
        {error, _} ->
            ok
    end.

-spec handle_call(restart | read, gen_server:from(), state()) -> {reply, ok | result(), state()}.
handle_call(restart, _From, #{probes := Probes} = State) ->
    _ = dyno_agent_lateness:read(Probes),
    Fresh = State#{
        start := erlang:monotonic_time(millisecond),
        looks := [],
        before := none,
        seen := dyno_agent_census:new(),
        long := #{},
        worked := 0
    },
    %% The caller does not wait for the first look.
    self() ! look,
    {reply, ok, Fresh};
handle_call(read, _From, #{looks := Looks, interval_ms := IntervalMs, start := Start} = State) ->
    Age = erlang:monotonic_time(millisecond) - Start - last_ms(Looks),
    #{looks := All, worked := WorkedUs} =
        Last =
        case Age > IntervalMs div 2 of
            true -> look(State);
            false -> State
        end,
    {reply, #{looks => lists:reverse(All), worked_us => WorkedUs}, Last}.

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
    {noreply, scheduled(N - 1, worked(fun stacks/1, State))};
handle_info({monitor, Who, Kind, Info}, #{long := Long} = State) when
    map_size(Long) < ?MOST_LONG
->
    Key = {Who, Kind, where(Info)},
    {Count, Most} = maps:get(Key, Long, {0, 0}),
    Ms = proplists:get_value(timeout, Info, 0),
    {noreply, State#{long := Long#{Key => {Count + 1, max(Most, Ms)}}}};
handle_info(_Other, State) ->
    {noreply, State}.

%% Looking takes at most a twentieth of the time.
scheduled(N, #{interval_ms := IntervalMs, took_us := TookUs} = State) ->
    Ms = max(IntervalMs, ?SHARE * TookUs div 1000) div (?STACKS + 1),
    State#{timer := erlang:start_timer(max(1, Ms), self(), {stacks, N})}.

where(Info) ->
    case lists:keyfind(out, 1, Info) of
        {out, {M, F, A}} -> dyno_agent_name:mfa({M, F, A});
        _ -> ~""
    end.

%% The runtime's reports, for JSON. The reported process may be in a long call now.
long(Long) ->
    dyno_agent_suspect:within(
        fun() ->
            [
                #{
                    kind => Kind,
                    process => named(fun dyno_agent_census:name/1, Who),
                    group => named(fun dyno_agent_census:group/1, Who),
                    where => Where,
                    count => N,
                    most_ms => Ms
                }
             || {Who, Kind, Where} := {N, Ms} <- Long
            ]
        end,
        []
    ).

named(Name, Who) when is_pid(Who) -> Name(Who);
named(_Name, Who) -> dyno_agent_census:pid(Who).

worked(Fun, #{worked := Worked} = State) ->
    Start = erlang:monotonic_time(microsecond),
    Next = Fun(State),
    Next#{worked := Worked + erlang:monotonic_time(microsecond) - Start}.

stacks(#{suspects := Suspects, stacks := Stacks} = State) ->
    State#{stacks := lists:foldl(fun count/2, Stacks, dyno_agent_suspect:functions(Suspects))}.

count({Pid, Stack}, Stacks) ->
    Of = maps:get(Pid, Stacks, #{}),
    Stacks#{Pid => Of#{Stack => maps:get(Stack, Of, 0) + 1}}.

%% A look

look(#{start := Start, looks := Looks, before := Before, seen := Seen} = State) ->
    #{probes := Probes, threads := Threads, worked := Worked} = State,
    BeganUs = erlang:monotonic_time(microsecond),
    PausedUs = dyno_agent_census:paused_us(),
    Read = dyno_agent_condition:read(Threads),
    {Census, SeenNow} = dyno_agent_census:take([self() | Probes], Seen),
    Now = Read#{
        children => dyno_agent_condition:supervised(SeenNow), reports => get(session) =/= undefined
    },
    Chosen = suspects(Census, [Pid || {Pid, _, _} := _ <- maps:get(long, State), is_pid(Pid)]),
    Told = burst(?BURST, State#{suspects := Chosen}),
    #{stacks := Stacks} = Told,
    Waiting = maps:get(waiting, Census),
    Inspected = dyno_agent_suspect:inspections([
        Pid
     || #{pid := Pid, queue := Queue, status := Status} <- maps:get(queues, Census),
        Queue > ?LONG_QUEUE,
        Status =/= waiting
    ]),
    Scans = dyno_agent_suspect:scans(working(Chosen, Census)),
    Look = (dyno_agent_condition:between(Before, Now))#{
        time_ms => BeganUs div 1000 - Start,
        long => long(maps:get(long, State)),
        full_links => dyno_agent_condition:full_links(maps:get(suspended_count, Census)),
        binaries => dyno_agent_condition:binaries(Waiting),
        lateness => dyno_agent_lateness:read(Probes),
        processes => (maps:with([count, every, suspended_count], Census))#{
            waiting => length(Waiting)
        },
        groups => [in_json(Group) || Group <- maps:get(groups, Census)],
        places => dyno_agent_suspect:places(Waiting),
        calls => dyno_agent_suspect:calls(lists:uniq(Chosen ++ Waiting)),
        own_bytes => element(2, process_info(self(), memory)),
        services => dyno_agent_services:read(),
        breakpoints => breakpoints(Before),
        suspects => [
            maps:merge(
                suspect(Pid, Census, Stacks, SeenNow),
                maps:merge(found(inspects, Pid, Inspected), found(scans, Pid, Scans))
            )
         || Pid <- Chosen
        ]
    },
    AllUs = erlang:monotonic_time(microsecond) - BeganUs,
    TookUs = max(0, AllUs - (dyno_agent_census:paused_us() - PausedUs)),
    State#{
        looks := [Look#{took_ms => AllUs div 1000} | Looks],
        before := Now,
        seen := SeenNow,
        suspects := Chosen,
        stacks := #{},
        long := #{},
        worked := Worked + TookUs,
        took_us :=
            case Census of
                #{count := Count} when Count > ?LARGE -> TookUs;
                #{} -> 0
            end
    }.

%% Asking each function takes 20 ms.
breakpoints(none) -> dyno_agent_services:breakpoints();
breakpoints(_Before) -> #{}.

found(Key, Pid, Found) ->
    case Found of
        #{Pid := Of} -> #{Key => Of};
        #{} -> #{}
    end.

%% Some of the busiest, if they are busy.
working(Chosen, #{busiest := Busiest}) ->
    lists:sublist(
        [
            Pid
         || #{pid := Pid, reductions := Reductions} <- Busiest,
            is_integer(Reductions),
            Reductions > ?BUSY,
            lists:member(Pid, Chosen)
        ],
        ?MOST_TRACED
    ).

burst(0, State) ->
    State;
burst(N, State) ->
    ok = dyno_agent_census:pause(?BURST_MS),
    burst(N - 1, stacks(State)).

in_json(#{newest := none} = Group) -> Group#{newest := ~""};
in_json(#{newest := Pid} = Group) -> Group#{newest := dyno_agent_census:pid(Pid)}.

%% The longest queues, the busiest, the largest, the suspended, and the newest of growing groups.
suspects(#{queues := Queues, busiest := Busiest, groups := Groups} = Census, Long) ->
    #{suspended := Suspended, native := Native, heaviest := Heaviest} = Census,
    Of = fun(Processes, Most) -> [Pid || #{pid := Pid} <- lists:sublist(Processes, Most)] end,
    Growing = lists:sort(
        fun(#{started := A, ended := B}, #{started := C, ended := D}) -> A - B >= C - D end,
        Groups
    ),
    Newest = [Pid || #{newest := Pid} <- lists:sublist(Growing, 3), is_pid(Pid)],
    All =
        Of(Queues, 8) ++ Of(Suspended, 4) ++ Of(Native, 2) ++ lists:sublist(Long, 2) ++
            Of(Busiest, 6) ++ Newest ++ Of(Heaviest, 4),
    lists:sublist(lists:uniq(All), ?MOST_SUSPECTS).

suspect(Pid, #{queues := Queues, busiest := Busiest} = Census, Stacks, Seen) ->
    #{suspended := Suspended, native := Native, heaviest := Heaviest} = Census,
    Seldom = [P || #{pid := Of} = P <- Native, Of =:= Pid],
    Cheap = [
        P
     || #{pid := Of} = P <- Queues ++ Busiest ++ Suspended ++ Native ++ Heaviest, Of =:= Pid
    ],
    Found = maps:to_list(maps:get(Pid, Stacks, #{})),
    Known =
        case Cheap of
            [#{reductions := Reductions} | _] -> #{reductions => Reductions};
            [] -> #{}
        end,
    maps:merge(named_by(Seen, Pid, dyno_agent_suspect:detail(Pid)), Known#{
        native => Seldom =/= [],
        looks => lists:sum([N || {_, N} <- Found]),
        stacks => [
            #{stack => dyno_agent_suspect:frames(Stack), count => N}
         || {Stack, N} <- lists:sublist(lists:reverse(lists:keysort(2, Found)), 5)
        ]
    }).

%% A process that does not answer is named by its start function.
named_by(Seen, Pid, #{answered := false} = Detail) ->
    Group = dyno_agent_census:known_group(Pid, Seen),
    Detail#{
        group := Group, name := <<(dyno_agent_census:pid(Pid))/binary, " (", Group/binary, ")">>
    };
named_by(_Seen, _Pid, Detail) ->
    Detail.
