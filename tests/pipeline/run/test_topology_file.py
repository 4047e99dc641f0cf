"""A topology file and what lies beside it: imported by the command, known to Spark's workers."""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from deltalake import DeltaTable

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.run.topology_file import load_topology, needs_spark

TOPOLOGY = """
from oriel import StreamsBuilder
from beside import add, doubled
from rules.limits import is_enough

builder = StreamsBuilder()
records = builder.stream("t", "v INT").filter(is_enough("v")).map_values(v=doubled("v"))
grouped = records.group_by_key()
grouped.aggregate(lambda: 0, add, schema="total BIGINT").materialize("totals")
topology = builder.build()
"""
BESIDE = """
from pyspark.sql import functions as F

from rules import limits


def add(key, value, total):
    from rules.limits import LEAST  # is looked for where the function runs

    return total + value["v"] * LEAST


@F.udf("int")
def doubled(v):
    return None if v is None else v * limits.FACTOR
"""
LIMITS = """
from pyspark.sql import functions as F

LEAST, FACTOR = 1, 2


def is_enough(column):
    return F.col(column) >= LEAST
"""


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    """A topology file with a module and a package beside it."""
    folder = tmp_path / "project"
    (folder / "rules").mkdir(parents=True)
    (folder / "topology.py").write_text(TOPOLOGY)
    (folder / "beside.py").write_text(BESIDE)
    (folder / "rules" / "__init__.py").touch()
    (folder / "rules" / "limits.py").write_text(LIMITS)
    return folder / "topology.py"


@pytest.mark.slow
def test_modules_beside_the_file_reach_the_workers(topology: Path, tmp_path: Path) -> None:
    """A Python function of the language, a UDF of Spark's and a column are made by them."""
    log = tmp_path / "log" / "t"
    log.mkdir(parents=True)
    line = '{{"key": "a", "value": {{"v": {v}}}, "timestamp_ms": 1}}\n'
    (log / "0.jsonl").write_text("".join(line.format(v=v) for v in (0, 1, 2, 3)))
    data = tmp_path / "data"
    command = [sys.executable, "-P", "-m", "oriel", "run", str(topology), "--once"]
    command += ["--event-log", str(log.parent), "--data", str(data), "--cores", "1"]
    # From another folder: it is the file's own that counts.
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    counters = orjson.loads(ended.stdout.splitlines()[-1])["stores"]["totals"]
    assert (counters["applied"], counters["filtered"], counters["dead_lettered"]) == (3, 1, 0)
    rows = DeltaTable(data / "tables" / "totals").to_pyarrow_table().to_pylist()
    assert [(row["key"], row["total"]) for row in rows] == [("a", 12)]


def test_columns_of_a_module_beside_need_spark_as_well(topology: Path, tmp_path: Path) -> None:
    """A file that does not name pyspark may still make columns, by a module that does."""
    assert b"pyspark" not in topology.read_bytes()
    assert needs_spark(topology)
    alone = tmp_path / "alone" / "topology.py"
    alone.parent.mkdir()
    alone.write_text(TOPOLOGY)
    assert not needs_spark(alone)
    assert not needs_spark(tmp_path / "missing.py")


def test_a_topology_file_may_hold_a_dataclass(tmp_path: Path) -> None:
    """The file is a module like any other: what looks its module up finds it."""
    path = tmp_path / "topology.py"
    path.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from oriel import StreamsBuilder\n"
        "@dataclass\nclass Limits:\n    least: int = 0\n"
        "builder = StreamsBuilder()\n"
        "builder.stream('t', 'v INT').group_by_key().count().materialize('s')\n"
        "topology = builder.build()\n"
    )
    assert [store.name for store in load_topology(path).stores] == ["s"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from oriel import nothing\n", "topology.py:1: ImportError: cannot import name 'nothing'"),
        ("\nmissing + 1\n", "topology.py:2: NameError: name 'missing' is not defined"),
        ("\n\nx = (\n", "topology.py:3: SyntaxError: '(' was never closed"),
        (
            "from oriel import StreamsBuilder\n\nStreamsBuilder().stream('t', 'v INT').filter(7)\n",
            "topology.py:3: ",
        ),
        (
            "import broken_beside\nbroken_beside.half(1)\n",
            "broken_beside.py:2: ZeroDivisionError: ",
        ),
    ],
    ids=["import", "name", "syntax", "language", "module beside"],
)
def test_a_file_that_fails_is_told_with_the_users_line(
    tmp_path: Path, text: str, said: str
) -> None:
    """The innermost one of the user's own files; neither Python's frames nor ours."""
    (tmp_path / "broken_beside.py").write_text("def half(n):\n    return n / 0\n")
    (tmp_path / "topology.py").write_text(text)
    with pytest.raises(InvalidTopology) as failed:
        load_topology(tmp_path / "topology.py")
    assert str(failed.value).startswith(f"{tmp_path}/{said}")
    assert "\n" not in str(failed.value)
