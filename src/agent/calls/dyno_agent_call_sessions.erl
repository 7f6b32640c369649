%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_sessions).
-moduledoc false.
%% The trace session whose breakpoints count and time calls.
%%
%%   calls   counted all the time, whoever makes them (`call_count`)
%%   rows    time or words by function and process (`call_time`, `call_memory`), while the window is
%%           open; to read them all is paused by one change of the code, and counts from zero again
%%           by another
%%
%% A paused breakpoint goes on to give time to the function that a process was in when all was
%% paused, until it is read: so everything is paused at once, and never module by module, which
%% takes seconds on a busy machine.
%%
%% For each process the runtime remembers the function that it is in, and follows that pointer later,
%% also if the code has been purged (doc/architecture.md, "Traps of the runtime"). It is put right
%% when the function returns, if the session still knows the process then. So processes keep a flag
%% that does nothing else when the window closes, and lose the one for calls only after the
%% breakpoints are gone.
%%
%% The session tells its owner when somebody is about to load a module, by a meta trace, whoever that is:
%% `{trace_ts, Pid, call, {erlang, prepare_loading, _}, Module, Time}`.
%%
%% Counts are not by process. dyno's own processes call functions of Erlang's base: if rows are wanted
%% all the time, those functions have rows only; else dyno_agent_self_calls counts dyno's calls.

-export([open/3, leave_out/2, close/1]).
-export([set/2, narrow/2, functions/2, without/2]).
-export([open_window/3, close_window/1, is_open/1, restart/1, stop/1, pause/1, resume/1]).
-export([rows/2, counts/2, restart_counts/2, self_calls/1]).
-export_type([t/0, measure/0, row_measure/0]).

-type measure() :: call_count | row_measure().
-type row_measure() :: call_time | call_memory.

-opaque t() :: #{
    self_calls := dyno_agent_self_calls:own(),
    session := trace:session(),
    patterns := [dyno_agent_patterns:pattern()],
    counts := boolean(),
    %% Whose calls are not counted.
    base := #{module() => []},
    rows := [row_measure()],
    window := open | closed,
    %% Functions without a breakpoint.
    without := #{mfa() => []},
    %% Processes whose time does not count.
    left_out := [pid()]
}.

%% Nearly all calls return in that time.
-define(RETURN_MS, 100).
-define(ALL, {'_', '_', '_'}).
%% By which the session knows a process whose calls it does not trace.
-define(KEPT, arity).

-doc """
A session of the caller's, its window closed. With counts of dyno's own calls if rows are wanted at
times only.
""".
-spec open([dyno_agent_patterns:pattern()], Measures, Rows) -> t() when
    Measures :: #{counts := boolean(), own := boolean()}, Rows :: [row_measure()].
open(Patterns, #{counts := Counts, own := Own}, Rows) ->
    Session = trace:session_create(dyno_calls, self(), []),
    ByModule = [{['$1', '_'], [{is_atom, '$1'}], [{message, '$1'}]}],
    _ = trace:function(Session, {erlang, prepare_loading, 2}, ByModule, [meta]),
    on_load(#{
        self_calls => dyno_agent_self_calls:open(Patterns, Own),
        session => Session,
        patterns => Patterns,
        counts => Counts,
        base => maps:from_keys([M || not Own, M <- dyno_agent_patterns:base()], []),
        rows => Rows,
        window => closed,
        without => #{},
        left_out => []
    }).

