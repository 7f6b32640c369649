%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_names).
-moduledoc false.
%% Common names of processes: `worker_1` and `worker_22` of one module are worker_N, one series in
%% sinks and one row in tables; numbers that all have stay. A name without such a sibling keeps its
%% digits, like s3_uploader; a module's name always does. A common name stays common, so that a
%% receiver's series keeps its name when processes end. Bounded, pure.

-export([new/0, add/2, common/2]).
-export_type([t/0]).

-doc "By module and pattern: the parts of the common name.".
-opaque t() :: #{{Module :: binary(), Pattern :: binary()} => [binary()]}.

-define(MOST_PATTERNS, 10_000).

-spec new() -> t().
new() -> #{}.

-spec add([dyno_servers_window:sum()], t()) -> t().
add(Servers, Names) -> lists:foldl(fun with_name/2, Names, Servers).

with_name(#{kind := module}, Names) ->
    Names;
with_name(#{labels := #{name := Name, module := Module}}, Names) ->
    case pattern(Name) of
        Name ->
            Names;
        Pattern ->
            Key = {Module, Pattern},
            Parts = re:split(Name, "([0-9]+)", [unicode]),
            case Names of
                #{Key := Parts} -> Names;
                #{Key := Common} -> Names#{Key := lists:zipwith(fun in_common/2, Common, Parts)};
                #{} when map_size(Names) < ?MOST_PATTERNS -> Names#{Key => Parts};
                #{} -> Names
            end
    end;
with_name(_Unnamed, Names) ->
    Names.

in_common(Part, Part) -> Part;
in_common(_Number, _Other) -> ~"N".

-doc "The common name of a process and its siblings.".
-spec common(dyno_servers_window:sum(), t()) -> binary().
common(#{kind := module, labels := #{name := Name}}, _Names) ->
    Name;
common(#{labels := #{name := Name} = Labels}, Names) ->
    Pattern = pattern(Name),
    iolist_to_binary(maps:get({maps:get(module, Labels, ~""), Pattern}, Names, Pattern)).

pattern(Name) ->
    iolist_to_binary(re:replace(Name, "[0-9]+", "N", [global, unicode])).
