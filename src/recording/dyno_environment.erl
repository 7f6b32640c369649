%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_environment).
-moduledoc "Describes the machine, system and runtime of a measurement; unknown values are `null`.".

-export([collect/0, differences/2, emulator_flags/0, now_utc/0]).

-export_type([environment/0]).

-doc "The `environment` of a recording; doc/recording.md lists the fields.".
-type environment() :: dyno_recording:object().

%% A slow file system can block git; a measurement must start all the same.
-define(COMMAND_LIMIT_MS, 2_000).

-doc "The environment of this node.".
-spec collect() -> environment().
collect() ->
    {Os, Kernel} = system(),
    #{
        ~"dyno_version" => dyno_version:version(),
        ~"otp" => otp(),
        ~"erts" => list_to_binary(erlang:system_info(version)),
        ~"jit" => erlang:system_info(emu_flavor) =:= jit,
        ~"emulator_flags" => emulator_flags(),
        ~"schedulers_online" => erlang:system_info(schedulers_online),
        ~"schedulers" => erlang:system_info(schedulers),
        ~"dirty_cpu_schedulers" => erlang:system_info(dirty_cpu_schedulers),
        ~"dirty_io_schedulers" => erlang:system_info(dirty_io_schedulers),
        ~"os" => Os,
        ~"kernel" => Kernel,
        ~"cpu_model" => cpu_model(),
        ~"cores" => cores(),
        ~"memory_bytes" => memory_bytes(),
        ~"hostname" => hostname(),
        ~"git" => git(),
        ~"time" => now_utc()
    }.

-doc "The time in recordings: ISO 8601, UTC.".
-spec now_utc() -> binary().
now_utc() ->
    list_to_binary(calendar:system_time_to_rfc3339(os:system_time(second), [{offset, "Z"}])).

-doc "Fields that differ, except the time, sorted, with both values; absent ones are `null`.".
-spec differences(environment(), environment()) ->
    [{Field :: binary(), dyno_recording:json(), dyno_recording:json()}].
differences(One, Other) ->
    Fields = lists:usort(maps:keys(One) ++ maps:keys(Other)) -- [~"time"],
    [
        {Field, A, B}
     || Field <- Fields,
        A <- [maps:get(Field, One, null)],
        B <- [maps:get(Field, Other, null)],
        A =/= B
    ].

%% The runtime

%% The release's file has the whole version, 29.1.1; system_info has only 29.
otp() ->
    Release = erlang:system_info(otp_release),
    File = filename:join([code:root_dir(), "releases", Release, "OTP_VERSION"]),
    first_line(File, list_to_binary(Release)).

-doc "The emulator's start flags, with their values.".
-spec emulator_flags() -> [binary()].
emulator_flags() ->
    %% The flags come first, up to "--", with a minus for the user's plus.
    [_ | Arguments] = erlang:system_info(emu_args),
    [flag(Flag) || Flag <- lists:takewhile(fun(A) -> A =/= "--" end, Arguments)].

flag("-" ++ Flag) -> text("+" ++ Flag);
flag(Value) -> text(Value).

%% The system

system() ->
    Version =
        case os:version() of
            {Major, Minor, Release} ->
                iolist_to_binary(io_lib:format("~b.~b.~b", [Major, Minor, Release]));
            Text ->
                text(Text)
        end,
    {_, Name} = os:type(),
    Names = #{linux => ~"Linux", darwin => ~"macOS", nt => ~"Windows"},
    Os = maps:get(Name, Names, atom_to_binary(Name)),
    {Os, first_line("/proc/sys/kernel/osrelease", Version)}.

cpu_model() ->
    case {os:type(), field("/proc/cpuinfo", ~"(?m)^(?:model name|cpu model|cpu)\\s*:\\s*(.+)$")} of
        {{unix, darwin}, _} -> output("sysctl", ["-n", "machdep.cpu.brand_string"]);
        {_, Model} -> Model
    end.

memory_bytes() ->
    {Text, Unit} =
        case os:type() of
            {unix, darwin} -> {output("sysctl", ["-n", "hw.memsize"]), 1};
            _ -> {field("/proc/meminfo", ~"(?m)^MemTotal:\\s*(\\d+) kB$"), 1024}
        end,
    case string:to_integer(Text) of
        {Value, _} when is_integer(Value) -> Value * Unit;
        _ -> null
    end.

cores() ->
    case erlang:system_info(logical_processors_online) of
        unknown -> null;
        Cores -> Cores
    end.

hostname() ->
    {ok, Name} = inet:gethostname(),
    text(Name).

git() ->
    Arguments = ["describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"],
    maybe
        {ok, Text} ?= dyno_program:output("git", Arguments, ?COMMAND_LIMIT_MS),
        {match, [Revision, Dirty]} ?=
            re:run(Text, "^([0-9a-f]{40,64})(\\+?)$", [{capture, all_but_first, binary}]),
        #{~"revision" => Revision, ~"dirty" => Dirty =/= <<>>}
    else
        _ -> null
    end.

%% Files and commands

first_line(Path, Otherwise) ->
    case field(Path, ~"^\\s*(\\S[^\\n]*)") of
        null -> Otherwise;
        Line -> Line
    end.

field(Path, Pattern) ->
    maybe
        {ok, Content} ?= file:read_file(Path, [raw]),
        {match, [Value]} ?= re:run(Content, Pattern, [{capture, all_but_first, binary}]),
        text(string:trim(Value))
    else
        _ -> null
    end.

text(Chars) ->
    dyno_recording_check:text(Chars).

output(Name, Arguments) ->
    case dyno_program:output(Name, Arguments, ?COMMAND_LIMIT_MS) of
        {ok, Output} -> text(string:trim(Output));
        none -> null
    end.
