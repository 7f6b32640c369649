%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_log).
-moduledoc """
The files of events of `dyno verify --record` and `--replay`.

Three kinds of file are told apart by their beginning:

* dyno's own: the line `dyno events 1`, then frames, each a size of four bytes and an `t:item/0` by
  `term_to_binary/1`;
* files of OTP's trace port (`dbg:trace_port(file, ...)`);
* text as in the RIARC paper, one event a line:

```text
% parent and child
fork(<0.10.0>, <0.11.0>, {worker, init, [1]})
init(<0.11.0>, <0.10.0>, {worker, init, [1]})
send(<0.10.0>, <0.11.0>, {request, 1})
recv(<0.11.0>, {request, 1}) delayed by 200
exit(<0.11.0>, normal)
```

`delayed by` counts milliseconds from the line before; without it no time passes. A process without
`init` begins at its first event or its `fork`.

Processes of files are only terms: nothing is ever sent to them. Names unknown to this node stay
texts: a file makes no atoms (dyno_verify_name).
""".

-export([recorder/2, fold/3, format_error/1]).
-export_type([item/0, reason/0]).

-doc "An event of `dyno_agent_event:from_trace/1`, a process that ran at the beginning, or a gap.".
-type item() ::
    {pid(), dyno_agent_event:event(), TimeNs :: integer()}
    | {process, dyno_agent_event:process(), TimeNs :: integer()}
    | {gap, TimeNs :: integer()}
    %% The end of the recording and of its deadlines.
    | {time, TimeNs :: integer()}.

-type reason() ::
    {File :: binary(), file:posix() | badarg | system_limit | terminated}
    | {File :: binary(), empty | {line, pos_integer()}}
    | {File :: binary(), {bad_frame, Offset :: non_neg_integer()}}.

%% A larger frame is invalid.
-define(MOST_BYTES, 1 bsl 30).
-define(PIECE, 1 bsl 20).

