%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_option).
-moduledoc """
A command's option as a row: usage, help, reader, and key. Parsing, conversion, help and error
messages use the row.

```erlang
{"-c, --concurrency N", "how many processes run a code at once", {whole, 1, 10_000}},
{"--for TIME", "how long each size is measured", duration, duration_ms},
{"-q, --quiet", "no progress, and no report but what is asked for"}
```
""".

-export([argument/1, long/1, read/2, value/2, code_paths/0, format_error/1, fault/1]).
-export_type([row/0, reader/0, reason/0]).

-doc "A row without a placeholder is a flag. The default key is the long name, with `_` for `-`.".
-type row() ::
    {Usage :: string(), Help :: string()}
    | {Usage :: string(), Help :: string(), reader()}
    | {Usage :: string(), Help :: string(), reader(), Key :: atom()}.

-type reader() ::
    text
    | string
    | atom
    %% Milliseconds.
    | duration
    | duration_or_zero
    | {whole, Least :: non_neg_integer(), Most :: pos_integer() | infinity}
    %% Bytes.
    | size
    %% Between 0 and 1.
    | share
    | folder
    | {one_of, [atom()]}
    | {custom, fun((binary()) -> {ok, term()} | error | {error, dyno_error:error()}),
        Accepted :: string()}
    | {flag, term()}
    %% Several, separated by commas.
    | {list, reader()}
    %% A repeatable option; values of options with one key are one list.
    | {many, reader()}.

-type reason() ::
    {value, Option :: string(), binary(), reader()}
    | {in_option, Option :: string(), dyno_error:error()}.

%% In milliseconds. Timers end at 49 days, and a benchmark may take five times its time.
-define(LEAST_NS, 500_000).
-define(MOST_NS, 720_000_000_000_000).
%% The options for the measuring time, the second erlperf's, and the variable that limits them.
-define(HOW_LONG, ["--for", "--duration"]).
-define(AT_MOST, "DYNO_AT_MOST").
%% An option with a variable as alternative: ps shows typed options.
-define(IN_ENVIRONMENT, {"--cookie", "DYNO_COOKIE"}).

-doc "The row for argparse.".
-spec argument(row()) -> argparse:argument().
argument(Row) ->
    {Short, Long, Placeholder} = parts(usage(Row)),
    Action =
        case {Placeholder, reader(Row)} of
            {none, _} -> #{type => boolean, action => {store, true}};
            {_, {many, _}} -> #{type => binary, action => append};
            {_, _} -> #{type => binary}
        end,
    maps:merge(Action, Short#{
        name => name(Row),
        long => tl(Long),
        required => false,
        help => {usage(Row), [element(2, Row)]}
    }).

