%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

%% The URLs of sinks, and what all sinks have in common: that sending never waits, and that what is
%% lost is counted. The sink of these tests is this module: it writes when it is told to.
-module(dyno_servers_sink_SUITE).

-behaviour(dyno_servers_sink).

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 1}}].

all() ->
    [
        urls_are_read,
        wrong_urls_are_explained,
        sending_never_waits,
        failures_are_counted,
        what_cannot_be_opened_is_no_sink,
        a_sink_ends_with_its_owner
    ].

urls_are_read(_Config) ->
    Read = fun(Url) ->
        {ok, #{sink := Module} = Config} = dyno_servers_sink:parse(Url),
        {module, Module} = code:ensure_loaded(Module),
        maps:without([sink, protocol], Config)
    end,
    ?assertEqual(
        #{host => ~"10.0.0.1", port => 9125, prefix => ~"otp"}, Read("statsd://10.0.0.1:9125")
    ),
    ?assertEqual(#{host => ~"::1", port => 8125, prefix => ~"otp"}, Read("statsd://[::1]")),
    ?assertEqual(
        #{path => ~"/run/statsd.sock", prefix => ~"shop"},
        Read("statsd+unix:/run/statsd.sock?prefix=shop")
    ),
    ?assertEqual(#{path => ~"/run/a b", prefix => ~"otp"}, Read("statsd+unix:///run/a%20b")),
    ?assertEqual(
        #{
            host => ~"agent",
            port => 8125,
            prefix => ~"otp",
            tags => [{~"env", ~"live"}, {~"url", ~"a:b"}]
        },
        Read(~"DogStatsD://agent?tags=env:live,url:a:b")
    ),
    ?assertEqual(
        #{path => ~"/var/run/datadog/dsd.socket", prefix => ~"otp", tags => []},
        Read("dogstatsd+unix:/var/run/datadog/dsd.socket")
    ),
    ?assertEqual(#{host => ~"127.0.0.1", port => 9464}, Read("prometheus://")),
    ?assertEqual(#{host => ~"0.0.0.0", port => 1}, Read("prometheus://0.0.0.0:1/")),
    ?assertEqual(#{host => ~"127.0.0.1", port => 0}, Read("prometheus://:0")),
    ?assertEqual(
        #{host => ~"c", port => 4318, path => ~"/v1/metrics", temporality => cumulative},
        Read("otlp+http://c")
    ),
    ?assertEqual(
        #{host => ~"c", port => 4318, path => ~"/otlp/v1/metrics", temporality => delta},
        Read("otlp+https://c/otlp/v1/metrics?temporality=delta")
    ),
    ?assertEqual(#{}, Read("telemetry")).

wrong_urls_are_explained(_Config) ->
    Said = fun(Url) ->
        {error, Error} = dyno_servers_sink:parse(Url),
        unicode:characters_to_list(dyno_error:format(Error))
    end,
    ?assertEqual(
        "the sink \"statsd://\" has no host; it is written as statsd://HOST:8125",
        Said("statsd://")
    ),
    ?assertEqual(
        "the sink \"otlp+http://h:70000\" has the port 70000, which is not one of 0 to 65535; "
        "it is written as otlp+http://HOST:4318",
        Said("otlp+http://h:70000")
    ),
    Says = fun(Part, Url) ->
        ?assertMatch({Url, _, true}, {Url, Said(Url), string:find(Said(Url), Part) =/= nomatch})
    end,
    Says("has an unknown scheme: did you mean statsd?", "stasd://h"),
    Says("is not a URL; sinks are written as statsd://HOST:8125, ", "10.0.0.1:8125"),
    Says("has an unknown scheme", "localhost:8125"),
    Says("is not a URL", ""),
    Says("is not a URL", "statsd://h:port"),
    Says("is not a URL", <<"statsd://", 255>>),
    Says("is not a URL", "statsd://h?prefix=%zz"),
    Says("has a path, which", "statsd://h/path"),
    Says("has a path, which", "statsd:h:8125"),
    Says("has a path, which", "prometheus://h/metrics"),
    Says("has a userinfo, which", "otlp+http://me:secret@h"),
    Says("has a fragment, which", "statsd://h#x"),
    Says("has a host, which", "telemetry://h"),
    Says("has a host, which", "statsd+unix://run/statsd"),
    Says("has no path of a socket", "statsd+unix:"),
    Says("has no path of a socket", "dogstatsd+unix:/"),
    Says("has the option \"tags\", but takes prefix", "statsd://h?tags=a:b"),
    Says("has the option \"path\", but takes nothing", "prometheus://h?path=x"),
    Says("has a wrong tags: tags as KEY:VALUE,KEY:VALUE are accepted", "dogstatsd://h?tags=a"),
    Says("has a wrong tags", "dogstatsd://h?tags"),
    Says("has a wrong prefix: a name is accepted", "statsd://h?prefix="),
    Says("has a wrong temporality: cumulative or delta", "otlp+http://h?temporality=Delta").

sending_never_waits(_Config) ->
    {ok, Sink} = start(#{}),
    [ok = dyno_servers_sink:send(Sink, [sum(N)]) || N <- lists:seq(1, 20)],
    ?assertEqual(#{failed => 0, dropped => 12, last => none}, dyno_servers_sink:failures(Sink)),
    %% The first eight are written, one at a time.
    [
        receive
            {writes, Pid, [#{crashes := N}]} -> Pid ! {written, 0, none}
        end
     || N <- lists:seq(1, 8)
    ],
    ok = dyno_servers_sink:send(Sink, [sum(21)]),
    receive
        {writes, Pid, [#{crashes := 21}]} -> Pid ! {written, 0, none}
    end,
    ok = dyno_servers_sink:stop(Sink),
    receive
        closed -> ok
    end,
    ok = dyno_servers_sink:send(Sink, []).

failures_are_counted(_Config) ->
    {ok, Sink} = start(#{}),
    ?assertEqual(~"nowhere", dyno_servers_sink:address(Sink)),
    Write = fun(Failed, Why) ->
        ok = dyno_servers_sink:send(Sink, []),
        receive
            {writes, Pid, []} -> Pid ! {written, Failed, Why}
        end
    end,
    Write(3, {?MODULE, ~"no répondre"}),
    Write(1, {?MODULE, ~"refused"}),
    Write(0, none),
    ok = dyno_servers_sink:send(Sink, []),
    receive
        {writes, Last, []} ->
            ?assertEqual(
                #{failed => 4, dropped => 0, last => ~"refused"}, dyno_servers_sink:failures(Sink)
            ),
            Last ! {written, 0, none}
    end,
    ok = dyno_servers_sink:stop(Sink).

what_cannot_be_opened_is_no_sink(_Config) ->
    ?assertEqual({error, {?MODULE, no_place}}, start(#{fails => no_place})),
    {error, {dyno_servers_sink, _} = Error} = start(#{crashes => true}),
    ?assertMatch("the sink could not be started: " ++ _, lists:flatten(dyno_error:format(Error))).

a_sink_ends_with_its_owner(_Config) ->
    Self = self(),
    {Owner, Monitor} = spawn_monitor(fun() ->
        {ok, _} = dyno_servers_sink:start_link(#{sink => ?MODULE, protocol => test, test => Self}),
        exit(killed_by_test)
    end),
    receive
        {'DOWN', Monitor, process, Owner, Reason} -> ?assertEqual(killed_by_test, Reason)
    end,
    receive
        closed -> ok
    end.

start(Config) ->
    Trapped = process_flag(trap_exit, true),
    try
        dyno_servers_sink:start_link(Config#{sink => ?MODULE, protocol => test, test => self()})
    after
        process_flag(trap_exit, Trapped)
    end.

sum(N) ->
    #{crashes => N}.

%% The sink

open(#{fails := Reason}) -> {error, {?MODULE, Reason}};
open(#{crashes := true}) -> error(broken);
open(#{test := Test}) -> {ok, ~"nowhere", Test}.

write(Sums, Test) ->
    Test ! {writes, self(), Sums},
    receive
        {written, Failed, Why} -> {{Failed, Why}, Test}
    end.

close(Test) ->
    Test ! closed,
    ok.

format_error(Reason) ->
    Reason.
