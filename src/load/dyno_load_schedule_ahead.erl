%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_schedule_ahead).
-moduledoc false.
%% The due times of a schedule with random gaps, by arrival number.
%%
%% Random times can only be drawn in order. One process draws them ahead of the workers into a table
%% of chunks and deletes old chunks: memory is bounded, and a worker pays one look-up.

-export([start_link/2, due/2, total/1, stop/1]).
-export_type([t/0]).

-opaque t() ::
    {schedule, dyno_load_schedule:schedule()} | {chunks, ets:table(), pid()}.

-define(CHUNK, 8192).
%% Chunks drawn ahead, and kept behind: 2 million arrivals, 16 MB.
-define(AHEAD, 8).
-define(BEHIND, 256).
-define(POLL_MS, 2).

-doc "Starts drawing times for workers; `Claimed`: the last arrival that one took.".
-spec start_link(dyno_load_schedule:schedule(), fun(() -> integer())) -> t().
start_link(Schedule, Claimed) ->
    case dyno_load_schedule:is_random(Schedule) of
        false -> {schedule, Schedule};
        true -> drawn(Schedule, Claimed)
    end.

drawn(Schedule, Claimed) ->
    Table = ets:new(?MODULE, [public, {read_concurrency, true}]),
    Stream = fill(Table, 0, ?AHEAD, dyno_load_schedule:stream(Schedule)),
    Pid = spawn_link(fun() ->
        proc_lib:set_label(?MODULE),
        draw(Table, ?AHEAD, Stream, Claimed)
    end),
    {chunks, Table, Pid}.

-spec due(non_neg_integer(), t()) -> non_neg_integer() | never.
due(K, {schedule, Schedule}) ->
    dyno_load_schedule:due(K, Schedule);
due(K, {chunks, Table, _} = Times) ->
    case ets:lookup(Table, K div ?CHUNK) of
        [{_, Chunk}] ->
            Before = K rem ?CHUNK,
            case Chunk of
                <<_:Before/binary-unit:64, Due:64, _/binary>> -> Due;
                _ -> never
            end;
        [] ->
            case total(Times) of
                undefined ->
                    receive
                    after 1 -> due(K, Times)
                    end;
                _ ->
                    never
            end
    end.

-doc "The number of all arrivals, if all are drawn.".
-spec total(t()) -> non_neg_integer() | undefined.
total({schedule, _}) ->
    undefined;
total({chunks, Table, _}) ->
    case ets:lookup(Table, total) of
        [{total, Total}] -> Total;
        [] -> undefined
    end.

-spec stop(t()) -> ok.
stop({schedule, _}) ->
    ok;
stop({chunks, Table, Pid}) ->
    unlink(Pid),
    exit(Pid, kill),
    true = ets:delete(Table),
    ok.

draw(_Table, _Next, ended, _Claimed) ->
    ok;
draw(Table, Next, Stream, Claimed) ->
    Now = max(0, Claimed()) div ?CHUNK,
    case Now + ?AHEAD of
        Upto when Upto > Next ->
            Filled = fill(Table, Next, Upto, Stream),
            Past = lists:seq(Next - ?BEHIND, Upto - ?BEHIND - 1),
            true = lists:all(fun(Old) -> ets:delete(Table, Old) end, Past),
            draw(Table, Upto, Filled, Claimed);
        _ ->
            receive
            after ?POLL_MS -> draw(Table, Next, Stream, Claimed)
            end
    end.

fill(_Table, Next, Next, Stream) ->
    Stream;
fill(Table, Next, Upto, Stream) ->
    {Times, Rest} = dyno_load_schedule:take(?CHUNK, Stream),
    true = ets:insert(Table, {Next, <<<<Time:64>> || Time <- Times>>}),
    case length(Times) of
        ?CHUNK ->
            fill(Table, Next + 1, Upto, Rest);
        Fewer ->
            true = ets:insert(Table, {total, Next * ?CHUNK + Fewer}),
            ended
    end.
