%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_servers_sinks).
-moduledoc false.
%% The URLs of sinks: schemes, their parts, and errors.

-export([parse/1, resolve/1, format_error/1]).
-export_type([config/0, reason/0]).

-type config() :: #{
    sink := module(),
    %% The scheme: modules have several.
    protocol := atom(),
    host => binary(),
    port => inet:port_number(),
    path => binary(),
    prefix => binary(),
    tags => [{binary(), binary()}],
    temporality => cumulative | delta
}.

-type reason() ::
    %% The error, as a part of a sentence, and the valid forms.
    {Url :: binary(), Problem :: unicode:chardata(), Forms :: [binary()]}
    | {host, binary(), inet:posix()}.

-define(NO_URL, "is not a URL").
-define(TAGS, "tags as KEY:VALUE,KEY:VALUE are accepted").

%% Scheme, module and protocol, parts of the URL, its form, and options with defaults.
schemes() ->
    {Statsd, Otlp, Udp} = {dyno_servers_statsd, dyno_servers_otlp, {host, none, 8125}},
    Prefix = {prefix, ~"otp"},
    Tags = {tags, []},
    Otlps = [{temporality, cumulative}],
    Local = {host, ~"127.0.0.1", 9464},
    [
        {~"statsd", Statsd, statsd, Udp, ~"statsd://HOST:8125", [Prefix]},
        {~"statsd+unix", Statsd, statsd, path, ~"statsd+unix:/PATH", [Prefix]},
        {~"dogstatsd", Statsd, dogstatsd, Udp, ~"dogstatsd://HOST:8125", [Prefix, Tags]},
        {~"dogstatsd+unix", Statsd, dogstatsd, path, ~"dogstatsd+unix:/PATH", [Prefix, Tags]},
        {~"prometheus", dyno_servers_prometheus, prometheus, Local, ~"prometheus://127.0.0.1:9464",
            []},
        {~"otlp+http", Otlp, http, {url, 4318}, ~"otlp+http://HOST:4318", Otlps},
        {~"otlp+https", Otlp, https, {url, 4318}, ~"otlp+https://HOST:4318", Otlps},
        {~"telemetry", dyno_servers_telemetry, telemetry, nothing, ~"telemetry", []}
    ].

-spec parse(unicode:chardata()) -> {ok, config()} | {error, {?MODULE, reason()}}.
parse(Text) ->
    case unicode:characters_to_binary(Text) of
        Url when is_binary(Url) -> parse(Url, uri_string:parse(Url));
        {_, Good, _} -> failed(Good, ?NO_URL, forms())
    end.

