%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_hearing).
-moduledoc false.
%% Which first calls of processes are told of as they happen, and which are quiet: for those the
%% counters are asked (dyno_agent_revealed decides). The calling process gets what
%% dyno_agent_first_calls sends, and `listen` and `quiet` when it is time for `listen/1` and
%% `quiet/1`.
%%
%% While the counters set figures to zero no call is quiet: whose calls fall just between two
%% figures would be missing.

-export([open/1, counters/3, loaded/2, close/1]).
-export([kind/2, learn/4, too_late/3, heard/3]).
-export([births/1, found/2, listen/1, listened/2, is_due/1, quiet/1]).
-export([zeroing/2, zeroed/2, quiet_calls/1]).
-export_type([t/0]).

-opaque t() :: #{
    calls := dyno_agent_first_calls:t() | closed,
    revealed := dyno_agent_revealed:t(),
    %% Who can be asked who has made a call.
    counters := pid() | none,
    %% For what figures are being set to zero.
    zeroing := [harvest | restart],
    %% When the counters were last asked (milliseconds), and of how many processes they knew.
    asked := {integer(), non_neg_integer()}
}.

%% For how long quiet calls are quiet, on average, and for how long they are heard then.
-define(QUIET_MS, 230).
-define(HEARD_MS, 20).
%% Each answer has all processes since the last zero in it. So many are asked for every time.
-define(FEW, 2000).
-define(MANY_EVERY_MS, 1000).

-doc "Every process's first matching call is heard.".
-spec open([dyno_agent_patterns:pattern()]) -> t().
open(Patterns) ->
    #{
        calls => dyno_agent_first_calls:open(Patterns),
        revealed => dyno_agent_revealed:new(),
        counters => none,
        zeroing => [],
        asked => {erlang:monotonic_time(millisecond), 0}
    }.

-doc "If these `dyno_agent_calls` know who has made which calls, calls can become quiet.".
-spec counters(pid(), KnowCallers :: boolean(), t()) -> t().
counters(Pid, true, Hearing) -> Hearing#{counters := Pid};
counters(_Pid, false, Hearing) -> Hearing.

