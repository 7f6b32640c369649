%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_progress).
-moduledoc false.
%% The progress line: redrawn on a terminal; else one every ten seconds, with `-v` one a phase.

-export([new/1, show/2, clear/1, line/2]).

-export_type([progress/0, mode/0, t/0]).

-doc """
The progress of a run. `text` describes it; the phase `warning` is a warning with its text, and
`finding` a finding to show at once, in several lines.
""".
-type progress() :: #{
    phase := atom(),
    text := unicode:chardata(),
    run => binary() | undefined,
    runs_done => non_neg_integer(),
    runs_total => non_neg_integer(),
    elapsed_ms => non_neg_integer(),
    remaining_ms => non_neg_integer() | undefined,
    %% It may end earlier.
    at_most => boolean(),
    %% Operations a second.
    throughput => number() | undefined,
    atom() => term()
}.

-type mode() ::
    %% One line, redrawn: a terminal.
    redrawn
    %% One line for each phase.
    | lines
    %% One line every ten seconds.
    | seldom
    | silent.

-opaque t() :: #{mode := mode(), last := term(), drawn := boolean()}.

-define(BAR, 16).
%% Faster updates are unreadable.
-define(REDRAW_MS, 100).
%% Shows progress without filling a log.
-define(SELDOM_MS, 10_000).

-spec new(mode()) -> t().
new(seldom) ->
    #{mode => seldom, last => erlang:monotonic_time(millisecond), drawn => false};
new(Mode) ->
    #{mode => Mode, last => undefined, drawn => false}.

-spec show(progress(), t()) -> t().
show(_Event, #{mode := silent} = Progress) ->
    Progress;
show(#{phase := warning, text := Text}, Progress) ->
    Cleared = clear(Progress),
    dyno_cli_terminal:complain(["warning: ", Text]),
    Cleared;
show(#{phase := finding, text := Text}, Progress) ->
    Cleared = clear(Progress),
    dyno_cli_terminal:note(string:trim(Text, trailing)),
    Cleared;
show(Event, #{mode := seldom, last := LastMs} = Progress) ->
    NowMs = erlang:monotonic_time(millisecond),
    case NowMs - LastMs >= ?SELDOM_MS of
        true ->
            dyno_cli_terminal:note(["dyno: ", line(Event, 200)]),
            Progress#{last := NowMs};
        false ->
            Progress
    end;
show(#{phase := Phase} = Event, #{mode := lines, last := Last} = Progress) ->
    case {Phase, maps:get(run, Event, undefined)} of
        Last ->
            Progress;
        Now ->
            dyno_cli_terminal:note(["dyno: ", line(Event, 200)]),
            Progress#{last := Now}
    end;
show(#{phase := Phase} = Event, #{mode := redrawn, last := Last} = Progress) ->
    NowMs = erlang:monotonic_time(millisecond),
    Run = maps:get(run, Event, undefined),
    case Last of
        {Phase, Run, DrawnMs} when NowMs - DrawnMs < ?REDRAW_MS -> Progress;
        _ -> redraw(Event, Progress#{last := {Phase, Run, NowMs}})
    end.

redraw(Event, Progress) ->
    %% One column stays free: some terminals wrap after the last column.
    Line = line(Event, dyno_cli_terminal:width() - 1),
    dyno_cli_terminal:write_error([erased(), Line]),
    Progress#{drawn := true}.

-doc "Removes the line before other text.".
-spec clear(t()) -> t().
clear(#{drawn := true} = Progress) ->
    dyno_cli_terminal:write_error(erased()),
    Progress#{drawn := false};
clear(Progress) ->
    Progress.

-doc "The line's text within a width: the least important parts are dropped first.".
-spec line(progress(), pos_integer()) -> binary().
line(#{text := Text} = Event, Width) ->
    Words = dyno_text:clean(unicode:characters_to_binary(Text)),
    Counted = [counted(Event)],
    Timed = [throughput(Event), remaining(Event)],
    Attempts = [
        Counted ++ [bar(Event), Words | Timed],
        Counted ++ [Words | Timed],
        Counted ++ [Words, remaining(Event)],
        Counted ++ [Words]
    ],
    Lines = [joined(Parts) || Parts <- Attempts],
    case [Line || Line <- Lines, dyno_report_text:width(Line) =< Width] of
        [Line | _] -> Line;
        [] -> dyno_report_text:shorten(lists:last(Lines), Width, ascii)
    end.

joined(Parts) ->
    iolist_to_binary(lists:join("  ", [Part || Part <- Parts, Part =/= ~""])).

counted(#{runs_done := Done, runs_total := Total}) when Total > 0 ->
    iolist_to_binary(io_lib:format("[~b/~b]", [min(Done + 1, Total), Total]));
counted(_) ->
    ~"".

%% Without a known end, a bar would be meaningless.
bar(#{at_most := true}) ->
    ~"";
bar(#{elapsed_ms := Elapsed, remaining_ms := Remaining}) when
    is_integer(Remaining), Elapsed + Remaining > 0
->
    Full = ?BAR * Elapsed div (Elapsed + Remaining),
    <<(binary:copy(~"#", Full))/binary, (binary:copy(~".", ?BAR - Full))/binary>>;
bar(_) ->
    ~"".

throughput(#{throughput := Value}) when is_number(Value) -> dyno_unit:format(Value, ~"1/s");
throughput(_) -> ~"".

remaining(#{remaining_ms := Ms, at_most := true}) when is_integer(Ms) ->
    <<"at most ", (clock((Ms + 999) div 1000))/binary, " left">>;
remaining(#{remaining_ms := Ms}) when is_integer(Ms) ->
    <<(clock((Ms + 999) div 1000))/binary, " left">>;
remaining(_) ->
    ~"".

%% Whole seconds: flickering numbers are unreadable.
clock(S) when S < 60 -> <<(integer_to_binary(S))/binary, " s">>;
clock(S) when S < 3600 -> iolist_to_binary(io_lib:format("~b:~2..0b min", [S div 60, S rem 60]));
clock(S) -> iolist_to_binary(io_lib:format("~b:~2..0b h", [S div 3600, S rem 3600 div 60])).

%% A dumb terminal cannot erase; blanks do.
erased() ->
    case os:getenv("TERM", "dumb") of
        "dumb" -> [$\r, lists:duplicate(dyno_cli_terminal:width() - 1, $\s), $\r];
        _ -> "\r\e[K"
    end.
