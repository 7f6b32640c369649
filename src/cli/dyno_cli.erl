%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli).
-moduledoc "The command line: runs a command of `m:dyno_commands`, and ends with its exit status.".

-export([main/1, run/1, operands/1, wants_help/1]).

-doc "The escript's entry, with its arguments, or a function to run instead. Never returns.".
-spec main([string()] | fun(() -> dyno_error:exit_status())) -> no_return().
main(Arguments) when is_list(Arguments) ->
    main(fun() -> run(Arguments) end);
main(Run) ->
    Mark = dyno_cli_ending:marker(),
    ok = dyno_cli_crash:no_dump(),
    ok = dyno_cli_terminal:prepare(),
    ok = dyno_cli_interrupt:install(),
    Status =
        try
            Run()
        catch
            Class:Reason:Stack ->
                ok = dyno_cli_ending:not_stopping(),
                dyno_cli_crash:report(Class, Reason, Stack)
        end,
    ok = dyno_cookie:forget(),
    ok = dyno_cli_ending:not_stopping(),
    dyno_cli_ending:halt(Mark(Status)).

-doc "Runs the command that these arguments name.".
-spec run([string()]) -> dyno_error:exit_status().
run(Arguments) ->
    case [Argument || Argument <- Arguments, not is_list(Argument)] of
        [] ->
            dyno_cli_terminal:status(coloured(Arguments));
        [NoText | _] ->
            dyno_cli_terminal:complain(dyno_cli_usage:no_text(NoText)),
            2
    end.

%% Applies before and within all commands.
coloured(Arguments) ->
    {Given, Rest} = lists:partition(fun is_colour/1, Arguments),
    case string:split(lists:last(["--color=auto" | Given]), "=") of
        [_, When] when When =:= "always"; When =:= "never"; When =:= "auto" ->
            ok = dyno_cli_terminal:colour_when(list_to_existing_atom(When)),
            with_otp(dyno_cli_otp:taken(Rest));
        [Option | _] ->
            Sentence = [Option, " takes always, never or auto, such as ", Option, "=always"],
            dyno_cli_terminal:complain(Sentence),
            2
    end.

with_otp({ok, Arguments}) ->
    run_text(Arguments);
with_otp({error, Sentence}) ->
    dyno_cli_terminal:complain(Sentence),
    2.

is_colour(Argument) ->
    [Option | _] = string:split(Argument, "="),
    Option =:= "--color" orelse Option =:= "--colour".

run_text(Arguments) ->
    case Arguments of
        ["help" | Topic] -> help(Topic);
        [Flag | _] when Flag =:= "--help"; Flag =:= "-h"; Flag =:= "--help-all" -> help([]);
        ["version"] -> version();
        [Flag | _] when Flag =:= "--version"; Flag =:= "-V"; Flag =:= "-v" -> version();
        ["man"] -> dyno_cli_terminal:print(dyno_cli_reference:man());
        ["completion" | Shell] -> completion(Shell);
        [] -> no_command();
        [Name | Rest] -> dispatch(Name, Rest, Arguments)
    end.

-doc "The arguments apart from options, such as the suite; `missing` if a command needs one.".
-spec operands([string()]) -> {ok, [string()]} | missing | invalid.
operands(Arguments) ->
    case argparse:parse(Arguments, tree(hd(Arguments)), #{progname => dyno}) of
        {ok, Values, _Path, #{arguments := Specs}} ->
            Names = [Name || #{name := Name} = Spec <- Specs, not is_map_key(long, Spec)],
            Given = maps:values(maps:with(Names, Values)),
            {ok, [unicode:characters_to_list(Text) || Text <- lists:flatten(Given)]};
        {error, {_Path, #{} = Spec, undefined, _Details}} when not is_map_key(long, Spec) ->
            missing;
        _ ->
            invalid
    end.

dispatch(Name, Rest, Arguments) ->
    {Options, _} = lists:splitwith(fun(Argument) -> Argument =/= "--" end, Rest),
    case {dyno_commands:module(Name), wants_help(Options)} of
        {{ok, _}, all} -> help([Name, "all"]);
        {{ok, _}, common} -> help([Name]);
        _ -> parse_and_run(dyno_cli_code:written(Arguments))
    end.

-doc "Whether these arguments ask for a help text, and which.".
-spec wants_help([string()]) -> none | common | all.
wants_help(Options) ->
    Asks = fun(Flag) -> lists:member(Flag, Options) end,
    case {Asks("--help-all"), Asks("--help") orelse Asks("-h")} of
        {true, _} -> all;
        {false, true} -> common;
        {false, false} -> none
    end.

parse_and_run([First | _] = Arguments) ->
    Tree = tree(First),
    case argparse:parse(Arguments, Tree, #{progname => dyno}) of
        {ok, Given, [_, Name], _Command} ->
            {ok, Module} = dyno_commands:module(Name),
            Rows = dyno_cli_command:rows(Module:command()),
            Result =
                maybe
                    {ok, Values} ?= dyno_cli_option:read(Rows, Given),
                    run(Module, Rows, Values)
                end,
            case Result of
                {error, _} -> dyno_cli_command:refused(Result);
                Status -> Status
            end;
        {error, Error} ->
            dyno_cli_terminal:complain(dyno_cli_usage:format_error(Error, Tree)),
            2
    end.

run(Module, Rows, Values) ->
    case [code_paths || {_, _, _, code_paths} <- Rows] of
        [code_paths] -> dyno_cli_code:with(Values, fun() -> Module:run(Values) end);
        [] -> Module:run(Values)
    end.

completion(Shell) ->
    case dyno_cli_completion:script(lists:append(Shell)) of
        {ok, Script} ->
            dyno_cli_terminal:print(Script);
        error ->
            Shells = lists:join(", ", dyno_cli_completion:shells()),
            dyno_cli_terminal:complain(["dyno completion takes one of ", Shells]),
            2
    end.

%% Loading the modules of all commands would take a fifth of the start.
tree(Given) ->
    case lists:keyfind(Given, 1, dyno_commands:all()) of
        false -> commands(dyno_commands:all());
        Command -> commands([Command])
    end.

commands(Commands) ->
    #{
        commands =>
            #{
                Name => #{help => Help, arguments => dyno_cli_command:arguments(Module:command())}
             || {Name, Module, Help} <- Commands
            }
    }.

help([]) ->
    dyno_cli_terminal:print_report(dyno_cli_help:overview(dyno_cli_terminal:look()));
%% The overview describes these.
help([Name | _]) when Name =:= "completion"; Name =:= "help"; Name =:= "man"; Name =:= "version" ->
    help([]);
help([Name | Which]) ->
    case lists:keyfind(Name, 1, dyno_commands:all()) of
        {Name, _, _} = Command when Which =:= ["all"] ->
            dyno_cli_terminal:print_report(dyno_cli_help:full(Command, dyno_cli_terminal:look()));
        {Name, _, _} = Command ->
            dyno_cli_terminal:print_report(
                dyno_cli_help:command(Command, dyno_cli_terminal:look())
            );
        false ->
            Error = {["dyno"], undefined, Name, ~""},
            dyno_cli_terminal:complain(dyno_cli_usage:format_error(Error, tree(Name))),
            2
    end.

no_command() ->
    dyno_cli_terminal:write_error(dyno_cli_help:overview(dyno_cli_terminal:file_look())),
    2.

version() ->
    Release = erlang:system_info(otp_release),
    Erts = erlang:system_info(version),
    dyno_cli_terminal:print([
        "dyno ", dyno_version:version(), " (Erlang/OTP ", Release, ", erts ", Erts, ")\n"
    ]).
