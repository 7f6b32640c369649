%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_delay).
-moduledoc false.
%% How long messages waited before they were received, from looks at the length of the queue. Pure.
%%
%% Messages are numbered as they are received. When message 7 is received and 3 are left, messages
%% 8 to 10 are there, and 11 is not. So of a message that is looked at when it is received it is
%% known between which two looks it came, and as which of those that came in between. They are
%% spread evenly over that time: the second of four came after three eighths of it. The error is
%% the standard deviation of that if each came at any time. A message that the process waited for
%% has waited not at all. The messages that are looked at are random ones, so their delays stand for
%% all.
%%
%% After a pause the first message is looked at besides, and not for its own sake: its process had
%% none, so those that are left have come since it woke, and not at any time of the pause. This is
%% what tells of bursts. What a woken process waits for a processor is not seen.
%% A pause in which messages waited, as in a collection or for a processor, is seen from outside
%% (dyno_agent_server_heart): these looks count as the process's own.
%%
%%   looks       7, 3 left       9, 4 left
%%   known     |  .. 10 there  |  11, 12, 13 came in between  |
%%
%% At most 16 looks are kept. Messages that a callback receives by itself make a number wrong until
%% the queue is empty.

-export([new/1, received/3, woken/2, stood/3]).
-export_type([t/0]).

-doc """
The looks: up to which message they were there, when that was first and last seen; the first one is
the last that is over.
""".
-opaque t() :: {Looks :: [look(), ...], Count :: pos_integer()}.
-type look() :: {UpTo :: integer(), First :: integer(), Last :: integer()}.

-define(MOST, 16).

-doc "From now on.".
-spec new(integer()) -> t().
new(Now) -> {[{0, Now, Now}], 1}.

-doc """
A random message is received: its number, when, how many are left; the end of the last callback, or
`waited` where the process waited for it. Gives how long it waited, and by how much that may be
wrong.
""".
-spec received({Number, Now, Left}, Before, t()) -> {Ns, ErrorNs, t()} when
    Number :: pos_integer(),
    Now :: integer(),
    Left :: non_neg_integer(),
    Before :: integer() | waited,
    Ns :: non_neg_integer(),
    ErrorNs :: non_neg_integer().
received({Number, Now, Left}, Before, {Looks, Count}) ->
    {Current, Kept} = over(Number, Looks, Count),
    {Ns, ErrorNs} = waited(Current, Before, {Number, Now, Left}),
    {Ns, ErrorNs, add(Number + Left, Now, Current, Kept)}.

-doc "The first message after a pause is received: its number, when, how many are left.".
-spec woken({pos_integer(), integer(), non_neg_integer()}, t()) -> t().
woken({Number, Now, Left}, {Looks, Count}) ->
    case over(Number, Looks, Count) of
        {[_], _} -> add(Number + Left, Now, [{Number, Now, Now}], 1);
        %% It was there before: what looked like a pause was none.
        Current -> Current
    end.

-doc """
The message of this number is received after a pause in which so many were seen to wait at these
times: none at first, maybe, and then some.
""".
-spec stood(pos_integer(), [{At :: integer(), Queue :: non_neg_integer()}], t()) -> t().
stood(Number, Seen, {Looks, Count}) ->
    See = fun({At, Queue}, {Known, N}) ->
        {Current, Kept} = over(Number, Known, N),
        add(Number - 1 + Queue, At, Current, Kept)
    end,
    lists:foldl(See, {Looks, Count}, Seen).

%% The looks that say nothing of this message and later ones, but the last of them.
over(Number, [_, {UpTo, _, _} = Next | Looks], Count) when UpTo < Number ->
    over(Number, [Next | Looks], Count - 1);
over(_Number, Looks, Count) ->
    {Looks, Count}.

waited([{UpTo, _, Early}, {At, Late, _} | _], _Before, {Number, Now, _}) ->
    spread(Number - UpTo, At - UpTo, {Early, Late}, Now);
waited([_], waited, _Message) ->
    {0, 0};
waited([{UpTo, _, Early}], Before, {Number, Now, Left}) ->
    %% Those that are left came until now, this one before it was taken.
    {Ns, ErrorNs} = spread(Number - UpTo, Number + Left - UpTo, {Early, Now}, Now),
    {max(Ns, Now - max(Early, Before)), ErrorNs}.

%% The one of this number of so many that came between two times.
spread(Number, Count, {Early, Late}, Now) when Late > Early ->
    Share = (2 * Number - 1) / (2 * Count),
    Between = Late - Early,
    ErrorNs = round(Between * math:sqrt(Share * (1 - Share) / (Count + 2))),
    {Now - Early - round(Between * Share), ErrorNs};
spread(_Number, _Count, {_Early, Late}, Now) ->
    {Now - Late, 0}.

%% Messages that are not there yet at the last of them come after it.
add(UpTo, Now, [Over], Count) ->
    {[Over, {UpTo, Now, Now}], Count + 1};
add(UpTo, Now, Looks, Count) ->
    case lists:reverse(Looks) of
        [{At, Seen, _} | Before] when At >= UpTo ->
            {lists:reverse(Before, [{At, Seen, Now}]), Count};
        _ when Count >= ?MOST ->
            Thinner = [Look || {N, Look} <- lists:enumerate(Looks), N rem 2 =:= 1],
            {Thinner ++ [{UpTo, Now, Now}], length(Thinner) + 1};
        _ ->
            {Looks ++ [{UpTo, Now, Now}], Count + 1}
    end.
