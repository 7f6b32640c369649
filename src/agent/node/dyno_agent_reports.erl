%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_reports).
-moduledoc """
The runtime's reports of long schedules and collections, in a trace session of their own.

If a session with system events goes with its last holder, instead of being destroyed, and a report
comes just then, the emulator crashes (OTP 29.1.1). Any process may be killed, so another one holds
the session, too, and destroys it after its owner. It runs no code of dyno, which could be purged.
""".

-export([open/1]).

%% Called as a process of dyno's, which views of processes leave out.
-define(DESTROY, """
proc_lib:set_label(Label),
put('$initial_call', {Label, open, 1}),
Ref = monitor(process, Owner),
receive {'DOWN', Ref, process, Owner, _} -> trace:session_destroy(Session) end.
""").

-doc "The caller gets the reports until it ends; `false` before OTP 28: a node has one receiver.".
-spec open(LongMs :: pos_integer()) -> boolean().
open(LongMs) ->
    {module, trace} = code:ensure_loaded(trace),
    case erlang:function_exported(trace, system, 3) of
        true ->
            Session = trace:session_create(?MODULE, self(), []),
            ok = destroyed_after(self(), Session),
            _ = [
                apply(trace, system, [Session, Event, LongMs])
             || Event <- [long_schedule, long_gc]
            ],
            true;
        false ->
            false
    end.

destroyed_after(Owner, Session) ->
    {ok, Tokens, _} = erl_scan:string(?DESTROY),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    Bindings = #{'Owner' => Owner, 'Session' => Session, 'Label' => ?MODULE},
    _ = spawn_opt(erl_eval, exprs, [Expressions, Bindings], [{priority, high}]),
    ok.
