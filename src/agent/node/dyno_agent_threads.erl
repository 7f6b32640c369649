%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_threads).
-moduledoc false.
%% Times of the scheduler threads: working time by the runtime, and time on a processor or ready for
%% one by Linux (`schedstat` in `/proc/self/task`). Only the runtime's time also passes while a
%% thread is in a system call or waits for a processor.
%%
%% Cost: 0.1 to 0.2 ms a scheduler, in dirty I/O schedulers; without a free one, no clocks.

-export([find/0, numbers/0, read/1, stuck_files/1, between/2, cpu_ns/1, normal_ns/1, delay_ns/1]).
-export([ready_ns/1]).
-export_type([t/0, reading/0, times/0, kind/0]).

-type kind() :: normal | dirty_cpu | dirty_io.

-type t() :: #{Scheduler :: pos_integer() => file:filename()}.

-type clock() :: {
    OnProcessorNs :: non_neg_integer(),
    ReadyNs :: non_neg_integer(),
    Slices :: non_neg_integer()
}.

-opaque reading() :: #{
    worked := #{pos_integer() => Native :: non_neg_integer()},
    clocks := #{pos_integer() => clock()}
}.

-doc "Sums of a kind's schedulers, only `worked_ns` without a clock; `slices`: turns of threads.".
-type times() :: #{
    worked_ns := non_neg_integer(),
    cpu_ns => non_neg_integer(),
    ready_ns => non_neg_integer(),
    slices => non_neg_integer()
}.

-define(TASKS, "/proc/self/task").
%% Most calls in dirty I/O schedulers are short.
-define(TRIES, 20).
-define(AGAIN_MS, 5).
-define(CLOCKS_MS, 3000).
-define(MOST_PATH, 512).

-doc "Finds the threads; none except on Linux.".
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

-doc "The system's thread numbers; none except on Linux.".
-spec numbers() -> #{Scheduler :: pos_integer() => Tid :: pos_integer()}.
numbers() ->
    %% Not by the file server, which runs late on a busy node.
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

%% As in `scheduler_wall_time_all`.
number(<<"erts_sched_", N/binary>>) -> {ok, binary_to_integer(N)};
number(<<"erts_dcpus_", N/binary>>) -> {ok, normal() + binary_to_integer(N)};
number(<<"erts_dios_", N/binary>>) -> {ok, normal() + dirty_cpu() + binary_to_integer(N)};
number(_Other) -> none.

normal() -> erlang:system_info(schedulers).

dirty_cpu() -> erlang:system_info(dirty_cpu_schedulers).

%% The last number is of dirty I/O schedulers: running and waiting tasks.
is_readable(0) ->
    false;
is_readable(Tries) ->
    Tasks = lists:last(erlang:statistics(active_tasks_all)),
    case Tasks < erlang:system_info(dirty_io_schedulers) of
        true ->
            true;
        false ->
            ok = dyno_agent_census:pause(?AGAIN_MS),
            is_readable(Tries - 1)
    end.

-doc "Reads the times. The calling process must have enabled `scheduler_wall_time`.".
-spec read(t()) -> reading().
read(Threads) ->
    Clocks =
        case is_readable(?TRIES) of
            %% Beside each other: on a saturated node each answer takes a turn of a scheduler.
            true ->
                Ask = [
                    fun() -> [{N, Clock} || {ok, Clock} <- [clock(File)]] end
                 || N := File <- Threads
                ],
                maps:from_list(lists:append(dyno_agent_suspect:beside(Ask, [], ?CLOCKS_MS)));
            false ->
                #{}
        end,
    Worked =
        case erlang:statistics(scheduler_wall_time_all) of
            undefined -> #{};
            Times -> #{N => Active || {N, Active, _} <- Times}
        end,
    #{worked => Worked, clocks => Clocks}.

-doc """
The files of the system calls in which dirty I/O schedulers are, if these have much to do: the path
of a file that is opened, or of an open one. By `/proc`; some calls and systems do not tell.
""".
-spec stuck_files(t()) -> [binary()].
stuck_files(Threads) ->
    Busy = lists:last(erlang:statistics(active_tasks_all)),
    [
        unicode:characters_to_binary(File)
     || 2 * Busy > erlang:system_info(dirty_io_schedulers),
        N := Clock <- Threads,
        kind(N) =:= dirty_io,
        {ok, Call} <- [file:read_file(filename:join(filename:dirname(Clock), "syscall"), [raw])],
        {ok, File} <- [file_of(binary:split(Call, ~" ", [global]))]
    ].

