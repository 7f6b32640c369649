%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_receives).
-moduledoc """
Finds the receives in compiled code that search the mailbox, for `dyno doctor --code`.

A receive that matches a value from before (a pid, a reference) looks at each waiting message until
one fits. Only if the compiler proves that the value was made after the message could have come
(`recv_marker_use`) does the search begin there. With 100,000 messages each search takes a
millisecond. Pure, but for reading files.
""".

-export([findings/1, of_otp/0, searching/1, among/2, format_error/1, fault/1]).

-import(dyno_health_look, [finding/4]).
-export_type([receives/0, reason/0]).

-doc "`value`: matches a value from before the receive. `tag`: literals that few messages match.".
-type receives() :: #{function := binary(), matches := value | tag}.

-type reason() :: {no_beams, file:filename_all()} | no_compiler.

%% Their reference or pid was made before.
-define(OF_OTP, [
    ~"disk_log:monitor_request/2",
    ~"proc_lib:sync_start/2",
    ~"proc_lib:sync_start_link/2",
    ~"prim_inet:recv0/3",
    ~"prim_inet:recv0/2",
    ~"prim_inet:accept0/4",
    ~"prim_inet:connect0/5",
    ~"prim_inet:close_port/2",
    ~"code_server:call/1",
    ~"mnesia_tm:rec/2",
    ~"mnesia_tm:rec/0",
    ~"mnesia_tm:rec_all/4",
    ~"mnesia_tm:rec_acc_pre_commit/9",
    ~"mnesia_locker:receive_wlocks/4",
    ~"mnesia_locker:l_req_rec/2",
    ~"inet_gethost_native:getit/2",
    ~"ssl_gen_statem:call/2"
]).
-define(MOST_NOTES, 20).
-define(ANSWER_MS, 2000).

-doc "The functions of OTP that are known to search the mailbox.".
-spec of_otp() -> [binary()].
of_otp() -> ?OF_OTP.

