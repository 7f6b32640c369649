%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_event_term).
-moduledoc """
Copies terms within a depth and a size, so that they can be sent. Pure.

An omitted part is `{'$dyno', <<"...">>}`. Pids, ports, references and funs become such texts, as
their node prints them: identifiers change between nodes, and funs carry their environment.
""".

-export([bounded/2, call/2]).
-export_type([limits/0]).

-type limits() :: #{
    depth := pos_integer(),
    %% Elements of lists, tuples and maps; characters; units of eight bytes of binaries.
    size := pos_integer()
}.

-define(TEXT(Text), {'$dyno', Text}).
-define(CUT, ?TEXT(~"...")).
-define(MOST_BYTES, 256).
-define(MOST_BITS, 1024).

-doc """
Copies a term.

```erlang
1> dyno_agent_event_term:bounded({[1, 2, 3], "abc"}, #{depth => 3, size => 3}).
{[1,2|{'$dyno',<<"...">>}],{'$dyno',<<"...">>}}
```
""".
-spec bounded(term(), limits()) -> term().
bounded(Term, #{depth := Depth, size := Size}) ->
    {Copy, _Left} = copy(Term, Depth, Size),
    Copy.

-doc "Copies the arguments of a call, if known.".
-spec call(dyno_agent_event:mfargs(), limits()) -> dyno_agent_event:mfargs().
call({M, F, Args}, Limits) when is_list(Args) -> {M, F, [bounded(Arg, Limits) || Arg <- Args]};
call(MFA, _Limits) -> MFA.

copy(_Term, Depth, Left) when Depth =:= 0; Left =< 0 ->
    {?CUT, Left - 1};
copy(Term, _Depth, Left) when
    is_atom(Term); is_float(Term); Term =:= []; is_integer(Term), abs(Term) < 1 bsl ?MOST_BITS
->
    {Term, Left - 1};
copy(Term, _Depth, Left) when is_integer(Term) ->
    {?CUT, Left - 1};
copy(Term, _Depth, Left) when is_bitstring(Term) ->
    {bits(Term), Left - 1 - min(?MOST_BYTES, byte_size(Term)) div 8};
copy(Term, Depth, Left) when is_list(Term) ->
    list(Term, Depth - 1, Left - 1, []);
copy(Term, Depth, Left) when is_tuple(Term) ->
    tuple(Term, Depth - 1, Left - 1);
copy(Term, Depth, Left) when is_map(Term) ->
    map(maps:next(maps:iterator(Term)), Depth - 1, Left - 1, []);
copy(Term, _Depth, Left) ->
    {?TEXT(iolist_to_binary(io_lib:format("~0p", [Term]))), Left - 1}.

bits(Bits) when bit_size(Bits) =< 8 * ?MOST_BYTES -> Bits;
bits(<<First:?MOST_BYTES/binary, _/bitstring>>) -> <<First/binary, "...">>.

list([], _Depth, Left, Copied) ->
    {lists:reverse(Copied), Left};
list(_More, _Depth, Left, Copied) when Left =< 0 ->
    First = lists:reverse(Copied),
    case Copied =/= [] andalso io_lib:printable_unicode_list(First) of
        true -> {First ++ "...", Left};
        false -> {First ++ ?CUT, Left}
    end;
list([Element | More], Depth, Left, Copied) ->
    {Copy, NowLeft} = copy(Element, Depth, Left),
    list(More, Depth, NowLeft, [Copy | Copied]);
list(Improper, Depth, Left, Copied) ->
    {Copy, NowLeft} = copy(Improper, Depth, Left),
    {lists:reverse(Copied) ++ Copy, NowLeft}.

tuple(Tuple, Depth, Left) ->
    Taken = min(tuple_size(Tuple), max(Left, 0) + 1),
    {Elements, NowLeft} = lists:mapfoldl(
        fun(N, Acc) -> copy(element(N, Tuple), Depth, Acc) end, Left, lists:seq(1, Taken)
    ),
    {list_to_tuple(Elements), NowLeft}.

map(none, _Depth, Left, Copied) ->
    {maps:from_list(Copied), Left};
map(_More, Depth, Left, Copied) when Left =< 0; Depth =:= 0 ->
    {maps:from_list([{?CUT, ?CUT} | Copied]), Left};
map({Key, Value, More}, Depth, Left, Copied) ->
    {KeyCopy, AfterKey} = copy(Key, Depth, Left),
    {ValueCopy, AfterValue} = copy(Value, Depth, AfterKey),
    map(maps:next(More), Depth, AfterValue, [{KeyCopy, ValueCopy} | Copied]).