-doc "A module has come, or come again: all its calls are heard.".
-spec loaded(module(), t()) -> t().
loaded(_Module, #{calls := closed} = Hearing) ->
    Hearing;
loaded(Module, #{calls := Calls, revealed := Revealed} = Hearing) ->
    ok = dyno_agent_first_calls:watch(Module, Calls),
    tell(Hearing#{revealed := dyno_agent_revealed:forget(Module, Revealed)}).

-doc "Nothing is heard any more, and nobody asked.".
-spec close(t()) -> t().
close(#{calls := closed} = Hearing) ->
    Hearing;
close(#{calls := Calls} = Hearing) ->
    ok = dyno_agent_first_calls:close(Calls),
    tell(Hearing#{calls := closed, revealed := dyno_agent_revealed:new()}).

-doc "As `dyno_agent_revealed:kind/2`.".
-spec kind(mfa(), t()) -> {sure | seen, dyno_agent_processes:id()} | unknown.
kind(MFA, #{revealed := Revealed}) ->
    dyno_agent_revealed:kind(MFA, Revealed).

-doc "As `dyno_agent_revealed:learn/4`.".
-spec learn(mfa(), dyno_agent_processes:group(), dyno_agent_processes:id(), t()) -> t().
learn(MFA, Group, Id, #{revealed := Revealed} = Hearing) ->
    Hearing#{revealed := dyno_agent_revealed:learn(MFA, Group, Id, Revealed)}.

-doc "As `dyno_agent_revealed:too_late/3`.".
-spec too_late(mfa(), dyno_agent_processes:id(), t()) -> t().
too_late(MFA, Id, #{revealed := Revealed} = Hearing) ->
    Hearing#{revealed := dyno_agent_revealed:too_late(MFA, Id, Revealed)}.

-doc "A call whose processes' kind is sure was heard, at a time (native): it may become quiet.".
-spec heard(mfa(), integer(), t()) -> t().
heard(MFA, Time, #{revealed := Revealed, counters := Counters} = Hearing) ->
    case dyno_agent_revealed:often(MFA, Time, Revealed) of
        {true, Counted} when Counters =/= none ->
            Next = tell(Hearing#{revealed := dyno_agent_revealed:quieten(MFA, Counted)}),
            case quiet_calls(Hearing) of
                [] -> quiet(Next);
                _ -> be_quiet(Next)
            end;
        {_, Counted} ->
            Hearing#{revealed := Counted}
    end.

-doc "The processes that have made quiet calls since the counters' figures were set to zero.".
-spec births(t()) -> {[{pid(), dyno_agent_processes:id()}], t()}.
births(#{revealed := Revealed, counters := Counters} = Hearing) ->
    Rows = [
        {Pid, Id}
     || MFA := Id <- dyno_agent_revealed:quiet(Revealed),
        Pid <- dyno_agent_calls:callers(Counters, MFA)
    ],
    {Rows, Hearing#{asked := {erlang:monotonic_time(millisecond), length(Rows)}}}.

-doc "Those of them that were not known.".
-spec found([{pid(), dyno_agent_processes:id()}], t()) -> t().
found(Rows, #{revealed := Revealed} = Hearing) ->
    Hearing#{revealed := dyno_agent_revealed:found(Rows, Revealed)}.

-doc """
All calls are heard. After that, and not before, `births/1` is to be asked where that `is_due/1`, so
that none is missed of a call that stays so, and `listened/2` be called.
""".
-spec listen(t()) -> t().
listen(#{calls := closed} = Hearing) ->
    Hearing;
listen(#{calls := Calls} = Hearing) ->
    ok = dyno_agent_first_calls:set(heard, quiet_calls(Hearing), Calls),
    Hearing.

-doc "Whether the counters are to be asked again: the more they know, the less often.".
-spec is_due(t()) -> boolean().
is_due(#{asked := {LastMs, Known}, revealed := Revealed}) ->
    Known < ?FEW orelse dyno_agent_revealed:is_doubted(Revealed) orelse
        erlang:monotonic_time(millisecond) - LastMs >= ?MANY_EVERY_MS.

-doc """
Those that are heard stay quiet for the rest of the time; but where the counters were asked, what has
become rare or was found to be of several kinds is not quiet again.
""".
-spec listened(Asked :: boolean(), t()) -> t().
listened(false, #{revealed := Revealed} = Hearing) ->
    _ = erlang:send_after(?HEARD_MS, self(), quiet),
    Hearing#{revealed := dyno_agent_revealed:ask_again(Revealed)};
listened(true, #{revealed := Revealed} = Hearing) ->
    {Loud, Next} = dyno_agent_revealed:listen(Revealed),
    _ = [erlang:send_after(?HEARD_MS, self(), quiet) || dyno_agent_revealed:quiet(Next) =/= #{}],
    case Loud of
        [] -> Hearing#{revealed := Next};
        _ -> tell(Hearing#{revealed := Next})
    end.

-doc "Quiet for a while.".
-spec quiet(t()) -> t().
quiet(Hearing) ->
    %% By chance, so that what is done regularly is neither always heard nor never.
    QuietMs = ?QUIET_MS div 2 + rand:uniform(?QUIET_MS),
    _ = [erlang:send_after(QuietMs, self(), listen) || quiet_calls(Hearing) =/= []],
    be_quiet(Hearing).

-doc "The counters are going to set figures to zero: all calls are heard until then.".
-spec zeroing(harvest | restart, t()) -> t().
zeroing(What, #{zeroing := Before} = Hearing) ->
    case quiet_calls(Hearing) of
        [] when What =:= restart -> Hearing;
        _ -> listen(Hearing#{zeroing := lists:usort([What | Before])})
    end.

-doc "They have done so.".
-spec zeroed(harvest | restart, t()) -> t().
zeroed(What, #{zeroing := Before} = Hearing) ->
    be_quiet(Hearing#{zeroing := lists:delete(What, Before)}).

be_quiet(#{calls := Calls, zeroing := []} = Hearing) when Calls =/= closed ->
    ok = dyno_agent_first_calls:set(quiet, quiet_calls(Hearing), Calls),
    Hearing;
be_quiet(Hearing) ->
    Hearing.

-doc "The calls that are not told of now, but for moments.".
-spec quiet_calls(t()) -> [mfa()].
quiet_calls(#{revealed := Revealed}) ->
    maps:keys(dyno_agent_revealed:quiet(Revealed)).

tell(#{counters := none} = Hearing) ->
    Hearing;
tell(#{counters := Counters, revealed := Revealed} = Hearing) ->
    ok = dyno_agent_calls:quiet(Counters, dyno_agent_revealed:quiet(Revealed)),
    Hearing.
