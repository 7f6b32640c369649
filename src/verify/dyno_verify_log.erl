%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_log).
-moduledoc """
The files of events of `dyno verify --record` and `--replay`.

Three kinds of file are told apart by how they begin:

* dyno's own: the line `dyno events 1`, then frames, each a size of four bytes and an
  `t:item/0` by `term_to_binary/1`;
* what OTP's trace port writes (`dbg:trace_port(file, ...)`);
* text as in the RIARC paper, one event a line:

```text
% parent and child
fork(<0.10.0>, <0.11.0>, {worker, init, [1]})
init(<0.11.0>, <0.10.0>, {worker, init, [1]})
send(<0.10.0>, <0.11.0>, {request, 1})
recv(<0.11.0>, {request, 1}) delayed by 200
exit(<0.11.0>, normal)
```

`delayed by` counts in milliseconds from the line before; without it no time passes. A process that
has no `init` begins where its first event or its `fork` stands.

Processes of files are terms like any other: nothing is ever sent to them.
""".

-export([recorder/2, fold/3, format_error/1]).
-export_type([item/0, reason/0]).

-doc """
An event, as `dyno_agent_event:from_trace/1` gives it; a process that ran already when the recording
began; or that something is missing.
""".
-type item() ::
    {pid(), dyno_agent_event:event(), TimeNs :: integer()}
    | {process, dyno_agent_event:process(), TimeNs :: integer()}
    | {gap, TimeNs :: integer()}.

-type reason() ::
    {File :: binary(), file:posix() | badarg | system_limit | terminated | {line, pos_integer()}}
    | {File :: binary(), {bad_frame, Offset :: non_neg_integer()}}.

%% A frame above it is none.
-define(MOST_BYTES, 1 bsl 30).