-doc "The findings in the `.beam` files of these folders or files, the user's code first.".
-spec findings([file:filename_all()]) -> dyno_error:result([dyno_finding:t()]).
findings(Paths) ->
    Found = [{Path, beams(Path)} || Path <- Paths],
    case {code:ensure_loaded(beam_disasm), [Path || {Path, []} <- Found]} of
        {{error, _}, _} ->
            {error, {?MODULE, no_compiler}};
        {_, [Path | _]} ->
            {error, {?MODULE, {no_beams, Path}}};
        {_, []} ->
            Files = lists:append([Of || {_, Of} <- Found]),
            Each = [{File, of_file(File)} || File <- Files],
            Findings = [
                finding(File, Of, Behaviours)
             || {File, {ok, Behaviours, All}} <- Each,
                Of <- All,
                Behaviours =/= [] orelse map_get(matches, Of) =:= value orelse length(All) > 1
            ],
            {Notes, Worse} = lists:partition(fun(#{severity := S}) -> S =:= note end, Findings),
            {ok,
                dyno_finding:ranked(
                    Worse ++ lists:sublist(dyno_finding:ranked(Notes), ?MOST_NOTES) ++
                        [unreadable(File) || {File, error} <- Each]
                )}
    end.

beams(Path) ->
    case filelib:is_dir(Path) of
        true -> lists:sort(filelib:wildcard(filename:join(characters(Path), "*.beam")));
        false -> [characters(Path) || filelib:is_regular(Path)]
    end.

characters(Path) ->
    [_ | _] = unicode:characters_to_list(Path).

of_file(File) ->
    case file:read_file(File) of
        {ok, Beam} -> searching(Beam);
        {error, _} -> error
    end.

-doc "The searching receives of a module, and its behaviours.".
-spec searching(Beam :: binary()) -> {ok, Behaviours :: [atom()], [receives()]} | error.
searching(Beam) ->
    case beam_disasm:file(Beam) of
        {beam_file, Module, _Exports, Attributes, _Info, Functions} ->
            {ok, [B || {K, Of} <- Attributes, K =:= behaviour orelse K =:= behavior, B <- Of],
                lists:append([
                    [
                        #{function => dyno_agent_name:mfa({Module, Name, Arity}), matches => Kind}
                     || Kind <- lists:usort(receives(Code))
                    ]
                 || {function, Name, Arity, _Entry, Code} <- Functions
                ])};
        _ ->
            error
    end.

-doc """
Those of these functions of a node with a receive for one certain message, and with one for some
messages, by the beams of their modules. The latter searches only if others wait before these.
""".
-spec among(node(), [Function :: binary()]) -> #{searching | selecting := [binary()]}.
among(Node, Functions) ->
    Modules = lists:uniq([module(F) || F <- Functions]),
    Found = [
        {Kind, Name}
     || {module, _} <- [code:ensure_loaded(beam_disasm)],
        {_, Beam, _} <- objects(Node, Modules),
        {ok, _, Of} <- [searching(Beam)],
        #{function := Name, matches := Kind} <- Of
    ],
    Of = fun(Kind) -> [F || F <- Functions, lists:member({Kind, F}, Found)] end,
    #{searching => Of(value), selecting => Of(tag)}.

objects(Node, Modules) ->
    try
        dyno_remote:call(Node, lists, map, [fun code:get_object_code/1, Modules], ?ANSWER_MS)
    catch
        error:{erpc, _} -> []
    end.

%% As dyno_agent_name prints it: shop:price/1, Shop.Cart.price/1.
module(Function) ->
    case binary:split(Function, ~":") of
        [Name, _] ->
            binary_to_atom(Name);
        [_] ->
            [Name, _] = string:split(Function, ~".", trailing),
            binary_to_atom(<<"Elixir.", Name/binary>>)
    end.

%% A receive lies between loop_rec and loop_rec_end of its label, which one for all messages lacks.
receives([Before, {label, Label}, {loop_rec, _, _} | Code]) ->
    Of =
        case lists:splitwith(fun(I) -> I =/= {loop_rec_end, {f, Label}} end, Code) of
            {_, []} -> [];
            _ when element(1, Before) =:= recv_marker_use -> [];
            {Matching, _} -> [of_kind(Matching, [])]
        end,
    Of ++ receives(Code);
receives([_ | Code]) ->
    receives(Code);
receives([]) ->
    [].

%% Values from before a receive are in the stack's registers, and not written in it.
of_kind([{test, is_eq_exact, _, [A, B]} | Code], Written) ->
    Values = [R || {y, _} = R <- [register_of(A), register_of(B)], not lists:member(R, Written)],
    case Values of
        [] -> of_kind(Code, Written);
        [_ | _] -> value
    end;
of_kind([Instruction | Code], Written) when is_tuple(Instruction) ->
    Last = register_of(element(tuple_size(Instruction), Instruction)),
    of_kind(Code, [Last | Written]);
of_kind([_ | Code], Written) ->
    of_kind(Code, Written);
of_kind([], _Written) ->
    tag.

register_of({tr, Register, _Type}) -> Register;
register_of(Other) -> Other.

finding(File, #{function := Function, matches := Of}, Behaviours) ->
    {Its, What, Mend} = said(Of, Behaviours),
    %% OTP's is not the user's to mend.
    {Severity, Advice} =
        case re:run(File, "/erlang/lib/[^/]+/ebin/", [{capture, none}]) of
            match -> {note, "Call it in a process of its own, or one whose queue stays short."};
            nomatch -> {Its, Mend}
        end,
    finding(
        Severity, {searching, none, map_get(Of, #{value => 100, tag => 10})}, {Function, none}, #{
            text => [Function, What, " in the mailbox first"],
            evidence => ["In ", File, "."],
            why =>
                ~"With 100,000 messages in a mailbox each such receive takes about a millisecond.",
            advice => Advice
        }
    ).

said(value, _Behaviours) ->
    {warning, ~" waits for one certain message, and looks at all others",
        "Make the reference (make_ref, monitor, alias) in the function that waits, before the "
        "request is sent: the search then begins there. Or ask in a process of its own."};
said(tag, [Behaviour | _]) ->
    Of = [" of a ", atom_to_binary(Behaviour), " has a receive of its own"],
    {warning, [Of, ", and looks at all messages"],
        ~"Take the message in handle_info, or wait for it in a process of its own."};
said(tag, []) ->
    {note, ~" takes only some messages, and looks at all others",
        "In a main loop take all messages. In a wait for one answer keep this mailbox short, "
        "and drop nothing."}.

unreadable(File) ->
    finding(doubt, {searching, none, 0}, {dyno_recording_part:text("~ts", [File]), none}, #{
        text => dyno_recording_part:text("~ts cannot be read as a .beam file", [File]),
        advice => ~"Compile it again."
    }).

-doc false.
-spec format_error(reason()) -> unicode:chardata().
format_error({no_beams, Path}) ->
    ["there is no .beam file in ", Path, "; name a folder such as ebin, or a file"];
format_error(no_compiler) ->
    "--code needs the application compiler of Erlang/OTP, which is not installed".

-doc false.
-spec fault(reason()) -> dyno_error:fault().
fault({no_beams, _}) -> caller;
fault(no_compiler) -> dyno.
