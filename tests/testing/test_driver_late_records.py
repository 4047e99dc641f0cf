"""Late records equal a slow model under any cut into batches, for each kind of windows."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from oriel import (
    InvalidTopology,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
)
from oriel.pipeline.language import KStream, TimeWindowedKStream
from oriel.pipeline.windows import Windows
from oriel.testing import Counters, KeyValue, Record, TopologyTestDriver
from tests.campaigns import seeds
from tests.testing.driver_runs import driver_of, hopping, sessions, sliding, tumbling
from tests.testing.random_cuts import random_cuts
from tests.testing.refused_streams import joined_pair, updates

_SCHEMA = "number INT"
#: The start and the end of each window of a record, and whether the window is closed.
_WindowsOf = list[tuple[int, int, bool]]


@dataclass
class _Partition:
    """The stream time of one partition, and the sessions of each key."""

    windows: Windows
    stream_time: int = -1
    sessions: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def windows_of(self, record: Record) -> _WindowsOf:
        """Return each window that can contain the record, which advances the stream time."""
        at, windows = record.timestamp_ms, self.windows
        self.stream_time = max(self.stream_time, at)
        if isinstance(windows, TimeWindows):
            size, advance = windows.size_ms, windows.advance_ms
            starts = [s for s in range(0, at + 1, advance) if s + size > at]
            return [(s, s + size, self._closed(s + size - 1)) for s in starts]
        if isinstance(windows, SlidingWindows):
            length = windows.time_difference_ms
            starts = list(range(max(0, at - length), at + 1))
            return [(s, s + length, self._closed(s + length)) for s in starts]
        assert isinstance(windows, SessionWindows)
        return [(at, at, not self._joins(str(record.key), at))]

    def _closed(self, last: int, more_grace: int = 0) -> bool:
        """Return whether a window whose last ms is ``last`` is closed."""
        grace = self.windows.grace_ms + more_grace
        if isinstance(self.windows, SessionWindows):
            grace += self.windows.inactivity_gap_ms
        return last + grace < self.stream_time

    def _joins(self, key: str, at: int) -> bool:
        assert isinstance(self.windows, SessionWindows)
        gap, all_sessions = self.windows.inactivity_gap_ms, self.sessions.setdefault(key, [])
        joined = [
            (start, end)
            for start, end in all_sessions
            if start - gap <= at <= end + gap and not self._closed(end)
        ]
        if not joined and self._closed(at):
            return False
        bounds = [at, *(ms for session in joined for ms in session)]
        rest = [session for session in all_sessions if session not in joined]
        self.sessions[key] = [*rest, (min(bounds), max(bounds))]
        return True

    def missing_grace(self, end: int) -> int:
        """Return how much more grace leaves a window with this end open."""
        last = end - 1 if isinstance(self.windows, TimeWindows) else end
        return next(ms for ms in range(1_000_000) if not self._closed(last, ms))


@dataclass(frozen=True)
class _Case:
    """One random case: the windows, and the log of each partition."""

    windows: Windows
    logs: list[list[Record]]


def _case(seed: int) -> _Case:
    chance = random.Random(seed)
    size, grace = chance.choice((1, 4, 10)), chance.choice((0, 2, 9))
    windows: Windows = (
        tumbling(size, grace),
        hopping(size, chance.randint(1, size), grace),
        sliding(size, grace),
        sessions(size, grace),
    )[seed % 4]
    logs = []
    for step in chance.choices((0, 1, 3), k=chance.choice((1, 2))):
        length, spread = chance.choice((0, 3, 40)), chance.choice((5, 30))
        times = (step * at + chance.randint(-spread, spread) for at in range(length))
        logs.append([_record(chance, number, ms) for number, ms in enumerate(times)])
    return _Case(windows, logs)


def _record(chance: random.Random, number: int, ms: int) -> Record:
    value = None if chance.random() < 0.1 else {"number": number}
    return Record(chance.choice([None, *"aaabbb"]), value, max(0, ms))


def _late(case: _Case) -> Iterator[tuple[Record, dict[str, Any]]]:
    """Yield each record that misses a window, with the columns of its result."""
    for partition, log in enumerate(case.logs):
        state = _Partition(case.windows)
        for offset, record in enumerate(log):
            if record.key is None or (record.value is None and case.windows.kind == "sliding"):
                continue
            windows = state.windows_of(record)
            missed = [(start, end) for start, end, closed in windows if closed]
            if not missed:
                continue
            yield (
                record,
                {
                    "number": record.value and record.value["number"],
                    "record_topic": "t", "record_partition": partition, "record_offset": offset,
                    "late_by_ms": state.missing_grace(missed[0][1]),
                    "partly_late": len(missed) < len(windows),
                    "first_missed_start_ms": missed[0][0], "first_missed_end_ms": missed[0][1],
                    "last_missed_start_ms": missed[-1][0], "last_missed_end_ms": missed[-1][1],
                },
            )  # fmt: skip


@seeds(48, 6_000)
def test_any_cut_has_the_late_records_of_the_model(seed: int) -> None:
    """The rows are those of the model, and a store with the same windows counts the late ones."""
    case, chance = _case(seed), random.Random(seed + 1)
    builder = StreamsBuilder()
    windowed = builder.stream("t", _SCHEMA).group_by_key().windowed_by(case.windows)
    windowed.late_to("out").count().materialize("s")
    late = windowed.late_records().select_key("record_partition", "record_offset").to_table()
    late.materialize("late")
    driver = TopologyTestDriver(builder.build())
    reader = driver.create_output_topic("out")
    for partition, records in random_cuts(case.logs, chance):
        driver.pipe_input("t", records, partition)
    expected = list(_late(case))
    records = [Record(one.key, row, one.timestamp_ms) for one, row in expected]
    assert sorted(reader.read_records(), key=repr) == sorted(records, key=repr)
    rows = [
        KeyValue("{record_partition}|{record_offset}".format(**row), row, one.timestamp_ms)
        for one, row in expected
    ]
    assert driver.key_value_store("late").all() == sorted(rows, key=lambda row: row.key)
    counters, own = driver.counters("s"), driver.counters("to(out)")
    assert counters.late == sum(not row["partly_late"] for _, row in expected)
    assert own == Counters(
        input=counters.input, applied=len(expected), late=0, dropped=counters.dropped,
        filtered=counters.input - counters.dropped - len(expected),
    )  # fmt: skip


def test_a_partly_late_record_is_in_the_other_windows() -> None:
    """A record in hopping windows misses the closed ones, and the counters do not change."""
    builder = StreamsBuilder()
    windowed = builder.stream("t", _SCHEMA).group_by_key().windowed_by(hopping(10, 5, 2))
    windowed.late_to("out", headers={"partly": "partly_late"}).count().materialize("s")
    driver = TopologyTestDriver(builder.build())
    reader = driver.create_output_topic("out")
    driver.pipe_input("t", [Record("a", {"number": n}, ms) for n, ms in enumerate((20, 12, 9))])
    partly, late = reader.read_records()
    # At stream time 20, the windows that end at 18 or earlier are closed.
    assert partly.value == {
        "number": 1, "record_topic": "t", "record_partition": 0, "record_offset": 1,
        "late_by_ms": 4, "first_missed_start_ms": 5, "first_missed_end_ms": 15,
        "last_missed_start_ms": 5, "last_missed_end_ms": 15,
    }  # fmt: skip
    assert late.value is not None
    assert late.value["late_by_ms"] == 9
    assert (late.timestamp_ms, late.value["last_missed_end_ms"]) == (9, 15)
    assert [dict(one.headers or ()) for one in (partly, late)] == [
        {"partly": b"true"}, {"partly": b"false"},
    ]  # fmt: skip
    starts = [one.window_start_ms for one in driver.window_store("s").all()]
    assert starts == [10, 15, 20]
    assert driver.counters("s") == Counters(input=3, applied=2, late=1, dropped=0, filtered=0)


def test_late_records_have_the_key_of_the_grouping_and_their_own_stream_time() -> None:
    """Later windows of late records are open, because only late records advance their time."""

    def define(builder: StreamsBuilder) -> None:
        by_number = builder.stream("t", _SCHEMA).group_by("number").windowed_by(tumbling(10, 0))
        late = by_number.late_records().group_by_key().windowed_by(tumbling(10, 0))
        late.count().materialize("late")

    driver = driver_of(define)
    times_ms = (100, 20, 23, 5)
    driver.pipe_input("t", [Record("a", {"number": 7}, ms) for ms in times_ms])
    (window,) = driver.window_store("late").all()
    assert (window.key, window.window_start_ms, window.value) == ("7", 20, {"count": 2})
    # The last late record is late again.
    counters = Counters(input=4, applied=2, late=1, dropped=0, filtered=1)
    assert driver.counters("late") == counters


def test_flattened_and_merged_records_are_late_by_their_own_partition() -> None:
    """Each element of a record is a row, and each merged topic has its own stream time."""
    builder = StreamsBuilder()
    words = builder.stream("lines", "words ARRAY<STRING>").flat_map_values(word="words")
    both = words.merge(builder.stream("words", "word STRING"))
    windowed = both.group_by("word").windowed_by(tumbling(10, 0)).late_to("out")
    windowed.count().materialize("s")
    driver = TopologyTestDriver(builder.build())
    reader = driver.create_output_topic("out")
    driver.pipe_input("words", Record(None, {"word": "c"}, 5))
    lines = [({"words": ["x"]}, 100), ({"words": ["a", "b", "a"]}, 5)]
    driver.pipe_input("lines", [Record(None, value, ms) for value, ms in lines])
    found = [(one.key, (one.value or {})["record_topic"]) for one in reader.read_records()]
    assert found == [("a", "lines"), ("b", "lines"), ("a", "lines")]
    assert driver.counters("s").elements_late == 3


@pytest.mark.parametrize(
    ("windows", "expected"),
    [(tumbling(10, 0), [2, 3, 5]), (sliding(10, 0), [3, 5]), (sessions(3, 0), [3, 5])],
)
def test_records_that_found_a_row_are_late_like_in_a_store(
    windows: Windows, expected: list[int]
) -> None:
    """After a join with a table, only records with a row advance the stream time."""
    builder = StreamsBuilder()
    users = builder.table("users", "city STRING")
    windowed = builder.stream("t", _SCHEMA).join(users).group_by("city").windowed_by(windows)
    windowed.late_to("out").count().materialize("s")
    driver = TopologyTestDriver(builder.build())
    reader = driver.create_output_topic("out")
    driver.pipe_input("users", [Record(key, {"city": "Rome"}, 0) for key in "ab"])
    records = (("a", 50), ("none", 900), ("b", 49), ("a", 30), ("b", 60), ("a", 44), ("a", 60))
    for number, (key, ms) in enumerate(records):
        driver.pipe_input("t", Record(key, {"number": number}, ms))
    late = [one.value for one in reader.read_records() if one.value]
    assert {one["city"] for one in late} == {"Rome"}
    offsets = [one["record_offset"] for one in late if not one["partly_late"]]
    assert offsets == expected
    assert driver.counters("s").late == len(expected)


@pytest.mark.parametrize("stream", [joined_pair, updates])
@pytest.mark.parametrize(
    ("step", "call"),
    [
        ("late_records", TimeWindowedKStream.late_records),
        ("late_to", lambda windowed: windowed.late_to("out")),
    ],
)
def test_streams_without_the_order_of_a_topic_are_rejected(
    stream: Callable[[StreamsBuilder], KStream],
    step: str,
    call: Callable[[TimeWindowedKStream], object],
) -> None:
    """The message names the call and the solution."""
    windowed = stream(StreamsBuilder()).group_by_key().windowed_by(tumbling(5, 0))
    with pytest.raises(InvalidTopology, match=rf"^{step}: .* or write the stream with to\(topic\)"):
        call(windowed)


def test_a_column_with_the_name_of_a_new_column_is_rejected() -> None:
    """The message names the store, the column and the solution."""

    def define(builder: StreamsBuilder) -> None:
        stream = builder.stream("t", "Late_By_ms INT").group_by_key()
        stream.windowed_by(tumbling(5, 0)).late_to("out")

    with pytest.raises(InvalidTopology, match=r"'Late_By_ms' of its own\. Rename .* map_values"):
        driver_of(define)
