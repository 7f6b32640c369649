%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_agent_call_samples).
-moduledoc false.
%% Stack samples by measured function: the innermost one has the sample as its own. Pure.

-export([sums/2]).
-export_type([sums/0]).

-doc "Samples: all, of unknown place, of each function alone and with callees; their `cpu_ns`.".
-type sums() :: #{
    cpu_ns := non_neg_integer(),
    all := number(),
    untold := number(),
    own := #{mfa() => number()},
    total := #{mfa() => number()},
    rows := #{{mfa(), dyno_agent_processes:group()} => number()}
}.

-spec sums(Stacks, IsMeasured) -> sums() when
    Stacks :: #{
        cpu_ns := non_neg_integer(),
        stacks := [{dyno_agent_processes:group(), [term()], number()}],
        other := number(),
        _ => _
    },
    IsMeasured :: fun((mfa()) -> boolean()).
sums(#{stacks := Stacks, cpu_ns := CpuNs, other := Other}, IsMeasured) ->
    None = #{cpu_ns => CpuNs, all => Other, untold => Other, own => #{}, total => #{}, rows => #{}},
    lists:foldl(fun(Of, Sums) -> add(Of, IsMeasured, Sums) end, None, Stacks).

add({Kind, Path, Weight}, IsMeasured, #{all := All, untold := Untold} = Sums) ->
    #{own := Own, total := Total, rows := Rows} = Sums,
    Inner = lists:reverse(Path),
    case [MFA || {_, _, _} = MFA <- Inner, IsMeasured(MFA)] of
        _ when hd(Inner) =:= burst; hd(Inner) =:= unseen ->
            Sums#{all := All + Weight, untold := Untold + Weight};
        [] ->
            Sums#{all := All + Weight};
        [MFA | _] = Measured ->
            More = fun(Key, Of) -> maps:update_with(Key, fun(W) -> W + Weight end, Weight, Of) end,
            Sums#{
                all := All + Weight,
                own := More(MFA, Own),
                rows := More({MFA, Kind}, Rows),
                total := lists:foldl(More, Total, lists:usort(Measured))
            }
    end.
