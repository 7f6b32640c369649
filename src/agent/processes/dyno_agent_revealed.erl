%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_revealed).
-moduledoc false.
%% What is known of the calls that reveal processes: of which kind those were that a call revealed,
%% and which calls reveal so many that the runtime need not tell of each. Pure.
%%
%% A call that has revealed processes of one kind only is taken to go on so. Where that happens
%% often it becomes quiet: its processes are found by the counters' figures, which the runtime keeps
%% by process anyway. Now and then a process is asked nevertheless, and a quiet call is heard for
%% that, so that another kind is noticed.

-export([new/0, kind/2, learn/4, too_late/3]).
-export([often/3, quieten/2, quiet/1, found/2, listen/1, ask_again/1, is_doubted/1, forget/2]).
-export_type([t/0]).

-opaque t() :: #{
    %% The one kind of the processes that a call has revealed, how many there were, and whether one
    %% has ever said so, or all were gone when they were asked; or they are various.
    learned := #{mfa() => {dyno_agent_processes:id(), pos_integer(), said | gone} | various},
    %% How many a call has revealed since a time (native).
    counted := #{mfa() => {integer(), pos_integer()}},
    quiet := #{mfa() => dyno_agent_processes:id()},
    %% Processes of quiet calls since the last listening, by kind.
    found := #{dyno_agent_processes:id() => pos_integer()},
    %% So many of the next processes that a call reveals are to be asked, though it is sure.
    to_ask := #{mfa() => non_neg_integer()}
}.

-define(MAX_CALLS, 2000).
%% After so many of one kind the next ones are taken to be so.
-define(SURE_AFTER, 20).
%% Quiet from so many in that time on, and until a listening finds fewer. While it is heard, one of
%% so many is asked again.
-define(OFTEN, 20).
-define(OFTEN_MS, 100).
-define(STILL_OFTEN, 10).
%% Each time that a quiet call is listened to.
-define(ASK_AGAIN, 5).

-doc "Nothing is known.".
-spec new() -> t().
new() ->
    #{learned => #{}, counted => #{}, quiet => #{}, found => #{}, to_ask => #{}}.

