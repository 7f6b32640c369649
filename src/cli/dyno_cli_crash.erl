%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_crash).
-moduledoc "Reports an internal error of dyno: one sentence, with details in a file.".

-export([report/3, debugging/0, no_dump/0]).

-doc "Whether DYNO_DEBUG is set, which shows details at once.".
-spec debugging() -> boolean().
debugging() ->
    not lists:member(os:getenv("DYNO_DEBUG", ""), ["", "0"]).

-doc "Keeps crash dumps of this and further emulators from the user's folder, if not set.".
-spec no_dump() -> ok.
no_dump() ->
    Said = [os:getenv("ERL_CRASH_DUMP" ++ Of) || Of <- ["", "_BYTES", "_SECONDS"]],
    _ = [os:putenv("ERL_CRASH_DUMP_BYTES", "0") || Said =:= [false, false, false]],
    ok.

-doc "Reports an internal error and the file with details; returns the exit status.".
-spec report(error | exit | throw, term(), erlang:stacktrace()) -> 3.
report(Class, Reason, Stack) ->
    Release = erlang:system_info(otp_release),
    Where = ["dyno ", dyno_version:version(), ", Erlang/OTP ", Release, $\n],
    Details = without_cookies([Where, erl_error:format_exception(Class, Reason, Stack)]),
    case debugging() of
        true -> dyno_cli_terminal:complain(["an error of dyno's own\n", Details]);
        false -> dyno_cli_terminal:complain(["an error of dyno's own; ", kept(Details)])
    end,
    3.

%% A call's arguments may contain cookies; shorter strings are no secret.
without_cookies(Details) ->
    Known = [atom_to_list(erlang:get_cookie(Node)) || Node <- [node() | nodes(known)]],
    Secrets = [Text || Text <- [os:getenv("DYNO_COOKIE", "") | Known], length(Text) >= 5],
    Without = fun(Secret, Text) -> string:replace(Text, Secret, "COOKIE", all) end,
    lists:foldl(Without, unicode:characters_to_binary(Details), Secrets).

kept(Details) ->
    Name = ["dyno-crash-", dyno_temporary:random(), ".txt"],
    Path = filename:join(dyno_temporary:folder(), lists:append(Name)),
    Text = unicode:characters_to_binary([Details, $\n]),
    case dyno_file:write(Path, private, Text) of
        ok -> ["the details are in ", Path, "; please report it with them"];
        {error, _} -> "set DYNO_DEBUG=1 to see the details, and please report it with them"
    end.
