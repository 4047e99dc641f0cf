"""Distinct records equal a slow model under any cut into batches."""

import random
from collections import Counter
from dataclasses import dataclass

import pytest

from oriel import InvalidTopology, StreamsBuilder, TimeWindows
from oriel.pipeline.language import KStream
from oriel.testing import Counters, Record, TopologyTestDriver
from tests.campaigns import seeds
from tests.testing.driver_runs import driver_of
from tests.testing.random_cuts import random_cuts
from tests.testing.refused_streams import joined_pair, updates

_SCHEMA = "id STRING, number INT"


@dataclass(frozen=True)
class _Case:
    """One random case: the columns that are compared, the times, and the logs by partition."""

    by: tuple[str, ...]
    within_ms: int
    grace_ms: int
    logs: list[list[Record]]


def _case(seed: int) -> _Case:
    chance = random.Random(seed)
    values = [{"id": i, "number": n} for i in ("x", "y|", "y\\", None) for n in (1, None)]
    logs = []
    for step in chance.choices((0, 1, 3), k=chance.choice((1, 2))):
        times = [step * at + chance.randint(-12, 12) for at in range(chance.choice((0, 3, 40)))]
        keys_and_values = ((chance.choice("ab"), chance.choice([None, *values])) for _ in times)
        logs.append(
            [Record(*each, max(0, ms)) for each, ms in zip(keys_and_values, times, strict=True)]
        )
    by: tuple[str, ...] = chance.choice([(), ("id",), ("id", "number"), ("number",)])
    return _Case(by, chance.choice((0, 1, 5, 20)), chance.choice((0, 3, 20)), logs)


def _expected(case: _Case) -> tuple[list[Record], Counters]:
    """Return the distinct records, one record after the other, as the event deduplicator does."""
    distinct: list[Record] = []
    counters = Counter[str]()
    for log in case.logs:
        newest_ms, seen = -1, list[Record]()
        for record in log:
            newest_ms = max(newest_ms, record.timestamp_ms)
            if record.timestamp_ms < newest_ms - case.grace_ms:
                counters["late"] += 1
                continue
            near = (
                one for one in seen if abs(one.timestamp_ms - record.timestamp_ms) <= case.within_ms
            )
            if _compared(record, case.by) in [_compared(one, case.by) for one in near]:
                counters["filtered"] += 1
            else:
                counters["applied"] += 1
                distinct.append(record)
            seen.append(record)
    total = sum(map(len, case.logs))
    return distinct, Counters(
        input=total, applied=counters["applied"], late=counters["late"], dropped=0,
        filtered=counters["filtered"],
    )  # fmt: skip


def _compared(record: Record, by: tuple[str, ...]) -> tuple[object, ...]:
    return record.key, *((record.value or {}).get(column) for column in by)


def _sorted(records: list[Record]) -> list[Record]:
    return sorted(records, key=repr)


@seeds(40, 3_000)
def test_any_cut_has_the_distinct_records_of_the_model(seed: int) -> None:
    """Records and counters are those of the model, with one partition and with two."""
    case, chance = _case(seed), random.Random(seed + 1)
    builder = StreamsBuilder()
    stream = builder.stream("t", _SCHEMA)
    times = {"within_ms": case.within_ms, "grace_ms": case.grace_ms}
    distinct = stream.distinct(*case.by, **times).to("out")
    driver = TopologyTestDriver(builder.build())
    reader = driver.create_output_reader(distinct)
    for partition, records in random_cuts(case.logs, chance):
        driver.pipe_input("t", records, partition)
    records, counters = _expected(case)
    assert _sorted(reader.read_records()) == _sorted(records)
    assert driver.counters("to(out)") == counters


