%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_breakpoints).
-moduledoc false.
%% Counts and times callbacks by breakpoints in a trace session of its own, set at the functions
%% through which gen_server, gen_statem and gen_event call all callbacks. call_count counts them for
%% the whole node and flags no process. call_time and call_memory measure flagged processes. A flag
%% costs its process some 150 ns a message, so only the processes that need one are flagged.
%%
%% All these functions are of stdlib, which no node purges: purging a timed module can crash a node.
%% Handlers of event managers are user code, so only the level time times them.
%%
%% A gen_server or gen_statem flags itself at its beginning, for figures after an early end.
%%
%% Reading a function's times stops all schedulers for 0.1 ms, a restart for 0.3 ms: read only if a
%% process is flagged, and seldom restarted. A window is the difference of two readings.

-export([open/0, speed/1, close/1, flag/4, births/2, handlers/2, read/3, add/2]).
-export_type([t/0, rate/0, times/0]).

-opaque t() :: #{
    session := trace:session(),
    %% By callback name; those of gen_server, which are counted; the handlers' modules.
    functions := [{binary(), mfa()}],
    counted := [{call | cast | info | continue, mfa()}],
    %% The counts at the last reading.
    before := rate(),
    base := #{mfa() => #{pid() => {non_neg_integer(), non_neg_integer(), integer()}}},
    %% Whether a process was flagged at the last reading.
    flagged := boolean(),
    births := [{gen_server | gen_statem, [term()]}],
    handlers := [module()]
}.

-type rate() :: #{call | cast | info | continue => non_neg_integer()}.
-type times() :: #{
    pid() => #{
        Callback ::
            binary() => {Count :: non_neg_integer(), CpuNs :: non_neg_integer(), Words :: integer()}
    }
}.

-define(MEASURES, [call_time, call_memory]).
-define(MOST_HANDLERS, 50).
-define(MOST_ROWS, 5000).
%% Breakpoints that take longer, as with long native calls, would take as long to read.
-define(SET_MS, 3000).

-doc "Without functions if the breakpoints could not be set in time.".
-spec open() -> t().
open() ->
    Session = trace:session_create(dyno_servers, self(), []),
    Counted = [
        {Kind, Function}
     || {Kind, Name} <- [
            {call, try_handle_call},
            {cast, try_handle_cast},
            {info, try_handle_info},
            {continue, try_handle_continue}
        ],
        Function <- local(gen_server, Name)
    ],
    Served = [{<<"handle_", (atom_to_binary(Kind))/binary>>, MFA} || {Kind, MFA} <- Counted],
    %% OTP 29 has one arity of this function; otherwise the largest one calls the callback.
    Events = [
        {~"(event)", MFA}
     || MFA <- lists:sublist(lists:reverse(local(gen_statem, loop_state_callback)), 1)
    ],
    %% One message of an event manager, for any number of handlers, known or not.
    Messages = [{~"(message)", MFA} || MFA <- local(gen_event, handle_msg)],
    All =
        [{MFA, [call_count | ?MEASURES]} || {_, MFA} <- Served] ++
            [{MFA, ?MEASURES} || {_, MFA} <- Events ++ Messages],
    Set = fun({MFA, Measures}, Sum) -> Sum + trace:function(Session, MFA, true, Measures) end,
    {_, Left} = dyno_agent_process:within(?SET_MS, Set, 0, All),
    IsSet = Left =:= [],
    #{
        session => Session,
        functions => [Of || IsSet, Of <- Served ++ Events ++ Messages],
        counted => [Of || IsSet, Of <- Counted],
        before => #{},
        base => #{},
        flagged => false,
        births => [],
        handlers => []
    }.

local(Module, Name) ->
    lists:sort([{Module, F, A} || {F, A} <- Module:module_info(functions), F =:= Name]).

