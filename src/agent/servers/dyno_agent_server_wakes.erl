%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_wakes).
-moduledoc false.
%% How long a message waits that finds its gen_server idle: the time until the server runs. No look
%% at a queue is as fine. So now and then a few servers and the processes that call them are traced:
%%
%%   try_handle_*    call: a callback begins
%%   loop, loop_hibernate
%%                   call: the server is done with it
%%   cast/2, do_call/4, for a tenth of a second
%%                   meta breakpoint: a process that sends to them flags itself,
%%   do_send/2, erlang:monitor
%%                   call: and tells the time
%%   cast/2, do_call/4, for another fifth
%%                   call: those flagged tell the time, without the delay of the former
%%
%% If the node has more to do than it can, nothing is traced: a part would last for seconds, and
%% messages wait for the others. After a long time with tracing follows a long one
%% without. No message, state or argument is copied. The tracer is suspended: if woken, it would
%% wake a scheduler for the server, or take the processor from it. Senders on other nodes and plain
%% messages are not seen, and the callbacks without a sender are counted. If those are many in the
%% second part, as with senders that live for one message, the first part serves.
%%
%% Clocks are read before a call and after a callback's beginning, and what is traced is slower: so
%% the same is measured with a server of dyno's own, and the medians' difference is added.

-export([watches/2, collects/0, paired/1]).
-export_type([woken/0]).

-doc "The delays of messages that found the server idle, and the number of all of these messages.".
-type woken() :: {[Ns :: non_neg_integer()], Seen :: non_neg_integer()}.

-type event() :: idle | ends | {sent | begins, call | cast | info}.

-define(PAUSES, 8).
-define(PAUSE_MS, 80).
-define(KEPT, 100).
-define(LEAST, 8).
-define(LOOK_MS, 25).
-define(LOOKS, [4, 8]).
-define(SERVERS, 8).
%% A server with more is called too often to be traced.
-define(MOST_EVENTS, 4000).
-define(EVENT_NS, 500).
%% To set breakpoints takes longer, but not on a processor: all schedulers must have passed.
-define(SET_NS, 2_000_000).
%% A message that is taken sooner after another one was waiting.
-define(IDLE_NS, 50_000).
-define(RECENT_NS, 10_000_000_000).
%% With more processes ready to run for each scheduler, messages wait for these.
-define(MOST_READY, 10).
%% Without tracing at least so many times as long as with it.
-define(REST, 2).

