%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_dump_file).
-moduledoc false.
%% Reads a crash dump (erl_crash.dump) as a stream. Dumps have gigabytes, so memory is bounded: the
%% largest processes and longest queues, sums by start function and by table name, no heap.
%% A dump is a list of sections "=tag:id", each with lines "Key: value"; the last one is "=end".

-export([read/1]).
-export_type([reading/0, process/0]).

-type process() :: #{
    pid := binary(),
    name := binary(),
    group := binary(),
    state := binary(),
    queue := non_neg_integer(),
    bytes := non_neg_integer(),
    links := non_neg_integer(),
    %% Innermost function first.
    stack := [binary()]
}.

-type sums() :: #{
    Name ::
        binary() => {Count :: pos_integer(), Rows :: non_neg_integer(), Bytes :: non_neg_integer()}
}.

-type reading() :: #{
    %% Without "=end" the dump was cut off.
    is_whole := boolean(),
    header := #{binary() => binary()},
    memory := #{binary() => non_neg_integer()},
    atoms := {non_neg_integer(), Limit :: non_neg_integer()} | unknown,
    processes := non_neg_integer(),
    groups := sums(),
    tables := sums(),
    largest := [process()],
    longest := [process()],
    %% The processes that ran.
    current := [binary()]
}.

-define(CHUNK, 1_048_576).
-define(MOST_BYTES_OF_LINE, 4096).
-define(MOST_LINES, 200).
-define(MOST, 20).
-define(MOST_NAMES, 2000).
-define(OTHERS, ~"(others)").

-doc "Reads a dump; `no_dump` if the file does not begin as a dump does.".
-spec read(file:filename_all()) ->
    {ok, reading()} | {error, no_dump | file:posix() | badarg | terminated | system_limit}.
read(Path) ->
    maybe
        {ok, Fd} ?= file:open(Path, [read, raw, binary]),
        try line(#{fd => Fd, buffer => ~""}) of
            {<<"=erl_crash_dump:", _/binary>>, State} -> {ok, sections(header(State))};
            _ -> {error, no_dump}
        after
            file:close(Fd)
        end
    end.

header(State) ->
    {Lines, Next} = lines(State),
    Header = (fields(Lines))#{~"Written" => hd(Lines ++ [~""])},
    {
        #{
            is_whole => false,
            header => Header,
            memory => #{},
            atoms => unknown,
            processes => 0,
            groups => #{},
            tables => #{},
            largest => [],
            longest => [],
            current => []
        },
        Next
    }.

sections({Read, State}) ->
    case line(State) of
        eof ->
            #{largest := Largest, longest := Longest} = Read,
            Of = fun(Kept) -> [Process || {_, Process} <- lists:reverse(Kept)] end,
            Read#{largest := Of(Largest), longest := Of(Longest)};
        {<<"=", Head/binary>>, Next} ->
            sections(section(string:split(Head, ~":"), Read, Next));
        {_, Next} ->
            sections({Read, skip(Next)})
    end.