-doc "Whether breakpoints can be set in time.".
-spec speed(t()) -> fast | slow.
speed(#{functions := []}) -> slow;
speed(_Times) -> fast.

-spec close(t()) -> ok.
close(#{session := Session}) ->
    _ = trace:session_destroy(Session),
    ok.

-doc """
Starts or stops timing a process by the flag `call`. 0.2 ms. Stopped for a while, it has a flag that
traces nothing: else the return of its callback is not seen, and all later time is the callback's.
""".
-spec flag([atom()], pid(), boolean() | gone, t()) -> ok.
flag(Flags, Pid, How, #{session := Session}) ->
    try
        _ = trace:process(Session, Pid, How =:= true, Flags ++ [arity || How =/= false]),
        ok
    catch
        error:badarg -> ok
    end.

-doc "Lets processes flag themselves that begin with these arguments of `init_it/6`.".
-spec births([{gen_server | gen_statem, [term()]}], t()) -> t().
births(Births, #{births := Births} = Times) ->
    Times;
births(Births, #{session := Session} = Times) ->
    Body = [{message, false}, {trace, [], [call, arity]}],
    Flag = fun(Behaviour) ->
        Spec =
            case [{Head, [], Body} || {Of, Head} <- Births, Of =:= Behaviour] of
                [] -> false;
                Heads -> Heads
            end,
        trace:function(Session, {Behaviour, init_it, 6}, Spec, [meta])
    end,
    lists:foreach(Flag, [gen_server, gen_statem]),
    Times#{births := Births}.

-spec handlers([module()], t()) -> t().
handlers(Modules, #{handlers := Known, session := Session, functions := Functions} = Times) ->
    New = lists:sublist(lists:usort(Modules) -- Known, max(0, ?MOST_HANDLERS - length(Known))),
    More = [
        {
            <<(dyno_agent_name:module(Module))/binary, ": ", (atom_to_binary(Function))/binary>>,
            {Module, Function, 2}
        }
     || Module <- New, Function <- [handle_event, handle_info, handle_call]
    ],
    %% The module may have been loaded anew.
    Lost = [
        Of
     || {_, {Module, _, _} = MFA} = Of <- Functions,
        lists:member(Module, Known),
        trace:info(Session, MFA, call_time) =:= {call_time, false}
    ],
    lists:foreach(fun({_, MFA}) -> trace:function(Session, MFA, true, ?MEASURES) end, Lost ++ More),
    Times#{handlers := Known ++ New, functions := Functions ++ More}.

-doc "The counts and times since the last restart. `Flagged`: whether a process is flagged now.".
-spec read(restart | go_on, boolean(), t()) -> {rate(), times(), t()}.
read(How, Flagged, #{session := Session} = Breakpoints) ->
    #{counted := Counted, before := Before, base := Base} = Breakpoints,
    Now = #{Kind => count(trace:info(Session, MFA, call_count)) || {Kind, MFA} <- Counted},
    Rate = #{Kind => Count - maps:get(Kind, Before, 0) || Kind := Count <- Now},
    Read = [
        {Name, MFA, read_one(MFA, Session)}
     || {Name, MFA} <- functions_due(Flagged, Breakpoints)
    ],
    Timed = [
        {Pid, {Name, Since}}
     || {Name, MFA, Rows} <- Read,
        Pid := Time <- Rows,
        Since <- since(Time, maps:get(Pid, maps:get(MFA, Base, #{}), none))
    ],
    ByPid = maps:groups_from_list(fun({Pid, _}) -> Pid end, fun({_, Time}) -> Time end, Timed),
    Of = #{Pid => maps:from_list(Times) || Pid := Times <- ByPid},
    case How of
        restart ->
            Kept = maps:merge(Base, #{MFA => kept(MFA, Rows, Session) || {_, MFA, Rows} <- Read}),
            {Rate, Of, Breakpoints#{before := Now, flagged := Flagged, base := Kept}};
        go_on ->
            {Rate, Of, Breakpoints}
    end.

%% A reading stops all schedulers, and so waits for the longest call that runs on one.
functions_due(Flagged, #{functions := Functions, flagged := Was}) ->
    [Function || Function <- Functions, Flagged orelse Was].

%% If a callback began in an earlier window, the count is 0.
since({Count, Ns, Words}, {Count0, Ns0, Words0}) when Count >= Count0, Ns >= Ns0 ->
    [{Count - Count0, Ns - Ns0, Words - Words0} || Count + Ns > Count0 + Ns0];
%% A new row, or the code was loaded anew.
since({Count, Ns, _} = Now, _Before) ->
    [Now || Count + Ns > 0].

%% Calls between the reading and a restart are lost: restart only if ended processes left many rows.
kept(MFA, Rows, Session) when map_size(Rows) > ?MOST_ROWS ->
    _ = trace:function(Session, MFA, restart, ?MEASURES),
    #{};
kept(_MFA, Rows, _Session) ->
    Rows.

-spec add(times(), times()) -> times().
add(Times, More) ->
    Add = fun(_, {N, Ns, Words}, {M, Ns2, Words2}) -> {N + M, Ns + Ns2, Words + Words2} end,
    maps:merge_with(fun(_, A, B) -> maps:merge_with(Add, A, B) end, Times, More).

read_one(MFA, Session) ->
    {all, Info} = trace:info(Session, MFA, all),
    Words = #{Pid => Of || {Pid, _, Of} <- rows(call_memory, Info)},
    #{
        Pid => {Count, S * 1_000_000_000 + Us * 1000, maps:get(Pid, Words, 0)}
     || {Pid, Count, S, Us} <- rows(call_time, Info)
    }.

count({call_count, Count}) when is_integer(Count) -> Count;
count(_None) -> 0.

rows(Measure, Info) ->
    [Row || is_list(Info), {Of, [_ | _] = Rows} <- Info, Of =:= Measure, Row <- Rows].