-doc "Sends `{dyno_agent_server_wakes, #{pid() => woken()}, OwnCasts}` to the agent now and then.".
-spec watches(pid(), dyno_agent_server_hook:shared()) -> no_return().
watches(Agent, Shared) ->
    Own = dyno_agent_server_probe:start_link(Shared),
    watches(Agent, #{}, {[], []}, Own, Shared).

watches(Agent, Often, Before, {Own, _} = Server, Shared) ->
    Pauses = 4 + rand:uniform(?PAUSES),
    lists:foreach(fun(_) -> waits(?PAUSE_MS, Own) end, lists:seq(1, Pauses)),
    Untraced = dyno_agent_server_probe:waited(Own),
    case [Of || not is_overloaded(), Of <- recent(Often, Shared)] of
        [] ->
            Agent ! {?MODULE, #{}, Pauses},
            watches(Agent, Often, Before, Server, Shared);
        Servers ->
            Begun = now_ns(),
            {TookNs, Events} = traced([Server | Servers]),
            RestMs = ?REST * (now_ns() - Begun) div 1_000_000 - 4 * ?PAUSE_MS,
            ok = timer:sleep(max(0, RestMs)),
            Casts = Pauses + length(dyno_agent_server_probe:waited(Own)),
            ok = dyno_agent_server_heart:took(TookNs + ?EVENT_NS * length(Events), Shared),
            {{Traced, _}, Woken} = maps:take(Own, maps:merge(#{Own => {[], 0}}, paired(Events))),
            Known = known(Untraced, Traced, Before),
            case off_ns(Known) of
                _ when length(Events) > ?MOST_EVENTS ->
                    Counts = maps:groups_from_list(fun({_, Pid, _}) -> Pid end, Events),
                    {_, Most} = lists:max([{length(Of), Pid} || Pid := Of <- Counts]),
                    Agent ! {?MODULE, #{}, Casts},
                    watches(Agent, (few(Often))#{Most => []}, Known, Server, Shared);
                unknown ->
                    Agent ! {?MODULE, #{}, Casts},
                    watches(Agent, Often, Known, Server, Shared);
                OffNs ->
                    Truer = fun(_, {Of, Seen}) -> {[max(0, Ns + OffNs) || Ns <- Of], Seen} end,
                    Agent ! {?MODULE, maps:map(Truer, Woken), Casts},
                    watches(Agent, Often, Known, Server, Shared)
            end
    end.

is_overloaded() ->
    Ready = erlang:statistics(total_run_queue_lengths),
    Ready > ?MOST_READY * erlang:system_info(schedulers_online).

few(Often) when map_size(Often) > ?KEPT -> #{};
few(Often) -> Often.

waits(Ms, Own) ->
    timer:sleep(Ms),
    gen_server:cast(Own, {sent, now_ns()}).

known(Untraced, Traced, {A, B}) ->
    {lists:sublist(Untraced ++ A, ?KEPT), lists:sublist(Traced ++ B, ?KEPT)}.

off_ns({Untraced, Traced}) when length(Untraced) >= ?LEAST, length(Traced) >= ?LEAST ->
    median(Untraced) - median(Traced);
off_ns(_Few) ->
    unknown.

median(Times) -> lists:nth((length(Times) + 1) div 2, lists:sort(Times)).

%% Those that were called last: mostly those that are called often.
recent(Often, #{clock := Clock} = Shared) ->
    Now = now_ns() - Clock,
    Called = [
        {Now - At, Pid, Counters}
     || {Pid, Counters} <- dyno_agent_server_names:hooked(Shared),
        not is_map_key(Pid, Often),
        {_, At, _} <- [dyno_agent_server_counters:under_way(Counters)],
        Now - At < ?RECENT_NS
    ],
    [{Pid, Counters} || {_, Pid, Counters} <- lists:sublist(lists:sort(Called), ?SERVERS)].

traced(Servers) ->
    Tracer = spawn_link(?MODULE, collects, []),
    true = erlang:suspend_process(Tracer),
    Session = trace:session_create(dyno_server_wakes, Tracer, []),
    Names = maps:from_list(lists:append([names(Pid) || {Pid, _} <- Servers])),
    Kinds = #{
        {gen_server, Name, Arity} => Kind
     || {Name, Arity} <- gen_server:module_info(functions),
        {Handler, Kind} <- [
            {try_handle_call, call},
            {try_handle_cast, cast},
            {try_handle_info, info},
            {loop, ends},
            {loop_hibernate, ends}
        ],
        Handler =:= Name
    },
    _ = [trace:function(Session, MFA, true, [local]) || MFA := _ <- Kinds],
    %% Not the return of a callback: if another session asks for that, call_time counts on after it.
    lists:foreach(
        fun({Pid, _}) -> flag(Pid, [call, arity, monotonic_timestamp], Session) end, Servers
    ),
    Idle = [
        traced(Part, Looks, {Servers, maps:keys(Names), Tracer, Session})
     || {Part, Looks} <- lists:enumerate(?LOOKS)
    ],
    Begun = now_ns(),
    true = trace:session_destroy(Session),
    true = unlink(Tracer),
    true = erlang:resume_process(Tracer),
    Ref = monitor(process, Tracer),
    Tracer ! {take, self(), Ref},
    receive
        {Ref, Messages} ->
            true = demonitor(Ref, [flush]),
            Events = [event(Of, Names, Kinds) || Of <- Messages, is_event(Of)],
            Ordered = lists:sort(lists:append(Idle) ++ Events),
            {?SET_NS + now_ns() - Begun, Ordered};
        {'DOWN', Ref, process, Tracer, _} ->
            {0, []}
    end.

%% The beginning of the part, and the servers that are idle then.
traced(Part, Looks, {Servers, Names, Tracer, Session}) ->
    lists:foreach(
        fun({MFA, Spec, Options}) -> trace:function(Session, MFA, Spec, Options) end,
        senders(Part, Names)
    ),
    Now = now_ns(),
    %% No callback runs and no message waits.
    Idle = [
        {now_ns(), Pid, idle}
     || {Pid, Counters} <- Servers,
        {ended, _, _} <- [dyno_agent_server_counters:under_way(Counters)],
        {_, 0} <- [process_info(Pid, message_queue_len)]
    ],
    ok = until_full(Looks, Tracer, element(1, hd(Servers))),
    [{Now, none, Part} | Idle].

names(Pid) ->
    [{Pid, Pid} | [{Name, Pid} || {_, Name} <- [process_info(Pid, registered_name)]]].

flag(Pid, Flags, Session) ->
    try
        trace:process(Session, Pid, true, Flags)
    catch
        error:badarg -> 0
    end.

senders(Part, Names) ->
    Flag = [{message, false}, {trace, [], [call, arity, monotonic_timestamp]}],
    Spec = fun(Before, After, Body) -> [{Before ++ [N | After], [], Body(N)} || N <- Names] end,
    Told = fun(Name) -> [{message, {const, Name}}] end,
    First = fun(Arity, Body) -> Spec([], lists:duplicate(Arity - 1, '_'), Body) end,
    Begins = [{gen_server, cast, 2}, {'Elixir.GenServer', cast, 2}, {gen, do_call, 4}],
    Sends = [{gen_server, do_send, 2}, {'Elixir.GenServer', do_send, 2}],
    Calls = [{{erlang, monitor, 2}, []}, {{erlang, monitor, 3}, ['_']}],
    case Part of
        1 ->
            [{MFA, First(Arity, fun(_) -> Flag end), [meta]} || {_, _, Arity} = MFA <- Begins] ++
                [{MFA, First(2, Told), [local]} || MFA <- Sends] ++
                [{MFA, Spec(['_'], After, Told), [local]} || {MFA, After} <- Calls];
        2 ->
            [{MFA, false, [meta]} || MFA <- Begins] ++
                [{MFA, false, [local]} || MFA <- Sends ++ [Of || {Of, _} <- Calls]] ++
                [{MFA, First(Arity, Told), [local]} || {_, _, Arity} = MFA <- Begins]
    end.

until_full(0, _Tracer, _Own) ->
    ok;
until_full(Looks, Tracer, Own) ->
    waits(?LOOK_MS, Own),
    case process_info(Tracer, message_queue_len) of
        {_, Few} when Few =< ?MOST_EVENTS -> until_full(Looks - 1, Tracer, Own);
        _ -> ok
    end.

-doc false.
-spec collects() -> ok.
collects() ->
    receive
        {take, To, Ref} ->
            To ! {Ref, taken()},
            ok
    end.

taken() ->
    receive
        Message -> [Message | taken()]
    after 0 -> []
    end.

is_event(Message) -> element(1, Message) =:= trace_ts.

event({trace_ts, _, call, {_, Function, _}, Name, At}, Names, _Kinds) ->
    Kind =
        case Function of
            Call when Call =:= monitor; Call =:= do_call -> call;
            _ -> cast
        end,
    {At, map_get(Name, Names), {sent, Kind}};
event({trace_ts, Pid, call, MFA, At}, _Names, Kinds) ->
    case Kinds of
        #{MFA := ends} -> {At, Pid, ends};
        #{MFA := Kind} -> {At, Pid, {begins, Kind}}
    end.

-doc "The delays in the two parts of a time, from its events in order.".
-spec paired([{At :: integer(), pid(), event()} | {At :: integer(), none, 1 | 2}]) ->
    #{pid() => woken()}.
paired([]) ->
    #{};
paired(Events) ->
    IsMark = fun({_, Pid, _}) -> Pid =:= none end,
    [_ | Of] = lists:dropwhile(fun(Event) -> not IsMark(Event) end, Events),
    {First, Second} = lists:splitwith(fun(Event) -> not IsMark(Event) end, Of),
    maps:merge_with(
        fun(_, A, B) ->
            case B of
                {Delays, Seen} when Seen > 0, 10 * length(Delays) >= 9 * Seen -> B;
                _ -> A
            end
        end,
        by_pid(First),
        by_pid(Second)
    ).

by_pid(Events) ->
    Of = maps:groups_from_list(fun({_, Pid, _}) -> Pid end, Events),
    #{Pid => woken(Its, {works, 0}, {[], 0}) || Pid := Its <- Of, Pid =/= none}.

%% The server works or is idle, or was sent a message when idle; then with the messages behind.
woken([{At, _, Idle} | Events], Was, Woken) when Idle =:= idle; Idle =:= ends, Was =:= {works, 0} ->
    woken(Events, {idle, At}, Woken);
woken([{At, _, {sent, Kind}} | Events], {idle, _}, Woken) ->
    woken(Events, {sent, Kind, At, 0}, Woken);
woken([{_, _, {sent, _}} | Events], {sent, Kind, At, Behind}, Woken) ->
    woken(Events, {sent, Kind, At, Behind + 1}, Woken);
woken([{_, _, {sent, _}} | Events], {works, Behind}, Woken) ->
    woken(Events, {works, Behind + 1}, Woken);
woken([{Begun, _, {begins, Kind}} | Events], {sent, Kind, At, Behind}, {Delays, Seen}) ->
    woken(Events, {works, Behind}, {[Begun - At | Delays], Seen + 1});
woken([{_, _, {begins, _}} | Events], {sent, _, _, Behind}, {Delays, Seen}) ->
    woken(Events, {works, Behind + 1}, {Delays, Seen + 1});
woken([{Begun, _, {begins, _}} | Events], {idle, Since}, {Delays, Seen}) when
    Begun - Since > ?IDLE_NS
->
    woken(Events, {works, 0}, {Delays, Seen + 1});
woken([{_, _, {begins, _}} | Events], {idle, _}, Woken) ->
    woken(Events, {works, 0}, Woken);
woken([{_, _, {begins, _}} | Events], {works, Behind}, Woken) ->
    woken(Events, {works, max(0, Behind - 1)}, Woken);
woken([_ | Events], Was, Woken) ->
    woken(Events, Was, Woken);
woken([], _Was, Woken) ->
    Woken.

now_ns() -> erlang:monotonic_time(nanosecond).
