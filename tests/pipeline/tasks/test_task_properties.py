"""Random batches through stream and store tasks: counters balance, and cuts change nothing."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oriel import SlidingWindows, StreamsBuilder, TimeWindows, collect_list, count
from oriel.pipeline.commit import prepared_batch
from oriel.pipeline.lowered import Store
from oriel.pipeline.plan import BatchPlan, PreparedBatch, plan_engine
from oriel.pipeline.plan.store import stream_times_before
from oriel.pipeline.state import key_hashes
from oriel.pipeline.tasks import Reports
from oriel.pipeline.windows import NEVER_CLOSED_MS
from tests.pipeline.tasks import task_runs
from tests.pipeline.tasks.task_runs import (
    counters_of,
    first_plan,
    grouped,
    one_store,
    written_dead_letters,
    written_rows,
)

DIFFERENCE_MS = 10
GRACE_MS = 5

VALUES = pa.schema([("v", pa.float64())])
ENDS = {"t": {"0": 0, "1": 0}}

#: A record of one partition: partition, key, time, and what happens to it.
RECORD = st.tuples(
    st.integers(0, 1),
    st.sampled_from("abcd"),
    st.integers(0, 60),
    st.sampled_from(["good"] * 6 + ["filtered", "not-json", "null-key"]),
)
RECORDS = st.lists(RECORD, max_size=30)


SLIDING = SlidingWindows.of_time_difference_and_grace(DIFFERENCE_MS, GRACE_MS)
HOPPING = TimeWindows.of_size_and_grace(DIFFERENCE_MS, 2 * GRACE_MS).advance_by(2)


def store(windows: SlidingWindows | TimeWindows) -> Store:
    """Return a store with all values of each window and their number."""
    builder = StreamsBuilder()
    stream = builder.stream("t", "v DOUBLE").group_by_key().windowed_by(windows)
    stream.aggregate(all=collect_list("v"), n=count()).materialize("s")
    return one_store(builder.build())


def plan_in(
    directory: Path, tasks: int, windows: SlidingWindows | TimeWindows = SLIDING
) -> BatchPlan:
    """Return the first batch of one store over the partitions 0 and 1."""
    return first_plan(directory, store(windows), plan_engine(store(windows), [VALUES]), tasks)


def plan_after(
    first: BatchPlan, batch: int, tasks: int, previous: PreparedBatch | None
) -> BatchPlan:
    """Return the plan of a later batch, as the driver would create it."""
    return replace(
        first,
        batch=batch,
        tasks=tasks,
        stream_times=stream_times_before(first.stream_time_plans, previous, ENDS),
        close_ms=previous.record.close_ms if previous else NEVER_CLOSED_MS,
        segments=previous.segments if previous else {},
    )


def prepared_rows(records: Sequence[tuple[int, str, int, str]]) -> list[dict[str, Any]]:
    """Return the rows that row-wise steps send to a stream task."""
    rows = []
    for offset, (partition, key, time, fate) in enumerate(records):
        bad = fate in {"not-json", "null-key"}
        rows.append({
            "partition": partition, "offset": offset, "reason": fate if bad else None,
            "keep": fate != "filtered", "null_value": False,
            "raw": b"raw" if bad else None, "key": key,
            "timestamp_ms": time, "v": float(offset),
        })  # fmt: skip
    return rows


def with_stream_times(plan: BatchPlan, *batches: list[dict[str, Any]]) -> task_runs.Sent:
    """Run one stream task over Arrow batches."""
    return task_runs.with_stream_times(plan, VALUES, *batches)


@pytest.mark.slow
@given(RECORDS, st.integers(0, 30), st.integers(1, 4))
@settings(max_examples=60)
def test_every_record_is_counted_once(
    records: list[tuple[int, str, int, str]], cut: int, tasks: int
) -> None:
    """Input = applied + late + dead-lettered + filtered, each as a plain loop counts it."""
    with tempfile.TemporaryDirectory() as directory:
        plan = plan_in(Path(directory), tasks)
        rows = prepared_rows(records)
        sent = with_stream_times(plan, rows[:cut], rows[cut:])
        (report,) = sent.reports.streams
        written = written_dead_letters(plan, [report])
        counters = counters_of(plan, sent)
    clock = {0: -1, 1: -1}
    wanted = dict.fromkeys(("applied", "late", "dead_lettered", "filtered"), 0)
    accepted = []
    for offset, (partition, key, time, fate) in enumerate(records):
        if fate != "good":
            wanted["filtered" if fate == "filtered" else "dead_lettered"] += 1
            continue
        clock[partition] = max(clock[partition], time)
        close = clock[partition] - GRACE_MS
        late = time + DIFFERENCE_MS < close
        wanted["late" if late else "applied"] += 1
        if not late:
            group = int(key_hashes(pa.array([key]))[0]) % plan.key_groups
            accepted.append((offset, close, group % tasks))
    found = sent.rows.to_pylist()
    assert [(r["offset"], r["close_ms"], r["task"]) for r in found] == accepted
    assert counters == {"input": len(records), **wanted}
    assert sum(wanted.values()) == len(records)
    assert report.stream_time_ms == {p: t for p, t in clock.items() if t >= 0}
    assert len(written) == wanted["dead_lettered"]


@pytest.mark.parametrize("windows", [SLIDING, HOPPING])
@given(
    records=RECORDS,
    cuts=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 4)), min_size=1, max_size=6),
)
@settings(max_examples=settings().max_examples // 2)
def test_cuts_and_numbers_of_tasks_change_nothing(
    windows: SlidingWindows | TimeWindows,
    records: list[tuple[int, str, int, str]],
    cuts: list[tuple[int, int]],
) -> None:
    """For any cuts of the log and any number of tasks, the newest rows are the same."""
    batches, position = [], 0
    for length, tasks in cuts:
        batches.append((records[position : position + length], tasks))
        position += length
    batches.append((records[position:], 1))
    assert newest_rows(windows, batches) == newest_rows(windows, [(records, 1)])


def newest_rows(
    windows: SlidingWindows | TimeWindows,
    batches: Sequence[tuple[Sequence[tuple[int, str, int, str]], int]],
) -> tuple[dict[tuple[str, int], Any], dict[str, int], int]:
    """Run the batches, each with its number of tasks.

    Returns:
        The newest rows, the counters, and the `observed_ms` of the store.
    """
    newest: dict[tuple[str, int], Any] = {}
    previous: PreparedBatch | None = None
    rows = prepared_rows([record for records, _ in batches for record in records])
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        first = plan_in(directory, 1, windows)
        for batch, (records, tasks) in enumerate(batches):
            plan = plan_after(first, batch, tasks, previous)
            mine, rows = rows[: len(records)], rows[len(records) :]
            reports = _reports(plan, mine)
            previous = prepared_batch(plan, [], reports, previous, ENDS)
            for row in written_rows(plan, reports):
                place = row["key"], row["window_start"]
                assert not newest.get(place, {}).get("final"), "a final window changed"
                newest[place] = row
    assert previous is not None
    for row in newest.values():
        del row["revision"]
    # Nothing is removed here, so each row that was written exists.
    starts_ms = [round(row["window_start"].timestamp() * 1000) for row in newest.values()]
    assert previous.record.observed_ms == max(starts_ms, default=-1)
    return newest, previous.record.counters, previous.record.observed_ms


def _reports(plan: BatchPlan, rows: list[dict[str, Any]]) -> Reports:
    """Run one stream task per partition with rows, then every store task."""
    parts = [[row for row in rows if row["partition"] == p] for p in (0, 1)]
    sent = [with_stream_times(plan, part) for part in parts if part]
    return grouped(plan, *sent) if sent else Reports()
