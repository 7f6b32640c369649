%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording_run).
-moduledoc false.
%% Names of runs for any measurement: a run's id from its labels, and the roles of its nodes.
%% Recorded parts use roles, because a node started for a run has a new name each time.

-export([id/2, place/2, identified/1, roles/1, with_roles/2]).

-type object() :: dyno_recording_check:object().

%% The first labels of an id; others follow by name.
-define(ORDER, [~"spec", ~"case", ~"variant", ~"input", ~"phase", ~"size"]).

-doc "`10`, `sort/large`, `10#2`; `1` for a run without labels.".
-spec id(Labels :: object(), Repetition :: pos_integer()) -> binary().
id(Labels, Repetition) ->
    Others = lists:sort(maps:keys(Labels) -- ?ORDER),
    Texts = [label(map_get(Key, Labels)) || Key <- ?ORDER ++ Others, is_map_key(Key, Labels)],
    Id =
        case Texts of
            [] -> ~"1";
            _ -> iolist_to_binary(lists:join($/, Texts))
        end,
    case Repetition of
        1 -> Id;
        _ -> <<Id/binary, "#", (integer_to_binary(Repetition))/binary>>
    end.

label(Text) when is_binary(Text) -> Text;
label(Number) -> json:encode(Number).

-doc "A run in a sentence, by size: `16 clients`, `size 16`; by id, or by a size as text.".
-spec place(Label :: binary(), Id :: binary()) -> binary().
place(Label, Id) ->
    iolist_to_binary(place_of(Label, Id)).

place_of(~"size", Id) -> [~"size ", Id];
%% The form of PerformERL's suites.
place_of(<<"number of ", What/binary>>, Id) -> place_of(What, Id);
place_of(Label, ~"1") -> [~"1 ", singular(Label)];
place_of(Label, <<"1#", _/binary>> = Id) -> [Id, ~" ", singular(Label)];
place_of(Label, Id) -> [Id, ~" ", Label].

%% From a regular English plural; other words stay.
singular(Label) ->
    Rules = [{"ies$", "y"}, {"(ss|x|ch|sh)es$", "\\1"}, {"([^s/])s$", "\\1"}],
    lists:foldl(
        fun({Plural, Singular}, Text) ->
            re:replace(Text, Plural, Singular, [unicode, {return, binary}])
        end,
        Label,
        Rules
    ).

-spec identified(object()) -> object().
identified(Run) ->
    Nodes = maps:get(~"nodes", Run, []),
    Roles = roles([Name || #{~"name" := Name} <- Nodes]),
    Parts =
        #{
            Key => in_roles(Roles, Of)
         || Key := Of <- maps:with([~"series", ~"tables", ~"profiles", ~"events"], Run)
        },
    Id = id(maps:get(~"labels", Run, #{}), maps:get(~"repetition", Run, 1)),
    Identified = maps:merge(#{~"id" => Id}, maps:merge(Run, Parts)),
    Identified#{~"nodes" => [of_role(Roles, Node) || Node <- Nodes]}.

in_roles(Roles, #{~"items" := Events} = Of) -> Of#{~"items" := in_roles(Roles, Events)};
in_roles(Roles, Parts) when is_list(Parts) -> [with_roles(Roles, Part) || Part <- Parts];
in_roles(_Roles, Others) -> Others.

of_role(Roles, #{~"name" := Name} = Node) -> maps:merge(#{~"role" => map_get(Name, Roles)}, Node);
of_role(_Roles, Node) -> Node.

-spec with_roles(#{Name :: binary() => Role :: binary()}, object()) -> object().
with_roles(Roles, #{~"node" := Name} = Part) when is_map_key(Name, Roles) ->
    Part#{~"node" := map_get(Name, Roles)};
with_roles(_Roles, Part) ->
    Part.

-doc "Nodes' roles by name: the part before `@` without `m:peer`'s suffix, a host, a number.".
-spec roles([Name :: binary()]) -> #{Name :: binary() => Role :: binary()}.
roles(Names) ->
    Common = [{Name, without_unique(Name)} || Name <- lists:uniq(Names)],
    Short = [{Name, hd(binary:split(Whole, ~"@"))} || {Name, Whole} <- Common],
    #{
        Name =>
            case {shared(Role, Short), shared(Whole, Common)} of
                {[_], _} -> Role;
                {_, [_]} -> Whole;
                {Same, Same} -> numbered(Role, Name, Same);
                {_, Same} -> numbered(Whole, Name, Same)
            end
     || {{Name, Role}, {Name, Whole}} <- lists:zip(Short, Common)
    }.

without_unique(Name) ->
    re:replace(Name, ~"^(.+)-[0-9]+-[0-9]+(@|$)", ~"\\1\\2", [unicode, {return, binary}]).

shared(Role, Roles) ->
    [Name || {Name, Of} <- Roles, Of =:= Role].

numbered(Role, Name, Same) ->
    [Number] = [N || {N, Of} <- lists:enumerate(Same), Of =:= Name],
    <<Role/binary, "#", (integer_to_binary(Number))/binary>>.
