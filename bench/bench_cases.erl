%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(bench_cases).
-moduledoc """
Programs of which the shares of the processor time are known: each reads a clock around its phases
and adds up what they take. They differ in what makes them hard to see from outside: phases that are
long, processes that live for a moment, built-in functions, processes that send messages to each
other, dirty schedulers.

Phases with a part in dirty schedulers, also large collections, read the node's processor clock,
others the thread's. Both would take longer than a short phase: of these the wall clock is read, and
one of more than 1 ms, in which another program had the processor, counts as the mean of the others.
""".

%% Called in the measured node
-export([kinds/0, quiet/0, start/1, times/0, idle/1]).
%% Of what was measured
-export([differences/2]).
%% The phases
-export([loop/1, hash/1, tiny/1, sort/1, build/1]).
-export([parse/1, encode/1, sum/1, digest/1, render/1]).
-export([regex/2, select/1, search/1, pack/1, keysort/1]).
-export([first/1, second/1, third/1, client/1]).
-export([derive/1, read/1, compress/1]).
-export([grow/2]).

-export_type([kind/0]).

-type kind() :: five | short | bif | ping | dirty | mixed | matches | sorts | grows.

-define(PHASES, [
    loop,
    hash,
    tiny,
    sort,
    build,
    parse,
    encode,
    sum,
    digest,
    render,
    regex,
    select,
    search,
    pack,
    keysort,
    first,
    second,
    third,
    client,
    derive,
    read,
    compress
]).

-doc "What there is.".
-spec kinds() -> [kind()].
kinds() -> [five, short, bif, ping, dirty].

-doc "Arguments of a node in which schedulers without work use no processor time.".
-spec quiet() -> [string()].
quiet() -> ["+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"].

-doc "`five`, `dirty`, `mixed` and `sorts` need a quiet node, `bif` the clock's NIF.".
-spec start(kind()) -> pid().
start(Kind) ->
    ok = persistent_term:put(?MODULE, counters:new(3 * length(?PHASES), [write_concurrency])),
    %% A thread's clock tells of one scheduler.
    spawn_opt(fun() -> run(Kind) end, [{scheduler, 1}]).

-doc "The nanoseconds of each phase since the last call.".
-spec times() -> #{atom() => number()}.
times() ->
    maps:from_list([
        {Phase, taken(taken(Number, 1), taken(Number, 2), taken(Number, 3))}
     || {Number, Phase} <- lists:enumerate(0, ?PHASES)
    ]).

taken(Number, Which) ->
    Counters = persistent_term:get(?MODULE),
    Value = counters:get(Counters, 3 * Number + Which),
    ok = counters:sub(Counters, 3 * Number + Which, Value),
    Value.

%% As if the phases that were disturbed had taken as long as the others.
taken(_Ns, 0, _Disturbed) -> 0;
taken(Ns, Count, Disturbed) -> Ns * (Count + Disturbed) / Count.

-doc "Starts so many processes that wait.".
-spec idle(pos_integer()) -> ok.
idle(Count) ->
    lists:foreach(
        fun(_) ->
            spawn(fun() ->
                receive
                    stop -> ok
                end
            end)
        end,
        lists:seq(1, Count)
    ).

phase(Phase, Do) ->
    took(Phase, thread_ns(Do) - get(clock_ns)).

%% What the clock itself takes.
calibrate() ->
    put(clock_ns, lists:min([thread_ns(fun() -> ok end) || _ <- lists:seq(1, 1000)])).

thread_ns(Do) ->
    Start = dyno_clock:thread(),
    _ = Do(),
    #{cpu_ns := Ns} = dyno_clock:difference(Start, dyno_clock:thread()),
    Ns.

%% Of some 10 us to 0.3 ms.
short_phase(Phase, Do) ->
    Start = erlang:monotonic_time(nanosecond),
    _ = Do(),
    case erlang:monotonic_time(nanosecond) - Start of
        Ns when Ns < 1_000_000 -> took(Phase, Ns);
        _ -> count(Phase, 3, 1)
    end.

%% If all else in the node is idle, and its schedulers do not spin (quiet/0).
node_phase(Phase, Do) ->
    {StartMs, _} = erlang:statistics(runtime),
    _ = Do(),
    {EndMs, _} = erlang:statistics(runtime),
    took(Phase, 1_000_000 * (EndMs - StartMs)).

took(Phase, Ns) ->
    ok = count(Phase, 1, Ns),
    count(Phase, 2, 1).

count(Phase, Which, Value) ->
    Number = number(Phase, ?PHASES, 0),
    counters:add(persistent_term:get(?MODULE), 3 * Number + Which, Value).

number(Phase, [Phase | _], Number) -> Number;
number(Phase, [_ | Phases], Number) -> number(Phase, Phases, Number + 1).

