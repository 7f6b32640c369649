%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_parallel).
-moduledoc "For cases that do many things which mostly wait, and do not disturb one another.".

-export([each/3]).

-doc "Does something to each element, a few at a time. What one of them raises, the caller raises.".
-spec each(fun((Element) -> term()), [Element], AtOnce :: pos_integer()) -> ok.
each(Fun, Elements, AtOnce) ->
    {Now, Later} = lists:split(min(AtOnce, length(Elements)), Elements),
    rest(Fun, [start(Fun, Element) || Element <- Now], Later).

start(Fun, Element) ->
    {_, Monitor} = spawn_monitor(fun() ->
        exit(
            try Fun(Element) of
                _ -> done
            catch
                Class:Reason:Stack -> {raised, Class, Reason, Stack}
            end
        )
    end),
    Monitor.

rest(_Fun, [], []) ->
    ok;
rest(Fun, [First | Others], Later) ->
    receive
        {'DOWN', First, process, _, done} ->
            rest(Fun, Others ++ next(Fun, Later), tail(Later));
        {'DOWN', First, process, _, {raised, Class, Reason, Stack}} ->
            erlang:raise(Class, Reason, Stack);
        {'DOWN', First, process, _, Reason} ->
            exit(Reason)
    end.

next(_Fun, []) -> [];
next(Fun, [Element | _]) -> [start(Fun, Element)].

tail([]) -> [];
tail([_ | Later]) -> Later.
