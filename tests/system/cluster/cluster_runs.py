"""Runs of `oriel run` on one machine and on a cluster, with digests of their tables."""

import hashlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.csv as pa_csv

from oriel.storage import uri
from oriel.storage.delta import open_delta, table_directories
from tests.e2e.runs_in_one_process import Runs
from tests.system.cluster.standalone_cluster import StandaloneCluster

_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class FinishedRun:
    """A finished run over a whole log.

    Attributes:
        seconds: The duration from the summary.
        batches: The number of batches.
        counters: The counters of each store.
        digests: A digest of each table, by name.
    """

    seconds: float
    batches: int
    counters: Mapping[str, Mapping[str, int]]
    digests: Mapping[str, str]


def run_to_the_end(
    topology: Path,
    data: Path,
    options: Sequence[str],
    cluster: StandaloneCluster | None = None,
    on_first_batch: Callable[[], None] = lambda: None,
) -> FinishedRun:
    """Run the whole log, on the cluster if one is passed.

    Args:
        topology: The topology file.
        data: The data directory.
        options: Further options of `oriel run`.
        cluster: The cluster, or None for this machine.
        on_first_batch: Called when the first batch is committed.
    """
    command = [sys.executable, "-P", "-m", "oriel", "run", str(topology), "--data", uri(data)]
    command += ["--once", *options, *(cluster.run_options() if cluster else [])]
    # The workers run `python3`. For the driver's own Python process, it is this interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with subprocess.Popen(
        command,
        cwd=_ROOT,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        lines = []
        for words in run.stderr:
            lines.append(words)
            if words.startswith("batch committed: batch=0,"):
                on_first_batch()
        summary = run.stdout.read()
    assert run.returncode == 0, "".join(lines)[-3000:]
    return _finished(orjson.loads(summary.splitlines()[-1]), data)


def run_here(topology: Path, data: Path, options: Sequence[str], runs: Runs) -> FinishedRun:
    """Run the whole log on this machine, in the shared process of runs that end by themselves."""
    ended = runs.run(str(topology), "--data", str(data), "--once", *options)
    assert ended.code == 0, ended.errors
    return _finished(ended.summary, data)


def _finished(summary: Mapping[str, Any], data: Path) -> FinishedRun:
    return FinishedRun(summary["seconds"], summary["batches"], summary["stores"], digests_of(data))


def digests_of(data: Path) -> dict[str, str]:
    """Return a digest of each table of a data directory, by name."""
    return {table.name: _digest(table) for table in table_directories(data / "tables")}


def _digest(directory: Path) -> str:
    """Return a digest of all rows of a table, regardless of their order in the files."""
    table = open_delta(directory).to_pyarrow_table()
    columns = [
        pa.array(map(repr, column.to_pylist())) if pa.types.is_nested(column.type) else column
        for column in table.columns
    ]
    rows = pa.table(columns, table.column_names)
    rows = rows.sort_by([(name, "ascending") for name in rows.column_names])
    text = io.BytesIO()
    pa_csv.write_csv(rows, text)
    return hashlib.sha256(text.getbuffer()).hexdigest()
