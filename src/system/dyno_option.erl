%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_option).
-moduledoc false.
%% Options as a map: checks give the accepted values of keys; the first other one is the error.

-export([read/2, value/2, check/2, check/3, known/2, error/3, text/1, name/1, format_error/1]).
-export_type([field/0, check/0, reason/0]).

-doc "A key without a default is `mandatory` or `optional`.".
-type field() :: {Key :: atom(), Default :: term(), reader(), Accepted :: unicode:chardata()}.

%% Gives the good value, or true to keep the value; false or error to refuse it, or the reason.
-type reader() ::
    fun((term()) -> {ok, Good :: term()} | boolean() | error | {error, dyno_error:error()}).

-type check() :: {Key :: atom(), IsAccepted :: fun((term()) -> boolean()), Accepted :: binary()}.

-type reason() ::
    {Key :: atom(), Value :: term(), Accepted :: unicode:chardata()}
    | {missing, Key :: atom(), Accepted :: unicode:chardata()}
    | {unknown, Key :: term(), Known :: [atom()]}.

-doc "Reads the values of all fields, and adds the defaults.".
-spec read([field()], #{term() => term()}) -> dyno_error:result(#{atom() => term()}).
read(Fields, Options) ->
    maybe
        ok ?= known([Key || {Key, _, _, _} <- Fields], Options),
        {ok, Read} ?= dyno_error:each(fun(Field) -> field(Field, Options) end, Fields),
        {ok, maps:from_list(lists:append(Read))}
    end.

field({Key, Default, Read, Accepted}, Options) ->
    case {Options, Default} of
        {#{Key := Value}, _} ->
            case value(Read, Value) of
                {ok, Good} -> {ok, [{Key, Good}]};
                error -> {error, {?MODULE, {Key, Value, Accepted}}};
                {error, _} = Error -> Error
            end;
        {#{}, mandatory} ->
            {error, {?MODULE, {missing, Key, Accepted}}};
        {#{}, optional} ->
            {ok, []};
        {#{}, _} ->
            {ok, [{Key, Default}]}
    end.

-spec value(reader(), term()) -> {ok, Good :: term()} | error | {error, dyno_error:error()}.
value(Read, Value) ->
    case Read(Value) of
        true -> {ok, Value};
        false -> error;
        Result -> Result
    end.

-spec check([check()], #{atom() => term()}) -> ok | {error, {?MODULE, reason()}}.
check(Checks, Options) ->
    Refused = [
        {Key, map_get(Key, Options), Accepted}
     || {Key, IsAccepted, Accepted} <- Checks,
        is_map_key(Key, Options),
        not IsAccepted(map_get(Key, Options))
    ],
    case Refused of
        [] -> ok;
        [Reason | _] -> {error, {?MODULE, Reason}}
    end.

-doc "The same, and whether each key is one of these or of others.".
-spec check([check()], Others :: [atom()], #{atom() => term()}) ->
    ok | {error, {?MODULE, reason()}}.
check(Checks, Others, Options) ->
    maybe
        ok ?= known(lists:usort([Key || {Key, _, _} <- Checks] ++ Others), Options),
        check(Checks, Options)
    end.

-doc "Whether each key is known: a typing error would otherwise be ignored.".
-spec known([atom()], #{term() => term()}) -> ok | {error, {?MODULE, reason()}}.
known(Known, Options) ->
    case lists:sort(maps:keys(Options) -- Known) of
        [] -> ok;
        [Key | _] -> {error, {?MODULE, {unknown, Key, lists:sort(Known)}}}
    end.

-doc "The error of a value that depends on other values.".
-spec error(atom(), term(), Accepted :: unicode:chardata()) -> {error, {?MODULE, reason()}}.
error(Key, Value, Accepted) ->
    {error, {?MODULE, {Key, Value, Accepted}}}.

-doc "A non-empty text, in any form.".
-spec text(term()) -> {ok, binary()} | error.
text(Chars) ->
    try unicode:characters_to_binary(Chars) of
        <<_, _/binary>> = Text -> {ok, Text};
        _ -> error
    catch
        error:badarg -> error
    end.

-doc "The same for a name, which may be an atom.".
-spec name(term()) -> {ok, binary()} | error.
name(Atom) when is_atom(Atom) -> text(atom_to_binary(Atom));
name(Chars) -> text(Chars).

-spec format_error(reason()) -> unicode:chardata().
format_error({unknown, Key, Known}) when is_list(Known) ->
    Names = [atom_to_list(Name) || Name <- Known],
    Written = lists:flatten(io_lib:format("~0tP", [Key, 8])),
    case dyno_similar:nearest(Written, Names) of
        {ok, Nearest} ->
            io_lib:format("there is no option ~ts; did you mean ~ts?", [Written, Nearest]);
        none ->
            io_lib:format("there is no option ~ts; there are ~ts", [
                Written, lists:join(", ", Names)
            ])
    end;
format_error({missing, Key, Accepted}) ->
    io_lib:format("~ts is missing; ~ts is accepted", [Key, Accepted]);
format_error({Key, Value, Accepted}) ->
    io_lib:format("~ts is ~0tP; ~ts is accepted", [Key, Value, 12, Accepted]).
