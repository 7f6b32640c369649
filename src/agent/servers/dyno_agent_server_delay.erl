%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_delay).
-moduledoc false.
%% How long messages waited, from looks at the length of the queue. Pure.
%%
%% Messages are numbered in the order of receipt. If 3 messages are left when message 7 is received,
%% messages 8 to 10 are in the queue, and 11 is not. So two looks bound the arrival of each message:
%% the most and the least that it waited. The estimate spreads the arrivals between two looks evenly
%% over that time: the second of four came after three eighths of it. If the process waited for a
%% message, the message did not wait. The looks are at random messages, so their delays stand for
%% all.
%%
%% The first message after a pause is looked at in addition: the queue was empty, so the messages
%% left came since the process woke. This look shows bursts. The wait of a woken process for a
%% processor is not seen. If messages wait while a callback runs, or during a pause, as in a
%% collection or for a processor, dyno_agent_server_heart sees this from outside; its looks count
%% like the process's own.
%%
%%   looks       7, 3 left       9, 4 left
%%   known     |  .. 10 there  |  11, 12, 13 came in between  |
%%
%% Many looks are thinned out evenly, so the bounds of a message that waits long stay within some
%% percent. Messages that a callback receives by itself make a number wrong until a later look.

-export([new/1, received/3, woken/2, stood/3, spaced/2, pace/0, pace/2]).
-export_type([t/0, pace/0]).

-doc """
The looks with the next message, newest first, and their count; the last look without it; and the
messages that came in a pause, of which it is not known if the process woke for them.
""".
-opaque t() :: {[look()], non_neg_integer(), Without :: look(), paused()}.

%% The last message that was there, and when this was first and last seen.
-type look() :: {UpTo :: integer(), First :: integer(), Last :: integer()}.
-type paused() :: {UpTo :: integer(), Since :: integer()}.

-doc "One message in `Rarity` + 1 gets a look; the credit is for a burst.".
-type pace() :: {Rarity :: non_neg_integer(), CreditNs :: non_neg_integer()}.

-define(MOST, 64).
-define(SPACES, 48).
%% The credit a look costs, and the most credit that accumulates for a burst.
-define(LOOK_NS, 500_000).
-define(MOST_CREDIT_NS, 500_000_000).
-define(CLOSE_NS, 250_000).
-define(MOST_RARITY, 63).

-spec new(integer()) -> t().
new(Now) -> {[], 0, {0, Now, Now}, {0, Now}}.

-doc """
A message is received: its number, the time, the messages left, and the end of the last callback, or
`waited`. Returns its delay: at least, estimated, and at most.
""".
-spec received({Number, Now, Left}, Before, t()) -> {{LeastNs, Ns, MostNs}, t()} when
    Number :: pos_integer(),
    Now :: integer(),
    Left :: non_neg_integer(),
    Before :: integer() | waited,
    LeastNs :: non_neg_integer(),
    Ns :: non_neg_integer(),
    MostNs :: non_neg_integer().
received({Number, Now, Left}, Before, Delay) ->
    {With, _, {UpTo, _, Early}, {PausedUpTo, PausedSince}} = Known = over(Number, Delay),
    {LeastNs, Ns} =
        case {With, Before} of
            {[], waited} ->
                {0, 0};
            {[], _} ->
                %% The messages left came until now, this one before its receipt.
                Least = max(0, Now - max(Early, Before)),
                Spread = Now - spread(Number - UpTo, Number + Left - UpTo, {Early, Now}),
                {Least, max(Least, Spread)};
            {_, _} ->
                {At, Late, _} = lists:last(With),
                {Now - Late, Now - spread(Number - UpTo, At - UpTo, {Early, Late})}
        end,
    MostNs =
        case Number =< PausedUpTo of
            true -> Now - PausedSince;
            false -> Now - Early
        end,
    {{LeastNs, Ns, max(Ns, MostNs)}, add(Number + Left, Now, Known)}.

