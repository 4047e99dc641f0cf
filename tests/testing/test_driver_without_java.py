"""Topologies without expressions run without Spark and Java, checked in a separate process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import sys

from oriel import *
from oriel.testing import Record, TopologyTestDriver

builder = StreamsBuilder()
flights = builder.stream("flights", "carrier STRING, delay DOUBLE, number INT")
kinds = {
    "tumbling": TimeWindows.of_size_and_grace(10, 5),
    "hopping": TimeWindows.of_size_and_grace(10, 5).advance_by(5),
    "sliding": SlidingWindows.of_time_difference_and_grace(10, 5),
    "session": SessionWindows.of_inactivity_gap_and_grace(10, 5),
}
for name, windows in kinds.items():
    chosen = flights.map_values("carrier", "delay").map_values("*")
    chosen.group_by_key().windowed_by(windows).aggregate(
        n=count(), mean=avg("delay"), middle=approx_quantile("delay", 0.5),
        different=approx_count_distinct("carrier"), spread=stddev("delay"),
    ).materialize(name)
flights.group_by("carrier").aggregate(
    lambda: 0, lambda key, value, old: old + 1, schema="n BIGINT"
).materialize("by_carrier")
flights.group_by("number").count().materialize("by_number")
other = builder.stream("other", "x STRING")
flights.join(other, JoinWindows.of_time_difference_and_grace(5, 0)).group_by("x").count(
).materialize("joined")
names = builder.table("names", "name STRING")
flights.left_join(names).group_by_key().count().materialize("looked_up")
names.materialize("names")
names.join(builder.table("other", "x STRING")).materialize("tables")

with TopologyTestDriver(builder.build()) as driver:
    driver.pipe_input("names", Record("EWR", {"name": "Newark"}, 1))
    driver.pipe_input("other", Record("EWR", {"x": "y"}, 1))
    driver.pipe_input("flights", [Record("EWR", {"carrier": "UA", "delay": 5.0, "number": 7}, 3)])
    assert driver.window_store("sliding").fetch("EWR", 0).value["mean"] == 5.0
    assert driver.session_store("session").fetch("EWR")[0].value["n"] == 1
    assert driver.key_value_store("by_carrier").get("UA").value == {"n": 1}
    assert driver.key_value_store("by_number").get("7").value == {"count": 1}
    assert driver.key_value_store("joined").get("y").value == {"count": 1}
    assert driver.key_value_store("looked_up").get("EWR").value == {"count": 1}
    assert driver.key_value_store("tables").get("EWR").value == {"name": "Newark", "x": "y"}
loaded = [name for name in ("pyspark", "py4j", "deltalake", "fastapi") if name in sys.modules]
print("loaded:", loaded)
"""


@pytest.mark.slow
def test_a_topology_without_expressions_needs_neither_spark_nor_java(tmp_path: Path) -> None:
    """Such a topology runs without Java on the path, and does not import pyspark."""
    environment = {
        name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", "SPARK_HOME"}
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env={**environment, "PATH": str(tmp_path), "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("loaded: [")
    assert "pyspark" not in done.stdout
    assert "py4j" not in done.stdout
