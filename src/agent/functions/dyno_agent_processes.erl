%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_processes).
-moduledoc false.
%% Discovers the processes that call the measured functions, groups them, and samples their
%% resources.
%%
%% The first matching call of a process sends a message and switches tracing off for the process.
%% From then on its calls cost no more than any breakpoint, 2 to 6 ns, for any number of processes
%% (doc/measurements.md).
%%
%% A group is a registered name, a process label, an initial call, or, if the process had already
%% ended, the function that discovered it. At each interval live processes are sampled: memory,
%% reductions, message queue. Ended processes keep their last values. If a scan
%% takes more than a tenth of the time, scans are less frequent. Processes that live between two
%% scans only are counted, and lifetimes are measured for some. dyno's own processes are left out.
%%
%% A function that discovers more than 1,000 processes of one group a second is throttled and its
%% processes are estimated: a message costs a process some 10 us, with the waking of this process.
%%
%% Calls are read first: throttled functions' discoveries since then are missing. Instruments that
%% time calls read the groups (`table/1`), report modules (`loaded/2`), functions (`leave_out/2`).

-behaviour(dyno_agent_instrument).
-behaviour(gen_server).

-export([about/0]).
-export([table/1]).
-export([loaded/2, leave_out/2, limit/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).
-export_type([config/0, group/0, reading/0]).

-type config() :: #{
    patterns := [dyno_agent_patterns:pattern()],
    %% The interval of samples.
    interval_ms := pos_integer()
}.

-type group() :: dyno_agent_kind:kind() | other.

-doc "On the caller's side `dyno_agent_process_parts` makes its result of it.".
-type reading() :: #{
    groups := dyno_agent_groups:reading(),
    discovered := non_neg_integer(),
    %% The live processes by group, with their reductions; and those among the followed ones.
    alive := #{pos_integer() => {non_neg_integer(), non_neg_integer()}},
    followed := #{pos_integer() => pos_integer()},
    %% Until now; without functions called too often; or until there were too many processes.
    discovers := yes | in_part | gave_up,
    %% The known ones that are older than the beginning, and those started since, without the
    %% agent's.
    there := non_neg_integer(),
    started := non_neg_integer(),
    %% Whether all could be asked at the end; otherwise the values are of the scan before.
    read := to_the_end | in_part
}.

-type state() :: #{
    discovery := dyno_agent_discovery:t(),
    first_calls := dyno_agent_first_calls:t(),
    newest := non_neg_integer(),
    interval_ms := pos_integer(),
    scan := idle | dyno_agent_process_table:continuation(),
    timer := reference(),
    began_ms := integer(),
    %% First calls until the next look at the message queue.
    look_in := non_neg_integer(),
    waiting := [gen_server:from()]
}.

%% The longest reading: on a saturated node each process answers in its turn.
-define(READ_MS, 1000).
%% First calls between two looks at the message queue.
-define(LOOK_EVERY, 500).
%% After a scan of hundreds of thousands: the pause, in scan times.
-define(REST, 9).

-spec about() -> dyno_agent_instrument:about().
about() -> #{names => [processes], parts => dyno_agent_process_parts, traces => true}.

-spec table(pid()) -> dyno_agent_process_table:t().
table(Pid) ->
    gen_server:call(Pid, table, infinity).

-spec loaded(pid(), module()) -> ok.
loaded(Pid, Module) ->
    gen_server:cast(Pid, {loaded, Module}).

-spec leave_out(pid(), [mfa()]) -> ok.
leave_out(Pid, Functions) ->
    gen_server:cast(Pid, {leave_out, Functions}).

-doc "The discoveries a second that throttle a function.".
-spec limit(pid(), pos_integer()) -> ok.
limit(Pid, PerSecond) ->
    gen_server:cast(Pid, {limit, PerSecond}).

-spec init(config()) -> {ok, state()}.
init(#{patterns := Patterns, interval_ms := IntervalMs}) ->
    process_flag(trap_exit, true),
    %% Otherwise a storm of processes would make collections of the heap long.
    process_flag(message_queue_data, off_heap),
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    {FirstCalls, Left} = dyno_agent_first_calls:open(Patterns),
    {ok, #{
        discovery => dyno_agent_discovery:new(FirstCalls, Left),
        first_calls => FirstCalls,
        newest => newest(),
        interval_ms => IntervalMs,
        scan => idle,
        timer => erlang:send_after(IntervalMs, self(), scan),
        began_ms => 0,
        look_in => ?LOOK_EVERY,
        waiting => []
    }}.

newest() -> dyno_agent_process:started_by_others().

-spec handle_call(Request, gen_server:from(), state()) ->
    {reply, ok | dyno_agent_process_table:t(), state()} | {noreply, state()}
when
    Request :: restart | read | table.
