%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_life).
-moduledoc false.
%% How gen_servers begin and end, and gen_statems begin: the times of init and terminate, the
%% end of a callback that the hook cannot see, and a failing init. No serving process is flagged:
%%
%%   gen_server:init_it/6     meta breakpoint: the process flags itself
%%   gen_server:init_it/2     call, return      the time of init
%%   gen_statem:init_it/6     meta breakpoint: the process flags itself
%%   gen_statem:init_result/8, or
%%   gen_statem:error_info/7  call, with the module
%%   gen:name/1, or
%%   gen:get_proc_name/1      call, with the name
%%   proc_lib:init_ack/2                        it takes the flags off
%%   proc_lib:exit_p/3        call              otherwise its init has failed
%%   gen_server:terminate     meta breakpoint: the process flags itself, and ends soon
%%   gen_server:try_terminate call, return      the time of terminate
%%
%% Also the events that a stage of GenStage throws away; one private function knows their number:
%%
%%   GenStage:maybe_format_discarded/3   meta breakpoint: the process flags itself
%%   Module:format_discarded/2, or
%%   error_logger:warning_msg/2          call, with the number; it takes the flags off
%%
%% The flags' timestamps tell a stop from an exception. Messages hold no state and no argument; if
%% they exceed some ten thousand a second, the session is closed for a while.

-export([open/1, close/1, is_open/1, event/2, tick/1, ending/2, stages/2, window/2]).
%% Exported for its order
-export([breakpoints/0]).
-export_type([t/0, ending/0, birth/0]).

-opaque t() :: #{
    %% The session, the ticks until the session is opened again, or none if that takes too long.
    session := trace:session() | pos_integer() | none,
    events := non_neg_integer(),
    begun := #{pid() => {module(), integer()}},
    %% The name of those that begin.
    names := #{pid() => name()},
    endings := #{pid() => ending()},
    %% Whether GenStage is traced; the events that stages threw away in this window.
    stages := none | traced,
    discarded := #{pid() => non_neg_integer()},
    %% Whether the session was open in all of this window.
    followed := boolean()
}.

-doc "How and when a process terminated, and how long; `failed` is a stop that counts as a crash.".
-type ending() :: {
    exception | stop | failed | {init, Why :: term()},
    At :: integer(),
    Ns :: non_neg_integer() | unknown
}.

-doc "The local name, or that of `global` or a `via` module.".
-type name() :: atom() | {named, term()}.

-type birth() :: {
    pid(),
    {gen_server | gen_statem, module(), name()},
    At :: integer(),
    InitNs :: non_neg_integer() | unknown
}.

-define(FLAGS, [call, arity, return_to, monotonic_timestamp, strict_monotonic_timestamp]).
-define(EXCEPTION, [call, arity, return_to, monotonic_timestamp]).
-define(BIRTH, [call, arity, monotonic_timestamp]).
%% The message is made with the remaining flags: without arity the message would hold the arguments.
-define(FLAG_OFF, {trace, [call], []}).
-define(DISCARDS, [call, arity, monotonic_timestamp]).
-define(STOP, [call, arity, return_to, strict_monotonic_timestamp]).
-define(GEN_STAGE, 'Elixir.GenStage').
%% As in dyno_agent_server_breakpoints.
-define(SET_MS, 3000).
-define(MOST_EVENTS, 20_000).
-define(CLOSED_TICKS, 10).
-define(MOST_KEPT, 5000).

-doc "Traces nothing if breakpoints take too long.".
-spec open(fast | slow) -> t().
open(Breakpoints) ->
    #{
        session =>
            case Breakpoints of
                fast -> open_session();
                slow -> none
            end,
        events => 0,
        begun => #{},
        names => #{},
        endings => #{},
        stages => none,
        discarded => #{},
        followed => Breakpoints =:= fast
    }.

open_session() ->
    Session = trace:session_create(dyno_server_life, self(), []),
    Set = fun({Function, Spec, Options}, Sum) ->
        Sum + trace:function(Session, Function, Spec, Options)
    end,
    case dyno_agent_process:within(?SET_MS, Set, 0, breakpoints()) of
        {_, []} ->
            Session;
        _ ->
            _ = spawn(trace, session_destroy, [Session]),
            none
    end.

