# A performance test of @APP@. Run it, and open the report in a browser:
#
#     mix dyno.test @NAME@ -o @NAME@.html
#
# It runs as it stands, but asks @APP@ for nothing yet: change operation/1.
defmodule @MODULE@ do
  use :dyno_suite,
    name: "@NAME@",
    # A run for each size. A size counts what you want to see grow: here, clients.
    sizes: [1, 4, 16],
    size_label: "clients",
    # Loaded but not measured, then measured.
    warmup_ms: 500,
    duration_ms: 3000,
    # The functions to measure: "Shop.Cart", "Shop.*", "Shop.Cart.add/2" or "app:shop".
    patterns: ["app:@APP@"],
    # Where one does not hold the exit status is 1, for scripts and CI.
    thresholds: ["latency.p99 < 200 ms", "errors.rate == 0 %"]

  # Before each run: @APP@ in a node of its own, which needs no dyno.
  # A node that runs already: {:ok, [:"@APP@@db1"], :"@APP@@db1"}.
  def init_run(_clients, _suite_state) do
    {:ok, node} = :dyno_peer.start(%{name: "@APP@", applications: [:@APP@]})
    # The nodes to look into, and what init_worker/2 and end_run/1 are given.
    {:ok, [node], node}
  end

  # Each client, in a process of its own: open its connection here. This one is a process in the
  # node that makes its calls. Clients are as many as the size; load/2 can say otherwise, also
  # how many operations a second.
  def init_worker(_id, node), do: :dyno_client.start(node)

  # One operation, timed: what a client does again and again. Put a call of your own in the
  # place of this one@SUCH_AS@.
  # To a server it is a request: GenServer.call({MyServer, node}, request).
  def operation(client) do
    _ = :dyno_client.call(client, :application, :get_all_env, [:@APP@])
    {:ok, client}
  end

  # After each run, also where something failed: :undefined where init_run/2 did.
  def end_run(:undefined), do: :ok
  def end_run(node), do: :dyno_peer.stop(node)
end
