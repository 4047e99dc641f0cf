"""What a run reports in addition to its batches: the status file, and lines for programs."""

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from queue import Queue

import orjson
import pytest

from oriel.pipeline.errors import KafkaUnavailable
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run.reporting import run_report
from oriel.pipeline.run.reporting.run_report import RunReport
from oriel.pipeline.run_command import main
from oriel.storage import DataLayout, Offsets
from oriel.storage.monitoring import (
    PartitionOverview,
    RunStatus,
    RunStatusFile,
    StoreRun,
    overview,
)
from tests.storage.store_tables import StoreTable, make_definition, make_record
from tests.storage.waiting import WAIT_SECONDS, wait_for, wait_until


@pytest.fixture(name="report")
def _report(tmp_path: Path) -> Iterator[RunReport]:
    """Yield a report of a log that ends at 7 and has lost 3 records."""
    layout = DataLayout(tmp_path)
    layout.checkpoint("flights").mkdir(parents=True)
    report = RunReport(
        layout.checkpoint("flights"), "flights", "records", lambda: {"t": {"0": 7}},
        lambda: {"t": 3},
    )  # fmt: skip
    yield report
    report.end()


def test_a_log_end_that_is_older_than_the_offset_does_not_mean_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lag is the distance from the offset at the time when the log's end was read."""
    monkeypatch.setattr(run_report, "_WRITE_SECONDS", 0)
    monkeypatch.setattr(run_report, "_READ_PAUSE_SECONDS", 0)
    layout = DataLayout(tmp_path)
    layout.checkpoint("flights").mkdir(parents=True)
    StoreTable(tmp_path, make_definition()).commit([{"key": "a", "start": 0}])
    log_ends = Queue[int]()
    report = RunReport(
        layout.checkpoint("flights"), "flights", "bytes",
        lambda: {"events": {"0": log_ends.get()}}, dict,
    )  # fmt: skip

    def read_to(offset: int) -> PartitionOverview:
        """Commit a batch up to this offset."""
        record = make_record(0, offset)
        report.on_batch({"store": PreparedBatch(record, {}, {}, [], [], 0, 0)}, {})
        report.write_heartbeat()
        return overview(tmp_path).stores[0].partitions[0]

    def log_ends_at(offset: int) -> PartitionOverview:
        """Set the end of the log that the next reads return."""
        # The first end can belong to offsets that were read before. When the thread fetches the
        # third end, it has noted the second one.
        for _ in range(3):
            log_ends.put(offset)
        wait_until(log_ends.empty, "the log's end is read")
        report.write_heartbeat()
        return overview(tmp_path).stores[0].partitions[0]

    try:
        read_to(40)
        lagging = log_ends_at(100)
        assert (lagging.offset, lagging.log_end, lagging.lag) == (40, 100, 60)
        # The current end of the log is unknown.
        read_on = read_to(120)
        assert (read_on.offset, read_on.log_end, read_on.lag) == (120, 100, 60)
        caught_up = log_ends_at(120)
        assert (caught_up.lag, caught_up.lag_ms) == (0, 0)
        # A topic that was created again is shorter than the offset that was read.
        shorter = log_ends_at(7)
        assert (shorter.lag, shorter.lag_ms) == (None, None)
    finally:
        log_ends.put(0)
        report.end()


def test_a_run_reports_when_the_log_end_was_read(report: RunReport, tmp_path: Path) -> None:
    """The status has the time at which the run last read the end of its log."""
    began_ms = time.time_ns() // 1_000_000
    report._write_seconds = 0

    def log_ends_ms() -> int:
        report.write_heartbeat()
        return _status(tmp_path)[0].log_ends_ms

    read_ms = wait_until(log_ends_ms, "the time of the log's end")
    assert began_ms <= read_ms <= time.time_ns() // 1_000_000


@pytest.mark.parametrize(
    ("totals", "rates"),
    [
        ([(0, None), (1, 10)], [None, None]),
        ([(0, 10), (1, 40), (3, 40)], [None, 30, 10]),
        # The mean is over the last ten seconds, as far as the totals reach back.
        ([(0, 0), (5, 100), (10, 200), (15, 200), (20, 200)], [None, 20, 20, 10, 0]),
    ],
)
def test_records_per_second_are_a_mean_over_ten_seconds(
    totals: list[tuple[float, int | None]], rates: list[float | None]
) -> None:
    """The rate is unknown before the second total, and falls to 0 without records."""
    rate = run_report._Rate()
    assert [rate.with_total(*total) for total in totals] == rates


