%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_cpu_frames).
-moduledoc false.
%% Turns sampled addresses into stacks of functions. Names are looked up for many samples at once,
%% in a dirty scheduler, and cached for a second: newly loaded code may reuse an address.

-export([new/0, decode/3, path/3]).
-export_type([t/0, stack/0, frame/0, decoded/0]).

-opaque t() :: #{
    maps := dyno_agent_cpu_maps:t(),
    names := #{dyno_agent_cpu_nif:address() => mfa() | unknown},
    callees := #{dyno_agent_cpu_nif:address() => mfa() | unknown},
    %% When the cache expires.
    until_ms := integer()
}.

-doc """
`deep`: omitted frames. A library stands for C code that the previous function called. `scheduler`:
a thread without a process. `nameless`: code without a name.
""".
-type frame() :: mfa() | deep | {library, binary()} | scheduler | nameless.

-doc "Outermost first.".
-type stack() :: [frame(), ...].

-type decoded() :: {pid() | none, stack(), Weight :: pos_integer()}.

-define(KEPT_MS, 1000).
%% The runtime's function below every process's first function.
-define(RUNTIME, erts_beamasm).

-spec new() -> t().
new() ->
    #{
        maps => #{code => [], libraries => []},
        names => #{},
        callees => #{},
        until_ms => erlang:monotonic_time(millisecond)
    }.

-spec decode(dyno_agent_cpu_nif:session(), [dyno_agent_cpu_nif:sample()], t()) ->
    {[decoded()], t()}.
decode(_Session, [], Frames) ->
    {[], Frames};
decode(Session, Samples, Before) ->
    Frames = renewed(Session, Before),
    #{maps := Maps, names := Names, callees := Callees} = Frames,
    Atoms = erlang:system_info(atom_count),
    AllNames = known(
        lists:append([addresses(S) || S <- Samples]),
        Names,
        fun(New) -> dyno_agent_cpu_nif:names(Session, New, Atoms) end
    ),
    AllCallees = known(
        [hd(Inner) || {_, _, Where, _, _, [_ | _] = Inner, _, _} <- Samples, Where =/= jit],
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

renewed(Session, #{until_ms := UntilMs, maps := Before} = Frames) ->
    NowMs = erlang:monotonic_time(millisecond),
    case NowMs >= UntilMs of
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
                until_ms => NowMs + ?KEPT_MS
            }
    end.

known(Addresses, Known, Ask) ->
    New = lists:usort([Address || Address <- Addresses, not is_map_key(Address, Known)]),
    maps:merge(Known, maps:from_list(lists:zip(New, Ask(New)))).

%% A return address is behind its call, and may be in the next function.
addresses({_, none, _, _, _, _, _, _}) -> [];
addresses({_, _, jit, Pc, _, Inner, Outer, _}) -> [Pc | addresses(Inner, Outer)];
addresses({_, _, native, _, _, Inner, Outer, _}) -> addresses(Inner, Outer);
addresses({_, _, Back, _, _, Inner, Outer, _}) -> addresses([Back | Inner], Outer).

addresses(Inner, Outer) -> [Address - 1 || Address <- Inner ++ Outer].

-doc "The stack of a sample. `Name`: of an address; `Leaf`: of the innermost one and of C code.".
-spec path(
    dyno_agent_cpu_nif:sample(),
    fun((dyno_agent_cpu_nif:address()) -> mfa() | unknown),
    fun((dyno_agent_cpu_nif:address() | none, dyno_agent_cpu_nif:address()) -> [frame()])
) -> stack().
path({_, none, _, _, _, _, _, _}, _Name, _Leaf) ->
    [scheduler];
path({_, _, Where, Pc, _, Inner, Outer, HasGap}, Name, Leaf) ->
    Named = fun(Addresses) ->
        Names = [Name(Address - 1) || Address <- Addresses],
        {Within, End} = lists:splitwith(fun(Of) -> not is_runtime(Of) end, Names),
        case HasGap andalso Outer =:= [] of
            %% A collector moved this stack: beyond the runtime's function may be anything.
            true -> [deep || End =:= []] ++ outermost_first(Within);
            false -> outermost_first(Names)
        end
    end,
    Inmost =
        case {Where, Inner} of
            {jit, _} ->
                named(Name(Pc));
            {native, _} ->
                Leaf(callee(Inner), Pc);
            %% BIFs and NIFs are called by code that all share, which has no name.
            {Back, _} ->
                case named(Name(Back - 1)) of
                    [] -> Leaf(callee(Inner), Pc);
                    Caller -> Caller ++ Leaf(none, Pc)
                end
        end,
    case once(joined([Of || Outer =/= [], Of <- Named(Outer)], Named(Inner), HasGap) ++ Inmost) of
        [] -> [nameless];
        Path -> Path
    end.

callee([Return | _]) -> Return;
callee([]) -> none.

outermost_first(Names) -> lists:append(lists:reverse([named(Of) || Of <- Names])).

is_runtime({M, _, _}) -> M =:= ?RUNTIME;
is_runtime(unknown) -> false.

named(unknown) -> [];
named(MFA) -> [MFA || not is_runtime(MFA)].

%% If both ends meet in the same function, the gap most likely is of that function, too.
joined([], Inner, _HasGap) ->
    Inner;
joined(Outer, [], _HasGap) ->
    Outer;
joined(Outer, Inner, false) ->
    Outer ++ Inner;
joined(Outer, [First | _] = Inner, true) ->
    case lists:last(Outer) of
        First -> Outer ++ Inner;
        _ -> Outer ++ [deep | Inner]
    end.

once([Frame, Frame | Rest]) -> once([Frame | Rest]);
once([Frame | Rest]) -> [Frame | once(Rest)];
once([]) -> [].
