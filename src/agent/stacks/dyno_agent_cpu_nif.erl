%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_cpu_nif).
-moduledoc false.
%% The sampler of processor time (c_src/dyno_cpu_nif.c), loaded from bytes by a file in a folder
%% that only this user can enter, and removed right after loading. The library is unloaded with this
%% module, which ends any session.

-include_lib("kernel/include/file.hrl").

-nifs([
    loaded/0,
    snapshot/0,
    snapshot_dirty/0,
    compute_dirty/1,
    start/5,
    stop/1,
    code/2,
    drain/2,
    waiting/1,
    clocks/1,
    names/3,
    callees/3
]).

-export([load/1, loaded/0]).
-export([snapshot/0, snapshot_dirty/0, compute_dirty/1]).
-export([start/5, stop/1, code/2, drain/2, waiting/1, clocks/1, names/3, callees/3]).
-export_type([session/0, snapshot/0, layout/0, range/0, sample/0, address/0]).

-opaque session() :: reference().

-type address() :: non_neg_integer().
-type range() :: {Low :: address(), High :: address()}.

-doc "The thread data's key, and offsets there and in a process, in bytes; `Next` may be -1.".
-type layout() :: {
    Key :: non_neg_integer(),
    Current :: non_neg_integer(),
    Heap :: non_neg_integer(),
    Stop :: non_neg_integer(),
    Hend :: non_neg_integer(),
    Next :: integer()
}.

-doc "Data to find the layout; words in the machine's order.".
-type snapshot() :: {
    Process :: address(),
    %% 1 if its first word is the caller's pid.
    IsCaller :: 0 | 1,
    Words :: binary(),
    %% The word at each of these addresses; 0 if it is no address.
    Targets :: binary(),
    AlternateStackBytes :: non_neg_integer(),
    [{Key :: non_neg_integer(), Words :: binary()}]
}.

-doc "In both ends, the innermost frame comes first.".
-type sample() :: {
    Thread :: non_neg_integer(),
    pid() | none,
    %% Erlang code, or C code, with the address in Erlang code behind which it runs, if known.
    jit | native | (Back :: address()),
    Pc :: address(),
    %% In intervals.
    Weight :: pos_integer(),
    Inner :: [address()],
    Outer :: [address()],
    %% Whether frames between both ends are omitted.
    HasGap :: boolean()
}.

%% Tried in this order: some folders forbid execution.
-define(FOLDERS, ["/tmp", "/var/tmp", "/dev/shm"]).
-define(NAME, "dyno_cpu_nif").

-doc "Loads the library, if necessary; leaves nothing in the file system.".
-spec load(binary()) -> ok | {error, {not_loaded, binary()}}.
load(Library) ->
    try
        true = loaded(),
        ok
    catch
        error:nif_not_loaded -> load(folders(), Library, ~"no folder for it can be written")
    end.

folders() ->
    lists:uniq([Folder || Folder <- [os:getenv("TMPDIR", "")], Folder =/= ""] ++ ?FOLDERS).

load([], _Library, Why) ->
    {error, {not_loaded, Why}};
load([Folder | Folders], Library, Before) ->
    case load_from(Folder, Library) of
        ok -> ok;
        {error, {_Kind, Text}} -> load(Folders, Library, unicode:characters_to_binary(Text));
        {error, _Posix} -> load(Folders, Library, Before)
    end.

load_from(Parent, Library) ->
    {Random, _} = rand:bytes_s(8, rand:seed_s(exsss)),
    Folder = filename:join(Parent, "dyno-" ++ binary_to_list(binary:encode_hex(Random, lowercase))),
    File = filename:join(Folder, ?NAME ++ ".so"),
    maybe
        ok ?= others_cannot_rename(Parent),
        %% Fails if the name exists, even as a link.
        ok ?= file:make_dir(Folder),
        Loaded =
            maybe
                ok ?= file:change_mode(Folder, 8#700),
                %% Proves that the folder is still empty.
                {ok, []} ?= file:list_dir_all(Folder),
                ok ?= file:write_file(File, Library, [exclusive, raw]),
                erlang:load_nif(filename:rootname(File, ".so"), [])
            else
                {ok, _} -> {error, eexist};
                {error, _} = Error -> Error
            end,
        _ = file:delete(File),
        _ = file:del_dir(Folder),
        Loaded
    end.

%% Other users could replace the library before it is loaded.
others_cannot_rename(Parent) ->
    maybe
        {ok, #file_info{uid = Own}} ?= file:read_file_info("/proc/self"),
        {ok, #file_info{uid = Owner, mode = Mode}} ?= file:read_file_info(Parent),
        true ?= lists:member(Owner, [0, Own]),
        true ?= Mode band 8#022 =:= 0 orelse Mode band 8#1000 =/= 0,
        ok
    else
        {error, Posix} -> {error, Posix};
        false -> {error, eperm}
    end.

-doc "Fails with `nif_not_loaded` without the library.".
-spec loaded() -> true.
loaded() -> missing().

-spec snapshot() -> snapshot().
snapshot() -> missing().

-doc "The same in a dirty scheduler; the process there is a stand-in of the caller.".
-spec snapshot_dirty() -> snapshot().
snapshot_dirty() -> missing().

-spec compute_dirty(Ns :: non_neg_integer()) -> ok.
compute_dirty(_Ns) -> missing().

-doc """
Samples these threads after each interval of processor time, until the deadline, `stop/1`, or the
end of the calling process. `Timers` is the number of threads with a timer.
""".
-spec start(layout(), [range()], [Tid :: pos_integer(), ...], IntervalNs, DeadlineMs) ->
    {ok, session(), Timers :: non_neg_integer()} | {error, signal_in_use}
when
    IntervalNs :: pos_integer(), DeadlineMs :: pos_integer().
start(_Layout, _Code, _Threads, _IntervalNs, _DeadlineMs) -> missing().

-doc "Ends a session; `false` if a thread stayed in a system call: the library then stays.".
-spec stop(session()) -> boolean().
stop(_Session) -> missing().

-doc "Updates the sorted ranges of Erlang code. At most once a second.".
-spec code(session(), [range()]) -> ok.
code(_Session, _Code) -> missing().

-spec drain(session(), pos_integer()) -> [sample()].
drain(_Session, _Most) -> missing().

-doc "The number of samples to be drained; unlike `drain/2`, wakes no dirty scheduler.".
-spec waiting(session()) -> non_neg_integer().
waiting(_Session) -> missing().

-doc "Processor time of the emulator and its threads, and threads' intervals without a sample.".
-spec clocks(session()) ->
    {ProcessNs :: non_neg_integer(), [{ThreadNs :: non_neg_integer(), Lost :: non_neg_integer()}]}.
clocks(_Session) -> missing().

-spec names(session(), [address()], Atoms :: pos_integer()) -> [mfa() | unknown].
names(_Session, _Addresses, _Atoms) -> missing().

-doc "The functions whose calls return to these addresses, from the code before them.".
-spec callees(session(), [address()], Atoms :: pos_integer()) -> [mfa() | unknown].
callees(_Session, _Addresses, _Atoms) -> missing().

-spec missing() -> term().
missing() -> erlang:nif_error(nif_not_loaded).
