"""Retention counts from the greatest window ever put, in whatever batches the records arrive."""

from random import Random
from typing import Any

import pytest

from oriel import (
    EmitStrategy,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    collect_list,
    count,
)
from oriel.pipeline.windows import Windows
from oriel.testing import Record, TopologyTestDriver
from tests.campaigns import cases
from tests.testing.driver_runs import SCHEMA, hopping, sessions, sliding, tumbling

pytestmark = pytest.mark.slow

KINDS: dict[str, Windows] = {
    "tumbling": tumbling(10, 6),
    "hopping": hopping(10, 4, 6),
    "sliding": sliding(8, 6),
    "session": sessions(5, 6),
}


def kept(_key: str, value: Any, aggregate: Any) -> Any:
    """Count the records. ``x`` removes the window, and ``!`` causes a dead letter."""
    if value["s"] == "!":
        raise ValueError
    return None if value["s"] == "x" else (aggregate or 0) + 1


def driver_of(kind: str, *, folded: bool, closed: bool = False) -> TopologyTestDriver:
    """Return a driver of a store ``s``, with aggregates or with functions that remove windows."""
    builder = StreamsBuilder()
    windowed = builder.stream("t", SCHEMA).group_by_key().windowed_by(KINDS[kind])
    if closed:
        windowed = windowed.emit(EmitStrategy.on_window_close())
    if folded:
        merger = lambda _key, one, other: (one or 0) + (other or 0)  # noqa: E731
        table = windowed.aggregate(lambda: None, kept, merger, "n BIGINT")
    else:
        table = windowed.aggregate(n=count(), all=collect_list("t"))
    table.materialize("s", 1000)
    return TopologyTestDriver(builder.build(), collect_function_errors=True)


def random_log(seed: int) -> list[tuple[int, Record]]:
    """Return records of two partitions: some late, some that remove, some that raise."""
    random, now, log = Random(seed), 0, []
    for _ in range(random.randint(1, 30)):
        now += random.choice((0, 1, 3, 9))
        time = max(0, now - random.choice((0, 0, 2, 7, 30)))
        value = {"t": time, "s": random.choice(("a", "b", "x", "x", "!"))}
        log.append((random.randint(0, 1), Record(random.choice("ab"), value, time)))
    return log


def observed_ms(driver: TopologyTestDriver) -> int:
    """Return the time from which the store's retention counts."""
    return driver._stores["s"].content.observed_ms


def clock_after(kind: str, time: int) -> int:
    """Return the greatest start (for a session the end) of the windows that one record defines."""
    windows = KINDS[kind]
    if isinstance(windows, SlidingWindows):
        return max(0, time - windows.time_difference_ms)
    if isinstance(windows, TimeWindows):
        return time // windows.advance_ms * windows.advance_ms
    return time


def right_start(times: list[int]) -> int:
    """Return the greatest start of a right window of a key, or -1."""
    length = KINDS["sliding"].length_ms
    starts = (t + 1 for t in times if any(t < other <= t + 1 + length for other in times))
    return max(starts, default=-1)


@cases(1, 40)
@pytest.mark.parametrize("folded", [False, True], ids=["aggregates", "functions"])
@pytest.mark.parametrize("kind", KINDS)
def test_any_cut_gives_the_clock_of_one_record_a_batch(
    kind: str, folded: bool, number: int
) -> None:
    """Retention counts from the same time in any batching as with one record per batch.

    A function can also create and remove a window in one batch.
    """
    for seed in range(number):
        log, random = random_log(seed), Random(seed + 1)
        singly, cut = (driver_of(kind, folded=folded) for _ in range(2))
        for driver in (singly, cut):
            for partition in (0, 1):
                driver.pipe_input("t", [], partition)
        wanted, applied = -1, 0
        times_of: dict[str, list[int]] = {"a": [], "b": []}
        for partition, record in log:
            singly.pipe_input("t", record, partition)
            if singly.counters("s").applied > applied:
                applied += 1
                wanted = max(wanted, clock_after(kind, record.timestamp_ms))
                assert record.key is not None
                times_of[record.key].append(record.timestamp_ms)
            if kind == "sliding":
                wanted = max(wanted, *map(right_start, times_of.values()))
            assert observed_ms(singly) == wanted, f"{kind}, seed {seed}"
        left = {p: [record for q, record in log if q == p] for p in (0, 1)}
        while any(left.values()):
            partition = random.choice([p for p, records in left.items() if records])
            number = random.choice((1, 3, 30))
            cut.pipe_input("t", left[partition][:number], partition)
            left[partition] = left[partition][number:]
        assert observed_ms(cut) == wanted, f"{kind}, seed {seed}"


@cases(1, 20)
@pytest.mark.parametrize("folded", [False, True], ids=["aggregates", "functions"])
@pytest.mark.parametrize("kind", KINDS)
def test_on_close_only_final_windows_are_put(kind: str, folded: bool, number: int) -> None:
    """With emission on close, retention counts from the greatest start of a final window.

    For sessions, the end counts.
    """
    name = "window_end_ms" if kind == "session" else "window_start_ms"
    for seed in range(number):
        driver, wanted = driver_of(kind, folded=folded, closed=True), -1
        for partition in (0, 1):
            driver.pipe_input("t", [], partition)
        for partition, record in random_log(seed):
            driver.pipe_input("t", record, partition)
            wanted = max([wanted, *(row[name] for row in driver.read_output("s"))])
            assert observed_ms(driver) == wanted, f"{kind}, seed {seed}"


def test_a_window_that_a_function_removes_at_once_hides_old_ones() -> None:
    """A window that a function removes immediately still advances retention, as in Kafka Streams.

    The batching does not matter.
    """
    for cut in (0, 1, 2):
        builder = StreamsBuilder()
        windowed = builder.stream("t", SCHEMA).group_by_key().windowed_by(tumbling(10, 0))
        windowed.aggregate(lambda: None, kept, None, "n BIGINT").materialize("s", 10)
        driver = TopologyTestDriver(builder.build(), collect_function_errors=True)
        made = [Record("a", {"t": 5, "s": "a"}, 5)]
        made += [Record("b", {"t": 25, "s": word}, 25) for word in "ax"]
        for first in range(0, 3, cut + 1):
            driver.pipe_input("t", made[first : first + cut + 1])
        assert observed_ms(driver) == 20
        assert driver.window_store("s").all() == []
