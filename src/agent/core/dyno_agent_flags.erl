%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_flags).
-moduledoc false.
%% Trace flags of all processes, without stopping the node. `trace:process/4` stops all schedulers
%% for as long as it takes to flag `all` or `existing`: 0.3 us a process, so 0.3 s with 1,000,000.
%% Flagged one by one they cost 0.2 us (OTP 29) to 0.6 us (OTP 27) each, and nobody waits.

-export([all/3, existing/3]).

%% With fewer the schedulers stop for 3 ms at most, and all processes begin at the same instant.
-define(MANY, 10_000).

-doc "As `trace:process(Session, all, How, Flags)`, which it calls on a node of few processes.".
-spec all(trace:session(), boolean(), [trace:trace_flag()]) -> non_neg_integer().
all(Session, How, Flags) ->
    case is_large() of
        true -> trace:process(Session, new, How, Flags) + one_by_one(Session, How, Flags);
        false -> trace:process(Session, all, How, Flags)
    end.

-doc "As `trace:process(Session, existing, How, Flags)`.".
-spec existing(trace:session(), boolean(), [trace:trace_flag()]) -> non_neg_integer().
existing(Session, How, Flags) ->
    case is_large() of
        true -> one_by_one(Session, How, Flags);
        false -> trace:process(Session, existing, How, Flags)
    end.

is_large() -> erlang:system_info(process_count) > ?MANY.

one_by_one(Session, How, Flags) ->
    dyno_agent_process:count(fun(Pid) ->
        try
            trace:process(Session, Pid, How, Flags) =:= 1
        catch
            %% It has ended, is the tracer, or the session is gone.
            error:badarg -> false
        end
    end).