def test_windows_after_distinct_have_the_stream_time_of_distinct_records() -> None:
    """A duplicate does not advance the stream time of later windows, so they stay open."""

    def define(builder: StreamsBuilder) -> None:
        distinct = builder.stream("t", _SCHEMA).distinct("id", within_ms=100)
        windows = distinct.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10))
        windows.count().materialize("s")

    driver = driver_of(define)
    records = [Record("a", {"id": of, "number": 1}, ms) for of, ms in (("x", 5), ("x", 50))]
    driver.pipe_input("t", [*records, Record("a", {"id": "y", "number": 1}, 7)])
    (window,) = driver.window_store("s").all()
    assert (window.window_start_ms, window.value) == (0, {"count": 2})
    assert driver.counters("s") == Counters(input=3, applied=2, late=0, dropped=0, filtered=1)


def test_flattened_records_are_compared_in_their_order() -> None:
    """Each element is a record of its own, and the first one of an id continues."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", "words ARRAY<STRING>")
    words = lines.flat_map("word", word="words").distinct(within_ms=10)
    words.group_by_key().count().materialize("s")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("lines", [Record(None, {"words": ["a", "b", "a"]}, 1)])
    driver.pipe_input("lines", [Record(None, {"words": ["b", "c"]}, 11)])
    counts = {one.key: one.value["count"] for one in driver.key_value_store("s").all()}
    assert counts == {"a": 1, "b": 1, "c": 1}
    counters = driver.counters("s")
    assert (counters.elements, counters.elements_filtered) == (5, 2)


def test_a_distinct_stream_can_be_joined_merged_and_read_as_a_table() -> None:
    """Later steps read distinct records like records of a topic."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", "id STRING").distinct("id", within_ms=10)
    users = builder.table("users", "city STRING")
    joined = orders.join(users)
    merged = orders.merge(builder.stream("others", "id STRING"))
    newest = orders.to_table()
    joined.group_by_key().count().materialize("joined")
    merged.group_by_key().count().materialize("merged")
    newest.materialize("newest")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("users", Record("u", {"city": "Rome"}, 0))
    driver.pipe_input("orders", [Record("u", {"id": of}, ms) for of, ms in (("1", 0), ("1", 9))])
    driver.pipe_input("orders", [Record("u", {"id": of}, ms) for of, ms in (("2", 5), ("1", 19))])
    driver.pipe_input("others", Record("u", {"id": "1"}, 0))
    for store, number in (("joined", 2), ("merged", 3)):
        row = driver.key_value_store(store).get("u")
        assert row is not None
        assert row.value == {"count": number}
    row = driver.key_value_store("newest").get("u")
    assert row is not None
    assert row.value == {"id": "2"}


def _waiting(builder: StreamsBuilder) -> KStream:
    prices = builder.versioned_table("prices", "y INT", history_retention_ms=5)
    return builder.stream("a", "x INT").join(prices, grace_ms=5)


@pytest.mark.parametrize("stream", [joined_pair, updates, _waiting])
def test_streams_without_the_order_of_a_topic_are_rejected(stream: object) -> None:
    """The message says where to call distinct instead."""
    assert callable(stream)
    with pytest.raises(InvalidTopology, match=r"distinct: .* Call distinct before the join"):
        stream(StreamsBuilder()).distinct(within_ms=5)


def test_invalid_arguments_are_rejected_at_the_call() -> None:
    """Negative durations and columns that are not names have messages with the solution."""
    stream = StreamsBuilder().stream("t", _SCHEMA)
    with pytest.raises(InvalidTopology, match="within_ms must not be negative"):
        stream.distinct(within_ms=-1)
    with pytest.raises(InvalidTopology, match="grace_ms must not be negative"):
        stream.distinct(within_ms=1, grace_ms=-1)
    with pytest.raises(InvalidTopology, match="pass names of columns, not 5"):
        stream.distinct(5, within_ms=1)  # type: ignore[arg-type]


def test_an_unknown_column_is_named() -> None:
    """The message names the store and the columns that exist."""

    def define(builder: StreamsBuilder) -> None:
        stream = builder.stream("t", _SCHEMA).distinct("order", within_ms=5)
        stream.group_by_key().count().materialize("s")

    with pytest.raises(InvalidTopology, match=r"no column 'order'\. The columns are id, number"):
        driver_of(define)
