"""Lines about batches: what is new since the line before, with the totals beside."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run import progress as progress_module
from oriel.pipeline.run.progress import Progress
from oriel.pipeline.sources import EventLog
from oriel.storage import CommitRecord


def _committed(batch: int, records: int, late: int) -> dict[str, PreparedBatch]:
    """What a batch left, with the running totals of the store."""
    counters = {"input": records, "applied": records - late, "late": late, "dead_lettered": 0}
    record = CommitRecord(batch, {}, {}, close_ms=0, counters=counters)
    return {"s": PreparedBatch(record, {}, {}, [], [], changed=1, open_records=7)}


def _told(
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
    """A line stands for all batches since the one before it, so that the new numbers add up."""
    batches = [
        (0.0, _committed(0, 300_000, 2)),
        (0.5, _committed(1, 301_000, 2)),
        (1.5, _committed(2, 303_124, 9)),
    ]
    assert _told(batches, tmp_path, monkeypatch, capsys) == [
        "batch 0: s 300,000 records, 2 late, 0 dead-lettered (in all 300,000, 2, 0), 7 open",
        (
            "batches 1 to 2: s 3,124 records, 7 late, 0 dead-lettered (in all 303,124, 9, 0), "
            "7 open (2,083 records/s)"
        ),
    ]


def test_the_first_line_of_a_resumed_run_has_totals_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was there before this run is not taken for news."""
    lines = _told(
        [(0.0, _committed(5, 10, 1)), (2.0, _committed(6, 14, 1))], tmp_path, monkeypatch, capsys
    )
    assert lines == [
        "batch 5: s 10 records, 1 late, 0 dead-lettered in all, 7 open",
        "batch 6: s 4 records, 0 late, 0 dead-lettered (in all 14, 1, 0), 7 open (2 records/s)",
    ]
