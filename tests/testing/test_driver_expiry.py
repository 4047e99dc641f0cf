"""Expired keys equal a slow model under any cut into batches."""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from oriel import (
    StreamsBuilder,
    collect_list,
    count,
    sum,
)
from oriel.pipeline.language.tables import KTable, SourceTable
from oriel.testing import Counters, KeyValue, Record, TopologyTestDriver
from tests.campaigns import seeds

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
    model, left = _Model(case), [list(enumerate(log)) for log in case.logs]
    # A partition that begins later would begin at the stream time of the other one.
    for partition in range(len(left)):
        driver.pipe_input("t", [], partition)
    while any(left):
        for partition, log in enumerate(left):
            taken = chance.randint(0, min(len(log), chance.choice((1, 9, 40))))
            driver.pipe_input("t", [record for _, record in log[:taken]], partition)
            for offset, record in log[:taken]:
                model.apply(partition, offset, record)
            del log[:taken]
    assert driver.key_value_store("s").all() == model.rows
    if len(case.logs) == 1:
        assert reader.read_records() == model.emitted
    total = len([record for log in case.logs for record in log])
    counts = {name: model.counters[name] for name in ("applied", "late", "dropped")}
    assert driver.counters("s") == Counters(input=total, filtered=0, **counts)
