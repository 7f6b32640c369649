%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_names).
-moduledoc false.
%% What processes are called together: `worker_1` and `worker_22` of one module are worker_N, for
%% which sinks keep one series and tables one row. A name that has no such sibling keeps its digits,
%% as s3_uploader does; that of a module always does. What was one name of several once stays so,
%% that a receiver's series does not change its name with each process that ends. Bounded, and pure.

-export([new/0, add/2, common/2, pattern/1]).
-export_type([t/0]).

-doc "By module and pattern: the only name that was seen, or that there were several.".
-opaque t() :: #{{Module :: binary(), Pattern :: binary()} => binary() | several}.

-define(MOST_PATTERNS, 10_000).

-spec new() -> t().
new() -> #{}.

-doc "With the names of these processes.".
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

-doc "What a process is called together with its siblings.".
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