spread(Number, Count, {Early, Late}) ->
    Early + round((Late - Early) * (2 * Number - 1) / (2 * max(1, Count))).

-spec woken({pos_integer(), integer(), non_neg_integer()}, t()) -> t().
woken({Number, Now, Left}, Delay) ->
    case over(Number, Delay) of
        {[], 0, {_, _, Since}, _} ->
            add(Number + Left, Now, {[], 0, {Number, Now, Now}, {Number + Left, Since}});
        {With, Count, {_, _, Since} = Without, _} ->
            {With, Count, Without, {Number + Left, Since}}
    end.

-doc "Before it received this message, these queue lengths were seen, the message included.".
-spec stood(pos_integer(), [{At :: integer(), Queue :: non_neg_integer()}], t()) -> t().
stood(Number, Seen, Delay) ->
    See = fun({At, Queue}, Known) -> add(Number - 1 + Queue, At, Known) end,
    lists:foldl(See, over(Number, Delay), Seen).

%% Without the looks that tell nothing of this and later messages, except the last of them.
over(Number, {Looks, _, _, Paused} = Delay) ->
    case lists:splitwith(fun({UpTo, _, _}) -> UpTo >= Number end, Looks) of
        {_, []} -> Delay;
        {With, [Last | _]} -> {With, length(With), Last, Paused}
    end.

%% A look with fewer messages tells that a callback received the others by itself.
add(UpTo, Now, {[{More, _, _} | Looks], Count, Without, Paused}) when More > UpTo ->
    add(UpTo, Now, {Looks, Count - 1, Without, Paused});
add(UpTo, Now, {[{UpTo, First, _} | Looks], Count, Without, Paused}) ->
    {[{UpTo, First, Now} | Looks], Count, Without, Paused};
add(UpTo, Now, {[], 0, {Most, First, _}, Paused}) when Most >= UpTo ->
    {[], 0, {Most, First, Now}, Paused};
add(UpTo, Now, {Looks, ?MOST, Without, Paused}) ->
    Thinner = spaced(Looks, fun({_, First, _}) -> First end),
    add(UpTo, Now, {Thinner, length(Thinner), Without, Paused});
add(UpTo, Now, {Looks, Count, Without, Paused}) ->
    {[{UpTo, Now, Now} | Looks], Count + 1, Without, Paused}.

-doc "Of looks, the newest first, some fifty at about equal distances in time.".
-spec spaced([Look, ...], fun((Look) -> integer())) -> [Look, ...].
spaced([Newest | _] = Looks, Time) ->
    spaced(Looks, Time, (Time(Newest) - Time(lists:last(Looks))) div ?SPACES + 1).

spaced([Look, Before | Looks], Time, Space) ->
    case Time(Look) - Time(Before) < Space of
        true -> spaced([Look | Looks], Time, Space);
        false -> [Look | spaced([Before | Looks], Time, Space)]
    end;
spaced(Last, _Time, _Space) ->
    Last.

-spec pace() -> pace().
pace() -> {0, ?MOST_CREDIT_NS}.

-doc """
The pace after a look so long after the one before: some 2,000 looks a second. At low rates each
message is looked at, at high rates one in 64; a burst of a thousand completely.
""".
-spec pace(SinceNs :: integer(), pace()) -> pace().
pace(SinceNs, {Rarity, Credit}) ->
    case min(?MOST_CREDIT_NS, Credit + SinceNs) - ?LOOK_NS of
        Left when Left > 0 -> {0, Left};
        _ -> {rarity(SinceNs, Rarity), 0}
    end.

rarity(SinceNs, Rarity) when SinceNs < ?CLOSE_NS -> min(?MOST_RARITY, 2 * Rarity + 1);
rarity(SinceNs, Rarity) when SinceNs < 8 * ?CLOSE_NS -> Rarity;
rarity(SinceNs, Rarity) when SinceNs < 64 * ?CLOSE_NS -> Rarity bsr 1;
rarity(_SinceNs, _Rarity) -> 0.
