%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_line).
-moduledoc false.
%% Reads a line of a text file of events: `recv(<0.11.0>, {request, 1}) delayed by 200`, by Erlang's
%% scanner and parser. A printed pid is replaced by the token of an integer, with the pid in its
%% place; a printed port, reference or fun by the tokens of its text.

-export([parse/1]).

-spec parse(binary()) -> {Kind :: atom(), [term()], DelayMs :: non_neg_integer()} | none | error.
parse(Line) ->
    try
        {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Line), 1, [text]),
        event(identified([Token || Token <- Tokens, element(1, Token) =/= dot]))
    catch
        error:_ -> error
    end.

event([]) ->
    none;
event([{atom, _, Kind}, {'(', _} | Tokens]) ->
    {Reversed, DelayMs} =
        case lists:reverse(Tokens) of
            [{integer, _, Ms}, {atom, _, by}, {atom, _, delayed}, {')', _} | Before] ->
                {Before, Ms};
            [{')', _} | Before] ->
                {Before, 0}
        end,
    List = [{'[', 1} | lists:reverse(Reversed, [{']', 1}, {dot, 1}])],
    {ok, Terms} = erl_parse:parse_term(List),
    {Kind, Terms, DelayMs}.

identified([{'<', _}, {float, _, _} = Float, {'.', _}, {integer, _, Serial}, {'>', _} | Tokens]) ->
    [Node, Id] = [list_to_integer(Part) || Part <- string:split(erl_scan:text(Float), ".")],
    [{integer, 1, pid(Node, Id, Serial)} | identified(Tokens)];
identified([{'#', _}, {var, _, Kind}, {'<', _} | Tokens]) ->
    {Inside, [_ | Rest]} = lists:splitwith(fun(Token) -> element(1, Token) =/= '>' end, Tokens),
    Text = io_lib:format("{'$dyno', <<\"#~ts<~ts>\"/utf8>>}", [
        Kind, [erl_scan:text(Token) || Token <- Inside]
    ]),
    {ok, Printed, _} = erl_scan:string(lists:flatten(Text)),
    Printed ++ identified(Rest);
identified([Token | Tokens]) ->
    [Token | identified(Tokens)];
identified([]) ->
    [].

pid(0, Id, Serial) ->
    list_to_pid(lists:flatten(io_lib:format("<0.~b.~b>", [Id, Serial])));
pid(Number, Id, Serial) ->
    %% Of another node, known only by its number: 88 is NEW_PID_EXT.
    Node = binary_to_atom(<<"node", (integer_to_binary(Number))/binary, "@log">>),
    <<131, Name/binary>> = term_to_binary(Node),
    binary_to_term(<<131, 88, Name/binary, Id:32, Serial:32, 1:32>>).
