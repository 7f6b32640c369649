%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_custom_metric).
-moduledoc false.
%% A suite's own metrics and the results of its custom agents, as parts of a recording. Pure.

-export([metric/1, description/2, new/0, sample/4]).
-export([series/2, warnings/1, table/2, metrics/1, known/2]).
-export([format_error/1]).
-export_type([metric/0, t/0, reason/0]).

-type metric() :: #{
    name := binary(),
    unit := binary(),
    title := binary(),
    call := {module(), atom(), [term()]}
}.

-type line() :: #{
    unit := binary(),
    title := binary(),
    %% The last one first.
    points := [{number(), number()}],
    failures := non_neg_integer(),
    why := binary() | undefined
}.

-opaque t() :: #{{node(), binary()} => line()}.

-type part() :: #{atom() => term()}.

-type reason() ::
    {bad_metric, term()}
    | {bad_name, binary()}
    | {reserved, binary()}
    | {bad_unit, term()}.

-define(MAX_NAMES, 1000).
-define(MAX_ITEMS, 1000).
-define(MAX_TEXT, 500).
-define(MAX_DEPTH, 3).
%% Prefixes of dyno's own names.
-define(RESERVED, [
    ~"vm",
    ~"os",
    ~"load",
    ~"latency",
    ~"service",
    ~"errors",
    ~"throughput",
    ~"operations",
    ~"processes",
    ~"instrument",
    ~"workers",
    ~"growth",
    ~"function",
    ~"process"
]).

