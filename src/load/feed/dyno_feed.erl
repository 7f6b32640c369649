%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_feed).
-moduledoc """
Data for a suite's operations: users from a CSV file, keys of a distribution, payloads from a fun.

A suite names its feeds in `suite/0`; its workers take items in `init_worker/2` and in operations:

```erlang
suite() ->
    #{
        sizes => [10],
        feeds => #{
            user => {csv, "users.csv"},
            key => {zipf, 1_000_000, 1.1},
            order => #{from => {lines, "orders.txt"}, order => sequence}
        }
    }.

operation(State) ->
    #{~"name" := Name} = dyno_feed:next(user),
    Key = dyno_feed:next(key),
    ...
```

## Cost
`next/1` in a worker: below a microsecond. This time is part of the operation's: take expensive
items in `init_worker/2`. Each load node keeps the items of files, up to 1 GiB, in memory.
""".

%% For suites
-export([next/1]).
%% For the generator
-export([read/1, beside/2, portable/1, open/2, enter/2, format_error/1]).
-export_type([spec/0, source/0, feed/0, context/0, reason/0]).

-doc """
The origin of items. Items of a CSV file are maps with the headings as binary keys; items of
`uniform` (evenly distributed) and `zipf` (1 the most frequent; an exponent of 1 is usual) are
integers; a fun is called with 1, 2, 3 and so on.
""".
-type source() ::
    [term(), ...]
    | {lines | csv, file:name_all()}
    | {range, Low :: integer(), High :: integer()}
    | {uniform, Low :: integer(), High :: integer()}
    | {zipf, Count :: pos_integer(), Exponent :: number()}
    | fun((pos_integer()) -> term()).

-doc """
A source, or a source with its order and its sharing by workers.

`cycle` begins anew at the end. `sequence` ends: a worker without items ends its work, and the load
ends with its last worker. `random` takes any item repeatedly.

`shared`: all workers together go through the items; no item is taken twice in a turn. `each`: every
worker goes through all items. `split`: worker K of N has the items K, K + N, ...
""".
-type spec() ::
    source()
    | #{
        from := source(),
        order => cycle | sequence | random,
        share => shared | each | split
    }.

-type feed() :: #{
    name := atom(),
    source := source(),
    order := cycle | sequence | random,
    share := shared | each | split
}.

-opaque context() :: #{
    feeds := [{atom(), opened()}],
    index := non_neg_integer(),
    nodes := pos_integer(),
    workers := pos_integer(),
    seed := integer()
}.

-type opened() :: #{
    name := atom(),
    order := cycle | sequence | random,
    share := shared | each | split,
    taken := atomics:atomics_ref(),
    store := store(),
    size := pos_integer() | infinity
}.

-type store() ::
    {ets, ets:table()}
    | {from, integer()}
    | {zipf, dyno_feed_zipf:t()}
    | {call, fun((pos_integer()) -> term())}.

-type reason() ::
    {bad_feeds, term()}
    | {bad_feed, atom(), term()}
    | {feed_file, atom(), dyno_feed_file:reason()}.

-doc """
The next item of a feed.

## Errors
`error({no_such_feed, Name})` if the suite has no feed of that name, and `error(not_a_worker)`
outside of `init_worker/2` and operations.
""".
-spec next(atom()) -> term().
next(Name) ->
    case get({?MODULE, Name}) of
        {Feed, Context, Own} ->
            take(Name, Feed, Context, Own);
        undefined ->
            case get(?MODULE) of
                undefined -> error(not_a_worker);
                _ -> error({no_such_feed, Name})
            end
    end.

