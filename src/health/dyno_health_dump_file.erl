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
    ports := non_neg_integer(),
    timers := non_neg_integer(),
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
    Written = hd(Lines ++ [~""]),
    {
        #{
            is_whole => false, header => (fields(Lines))#{~"Written" => Written}, memory => #{},
            atoms => unknown, processes => 0, ports => 0, timers => 0, groups => #{},
            tables => #{}, largest => [], longest => [], current => []
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
section([~"memory"], Read, State) ->
    {Lines, Next} = lines(State),
    {Read#{memory := maps:map(fun(_, V) -> number(V) end, fields(Lines))}, Next};
section([~"index_table", ~"atom_tab"], Read, State) ->
    {Lines, Next} = lines(State),
    case fields(Lines) of
        #{~"entries" := N, ~"limit" := Limit} -> {Read#{atoms := {number(N), number(Limit)}}, Next};
        #{} -> {Read, Next}
    end;
section([~"scheduler", _], #{current := Current} = Read, State) ->
    {Lines, Next} = lines(State),
    case fields(Lines) of
        #{~"Current Process" := <<"<", _/binary>> = Pid} ->
            {Read#{current := [Pid | Current]}, Next};
        #{} ->
            {Read, Next}
    end;
section([~"port", _], #{ports := N} = Read, State) ->
    {Read#{ports := N + 1}, skip(State)};
section([~"timer", _], #{timers := N} = Read, State) ->
    {Read#{timers := N + 1}, skip(State)};
section([~"ets", _], #{tables := Tables} = Read, State) ->
    {Lines, Next} = lines(State),
    Fields = fields(Lines),
    Words = number(maps:get(~"Words", Fields, ~"0")),
    Name = maps:get(~"Name", Fields, maps:get(~"Table", Fields, ~"(no name)")),
    Rows = number(maps:get(~"Objects", Fields, ~"0")),
    {Read#{tables := added(Name, Rows, Words * word_bytes(Read), Tables)}, Next};
section([~"proc", Pid], Read, State) ->
    {Lines, Next} = lines(State),
    {process(Pid, Lines, Read), Next};
section([~"proc_stack", Pid], #{largest := Largest, longest := Longest} = Read, State) ->
    case is_kept(Pid, Largest) orelse is_kept(Pid, Longest) of
        true ->
            {Lines, Next} = lines(State),
            Stack = [F || Line <- Lines, {match, [F]} <- [function(Line)]],
            With = fun(Processes) ->
                [
                    case P of
                        #{pid := Pid, stack := Top} -> {Key, P#{stack := lists:uniq(Top ++ Stack)}};
                        #{} -> {Key, P}
                    end
                 || {Key, P} <- Processes
                ]
            end,
            {Read#{largest := With(Largest), longest := With(Longest)}, Next};
        false ->
            {Read, skip(State)}
    end;
section(_Other, Read, State) ->
    {Read, skip(State)}.

is_kept(Pid, Processes) -> lists:any(fun({_, #{pid := Of}}) -> Of =:= Pid end, Processes).

process(Pid, Lines, #{processes := N, groups := Groups, largest := A, longest := B} = Read) ->
    Fields = fields(Lines),
    Of = fun(Key) -> maps:get(Key, Fields, ~"") end,
    Bytes = number(Of(~"Memory")),
    Queue = number(Of(~"Message queue length")),
    Group = Of(~"Spawned as"),
    Process = #{
        pid => Pid,
        name => Of(~"Name"),
        group => Group,
        state => Of(~"State"),
        queue => Queue,
        bytes => Bytes,
        links => length(binary:matches(Of(~"Link list"), ~"<")),
        stack => [F || {match, [F]} <- [function(Of(~"Program counter"))]]
    },
    Read#{
        processes := N + 1,
        groups := added(Group, Queue, Bytes, Groups),
        largest := kept({Bytes, Process}, A),
        longest :=
            case Queue of
                0 -> B;
                _ -> kept({Queue, Process}, B)
            end
    }.

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
        eof -> {lists:reverse(Lines), State};
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
last(~"") -> ~"";
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
