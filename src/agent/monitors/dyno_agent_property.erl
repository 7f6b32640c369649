%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_property).
-moduledoc false.
%% What the modules made of specifications (dyno_specification) call: each has `program/0`, its
%% property as a literal, `named/1`, which says whether the property names an event and for which
%% keys, and `match/4`, its patterns. What the property means is the engine's: dyno_agent_formula,
%% dyno_agent_past or dyno_agent_rate.
%%
%% A property without keys is one instance of the engine. With keys (`each Lock`) there is an
%% instance for each value, which gets the events with that value and those without any. The
%% instance that a new value begins with is the base: it has got the events without keys. An
%% instance that is as the base again is dropped, so that what is over takes no memory; unless the
%% property were broken if all ended here, or an event without keys may break it later: somebody has
%% to remember these.
%%
%% Time is that of the events: a deadline that an event is later than has passed before it, whether
%% or not a timer said so. So a replay, which has no timers, gives the verdicts of the live run.

-export([event/4, ended/2, deadline/1, timeout/3]).
-export_type([program/0, engine/0, time/0, key/0, match/0, instance/0, reasons/0, state/0]).

-type engine() :: dyno_agent_formula | dyno_agent_past | dyno_agent_rate.

-doc "Nanoseconds of the monotonic time.".
-type time() :: integer().
-type key() :: [term()].
-doc "`Module:match/4` of an event; the environment has the newest variable first.".
-type match() :: fun((Pattern :: pos_integer(), Env :: [term()]) -> (Env :: [term()]) | nomatch).
-doc "The clauses that decided, by their place in the program's code, with the environment.".
-type reasons() :: [{pos_integer(), Env :: [term()]}].
-type decided() :: {true | false, reasons()}.
-type instance() :: decided() | term().

-type program() :: #{
    name := binary(),
    engine := engine(),
    %% the variables of `each` and `across`
    keys := [atom()],
    %% some events are of all keys
    shared := boolean(),
    strict := boolean(),
    code := term()
}.

-opaque state() ::
    new
    | {
        Base :: instance(),
        #{key() => instance()},
        %% no instance has a deadline before it
        Deadline :: time() | infinity
    }.

