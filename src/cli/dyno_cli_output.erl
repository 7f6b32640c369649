%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_output).
-moduledoc false.
%% Writes a recording to standard output and files.

-export([options/2, view/0, path/1, deliver/2, deliver/4]).
-export_type([output/0]).

-type output() :: {dyno_report:format(), file:filename_all()}.

-doc "`--format` and `-o`, with the help's text for their absence.".
-spec options(Format :: string(), Output :: string()) -> [dyno_cli_option:row()].
options(Format, Output) ->
    [
        {"--format FORMAT",
            "the format of standard output: " ++ dyno_report:format_names() ++ Format,
            {one_of, dyno_report:formats()}},
        {"-o, --output FILE",
            "writes FILE, in the format of its ending: " ++ dyno_report:file_endings() ++
                "; repeatable" ++ Output,
            {many, {custom, fun output/1, "a file's path"}}}
    ].

-doc "The console's view of profiles.".
-spec view() -> dyno_cli_option:row().
view() ->
    {"--view VIEW",
        "of profiles: top, the costly functions; down, from processes to functions; up, from "
        "costly functions to callers (default: top)", {one_of, [top, down, up]}}.

%% Checks before the measurement that the file can be written.
output(Path) ->
    maybe
        {ok, Format} ?= dyno_error:tagged(dyno_report, dyno_report:format_of_file(Path)),
        {ok, Path} ?= path(Path),
        {ok, {Format, Path}}
    end.

-spec path(binary()) -> dyno_error:result(binary()).
path(Path) ->
    maybe
        ok ?= dyno_error:tagged(dyno_file, dyno_file:writable(Path)),
        {ok, Path}
    end.

-doc "Writes a report to the outputs; without files to standard output.".
-spec deliver(dyno_report:document(), dyno_cli_command:values()) -> dyno_error:exit_status().
deliver(Document, Values) ->
    Outputs = maps:get(output, Values, []),
    Default =
        case Outputs =:= [] andalso not is_map_key(quiet, Values) of
            true -> console;
            false -> none
        end,
    deliver(Document, maps:get(format, Values, Default), Outputs, maps:with([view], Values)).

-doc "Writes the files, then standard output; each failure prints a sentence and gives status 3.".
-spec deliver(dyno_report:document(), dyno_report:format() | none, [output()], Look) ->
    dyno_error:exit_status()
when
    Look :: dyno_report:options().
deliver(Document, Format, Outputs, Look) ->
    Files = [to_file(Document, Output, maps:remove(full, Look)) || Output <- Outputs],
    lists:max([to_stdout(Document, Format, Look) | Files]).

to_file(Document, {Format, Path}, Look) ->
    maybe
        Options = maps:merge(dyno_cli_terminal:file_look(), Look),
        {ok, Report} ?= dyno_report:render(Format, Document, Options),
        status(dyno_file:write(Path, dyno_recording_file:access(Document), Report))
    else
        Error -> status(Error)
    end.

to_stdout(_Document, none, _Look) ->
    0;
to_stdout(Document, Format, Look) ->
    case dyno_report:render(Format, Document, maps:merge(dyno_cli_terminal:look(), Look)) of
        {ok, Report} -> dyno_cli_terminal:print_report(Report);
        Error -> status(Error)
    end.

status(ok) ->
    0;
status({error, Reason}) ->
    dyno_cli_terminal:complain(dyno_report:format_error(Reason)),
    3.
