"""Modules next to a topology file reach the workers of Spark."""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from deltalake import DeltaTable

from tests.pipeline.run.topology_with_modules import topology

__all__ = ["topology"]
pytestmark = pytest.mark.slow


def test_modules_next_to_the_file_reach_the_workers(topology: Path, tmp_path: Path) -> None:
    """The modules define a Python function of an aggregation, a Spark UDF and a column."""
    log = tmp_path / "log" / "t"
    log.mkdir(parents=True)
    line = '{{"key": "a", "value": {{"v": {v}}}, "timestamp_ms": 1}}\n'
    (log / "0.jsonl").write_text("".join(line.format(v=v) for v in (0, 1, 2, 3)))
    data = tmp_path / "data"
    command = [sys.executable, "-P", "-m", "oriel", "run", str(topology), "--once"]
    command += ["--event-log", str(log.parent), "--data", str(data), "--cores", "1"]
    # The directory of the file counts, not the current one.
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    counters = orjson.loads(ended.stdout.splitlines()[-1])["stores"]["totals"]
    assert (counters["applied"], counters["filtered"], counters["dead_lettered"]) == (3, 1, 0)
    rows = DeltaTable(data / "tables" / "totals").to_pyarrow_table().to_pylist()
    assert [(row["key"], row["total"]) for row in rows] == [("a", 12)]
