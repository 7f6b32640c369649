%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_property).
-moduledoc false.
%% The entry of the modules made of specifications (dyno_specification). Each has `program/0`, the
%% property as a literal; `named/1`, whether the property names an event and for which keys; and
%% `match/4`, its patterns. Engines: dyno_agent_formula, dyno_agent_past, dyno_agent_rate.
%%
%% Without keys a property is one instance of the engine. With keys (`each Lock`) each value has an
%% instance, which gets the events with that value and those without any. It starts as the base,
%% which has got the events without keys. An instance equal to the base is dropped, unless its end
%% now would break the property, or an event without keys may break it later.
%%
%% A process that ran before monitoring may be in any state of its property: its instances begin as
%% worlds, all possible states. Events and deadlines remove worlds; with none left the property is
%% broken. A broken key starts again the same way, so one fault is reported once. The last keys
%% known to be at their start, and the broken ones, are remembered.
%%
%% If the past decides and is unknown, that is a doubt: the first is reported as inconclusive, and
%% the process never passes. So with `always B implies once A`, `never A then B` if B comes first,
%% and `follows A then B` if the first event cannot be the beginning. With keys only the
%% conversations that are open then are not judged: a busy server always has some.
%%
%% Time is that of the events: a replay gives the verdicts of the live run.

-export([init/2, event/4, ended/2, deadline/1, timeout/3, names/2]).
-export([instances/1, grace_ns/0]).
-export_type([program/0, engine/0, time/0, key/0, match/0, instance/0, reasons/0, state/0]).

-type engine() :: dyno_agent_formula | dyno_agent_past | dyno_agent_rate.

-type time() :: integer().
-type key() :: [term()].
-doc "`Module:match/4` for an event; the newest variable comes first.".
-type match() :: fun((Pattern :: integer(), Env :: [term()]) -> (Env :: [term()]) | nomatch).
-doc "The deciding clauses, by place in the program's code, with their environment.".
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
    code := term(),
    %% The states of a formula, with times from 0.
    reachable := [instance()]
}.

-type known() :: {start | unknown, WasBroken :: boolean()}.

