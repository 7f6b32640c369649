%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_bench_where).
-moduledoc """
The options of `dyno bench` that say where codes run: in VMs of their own, with other flags, another
Erlang or another revision of the project.
""".

-import(dyno_cli_command, [option/3, repeated/3]).

-export([arguments/0, names/0, parse/1, cluster/1]).

-doc "The options, as argparse wants them.".
-spec arguments() -> [argparse:argument()].
arguments() ->
    [
        #{
            name => isolated,
            short => $i,
            long => "-isolated",
            type => boolean,
            required => false,
            help =>
                {
                    "-i, --isolated",
                    ["runs each code in VMs of its own, and in fresh ones again and again"]
                }
        },
        option(
            vms,
            "--vms N",
            "how many VMs for each code (default: 8, up to 32 where it is not decided); implies -i"
        ),
        repeated(
            'erl-flags',
            "--erl-flags FLAGS",
            "starts these VMs with these flags of erl; more than once to compare them; implies -i"
        ),
        repeated(
            erl,
            "--erl PATH",
            "starts them from this program or folder of an Erlang; more than once to compare; "
            "implies -i"
        ),
        repeated(
            rev,
            "--rev REV1..REV2",
            "builds two git revisions of the project and compares them; REV1 alone: with the "
            "working tree"
        ),
        option(
            build,
            "--build COMMAND",
            "with --rev: how the project is built, such as 'make app' (default: as its files say)"
        ),
        repeated(
            node,
            "--node NAME",
            "runs the code in this node, which needs no dyno, and leaves nothing there; more than "
            "once: in all at once, with a line each second for each"
        ),
        #{
            name => watch,
            long => "-watch",
            type => boolean,
            required => false,
            help => {"--watch", ["with one --node: such lines as well, for --time (default: 10s)"]}
        },
        option(log, "--log FILE", "with such lines: adds them to FILE"),
        option(cookie, "--cookie COOKIE", "the cookie of the node (default: this user's)")
    ].