-doc "Reads a metric of a suite: `{Name, Unit, {M, F, A}}` or a map.".
-spec metric(term()) -> {ok, metric()} | {error, reason()}.
metric({Name, Unit, {_, _, _} = Call}) ->
    metric(#{name => Name, unit => Unit, call => Call});
metric(#{name := _, call := {M, F, A} = Call} = Metric) when is_atom(M), is_atom(F), is_list(A) ->
    maybe
        {ok, Description} ?= description(Metric, Metric),
        {ok, Description#{call => Call}}
    end;
metric(Other) ->
    {error, {bad_metric, Other}}.

-spec description(term(), Source :: term()) ->
    {ok, #{name := binary(), unit := binary(), title := binary()}} | {error, reason()}.
description(#{name := Name} = Map, Source) ->
    maybe
        {ok, Text} ?= dyno_option:name(Name),
        ok ?= check_name(Text),
        {ok, Unit} ?= unit(maps:get(unit, Map, ~"1")),
        {ok, Title} ?= dyno_option:name(maps:get(title, Map, Text)),
        {ok, #{name => Text, unit => Unit, title => Title}}
    else
        error -> {error, {bad_metric, Source}};
        {error, _} = Error -> Error
    end;
description(_Other, Source) ->
    {error, {bad_metric, Source}}.

%% Thresholds use the name, and dyno must not.
check_name(Name) ->
    Form = ~"^[\\p{L}_][\\p{L}\\p{N}_.-]*$",
    case re:run(Name, Form, [unicode, {capture, none}]) of
        match ->
            case lists:member(first_word(Name), ?RESERVED) of
                true -> {error, {reserved, Name}};
                false -> ok
            end;
        nomatch ->
            {error, {bad_name, Name}}
    end.

first_word(Name) -> hd(binary:split(Name, ~".")).

unit(Unit) ->
    maybe
        {ok, Text} ?= dyno_option:name(Unit),
        true ?= lists:member(Text, dyno_unit:units()),
        {ok, Text}
    else
        _ -> {error, {bad_unit, Unit}}
    end.

%% Samples

-spec new() -> t().
new() -> #{}.

-doc "Adds a sample's values; `Described` has the units and titles of names.".
-spec sample(node(), number(), {#{binary() => part()}, term()}, t()) ->
    {ok, t()} | {error, reason()}.
sample(Node, TimeMs, {Described, Values}, Lines) when is_map(Values) ->
    maps:fold(
        fun
            (Key, Value, {ok, Sampled}) -> sampled(Key, Value, Node, TimeMs, Described, Sampled);
            (_Key, _Value, Error) -> Error
        end,
        {ok, Lines},
        Values
    );
sample(_Node, _TimeMs, {_Described, Values}, _Lines) ->
    {error, {bad_metric, Values}}.

sampled(Key, Value, Node, TimeMs, Described, Lines) ->
    maybe
        {ok, Name} ?= dyno_option:name(Key),
        {ok, Line} ?= line({Node, Name}, Value, Described, Lines),
        {ok, Lines#{{Node, Name} => point(TimeMs, Value, Line)}}
    else
        error -> {error, {bad_metric, Key}};
        {error, _} = Error -> Error
    end.

line(Key, _Value, _Described, Lines) when is_map_key(Key, Lines) ->
    {ok, map_get(Key, Lines)};
line({_Node, Name}, Value, Described, Lines) when map_size(Lines) < ?MAX_NAMES ->
    maybe
        {ok, #{unit := Unit, title := Title}} ?=
            case {Described, Value} of
                {#{Name := Description}, _} -> {ok, Description};
                {_, {_, U}} when U =/= failed -> description(#{name => Name, unit => U}, Name);
                _ -> description(#{name => Name}, Name)
            end,
        {ok, #{unit => Unit, title => Title, points => [], failures => 0, why => undefined}}
    end;
line({_Node, Name}, _Value, _Described, _Lines) ->
    {error, {bad_metric, Name}}.

point(_TimeMs, {failed, Why}, #{failures := N} = Line) when is_binary(Why) ->
    Line#{failures := N + 1, why := Why};
point(TimeMs, {Value, _Unit}, Line) when is_number(Value) ->
    point(TimeMs, Value, Line);
point(TimeMs, Value, #{points := Points, failures := N} = Line) ->
    case dyno_recording_check:is_measurable(Value) of
        true ->
            Line#{points := [{TimeMs, Value} | Points]};
        false ->
            Format = "it gave ~ts, a number up to 1.0e100 is expected",
            Line#{failures := N + 1, why := dyno_recording_part:text(Format, [short(Value)])}
    end.

-spec series(EndsMs :: integer() | undefined, t()) -> [part()].
series(EndsMs, Lines) ->
    [
        dyno_recording_part:series(
            Name, Unit, ~"custom", Title, Node, [T || {T, _} <- Points], [V || {_, V} <- Points]
        )
     || {Node, Name} := #{unit := Unit, title := Title, points := [_ | _] = Last} <-
            maps:iterator(Lines, ordered),
        Points <- [dyno_recording_part:until(EndsMs, 1, lists:reverse(Last))]
    ].

-spec warnings(t()) -> [{binary(), binary()}].
warnings(Lines) ->
    [
        {
            ~"metric_failed",
            dyno_recording_part:text(
                "~ts of ~ts could not be read in ~b of ~b samples, the last time: ~ts",
                [Name, Node, Failures, Failures + length(Points), Why]
            )
        }
     || {Node, Name} := #{points := Points, failures := Failures, why := Why} <-
            maps:iterator(Lines, ordered),
        Failures > 0
    ].

%% Results

-spec table(node(), [{module(), Results :: term()}]) -> dyno_recording_table:table().
table(Node, Results) ->
    Items = [
        {Agent, Item, Number, Unit, Text}
     || {Agent, Term} <- Results,
        {Item, [Number, Unit, Text]} <- lists:sublist(items(~"", Term, 0), ?MAX_ITEMS)
    ],
    dyno_recording_table:make(spec(), Items, #{node => Node}).

spec() ->
    Columns = [
        {~"agent", ~"Agent", string, key, 1},
        {~"item", ~"Item", string, key, 2},
        {~"value", ~"Value", number, 3},
        {~"unit", ~"Unit", string, 4},
        {~"text", ~"Text", string, 5}
    ],
    #{name => ~"custom_agents", title => ~"Results of custom agents", columns => Columns}.

-doc """
All metrics of a suite and its agents. Only agents know the names of their samples, which do not
begin like dyno's own; names of their results begin with the module's name.
""".
-spec known([metric()], Agents :: [module()]) -> dyno_threshold:known().
known(Metrics, []) ->
    #{series => Metrics};
known(Metrics, Agents) ->
    Theirs = [first_word(plain(atom_to_binary(Agent))) || Agent <- Agents],
    #{series => Metrics, tables => [spec()], reserved => ?RESERVED -- Theirs}.

items(Name, Number, _Depth) when is_number(Number) ->
    [{Name, [Number, undefined, undefined]}];
items(Name, {Number, Unit} = Pair, _Depth) when is_number(Number) ->
    case unit(Unit) of
        {ok, Text} -> [{Name, [Number, Text, undefined]}];
        {error, _} -> other(Name, Pair)
    end;
items(Name, Map, Depth) when is_map(Map), map_size(Map) > 0, Depth < ?MAX_DEPTH ->
    pairs(Name, maps:to_list(Map), Depth);
%% An improper list has no length, so the guard fails.
items(Name, List, Depth) when length(List) > 0, Depth < ?MAX_DEPTH ->
    case {is_words(List), lists:all(fun is_pair/1, List)} of
        {true, _} -> other(Name, List);
        {false, true} -> pairs(Name, List, Depth);
        {false, false} -> pairs(Name, lists:enumerate(lists:sublist(List, ?MAX_ITEMS)), Depth)
    end;
items(Name, Other, _Depth) ->
    other(Name, Other).

pairs(Name, Pairs, Depth) ->
    lists:append([items(under(Name, Key), Value, Depth + 1) || {Key, Value} <- Pairs]).

%% [10, 100] are two numbers, and "as fast as ever" is a text: mostly letters and spaces.
is_words(List) ->
    io_lib:printable_unicode_list(List) andalso
        lists:all(fun(C) -> C >= $\s end, List) andalso
        2 * length([C || C <- List, is_letter(C)]) >= length(List).

is_letter($\s) -> true;
is_letter(C) -> (C >= $a andalso C =< $z) orelse (C >= $A andalso C =< $Z) orelse C > 255.

is_pair({Key, _}) -> is_atom(Key) orelse is_binary(Key) orelse io_lib:printable_unicode_list(Key);
is_pair(_Other) -> false.

other(Name, Other) ->
    [{Name, [undefined, undefined, short(Other)]}].

under(~"", Key) -> short(Key);
under(Name, Key) -> <<Name/binary, ".", (short(Key))/binary>>.

short(Term) ->
    Text =
        case is_atom(Term) orelse is_binary(Term) orelse io_lib:printable_unicode_list(Term) of
            true -> dyno_option:name(Term);
            false -> error
        end,
    Whole =
        case Text of
            {ok, Chars} -> Chars;
            error -> dyno_recording_part:text("~0tP", [Term, 40])
        end,
    string:slice(Whole, 0, ?MAX_TEXT).

-doc "Numbers as the run's metrics `AGENT.ITEM`; of several nodes, the first one counts.".
-spec metrics([part()]) -> [part()].
metrics(Tables) ->
    All = [
        dyno_recording_part:metric(Name, Name, Value, unit_of(Unit), 1, ~"custom")
     || #{rows := Rows} <- Tables,
        [Agent, Item, Value, Unit, _] <- Rows,
        is_number(Value),
        Name <- [metric_name(Agent, Item)]
    ],
    lists:uniq(fun(#{name := Name}) -> Name end, All).

metric_name(Agent, ~"") -> plain(Agent);
metric_name(Agent, Item) -> plain(<<Agent/binary, ".", Item/binary>>).

plain(Name) ->
    re:replace(Name, ~"[^\\p{L}\\p{N}_.-]", ~"_", [unicode, global, {return, binary}]).

unit_of(undefined) -> ~"1";
unit_of(Unit) -> Unit.

-spec format_error(reason()) -> unicode:chardata().
format_error({bad_metric, Term}) ->
    io_lib:format(
        "~0tP is not a metric; write {Name, Unit, {Module, Function, Arguments}}", [Term, 12]
    );
format_error({bad_name, Name}) ->
    io_lib:format(
        "\"~ts\" is no name of a metric: it is to begin with a letter and may have letters, "
        "digits, dots, _ and -, such as orders.open",
        [Name]
    );
format_error({reserved, Name}) ->
    io_lib:format(
        "the metric ~ts has a name of dyno's own; let it begin with another word", [Name]
    );
format_error({bad_unit, Unit}) ->
    io_lib:format("there is no unit ~0tp; accepted are ~ts", [
        Unit, lists:join(", ", dyno_unit:units())
    ]).
