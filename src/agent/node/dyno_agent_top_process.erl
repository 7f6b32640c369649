%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_top_process).
-moduledoc false.
%% One process, as `dyno top` opens it, and its state. Only for the state, which is asked on demand,
%% top sends a message to a process of the node.

-export([detail/1, state/1]).
-export_type([state/0]).

-type state() :: {ok, Lines :: [binary()]} | {error, Why :: binary()}.

-define(MOST_SHOWN, 200).
-define(LONG_QUEUE, 1000).
-define(SHORT_QUEUE, 100).
-define(MOST_COPIED, 1_000_000).
-define(STATE_MS, 500).
-define(STATE_DEPTH, 40).
-define(STATE_CHARACTERS, 3000).

-doc "Stack, links, monitors, dictionary and memory; asked in a helper with a time limit.".
-spec detail(pid()) -> #{atom() => term()}.
detail(Pid) ->
    Keys = [
        message_queue_len,
        status,
        reductions,
        heap_size,
        links,
        monitors,
        priority,
        trap_exit,
        current_stacktrace,
        parent
    ],
    case process_info(Pid, Keys) of
        undefined ->
            #{answered => true, ended => true};
        Info ->
            #{links := Links, monitors := Monitors, current_stacktrace := Stack} =
                All = maps:from_list(Info),
            (maps:with([message_queue_len, status, reductions, priority, trap_exit], All))#{
                answered => true,
                ended => false,
                name => dyno_agent_census:name(Pid),
                group => dyno_agent_census:group(Pid),
                parent => named(map_get(parent, All)),
                heap_bytes => map_get(heap_size, All) * erlang:system_info(wordsize),
                links => [named(Link) || Link <- lists:sublist(Links, ?MOST_SHOWN)],
                link_count => length(Links),
                monitors => [named(Of) || {_, Of} <- lists:sublist(Monitors, ?MOST_SHOWN)],
                monitor_count => length(Monitors),
                dictionary => dictionary(Pid, map_get(message_queue_len, All)),
                stack => [frame(Frame) || Frame <- Stack]
            }
    end.

%% Reading it copies it, and the memory of a process with a long queue is not read.
dictionary(Pid, Queue) when Queue =< ?LONG_QUEUE ->
    maybe
        {_, Bytes} ?= process_info(Pid, memory),
        true ?= Bytes =< ?MOST_COPIED,
        {_, Pairs} ?= process_info(Pid, dictionary),
        [
            dyno_agent_census:text("~0tP: ~0tP", [Key, 9, Value, 9])
         || {Key, Value} <- Pairs
        ]
    else
        _ -> unknown
    end;
dictionary(_Pid, _Queue) ->
    unknown.

named(Pid) when is_pid(Pid) -> dyno_agent_census:name(Pid);
named(Port) when is_port(Port) -> dyno_agent_census:pid(Port);
named(Other) -> dyno_agent_census:text("~0tp", [Other]).

frame({M, F, A, Location}) ->
    Arity =
        if
            is_list(A) -> length(A);
            true -> A
        end,
    Name = dyno_agent_name:mfa({M, F, Arity}),
    case {proplists:get_value(file, Location), proplists:get_value(line, Location)} of
        {File, Line} when is_list(File), is_integer(Line) ->
            dyno_agent_census:text("~ts (~ts:~b)", [Name, filename:basename(File), Line]);
        _ ->
            Name
    end.

-doc """
The state of a server in print, at most 3000 characters. Not asked is one that handles no system
messages, has more than 100 messages, or more than 1 MB, since the answer is a copy.
""".
-spec state(pid()) -> state().
state(Pid) ->
    case process_info(Pid, [message_queue_len, current_stacktrace]) of
        undefined ->
            {error, ~"it has ended"};
        [{_, Queue}, _] when Queue > ?SHORT_QUEUE ->
            {error, ~"not asked, more than 100 messages wait for it"};
        [_, {_, Stack}] ->
            case {is_server(lists:reverse(Stack)), process_info(Pid, memory)} of
                {false, _} -> {error, ~"not asked, it is not known to be a server of OTP"};
                {true, {_, Bytes}} when Bytes =< ?MOST_COPIED -> answered(Pid);
                {true, _} -> {error, ~"not asked, it has more than 1 MB"}
            end
    end.

answered(Pid) ->
    try sys:get_state(Pid, ?STATE_MS) of
        State ->
            Text = io_lib:format("~tP", [State, ?STATE_DEPTH], [{chars_limit, ?STATE_CHARACTERS}]),
            {ok, binary:split(unicode:characters_to_binary(Text), ~"\n", [global])}
    catch
        exit:{timeout, _} -> {error, ~"it does not answer within 0.5 s"};
        _:_ -> {error, ~"it has no answer"}
    end.

%% In its loop or in a callback; not while it starts.
is_server([{proc_lib, init_p_do_apply, 3, _}, {Module, Function, _, _} | _]) ->
    lists:member(Module, [gen_server, gen_statem, gen_event]) andalso Function =/= init_it;
is_server(_Stack) ->
    false.
