%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_sample).
-moduledoc false.
%% Samples, in the warm-up, how many measured calls a function makes: part of a call's overhead lies
%% in the time of its caller (dyno_agent_calibration, `caller_side`), and the runtime does not name
%% callers.
%%
%% A trace session of its own sends messages of calls and returns, until there are enough. A return
%% names the function that goes on; if that is not measured, the last measured function that has not
%% returned gets the time.
%%
%% Set these breakpoints before those of `call_time`, which would put no frame behind one of this
%% session (doc/architecture.md, "Traps of the runtime"). So the sample is taken once, before.

-export([open/4, sample/1, close/1]).
%% The pure part
-export([new/0, called/4, returned/3, counted/1]).
-export_type([sampler/0, sample/0, stacks/0]).

-doc "`none` if no times are measured.".
-type sampler() :: pid() | none.

-type sample() :: #{mfa() => {Calls :: non_neg_integer(), Made :: non_neg_integer()}}.

-type spec() :: {module(), atom(), arity() | '_'}.

-opaque stacks() :: #{
    of_process := #{pid() => [{mfa(), Caller :: mfa() | undefined}]}, counts := sample()
}.

-define(FLAGS, [call, arity, return_to]).
%% The sample of an instrument that is never restarted is not needed.
-define(MOST_MS, 10_000).
%% Flagging more stops the node for too long; then only new processes are seen.
-define(MOST_PROCESSES, 5000).

-spec open([spec()], [dyno_agent_call_sessions:measure()], [pid()], pos_integer()) -> sampler().
open(Functions, Measures, Without, Most) ->
    case lists:member(call_time, Measures) of
        true ->
            Owner = self(),
            Sampler = spawn_link(fun() -> begin_sample(Owner, Functions, Without, Most) end),
            receive
                {Sampler, sampling} -> Sampler
            end;
        false ->
            none
    end.

-spec sample(sampler()) -> sample().
sample(none) -> #{};
sample(Sampler) -> dyno_agent_process:ask(Sampler, sample).

-doc "Close it after the sessions of the counters.".
-spec close(sampler()) -> ok.
close(none) ->
    ok;
close(Sampler) ->
    _ = dyno_agent_process:ask(Sampler, sample),
    ok = dyno_agent_process:ask(Sampler, close),
    dyno_agent_process:kill(Sampler).

-spec begin_sample(pid(), [spec()], [pid()], pos_integer()) -> no_return().
begin_sample(Owner, Functions, Without, Most) ->
    proc_lib:set_label(?MODULE),
    ok = dyno_agent_process:unlimited(),
    process_flag(priority, high),
    Session = trace:session_create(dyno_outgoing, self(), []),
    Set = fun(How) -> [trace:function(Session, F, How, [local]) || F <- Functions] end,
    _ = Set([{'_', [], [{message, {caller}}]}]),
    Which =
        case erlang:system_info(process_count) > ?MOST_PROCESSES of
            true -> new;
            false -> all
        end,
    _ = trace:process(Session, Which, true, ?FLAGS),
    _ = [dyno_agent_self_calls:flag(Session, [Owner | Without], off) || Which =:= all],
    Owner ! {self(), sampling},
    Timer = erlang:send_after(?MOST_MS, self(), enough),
    Stacks = take(Most, new()),
    _ = trace:process(Session, Which, false, ?FLAGS),
    _ = Set(false),
    _ = erlang:cancel_timer(Timer),
    give(counted(Stacks), Session).

take(0, Stacks) ->
    Stacks;
take(Left, Stacks) ->
    receive
        {trace, Pid, call, MFA, Caller} ->
            take(Left - 1, called(Pid, MFA, Caller, Stacks));
        {trace, Pid, return_to, To} ->
            take(Left - 1, returned(Pid, To, Stacks));
        enough ->
            Stacks;
        {sample, _, _} = Request ->
            self() ! Request,
            Stacks
    end.

%% The empty session is destroyed last: in OTP 27 that removes global breakpoints of other sessions,
%% such as the counters' (doc/architecture.md, "Traps of the runtime").
-spec give(sample(), trace:session() | none) -> no_return().
give(Sample, Session) ->
    receive
        {sample, From, Ref} ->
            From ! {Ref, Sample},
            give(Sample, Session);
        {close, From, Ref} ->
            true = trace:session_destroy(Session),
            From ! {Ref, ok},
            give(Sample, none);
        _Late ->
            give(Sample, Session)
    end.

-spec new() -> stacks().
new() -> #{of_process => #{}, counts => #{}}.

-doc "A call. A chain of tail calls has one caller, and returns once, from its last function.".
-spec called(pid(), mfa(), mfa() | undefined, stacks()) -> stacks().
called(Pid, MFA, Caller, #{of_process := All, counts := Counts} = Stacks) ->
    {Next, Made} =
        case All of
            %% A tail call, such as a turn of a loop: the function has not returned.
            #{Pid := [{By, Caller} | Below]} -> {[{MFA, Caller} | Below], count(By, 0, 1, Counts)};
            #{Pid := Below} -> {[{MFA, Caller} | Below], Counts};
            #{} -> {[{MFA, Caller}], Counts}
        end,
    Stacks#{of_process := All#{Pid => Next}, counts := count(MFA, 1, 0, Made)}.

-spec returned(pid(), mfa() | undefined, stacks()) -> stacks().
returned(Pid, To, #{of_process := All, counts := Counts} = Stacks) ->
    Left = left(To, maps:get(Pid, All, [])),
    Next = Stacks#{of_process := All#{Pid => Left}},
    case Left of
        [{Function, _} | _] -> Next#{counts := count(Function, 0, 1, Counts)};
        [] when is_tuple(To) -> Next#{counts := count(To, 0, 1, Counts)};
        [] -> Next
    end.

%% An exception may have passed several.
left(To, [{_, To} | Below]) ->
    Below;
left(To, Stack) ->
    case {lists:keymember(To, 2, Stack), lists:keymember(To, 1, Stack)} of
        {true, _} -> tl(lists:dropwhile(fun({_, Caller}) -> Caller =/= To end, Stack));
        {false, true} -> lists:dropwhile(fun({Function, _}) -> Function =/= To end, Stack);
        {false, false} -> Stack
    end.

count(MFA, Called, Made, Counts) ->
    {C, M} = maps:get(MFA, Counts, {0, 0}),
    Counts#{MFA => {C + Called, M + Made}}.

-spec counted(stacks()) -> sample().
counted(#{counts := Counts}) -> Counts.
