%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_look).
-moduledoc false.
%% Reads looks in a recording's form, for all checks. Pure. Missing values are `unknown`, never 0.

-export([intervals/1, last/1, latest/2, enough/2]).
-export([at/2, of_last/2, mean/2, least/2, sum/2, growth/2, known/3]).
-export([suspects/1, lasting/1, span/1, name/1, place_of/1, has_long_queue/1, sets/1]).
-export([progresses/1, stands/1, place/1, stack/1, unwinding/0, is_system/1, groups/1]).
-export([waiting_in/2, too_few/0, uncounted/0, long/2, has_reports/1, grouped/1]).
-export([finding/4, warning_if/1, text/2, show/2, count/1, bytes/1, seconds/1, is_one_of/2]).
-export_type([look/0, suspect/0]).

-type look() :: dyno_recording:object().

-doc "A sampled process, and its data in each look, the first look first.".
-type suspect() :: {Pid :: binary(), [dyno_recording:object()]}.

-doc "The looks with an interval before them.".
-spec intervals([look()]) -> [look()].
intervals(Looks) -> [Look || #{~"interval_ms" := Ms} = Look <- Looks, Ms > 0].

-spec last([look()]) -> look().
last(Looks) -> lists:last(Looks).

-spec latest(pos_integer(), [look()]) -> [look()].
latest(N, Looks) -> lists:nthtail(max(0, length(Looks) - N), Looks).

%% Two looks at a node with a million processes are so far apart.
-define(LONG_S, 10).

-doc "So many looks, or fewer that are far apart, show that something lasts.".
-spec enough(pos_integer(), [look()]) -> pos_integer().
enough(Least, Looks) ->
    case span(Looks) >= ?LONG_S of
        true -> min(Least, length(Looks));
        false -> Least
    end.

-spec at([binary()], term()) -> term() | unknown.
at([], Value) ->
    Value;
at([Key | Path], #{} = Map) ->
    case Map of
        #{Key := null} -> unknown;
        #{Key := Value} -> at(Path, Value);
        #{} -> unknown
    end;
at(_Path, _Other) ->
    unknown.

-spec of_last([binary()], [look()]) -> term() | unknown.
of_last(Path, Looks) -> at(Path, last(Looks)).

numbers(Path, Looks) -> [N || Look <- intervals(Looks), N <- [at(Path, Look)], is_number(N)].

-doc "The mean over the looks with an interval, weighted by length.".
-spec mean([binary()], [look()]) -> float() | unknown.
mean(Path, Looks) ->
    Of = [
        {N, Ms}
     || #{~"interval_ms" := Ms} = L <- intervals(Looks), N <- [at(Path, L)], is_number(N)
    ],
    case lists:sum([Ms || {_, Ms} <- Of]) of
        0 -> unknown;
        All -> lists:sum([N * Ms || {N, Ms} <- Of]) / All
    end.

-spec least([binary()], [look()]) -> number() | unknown.
least(Path, Looks) ->
    case numbers(Path, Looks) of
        [] -> unknown;
        Numbers -> lists:min(Numbers)
    end.

-spec sum([binary()], [look()]) -> number() | unknown.
sum(Path, Looks) ->
    case numbers(Path, Looks) of
        [] -> unknown;
        Numbers -> lists:sum(Numbers)
    end.

-doc "The function's findings, if all these values are numbers.".
-spec known([number() | unknown], Why :: binary(), fun((...) -> [dyno_finding:t()])) ->
    [dyno_finding:t()] | {unknown, Why :: binary()}.
known(Values, Why, Find) ->
    case lists:all(fun is_number/1, Values) of
        true -> apply(Find, Values);
        false -> {unknown, Why}
    end.

-spec growth(fun((look()) -> number() | unknown), [look()]) ->
    {First :: number(), Last :: number(), PerS :: number(), Each :: boolean()} | unknown.
growth(Value, Looks) ->
    Points = [{Ms, N} || #{~"time_ms" := Ms} = Look <- Looks, N <- [Value(Look)], is_number(N)],
    case Points of
        [{Ms0, N0}, _ | _] ->
            {Ms1, N1} = lists:last(Points),
            Numbers = [N || {_, N} <- Points],
            Each = lists:all(
                fun({A, B}) -> B > A end, lists:zip(lists:droplast(Numbers), tl(Numbers))
            ),
            {N0, N1, 1000 * (N1 - N0) / max(1, Ms1 - Ms0), Each};
        _ ->
            unknown
    end.

-spec suspects([look()]) -> [suspect()].
suspects(Looks) ->
    All = [
        {Pid, S#{~"time_ms" => Ms, ~"last" => Look =:= last(Looks)}}
     || #{~"time_ms" := Ms, ~"suspects" := Suspects} = Look <- Looks,
        #{~"pid" := Pid} = S <- Suspects,
        not is_map_key(~"ended", S)
    ],
    maps:to_list(grouped(All)).

-doc "The second elements of pairs by the first.".
-spec grouped([{Key, Value}]) -> #{Key => [Value, ...]}.
grouped(Pairs) ->
    maps:groups_from_list(fun({First, _}) -> First end, fun({_, Second}) -> Second end, Pairs).

-doc "A process by its latest name, or its pid.".
-spec name([dyno_recording:object(), ...]) -> binary().
name(Asked) ->
    #{~"name" := Name, ~"pid" := Pid} = lists:last(Asked),
    case Name of
        ~"" -> Pid;
        _ -> Name
    end.

-doc "The suspects of most looks, with their reductions of all looks.".
-spec lasting([look()]) -> [{Pid :: binary(), [dyno_recording:object()], non_neg_integer()}].
lasting(Looks) ->
    [
        {Pid, Asked, lists:sum([R || #{~"reductions" := R} <- Asked, is_number(R)])}
     || {Pid, Asked} <- suspects(Looks),
        length(Asked) >= enough(3, Looks),
        #{~"last" := true} <- [lists:last(Asked)]
    ].

-doc "The seconds from the first look to the last, never 0.".
-spec span([look()]) -> float().
span([#{~"time_ms" := First} | _] = Looks) ->
    #{~"time_ms" := Last} = last(Looks),
    max(0.001, (Last - First) / 1000).

-doc "Where a process stands most often, in a sentence.".
-spec place_of([dyno_recording:object()]) -> binary().
place_of(Asked) ->
    case stands(Asked) of
        {Stack, _, _} -> place(Stack);
        unknown -> ~"a place that is not known"
    end.

-doc "Whether messages wait for it: these are in its heap, and have a finding of their own.".
-spec has_long_queue([dyno_recording:object()]) -> boolean().
has_long_queue(Asked) ->
    lists:any(fun(Q) -> Q > dyno_finding_limits:value(queue) end, [Q || #{~"queue" := Q} <- Asked]).

-doc "Who sets timers or monitors most, of the busy processes that were traced.".
-spec sets([look()]) -> {Who :: binary(), Function :: binary()} | none.
sets(Looks) ->
    Found = [
        {PerS, Name, Function}
     || #{~"suspects" := Suspects} <- Looks,
        #{~"name" := Name, ~"sets" := #{~"function" := Function, ~"per_s" := PerS}} <- Suspects
    ],
    case lists:reverse(lists:sort(Found)) of
        [{_, Name, Function} | _] ->
            %% Its first calls came in a burst, maybe: they give no rate.
            {text(" ~ts calls ~ts.", [Name, Function]), Function};
        [] ->
            none
    end.

%% A look costs 12 reductions, and 1 for each stack and message; a callback takes 20 and more.
-define(LOOKED_AT, 25).

-doc "Whether a process did more since the look before than answer that look; `unknown` if new.".
-spec progresses(dyno_recording:object()) -> boolean() | unknown.
progresses(Asked) ->
    case Asked of
        #{~"reductions" := R, ~"looks" := N, ~"queue" := Queue} when is_integer(R) ->
            R > ?LOOKED_AT + N + 3 * Queue div 2;
        #{} ->
            unknown
    end.

-doc "The most frequent stack of a process, and its share of all looks.".
-spec stands([dyno_recording:object()]) ->
    {[binary()], Share :: float(), Looks :: pos_integer()} | unknown.
stands(Asked) ->
    Stacks = [{Stack, N} || #{~"stacks" := Of} <- Asked, #{~"stack" := Stack, ~"count" := N} <- Of],
    All = lists:sum([N || #{~"looks" := N} <- Asked]),
    Tops = maps:groups_from_list(fun({Stack, _}) -> lists:sublist(Stack, 1) end, Stacks),
    Sums = [
        {lists:sum([N || {_, N} <- Of]), element(1, hd(lists:reverse(lists:keysort(2, Of))))}
     || Of <- maps:values(Tops)
    ],
    case lists:reverse(lists:sort(Sums)) of
        [{N, Stack} | _] when All > 0 -> {Stack, N / All, All};
        _ -> unknown
    end.

-doc "A stack in a sentence: its top, and the first function outside of OTP.".
-spec place([binary()]) -> binary().
place([]) ->
    ~"(no function)";
place([Top | _] = Stack) ->
    case [Frame || Frame <- Stack, not is_system(Frame)] of
        [] -> Top;
        [Top | _] -> Top;
        [Own | _] -> text("~ts, called by ~ts", [Top, Own])
    end.

-doc "If most of its heap is its stack: that, in a sentence.".
-spec stack([dyno_recording:object(), ...]) -> unicode:chardata().
stack(Asked) ->
    case lists:last(Asked) of
        #{~"stack_bytes" := Stack, ~"heap_bytes" := Bytes} when 2 * Stack > Bytes ->
            text(", of which ~ts are its stack", [bytes(Stack)]);
        #{} ->
            ""
    end.

-doc "The advice for a large stack.".
-spec unwinding() -> string().
unwinding() ->
    "Now: nothing frees a stack but the returns of its functions, or the end of the process. "
    "Later: a function that calls itself and has work left after that call adds to the stack at "
    "each call: keep the result in an argument (an accumulator), so that the call is its last.".

-define(SYSTEM, <<
    " erlang gen gen_server gen_statem gen_event gen_fsm supervisor proc_lib lists maps ets timer"
    " prim_inet inet inet_tcp gen_tcp gen_udp socket prim_socket file prim_file io io_lib string"
    " binary re unicode logger disk_log global code code_server error_handler rpc erpc dets rand"
    " group user user_drv init application ssl prim_eval math persistent_term net_kernel auth zlib"
    " crypto erts_internal queue sys application_master application_controller file_server"
    " file_io_server dbg supervisor_bridge dist_util GenServer Task Agent Enum Process "
>>).

-spec is_system(binary()) -> boolean().
is_system(Frame) ->
    [Module | _] = binary:split(Frame, [~":", ~"/"]),
    binary:match(?SYSTEM, <<" ", Module/binary, " ">>) =/= nomatch orelse
        is_one_of(Module, [
            ~"io_lib_",
            ~"logger_",
            ~"erl_",
            ~"ssl_",
            ~"tls_",
            ~"mnesia",
            ~"inet",
            ~"Elixir.",
            ~"GenServer.",
            ~"Task.",
            ~"Enum."
        ]).

-spec groups(look()) -> #{binary() => dyno_recording:object()}.
groups(Look) -> #{Name => Group || #{~"group" := Name} = Group <- maps:get(~"groups", Look, [])}.

-doc "The number of processes with one of these functions (prefixes) in their stacks, and a place.".
-spec waiting_in([binary()], look()) -> {non_neg_integer(), Place :: binary()}.
waiting_in(Functions, Look) ->
    Found = [
        {N, Stack}
     || #{~"stack" := Stack, ~"count" := N} <- maps:get(~"places", Look, []),
        lists:any(fun(Frame) -> is_one_of(Frame, Functions) end, Stack)
    ],
    Users = [
        {N, Frame}
     || {N, Stack} <- Found, Frame <- lists:sublist([F || F <- Stack, not is_system(F)], 1)
    ],
    {_, Who} = lists:max([{0, ~""} | Users]),
    {lists:sum([N || {N, _} <- Found]), Who}.

-doc "The runtime's reports of this kind, by the processes' function.".
-spec long(binary(), [look()]) ->
    [{Times :: pos_integer(), MostMs :: number(), Group :: binary(), Processes :: [binary()]}].
long(Kind, Looks) ->
    Found = [
        {Group, {N, Ms, Process}}
     || #{~"long" := All} <- Looks,
        #{~"kind" := Of, ~"group" := Group, ~"count" := N, ~"most_ms" := Ms} = L <- All,
        #{~"process" := Process} <- [L],
        Of =:= Kind,
        %% One that has ended may have been dyno's own.
        Group =/= ~"(ended)",
        string:prefix(Group, ~"dyno_agent_") =:= nomatch
    ],
    [
        {lists:sum(Times), lists:max(Ms), Group, lists:uniq(Processes)}
     || Group := Of <- grouped(Found),
        {Times, Ms, Processes} <- [lists:unzip3(Of)]
    ].

-doc "Whether the runtime reports to dyno alone: from OTP 28 on.".
-spec has_reports([look()]) -> boolean().
has_reports(Looks) -> of_last([~"counts", ~"reports"], Looks) =/= false.

-doc "Whether a function begins with one of these texts.".
-spec is_one_of(binary(), [binary()]) -> boolean().
is_one_of(Frame, Functions) ->
    lists:any(fun(Prefix) -> string:prefix(Frame, Prefix) =/= nomatch end, Functions).

-doc "A finding of a check; its texts may be lists, and empty ones are left out.".
-spec finding(
    dyno_finding:severity(),
    {Check :: atom(), dyno_finding_limits:name() | none, Weight :: number()},
    {Subject :: binary(), Value :: number() | none},
    #{atom() => unicode:chardata() | number()}
) -> dyno_finding:t().
finding(Severity, {Check, Limit, Weight}, {Subject, Value}, Fields) ->
    Given =
        #{
            Key => plain(Of)
         || Key := Of <- Fields#{subject => Subject, value => Value}, Of =/= none, Of =/= ~""
        },
    dyno_finding:new(Check, Limit, Given#{severity => Severity, weight => Weight}).

-doc "A warning if this is so, else a note.".
-spec warning_if(boolean()) -> warning | note.
warning_if(true) -> warning;
warning_if(false) -> note.

plain(Number) when is_number(Number) -> Number;
plain(Text) -> unicode:characters_to_binary(Text).

-doc "Why a check is not known.".
-spec too_few() -> binary().
too_few() -> ~"too few looks at the node: a longer --for has more".

-doc "The same, of calls that are counted in all processes.".
-spec uncounted() -> {unknown, binary()}.
uncounted() -> {unknown, ~"calls were not counted: the node was too busy, or dyno too old"}.

-spec text(io:format(), [term()]) -> binary().
text(Format, Arguments) -> dyno_recording_part:text(Format, Arguments).

-spec show(number(), dyno_unit:unit()) -> binary().
show(Value, Unit) when is_float(Value), Unit =:= ~"count/s"; is_float(Value), Unit =:= ~"count" ->
    dyno_unit:format(round(Value), Unit);
show(Value, Unit) ->
    dyno_unit:format(Value, Unit).

-spec count(number()) -> binary().
count(N) -> show(N, ~"count").

-spec bytes(number()) -> binary().
bytes(N) -> show(N, ~"B").

-spec seconds(number()) -> binary().
seconds(S) when S < 120 -> text("~b s", [round(S)]);
seconds(S) when S < 7200 -> text("~b min", [round(S / 60)]);
seconds(S) when S < 172_800 -> text("~b h", [round(S / 3600)]);
seconds(S) -> text("~b days", [round(S / 86_400)]).
