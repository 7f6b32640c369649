%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_stats_verdict).
-moduledoc """
Judges a difference: lower, higher, the same, or undecided.

"Not significantly different" is not "the same": too few measurements have the same result. So the
interval of the difference is compared with a practical threshold, the least difference that
matters. An interval wholly within the threshold is `same` (Schuirmann's two one-sided tests, 1987);
one that reaches over it is `undecided`.

## Examples

```erlang
1> dyno_stats_verdict:verdict({-0.01, 0.02}, 0.03).
same
2> dyno_stats_verdict:ratio({1.04, 1.09}, 0.03).
higher
```
""".

-export([threshold/0, exact/0, verdict/2, ratio/2]).

-doc """
* `lower`, `higher`: differs by more than the threshold.
* `same`: differs by no more than the threshold.
* `undecided`: the interval allows both; measure more, or raise the threshold.
""".
-type verdict() :: lower | higher | same | undecided.

-export_type([verdict/0]).

-doc "The least share that matters by default: VMs that run the same code differ by as much.".
-spec threshold() -> float().
threshold() -> 0.03.

-doc "The same for counts of work, such as reductions, which do not depend on the machine.".
-spec exact() -> float().
exact() -> 0.001.

-doc "The verdict on a difference; `Threshold` is in the difference's unit, 0 or more.".
-spec verdict({Low :: number(), High :: number()}, Threshold :: number()) -> verdict().
verdict({Low, High}, Threshold) when Low =< High, Threshold >= 0 ->
    if
        High < -Threshold -> lower;
        Low > Threshold -> higher;
        Low >= -Threshold, High =< Threshold -> same;
        true -> undecided
    end.

-doc """
The verdict on a ratio, by its logarithm: with the threshold 0.03 a ratio above 1.03 is higher, one
below 1/1.03 is lower, so that swapping the sides swaps the verdict.
""".
-spec ratio({Low :: number(), High :: number()}, Threshold :: number()) -> verdict().
ratio({Low, High}, Threshold) when Low > 0, Threshold >= 0 ->
    verdict({math:log(Low), math:log(High)}, math:log(1 + Threshold)).
