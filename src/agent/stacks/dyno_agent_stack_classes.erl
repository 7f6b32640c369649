%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_classes).
-moduledoc false.
%% For how much processor time a sample stands. A process that is in a dirty scheduler runs, as the
%% runtime has it, also while it waits in a system call: nine that open a FIFO use no processor. The
%% clocks of the threads say how much was used by the normal schedulers, by those for long
%% computations and by those for input and output; so samples are of three classes. Pure.
%%
%% `io`: in a dirty scheduler, in a function of OTP's that is known to wait for the system there.
%% `dirty`: in a dirty scheduler, in another one. `normal`: all others.

-export([class/2, weigh/3, used_ns/2]).
-export_type([class/0, weighed/0]).

-type class() :: normal | dirty | io.

-doc """
`cpu_ns`: of all samples. `factors`: by what to multiply the weight of a sample, so that all stand
for as much processor time. `waits`: the share of its samples in which a process waited in a call.
`clocks`: whether the clocks of the threads are known.
""".
-type weighed() :: #{
    cpu_ns := non_neg_integer(),
    factors := #{class() => number()},
    waits := #{class() => float()},
    clocks := known | unknown
}.

-define(IO, [prim_file, prim_tty, prim_net, prim_socket]).
%% Of other functions it is not known in which dirty schedulers they ran: less waiting than that may
%% be chance.
-define(MUCH, 0.2).

-doc "The class of a sample by its innermost function.".
-spec class(Ran :: normal | dirty, mfa() | unseen | burst) -> class().
class(dirty, {M, _, _}) ->
    case lists:member(M, ?IO) of
        true -> io;
        false -> dirty
    end;
class(_Ran, _Innermost) ->
    normal.

-doc "What the samples stand for: weights by class, each for so much wall time.".
-spec weigh(#{class() => number()}, SampleNs :: number(), #{
    dyno_agent_threads:kind() => dyno_agent_threads:times()
}) -> weighed().
weigh(Weights, SampleNs, Times) ->
    #{normal := Normal, dirty_cpu := DirtyCpu, dirty_io := DirtyIo} = Times,
    Weight = fun(Class) -> maps:get(Class, Weights, 0) end,
    %% The part of the work of those for input and output that the known functions did.
    Io = min(1.0, Weight(io) * SampleNs / max(1, map_get(worked_ns, DirtyIo))),
    Other = [{DirtyCpu, 1.0}, {DirtyIo, 1.0 - Io}],
    Of =
        case {Weight(dirty) > 0, Weight(io) > 0} of
            {true, _} -> #{normal => [{Normal, 1.0}], dirty => Other, io => [{DirtyIo, Io}]};
            {false, true} -> #{normal => [{Normal, 1.0}, {DirtyCpu, 1.0}], io => [{DirtyIo, 1.0}]};
            {false, false} -> #{normal => [{Normal, 1.0} | Other]}
        end,
    Used = #{
        Class => sum(fun(T) -> used(Class, T) end, Parts)
     || Class := Parts <- Of, Weight(Class) > 0
    },
    Each = #{Class => Ns / Weight(Class) || Class := Ns <- Used},
    Base =
        case Each of
            #{normal := Ns} when Ns > 0 -> Ns;
            #{} -> lists:max([1.0e-9 | maps:values(Each)])
        end,
    #{
        cpu_ns => round(lists:sum(maps:values(Used))),
        factors => #{Class => Ns / Base || Class := Ns <- Each},
        waits => #{
            Class => waits(Class, Weight(Class) * SampleNs, Parts)
         || Class := Parts <- Of, Class =/= normal, Weight(Class) > 0
        },
        clocks =>
            case [x || _ := T <- Times, not is_map_key(cpu_ns, T)] of
                [] -> known;
                _ -> unknown
            end
    }.

sum(Value, Parts) -> lists:sum([Share * Value(Times) || {Times, Share} <- Parts]).

%% Without a clock, what waits for input and output is taken to use none.
used(_Class, #{cpu_ns := Ns}) -> Ns;
used(io, _Times) -> 0;
used(_Class, #{worked_ns := Ns}) -> Ns.

%% Of the time that the threads worked, what they had no processor for and were not ready for one.
waits(Class, SeenNs, Parts) ->
    Waited = fun(#{worked_ns := Worked} = Times) ->
        Worked - used(Class, Times) - maps:get(ready_ns, Times, 0)
    end,
    case max(0.0, min(1.0, sum(Waited, Parts) / max(1, SeenNs))) of
        Share when Class =:= io; Share > ?MUCH -> Share;
        _ -> 0.0
    end.

-doc "The processor time of what has taken so long: less, where others take the processors.".
-spec used_ns(non_neg_integer(), #{dyno_agent_threads:kind() => dyno_agent_threads:times()}) ->
    non_neg_integer().
used_ns(TookNs, #{normal := #{cpu_ns := CpuNs, worked_ns := WorkedNs}}) when WorkedNs > 0 ->
    round(TookNs * CpuNs / WorkedNs);
used_ns(TookNs, _Times) ->
    TookNs.
