%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_recording).
-moduledoc """
Builds, checks and reads a recording, the document of all measurements.

In memory a recording is the result of `json:decode/1`. The building functions also accept atoms for
keys and strings (see `document/1`). They check their input and add defaults of absent optional
fields, so readers may rely on every field of doc/recording.md.

The building functions raise `{invalid_recording, Reason}`, an error of the caller. `validate/1`
returns errors, because its input comes from a file.

`m:dyno_recording_schema` lists the versions of the format. Only the newest is read.
""".

%% Building
-export([new/4, document/1, put/3]).
-export([add_run/2, add_tables/2, add_verdicts/2, add_warnings/2]).
%% Reading
-export([runs/1, run/2, metric/2, histogram/2, quantile/2, series/2]).
-export([tables/2, table/2, rows/1, rows/2]).
%% Checking
-export([validate/1, format_error/1]).

-export_type([document/0, run/0, json/0, object/0, reason/0]).

-type json() :: dyno_recording_check:json().
-type object() :: dyno_recording_check:object().

-type document() :: object().

-type run() :: object().

-doc """
The reason of an invalid recording.

`not_json_term`: a term without a JSON form, such as a pid, with its path. `other_version`: written
by an earlier or later dyno.
""".
-type reason() ::
    not_a_recording
    | {other_version, Found :: pos_integer()}
    | {not_json_term, dyno_recording_check:path(), term()}
    | dyno_recording_check:reason().

-doc """
An empty recording with the status `partial`.

`Parameters` and `Environment` (see `dyno_environment:collect/0`) are objects; the environment's
time, if any, is the start of the recording.
""".
-spec new(atom() | binary(), atom() | binary(), term(), term()) -> document().
new(Command, Name, Parameters, Environment) ->
    Surroundings = document(Environment),
    StartedAt =
        case Surroundings of
            #{~"time" := Time} when is_binary(Time) -> Time;
            _ -> dyno_environment:now_utc()
        end,
    checked(document, #{
        format => ~"dyno-recording",
        version => dyno_recording_schema:version(),
        status => partial,
        command => Command,
        name => Name,
        parameters => Parameters,
        environment => Surroundings,
        started_at => StartedAt,
        runs => []
    }).

-doc """
The JSON form of a term.

Keys of maps may be atoms or binaries. Atoms become strings, except `true`, `false`, `null` and
`undefined`, which becomes `null`. A list stays a list, even of characters: write text in the form
of a list or iolist as `{text, Chardata}`. Raises `{invalid_recording, Reason}` for other terms and
for invalid UTF-8.
""".
-spec document(term()) -> json().
document(Term) ->
    convert(Term, []).

-doc "Sets a field of the document: `put(Document, status, complete)`.".
-spec put(document(), atom() | binary(), term()) -> document().
put(Document, Field, Value) ->
    Key = key(Field, []),
    %% Checks only the field: the large rest is already checked.
    Probe = #{~"runs" => [], ~"tables" => [], ~"verdicts" => []},
    New = document(Value),
    #{Key := Checked} = checked(document, (maps:merge(Document, Probe))#{Key => New}),
    Document#{Key => Checked}.