-doc false.
-spec breakpoints() -> [{mfa(), list(), list()}].
breakpoints() ->
    Begins = fun(Behaviour, Flags) ->
        %% A message of a meta breakpoint would hold the arguments.
        {{Behaviour, init_it, 6}, [{'_', [], [{message, false}, {trace, [], Flags}]}], [meta]}
    end,
    Names = [
        {[{local, '$1'}], [], [{message, '$1'}]},
        {[{global, '$1'}], [], [{message, {{named, '$1'}}}]},
        {[{via, '_', '$1'}], [], [{message, {{named, '$1'}}}]},
        {'_', [], [{message, false}]}
    ],
    Ends = [normal, shutdown, {shutdown, '_'}],
    Fails = [
        {['_', Reason, '_'], Guards, [{message, Why}]}
     || {Reason, Guards, Why} <- [{Reason, [], false} || Reason <- Ends] ++ [
            {'$1', [{is_atom, '$1'}], '$1'},
            {'$1', [{is_tuple, '$1'}, {is_atom, {element, 1, '$1'}}], {element, 1, '$1'}},
            {'_', [], exception}
        ]
    ],
    Module = [{['_', '_', '_', '$1', '_', '_', '_', '_'], [], [{message, '$1'}]}],
    %% Its parameters have a list of the modules, at a position of its own in each release.
    Raises = [
        {['_', '_', '_', '_', '$1', '_', '_'], [{is_atom, {hd, {element, N, '$1'}}}], [
            {message, {hd, {element, N, '$1'}}}
        ]}
     || N <- lists:seq(2, 10)
    ],
    InitAck = [{'_', [], [{message, false}, {trace, ?FLAGS, []}]}],
    %% A module, reason and state, or, in OTP 29, data of the server, state and reason.
    Stops =
        [
            {Arguments, [{Is, '$1'}], []}
         || Reason <- Ends,
            {Is, Arguments} <- [{is_atom, ['$1', Reason, '_']}, {is_tuple, ['$1', '_', Reason]}]
        ] ++ [{'_', [], [{message, failed}]}],
    Functions = gen_server:module_info(functions),
    Terminates = [{gen_server, F, A} || {F, A} <- Functions, F =:= terminate],
    %% A process flags itself only after the breakpoints that would take the flags off.
    [
        {{proc_lib, init_ack, 2}, InitAck, [local]},
        %% The module: otherwise a process that ends soon stays unknown.
        {{gen_server, init_it, 2}, [{['$1', '_'], [], [{message, '$1'}]}], [local]},
        {{gen_statem, init_result, 8}, Module, [local]},
        {{gen_statem, error_info, 7}, Raises, [local]},
        {{gen, name, 1}, Names, [local]},
        {{gen, get_proc_name, 1}, Names, [local]},
        {{proc_lib, exit_p, 3}, Fails, [local]},
        {{gen_server, try_terminate, 3}, Stops, [local]},
        Begins(gen_server, ?EXCEPTION),
        %% The time of a gen_statem's init is unknown.
        Begins(gen_statem, ?BIRTH)
        | [
            {End, [{'_', [], [{message, false}, {trace, [], Flags}]}], [meta]}
         || %% Both call the last one.
            [Stop, Exception, _] <- [lists:sort(Terminates)],
            {End, Flags} <- [{Stop, ?STOP}, {Exception, ?EXCEPTION}]
        ]
    ].

