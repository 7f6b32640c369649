%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_crash).
-moduledoc """
Reports an error of dyno's own: one sentence for people, the details in a file.
""".

-export([report/3, debugging/0, no_dump/0]).

-doc "Whether DYNO_DEBUG is set: details are then shown at once.".
-spec debugging() -> boolean().
debugging() ->
    not lists:member(os:getenv("DYNO_DEBUG", ""), ["", "0"]).

-doc """
From now on no crash dump is written to the folder that the user stands in, by this emulator or by
one that it starts, unless the environment says something about crash dumps.
""".
-spec no_dump() -> ok.
no_dump() ->
    Said = [os:getenv("ERL_CRASH_DUMP" ++ Of) || Of <- ["", "_BYTES", "_SECONDS"]],
    _ = [os:putenv("ERL_CRASH_DUMP_BYTES", "0") || Said =:= [false, false, false]],
    ok.

-doc "Says that dyno failed, and where the details are; gives the exit status.".
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

%% They can be among the arguments of a call; shorter ones are no secret.
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