%% All functions of a module that comes are counted from its first call, until `narrow/2`.
on_load(#{session := Session} = Sessions) ->
    Measures = measures(none, Sessions),
    _ = [trace:function(Session, on_load, true, Measures) || Measures =/= []],
    Sessions.

measures(Module, #{counts := Counts, base := Base, rows := Rows, window := Window}) ->
    [call_count || Counts, not is_map_key(Module, Base)] ++ [R || Window =:= open, R <- Rows].

-doc "Sets the breakpoints that the patterns ask for in a module.".
-spec set(module(), t()) -> t().
set(Module, #{self_calls := SelfCalls} = Sessions) ->
    case measures(Module, Sessions) of
        [] ->
            Sessions;
        Measures ->
            ok = set(Module, Measures, Sessions),
            Sessions#{self_calls := dyno_agent_self_calls:set(Module, SelfCalls)}
    end.

%% What is set already begins from zero.
set(Module, Measures, #{session := Session, patterns := Patterns, without := Without}) ->
    _ = [
        trace:function(Session, F, true, Measures)
     || F <- dyno_agent_patterns:specs(Module, Patterns)
    ],
    _ = [
        trace:function(Session, MFA, false, Measures)
     || {M, _, _} = MFA := _ <- Without, M =:= Module
    ],
    ok.

-doc """
A module has come with breakpoints in all of its functions: takes those away that the patterns do not
ask for.
""".
-spec narrow(module(), t()) -> t().
narrow(Module, #{session := Session, rows := Rows} = Sessions) ->
    Functions = functions(Module, Sessions),
    Unwanted =
        case Functions of
            [] -> [{Module, '_', '_'}];
            _ -> dyno_agent_patterns:functions(Module, [{Module, '_', '_'}]) -- Functions
        end,
    lists:foreach(
        fun(F) -> trace:function(Session, F, false, [call_count | Rows]) end, Unwanted
    ),
    %% To set what is set would begin from zero.
    case [F || F <- Functions, is_set(F, Sessions)] of
        [] when Functions =/= [] ->
            set(Module, Sessions);
        _ ->
            #{self_calls := SelfCalls} = Sessions,
            Sessions#{self_calls := dyno_agent_self_calls:set(Module, SelfCalls)}
    end.

is_set(MFA, #{session := Session} = Sessions) ->
    [] =/= [
        Is
     || Measure <- measures(none, Sessions),
        {_, Is} <- [trace:info(Session, MFA, Measure)],
        Is =/= false
    ].

-doc "The functions of a module that the patterns mean.".
-spec functions(module(), t()) -> [mfa()].
functions(Module, #{patterns := Patterns}) -> dyno_agent_patterns:functions(Module, Patterns).

-doc "These functions are neither counted nor timed any more.".
-spec without([mfa()], t()) -> t().
without(Functions, #{session := Session, rows := Rows, without := Before} = Sessions) ->
    New = [F || F <- Functions, not is_map_key(F, Before)],
    lists:foreach(fun(F) -> trace:function(Session, F, false, [call_count | Rows]) end, New),
    Sessions#{without := maps:merge(Before, maps:from_keys(New, []))}.

-doc "Names dyno's other processes, which do not count, and neither does the calling one.".
-spec leave_out([pid()], t()) -> t().
leave_out(Pids, #{session := Session, self_calls := SelfCalls, window := Window} = Sessions) ->
    ok = dyno_agent_self_calls:count(SelfCalls, [self() | Pids]),
    _ = [dyno_agent_self_calls:flag(Session, Pids, off) || Window =:= open],
    Sessions#{left_out := [self() | Pids]}.

-doc """
Times the calls of modules, by the processes that are selected and what they start; by all if no
selector says less.
""".
-spec open_window([module()], [dyno_agent_process_filter:selector()], t()) -> t().
open_window(_Modules, _Select, #{rows := []} = Sessions) ->
    Sessions;
open_window(Modules, Select, #{session := Session, left_out := LeftOut} = Sessions) ->
    #{rows := Rows} = Open = on_load(Sessions#{window := open}),
    lists:foreach(fun(Module) -> set(Module, Rows, Open) end, Modules),
    ok = flag(Session, Select),
    ok = dyno_agent_self_calls:flag(Session, LeftOut -- [self()], off),
    Open.

flag(Session, []) ->
    _ = dyno_agent_flags:all(Session, true, [call, ?KEPT]),
    ok;
flag(Session, Selectors) ->
    Filter = dyno_agent_process_filter:new(Selectors),
    _ = [trace:process(Session, new, true, [call, ?KEPT]) || new <- Selectors],
    lists:foreach(
        fun(Pid) ->
            try
                trace:process(Session, Pid, true, [call, ?KEPT, set_on_spawn])
            catch
                %% It has ended.
                error:badarg -> 0
            end
        end,
        dyno_agent_process_filter:running(Filter)
    ).

-doc "Times nothing any more; what was not read is gone.".
-spec close_window(t()) -> t().
close_window(#{window := closed} = Sessions) ->
    Sessions;
close_window(#{session := Session, rows := Rows, counts := Counts} = Sessions) ->
    _ = [trace:function(Session, F, false, Rows) || F <- [on_load, ?ALL]],
    _ = [trace:function(Session, on_load, true, [call_count]) || Counts],
    _ = dyno_agent_flags:all(Session, false, [call]),
    Sessions#{window := closed}.

-spec is_open(t()) -> boolean().
is_open(#{window := Window}) -> Window =:= open.

-doc "Sets all to zero; what was paused counts on.".
-spec restart(t()) -> ok.
restart(#{self_calls := SelfCalls, counts := Counts} = Sessions) ->
    ok = all(restart, [call_count || Counts], Sessions),
    ok = resume(Sessions),
    dyno_agent_self_calls:restart(SelfCalls).

-doc "Stops all counting, until `restart/1`.".
-spec stop(t()) -> ok.
stop(#{counts := Counts, self_calls := SelfCalls} = Sessions) ->
    ok = pause(Sessions),
    ok = all(pause, [call_count || Counts], Sessions),
    dyno_agent_self_calls:pause(SelfCalls).

-doc "Stops the window's counting, until `resume/1`.".
-spec pause(t()) -> ok.
pause(#{rows := Rows, window := Window} = Sessions) ->
    all(pause, [R || Window =:= open, R <- Rows], Sessions).

-doc "What the window times counts on from zero.".
-spec resume(t()) -> ok.
resume(#{rows := Rows, window := Window} = Sessions) ->
    all(restart, [R || Window =:= open, R <- Rows], Sessions).

%% Does one thing to all breakpoints of the session.
all(_Action, [], _Sessions) ->
    ok;
all(Action, Measures, #{session := Session}) ->
    _ = trace:function(Session, ?ALL, Action, Measures),
    ok.

-doc """
Destroys the session, and with it every breakpoint. These go first, and calls under way get a moment
to return.
""".
-spec close(t()) -> ok.
close(#{session := Session, rows := Rows, self_calls := SelfCalls}) ->
    ok = dyno_agent_self_calls:close(SelfCalls),
    case Rows of
        [] ->
            ok;
        _ ->
            _ = [trace:function(Session, F, false, Rows) || F <- [on_load, ?ALL]],
            timer:sleep(?RETURN_MS)
    end,
    _ = trace:session_destroy(Session),
    ok.

-doc "A function's rows, by process, while they are paused.".
-spec rows(mfa(), t()) -> dyno_agent_call_sums:reading().
rows(MFA, #{left_out := LeftOut} = Sessions) ->
    Time = without_own(LeftOut, info(MFA, call_time, Sessions)),
    Memory = without_own(LeftOut, info(MFA, call_memory, Sessions)),
    #{
        calls => lists:sum([Calls || {_, Calls, _} <- Memory]),
        words => lists:sum([Words || {_, _, Words} <- Memory]),
        time => Time,
        memory => Memory
    }.

%% The runtime goes on to give time to what a process was in when it was left out: the agent's,
%% while it reads.
without_own(LeftOut, Rows) -> [Row || Row <- Rows, not lists:member(element(1, Row), LeftOut)].

info(MFA, Item, #{session := Session, rows := Rows, window := open}) ->
    case lists:member(Item, Rows) andalso trace:info(Session, MFA, Item) of
        {Item, List} when is_list(List) -> List;
        %% Not measured, or not any more: deleted, or just replaced.
        _ -> []
    end;
info(_MFA, _Item, _Sessions) ->
    [].

-doc "How often functions of modules were called, where that is counted: a microsecond for each.".
-spec counts([module()], t()) -> #{mfa() => non_neg_integer()}.
counts(_Modules, #{counts := false}) ->
    #{};
counts(Modules, #{session := Session, without := Without, base := Base} = Sessions) ->
    #{
        MFA => Calls
     || Module <- Modules,
        not is_map_key(Module, Base),
        MFA <- functions(Module, Sessions),
        not is_map_key(MFA, Without),
        {call_count, Calls} <- [trace:info(Session, MFA, call_count)],
        is_integer(Calls)
    }.

-doc "Counts of a module begin at zero.".
-spec restart_counts(module(), t()) -> ok.
restart_counts(Module, #{session := Session, counts := Counts} = Sessions) ->
    _ = [
        trace:function(Session, F, restart, [call_count])
     || Counts, F <- functions(Module, Sessions)
    ],
    ok.

-doc "Calls by dyno's own processes that are among the counted ones.".
-spec self_calls(t()) -> #{mfa() => pos_integer()}.
self_calls(#{self_calls := SelfCalls}) -> dyno_agent_self_calls:calls(SelfCalls).
