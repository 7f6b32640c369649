%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module('Elixir.Dyno').
-moduledoc """
A dynamometer for the BEAM, for IEx and ExUnit: the functions of `m:dyno`, with options as keywords.

```elixir
iex> Dyno.bench(%{"map" => fn -> Enum.map(1..9, & &1) end, "for" => fn -> for x <- 1..9, do: x end})
iex> Dyno.test("perf/shop_perf.exs", sizes: [1, 4], duration_ms: 1000)
```

In a test:

```elixir
import Dyno, only: [assert_performance: 2]

test "a price is quick" do
  assert_performance fn -> Shop.price(10) end, "words < 200"
end
```
""".

-export([bench/1, bench/2, test/1, test/2, servers/1, servers/2]).
-export([compare/2, compare/3, report/1, report/2, help/0]).
-export([assert_performance/1, assert_performance/2, assert_performance/3]).

-define(LABEL, ~"code").
%% A code's columns, by the words that one writes.
-define(COLUMNS, #{
    ~"time" => ~"time_per_call",
    ~"words" => ~"words_per_call",
    ~"reductions" => ~"reductions_per_call"
}).

-type options() :: #{atom() => term()} | [{atom(), term()}].
-type result() :: {ok, dyno_recording:document()} | {error, binary()}.
-type codes() :: code() | [code()] | #{unicode:chardata() => code()}.
-type code() :: binary() | fun() | {module(), atom(), [term()]}.

-doc "As `bench/2`, with the options' defaults.".
-spec bench(codes() | [{atom(), term()}]) -> result().
bench([{Key, Value} | _]) when is_atom(Key) ->
    Text = "~ts is an option; the code comes first: Dyno.bench(fn -> ... end, ~ts)",
    Given = unicode:characters_to_binary(io_lib:format("~ts: ~0tp", [Key, Value])),
    {error, unicode:characters_to_binary(io_lib:format(Text, [Key, meant(Key, Given)]))};
bench(Codes) ->
    bench(Codes, []).

%% How long it measures is asked for in milliseconds.
meant(time, _Given) -> ~"budget_ms: 1000";
meant(_Key, Given) -> Given.

-doc """
Measures a code, or compares several: functions, `{module, function, arguments}`, or source of
Elixir; alone, as a list, or as a map with labels. Prints the report and returns the recording.
`m:dyno_bench` has the options.
""".
-spec bench(codes(), options()) -> result().
bench(Codes, Options) ->
    told(dyno:bench(codes(Codes), given(Options))).

-doc "As `test/2`, with the suite's own options.".
-spec test(binary() | module()) -> result().
test(Suite) -> test(Suite, []).

-doc "Runs a suite: a file, or a module. `m:dyno_test` has the options.".
-spec test(binary() | module(), options()) -> result().
test(Suite, Options) ->
    told(dyno:test(Suite, given(Options))).

-doc "As `servers/2`, of all servers of a node, for ten seconds.".
-spec servers(node()) -> result().
servers(Node) -> servers(Node, []).

-doc "Measures the server processes of a running node. `m:dyno_servers` has the options.".
-spec servers(node(), options()) -> result().
servers(Node, Options) ->
    told(dyno:servers(Node, given(Options))).

-doc "Compares two recordings, or the files that hold them.".
-spec compare(dyno:recording(), dyno:recording()) -> result().
compare(Old, New) -> compare(Old, New, []).

-doc "The same with options; `m:dyno_compare` has them.".
-spec compare(dyno:recording(), dyno:recording(), options()) -> result().
compare(Old, New, Options) ->
    told(dyno:compare(Old, New, given(Options))).

-doc "Prints a recording as text.".
-spec report(dyno:recording()) -> ok | {error, binary()}.
report(Recording) -> report(Recording, console).

-doc "Writes a recording to a file, whose ending says the format: `shop.html`, `shop.csv`.".
-spec report(dyno:recording(), atom() | file:filename_all()) -> ok | {error, binary()}.
report(Recording, Format) ->
    case dyno:report(Recording, Format) of
        ok -> ok;
        {error, Error} -> {error, dyno:format_error(Error)}
    end.

-doc "Lists what there is.".
-spec help() -> ok.
help() -> dyno:help().

