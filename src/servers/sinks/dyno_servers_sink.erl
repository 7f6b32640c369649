%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_sink).
-moduledoc """
Sends the sums of servers' windows to StatsD, Datadog, Prometheus, OpenTelemetry or `telemetry`.

A sink is a process. `send/2` passes the sums of a window and returns at once. Windows too many for
a slow receiver are dropped and counted; refusals are counted too. doc/servers-sinks.md describes
each kind.

## Examples

```erlang
{ok, Config} = dyno_servers_sink:parse("statsd://127.0.0.1:8125"),
{ok, Sink} = dyno_servers_sink:start_link(Config),
ok = dyno_servers_sink:send(Sink, Sums),
#{failed := 0, dropped := 0} = dyno_servers_sink:failures(Sink),
ok = dyno_servers_sink:stop(Sink).
```

To add a kind of sink, write a module with this behaviour, and a line in `dyno_servers_sinks`.
""".

-behaviour(gen_server).

%% Sinks
-export([parse/1, start_link/1, address/1, send/2, failures/1, stop/1, format_error/1]).
%% gen_server
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([config/0, sink/0, failures/0, written/0, reason/0]).

-doc "The kind of sink and its address: a parsed URL.".
-type config() :: dyno_servers_sinks:config().

-opaque sink() :: #{pid := pid(), table := ets:table(), address := binary()}.

-doc """
Losses: `failed` datagrams, posts, events or series, and windows `dropped` while the sink was busy
with earlier ones. `last`: the reason of the last failure.
""".
-type failures() :: #{
    failed := non_neg_integer(), dropped := non_neg_integer(), last := binary() | none
}.

-doc "What failed in a window, and the reason of the last failure.".
-type written() :: {Failed :: non_neg_integer(), Why :: dyno_error:error() | none}.

-type reason() :: {exit, term()}.

-type server() :: #{
    sink := sink(), module := module(), state := term()
}.

-doc "Prepares for sending. `Address`: the destination, or the URL for readers, as text.".
-callback open(config()) ->
    {ok, Address :: binary(), State :: term()} | {error, dyno_error:error()}.
-doc "Sends a window.".
-callback write([dyno_servers_window:sum()], State) -> {written(), State} when State :: term().
-doc "Releases the resources of `open/1`.".
-callback close(State :: term()) -> ok.
-doc "A sentence for a reason.".
-callback format_error(Reason :: term()) -> unicode:chardata().

%% The most windows waiting in the sink.
-define(MOST_QUEUED, 8).

-doc "Parses the URL of a sink; `dyno_error:format/1` words its errors.".
-spec parse(unicode:chardata()) -> dyno_error:result(config()).
parse(Url) ->
    dyno_servers_sinks:parse(Url).

-doc """
Starts a sink linked to the caller.

An absent receiver is no error: losses are counted. Errors are an unknown host name, a port in use,
and a missing library.
""".
-spec start_link(config()) -> dyno_error:result(sink()).
start_link(Config) ->
    case gen_server:start_link(?MODULE, Config, []) of
        {ok, Pid} -> {ok, gen_server:call(Pid, sink, infinity)};
        {error, {refused, Error}} -> {error, Error};
        {error, Reason} -> {error, {?MODULE, {exit, Reason}}}
    end.

-doc "The destination, or the URL of the metrics.".
-spec address(sink()) -> binary().
address(#{address := Address}) ->
    Address.

-doc "Sends the sums of a window. Never waits; a stopped sink ignores the sums.".
-spec send(sink(), [dyno_servers_window:sum()]) -> ok.
send(#{pid := Pid, table := Table}, Sums) ->
    try ets:update_counter(Table, queued, 1) of
        Queued when Queued =< ?MOST_QUEUED ->
            gen_server:cast(Pid, {write, Sums});
        _ ->
            _ = ets:update_counter(Table, queued, -1),
            _ = ets:update_counter(Table, dropped, 1),
            ok
    catch
        error:badarg -> ok
    end.

-doc "The losses since the start of the sink. Never waits.".
-spec failures(sink()) -> failures().
failures(#{table := Table}) ->
    #{Key => ets:lookup_element(Table, Key, 2, Else) || {Key, Else} <- counted()}.

counted() ->
    [{failed, 0}, {dropped, 0}, {last, none}].

-doc "Sends the pending sums and stops the sink.".
-spec stop(sink()) -> ok.
stop(#{pid := Pid}) ->
    gen_server:stop(Pid).

-spec format_error(reason()) -> unicode:chardata().
format_error({exit, Reason}) ->
    io_lib:format("the sink could not be started: ~0tP", [Reason, 20]).

-spec init(config()) -> {ok, server()} | {error, {refused, dyno_error:error()}}.
init(#{sink := Module} = Config) ->
    %% To close the resources when the parent ends.
    _ = process_flag(trap_exit, true),
    case Module:open(Config) of
        {ok, Address, State} ->
            Table = ets:new(?MODULE, [public, {write_concurrency, true}]),
            true = ets:insert(Table, [{queued, 0} | counted()]),
            Sink = #{pid => self(), table => Table, address => Address},
            {ok, #{sink => Sink, module => Module, state => State}};
        {error, Reason} ->
            {error, {refused, Reason}}
    end.

-spec handle_call(sink, gen_server:from(), server()) -> {reply, sink(), server()}.
handle_call(sink, _From, #{sink := Sink} = Server) ->
    {reply, Sink, Server}.

-spec handle_cast({write, [dyno_servers_window:sum()]}, server()) -> {noreply, server()}.
handle_cast({write, Sums}, #{sink := Sink, module := Module, state := State} = Server) ->
    #{table := Table} = Sink,
    {{Failed, Why}, Written} = Module:write(Sums, State),
    %% First the reason: a reader of the failure also sees why.
    true = Why =:= none orelse ets:insert(Table, {last, text(Why)}),
    _ = ets:update_counter(Table, failed, Failed),
    _ = ets:update_counter(Table, queued, -1),
    {noreply, Server#{state := Written}}.

%% A process started by the sink has ended.
-spec handle_info(term(), server()) -> {noreply, server()}.
handle_info(_Message, Server) ->
    {noreply, Server}.

-spec terminate(term(), server()) -> ok.
terminate(_Reason, #{module := Module, state := State}) ->
    Module:close(State).

text(Error) ->
    unicode:characters_to_binary(dyno_error:format(Error)).
