"""Property tests of the test driver: random topologies and batches against the slow models."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from oriel import (
    EmitStrategy,
    IllegalArgument,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
)
from oriel.pipeline.language.grouped import CogroupedKStream, KGroupedStream
from oriel.pipeline.language.tables import KTable
from oriel.pipeline.language.windowed import TimeWindowedKStream
from oriel.pipeline.windows import NoWindows, Windows
from oriel.testing import Counters, KeyValue, Record, TopologyTestDriver, WindowedValue
from tests.campaigns import cases
from tests.models import sliding
from tests.models.aggregates import check_window
from tests.models.sessions import expected_sessions
from tests.models.tables import (
    FunctionOutcome,
    Logs,
    Outcome,
    Window,
    arrivals,
    in_order,
    table_rows,
)
from tests.models.time_windows import Hopping, expected_windows
from tests.windows.engine_runs import AGGREGATES, valued_logs
from tests.windows.random_logs import random_case
from tests.windows.test_function_properties import KINDS as FUNCTION_KINDS
from tests.windows.test_function_properties import MAKERS as FUNCTION_CASES
from tests.windows.test_function_properties import left_out_of, with_values

#: Hundreds of random topologies: these tests run in CI, not during development.
pytestmark = pytest.mark.slow

#: How many random topologies each test tries: in every run, and in the long run.
some_cases = cases(1, 30)
FIRST_SEED = 9_100_000
SCHEMA = "v DOUBLE, x DOUBLE, i BIGINT, j INT, s STRING"

#: Prefix of a dead letter's detail, if the record is missing in one sliding window only.
LEFT_OUT = "left out of the window "

#: One call of pipe_input: topic, partition, records.
Call = tuple[str, int, list[Record]]
Row = dict[str, Any]
Grouped = KGroupedStream | TimeWindowedKStream


@dataclass(frozen=True)
class Case:
    """A random topology over topic ``t`` with its logs, and the model's result."""

    windows: Windows
    logs: Logs
    outcome: Outcome

    def driver(self, *, closed: bool = False) -> TopologyTestDriver:
        """Return a driver of every declarative aggregate."""
        return driver_of(
            self.windows, lambda s: s.aggregate(None, None, None, None, **AGGREGATES), closed=closed
        )


def driver_of(
    windows: Windows, aggregated: Callable[[Grouped], KTable], *, closed: bool, schema: str = SCHEMA
) -> TopologyTestDriver:
    """Return a driver of one store ``s``."""
    builder = StreamsBuilder()
    keyed = builder.stream("t", schema).group_by_key()
    if isinstance(windows, NoWindows):
        aggregated(keyed).materialize("s")
    else:
        windowed = keyed.windowed_by(windows)
        strategy = EmitStrategy.on_window_close() if closed else windowed.strategy
        aggregated(windowed.emit(strategy)).materialize("s")
    return TopologyTestDriver(builder.build(), collect_function_errors=True)


def finite(logs: Mapping[int, Sequence[Any]]) -> Logs:
    """Return the logs with NaN and infinity replaced, because JSON topics cannot contain them."""
    return {
        p: [(k, t, None if value is None else _finite(value)) for k, t, value in log]
        for p, log in logs.items()
    }


def _finite(value: Row) -> Row:
    bad = isinstance(value["x"], float) and not math.isfinite(value["x"])
    return {**value, "x": 0.25} if bad else value


def random_topology(kind: str, seed: int, logs: Logs | None = None) -> Case:
    """Return the case of a window kind and a seed. The default logs are the seed's."""
    case, random, logs = random_case(seed), Random(seed), logs or finite(valued_logs(seed))
    if kind == "session":
        outcome = expected_sessions(logs, case.difference, case.grace)
        return Case(
            SessionWindows.of_inactivity_gap_and_grace(case.difference, case.grace), logs, outcome
        )
    if kind == "time":
        size = random.choice((1, 3, 5, 12))
        hopping = Hopping(size, random.randint(1, size), case.grace)
        windows = TimeWindows.of_size_and_grace(size, case.grace).advance_by(hopping.advance)
        return Case(windows, logs, expected_windows(logs, hopping))
    # Records with a null value are dropped here, and do not advance the stream time.
    with_value = with_values(logs)
    if kind == "none":
        return Case(NoWindows(), logs, table_rows(with_value))
    sliding = SlidingWindows.of_time_difference_and_grace(case.difference, case.grace)
    return Case(sliding, logs, sliding_outcome(with_value, case.difference, case.grace))