-doc """
A monitor that writes to a file in its node what these monitors need, and decides nothing. Its
events are those of one process that runs monitors: `shards => 1`.
""".
-spec recorder(binary(), [dyno_agent_monitor:needs()]) -> dyno_code:object().
recorder(File, Needs) ->
    All = #{
        select => lists:uniq(lists:append([Select || #{select := Select} <- Needs])),
        events => lists:uniq(lists:append([Events || #{events := Events} <- Needs])),
        property => <<"recorded to ", File/binary>>
    },
    Forms = [
        {"-module(dyno_recorder).", []},
        {"-export([needs/0, init/1, event/3]).", []},
        {"needs() -> ~0tp.", [All]},
        {"init(Process) -> dyno_agent_recorder:init(~0tp, Process).", [File]},
        {"event(Event, Ns, State) -> dyno_agent_recorder:event(~0tp, Event, Ns, State).", [File]}
    ],
    {ok, Module, Beam} = compile:forms([form(Form) || Form <- Forms], [r27, deterministic]),
    {Module, Beam, "dyno_recorder"}.

form({Format, Arguments}) ->
    {ok, Tokens, _} = erl_scan:string(lists:flatten(io_lib:format(Format, Arguments))),
    {ok, Form} = erl_parse:parse_form(Tokens),
    Form.

-doc "Calls the function with each item of the file, in its order.".
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
        Header ->
            frames(fun own/2, Fd, byte_size(Header), Fun, Acc);
        <<Kind, _/binary>> when Kind =< 1 ->
            {ok, 0} = file:position(Fd, 0),
            frames(fun of_port/2, Fd, 0, Fun, Acc);
        _ ->
            {ok, 0} = file:position(Fd, 0),
            lists:foldl(Fun, Acc, begun(lines(Fd, 1, 0)))
    end.

read(Fd, Size) ->
    case file:read(Fd, Size) of
        {ok, Binary} -> Binary;
        eof -> <<>>;
        {error, Why} -> throw(Why)
    end.

%% Next gives how many bytes a frame takes, and what is in it.
frames(Next, Fd, Offset, Fun, Acc) ->
    case Next(Fd, Offset) of
        {Bytes, Items} -> frames(Next, Fd, Offset + Bytes, Fun, lists:foldl(Fun, Acc, Items));
        eof -> Acc
    end.

%% dyno's own
own(Fd, Offset) ->
    case read(Fd, 4) of
        <<Size:32>> -> frame(Fd, 4, Size, Offset);
        _ -> eof
    end.

%% OTP's trace port: <<0, Size:32, Term>> is a trace message, <<1, Count:32>> that many are missing.
of_port(Fd, Offset) ->
    maybe
        <<0, Size:32>> ?= read(Fd, 5),
        {Bytes, [Message]} ?= frame(Fd, 5, Size, Offset),
        Item = dyno_agent_event:from_trace(in_native_time(Message)),
        {Bytes, [Item || Item =/= other]}
    else
        <<1, _Missing:32>> -> {5, [{gap, 0}]};
        <<Kind, _/binary>> when Kind > 1 -> throw({bad_frame, Offset});
        _ -> eof
    end.

%% Who was killed while it wrote leaves a part of a frame behind.
frame(Fd, Head, Size, Offset) when Size < ?MOST_BYTES ->
    case read(Fd, Size) of
        <<Frame:Size/binary>> ->
            try
                {Head + Size, [binary_to_term(Frame)]}
            catch
                error:badarg -> throw({bad_frame, Offset})
            end;
        _ ->
            eof
    end;
frame(_Fd, _Head, _Size, Offset) ->
    throw({bad_frame, Offset}).

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

%% Text

lines(Fd, Number, Time) ->
    case file:read_line(Fd) of
        {ok, Line} ->
            case line(unicode:characters_to_list(Line), Time) of
                none -> lines(Fd, Number + 1, Time);
                {_, _, Later} = Item -> [Item | lines(Fd, Number + 1, Later)];
                error -> throw({line, Number})
            end;
        eof ->
            [];
        {error, Why} ->
            throw(Why)
    end.

line(Line, Before) when is_list(Line) ->
    Quoted = re:replace(
        Line, "(#Ref)?<\\d+(\\.\\d+)+>", "'&'", [global, unicode, {return, list}]
    ),
    case erl_scan:string(Quoted) of
        {ok, [], _} ->
            none;
        {ok, Tokens, _} ->
            {Event, DelayMs} = delayed(Tokens),
            case erl_parse:parse_exprs(Event ++ [{dot, 1}]) of
                {ok, [{call, _, {atom, _, Kind}, Arguments}]} ->
                    item(Kind, Arguments, Before + DelayMs * 1_000_000);
                _ ->
                    error
            end;
        _ ->
            error
    end;
line(_NoText, _Before) ->
    error.

delayed(Tokens) ->
    case lists:reverse(Tokens) of
        [{dot, _} | Rest] -> delayed(lists:reverse(Rest));
        [{integer, _, Ms}, {atom, _, by}, {atom, _, delayed} | Rest] -> {lists:reverse(Rest), Ms};
        _ -> {Tokens, 0}
    end.

item(Kind, Exprs, Time) ->
    try {Kind, [term(erl_parse:normalise(Expr)) || Expr <- Exprs]} of
        {fork, [P, C, {_, _, _} = MFA]} when is_pid(P), is_pid(C) -> {P, {spawn, C, MFA}, Time};
        {init, [C, P, {_, _, _} = MFA]} when is_pid(P), is_pid(C) -> {C, {spawned, P, MFA}, Time};
        {send, [P, To, Message]} when is_pid(P) -> {P, {send, Message, To}, Time};
        {recv, [P, Message]} when is_pid(P) -> {P, {'receive', Message}, Time};
        {exit, [P, Reason]} when is_pid(P) -> {P, {exit, Reason}, Time};
        _ -> error
    catch
        error:_ -> error
    end.

term(Atom) when is_atom(Atom) ->
    case atom_to_list(Atom) of
        "<0." ++ _ = Pid -> list_to_pid(Pid);
        "<" ++ Numbers -> pid(string:lexemes(Numbers, ".>"), Atom);
        "#Ref<0." ++ _ = Ref -> list_to_ref(Ref);
        _ -> Atom
    end;
term([Head | Tail]) ->
    [term(Head) | term(Tail)];
term(Tuple) when is_tuple(Tuple) ->
    list_to_tuple([term(Element) || Element <- tuple_to_list(Tuple)]);
term(Map) when is_map(Map) ->
    #{term(Key) => term(Value) || Key := Value <- Map};
term(Term) ->
    Term.

%% Of another node, of which we know no more than its number there: 88 is NEW_PID_EXT.
pid([Node, Id, Serial], _Atom) ->
    <<131, Name/binary>> = term_to_binary(list_to_atom("node" ++ Node ++ "@log")),
    [I, S] = [list_to_integer(N) || N <- [Id, Serial]],
    binary_to_term(<<131, 88, Name/binary, I:32, S:32, 1:32>>);
pid(_Others, Atom) ->
    Atom.

%% In front of a process's first event, or behind its fork, the beginning that the file does not
%% have.
begun(Items) ->
    Forks = #{C => {spawned, P, MFA} || {P, {spawn, C, MFA}, _} <- Items},
    begun(Items, maps:without([Pid || {Pid, {spawned, _, _}, _} <- Items], Forks)).

begun([{Pid, Event, Time} = Item | Items], Forks) ->
    {Before, Left} = begin_of(Pid, Time, Forks),
    {After, Left1} =
        case Event of
            {spawn, Child, _} -> begin_of(Child, Time, Left);
            _ -> {[], Left}
        end,
    Before ++ [Item | After ++ begun(Items, Left1)];
begun([], _Forks) ->
    [].

begin_of(Pid, Time, Forks) ->
    case maps:take(Pid, Forks) of
        {Spawned, Left} -> {[{Pid, Spawned, Time}], Left};
        error -> {[], Forks}
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
format_error({File, Why}) ->
    io_lib:format("cannot read ~ts: ~ts", [File, file:format_error(Why)]).
