"""Random batches through the stamp and engine tasks: counts always add up, cuts change nothing."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import SlidingWindows, collect_list, count
from pipeline.checkpoint import PreparedBatch
from pipeline.grouping import group_report, group_with, stamp_report
from pipeline.plan import KEY_GROUP, BatchPlan, GroupReport
from pipeline.stamping import stamp_with
from pipeline.store_batch import _clocks, _prepared
from pipeline.windows import NEVER_CLOSED_MS, SlidingWindowEngine

DIFFERENCE_MS = 10
GRACE_MS = 5

ROWS = pa.schema([
    ("partition", pa.int32()), ("offset", pa.int64()), ("reason", pa.string()),
    ("keep", pa.bool_()), ("raw", pa.binary()), ("key", pa.string()), KEY_GROUP,
    ("timestamp_ms", pa.int64()), ("v", pa.float64()),
])  # fmt: skip

#: What a record of one partition is made of: partition, key, time, and its fate.
RECORD = st.tuples(
    st.integers(0, 1),
    st.sampled_from("abcd"),
    st.integers(0, 60),
    st.sampled_from(["good"] * 6 + ["filtered", "not-json", "null-key"]),
)
RECORDS = st.lists(RECORD, max_size=30)


def plan_in(folder: Path, tasks: int) -> BatchPlan:
    """A first batch of one store over the partitions 0 and 1."""
    for name in ("table", "state", "dead"):
        (folder / name).mkdir()
    return _plan(folder, 0, tasks, None)


def _plan(folder: Path, batch: int, tasks: int, previous: PreparedBatch | None) -> BatchPlan:
    engine = SlidingWindowEngine(
        SlidingWindows.of_time_difference_and_grace(DIFFERENCE_MS, GRACE_MS),
        {"all": collect_list("v"), "n": count()},
        pa.schema([("v", pa.float64())]),
        carried=pa.schema([KEY_GROUP]),
    )
    return BatchPlan(
        store="s",
        topic="t",
        batch=batch,
        tasks=tasks,
        engine=engine,
        grace_ms=GRACE_MS,
        stream_time_ms=_clocks(previous, "t", {"t": {"0": 0, "1": 0}}),
        close_ms=previous.record.close_ms if previous else NEVER_CLOSED_MS,
        segments=previous.segments if previous else {},
        table=folder / "table",
        state=folder / "state",
        dead_letters=folder / "dead",
        tells_source_reasons=True,
        sync=False,
    )


def prepared_rows(records: Sequence[tuple[int, str, int, str]]) -> list[dict[str, Any]]:
    """The rows that the row-wise steps would hand to the stamp."""
    rows = []
    for offset, (partition, key, time, fate) in enumerate(records):
        bad = fate in {"not-json", "null-key"}
        rows.append({
            "partition": partition, "offset": offset, "reason": fate if bad else None,
            "keep": fate != "filtered", "raw": b"raw" if bad else None, "key": key,
            "key_group": ord(key), "timestamp_ms": time, "v": float(offset),
        })  # fmt: skip
    return rows


def stamped(plan: BatchPlan, *batches: list[dict[str, Any]]) -> pa.Table:
    """Run one stamp task over Arrow batches."""
    given_rows = (pa.RecordBatch.from_pylist(rows, schema=ROWS) for rows in batches)
    return pa.Table.from_batches(list(stamp_with(plan)(given_rows)), plan.stamped_schema)


@given(RECORDS, st.integers(0, 30), st.integers(1, 4))
@settings(max_examples=60)
def test_every_record_is_counted_once(
    records: list[tuple[int, str, int, str]], cut: int, tasks: int
) -> None:
    """Input = applied + late + dead-lettered + filtered, each as a plain loop would say."""
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_in(Path(folder), tasks)
        rows = prepared_rows(records)
        table = stamped(plan, rows[:cut], rows[cut:])
        report = stamp_report(table["report"].drop_null()[0].as_py())
        written = [pq.read_table(plan.dead_letters / f.path) for f in report.dead_letters]
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
            accepted.append((offset, close, ord(key) % tasks))
    found = table.filter(pa.compute.is_null(table["report"])).to_pylist()
    assert [(r["offset"], r["close_ms"], r["task"]) for r in found] == accepted
    assert report.counters == {"input": len(records), **wanted}
    assert sum(wanted.values()) == len(records)
    assert report.stream_time_ms == {p: t for p, t in clock.items() if t >= 0}
    assert sum(len(letters) for letters in written) == wanted["dead_lettered"]


@given(RECORDS, st.lists(st.tuples(st.integers(1, 12), st.integers(1, 4)), min_size=1, max_size=6))
@settings(max_examples=60)
def test_cuts_and_numbers_of_tasks_change_nothing(
    records: list[tuple[int, str, int, str]], cuts: list[tuple[int, int]]
) -> None:
    """However the log is cut and whatever the number of tasks, the newest rows are the same."""
    batches, position = [], 0
    for length, tasks in cuts:
        batches.append((records[position : position + length], tasks))
        position += length
    batches.append((records[position:], 1))
    once, counters = newest_rows([(records, 1)])
    assert newest_rows(batches) == (once, counters)


def newest_rows(
    batches: Sequence[tuple[Sequence[tuple[int, str, int, str]], int]],
) -> tuple[dict[tuple[str, int], Any], dict[str, int]]:
    """Run the batches, each with its number of tasks; return the newest rows and the counters."""
    newest: dict[tuple[str, int], Any] = {}
    previous: PreparedBatch | None = None
    rows = prepared_rows([record for records, _ in batches for record in records])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan_in(folder, 1)
        for batch, (records, tasks) in enumerate(batches):
            plan = _plan(folder, batch, tasks, previous)
            mine, rows = rows[: len(records)], rows[len(records) :]
            previous = _prepared(plan, _reports(plan, mine), previous, {"t": {"0": 0, "1": 0}})
            for file in previous.files:
                for row in pq.read_table(plan.table / file.path).to_pylist():
                    place = row["key"], row["window_start"]
                    assert not newest.get(place, {}).get("final"), "a final window changed"
                    newest[place] = row
    assert previous is not None
    for row in newest.values():
        del row["revision"]
    return newest, previous.record.counters


def _reports(plan: BatchPlan, rows: list[dict[str, Any]]) -> list[GroupReport]:
    """One stamp task per partition with rows, then every engine task."""
    parts = [[row for row in rows if row["partition"] == p] for p in (0, 1)]
    stamps = [stamped(plan, part) for part in parts if part]
    if not stamps:
        return []
    everything = pa.concat_tables(stamps)
    reports = []
    for task in range(plan.tasks):
        mine = everything.filter(pa.compute.equal(everything["task"], task))
        (result,) = group_with(plan)(iter(mine.to_batches()))
        reports.append(group_report(result["report"][0].as_py()))
    return reports
