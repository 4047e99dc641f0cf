"""A topology file next to a module and a package."""

from pathlib import Path

import pytest

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


MODULE = """
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
    """Return a topology file next to a module and a package."""
    directory = tmp_path / "project"
    (directory / "rules").mkdir(parents=True)
    (directory / "topology.py").write_text(TOPOLOGY)
    (directory / "beside.py").write_text(MODULE)
    (directory / "rules" / "__init__.py").touch()
    (directory / "rules" / "limits.py").write_text(LIMITS)
    return directory / "topology.py"