%% `Own` is the number of items taken, or a random state.
take(Name, #{store := {zipf, Zipf}} = Feed, Context, {Id, Taken, Random}) ->
    {Item, Next} = dyno_feed_zipf:sample(Zipf, Random),
    put({?MODULE, Name}, {Feed, Context, {Id, Taken, Next}}),
    Item;
take(Name, #{order := random, size := Size} = Feed, Context, {Id, Taken, Random}) when
    is_integer(Size)
->
    {Nth, Next} = rand:uniform_s(Size, Random),
    put({?MODULE, Name}, {Feed, Context, {Id, Taken, Next}}),
    item(Nth - 1, Feed);
take(Name, #{share := shared, taken := Taken} = Feed, Context, _Own) ->
    #{index := Index, nodes := Nodes} = Context,
    at(Name, (atomics:add_get(Taken, 1, 1) - 1) * Nodes + Index, Feed);
take(Name, #{share := Share} = Feed, #{workers := Workers} = Context, {Id, Taken, Random}) ->
    put({?MODULE, Name}, {Feed, Context, {Id, Taken + 1, Random}}),
    case Share of
        each -> at(Name, Taken, Feed);
        split -> at(Name, split(Id, Taken, Workers, Feed), Feed)
    end.

%% In a cycle each worker cycles through its own items.
split(Id, Taken, Workers, #{order := cycle, size := Size}) when is_integer(Size), Id =< Size ->
    Own = (Size - Id) div Workers + 1,
    (Taken rem Own) * Workers + Id - 1;
split(Id, Taken, Workers, _Feed) ->
    Taken * Workers + Id - 1.

at(Name, Nth, #{order := sequence, size := Size}) when Nth >= Size ->
    throw({?MODULE, ended, Name});
at(_Name, Nth, #{size := Size} = Feed) when is_integer(Size) ->
    item(Nth rem Size, Feed);
at(_Name, Nth, Feed) ->
    item(Nth, Feed).

item(Nth, #{store := Store}) ->
    case Store of
        {ets, Table} -> ets:lookup_element(Table, Nth, 2);
        {from, Low} -> Low + Nth;
        {call, Fun} -> Fun(Nth + 1)
    end.

-doc "Checks a suite's feeds.".
-spec read(term()) -> {ok, [feed()]} | {error, reason()}.
read(Feeds) when is_map(Feeds) ->
    dyno_error:each(fun read_one/1, lists:sort(maps:to_list(Feeds)));
read(Other) ->
    {error, {bad_feeds, Other}}.

read_one({Name, Given}) when is_atom(Name) ->
    Spec =
        case is_map(Given) of
            true -> Given;
            false -> #{from => Given}
        end,
    Source = maps:get(from, Spec, none),
    Order = maps:get(order, Spec, order(Source)),
    Share = maps:get(share, Spec, shared),
    Good =
        maps:keys(Spec) -- [from, order, share] =:= [] andalso
            is_source(Source) andalso
            lists:member(Order, [cycle, sequence, random]) andalso
            lists:member(Share, [shared, each, split]) andalso
            %% Random order needs an end.
            not (is_function(Source) andalso Order =:= random),
    case Good of
        true -> {ok, #{name => Name, source => Source, order => Order, share => Share}};
        false -> {error, {bad_feed, Name, Given}}
    end;
read_one({Name, _}) ->
    {error, {bad_feeds, Name}}.

order({uniform, _, _}) -> random;
order({zipf, _, _}) -> random;
order(_) -> cycle.

is_source(List) when length(List) > 0 ->
    true;
is_source({Format, File}) when Format =:= lines; Format =:= csv ->
    is_binary(File) orelse is_list(File);
is_source({Form, Low, High}) when Form =:= range; Form =:= uniform ->
    is_integer(Low) andalso is_integer(High) andalso Low =< High;
is_source({zipf, Count, Exponent}) ->
    is_integer(Count) andalso Count > 0 andalso is_number(Exponent) andalso Exponent > 0;
is_source(Fun) ->
    is_function(Fun, 1).

-doc "Looks for files in this folder if they are not in the current folder.".
-spec beside([feed()], file:name_all()) -> [feed()].
beside(Feeds, Folder) ->
    of_files(Feeds, fun(Format, File) ->
        {Format, filename:absname(dyno_file:near(File, Folder))}
    end).

of_files(Feeds, Source) ->
    [
        case Feed of
            #{source := {Format, File}} when Format =:= lines; Format =:= csv ->
                Feed#{source := Source(Format, File)};
            #{} ->
                Feed
        end
     || Feed <- Feeds
    ].

-doc "The feeds for a node on another machine: items in place of files.".
-spec portable([feed()]) -> [feed()].
portable(Feeds) ->
    of_files(Feeds, fun(Format, File) ->
        case dyno_feed_file:items(Format, File) of
            {ok, Items} -> Items;
            %% Opening the feed reports this error.
            {error, _} -> {Format, File}
        end
    end).

-doc "Opens feeds on this node, until the caller ends.".
-spec open([feed()], #{
    index := non_neg_integer(),
    nodes := pos_integer(),
    workers := pos_integer(),
    seed := integer()
}) -> {ok, context()} | {error, reason()}.
open(Feeds, Place) ->
    open(Feeds, Place, []).

open([], Place, Opened) ->
    {ok, (maps:with([index, nodes, workers, seed], Place))#{feeds => Opened}};
open([#{name := Name, source := Source} = Feed | Feeds], Place, Opened) ->
    case store(Source) of
        {ok, Size, Store} ->
            Ready = #{taken => atomics:new(1, []), store => Store, size => Size},
            Own = maps:merge(maps:with([name, order, share], Feed), Ready),
            open(Feeds, Place, [{Name, Own} | Opened]);
        {error, Reason} ->
            {error, {feed_file, Name, Reason}}
    end.

store(Items) when is_list(Items) ->
    in_table(Items);
store({range, Low, High}) ->
    {ok, High - Low + 1, {from, Low}};
store({uniform, Low, High}) ->
    {ok, High - Low + 1, {from, Low}};
store({zipf, Count, Exponent}) ->
    {ok, Count, {zipf, dyno_feed_zipf:new(Count, Exponent)}};
store(Fun) when is_function(Fun, 1) ->
    {ok, infinity, {call, Fun}};
store({Format, File}) ->
    maybe
        {ok, Items} ?= dyno_feed_file:items(Format, File),
        in_table(Items)
    end.

%% A worker copies one item, not the list.
in_table([_ | _] = Items) ->
    Table = ets:new(?MODULE, [public, {read_concurrency, true}]),
    true = ets:insert(Table, lists:enumerate(0, Items)),
    {ok, length(Items), {ets, Table}}.

-doc "Makes the calling process a worker with this node's feeds.".
-spec enter(pos_integer(), context()) -> ok.
enter(Id, #{feeds := Feeds, seed := Seed} = Context) ->
    put(?MODULE, Id),
    lists:foreach(
        fun({Name, Feed}) ->
            Random = rand:seed_s(exsss, {Seed, Id, erlang:phash2(Name) + 1}),
            put({?MODULE, Name}, {Feed, Context#{feeds := []}, {Id, 0, Random}})
        end,
        Feeds
    ).

-spec format_error(reason()) -> unicode:chardata().
format_error({bad_feeds, Term}) ->
    io_lib:format("feeds is ~0tP; a map from names (atoms) to feeds is accepted", [Term, 12]);
format_error({bad_feed, Name, Spec}) ->
    io_lib:format(
        "feed ~ts is ~0tP; accepted are a list, {csv, File}, {lines, File}, {range, Low, High}, "
        "{uniform, Low, High}, {zipf, Count, Exponent} and fun((N) -> Item), alone or as from of "
        "#{from => Source, order => cycle | sequence | random, share => shared | each | split}",
        [Name, Spec, 12]
    );
format_error({feed_file, Name, Reason}) ->
    io_lib:format("feed ~ts: ~ts", [Name, dyno_feed_file:format_error(Reason)]).
