%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_profile_functions).
-moduledoc false.
%% The functions of stacks, each with its own and its total value. Pure.

-export([tables/1, table/1, warnings/1, spec/0]).

%% The smallest functions have no row.
-define(MOST, 500).
-define(MUCH, 0.2).

-spec tables([map()]) -> [map()].
tables([]) ->
    [];
tables([#{name := First} | _] = Profiles) ->
    [table(Profile) || #{name := Name} = Profile <- Profiles, Name =:= First].

-spec table(map()) -> map().
table(#{values := [#{name := Value} | _]} = Profile) ->
    {Own, Total, Below} = shares(Profile),
    Observations = maps:get(observations, Profile, undefined),
    Unknown = lists:sum([Share || Name := Share <- Own, is_unknown(Name)]),
    Rows = [
        #{
            function => Name,
            own => own(Name, Own),
            observations => Observations,
            total => Share,
            more =>
                case is_unknown(Name) of
                    true -> none;
                    false -> #{own => Unknown, total => Unknown - maps:get(Name, Below, 0)}
                end,
            below => maps:get(Name, Below, 0)
        }
     || Name := Share <- Total
    ],
    Sorted = lists:sort(fun(A, B) -> weight(A) >= weight(B) end, Rows),
    dyno_recording_table:make(
        (spec())#{title => title(Profile, Value)},
        lists:sublist(Sorted, ?MOST),
        maps:with([node], Profile)
    ).

title(#{title := Title} = Profile, _Value) ->
    unicode:characters_to_binary([Title, ": functions", observed(Profile)]);
title(_Profile, Value) ->
    <<"Functions by ", Value/binary>>.

%% C code is no function: it counts for its caller.
own(<<"[", _/binary>> = Name, Own) -> maps:get(Name, Own, undefined);
own(Name, Own) -> maps:get(Name, Own, 0.0).

%% The number of samples shows how reliable shares are.
observed(Profile) ->
    Of = fun(Key) -> maps:get(Key, Profile, undefined) end,
    dyno_recording_part:observed(Of(observations), Of(seen), Of(scheduler)).

-spec warnings([map()]) -> [{Code :: binary(), Text :: binary()}].
warnings(Tables) ->
    [
        {
            ~"few_samples",
            ~"there are too few samples to tell the share of any function; measure longer (--for)"
        }
     || #{columns := Columns, rows := [_ | _] = Rows} <- Tables,
        lists:any(fun(#{name := Name}) -> Name =:= ~"own_high" end, Columns),
        Values <- [
            [
                maps:from_list(lists:zip([Name || #{name := Name} <- Columns], Row))
             || Row <- Rows
            ]
        ],
        %% Time whose functions are not known has its own doubt: measuring longer would not help.
        not lists:any(fun(Row) -> is_told(Row) orelse is_much_unknown(Row) end, Values)
    ].

is_unknown(Name) -> dyno_recording_part:is_unknown(Name).

is_much_unknown(#{~"function" := Name, ~"own" := Own}) -> is_unknown(Name) andalso Own > ?MUCH.

is_told(#{~"own" := Own, ~"own_low" := Low, ~"own_high" := High}) when is_number(High) ->
    High - Low =< Own / 2;
is_told(_Row) ->
    false.

weight(#{own := undefined, total := Total}) -> {-1, Total};
weight(#{own := Own, total := Total}) -> {Own, Total}.

shares(#{frames := Frames, samples := Samples}) ->
    All = max(1, lists:sum([V || #{values := [V | _]} <- Samples])),
    Names = list_to_tuple(Frames),
    Add = fun(Sample, Sums) -> add(Sample, Names, Sums) end,
    {Own, Total, Below} = lists:foldl(Add, {#{}, #{}, #{}}, Samples),
    Shares = fun(Sums) -> #{Name => Of / All || Name := Of <- Sums} end,
    {Shares(Own), Shares(Total), Shares(Below)}.

%% A recursive function counts once. Time below it whose function is not known is in its total.
add(#{stack := Numbers, values := [Value | _]}, Names, {Own, Total, Below}) ->
    Stack = [element(Number + 1, Names) || Number <- Numbers],
    Innermost = dyno_recording_part:innermost(Stack),
    Add = fun(Sums) ->
        lists:foldl(fun(Frame, Acc) -> sum(Frame, Value, Acc) end, Sums, lists:uniq(Stack))
    end,
    {
        sum(Innermost, Value, Own),
        Add(Total),
        case is_unknown(Innermost) of
            true -> Add(Below);
            false -> Below
        end
    }.

sum(Key, Value, Sums) -> Sums#{Key => maps:get(Key, Sums, 0) + Value}.

-spec spec() -> map().
spec() ->
    Total = ~"The share that was spent in it and in the functions it calls.",
    #{
        name => ~"profile",
        title => ~"Functions",
        sort => {~"own", descending},
        columns => [
            {~"function", ~"Function", string, key, function},
            {~"own", ~"Own", ratio, [lower, ~"The share that was spent in it alone."], own},
            bound(low, own, ~"Own, from"),
            bound(high, own, ~"Own, to"),
            {~"total", ~"With callees", ratio, [lower, Total], total},
            bound(low, total, ~"With callees, from"),
            bound(high, total, ~"With callees, to")
        ]
    }.

%% Time of unknown functions may be of any, or of none in its stack: its row is an upper bound.
bound(Role, Key, Title) ->
    Of = atom_to_binary(Key),
    {
        <<Of/binary, "_", (atom_to_binary(Role))/binary>>,
        Title,
        ratio,
        [optional, {Role, Of}],
        fun
            (#{Key := Share, observations := Count, more := More, below := Below}) when
                is_number(Share), is_integer(Count), Count > 0
            ->
                Ends = fun(S) -> dyno_stats_interval:share(min(1.0, float(S)), Count) end,
                case {Role, More} of
                    {high, #{Key := Beyond}} -> min(1.0, element(2, Ends(Share)) + Beyond);
                    {high, none} -> element(2, Ends(Share));
                    {low, none} -> 0.0;
                    {low, _} when Key =:= total -> element(1, Ends(max(0.0, Share - Below)));
                    {low, _} -> element(1, Ends(Share))
                end;
            (_) ->
                undefined
        end
    }.
