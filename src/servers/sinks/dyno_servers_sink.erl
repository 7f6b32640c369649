%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_sink).
-moduledoc """
Send what server processes did in a window of time to StatsD, Datadog, Prometheus, OpenTelemetry or
`telemetry`.

A sink is a process. `send/2` gives it the sums of a window and returns at once: what a receiver is
too slow for is dropped and counted, and so is what a receiver refuses. doc/servers-sinks.md says
what each kind sends.

## Examples

```erlang
{ok, Config} = dyno_servers_sink:parse("statsd://127.0.0.1:8125"),
{ok, Sink} = dyno_servers_sink:start_link(Config),
ok = dyno_servers_sink:send(Sink, Sums),
#{failed := 0, dropped := 0} = dyno_servers_sink:failures(Sink),
ok = dyno_servers_sink:stop(Sink).
```

To add a kind of sink, write a module with this behaviour, and a line in `dyno_servers_sink_url`.
""".

-behaviour(gen_server).

%% Sinks
-export([parse/1, start_link/1, address/1, send/2, failures/1, stop/1, format_error/1]).
%% gen_server
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([config/0, sink/0, failures/0, written/0, reason/0]).

-doc "Which sink, and where it sends: what `parse/1` makes of a URL.".
-type config() :: dyno_servers_sink_url:config().

-doc "A sink that runs.".
-opaque sink() :: #{pid := pid(), table := ets:table(), address := binary()}.

-doc """
What did not arrive: `failed` datagrams, posts, events or series, and windows that were `dropped`
because the sink was still busy with those before. `last` says why the last one failed.
""".
-type failures() :: #{
    failed := non_neg_integer(), dropped := non_neg_integer(), last := binary() | none
}.

-doc "How many datagrams, posts, events or series of a window failed, and why the last one did.".
-type written() :: {Failed :: non_neg_integer(), Why :: dyno_error:error() | none}.

-type reason() :: {exit, term()}.

-type server() :: #{
    sink := sink(), module := module(), state := term()
}.

-doc "Makes ready to send. `Address` is for people: where the sink sends, or where it can be read.".
-callback open(config()) ->
    {ok, Address :: binary(), State :: term()} | {error, dyno_error:error()}.
-doc "Sends a window.".
-callback write([dyno_servers_window:sum()], State) -> {written(), State} when State :: term().
-doc "Gives back what `open/1` took.".
-callback close(State :: term()) -> ok.
-doc "One sentence for a reason.".
-callback format_error(Reason :: term()) -> unicode:chardata().

%% Windows that wait in the sink at most.
-define(MOST_QUEUED, 8).

-doc "What a URL of a sink means; `dyno_error:format/1` words what is wrong with it.".
-spec parse(unicode:chardata()) -> {ok, config()} | {error, dyno_error:error()}.
parse(Url) ->
    dyno_servers_sink_url:parse(Url).

-doc """
Starts a sink that is linked to the caller.

A receiver that is not there yet is no error: what it misses is counted. A name of a host that is
not known, a port in use and a library that is not there are.
""".
-spec start_link(config()) -> {ok, sink()} | {error, dyno_error:error()}.
start_link(Config) ->
    case gen_server:start_link(?MODULE, Config, []) of
        {ok, Pid} -> {ok, gen_server:call(Pid, sink, infinity)};
        {error, {refused, Error}} -> {error, Error};
        {error, Reason} -> {error, {?MODULE, {exit, Reason}}}
    end.

-doc "Where the sink sends, or the URL at which its metrics can be read.".
-spec address(sink()) -> binary().
address(#{address := Address}) ->
    Address.

-doc "Sends the sums of a window. Never waits; a sink that was stopped takes nothing.".
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

-doc "What did not arrive since the sink was started. Never waits.".
-spec failures(sink()) -> failures().
failures(#{table := Table}) ->
    #{Key => ets:lookup_element(Table, Key, 2, Else) || {Key, Else} <- counted()}.

counted() ->
    [{failed, 0}, {dropped, 0}, {last, none}].

-doc "Stops the sink, after it sent what was given to it.".
-spec stop(sink()) -> ok.
stop(#{pid := Pid}) ->
    gen_server:stop(Pid).

-spec format_error(reason()) -> unicode:chardata().
format_error({exit, Reason}) ->
    io_lib:format("the sink could not be started: ~0tP", [Reason, 20]).

-spec init(config()) -> {ok, server()} | {error, {refused, dyno_error:error()}}.
init(#{sink := Module} = Config) ->
    %% To close what was opened when whoever started it ends.
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
    %% Who sees that one failed, sees why.
    true = Why =:= none orelse ets:insert(Table, {last, text(Why)}),
    _ = ets:update_counter(Table, failed, Failed),
    _ = ets:update_counter(Table, queued, -1),
    {noreply, Server#{state := Written}}.

%% What a sink has started has ended.
-spec handle_info(term(), server()) -> {noreply, server()}.
handle_info(_Message, Server) ->
    {noreply, Server}.

-spec terminate(term(), server()) -> ok.
terminate(_Reason, #{module := Module, state := State}) ->
    Module:close(State).

text(Error) ->
    unicode:characters_to_binary(dyno_error:format(Error)).
