%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_threads).
-moduledoc false.
%% What the threads of the schedulers did: how long each worked, as the runtime has it, and how long
%% it had a processor or was ready for one, as Linux has it (`schedstat` in `/proc/self/task`). The
%% runtime's time also passes while a thread waits in a system call, or for a processor; the
%% processor's clock does not.
%%
%% Cost: 0.1 to 0.2 ms a scheduler to read, in dirty I/O schedulers. Where each of these is taken
%% nobody could read a file, so the clocks are left out.

-export([find/0, numbers/0, read/1, between/2, delay_ns/1]).
-export_type([t/0, reading/0, times/0, kind/0]).

-type kind() :: normal | dirty_cpu | dirty_io.

-doc "The schedulers' threads: the number of each, and its file.".
-type t() :: #{Scheduler :: pos_integer() => file:filename()}.

-type clock() :: {OnProcessorNs :: non_neg_integer(), ReadyNs :: non_neg_integer()}.

-opaque reading() :: #{
    worked := #{pos_integer() => Native :: non_neg_integer()},
    clocks := #{pos_integer() => clock()}
}.

-doc "Of all schedulers of a kind; without `cpu_ns` and `ready_ns` where no clock is known.".
-type times() :: #{
    worked_ns := non_neg_integer(), cpu_ns => non_neg_integer(), ready_ns => non_neg_integer()
}.

-define(TASKS, "/proc/self/task").
%% Most calls there are short.
-define(TRIES, 20).
-define(AGAIN_MS, 5).

-doc "Finds the threads; none on another system than Linux.".
-spec find() -> t().
find() ->
    case is_readable(?TRIES) of
        true ->
            #{
                Number => filename:join([?TASKS, integer_to_list(Tid), "schedstat"])
             || Number := Tid <- numbers()
            };
        false ->
            #{}
    end.

-doc "The system's numbers of the threads; none on another system than Linux.".
-spec numbers() -> #{Scheduler :: pos_integer() => Tid :: pos_integer()}.
numbers() ->
    %% Not over the server of files, which waits for its turn on a busy node.
    case prim_file:list_dir(?TASKS) of
        {ok, Tasks} ->
            #{
                Number => list_to_integer(Task)
             || Task <- Tasks,
                {ok, Name} <- [file:read_file(filename:join([?TASKS, Task, "comm"]), [raw])],
                {ok, Number} <- [number(string:trim(Name))]
            };
        {error, _} ->
            #{}
    end.

%% As `scheduler_wall_time_all` numbers them.
number(<<"erts_sched_", N/binary>>) -> {ok, binary_to_integer(N)};
number(<<"erts_dcpus_", N/binary>>) -> {ok, normal() + binary_to_integer(N)};
number(<<"erts_dios_", N/binary>>) -> {ok, normal() + dirty_cpu() + binary_to_integer(N)};
number(_Other) -> none.

normal() -> erlang:system_info(schedulers).

dirty_cpu() -> erlang:system_info(dirty_cpu_schedulers).

%% The last number is of the dirty I/O schedulers: what they run and what waits for them.
is_readable(0) ->
    false;
is_readable(Tries) ->
    Tasks = lists:last(erlang:statistics(active_tasks_all)),
    case Tasks < erlang:system_info(dirty_io_schedulers) of
        true ->
            true;
        false ->
            timer:sleep(?AGAIN_MS),
            is_readable(Tries - 1)
    end.

-doc "The times until now. The calling process must have enabled `scheduler_wall_time`.".
-spec read(t()) -> reading().
read(Threads) ->
    Clocks =
        case is_readable(?TRIES) of
            true -> #{N => Clock || N := File <- Threads, {ok, Clock} <- [clock(File)]};
            false -> #{}
        end,
    Worked =
        case erlang:statistics(scheduler_wall_time_all) of
            undefined -> #{};
            Times -> #{N => Active || {N, Active, _} <- Times}
        end,
    #{worked => Worked, clocks => Clocks}.

clock(File) ->
    maybe
        {ok, Text} ?= file:read_file(File, [raw]),
        [Ran, Ready | _] ?= string:lexemes(string:trim(Text), " "),
        {ok, {binary_to_integer(Ran), binary_to_integer(Ready)}}
    end.

-doc """
How long all threads of normal schedulers were ready for a processor and had none, since they began.
""".
-spec delay_ns(t()) -> non_neg_integer().
delay_ns(Threads) ->
    Normal = normal(),
    lists:sum([Ready || N := File <- Threads, N =< Normal, {ok, {_, Ready}} <- [clock(File)]]).

-doc "What they did between two readings, by kind.".
-spec between(reading(), reading()) -> #{kind() => times()}.
between(#{worked := Worked0, clocks := Clocks0}, #{worked := Worked1, clocks := Clocks1}) ->
    Ns = fun(Native) -> erlang:convert_time_unit(Native, native, nanosecond) end,
    Each = [
        {kind(N), max(0, Ns(Active - maps:get(N, Worked0, 0))), clocks(N, Clocks0, Clocks1)}
     || N := Active <- Worked1
    ],
    #{
        Kind => lists:foldl(fun add/2, #{worked_ns => 0, cpu_ns => 0, ready_ns => 0}, [
            {Worked, Clock}
         || {Of, Worked, Clock} <- Each, Of =:= Kind
        ])
     || Kind <- [normal, dirty_cpu, dirty_io]
    }.

kind(N) ->
    case N - normal() of
        First when First =< 0 -> normal;
        Dirty ->
            case Dirty =< dirty_cpu() of
                true -> dirty_cpu;
                false -> dirty_io
            end
    end.

clocks(N, Before, Now) ->
    case {Before, Now} of
        {#{N := {Ran0, Ready0}}, #{N := {Ran, Ready}}} -> {Ran - Ran0, Ready - Ready0};
        _ -> unknown
    end.

%% A thread that looks for work uses its processor, too: more than it worked is no work.
add({Worked, {Ran, Ready}}, #{worked_ns := W, cpu_ns := C, ready_ns := R} = Times) ->
    Used = min(Ran, Worked),
    Times#{
        worked_ns := W + Worked, cpu_ns := C + Used, ready_ns := R + min(Ready, Worked - Used)
    };
add({Worked, _Clock}, #{worked_ns := W}) ->
    #{worked_ns => W + Worked}.