handle_call(table, _From, #{discovery := Discovery} = State) ->
    {reply, dyno_agent_discovery:table(Discovery), State};
handle_call(restart, _From, #{discovery := Discovery} = State) ->
    {reply, ok, State#{
        discovery := dyno_agent_discovery:restart(Discovery),
        newest := newest()
    }};
handle_call(read, From, #{waiting := Waiting, discovery := Discovery} = State) ->
    Settled = dyno_agent_discovery:settle(Discovery),
    {noreply, scan(State#{waiting := [From | Waiting], discovery := Settled})}.

-spec handle_cast({loaded | leave_out | limit, term()}, state()) -> {noreply, state()}.
handle_cast({What, Of}, #{discovery := Discovery} = State) ->
    {noreply, State#{discovery := dyno_agent_discovery:What(Of, Discovery)}}.

-spec handle_info(term(), state()) -> {noreply, state()} | {stop, term(), state()}.
handle_info({trace_ts, Pid, call, MFA, Time}, #{look_in := 0, discovery := Discovery} = State) ->
    {message_queue_len, Waiting} = process_info(self(), message_queue_len),
    Looked = State#{
        look_in := ?LOOK_EVERY, discovery := dyno_agent_discovery:behind(Waiting, Discovery)
    },
    handle_info({trace_ts, Pid, call, MFA, Time}, Looked);
handle_info({trace_ts, Pid, call, MFA, Time}, #{look_in := Left, discovery := Discovery} = State) ->
    Next = dyno_agent_discovery:first_call(Pid, MFA, Time, Discovery),
    {noreply, State#{look_in := Left - 1, discovery := Next}};
handle_info({'DOWN', Ref, process, Pid, Reason}, #{discovery := Discovery} = State) ->
    {noreply, State#{discovery := dyno_agent_discovery:ended(Ref, Pid, Reason, Discovery)}};
handle_info(scan, #{scan := idle} = State) ->
    {noreply, scan(State)};
handle_info(scan_on, #{scan := idle} = State) ->
    {noreply, State};
handle_info(scan_on, #{scan := Continuation, discovery := Discovery} = State) ->
    Table = dyno_agent_discovery:table(Discovery),
    {noreply, scanned(dyno_agent_process_table:scan_on(Continuation, Table), State)};
handle_info(Due, #{discovery := Discovery} = State) when
    Due =:= open_window; Due =:= close_window; Due =:= closed
->
    {noreply, State#{discovery := dyno_agent_discovery:due(Due, Discovery)}};
handle_info({'EXIT', _Parent, Reason}, State) ->
    {stop, Reason, State};
handle_info(_Other, State) ->
    {noreply, State}.

%% A running scan starts again.
scan(#{discovery := Discovery, scan := Scan} = State) ->
    Table = dyno_agent_discovery:table(Discovery),
    _ = [ok = dyno_agent_process_table:end_scan(Table) || Scan =/= idle],
    Begun = State#{
        began_ms := erlang:monotonic_time(millisecond),
        discovery := dyno_agent_discovery:begin_scan(Discovery)
    },
    scanned(dyno_agent_process_table:scan(Table), Begun).

scanned({Samples, Continuation}, #{waiting := Waiting, began_ms := BeganMs} = State) ->
    #{discovery := Discovery} = State,
    Next = State#{
        scan := Continuation, discovery := dyno_agent_discovery:samples(Samples, Discovery)
    },
    case Waiting =/= [] andalso erlang:monotonic_time(millisecond) - BeganMs > ?READ_MS of
        true ->
            ended_scan(in_part, Next);
        false ->
            %% The mailbox has its turn, and before the end the node's processes too.
            _ = [in_turn() || Waiting =:= []],
            self() ! scan_on,
            Next
    end;
scanned(done, #{discovery := Discovery} = State) ->
    ended_scan(to_the_end, State#{discovery := dyno_agent_discovery:end_scan(Discovery)}).

in_turn() ->
    process_flag(priority, normal),
    true = erlang:yield(),
    process_flag(priority, high).

ended_scan(Read, #{discovery := Discovery, waiting := Waiting, newest := Newest} = State) ->
    #{interval_ms := IntervalMs, began_ms := BeganMs, timer := Timer} = State,
    ok = dyno_agent_process_table:end_scan(dyno_agent_discovery:table(Discovery)),
    case Waiting of
        [] ->
            ok;
        _ ->
            Reading = (dyno_agent_discovery:read(Discovery))#{
                started => max(0, newest() - Newest),
                read => Read
            },
            lists:foreach(fun(From) -> gen_server:reply(From, Reading) end, Waiting)
    end,
    TookMs = erlang:monotonic_time(millisecond) - BeganMs,
    NextMs = max(dyno_agent_instants:next_ms(IntervalMs) - TookMs, ?REST * TookMs),
    _ = erlang:cancel_timer(Timer),
    State#{scan := idle, waiting := [], timer := erlang:send_after(NextMs, self(), scan)}.

-spec terminate(term(), state()) -> ok.
terminate(_Reason, #{first_calls := Calls}) ->
    dyno_agent_first_calls:close(Calls).
