"""Updates of an aggregation equal a slow model under any cut, and the state has no closed rows."""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oriel import TimeWindows, collect_list, count
from oriel import min as min_of
from oriel import sum as sum_of
from oriel.pipeline.windows import (
    AggregateUpdatesEngine,
    NoWindows,
    Times,
    UserFunctions,
    updates_engine_for,
)
from tests.campaigns import seeds
from tests.models.aggregate_updates import Entry, Row, Span, Update, every_aggregate, updates
from tests.windows.join_batches import saved_and_loaded
from tests.windows.lineages import indexes_of

VALUES = pa.schema([("v", pa.int64())])
CARRIED = pa.schema([("key_group", pa.int32())])
#: One aggregate of each kind of accumulator.
AGGREGATES = {"n": count(), "total": sum_of("v"), "least": min_of("v"), "all": collect_list("v")}
SPANS = [Span(), Span(5, 5, 0), Span(5, 5, 4), Span(8, 3, 2), Span(9, 1, 0)]


def windows_of(span: Span) -> TimeWindows | NoWindows:
    """Return the windows of a span of the model."""
    if span.size_ms is None:
        return NoWindows()
    return TimeWindows.of_size_and_grace(span.size_ms, span.grace_ms).advance_by(span.advance_ms)


def columns_engine(span: Span) -> AggregateUpdatesEngine:
    """Return an engine with declarative aggregates."""
    return updates_engine_for(windows_of(span), AGGREGATES, VALUES, CARRIED)


def concatenated(_key: str, value: dict[str, Any] | None, text: str) -> str | None:
    """Concatenate the values. A multiple of 7 removes the row, and 13 raises an error."""
    number = None if value is None else value["v"]
    if number == 13:
        message = "unlucky"
        raise ValueError(message)
    return None if number is not None and number % 7 == 0 else f"{text},{number}"


def joined(_key: str, left: str, right: str) -> str:
    """Concatenate the strings of two partitions."""
    return left + right


FUNCTIONS = UserFunctions(lambda: "", (concatenated,), joined, {"text": pa.string()}, "aggregate")


def functions_engine(span: Span) -> AggregateUpdatesEngine:
    """Return an engine with user-defined aggregators."""
    return updates_engine_for(windows_of(span), FUNCTIONS, VALUES, CARRIED)


def folded(records: Sequence[tuple[int | None, int]]) -> dict[str, Any] | None:
    """Return the result of ``concatenated`` for some records."""
    text: str | None = ""
    for value, _ in records:
        text = concatenated("", {"v": value}, text or "")
    return None if text is None else {"text": text}


def random_log(seed: int) -> tuple[Random, list[Entry]]:
    """Return a log with few keys, disorder and sometimes a long gap."""
    random = Random(seed)
    spread, time = random.choice((0, 3, 12)), 10.0
    log = []
    for _ in range(random.choice((3, 15, 60))):
        time += random.choice((0, 0.5, 1, 2, 30 if random.random() < 0.03 else 0))
        value = None if random.random() < 0.1 else random.randrange(1, 12)
        moment = max(0, int(time) + random.randint(-spread, spread))
        log.append(Entry(random.choice("aab"), value, moment))
    return random, log


def batch_of(engine: AggregateUpdatesEngine, log: Sequence[Entry], low: int, high: int) -> pa.Table:
    """Return the records from ``low`` to ``high`` as a stream task sends them."""
    times = np.maximum.accumulate([entry.timestamp_ms for entry in log])
    columns = {
        "key": [entry.key for entry in log[low:high]],
        "timestamp_ms": [entry.timestamp_ms for entry in log[low:high]],
        "partition": [0] * (high - low),
        "offset": list(range(low, high)),
        "stream_time_ms": times[low:high],
        "side": [0] * (high - low),
        "null_value": [False] * (high - low),
        "key_group": [ord(entry.key) for entry in log[low:high]],
        "v": [entry.value for entry in log[low:high]],
    }
    names = engine.record_schema.names
    return pa.table([columns[name] for name in names], schema=engine.record_schema)


def engine_updates(
    engine: AggregateUpdatesEngine, log: Sequence[Entry], cuts: Sequence[int]
) -> Iterator[Update]:
    """Yield all updates in the order of the engine, from the batches that end at ``cuts``."""
    state, low, stream_time_ms = engine.empty_state(), 0, -1
    for high in cuts:
        batch = batch_of(engine, log, low, high)
        stream_time_ms = max([stream_time_ms, *(entry.timestamp_ms for entry in log[low:high])])
        result = engine.apply(saved_and_loaded(state), batch, Times.at((stream_time_ms, -1)))
        rows = result.results.to_pylist()
        places = {row["offset"] for row in rows}
        assert sum(result.filtered) + sum(result.late) + len(places) == high - low
        windowed = "window_start_ms" in engine.result_schema.names
        for row in rows:
            values = {name: row[name] for name in engine.result_schema.names[8:]}
            start = values.pop("window_start_ms", 0)
            values.pop("window_end_ms", None)
            new_row = None if row["null_value"] else values
            yield Update(row["offset"], row["key"], start, row["timestamp_ms"], new_row)
        if windowed:
            assert not len(result.state) or min(engine.due_ms(result.state).tolist()) >= (
                engine.close_ms((stream_time_ms, -1))
            )
        state, low = result.state, high