def sliding_outcome(logs: Logs, difference: int, grace: int) -> Outcome:
    """Return the slow model's sliding windows, with whole records as members."""
    arrived = arrivals(logs, grace)
    numbers: dict[tuple[int, int], int] = {
        (record.partition, record.offset): place for place, record in enumerate(arrived)
    }
    numbered = {
        p: [(key, time, float(numbers[p, offset])) for offset, (key, time, _) in enumerate(log)]
        for p, log in logs.items()
    }
    expected = sliding.expected(numbered, difference, grace)
    windows = {
        (key, window.start, window.end): Window(
            in_order(arrived[int(number)] for number in window.values), window.final
        )
        for (key, _), window in expected.windows.items()
    }
    return Outcome(windows, expected.applied, expected.late)


def cut(logs: Logs, random: Random, topic: Callable[[int], str] = lambda _: "t") -> list[Call]:
    """Return calls of pipe_input that interleave the logs at random.

    Empty calls announce all partitions first.
    """
    calls: list[Call] = [(topic(p), p, []) for p in logs]
    left = {p: [Record(*_arguments(entry)) for entry in log] for p, log in logs.items()}
    while any(left.values()):
        p = random.choice([p for p, log in left.items() if log])
        number = random.choice((1, 2, 7, 40))
        calls.append((topic(p), p, left[p][:number]))
        left[p] = left[p][number:]
    return calls


def _arguments(entry: tuple[str, int, Any]) -> tuple[str, Any, int]:
    key, time, value = entry
    return key, value, time


def after(
    driver: TopologyTestDriver, calls: Sequence[Call]
) -> tuple[list[str], Counters, list[str]]:
    """Return the final content, counters and dead letters, and check what each batch writes."""
    content: dict[tuple[str, int, int], Row] = {}
    for topic, partition, records in calls:
        driver.pipe_input(topic, records, partition)
        for row in driver.read_output("s"):
            place = row["key"], row.get("window_start_ms", 0), row.get("window_end_ms", 0)
            assert not content.get(place, {}).get("final"), f"a final row changed: {row}"
            content[place] = row
            if row["deleted"]:
                del content[place]
    held = everything(driver)
    assert len(held) == len(content)
    for found in held:
        row = content[_place(found)]
        assert repr(found.value) == repr({name: row[name] for name in found.value})
        assert found.timestamp_ms == row["timestamp_ms"]
    counters = driver.counters("s")
    parts = counters.applied + counters.late + counters.dropped + counters.filtered
    assert counters.input == parts == sum(len(records) for _, _, records in calls)
    dead_letters = sorted(repr(letter) for letter in driver.dead_letters("s"))
    assert sum(LEFT_OUT not in letter for letter in dead_letters) == counters.dropped
    return [repr(found) for found in held], counters, dead_letters


def _place(found: WindowedValue | KeyValue) -> tuple[str, int, int]:
    if isinstance(found, KeyValue):
        return found.key, 0, 0
    return found.key, found.window_start_ms, found.window_end_ms


def everything(driver: TopologyTestDriver) -> list[WindowedValue] | list[KeyValue]:
    """Return all rows of the store, whatever its kind."""
    for read in (driver.window_store, driver.session_store):
        try:
            return read("s").all()
        except IllegalArgument:
            continue
    return driver.key_value_store("s").all()


def check_content(
    found: Sequence[WindowedValue | KeyValue], outcome: Outcome, *, closed: bool
) -> None:
    """Check that the store contains the model's windows and values."""
    wanted = {
        (key, start, end) if found and isinstance(found[0], WindowedValue) else (key, 0, 0): window
        for (key, start, end), window in outcome.windows.items()
        if window.final or not closed
    }
    assert {_place(row) for row in found} == set(wanted)
    for row in found:
        final = isinstance(row, WindowedValue) and row.final
        expected = {**row.value, "timestamp_ms": row.timestamp_ms, "final": final}
        check_window(expected, wanted[_place(row)])


@some_cases
@pytest.mark.parametrize("closed", [False, True], ids=["on update", "on close"])
@pytest.mark.parametrize("kind", ["time", "sliding", "session", "none"])
def test_any_cut_gives_the_content_of_the_slow_model(kind: str, closed: bool, number: int) -> None:
    """Any batching of a random topology's logs has the windows and counters of the model."""
    for seed in range(FIRST_SEED, FIRST_SEED + number):
        case, random = random_topology(kind, seed), Random(seed + 3)
        if kind == "none" and closed:
            continue
        drivers = [case.driver(closed=closed) for _ in range(2)]
        results = [after(driver, cut(case.logs, random)) for driver in drivers]
        assert results[0] == results[1], f"{kind}, seed {seed}: another cut gave another result"
        counters = results[0][1]
        assert (counters.applied, counters.late) == (case.outcome.applied, case.outcome.late)
        check_content(everything(drivers[0]), case.outcome, closed=closed)


