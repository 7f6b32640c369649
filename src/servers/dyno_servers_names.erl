%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_names).
-moduledoc false.
%% Common names of processes: `worker_1` and `worker_22` of one module are worker_N, one series in
%% sinks and one row in tables. A name without such a sibling keeps its digits, like s3_uploader; a
%% module's name always does. A common name stays common, so that a receiver's series keeps its name
%% when processes end. Bounded, pure.

-export([new/0, add/2, common/2, pattern/1]).
-export_type([t/0]).

-doc "By module and pattern: the only name seen, or `several`.".
-opaque t() :: #{{Module :: binary(), Pattern :: binary()} => binary() | several}.

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
            case Names of
                #{Key := Name} -> Names;
                #{Key := _} -> Names#{Key := several};
                #{} when map_size(Names) < ?MOST_PATTERNS -> Names#{Key => Name};
                #{} -> Names
            end
    end;
with_name(_Unnamed, Names) ->
    Names.

-doc "The common name of a process and its siblings.".
-spec common(dyno_servers_window:sum(), t()) -> binary().
common(#{kind := module, labels := #{name := Name}}, _Names) ->
    Name;
common(#{labels := #{name := Name} = Labels}, Names) ->
    Pattern = pattern(Name),
    case maps:get({maps:get(module, Labels, ~""), Pattern}, Names, several) of
        several -> Pattern;
        Only -> Only
    end.

-doc "The name with N for its numbers.".
-spec pattern(binary()) -> binary().
pattern(Name) ->
    iolist_to_binary(re:replace(Name, "[0-9]+", "N", [global, unicode])).