def sorted_lists(found: Iterator[Update]) -> list[Update]:
    """Sort all lists, because the engine has them in order of time and the model by value."""

    def in_order(row: Mapping[str, Any]) -> dict[str, Any]:
        return {n: sorted(v) if isinstance(v, list) else v for n, v in row.items()}

    return [each._replace(row=each.row and in_order(each.row)) for each in found]


@seeds(1, 12)
@pytest.mark.parametrize("span", SPANS, ids=str)
@pytest.mark.parametrize(
    ("make", "row_of"), [(columns_engine, every_aggregate), (functions_engine, folded)]
)
def test_updates_are_those_of_the_model_in_any_cut(
    make: Any, row_of: Row, span: Span, seed: int
) -> None:
    """Updates and their times are equal in one batch, record by record, and with random cuts."""
    random, log = random_log(seed)
    expected = sorted_lists(updates(log, span, row_of))
    some = sorted(random.sample(range(len(log) + 1), 3))
    for cuts in ([len(log)], range(1, len(log) + 1), [*some, len(log)]):
        assert sorted_lists(engine_updates(make(span), log, list(cuts))) == expected


def test_a_record_on_which_a_function_raises_has_no_part_in_any_row() -> None:
    """The engine forwards the record with the reason, and no window contains it."""
    log = [Entry("a", 1, 1), Entry("a", 13, 2), Entry("a", 2, 3)]
    engine = functions_engine(Span(8, 4, 0))
    result = engine.apply(engine.empty_state(), batch_of(engine, log, 0, 3), Times.at((3, -1)))
    rows = sorted(result.results.to_pylist(), key=lambda row: row["offset"])
    assert [(row["offset"], row["text"], row["reason"]) for row in rows] == [
        (0, ",1", None), (1, None, "aggregate: ValueError: unlucky"), (2, ",1,2", None),
    ]  # fmt: skip
    assert (result.filtered, result.flattened, result.elements) == ((0,), 2, 2)


def test_rows_of_hopping_windows_are_elements_of_their_record() -> None:
    """Rows of a record are in the order of their windows, also if the first ones are closed."""
    engine = columns_engine(Span(6, 2, 0))
    log = [Entry("a", 1, 9), Entry("a", 2, 12), Entry("a", 3, 9), Entry("a", 4, 1)]
    result = engine.apply(engine.empty_state(), batch_of(engine, log, 0, 4), Times.at((12, -1)))
    rows = [
        (
            row["offset"], *indexes_of(row["__lineage"]), row["window_start_ms"],
            row["window_end_ms"], row["n"],
        )
        for row in result.results.to_pylist()
    ]  # fmt: skip
    assert rows == [
        (0, 0, 4, 10, 1), (0, 1, 6, 12, 1), (0, 2, 8, 14, 1),
        (1, 0, 8, 14, 2), (1, 1, 10, 16, 1), (1, 2, 12, 18, 1),
        (2, 0, 8, 14, 3),
    ]  # fmt: skip
    assert (result.late, result.flattened, result.elements) == ((1,), 3, 7)


@pytest.mark.parametrize("make", [columns_engine, functions_engine])
def test_rows_of_several_partitions_are_put_together(make: Any) -> None:
    """Updates are in the order of stream times. The last update has all records of the key."""
    engine = make(Span())
    log = [Entry("a", value, time) for value, time in ((1, 5), (2, 1), (3, 4))]
    rows = batch_of(engine, log, 0, 3)
    partition = pa.array([0, 1, 1], pa.int32())
    rows = rows.set_column(rows.schema.get_field_index("partition"), "partition", partition)
    times = pa.array([5, 1, 4], pa.int64())
    rows = rows.set_column(rows.schema.get_field_index("stream_time_ms"), "stream_time_ms", times)
    found = engine.apply(
        engine.empty_state(), rows.cast(engine.record_schema), Times.at((4, -1))
    ).results
    assert found["offset"].to_pylist() == [1, 2, 0]
    assert found["timestamp_ms"].to_pylist() == [1, 4, 5]
    last = found.to_pylist()[-1]
    assert (last.get("n"), last.get("text")) in {(3, None), (None, ",1,2,3")}
