%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_sessions).
-moduledoc false.
%% The trace session whose breakpoints count and time calls.
%%
%%   calls   counted all the time, of all processes (`call_count`)
%%   rows    time or words by function and process (`call_time`, `call_memory`), while the window is
%%           open; one code change pauses all for reading, another restarts from zero
%%
%% A paused breakpoint still adds time to the function that its process was in, until it is read: so
%% everything is paused at once, not by module, which takes seconds.
%%
%% For each process the runtime stores a pointer to its current function and follows it later, even
%% into purged code (doc/architecture.md, "Traps of the runtime"). A return corrects the pointer if
%% the session still knows the process. So processes keep a flag without effect when the window
%% closes, and lose the call flag only after the breakpoints are gone.
%%
%% A meta trace tells the session's owner before any process loads a module: `{trace_ts, Pid, call,
%% {erlang, prepare_loading, _}, Module, Time}`.
%%
%% Counts are not by process, and dyno's own processes call functions of Erlang's base. If rows are
%% always wanted, these functions have rows only; else dyno_agent_self_calls counts dyno's calls.

-export([open/3, leave_out/2, close/1]).
-export([set/2, narrow/2, functions/2, without/2, recount/3]).
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
    %% Modules whose calls are not counted.
    base := #{module() => []},
    rows := [row_measure()],
    window := never | open | closed,
    without := #{mfa() => []},
    %% Processes whose time does not count.
    left_out := [pid()]
}.

%% Nearly all calls return in this time.
-define(RETURN_MS, 100).
-define(ALL, {'_', '_', '_'}).
%% The flag of a known process whose calls are not traced.
-define(KEPT, arity).

-doc "Opens the caller's session, its window closed; counts own calls if rows come only at times.".
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
        window => never,
        without => #{},
        left_out => []
    }).

%% All functions of a new module are counted from the first call on, until `narrow/2`.
on_load(#{session := Session} = Sessions) ->
    Measures = measures(none, Sessions),
    _ = [trace:function(Session, on_load, true, Measures) || Measures =/= []],
    Sessions.

measures(Module, #{counts := Counts, base := Base, rows := Rows, window := Window}) ->
    [call_count || Counts, not is_map_key(Module, Base)] ++ [R || Window =:= open, R <- Rows].

-spec set(module(), t()) -> t().
set(Module, #{self_calls := SelfCalls} = Sessions) ->
    case measures(Module, Sessions) of
        [] ->
            Sessions;
        Measures ->
            ok = set(Module, Measures, Sessions),
            Sessions#{self_calls := dyno_agent_self_calls:set(Module, SelfCalls)}
    end.

%% Setting what is set would restart from zero.
set(Module, Measures, #{session := Session, patterns := Patterns, without := Without}) ->
    Set = fun(F, How) -> trace:function(Session, F, How, Measures) end,
    _ = [Set(F, true) || F <- dyno_agent_patterns:specs(Module, Patterns)],
    _ = [Set(MFA, false) || {M, _, _} = MFA := _ <- Without, M =:= Module],
    ok.

-doc "Removes the breakpoints of a new module that no pattern asks for.".
-spec narrow(module(), t()) -> t().
narrow(Module, #{session := Session, rows := Rows} = Sessions) ->
    Functions = functions(Module, Sessions),
    Unwanted =
        case Functions of
            [] -> [{Module, '_', '_'}];
            _ -> dyno_agent_patterns:functions(Module, [{Module, '_', '_'}]) -- Functions
        end,
    _ = [trace:function(Session, F, false, [call_count | Rows]) || F <- Unwanted],
    %% Setting what is set would restart from zero.
    case [F || F <- Functions, is_set(F, Sessions)] of
        [] when Functions =/= [] ->
            set(Module, Sessions);
        _ ->
            #{self_calls := SelfCalls} = Sessions,
            Sessions#{self_calls := dyno_agent_self_calls:set(Module, SelfCalls)}
    end.

is_set(MFA, #{session := Session} = Sessions) ->
    [] =/=
        [
            Is
         || Measure <- measures(none, Sessions),
            {_, Is} <- [trace:info(Session, MFA, Measure)],
            Is =/= false
        ].

-spec functions(module(), t()) -> [mfa()].
functions(Module, #{patterns := Patterns}) -> dyno_agent_patterns:functions(Module, Patterns).

-spec without([mfa()], t()) -> t().
without(Functions, #{session := Session, rows := Rows, without := Before} = Sessions) ->
    New = [F || F <- Functions, not is_map_key(F, Before)],
    lists:foreach(fun(F) -> trace:function(Session, F, false, [call_count | Rows]) end, New),
    Sessions#{without := maps:merge(Before, maps:from_keys(New, []))}.

-spec recount([mfa()], boolean(), t()) -> ok.
recount(Functions, IsOn, #{session := Session}) ->
    lists:foreach(fun(F) -> trace:function(Session, F, IsOn, [call_count]) end, Functions).

-spec leave_out([pid()], t()) -> t().
leave_out(Pids, #{session := Session, self_calls := SelfCalls, window := Window} = Sessions) ->
    ok = dyno_agent_self_calls:count(SelfCalls, [self() | Pids]),
    _ = [dyno_agent_self_calls:flag(Session, Pids, off) || Window =:= open],
    Sessions#{left_out := [self() | Pids]}.

-doc "Times the modules' calls by the selected processes and their children, or by all.".
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
    Running = dyno_agent_process_filter:running(Filter),
    dyno_agent_self_calls:flag(Session, Running, on, [call, ?KEPT, set_on_spawn]).

-doc "Stops timing; discards unread rows.".
-spec close_window(t()) -> t().
close_window(#{window := Window} = Sessions) when Window =/= open ->
    Sessions;
close_window(#{session := Session, rows := Rows, counts := Counts} = Sessions) ->
    _ = [trace:function(Session, F, false, Rows) || F <- [on_load, ?ALL]],
    _ = [trace:function(Session, on_load, true, [call_count]) || Counts],
    _ = dyno_agent_flags:all(Session, false, [call]),
    Sessions#{window := closed}.

-spec is_open(t()) -> boolean().
is_open(#{window := Window}) -> Window =:= open.

-doc "Sets all to zero; resumes paused counting.".
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

-spec pause(t()) -> ok.
pause(#{rows := Rows, window := Window} = Sessions) ->
    all(pause, [R || Window =:= open, R <- Rows], Sessions).

-doc "Resumes the window's counting from zero.".
-spec resume(t()) -> ok.
resume(#{rows := Rows, window := Window} = Sessions) ->
    all(restart, [R || Window =:= open, R <- Rows], Sessions).

all(_Action, [], _Sessions) ->
    ok;
all(Action, Measures, #{session := Session}) ->
    _ = trace:function(Session, ?ALL, Action, Measures),
    ok.

-doc "Destroys the session. The breakpoints go first, and calls under way get a moment to return.".
-spec close(t()) -> ok.
close(#{session := Session, rows := Rows, window := Window, self_calls := SelfCalls}) ->
    ok = dyno_agent_self_calls:close(SelfCalls),
    case Window of
        never ->
            ok;
        _ ->
            _ = [trace:function(Session, F, false, Rows) || F <- [on_load, ?ALL]],
            timer:sleep(?RETURN_MS)
    end,
    _ = trace:session_destroy(Session),
    ok.

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

%% The runtime still adds time to the function in which a process was left out.
without_own(LeftOut, Rows) -> [Row || Row <- Rows, not lists:member(element(1, Row), LeftOut)].

info(MFA, Item, #{session := Session, rows := Rows, window := open}) ->
    case lists:member(Item, Rows) andalso trace:info(Session, MFA, Item) of
        {Item, List} when is_list(List) -> List;
        %% Not measured, or no longer: deleted, or just replaced.
        _ -> []
    end;
info(_MFA, _Item, _Sessions) ->
    [].

-doc "The calls of modules' functions with a breakpoint that counts: 1 us a function.".
-spec counts([module()], t()) -> #{mfa() => non_neg_integer()}.
counts(_Modules, #{counts := false}) ->
    #{};
counts(Modules, #{session := Session, base := Base} = Sessions) ->
    #{
        MFA => Calls
     || Module <- Modules,
        not is_map_key(Module, Base),
        MFA <- functions(Module, Sessions),
        {call_count, Calls} <- [trace:info(Session, MFA, call_count)],
        is_integer(Calls)
    }.

-spec restart_counts(module(), t()) -> ok.
restart_counts(Module, #{session := Session, counts := Counts} = Sessions) ->
    _ = [
        trace:function(Session, F, restart, [call_count])
     || Counts, F <- functions(Module, Sessions)
    ],
    ok.

-spec self_calls(t()) -> #{mfa() => pos_integer()}.
self_calls(#{self_calls := SelfCalls}) -> dyno_agent_self_calls:calls(SelfCalls).