-doc """
By how many points the share of a phase in the stacks differs from that by the clock, at most; and
each phase's share by the clock and in the stacks, in percent. The innermost phase of a stack
counts.
""".
-spec differences(#{atom() => number()}, [{term(), [term()], number()}]) ->
    {Points :: float(), [{atom(), Truth :: float(), Told :: float()}]}.
differences(Times, Stacks) ->
    Weights = lists:foldl(
        fun({_, Stack, Weight}, Acc) ->
            case [F || {?MODULE, F, _} <- lists:reverse(Stack), is_map_key(F, Times)] of
                [Phase | _] -> Acc#{Phase => Weight + maps:get(Phase, Acc, 0)};
                [] -> Acc
            end
        end,
        #{},
        Stacks
    ),
    Share = fun(Phase, Of) ->
        100 * maps:get(Phase, Of, 0) / max(1, lists:sum(maps:values(Of)))
    end,
    Shares = [{Phase, Share(Phase, Times), Share(Phase, Weights)} || Phase := Ns <- Times, Ns > 0],
    {lists:max([0.0 | [abs(Truth - Told) || {_, Truth, Told} <- Shares]]), lists:sort(Shares)}.

run(five) ->
    node_phase(loop, fun() -> ?MODULE:loop(14_000_000) end),
    node_phase(hash, fun() -> ?MODULE:hash(220) end),
    node_phase(tiny, fun() -> ?MODULE:tiny(700_000) end),
    node_phase(sort, fun() -> ?MODULE:sort(2500) end),
    node_phase(build, fun() -> ?MODULE:build(45) end),
    run(five);
run(mixed) ->
    node_phase(loop, fun() -> ?MODULE:loop(2_000_000) end),
    node_phase(hash, fun() -> ?MODULE:hash(40) end),
    node_phase(sort, fun() -> ?MODULE:sort(500) end),
    node_phase(render, fun() -> ?MODULE:render(5000) end),
    run(mixed);
run(short) ->
    short(0);
run(bif) ->
    _ = calibrate(),
    Table = ets:new(?MODULE, [public]),
    true = ets:insert(Table, [{I, I rem 97, ~"x"} || I <- lists:seq(1, 20_000)]),
    Text = binary:copy(~"the quick brown fox jumps over the lazy dog ", 2000),
    {ok, Regex} = re:compile("l[a-z]+y (d.g) t"),
    bif(Table, Text, [{I, #{a => I, b => ~"hello"}} || I <- lists:seq(1, 3000)], Regex);
run(matches) ->
    Table = ets:new(?MODULE, [public]),
    true = ets:insert(Table, [{I, I rem 97, ~"x"} || I <- lists:seq(1, 20_000)]),
    matches(Table);
run(sorts) ->
    sorts([{I, #{a => I, b => ~"hello"}} || I <- lists:seq(1, 3000)]);
run(grows) ->
    ok = ?MODULE:grow(20_000, #{}),
    run(grows);
run(ping) ->
    Server = spawn_link(fun server/0),
    lists:foreach(fun(_) -> spawn_link(fun() -> calls(Server) end) end, [1, 2, 3, 4]),
    receive
        stop -> ok
    end;
run(dirty) ->
    File = filename:join(os:getenv("TMPDIR", "/tmp"), ?MODULE_STRING ++ "_" ++ os:getpid()),
    ok = file:write_file(File, binary:copy(<<1>>, 4_000_000)),
    dirty(File).

%% Long phases

-doc false.
loop(0) -> ok;
loop(N) -> loop(N - 1).

-doc false.
hash(0) ->
    ok;
hash(N) ->
    _ = crypto:hash(sha256, <<0:(60_000 * 8)>>),
    hash(N - 1).

-doc false.
tiny(0) ->
    ok;
tiny(N) ->
    _ = increment(N),
    tiny(N - 1).

increment(N) -> N + 1.

-doc false.
sort(N) -> length(quicksort([erlang:phash2(I) || I <- lists:seq(1, N)])).

quicksort([]) -> [];
quicksort([P | L]) -> quicksort([X || X <- L, X < P]) ++ [P] ++ quicksort([X || X <- L, X >= P]).

-doc false.
build(0) ->
    ok;
build(N) ->
    _ = length(built(20_000, [])),
    build(N - 1).

built(0, Acc) -> Acc;
built(N, Acc) -> built(N - 1, [{N, N} | Acc]).

%% A process for each request

short(N) ->
    {Pid, Monitor} = spawn_monitor(fun() -> request(N rem 10) end),
    receive
        {'DOWN', Monitor, process, Pid, _} -> short(N + 1)
    end.

request(N) when N < 5 ->
    short_phase(parse, fun() -> ?MODULE:parse(40) end),
    short_phase(encode, fun() -> ?MODULE:encode(60) end);
request(N) when N < 8 ->
    short_phase(sum, fun() -> ?MODULE:sum(60_000) end);
request(_) ->
    short_phase(digest, fun() -> ?MODULE:digest(4) end),
    short_phase(encode, fun() -> ?MODULE:encode(200) end),
    short_phase(render, fun() -> ?MODULE:render(400) end).

-doc false.
parse(0) ->
    ok;
parse(N) ->
    _ = binary:split(~"a=1&b=2&c=3&d=4&e=5", ~"&", [global]),
    parse(N - 1).

-doc false.
encode(0) ->
    ok;
encode(N) ->
    _ = iolist_to_binary(json:encode(#{~"a" => N, ~"b" => [1, 2, 3]})),
    encode(N - 1).

-doc false.
sum(0) -> ok;
sum(N) -> sum(N - 1).

-doc false.
digest(0) ->
    ok;
digest(N) ->
    _ = crypto:hash(sha256, <<0:80_000>>),
    digest(N - 1).

-doc false.
render(N) ->
    Lengths = [length(integer_to_list(X)) || X <- lists:seq(1, N)],
    1 + lists:sum(Lengths).

%% Built-in functions

bif(Table, Text, Term, Regex) ->
    phase(regex, fun() -> ?MODULE:regex(Text, Regex) end),
    phase(select, fun() -> ?MODULE:select(Table) end),
    phase(search, fun() -> ?MODULE:search(Text) end),
    phase(pack, fun() -> ?MODULE:pack(Term) end),
    phase(hash, fun() -> ?MODULE:hash(6) end),
    phase(keysort, fun() -> ?MODULE:keysort(Term) end),
    bif(Table, Text, Term, Regex).

-doc false.
regex(Text, Regex) ->
    match = re:run(Text, Regex, [global, {capture, none}]),
    ok.

-doc false.
select(Table) ->
    _ = ets:select(Table, [{{'$1', 5, '_'}, [], ['$1']}]),
    ok.

matches(Table) ->
    ok = ?MODULE:select(Table),
    matches(Table).

-doc false.
search(Text) ->
    _ = binary:matches(Text, [~"quick", ~"lazy"]),
    ok.

-doc false.
pack(Term) ->
    _ = binary_to_term(term_to_binary(Term)),
    ok.

-doc false.
keysort(Term) ->
    _ = lists:keysort(2, Term),
    ok.

%% Erlang code that calls C without a BIF, in the middle of a turn: comparisons.
sorts(Term) ->
    node_phase(pack, fun() -> ?MODULE:pack(lists:sublist(Term, 400)) end),
    node_phase(keysort, fun() -> ?MODULE:keysort(Term) end),
    sorts(Term).

%% Its garbage is too much for a collection in a normal scheduler. A call at the end of a function
%% leaves no trace of that function in the stack.

-doc false.
grow(0, _Map) -> ok;
grow(N, Map) -> grow(N - 1, Map#{N rem 500 => N}).

%% A server and its clients

server() ->
    receive
        {From, Ref, Which} ->
            From ! {Ref, handled(Which)},
            server()
    end.

%% In parts that end within a time slice: while a process waits for its next turn, behind others,
%% the clock goes on.
handled(1) -> parts(4, fun() -> short_phase(first, fun() -> ?MODULE:first(2500) end) end);
handled(2) -> parts(8, fun() -> short_phase(second, fun() -> ?MODULE:second(2500) end) end);
handled(3) -> parts(1, fun() -> short_phase(third, fun() -> ?MODULE:third(30) end) end).

parts(0, _Part) ->
    done;
parts(Left, Part) ->
    true = erlang:yield(),
    _ = Part(),
    parts(Left - 1, Part).

calls(Server) ->
    done = parts(1, fun() -> short_phase(client, fun() -> ?MODULE:client(2000) end) end),
    Ref = make_ref(),
    Server ! {self(), Ref, rand:uniform(3)},
    receive
        {Ref, _} -> calls(Server)
    end.

-doc false.
first(0) -> ok;
first(N) -> first(N - 1).

-doc false.
second(0) -> ok;
second(N) -> second(N - 1).

-doc false.
third(N) -> 1 + length(lists:usort([X * 7 rem 31 || X <- lists:seq(1, N * 10)])).

-doc false.
client(0) -> ok;
client(N) -> client(N - 1).

%% Dirty schedulers

dirty(File) ->
    node_phase(derive, fun() -> ?MODULE:derive(60_000) end),
    node_phase(read, fun() -> ?MODULE:read(File) end),
    node_phase(compress, fun() -> ?MODULE:compress(100_000) end),
    node_phase(loop, fun() -> ?MODULE:loop(8_000_000) end),
    dirty(File).

-doc false.
derive(Rounds) ->
    _ = crypto:pbkdf2_hmac(sha256, ~"password", ~"salt", Rounds, 32),
    ok.

-doc false.
read(File) ->
    {ok, Text} = file:read_file(File, [raw]),
    byte_size(Text).

-doc false.
compress(Count) ->
    _ = zlib:compress(binary:copy(~"abcdefgh", Count)),
    ok.
