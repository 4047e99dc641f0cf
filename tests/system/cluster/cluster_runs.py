"""Runs of `oriel run` on one machine and on a cluster, and digests of what they leave."""

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
from oriel.storage.delta import open_delta, table_folders
from tests.e2e.runs_in_one_process import Runs
from tests.system.cluster.standalone_cluster import StandaloneCluster

_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class FinishedRun:
    """A run to the end of the log: its summary, and digests of its tables."""

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
    """Run all there is, on the cluster if there is one; ``on_first_batch`` as it is committed."""
    command = [sys.executable, "-P", "-m", "oriel", "run", str(topology), "--data", uri(data)]
    command += ["--once", *options, *(cluster.run_options() if cluster else [])]
    # `python3`, which workers are told to run, is this one for the process beside the driver.
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
        told = []
        for words in run.stderr:
            told.append(words)
            if words.startswith("batch committed: batch=0,"):
                on_first_batch()
        summary = run.stdout.read()
    assert run.returncode == 0, "".join(told)[-3000:]
    return _finished(orjson.loads(summary.splitlines()[-1]), data)


def run_here(topology: Path, data: Path, options: Sequence[str], runs: Runs) -> FinishedRun:
    """Run all there is on this machine, in the process of all runs that end by themselves."""
    ended = runs.run(str(topology), "--data", str(data), "--once", *options)
    assert ended.code == 0, ended.told
    return _finished(ended.summary, data)


def _finished(summary: Mapping[str, Any], data: Path) -> FinishedRun:
    return FinishedRun(summary["seconds"], summary["batches"], summary["stores"], digests_of(data))


def digests_of(data: Path) -> dict[str, str]:
    """A digest of each table of a data folder, by name."""
    return {table.name: _digest(table) for table in table_folders(data / "tables")}


def _digest(folder: Path) -> str:
    """A digest of all rows of a table, whatever their order in its files."""
    table = open_delta(folder).to_pyarrow_table()
    columns = [
        pa.array(map(repr, column.to_pylist())) if pa.types.is_nested(column.type) else column
        for column in table.columns
    ]
    rows = pa.table(columns, table.column_names)
    rows = rows.sort_by([(name, "ascending") for name in rows.column_names])
    text = io.BytesIO()
    pa_csv.write_csv(rows, text)
    return hashlib.sha256(text.getbuffer()).hexdigest()
