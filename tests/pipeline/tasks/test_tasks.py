"""Stream and store tasks as plain functions: stream times, counts, dead letters, key groups."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from oriel import SlidingWindows, StreamsBuilder, collect_list
from oriel.pipeline.dead_letters import SourceReasons
from oriel.pipeline.plan import BatchPlan
from tests.pipeline.tasks import task_runs
from tests.pipeline.tasks.task_runs import (
    Row,
    counters_of,
    grouped,
    next_plan,
    plan_of,
    row,
    stream_of,
    written_dead_letters,
    written_rows,
)

VALUES = pa.schema([("v", pa.float64())])


@pytest.fixture
def plan(tmp_path: Path) -> BatchPlan:
    """Return the first batch of a store with two tasks, 10 ms windows and a grace of 5 ms."""
    builder = StreamsBuilder()
    windows = SlidingWindows.of_time_difference_and_grace(10, 5)
    stream = builder.stream("t", "v DOUBLE").group_by_key().windowed_by(windows)
    stream.aggregate(all=collect_list("v")).materialize("s")
    return plan_of(tmp_path, builder.build(), 2, VALUES)


def with_stream_times(plan: BatchPlan, *batches: list[Row]) -> task_runs.Sent:
    """Run one stream task over Arrow batches."""
    return task_runs.with_stream_times(plan, VALUES, *batches)


def test_a_stream_task_keeps_stream_time_over_batches_and_counts(
    plan: BatchPlan,
) -> None:
    """Stream time advances with every valid record. Late records are counted and left out."""
    sent = with_stream_times(
        plan,
        [row(0, 0, "a", 100), row(0, 1, "a", 85), row(0, 2, "b", 84)],
        [row(0, 3, "a", 90), row(0, 4, "a", 500, keep=False)],
    )
    records = sent.rows.to_pylist()
    # 85 + 10 = 100 - 5 is just in time, 84 is late. A filtered record does not change stream time.
    assert [(r["timestamp_ms"], r["close_ms"]) for r in records] == [(100, 95), (85, 95), (90, 95)]
    (report,) = sent.reports.streams
    assert report.stream_time_name == "t"
    assert report.stream_time_ms == {0: 100}
    assert counters_of(plan, sent) == {
        "input": 5, "applied": 3, "late": 1, "dead_lettered": 0, "filtered": 1,
    }  # fmt: skip


def test_dead_letters_keep_place_reason_and_bytes(plan: BatchPlan) -> None:
    """Invalid rows are in one file with everything that you need to find and fix them."""
    rows = [
        row(1, 7, None, None, reason="not-json", raw=b"rubbish"),
        row(1, 15, None, 3, reason="null-key", raw=b"{}"),
        row(1, 18, "a", 3),
    ]
    sent = with_stream_times(plan, rows)
    (report,) = sent.reports.streams
    counters = counters_of(plan, sent)
    assert (counters["dead_lettered"], counters["applied"]) == (2, 1)
    assert len(report.dead_letters) == 1
    kept = ("topic", "partition", "offset", "store", "reason", "raw")
    assert [
        tuple(letter[name] for name in kept) for letter in written_dead_letters(plan, [report])
    ] == [
        ("t", 1, 7, None, "not-json", b"rubbish"),
        ("t", 1, 15, "s", "null-key", b"{}"),
    ]


def test_a_second_store_of_a_topic_does_not_repeat_its_bad_lines(plan: BatchPlan) -> None:
    """The second store counts all bad lines, but writes only its own dead letters."""
    rows = [
        row(0, 0, None, None, reason="not-json", raw=b"x"),
        row(0, 2, None, 3, reason="null-value", raw=b"{}"),
    ]
    second = stream_of(plan, reasons=SourceReasons.NOT_REPORTED)
    (report,) = task_runs.with_stream_times(plan, VALUES, rows, stream=second).reports.streams
    assert report.counters.dead_lettered == 2
    assert [file.rows for file in report.dead_letters] == [1]


def test_a_stream_task_without_rows_still_reports(plan: BatchPlan) -> None:
    """The store tasks need the stream times of all partitions."""
    sent = with_stream_times(plan)
    assert (len(sent.rows), len(sent.reports.streams)) == (0, 1)


def test_the_number_of_tasks_may_change_between_batches(plan: BatchPlan) -> None:
    """Different numbers of tasks write the same rows as one task."""
    seed = 11
    always_one = table_rows(replace(plan, tasks=1), [1, 1, 1, 1, 1], seed)
    assert len(always_one) > 50
    assert table_rows(plan, [2, 3, 1, 5, 2], seed) == always_one


def table_rows(plan: BatchPlan, tasks: list[int], seed: int) -> list[Any]:
    """Run one batch for each number of tasks, and return all written rows in order."""
    random = Random(seed)
    offset = 0
    rows: list[Any] = []
    for batch, number in enumerate(tasks):
        plan = replace(plan, tasks=number)
        records = []
        for _ in range(40):
            time = batch * 20 + random.randint(0, 25)
            records.append(row(0, offset, random.choice("abcdefgh"), time))
            offset += 1
        sent = (
            with_stream_times(plan, records),
            with_stream_times(plan, [row(1, offset, "z", batch * 21)]),
        )
        reports = grouped(plan, *sent)
        rows += written_rows(plan, reports)
        plan = next_plan(plan, reports)
    return sorted(rows, key=lambda r: (r["revision"], r["key"], r["window_start"]))


def test_the_key_group_of_a_key_never_changes(tmp_path: Path) -> None:
    """State files are divided by this hash. Another hash would lose windows after an upgrade."""
    builder = StreamsBuilder()
    builder.stream("t", "v DOUBLE").group_by_key().count().materialize("s")
    plan = plan_of(tmp_path, builder.build(), 1, VALUES)
    keys = ["", "a", "EWR", "ünïcödé", "x" * 1000, "a"]
    sent = with_stream_times(plan, [row(0, place, key, 1) for place, key in enumerate(keys)])
    assert sent.rows["key_group"].to_pylist() == KEY_GROUPS


KEY_GROUPS = [0, 34, 21, 47, 62, 34]
