%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_documents_run_SUITE).
-moduledoc """
Every command line of doc/ is run, but for those listed in not_run/0, each with its reason, and
those of the documents that dyno_documents_clone_SUITE runs as they are printed. A document has a
folder of its own, a project in git, in which its lines are run in their order, each in a fresh
Erlang; `shop@host` and the other nodes that documents name are real ones, with an application
`shop`. Times, repetitions and sizes are shortened.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 30}}].

all() -> [first_documents, other_documents, lines_that_are_not_run_are_there].

slow() -> [other_documents].

%% Those that a new user comes to first.
-define(FIRST, ["doc/install.md"]).

%% Lines that begin so, and why they are not run here.
not_run() ->
    [
        {~"rebar3 dyno ", "needs a project of rebar3: dyno_plugin_SUITE runs it in one"},
        {~"mix dyno.", "needs a project of Mix: dyno_plugin_SUITE runs it in one"},
        {~"dyno bench 'lists:sort(L).' ...", "is no whole line"},
        {
            ~"dyno servers shop@10.0.0.1 --interval 10s --sink dogstatsd+unix:",
            "needs Datadog's socket: dyno_servers_statsd_SUITE has one"
        },
        {
            ~"dyno servers shop@10.0.0.1 --interval 10s --sink otlp+http:",
            "needs a collector: dyno_servers_otlp_SUITE has one"
        },
        {~"dyno doctor a@host b@host --watch", "stays until Ctrl-C: dyno_doctor_SUITE runs it"},
        {~"dyno demo", "stays until Ctrl-C: dyno_cli_demo_SUITE opens and closes it"},
        {~"dyno verify once.erl ", "needs a monitor in Erlang: dyno_verify_SUITE has some"},
        {
            ~"dyno verify worker.dyno --replay events.log",
            "needs recorded events: dyno_verify_replay_SUITE records some"
        },
        {
            ~"dyno test load_gen.erl -C agent.erl",
            "needs an agent of PerformERL: dyno_performerl_SUITE has one"
        }
    ].

%% Two lanes, each with two nodes to look into: a node has room for one dyno at a time.
init_per_suite(Config) ->
    Folder = proplists:get_value(priv_dir, Config),
    Ebin = filename:join(Folder, "ebin"),
    ok = application_of_shop(Ebin),
    [{lanes, [lane(N, Folder, Ebin) || N <- [1, 2]]} | Config].

end_per_suite(Config) ->
    lists:foreach(
        fun(#{peers := Peers}) -> lists:foreach(fun dyno_peers:stop/1, Peers) end,
        proplists:get_value(lanes, Config)
    ).

lane(Number, Folder, Ebin) ->
    Peers = [{_, Shop}, {_, Stock}] = [dyno_peers:start(["-pa", Ebin]) || _ <- [1, 2]],
    [{ok, _} = erpc:call(Node, application, ensure_all_started, [shop]) || Node <- [Shop, Stock]],
    Own = filename:join(Folder, "lane" ++ integer_to_list(Number)),
    ok = filelib:ensure_path(Own),
    #{folder => Own, peers => Peers, shop => Shop, stock => Stock, ebin => Ebin}.

first_documents(Config) ->
    run(?FIRST, Config).

other_documents(Config) ->
    run(dyno_documents:all() -- (?FIRST ++ dyno_documents:printed()), Config).

lines_that_are_not_run_are_there(_Config) ->
    Lines = lists:append([dyno_documents:commands(File) || File <- dyno_documents:all()]),
    ?assert(length(Lines) > 150, length(Lines)),
    ?assertEqual([], [
        Begin
     || {Begin, _Why} <- not_run(),
        not lists:any(fun(Line) -> string:prefix(Line, Begin) =/= nomatch end, Lines)
    ]).

run(Documents, Config) ->
    Shown = [{File, Here} || File <- Documents, [_ | _] = Here <- [lines(File)]],
    ?assertNotEqual([], Shown),
    Lanes = proplists:get_value(lanes, Config),
    Case = self(),
    ok = dyno_parallel:each(
        fun({Lane, Mine}) ->
            Case ! {failed, [document(File, Here, Lane, Config) || {File, Here} <- Mine]}
        end,
        lists:zip(Lanes, halves(Shown)),
        length(Lanes)
    ),
    Failed = [
        receive
            {failed, Lines} -> lists:append(Lines)
        end
     || _ <- Lanes
    ],
    ?assertEqual([], lists:append(Failed)).

lines(File) ->
    [
        Line
     || Line <- lists:uniq(dyno_documents:commands(File)),
        not lists:any(fun({Begin, _}) -> string:prefix(Line, Begin) =/= nomatch end, not_run()),
        string:find(Line, "--elixir") =:= nomatch orelse dyno_elixir:start() =:= ok
    ].

%% The longest documents first, each to the lane that has fewer lines.
halves(Lines) ->
    Sorted = lists:sort(fun({_, A}, {_, B}) -> length(A) >= length(B) end, Lines),
    {{_, One}, {_, Two}} = lists:foldl(
        fun
            ({_, Here} = Document, {{N, Few}, Many}) when N =< element(1, Many) ->
                {{N + length(Here), [Document | Few]}, Many};
            ({_, Here} = Document, {Many, {N, Few}}) ->
                {Many, {N + length(Here), [Document | Few]}}
        end,
        {{0, []}, {0, []}},
        Sorted
    ),
    [One, Two].

%% The lines that ended otherwise than they should; what they printed is in the log.
document(File, Lines, Lane, Config) ->
    Folder = filename:join(
        [proplists:get_value(priv_dir, Config), "documents", filename:basename(File, ".md")]
    ),
    ok = project(Folder, Lane),
    ok = suites(Folder, Lines, Lane),
    lists:append([
        begin
            Words = [_ | _] = words(Line, Lane),
            ok = inputs(Folder, Words, Lines, Lane),
            Begin = erlang:monotonic_time(millisecond),
            {Status, Out, Error} = ask(Lane, Folder, Words),
            ct:log("~b ms: ~ts: ~ts", [erlang:monotonic_time(millisecond) - Begin, File, Line]),
            case lists:member(Status, statuses(Line)) of
                true ->
                    [];
                false ->
                    ct:log("~b: ~tp~n~ts~ts", [Status, Words, Out, Error]),
                    [{File, Line, Status}]
            end
        end
     || Line <- Lines
    ]).

ask(#{folder := Lane}, Folder, Words) ->
    Own = filename:join(Lane, integer_to_list(erlang:unique_integer([positive]))),
    ok = filelib:ensure_path(Own),
    Server = dyno_command:start(#{
        folder => Own,
        environment => [
            {"LC_ALL", "C.UTF-8"},
            {"REBAR_BASE_DIR", false},
            {"DYNO_COOKIE", atom_to_list(erlang:get_cookie())}
        ]
    }),
    try
        dyno_command:ask(Server, Folder, Words)
    after
        dyno_command:stop(Server)
    end.

%% Whether thresholds hold is the machine's affair, also those in suites.
statuses(Line) ->
    Gates = ["dyno test", "dyno verify", "dyno doctor --dump", "--threshold", "--fail-if"],
    case lists:any(fun(Gate) -> string:find(Line, Gate) =/= nomatch end, Gates) of
        true -> [0, 1];
        false -> [0]
    end.

%% The words of the line with this machine's nodes, and in less time.
words(Line, Lane) ->
    Plain = string:replace(Line, "$(hostname -s)", "host"),
    [_Dyno, Command | Words] = dyno_documents:words(unicode:characters_to_binary(Plain)),
    Here = shorter(Command, [node_word(Command, Word, Lane) || Word <- Words]),
    [Command | Here ++ less(Command, Here)].

node_word(Command, "shop", #{shop := Shop}) when Command =/= "new" ->
    hd(string:split(atom_to_list(Shop), "@"));
node_word(_Command, "_build/default/lib/*/ebin", _Lane) ->
    "ebin";
node_word(_Command, Word, #{shop := Shop, stock := Stock}) ->
    case string:split(Word, "@") of
        [Name, [_ | _]] when Name =:= "shop"; Name =:= "pf1"; Name =:= "a" -> atom_to_list(Shop);
        [Name, [_ | _]] when Name =:= "stock"; Name =:= "b" -> atom_to_list(Stock);
        _ -> Word
    end.

shorter(Command, ["--for", Long | Words]) ->
    ["--for", for_time(Command, Long) | shorter(Command, Words)];
shorter(Command, [Option, Long | Words]) ->
    case short(Option, Long) of
        none -> [Option | shorter(Command, [Long | Words])];
        Short -> [Option, Short | shorter(Command, Words)]
    end;
shorter(_Command, Words) ->
    Words.

for_time("bench", _) -> "50ms";
for_time("workload", _) -> "50ms";
for_time("test", _) -> "300ms";
for_time(_Command, "1200ms") -> "1200ms";
for_time(_Command, _) -> "1s".

short("--interval", _) -> "300ms";
short("--repeat", _) -> "2";
short("--workers", _) -> "20";
short("--requests", _) -> "500";
short("-d", _) -> "20";
short("-s", _) -> "2";
short("--cookie", _) -> atom_to_list(erlang:get_cookie());
%% Both forms that the option takes.
short("--otp", "/opt/otp27") -> code:root_dir();
short("--otp", _) -> filename:join([code:root_dir(), "bin", "erl"]);
short(_Option, _Value) -> none.

less("bench", Words) ->
    case {[W || W <- Words, lists:member(W, ["-d", "-s", "--for"])], lists:member("-q", Words)} of
        {[_ | _], _} -> [];
        {[], true} -> ["-d", "20"];
        {[], false} -> ["--for", "50ms"]
    end;
less("test", Words) ->
    %% A search takes most of a minute at each size.
    Sizes =
        case lists:member("--search", Words) of
            true -> "1";
            false -> "1,2"
        end,
    without(Words, [{"--sizes", Sizes}, {"--for", "300ms"}, {"--warmup", "100ms"}]);
less(Command, Words) when
    Command =:= "record"; Command =:= "servers"; Command =:= "verify"; Command =:= "trace"
->
    without(Words, [{"--for", "1s"}]);
%% It stays otherwise.
less("top", Words) ->
    without(Words, [{"--count", "1"}, {"--interval", "300ms"}]);
less("profile", Words) ->
    case [W || W <- Words, lists:member(W, ["--eval", "--run"])] of
        [] -> without(Words, [{"--for", "1s"}]);
        _ -> []
    end;
less(_Command, _Words) ->
    [].

without(Words, Defaults) ->
    lists:append([[Option, Value] || {Option, Value} <- Defaults, not lists:member(Option, Words)]).

%% What the lines of documents take to be there

%% A project of rebar3 with an application `shop`, in git, with dyno's examples.
project(Folder, #{ebin := Ebin}) ->
    Files = [
        {"rebar.config", "{erl_opts, [debug_info]}.\n"},
        {"src/shop.app.src", [
            "{application, shop, [{description, \"\"}, {vsn, \"1\"}, ",
            "{applications, [kernel, stdlib]}]}.\n"
        ]},
        {"src/shop.erl", shop()},
        {"bench/shop_bench.erl", [
            "-module(shop_bench).\n-behaviour(dyno_bench_file).\n-export([benchmarks/0]).\n",
            "benchmarks() -> [#{name => totals, codes => [{total, fun shop:total/0}]}].\n"
        ]},
        {"monday.csv", "20\n30\n20\n"}
        | [module_to_compile(N) || N <- lists:seq(1, 8)]
    ],
    [write(filename:join(Folder, Name), Text) || {Name, Text} <- Files],
    ok = file:make_symlink(
        filename:join(dyno_project:root(), "examples"), filename:join(Folder, "examples")
    ),
    ok = file:make_symlink(Ebin, filename:join(Folder, "ebin")),
    [
        {ok, _} = file:copy(
            filename:join([Folder, "examples/verify", From]), filename:join(Folder, To)
        )
     || {From, To} <- [
            {"shop_answers.dyno", "worker.dyno"}, {"answers_in_order.dyno", "answers_in_order.dyno"}
        ]
    ],
    Output = os:cmd(
        "cd '" ++ Folder ++
            "' && git init -q -b main . && git add -A && "
            "git -c user.name=a -c user.email=a@b commit -q -m Begin && git tag v1.2 && "
            "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m More && git tag v1.3 && "
            "git update-ref refs/remotes/origin/main HEAD && echo done"
    ),
    ?assertEqual("done\n", Output),
    ok.

%% Enough for a build that takes longer than a look at it needs to begin.
module_to_compile(Number) ->
    Name = "shop_" ++ integer_to_list(Number),
    {"src/" ++ Name ++ ".erl", [
        ["-module(", Name, ").\n-compile(export_all).\n"]
        | [
            io_lib:format("f~b(X) -> [{X, Y} || Y <- lists:seq(1, X), Y > ~b].~n", [N, N])
         || N <- lists:seq(1, 400)
        ]
    ]}.

%% Those that the lines name and that no line of the document writes.
suites(Folder, Lines, Lane) ->
    Texts = unicode:characters_to_list(lists:join(" ", Lines)),
    Performerl = filename:join(dyno_project:root(), "examples/orders_performerl.erl"),
    {ok, Source} = file:read_file(Performerl),
    [
        begin
            Name = filename:basename(File, ".erl"),
            Renamed = string:replace(Source, "orders_performerl", Name, all),
            write(filename:join(Folder, File), Renamed)
        end
     || File <- ["my_load_gen.erl"],
        string:find(Texts, File) =/= nomatch
    ],
    ok = crash_dump(Folder, string:find(Texts, "--dump erl_crash.dump")),
    [
        {0, _, _} = ask(Lane, Folder, ["new", "suite", Name])
     || Name <- ["shop", "shop_perf", "my_suite"],
        string:find(Texts, "dyno test " ++ Name) =/= nomatch,
        string:find(Texts, "dyno new suite " ++ Name) =:= nomatch
    ],
    case filelib:is_regular(filename:join(Folder, "my_suite.erl")) of
        true ->
            Beams = filename:join(Folder, "_build/default/lib/my_app/ebin"),
            ok = filelib:ensure_path(Beams),
            {ok, _} = compile:file(filename:join(Folder, "my_suite.erl"), [{outdir, Beams}]),
            file:delete(filename:join(Folder, "my_suite.erl"));
        false ->
            ok
    end.

crash_dump(_Folder, nomatch) ->
    ok;
crash_dump(Folder, _Named) ->
    "" = os:cmd(
        "cd '" ++ Folder ++ "' && '" ++ filename:join(code:root_dir(), "bin/erl") ++
            "' -noshell -eval 'erlang:halt(\"out of stock\").' 2>/dev/null"
    ),
    true = filelib:is_regular(filename:join(Folder, "erl_crash.dump")),
    ok.

%% Recordings that no line of the document writes: a baseline is of the same command, another that
%% of a benchmark; a later one is as if the first had been taken again.
inputs(Folder, Words, Lines, Lane) ->
    Written = [Name || Line <- Lines, {"-o", Name} <- pairs(dyno_documents:words(Line))],
    [
        case {filelib:wildcard(filename:join(Folder, "{before,old}.json")), baseline(Words)} of
            {_, {Name, Same}} ->
                {0, _, _} = ask(Lane, Folder, Same ++ ["-o", Name]);
            {[], _} ->
                Take = ["bench", "lists:seq(1, 9)", "--for", "50ms", "-o", Name],
                {0, _, _} = ask(Lane, Folder, Take);
            {[Before | _], _} ->
                {ok, _} = file:copy(Before, filename:join(Folder, Name))
        end
     || Name <- Words -- Written,
        filename:extension(Name) =:= ".json",
        not filelib:is_regular(filename:join(Folder, Name)) orelse lists:member("--baseline", Words)
    ],
    ok.

baseline(Words) ->
    case lists:splitwith(fun(Word) -> Word =/= "--baseline" end, Words) of
        {Same, ["--baseline", Name | Others]} -> {Name, Same ++ ungated(Others)};
        {_, []} -> none
    end.

ungated(["--fail-if", _ | Words]) -> Words;
ungated(Words) -> Words.

pairs([A, B | Words]) -> [{A, B} | pairs([B | Words])];
pairs(_) -> [].

write(File, Text) ->
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, Text).

%% Compiled, as the nodes run it.
application_of_shop(Ebin) ->
    ok = filelib:ensure_path(Ebin),
    {ok, Servers} = file:read_file(filename:join(dyno_project:root(), "examples/shop_servers.erl")),
    Sources = [
        {"shop", shop()},
        {"shop_sup", sup()},
        {"orders", orders()},
        {"my_shop", "-module(my_shop).\n-export([queue_length/0]).\nqueue_length() -> 0.\n"},
        {"Elixir.MyApp.Orders",
            "-module('Elixir.MyApp.Orders').\n-export([create/1]).\ncreate(N) -> {ok, N}.\n"},
        {"shop_servers", Servers}
    ],
    [
        begin
            File = filename:join(Ebin, Name ++ ".erl"),
            write(File, Source),
            {ok, _} = compile:file(File, [debug_info, {outdir, Ebin}])
        end
     || {Name, Source} <- Sources
    ],
    Modules = [list_to_atom(Name) || {Name, _} <- Sources],
    Application =
        {application, shop, [
            {vsn, "1"},
            {modules, Modules},
            {registered, [shop_sup]},
            {applications, [kernel, stdlib]},
            {mod, {shop, []}}
        ]},
    write(filename:join(Ebin, "shop.app"), io_lib:format("~tp.~n", [Application])).

shop() ->
    "-module(shop).\n"
    "-behaviour(application).\n"
    "-export([start/2, stop/1, order/2, fact/1, price/1, total/0, sum/0, customer/1]).\n"
    "start(_, _) ->\n"
    "    ok = shop_servers:start(),\n"
    "    {ok, Pid} = shop_sup:start_link(),\n"
    "    _ = spawn(shop, customer, [1]),\n"
    "    {ok, Pid}.\n"
    "stop(_) -> ok.\n"
    "order(Article, N) -> timer:sleep(N), {Article, price(N)}.\n"
    "fact(0) -> 1;\n"
    "fact(N) -> N * fact(N - 1).\n"
    "price(N) -> lists:sum(lists:seq(1, N)).\n"
    "total() -> lists:sum(lists:seq(1, 100)).\n"
    "sum() -> lists:foldl(fun(A, B) -> A + B end, 0, lists:seq(1, 100)).\n"
    "customer(N) ->\n"
    "    _ = shop:order(book, N rem 12),\n"
    "    _ = shop:fact(3),\n"
    "    _ = 'Elixir.MyApp.Orders':create(N),\n"
    "    _ = gen_server:call(orders_desk, N),\n"
    "    shop:customer(N + 1).\n".

sup() ->
    "-module(shop_sup).\n"
    "-behaviour(supervisor).\n"
    "-export([start_link/0, init/1]).\n"
    "start_link() -> supervisor:start_link({local, shop_sup}, shop_sup, []).\n"
    "init(_) ->\n"
    "    Start = fun(Name) -> {gen_server, start_link, [{local, Name}, orders, [], []]} end,\n"
    "    {ok, {#{}, [#{id => N, start => Start(N)} || N <- [orders_desk, cache]]}}.\n".

orders() ->
    "-module(orders).\n"
    "-behaviour(gen_server).\n"
    "-export([init/1, handle_call/3, handle_cast/2]).\n"
    "init(_) -> {ok, 0}.\n"
    "handle_call(N, _, State) -> {reply, shop:price(N rem 100), State}.\n"
    "handle_cast(_, State) -> {noreply, State}.\n".
