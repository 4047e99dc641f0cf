"""End to end: a cluster, of which a worker is killed, leaves what a run on one machine leaves."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from tests.e2e.cluster_runs import FinishedRun, run_here, run_to_the_end
from tests.e2e.event_logs import random_logs
from tests.e2e.kinds_topology import TOPIC
from tests.e2e.runs_in_one_process import Runs
from tests.e2e.standalone_cluster import running_cluster
from tests.object_store import ObjectStore
from tests.pipeline.run.inputs_topology import random_topics
from tests.pipeline.run.topic_logs import line

pytestmark = pytest.mark.e2e

TOPOLOGY = Path(__file__).with_name("cluster_topology.py")
SEED = 36
_BATCH_BYTES = 2 * 2**20
#: Bytes of each topic. Together a full batch is too large for the driver alone, so that executors
#: compute it; the rest at the end is small, and the driver goes on from their state.
_TOPIC_BYTES = {TOPIC: 4 * 2**20, "orders": 4 * 2**20, "paid": 4 * 2**20}
_OTHER_TOPIC_BYTES = 2**20


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write random topics, with blanks behind each line, as a batch is cut by bytes."""
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
    """Give the options of all runs."""
    return ["--event-log", str(log), "--cores", "2", "--max-batch-bytes", str(_BATCH_BYTES)]


@pytest.fixture(scope="module")
def local(options: list[str], tmp_path_factory: pytest.TempPathFactory, runs: Runs) -> FinishedRun:
    """Run on one machine."""
    return run_here(TOPOLOGY, tmp_path_factory.mktemp("local") / "data", options, runs)


def test_a_cluster_that_loses_a_worker_leaves_the_tables_of_one_machine(
    local: FinishedRun, options: list[str], tmp_path: Path
) -> None:
    """Every row of every table, revisions and dead letters included, and every counter.

    The workers' Python has no ``oriel``: it and the module beside the topology come from the
    driver. One worker is killed, with its state of the shuffles, after the first batch.
    """
    with running_cluster(tmp_path / "cluster") as cluster:
        for worker in cluster.workers:
            imports = [str(worker.python), "-c", "import pyarrow; import oriel"]
            found = subprocess.run(imports, cwd=tmp_path, env={}, capture_output=True, check=False)
            assert b"No module named 'oriel'" in found.stderr
        kill = cluster.workers[0].kill
        survived = run_to_the_end(TOPOLOGY, tmp_path / "shared", options, cluster, kill)
        for worker in cluster.workers:
            (executor,) = (worker.folder / "work").glob("app-*/*")
            assert list(executor.glob("oriel-*.zip")), "the worker computed nothing"
        assert cluster.workers[0].was_killed
    assert survived.batches == local.batches > 2
    assert survived.digests == local.digests
    assert survived.counters == local.counters


def test_a_cluster_over_objects_leaves_the_tables_of_one_machine(
    local: FinishedRun, options: list[str], object_store: ObjectStore, tmp_path: Path
) -> None:
    """The workers know the object store from the driver; one is killed after the first batch.

    Each keeps copies of the segments that its tasks wrote or read.
    """
    with running_cluster(tmp_path / "cluster") as cluster:
        kill = cluster.workers[0].kill
        data = object_store.data("cluster")
        survived = run_to_the_end(TOPOLOGY, data, options, cluster, kill)
        assert cluster.workers[0].was_killed
        for worker in cluster.workers:
            assert any((worker.folder / "tmp").glob("oriel-cache-*/*")), "no copy of a segment"
    assert survived.digests == local.digests
    assert survived.counters == local.counters
