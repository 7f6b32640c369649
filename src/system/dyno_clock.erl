%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_clock).
-moduledoc """
Tells how much of an interval's wall time the calling process's thread really computed.

Between two readings of the wall clock the operating system may have run something else. With the
thread's own clocks at both edges of an epoch, that time is known:

```
Before = dyno_clock:thread(),
...
After = dyno_clock:thread(),
#{wall_ns := Wall, cpu_ns := Cpu, wait_ns := Wait} = dyno_clock:difference(Before, After).
```

The scheduler's thread has the clocks, so the process must stay on one: start it with
`spawn_opt(Fun, [{scheduler, Number}])`. `difference/2` sees that the threads at the two edges
differ, but not that the process was away in between.

## The NIF

The thread's clocks come from a NIF (`c_src/dyno_clock_nif.c`), which `make` builds where there is a
C compiler. Without it everything works with the wall clock alone; `available/0` tells, and
`missing/0` says what that costs.

The NIF is looked for, as `nif-VERSION/dyno_clock_nif.so` with the version of the runtime's NIF
interface, in these folders, and the first that is there is loaded:

1. the folder named by the environment variable `DYNO_PRIV`,
2. the application's `priv` folder,
3. the folder `priv` beside the escript, and `lib/dyno/priv` of the prefix in whose `bin` it is
   installed: from inside an archive no library can be loaded.

A node without dyno that was sent this module has none of them; `load_from/1` takes the library from
where the sender has it, which works on the same machine.

## Cost

One `thread/0` takes 8 to 9 us with the NIF (2 cores, Linux 6.18, OTP 27 and 29), nearly all of it
in the kernel for the waiting time, and 0.2 us without. Nothing is kept open between calls.
""".

-on_load(load/0).
-nifs([thread_nif/0, loaded_nif/0]).

%% Reading
-export([thread/0, difference/2]).
%% What there is to read
-export([available/0, missing/0]).
%% In a node that was sent this module
-export([load_from/1, folders/0]).

-export_type([edge/0, interval/0]).

-doc "The clocks at one edge of an interval. What is not to be had is `undefined`.".
-type edge() :: #{
    %% The monotonic clock.
    wall_ns := integer(),
    %% The scheduler that ran the process.
    scheduler := pos_integer(),
    %% The operating system's thread: figures of two threads can't be compared.
    thread := integer() | undefined,
    %% Processor time of the thread.
    cpu_ns := non_neg_integer() | undefined,
    %% Time for which the thread could have run, but no processor was free for it. Linux only.
    wait_ns := non_neg_integer() | undefined
}.

-doc """
What passed between two edges. All but the wall time is `undefined` where the process was moved to
another thread in between, or without the NIF.
""".
-type interval() :: #{
    wall_ns := integer(),
    cpu_ns := non_neg_integer() | undefined,
    wait_ns := non_neg_integer() | undefined
}.

-doc "Reads the clocks of the thread that runs the calling process.".
-spec thread() -> edge().
thread() ->
    Times = thread_nif(),
    Times#{
        wall_ns => erlang:monotonic_time(nanosecond),
        scheduler => erlang:system_info(scheduler_id)
    }.

-doc "What passed from one edge to the other.".
-spec difference(Earlier :: edge(), Later :: edge()) -> interval().
difference(#{thread := Thread} = Earlier, #{thread := Thread} = Later) when is_integer(Thread) ->
    #{
        wall_ns => maps:get(wall_ns, Later) - maps:get(wall_ns, Earlier),
        cpu_ns => minus(maps:get(cpu_ns, Later), maps:get(cpu_ns, Earlier)),
        wait_ns => minus(maps:get(wait_ns, Later), maps:get(wait_ns, Earlier))
    };
difference(#{wall_ns := Start}, #{wall_ns := End}) ->
    #{wall_ns => End - Start, cpu_ns => undefined, wait_ns => undefined}.

-doc "Whether the thread's clocks can be read here.".
-spec available() -> boolean().
available() ->
    try
        loaded_nif()
    catch
        error:nif_not_loaded -> false
    end.

-doc """
One sentence on what is missing without the NIF, and why it is; `none` where nothing is.
""".
-spec missing() -> none | {missing, unicode:chardata()}.
missing() ->
    case available() of
        true -> none;
        false ->
            {missing, [
                ~"Only the wall clock is used: time in which other programs had the processor ",
                ~"counts as time of the code; ", reason(), ~"."
            ]}
    end.

reason() ->
    case library(folders()) of
        {ok, File} ->
            [File, ~" does not load here: run make with this Erlang/OTP"];
        none ->
            [
                file_name(),
                ~" was not found: run make with a C compiler, or name its folder in DYNO_PRIV"
            ]
    end.

minus(Later, Earlier) when is_integer(Later), is_integer(Earlier) -> max(0, Later - Earlier);
minus(_Later, _Earlier) -> undefined.

%% Loading

%% A missing NIF is no reason not to load the module, so this always succeeds.
load() ->
    load(folders()).

-doc """
Loads the NIF from one of these folders, where it is not loaded yet; whether the thread's clocks can
be read here then. The library goes with the module.
""".
-spec load_from([file:filename()]) -> boolean().
load_from(Folders) ->
    %% Where one is loaded this changes nothing.
    ok = load(Folders),
    available().

load(Folders) ->
    case library(Folders) of
        {ok, File} ->
            _ = erlang:load_nif(filename:rootname(File, ".so"), []),
            ok;
        none ->
            ok
    end.

library(Folders) ->
    Files = [filename:join(Folder, file_name()) || Folder <- Folders],
    case lists:search(fun filelib:is_regular/1, Files) of
        {value, File} -> {ok, File};
        false -> none
    end.

file_name() ->
    "nif-" ++ erlang:system_info(nif_version) ++ "/dyno_clock_nif.so".

-doc "The folders in which this node looks for the library, as whole paths.".
-spec folders() -> [file:filename()].
folders() ->
    Named = [Folder || Folder <- [os:getenv("DYNO_PRIV")], Folder =/= false, Folder =/= ""],
    Own = [Folder || Folder <- [code:priv_dir(dyno)], is_list(Folder)],
    [filename:absname(Folder) || Folder <- Named ++ Own ++ beside_escript(Own)].

%% An application of an escript has its priv folder at ESCRIPT/dyno/priv, where ESCRIPT is a file.
beside_escript(Own) ->
    [
        filename:join(filename:dirname(linked(Escript)), Beside)
     || Folder <- Own,
        Escript <- [filename:dirname(filename:dirname(Folder))],
        filelib:is_regular(Escript),
        Beside <- ["priv", "../lib/dyno/priv"]
    ].

%% A link to the escript, as in a user's own bin folder, has nothing beside it.
linked(File) ->
    case file:read_link(File) of
        {ok, Target} -> linked(filename:absname(Target, filename:dirname(File)));
        {error, _} -> File
    end.

thread_nif() ->
    #{thread => undefined, cpu_ns => undefined, wait_ns => undefined}.

loaded_nif() ->
    erlang:nif_error(nif_not_loaded).