def test_a_record_that_several_stores_read_counts_once() -> None:
    """Stores of one topic have the same records, and stores of other topics add theirs."""

    def run(records: int, *topics: str) -> StoreRun:
        offsets = {topic: {"0": 1} for topic in topics}
        return StoreRun(make_record(1, offsets=offsets, counters={"input": records}), 0, 0)

    stores = {"a": run(5, "t"), "b": run(9, "t", "u"), "c": run(7, "v"), "d": run(7, "v")}
    assert run_report._records(stores) == 16
    assert run_report._records({}) is None


def _status(data: Path) -> tuple[RunStatus, bool]:
    """Return the last status of the pipeline, and whether it is alive."""
    return overview(data).runs["flights"]


def test_a_run_that_never_held_its_checkpoint_says_nothing(
    report: RunReport, tmp_path: Path
) -> None:
    """The end of this run is not the end of the process that holds the checkpoint."""
    report.end()
    assert overview(tmp_path).runs == {}


def test_what_beats_say(report: RunReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat reports the log's end and the failures of this query and of earlier ones."""
    monkeypatch.setattr(run_report, "_WRITE_SECONDS", 0)
    report.note_failures(2)
    report.on_batch({}, {"plan": 0.5})
    report.on_batch({}, {"plan": 0.25})

    def log_ends() -> Offsets:
        report.write_heartbeat(1)
        return _status(tmp_path)[0].log_ends

    wait_for({"t": {"0": 7}}, log_ends, "the end of the log")
    status, is_alive = _status(tmp_path)
    assert is_alive
    assert (status.maintenance_failures, status.offset_unit) == (3, "records")
    assert (status.batches, status.lost) == (2, {"t": 3})
    assert (status.phase_seconds, status.total_phase_seconds) == ({"plan": 0.25}, {"plan": 0.75})


def test_until_its_first_batch_a_run_says_what_the_one_before_it_left(
    report: RunReport, tmp_path: Path
) -> None:
    """Stores and lost offsets stay unchanged, and batches are the run's own."""
    report.write_heartbeat()
    first, _ = _status(tmp_path)
    left = replace(first, started_ms=0, stores={"s": StoreRun(make_record(1), 2, 3)}, lost={"t": 1})
    RunStatusFile(DataLayout(tmp_path).checkpoint("flights")).write(replace(left, batches=9))
    report.end()
    status, _ = _status(tmp_path)
    assert (status.stores, status.lost, status.batches) == (left.stores, left.lost, 0)


def test_progress_is_reported_although_the_log_does_not_respond(
    report: RunReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log's end is unknown, and the run is alive."""
    requested = threading.Event()

    def ask() -> Offsets:
        requested.set()
        message = "Kafka cannot be read"
        raise KafkaUnavailable(message)

    monkeypatch.setattr(report._log_ends, "_ask", ask)
    report.write_heartbeat()
    assert requested.wait(WAIT_SECONDS), "the report never asked where the log ends"
    status, is_alive = _status(tmp_path)
    assert is_alive
    assert status.log_ends == {}


def test_a_suspended_process_does_not_overwrite_the_status_of_its_successor(
    report: RunReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a successor has the pipeline, a process that resumes does not write the status file."""
    monkeypatch.setattr(run_report, "_WRITE_SECONDS", 0)
    report.write_heartbeat()
    mine, _ = _status(tmp_path)
    successors = replace(mine, started_ms=mine.started_ms + 1, process=1)
    RunStatusFile(DataLayout(tmp_path).checkpoint("flights")).write(successors)
    report.write_heartbeat()
    report.end()
    assert _status(tmp_path) == (successors, True)


def test_a_full_disk_does_not_end_a_run_by_its_status(
    report: RunReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing depends on the status file."""

    def fails(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(RunStatusFile, "write", fails)
    report.write_heartbeat()
    assert overview(tmp_path).runs == {}


def test_an_error_is_one_line_for_programs_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JSON line has the message that people see."""
    # The command sets these hooks for its process.
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    arguments = [str(tmp_path / "none.py"), "--event-log", str(tmp_path), "--data", str(tmp_path)]
    assert main(arguments) == 1
    text = capsys.readouterr().err
    assert main([*arguments, "--log-format", "json"]) == 1
    line = orjson.loads(capsys.readouterr().err)
    assert (line["level"], line["event"], line["application"]) == ("error", "error", "none")
    assert line["message"] + "\n" == text