section([~"end" | _], Read, State) ->
    {Read#{is_whole := true}, State};
section([Tag | _] = Head, Read, State) when
    Tag =:= ~"memory"; Tag =:= ~"index_table"; Tag =:= ~"scheduler"; Tag =:= ~"ets"; Tag =:= ~"proc"
->
    {Lines, Next} = lines(State),
    {with(Head, fields(Lines), Read), Next};
section([~"proc_stack", Pid], #{largest := Largest, longest := Longest} = Read, State) ->
    case [P || {_, #{pid := Of} = P} <- Largest ++ Longest, Of =:= Pid] of
        [] ->
            {Read, skip(State)};
        [#{stack := Top} = Process | _] ->
            {Lines, Next} = lines(State),
            Stack = [F || Line <- Lines, {match, [F]} <- [function(Line)]],
            New = Process#{stack := lists:uniq(Top ++ Stack)},
            Of = fun
                (P) when P =:= Process -> New;
                (P) -> P
            end,
            Set = fun(Kept) -> lists:keymap(Of, 2, Kept) end,
            {Read#{largest := Set(Largest), longest := Set(Longest)}, Next}
    end;
section(_Other, Read, State) ->
    {Read, skip(State)}.

with([~"memory"], Fields, Read) ->
    Read#{memory := maps:map(fun(_, V) -> number(V) end, Fields)};
with([_, ~"atom_tab"], #{~"entries" := N, ~"limit" := Limit}, Read) ->
    Read#{atoms := {number(N), number(Limit)}};
with([~"scheduler", _], #{~"Current Process" := <<"<", _/binary>> = Pid}, Read) ->
    Read#{current := [Pid | map_get(current, Read)]};
with([~"ets", _], Fields, #{tables := Tables} = Read) ->
    Name = maps:get(~"Name", Fields, maps:get(~"Table", Fields, ~"(no name)")),
    Bytes = number(~"Words", Fields) * word_bytes(Read),
    Read#{tables := added(Name, number(~"Objects", Fields), Bytes, Tables)};
with([~"proc", Pid], Fields, #{processes := N, largest := A, longest := B} = Read) ->
    Of = fun(Key) -> maps:get(Key, Fields, ~"") end,
    Bytes = number(~"Memory", Fields),
    Queue = number(~"Message queue length", Fields),
    Process = #{
        pid => Pid,
        name => Of(~"Name"),
        group => Of(~"Spawned as"),
        state => Of(~"State"),
        queue => Queue,
        bytes => Bytes,
        links => length(binary:matches(Of(~"Link list"), ~"<")),
        stack => [F || {match, [F]} <- [function(Of(~"Program counter"))]]
    },
    Read#{
        processes := N + 1,
        groups := added(Of(~"Spawned as"), Queue, Bytes, map_get(groups, Read)),
        largest := kept({Bytes, Process}, A),
        longest :=
            if
                Queue =:= 0 -> B;
                true -> kept({Queue, Process}, B)
            end
    };
with(_Other, _Fields, Read) ->
    Read.

kept({Key, _}, [{Least, _} | _] = Kept) when length(Kept) >= ?MOST, Key =< Least -> Kept;
kept(Process, Kept) ->
    Sorted = lists:keysort(1, [Process | Kept]),
    lists:nthtail(max(0, length(Sorted) - ?MOST), Sorted).

added(Name, Rows, Bytes, Sums) ->
    Key =
        case is_map_key(Name, Sums) orelse map_size(Sums) < ?MOST_NAMES of
            true -> binary:copy(Name);
            false -> ?OTHERS
        end,
    maps:update_with(
        Key, fun({N, R, B}) -> {N + 1, R + Rows, B + Bytes} end, {1, Rows, Bytes}, Sums
    ).

%% "0x7f... (gen_server:loop/7 + 272)"
function(Line) ->
    re:run(Line, ~B"\(([^ ()]+:.+/[0-9]+)( \+ [0-9]+)?\)", [{capture, [1], binary}]).

word_bytes(#{header := Header}) ->
    case binary:match(maps:get(~"System version", Header, ~""), ~"[64-bit]") of
        nomatch -> 4;
        _ -> 8
    end.

fields(Lines) ->
    #{Key => Value || Line <- Lines, [Key, Value] <- [binary:split(Line, ~": ")]}.

number(Key, Fields) -> number(maps:get(Key, Fields, ~"0")).

number(Text) ->
    case string:to_integer(Text) of
        {N, _} when is_integer(N) -> N;
        _ -> 0
    end.

%% The lines until the next section, each one shortened.
lines(State) -> lines(?MOST_LINES, State, []).

lines(0, State, Lines) ->
    {lists:reverse(Lines), skip(State)};
lines(Left, State, Lines) ->
    case line(State) of
        eof ->
            {lists:reverse(Lines), State};
        {<<"=", _/binary>> = Head, #{buffer := Buffer} = Next} ->
            {lists:reverse(Lines), Next#{buffer := <<Head/binary, $\n, Buffer/binary>>}};
        {Line, Next} ->
            lines(Left - 1, Next, [Line | Lines])
    end.

line(State) -> line(State, ~"").

line(#{buffer := Buffer} = State, Head) ->
    case binary:split(Buffer, ~"\n") of
        [Line, Rest] ->
            {short(Head, Line), State#{buffer := Rest}};
        [Part] ->
            case read_more(State) of
                eof when Head =:= ~"", Part =:= ~"" -> eof;
                eof -> {short(Head, Part), State#{buffer := ~""}};
                More -> line(State#{buffer := More}, short(Head, Part))
            end
    end.

short(Head, Line) ->
    Room = max(0, ?MOST_BYTES_OF_LINE - byte_size(Head)),
    <<Head/binary, (binary:part(Line, 0, min(Room, byte_size(Line))))/binary>>.

%% To the next section. Heaps and binaries are most of a dump.
skip(#{buffer := <<"=", _/binary>>} = State) ->
    State;
skip(#{buffer := Buffer} = State) ->
    case binary:match(Buffer, ~"\n=") of
        {At, _} ->
            State#{buffer := binary:part(Buffer, At + 1, byte_size(Buffer) - At - 1)};
        nomatch ->
            case read_more(State) of
                eof -> State#{buffer := ~""};
                More -> skip(State#{buffer := <<(last(Buffer))/binary, More/binary>>})
            end
    end.

%% A section's mark may be cut between two chunks.
last(~"") ->
    ~"";
last(Buffer) ->
    case binary:last(Buffer) of
        $\n -> ~"\n";
        _ -> ~" "
    end.

read_more(#{fd := Fd}) ->
    case file:read(Fd, ?CHUNK) of
        {ok, More} -> More;
        _ -> eof
    end.
