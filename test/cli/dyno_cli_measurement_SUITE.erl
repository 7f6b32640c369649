%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_measurement_SUITE).
-moduledoc """
A command to come gets everything around its measurement from a few lines: the command here counts
the processes of this node. One Erlang runs all of its command lines.
""".

-behaviour(dyno_cli_command).

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() ->
    [{timetrap, {minutes, 1}}].

all() ->
    [
        keeps_the_recording,
        says_that_it_was_not_kept,
        shows_where_it_stands,
        writes_outputs,
        status_of_verdicts,
        status_of_errors,
        crashes,
        interrupted,
        reads_options,
        words_mistakes
    ].

init_per_suite(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    Options = #{
        folder => Folder,
        environment => [{"TMPDIR", Folder}, {"DYNO_DEBUG", false}],
        paths => [filename:dirname(code:which(?MODULE))]
    },
    [{server, dyno_command:start(Options)} | Config].

end_per_suite(Config) ->
    dyno_command:stop(proplists:get_value(server, Config)).

init_per_testcase(Case, Config) ->
    Work = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case)),
    ok = filelib:ensure_path(Work),
    [{work, Work} | Config].

%% The command, as a real one would be

command() ->
    #{
        operands => [dyno_cli_command:operand("NODE", "the node to look into")],
        options => [
            {"", [{"--times N", "how often it counts", {whole, 1, 100}}]},
            {"Reports", dyno_cli_measurement:options()}
        ],
        examples => [{~"dyno processes shop@host", ~"counts the processes of a node"}]
    }.

