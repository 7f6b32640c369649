%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_output).
-moduledoc """
Brings a recording to where the command line asked for it: standard output and files.
""".

-compile(warn_missing_spec_all).

-export([deliver/3]).

-doc """
Writes the files, then standard output. Every output is tried, whatever becomes of the others;
each failure is one sentence, and the status then 3.
""".
-spec deliver(dyno_report:document(), dyno_report:format() | none, [dyno_cli_value:output()]) ->
    0 | 3.
deliver(Document, Format, Outputs) ->
    Files = [to_file(Document, Output) || Output <- Outputs],
    lists:max([to_stdout(Document, Format) | Files]).

-spec to_file(dyno_report:document(), dyno_cli_value:output()) -> 0 | 3.
to_file(Document, {Format, Path}) ->
    maybe
        {ok, Report} ?= dyno_report:render(Format, Document, dyno_cli_terminal:file_look()),
        status(dyno_report:write(Path, Report))
    else
        Error -> status(Error)
    end.

-spec to_stdout(dyno_report:document(), dyno_report:format() | none) -> 0 | 3.
to_stdout(_Document, none) ->
    0;
to_stdout(Document, Format) ->
    case dyno_report:render(Format, Document, dyno_cli_terminal:look()) of
        {ok, Report} -> status(dyno_cli_terminal:print(Report));
        Error -> status(Error)
    end.

-spec status(ok | {error, dyno_report:reason()}) -> 0 | 3.
status(ok) ->
    0;
status({error, Reason}) ->
    dyno_cli_terminal:complain(dyno_report:format_error(Reason)),
    3.
