%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_perf).
-moduledoc """
Stacks from Linux perf, in which native frames stand with those of Erlang: reads the output of `perf
script`, and says how to come by it.
""".

-behaviour(dyno_profile_kind).

-export([instruments/1, read/1, parse/1, format_error/1]).
-export_type([reason/0]).

-type reason() ::
    {no_samples, binary()}
    | {use_perf, node(), Advice :: unicode:chardata()}
    | {not_read, binary(), file:posix() | badarg | terminated | system_limit}.

%% The rarest ones are one.
-define(MOST_STACKS, 3000).

-doc "The recording of a file that perf script wrote.".
-spec read(binary()) -> {ok, dyno_recording:document()} | {error, dyno_error:error()}.
read(Path) ->
    case file:read_file(Path) of
        {ok, Text} ->
            case parse(Text) of
                [] -> {error, {?MODULE, {no_samples, Path}}};
                Samples -> {ok, document(Path, Samples)}
            end;
        {error, Reason} ->
            {error, {?MODULE, {not_read, Path, Reason}}}
    end.

document(Path, Samples) ->
    Parameters = #{kind => perf, perf_script => Path},
    New = dyno_recording:new(
        profile, filename:basename(Path), Parameters, dyno_environment:collect()
    ),
    Sums = maps:groups_from_list(fun(Sample) -> Sample end, fun(_) -> 1 end, Samples),
    Sorted = lists:reverse(lists:keysort(2, [{S, length(Ones)} || S := Ones <- Sums])),
    {Most, Rest} = lists:split(min(?MOST_STACKS, length(Sorted)), Sorted),
    Others = lists:sum([N || {_, N} <- Rest]),
    Profile = dyno_recording_part:profile(
        #{
            name => ~"perf",
            title => ~"Samples of perf",
            values => [#{name => ~"samples", unit => ~"count"}]
        },
        [{Stack, [N], #{thread => Thread}} || {{Thread, Stack}, N} <- Most] ++
            [{[~"(other stacks)"], [Others], #{}} || Others > 0]
    ),
    Run = #{
        status => complete,
        started_at => map_get(~"started_at", New),
        profiles => [Profile],
        tables => [dyno_profile_functions:table(Profile)]
    },
    Native = length([S || {_, Stack} = S <- Samples, not lists:any(fun is_erlang/1, Stack)]),
    Text = dyno_recording_part:text(
        "~b of ~b samples have no Erlang frame: the runtime's own work, and what was compiled "
        "without frame pointers",
        [Native, length(Samples)]
    ),
    With = dyno_recording:add_run(dyno_recording:put(New, status, complete), Run),
    dyno_recording:add_warnings(With, [{~"native", Text} || Native > 0]).

is_erlang(Frame) ->
    re:run(Frame, "^[^:]+:.+/[0-9]+$", [{capture, none}]) =:= match.

-doc """
The samples: the thread, and the functions, the outermost first. A sample is a line that is not
indented, and a line for each frame, the innermost first: address, symbol and offset, library.
""".
-spec parse(binary()) -> [{Thread :: binary(), [binary(), ...]}].
parse(Text) ->
    Blocks = re:split(Text, "\\n[ \\t]*\\n", [{return, binary}]),
    [
        {Thread, Stack}
     || Block <- Blocks,
        [Head | Frames] <- [[L || L <- binary:split(Block, ~"\n", [global]), L =/= ~"",
            binary:first(L) =/= $#]],
        Thread <- thread(Head),
        [_ | _] = Stack <- [lists:foldl(fun frame/2, [], Frames)]
    ].

%% erts_sched_1 12345 [001] 1000.123: ...; a name may have spaces.
thread(Head) ->
    case re:run(Head, "^\\s*(.+?)\\s+[0-9]+(?:/[0-9]+)?\\s", [{capture, [1], binary}]) of
        {match, [Name]} -> [Name];
        nomatch -> []
    end.

frame(Line, Outer) ->
    case re:run(Line, "^\\s*[0-9a-f]+ (.+?)(?:\\+0x[0-9a-f]+)? \\([^()]*\\)\\s*$",
        [{capture, [1], binary}])
    of
        {match, [<<"$", Erlang/binary>>]} -> [Erlang | Outer];
        {match, [~"[unknown]"]} -> Outer;
        {match, [Native]} -> [Native | Outer];
        nomatch -> Outer
    end.

-doc "Says how to profile a node with perf; dyno does not run it.".
-spec instruments(dyno_profile:options()) -> {error, dyno_error:error()}.
instruments(#{nodes := [Node | _]}) ->
    #{os_pid := Pid} = dyno_target_node:facts(Node),
    Map = <<"/tmp/perf-", Pid/binary, ".map">>,
    HasMap = erpc:call(Node, filelib, is_regular, [Map]),
    {error, {?MODULE, {use_perf, Node, lines(Pid, HasMap)}}}.

lines(Pid, HasMap) ->
    {Start, Which} =
        case HasMap of
            true ->
                {"", Pid};
            false ->
                {
                    "start the node anew with ERL_FLAGS=\"+JPperf true\", which names its Erlang "
                    "functions for perf; then ",
                    ["PID (now ", Pid, ")"]
                }
        end,
    [
        Start, "run on its machine: perf record -F 999 --call-graph=fp -p ", Which,
        " -- sleep 10 && perf script > perf.txt; then: dyno profile --perf-script perf.txt -o "
        "perf.html"
    ].

-doc "One sentence for a reason.".
-spec format_error(reason()) -> unicode:chardata().
format_error({no_samples, Path}) ->
    [Path, " has no samples as perf script writes them; make it with: perf script > ", Path];
format_error({not_read, Path, Reason}) ->
    [Path, " cannot be read: ", file:format_error(Reason)];
format_error({use_perf, Node, Advice}) ->
    ["dyno does not run perf; for ", atom_to_binary(Node), " ", Advice].