run(#{node := Node} = Values) ->
    Measure = fun(Context) -> measure(Node, maps:get(times, Values, 1), Context) end,
    dyno_cli_measurement:run(#{keep => Node, measure => Measure}, Values).

measure(~"nobody@nowhere", _Times, _Context) ->
    {error, {?MODULE, unreachable}};
measure(~"mistyped", _Times, _Context) ->
    {error, {?MODULE, mistyped}};
measure(~"broken", _Times, _Context) ->
    error(broken);
measure(~"endless", _Times, #{progress := Report}) ->
    Report(#{phase => counting, text => ~"counting"}),
    %% The user's Ctrl-C.
    ok = gen_event:notify(erl_signal_server, sigusr2),
    receive
        dyno_interrupt -> {ok, document(interrupted, [])}
    end;
measure(~"folderless", _Times, #{recording := Path}) ->
    ok = file:del_dir_r(filename:dirname(Path)),
    ok = file:write_file(filename:dirname(Path), ~"no folder"),
    {ok, document(complete, [])};
measure(~"failing", _Times, _Context) ->
    {ok, document(complete, [verdict(fail)])};
measure(Node, Times, #{progress := Report}) ->
    Report(#{phase => counting, text => [~"counting ", Node]}),
    Report(#{phase => warning, text => ~"few processes"}),
    Counts = [erlang:system_info(process_count) || _ <- lists:seq(1, Times)],
    {ok, document(complete, [verdict(pass) || lists:min(Counts) > 0])}.

document(Status, Verdicts) ->
    Document0 = dyno_recording:new(test, ~"processes", #{}, dyno_environment:collect()),
    Document1 = dyno_recording:add_verdicts(Document0, Verdicts),
    dyno_recording:put(Document1, status, Status).

verdict(Result) ->
    #{
        kind => threshold,
        name => ~"processes > 0",
        subject => ~"processes",
        result => Result,
        text => ~"counted"
    }.

format_error(unreachable) -> "the node can't be reached";
format_error(mistyped) -> "there is no such node".

fault(unreachable) -> dyno;
fault(mistyped) -> caller.

%% The cases

keeps_the_recording(Config) ->
    {0, Out, Note} = served(Config, [~"shop@host"]),
    ?assertMatch(<<"processes: complete", _/binary>>, Out),
    [File] = filelib:wildcard("dyno-results/shop_host-*T*.json", work(Config)),
    ?assertEqual(
        iolist_to_binary([
            "dyno: warning: few processes\ndyno: the recording is in ", File, $\n
        ]),
        Note
    ),
    {ok, #{~"status" := ~"complete"}} = dyno_recording_file:read(in(Config, File)).

%% The folder of recordings goes while it measures, as the room on a disk may.
says_that_it_was_not_kept(Config) ->
    {3, <<"processes: complete", _/binary>>, Error} = served(Config, [~"folderless"]),
    says(Error, ~"dyno-results"),
    ?assertEqual(nomatch, binary:match(Error, ~"the recording is in")).

shows_where_it_stands(Config) ->
    {0, _, Lines} = served(Config, [~"a", ~"-v", ~"-o", ~"x.json"]),
    ?assertEqual(~"dyno: counting a\ndyno: warning: few processes\n", Lines),
    {0, ~"", ~""} = served(Config, [~"a", ~"-q", ~"-o", ~"x.json"]).

writes_outputs(Config) ->
    {0, Json, ~"dyno: warning: few processes\n"} =
        served(Config, [~"a", ~"--format", ~"json", ~"-o", ~"x.json", ~"-o", ~"x.txt"]),
    {ok, Recording} = file:read_file(in(Config, "x.json")),
    ?assertEqual(json:decode(Json), json:decode(Recording)),
    {ok, <<"processes: complete", _/binary>>} = file:read_file(in(Config, "x.txt")),
    ?assertEqual([], filelib:wildcard("dyno-*", work(Config))),
    {2, ~"", Refused} = served(Config, [~"a", ~"-o", ~"no/x.json"]),
    says(Refused, ~"there is no folder no").

status_of_verdicts(Config) ->
    {1, _, ~""} = served(Config, [~"failing", ~"-o", ~"x.json"]),
    %% Where the console report is not shown, standard error says what does not hold.
    {1, _, Error} = served(Config, [~"failing", ~"--format", ~"json", ~"-o", ~"x.json"]),
    ?assertEqual(~"dyno: processes > 0: counted\n", Error).

status_of_errors(Config) ->
    {3, ~"", ~"dyno: the node can't be reached\n"} = served(Config, [~"nobody@nowhere"]),
    {2, ~"", ~"dyno: there is no such node\n"} = served(Config, [~"mistyped"]).

crashes(Config) ->
    {3, ~"", Error} = served(Config, [~"broken"]),
    says(Error, ~"an error of dyno's own; the details are in ").

interrupted(Config) ->
    {130, _, Error} = served(Config, [~"endless", ~"-v", ~"-o", ~"x.json"]),
    ?assertEqual(~"dyno: counting\ndyno: stopping; interrupt again to stop at once\n", Error),
    {ok, #{~"status" := ~"interrupted"}} = dyno_recording_file:read(in(Config, "x.json")).

%% Readers of values, as any option may have them.
reads_options(_Config) ->
    Rows = [
        {"-w, --wait TIME", "", duration_or_zero, wait_ms},
        {"--share SHARE", "", share},
        {"--numbers N,N", "", {list, {whole, 1, 9}}},
        {"--word WORD", "", {one_of, [left, right]}},
        {"--one-of-many TEXT", "", {many, string}},
        {"-m, --more TEXT,...", "", {list, string}, one_of_many},
        {"--on", ""},
        {"--off", "", {flag, false}, on},
        {"--most SIZE", "", size},
        {"--count N", "", {whole, 1, infinity}}
    ],
    ?assertMatch(
        #{name := one_of_many, long := "-one-of-many", action := append},
        dyno_cli_option:argument(lists:nth(5, Rows))
    ),
    ?assertMatch(
        #{name := wait, short := $w, long := "-wait", type := binary},
        dyno_cli_option:argument(hd(Rows))
    ),
    ?assertMatch(#{type := boolean}, dyno_cli_option:argument(lists:nth(7, Rows))),
    Given = #{
        wait => ~"1.5s",
        share => ~"5 %",
        numbers => ~"1, 9",
        word => ~"left",
        one_of_many => [~"a", ~"b"],
        more => ~"c,d",
        on => true,
        off => true,
        operand => ~"kept",
        most => ~"1.5 KiB",
        count => ~"10k"
    },
    ?assertEqual(
        {ok, #{
            wait_ms => 1500,
            share => 0.05,
            numbers => [1, 9],
            word => left,
            one_of_many => ["a", "b", "c", "d"],
            on => false,
            operand => ~"kept",
            most => 1536,
            count => 10_000
        }},
        dyno_cli_option:read(Rows, Given)
    ),
    ?assertEqual({ok, #{}}, dyno_cli_option:read(Rows, #{})).

words_mistakes(_Config) ->
    [
        begin
            {error, Error} = dyno_cli_option:read([{"-x, --x VALUE", "", Reader}], #{x => Text}),
            Sentence = unicode:characters_to_binary(dyno_error:format(Error)),
            ?assertEqual(<<"--x takes ", Says/binary>>, Sentence),
            ?assertEqual(caller, dyno_error:fault(Error))
        end
     || {Reader, Text, Says} <- [
            {duration, ~"10", <<
                "a duration above 0 and up to 200h with its unit (ms, s, min or h), such as 10s "
                "or 500ms, not \"10\""
            >>},
            {{whole, 1, infinity}, ~"0", ~"a whole number from 1 up, not \"0\""},
            {{whole, 1, 9}, ~"x", ~"a whole number from 1 to 9, not \"x\""},
            {size, ~"512", ~"a size with its unit, such as 512MB or 2GiB, not \"512\""},
            {size, ~"5s", ~"a size with its unit, such as 512MB or 2GiB, not \"5s\""},
            {share, ~"100%", ~"a share above 0 % and below 100 %, such as 3%, not \"100%\""},
            {folder, ~"/none", ~"a folder that is there, not \"/none\""},
            {{one_of, [left, right]}, ~"lift", ~"left or right, not \"lift\"; did you mean left?"},
            {
                {list, {whole, 1, infinity}},
                ~"1,0",
                ~"whole numbers from 1 up with commas between them, such as 1,10,100, not \"1,0\""
            },
            {{list, {one_of, [a, b]}}, ~"a,cc", ~"a or b, not \"cc\""}
        ]
    ].

%% Helpers

served(Config, Arguments) ->
    dyno_command:ask(
        proplists:get_value(server, Config), work(Config), {?MODULE, Arguments}
    ).

work(Config) -> proplists:get_value(work, Config).

in(Config, Name) -> filename:join(work(Config), Name).

says(Text, Part) ->
    ?assertMatch({_, _}, binary:match(Text, Part), Text).
