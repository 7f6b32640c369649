%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_counts).
-moduledoc false.
%% What was counted, and what to read when: the core of dyno_agent_calls, which carries out what
%% this module decides. Pure.
%%
%%   event                              effects
%%   module is measured now             -
%%   module is about to be replaced     read it, reset it, and send `was_read`
%%   was read before, or too late       -
%%   a loading has ended                keep the breakpoints that the patterns ask for
%%   statistics grow with processes     read and reset all
%%   a function was read                -

-export([new/1, event/2, add/4]).
-export([is_measured/2, measured/1, modules/1, loads/1, take_discovered/1, estimated/1, result/2, without/2]).
-export_type([t/0, event/0, effect/0, context/0]).

-opaque t() :: #{
    patterns := [dyno_agent_patterns:pattern()],
    %% Modules that are measured now, and whether there was a good reading since they were loaded.
    modules := #{module() => good | none},
    %% Modules whose loading was seen to begin, and how many ends of loadings to wait for.
    loading := #{module() => pos_integer()},
    %% How many have ended.
    loads := non_neg_integer(),
    sums := dyno_agent_call_sums:t(),
    %% The callers of throttled functions that dyno_agent_processes does not have yet.
    discovered := #{pid() => group()},
    reloaded := [module()],
    lost := [module()]
}.

-type group() :: dyno_agent_process_table:id().

-doc """
`loading`: somebody is about to replace a module (`prepared`), or perhaps is (`announced`).
`was_read`: whether the loading had ended before the module was read, and after; with the sums as
they were before. `callers`: of a throttled function, without a reading.
""".
-type event() ::
    {measured, module()}
    | {loading, module(), prepared | announced}
    | {was_read, module(), prepared | announced, {boolean(), boolean()}, dyno_agent_call_sums:t()}
    | load_ended
    | {read_and_reset, context()}
    | {read, context()}
    | {callers, mfa(), [pid()], context()}
    | {replaced, [module()]}
    | {resolve, context()}
    | restarted.

-doc """
`read_replaced`: answered with `was_read`. `missed`: a module was replaced, and with it went what it
has counted since it was read. `narrow`: a module has come. `read`, `read_and_reset`: the modules in
this order. Each function that was read is for `add/4`.
""".
-type effect() ::
    {read_replaced, module(), prepared | announced, dyno_agent_call_sums:t()}
    | {missed, module()}
    | {narrow, module(), measured | unmeasured}
    | {read_and_reset, [module()]}
    | {read, [module()]}.

-type context() :: #{
    %% The groups of the processes that were discovered by messages; `none` where not needed.
    group_of := dyno_agent_call_sums:group_of(),
    %% Functions of which the callers are not discovered by messages, and the callers' group.
    throttled := #{mfa() => group()}
}.

%% Two modules may be prepared at the same time and finished in the other order.
-define(ENDS_TO_WAIT_FOR, 3).
%% How many rows of who called what a result has: the heaviest.
-define(CALLER_ROWS, 5000).

-spec new([dyno_agent_patterns:pattern()]) -> t().
new(Patterns) ->
    #{
        patterns => Patterns,
        modules => #{},
        loading => #{},
        loads => 0,
        sums => dyno_agent_call_sums:new(),
        discovered => #{},
        reloaded => [],
        lost => []
    }.

-doc "The loaded modules that patterns mean.".
-spec measured([dyno_agent_patterns:pattern()]) -> [module()].
measured(Patterns) ->
    [Module || Module <- dyno_agent_patterns:loaded(), is_measured(Module, Patterns)].

-doc "Whether a module is to be measured: never dyno's own, and neither the tracing itself.".
-spec is_measured(module(), [dyno_agent_patterns:pattern()]) -> boolean().
is_measured(Module, Patterns) ->
    not lists:prefix("dyno_agent", atom_to_list(Module)) andalso
        not lists:member(Module, [trace, erts_internal, erl_tracer]) andalso
        dyno_agent_patterns:matches_module(Module, Patterns).