-spec close(t()) -> ok.
close(#{session := Session} = Life) ->
    _ = [trace:session_destroy(Session) || is_open(Life)],
    ok.

-spec is_open(t()) -> boolean().
is_open(#{session := Session}) -> not is_integer(Session) andalso Session =/= none.

-spec tick(t()) -> t().
tick(#{session := none} = Life) ->
    Life;
tick(#{session := 1} = Life) ->
    Life#{session := open_session()};
tick(#{session := Ticks} = Life) when is_integer(Ticks) ->
    Life#{session := Ticks - 1};
tick(#{begun := Begun, names := Names, endings := Endings} = Life) ->
    Life#{events := 0, begun := few(Begun), names := few(Names), endings := few(Endings)}.

few(Map) when map_size(Map) > ?MOST_KEPT -> #{};
few(Map) -> Map.

-spec event(tuple(), t()) ->
    {begins, birth(), t()} | {none, t()}.
event(_Message, #{events := ?MOST_EVENTS} = Life) ->
    ok = close(Life),
    {none, Life#{session := ?CLOSED_TICKS, events := 0, stages := none, followed := false}};
event(Message, #{events := Events} = Life) ->
    told(Message, Life#{events := Events + 1}).

told({trace_ts, Pid, call, _Function, Count, _At}, #{discarded := Discarded} = Life) when
    is_integer(Count)
->
    {none, Life#{discarded := Discarded#{Pid => Count + maps:get(Pid, Discarded, 0)}}};
told({trace_ts, Pid, call, {gen, _, 1}, Name, _At}, #{names := Names} = Life) ->
    {none, Life#{names := Names#{Pid => Name}}};
told({trace_ts, Pid, call, {gen_server, init_it, 2}, Module, At}, #{begun := Begun} = Life) ->
    {none, Life#{begun := Begun#{Pid => {Module, At}}}};
told({trace_ts, Pid, call, {gen_statem, _, _}, Module, At}, Life) ->
    begins(gen_statem, Pid, Module, {At, unknown}, Life);
told({trace_ts, Pid, call, {proc_lib, exit_p, 3}, Why, At}, #{endings := Endings} = Life) when
    not is_map_key(Pid, Endings)
->
    {none, Life#{endings := Endings#{Pid => {{init, Why}, monotonic(At), unknown}}}};
told({trace_ts, Pid, return_to, {gen_server, init_it, 6}, End}, #{begun := All} = Life) ->
    case maps:take(Pid, All) of
        {{Module, At}, Begun} ->
            begins(gen_server, Pid, Module, {At, End - At}, Life#{begun := Begun});
        error ->
            {none, Life}
    end;
told({trace_ts, Pid, call, {gen_server, try_terminate, 3}, At}, Life) ->
    terminates(Pid, stop, At, Life);
told({trace_ts, Pid, call, {gen_server, try_terminate, 3}, failed, At}, Life) ->
    terminates(Pid, failed, At, Life);
told({trace_ts, Pid, return_to, {gen_server, terminate, _}, Time}, #{endings := Endings} = Life) ->
    case Endings of
        #{Pid := {How, At, unknown}} ->
            {none, Life#{endings := Endings#{Pid := {How, At, monotonic(Time) - At}}}};
        #{} ->
            {none, Life}
    end;
told(_Other, Life) ->
    {none, Life}.

terminates(Pid, Stop, {_, _} = At, #{endings := Endings} = Life) ->
    {none, Life#{endings := Endings#{Pid => {Stop, monotonic(At), unknown}}}};
terminates(Pid, _Raised, At, #{endings := Endings} = Life) ->
    {none, Life#{endings := Endings#{Pid => {exception, At, unknown}}}}.

begins(Behaviour, Pid, Module, {At, InitNs}, #{names := Names} = Life) ->
    Birth = {Pid, {Behaviour, Module, maps:get(Pid, Names, undefined)}, At, InitNs},
    {begins, Birth, Life#{names := maps:remove(Pid, Names)}}.

monotonic({Time, _}) -> Time;
monotonic(Time) -> Time.

-spec ending(pid(), t()) -> {ending() | none, t()}.
ending(Pid, #{endings := Endings} = Life) ->
    {maps:get(Pid, Endings, none), Life#{endings := maps:remove(Pid, Endings)}}.

-spec stages([module()], t()) -> t().
stages([], Life) ->
    Life;
stages(_Modules, #{session := Session} = Life) when is_integer(Session); Session =:= none ->
    Life;
stages(Modules, #{stages := none, session := Session} = Life) ->
    Flag = [{message, false}, {trace, [], ?DISCARDS}],
    Private = {?GEN_STAGE, maybe_format_discarded, 3},
    case trace:function(Session, Private, [{'_', [], Flag}], [meta]) of
        0 ->
            Life;
        _ ->
            ok = counts({error_logger, warning_msg, 2}, ['_', ['_', '$1']], Session),
            stages(Modules, Life#{stages := traced})
    end;
stages(Modules, #{session := Session} = Life) ->
    Callbacks = [{Of, format_discarded, 2} || Of <- lists:usort(Modules)],
    %% New, or the code was loaded anew.
    Untraced = [Of || Of <- Callbacks, trace:info(Session, Of, traced) =:= {traced, false}],
    lists:foreach(fun(Of) -> counts(Of, ['$1', '_'], Session) end, Untraced),
    Life.

counts(Function, Arguments, Session) ->
    Body = [{message, '$1'}, ?FLAG_OFF],
    _ = trace:function(Session, Function, [{Arguments, [], Body}], [local]),
    ok.

-doc "The events that stages threw away, and whether all beginnings and ends were followed.".
-spec window(restart | go_on, t()) ->
    {#{pid() => non_neg_integer()} | unknown, Followed :: boolean(), t()}.
window(How, #{stages := Stages, discarded := Discarded, followed := Followed} = Life) ->
    Told =
        case Stages of
            none -> unknown;
            traced -> Discarded
        end,
    case How of
        go_on -> {Told, Followed, Life};
        restart -> {Told, Followed, Life#{discarded := #{}, followed := is_open(Life)}}
    end.