-callback start(Code :: term(), time()) -> instance().
-callback step(Code :: term(), match(), time(), instance()) -> instance().
-callback expire(Code :: term(), time(), instance()) -> instance().
-callback deadline(Code :: term(), instance()) -> time() | infinity.
-callback finish(Code :: term(), instance()) -> decided().
-callback explain(Code :: term(), reasons()) -> {Step :: binary(), #{atom() => term()}}.

-type outcome() ::
    {next, state()}
    | {yes | no, dyno_agent_monitor:explanation(), state()}
    | {report, no, dyno_agent_monitor:explanation(), state()}.

-spec event(module(), dyno_agent_event:event(), time(), new | state()) -> outcome().
event(Module, Event, Time, new) ->
    #{engine := Engine, code := Code} = Program = Module:program(),
    Base = Engine:start(Code, Time),
    event(Module, Event, Time, {Base, #{}, deadline_of(Program, Base)});
event(Module, Event, Time, State) ->
    Program = Module:program(),
    case expired(Program, Time, State) of
        {[], State1} ->
            case named(Module, Event, Program) of
                [] -> {next, State1};
                Keys -> outcome(Program, event, stepped(Module, Program, Event, Time, Keys, State1))
            end;
        Late ->
            case {Program, outcome(Program, deadline, Late)} of
                {#{keys := []}, Outcome} ->
                    Outcome;
                %% The other keys go on with this event; what it breaks besides is told together.
                {_, {report, no, Explanation, State1}} ->
                    case event(Module, Event, Time, State1) of
                        {next, State2} -> {report, no, Explanation, State2};
                        {report, no, Other, State2} ->
                            {report, no, joined(Explanation, Other), State2}
                    end
            end
    end.

joined(#{others := A} = Explanation, #{others := B}) ->
    Explanation#{others := A + B + 1}.

named(Module, Event, #{strict := Strict}) ->
    case Module:named(Event) of
        [] when Strict, element(1, Event) =/= spawned, element(1, Event) =/= exit -> [all];
        Keys -> Keys
    end.

-spec timeout(module(), time(), new | state()) -> outcome().
timeout(_Module, _Time, new) ->
    {next, new};
timeout(Module, Time, State) ->
    Program = Module:program(),
    outcome(Program, deadline, expired(Program, Time, State)).

-doc "A nanosecond after the deadline: what happens right at it is in time.".
-spec deadline(new | state()) -> time() | infinity.
deadline({_, _, Deadline}) when is_integer(Deadline) -> Deadline + 1;
deadline(_) -> infinity.

-spec ended(module(), new | state()) -> {yes | no, dyno_agent_monitor:explanation()} | none.
ended(_Module, new) ->
    none;
ended(Module, {Base, Instances, _}) ->
    #{keys := Names} = Program = Module:program(),
    All =
        case Names of
            [] -> [{[], Base}];
            _ -> maps:to_list(Instances)
        end,
    Decided = [{Key, finished(Program, Instance)} || {Key, Instance} <- All],
    case [Broken || {_, {false, _}} = Broken <- Decided] of
        [] when Names =:= [] -> {yes, explanation(Program, ended, Decided)};
        [] -> {yes, #{property => map_get(name, Program), because => ended}};
        Broken -> {no, explanation(Program, ended, Broken)}
    end.

finished(_Program, {Truth, _} = Decided) when is_boolean(Truth) -> Decided;
finished(#{engine := Engine, code := Code}, Instance) -> Engine:finish(Code, Instance).

%% What decided, and the state after it.

stepped(Module, #{keys := []} = Program, Event, Time, _Keys, {Base, None, Deadline}) ->
    Base1 = step(Module, Program, Event, Time, [], Base),
    {decided([], Base1), {Base1, None, min(Deadline, deadline_of(Program, Base1))}};
stepped(Module, Program, Event, Time, Keys, {Base, Instances, Deadline}) ->
    Step = fun(Key, Instance) -> step(Module, Program, Event, Time, Key, Instance) end,
    case lists:member(all, Keys) of
        true ->
            %% The base matches no pattern that has a key, whatever its own is.
            Base1 = Step([none || _ <- map_get(keys, Program)], Base),
            New = #{Key => Base || {key, Key} <- Keys},
            kept(Program, Base1, maps:map(Step, maps:merge(New, Instances)), #{}, Deadline);
        false ->
            Touched = #{Key => Step(Key, maps:get(Key, Instances, Base)) || {key, Key} <- Keys},
            kept(Program, Base, Touched, Instances, Deadline)
    end.

%% Reports the broken ones, which begin anew, and drops those that are as the base; but where an
%% event of all keys may break them later, which keys there were must be known. Where such an event
%% has broken the base, nothing can begin anew: each key is told once, and is then as one that
%% holds.
kept(#{shared := Shared} = Program, Base, Touched, Instances, Deadline) ->
    maps:fold(
        fun
            (Key, {false, _} = Broken, {Broke, {_, Kept, Soonest}}) ->
                Left =
                    case Base of
                        {false, _} -> Kept#{Key => {true, []}};
                        _ -> maps:remove(Key, Kept)
                    end,
                {[{Key, Broken} | Broke], {Base, Left, Soonest}};
            (Key, Instance, {Broke, {_, Kept, Soonest}}) ->
                case not Shared andalso Instance =:= Base andalso finished(Program, Base) of
                    {true, _} ->
                        {Broke, {Base, maps:remove(Key, Kept), Soonest}};
                    _ ->
                        Soonest1 = min(Soonest, deadline_of(Program, Instance)),
                        {Broke, {Base, Kept#{Key => Instance}, Soonest1}}
                end
        end,
        {[], {Base, Instances, Deadline}},
        Touched
    ).

step(_Module, _Program, _Event, _Time, _Key, {Truth, _} = Decided) when is_boolean(Truth) ->
    Decided;
step(Module, #{engine := Engine, code := Code}, Event, Time, Key, Instance) ->
    Match = fun(Pattern, Env) -> Module:match(Pattern, Event, Key, Env) end,
    Engine:step(Code, Match, Time, Instance).

decided(Key, {Truth, _} = Decided) when is_boolean(Truth) -> [{Key, Decided}];
decided(_Key, _Instance) -> [].

expired(_Program, Time, {_, _, Deadline} = State) when Time =< Deadline ->
    {[], State};
expired(#{keys := Names} = Program, Time, {Base, Instances, _}) ->
    Base1 = expire(Program, Time, Base),
    Expired = maps:map(fun(_Key, Instance) -> expire(Program, Time, Instance) end, Instances),
    Deadline = deadline_of(Program, Base1),
    case Names of
        [] -> {decided([], Base1), {Base1, Expired, Deadline}};
        _ -> kept(Program, Base1, Expired, #{}, Deadline)
    end.

expire(_Program, _Time, {Truth, _} = Decided) when is_boolean(Truth) -> Decided;
expire(#{engine := Engine, code := Code}, Time, Instance) -> Engine:expire(Code, Time, Instance).

%% An atom is greater than any number.
deadline_of(_Program, {Truth, _}) when is_boolean(Truth) -> infinity;
deadline_of(#{engine := Engine, code := Code}, Instance) -> Engine:deadline(Code, Instance).

outcome(_Program, _Because, {[], State}) ->
    {next, State};
outcome(#{keys := []} = Program, Because, {[{_, {Truth, _}}] = Decided, State}) ->
    {verdict(Truth), explanation(Program, Because, Decided), State};
outcome(Program, Because, {Broken, State}) ->
    {report, no, explanation(Program, Because, Broken), State}.

verdict(true) -> yes;
verdict(false) -> no.

explanation(Program, Because, [{Key, {_, Reasons}} | Others]) ->
    #{name := Name, engine := Engine, code := Code, keys := Names} = Program,
    {Step, Bindings} = Engine:explain(Code, Reasons),
    #{
        property => Name,
        step => Step,
        bindings => maps:merge(Bindings, maps:from_list(lists:zip(Names, Key))),
        because => Because,
        others => length(Others)
    }.
