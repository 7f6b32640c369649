%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_tail_calls).
-moduledoc false.
%% Inserts tail-calling functions into stacks. A function that ends in a call is on no stack
%% meanwhile: time in gen_tcp:send/2 would count for the caller of ranch_tcp:send/2. So the code of
%% a measured function tells what was between it and the frame above: the measured functions that it
%% may have called and that lead to the frame by tail calls only. A single candidate is inserted. If
%% there are several, or the first function itself calls what leads there, none is.
%%
%% If the called module is known at run time only, a measured function of that name is a candidate.
%%
%% The node is asked for its code, which is read here; the calling process keeps it.

-export([inserted/2]).
-export_type([what/0]).

-type code() :: #{module() => dyno_agent_code_calls:functions() | unknown}.

-type what() :: #{
    measured := fun((mfa()) -> boolean()),
    called := [mfa()],
    node := node()
}.

-type stack() :: {Group :: term(), [term()], Weight :: number()}.

%% Limits of functions reached by tail calls, of modules with one name's function, and of reading.
-define(MOST_FUNCTIONS, 200).
-define(MOST_NAMESAKES, 40).
-define(MOST_MODULES, 150).

-spec inserted([stack()], what()) -> [stack()].
inserted(Stacks, #{node := Node} = What) ->
    Code =
        case get({?MODULE, Node}) of
            undefined -> #{};
            Known -> Known
        end,
    {Inserted, Read} = inserted(Stacks, What, Code),
    _ = put({?MODULE, Node}, Read),
    Inserted.

-spec inserted([stack()], what(), code()) -> {[stack()], code()}.
inserted(Stacks, What, Code) ->
    {Inserted, {_, Read}} = lists:mapfoldl(
        fun({Group, Path, Weight}, Acc) ->
            {Whole, Next} = path(Path, What, Acc),
            {{Group, Whole, Weight}, Next}
        end,
        {#{}, Code},
        Stacks
    ),
    {Inserted, Read}.

path([{_, _, _} = Outer, {_, _, _} = Inner | Rest], #{measured := IsMeasured} = What, Acc) ->
    {Between, Next} =
        case IsMeasured(Outer) of
            true -> known_between(Outer, Inner, What, Acc);
            false -> {[], Acc}
        end,
    {Path, Last} = path([Inner | Rest], What, Next),
    {[Outer | Between ++ Path], Last};
path([Frame | Rest], What, Acc) ->
    {Path, Next} = path(Rest, What, Acc),
    {[Frame | Path], Next};
path([], _What, Acc) ->
    {[], Acc}.

known_between(Outer, Inner, What, {Known, Code}) ->
    case Known of
        #{{Outer, Inner} := Between} ->
            {Between, {Known, Code}};
        #{} ->
            {Between, Read} = between(Outer, Inner, What, Code),
            {Between, {Known#{{Outer, Inner} => Between}, Read}}
    end.

between(Outer, Inner, #{called := Called, measured := IsMeasured} = What, Before) ->
    {#{calls := Calls}, Code} = of_function(Outer, What, Before),
    Named = [MFA || {M, _, _} = MFA <- Calls, M =/= '_'],
    Guessed = [MFA || {'_', F, A} <- Calls, {_, Of, Arity} = MFA <- Called, Of =:= F, Arity =:= A],
    case lists:member(Inner, Named) of
        true ->
            {[], Code};
        false ->
            %% All that the candidates lead to among measured functions, then each one alone.
            {{There, _}, Read} = reach(Named ++ Guessed, fun(_) -> false end, What, Code),
            Candidates = [MFA || MFA <- There, lists:member(MFA, Called), MFA =/= Inner],
            Others = [MFA || MFA <- Named, not IsMeasured(MFA)],
            {Itself, Next} = leads(Others, Inner, What, Read),
            {Lead, Last} = lists:mapfoldl(
                fun(MFA, Acc) ->
                    {How, More} = leads([MFA], Inner, What, Acc),
                    {{How, MFA}, More}
                end,
                Next,
                Candidates
            ),
            case [Of || {How, _} = Of <- Lead, How =/= no] of
                [{yes, MFA}] when Itself =/= yes -> {[MFA], Last};
                _ -> {[], Last}
            end
    end.

%% Whether tail calls lead from functions to a frame, through unmeasured functions.
leads(From, Inner, #{measured := IsMeasured} = What, Code) ->
    Ends = fun(MFA) -> IsMeasured(MFA) andalso not lists:member(MFA, From) end,
    {{There, IsWhole}, Read} = reach(From, Ends, What, Code),
    {M, _, _} = Inner,
    Leads =
        case Read of
            %% A module that cannot be read may do anything.
            #{M := unknown} -> lists:keymember(M, 1, There);
            #{} -> lists:member(Inner, There)
        end,
    {lead(Leads, IsWhole), Read}.

lead(true, _IsWhole) -> yes;
lead(false, true) -> no;
lead(false, false) -> maybe_so.

%% The functions reached by tail calls, and whether they are all.
reach(From, Ends, What, Code) -> reach(From, Ends, What, #{}, true, Code).

reach([], _Ends, _What, There, IsWhole, Code) ->
    {{maps:keys(There), IsWhole}, Code};
reach(_From, _Ends, _What, There, _IsWhole, Code) when map_size(There) > ?MOST_FUNCTIONS ->
    {{maps:keys(There), false}, Code};
reach([MFA | Rest], Ends, What, There, IsWhole, Code) when is_map_key(MFA, There) ->
    reach(Rest, Ends, What, There, IsWhole, Code);
reach([MFA | Rest], Ends, What, There, IsWhole, Before) ->
    Next = There#{MFA => []},
    case Ends(MFA) of
        true ->
            reach(Rest, Ends, What, Next, IsWhole, Before);
        false ->
            {#{tail_calls := Tails}, Code} = of_function(MFA, What, Before),
            Targets = [targets(Tail, What) || Tail <- Tails],
            More = lists:append([Of || Of <- Targets, is_list(Of)]),
            Still = IsWhole andalso lists:all(fun is_list/1, Targets),
            reach(More ++ Rest, Ends, What, Next, Still, Code)
    end.

targets(unknown, _What) ->
    unknown;
targets({'_', F, A}, #{called := Called, measured := IsMeasured, node := Node}) ->
    Namesakes = dyno_agent_code_calls:exporting(Node, F, A),
    case [MFA || MFA <- Namesakes, not IsMeasured(MFA) orelse lists:member(MFA, Called)] of
        Few when length(Few) =< ?MOST_NAMESAKES -> Few;
        _ -> unknown
    end;
targets(MFA, _What) ->
    [MFA].

%% The functions of the module `erlang` are the runtime's.
of_function({erlang, _, _}, _What, Code) ->
    {#{calls => [], tail_calls => []}, Code};
of_function({M, _, _} = MFA, #{node := Node}, Before) ->
    Code =
        case Before of
            #{M := _} ->
                Before;
            #{} when map_size(Before) < ?MOST_MODULES ->
                Before#{M => dyno_agent_code_calls:read(Node, M)};
            #{} ->
                Before#{M => unknown}
        end,
    case Code of
        #{M := #{MFA := Function}} -> {Function, Code};
        #{M := unknown} -> {#{calls => [], tail_calls => [unknown]}, Code};
        #{} -> {#{calls => [], tail_calls => []}, Code}
    end.
