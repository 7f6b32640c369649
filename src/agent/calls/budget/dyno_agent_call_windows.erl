%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_windows).
-moduledoc false.
%% Short times in which calls are timed: windows. Between two of them no breakpoint is set and no
%% process's calls are traced, so that nothing costs anything.
%%
%%   breakpoints   ____________/======================\-- paused --\_________
%%   processes     ___________________/=== flagged ==================\_______
%%                   set modules      |    window     | read  | clear
%%
%% For each process the runtime remembers the function that it is in, and follows that pointer later,
%% also where the code has been purged meanwhile (doc/architecture.md, "Traps of the runtime"). It is
%% put right when the function returns, if the session still knows the process then. So processes
%% keep a flag that does nothing else, and lose the one for calls only after the breakpoints are
%% gone: what a return after that would add has no place any more.
%%
%% A breakpoint costs the calls of a process that is not flagged 6 ns: so breakpoints are set before
%% and read after. Each change of the code takes a fraction of a millisecond of the processor, and
%% on a busy node some milliseconds of waiting for the other schedulers, whether it is about one
%% function or about a module: so modules are set as a whole, and all is paused and cleared at once.
%% Changes of all functions, however, go through every module that is loaded, and take as long as
%% some changes of single ones: where only few were set, these are paused and cleared by themselves.
%%
%% Who is called between two windows is not noticed. So a process that left a timed function in
%% between by an exception, or has not left it yet, may be given all the time since the last window:
%% more than a window lasts, by which it is told.

-export([open/0, take/4, reductions/0, close/1]).
-export_type([t/0, plan/0, window/0]).

-opaque t() :: trace:session().

-doc """
Which modules to time, each as `trace:function/4` takes it; which functions of them not; for how
long.
""".
-type plan() :: #{
    specs := [{module(), atom(), arity() | '_'}],
    without := [mfa()],
    ms := pos_integer()
}.

-doc "What was timed in a window, and what it took.".
-type window() :: #{
    ns := pos_integer(),
    %% Of the node, without this process.
    reductions := non_neg_integer(),
    readings := [{mfa(), dyno_agent_call_sums:reading()}],
    %% To flag the processes and back: the whole node stands still.
    flagging_ns := non_neg_integer(),
    %% How often the code was changed; to change all of it counts as often as it takes.
    changes := non_neg_integer()
}.

%% By which the session knows a process whose calls it does not trace.
-define(KEPT, arity).
%% Nearly all calls return in that time.
-define(RETURN_MS, 100).
%% To pause or clear all functions of the node takes as long as that of so many single ones.
-define(CHANGES_OF_ALL, 3).
%% Of what the runtime measures in a window.
-define(SLACK_US, 1000).

-spec open() -> t().
open() -> trace:session_create(dyno_call_windows, self(), []).

-doc """
Times calls for a moment, of all processes but some. `Functions` names those of a module that are
meant. Ends early, or does not begin (`none`), where `Wanted` finds something more important to do.
""".
-spec take(plan(), Functions, Without, t()) -> window() | none when
    Functions :: fun((module()) -> [mfa()]), Without :: #{pid() => term()}.
take(#{specs := Specs, without := Left, ms := Ms}, Functions, Without, Session) ->
    Set = [{F, true} || F <- Specs] ++ [{F, false} || F <- Left],
    Window =
        case set(Set, Session) of
            done -> flagged(Ms, Session);
            interrupted -> none
        end,
    Changed =
        case length(Specs) < ?CHANGES_OF_ALL of
            true -> Specs;
            false -> [{'_', '_', '_'}]
        end,
    Change = fun(How) -> [trace:function(Session, F, How, [call_time]) || F <- Changed] end,
    EndNs = erlang:monotonic_time(nanosecond),
    _ = Change(pause),
    PausedNs = erlang:monotonic_time(nanosecond),
    Readings = [
        {MFA, Reading}
     || #{begin_ns := BeginNs} <- [Window],
        MostUs <- [(PausedNs - BeginNs) div 1000 + ?SLACK_US],
        M <- lists:usort([M || {M, _, _} <- Specs]),
        MFA <- Functions(M),
        #{} = Reading <- [reading(MFA, MostUs, Without, Session)]
    ],
    _ = Change(false),
    case Window of
        none ->
            none;
        #{begin_ns := Since, flagged_ns := FlaggedNs, reductions := Reductions} ->
            ClearNs = erlang:monotonic_time(nanosecond),
            _ = dyno_agent_flags:all(Session, false, [call]),
            ClearedNs = erlang:monotonic_time(nanosecond),
            #{
                %% Each takes effect somewhere in its call.
                ns => max(1, (EndNs + PausedNs - Since - FlaggedNs) div 2),
                reductions => Reductions,
                flagging_ns => FlaggedNs - Since + ClearedNs - ClearNs,
                changes => length(Set) + 2 * min(length(Specs), ?CHANGES_OF_ALL),
                readings => Readings
            }
    end.

%% On a busy node this takes long: whoever waits comes first.
set([], _Session) ->
    done;
set([{Function, How} | Rest], Session) ->
    case is_wanted(0) of
        true ->
            interrupted;
        false ->
            _ = trace:function(Session, Function, How, [call_time]),
            set(Rest, Session)
    end.

flagged(Ms, Session) ->
    BeginNs = erlang:monotonic_time(nanosecond),
    _ = dyno_agent_flags:all(Session, true, [call, ?KEPT]),
    FlaggedNs = erlang:monotonic_time(nanosecond),
    Before = reductions(),
    _ = is_wanted(Ms),
    After = reductions(),
    #{begin_ns => BeginNs, flagged_ns => FlaggedNs, reductions => max(0, After - Before)}.

-doc """
How much work the node has done so far, by the runtime's own count, without that of the calling
process. A node whose calls are timed, or that has no processor, does less of it in the same time.
""".
-spec reductions() -> number().
reductions() ->
    {reductions, Own} = process_info(self(), reductions),
    {All, _} = erlang:statistics(reductions),
    All - Own.

%% Whether a request, or the end, comes within this time; it is left for later.
is_wanted(Ms) ->
    receive
        {'$gen_call', _, _} = Request ->
            self() ! Request,
            true;
        {'EXIT', _, _} = End ->
            self() ! End,
            true
    after Ms -> false
    end.

reading(MFA, MostUs, Without, Session) ->
    case trace:info(Session, MFA, call_time) of
        {call_time, [_ | _] = Rows} ->
            Time = [
                Row
             || {Pid, Calls, S, Us} = Row <- Rows,
                Calls > 0,
                S * 1_000_000 + Us =< MostUs,
                not is_map_key(Pid, Without)
            ],
            case Time of
                [] -> none;
                _ -> #{calls => 0, words => 0, time => Time}
            end;
        _ ->
            none
    end.

-doc "Ends the session; calls under way get a moment to return (dyno_agent_call_sessions:close/1).".
-spec close(t()) -> ok.
close(Session) ->
    _ = dyno_agent_flags:all(Session, false, [call]),
    _ = trace:function(Session, {'_', '_', '_'}, false, [call_time]),
    timer:sleep(?RETURN_MS),
    _ = trace:session_destroy(Session),
    ok.
