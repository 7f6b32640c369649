%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_cpu_maps).
-moduledoc false.
%% Code in the emulator's memory, from Linux (`/proc/self/maps`): Erlang code, which is executable
%% and without a file, and libraries. Pure but for `read/0`.

-export([read/0, parse/1, library/2]).
-export_type([t/0]).

-type t() :: #{
    code := [dyno_agent_cpu_nif:range()],
    libraries := [{dyno_agent_cpu_nif:address(), dyno_agent_cpu_nif:address(), binary()}]
}.

-define(MAPS, "/proc/self/maps").

-doc "Cost: 0.3 ms.".
-spec read() -> {ok, t()} | {error, file:posix()}.
read() ->
    case file:read_file(?MAPS, [raw]) of
        {ok, Text} -> {ok, parse(Text)};
        {error, _} = Error -> Error
    end.

-spec parse(binary()) -> t().
parse(Text) ->
    Executable = [Of || Line <- binary:split(Text, ~"\n", [global]), Of <- mapping(Line)],
    #{
        code => merged(lists:sort([{Low, High} || {Low, High, code} <- Executable])),
        libraries => [Of || {_, _, Name} = Of <- Executable, Name =/= code]
    }.

%% 7f0c1000-7f0c2000 r-xp 00000000 fd:00 123   /usr/lib/libcrypto.so.3
mapping(Line) ->
    case binary:split(Line, ~" ", [global, trim_all]) of
        [Range, <<_, _, "x", _/binary>>, _Offset, _Device, _Node | Path] ->
            [Low, High] = binary:split(Range, ~"-"),
            [{binary_to_integer(Low, 16), binary_to_integer(High, 16), name(Path)}];
        _ ->
            []
    end.

%% The runtime maps its code twice, by a file without a name.
name([]) -> code;
name([<<"/memfd:", _/binary>> | _]) -> code;
name([<<"/dev/shm/", Name/binary>> = Path, ~"(deleted)"]) ->
    %% The sampler's own library may have been loaded from there.
    case filename:extension(Name) of
        ~".so" -> name([Path]);
        _ -> code
    end;
name([<<"[anon", _/binary>> | _]) -> code;
name([<<"[", _/binary>> = Name | _]) -> Name;
name([Path | _]) -> <<"[", (filename:basename(Path))/binary, "]">>.

merged([{Low, Middle}, {Middle, High} | Rest]) -> merged([{Low, High} | Rest]);
merged([Range | Rest]) -> [Range | merged(Rest)];
merged([]) -> [].

-spec library(dyno_agent_cpu_nif:address(), t()) -> binary().
library(Address, #{libraries := Libraries}) ->
    Found = [Name || {Low, High, Name} <- Libraries, Address >= Low, Address < High],
    hd(Found ++ [~"[unknown]"]).
