%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_specification_module).
-moduledoc false.
%% A property's monitor: patterns as functions, code as a literal; calls dyno_agent_property.

-export([compile/1]).

%% For code that is in no specification.
-define(NONE, (erl_anno:new(1))).

-spec compile(dyno_specification_parser:property()) ->
    {module(), binary(), dyno_agent_monitor:needs()}.
compile(#{name := Name, location := Location, body := Body} = Property) ->
    #{keys := KeysThere, strict := Strict, select := Select, across := Across} = Property,
    Keys = [Key || {Key, _} <- KeysThere],
    {Engine, Code, Matches} = dyno_specification_code:body(Body, Keys),
    Events = [Event || {#{} = Event, _, _} <- Matches],
    lists:foreach(fun(Key) -> used(Key, Events) end, KeysThere),
    lists:foreach(fun(Event) -> whole_key(Event, Keys) end, Events),
    Program = #{
        name => Name,
        engine => Engine,
        keys => Keys,
        shared => Strict orelse lists:any(fun(E) -> Keys -- variables(E) =/= [] end, Events),
        strict => Strict,
        code => Code,
        reachable => reachable(Engine, Code, Matches, Strict)
    },
    Needs = #{
        property => Name,
        select => Select,
        events => dyno_specification_event:needs(Events, Strict),
        key => Across,
        warnings => warnings(Property)
    },
    Module = module(Name),
    Forms =
        [
            {attribute, ?NONE, module, Module},
            {attribute, ?NONE, compile, export_all},
            {function, ?NONE, program, 0, [clause([], erl_parse:abstract(Program))]},
            {function, ?NONE, needs, 0, [clause([], erl_parse:abstract(Needs))]},
            named(Events, Keys),
            {function, ?NONE, match, 4, matching(Matches, Keys)}
        ] ++ callbacks(Module, Keys, Across),
    Options = [r27, deterministic, return, nowarn_export_all, {location, column}],
    case compile:forms(Forms, Options) of
        {ok, Module, Beam, _Warnings} ->
            {Module, Beam, Needs};
        {error, [{_, [{Where, Checker, Description} | _]} | _], _} ->
            Text = unicode:characters_to_list(Checker:format_error(Description)),
            throw({where(Where, Location), {erlang, Text}})
    end.

%% An event matches patterns of one kind; with a guard or earlier variables maybe none.
reachable(dyno_agent_formula, Code, Matches, Strict) ->
    Placed = lists:enumerate(Matches),
    Always = [Place || {Place, {anything, _, _}} <- Placed],
    Of = maps:groups_from_list(
        fun({_, {Event, _, _}}) -> kind(Event) end,
        [Match || {_, {#{}, _, _}} = Match <- Placed]
    ),
    Any = maps:get(any, Of, []),
    dyno_agent_formula:reachable(Code, [
        {
            case Strict orelse lists:any(fun is_unsure/1, Group) of
                true -> some;
                false -> one
            end,
            [Place || {Place, _} <- lists:uniq(Group ++ Any)],
            Always
        }
     || Kind := Group <- Of, Kind =/= exit, Kind =/= spawned
    ]);
reachable(_Engine, _Code, _Matches, _Strict) ->
    [].

is_unsure({_, {#{guard := Guard}, Scope, _}}) -> Guard =/= [] orelse Scope =/= [].

kind(Event) ->
    case dyno_specification_event:pattern(Event) of
        {{tuple, _, [{atom, _, Kind} | _]}, _} -> Kind;
        {_, _} -> any
    end.

where({_, _} = There, _Location) -> There;
where(_, Location) -> Location.

used({Key, Location}, Events) ->
    lists:any(fun(Event) -> lists:member(Key, variables(Event)) end, Events) orelse
        throw({Location, {key_in_no_event, Key}}).

whole_key(#{location := Location} = Event, Keys) ->
    case Keys -- variables(Event) of
        [] -> ok;
        Keys -> ok;
        [Key | _] -> throw({Location, {key_missing, Key}})
    end.

variables(Event) -> dyno_specification_event:variables(Event).

module(Name) ->
    Words = re:replace(Name, "[^A-Za-z0-9]+", "_", [global, {return, binary}]),
    Short = binary:part(Words, 0, min(byte_size(Words), 60)),
    Hash = integer_to_binary(erlang:phash2(Name, 16#10000), 16),
    binary_to_atom(<<"dyno_monitor_", Short/binary, "_", Hash/binary>>).

%% match(1, Event, [Key1, ...], [Newest, ..., Oldest]) ->
%%     case Event of Pattern when Guard -> [New, ... | Environment]; _ -> nomatch end;
%% match(-1, ...): whether it can match with some values of earlier variables.
matching(Matches, Keys) ->
    [
        clause(
            [{integer, ?NONE, Place}, event(), names(Keys), names(Scope)],
            chosen(head(Event), names(New ++ Scope), {atom, ?NONE, nomatch})
        )
     || {Place, {Event, Scope, New}} <- lists:enumerate(Matches)
    ] ++
        [
            clause(
                [erl_parse:abstract(-Place), event(), names(Keys), {var, ?NONE, '_'}],
                chosen(
                    dyno_specification_event:shape(Event, Keys),
                    {nil, ?NONE},
                    {atom, ?NONE, nomatch}
                )
            )
         || {Place, {#{} = Event, [_ | _], _}} <- lists:enumerate(Matches)
        ] ++ [clause([{var, ?NONE, '_'} || _ <- "PEKE"], {atom, ?NONE, nomatch})].

head(anything) -> {{var, ?NONE, '_'}, []};
head(Event) -> dyno_specification_event:pattern(Event).

%% named(Event) -> which keys of the property the event has: [all | {key, Key}].
named(Events, Keys) ->
    Shapes = lists:uniq(
        fun({Shape, What}) -> {plain(Shape), plain(What)} end,
        [named_as(Event, Keys) || Event <- Events]
    ),
    Named = lists:foldr(
        fun({Shape, What}, Others) ->
            {call, ?NONE, {remote, ?NONE, {atom, ?NONE, lists}, {atom, ?NONE, append}}, [
                chosen(Shape, {cons, ?NONE, What, {nil, ?NONE}}, {nil, ?NONE}), Others
            ]}
        end,
        {nil, ?NONE},
        Shapes
    ),
    {function, ?NONE, named, 1, [clause([event()], Named)]}.

named_as(Event, Keys) ->
    What =
        case Keys =/= [] andalso Keys -- variables(Event) =:= [] of
            true -> {tuple, ?NONE, [{atom, ?NONE, key}, names(Keys)]};
            false -> {atom, ?NONE, all}
        end,
    {dyno_specification_event:shape(Event, Keys), What}.

plain({Pattern, Guard}) -> {plain(Pattern), [[plain(Test) || Test <- Tests] || Tests <- Guard]};
plain(Expr) -> erl_parse:map_anno(fun(_) -> erl_anno:new(1) end, Expr).

chosen({Pattern, Guard}, Then, Else) ->
    Anno = element(2, Pattern),
    Otherwise = [{clause, Anno, [{var, Anno, '_'}], [], [Else]}],
    {'case', Anno, event(), [{clause, Anno, [Pattern], Guard, [Then]} | Otherwise]}.

clause(Arguments, Body) -> {clause, ?NONE, Arguments, [], [Body]}.

%% No user's variable has this name.
event() -> {var, ?NONE, 'the event'}.

names(Names) ->
    Cons = fun(Name, Tail) -> {cons, ?NONE, {var, ?NONE, Name}, Tail} end,
    lists:foldr(Cons, {nil, ?NONE}, Names).

%% With keys the events of each key are kept, too.
callbacks(Module, Keys, Across) ->
    Event =
        case Keys of
            [] ->
                ["event(Event, Time, State) -> dyno_agent_property:event(~p, Event, Time, State)."];
            _ ->
                [
                    "event(Event, Time, State) -> event(Event, Time, none, State).",
                    "event(Event, Time, Pid, State) -> "
                    "dyno_agent_key_events:event(~p, Event, Time, Pid, State)."
                ]
        end,
    By =
        case Keys of
            [] -> "dyno_agent_property";
            _ -> "dyno_agent_key_events"
        end,
    Texts =
        [
            "init(Process) -> dyno_agent_property:init(~p, Process).",
            "names(Event) -> dyno_agent_property:names(~p, Event).",
            "ended(State) -> " ++ By ++ ":ended(~p, State).",
            "deadline(State) -> " ++ By ++ ":deadline(State).",
            "timeout(Time, State) -> " ++ By ++ ":timeout(~p, Time, State)."
        ] ++ Event ++ ["key(_Event, _Process) -> {ok, all}." || Across],
    [form(string:replace(Text, "~p", io_lib:format("~tp", [Module]))) || Text <- Texts].

form(Text) ->
    {ok, Tokens, _} = erl_scan:string(lists:flatten(Text)),
    {ok, Form} = erl_parse:parse_form(Tokens),
    Form.

%% A common misunderstanding: `never A then B` asks for B as the next event that the property names.
%% If another named event can come between, A and a later B are no violation.
warnings(#{body := {never, Regexp}, name := Name, location := {Line, _}} = Property) ->
    #{strict := Strict, keys := Keys} = Property,
    [
        next_only(Line, Name)
     || is_adjacent(Regexp),
        Strict orelse not cannot_miss(Regexp, [Key || {Key, _} <- Keys])
    ];
warnings(_Property) ->
    [].

next_only(Line, Name) ->
    unicode:characters_to_binary(
        io_lib:format(
            "line ~b: \"~ts\": 'never A then B' is broken only if B is the next event after A, of "
            "the events that the property names; a later B does not break it. For any later B "
            "write 'never A then eventually B'.",
            [Line, Name]
        )
    ).

%% A step must directly follow another.
is_adjacent({then, A, B}) -> not is_later(B) orelse is_adjacent(A) orelse is_adjacent(B);
is_adjacent({'or', A, B}) -> is_adjacent(A) orelse is_adjacent(B);
is_adjacent({Repeated, A}) when is_atom(Repeated) -> is_adjacent(A);
is_adjacent(_Step) -> false.

is_later({then, A, _}) -> is_later(A);
is_later({'or', A, B}) -> is_later(A) andalso is_later(B);
is_later({later, _, _, _}) -> true;
is_later(_Other) -> false.

%% If what comes between is an A or a B, the last A and the next B are neighbours, if B is free.
cannot_miss({then, A, B}, Keys) ->
    Own = mentioned(A) -- Keys,
    is_single(A) andalso is_single(B) andalso mentioned(B) -- Own =:= mentioned(B);
cannot_miss(_Regexp, _Keys) ->
    false.

is_single({step, _, _, _}) -> true;
is_single({'or', A, B}) -> is_single(A) andalso is_single(B);
is_single(_Other) -> false.

mentioned({_Step, Event, _, _}) -> dyno_specification_event:mentioned(Event);
mentioned({_, A, B}) -> mentioned(A) ++ mentioned(B);
mentioned({_, A}) -> mentioned(A).
