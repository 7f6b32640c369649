%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_clock).
-moduledoc """
Measures the share of an interval's wall time in which the calling process's thread computed; at
other times the operating system may run other programs.

```
Before = dyno_clock:thread(),
...
After = dyno_clock:thread(),
#{wall_ns := Wall, cpu_ns := Cpu, wait_ns := Wait} = dyno_clock:difference(Before, After).
```

The clocks are of the scheduler's thread, so the process must stay on one scheduler: start it with
`spawn_opt(Fun, [{scheduler, Number}])`. `difference/2` detects different threads at the edges, but
no move away and back between.

## The NIF

A NIF (`c_src/dyno_clock_nif.c`) reads the thread's clocks; `make` builds it if there is a C
compiler. Without it only the wall clock works (`available/0`, `missing/0`).

The library is `nif-VERSION/dyno_clock_nif.so`, with the version of the runtime's NIF interface, in
the first of these folders that has it:

1. the folder in the environment variable `DYNO_PRIV`,
2. the application's `priv` folder,
3. the folder `priv` beside the escript, and `lib/dyno/priv` of the prefix in whose `bin` it is
   installed: no library can be loaded from an archive.

In a node that got only this module, `load_from/1` takes the library from the sender's folders, on
the same machine.

## Cost

`thread/0` takes 8 to 9 us with the NIF (2 cores, Linux 6.18, OTP 27 and 29), most of it in the
kernel for the waiting time, and 0.2 us without. Nothing stays open between calls.
""".

-on_load(load/0).
-nifs([thread_nif/0, loaded_nif/0]).

%% Reading
-export([thread/0, difference/2]).
%% Availability
-export([available/0, missing/0]).
%% In a node that got this module
-export([load_from/1, folders/0]).

-export_type([edge/0, interval/0]).

-doc "The clocks at one edge of an interval; unavailable ones are `undefined`.".
-type edge() :: #{
    %% Monotonic time.
    wall_ns := integer(),
    %% The scheduler of the process.
    scheduler := pos_integer(),
    %% The operating system's thread: values of two threads cannot be compared.
    thread := integer() | undefined,
    %% Processor time of the thread.
    cpu_ns := non_neg_integer() | undefined,
    %% Time that the thread was ready without a free processor. Linux only.
    wait_ns := non_neg_integer() | undefined
}.

-doc "The time between two edges; only `wall` is known without the NIF, or on another thread.".
-type interval() :: #{
    wall_ns := integer(),
    cpu_ns := non_neg_integer() | undefined,
    wait_ns := non_neg_integer() | undefined
}.

-doc "Reads the clocks of the calling process's thread.".
-spec thread() -> edge().
thread() ->
    Times = thread_nif(),
    Times#{
        wall_ns => erlang:monotonic_time(nanosecond),
        scheduler => erlang:system_info(scheduler_id)
    }.

-doc "The time between two edges.".
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

-doc "A sentence on the loss without the NIF, and the cause; `none` with the NIF.".
-spec missing() -> none | {missing, unicode:chardata()}.
missing() ->
    case available() of
        true ->
            none;
        false ->
            {missing, [
                ~"Only the wall clock is used: time in which other programs had the processor ",
                ~"counts as time of the code; ",
                reason(),
                ~"."
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

%% Always succeeds: the module works without the NIF.
load() ->
    load(folders()).

-doc "Loads the NIF from one of these folders; whether the thread's clocks can be read then.".
-spec load_from([file:filename()]) -> boolean().
load_from(Folders) ->
    %% No effect if a library is loaded.
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

-doc "The folders in which this node looks for the library, as absolute paths.".
-spec folders() -> [file:filename()].
folders() ->
    Named = [Folder || Folder <- [os:getenv("DYNO_PRIV")], Folder =/= false, Folder =/= ""],
    Own = [Folder || Folder <- [code:priv_dir(dyno)], is_list(Folder)],
    [filename:absname(Folder) || Folder <- Named ++ Own ++ beside_escript(Own)].

%% An escript's application has its priv folder at ESCRIPT/dyno/priv, with ESCRIPT a file.
beside_escript(Own) ->
    [
        filename:join(filename:dirname(linked(Escript)), Beside)
     || Folder <- Own,
        Escript <- [filename:dirname(filename:dirname(Folder))],
        filelib:is_regular(Escript),
        Beside <- ["priv", "../lib/dyno/priv"]
    ].

%% A link to the escript, as in a user's bin folder, has no library beside it.
linked(File) ->
    case file:read_link(File) of
        {ok, Target} -> linked(filename:absname(Target, filename:dirname(File)));
        {error, _} -> File
    end.

thread_nif() ->
    #{thread => undefined, cpu_ns => undefined, wait_ns => undefined}.

loaded_nif() ->
    erlang:nif_error(nif_not_loaded).