-opaque state() ::
    new
    %% A process that ran before monitoring.
    | {new, partial}
    %% A doubt was reported.
    | {doubted, state()}
    | {
        Base :: instance() | worlds(),
        #{key() => instance() | worlds()},
        %% No instance has an earlier deadline.
        Deadline :: time() | infinity,
        %% Recent keys, and earlier ones.
        Memory :: {#{key() => known()}, #{key() => known()}}
    }.

-type worlds() :: {'$worlds', [instance(), ...]}.

-define(MOST_KEYS, 1000).

-callback start(Code :: term(), time()) -> instance().
-callback step(Code :: term(), match(), time(), instance()) -> instance() | {doubt, instance()}.
-callback expire(Code :: term(), time(), instance()) -> instance().
-callback deadline(Code :: term(), instance()) -> time() | infinity.
-doc "All possible states of an instance with an unknown past.".
-callback unknown(Code :: term(), Reachable :: [instance()], time()) -> [instance(), ...].
-doc "Whether it is a doubt that an event breaks this possible state of a key.".
-callback doubts(Code :: term(), key(), instance()) -> boolean().
-callback finish(Code :: term(), instance()) -> decided().
-callback explain(Code :: term(), reasons()) -> {Step :: binary(), #{atom() => term()}}.

-type outcome() ::
    {next, state()}
    | {yes | no | inconclusive, dyno_agent_monitor:explanation(), state()}
    | {report, no | inconclusive, dyno_agent_monitor:explanation(), state()}.

-spec init(module(), dyno_agent_event:process()) -> state().
init(Module, #{partial := true} = Process) ->
    case {Module:program(), Process} of
        %% Time passes also for an idle process.
        {#{engine := dyno_agent_rate} = Program, #{since_ns := SinceNs}} ->
            begun(Program, unknown, SinceNs);
        _ ->
            {new, partial}
    end;
init(_Module, _Process) ->
    new.

-spec event(module(), dyno_agent_event:event(), time(), new | state()) -> outcome().
event(Module, Event, Time, {doubted, State}) ->
    doubted(event(Module, Event, Time, State));
event(Module, Event, Time, new) ->
    event(Module, Event, Time, begun(Module:program(), start, Time));
event(Module, Event, Time, {new, partial} = New) ->
    Program = Module:program(),
    case names(Module, Event) orelse map_get(engine, Program) =:= dyno_agent_rate of
        true -> event(Module, Event, Time, begun(Program, unknown, Time));
        %% No new knowledge.
        false -> {next, New}
    end;
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
                %% The other keys get this event too; all faults are reported together.
                {_, {report, no, Explanation, State1}} ->
                    case event(Module, Event, Time, State1) of
                        {report, no, Other, State2} ->
                            {report, no, joined(Explanation, Other), State2};
                        Next ->
                            {report, no, Explanation, element(tuple_size(Next), Next)}
                    end
            end
    end.

%% One doubt is enough.
doubted({report, inconclusive, _, State}) ->
    {next, State};
doubted(Outcome) ->
    Place = tuple_size(Outcome),
    case element(Place, Outcome) of
        {doubted, _} -> Outcome;
        State -> setelement(Place, Outcome, {doubted, State})
    end.

joined(#{again := true, others := A}, #{others := B} = Explanation) ->
    Explanation#{others := A + B + 1};
joined(#{others := A} = Explanation, #{others := B}) ->
    Explanation#{others := A + B + 1}.

begun(#{engine := Engine, code := Code} = Program, How, Time) ->
    Base =
        case How of
            start -> Engine:start(Code, Time);
            unknown -> worlds(Program, Time)
        end,
    {Base, #{}, deadline_of(Program, Base), {#{}, #{}}}.

worlds(#{engine := Engine, code := Code} = Program, Time) ->
    one_of(Engine:unknown(Code, maps:get(reachable, Program, []), Time)).

one_of(Worlds) ->
    case lists:usort(Worlds) of
        [World] -> World;
        Several -> {'$worlds', Several}
    end.

%% Keeps the possible worlds; if there is none, the reason.
left(Worlds) ->
    case [World || World <- Worlds, not is_false(World)] of
        [] -> {false, lists:uniq(lists:append([Why || {false, Why} <- Worlds]))};
        Left -> one_of(Left)
    end.

is_false({false, _}) -> true;
is_false(_World) -> false.

named(Module, Event, #{strict := Strict}) ->
    case Module:named(Event) of
        [] when Strict, element(1, Event) =/= spawned, element(1, Event) =/= exit -> [all];
        Keys -> Keys
    end.

-spec names(module(), dyno_agent_event:event()) -> boolean().
names(Module, Event) -> named(Module, Event, Module:program()) =/= [].

-spec timeout(module(), time(), new | state()) -> outcome().
timeout(Module, Time, {doubted, State}) ->
    doubted(timeout(Module, Time, State));
timeout(_Module, _Time, New) when New =:= new; New =:= {new, partial} ->
    {next, New};
timeout(Module, Time, State) ->
    Program = Module:program(),
    outcome(Program, deadline, expired(Program, Time, State)).

-doc "The delay of deadlines: so late may an event of another process arrive.".
-spec grace_ns() -> pos_integer().
grace_ns() -> 20_000_000.

-doc "A nanosecond after the deadline: an event exactly at the deadline is in time.".
-spec deadline(new | state()) -> time() | infinity.
deadline({doubted, State}) -> deadline(State);
deadline({_, _, Deadline, _}) when is_integer(Deadline) -> Deadline + 1;
deadline(_) -> infinity.

-spec ended(module(), new | state()) ->
    {yes | no | inconclusive, dyno_agent_monitor:explanation()} | none.
ended(Module, {doubted, State}) ->
    case ended(Module, State) of
        {no, _} = Broken -> Broken;
        _ -> none
    end;
ended(_Module, New) when New =:= new; New =:= {new, partial} ->
    none;
ended(Module, {Base, Instances, _, _}) ->
    #{keys := Names, name := Name} = Program = Module:program(),
    All =
        case Names of
            [] -> [{[], Base}];
            _ -> maps:to_list(Instances)
        end,
    Decided = [{Key, finished(Program, Instance)} || {Key, Instance} <- All],
    case [Broken || {_, {false, _}} = Broken <- Decided] of
        [] ->
            case {[x || {_, unknown} <- Decided], Names} of
                {[], []} -> {yes, explanation(Program, ended, Decided, false)};
                {[], _} -> {yes, #{property => Name, because => ended}};
                _ -> {inconclusive, past(Program)}
            end;
        Broken ->
            {no, explanation(Program, ended, Broken, false)}
    end.

finished(Program, {'$worlds', Worlds}) ->
    All = [finished(Program, World) || World <- Worlds],
    case lists:usort([Truth || {Truth, _} <- All]) of
        [_] -> hd(All);
        _ -> unknown
    end;
finished(_Program, {Truth, _} = Decided) when is_boolean(Truth) -> Decided;
finished(#{engine := Engine, code := Code}, Instance) ->
    Engine:finish(Code, Instance).

stepped(Module, #{keys := []} = Program, Event, Time, _Keys, {Base, None, Deadline, Memory}) ->
    Next = fun(Base1) -> {Base1, None, min(Deadline, deadline_of(Program, Base1)), Memory} end,
    case step(Module, Program, Event, Time, [], Base) of
        {doubt, Base1} -> {[{[], doubt, false}], Next(Base1)};
        Base1 -> {decided([], Base1), Next(Base1)}
    end;
stepped(Module, Program, Event, Time, Keys, {Base, Instances, Deadline, Memory}) ->
    Step = fun(Key, Instance) -> step(Module, Program, Event, Time, Key, Instance) end,
    Instance = fun(Key) ->
        case Instances of
            #{Key := Of} -> Of;
            #{} -> remembered(Key, Program, Base, Time, Memory)
        end
    end,
    case lists:member(all, Keys) of
        true ->
            %% The base matches no pattern with a key.
            None = [none || _ <- map_get(keys, Program)],
            {Doubts, #{None := Base1}} = certain(#{None => Step(None, Base)}, Memory),
            New = #{Key => Instance(Key) || {key, Key} <- Keys},
            {More, Touched} = certain(maps:map(Step, maps:merge(New, Instances)), Memory),
            {Broken, State} = kept(Program, Base1, Touched, #{}, Deadline, Memory, Time),
            {Doubts ++ More ++ Broken, State};
        false ->
            Stepped = #{Key => Step(Key, Instance(Key)) || {key, Key} <- Keys},
            {Doubts, Touched} = certain(Stepped, Memory),
            {Broken, State} = kept(Program, Base, Touched, Instances, Deadline, Memory, Time),
            {Doubts ++ Broken, State}
    end.

%% The doubts, and the instances without. A broken key began anew: its past is known.
certain(Stepped, Memory) ->
    Doubtful = #{Key => Instance || Key := {doubt, Instance} <- Stepped},
    Doubts = [{Key, doubt, false} || Key := _ <- Doubtful, not was_broken(Key, Memory)],
    {Doubts, maps:merge(Stepped, Doubtful)}.

remembered(Key, #{engine := Engine, code := Code} = Program, Base, Time, Memory) ->
    case known(Key, Memory) of
        {start, _} -> Engine:start(Code, Time);
        {unknown, _} when Engine =:= dyno_agent_formula -> worlds(Program, Time);
        _ -> Base
    end.

known(Key, {Last, Before}) ->
    case {Last, Before} of
        {#{Key := Known}, _} -> Known;
        {_, #{Key := Known}} -> Known;
        _ -> none
    end.

was_broken(Key, Memory) -> known(Key, Memory) =/= none andalso element(2, known(Key, Memory)).

remember(Key, Known, {Last, _Before}) when map_size(Last) >= ?MOST_KEYS ->
    {#{Key => Known}, Last};
remember(Key, Known, {Last, Before}) ->
    {Last#{Key => Known}, Before}.

%% Reports and restarts the broken instances, and drops those back at their start, unless an event
%% of all keys may break them later. If such an event has broken the base, no key can begin anew:
%% each is reported once, and then counts as holding.
kept(#{shared := Shared} = Program, Base, Touched, Instances, Deadline, Memory0, Time) ->
    Start = start(Program, Base, Time),
    IsOver = not Shared andalso true =:= truth(finished(Program, Start)),
    maps:fold(
        fun
            (Key, {false, Why}, {Broke, {_, Kept, Soonest, Memory}}) ->
                Left =
                    case Base of
                        {false, _} -> Kept#{Key => {true, []}};
                        _ -> maps:remove(Key, Kept)
                    end,
                Broken = {Key, {false, Why}, was_broken(Key, Memory)},
                {[Broken | Broke], {Base, Left, Soonest, remember(Key, {unknown, true}, Memory)}};
            (Key, Instance, {Broke, {_, Kept, Soonest, Memory}}) when
                IsOver, Instance =:= Start
            ->
                Left = maps:remove(Key, Kept),
                {Broke, {Base, Left, Soonest, settled(Key, Start =:= Base, Memory)}};
            (Key, Instance, {Broke, {_, Kept, Soonest, Memory}}) ->
                Soonest1 = min(Soonest, deadline_of(Program, Instance)),
                {Broke, {Base, Kept#{Key => Instance}, Soonest1, Memory}}
        end,
        {[], {Base, Instances, Deadline, Memory0}},
        Touched
    ).

%% The base is the start of a key with a complete past.
start(#{engine := Engine, code := Code}, {'$worlds', _}, Time) -> Engine:start(Code, Time);
start(_Program, Base, _Time) -> Base.

truth({Truth, _}) -> Truth;
truth(unknown) -> unknown.

%% A key that starts at the base anyway is remembered only if it was broken.
settled(Key, IsBase, Memory) ->
    case known(Key, Memory) of
        none when IsBase -> Memory;
        none -> remember(Key, {start, false}, Memory);
        {start, _} -> Memory;
        {unknown, WasBroken} -> remember(Key, {start, WasBroken}, Memory)
    end.

step(Module, #{engine := Engine, code := Code} = Program, Event, Time, Key, {'$worlds', Worlds}) ->
    Stepped = [step(Module, Program, Event, Time, Key, World) || World <- Worlds],
    case left(Stepped) of
        {false, _} = Decided ->
            Decided;
        Left ->
            Broken = [World || {World, {false, _}} <- lists:zip(Worlds, Stepped)],
            case lists:any(fun(World) -> Engine:doubts(Code, Key, World) end, Broken) of
                true -> {doubt, Left};
                false -> Left
            end
    end;
step(_Module, _Program, _Event, _Time, _Key, {Truth, _} = Decided) when is_boolean(Truth) ->
    Decided;
step(Module, #{engine := Engine, code := Code}, Event, Time, Key, Instance) ->
    Match = fun(Pattern, Env) -> Module:match(Pattern, Event, Key, Env) end,
    Engine:step(Code, Match, Time, Instance).

decided(Key, {Truth, _} = Decided) when is_boolean(Truth) -> [{Key, Decided, false}];
decided(_Key, _Instance) -> [].

expired(_Program, Time, {_, _, Deadline, _} = State) when Time =< Deadline ->
    {[], State};
expired(#{keys := Names} = Program, Time, {Base, Instances, _, Memory}) ->
    Base1 = expire(Program, Time, Base),
    Expired = maps:map(fun(_Key, Instance) -> expire(Program, Time, Instance) end, Instances),
    Deadline = deadline_of(Program, Base1),
    case Names of
        [] -> {decided([], Base1), {Base1, Expired, Deadline, Memory}};
        _ -> kept(Program, Base1, Expired, #{}, Deadline, Memory, Time)
    end.

expire(Program, Time, {'$worlds', Worlds}) ->
    left([expire(Program, Time, World) || World <- Worlds]);
expire(_Program, _Time, {Truth, _} = Decided) when is_boolean(Truth) -> Decided;
expire(#{engine := Engine, code := Code}, Time, Instance) ->
    Engine:expire(Code, Time, Instance).

%% An atom is greater than any number.
deadline_of(Program, {'$worlds', Worlds}) ->
    lists:min([deadline_of(Program, World) || World <- Worlds]);
deadline_of(_Program, {Truth, _}) when is_boolean(Truth) -> infinity;
deadline_of(#{engine := Engine, code := Code}, Instance) ->
    Engine:deadline(Code, Instance).

outcome(_Program, _Because, {[], State}) ->
    {next, State};
outcome(#{keys := []} = Program, Because, {[{Key, {Truth, _} = Decided, _}], State}) ->
    {verdict(Truth), explanation(Program, Because, [{Key, Decided}], false), State};
outcome(Program, Because, {Found, State}) ->
    case [Of || {_, Decided, _} = Of <- Found, Decided =/= doubt] of
        [] ->
            {report, inconclusive, past(Program), {doubted, State}};
        Broken ->
            broken(Program, Because, Broken, State)
    end.

broken(Program, Because, Broken, State) ->
    %% Prefers one that was not reported before.
    [{_, _, Again} | _] = First = lists:keysort(3, Broken),
    All = [{Key, Decided} || {Key, Decided, _} <- First],
    {report, no, explanation(Program, Because, All, Again), State}.

past(#{name := Name}) ->
    #{property => Name, step => ~"it depends on the events before", because => past}.

verdict(true) -> yes;
verdict(false) -> no.

explanation(Program, Because, [{Key, {_, Reasons}} | Others], Again) ->
    #{name := Name, engine := Engine, code := Code, keys := Names} = Program,
    {Step, Bindings} = Engine:explain(Code, Reasons),
    #{
        property => Name,
        step => Step,
        bindings => maps:merge(Bindings, maps:from_list(lists:zip(Names, Key))),
        because => Because,
        others => length(Others),
        again => Again
    }.

-spec instances(state()) -> #{key() => instance()}.
instances({doubted, State}) -> instances(State);
instances(State) when is_tuple(State), is_map(element(2, State)) -> element(2, State);
instances(_New) -> #{}.
