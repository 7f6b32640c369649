%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_server_parts_SUITE).
-moduledoc "Servers that were counted in a part of their time: their counts are lower bounds.".

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

-define(SECOND, 1_000_000_000).

suite() -> [{timetrap, {minutes, 1}}].

all() ->
    [
        counted_in_part,
        counted_in_whole,
        timed_in_part,
        some_are_in_no_row,
        percentiles_of_ended_ones,
        a_traced_message_and_no_counted_one
    ].

%% Beside a queue no look finds the server idle, though a message that did was traced.
a_traced_message_and_no_counted_one(_Config) ->
    Delay = #{buckets => [{600, 10}]},
    Sum = #{
        delay => Delay,
        delay_low => Delay,
        delay_high => Delay,
        woken => #{buckets => [{500, 1}]},
        woken_of => 1,
        woken_high => none,
        missed => 0
    },
    Without = dyno_agent_server_parts:waited(0.99, Sum#{woken := #{buckets => []}}),
    ?assertEqual(Without, dyno_agent_server_parts:waited(0.99, Sum)).

counted_in_part(_Config) ->
    Window = window(800_000_000),
    [
        #{~"server" := ~"log_events", ~"served" := 244, ~"served_low" := 244} = Server
    ] = rows(~"servers", Window),
    ?assertMatch(#{~"cpu" := 2000, ~"cpu_low" := 2000}, Server),
    ?assertMatch(
        [#{~"calls" := 244, ~"calls_low" := 244, ~"time" := 2000, ~"time_low" := 2000}],
        rows(~"callbacks", Window)
    ),
    [Text] = warned(~"servers_in_part", Window),
    ?assertNotEqual(nomatch, string:find(Text, "1 server of target was counted in 80 % of")),
    %% The console says so, too.
    ?assertNotEqual(nomatch, re:run(console(Window), ~"log_events +> 244 ")).

counted_in_whole(_Config) ->
    Window = window(995_000_000),
    [Server] = rows(~"servers", Window),
    ?assertNot(is_map_key(~"served_low", Server)),
    [Callback] = rows(~"callbacks", Window),
    ?assertNot(is_map_key(~"calls_low", Callback)),
    ?assertEqual([], warned(~"servers_in_part", Window)),
    ?assertNotEqual(nomatch, re:run(console(Window), ~"log_events +244 ")).

%% What was counted and not timed: how often is known, how long is a lower bound.
timed_in_part(_Config) ->
    Whole = window(?SECOND),
    Callback = #{
        name => ~"handle_call/3",
        count => 305,
        missed => 244,
        exceptions => 0,
        wall => #{count => 61, sum => 5000, min => 1, max => 100, buckets => [{10, 61}]},
        cpu_ns => 4000
    },
    Server = (server(?SECOND))#{
        measured := hook,
        why := undefined,
        callbacks := [Callback],
        served := 305,
        missed := 244,
        wall_ns := 5000,
        busy_ns := 5000,
        busy_of_ns := ?SECOND
    },
    Window = Whole#{servers := [Server]},
    [Of] = rows(~"servers", Window),
    ?assertMatch(#{~"served" := 305, ~"busy" := Busy, ~"busy_low" := Busy}, Of),
    ?assertNot(is_map_key(~"served_low", Of)),
    ?assertMatch(
        [#{~"calls" := 305, ~"time" := 5000, ~"time_low" := 5000}], rows(~"callbacks", Window)
    ),
    [Text] = warned(~"servers_untimed", Window),
    ?assertNotEqual(nomatch, string:find(Text, "244 of 305 callbacks of target")),
    %% The runtime did not time it, as it is called often: the processor time is a lower bound.
    Often = Server#{served := 3000, cpu_of_ns := 0},
    [#{~"cpu" := 2000, ~"cpu_low" := 2000} = Low] = rows(~"servers", Whole#{servers := [Often]}),
    ?assertNot(is_map_key(~"served_low", Low)),
    Timed = Server#{callbacks := [Callback#{missed := 0}], missed := 0},
    [Known] = rows(~"callbacks", Whole#{servers := [Timed]}),
    ?assertNot(is_map_key(~"time_low", Known)),
    ?assertEqual([], warned(~"servers_untimed", Whole#{servers := [Timed]})).

%% Of 4,500 that ended 1,200 had room: "4800 messages" were told of 18,000.
some_are_in_no_row(_Config) ->
    Whole = window(?SECOND),
    Window = Whole#{unseen => #{processes => 7, calls => 28}},
    ?assertMatch(
        [#{~"processes" := 1, ~"processes_low" := 1, ~"served" := 244, ~"served_low" := 244}],
        rows(~"servers", Window)
    ),
    ?assertMatch([#{~"calls_low" := 244}], rows(~"callbacks", Window)),
    [Text] = warned(~"servers_unseen", Window),
    ?assertNotEqual(nomatch, string:find(Text, "28 callbacks of target are in no row")),
    None = Whole#{unseen => #{processes => 0, calls => 0}},
    ?assertEqual([], warned(~"servers_unseen", None)),
    [Known] = rows(~"servers", None),
    ?assertNot(is_map_key(~"processes_low", Known)).

%% Of those that ended, half was timed, or all that were met: the quickest lives are missing.
percentiles_of_ended_ones(_Config) ->
    Callback = #{
        name => ~"handle_call",
        count => 100,
        missed => 0,
        exceptions => 0,
        wall => #{count => 100, sum => 5000, min => 1, max => 100, buckets => [{10, 100}]},
        cpu_ns => 4000
    },
    P50 = fun(State, Count, Unseen) ->
        Server = (server(?SECOND))#{
            kind := module,
            state := State,
            callbacks := [Callback#{count := Count, missed := Count - 100}]
        },
        Window = (window(?SECOND))#{
            servers := [Server], unseen => #{processes => 1, calls => Unseen}
        },
        [Row] = rows(~"callbacks", Window),
        map_get(~"p50", Row)
    end,
    ?assert(is_number(P50(alive, 200, 0))),
    ?assertEqual(null, P50(ended, 200, 0)),
    ?assertEqual(null, P50(ended, 100, 100)),
    ?assert(is_number(P50(ended, 100, 5))).

rows(Name, Window) -> dyno_recording:rows(hd(dyno_recording:runs(document(Window))), Name).

warned(Code, Window) ->
    [
        dyno_recording_part:text(Format, [shown(A) || A <- Arguments])
     || {C, Format, Arguments} <- dyno_agent_server_parts:warnings(~"target", Window), C =:= Code
    ].

shown({Value, Unit}) -> dyno_unit:format(Value, Unit);
shown(Text) -> Text.

console(Window) ->
    {ok, Text} = dyno_report:render(console, document(Window), #{}),
    iolist_to_binary(Text).

document(Window) ->
    Tables = [
        dyno_recording_table:make(Table, Items(Window))
     || #{items := Items} = Table <- dyno_agent_server_parts:tables()
    ],
    dyno_recording:add_run(
        dyno_recording:new(record, ~"t", #{}, #{}), #{status => complete, tables => Tables}
    ).

window(CountedNs) ->
    #{
        duration_ns => ?SECOND,
        unselected => 0,
        stepped_down => none,
        asked => auto,
        level => full,
        servers => [server(CountedNs)]
    }.

%% An event manager, which has no hook: the runtime counts its calls by turns.
server(CountedNs) ->
    #{
        pid => self(),
        name => ~"log_events",
        kind => registered,
        module => gen_event,
        state => alive,
        measured => call_time,
        why => ~"it is an event manager",
        callbacks => [
            #{
                name => ~"(message)",
                count => 244,
                missed => 0,
                exceptions => 0,
                wall => none,
                cpu_ns => 2000
            }
        ],
        served => 244,
        missed => 0,
        wall_ns => undefined,
        busy_ns => undefined,
        cpu_ns => 2000,
        cpu_of_ns => CountedNs,
        busy_of_ns => 0,
        life_ns => ?SECOND,
        delay => none,
        delay_low => none,
        delay_high => none,
        delay_unknown => 0,
        delay_missed => 0,
        dirty => 0,
        queue_max => 1
    }.
