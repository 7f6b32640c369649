%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_verify_text).
-moduledoc false.
%% Verdicts in words. Pure.

-export([report/1, process/1, step/1, bindings/1, events/1, crash/1, property/1]).

-define(DEPTH, 20).

-doc """
A verdict as shown during monitoring.

```
answers each request once: broken by <0.123.0>, worker_3 (label {job,7}), which runs worker:init/1
  step      never receive stop then send _
  bindings  M = hello
  events    -1.204 ms  receive stop
             0.000 ms  send hello to <0.91.0>
  trace     complete
```
""".
-spec report(dyno_agent_monitor:report()) -> unicode:chardata().
report(#{process := Process, node := Node, verdict := Verdict, trace := Trace} = Report) ->
    [
        property(Report),
        ": ",
        verdict(Verdict),
        " by ",
        process(Process),
        ", in ",
        atom_to_binary(Node),
        "\n",
        line("step", step(Report)),
        line("bindings", bindings(Report)),
        line("key", key(Report)),
        line("events", lists:join(["\n            "], events(Report))),
        line("trace", trace(Trace))
    ].

line(_Name, []) -> [];
line(_Name, ~"") -> [];
line(Name, Text) -> ["  ", string:pad(Name, 10), Text, "\n"].

verdict(no) -> "broken";
verdict(yes) -> "met";
verdict(inconclusive) -> "undecided".

trace(complete) -> "complete: from the start of the process on";
trace(partial) -> "partial: the process ran before its trace began";
trace(gap) -> "with a gap".

%% `all`: a property across all processes, which has no keys.
key(#{key := Key}) when Key =/= all -> term(Key);
key(_Report) -> [].

-spec property(dyno_agent_monitor:report()) -> binary().
property(#{property := Property}) -> text(Property).

-spec process(dyno_agent_event:process()) -> binary().
process(#{pid := Pid, initial_call := {M, F, A}} = Process) ->
    text([
        term(Pid),
        [[", ", dyno_agent_name:module(Name)] || #{name := Name} <- [Process]],
        [[" (label ", term(Label), ")"] || #{label := Label} <- [Process]],
        [", which runs ", dyno_agent_name:mfa({M, F, A})]
    ]).

-spec step(dyno_agent_monitor:report()) -> binary().
step(#{explanation := Explanation}) -> text(maps:get(step, Explanation, "")).

-spec bindings(dyno_agent_monitor:report()) -> binary().
bindings(#{explanation := #{bindings := Bindings}}) ->
    text(
        lists:join(", ", [
            [atom_to_binary(Name), " = ", term(Value)]
         || {Name, Value} <- lists:sort(maps:to_list(Bindings))
        ])
    );
bindings(_Report) ->
    ~"".

-spec events(dyno_agent_monitor:report()) -> [binary()].
events(#{events := Events, time_ns := TimeNs}) ->
    [
        case One of
            {At, Event} -> text([ago(At, TimeNs), event(Event)]);
            {At, Pid, Event} -> text([ago(At, TimeNs), term(Pid), " ", event(Event)])
        end
     || One <- Events
    ].

ago(At, TimeNs) -> io_lib:format("~9.3f ms  ", [(At - TimeNs) / 1.0e6]).

event({spawned, Parent, MFArgs}) ->
    ["started by ", term(Parent), ": ", mfargs(MFArgs)];
event({spawn, Child, MFArgs}) ->
    ["starts ", term(Child), ": ", mfargs(MFArgs)];
event({exit, Reason}) ->
    ["exits: ", term(Reason)];
event({send, Message, To}) ->
    ["sends ", message(Message), " to ", term(To)];
event({'receive', Message}) ->
    ["receives ", message(Message)];
event({call, MFArgs}) ->
    ["calls ", mfargs(MFArgs)];
event({return, MFA, Value}) ->
    [dyno_agent_name:mfa(MFA), " returns ", term(Value)];
event({exception, MFA, {Class, Reason}}) ->
    io_lib:format("~ts fails: ~ts ~ts", [dyno_agent_name:mfa(MFA), Class, term(Reason)]);
event({register, Name}) ->
    ["registers as ", term(Name)].

message(Message) ->
    case dyno_agent_event:traffic(Message) of
        {call, Request, From} -> ["call ", term(Request), caller(From)];
        {cast, Request} -> ["cast ", term(Request)];
        {reply, _Tag, Reply} -> ["reply ", term(Reply)];
        {info, Info} -> term(Info);
        timeout -> "timeout"
    end.

caller({Pid, _Tag}) when is_pid(Pid) -> [" from ", term(Pid)];
caller(_Other) -> [].

mfargs({M, F, Args}) when is_list(Args) ->
    [dyno_agent_name:call(M, F), $(, lists:join(", ", [term(Arg) || Arg <- Args]), $)];
mfargs(MFA) ->
    dyno_agent_name:mfa(MFA).

-spec crash({module(), dyno_agent_event:process(), {atom(), term(), list()}}) -> binary().
crash({Module, Process, {Class, Reason, Stack}}) ->
    Where =
        case Stack of
            [{M, F, A, _} | _] -> [" in ", dyno_agent_name:mfa({M, F, A})];
            [] -> ""
        end,
    text([
        "the monitor ",
        atom_to_binary(Module),
        " crashed, for ",
        process(Process),
        ": ",
        atom_to_binary(Class),
        " ",
        term(Reason),
        Where
    ]).

%% Processes in their own node's notation; texts among the terms unchanged.
term(Term) ->
    Text = io_lib:format("~0tP", [Term, ?DEPTH]),
    lists:foldl(
        fun({Part, Shown}, Of) ->
            re:replace(Of, Part, Shown, [global, unicode, {return, list}])
        end,
        Text,
        [
            {"<[0-9]+(\\.[0-9]+\\.[0-9]+>)", "<0\\1"},
            {"{'\\$dyno',<<\"((?:[^\"\\\\]|\\\\.)*)\"(?:/utf8)?>>}", "\\1"}
        ]
    ).

text(Chars) ->
    case unicode:characters_to_binary(Chars) of
        <<Text/binary>> -> Text;
        _ -> iolist_to_binary(io_lib:format("~0tP", [Chars, ?DEPTH]))
    end.
