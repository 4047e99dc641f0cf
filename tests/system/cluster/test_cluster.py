"""End to end: a cluster that loses a worker writes the same tables as one machine."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from tests.e2e.event_logs import random_logs
from tests.e2e.runs_in_one_process import ROOT, Runs
from tests.object_store import ObjectStore
from tests.pipeline.run.inputs_topology import random_topics
from tests.pipeline.run.topic_logs import line
from tests.system.cluster.cluster_runs import run_here, run_to_the_end
from tests.system.cluster.standalone_cluster import StandaloneCluster, running_cluster
from tests.system.kills.kinds_topology import TOPIC

pytestmark = pytest.mark.e2e

#: Next to ``kinds_topology``, which it imports as a user's module.
TOPOLOGY = ROOT / "tests" / "system" / "kills" / "cluster_topology.py"
#: Few stores are enough, because over objects every kind of store works in the same way.
SMALL_TOPOLOGY = """
from oriel import StreamsBuilder, TimeWindows, collect_list, count

builder = StreamsBuilder()
events = builder.stream("events", "v DOUBLE, word STRING").group_by_key()
windows = TimeWindows.of_size_and_grace(20, 30)
events.windowed_by(windows).aggregate(all=collect_list("v")).materialize("windowed")
orders = builder.stream("orders", "id STRING, city STRING, amount BIGINT")
users = builder.table("users", "name STRING")
named = orders.left_join(users).group_by("coalesce(name, '?')")
named.aggregate(n=count(), ids=collect_list("id")).materialize("named")
builder.stream("paid", "pid STRING, paid BIGINT").group_by_key().count().materialize("paid")
users.outer_join(builder.table("accounts", "balance STRING")).materialize("both_tables")
topology = builder.build()
"""
SEED = 36
_BATCH_BYTES = 2 * 2**20
#: Bytes of each topic. A full batch needs the executors, because it exceeds the limit of the
#: driver. The last batch is small, and the driver continues from the executors' state.
_TOPIC_BYTES = {TOPIC: 4 * 2**20, "orders": 4 * 2**20, "paid": 4 * 2**20}
_OTHER_TOPIC_BYTES = 2**20


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write random topics, with blanks after each record, because batches are limited by bytes."""
    root = tmp_path_factory.mktemp("cluster") / "log"
    events = random_logs(Random(SEED))
    _write(root, TOPIC, {p: [line.raw for line in lines] for p, lines in events.items()})
    for topic, partitions in random_topics(SEED).items():
        lines_of = {p: [line(record) for record in records] for p, records in partitions.items()}
        _write(root, topic, lines_of)
    return root


def _write(root: Path, topic: str, lines_of: Mapping[int, Sequence[bytes]]) -> None:
    (root / topic).mkdir(parents=True)
    size = _TOPIC_BYTES.get(topic, _OTHER_TOPIC_BYTES)
    blanks = b" " * (size // sum(map(len, lines_of.values())))
    for partition, lines in lines_of.items():
        content = b"".join(line + blanks + b"\n" for line in lines)
        (root / topic / f"{partition}.jsonl").write_bytes(content)


@pytest.fixture(scope="module")
def options(log: Path) -> list[str]:
    """Return the options of all runs."""
    return ["--event-log", str(log), "--cores", "2", "--max-batch-bytes", str(_BATCH_BYTES)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """Yield one master for all tests. Each test has two workers, and kills one."""
    with running_cluster(tmp_path_factory.mktemp("cluster") / "cluster", workers=0) as made:
        yield made


def test_a_cluster_that_loses_a_worker_leaves_the_tables_of_one_machine(
    cluster: StandaloneCluster, options: list[str], tmp_path: Path, runs: Runs
) -> None:
    """All rows of all tables and all counters are equal, including revisions and dead letters.

    The workers' Python does not have ``oriel``. The driver sends the package and the module next to
    the topology. One worker is killed after the first batch, with its shuffle data.
    """
    local = run_here(TOPOLOGY, tmp_path / "local", options, runs)
    workers = cluster.two_workers()
    for worker in workers:
        imports = [str(worker.python), "-c", "import pyarrow; import oriel"]
        found = subprocess.run(imports, cwd=tmp_path, env={}, capture_output=True, check=False)
        assert b"No module named 'oriel'" in found.stderr
    shared = tmp_path / "shared"
    survived = run_to_the_end(TOPOLOGY, shared, options, cluster, workers[0].kill)
    for worker in workers:
        executors = (worker.directory / "work").glob("app-*/*")
        newest = max(executors, key=lambda executor: executor.parent.name)
        assert list(newest.glob("oriel-*.zip")), "the worker computed nothing"
    assert workers[0].was_killed
    assert survived.batches == local.batches > 2
    assert survived.digests == local.digests
    assert survived.counters == local.counters


def test_a_cluster_over_objects_leaves_the_tables_of_one_machine(
    cluster: StandaloneCluster, options: list[str], object_store: ObjectStore, tmp_path: Path,
    runs: Runs,
) -> None:  # fmt: skip
    """The driver sends the object store's settings to the workers. One worker is killed.

    Each worker keeps copies of the segments that its tasks wrote or read.
    """
    topology = tmp_path / "topology.py"
    topology.write_text(SMALL_TOPOLOGY)
    local = run_here(topology, tmp_path / "local", options, runs)
    workers = cluster.two_workers()
    data = object_store.data("cluster")
    survived = run_to_the_end(topology, data, options, cluster, workers[0].kill)
    assert workers[0].was_killed
    for worker in workers:
        copies = [*(worker.directory / "tmp").glob("oriel-cache-*/*")]
        assert copies, f"{worker.directory} has no copy of a segment"
    assert survived.batches == local.batches > 2
    assert survived.digests == local.digests
    assert survived.counters == local.counters
