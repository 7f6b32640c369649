%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_stack_classes).
-moduledoc false.
%% The processor time of a sample. To the runtime a process in a dirty scheduler runs, even while it
%% waits in a system call: nine that open a FIFO use no processor. Thread clocks give the time used
%% by the normal schedulers, by those for long computations and by those for input and output. So
%% samples have three classes. Pure.
%%
%% `io`: in a dirty scheduler, in an OTP function known to wait for the system there. `dirty`: in a
%% dirty scheduler, in another function. `normal`: all others.

-export([class/2, weigh/3, used_ns/2]).
-export_type([class/0, weighed/0]).

-type class() :: normal | dirty | io.

-doc """
`cpu_ns`: of all samples. `factors`: multiply the weight of a sample, so that all stand for the same
processor time. `waits`: the share of samples that waited in a call. `clocks`: whether thread clocks
are known.
""".
-type weighed() :: #{
    cpu_ns := non_neg_integer(),
    factors := #{class() => number()},
    waits := #{class() => float()},
    clocks := known | unknown
}.

-define(IO, [prim_file, prim_tty, prim_net, prim_socket]).
%% The dirty scheduler of other functions is unknown: less waiting may be chance.
-define(MUCH, 0.2).

-spec class(Ran :: normal | dirty, mfa() | unseen | burst) -> class().
class(dirty, {M, _, _}) ->
    case lists:member(M, ?IO) of
        true -> io;
        false -> dirty
    end;
class(_Ran, _Innermost) ->
    normal.

-spec weigh(#{class() => number()}, SampleNs :: number(), #{
    dyno_agent_threads:kind() => dyno_agent_threads:times()
}) -> weighed().
weigh(Weights, SampleNs, Times) ->
    #{normal := Normal, dirty_cpu := DirtyCpu, dirty_io := DirtyIo} = Times,
    Weight = fun(Class) -> maps:get(Class, Weights, 0) end,
    %% The part of the input and output schedulers' work done by the known functions.
    Io = min(1.0, Weight(io) * SampleNs / max(1, map_get(worked_ns, DirtyIo))),
    Other = [{DirtyCpu, 1.0}, {DirtyIo, 1.0 - Io}],
    Of =
        case {Weight(dirty) > 0, Weight(io) > 0} of
            {true, _} -> #{normal => [{Normal, 1.0}], dirty => Other, io => [{DirtyIo, Io}]};
            {false, true} -> #{normal => [{Normal, 1.0}, {DirtyCpu, 1.0}], io => [{DirtyIo, 1.0}]};
            {false, false} -> #{normal => [{Normal, 1.0} | Other]}
        end,
    Used =
        #{
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
        waits =>
            #{
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

%% Without a clock, waits for input and output count as no processor time.
used(_Class, #{cpu_ns := Ns}) -> Ns;
used(io, _Times) -> 0;
used(_Class, #{worked_ns := Ns}) -> Ns.

%% The threads' work time without a processor and not ready for one.
waits(Class, SeenNs, Parts) ->
    Waited = fun(#{worked_ns := Worked} = Times) ->
        Worked - used(Class, Times) - maps:get(ready_ns, Times, 0)
    end,
    case max(0.0, min(1.0, sum(Waited, Parts) / max(1, SeenNs))) of
        Share when Class =:= io; Share > ?MUCH -> Share;
        _ -> 0.0
    end.

-doc "The processor time of this wall time: less if others take the processors.".
-spec used_ns(non_neg_integer(), #{dyno_agent_threads:kind() => dyno_agent_threads:times()}) ->
    non_neg_integer().
used_ns(TookNs, #{normal := #{cpu_ns := CpuNs, worked_ns := WorkedNs}}) when WorkedNs > 0 ->
    round(TookNs * CpuNs / WorkedNs);
used_ns(TookNs, _Times) ->
    TookNs.