-doc """
The kind that a call's processes were of: `sure` where a next one can be taken to be so as well,
`seen` where it should be asked.
""".
-spec kind(mfa(), t()) -> {sure | seen, dyno_agent_processes:id()} | unknown.
kind(MFA, #{learned := Learned, to_ask := ToAsk}) ->
    case Learned of
        #{MFA := {Id, _, _}} when map_get(MFA, ToAsk) > 0 -> {seen, Id};
        #{MFA := {Id, Times, _}} when Times >= ?SURE_AFTER -> {sure, Id};
        #{MFA := {Id, _, _}} -> {seen, Id};
        #{} -> unknown
    end.

-doc "A process that a call has revealed was asked, and was of that kind.".
-spec learn(mfa(), dyno_agent_processes:group(), dyno_agent_processes:id(), t()) -> t().
learn(MFA, {Kind, _}, Id, #{learned := Learned, to_ask := ToAsk} = Revealed) when
    Kind =:= initial_call; Kind =:= first_call
->
    Said =
        case Learned of
            #{MFA := {Id, Times, _}} -> {Id, Times + 1, said};
            #{MFA := {_, _, gone}} -> {Id, 1, said};
            #{MFA := _} -> various;
            #{} -> {Id, 1, said}
        end,
    learned(MFA, Said, Revealed#{to_ask := less(MFA, ToAsk)});
%% Names and labels are a process's own.
learn(MFA, _Group, _Id, Revealed) ->
    learned(MFA, various, Revealed).

-doc "A process was gone when it was asked, and is counted as of that kind.".
-spec too_late(mfa(), dyno_agent_processes:id(), t()) -> t().
too_late(MFA, Id, #{learned := Learned} = Revealed) ->
    Asked = Revealed#{to_ask := less(MFA, map_get(to_ask, Revealed))},
    case Learned of
        #{MFA := {Id, Times, How}} -> learned(MFA, {Id, Times + 1, How}, Asked);
        #{MFA := _} -> Asked;
        #{} -> learned(MFA, {Id, 1, gone}, Asked)
    end.

learned(MFA, What, #{learned := Learned} = Revealed) when
    is_map_key(MFA, Learned); map_size(Learned) < ?MAX_CALLS
->
    Revealed#{learned := Learned#{MFA => What}};
learned(_MFA, _What, Revealed) ->
    Revealed.

less(MFA, ToAsk) ->
    case ToAsk of
        #{MFA := N} when N > 0 -> ToAsk#{MFA := N - 1};
        #{} -> ToAsk
    end.

-doc "A call has revealed one more, at a time (native): whether it does so often and is not quiet.".
-spec often(mfa(), integer(), t()) -> {boolean(), t()}.
often(MFA, _Time, #{quiet := Quiet} = Revealed) when is_map_key(MFA, Quiet) ->
    {false, Revealed};
often(MFA, Time, #{counted := Counted, to_ask := ToAsk} = Revealed) ->
    case Counted of
        #{MFA := {Since, N}} when N + 1 >= ?OFTEN ->
            Ms = erlang:convert_time_unit(Time - Since, native, millisecond),
            {Ms < ?OFTEN_MS, Revealed#{
                counted := Counted#{MFA := {Time, 0}}, to_ask := ToAsk#{MFA => 1}
            }};
        #{MFA := {Since, N}} ->
            {false, Revealed#{counted := Counted#{MFA := {Since, N + 1}}}};
        #{} ->
            {false, Revealed#{counted := Counted#{MFA => {Time, 1}}}}
    end.

-doc "Makes a call quiet that is sure.".
-spec quieten(mfa(), t()) -> t().
quieten(MFA, #{quiet := Quiet, learned := Learned} = Revealed) ->
    {Id, _, _} = map_get(MFA, Learned),
    Revealed#{quiet := Quiet#{MFA => Id}}.

-doc "The quiet calls, and the kinds of their processes.".
-spec quiet(t()) -> #{mfa() => dyno_agent_processes:id()}.
quiet(#{quiet := Quiet}) -> Quiet.

-doc "Processes of quiet calls were found: rows of a process and its kind.".
-spec found([{pid(), dyno_agent_processes:id()}], t()) -> t().
found(Rows, #{found := Found} = Revealed) ->
    Count = fun({_, Id}, Acc) -> maps:update_with(Id, fun(N) -> N + 1 end, 1, Acc) end,
    Revealed#{found := lists:foldl(Count, Found, Rows)}.

-doc """
The quiet calls are heard now. Those that have become rare, or have revealed another kind, stay so:
they are given. Of each of the others some processes are to be asked who they are.
""".
-spec listen(t()) -> {[mfa()], t()}.
listen(#{quiet := Quiet, found := Found} = Revealed) ->
    Rare = [MFA || MFA := Id <- Quiet, maps:get(Id, Found, 0) < ?STILL_OFTEN],
    Loud = lists:usort(Rare ++ doubted(Revealed)),
    {Loud, ask_again((loud(Loud, Revealed))#{found := #{}})}.

-doc "Of each quiet call some processes are to be asked who they are.".
-spec ask_again(t()) -> t().
ask_again(#{quiet := Quiet} = Revealed) ->
    Revealed#{to_ask := #{MFA => ?ASK_AGAIN || MFA := _ <- Quiet}}.

-doc "Whether a quiet call has revealed another kind.".
-spec is_doubted(t()) -> boolean().
is_doubted(Revealed) -> doubted(Revealed) =/= [].

doubted(#{quiet := Quiet, learned := Learned}) ->
    [MFA || MFA := Id <- Quiet, not is_of(Id, map_get(MFA, Learned))].

is_of(Id, {Id, _, _}) -> true;
is_of(_Id, _) -> false.

-doc "A module was loaded anew: its calls are heard.".
-spec forget(module(), t()) -> t().
forget(Module, #{quiet := Quiet} = Revealed) ->
    loud([MFA || {M, _, _} = MFA := _ <- Quiet, M =:= Module], Revealed).

loud(Calls, #{quiet := Quiet, to_ask := ToAsk, counted := Counted} = Revealed) ->
    Revealed#{
        quiet := maps:without(Calls, Quiet),
        to_ask := maps:without(Calls, ToAsk),
        counted := maps:without(Calls, Counted)
    }.