-doc "Appends a run, with roles in place of node names, and an id from its labels if absent.".
-spec add_run(document(), term()) -> document().
add_run(#{~"runs" := Runs} = Document, Run) ->
    New = new_run(Run),
    unique(New, Runs),
    Document#{~"runs" := Runs ++ [New]}.

-doc "Appends tables over all runs.".
-spec add_tables(document(), [term()]) -> document().
add_tables(Document, Tables) ->
    append(Document, ~"tables", table, Tables).

-doc "Appends verdicts, with roles in place of node names.".
-spec add_verdicts(document(), [term()]) -> document().
add_verdicts(#{~"runs" := Runs} = Document, Verdicts) ->
    Roles =
        #{
            Name => Role
         || #{~"nodes" := Nodes} <- Runs, #{~"name" := Name, ~"role" := Role} <- Nodes
        },
    append(Document, ~"verdicts", verdict, [
        dyno_recording_run:with_roles(Roles, document(Verdict))
     || Verdict <- Verdicts
    ]).

-doc "Appends warnings: `{Code, Text}`, `{Code, Text, Advice}`, or objects.".
-spec add_warnings(document(), [dyno_recording_part:warning() | term()]) -> document().
add_warnings(Document, Warnings) ->
    append(Document, ~"warnings", note, [dyno_recording_part:note(W) || W <- Warnings]).

-doc "All runs, in order of execution.".
-spec runs(document()) -> [run()].
runs(#{~"runs" := Runs}) -> Runs.

-doc "The run with an id.".
-spec run(document(), Id :: binary()) -> {ok, run()} | error.
run(#{~"runs" := Runs}, Id) ->
    first([Run || #{~"id" := Of} = Run <- Runs, Of =:= Id]).

-doc "The metric with a name: value, unit and the rest.".
-spec metric(run(), binary()) -> {ok, object()} | error.
metric(Run, Name) ->
    first(parts(Run, ~"metrics", Name)).

-doc "The histogram with a name.".
-spec histogram(run(), binary()) -> {ok, object()} | error.
histogram(Run, Name) ->
    first(parts(Run, ~"histograms", Name)).

-doc """
The value below which a share (0 to 1) of a histogram's values lies: the middle of the bucket,
limited to the extreme values; `undefined` without values, or among those that are only known to be
beyond all others.
""".
-spec quantile(object(), Share :: number()) -> number() | undefined.
quantile(Histogram, Share) ->
    Buckets = maps:get(~"buckets", Histogram, []),
    Count = lists:sum([N || [_, _, N] <- Buckets]) + maps:get(~"beyond", Histogram, 0),
    %% 0.07 * 100 is 7.000000000000001 in binary: rank 7, not 8.
    within(Histogram, at_rank(max(1, ceil(Share * Count * (1 - 1.0e-14))), Buckets)).

at_rank(Rank, [[_, _, Count] | Buckets]) when Rank > Count -> at_rank(Rank - Count, Buckets);
at_rank(_, [[Low, High, _] | _]) -> (Low + High) / 2;
at_rank(_, []) -> undefined.

within(_, undefined) -> undefined;
within(#{~"min" := Min}, Value) when is_number(Min), Value < Min -> Min;
within(#{~"max" := Max}, Value) when is_number(Max), Value > Max -> Max;
within(_, Value) -> Value.

-doc "All series with a name, one for each node.".
-spec series(run(), binary()) -> [object()].
series(Run, Name) ->
    parts(Run, ~"series", Name).

-doc "All tables with a name, of a run (one for each node) or of the document.".
-spec tables(run() | document(), binary()) -> [object()].
tables(Holder, Name) ->
    parts(Holder, ~"tables", Name).

-doc "The first table with a name, of a run or of the document.".
-spec table(run() | document(), binary()) -> {ok, object()} | error.
table(Holder, Name) ->
    first(tables(Holder, Name)).

-doc "The rows of the tables with a name; of the nodeless table if there is one.".
-spec rows(run() | document(), binary()) -> [object()].
rows(Holder, Name) ->
    Tables = tables(Holder, Name),
    Chosen =
        case [Table || #{~"node" := null} = Table <- Tables] of
            [] -> Tables;
            OfAll -> OfAll
        end,
    [Row || Table <- Chosen, Row <- rows(Table)].

-doc "The rows of a table, as objects by column names.".
-spec rows(Table :: object()) -> [object()].
rows(#{~"columns" := Columns, ~"rows" := Rows}) ->
    Names = [Name || #{~"name" := Name} <- Columns],
    [maps:from_list(lists:zip(Names, Row)) || Row <- Rows].

-doc "Checks a decoded JSON value's format, version and shape; adds defaults.".
-spec validate(term()) -> {ok, document()} | {error, reason()}.
validate(#{~"format" := ~"dyno-recording"} = Value) ->
    Version = dyno_recording_schema:version(),
    case Value of
        #{~"version" := Other} when is_integer(Other), Other > 0, Other =/= Version ->
            {error, {other_version, Other}};
        _ ->
            dyno_recording_check:check(document, Value)
    end;
validate(_) ->
    {error, not_a_recording}.

-doc "A sentence with the problem and its place.".
-spec format_error(reason()) -> binary().
format_error(not_a_recording) ->
    ~"this is no recording of dyno: an object with \"format\": \"dyno-recording\" is expected";
format_error({other_version, Found}) ->
    Version = dyno_recording_schema:version(),
    iolist_to_binary([
        "the recording has version ",
        integer_to_binary(Found),
        " of the format, this dyno reads ",
        "version ",
        integer_to_binary(Version),
        ": ",
        case Found < Version of
            true -> "make it anew with this dyno";
            false -> "use the dyno that wrote it, or a later one"
        end
    ]);
format_error({not_json_term, Path, Term}) ->
    Shown = io_lib:format("~0tP", [Term, 8]),
    dyno_recording_check:text([
        dyno_recording_check:path(Path), ": a term with a JSON form is expected, this is ", Shown
    ]);
format_error({shape, Path, Expected, Found}) ->
    iolist_to_binary([
        dyno_recording_check:path(Path),
        ": ",
        Expected,
        " is expected, ",
        dyno_recording_check:describe(Found)
    ]).

%% Internals

new_run(Run) ->
    checked(run, dyno_recording_run:identified(document(Run))).

append(Document, Key, Type, Items) ->
    #{Key := Before} = Document,
    Document#{Key := Before ++ [checked(Type, Item) || Item <- Items]}.

checked(Type, Term) ->
    case dyno_recording_check:check(Type, document(Term)) of
        {ok, Value} when is_map(Value) -> Value;
        {error, Reason} -> invalid(Reason)
    end.

unique(#{~"id" := Id}, Runs) ->
    case lists:any(fun(#{~"id" := Other}) -> Other =:= Id end, Runs) of
        true -> invalid({shape, [~"runs", length(Runs), ~"id"], ~"an id no other run has", Id});
        false -> ok
    end.

convert(undefined, _) ->
    null;
convert(Term, _) when is_boolean(Term); Term =:= null; is_number(Term) -> Term;
convert(Term, _) when is_atom(Term) -> atom_to_binary(Term);
convert(Term, Path) when is_binary(Term) ->
    text(Term, Term, Path);
convert({text, Chars} = Term, Path) ->
    text(Chars, Term, Path);
convert(Term, Path) when is_map(Term) ->
    #{
        Name => convert(Value, [Name | Path])
     || Key := Value <- Term, Name <- [key(Key, Path)]
    };
convert(Term, Path) when is_list(Term) ->
    elements(Term, Term, 0, Path);
convert(Term, Path) ->
    invalid({not_json_term, lists:reverse(Path), Term}).

elements([Term | Rest], Whole, Index, Path) ->
    [convert(Term, [Index | Path]) | elements(Rest, Whole, Index + 1, Path)];
elements([], _, _, _) ->
    [];
elements(_, Whole, _, Path) ->
    invalid({not_json_term, lists:reverse(Path), Whole}).

text(Chars, Term, Path) ->
    try unicode:characters_to_binary(Chars) of
        Text when is_binary(Text) -> Text;
        _ -> invalid({not_json_term, lists:reverse(Path), Term})
    catch
        error:badarg -> invalid({not_json_term, lists:reverse(Path), Term})
    end.

key(Key, _) when is_atom(Key) -> atom_to_binary(Key);
key(Key, Path) when is_binary(Key) -> text(Key, Key, Path);
key(Key, Path) -> invalid({not_json_term, lists:reverse(Path), Key}).

-spec invalid(reason()) -> no_return().
invalid(Reason) ->
    error({invalid_recording, Reason}).

parts(Holder, Kind, Name) ->
    [Item || #{~"name" := Of} = Item <- maps:get(Kind, Holder, []), Of =:= Name].

first([Item | _]) -> {ok, Item};
first([]) -> error.
