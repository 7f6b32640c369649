#!/usr/bin/env escript
%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors
%%
%% Puts src/cli/launcher.sh into a program dyno, which rebar3 made or which has another one: as the
%% comment of its zip archive, of a size that the second line of the program knows (rebar.config).
%%
%%   escript scripts/launcher.escript DYNO [FOLDERS]
%%
%% FOLDERS, ':' between them, are those of an OTP for machines that have none on the PATH.

-mode(compile).

-define(SIZE, 8192).

main([Program]) ->
    main([Program, ""]);
main([Program, Folders]) ->
    Here = filename:dirname(filename:absname(escript:script_name())),
    {ok, Source} = file:read_file(filename:join(Here, "../src/cli/launcher.sh")),
    Lines = [Line || Line <- binary:split(Source, <<"\n">>, [global]), not is_comment(Line)],
    Quoted = ["'", string:replace(Folders, "'", "'\\''", all), "'"],
    Text = binary:replace(
        iolist_to_binary(lists:join($\n, Lines)), <<"@PATH@">>, unicode:characters_to_binary(Quoted)
    ),
    Padding = binary:copy(<<"\n">>, ?SIZE - byte_size(Text)),
    {ok, Old} = file:read_file(Program),
    New = [without_comment(Old), <<?SIZE:16/little>>, Text, Padding],
    %% Under a name of its own until it is whole.
    Temporary = Program ++ ".new",
    ok = file:write_file(Temporary, New),
    ok = file:change_mode(Temporary, 8#755),
    ok = file:rename(Temporary, Program).

is_comment(Line) ->
    case string:trim(Line, leading) of
        <<>> -> true;
        <<"#", _/binary>> -> true;
        _ -> false
    end.

%% The archive ends with the comment's size in two bytes, and the comment.
without_comment(Program) ->
    Size = byte_size(Program),
    case Program of
        <<Archive:(Size - ?SIZE - 2)/binary, ?SIZE:16/little, _/binary>> -> Archive;
        <<Archive:(Size - 2)/binary, 0:16>> -> Archive
    end.
