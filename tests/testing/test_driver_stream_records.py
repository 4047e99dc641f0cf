"""The records of a stream, read from the test driver without an aggregation."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from oriel import (
    IllegalArgument,
    InvalidTopology,
    JoinWindows,
    StreamsBuilder,
    TimeWindows,
    collect_list,
)
from oriel.pipeline.language import KStream
from oriel.testing import Record, StreamReader, TopologyTestDriver
from tests.campaigns import seeds

FIRST_SEED = 7_700_000
within = JoinWindows.of_time_difference_and_grace(5, 3)


class Streams:
    """Two streams and a table. The topology reads the left stream."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder()
        self.left = self.builder.stream("left", "a BIGINT")
        self.right = self.builder.stream("right", "b BIGINT")
        self.table = self.builder.table("table", "c BIGINT")
        self.left.group_by_key().count().materialize("counted")

    def reading(
        self, stream: Callable[["Streams"], KStream]
    ) -> tuple[TopologyTestDriver, StreamReader]:
        """Return a driver, and a reader of a stream."""
        driver = TopologyTestDriver(self.builder.build())
        return driver, driver.create_output_reader(stream(self))


def record(time_ms: int, key: str | None = "k", **value: int) -> Record:
    """Return a record. Without columns it has a null value."""
    return Record(key, value or None, time_ms)


@pytest.mark.java
def test_what_a_join_gives_is_read_each_record_once() -> None:
    """A reader returns each join result once.

    Unmatched records appear when no match is possible.
    """
    driver, reader = Streams().reading(lambda s: s.left.left_join(s.right, within))
    driver.pipe_input("left", [record(0, a=1), record(4, a=2)])
    assert reader.is_empty
    driver.pipe_input("right", record(6, b=7))
    assert reader.queue_size == 1
    assert reader.read_record() == Record("k", {"a": 2, "b": 7}, 6)
    with pytest.raises(IllegalArgument, match="the stream has no further record"):
        reader.read_record()
    # 0 + after 5 + before 5 + grace 3 = 13: only after this time can no right record match the
    # first one.
    driver.pipe_input("right", record(13, b=8))
    assert reader.read_records() == []
    driver.pipe_input("right", record(14, b=9))
    assert reader.read_records() == [Record("k", {"a": 1, "b": None}, 0)]
    assert reader.is_empty


def test_readers_are_independent_and_records_are_copies() -> None:
    """Each reader begins with the first record, and records are copies."""
    streams = Streams()
    driver, first = streams.reading(lambda s: s.left)
    second = driver.create_output_reader(streams.left)
    driver.pipe_input("left", [record(1, a=1), record(2, a=2)])
    one = first.read_record()
    assert isinstance(one.value, dict)
    one.value["a"] = 9
    assert first.read_records() == [record(2, a=2)]
    assert second.read_records() == [record(1, a=1), record(2, a=2)]


@pytest.mark.java
def test_a_table_looked_up_and_a_table_s_updates() -> None:
    """A reader returns the results of a table join, and a table's own records with null values."""
    streams = Streams()
    driver, found = streams.reading(lambda s: s.left.join(s.table))
    updates = driver.create_output_reader(streams.table.to_stream())
    driver.pipe_input("left", record(1, a=1))
    driver.pipe_input("table", [record(2, c=5), record(3)])
    driver.pipe_input("left", record(4, a=2))
    driver.pipe_input("table", record(3, c=6))
    driver.pipe_input("left", record(4, a=3))
    assert found.read_records() == [Record("k", {"a": 3, "c": 6}, 4)]
    assert updates.read_records() == [record(2, c=5), record(3), record(3, c=6)]


def test_a_stream_has_late_records_and_those_without_a_key() -> None:
    """A reader also returns late records and null keys, without windows and groupings."""
    driver, reader = Streams().reading(lambda s: s.left)
    driver.pipe_input("left", [record(100, a=1), record(1, a=2), record(101, None, a=3)])
    assert reader.read_records() == [record(100, a=1), record(1, a=2), record(101, None, a=3)]


