"""Counters of a batch: the counters of all tasks must add up to the input records."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oriel import SessionWindows, StreamsBuilder, count
from oriel.pipeline.commit import prepared_batch
from oriel.pipeline.errors import RecordCountMismatch
from oriel.pipeline.plan import BatchPlan
from oriel.pipeline.stage_columns import FIRST_ELEMENT
from oriel.pipeline.tasks import Counters, Reports, count_batch
from oriel.pipeline.windows import Lineage
from tests.pipeline.tasks.task_runs import (
    Row,
    Sent,
    counters_of,
    files_of,
    grouped,
    plan_of,
    row,
    stream_of,
    with_stream_times,
)

VALUES = pa.schema([("v", pa.float64())])
ROWS = [
    row(0, 0, "a", 100),
    row(0, 1, "b", 100),
    row(0, 2, "c", 5),
    row(0, 3, None, None, reason="not-json", raw=b"x"),
    row(0, 4, "a", 100, keep=False),
]


@pytest.fixture
def plan(tmp_path: Path) -> BatchPlan:
    """A first batch of sessions, whose engine is the one to find records late, by two tasks."""
    builder = StreamsBuilder()
    windows = SessionWindows.of_inactivity_gap_and_grace(10, 10)
    stream = builder.stream("t", "v DOUBLE").group_by_key().windowed_by(windows)
    stream.aggregate(n=count()).materialize("s")
    return plan_of(tmp_path, builder.build(), 2, VALUES)


def test_each_task_counts_where_a_way_ends(plan: BatchPlan) -> None:
    """Stream tasks count what they keep back, store tasks what became of the rest."""
    reports = grouped(plan, with_stream_times(plan, VALUES, ROWS))
    counted = sum((report.counters for report in reports.stores), Counters())
    assert counted == Counters(applied=2, late=1)
    (stream,) = reports.streams
    assert stream.counters == Counters(input=5, dead_lettered=1, filtered=1)


@pytest.mark.parametrize(("times", "applied"), [(0, 1), (2, 3)], ids=["lost", "repeated"])
def test_a_record_that_is_lost_or_repeated_on_its_way_stops_the_batch(
    plan: BatchPlan, times: int, applied: int
) -> None:
    """The message has the store, the batch and all counters, and no commit is prepared."""
    rows, upstream = with_stream_times(plan, VALUES, ROWS)
    first, rest = Sent(rows[:1], Reports()), Sent(rows[1:], upstream)
    reports = grouped(plan, *[first] * times, rest)
    with pytest.raises(
        RecordCountMismatch,
        match=rf"store 's', batch 0: 5 records were read, but {3 + applied} are accounted for "
        rf"\({applied} applied, 1 late, 1 dead-lettered, 1 filtered\)",
    ):
        prepared_batch(plan, [], reports, None, {})


def element(offset: int, place: int, key: str | None, **other: Any) -> Row:
    """An element of the record at ``offset``."""
    reason = None if key else "null-key"
    is_first = {FIRST_ELEMENT.name: place == 0}
    return row(0, offset, key, 100, reason=reason, raw=b"x", **is_first, **other)


@pytest.mark.parametrize("cut", range(1, 8))
def test_elements_are_counted_wherever_their_rows_are_cut(tmp_path: Path, cut: int) -> None:
    """A record in two Arrow batches has one dead letter for all invalid flattened records."""
    builder = StreamsBuilder()
    stream = builder.stream("t", "vs ARRAY<DOUBLE>").flat_map_values(v="vs").group_by_key()
    stream.aggregate(n=count()).materialize("s")
    plan = plan_of(tmp_path, builder.build(), 2, VALUES)
    rows = [
        element(0, 0, "a"), element(0, 1, None), element(0, 2, None), element(0, 3, "b"),
        row(0, 1, "a", 100, keep=False),
        row(0, 2, None, None, reason="not-json", raw=b"x"),
        element(3, 0, None), element(3, 1, "a", keep=False),
    ]  # fmt: skip
    schema = pa.schema([FIRST_ELEMENT, *VALUES])
    flattening = replace(stream_of(plan), flattened=Lineage())
    sent = with_stream_times(plan, schema, rows[:cut], rows[cut:], stream=flattening)
    assert counters_of(plan, sent) == {
        "input": 4, "applied": 2, "late": 0, "dead_lettered": 1, "filtered": 1,
        "elements": 6, "elements_applied": 2, "elements_late": 0, "elements_dead_lettered": 3,
        "elements_filtered": 1,
    }  # fmt: skip
    (report,) = sent.reports.streams
    dead_letters = [
        pq.read_table(files_of(plan).dead_letters / one.path) for one in report.dead_letters
    ]
    assert [letter["offset"].to_pylist() for letter in dead_letters] == [[0, 2, 3]]


def test_an_element_that_is_lost_stops_the_batch() -> None:
    """Though its record is accounted for."""
    with pytest.raises(RecordCountMismatch, match="2 flattened records were read, but 1 are"):
        count_batch("s", 0, [Counters(input=1, applied=1, elements=2, elements_applied=1)])


def test_join_results_have_their_own_counters() -> None:
    """One record can have many results, or none: the sum does not contain them."""
    stream = Counters(input=3, late=1)
    task = Counters(applied=2, late_results=7, rejected_results=2)
    total = count_batch("s", 4, [stream, task])
    assert total.as_dict(with_results=True) == {
        "input": 3, "applied": 2, "late": 1, "dead_lettered": 0, "filtered": 0,
        "late_results": 7, "rejected_results": 2,
    }  # fmt: skip
    assert "late_results" not in total.as_dict(with_results=False)


def test_rows_of_a_table_that_is_looked_up_are_named() -> None:
    """They are applied, so the sum contains them. A store without lookups reports none."""
    total = count_batch(
        "s", 4, [Counters(input=3, applied=1), Counters(applied=2, table_records=2)]
    )
    assert total.as_dict(with_results=False)["table_records"] == 2
    assert "table_records" not in Counters(input=1, applied=1).as_dict(with_results=True)


def test_nothing_is_nothing() -> None:
    """A batch without any task counts nothing."""
    assert count_batch("s", 0, []) == Counters()
