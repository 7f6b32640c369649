%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_trace_sender).
-moduledoc false.
%% Sends events and the names of their processes to the sink that shows them.
%%
%% The sender, not the tracer, asks for names, because a process in a long native function does not
%% answer. At most 1,000 events wait for the sink; further ones are dropped and counted. The sink
%% receives `{dyno_trace, Node, Sender, Events}`, and confirms with `ack/2`.

-export([start_link/1, is_full/1, drop/1, send/2, last/2, ack/2]).
-export([init/1]).
-export_type([t/0, event/0]).

-opaque t() :: #{
    pid := pid(),
    shown := atomics:atomics_ref(),
    sent := non_neg_integer(),
    dropped := non_neg_integer()
}.

-type event() :: #{event := atom(), atom() => term()}.

-define(MOST_WAITING, 1000).
-define(MOST_NAMES, 1000).
-define(MOST_CHARACTERS, 60).

-spec start_link(Sink :: pid()) -> t().
start_link(Sink) ->
    Shown = atomics:new(1, []),
    Pid = proc_lib:spawn_link(?MODULE, init, [{Sink, Shown}]),
    #{pid => Pid, shown => Shown, sent => 0, dropped => 0}.

-doc "Whether a new event would be dropped, and need not be built.".
-spec is_full(t()) -> boolean().
is_full(#{shown := Shown, sent := Sent}) ->
    Sent - atomics:get(Shown, 1) >= ?MOST_WAITING.

-spec drop(t()) -> t().
drop(#{dropped := Dropped} = Sender) -> Sender#{dropped := Dropped + 1}.

-spec send(event(), t()) -> t().
send(Event, #{pid := Pid, sent := Sent} = Sender) ->
    case is_full(Sender) of
        false ->
            Pid ! Event,
            Sender#{sent := Sent + 1};
        true ->
            drop(Sender)
    end.

-doc "Sends the last event, with the number of dropped ones; never dropped itself.".
-spec last(event(), t()) -> ok.
last(Event, #{pid := Pid, dropped := Dropped}) ->
    Pid ! {last, Event#{not_shown => Dropped}},
    ok.

-spec ack(pid(), pos_integer()) -> ok.
ack(Pid, N) ->
    Pid ! {ack, N},
    ok.

-spec init({pid(), atomics:atomics_ref()}) -> ok.
init({Sink, Shown}) ->
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    loop(Sink, Shown, #{}).

loop(Sink, Shown, Names) ->
    receive
        {ack, N} ->
            ok = atomics:add(Shown, 1, N),
            loop(Sink, Shown, Names);
        {last, Event} ->
            _ = deliver(Sink, [Event]),
            ok;
        #{event := _} = Event ->
            {Events, Named} = lists:mapfoldl(fun named/2, Names, batch([Event])),
            _ = deliver(Sink, Events),
            loop(Sink, Shown, Named)
    end.

batch(Events) ->
    receive
        #{event := _} = Event -> batch([Event | Events])
    after 0 -> lists:reverse(Events)
    end.

deliver(Sink, Events) ->
    erlang:send(Sink, {dyno_trace, node(), self(), Events}, [noconnect]).

named(#{pid := Pid} = Event, Names) ->
    {Name, Known} = name(Pid, Names),
    {Event#{pid := list_to_binary(pid_to_list(Pid)), name => Name}, Known};
named(Event, Names) ->
    {Event, Names}.

name(Pid, Names) when map_size(Names) >= ?MOST_NAMES ->
    name(Pid, #{});
name(Pid, Names) ->
    case Names of
        #{Pid := Name} ->
            {Name, Names};
        #{} ->
            Name = of_process(Pid),
            {Name, Names#{Pid => Name}}
    end.

of_process(Pid) ->
    case process_info(Pid, [registered_name, label, {dictionary, '$initial_call'}, initial_call]) of
        undefined -> ~"";
        [{_, Name} | _] when is_atom(Name) -> text("~tw", Name);
        [_, {_, Label} | _] when is_binary(Label) -> text("~ts", Label);
        [_, {_, Label} | _] when Label =/= undefined -> text("~0tp", Label);
        [_, _, {_, {_, _, _} = Started}, _] -> dyno_agent_name:mfa(Started);
        [_, _, _, {_, Started}] -> dyno_agent_name:mfa(Started)
    end.

text(Format, Term) ->
    Text = io_lib:format(Format, [Term], [{chars_limit, ?MOST_CHARACTERS}]),
    case unicode:characters_to_binary(Text) of
        <<Printed/binary>> -> Printed;
        _ -> iolist_to_binary(io_lib:format("~0p", [Term]))
    end.
