%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_bench_calls).
-moduledoc """
Files of recorded calls: a code that repeats the calls of a real system.

A file holds `{Module, Function, [Argument]}` terms that end with a full stop, or lists of such
terms; or, as in erlperf 2, one such list in the external term format. `record/2` makes such lists
of the calls in this node.

```erlang
1> {ok, Calls} = dyno_bench_calls:record({ets, lookup, 2}, #{duration_ms => 1000}).
2> ok = dyno_bench_calls:write("lookups.calls", Calls).
3> {ok, _} = dyno:bench(Calls).
```

`dyno bench lookups.calls` then repeats all calls in each iteration.
""".

-export([read/1, write/2, record/2, format_error/1]).
-export_type([call/0, options/0, reason/0]).

-type call() :: {module(), atom(), [term()]}.

-type options() :: #{
    %% Recording time. Default: 1000.
    duration_ms => pos_integer(),
    %% Ends earlier after this number of calls. Default: 1000.
    most => pos_integer()
}.

-type reason() ::
    {no_file, file:filename_all(), file:posix()}
    | {too_large, file:filename_all(), non_neg_integer()}
    | {not_calls, file:filename_all(), unicode:chardata()}
    | {no_function, mfa()}
    | {no_pattern, term()}.

-define(MAX_BYTES, 67_108_864).
-define(MAX_CALLS, 100_000).

-doc "The calls of a file, in order.".
-spec read(file:filename_all()) -> dyno_error:result([call(), ...]).
read(Path) ->
    maybe
        {ok, Content} ?= content(Path, filelib:file_size(Path)),
        {ok, Terms} ?= terms(Path, Content),
        calls(Path, lists:flatten(Terms))
    end.

content(Path, Bytes) when Bytes > ?MAX_BYTES ->
    {error, {?MODULE, {too_large, Path, Bytes}}};
content(Path, _Bytes) ->
    case file:read_file(Path) of
        {ok, Content} -> {ok, Content};
        {error, Posix} -> {error, {?MODULE, {no_file, Path, Posix}}}
    end.

%% 131 begins the external term format, and no text.
terms(Path, <<131, _/binary>> = Content) ->
    try
        {ok, [binary_to_term(Content)]}
    catch
        error:badarg -> not_calls(Path, "the head is that of an external term, the rest is not")
    end;
terms(Path, _Content) ->
    case file:consult(Path) of
        {ok, Terms} -> {ok, Terms};
        {error, Reason} -> not_calls(Path, file:format_error(Reason))
    end.

calls(Path, []) ->
    not_calls(Path, "it is empty");
calls(Path, Terms) when length(Terms) > ?MAX_CALLS ->
    Why = io_lib:format("of ~b terms, at most ~b are repeated", [length(Terms), ?MAX_CALLS]),
    not_calls(Path, Why);
calls(Path, Terms) ->
    case [T || T <- Terms, not is_call(T)] of
        [] -> {ok, Terms};
        [Term | _] -> not_calls(Path, io_lib:format("one term is ~0tP", [Term, 8]))
    end.

not_calls(Path, Why) ->
    {error, {?MODULE, {not_calls, Path, Why}}}.

is_call({M, F, A}) -> is_atom(M) andalso is_atom(F) andalso is_list(A);
is_call(_) -> false.

-doc """
Writes calls as text, which a person can read and edit. Terms without text (pids) are written as
external terms. Only this user may read the file, because it has arguments.
""".
-spec write(file:filename_all(), [call(), ...]) -> dyno_error:result().
write(Path, Calls) ->
    Terms = [io_lib:format("~0tp.~n", [Call]) || Call <- Calls],
    maybe
        Text = ["%% coding: utf-8\n", unicode:characters_to_binary(Terms)],
        ok ?= dyno_error:tagged(dyno_file, dyno_file:write(Path, private, Text)),
        false ?= file:consult(Path) =:= {ok, Calls},
        dyno_error:tagged(dyno_file, dyno_file:write(Path, private, term_to_binary(Calls)))
    else
        true -> ok;
        {error, _} = Error -> Error
    end.

