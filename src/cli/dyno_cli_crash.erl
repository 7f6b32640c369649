%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_crash).
-moduledoc """
Reports an error of dyno's own: one sentence for people, the details in a file.
""".

-export([report/3, debugging/0]).

-doc "Whether DYNO_DEBUG is set: details are then shown at once.".
-spec debugging() -> boolean().
debugging() ->
    not lists:member(os:getenv("DYNO_DEBUG", ""), ["", "0"]).

-doc "Says that dyno failed, and where the details are; gives the exit status.".
-spec report(error | exit | throw, term(), erlang:stacktrace()) -> 3.
report(Class, Reason, Stack) ->
    Release = erlang:system_info(otp_release),
    Where = ["dyno ", dyno_version:version(), ", Erlang/OTP ", Release, $\n],
    Details = [Where, erl_error:format_exception(Class, Reason, Stack)],
    case debugging() of
        true -> dyno_cli_terminal:complain(["an error of dyno's own\n", Details]);
        false -> dyno_cli_terminal:complain(["an error of dyno's own; ", kept(Details)])
    end,
    3.

kept(Details) ->
    Folder = os:getenv("TMPDIR", "/tmp"),
    Path = filename:join(Folder, "dyno-crash-" ++ os:getpid() ++ ".txt"),
    Text = unicode:characters_to_binary([Details, $\n]),
    case dyno_file:write(Path, Text) of
        ok -> ["the details are in ", Path, "; please report it with them"];
        {error, _} -> "set DYNO_DEBUG=1 to see the details, and please report it with them"
    end.
