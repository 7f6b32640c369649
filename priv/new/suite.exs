# A performance test. Run it, and open the report in a browser:
#
#     mix dyno.test @NAME@ -o @NAME@.html      in a project that has dyno as a dependency
#     dyno test @NAME@.exs -o @NAME@.html      anywhere
#
# As it stands it asks how OTP's logger, writing to a file, bears 1, 4 and 16 clients. Put your
# own system in its place, from top to bottom.
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
    patterns: ["logger", "logger_*"],
    # Where one does not hold the exit status is 1, for scripts and CI.
    thresholds: ["latency.p99 < 200 ms", "errors.rate == 0 %"]

  # Before each run: the system under test, in a node of its own, which needs no dyno.
  # Your application: :dyno_peer.start(%{name: "shop", applications: [:shop]}).
  # A node that runs already: {:ok, [:shop@db1], :shop@db1}.
  def init_run(_clients, _suite_state) do
    {:ok, node} = :dyno_peer.start(%{name: "@NAME@"})
    :ok = :erpc.call(node, :logger, :remove_handler, [:default])
    handler = %{config: %{file: log_file(node)}}
    :ok = :erpc.call(node, :logger, :add_handler, [:to_file, :logger_std_h, handler])
    # The nodes to look into, and what init_worker/2 and end_run/1 are given.
    {:ok, [node], node}
  end

  # Each client, in a process of its own: open its connection here. This one is a process in the
  # node that makes its calls. Clients are as many as the size; load/2 can say otherwise, also
  # how many operations a second.
  def init_worker(id, node) do
    {:ok, client} = :dyno_client.start(node)
    {:ok, {client, id}}
  end

  # One operation, timed: what a client does again and again.
  def operation({client, id} = state) do
    :ok = :dyno_client.call(client, :logger, :error, [~c"client ~b says hello", [id]])
    {:ok, state}
  end

  # After each run, also where something failed: :undefined where init_run/2 did.
  def end_run(:undefined), do: :ok

  def end_run(node) do
    :ok = :dyno_peer.stop(node)
    File.rm(log_file(node))
  end

  defp log_file(node) do
    Path.absname("#{node}.log") |> String.to_charlist()
  end
end
