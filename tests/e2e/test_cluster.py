"""End to end: a cluster, of which a worker is killed, leaves what a run on one machine leaves."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import orjson
import pytest
from deltalake import DeltaTable

from tests.e2e.event_logs import random_logs
from tests.e2e.kinds_topology import TOPIC
from tests.e2e.standalone_cluster import StandaloneCluster, running_cluster
from tests.pipeline.run.inputs_topology import random_topics
from tests.pipeline.run.topic_logs import line

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
SEED = 36
_BATCH_BYTES = 2 * 2**20
#: Bytes of each topic. Together a full batch is too large for the driver alone, so that executors
#: compute it; the rest at the end is small, and the driver goes on from their state.
_TOPIC_BYTES = {TOPIC: 4 * 2**20, "orders": 4 * 2**20, "paid": 4 * 2**20}
_OTHER_TOPIC_BYTES = 2**20


@dataclass(frozen=True)
class Finished:
    """A run to the end of the log: its summary, its tables, and what it told on the way."""

    counters: Mapping[str, Mapping[str, int]]
    digests: Mapping[str, str]
    told: str


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


def test_a_cluster_that_loses_a_worker_leaves_the_tables_of_one_machine(
    log: Path, tmp_path: Path
) -> None:
    """Every row of every table, revisions and dead letters included, and every counter.

    The workers' Python has no ``oriel``: it and the module beside the topology come from the
    driver. One worker is killed, with its state of the shuffles, after the first batch.
    """
    local = _run(log, tmp_path / "local")
    with running_cluster(tmp_path / "cluster") as cluster:
        for worker in cluster.workers:
            imports = [str(worker.python), "-c", "import pyarrow; import oriel"]
            found = subprocess.run(imports, cwd=tmp_path, env={}, capture_output=True, check=False)
            assert b"No module named 'oriel'" in found.stderr
        survived = _run(log, tmp_path / "shared", cluster)
        for worker in cluster.workers:
            (executor,) = (worker.folder / "work").glob("app-*/*")
            assert list(executor.glob("oriel-*.zip")), "the worker computed nothing"
    assert "Lost executor" in survived.told
    assert survived.digests == local.digests
    assert survived.counters == local.counters


def _run(log: Path, data: Path, cluster: StandaloneCluster | None = None) -> Finished:
    """Run all there is; on a cluster, kill a worker as soon as a batch is committed."""
    topology = Path(__file__).with_name("cluster_topology.py")
    command = [sys.executable, "-P", "-m", "oriel", "run", str(topology)]
    command += ["--event-log", str(log), "--data", str(data), "--once", "--cores", "2"]
    command += ["--max-batch-bytes", str(_BATCH_BYTES)]
    # `python3`, which workers are told to run, is this one for the process beside the driver.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with subprocess.Popen(
        [*command, *(cluster.run_options() if cluster else [])],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        told = []
        for words in run.stderr:
            told.append(words)
            if cluster and words.startswith("batch 0:"):
                cluster.workers[0].kill()
        summary = run.stdout.read()
    assert run.returncode == 0, "".join(told)[-3000:]
    counters = orjson.loads(summary.splitlines()[-1])["stores"]
    return Finished(counters, _digests(data / "tables"), "".join(told))


def _digests(tables: Path) -> dict[str, str]:
    """Table -> a digest of all its rows."""
    digests = {}
    for table in tables.iterdir():
        rows = sorted(map(repr, DeltaTable(table).to_pyarrow_table().to_pylist()))
        assert rows, table.name
        digests[table.name] = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    return digests