-doc "Runs a suite, and fails if one of its thresholds does not hold.".
-spec assert_performance(binary() | module()) -> dyno_recording:document().
assert_performance(Suite) -> assert_performance(Suite, []).

-doc "As `assert_performance/3`, without options; of a suite the options of `m:dyno_test`.".
-spec assert_performance(code() | binary() | module(), binary() | [binary()] | options()) ->
    dyno_recording:document().
assert_performance(Suite, Options) when is_atom(Suite); is_binary(Suite) ->
    passed(dyno_test:run(Suite, given(Options)));
assert_performance(Code, Limits) ->
    assert_performance(Code, Limits, []).

-doc """
Measures a function, and fails the test where a limit does not hold: `"time < 5 us"`,
`"words < 200"`, `"reductions < 1000"`. Words are exact and the same on every machine; a time needs
a limit with room. Returns the recording, and writes it where `recording: "FILE.json"` says;
`m:dyno_bench` has the other options.
""".
-spec assert_performance(code(), binary() | [binary()], options()) -> dyno_recording:document().
assert_performance(Code, Limits, Options) ->
    Given = given(Options),
    Thresholds = [threshold(Limit) || Limit <- lists:flatten([Limits])],
    Measured = dyno_bench:run(
        [#{runner => code(Code), label => ?LABEL}], maps:remove(recording, Given)
    ),
    case Measured of
        {ok, Recording} ->
            Judged = dyno_threshold:judge(Thresholds, Recording),
            ok = kept(Judged, Given),
            passed({ok, Judged});
        {error, Error} ->
            failed(dyno:format_error(Error))
    end.

%% "time < 5 us" -> "code code time_per_call < 5 us".
threshold(Limit) ->
    [Metric | _] = string:lexemes(Limit, " <>="),
    Column = maps:get(Metric, ?COLUMNS, Metric),
    Rest = string:slice(string:trim(Limit, leading), string:length(Metric)),
    case dyno_threshold:parse(["code ", ?LABEL, " ", Column, " ", Rest]) of
        {ok, Threshold} -> Threshold;
        {error, Reason} -> failed(dyno_threshold:format_error(Reason))
    end.

kept(Recording, #{recording := File}) ->
    case dyno_recording_file:write(File, Recording) of
        ok -> ok;
        {error, Reason} -> failed(dyno_recording_file:format_error(Reason))
    end;
kept(_Recording, _Options) ->
    ok.

passed({error, Error}) ->
    failed(dyno:format_error(Error));
passed({ok, #{~"status" := ~"complete", ~"verdicts" := Verdicts} = Recording}) ->
    case [Text || #{~"result" := Result, ~"text" := Text} <- Verdicts, Result =/= ~"pass"] of
        [] -> Recording;
        Texts -> failed(lists:join($\n, [said(Text) || Text <- Texts]))
    end;
passed({ok, #{~"status" := Status, ~"error" := Error}}) ->
    failed(["the measurement is ", Status, [[": ", T] || #{~"text" := T} <- [Error]]]).

%% Without the names that a single code has in a recording.
said(Text) ->
    binary:replace(Text, [<<"code ", ?LABEL/binary, " ">>, ~" in run 1"], ~"", [global]).

%% ExUnit is there when a test calls.
-spec failed(unicode:chardata()) -> no_return().
failed(Text) ->
    Exception = 'Elixir.ExUnit.AssertionError',
    Message = unicode:characters_to_binary(Text),
    case code:ensure_loaded(Exception) of
        {module, _} -> error(apply(Exception, exception, [[{message, Message}]]));
        {error, _} -> error({performance, Message})
    end.

codes(Codes) when is_map(Codes) ->
    [#{runner => code(Code), label => Label} || Label := Code <- maps:iterator(Codes, ordered)];
codes(Codes) when is_list(Codes) ->
    [code(Code) || Code <- Codes];
codes(Code) ->
    [code(Code)].

code(Text) when is_binary(Text) -> {elixir, Text};
code(Code) -> Code.

given(Options) when is_map(Options) -> Options;
given(Options) -> maps:from_list(Options).

told({ok, _} = Result) -> Result;
told({error, Error}) -> {error, dyno:format_error(Error)}.
