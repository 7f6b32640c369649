%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_delay).
-moduledoc false.
%% Estimates how long messages waited, from looks at the length of the queue. Pure.
%%
%% Messages are numbered in the order of receipt. If 3 messages are left when message 7 is received,
%% messages 8 to 10 are in the queue, and 11 is not. So two looks bound the arrival of each message,
%% and the order among the arrivals between them is known. Arrivals are spread evenly over that
%% time: the second of four came after three eighths of it. The error is the standard deviation of
%% uniform random arrivals. If the process waited for a message, the message did not wait. The looks
%% are at random messages, so their delays stand for all.
%%
%% The first message after a pause is looked at in addition: the queue was empty, so the messages
%% left came since the process woke. This look shows bursts. The wait of a woken process for a
%% processor is not seen. If messages waited during a pause, as in a collection or for a processor,
%% dyno_agent_server_heart sees this from outside; its looks count like the process's own.
%%
%%   looks       7, 3 left       9, 4 left
%%   known     |  .. 10 there  |  11, 12, 13 came in between  |
%%
%% At most 16 looks are kept. Messages that a callback receives by itself make a number wrong until
%% the queue is empty.

-export([new/1, received/3, most/3, woken/2, stood/3]).
-export_type([t/0]).

-doc """
The looks: the last message that was there, and when this was first and last seen. The first look is
the last one that tells nothing more.
""".
-opaque t() :: {Looks :: [look(), ...], Count :: pos_integer(), paused()}.
-type look() :: {UpTo :: integer(), First :: integer(), Last :: integer()}.

%% Messages up to this one came in a pause, and none was there at this time: if there was no look
%% in the pause, they may not have come when the process woke.
-type paused() :: {UpTo :: integer(), Since :: integer()}.

-define(MOST, 16).

-spec new(integer()) -> t().
new(Now) -> {[{0, Now, Now}], 1, {0, Now}}.

-doc """
A random message is received: its number, the time, the messages left; and the end of the last
callback, or `waited` if the process waited for the message. Returns its delay and the error.
""".
-spec received({Number, Now, Left}, Before, t()) -> {Ns, ErrorNs, t()} when
    Number :: pos_integer(),
    Now :: integer(),
    Left :: non_neg_integer(),
    Before :: integer() | waited,
    Ns :: non_neg_integer(),
    ErrorNs :: non_neg_integer().
received({Number, Now, Left}, Before, {Looks, Count, Paused}) ->
    {Current, Kept} = over(Number, Looks, Count),
    {Ns, ErrorNs} = waited(Current, Before, {Number, Now, Left}),
    {More, Counted} = add(Number + Left, Now, Current, Kept),
    {Ns, ErrorNs, {More, Counted, Paused}}.

-doc """
The most that this message has waited, with its delay and error: since it was not there yet; twice
the error of an estimate is less.
""".
-spec most({Number :: pos_integer(), Now :: integer()}, {Ns, ErrorNs}, t()) -> Ns when
    Ns :: non_neg_integer(), ErrorNs :: non_neg_integer().
most({Number, Now}, {Ns, _ErrorNs}, {_Looks, _Count, {UpTo, Since}}) when Number =< UpTo ->
    max(Ns, Now - Since);
most({Number, Now}, {Ns, ErrorNs}, {Looks, Count, _Paused}) ->
    {[{_, _, Early} | _], _} = over(Number, Looks, Count),
    case Ns + 2 * ErrorNs of
        0 -> Now - Early;
        Estimate -> max(Ns, min(Now - Early, Estimate))
    end.

-spec woken({pos_integer(), integer(), non_neg_integer()}, t()) -> t().
woken({Number, Now, Left}, {Looks, Count, _}) ->
    {[{_, _, Since} | _], _} = Current = over(Number, Looks, Count),
    {More, Counted} =
        case Current of
            {[_], _} -> add(Number + Left, Now, [{Number, Now, Now}], 1);
            _ -> Current
        end,
    {More, Counted, {Number + Left, Since}}.

-doc """
The message of this number is received after a pause in which messages were seen to wait: first
perhaps none, then some.
""".
-spec stood(pos_integer(), [{At :: integer(), Queue :: non_neg_integer()}], t()) -> t().
stood(Number, Seen, {Looks, Count, Paused}) ->
    See = fun({At, Queue}, {Known, N}) ->
        {Current, Kept} = over(Number, Known, N),
        add(Number - 1 + Queue, At, Current, Kept)
    end,
    {More, Counted} = lists:foldl(See, {Looks, Count}, Seen),
    {More, Counted, Paused}.

%% Drops the looks that tell nothing of this and later messages, except the last of them.
over(Number, [_, {UpTo, _, _} = Next | Looks], Count) when UpTo < Number ->
    over(Number, [Next | Looks], Count - 1);
over(_Number, Looks, Count) ->
    {Looks, Count}.

waited([{UpTo, _, Early}, {At, Late, _} | _], _Before, {Number, Now, _}) ->
    spread(Number - UpTo, At - UpTo, {Early, Late}, Now);
waited([_], waited, _Message) ->
    {0, 0};
waited([{UpTo, _, Early}], Before, {Number, Now, Left}) ->
    %% The messages left came until now, this one before its receipt.
    {Ns, ErrorNs} = spread(Number - UpTo, Number + Left - UpTo, {Early, Now}, Now),
    {max(Ns, Now - max(Early, Before)), ErrorNs}.

spread(Number, Count, {Early, Late}, Now) when Late > Early ->
    Share = (2 * Number - 1) / (2 * Count),
    Between = Late - Early,
    ErrorNs = round(Between * math:sqrt(Share * (1 - Share) / (Count + 2))),
    {Now - Early - round(Between * Share), ErrorNs};
spread(_Number, _Count, {_Early, Late}, Now) ->
    {Now - Late, 0}.

%% Messages missing at the last look come later.
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
