%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_name).
-moduledoc false.
%% Names in files of events. Atoms are permanent and limited, so a file must not make any: an
%% unknown name becomes a text, {'$dyno', Name}, equal only to itself like the atom. Pids need a
%% node that is an atom: unknown nodes get names of a fixed set, in the order in which the calling
%% process meets them.

-export([atom/1, node/1]).
-export_type([name/0]).

-type name() :: atom() | {'$dyno', binary()}.

-define(MOST_NODES, 255).

-spec atom(binary()) -> name().
atom(Name) ->
    try
        binary_to_existing_atom(Name)
    catch
        error:_ -> {'$dyno', Name}
    end.

-doc "A node for pids of that node; fails if there are too many.".
-spec node(binary()) -> node().
node(Name) ->
    case atom(Name) of
        Known when is_atom(Known) -> Known;
        Unknown -> numbered(Unknown, get({?MODULE, Unknown}))
    end.

numbered(Unknown, undefined) ->
    Number =
        case get(?MODULE) of
            undefined -> 1;
            Before when Before < ?MOST_NODES -> Before + 1
        end,
    _ = put(?MODULE, Number),
    _ = put({?MODULE, Unknown}, Number),
    numbered(Unknown, Number);
numbered(_Unknown, Number) ->
    list_to_atom("node" ++ integer_to_list(Number) ++ "@log").