%% "-c, --concurrency N" -> {#{short => $c}, "--concurrency", "N"}.
parts([$-, Short, $,, $\s | Usage]) ->
    {_, Long, Placeholder} = parts(Usage),
    {#{short => Short}, Long, Placeholder};
parts(Usage) ->
    case string:split(Usage, " ") of
        [Long, Placeholder] -> {#{}, Long, Placeholder};
        [Long] -> {#{}, Long, none}
    end.

usage(Row) ->
    element(1, Row).

-doc "The long name, such as `--for`.".
-spec long(row()) -> string() | binary().
long(Row) ->
    {_, Long, _} = parts(usage(Row)),
    Long.

name(Row) ->
    Plain = string:trim(long(Row), leading, "-"),
    list_to_atom(lists:flatten(string:replace(Plain, "-", "_", all))).

reader({Usage, _}) ->
    case parts(Usage) of
        {_, _, none} -> {flag, true};
        _ -> text
    end;
reader({_, _, Reader}) ->
    Reader;
reader({_, _, Reader, _}) ->
    Reader.

key({_, _, _, Key}) -> Key;
key(Row) -> name(Row).

-doc "Converts argparse's result; operands stay unchanged.".
-spec read([row()], argparse:arg_map()) -> dyno_error:result(dyno_cli_command:values()).
read(Rows, Typed) ->
    Given = maps:merge(in_environment(Rows), Typed),
    Operands = maps:without([name(Row) || Row <- Rows], Given),
    maybe
        {ok, Values} ?=
            read_each([Row || Row <- Rows, is_map_key(name(Row), Given)], Given, Operands),
        {ok, shortened(Rows, Values)}
    end.

in_environment(Rows) ->
    {Option, Variable} = ?IN_ENVIRONMENT,
    #{
        name(Row) => unicode:characters_to_binary(Value)
     || Row <- Rows, long(Row) =:= Option, Value <- [os:getenv(Variable, "")], Value =/= ""
    }.

shortened(Rows, Values) ->
    Keys = [key(Row) || Long <- ?HOW_LONG, Row <- Rows, long(Row) =:= Long],
    case value(duration, list_to_binary(os:getenv(?AT_MOST, ""))) of
        {ok, Most} ->
            case [Key || Key <- Keys, is_map_key(Key, Values)] of
                [] ->
                    maps:merge(Values, #{Key => Most || Key <- lists:sublist(Keys, 1)});
                Given ->
                    maps:merge(Values, #{Key => min(Most, map_get(Key, Values)) || Key <- Given})
            end;
        error ->
            Values
    end.

read_each([], _Given, Values) ->
    {ok, Values};
read_each([Row | Rows], Given, Values) ->
    Key = key(Row),
    case read_one(reader(Row), map_get(name(Row), Given)) of
        {ok, {several, More}} ->
            read_each(Rows, Given, Values#{Key => maps:get(Key, Values, []) ++ More});
        {ok, Value} ->
            read_each(Rows, Given, Values#{Key => Value});
        {not_taken, Text, Reader} ->
            {error, {?MODULE, {value, long(Row), Text, Reader}}};
        {error, Error} ->
            {error, {?MODULE, {in_option, long(Row), Error}}}
    end.

read_one({flag, Value}, true) ->
    {ok, Value};
read_one({many, Reader}, Texts) ->
    each(Reader, Texts, []);
read_one({list, {one_of, _} = Reader}, Text) ->
    each(Reader, string:lexemes(Text, ", "), []);
read_one({list, Reader} = List, Text) ->
    Parts = [string:trim(Part) || Part <- binary:split(Text, ~",", [global])],
    case each(Reader, Parts, []) of
        {not_taken, _Part, _} -> {not_taken, Text, List};
        Result -> Result
    end;
read_one(Reader, Text) ->
    case value(Reader, Text) of
        error -> {not_taken, Text, Reader};
        Result -> Result
    end.

each(_Reader, [], Values) ->
    {ok, {several, lists:reverse(Values)}};
each(Reader, [Text | Texts], Values) ->
    case read_one(Reader, Text) of
        {ok, Value} -> each(Reader, Texts, [Value | Values]);
        NotTaken -> NotTaken
    end.

-doc """
Reads a value from text.

```erlang
1> dyno_cli_option:value(duration, ~"1.5s").
{ok,1500}
```
""".
-spec value(reader(), binary()) -> {ok, term()} | error | {error, dyno_error:error()}.
value(text, Text) ->
    {ok, Text};
value(string, Text) ->
    {ok, unicode:characters_to_list(Text)};
value(atom, Text) when byte_size(Text) < 256 ->
    {ok, binary_to_atom(Text)};
value(atom, _Text) ->
    error;
value(folder, Text) ->
    Folder = unicode:characters_to_list(Text),
    case filelib:is_dir(Folder) of
        true -> {ok, Folder};
        false -> error
    end;
value({one_of, Words}, Text) ->
    case [Word || Word <- Words, atom_to_binary(Word) =:= Text] of
        [Word] -> {ok, Word};
        [] -> error
    end;
value({custom, Read, _Accepted}, Text) ->
    Read(Text);
value(Reader, Text) ->
    case dyno_unit:parse(Text) of
        {ok, Amount} -> amount(Reader, Amount);
        _ -> error
    end.

amount(duration, {Ns, ~"ns"}) when Ns >= ?LEAST_NS, Ns =< ?MOST_NS -> {ok, round(Ns / 1_000_000)};
amount(duration_or_zero, {0, Unit}) when Unit =:= ~"ns"; Unit =:= ~"1" -> {ok, 0};
amount(duration_or_zero, Amount) -> amount(duration, Amount);
amount({whole, Least, Most}, {N, ~"1"}) when is_integer(N), N >= Least, N =< Most -> {ok, N};
amount(size, {Bytes, ~"B"}) when Bytes >= 1 -> {ok, round(Bytes)};
amount(share, {Share, ~"ratio"}) when Share > 0, Share < 1 -> {ok, float(Share)};
amount(share, {Share, ~"1"}) -> amount(share, {Share, ~"ratio"});
amount(_Reader, _Amount) -> error.

-doc "`--pa` of the commands that run code.".
-spec code_paths() -> row().
code_paths() ->
    Help =
        "a folder for the code path, also written -pa; repeatable. The current project's code is "
        "there already",
    {"--pa FOLDER", Help, {many, folder}, code_paths}.

-spec format_error(reason()) -> unicode:chardata().
format_error({in_option, Option, Error}) ->
    [Option, ": ", dyno_error:format(Error)];
format_error({value, Option, Text, Reader}) ->
    Given = [$", dyno_text:clean(Text), $"],
    [Option, " takes ", accepted(Reader), ", not ", Given, nearest(Reader, Text)].

accepted(Duration) when Duration =:= duration; Duration =:= duration_or_zero ->
    "a duration above 0 and up to 200h with its unit (ms, s, min or h), such as 10s or 500ms";
accepted({whole, Least, infinity}) ->
    io_lib:format("a whole number from ~b up", [Least]);
accepted({whole, Least, Most}) ->
    io_lib:format("a whole number from ~b to ~b", [Least, Most]);
accepted(atom) ->
    "a name of up to 255 bytes";
accepted(size) ->
    "a size with its unit, such as 512MB or 2GiB";
accepted(share) ->
    "a share above 0 % and below 100 %, such as 3%";
accepted(folder) ->
    "a folder that is there";
accepted({one_of, Words}) ->
    Names = [atom_to_list(Word) || Word <- Words],
    [lists:join(", ", lists:droplast(Names)), " or ", lists:last(Names)];
accepted({custom, _, Accepted}) ->
    Accepted;
accepted({list, {whole, Least, Most}}) when is_integer(Most) ->
    io_lib:format("whole numbers from ~b to ~b with commas between them, such as 1,10,100", [
        Least, Most
    ]);
accepted({list, {whole, Least, _}}) ->
    io_lib:format("whole numbers from ~b up with commas between them, such as 1,10,100", [Least]);
accepted({list, Reader}) ->
    ["a list with commas, each ", accepted(Reader)].

nearest({one_of, Words}, Text) ->
    Names = [atom_to_list(Word) || Word <- Words],
    dyno_similar:meant(dyno_similar:nearest(unicode:characters_to_list(Text), Names));
nearest(_Reader, _Text) ->
    "".

-spec fault(reason()) -> dyno_error:fault().
fault({in_option, _, Error}) -> dyno_error:fault(Error);
fault({value, _, _, _}) -> caller.
