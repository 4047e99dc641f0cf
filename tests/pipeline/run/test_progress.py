"""Log lines of batches have the counts since the previous line, and the totals."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run.reporting import progress as progress_module
from oriel.pipeline.run.reporting.progress import Progress
from oriel.pipeline.sources import EventLog
from oriel.storage import CommitRecord


def _committed(batch: int, records: int, late: int) -> dict[str, PreparedBatch]:
    """Return the result of a batch, with the running totals of the store."""
    counters = {"input": records, "applied": records - late, "late": late, "dead_lettered": 0}
    record = CommitRecord(batch, {}, {}, close_ms=0, counters=counters)
    return {"s": PreparedBatch(record, {}, {}, [], [], changed=1, open_records=7)}


def _reported(
    seconds_and_batches: list[tuple[float, dict[str, PreparedBatch]]],
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> list[str]:
    progress = Progress(100, EventLog(log), log)
    for seconds, stores in seconds_and_batches:
        clock = SimpleNamespace(monotonic=lambda now=100 + seconds: now)
        monkeypatch.setattr(progress_module, "time", clock)
        progress.on_batch(stores["s"].record.batch, stores)
    return capsys.readouterr().err.splitlines()


def test_a_line_has_what_is_new_and_the_totals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line counts all batches since the previous line."""
    batches = [
        (0.0, _committed(0, 300_000, 2)),
        (0.5, _committed(1, 301_000, 2)),
        (1.5, _committed(2, 303_124, 9)),
    ]
    assert _reported(batches, tmp_path, monkeypatch, capsys) == [
        (
            "batch committed: batch=0, store=s input=300000 late=2 dead_lettered=0 "
            "total_input=300000 total_late=2 total_dead_lettered=0 open=7"
        ),
        (
            "batch committed: batches=1-2, store=s input=3124 late=7 dead_lettered=0 "
            "total_input=303124 total_late=9 total_dead_lettered=0 open=7, records_per_second=2083"
        ),
    ]


def test_the_first_line_of_a_resumed_run_has_totals_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records from before this run do not count as new."""
    lines = _reported(
        [(0.0, _committed(5, 10, 1)), (2.0, _committed(6, 14, 1))], tmp_path, monkeypatch, capsys
    )
    assert lines == [
        (
            "batch committed: batch=5, store=s total_input=10 total_late=1 total_dead_lettered=0 "
            "open=7"
        ),
        (
            "batch committed: batch=6, store=s input=4 late=0 dead_lettered=0 total_input=14 "
            "total_late=1 total_dead_lettered=0 open=7, records_per_second=2"
        ),
    ]