-doc """
Records the calls of a function by all processes of this node, in order.

## Cost
Uses its own trace session, which ends with the time, the number of calls, or this process. Until
then each call sends a message with copies of its arguments: 0.5 us and more. Set a small `most` for
a function that is called a million times a second.
""".
-spec record({module(), atom(), arity()}, options()) -> dyno_error:result([call()]).
record({M, F, A} = Function, Options) when is_atom(M), is_atom(F), is_integer(A), A >= 0 ->
    IsPositive = fun(N) -> is_integer(N) andalso N >= 1 end,
    IsCount = fun(N) -> IsPositive(N) andalso N =< ?MAX_CALLS end,
    Fields = [
        {duration_ms, 1000, IsPositive, "a positive integer"},
        {most, 1000, IsCount, "an integer from 1 to 100000"}
    ],
    _ = code:ensure_loaded(M),
    maybe
        {ok, #{duration_ms := DurationMs, most := Most}} ?= dyno_option:read(Fields, Options),
        true ?= erlang:function_exported(M, F, A),
        recorded(Function, DurationMs, Most)
    else
        false -> {error, {?MODULE, {no_function, Function}}};
        {error, _} = Error -> Error
    end;
record(Other, _Options) ->
    {error, {?MODULE, {no_pattern, Other}}}.

%% In its own process, so that late messages vanish with it.
recorded(Function, DurationMs, Most) ->
    Caller = self(),
    Record = fun() ->
        CallerMonitor = monitor(process, Caller),
        %% To stop tracing before the mailbox fills with unneeded messages.
        _ = process_flag(priority, high),
        _ = process_flag(message_queue_data, off_heap),
        Session = trace:session_create(?MODULE, self(), []),
        _ = trace:function(Session, Function, true, [local]),
        _ = trace:process(Session, all, true, [call]),
        EndMs = erlang:monotonic_time(millisecond) + DurationMs,
        Calls = gathered(CallerMonitor, EndMs, Most, []),
        true = trace:session_destroy(Session),
        Calls
    end,
    case dyno_sandbox:once(Record, infinity) of
        {error, interrupted} -> {error, {dyno_error, interrupted}};
        %% Arguments of 2 GB, or more than a small +hmax allows.
        {error, Failure} -> {error, {dyno_sandbox, {{?MODULE, record, 2}, Failure}}};
        {ok, Calls} -> {ok, Calls}
    end.

gathered(_CallerMonitor, _EndMs, 0, Calls) ->
    lists:reverse(Calls);
gathered(CallerMonitor, EndMs, Left, Calls) ->
    receive
        {trace, _Pid, call, {M, F, A}} ->
            gathered(CallerMonitor, EndMs, Left - 1, [{M, F, A} | Calls]);
        {'DOWN', CallerMonitor, process, _, _} ->
            []
    after max(0, EndMs - erlang:monotonic_time(millisecond)) ->
        lists:reverse(Calls)
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({no_file, Path, Posix}) ->
    io_lib:format("~ts: ~ts", [Path, file:format_error(Posix)]);
format_error({too_large, Path, Bytes}) ->
    io_lib:format("~ts has ~b MB; a file of calls of at most ~b MB is read", [
        Path, Bytes div 1_000_000, ?MAX_BYTES div 1_000_000
    ]);
format_error({not_calls, Path, Why}) ->
    io_lib:format(
        "~ts is no file of recorded calls: ~ts; {Module, Function, [Argument]}. is accepted, any "
        "number of times",
        [Path, Why]
    );
format_error({no_function, MFA}) ->
    ["there is no function ", dyno_agent_name:mfa(MFA), " to record"];
format_error({no_pattern, Other}) ->
    io_lib:format(
        "the calls of one function are recorded, {Module, Function, Arity}, not of ~0tP; record "
        "each function by itself",
        [Other, 10]
    ).
