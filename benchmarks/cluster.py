"""Compare one machine, a cluster, and a cluster that loses a worker: ``oriel bench cluster``.

``oriel run --once`` reads 1,000,000 records of 1,000 keys, one record per key and second, with
tumbling, hopping, sliding and session windows. It runs three times:

- with two cores on this machine.
- on a Spark cluster on loopback, with two workers of one core. Its Python has no ``oriel``.
- on this cluster, with a worker killed after the first batch and replaced by another one.

The benchmark fails if the tables of the three runs differ, digest by digest. With ``--objects``,
the data of the clusters is on an S3 server on loopback.

On one machine, the result shows the cost of a cluster, not the gain of more machines.
"""

import argparse
import json
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.ingest import write_log
from tests.object_store import ObjectStore, running_object_store
from tests.system.cluster.cluster_runs import FinishedRun, run_to_the_end
from tests.system.cluster.standalone_cluster import running_cluster

RECORDS = 1_000_000
QUICK_RECORDS = 100_000
KEYS = 1000
#: Large enough to run on executors. Even the short log has several batches.
BATCH_BYTES = 8 * 2**20
QUICK_BATCH_BYTES = 5 * 2**20

TOPOLOGY = """
from oriel import SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows, avg, count

SECOND = 1000
WINDOWS = {
    "tumbling": TimeWindows.of_size_with_no_grace(10 * SECOND),
    "hopping": TimeWindows.of_size_with_no_grace(10 * SECOND).advance_by(5 * SECOND),
    "sliding": SlidingWindows.of_time_difference_with_no_grace(2 * SECOND),
    "session": SessionWindows.of_inactivity_gap_with_no_grace(5 * SECOND),
}
builder = StreamsBuilder()
events = builder.stream("events", "v DOUBLE").group_by_key()
for kind, windows in WINDOWS.items():
    events.windowed_by(windows).aggregate(n=count(), mean=avg("v")).materialize(kind)
topology = builder.build()
"""


def measure(
    directory: Path, records: int, batch_bytes: int, store: ObjectStore | None
) -> dict[str, FinishedRun]:
    """Run the topology three times over one log. If ``store`` is given, the clusters write to it.

    Raises:
        AssertionError: The rows or counters of a cluster differ from those of one machine.
    """
    write_log(directory / "log" / "events", keys=KEYS, records=records, step_ms=1000)
    topology = directory / "topology.py"
    topology.write_text(TOPOLOGY)
    options = ["--event-log", str(directory / "log"), "--cores", "2"]
    options += ["--max-batch-bytes", str(batch_bytes)]
    found = {"one machine": run_to_the_end(topology, directory / "local", options)}
    with running_cluster(directory / "cluster") as cluster:
        data = store.data("undisturbed") if store else directory / "undisturbed"
        found["two workers"] = run_to_the_end(topology, data, options, cluster)

        def replace_a_worker() -> None:
            cluster.workers[0].kill()
            cluster.start_worker()

        data = store.data("killed") if store else directory / "killed"
        run = run_to_the_end(topology, data, options, cluster, replace_a_worker)
        assert cluster.workers[0].was_killed, "no worker was lost"
        found["a worker killed"] = run
    local = found["one machine"]
    for name, run in found.items():
        assert run.digests == local.digests, f"{name}: other rows than on one machine"
        assert run.counters == local.counters, f"{name}: other counters than on one machine"
    return found


def main() -> None:
    """Measure, print a small table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RECORDS:,} records only")
    parser.add_argument("--objects", action="store_true", help="put the clusters' data on S3")
    options = parser.parse_args()
    records, batch_bytes = RECORDS, BATCH_BYTES
    if options.quick:
        records, batch_bytes = QUICK_RECORDS, QUICK_BATCH_BYTES
    with tempfile.TemporaryDirectory(prefix="oriel-bench-") as name, ExitStack() as stack:
        directory, store = Path(name), None
        if options.objects:
            store = stack.enter_context(running_object_store(directory))
            os.environ.update(store.environment)
        found = measure(directory, records, batch_bytes, store)
    print(f"{'':20}{'whole run, s':>14}{'records/s':>12}")
    for name, run in found.items():
        print(f"{name:20}{run.seconds:14.1f}{records / run.seconds:12,.0f}")
    digests = found["one machine"].digests
    print("the same tables: " + ", ".join(f"{name} {digests[name][:12]}" for name in digests))
    seconds = {name: run.seconds for name, run in found.items()}
    print(json.dumps({"records": records, "seconds": seconds, "digests": dict(digests)}))


if __name__ == "__main__":
    main()
