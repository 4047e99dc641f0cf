"""Rows of process equal a slow model under any cut into batches."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from oriel import ProcessContext, StreamsBuilder
from oriel.testing import Counters, Record, TopologyTestDriver
from tests.campaigns import seeds

_SCHEMA = "v INT, after BIGINT"
_ROW = "kind STRING, n BIGINT"


def _on_record(key: str, value: Any, context: ProcessContext) -> Iterator[dict[str, Any]]:
    """Add values, emit some rows, set and delete timers, and raise for 7."""
    if value is None:
        context.state = None
        return
    n = (context.state["n"] if context.state else 0) + value["v"]
    context.state = {"n": n}
    for _ in range(value["v"] % 3):
        yield {"kind": f"record {key}", "n": n}
    if value["after"] is not None:
        context.set_timer(max(0, context.timestamp_ms + value["after"]))
    if value["v"] == 4 and context.timers:
        context.delete_timer(context.timers[0])
    if value["v"] == 7:
        message = "seven"
        raise ValueError(message)


def _on_timer(key: str, context: ProcessContext) -> dict[str, Any]:
    """Add 100, raise for some sums, and set another timer for some."""
    n = (context.state["n"] if context.state else 0) + 100
    context.state = {"n": n} if n % 4 else None
    if n % 2:
        context.set_timer(context.timestamp_ms + 7 if n < 500 else context.timestamp_ms + 100_000)
    if n % 5 == 0:
        message = "five"
        raise ValueError(message)
    return {"kind": f"timer {key}", "n": n}


@dataclass
class _Key:
    n: int | None = None
    timers: set[int] = field(default_factory=set)


@dataclass
class _Model:
    """The calls of one partition, record by record. It checks all keys after each record."""

    keys: dict[str, _Key] = field(default_factory=dict)
    stream_time: int = -1
    rows: list[Record] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)

    def advance(self, record: Record) -> None:
        reached = max(self.stream_time, record.timestamp_ms)
        # Stream time passes every millisecond, and timers of all keys fire at theirs.
        for now in range(self.stream_time + 1, reached + 1):
            for key, one in self.keys.items():
                if now in one.timers:
                    self._timer(key, one, now)
        self.stream_time = reached
        self._record(record)

    def _record(self, record: Record) -> None:
        assert record.key is not None
        one = self.keys.setdefault(record.key, _Key())
        # The last record of the key decides the order of its timers among other keys.
        self.keys[record.key] = self.keys.pop(record.key)
        if record.value is None:
            one.n = None
            return
        v, after = record.value["v"], record.value["after"]
        if v == 7:
            self.counters["dead"] += 1
            return
        one.n = (one.n or 0) + v
        row = {"kind": f"record {record.key}", "n": one.n}
        self.rows += [Record(record.key, row, record.timestamp_ms)] * (v % 3)
        if after is not None:
            one.timers.add(max(0, record.timestamp_ms + after))
        if v == 4 and one.timers:
            one.timers.remove(min(one.timers))
        while one.timers and min(one.timers) <= self.stream_time:
            self._timer(record.key, one, min(one.timers))

    def _timer(self, key: str, one: _Key, now: int) -> None:
        one.timers.remove(now)
        n = (one.n or 0) + 100
        if n % 5 == 0:
            self.counters["dead timers"] += 1
            return
        one.n = n if n % 4 else None
        if n % 2:
            one.timers.add(now + 7 if n < 500 else now + 100_000)
        self.rows.append(Record(key, {"kind": f"timer {key}", "n": n}, now))


def _log(chance: random.Random) -> list[Record]:
    step, length = chance.choice((0, 1, 3, 40)), chance.choice((0, 3, 40))
    delays = (None, -5, 0, 3, 10, 60)
    values = [None, *({"v": v, "after": after} for v in range(8) for after in delays)]
    times = [max(0, step * at + chance.randint(-12, 12)) for at in range(length)]
    return [Record(chance.choice("abc"), chance.choice(values), ms) for ms in times]


def _driver() -> tuple[TopologyTestDriver, Any]:
    builder = StreamsBuilder()
    stream = builder.stream("t", _SCHEMA)
    processed = stream.process(_on_record, _ROW, state="n BIGINT", on_timer=_on_timer).to("out")
    driver = TopologyTestDriver(builder.build(), collect_function_errors=True)
    return driver, driver.create_output_reader(processed)


@seeds(40, 3_000)
def test_any_cut_has_the_rows_of_the_model(seed: int) -> None:
    """Rows, their order and the counters are those of a run record by record."""
    chance = random.Random(seed)
    logs = [_log(chance) for _ in range(chance.choice((1, 1, 2)))]
    driver, reader = _driver()
    left = [list(log) for log in logs]
    # A partition that begins later would begin at the stream time of the other one.
    for partition in range(len(left)):
        driver.pipe_input("t", [], partition)
    while any(left):
        for partition, log in enumerate(left):
            taken = chance.randint(0, min(len(log), 9))
            driver.pipe_input("t", log[:taken], partition)
            del log[:taken]
    models = [_Model() for _ in logs]
    for model, log in zip(models, logs, strict=True):
        for record in log:
            model.advance(record)
    found = reader.read_records()
    if len(logs) == 1:
        assert found == models[0].rows
    else:
        expected = [row for model in models for row in model.rows]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
    dead = sum(model.counters["dead"] for model in models)
    total = sum(map(len, logs))
    timers = sum(model.counters["dead timers"] for model in models)
    assert driver.counters("to(out)") == Counters(
        input=total, applied=total - dead, late=0, dropped=dead, filtered=0, dropped_results=timers
    )
