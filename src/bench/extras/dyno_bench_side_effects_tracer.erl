%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_side_effects_tracer).
-moduledoc false.
%% Traces a worker and the processes that the worker causes to work. Keeps only counts: messages
%% from and to each process, running times, and spawned functions. The tracer is killed if it cannot
%% keep up, because trace messages hold copies of the messages.

-export([start/1, stop/1, await/2]).
-export([new/1, event/2]).
-export_type([t/0, seen/0]).

-type seen() :: #{
    %% Messages from traced processes, and messages to any process.
    received := non_neg_integer(),
    sent := non_neg_integer(),
    own_ns := non_neg_integer(),
    running => integer(),
    born => mfa() | {module(), fun_of_code},
    ended => true
}.

-type t() :: #{
    %% Messages to this process do not count.
    driver := pid(),
    seen := #{pid() => seen()},
    ports := non_neg_integer(),
    remote := non_neg_integer()
}.

-define(MAX_WORDS, 16_000_000).

-spec start(pid()) -> {pid(), reference()}.
start(Driver) ->
    spawn_monitor(fun() ->
        proc_lib:set_label(?MODULE),
        _ = process_flag(max_heap_size, #{size => ?MAX_WORDS, kill => true, error_logger => false}),
        _ = process_flag(priority, high),
        _ = monitor(process, Driver),
        loop(new(Driver))
    end).

loop(State) ->
    receive
        {read, From, Ref} ->
            From ! {Ref, State},
            loop(new(map_get(driver, State)));
        {'DOWN', _, process, _, _} ->
            ok;
        Event ->
            loop(event(Event, State))
    end.

-doc "Waits for all trace messages. Throws `overrun` if the tracer was too slow.".
-spec await(trace:session(), {pid(), reference()}) -> t().
await(Session, {Tracer, Monitor}) ->
    Delivered = trace:delivered(Session, all),
    receive
        {trace_delivered, all, Delivered} -> ok
    end,
    Ref = make_ref(),
    Tracer ! {read, self(), Ref},
    receive
        {Ref, Counts} -> Counts;
        {'DOWN', Monitor, process, Tracer, _} -> throw(overrun)
    end.

-spec stop({pid(), reference()}) -> ok.
stop({Tracer, Monitor}) ->
    exit(Tracer, kill),
    _ = demonitor(Monitor, [flush]),
    ok.

-spec new(pid()) -> t().
new(Driver) ->
    #{driver => Driver, seen => #{}, ports => 0, remote => 0}.

-spec event(tuple(), t()) -> t().
event({trace_ts, _, send, _, Driver, _}, #{driver := Driver} = State) ->
    State;
event({trace_ts, From, send, _, To, _}, State) ->
    sent(From, local(To), State);
event({trace_ts, Pid, Tag, _, Ns}, State) when Tag =:= in; Tag =:= in_exiting ->
    update(Pid, fun(Seen) -> Seen#{running => Ns} end, State);
event({trace_ts, Pid, Tag, _, Ns}, State) when
    Tag =:= out; Tag =:= out_exiting; Tag =:= out_exited
->
    update(Pid, fun(Seen) -> ran(Ns, Seen) end, State);
event({trace_ts, Pid, spawned, _Parent, MFA, Ns}, State) ->
    %% The spawned process is scheduled in before its trace begins.
    update(Pid, fun(Seen) -> maps:merge(#{running => Ns}, Seen#{born => born(MFA)}) end, State);
event({trace_ts, Pid, exit, _, Ns}, State) ->
    update(Pid, fun(Seen) -> ran(Ns, Seen#{ended => true}) end, State);
event(_Other, State) ->
    State.

ran(Ns, #{running := Since, own_ns := Own} = Seen) ->
    maps:remove(running, Seen#{own_ns := Own + max(0, Ns - Since)});
ran(_Ns, Seen) ->
    Seen.

sent(From, To, State0) ->
    State = update(From, fun(#{sent := N} = Seen) -> Seen#{sent := N + 1} end, State0),
    case {To, State} of
        {port, #{ports := N}} -> State#{ports := N + 1};
        {remote, #{remote := N}} -> State#{remote := N + 1};
        {undefined, _} -> State;
        {From, _} -> State;
        {_, _} -> update(To, fun(#{received := N} = Seen) -> Seen#{received := N + 1} end, State)
    end.

local(Pid) when is_pid(Pid), node(Pid) =:= node() -> Pid;
local(Pid) when is_pid(Pid) -> remote;
local(Port) when is_port(Port) -> port;
local({Name, Node}) when is_atom(Name), Node =:= node() -> local(Name);
local({_, _}) -> remote;
local(undefined) -> undefined;
local(Name) when is_atom(Name) -> local(whereis(Name));
%% An alias: the answer to a call.
local(_Reference) -> undefined.

update(Pid, Fun, #{seen := Seen} = State) ->
    Empty = #{received => 0, sent => 0, own_ns => 0},
    State#{seen := Seen#{Pid => Fun(maps:get(Pid, Seen, Empty))}}.

born({proc_lib, init_p, [_Parent, _Ancestors, gen, init_it, [Behaviour | Rest]]}) ->
    case [M || M <- Rest, is_atom(M), M =/= self, M =/= Behaviour, M =/= nolink] of
        [Module | _] -> {Module, init, 1};
        [] -> {Behaviour, init_it, 6}
    end;
born({proc_lib, init_p, [_Parent, _Ancestors, M, F, A]}) when is_atom(M), is_list(A) ->
    {M, F, length(A)};
born({proc_lib, init_p, [_Parent, _Ancestors, Fun]}) when is_function(Fun) ->
    of_fun(Fun);
born({erlang, apply, [Fun, _]}) when is_function(Fun) ->
    of_fun(Fun);
born({M, F, A}) ->
    {M, F, length(A)}.

of_fun(Fun) ->
    #{module := M, name := F, arity := A} = maps:from_list(erlang:fun_info(Fun)),
    case atom_to_list(M) of
        "dyno_bench_loop" ++ _ -> {M, fun_of_code};
        _ -> {M, F, A}
    end.
