%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_cpu_frames).
-moduledoc false.
%% Makes stacks of functions from sampled addresses. Names are looked up for many samples at once, in
%% a dirty scheduler, and are kept for two seconds: code that is loaded later may come to an address
%% that other code had.

-export([new/0, decode/3, path/3, innermost/1]).
-export_type([t/0, stack/0, frame/0, decoded/0]).

-opaque t() :: #{
    maps := dyno_agent_cpu_maps:t(),
    names := #{dyno_agent_cpu_nif:address() => mfa() | unknown},
    callees := #{dyno_agent_cpu_nif:address() => mfa() | unknown},
    %% When all is read anew.
    until_ms := integer(),
    %% When that may be, if there is code of a library that is not known.
    from_ms := integer()
}.

-doc """
`deep`: frames that are left out. A library is where C code ran that the function before it called.
`scheduler`: a thread that ran no process. `nameless`: a process ran code that has no name.
""".
-type frame() :: mfa() | deep | {library, binary()} | scheduler | nameless.

-doc "The outermost first.".
-type stack() :: [frame(), ...].

-type decoded() :: {pid() | none, stack(), Weight :: pos_integer()}.

-define(KEPT_MS, 2000).
-define(LEAST_MS, 1000).
%% What calls every process's first function, and is none of its own.
-define(RUNTIME, erts_beamasm).

-doc "Nothing is known yet.".
-spec new() -> t().
new() ->
    #{
        maps => #{code => [], libraries => []},
        names => #{},
        callees => #{},
        until_ms => erlang:monotonic_time(millisecond),
        from_ms => erlang:monotonic_time(millisecond)
    }.

-doc "The stacks of samples.".
-spec decode(dyno_agent_cpu_nif:session(), [dyno_agent_cpu_nif:sample()], t()) ->
    {[decoded()], t()}.
decode(_Session, [], Frames) ->
    {[], Frames};
decode(Session, Samples, Before) ->
    Frames = renewed(Session, Samples, Before),
    #{maps := Maps, names := Names, callees := Callees} = Frames,
    Atoms = erlang:system_info(atom_count),
    AllNames = known(
        lists:append([addresses(S) || S <- Samples]),
        Names,
        fun(New) -> dyno_agent_cpu_nif:names(Session, New, Atoms) end
    ),
    AllCallees = known(
        [hd(Inner) || {_, _, native, _, _, [_ | _] = Inner, _, _} <- Samples],
        Callees,
        fun(New) -> dyno_agent_cpu_nif:callees(Session, New, Atoms) end
    ),
    Name = fun(Address) -> map_get(Address, AllNames) end,
    Leaf = fun(Address, Pc) ->
        [Callee || Callee <- [maps:get(Address, AllCallees, unknown)], Callee =/= unknown] ++
            [{library, dyno_agent_cpu_maps:library(Pc, Maps)}]
    end,
    {
        [
            {Pid, path(Sample, Name, Leaf), Weight}
         || {_, Pid, _, _, Weight, _, _, _} = Sample <- Samples
        ],
        Frames#{names := AllNames, callees := AllCallees}
    }.

renewed(Session, Samples, #{until_ms := UntilMs, from_ms := FromMs, maps := Before} = Frames) ->
    NowMs = erlang:monotonic_time(millisecond),
    IsNew = fun({_, Pid, Where, Pc, _, _, _, _}) ->
        Pid =/= none andalso Where =:= native andalso
            dyno_agent_cpu_maps:library(Pc, Before) =:= dyno_agent_cpu_maps:unknown()
    end,
    case NowMs >= UntilMs orelse (NowMs >= FromMs andalso lists:any(IsNew, Samples)) of
        false ->
            Frames;
        true ->
            Maps =
                case dyno_agent_cpu_maps:read() of
                    {ok, #{code := Code} = Now} ->
                        ok = dyno_agent_cpu_nif:code(Session, Code),
                        Now;
                    {error, _} ->
                        Before
                end,
            #{
                maps => Maps,
                names => #{},
                callees => #{},
                until_ms => NowMs + ?KEPT_MS,
                from_ms => NowMs + ?LEAST_MS
            }
    end.

known(Addresses, Known, Ask) ->
    New = lists:usort([Address || Address <- Addresses, not is_map_key(Address, Known)]),
    maps:merge(Known, maps:from_list(lists:zip(New, Ask(New)))).

%% A return address is behind the call that it is of, and may be in the next function.
addresses({_, none, _, _, _, _, _, _}) -> [];
addresses({_, _, jit, Pc, _, Inner, Outer, _}) -> [Pc | addresses(Inner, Outer)];
addresses({_, _, native, _, _, Inner, Outer, _}) -> addresses(Inner, Outer).

addresses(Inner, Outer) -> [Address - 1 || Address <- Inner ++ Outer].

-doc """
The stack of a sample: `Name` of an address, `Leaf` of the innermost return address and of where C
code is.
""".
-spec path(
    dyno_agent_cpu_nif:sample(),
    fun((dyno_agent_cpu_nif:address()) -> mfa() | unknown),
    fun((dyno_agent_cpu_nif:address() | none, dyno_agent_cpu_nif:address()) -> [frame()])
) -> stack().
path({_, none, _, _, _, _, _, _}, _Name, _Leaf) ->
    [scheduler];
path({_, _, Where, Pc, _, Inner, Outer, HasGap}, Name, Leaf) ->
    Named = fun(Addresses) ->
        lists:foldl(
            fun(Address, Acc) -> named(Name(Address - 1)) ++ Acc end,
            [],
            Addresses
        )
    end,
    Inmost =
        case {Where, Inner} of
            {jit, _} -> named(Name(Pc));
            {native, [Return | _]} -> Leaf(Return, Pc);
            {native, []} -> Leaf(none, Pc)
        end,
    case once(joined(Named(Outer), Named(Inner), HasGap) ++ Inmost) of
        [] -> [nameless];
        Path -> Path
    end.

named(unknown) -> [];
named({?RUNTIME, _, _}) -> [];
named(MFA) -> [MFA].

%% If both ends meet in the same function, what is between them is most likely of that, too.
joined([], Inner, _HasGap) -> Inner;
joined(Outer, [], _HasGap) -> Outer;
joined(Outer, Inner, false) -> Outer ++ Inner;
joined(Outer, [First | _] = Inner, true) ->
    case lists:last(Outer) of
        First -> Outer ++ Inner;
        _ -> Outer ++ [deep | Inner]
    end.

%% A function that calls itself is one frame.
once([Frame, Frame | Rest]) -> once([Frame | Rest]);
once([Frame | Rest]) -> [Frame | once(Rest)];
once([]) -> [].

-doc "The function that a stack counts for as its own time: C code counts for its caller.".
-spec innermost(stack()) -> mfa() | none.
innermost(Stack) ->
    case [MFA || {_, _, _} = MFA <- lists:reverse(Stack)] of
        [Inmost | _] -> Inmost;
        [] -> none
    end.
