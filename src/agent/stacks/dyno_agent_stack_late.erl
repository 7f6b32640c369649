%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_late).
-moduledoc false.
%% Finds the answers that came too late to show the asked moment. A scheduler in native code that
%% does not yield runs neither timers nor signals: who looks afterwards sees the processes that have
%% waited for it. A delay of a scheduler's thread without a processor shows nothing of the kind: the
%% clocks of the threads tell that one, and it is taken off.
%%
%% Cost: nothing while all is in time; then readings of the clocks until lateness is proven.

-export([new/1, limit/3, weigh/2]).
-export_type([t/0, where/0]).

-opaque t() :: #{
    threads := dyno_agent_threads:t(),
    %% The time that each thread was ready, at the last late instant.
    ready := #{Scheduler :: pos_integer() => non_neg_integer()},
    %% How often a delay was longer than that.
    proven := non_neg_integer()
}.

-doc "As `dyno_agent_stack_question:where/3` tells it; `late` if the frames are of a later moment.".
-type where() ::
    dyno_agent_stack_question:answer()
    | {ran, dyno_agent_stack_samples:ran(), [tuple()], Who :: [{term(), term()}]}.

-define(LATE_NS, 5_000_000).
%% Busy schedulers that share their processors with other programs are rarely later.
-define(SURELY_NS, 20_000_000).
%% With so many certainly late looks, the others of that length are taken for late as well.
-define(PROVEN, 3).
%% A process that waits in a scheduler's queue waits for turns of this length at most.
-define(TURN_NS, 1_000_000).

-spec new(dyno_agent_threads:t()) -> t().
new(Threads) ->
    #{threads => Threads, ready => dyno_agent_threads:ready_ns(Threads), proven => 0}.

-doc """
From this delay on an answer is late, if processes waited in a queue of that length; and the part of
the delay for which threads of schedulers may have had no processor.
""".
-spec limit(DelayNs :: integer(), Queue :: non_neg_integer(), t()) ->
    {LimitNs :: integer(), ReadyNs :: non_neg_integer(), t()}.
limit(DelayNs, Queue, Late) when DelayNs < ?LATE_NS + Queue * ?TURN_NS ->
    {?LATE_NS + Queue * ?TURN_NS, 0, Late};
limit(_DelayNs, Queue, #{proven := ?PROVEN} = Late) ->
    %% To read the clocks would wait for turns as well.
    {?SURELY_NS + Queue * ?TURN_NS, 0, Late};
limit(DelayNs, Queue, #{threads := Threads, ready := Before, proven := Proven} = Late) ->
    Now = dyno_agent_threads:ready_ns(Threads),
    Ready =
        case map_size(Now) of
            %% The clocks cannot be read at this moment.
            0 when map_size(Threads) > 0 -> DelayNs;
            _ -> lists:max([0 | [Ns - maps:get(N, Before, 0) || N := Ns <- Now]])
        end,
    Next = Late#{ready := maps:merge(Before, Now)},
    case ?LATE_NS + Ready + Queue * ?TURN_NS of
        LimitNs when DelayNs < LimitNs -> {LimitNs, Ready, Next};
        LimitNs -> {LimitNs, Ready, Next#{proven := Proven + 1}}
    end.

-doc "Marks late answers, and those asked after one; limits the weight of ready processes.".
-spec weigh([{Answer, TookNs :: integer()}], LimitNs :: integer()) -> [Answer] when
    Answer :: {pid(), Weight :: number(), where()}.
weigh(Answers, LimitNs) ->
    {InTime, Late} = lists:splitwith(fun({_, TookNs}) -> TookNs < LimitNs end, Answers),
    limited(
        [Answer || {Answer, _} <- InTime] ++
            [{Pid, Weight, late(Where)} || {{Pid, Weight, Where}, _} <- Late]
    ).

late({ran, normal, Frames, Who}) -> {ran, late, Frames, Who};
late({waits, Frames, Who}) -> {ran, late, Frames, Who};
late(Where) -> Where.

%% Of more ready processes than schedulers, others only wait: a burst must not outweigh all.
limited(Answers) ->
    Ready = lists:sum([Weight || {_, Weight, How} <- Answers, is_of_schedulers(How)]),
    case Ready / erlang:system_info(schedulers_online) of
        Each when Each =< 1 -> Answers;
        Each -> [limited(Answer, Each) || Answer <- Answers]
    end.

limited({_, _, {ran, dirty, _, _}} = Answer, _Each) -> Answer;
limited({Pid, Weight, How}, Each) -> {Pid, Weight / Each, How}.

is_of_schedulers({ran, dirty, _, _}) -> false;
is_of_schedulers(_How) -> true.