def functions_driver(windows: Windows, kind: str, *, closed: bool) -> TopologyTestDriver:
    """Return a driver of the functions ``kind``. A cogroup reads topics ``t0`` and ``t1``."""
    functions = FUNCTION_KINDS[kind].functions
    aggregators = functions.aggregators
    merger = functions.merger
    if kind == "cogroup":
        return _cogroup_driver(windows, kind, closed=closed)
    schema = "text STRING, n BIGINT" if len(FUNCTION_KINDS[kind].types) > 1 else "text STRING"

    def aggregated(stream: Grouped) -> KTable:
        return stream.aggregate(functions.initializer, aggregators[0], merger, schema)

    return driver_of(windows, aggregated, closed=closed, schema="s STRING")


def _cogroup_driver(windows: Windows, kind: str, *, closed: bool) -> TopologyTestDriver:
    functions = FUNCTION_KINDS[kind].functions
    builder = StreamsBuilder()
    streams = [builder.stream(topic, "s STRING").group_by_key() for topic in ("t0", "t1")]
    together: CogroupedKStream = streams[0].cogroup(functions.aggregators[0])
    together = together.cogroup(streams[1], functions.aggregators[1])
    if not isinstance(windows, NoWindows):
        together = together.windowed_by(windows)
        if closed:
            together = together.emit(EmitStrategy.on_window_close())
    together.aggregate(functions.initializer, functions.merger, "text STRING").materialize("s")
    return TopologyTestDriver(builder.build(), collect_function_errors=True)


def folds(kind: str, windows: str, number: int) -> Iterator[tuple[int, Any]]:
    """Yield random cases of user-defined functions. A cogroup needs partitions of both inputs."""
    for seed in range(FIRST_SEED, FIRST_SEED + number):
        case = FUNCTION_CASES[windows](seed, kind)
        if kind != "cogroup" or len(case.logs) > 1:
            yield seed, case


def check_function_rows(
    found: Sequence[WindowedValue | KeyValue], outcome: FunctionOutcome, *, closed: bool
) -> None:
    """Check that the store contains the results of the model's function calls."""
    wanted = {
        key: (folded.value if isinstance(folded.value, dict) else {"text": folded.value},
              folded.timestamp)
        for key, folded in outcome.rows.items()
        if folded.final or not closed
    }  # fmt: skip
    bounds = {place[0]: place for place in wanted}
    expected = {
        (bounds.get(row.key) if isinstance(row, KeyValue) else _place(row)): (
            row.value,
            row.timestamp_ms,
        )
        for row in found
    }
    assert expected == wanted


def is_left_out(letter: Mapping[str, Any]) -> bool:
    """Return whether a dead letter is of a record that counts as applied."""
    return str(letter["detail"]).startswith(LEFT_OUT)


@some_cases
@pytest.mark.parametrize("kind", ["aggregate", "two columns", "cogroup"])
@pytest.mark.parametrize("windows", FUNCTION_CASES)
def test_any_cut_calls_the_functions_as_the_slow_model_does(
    windows: str, kind: str, number: int
) -> None:
    """Functions that raise, return null or record their calls match the model, in any batching.

    The aggregates of the partitions are merged in order.
    """
    topic: Callable[[int], str] = (lambda p: f"t{p % 2}") if kind == "cogroup" else (lambda _: "t")
    for seed, case in folds(kind, windows, number):
        random, outcome = Random(seed + 3), case.expected()
        closed = windows != "table" and seed % 3 == 0
        drivers = [functions_driver(case.windows, kind, closed=closed) for _ in range(2)]
        results = [after(driver, cut(case.logs, random, topic)) for driver in drivers]
        assert results[0] == results[1], f"{windows}, {kind}, seed {seed}: the cut matters"
        counters = results[0][1]
        assert (counters.applied, counters.late) == (outcome.applied, outcome.late), f"seed {seed}"
        places = {False: list(outcome.rejected), True: []}
        for one in left_out_of(outcome):
            if one.final or not closed:
                places[True].append((one.record.partition, one.record.offset))
        for left_out, wanted in places.items():
            dead_letters = [x for x in drivers[0].dead_letters("s") if is_left_out(x) == left_out]
            found = sorted((x["partition"], x["offset"]) for x in dead_letters)
            assert found == sorted(wanted), f"{windows}, {kind}, seed {seed}"
        check_function_rows(everything(drivers[0]), outcome, closed=closed)


def test_a_wrong_model_is_noticed() -> None:
    """A model with another gap or grace disagrees, which shows that the comparison works."""
    for seed in range(FIRST_SEED, FIRST_SEED + 50):
        case = random_topology("session", seed)
        gap = case.windows.length_ms
        driver = case.driver()
        after(driver, cut(case.logs, Random(seed)))
        try:
            check_content(
                everything(driver), expected_sessions(case.logs, gap + 1, 0), closed=False
            )
        except AssertionError:
            return
    pytest.fail("fifty cases did not notice a wrong model")