-doc "The names of the options.".
-spec names() -> [atom()].
names() -> [Name || #{name := Name} <- arguments()].

-doc """
Whether a code runs in several nodes at once, or is watched in one; what is known of that then.
""".
-spec cluster(argparse:arg_map()) ->
    {ok, none | #{nodes := [node(), ...], cookie => atom(), log => binary()}}
    | {error, unicode:chardata()}.
cluster(#{node := Names} = Values) when length(Names) > 1; is_map_key(watch, Values) ->
    Targets = [target(Values#{node := [Name]}) || Name <- Names],
    Foreign =
        [isolated, vms, 'erl-flags', erl, rev, build, squeeze, loop, duration, samples, warmup, cv,
        report, input, baseline, fail_if, verbose],
    case {[Error || {error, _} = Error <- Targets], maps:keys(maps:with(Foreign, Values))} of
        {[Error | _], _} ->
            Error;
        {[], [Key | _]} ->
            {error,
                [
                    "--",
                    option_name(Key),
                    " is not for nodes that are watched; give one --node, without --watch"
                ]
            };
        {[], []} ->
            [{ok, First} | _] = Targets,
            Nodes = [Node || {ok, #{node := Node}} <- Targets],
            {
                ok,
                (maps:merge(maps:with([cookie], First), maps:with([log], Values)))#{nodes => Nodes}
            }
    end;
cluster(Values) ->
    case maps:keys(maps:with([watch, log], Values)) of
        [] -> {ok, none};
        [Key | _] ->
            {error,
                ["--", atom_to_list(Key), " is for nodes that are watched; give them with --node"]
            }
    end.

-spec option_name(atom()) -> string().
option_name(fail_if) -> "fail-if";
option_name(Key) -> atom_to_list(Key).

-doc "What the options mean for m:dyno_bench; or what is wrong with them, in a sentence.".
-spec parse(argparse:arg_map()) -> {ok, dyno_bench:options()} | {error, unicode:chardata()}.
parse(Values) ->
    maybe
        {ok, Vms} ?= vms(Values),
        {ok, Flags} ?= flags(Values),
        {ok, Revisions} ?= revisions(Values),
        {ok, Node} ?= target(Values),
        Variants = dyno_bench_isolated:cross(erls(Values), Flags),
        Isolated = Vms#{variants => Variants},
        case dyno_bench_isolated:check(Isolated) of
            ok -> together(maps:merge(Node, maps:merge(Revisions, isolated(Values, Isolated))));
            {error, Error} -> {error, dyno_error:format(Error)}
        end
    end.

-spec together(dyno_bench:options()) -> {ok, dyno_bench:options()} | {error, unicode:chardata()}.
together(#{node := _, isolated := _}) ->
    {error,
        "--node measures in that very node, which -i, --vms, --erl and --rev do not; give one of "
        "them"};
together(Options) ->
    {ok, Options}.

-spec target(argparse:arg_map()) -> {ok, dyno_bench:options()} | {error, unicode:chardata()}.
target(#{node := [Name]} = Values) ->
    Cookie = [{cookie, binary_to_atom(Text)} || #{cookie := Text} <- [Values]],
    case binary:split(Name, ~"@") of
        [<<_, _/binary>>, <<_, _/binary>>] when byte_size(Name) < 256 ->
            {ok, maps:from_list([{node, binary_to_atom(Name)} | Cookie])};
        _ ->
            {error,
                [
                    "--node is \"",
                    dyno_report_text:clean(Name),
                    "\"; a name such as shop@host is accepted"
                ]
            }
    end;
target(#{cookie := _}) ->
    {error, "--cookie is for --node, which is not given"};
target(_) ->
    {ok, #{}}.

-spec isolated(argparse:arg_map(), dyno_bench_isolated:settings()) -> dyno_bench:options().
isolated(Values, Isolated) ->
    case maps:with([isolated, vms, 'erl-flags', erl, rev], Values) of
        None when None =:= #{}; None =:= #{isolated => false} -> #{};
        _ -> #{isolated => Isolated}
    end.

-spec vms(argparse:arg_map()) -> {ok, #{vms => pos_integer()}} | {error, unicode:chardata()}.
vms(#{vms := Text}) ->
    case string:to_integer(Text) of
        {N, <<>>} when is_integer(N), N >= 1, N =< 1000 ->
            {ok, #{vms => N}};
        _ ->
            {error,
                [
                    "--vms is \"",
                    dyno_report_text:clean(Text),
                    "\"; an integer from 1 to 1000 is accepted"
                ]
            }
    end;
vms(_) ->
    {ok, #{}}.

%% One alone needs no name.
-spec erls(argparse:arg_map()) -> [dyno_bench_isolated:variant(), ...].
erls(#{erl := [One]}) -> [#{erl => unicode:characters_to_list(One)}];
erls(#{erl := Several}) -> [#{erl => unicode:characters_to_list(E), label => E} || E <- Several];
erls(_) -> [#{}].

-spec flags(argparse:arg_map()) ->
    {ok, [dyno_bench_isolated:variant(), ...]} | {error, unicode:chardata()}.
flags(#{'erl-flags' := Texts}) ->
    Split = [words(unicode:characters_to_list(Text)) || Text <- Texts],
    case [Text || {Text, error} <- lists:zip(Texts, Split)] of
        [Text | _] ->
            {error,
                [
                    "--erl-flags is \"",
                    dyno_report_text:clean(Text),
                    "\", where a quote is not closed"
                ]
            };
        [] when tl(Texts) =:= [] ->
            {ok, [#{flags => Words} || Words <- Split]};
        [] ->
            {ok, [#{flags => W, label => flags_label(T)} || {T, W} <- lists:zip(Texts, Split)]}
    end;
flags(_) ->
    {ok, [#{}]}.

-spec flags_label(binary()) -> binary().
flags_label(Text) ->
    case dyno_report_text:clean(iolist_to_binary(string:trim(Text))) of
        ~"" -> ~"no flags";
        Trimmed -> Trimmed
    end.

%% Words as in a shell: blanks divide, quotes keep together.
-spec words(string()) -> [string()] | error.
words(Text) ->
    words(string:trim(Text), none, [], []).

-spec words(string(), none | char(), string(), [string()]) -> [string()] | error.
words([], none, [], Words) -> lists:reverse(Words);
words([], none, Word, Words) -> lists:reverse([lists:reverse(Word) | Words]);
words([], _Quote, _Word, _Words) -> error;
words([Quote | Rest], Quote, Word, Words) -> words(Rest, none, Word, Words);
words([C | Rest], none, Word, Words) when C =:= $"; C =:= $' -> words(Rest, C, Word, Words);
words([$\s | Rest], none, [], Words) -> words(Rest, none, [], Words);
words([$\s | Rest], none, Word, Words) -> words(Rest, none, [], [lists:reverse(Word) | Words]);
words([C | Rest], Quote, Word, Words) -> words(Rest, Quote, [C | Word], Words).

-spec revisions(argparse:arg_map()) -> {ok, dyno_bench:options()} | {error, unicode:chardata()}.
revisions(#{rev := Texts} = Values) ->
    case dyno_bench_revision:parse(Texts) of
        {ok, Revisions} ->
            Build = [{build, Command} || #{build := Command} <- [Values]],
            {ok, #{revisions => maps:from_list([{revisions, Revisions} | Build])}};
        {error, Error} ->
            {error, dyno_error:format(Error)}
    end;
revisions(#{build := _}) ->
    {error, "--build says how revisions are built, but there is no --rev; give both or none"};
revisions(_) ->
    {ok, #{}}.
