"""Rows of process equal a slow model under any cut into batches."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from oriel import (
    IllegalArgument,
    InvalidTopology,
    JoinWindows,
    ProcessContext,
    StreamsBuilder,
    TimeWindows,
    collect_list,
)
from oriel.pipeline.language import KStream
from oriel.testing import Counters, Record, TopologyTestDriver
from tests.campaigns import seeds
from tests.testing.random_cuts import random_cuts
from tests.testing.refused_streams import joined_pair, updates

_SCHEMA = "v INT, after BIGINT"
_ROW = "kind STRING, n BIGINT"
#: The windows after process.
_SIZE_MS, _GRACE_MS = 10, 3


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

    def windows(self) -> tuple[Counter[tuple[str, int]], int]:
        """Return the numbers of rows by key and window start, and of late rows."""
        counts, late, newest_ms = Counter[tuple[str, int]](), 0, -1
        for row in self.rows:
            newest_ms = max(newest_ms, row.timestamp_ms)
            start_ms = row.timestamp_ms - row.timestamp_ms % _SIZE_MS
            if start_ms + _SIZE_MS + _GRACE_MS <= newest_ms:
                late += 1
            else:
                assert row.key is not None
                counts[row.key, start_ms] += 1
        return counts, late

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
    processed = stream.process(_on_record, _ROW, state="n BIGINT", on_timer=_on_timer)
    windows = TimeWindows.of_size_and_grace(_SIZE_MS, _GRACE_MS)
    processed.group_by_key().windowed_by(windows).count().materialize("windows")
    processed.to("out")
    driver = TopologyTestDriver(builder.build(), collect_function_errors=True)
    return driver, driver.create_output_reader(processed)


@seeds(40, 3_000)
def test_any_cut_has_the_rows_of_the_model(seed: int) -> None:
    """Rows, their order and the counters are those of a run record by record."""
    chance = random.Random(seed)
    logs = [_log(chance) for _ in range(chance.choice((1, 1, 2)))]
    driver, reader = _driver()
    for partition, records in random_cuts(logs, chance):
        driver.pipe_input("t", records, partition)
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
    counts, late = Counter[tuple[str, int]](), 0
    for of_model, late_of_model in (model.windows() for model in models):
        counts += of_model
        late += late_of_model
    rows = driver.window_store("windows").all()
    assert {(one.key, one.window_start_ms): one.value["count"] for one in rows} == counts
    assert driver.counters("windows").late_results == late
    dead = sum(model.counters["dead"] for model in models)
    total = sum(map(len, logs))
    timers = sum(model.counters["dead timers"] for model in models)
    assert driver.counters("to(out)") == Counters(
        input=total, applied=total - dead, late=0, dropped=dead, filtered=0, dropped_results=timers
    )


def _idle(_key: str, value: Any, context: ProcessContext) -> None:
    """Set a timer 10 ms after the last record of a key."""
    del value
    for time_ms in context.timers:
        context.delete_timer(time_ms)
    context.set_timer(context.timestamp_ms + 10)


def _ended(_key: str, context: ProcessContext) -> dict[str, Any]:
    """Emit the end of a visit."""
    return {"ended": context.timestamp_ms, "at": context.stream_time_ms}


_ENDED = "ended BIGINT, at BIGINT"


@pytest.mark.parametrize("cut", [(3,), (1, 2, 3), (2, 3), (1, 3)])
def test_a_timer_fires_before_the_record_that_advances_stream_time(cut: tuple[int, ...]) -> None:
    """The record of a at 100 begins another visit, although it advances stream time itself."""
    builder = StreamsBuilder()
    ended = builder.stream("t", _SCHEMA).process(_idle, _ENDED, on_timer=_ended).to("out")
    driver = TopologyTestDriver(builder.build())
    reader = driver.create_output_reader(ended)
    value = {"v": 1, "after": None}
    log = [Record("b", value, 4), Record("a", value, 1), Record("a", value, 100)]
    for begin, end in pairwise((0, *cut)):
        driver.pipe_input("t", log[begin:end])
    assert reader.read_records() == [
        Record("a", {"ended": 11, "at": 11}, 11), Record("b", {"ended": 14, "at": 14}, 14)
    ]  # fmt: skip


@pytest.mark.parametrize("cut", [(4,), (1, 2, 3, 4), (2, 4), (3, 4)])
def test_windows_after_process_have_the_stream_time_of_its_rows(cut: tuple[int, ...]) -> None:
    """A timer has a row for a window that its own time has not closed, whatever the batches."""
    builder = StreamsBuilder()
    ended = builder.stream("t", _SCHEMA).process(_idle, _ENDED, on_timer=_ended)
    windows = ended.select_key("'all'").group_by_key().windowed_by(
        TimeWindows.of_size_with_no_grace(10)
    )  # fmt: skip
    windows.aggregate(ended=collect_list("ended")).materialize("s")
    driver = TopologyTestDriver(builder.build())
    value = {"v": 1, "after": None}
    # The timers of b and c are at 15 and 12. The record of d advances stream time to 90.
    log = [Record(key, value, ms) for key, ms in (("b", 5), ("c", 2), ("d", 80), ("d", 90))]
    for begin, end in pairwise((0, *cut)):
        driver.pipe_input("t", log[begin:end])
    found = [(each.window_start_ms, each.value) for each in driver.window_store("s").all()]
    assert found == [(10, {"ended": [12, 15]}), (90, {"ended": [90]})]
    assert driver.counters("s") == Counters(input=4, applied=4, late=0, dropped=0, filtered=0)


def test_elements_of_flattened_records_and_other_keys_have_their_own_state() -> None:
    """Each element is a record, and all steps before and after are those of a stream."""

    def numbered(key: str, value: Any, context: ProcessContext) -> dict[str, Any]:
        n = 1 + (context.state["n"] if context.state else 0)
        context.state = {"n": n}
        return {"word": f"{key}{value['user']}", "n": n}

    builder = StreamsBuilder()
    lines = builder.stream("lines", "words ARRAY<STRING>, user STRING")
    words = lines.flat_map("word", "user", word="words").distinct("user", within_ms=0)
    ages = builder.table("ages", "age INT")
    counted = words.process(numbered, "word STRING, n INT", state="n INT")
    joined = counted.filter("n > 1").select_key("word").join(ages).to("out")
    counted.group_by_key().reduce(lambda _old, new: new).materialize("s")
    driver = TopologyTestDriver(builder.build())
    reader = driver.create_output_reader(joined)
    driver.pipe_input("ages", Record("ay", {"age": 5}, 0))
    lines_in = [(["a", "b", "a"], "x", 1), (["a", "c"], "y", 1), (["b"], "z", 2)]
    driver.pipe_input(
        "lines", [Record(None, {"words": of, "user": user}, ms) for of, user, ms in lines_in]
    )
    assert reader.read_records() == [Record("ay", {"word": "ay", "n": 2, "age": 5}, 1)]
    newest = {row.key: row.value for row in driver.key_value_store("s").all()}
    assert newest == {
        "a": {"word": "ay", "n": 2}, "b": {"word": "bz", "n": 2}, "c": {"word": "cy", "n": 1}
    }  # fmt: skip
    counters = driver.counters("s")
    assert (counters.applied, counters.elements, counters.elements_filtered) == (3, 6, 1)


def _key_and_value(_key: str, _value: Any) -> None:
    """Accept no context."""


def test_rows_find_the_rows_of_tables_and_records_of_streams() -> None:
    """Rows of process are joined like records, also with versions of their own times."""
    builder = StreamsBuilder()
    ended = builder.stream("t", _SCHEMA).process(_idle, _ENDED, on_timer=_ended)
    prices = builder.versioned_table("prices", "price INT", history_retention_ms=100)
    within = JoinWindows.of_time_difference_with_no_grace(1)
    joins = {
        "now": ended.join(prices),
        "waits": ended.join(prices, grace_ms=5),
        "near": ended.join(builder.stream("others", "other INT"), within),
        "all": ended.merge(ended.filter("ended > 11")),
    }
    for name, stream in joins.items():
        stream.group_by_key().aggregate(at=collect_list("ended")).materialize(name)
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("prices", [Record("a", {"price": n}, ms) for n, ms in ((1, 0), (2, 12))])
    value = {"v": 1, "after": None}
    driver.pipe_input("others", Record("a", {"other": 1}, 12))
    driver.pipe_input("t", [Record("a", value, ms) for ms in (1, 20, 40, 60)])
    found = {name: driver.key_value_store(name).all()[0].value["at"] for name in joins}
    assert found == {
        "now": [11, 30, 50], "waits": [11, 30], "near": [11], "all": [11, 30, 30, 50, 50]
    }  # fmt: skip


def _row_of(row: Any, state: Any = None, timer: Any = None) -> Any:
    def function(_key: str, _value: Any, context: ProcessContext) -> Any:
        context.state = state
        if timer is not None:
            context.set_timer(timer)
        return row

    return function


@pytest.mark.parametrize(
    ("function", "arguments", "error"),
    [
        (_row_of({"n": "x"}), {}, r"TypeError: row.n: 'x' is not of type int64"),
        (_row_of({}), {}, r"row: .* needs 'n' \(use None for null\)"),
        (_row_of([None]), {}, "TypeError: a row must be a dict of columns, not None"),
        (_row_of({"n": 1, "m": 2}), {}, "has no field 'm'"),
        (_row_of(5), {}, "TypeError: 'int' object is not iterable"),
        (_row_of(None, {"n": 1}), {}, "the key has no state. Pass state= to process"),
        (_row_of(None, {"m": 1}), {"state": "n INT"}, "state: .* has no field 'm'"),
        (_row_of(None, {"n": 2**31}), {"state": "n INT"}, "state.n: 2147483648 does not fit"),
        (_row_of(None, timer=5), {}, "set_timer: no function receives the timer"),
        (_row_of(None, timer=5.0), {"on_timer": _ended}, "must be an integer in ms, not 5.0"),
        (_row_of(None, timer=-1), {"on_timer": _ended}, "must be from 0 to 253402300799999 ms"),
    ],
)
def test_a_wrong_result_is_a_dead_letter(function: Any, arguments: Any, error: str) -> None:
    """The reason names the step, the column and the value, and the state does not change."""
    builder = StreamsBuilder()
    builder.stream("t", _SCHEMA).process(function, "n BIGINT", **arguments).to("out")
    driver = TopologyTestDriver(builder.build(), collect_function_errors=True)
    driver.pipe_input("t", Record("a", {"v": 1, "after": 1}, 1))
    (letter,) = driver.dead_letters("to(out)")
    assert re.search(f"^store 'to\\(out\\)', process: .*{error}", letter["detail"]), letter[
        "detail"
    ]
    assert (letter["store"], letter["reason"], letter["offset"]) == (
        "to(out)",
        "function-raised",
        0,
    )
    counters = driver.counters("to(out)")
    assert (counters.applied, counters.dropped, counters.dropped_results) == (0, 1, 0)


def test_a_timer_that_raises_is_a_dead_letter_of_the_last_record_of_its_key() -> None:
    """The timer is deleted, and the state of the key is unchanged."""

    def on_timer(_key: str, context: ProcessContext) -> None:
        context.state = None
        context.set_timer(context.timestamp_ms)

    def on_record(_key: str, value: Any, context: ProcessContext) -> dict[str, Any]:
        before = context.state or {"n": 0}
        context.state = {"n": before["n"] + value["v"]}
        context.set_timer(context.timestamp_ms + 10)
        return context.state

    builder = StreamsBuilder()
    stream = builder.stream("t", _SCHEMA)
    processed = stream.process(on_record, "n BIGINT", state="n BIGINT", on_timer=on_timer).to("out")
    driver = TopologyTestDriver(builder.build(), collect_function_errors=True)
    reader = driver.create_output_reader(processed)
    driver.pipe_input("t", [Record("a", {"v": n, "after": 1}, ms) for n, ms in ((1, 0), (2, 20))])
    (letter,) = driver.dead_letters("to(out)")
    assert (letter["offset"], letter["reason"]) == (0, "function-raised")
    assert re.search(r"process, timer at 10: .*from 11 to .* ms, not 10", letter["detail"])
    assert [one.value for one in reader.read_records()] == [{"n": 1}, {"n": 3}]
    counters = driver.counters("to(out)")
    assert (counters.applied, counters.dropped, counters.dropped_results) == (2, 0, 1)


def test_a_function_without_error_collection_raises_in_a_test() -> None:
    """As for aggregators, a test that does not collect errors ends with the error."""
    builder = StreamsBuilder()
    builder.stream("t", _SCHEMA).process(_row_of(5), "n BIGINT").to("out")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(Exception, match="'int' object is not iterable"):
        driver.pipe_input("t", Record("a", {"v": 1, "after": 1}, 1))


def _merged(builder: StreamsBuilder) -> KStream:
    return builder.stream("a", "x INT").merge(builder.stream("b", "x INT"))


def _processed(builder: StreamsBuilder) -> KStream:
    return builder.stream("a", "x INT").process(_row_of(None), "n BIGINT")


@pytest.mark.parametrize("stream", [joined_pair, updates, _merged, _processed])
def test_streams_without_the_order_of_a_topic_are_rejected(stream: Any) -> None:
    """The message has the calls to write instead."""
    with pytest.raises(InvalidTopology, match=r"process: .* with to\(topic\) and read this topic"):
        stream(StreamsBuilder()).process(_row_of(None), "n BIGINT")


def test_rows_have_no_order_for_a_table() -> None:
    """The message says how to read them as a table."""
    with pytest.raises(InvalidTopology, match=r"to_table: rows of process, .* another order"):
        _processed(StreamsBuilder()).to_table()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, "n BIGINT"), "process: function must be a function, not 5"),
        (
            (_key_and_value, "n BIGINT"),
            r"process: function is called with \(key, value, c",
        ),
        ((_idle, 5), 'process: schema must name the columns of a row, like "n BIGINT", not 5'),
        ((_idle, "n NUMBER"), "process: schema"),
        ((_idle, "n BIGINT", 5), "process: state must name its columns"),
        ((_idle, "n BIGINT", "n NUMBER"), "process: state"),
        ((_idle, "n BIGINT", None, 5), "process: on_timer must be a function, not 5"),
        ((_idle, "n BIGINT", None, _idle), "process: on_timer is called with"),
        ((_idle, "key STRING"), "process: schema: the name 'key' is a column of every store"),
    ],
)
def test_invalid_arguments_are_rejected_at_the_call(arguments: Any, message: str) -> None:
    """The message names the argument and the value."""
    with pytest.raises(InvalidTopology, match=message):
        StreamsBuilder().stream("t", _SCHEMA).process(*arguments)


def test_a_context_of_a_test_of_a_function_needs_no_driver() -> None:
    """A test can call a function with a context of its own."""
    context = ProcessContext(5, 9, {"n": 1}, [30, 20])
    context.set_timer(25)
    context.delete_timer(30)
    context.delete_timer(31)
    assert (context.timestamp_ms, context.stream_time_ms, context.timers) == (5, 9, (20, 25))
    with pytest.raises(IllegalArgument, match="must be an integer in ms, not True"):
        context.set_timer(True)
