"""Stores and joins with as many inputs as a topology can have, 128."""

from typing import Any

import pytest

from oriel import JoinWindows, SlidingWindows, StreamsBuilder
from oriel.pipeline.language.streams import KStream
from oriel.testing import Record, TopologyTestDriver

INPUTS = 128
LAST = f"t{INPUTS - 1}"


def merged(builder: StreamsBuilder) -> KStream:
    """Return 128 merged streams."""
    stream = builder.stream("t0", "x INT")
    for number in range(1, INPUTS):
        stream = stream.merge(builder.stream(f"t{number}", "x INT"))
    return stream


def total(_key: str, value: Any, old: int) -> int:
    """Add a positive number, or raise."""
    assert value["x"] > 0, "not positive"
    return int(old + value["x"])


@pytest.mark.parametrize("windows", [None, SlidingWindows.of_time_difference_with_no_grace(5)])
def test_a_store_of_128_streams_has_records_of_the_last_one(windows: Any) -> None:
    """Their records are aggregated, and their dead letters have the last topic."""
    builder = StreamsBuilder()
    grouped: Any = merged(builder).group_by_key()
    windowed = grouped if windows is None else grouped.windowed_by(windows)
    windowed.aggregate(lambda: 0, total, lambda _, a, b: a + b, schema="n BIGINT").materialize("s")
    driver = TopologyTestDriver(builder.build(), collect_function_errors=True)
    for topic, x in ((LAST, -1), ("t0", 1), (LAST, 2)):
        driver.pipe_input(topic, Record("k", {"x": x}, 1))
    rows = [row for row in driver.read_output("s") if not row["deleted"]]
    assert rows[-1]["n"] == 3
    (dead_letter,) = driver.dead_letters("s")
    assert (dead_letter["topic"], dead_letter["offset"]) == (LAST, 0)


def test_a_join_of_128_tables_has_rows_of_the_last_one() -> None:
    """A row appears as soon as the last table has a row."""
    builder = StreamsBuilder()
    table = builder.table("t0", "x0 INT")
    for number in range(1, INPUTS):
        table = table.left_join(builder.table(f"t{number}", f"x{number} INT"))
    table.materialize("s")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("t0", Record("k", {"x0": 1}, 1))
    driver.pipe_input(LAST, Record("k", {f"x{INPUTS - 1}": 2}, 1))
    (row,) = driver.key_value_store("s").all()
    assert (row.value["x0"], row.value[f"x{INPUTS - 1}"]) == (1, 2)


def test_an_outer_join_of_128_streams_has_records_of_the_last_one() -> None:
    """The merged streams are one input of the join, and each record keeps its stream."""
    builder = StreamsBuilder()
    within = JoinWindows.of_time_difference_with_no_grace(5)
    joined = merged(builder).outer_join(builder.stream("u", "y INT"), within)
    joined.to("o")
    driver = TopologyTestDriver(builder.build())
    output = driver.create_output_topic("o")
    driver.pipe_input(LAST, Record("k", {"x": 1}, 1))
    driver.pipe_input("u", Record("k", {"y": 2}, 2))
    assert [record.value for record in output.read_records()] == [{"x": 1, "y": 2}]