parse(Url, #{scheme := Scheme} = Uri) ->
    case lists:keyfind(string:lowercase(Scheme), 1, schemes()) of
        {_, Module, Protocol, Has, Form, Options} ->
            maybe
                ok ?= without([userinfo, fragment | [host || is_atom(Has)]], Uri),
                {ok, Address} ?= address(Has, Uri),
                {ok, Chosen} ?= options(maps:get(query, Uri, ~""), Options),
                {ok, maps:merge(Chosen, Address#{sink => Module, protocol => Protocol})}
            else
                {error, Problem} -> failed(Url, Problem, [Form])
            end;
        false ->
            failed(Url, ["has an unknown scheme", meant(Scheme)], forms())
    end;
%% The name of a sink that takes no address.
parse(Url, #{path := Name} = Uri) when Name =/= ~"" ->
    parse(Url, Uri#{scheme => Name, path := ~""});
parse(Url, _) ->
    failed(Url, ?NO_URL, forms()).

meant(Scheme) ->
    case dyno_similar:nearest(Scheme, [element(1, Known) || Known <- schemes()]) of
        {ok, Nearest} -> [": did you mean ", Nearest, "?"];
        none -> ""
    end.

failed(Url, Problem, Forms) ->
    {error, {?MODULE, {Url, Problem, Forms}}}.

forms() ->
    [element(5, Scheme) || Scheme <- schemes()].

address({host, DefaultHost, DefaultPort}, #{path := Path} = Uri) when
    Path =:= ~""; Path =:= ~"/"
->
    host(DefaultHost, DefaultPort, Uri);
address({url, DefaultPort}, #{path := Path} = Uri) ->
    Default = ~"/v1/metrics",
    maybe
        {ok, Address} ?= host(none, DefaultPort, Uri),
        {ok, Address#{path => maps:get(Path, #{~"" => Default, ~"/" => Default}, Path)}}
    end;
address(path, #{path := <<"/", _, _/binary>> = Path}) ->
    {ok, #{path => uri_string:percent_decode(Path)}};
address(path, _Uri) ->
    {error, "has no path of a socket"};
address(nothing, #{path := ~""}) ->
    {ok, #{}};
address(_, _Uri) ->
    {error, "has a path, which it does not take"}.

without(Parts, Uri) ->
    case [Part || Part <- Parts, maps:get(Part, Uri, ~"") =/= ~""] of
        [] -> ok;
        [Part | _] -> {error, ["has a ", atom_to_binary(Part), ", which it does not take"]}
    end.

host(DefaultHost, DefaultPort, Uri) ->
    case {maps:get(host, Uri, ~""), maps:get(port, Uri, DefaultPort)} of
        {_, Port} when not is_integer(Port); Port > 65535 ->
            {error, io_lib:format("has the port ~0tp, which is not one of 0 to 65535", [Port])};
        {~"", _} when DefaultHost =:= none -> {error, "has no host"};
        {~"", Port} ->
            {ok, #{host => DefaultHost, port => Port}};
        {Host, Port} ->
            {ok, #{host => Host, port => Port}}
    end.

options(Query, Options) ->
    case uri_string:dissect_query(Query) of
        Given when is_list(Given) -> options_of(Given, maps:from_list(Options));
        {error, _, _} -> {error, ?NO_URL}
    end.

options_of([], Chosen) ->
    {ok, Chosen};
options_of([{Name, Value} | Given], Chosen) ->
    case #{atom_to_binary(Key) => Key || Key := _ <- Chosen} of
        #{Name := Key} ->
            case option(Key, Value) of
                {error, Accepted} -> {error, ["has a wrong ", Name, ": ", Accepted]};
                Read -> options_of(Given, Chosen#{Key := Read})
            end;
        Known ->
            Takes = lists:join(", ", lists:sort(maps:keys(Known)) ++ [~"nothing" || Known =:= #{}]),
            {error, ["has the option \"", Name, "\", but takes ", Takes]}
    end.

option(prefix, <<_, _/binary>> = Prefix) -> Prefix;
option(prefix, _) -> {error, "a name is accepted"};
option(tags, <<_, _/binary>> = Text) -> tags(Text);
option(tags, _) -> {error, ?TAGS};
option(temporality, ~"cumulative") -> cumulative;
option(temporality, ~"delta") -> delta;
option(temporality, _) -> {error, "cumulative or delta is accepted"}.

tags(Text) ->
    Tags = [list_to_tuple(binary:split(Tag, ~":")) || Tag <- binary:split(Text, ~",", [global])],
    case [Tag || Tag <- Tags, tuple_size(Tag) =/= 2 orelse element(1, Tag) =:= ~""] of
        [] -> Tags;
        _ -> {error, ?TAGS}
    end.

-doc "The address of a host; its name is looked up once, when a sink is opened.".
-spec resolve(binary()) ->
    {ok, inet | inet6, inet:ip_address()} | {error, {?MODULE, reason()}}.
resolve(Host) ->
    Name = unicode:characters_to_list(Host),
    maybe
        {error, Reason} ?= inet:getaddr(Name, inet),
        {error, _} ?= inet:getaddr(Name, inet6),
        {error, {?MODULE, {host, Host, Reason}}}
    else
        {ok, {_, _, _, _} = Address} -> {ok, inet, Address};
        {ok, Address} -> {ok, inet6, Address}
    end.

-spec format_error(reason()) -> unicode:chardata().
format_error({host, Host, Reason}) ->
    io_lib:format("there is no host ~ts: ~ts", [Host, inet:format_error(Reason)]);
format_error({Url, Problem, [Form]}) ->
    ["the sink \"", Url, "\" ", Problem, "; it is written as ", Form];
format_error({Url, Problem, Forms}) ->
    ["the sink \"", Url, "\" ", Problem, "; sinks are written as ", lists:join(", ", Forms)].
