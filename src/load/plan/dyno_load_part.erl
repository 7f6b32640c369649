%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_load_part).
-moduledoc false.
%% The parts of a load, in sequence: phases, probes, or one part. Pure.

-export([parts/2, at_rate/4]).
-export_type([t/0]).

-type t() :: #{
    name := binary(),
    model := closed | open,
    workers := pos_integer(),
    max_workers := pos_integer(),
    duration_ns := pos_integer(),
    operations := dyno_load_spec:operations() | undefined,
    seed := integer(),
    %% Open loads only.
    schedule => dyno_load_schedule:schedule(),
    %% If constant.
    rate_per_s => number(),
    'of' => search,
    %% Closed loads only.
    think => dyno_load_spec:think(),
    iterations => {all | each, pos_integer()}
}.

-spec parts(dyno_load_spec:load(), #{
    duration_ms := pos_integer(),
    seed := integer(),
    operations => dyno_load_spec:operations() | undefined
}) -> [t()].
parts(#{model := phases, phases := Phases} = Load, Defaults) ->
    #{duration_ms := DurationMs, seed := Seed} = Defaults,
    Each = max(50, DurationMs div length(Phases)),
    [
        part(
            maps:merge(maps:with([operations], Load), Phase),
            Defaults#{duration_ms := Each, seed := Seed + Nth - 1},
            Nth
        )
     || {Nth, Phase} <- lists:enumerate(Phases)
    ];
parts(Load, Defaults) ->
    [part(Load, Defaults, 1)].

part(#{model := Model, workers := Workers} = Load, Defaults, Nth) ->
    #{duration_ms := Default, seed := Seed} = Defaults,
    DurationNs = maps:get(duration_ms, Load, Default) * 1_000_000,
    Part = #{
        name => maps:get(name, Load, <<"phase ", (integer_to_binary(Nth))/binary>>),
        model => Model,
        workers => Workers,
        max_workers => maps:get(max_workers, Load, Workers),
        duration_ns => DurationNs,
        operations => maps:get(operations, Load, maps:get(operations, Defaults, undefined)),
        seed => Seed
    },
    case Load of
        #{model := closed} ->
            Thinking = Part#{think => maps:get(think_time_ms, Load, 0)},
            case Load of
                #{iterations := {each, N}} -> Thinking#{iterations => {each, N}};
                #{iterations := N} -> Thinking#{iterations => {all, N}};
                #{} -> Thinking
            end;
        #{model := search} ->
            #{from_per_s := Rate, probe_ms := ProbeMs} = Load,
            at_rate(Rate, ProbeMs, Part, Load);
        #{model := open} ->
            Schedule = schedule(Load, DurationNs, Seed),
            %% A recorded curve sets its own length.
            Length =
                case Load of
                    #{arrivals := Arrivals} when is_tuple(Arrivals) ->
                        max(50_000_000, dyno_load_schedule:length_ns(Schedule));
                    #{} ->
                        DurationNs
                end,
            Scheduled = Part#{schedule => Schedule, duration_ns := Length},
            case Load of
                #{rate_per_s := Rate} when is_number(Rate) -> Scheduled#{rate_per_s => Rate};
                #{} -> Scheduled
            end
    end.

-spec at_rate(number(), pos_integer(), t() | map(), dyno_load_spec:load()) -> t().
at_rate(Rate, DurationMs, #{seed := Seed} = Part, Load) ->
    LengthNs = DurationMs * 1_000_000,
    Schedule = schedule(
        (maps:with([arrivals], Load))#{model => open, rate_per_s => Rate}, LengthNs, Seed
    ),
    Part#{
        model := open,
        schedule => Schedule,
        rate_per_s => Rate,
        duration_ns := LengthNs,
        name := <<"at ", (dyno_unit:format(Rate, ~"1/s"))/binary>>
    }.

schedule(#{arrivals := {counts, IntervalMs, Counts}} = Load, DurationNs, _Seed) ->
    dyno_load_schedule:new({counts, Counts, IntervalMs * 1_000_000}, own(Load, DurationNs), even);
schedule(#{arrivals := {times_ms, Times}} = Load, DurationNs, _Seed) ->
    %% Relative to the first: a log has times of day.
    Sorted = lists:sort(Times),
    Due = [round((Time - hd(Sorted)) * 1_000_000) || Time <- Sorted],
    dyno_load_schedule:new({times, Due}, own(Load, DurationNs), even);
schedule(#{rate_per_s := Rate} = Load, DurationNs, Seed) ->
    Pacing =
        case Load of
            #{arrivals := poisson} -> {poisson, Seed};
            #{} -> even
        end,
    Curve =
        case Rate of
            {spike, #{base := Base, peak := Peak, at_ms := AtMs, for_ms := ForMs}} ->
                At = min(DurationNs, AtMs * 1_000_000),
                {spike, Base, Peak, At, max(1, min(DurationNs - At, ForMs * 1_000_000))};
            _ when is_number(Rate) ->
                {constant, Rate};
            _ ->
                Rate
        end,
    dyno_load_schedule:new(Curve, DurationNs, Pacing).

%% The test's general duration does not cut a recorded curve; the curve's own duration does.
own(#{duration_ms := _}, DurationNs) -> DurationNs;
own(_Load, _DurationNs) -> 1 bsl 62.