def test_the_topics_of_a_stream_are_piped_into() -> None:
    """A driver accepts topics that only a reader uses. Merged streams are in batch order."""
    streams = Streams()
    with pytest.raises(IllegalArgument, match="does not read topic 'other'"):
        TopologyTestDriver(streams.builder.build()).pipe_input("other", [])
    other = streams.builder.stream("other", "a BIGINT")
    driver, reader = streams.reading(lambda s: s.left.merge(other))
    driver.pipe_inputs([
        ("other", record(5, a=1), 3),
        ("left", record(3, a=2)),
        ("other", record(4, a=3)),
    ])  # fmt: skip
    assert [one.value for one in reader.read_records()] == [{"a": 1}, {"a": 2}, {"a": 3}]
    counted = driver.key_value_store("counted").get("k")
    assert counted is not None
    assert counted.value == {"count": 1}


@pytest.mark.java
def test_the_steps_of_a_stream_are_run() -> None:
    """Filters, new keys and new columns apply, as in `oriel run`."""
    driver, reader = Streams().reading(
        lambda s: s.left.filter("a > 1").map("a + 1", twice="a * 2").filter("twice < 9")
    )
    driver.pipe_input("left", [record(n, a=n) for n in range(1, 7)])
    assert reader.read_records() == [
        Record(str(n + 1), {"twice": 2 * n}, n) for n in (2, 3, 4)
    ]  # fmt: skip


def test_what_can_not_be_read_is_refused() -> None:
    """A table, a stream after the first record, and an invalid step are rejected."""
    streams = Streams()
    driver, _ = streams.reading(lambda s: s.left)
    wrong: Any = streams.table
    with pytest.raises(IllegalArgument, match=r"its to_stream\(\)"):
        driver.create_output_reader(wrong)
    with pytest.raises(InvalidTopology, match="must have the same columns"):
        driver.create_output_reader(streams.left.merge(streams.right))
    driver.pipe_input("left", record(1, a=1))
    with pytest.raises(IllegalArgument, match="before the first record"):
        driver.create_output_reader(streams.left)


@pytest.mark.slow
@seeds(2, 16, FIRST_SEED)
def test_the_records_are_those_that_a_store_aggregates(seed: int) -> None:
    """A reader returns the records that a store aggregates, for random logs, joins and batches."""
    random = Random(seed)
    streams = Streams()
    how = random.choice(("join", "left_join", "outer_join"))
    joined = getattr(streams.left, how)(streams.right, within)
    never_late = TimeWindows.of_size_and_grace(10**6, 10**6)
    (
        joined.group_by_key()
        .windowed_by(never_late)
        .aggregate(a=collect_list("a"), b=collect_list("b"))
        .materialize("joined")
    )
    driver, reader = streams.reading(lambda _: joined)
    logs = {topic: _random_log(random, topic == "right") for topic in ("left", "right")}
    while any(logs.values()):
        topic = random.choice([topic for topic, log in logs.items() if log])
        size = random.randint(1, 4)
        batch, logs[topic] = logs[topic][:size], logs[topic][size:]
        driver.pipe_input(topic, batch)
    read: dict[str, dict[str, list[int]]] = {}
    for one in reader.read_records():
        assert one.key is not None
        assert one.value is not None
        columns = read.setdefault(one.key, {"a": [], "b": []})
        for name, value in one.value.items():
            columns[name] += [] if value is None else [value]
    store = driver.window_store("joined")
    stored = {window.key: window.value for window in store.all()}
    assert {key: _sorted(value) for key, value in read.items()} == {
        key: _sorted(value) for key, value in stored.items()
    }


def _random_log(random: Random, is_right: bool) -> list[Record]:
    name = "b" if is_right else "a"
    return [
        Record(random.choice("xy"), {name: number}, max(0, number + random.randint(-8, 8)))
        for number in range(random.randint(5, 30))
    ]


def _sorted(columns: dict[str, list[int]]) -> dict[str, list[int]]:
    return {name: sorted(values) for name, values in columns.items()}
