%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_report_console).
-moduledoc """
The recording as text that people read: what was run, how it behaved at each size, what inside the
target took the time and the memory, what grows, and the verdict as the last line.

Whatever a recording lacks (a partial one lacks much) is left out or shown as `-`; a section
without rows is not shown.
""".

-behaviour(dyno_report).

-export([format/2, format_error/1]).

-import(dyno_report_document, [get/2, get/3, measured/2]).

-type object() :: dyno_report_document:object().
-type options() :: dyno_report:options().

-define(DEFAULTS, #{colour => off, width => 100, charset => unicode, top => 10}).
%% An exponent above this is worse than linear; a little room for noise.
-define(LINEAR, 1.1).

-doc "The report's lines in UTF-8.".
-spec format(dyno_report:document(), dyno_report:options()) -> {ok, iodata()}.
format(Document, Given) ->
    Options = maps:merge(?DEFAULTS, Given),
    Command = get(~"command", Document),
    Sections = [heading(Document, Options) | sections(Command, Document, Options)],
    Blocks = [[[Line, $\n] || Line <- Lines] || Lines <- Sections, Lines =/= []],
    {ok, encoded(dyno_report_text:encode(lists:join($\n, Blocks)), Options)}.

-spec sections(json:decode_value(), object(), options()) -> [[iodata()]].
sections(~"bench", Document, Options) ->
    dyno_report_console_bench:sections(Document, Options) ++ compared(Document, Options);
sections(~"compare", Document, Options) ->
    compared(Document, Options);
sections(_Test, Document, Options) ->
    dyno_report_console_runs:sections(Document, Options) ++
        [dyno_report_console_clocks:section(Document, Options)] ++
        dyno_report_console_target:sections(Document, Options) ++
        [
            growth(Document, Options)
        ] ++
        dyno_report_console_custom:sections(Document, Options) ++
        [
            dyno_report_console_changes:section(Document, Options),
            thresholds(Document, Options),
            warnings(Document, Options),
            conclusion(Document, Options)
        ].

-spec compared(object(), options()) -> [[iodata()]].
compared(Document, Options) ->
    [
        dyno_report_console_changes:section(Document, Options),
        thresholds(Document, Options),
        warnings(Document, Options)
    ].

-doc "Never called: every valid document can be shown on the console.".
-spec format_error(term()) -> unicode:chardata().
format_error(Reason) ->
    io_lib:format("the recording cannot be shown as text: ~tp", [Reason]).

-spec encoded(binary(), options()) -> binary().
encoded(Text, #{charset := unicode}) -> Text;
encoded(Text, #{charset := ascii}) -> <<<<(ascii(Char))>> || <<Char/utf8>> <= Text>>.

-spec ascii(char()) -> byte().
ascii(Char) when Char < 128 -> Char;
ascii(_) -> $?.

-spec heading(object(), options()) -> [iodata()].
heading(Document, #{colour := Colour, width := Width}) ->
    Environment = get(~"environment", Document, #{}),
    Runs = length(get(~"runs", Document, [])),
    Title = [
        dyno_report_style:paint(Colour, title, text(~"name", Document, ~"(no name)")),
        ": ",
        status(Document, Colour),
        %% A comparison ran nothing.
        [[", ", plural(Runs, ~"run")] || get(~"command", Document) =/= ~"compare"],
        duration(get(~"duration_ns", Document))
    ],
    Facts = [
        release(Environment),
        schedulers(Environment),
        kernel(Environment),
        processor(Environment),
        prefixed(~"host ", text(~"hostname", Environment, ~"")),
        date(text(~"started_at", Document, ~"")),
        revision(get(~"git", Environment)),
        prefixed(~"dyno ", text(~"dyno_version", Environment, ~""))
    ],
    Lines = dyno_report_text:wrap_parts([Fact || Fact <- Facts, Fact =/= ~""], ~",", Width),
    [Title | [dyno_report_style:paint(Colour, dim, Line) || Line <- Lines]].

-spec status(object(), dyno_report_style:colour()) -> iodata().
status(Document, Colour) ->
    Status = text(~"status", Document, ~"unknown"),
    Style = maps:get(Status, #{~"failed" => bad, ~"complete" => plain}, doubtful),
    dyno_report_style:paint(Colour, Style, Status).

-spec duration(json:decode_value()) -> iolist().
duration(Ns) when is_number(Ns) -> [" in ", dyno_unit:format(Ns, ~"ns")];
duration(_) -> "".

-spec release(object()) -> binary().
release(Environment) ->
    Jit =
        case get(~"jit", Environment) of
            true -> ~" (JIT)";
            false -> ~" (no JIT)";
            _ -> ~""
        end,
    case text(~"otp", Environment, ~"") of
        ~"" -> ~"";
        Otp -> <<"OTP ", Otp/binary, Jit/binary>>
    end.

-spec schedulers(object()) -> binary().
schedulers(Environment) ->
    case get(~"schedulers_online", Environment) of
        N when is_integer(N) -> plural(N, ~"scheduler");
        _ -> ~""
    end.

-spec kernel(object()) -> binary().
kernel(Environment) ->
    Kernel = prefixed(~" ", text(~"kernel", Environment, ~"")),
    <<(text(~"os", Environment, ~""))/binary, Kernel/binary>>.

-spec processor(object()) -> binary().
processor(Environment) ->
    Model = text(~"cpu_model", Environment, ~""),
    case get(~"cores", Environment) of
        Cores when is_integer(Cores), Model =/= ~"" ->
            <<Model/binary, " (", (plural(Cores, ~"core"))/binary, ")">>;
        Cores when is_integer(Cores) ->
            plural(Cores, ~"core");
        _ ->
            Model
    end.

%% 2026-01-02T03:04:05.678Z reads better as 2026-01-02 03:04:05 UTC.
-spec date(binary()) -> binary().
date(<<Day:10/binary, "T", Time:8/binary, Rest/binary>>) when Rest =/= ~"" ->
    case binary:last(Rest) of
        $Z -> <<Day/binary, " ", Time/binary, " UTC">>;
        _ -> <<Day/binary, " ", Time/binary, Rest/binary>>
    end;
date(Other) ->
    Other.

-spec revision(json:decode_value()) -> binary().
revision(Git) when is_map(Git) ->
    Revision = text(~"revision", Git, ~""),
    Short = binary:part(Revision, 0, min(10, byte_size(Revision))),
    case get(~"dirty", Git) of
        true -> <<"git ", Short/binary, " with changes">>;
        _ -> <<"git ", Short/binary>>
    end;
revision(_) ->
    ~"".

-spec growth(object(), options()) -> [iodata()].
growth(Document, #{top := Top} = Options) ->
    Tables = dyno_report_document:tables(~"growth", Document),
    %% In the recording's order: what matters comes first.
    Rows = lists:append([dyno_report_document:rows(Table) || Table <- Tables]),
    Farther = farther(Rows),
    Columns = [
        #{title => ~"name", align => left, fit => flexible},
        #{title => ~"exponent", align => right},
        #{title => ~"interval", align => right},
        #{title => ~"from smallest to largest", align => right, fit => optional},
        #{title => ~"share", align => right, fit => optional}
        | [
            #{title => <<"extrapolated to ", To/binary>>, align => right, fit => optional}
         || To <- Farther
        ]
    ],
    Cells = [
        growth_row(Row) ++ [extrapolated(Row) || _ <- Farther]
     || Row <- lists:sublist(Rows, Top)
    ],
    dyno_report_console_runs:section(
        ~"Growth with size; of functions, the time per call", Columns, Cells, length(Rows), Options
    ).

-spec growth_row(object()) -> [dyno_report_table:cell()].
growth_row(Row) ->
    Unit = short(text(~"unit", Row, ~"1")),
    Low = get(~"low", Row),
    [
        dyno_report_document:name(~"name", Row),
        {growth_style(Low), decimals(get(~"exponent", Row))},
        interval(Low, get(~"high", Row)),
        <<(measured(get(~"smallest", Row), Unit))/binary, " to ",
            (measured(get(~"largest", Row), Unit))/binary>>,
        share(get(~"share", Row))
    ].

%% What was not measured says so.
-spec farther([object()]) -> [binary()].
farther(Rows) ->
    Sizes = [Size || #{~"extrapolated_size" := Size} <- Rows, is_number(Size)],
    [measured(Size, ~"count") || Size <- lists:sublist(Sizes, 1)].

-spec extrapolated(object()) -> binary().
extrapolated(Row) ->
    measured(get(~"extrapolated", Row), short(text(~"unit", Row, ~"1"))).

%% Of a function it can only be the time per call: that need not be said in each row.
-spec short(binary()) -> binary().
short(~"ns/call") -> ~"ns";
short(Unit) -> Unit.

%% Metrics have none.
-spec share(json:decode_value()) -> binary().
share(null) -> ~"";
share(Share) -> measured(Share, ~"ratio").

%% Only what is worse than linear with its whole interval stands out.
-spec growth_style(json:decode_value()) -> dyno_report_style:style().
growth_style(Low) when is_number(Low), Low > ?LINEAR -> doubtful;
growth_style(_) -> plain.

-spec interval(json:decode_value(), json:decode_value()) -> binary().
interval(Low, High) when is_number(Low), is_number(High) ->
    <<"[", (decimals(Low))/binary, ", ", (decimals(High))/binary, "]">>;
interval(_, _) ->
    ~"-".

-spec decimals(json:decode_value()) -> binary().
decimals(Value) when is_number(Value), abs(Value) < 0.005 -> ~"0.00";
decimals(Value) when is_number(Value) -> float_to_binary(Value * 1.0, [{decimals, 2}]);
decimals(_) -> ~"-".

-spec thresholds(object(), options()) -> [iodata()].
thresholds(Document, Options) ->
    %% Invariants have a section of their own.
    Verdicts = [
        Verdict
     || Verdict <- get(~"verdicts", Document, []),
        not dyno_report_console_custom:is_invariant(Verdict)
    ],
    Columns = [
        #{title => ~"result", align => left},
        #{title => ~"threshold", align => left, fit => flexible},
        #{title => ~"measured", align => right},
        #{title => dyno_report_console_runs:size_label(Document), align => right}
    ],
    Cells = lists:append([verdict_rows(Of) || Of <- of_thresholds(Verdicts)]),
    Table = dyno_report_console_runs:section(
        ~"Thresholds", Columns, Cells, length(Cells), Options
    ),
    %% A threshold that could not be evaluated has no value to show; its text says why.
    Reasons = [
        indented(<<(dyno_report_document:name(~"name", V))/binary, ": ", Why/binary>>, Options)
     || #{~"result" := ~"unknown"} = V <- Verdicts,
        Why <- [text(~"text", V, ~"it could not be evaluated")]
    ],
    Table ++ lists:append(Reasons).

%% The verdicts of each threshold, in the order in which the thresholds stand.
-spec of_thresholds([object()]) -> [[object(), ...]].
of_thresholds(Verdicts) ->
    [
        [Verdict || Verdict <- Verdicts, get(~"name", Verdict) =:= Name]
     || Name <- lists:uniq([get(~"name", Verdict) || Verdict <- Verdicts])
    ].

%% A threshold that holds at every size is one row: of the size at which it is closest to its limit.
-spec verdict_rows([object(), ...]) -> [[dyno_report_table:cell()]].
verdict_rows([_, _ | _] = Verdicts) ->
    Far = [
        {abs(Limit - Value), Verdict}
     || #{~"result" := ~"pass", ~"threshold" := Threshold} = Verdict <- Verdicts,
        #{~"limit" := Limit, ~"value" := Value} <- [Threshold],
        is_number(Limit),
        is_number(Value)
    ],
    case length(Far) =:= length(Verdicts) of
        true ->
            [{_, Closest} | _] = lists:keysort(1, Far),
            [Result, Name, Measured, Run] = verdict_row(Closest),
            Worst = iolist_to_binary(["worst of ", integer_to_binary(length(Far)), ", at ", Run]),
            [[Result, Name, Measured, Worst]];
        false ->
            [verdict_row(Verdict) || Verdict <- Verdicts]
    end;
verdict_rows(Verdicts) ->
    [verdict_row(Verdict) || Verdict <- Verdicts].

-spec verdict_row(object()) -> [dyno_report_table:cell(), ...].
verdict_row(Verdict) ->
    {Style, Word} = result(get(~"result", Verdict)),
    [
        {Style, Word},
        dyno_report_document:name(~"name", Verdict),
        dyno_report_document:compared(Verdict),
        text(~"run", Verdict, ~"all")
    ].

-spec result(json:decode_value()) -> {dyno_report_style:style(), binary()}.
result(~"pass") -> {good, ~"PASS"};
result(~"fail") -> {bad, ~"FAIL"};
result(_) -> {doubtful, ~"UNKNOWN"}.

-spec warnings(object(), options()) -> [iodata()].
warnings(Document, #{colour := Colour} = Options) ->
    OfDocument = [{~"", Warning} || Warning <- get(~"warnings", Document, [])],
    OfRuns = alike([
        {get(~"code", Warning), text(~"id", Run, ~"?"), Warning}
     || Run <- get(~"runs", Document, []), Warning <- get(~"warnings", Run, [])
    ]),
    Lines = [
        indented(<<Prefix/binary, (text(~"text", Warning, ~""))/binary>>, Options)
     || {Prefix, Warning} <- OfDocument ++ OfRuns
    ],
    case Lines of
        [] -> [];
        _ -> [dyno_report_style:paint(Colour, title, "Warnings") | lists:append(Lines)]
    end.

%% The same warning at many sizes is one, with the text of the last.
-spec alike([{json:decode_value(), binary(), object()}]) -> [{binary(), object()}].
alike(Warnings) ->
    [
        {<<"at ", (lists:last(Ids))/binary, (and_at(lists:droplast(Ids)))/binary, ": ">>, Last}
     || Code <- lists:uniq([Code || {Code, _, _} <- Warnings]),
        Same <- [[{Id, Warning} || {C, Id, Warning} <- Warnings, C =:= Code]],
        Ids <- [lists:uniq([Id || {Id, _} <- Same])],
        {_, Last} <- [lists:last(Same)]
    ].

-spec and_at([binary()]) -> binary().
and_at([]) -> ~"";
and_at(Ids) -> iolist_to_binary([" (and much the same at ", lists:join(", ", Ids), ")"]).

%% The last thing read: one line that says how it ended.
-spec conclusion(object(), options()) -> [iodata()].
conclusion(Document, #{colour := Colour, width := Width}) ->
    {Style, Word, Text} = ending(get(~"status", Document), Document),
    [First | Rest] = dyno_report_text:wrap(<<Word/binary, ": ", Text/binary>>, Width),
    Size = byte_size(Word),
    <<Word:Size/binary, Behind/binary>> = First,
    [[dyno_report_style:paint(Colour, Style, Word), Behind] | Rest].

-spec ending(json:decode_value(), object()) -> {dyno_report_style:style(), binary(), binary()}.
ending(~"failed", Document) ->
    Error = get(~"error", Document, #{}),
    {bad, ~"COULD NOT FINISH", text(~"text", Error, ~"the recording does not say why")};
ending(~"interrupted", Document) ->
    Kept = ~"what was measured until then is kept",
    {doubtful, ~"INTERRUPTED", <<Kept/binary, (failing(Document))/binary>>};
ending(~"partial", _Document) ->
    {doubtful, ~"PARTIAL", ~"the test is still running, or dyno died before its end"};
ending(_Complete, Document) ->
    Verdicts = get(~"verdicts", Document, []),
    Results = by_threshold(Verdicts),
    Failed = length([fail || ~"fail" <- Results]),
    Unknown = length([R || R <- Results, R =/= ~"fail", R =/= ~"pass"]),
    ending(length(Results), Failed, Unknown, noun(Verdicts)).

-spec noun([object()]) -> binary().
noun(Verdicts) ->
    case lists:partition(fun dyno_report_console_custom:is_invariant/1, Verdicts) of
        {[], _} -> ~"threshold";
        {_, []} -> ~"invariant";
        {_, _} -> ~"threshold and invariant"
    end.

-spec by_threshold([object()]) -> [binary()].
by_threshold(Verdicts) ->
    Grouped = maps:groups_from_list(
        fun(Verdict) -> get(~"name", Verdict) end,
        fun(Verdict) -> text(~"result", Verdict, ~"unknown") end,
        Verdicts
    ),
    Worse = #{~"fail" => 0, ~"pass" => 2},
    [
        hd(lists:sort(fun(A, B) -> maps:get(A, Worse, 1) =< maps:get(B, Worse, 1) end, Results))
     || Results <- maps:values(Grouped)
    ].

-spec ending(non_neg_integer(), non_neg_integer(), non_neg_integer(), binary()) ->
    {dyno_report_style:style(), binary(), binary()}.
ending(0, _, _, _) ->
    {good, ~"DONE", ~"no thresholds were set"};
ending(All, 0, 0, Noun) ->
    {good, ~"PASSED", <<(held(All, Noun))/binary>>};
ending(All, 0, Unknown, Noun) ->
    {bad, ~"FAILED",
        <<(count_of(Unknown, All, Noun))/binary,
            " could not be evaluated, so the test does not pass">>};
ending(All, Failed, 0, Noun) ->
    {bad, ~"FAILED", <<(count_of(Failed, All, Noun))/binary, " did not hold">>};
ending(All, Failed, Unknown, Noun) ->
    Other = integer_to_binary(Unknown),
    {bad, ~"FAILED",
        <<(count_of(Failed, All, Noun))/binary, " did not hold, and ", Other/binary,
            " could not be evaluated">>}.

-spec held(pos_integer(), binary()) -> binary().
held(1, Noun) -> <<"the ", Noun/binary, " holds">>;
held(All, Noun) -> <<"all ", (plural(All, Noun))/binary, " hold">>.

-spec count_of(pos_integer(), pos_integer(), binary()) -> binary().
count_of(Some, All, Noun) ->
    <<(integer_to_binary(Some))/binary, " of ", (plural(All, Noun))/binary>>.

-spec failing(object()) -> binary().
failing(Document) ->
    case length([fail || ~"fail" <- by_threshold(get(~"verdicts", Document, []))]) of
        0 -> ~"";
        N -> <<"; ", (plural(N, ~"threshold"))/binary, " had failed by then">>
    end.

-spec indented(binary(), options()) -> [iodata()].
indented(Text, #{width := Width}) ->
    [["  ", Line] || Line <- dyno_report_text:wrap(Text, max(20, Width - 2))].

-spec text(binary(), object(), binary()) -> binary().
text(Key, Map, Default) ->
    dyno_report_document:text(Key, Map, Default).

-spec prefixed(binary(), binary()) -> binary().
prefixed(_Prefix, ~"") -> ~"";
prefixed(Prefix, Text) -> <<Prefix/binary, Text/binary>>.

-spec plural(integer(), binary()) -> binary().
plural(1, Noun) -> <<"1 ", Noun/binary>>;
plural(N, ~"threshold and invariant") -> plural(N, ~"thresholds and invariant");
plural(N, Noun) -> <<(integer_to_binary(N))/binary, " ", Noun/binary, "s">>.
