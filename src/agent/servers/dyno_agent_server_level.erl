%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_level).
-moduledoc false.
%% The level of measuring: as configured, or lower if the node is overloaded or measuring costs too
%% much: three seconds in a row lower the level, thirty calm ones raise it. Pure.

-export([new/3, observe/2, level/1, why/1]).
-export_type([t/0, observation/0]).

-opaque t() :: #{
    asked := dyno_agent_servers:level(),
    now := dyno_agent_servers:level(),
    share := float(),
    why := none | binary(),
    too_much := non_neg_integer(),
    calm := non_neg_integer()
}.

-type observation() :: #{
    %% Ready processes per scheduler; the schedulers' busy share.
    run_queue := number(),
    busy := float(),
    cost := float()
}.

-define(LONG_RUN_QUEUE, 5).
-define(BUSY, 0.95).
-define(TOO_MUCH, 3).
-define(CALM, 30).

-doc "The lowest level if breakpoints could not be set in time.".
-spec new(dyno_agent_servers:level(), float(), Breakpoints :: fast | slow) -> t().
new(_Level, Share, slow) ->
    Why = ~"breakpoints took longer than 3 s, so callbacks are not counted",
    (new(rate, Share, fast))#{why := Why};
new(auto, Share, fast) ->
    new(distribution, Share, fast);
new(Level, Share, fast) ->
    #{asked => Level, now => Level, share => Share, why => none, too_much => 0, calm => 0}.

-spec observe(observation(), t()) -> t().
observe(Observation, #{now := Now, too_much := TooMuch, calm := Calm} = Level) ->
    case is_too_much(Observation, Level) of
        {true, Why} when TooMuch + 1 >= ?TOO_MUCH ->
            changed(below(Now), Level#{why := Why});
        {true, _} ->
            Level#{too_much := TooMuch + 1, calm := 0};
        false when map_get(asked, Level) =:= Now ->
            Level#{too_much := 0};
        false when Calm + 1 >= ?CALM ->
            changed(above(Now), Level);
        false ->
            Level#{too_much := 0, calm := Calm + 1}
    end.

is_too_much(#{cost := Cost}, #{share := Share, now := Now}) when Cost > Share, Now =/= rate ->
    {true,
        text("measuring took ~.1f % of the schedulers' time, ~.1f % is allowed", [
            100 * Cost, 100 * Share
        ])};
is_too_much(#{run_queue := Queue, busy := Busy}, #{now := Now}) when
    Queue > ?LONG_RUN_QUEUE, Busy > ?BUSY, Now =/= rate
->
    {true, text("the node is overloaded: ~.1f processes wait for each scheduler", [float(Queue)])};
is_too_much(_Observation, _Level) ->
    false.

changed(Now, #{asked := Now} = Level) ->
    Level#{now := Now, why := none, too_much := 0, calm := 0};
changed(Now, Level) ->
    Level#{now := Now, too_much := 0, calm := 0}.

below(each) -> distribution;
below(distribution) -> time;
below(time) -> rate;
below(rate) -> rate.

above(rate) -> time;
above(time) -> distribution;
above(distribution) -> each.

text(Format, Arguments) ->
    <<_/binary>> = unicode:characters_to_binary(io_lib:format(Format, Arguments)).

-spec level(t()) -> dyno_agent_servers:level().
level(#{now := Now}) -> Now.

-spec why(t()) -> none | binary().
why(#{why := Why}) -> Why.
