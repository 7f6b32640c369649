%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_trace_text).
-moduledoc """
Traced items as text: a line for each returned call, or trees. Pure, except `printer/2`.
""".

-export([printer/2, ending/1]).
-export_type([options/0]).

-type options() :: #{
    %% Default false.
    tree => boolean(),
    %% Whether the lines name the node.
    nodes => boolean()
}.

-type state() :: #{
    tree := boolean(),
    nodes := boolean(),
    %% Calls waiting for their end.
    open := #{{binary(), integer()} => dyno_trace_item:t()},
    %% In a tree, a call that may be a leaf.
    leaf := none | dyno_trace_item:t()
}.

-define(BAR, 40).
-define(MARGIN, "                   ").
-define(MOST_VALUES, 10).
-define(MOST_OF, 0.5).

-doc "Prints each item; the calling process keeps items to join with later ones.".
-spec printer(options(), fun(([unicode:chardata()]) -> term())) ->
    fun((dyno_trace_item:t()) -> term()).
printer(Options, Print) ->
    Key = {?MODULE, make_ref()},
    First = maps:merge(#{tree => false, nodes => false, open => #{}, leaf => none}, Options),
    fun(Item) ->
        Text =
            case get(Key) of
                undefined -> First;
                Known -> Known
            end,
        {Lines, Next} = lines(Item, Text),
        _ = put(Key, Next),
        Print([[Line, $\n] || Line <- Lines])
    end.

%% None until more is known.
-spec lines(dyno_trace_item:t(), state()) -> {[unicode:chardata()], state()}.
lines(#{event := call, returns := true} = Call, #{tree := true} = Text) ->
    {Before, Shown} = flush(Text),
    {Before, Shown#{leaf := Call}};
lines(#{event := call, returns := true} = Call, #{open := Open} = Text) ->
    {[], Text#{open := Open#{key(Call) => Call}}};
lines(#{event := Event} = End, #{tree := true, leaf := Leaf} = Text) when
    Event =:= return; Event =:= exception
->
    case Leaf =/= none andalso key(Leaf) =:= key(End) of
        true ->
            {call(Leaf, ended(End), Text), Text#{leaf := none}};
        false ->
            {Before, Shown} = flush(Text),
            {Before ++ [[head(End, Text), indent(End), returned(End)]], Shown}
    end;
lines(#{event := Event} = End, #{open := Open} = Text) when
    Event =:= return; Event =:= exception
->
    case maps:take(key(End), Open) of
        {Call, Left} -> {call(Call, ended(End), Text), Text#{open := Left}};
        error -> {[[head(End, Text), returned(End)]], Text}
    end;
lines(#{event := stopped, node := Node} = Stopped, #{open := Open} = Text) ->
    {Before, Shown} = flush(Text),
    End =
        case Stopped of
            #{dropped := Dropped} when Dropped > 0 -> "  (its return was not seen)";
            #{} -> "  (has not returned)"
        end,
    Of = [Call || {N, _} := Call <- maps:iterator(Open, ordered), N =:= Node],
    {
        Before ++ lists:append([call(Call, End, Text) || Call <- Of]),
        Shown#{open := maps:filter(fun({N, _}, _) -> N =/= Node end, Open)}
    };
lines(Item, Text) ->
    {Before, Shown} = flush(Text),
    {Before ++ other(Item, Text), Shown}.

key(#{node := Node, id := Id}) -> {Node, Id}.

%% Lines kept to join with the next one.
flush(#{leaf := none} = Text) -> {[], Text};
flush(#{leaf := Leaf} = Text) -> {call(Leaf, "", Text), Text#{leaf := none}}.

other(#{event := call} = Call, Text) ->
    call(Call, "", Text);
other(#{event := send, message := Message, to := To} = Item, Text) ->
    [[head(Item, Text), "sends ", Message, " to ", To]];
other(#{event := 'receive', message := Message} = Item, Text) ->
    [[head(Item, Text), "gets ", Message]];
other(#{event := slow, duration_ns := Ns} = Item, Text) ->
    What =
        case Item of
            #{call := Call} when is_binary(Call) -> Call;
            #{function := Function} -> Function
        end,
    [[head(Item, Text), What, " took ", duration(Ns)]];
other(#{event := latency, of_what := second, functions := Functions} = Item, Text) ->
    [
        io_lib:format(
            "~ts~ts  p50 ~ts  p99 ~ts  max ~ts  ~ts",
            [
                moment(Item, Text),
                calls(Count, Item),
                duration(P50, Of),
                duration(P99, Of),
                duration(Max, Of),
                Function
            ]
        )
     || #{count := Count, p50 := P50, p99 := P99, max := Max} = Of <- Functions,
        #{function := Function} <- [Of]
    ];
other(#{event := latency, functions := Functions, node := Node} = Item, Text) ->
    At = [[" at ", Node] || map_get(nodes, Text)],
    lists:append([histogram(Function, At, Item) || Function <- Functions]) ++
        [open(Function, At) || Function <- maps:get(open, Item, [])];
other(#{event := argument, of_what := second, values := Values} = Item, Text) when Values =/= [] ->
    Counted = [[Value, " ", times(N)] || [N, Value] <- most(Values)],
    [[moment(Item, Text), lists:join(", ", Counted)]];
other(#{event := argument, of_what := all, values := [_ | _]} = Item, Text) ->
    distribution(Item, Text);
other(_Item, _Text) ->
    [].

call(#{call := Call} = Item, End, Text) ->
    More =
        [[?MARGIN, "from ", Caller] || #{caller := Caller} <- [Item]] ++
            [[?MARGIN, "in ", Frame] || #{stack := Frames} <- [Item], Frame <- Frames],
    [[head(Item, Text), indent(Item, Text), Call, End] | More].

head(#{pid := Pid} = Item, Text) ->
    Name =
        case Item of
            #{name := Of} when Of =/= ~"" -> [" ", Of];
            #{} -> ""
        end,
    [moment(Item, Text), Pid, Name, "  "].

moment(#{at := At, node := Node}, #{nodes := Nodes}) ->
    Us = At div 1000,
    {_, {Hour, Minute, Second}} = calendar:system_time_to_local_time(Us div 1_000_000, second),
    Time = io_lib:format("~2..0b:~2..0b:~2..0b.~6..0b  ", [
        Hour, Minute, Second, Us rem 1_000_000
    ]),
    case Nodes of
        true -> [Time, Node, " "];
        false -> Time
    end.

indent(Item, #{tree := true}) -> indent(Item);
indent(_Item, _Text) -> "".

indent(#{depth := Depth}) -> lists:duplicate(min(Depth, 40), "  ");
indent(_Item) -> "".

returned(#{function := Function} = End) -> [Function, ended(End)].

ended(#{event := exception, class := Class, duration_ns := Ns} = End) ->
    [" ** ", atom_to_list(Class), [[":", Value] || #{value := Value} <- [End]], "  ", duration(Ns)];
ended(#{duration_ns := Ns} = End) ->
    [[[" -> ", Value] || #{value := Value} <- [End]], "  ", duration(Ns)].

duration(null, #{below := Ns}) -> ["< ", duration(Ns)];
duration(Ns, _Of) -> duration(Ns).

duration(Ns) -> dyno_unit:format(Ns, ~"ns").

%% Of those that are called often only a part is seen.
calls(Count, Item) ->
    AtLeast = ["at least " || #{sampled := true} <- [Item]],
    dyno_recording_part:text("~ts~b calls", [AtLeast, Count]).

open(#{function := Function, count := 1, ns := Ns} = Of, At) ->
    [Function, At, ": 1 call has not returned, for ", duration(Ns), turns(Of)];
open(#{function := Function, count := Count, ns := Ns} = Of, At) ->
    Calls = io_lib:format(": ~b calls have not returned, for up to ", [Count]),
    [Function, At, Calls, duration(Ns), turns(Of)].

%% All return together, with the first one.
turns(#{turns := Turns}) when is_integer(Turns), Turns > 0 ->
    io_lib:format(
        "; without ~b calls of itself in its last steps, which end with the first one",
        [Turns]
    );
turns(_Of) ->
    "".

histogram(#{function := Function, count := Count, bars := Bars} = Of, At, Item) ->
    #{mean := Mean, p50 := P50, p90 := P90, p99 := P99, max := Max} = Of,
    Most = lists:max([N || [_, N] <- Bars]),
    [
        "",
        io_lib:format(
            "~ts~ts: ~ts, mean ~ts, p50 ~ts, p90 ~ts, p99 ~ts, max ~ts~ts",
            [
                Function,
                At,
                calls(Count, Item),
                duration(Mean, Of),
                duration(P50, Of),
                duration(P90, Of),
                duration(P99, Of),
                duration(Max, Of),
                turns(Of)
            ]
        )
        | [
            io_lib:format(
                "  < ~ts ~ts ~b",
                [string:pad(duration(High), 8, leading), bar(N, Most), N]
            )
         || [High, N] <- Bars
        ]
    ].

distribution(
    #{argument := N, values := Values, others := Others, node := Node} = Item, #{nodes := Nodes}
) ->
    Total = lists:sum([Count || [Count, _] <- Values]) + Others,
    Most = lists:max([Count || [Count, _] <- Values]),
    Shown = most(Values),
    Rest = Total - lists:sum([Count || [Count, _] <- Shown]),
    [
        "",
        [
            io_lib:format("argument ~b", [N]),
            [[" at ", Node] || Nodes],
            ": ",
            calls(Total, Item),
            $,,
            [" more than" || Others > 0],
            io_lib:format(" ~b values", [length(Values)])
        ]
        | [
            [io_lib:format("~5.1f % ", [100 * Count / Total]), bar(Count, Most), " ", Value]
         || [Count, Value] <- Shown
        ]
    ] ++ [[io_lib:format("~5.1f % ", [100 * Rest / Total]), "all others"] || Rest > 0].

most(Values) -> lists:sublist(Values, ?MOST_VALUES).

bar(N, Most) -> lists:duplicate(max(1, round(?BAR * N / Most)), $#).

times(N) -> [integer_to_list(N), "x"].

-doc "The reason of a node's end, and items not shown, in a sentence.".
-spec ending(dyno_trace_item:t()) -> unicode:chardata().
ending(#{event := stopped, reason := #{limit := Limit} = Reason} = Stopped) ->
    Dropped = maps:get(dropped, Stopped, 0) + maps:get(not_shown, Stopped, 0),
    [
        ["at least " || #{sampled := true, count := N} <- [Stopped], N > 0, Limit =:= for_ms],
        why(seen(Reason, Stopped), maps:get(count, Stopped, 0)),
        observed(Reason, Stopped),
        [io_lib:format("; ~b more events were dropped", [Dropped]) || Dropped > 0],
        [["; ", Text] || Text <- dyno_target_visit:texts(maps:get(visit, Stopped, #{}))]
    ].

%% The node's time may have begun long before it could be told.
seen(#{limit := for_ms, value := Ms} = Reason, #{observed_ms := Seen}) when Seen < ?MOST_OF * Ms ->
    Reason#{value := Seen};
seen(Reason, _Stopped) ->
    Reason.

%% If it ended early, the observed part.
observed(#{limit := Limit}, #{observed_ms := ObservedMs, asked_ms := AskedMs} = Stopped) when
    Limit =/= count, Limit =/= for_ms
->
    %% Of durations no single calls are shown.
    Shown = [[" ", integer_to_list(N), " shown in"] || #{count := N} <- [Stopped], N > 0],
    [";", Shown, " the first ", time(min(ObservedMs, AskedMs)), " of ", time(AskedMs), " (--for)"];
observed(_Reason, _Stopped) ->
    "".

why(#{limit := count, value := N}, _) ->
    io_lib:format("~b shown, as asked for with --count", [N]);
why(#{limit := for_ms, value := Ms}, 0) ->
    ["nothing matched in ", time(Ms), " (--for)"];
why(#{limit := for_ms, value := Ms}, N) ->
    [integer_to_list(N), " in ", time(Ms), " (--for)"];
why(#{limit := rate, value := N}, _) ->
    io_lib:format("stopped: more than ~b events came in a second (--limit-rate); trace less", [N]);
why(#{limit := queue, value := N}, _) ->
    io_lib:format(
        "stopped at once: more than ~b events waited in the node; trace fewer functions or "
        "processes",
        [N]
    );
why(#{limit := bytes, value := N}, _) ->
    io_lib:format(
        "stopped at once: what was traced took more than ~b MiB of the node; leave the arguments "
        "out with --arity",
        [N div 1_048_576]
    );
why(#{limit := open, value := N}, _) ->
    io_lib:format("stopped: ~b calls had not returned; trace it without its end", [N]);
why(#{limit := failed, text := Text}, _) ->
    ["lost: ", Text];
why(_Stopped, _N) ->
    "stopped".

time(Ms) -> dyno_unit:format(Ms, ~"ms").
