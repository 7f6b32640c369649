# Comparisons that are kept. Run them:
#
#     mix dyno.bench @NAME@      in a project that has dyno as a dependency
#     dyno bench @NAME@.exs      anywhere
#
# As it stands it asks which way to find a number in a collection is faster, and how each way
# grows with the collection.
defmodule @MODULE@ do
  @behaviour :dyno_bench_file

  def benchmarks do
    [
      %{
        name: "find",
        # Each code is measured with each of these.
        inputs: [10, 100, 1000],
        # What the codes take, made once for each input; not measured.
        setup: fn n -> {n, Enum.to_list(1..n), MapSet.new(1..n)} end,
        # What is compared. Put your own functions here: &Shop.price/1.
        codes: [
          {"list", fn {n, list, _} -> n in list end},
          {"set", fn {n, _, set} -> n in set end}
        ],
        # Nothing is measured where they do not return the same.
        check: :same
      }
    ]
  end
end
