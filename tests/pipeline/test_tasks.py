"""Stamp and engine tasks as plain functions: clocks, counts, dead letters, sharing out."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import SlidingWindows, collect_list
from pipeline.grouping import group_report, group_with, stamp_report
from pipeline.plan import KEY_GROUP, BatchPlan, GroupReport
from pipeline.stamping import stamp_with
from pipeline.windows import NEVER_CLOSED_MS, SlidingWindowEngine

ROWS = pa.schema([
    ("partition", pa.int32()), ("offset", pa.int64()), ("reason", pa.string()),
    ("keep", pa.bool_()), ("raw", pa.binary()), ("key", pa.string()), KEY_GROUP,
    ("timestamp_ms", pa.int64()), ("v", pa.float64()),
])  # fmt: skip


@pytest.fixture
def plan(tmp_path: Path) -> BatchPlan:
    """A first batch of one store with two tasks, windows of 10 ms and a grace of 5 ms."""
    for name in ("table", "state", "dead"):
        (tmp_path / name).mkdir()
    engine = SlidingWindowEngine(
        SlidingWindows.of_time_difference_and_grace(10, 5),
        {"all": collect_list("v")},
        pa.schema([("v", pa.float64())]),
        carried=pa.schema([KEY_GROUP]),
    )
    return BatchPlan(
        store="s",
        topic="t",
        batch=0,
        tasks=2,
        engine=engine,
        grace_ms=5,
        stream_time_ms={0: -1, 1: -1},
        close_ms=NEVER_CLOSED_MS,
        segments={},
        table=tmp_path / "table",
        state=tmp_path / "state",
        dead_letters=tmp_path / "dead",
        tells_source_reasons=True,
        sync=False,
    )


def row(partition: int, offset: int, key: str | None, time: int | None, **other: Any) -> Any:
    """One prepared row."""
    group = sum(map(ord, key or "")) % 64
    given = {"partition": partition, "offset": offset, "key": key, "key_group": group}
    return {**given, "timestamp_ms": time, "keep": True, "v": float(offset), **other}


def stamped(plan: BatchPlan, *batches: list[Any]) -> pa.Table:
    """Run one stamp task over Arrow batches."""
    given = (pa.RecordBatch.from_pylist(rows, schema=ROWS) for rows in batches)
    return pa.Table.from_batches(list(stamp_with(plan)(given)), plan.stamped_schema)


def grouped(plan: BatchPlan, *stamps: pa.Table) -> list[GroupReport]:
    """Run every engine task over what the stamps sent it."""
    reports = []
    everything = pa.concat_tables(stamps)
    for task in range(plan.tasks):
        mine = everything.filter(pa.compute.equal(everything["task"], task))
        batches: Iterator[pa.RecordBatch] = iter(mine.to_batches())
        (result,) = group_with(plan)(batches)
        reports.append(group_report(result["report"][0].as_py()))
    return reports


def test_a_stamp_carries_the_clock_over_batches_and_counts_everything(plan: BatchPlan) -> None:
    """Stream time moves with every good record, and late ones are counted and left out."""
    table = stamped(
        plan,
        [row(0, 0, "a", 100), row(0, 1, "a", 85), row(0, 2, "b", 84)],
        [row(0, 3, "a", 90), row(0, 4, "a", 500, keep=False)],
    )
    records = table.filter(pa.compute.is_null(table["report"])).to_pylist()
    # 85 + 10 = 100 - 5 is just in time, 84 is late; a filtered record moves no clock.
    assert [(r["timestamp_ms"], r["close_ms"]) for r in records] == [(100, 95), (85, 95), (90, 95)]
    reports = [stamp_report(text) for text in table["report"].to_pylist() if text]
    assert len(reports) == plan.tasks
    assert reports[0].stream_time_ms == {0: 100}
    assert reports[0].counters == {
        "input": 5, "applied": 3, "late": 1, "dead_lettered": 0, "filtered": 1,
    }  # fmt: skip


def test_dead_letters_keep_place_reason_and_bytes(plan: BatchPlan) -> None:
    """Bad rows go to one file with everything needed to find and mend them."""
    rows = [
        row(1, 7, None, None, reason="not-json", raw=b"rubbish"),
        row(1, 15, None, 3, reason="null-key", raw=b"{}"),
        row(1, 18, "a", 3),
    ]
    report = stamp_report(stamped(plan, rows)["report"].drop_null()[0].as_py())
    assert (report.counters["dead_lettered"], report.counters["applied"]) == (2, 1)
    (file,) = report.dead_letters
    letters = pq.read_table(plan.dead_letters / file.path).to_pylist()
    kept = ("topic", "partition", "offset", "store", "reason", "raw")
    assert [tuple(letter[name] for name in kept) for letter in letters] == [
        ("t", 1, 7, None, "not-json", b"rubbish"),
        ("t", 1, 15, "s", "null-key", b"{}"),
    ]


def test_a_second_store_of_a_topic_does_not_repeat_its_bad_lines(plan: BatchPlan) -> None:
    """It counts them all, but writes only the ones that are bad for itself."""
    rows = [
        row(0, 0, None, None, reason="not-json", raw=b"x"),
        row(0, 2, None, 3, reason="null-value", raw=b"{}"),
    ]
    second = replace(plan, tells_source_reasons=False)
    report = stamp_report(stamped(second, rows)["report"].drop_null()[0].as_py())
    assert report.counters["dead_lettered"] == 2
    assert [file.rows for file in report.dead_letters] == [1]


def test_a_stamp_without_rows_still_reports(plan: BatchPlan) -> None:
    """Every engine task hears of every stamp task, so none waits or guesses."""
    assert stamped(plan).num_rows == plan.tasks


def test_the_number_of_tasks_may_change_between_batches(plan: BatchPlan) -> None:
    """Two, three, then one task give the rows that one task always gives."""
    seed = 11
    always_one = table_rows(replace(plan, tasks=1), [1, 1, 1, 1, 1], seed)
    assert len(always_one) > 50
    assert table_rows(plan, [2, 3, 1, 5, 2], seed) == always_one


def table_rows(plan: BatchPlan, tasks: list[int], seed: int) -> list[Any]:
    """Run one batch for each number of tasks; return all rows written, in order."""
    random = Random(seed)
    offset = 0
    rows: list[Any] = []
    for batch, number in enumerate(tasks):
        plan = replace(plan, batch=batch, tasks=number)
        records = []
        for _ in range(40):
            time = batch * 20 + random.randint(0, 25)
            records.append(row(0, offset, random.choice("abcdefgh"), time))
            offset += 1
        stamps = stamped(plan, records), stamped(plan, [row(1, offset, "z", batch * 21)])
        reports = grouped(plan, *stamps)
        for report in reports:
            for file in report.files:
                rows += pq.read_table(plan.table / file.path).to_pylist()
        clocks = {p: t for s in reports[0].stamps for p, t in s.stream_time_ms.items()}
        plan = replace(
            plan,
            segments={report.task: report.segments for report in reports},
            stream_time_ms=clocks,
            close_ms=reports[0].close_ms,
        )
    return sorted(rows, key=lambda r: (r["revision"], r["key"], r["window_start"]))
