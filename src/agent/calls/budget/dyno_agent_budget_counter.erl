%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_budget_counter).
-moduledoc false.
%% Counts the calls of functions that are called seldom, all the time and each one, in a trace
%% session of its own. Which functions are called too often is told by `without/2`
%% (dyno_agent_call_plan).
%%
%% Mere counts are not by process. So Erlang's base, which dyno's own processes call as well, is not
%% counted. What a module has counted is gone when it is loaded again; then nothing is said of it
%% until the next restart.

-export([open/2, restart/1, pause/1, without/2, came/2, is_counted/2, calls/1, calls/2]).
-export([reloaded/1, close/1]).
-export_type([t/0]).

-opaque t() :: #{
    session := trace:session(),
    patterns := [dyno_agent_patterns:pattern()],
    %% The modules that were seen: counted since the restart, or only since later; or `never`.
    modules := #{module() => counted | late | never},
    base := #{module() => []},
    left_out := #{mfa() => []},
    %% Were left out at first, and are counted since some time after the restart.
    late := #{mfa() => []},
    reloaded := [module()]
}.

-doc "Counts from now on.".
-spec open([dyno_agent_patterns:pattern()], [module()]) -> t().
open(Patterns, Modules) ->
    Counter = #{
        session => trace:session_create(dyno_budget_counter, self(), []),
        patterns => Patterns,
        modules => #{},
        base => maps:from_keys(dyno_agent_patterns:base(), []),
        left_out => #{},
        late => #{},
        reloaded => []
    },
    lists:foldl(fun set/2, Counter, Modules).

set(Module, #{base := Base, modules := Modules} = Counter) when is_map_key(Module, Base) ->
    Counter#{modules := Modules#{Module => never}};
set(Module, #{modules := Modules, left_out := LeftOut} = Counter) ->
    ok = act(Module, true, Counter),
    Next = Counter#{modules := Modules#{Module => late}},
    ok = breakpoints(#{F => [] || {M, _, _} = F := _ <- LeftOut, M =:= Module}, false, Next),
    Next.

act(Module, Action, #{session := Session, patterns := Patterns}) ->
    lists:foreach(
        fun(F) -> trace:function(Session, F, Action, [call_count]) end,
        dyno_agent_patterns:specs(Module, Patterns)
    ).

breakpoints(Functions, Action, #{session := Session, modules := Modules}) ->
    lists:foreach(
        fun(F) -> trace:function(Session, F, Action, [call_count]) end,
        [F || {M, _, _} = F := _ <- Functions, maps:get(M, Modules, never) =/= never]
    ).

-doc "Sets all counts to zero.".
-spec restart(t()) -> t().
restart(#{modules := Modules} = Counter) ->
    Counted = [M || M := Is <- Modules, Is =/= never],
    lists:foreach(fun(M) -> act(M, restart, Counter) end, Counted),
    Counter#{
        modules := maps:merge(Modules, maps:from_keys(Counted, counted)),
        late := #{},
        reloaded := []
    }.

-doc "Stops counting.".
-spec pause(t()) -> ok.
pause(#{session := Session}) ->
    _ = trace:function(Session, {'_', '_', '_'}, pause, [call_count]),
    ok.

-doc "These functions are called too often to be counted, and no others.".
-spec without(#{mfa() => []}, t()) -> t().
without(Functions, #{left_out := Before, late := Late} = Counter) ->
    ok = breakpoints(maps:without(maps:keys(Before), Functions), false, Counter),
    Again = maps:without(maps:keys(Functions), Before),
    ok = breakpoints(Again, true, Counter),
    Counter#{left_out := Functions, late := maps:merge(Late, Again)}.

-doc "Which of the modules that are to be measured have come, or were loaded again.".
-spec came([module()], t()) -> {[module()], t()}.
came(Measured, #{modules := Modules, reloaded := Reloaded} = Counter) ->
    Again = [M || M := Is <- Modules, Is =/= never, lists:member(M, Measured), is_gone(M, Counter)],
    New = [M || M <- Measured, not is_map_key(M, Modules)],
    Next = lists:foldl(fun set/2, Counter, Again ++ New),
    {Again ++ New, Next#{reloaded := lists:usort(Again ++ Reloaded)}}.

is_gone(Module, Counter) ->
    case functions(Module, Counter) of
        [] -> false;
        [First | _] -> count(First, Counter) =:= unknown
    end.

functions(Module, #{patterns := Patterns, left_out := LeftOut}) ->
    [
        F
     || F <- dyno_agent_patterns:functions(Module, Patterns), not is_map_key(F, LeftOut)
    ].

count(MFA, #{session := Session}) ->
    case trace:info(Session, MFA, call_count) of
        {call_count, Calls} when is_integer(Calls) -> Calls;
        _ -> unknown
    end.

-doc "Whether each call of a function is counted since the restart.".
-spec is_counted(mfa(), t()) -> boolean().
is_counted({M, _, _} = MFA, #{modules := Modules, left_out := LeftOut, late := Late}) ->
    maps:get(M, Modules, never) =:= counted andalso not is_map_key(MFA, LeftOut) andalso
        not is_map_key(MFA, Late).

-doc "The calls of each function that was counted all the time since the restart.".
-spec calls(t()) -> #{mfa() => non_neg_integer()}.
calls(#{modules := Modules, late := Late} = Counter) ->
    #{
        MFA => Calls
     || Module := counted <- Modules,
        MFA <- functions(Module, Counter),
        not is_map_key(MFA, Late),
        Calls <- [count(MFA, Counter)],
        is_integer(Calls)
    }.

-doc "The calls of some functions so far, where they are counted.".
-spec calls([mfa()], t()) -> #{mfa() => non_neg_integer()}.
calls(Functions, #{left_out := LeftOut} = Counter) ->
    #{
        MFA => Calls
     || MFA <- Functions,
        not is_map_key(MFA, LeftOut),
        Calls <- [count(MFA, Counter)],
        is_integer(Calls)
    }.

-doc "Modules that were loaded again since the restart.".
-spec reloaded(t()) -> [module()].
reloaded(#{reloaded := Reloaded}) -> Reloaded.

-doc "Ends the session.".
-spec close(t()) -> ok.
close(#{session := Session}) ->
    _ = trace:session_destroy(Session),
    ok.