-doc "A monitor that writes the events these monitors need to a file in its node.".
-spec recorder(binary(), [dyno_agent_monitor:needs()]) -> dyno_code:object().
recorder(File, Needs) ->
    Select = lists:uniq(lists:append([Of || #{select := Of} <- Needs])),
    %% Names that processes take choose them, in the replay too.
    Names =
        [register || lists:keymember(registered, 1, Select)] ++
            [{call, proc_lib, set_label, 1, undefined} || lists:keymember(label, 1, Select)],
    All = #{
        select => Select,
        events => lists:uniq(lists:append([Events || #{events := Events} <- Needs]) ++ Names),
        property => <<"recorded to ", File/binary>>
    },
    Forms = [
        {"-module(dyno_recorder).", []},
        {"-export([needs/0, init/1, event/3]).", []},
        {"needs() -> ~0tp.", [All]},
        {"init(Process) -> dyno_agent_recorder:init(Process).", []},
        {"event(Event, Ns, State) -> dyno_agent_recorder:event(Event, Ns, State).", []}
    ],
    {ok, Module, Beam} = compile:forms([form(Form) || Form <- Forms], [r27, deterministic]),
    {Module, Beam, "dyno_recorder"}.

form({Format, Arguments}) ->
    {ok, Tokens, _} = erl_scan:string(lists:flatten(io_lib:format(Format, Arguments))),
    {ok, Form} = erl_parse:parse_form(Tokens),
    Form.

-doc "Folds over the items of the file, in order.".
-spec fold(file:name_all(), fun((item(), Acc) -> Acc), Acc) ->
    {ok, Acc} | {error, {?MODULE, reason()}}.
fold(File, Fun, Acc) ->
    case file:open(File, [read, raw, binary, {read_ahead, 1 bsl 16}]) of
        {ok, Fd} ->
            try
                {ok, fold_open(Fd, Fun, Acc)}
            catch
                throw:Why -> failed(File, Why)
            after
                file:close(Fd)
            end;
        {error, Why} ->
            failed(File, Why)
    end.

failed(File, Why) ->
    {error, {?MODULE, {unicode:characters_to_binary(filename:flatten(File)), Why}}}.

fold_open(Fd, Fun, Acc) ->
    Header = dyno_agent_recorder:header(),
    case read(Fd, byte_size(Header)) of
        <<>> ->
            throw(empty);
        Header ->
            frames(fun own/2, Fd, byte_size(Header), Fun, Acc);
        <<Tag, _/binary>> when Tag =< 1 ->
            first(Fd),
            frames(fun of_port/2, Fd, 0, Fun, Acc);
        _ ->
            first(Fd),
            Begun = lines(Fd, fun is_beginning/1, fun begun/2, #{}),
            first(Fd),
            Every = fun(_Line) -> true end,
            Step = fun(Item, State) -> with_begin(Item, Fun, State) end,
            {_, All} = lines(Fd, Every, Step, {Begun, Acc}),
            All
    end.

%% A pipe cannot be read twice.
first(Fd) ->
    case file:position(Fd, 0) of
        {ok, 0} -> ok;
        {error, Why} -> throw(Why)
    end.

read(Fd, Size) ->
    case file:read(Fd, Size) of
        {ok, Binary} -> Binary;
        eof -> <<>>;
        {error, Why} -> throw(Why)
    end.

%% Next returns a frame's size and content.
frames(Next, Fd, Offset, Fun, Acc) ->
    case Next(Fd, Offset) of
        {Bytes, Items} ->
            lists:all(fun is_item/1, Items) orelse throw({bad_frame, Offset}),
            frames(Next, Fd, Offset + Bytes, Fun, lists:foldl(Fun, Acc, Items));
        eof ->
            Acc
    end.

%% dyno's own
own(Fd, Offset) ->
    case read(Fd, 4) of
        <<Size:32>> -> frame(Fd, 4, Size, Offset);
        _ -> eof
    end.

%% OTP's trace port: <<0, Size:32, Term>> is a trace message, <<1, Count:32>> counts missing ones.
of_port(Fd, Offset) ->
    maybe
        <<0, Size:32>> ?= read(Fd, 5),
        {Bytes, [Message]} ?= frame(Fd, 5, Size, Offset),
        Item = of_trace(Message, Offset),
        {Bytes, [Item || Item =/= other]}
    else
        <<1, _Missing:32>> -> {5, [{gap, 0}]};
        <<Tag, _/binary>> when Tag > 1 -> throw({bad_frame, Offset});
        _ -> eof
    end.

of_trace(Message, Offset) ->
    try
        dyno_agent_event:from_trace(in_native_time(Message))
    catch
        error:_ -> throw({bad_frame, Offset})
    end.

%% A killed writer leaves a partial frame, read in pieces: a false size takes no more memory.
frame(Fd, Head, Size, Offset) when Size < ?MOST_BYTES ->
    case pieces(Fd, Size, []) of
        <<Frame:Size/binary>> ->
            case dyno_verify_frame:term(Frame) of
                {ok, Term} -> {Head + Size, [Term]};
                error -> throw({bad_frame, Offset})
            end;
        _ ->
            eof
    end;
frame(_Fd, _Head, _Size, Offset) ->
    throw({bad_frame, Offset}).

pieces(Fd, Left, Read) ->
    case read(Fd, min(Left, ?PIECE)) of
        Piece when Left > byte_size(Piece), Piece =/= <<>> ->
            pieces(Fd, Left - byte_size(Piece), [Piece | Read]);
        Piece ->
            iolist_to_binary(lists:reverse(Read, [Piece]))
    end.

%% The file is untrusted.
is_item({Tag, Time}) when Tag =:= gap; Tag =:= time ->
    is_integer(Time);
is_item({process, #{pid := Pid, initial_call := MFA, partial := Partial} = Process, Time}) ->
    is_pid(Pid) andalso is_mfa(MFA) andalso is_boolean(Partial) andalso is_integer(Time) andalso
        is_name(maps:get(name, Process, none)) andalso
        is_integer(maps:get(since_ns, Process, 0));
is_item({Pid, Event, Time}) when is_pid(Pid), is_integer(Time) ->
    try
        _ = [dyno_agent_event:description(Pid, Event) || element(1, Event) =:= spawned],
        is_event(Event) andalso is_event(dyno_agent_event:normal(Event))
    catch
        error:_ -> false
    end;
is_item(_) ->
    false.

is_event({spawned, _Parent, MFA}) -> is_mfa(MFA);
is_event({spawn, Child, MFA}) -> is_pid(Child) andalso is_mfa(MFA);
is_event({call, MFA}) -> is_mfa(MFA);
is_event({return, MFA, _Value}) -> is_mfa(MFA);
is_event({exception, MFA, {Class, _Reason}}) -> is_mfa(MFA) andalso is_atom(Class);
is_event({Tag, _What}) -> lists:member(Tag, [exit, 'receive', register]);
is_event({send, _Message, _To}) -> true;
is_event(_) -> false.

is_mfa({M, F, Args}) when is_list(Args) -> length(Args) < 256 andalso is_mfa({M, F, length(Args)});
is_mfa({M, F, Arity}) ->
    is_name(M) andalso is_name(F) andalso is_integer(Arity) andalso Arity >= 0;
is_mfa(_) ->
    false.

is_name({'$dyno', Text}) -> is_binary(Text);
is_name(Name) -> is_atom(Name).

%% The flag `timestamp` gives erlang:timestamp/0.
in_native_time(Message) when element(1, Message) =:= trace_ts ->
    case element(tuple_size(Message), Message) of
        {Mega, Seconds, Micro} ->
            Us = (Mega * 1_000_000 + Seconds) * 1_000_000 + Micro,
            Time = erlang:convert_time_unit(Us, microsecond, native),
            setelement(tuple_size(Message), Message, Time);
        _ ->
            Message
    end;
in_native_time(Message) ->
    Message.

%% Text is read twice: only its end shows whether a process has a beginning.

lines(Fd, IsWanted, Fun, Acc) ->
    lines(Fd, {1, 0}, IsWanted, Fun, Acc).

lines(Fd, {Number, Time}, IsWanted, Fun, Acc) ->
    case file:read_line(Fd) of
        {ok, Line} ->
            case IsWanted(Line) andalso line(dyno_verify_line:parse(Line), Time) of
                error ->
                    throw({line, Number});
                {_, _, Later} = Item ->
                    lines(Fd, {Number + 1, Later}, IsWanted, Fun, Fun(Item, Acc));
                _ ->
                    lines(Fd, {Number + 1, Time}, IsWanted, Fun, Acc)
            end;
        eof ->
            Acc;
        {error, Why} ->
            throw(Why)
    end.

is_beginning(Line) ->
    re:run(Line, ~"^\\s*(fork|init)", [{capture, none}]) =:= match.

line({Tag, Terms, DelayMs}, Before) ->
    Item = item(Tag, Terms, Before + DelayMs * 1_000_000),
    case is_item(Item) of
        true -> Item;
        false -> error
    end;
line(NoEvent, _Before) ->
    NoEvent.

item(~"fork", [P, C, MFA], Time) -> {P, {spawn, C, MFA}, Time};
item(~"init", [C, P, MFA], Time) -> {C, {spawned, P, MFA}, Time};
item(~"send", [P, To, Message], Time) -> {P, {send, Message, To}, Time};
item(~"recv", [P, Message], Time) -> {P, {'receive', Message}, Time};
item(~"exit", [P, Reason], Time) -> {P, {exit, Reason}, Time};
item(_Tag, _Terms, _Time) -> none.

%% The beginnings of processes without `init`: their forks, if any.
begun({Parent, {spawn, Child, MFA}, _}, Begun) when not is_map_key(Child, Begun) ->
    Begun#{Child => {spawned, Parent, MFA}};
begun({Pid, {spawned, _, _}, _}, Begun) ->
    Begun#{Pid => init};
begun(_Item, Begun) ->
    Begun.

with_begin({Pid, Event, Time} = Item, Fun, State) ->
    {Left, Acc} = begin_of(Pid, Time, Fun, State),
    Next = {Left, Fun(Item, Acc)},
    case Event of
        {spawn, Child, _} -> begin_of(Child, Time, Fun, Next);
        _ -> Next
    end.

begin_of(Pid, Time, Fun, {Begun, Acc}) ->
    case Begun of
        #{Pid := {spawned, _, _} = Spawned} ->
            {maps:remove(Pid, Begun), Fun({Pid, Spawned, Time}, Acc)};
        #{} ->
            {Begun, Acc}
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({File, {line, Number}}) ->
    io_lib:format(
        "~ts, line ~b: expected fork(P, C, {M, F, Args}), init(C, P, {M, F, Args}), "
        "send(P, To, Message), recv(P, Message) or exit(P, Reason), each with 'delayed by MS' or "
        "not",
        [File, Number]
    );
format_error({File, {bad_frame, Offset}}) ->
    io_lib:format(
        "~ts is neither a recording of dyno verify nor a file of a trace port: see byte ~b",
        [File, Offset]
    );
format_error({File, empty}) ->
    [File, " is empty; give a file that dyno verify --record or a trace port has written"];
format_error({File, eisdir}) ->
    [File, " is a folder; give a file that dyno verify --record or a trace port has written"];
format_error({File, espipe}) ->
    [File, " is a pipe, which cannot be read twice; give a file"];
format_error({File, Why}) ->
    io_lib:format("cannot read ~ts: ~ts", [File, file:format_error(Why)]).
