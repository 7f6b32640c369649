%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_flags).
-moduledoc false.
%% Sets trace flags of all processes without stopping the node. `trace:process/4` with `all` or
%% `existing` stops all schedulers for 0.3 us a process. One by one, flags cost 0.2 us (OTP 29) to
%% 0.6 us (OTP 27) a process, and stop nothing.

-export([all/3, existing/3, audible/2]).

%% With fewer processes the schedulers stop for at most 3 ms, and all flags start at once.
-define(MANY, 10_000).

-doc "Like `trace:process(Session, all, How, Flags)`, which it calls on a small node.".
-spec all(trace:session(), boolean(), [atom()]) -> non_neg_integer().
all(Session, How, Flags) ->
    case is_large() of
        true -> trace:process(Session, new, How, Flags) + one_by_one(Session, How, Flags);
        false -> trace:process(Session, all, How, Flags)
    end.

-doc "Like `trace:process(Session, existing, How, Flags)`.".
-spec existing(trace:session(), boolean(), [atom()]) -> non_neg_integer().
existing(Session, How, Flags) ->
    case is_large() of
        true -> one_by_one(Session, How, Flags);
        false -> trace:process(Session, existing, How, Flags)
    end.

-doc "Ends `silent` of all processes; sets `New` flags again, whose tracer the runtime forgets.".
-spec audible(trace:session(), New :: [atom()]) -> ok.
audible(Session, New) ->
    _ = all(Session, false, [silent]),
    _ = [trace:process(Session, new, true, New) || New =/= []],
    ok.

is_large() -> erlang:system_info(process_count) > ?MANY.

one_by_one(Session, How, Flags) ->
    dyno_agent_process:count(fun(Pid) ->
        try
            trace:process(Session, Pid, How, Flags) =:= 1
        catch
            %% The process has ended, is the tracer, or the session is gone.
            error:badarg -> false
        end
    end).
