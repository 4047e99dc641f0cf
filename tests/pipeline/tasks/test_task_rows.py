"""Between the tasks of a batch: rows, reports and dead letters."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oriel import StreamsBuilder, count
from oriel.pipeline.dead_letters import REASONS, SourceReasons
from oriel.pipeline.plan import BatchPlan
from oriel.pipeline.tasks import (
    Counters,
    JoinReport,
    Reports,
    StoreReport,
    StreamReport,
    decoded_reports,
    decoded_rows,
)
from oriel.pipeline.tasks.exchange import sent
from oriel.pipeline.tasks.router import for_tasks
from oriel.storage.delta import DEAD_LETTER_SCHEMA, AddedFile
from tests.pipeline.tasks.task_runs import files_of, plan_of, row

VALUES = pa.schema([("v", pa.float64())])


@pytest.fixture
def plan(tmp_path: Path) -> BatchPlan:
    """Return the first batch of the store `s` with three tasks."""
    builder = StreamsBuilder()
    builder.stream("t", "v DOUBLE").group_by_key().aggregate(n=count()).materialize("s")
    return plan_of(tmp_path, builder.build(), 3, VALUES)


def test_rows_go_to_the_tasks_of_their_key_groups(plan: BatchPlan) -> None:
    """The task of a row is the remainder of its key group."""
    rows = pa.Table.from_pylist([row(0, n, chr(97 + n), n, key_group=7 * n) for n in range(6)])
    batch = for_tasks(rows, plan.input_schema, plan.tasks)
    assert batch.schema == plan.input_schema
    assert batch["task"].to_pylist() == [group % 3 for group in rows["key_group"].to_pylist()]
    assert batch["key"].to_pylist() == list("abcdef")


def test_columns_that_rows_lack_are_null(plan: BatchPlan) -> None:
    """Each input of a cogroup has its own columns, and the columns of other inputs are null."""
    rows = pa.table({"key": ["a"], "key_group": pa.array([1], pa.int32()), "other": [5]})
    batch = for_tasks(rows, plan.input_schema, 1)
    lacking = [name for name in batch.schema.names if name not in {"task", "key", "key_group"}]
    assert lacking
    assert {name: batch[name].null_count for name in lacking} == dict.fromkeys(lacking, 1)
    assert "other" not in batch.schema.names


def test_no_rows_make_an_empty_batch(plan: BatchPlan) -> None:
    """A batch with only invalid records still has the columns of the exchange."""
    rows = pa.Table.from_pylist([row(0, 0, "a", 1, key_group=1)])[:0]
    batch = for_tasks(rows, plan.input_schema, plan.tasks)
    assert (batch.num_rows, batch.schema) == (0, plan.input_schema)


def test_every_task_gets_the_reports_and_its_own_rows() -> None:
    """Rows go to one task each. Reports go to all tasks, also to those without rows."""
    dead_letters = [AddedFile("f.parquet", 1, 2, "{}", 4)]
    reports = Reports(
        [StreamReport("t#2", {0: 5, 12: -1}, Counters(input=3, late_results=1), dead_letters)],
        [JoinReport(1, 2, ["a.arrow"], 7, Counters(late=1, filtered=2))],
        [StoreReport(1, ["b.arrow"], 3, 9, 2, Counters(applied=1), dead_letters, dead_letters, 8)],
    )
    rows = pa.record_batch({"task": pa.array([2, 0, 2], pa.int32()), "v": [1, 2, 3]})
    (batch,) = sent([rows, rows[:0]], lambda: reports, channel=4, tasks=3)
    assert batch["task"].to_pylist() == [0, 1, 2]
    assert batch["channel"].to_pylist() == [4, 4, 4]
    assert batch["rows"].is_null().to_pylist() == [False, True, False]
    assert decoded_rows([batch["rows"][0]]) == pa.Table.from_batches([rows[1:2]])
    assert decoded_rows([batch["rows"][2]])["v"].to_pylist() == [1, 3]
    for task in range(3):
        assert decoded_reports(batch["reports"][task : task + 1]) == reports
    twice = decoded_reports(batch["reports"][:2])
    assert (len(twice.streams), len(twice.joins), len(twice.stores)) == (2, 2, 2)
    assert reports.stream_times_after({"t#2": {3: 9}}) == {"t#2": {0: 5, 3: 9, 12: -1}}


def test_reports_are_read_after_the_last_row() -> None:
    """A task knows its reports when its rows are read. Large outputs need several envelopes."""
    taken: list[int] = []

    def rows() -> Iterator[pa.RecordBatch]:
        for n in range(3):
            taken.append(n)
            yield pa.record_batch({"task": pa.array([0], pa.int32()), "v": ["x" * 2**24]})

    batches = list(sent(rows(), lambda: Reports([StreamReport(str(taken))]), channel=0, tasks=1))
    assert [batch["reports"].null_count for batch in batches] == [1, 0]
    assert decoded_reports(batches[-1]["reports"]) == Reports([StreamReport("[0, 1, 2]")])


def bad_rows(**more: Any) -> pa.Table:
    """Return a line that is invalid for all stores, and a record that one store rejects."""
    rows = [
        {"partition": 0, "offset": 5, "reason": "not-json", "raw": b"x", **more},
        {"partition": 1, "offset": 6, "reason": "null-key", "raw": b"y", **more},
    ]
    schema = pa.schema([
        ("partition", pa.int32()), ("offset", pa.int64()), ("reason", pa.string()),
        ("raw", pa.binary()), *((name, pa.string()) for name in more),
    ])  # fmt: skip
    return pa.Table.from_pylist(rows, schema=schema)


def test_a_dead_letter_has_a_readable_detail(plan: BatchPlan) -> None:
    """A reason without its own detail has the text of the table of reasons."""
    dead_letters = plan.dead_letters.of_records("t", bad_rows(), SourceReasons.FOR_ALL)
    assert dead_letters.schema == DEAD_LETTER_SCHEMA
    assert [(one["store"], one["reason"], one["detail"]) for one in dead_letters.to_pylist()] == [
        (None, "not-json", REASONS["not-json"]),
        ("s", "null-key", REASONS["null-key"]),
    ]
    rows = bad_rows().set_column(2, "reason", pa.array(["wrong-type: n: INT expected", "null-key"]))
    dead_letters = plan.dead_letters.of_records("t", rows, SourceReasons.FOR_ALL)
    assert dead_letters["reason"].to_pylist() == ["wrong-type", "null-key"]
    assert dead_letters["detail"].to_pylist() == ["n: INT expected", REASONS["null-key"]]
    detailed = plan.dead_letters.of_records("t", bad_rows(detail="because"), SourceReasons.FOR_ALL)
    assert detailed["detail"].to_pylist() == ["because", "because"]


def test_only_one_store_reports_records_that_are_invalid_for_all(plan: BatchPlan) -> None:
    """Another store only reports the records that it alone rejects."""
    dead_letters = plan.dead_letters.of_records("t", bad_rows())
    assert dead_letters["reason"].to_pylist() == ["null-key"]
    assert dead_letters["store"].to_pylist() == ["s"]


def test_with_several_schemas_of_a_topic_each_store_reports_its_own(plan: BatchPlan) -> None:
    """A record that is invalid for one schema can be valid for another."""
    dead_letters = plan.dead_letters.of_records("t", bad_rows(), SourceReasons.FOR_ITSELF)
    assert dead_letters["reason"].to_pylist() == ["not-json", "null-key"]
    assert dead_letters["store"].to_pylist() == ["s", "s"]


@pytest.mark.parametrize("reason", ["null-key", "null-value", "function-raised"])
def test_reasons_of_one_store_name_it(plan: BatchPlan, reason: str) -> None:
    """Another store can possibly use the record, so the dead letter names the store."""
    rows = pa.Table.from_pylist([{"partition": 0, "offset": 5, "reason": reason, "raw": b"x"}])
    rows = rows.set_column(0, "partition", rows["partition"].cast(pa.int32()))
    dead_letters = plan.dead_letters.of_records("t", rows)
    assert dead_letters["store"].to_pylist() == ["s"]


def test_dead_letters_are_one_file_or_none(plan: BatchPlan) -> None:
    """Without invalid records, no file is written."""
    dead_letters = plan.dead_letters.of_records("t", bad_rows(), SourceReasons.FOR_ALL)
    assert plan.files.write_dead_letters(plan, []) == []
    assert plan.files.write_dead_letters(plan, [dead_letters[:0]]) == []
    (file,) = plan.files.write_dead_letters(plan, [dead_letters, dead_letters[:0], dead_letters])
    assert file.rows == 4
    assert file.path.startswith("dead-s-000000000000")
    assert (
        pq.read_table(files_of(plan).dead_letters / file.path).schema.names
        == DEAD_LETTER_SCHEMA.names
    )
