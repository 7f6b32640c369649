%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_samples).
-moduledoc false.
%% The sampled stacks of running processes, by group and place. Pure.
%%
%% The frames in which processes wait are learned on the way and kept over a restart. So only the
%% results distinguish bursts, on the caller's side (dyno_agent_stack_result).

-export([new/0, restart/1, add/5, learn/2, path/1, read/1]).
-export_type([t/0, reading/0, frames/0, ran/0, leaf/0]).

-opaque t() :: #{
    running := dyno_agent_stack_tree:t(),
    waits := #{leaf() => true}
}.

-doc "As `process_info/2` returns them, innermost first; `unseen` of an ended process.".
-type frames() :: [tuple()] | unseen.

-doc "`late`: the frames are of a later moment.".
-type ran() :: normal | dirty | late.

-doc "The innermost frame is one line of its function.".
-type leaf() :: {mfa(), Line :: non_neg_integer()}.

-doc """
Paths from `{ran(), Group}` to a leaf, `unseen`, `late` or `burst`, of unselected processes only the
innermost frame. `waits`: leaves in which processes wait. `other`: beyond the limit.
""".
-type reading() :: #{
    running := [{[term(), ...], number()}], waits := [leaf()], other := number()
}.

-define(NODES, 20_000).
-define(MOST_WAITS, 2000).

-spec new() -> t().
new() ->
    restart(#{waits => #{}}).

-spec restart(t() | #{waits := #{}}) -> t().
restart(#{waits := Waits}) ->
    #{running => dyno_agent_stack_tree:new(?NODES), waits => Waits}.

-spec add(ran(), dyno_agent_stack_kinds:group(), frames(), number(), t()) -> t().
add(Ran, Group, Frames, Weight, #{running := Tree} = Samples) ->
    Path =
        case Group of
            elsewhere -> [lists:last(path(Ran, Frames))];
            _ -> path(Ran, Frames)
        end,
    Samples#{running := dyno_agent_stack_tree:add([{Ran, Group} | Path], Weight, Tree)}.

-doc "Processes wait at the end of this stack.".
-spec learn([tuple(), ...], t()) -> t().
learn([Innermost | _], #{waits := Waits} = Samples) when map_size(Waits) < ?MOST_WAITS ->
    Samples#{waits := Waits#{leaf(Innermost) => true}};
learn(_Frames, Samples) ->
    Samples.

path(late, _Frames) -> [late];
path(_Ran, Frames) -> path(Frames).

-doc "The path of a stack, outermost first. A process without frames has not begun.".
-spec path(frames()) -> [term(), ...].
path(unseen) ->
    [unseen];
path([]) ->
    [burst];
path([{M, F, A, _} = Innermost | Outer] = Frames) ->
    Path = outer(Outer, {M, F, A}, [leaf(Innermost)]),
    case length(Frames) >= dyno_agent_stack_depth:raised() of
        true -> [deep | Path];
        false -> Path
    end.

%% Self-recursive calls are one frame.
outer([], _Inner, Path) -> Path;
outer([{M, F, A, _} | Outer], {M, F, A} = Inner, Path) -> outer(Outer, Inner, Path);
outer([{M, F, A, _} | Outer], _Inner, Path) -> outer(Outer, {M, F, A}, [{M, F, A} | Path]).

leaf({M, F, A, Location}) ->
    {{M, F, A}, proplists:get_value(line, Location, 0)}.

-spec read(t()) -> reading().
read(#{running := Tree, waits := Waits}) ->
    #{
        running => dyno_agent_stack_tree:paths(Tree),
        waits => maps:keys(Waits),
        other => dyno_agent_stack_tree:other(Tree)
    }.
