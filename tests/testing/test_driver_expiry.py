"""Expired keys equal a slow model under any cut into batches."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from oriel import (
    IllegalArgument,
    InvalidTopology,
    JoinWindows,
    StreamsBuilder,
    TimeWindows,
    collect_list,
    count,
    sum,
)
from oriel.pipeline.language.tables import KTable, SourceTable
from oriel.testing import Counters, KeyValue, Record, TopologyTestDriver
from tests.campaigns import seeds
from tests.testing.random_cuts import random_cuts

_SCHEMA = "n INT, s STRING"

Value = dict[str, Any]


@dataclass(frozen=True)
class _Case:
    """One random case: the kind of rows, the time to live, and the logs by partition."""

    kind: str
    ttl_ms: int
    logs: list[list[Record]]


def _case(seed: int) -> _Case:
    chance = random.Random(seed)
    kind = chance.choice(("count", "functions", "table"))
    logs = []
    for step in chance.choices((0, 1, 4, 20), k=chance.choice((1, 1, 2))):
        times = [step * at + chance.randint(-15, 15) for at in range(chance.choice((0, 3, 40)))]
        values = [{"n": 1, "s": "x"}, {"n": 2, "s": "y"}, {"n": 5, "s": "z"}, None]
        logs.append([
            Record(chance.choice("abc"), chance.choice(values), max(0, ms)) for ms in times
        ])  # fmt: skip
    return _Case(kind, chance.choice((1, 5, 20, 60)), logs)


def _defined(builder: StreamsBuilder, kind: str, ttl_ms: int | None) -> KTable | SourceTable:
    if kind == "table":
        return builder.table("t", _SCHEMA).materialize("s", ttl_ms=ttl_ms)
    grouped = builder.stream("t", _SCHEMA).group_by_key()
    if kind == "count":
        rows = grouped.aggregate(c=count(), total=sum("n"), ns=collect_list("n"))
    else:
        rows = grouped.reduce(lambda old, new: {"n": new["n"], "s": old["s"] + new["s"]})
    return rows.materialize("s", ttl_ms=ttl_ms)


@dataclass
class _Share:
    """What the model knows of a key in one partition."""

    newest_ms: int
    offset: int
    records: list[Record] = field(default_factory=list)


class _Model:
    """Applies records one by one."""

    def __init__(self, case: _Case) -> None:
        self.case = case
        self.shares: list[dict[str, _Share]] = [{} for _ in case.logs]
        self.stream_time_ms = [-1 for _ in case.logs]
        self.emitted: list[Record] = []
        self.counters = Counter[str]()

    def apply(self, partition: int, offset: int, record: Record) -> None:
        of_table, ttl_ms, own = self.case.kind == "table", self.case.ttl_ms, self.shares[partition]
        assert record.key is not None
        if record.value is None and not of_table:
            self.counters["dropped"] += 1
            return
        self.stream_time_ms[partition] = max(self.stream_time_ms[partition], record.timestamp_ms)
        now_ms = self.stream_time_ms[partition]
        expired = [key for key, one in own.items() if one.newest_ms + ttl_ms < now_ms]
        for key in sorted(expired, key=lambda key: (own[key].newest_ms, own[key].offset)):
            removed = own.pop(key)
            self.emit(key, removed.newest_ms + ttl_ms + 1)
        if record.timestamp_ms < now_ms - ttl_ms:
            self.counters["late"] += 1
            return
        self.counters["applied"] += 1
        if record.value is None:
            own.pop(record.key, None)
            self.emitted.append(record)
            return
        share = own.setdefault(record.key, _Share(-1, offset))
        if of_table:
            share.records, share.newest_ms = [], -1
        share.records.append(record)
        share.newest_ms = max(share.newest_ms, record.timestamp_ms)
        share.offset = offset
        self.emit(record.key, record.timestamp_ms)

    def emit(self, key: str, removed_ms: int) -> None:
        row = self.row(key)
        if row is None:
            self.emitted.append(Record(key, None, removed_ms))
        else:
            self.emitted.append(Record(key, row.value, row.timestamp_ms))

    def row(self, key: str) -> KeyValue | None:
        shares = [of_key[key] for of_key in self.shares if key in of_key]
        if not shares:
            return None
        newest_ms = max(share.newest_ms for share in shares)
        ns = [share.records for share in shares]
        if self.case.kind == "table":
            # The greatest (time, partition) counts.
            value = max(enumerate(shares), key=lambda one: (one[1].newest_ms, one[0]))[1].records[0]
            assert value.value is not None
            return KeyValue(key, dict(value.value), newest_ms)
        if self.case.kind == "functions":
            values = [one.value or {} for share in ns for one in share]
            text = "".join(value["s"] for value in values)
            return KeyValue(key, {"n": values[-1]["n"], "s": text}, newest_ms)
        in_time = sorted(
            (one.timestamp_ms, number, at, (one.value or {})["n"])
            for number, of_key in enumerate(self.shares)
            if key in of_key
            for at, one in enumerate(of_key[key].records)
        )
        listed = [n for *_, n in in_time]
        return KeyValue(key, {"c": len(listed), "total": _added(listed), "ns": listed}, newest_ms)

    @property
    def rows(self) -> list[KeyValue]:
        keys = sorted({key for own in self.shares for key in own})
        return [row for row in map(self.row, keys) if row is not None]


def _added(numbers: list[int]) -> int:
    total = 0
    for number in numbers:
        total += number
    return total


@seeds(60, 3_000)
def test_any_cut_has_the_rows_and_removals_of_the_model(seed: int) -> None:
    """Rows, updates, removals, their times and the counters are those of the model."""
    case, chance = _case(seed), random.Random(seed + 1)
    builder = StreamsBuilder()
    table = _defined(builder, case.kind, case.ttl_ms)
    updates = table.to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    reader = driver.create_output_reader(updates)
    model, logs = _Model(case), [list(enumerate(log)) for log in case.logs]
    for partition, records in random_cuts(logs, chance, lambda: chance.choice((1, 9, 40))):
        driver.pipe_input("t", [record for _, record in records], partition)
        for offset, record in records:
            model.apply(partition, offset, record)
    assert driver.key_value_store("s").all() == model.rows
    if len(case.logs) == 1:
        assert reader.read_records() == model.emitted
    total = len([record for log in case.logs for record in log])
    counts = {name: model.counters[name] for name in ("applied", "late", "dropped")}
    assert driver.counters("s") == Counters(input=total, filtered=0, **counts)


def _rows(driver: TopologyTestDriver, store: str) -> dict[str, Any]:
    return {row.key: row.value for row in driver.key_value_store(store).all()}


def test_a_removal_reaches_groups_joins_and_windows() -> None:
    """A group subtracts the row, joins lose it, and a window of updates is not late for it."""
    builder = StreamsBuilder()
    users = builder.table("users", "city STRING").materialize("users", ttl_ms=100)
    users.group_by("city").count().materialize("by_city")
    builder.table("names", "name STRING").left_join(users).materialize("named")
    orders = builder.stream("orders", "id STRING")
    orders.left_join(users).map_values("id", "city").to_table().materialize("orders")
    windows = TimeWindows.of_size_with_no_grace(101)
    flags = users.to_stream().map_values(gone="city IS NULL", of="coalesce(city, '-')")
    flags.group_by_key().windowed_by(windows).aggregate(n=count()).materialize("updates")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("names", [Record("u", {"name": "Uma"}, 0), Record("v", {"name": "V"}, 0)])
    driver.pipe_input("users", [Record("u", {"city": "Rome"}, 0), Record("v", {"city": "Rome"}, 9)])
    driver.pipe_input("orders", Record("u", {"id": "1"}, 0))
    assert _rows(driver, "by_city") == {"Rome": {"count": 2}}
    assert _rows(driver, "orders") == {"u": {"id": "1", "city": "Rome"}}
    driver.pipe_input("users", Record("w", {"city": "Oslo"}, 101))
    assert _rows(driver, "by_city") == {"Oslo": {"count": 1}, "Rome": {"count": 1}}
    assert _rows(driver, "named") == {
        "u": {"name": "Uma", "city": None}, "v": {"name": "V", "city": "Rome"},
    }  # fmt: skip
    driver.pipe_input("orders", Record("u", {"id": "2"}, 0))
    assert _rows(driver, "orders") == {"u": {"id": "2", "city": None}}
    starts = [(one.key, one.window_start_ms) for one in driver.window_store("updates").all()]
    assert starts == [("u", 0), ("u", 101), ("v", 0), ("w", 101)]


def test_a_filtered_row_expires_once() -> None:
    """A filter after the aggregation sees a removal only if it kept the row before."""
    builder = StreamsBuilder()
    counted = builder.stream("t", _SCHEMA).group_by_key().count().filter("count > 1")
    updates = counted.map_values(twice="count * 2").materialize("s", ttl_ms=10).to_stream()
    sink = updates.to("out")
    driver = TopologyTestDriver(builder.build())
    reader = driver.create_output_reader(sink)
    value = {"n": 1, "s": "x"}
    driver.pipe_input("t", [Record("a", value, 0), Record("a", value, 1), Record("b", value, 2)])
    assert _rows(driver, "s") == {"a": {"twice": 4}}
    driver.pipe_input("t", Record("c", value, 50))
    assert _rows(driver, "s") == {}
    assert reader.read_records() == [Record("a", {"twice": 4}, 1), Record("a", None, 12)]


@pytest.mark.parametrize(
    ("ttl_ms", "age_ms", "is_removed"), [(10, 10, False), (10, 11, True), (1, 2, True)]
)
def test_a_key_expires_when_it_is_older_than_the_ttl(
    ttl_ms: int, age_ms: int, *, is_removed: bool
) -> None:
    """A key that is exactly as old as ``ttl_ms`` stays."""
    builder = StreamsBuilder()
    _defined(builder, "table", ttl_ms)
    driver = TopologyTestDriver(builder.build())
    value = {"n": 1, "s": "x"}
    driver.pipe_input("t", [Record("a", value, 5), Record("b", value, 5 + age_ms)])
    assert ("a" not in _rows(driver, "s")) == is_removed


def test_a_row_that_a_function_deleted_does_not_expire() -> None:
    """The updates have one null value for the deletion by the function, and none later."""

    def kept(_key: str, value: Value, _row: int | None) -> int | None:
        return None if value["n"] == 2 else value["n"]

    builder = StreamsBuilder()
    grouped = builder.stream("t", _SCHEMA).group_by_key()
    table = grouped.aggregate(lambda: 0, kept, lambda _key, left, _right: left, "v INT")
    sink = table.materialize("s", ttl_ms=10).to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    reader = driver.create_output_reader(sink)
    numbers = [("a", 1, 0), ("a", 2, 1), ("b", 1, 50)]
    driver.pipe_input("t", [Record(key, {"n": n, "s": "x"}, ms) for key, n, ms in numbers])
    assert reader.read_records() == [
        Record("a", {"v": 1}, 0), Record("a", None, 1), Record("b", {"v": 1}, 50),
    ]  # fmt: skip


def _merged(builder: StreamsBuilder) -> KTable:
    other = builder.stream("other", _SCHEMA)
    return builder.stream("t", _SCHEMA).merge(other).group_by_key().count()


def _joined_stream(builder: StreamsBuilder) -> KTable:
    within = JoinWindows.of_time_difference_with_no_grace(5)
    both = builder.stream("t", _SCHEMA).join(builder.stream("other", "x INT"), within)
    return both.group_by_key().count()


def _updates(builder: StreamsBuilder) -> KTable:
    return builder.stream("t", _SCHEMA).group_by_key().count().to_stream().group_by_key().count()


def _groups(builder: StreamsBuilder) -> KTable:
    return builder.table("t", _SCHEMA).group_by("n").count()


def _windows(builder: StreamsBuilder) -> KTable:
    windows = TimeWindows.of_size_with_no_grace(5)
    return builder.stream("t", _SCHEMA).group_by_key().windowed_by(windows).count()


def _joined_tables(builder: StreamsBuilder) -> SourceTable:
    return builder.table("t", _SCHEMA).join(builder.table("other", "x INT"))


@pytest.mark.parametrize(
    ("rows", "solution"),
    [
        (_merged, "2 inputs.* to one topic with to"),
        (_joined_stream, "write the stream to a topic"),
        (_updates, "Set ttl_ms where the table that it reads is materialized"),
        (_groups, "Set ttl_ms where the table that it reads is materialized"),
        (_windows, "Omit ttl_ms, and use retention_ms"),
        (_joined_tables, "Set ttl_ms where the table"),
    ],
)
def test_rows_that_cannot_expire_are_rejected(
    rows: Callable[[StreamsBuilder], KTable | SourceTable], solution: str
) -> None:
    """The message names the store and what to do instead."""
    with pytest.raises(InvalidTopology, match=f"ttl_ms of the store 's'.*{solution}"):
        rows(StreamsBuilder()).materialize("s", ttl_ms=5)


def test_an_invalid_ttl_is_rejected() -> None:
    """It is a positive integer or a ``timedelta``."""
    table = StreamsBuilder().table("t", _SCHEMA)
    with pytest.raises(InvalidTopology, match="must be at least 1 ms, not 0 ms"):
        table.materialize("s", ttl_ms=0)
    with pytest.raises(IllegalArgument, match="ttl_ms of the store 's'"):
        table.materialize("s", ttl_ms=1.5)  # type: ignore[arg-type]
    with pytest.raises(IllegalArgument, match="must not exceed"):
        table.materialize("s", ttl_ms=2**62)


def test_a_foreign_key_of_an_expiring_table_is_rejected() -> None:
    """The message says to write the table to a topic."""
    builder = StreamsBuilder()
    orders = builder.table("orders", "user STRING")
    users = builder.table("users", "name STRING").materialize("users", ttl_ms=5)
    with pytest.raises(InvalidTopology, match="a table with ttl_ms cannot be joined by a foreign"):
        orders.join(users, foreign_key="user")


def _read_by_others(ttl_ms: int) -> tuple[TopologyTestDriver, Callable[[], list[Record]]]:
    """Return a driver of stores that read an expiring table, and the updates of a group."""
    builder = StreamsBuilder()
    table = builder.table("t", _SCHEMA).materialize("rows", ttl_ms=ttl_ms)
    groups = table.group_by("n").aggregate(
        lambda: "", lambda _k, value, text: text + value["s"],
        subtractor=lambda _k, value, text: text.replace(value["s"], "", 1), schema="all STRING",
        merger=lambda _k, left, right: left + right,
    ).materialize("groups")  # fmt: skip
    other = builder.stream("t", _SCHEMA).group_by_key().aggregate(c=count())
    table.outer_join(other.materialize("counts", ttl_ms=2 * ttl_ms)).materialize("joined")
    sink = groups.to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    return driver, driver.create_output_reader(sink).read_records


@seeds(10, 500)
def test_later_stores_are_the_same_for_any_cut(seed: int) -> None:
    """A group, its updates and a join have the rows of a run with one record per batch."""
    case, chance = _case(seed), random.Random(seed)
    log = case.logs[0]
    one_by_one, updates_one_by_one = _read_by_others(case.ttl_ms)
    cut, updates_of_cut = _read_by_others(case.ttl_ms)
    for record in log:
        one_by_one.pipe_input("t", record)
    while log:
        taken = chance.randint(1, 9)
        cut.pipe_input("t", log[:taken])
        log = log[taken:]
    for store in ("rows", "groups", "counts", "joined"):
        assert cut.key_value_store(store).all() == one_by_one.key_value_store(store).all()
    assert updates_of_cut() == updates_one_by_one()


def test_flattened_distinct_and_enriched_records_expire() -> None:
    """The stream time is the one of the last step before the aggregation."""
    builder = StreamsBuilder()
    names = builder.table("names", "name STRING")
    lines = builder.stream("lines", "words ARRAY<STRING>")
    words = lines.distinct(within_ms=5).flat_map("word", word="words").left_join(names)
    words.group_by_key().aggregate(c=count(), names=collect_list("name")).materialize(
        "s", ttl_ms=10
    )
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("names", Record("x", {"name": "X"}, 1000))
    piped = [(["x", "y"], 1), (["z"], 3), (["y", "y"], 11), (["z"], 13)]
    driver.pipe_input("lines", [Record("a", {"words": of}, ms) for of, ms in piped])
    rows = {
        row.key: (row.value["c"], row.timestamp_ms) for row in driver.key_value_store("s").all()
    }
    assert rows == {"x": (1, 1), "y": (3, 11)}
    driver.pipe_input("lines", Record("b", {"words": ["x", "x", "z"]}, 21))
    assert _rows(driver, "s") == {
        "x": {"c": 2, "names": ["X", "X"]}, "y": {"c": 3, "names": []}, "z": {"c": 1, "names": []},
    }  # fmt: skip
    driver.pipe_input("lines", Record("b", {"words": ["w"]}, 40))
    assert _rows(driver, "s") == {"w": {"c": 1, "names": []}}