%% The number of openat on x86-64, and on aarch64.
file_of([Call, _, Address | _]) when Call =:= ~"257"; Call =:= ~"56" -> path_at(Address);
file_of([_, <<"0x", Descriptor/binary>> | _]) ->
    Number = integer_to_list(binary_to_integer(Descriptor, 16)),
    prim_file:read_link("/proc/self/fd/" ++ Number);
file_of(_Running) ->
    none.

%% The thread waits, so its argument stays.
path_at(<<"0x", Hex/binary>>) ->
    maybe
        {ok, Memory} ?= file:open("/proc/self/mem", [raw, read, binary]),
        Read = file:pread(Memory, binary_to_integer(Hex, 16), ?MOST_PATH),
        ok = file:close(Memory),
        {ok, Bytes} ?= Read,
        [Path, _] ?= binary:split(Bytes, <<0>>),
        true ?= unicode:characters_to_binary(Path) =:= Path,
        {ok, Path}
    end.

-doc "The times of normal schedulers' threads together: on a processor, and ready for one.".
-spec normal_ns(t()) -> {OnProcessorNs :: non_neg_integer(), ReadyNs :: non_neg_integer()}.
normal_ns(Threads) ->
    Normal = normal(),
    Clocks = [Clock || N := File <- Threads, N =< Normal, {ok, Clock} <- [clock(File)]],
    {lists:sum([Ran || {Ran, _, _} <- Clocks]), lists:sum([Ready || {_, Ready, _} <- Clocks])}.

-doc "How long the thread of each normal scheduler was ready for a processor, if known.".
-spec ready_ns(t()) -> #{Scheduler :: pos_integer() => non_neg_integer()}.
ready_ns(Threads) ->
    case is_readable(1) of
        true ->
            #{N => Ns || N := File <- Threads, N =< normal(), {ok, {_, Ns, _}} <- [clock(File)]};
        false ->
            #{}
    end.

clock(File) ->
    maybe
        {ok, Text} ?= file:read_file(File, [raw]),
        [Ran, Ready, Slices] ?= string:lexemes(string:trim(Text), " "),
        {ok, {binary_to_integer(Ran), binary_to_integer(Ready), binary_to_integer(Slices)}}
    end.

-doc "Total time of each scheduler's thread on a processor, if known.".
-spec cpu_ns(reading()) -> #{Scheduler :: pos_integer() => non_neg_integer()}.
cpu_ns(#{clocks := Clocks}) -> #{N => Ran || N := {Ran, _, _} <- Clocks}.

-doc "Total time that threads of normal schedulers were ready and had no processor, if known.".
-spec delay_ns(reading()) -> [non_neg_integer()].
delay_ns(#{clocks := Clocks}) ->
    Normal = normal(),
    Ready = [Ns || N := {_, Ns, _} <- Clocks, N =< Normal],
    [lists:sum(Ready) || length(Ready) =:= Normal].

-spec between(reading(), reading()) -> #{kind() => times()}.
between(#{worked := Worked0, clocks := Clocks0}, #{worked := Worked1, clocks := Clocks1}) ->
    Ns = fun(Native) -> erlang:convert_time_unit(Native, native, nanosecond) end,
    Each = [
        {kind(N), max(0, Ns(Active - maps:get(N, Worked0, 0))), clocks(N, Clocks0, Clocks1)}
     || N := Active <- Worked1
    ],
    #{
        Kind => lists:foldl(fun add/2, #{worked_ns => 0, cpu_ns => 0, ready_ns => 0, slices => 0}, [
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
        {#{N := {Ran0, Ready0, Slices0}}, #{N := {Ran, Ready, Slices}}} ->
            {Ran - Ran0, Ready - Ready0, Slices - Slices0};
        _ ->
            unknown
    end.

%% A thread that looks for work uses its processor: time beyond the working time is no work.
add({Worked, {Ran, Ready, Slices}}, #{cpu_ns := C, ready_ns := R, slices := S} = Times) ->
    #{worked_ns := W} = Times,
    Used = min(Ran, Worked),
    Times#{
        worked_ns := W + Worked,
        cpu_ns := C + Used,
        ready_ns := R + min(Ready, Worked - Used),
        slices := S + Slices
    };
add({Worked, _Clock}, #{worked_ns := W}) ->
    #{worked_ns => W + Worked}.
