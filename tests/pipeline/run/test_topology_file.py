"""A topology file and the modules next to it: the command and Spark's workers import them."""

from pathlib import Path

import pytest

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.run.topology_file import load_topology, needs_spark
from tests.pipeline.run.topology_with_modules import TOPOLOGY, topology

__all__ = ["topology"]


def test_columns_of_a_module_next_to_the_file_also_need_spark(
    topology: Path, tmp_path: Path
) -> None:
    """A file that does not name pyspark can create columns through a module that does."""
    assert b"pyspark" not in topology.read_bytes()
    assert needs_spark(topology)
    alone = tmp_path / "alone" / "topology.py"
    alone.parent.mkdir()
    alone.write_text(TOPOLOGY)
    assert not needs_spark(alone)
    assert not needs_spark(tmp_path / "missing.py")


def test_a_topology_file_may_hold_a_dataclass(tmp_path: Path) -> None:
    """The file is a module, so code that looks up its own module finds it."""
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
def test_the_error_of_a_topology_file_has_the_users_line(
    tmp_path: Path, text: str, said: str
) -> None:
    """The error has the innermost line of the user's own files, and no frame of Python or Oriel."""
    (tmp_path / "broken_beside.py").write_text("def half(n):\n    return n / 0\n")
    (tmp_path / "topology.py").write_text(text)
    with pytest.raises(InvalidTopology) as failed:
        load_topology(tmp_path / "topology.py")
    assert str(failed.value).startswith(f"{tmp_path}/{said}")
    assert "\n" not in str(failed.value)