-spec modules(t()) -> [module()].
modules(#{modules := Modules}) -> maps:keys(Modules).

-spec loads(t()) -> non_neg_integer().
loads(#{loads := Loads}) -> Loads.

-doc "The next state, and what to do in this order.".
-spec event(event(), t()) -> {t(), [effect()]}.
event({measured, Module}, #{modules := Modules} = Counts) ->
    {Counts#{modules := Modules#{Module => none}}, []};
event({loading, Module, Sign}, #{modules := Modules, sums := Sums} = Counts) ->
    %% The old code still runs here, as a rule: the loader has only begun to read the new one, which
    %% takes it milliseconds. If the load fails the old code goes on counting from zero.
    {began_loading(Module, Sign, Counts), [
        {read_replaced, Module, Sign, Sums} || is_map_key(Module, Modules)
    ]};
event({was_read, Module, Sign, Ended, Before}, #{modules := Modules} = Counts) ->
    {Verdict, Read} = verdict(Module, Ended, map_get(Module, Modules), Before, Counts),
    {replaced(Module, Sign, Verdict, Read), []};
event(load_ended, #{loading := Loading, loads := Loads} = Counts) ->
    maps:fold(fun ended/3, {Counts#{loading := #{}, loads := Loads + 1}, []}, Loading);
event({read_and_reset, Context}, #{modules := Modules} = Before) ->
    %% Whom nobody knows by the next reading is not discovered any more.
    #{sums := Resolved} = Counts = resolve(Context, Before),
    {Counts#{sums := dyno_agent_call_sums:settle(Resolved)}, [
        {read_and_reset, throttled_first(Modules, Context)}
    ]};
event({read, Context}, #{modules := Modules} = Counts) ->
    {Counts, [{read, throttled_first(Modules, Context)}]};
event({callers, MFA, Pids, #{throttled := Throttled} = Context}, Counts) ->
    {discover(Pids, map_get(MFA, Throttled), Context, Counts), []};
event({replaced, Modules}, #{modules := Measured, lost := Lost} = Counts) ->
    Replaced = [M || M <- Modules, is_map_key(M, Measured)],
    {Counts#{lost := lists:usort(Replaced ++ Lost)}, []};
event({resolve, Context}, Counts) ->
    {resolve(Context, Counts), []};
event(restarted, Counts) ->
    {Counts#{sums := dyno_agent_call_sums:new(), reloaded := [], lost := []}, []}.

began_loading(_Module, announced, Counts) ->
    Counts;
began_loading(Module, prepared, #{loading := Loading} = Counts) ->
    Counts#{loading := Loading#{Module => ?ENDS_TO_WAIT_FOR}}.

%% New code counts in the first session. So where the load ended before the switch, the one that is
%% read holds all its calls so far, and the other goes on from there. Where it ended between, what
%% was read may be of either code: it is not added. Where none was good since the last load, calls
%% of the old code may be missing.
verdict(Module, {false, false}, _Good, _Before, #{modules := Modules} = Counts) ->
    {in_time, Counts#{modules := Modules#{Module := good}}};
verdict(_Module, {true, _}, good, _Before, Counts) ->
    {in_time, Counts};
verdict(_Module, {true, _}, none, _Before, Counts) ->
    {late, Counts};
verdict(_Module, {false, true}, _Good, Before, Counts) ->
    {late, Counts#{sums := Before}}.

replaced(_Module, announced, _Verdict, Counts) ->
    Counts;
replaced(Module, prepared, Verdict, #{reloaded := Reloaded, lost := Lost} = Counts) ->
    Counts#{
        reloaded := lists:usort([Module | Reloaded]),
        lost := lists:usort([Module || Verdict =:= late] ++ Lost)
    }.

ended(Module, Ends, {#{patterns := Patterns, loading := Loading} = Counts, Effects}) ->
    Missed = [{missed, Module} || Ends =:= ?ENDS_TO_WAIT_FOR],
    Waiting =
        case Ends of
            1 -> Counts;
            _ -> Counts#{loading := Loading#{Module => Ends - 1}}
        end,
    case is_measured(Module, Patterns) of
        true ->
            {Next, []} = event({measured, Module}, Waiting),
            {Next, Missed ++ [{narrow, Module, measured} | Effects]};
        false ->
            {Waiting, [{narrow, Module, unmeasured} | Effects]}
    end.

%% So that the callers of throttled functions have a group when they turn up in other modules.
throttled_first(Modules, #{throttled := Throttled}) ->
    First = lists:usort([M || {M, _, _} := _ <- Throttled, is_map_key(M, Modules)]),
    First ++ maps:keys(maps:without(First, Modules)).

-doc "Adds what was read of a function; of a module's functions the throttled ones come first.".
-spec add(mfa(), dyno_agent_call_sums:reading(), {context(), Overhead}, t()) -> t() when
    Overhead :: dyno_agent_call_sums:overhead().
add(_MFA, #{calls := 0, time := []}, _With, Counts) ->
    Counts;
add(MFA, Reading, {Context, Overhead}, Before) ->
    #{sums := Sums} = Counts =
        case Context of
            #{throttled := #{MFA := Group}} ->
                discover(callers(Reading), Group, Context, Before);
            #{} ->
                Before
        end,
    With = Overhead#{group_of => group_of(Context, Counts)},
    Counts#{sums := dyno_agent_call_sums:add([{MFA, Reading}], With, Sums)}.

callers(#{time := [], memory := Memory}) -> [P || {P, Calls, _} <- Memory, Calls > 0];
callers(#{time := Time}) -> [P || {P, Calls, _, _} <- Time, Calls > 0].

discover(Pids, Group, Context, #{discovered := Discovered} = Counts) ->
    GroupOf = group_of(Context, Counts),
    New = [Pid || Pid <- Pids, GroupOf(Pid) =:= unknown],
    Counts#{discovered := maps:merge(maps:from_keys(New, Group), Discovered)}.

%% The table of the processes has not got those that were just read.
group_of(#{group_of := none}, _Counts) ->
    none;
group_of(#{group_of := GroupOf}, #{discovered := Discovered}) ->
    fun(Pid) ->
        case {GroupOf(Pid), Discovered} of
            {unknown, #{Pid := Group}} -> {ok, Group};
            {Found, _} -> Found
        end
    end.

resolve(Context, #{sums := Sums} = Counts) ->
    Counts#{sums := dyno_agent_call_sums:resolve(group_of(Context, Counts), Sums)}.

-doc "The processes that throttled functions have discovered since they were last taken.".
-spec take_discovered(t()) -> {[{pid(), group()}], t()}.
take_discovered(#{discovered := Discovered} = Counts) ->
    {maps:to_list(Discovered), Counts#{discovered := #{}}}.

-doc "The sums without calls that are not the target's.".
-spec without(#{mfa() => pos_integer()}, t()) -> t().
without(SelfCalls, #{sums := Sums} = Counts) ->
    Counts#{sums := dyno_agent_call_sums:without(SelfCalls, Sums)}.

-doc "As `dyno_agent_call_sums:estimated/1`.".
-spec estimated(t()) -> float().
estimated(#{sums := Sums}) -> dyno_agent_call_sums:estimated(Sums).

-doc "What was counted; groups by their numbers, where they were needed.".
-spec result([atom()], t()) -> #{atom() => term()}.
result(Measures, #{sums := Sums, reloaded := Reloaded, lost := Lost}) ->
    #{
        functions => dyno_agent_call_sums:functions(Measures, Sums),
        callers => dyno_agent_call_sums:callers(?CALLER_ROWS, Sums),
        reloaded => Reloaded,
        lost => Lost
    }.
