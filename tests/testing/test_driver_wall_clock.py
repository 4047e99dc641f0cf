"""Wall clock in the test driver: records from the future, and idle partitions."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

from oriel import (
    EmitStrategy,
    IllegalArgument,
    JoinWindows,
    StreamsBuilder,
    collect_list,
    count,
)
from oriel.testing import Record, TopologyTestDriver
from tests.campaigns import cases
from tests.testing.driver_runs import SCHEMA, hopping, sessions, sliding, tumbling

#: The end of the year 9999.
YEAR_9999 = 253_402_300_799_999
#: Wall clock in the tests, and how far ahead of it a record can be.
NOW, AHEAD = 1000, 100

Define = Callable[[StreamsBuilder], object]


def record(time: int, key: str | None = "k", value: Mapping[str, Any] | None = None) -> Record:
    """Return a record whose value has its time."""
    return Record(key, {"t": time, "s": f"{key}{time}"} if value is None else value, time)


def _windowed(windows: Any) -> Define:
    def define(builder: StreamsBuilder) -> None:
        stream = builder.stream("t", SCHEMA).group_by_key().windowed_by(windows)
        stream.aggregate(n=count(), times=collect_list("t")).materialize("s")

    return define


def _unwindowed(builder: StreamsBuilder) -> None:
    stream = builder.stream("t", SCHEMA).group_by_key()
    stream.aggregate(n=count(), times=collect_list("t")).materialize("s")


def _joined(builder: StreamsBuilder) -> None:
    left, right = builder.stream("t", SCHEMA), builder.stream("u", "t2 BIGINT, s2 STRING")
    windows = JoinWindows.of_time_difference_and_grace(20, 10)
    joined = left.outer_join(right, windows)
    windowed = joined.group_by_key().windowed_by(tumbling(50, 10))
    windowed.aggregate(n=count(), times=collect_list("t"), others=collect_list("s2")).materialize(
        "s"
    )


def _looked_up(builder: StreamsBuilder) -> None:
    table = builder.table("u", "t2 BIGINT, s2 STRING")
    joined = builder.stream("t", SCHEMA).join(table)
    windowed = joined.group_by_key().windowed_by(tumbling(50, 10))
    windowed.aggregate(n=count(), others=collect_list("s2")).materialize("s")


def _table(builder: StreamsBuilder) -> None:
    builder.table("t", SCHEMA).materialize("s")


def _filtered(builder: StreamsBuilder) -> None:
    # Every store rejects a record from the future, so the filter never sees it.
    stream = builder.stream("t", SCHEMA).filter("t % 2 = 0").group_by_key()
    stream.windowed_by(tumbling(50, 10)).aggregate(n=count()).materialize("s")


TOPOLOGIES: dict[str, Define] = {
    "tumbling": _windowed(tumbling(50, 10)),
    "hopping": _windowed(hopping(50, 20, 10)),
    "sliding": _windowed(sliding(50, 10)),
    "session": _windowed(sessions(30, 10)),
    "none": _unwindowed,
    "joined": _joined,
    "looked up": _looked_up,
    "table": _table,
    "filtered": _filtered,
}


def driver_of(define: Define, **options: Any) -> TopologyTestDriver:
    """Return a driver with the wall clock at ``NOW``."""
    builder = StreamsBuilder()
    define(builder)
    return TopologyTestDriver(builder.build(), initial_wall_clock_ms=NOW, **options)


def content(driver: TopologyTestDriver) -> list[str]:
    """Return all rows of store ``s``."""
    for read in (driver.window_store, driver.session_store, driver.key_value_store):
        try:
            return [repr(row) for row in read("s").all()]
        except IllegalArgument:
            continue
    pytest.fail("the store is of no kind")


@pytest.mark.java
@pytest.mark.slow
@cases(1, 5)
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_records_from_the_future_are_as_if_they_were_not_there(name: str, number: int) -> None:
    """The store equals the store without the records from the future, which are dead letters."""
    for seed in range(number):
        random = Random(f"{name} {seed}")
        topics = ("t", "u") if name in {"joined", "looked up"} else ("t",)
        bounded = driver_of(TOPOLOGIES[name], max_ahead_ms=AHEAD)
        clean = driver_of(TOPOLOGIES[name])
        refused = 0
        for _ in range(random.randint(1, 8)):
            topic, partition = random.choice(topics), random.randint(0, 1)
            made = []
            for _ in range(random.randint(0, 9)):
                time = random.choice((random.randint(0, 1100), NOW + AHEAD, 1101, YEAR_9999))
                key = random.choice("ab")
                value = {"t": time, "s": "x"} if topic == "t" else {"t2": time, "s2": f"{time}"}
                made.append(record(time, key, value))
            # Offsets sort members with equal times: the remaining records have the same order in
            # both.
            bounded.pipe_input(topic, made, partition)
            clean.pipe_input(topic, [r for r in made if r.timestamp_ms <= NOW + AHEAD], partition)
            refused += sum(r.timestamp_ms > NOW + AHEAD for r in made)
            assert content(bounded) == content(clean), f"{name}, seed {seed}"
        found, wanted = bounded.counters("s"), clean.counters("s")
        assert found.input == wanted.input + refused
        assert found.dropped == wanted.dropped + refused
        assert (found.applied, found.late, found.filtered) == (
            wanted.applied,
            wanted.late,
            wanted.filtered,
        )
        ahead = [x for x in bounded.dead_letters("s") if x["reason"] == "timestamp-ahead"]
        assert len(ahead) == refused
        assert [letter for letter in ahead if b"timestamp_ms" not in letter["raw"]] == []
        assert [letter for letter in ahead if "--max-ahead" not in letter["detail"]] == []


def test_without_a_bound_one_record_of_the_year_9999_closes_everything() -> None:
    """The bound protects against a record of the year 9999, which would close all windows.

    The driver can advance the wall clock.
    """
    free = driver_of(TOPOLOGIES["tumbling"])
    free.pipe_input("t", [record(500), record(YEAR_9999), record(501)])
    assert (free.counters("s").applied, free.counters("s").late) == (2, 1)
    bounded = driver_of(TOPOLOGIES["tumbling"], max_ahead_ms=AHEAD)
    bounded.pipe_input("t", [record(500), record(1101), record(501)])
    assert (bounded.counters("s").applied, bounded.counters("s").dropped) == (2, 1)
    bounded.advance_wall_clock_time(1)
    bounded.pipe_input("t", record(1101))
    assert (bounded.counters("s").applied, bounded.counters("s").dropped) == (3, 1)
    (letter,) = bounded.dead_letters("s")
    assert (letter["reason"], letter["offset"], letter["store"]) == ("timestamp-ahead", 1, None)


# Idle partitions.


def idle_driver(*, closed: bool = False) -> TopologyTestDriver:
    """Return a driver of tumbling windows of 10 ms over two partitions, idle after 100 ms."""

    def define(builder: StreamsBuilder) -> None:
        windowed = builder.stream("t", SCHEMA).group_by_key().windowed_by(tumbling(10, 0))
        if closed:
            windowed = windowed.emit(EmitStrategy.on_window_close())
        windowed.aggregate(n=count(), times=collect_list("t")).materialize("s")

    driver = driver_of(define, idle_after_ms=100)
    for partition in (0, 1):
        driver.pipe_input("t", [], partition)
    return driver


def final(driver: TopologyTestDriver) -> list[int]:
    """Return the starts of the final windows."""
    return [w.window_start_ms for w in driver.window_store("s").all() if w.final]


def test_a_silent_partition_is_left_out_once_it_was_silent_for_too_long() -> None:
    """A partition is idle after more than the idle time, and then no longer delays final windows.

    A batch without records of the partition detects it.
    """
    driver = idle_driver()
    driver.pipe_input("t", record(5), 1)
    driver.advance_wall_clock_time(100)
    driver.pipe_input("t", [record(7), record(35)], 0)
    assert final(driver) == []
    driver.advance_wall_clock_time(1)
    driver.pipe_input("t", record(36), 0)
    assert final(driver) == [0]
    # Final windows stay final, however old the later records of the partition are.
    driver.pipe_input("t", [record(6), record(12), record(36)], 1)
    assert final(driver) == [0]
    (first,) = driver.window_store("s").fetch("k", 0, 0)
    assert first.value == {"n": 2, "times": [5, 7]}
    counters = driver.counters("s")
    # [10, 20) and the windows up to 30 were closed although they did not exist.
    assert (counters.applied, counters.late) == (5, 2)
    # The partition delays final windows again.
    driver.pipe_input("t", record(99), 0)
    assert final(driver) == [0]
    driver.pipe_input("t", record(99), 1)
    assert final(driver) == [0, 30]


def test_if_all_are_silent_nothing_closes_further() -> None:
    """If all partitions are idle, no further window closes.

    Filtered and invalid records do not end the idle state.
    """
    driver = idle_driver()
    driver.pipe_input("t", record(15), 0)
    driver.pipe_input("t", record(15), 1)
    driver.advance_wall_clock_time(500)
    driver.pipe_input("t", Record(None, {"t": 99}, 99), 0)
    assert final(driver) == []
    driver.pipe_input("t", record(25), 0)
    assert final(driver) == [10]


def test_a_partition_that_never_spoke_is_silent_since_it_is_known() -> None:
    """A partition without any record is idle after the idle time, like others."""
    driver = idle_driver()
    driver.pipe_input("t", record(25), 0)
    assert final(driver) == []
    driver.advance_wall_clock_time(101)
    driver.pipe_input("t", [record(5, "late"), record(26)], 0)
    assert driver.counters("s").late == 1
    driver.pipe_input("t", record(40), 0)
    assert final(driver) == [20]


@pytest.mark.slow
@cases(1, 8)
@pytest.mark.parametrize("closed", [False, True], ids=["on update", "on close"])
@pytest.mark.parametrize("name", ["tumbling", "hopping", "sliding", "session", "joined"])
def test_no_final_row_is_written_twice_whoever_falls_silent(
    name: str, closed: bool, number: int
) -> None:
    """A final row never changes and every record counts, for random logs and idle times."""
    kinds = {
        "tumbling": tumbling(20, 5),
        "hopping": hopping(20, 7, 5),
        "sliding": sliding(20, 5),
        "session": sessions(9, 5),
    }
    for seed in range(number):
        random = Random(f"{name} {seed}")

        def define(builder: StreamsBuilder) -> None:
            stream = builder.stream("t", SCHEMA)
            if name == "joined":
                windows = JoinWindows.of_time_difference_and_grace(10, 5)
                stream = stream.outer_join(builder.stream("u", "t2 BIGINT"), windows)
            windowed = stream.group_by_key().windowed_by(kinds.get(name, tumbling(20, 5)))
            if closed:
                windowed = windowed.emit(EmitStrategy.on_window_close())
            windowed.aggregate(n=count()).materialize("s")

        driver = driver_of(define, idle_after_ms=50)
        finals: set[tuple[str, int, int]] = set()
        piped, clock = 0, 0
        for _ in range(30):
            topic = random.choice(("t", "u")) if name == "joined" else "t"
            times = [max(0, clock + random.randint(-40, 20)) for _ in range(random.randint(0, 4))]
            clock = max([clock, *times])
            name_of = "t2" if topic == "u" else "t"
            made = [Record(random.choice("ab"), {name_of: t}, t) for t in times]
            driver.pipe_input(topic, made, random.choice((0, 0, 0, 1, 2)))
            piped += len(made)
            for row in driver.read_output("s"):
                place = row["key"], row["window_start_ms"], row["window_end_ms"]
                assert place not in finals, f"{name}, seed {seed}: {row}"
                if row["final"]:
                    finals.add(place)
            driver.advance_wall_clock_time(random.choice((0, 10, 60)))
        counters = driver.counters("s")
        parts = counters.applied + counters.late + counters.dropped + counters.filtered
        assert counters.input == parts == piped
