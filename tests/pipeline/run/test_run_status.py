"""What a real run says beside its batches: the status file, and lines for programs."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from oriel.pipeline.run import main, run_report
from oriel.pipeline.run.run_report import RunReport
from oriel.storage import DataLayout, set_up_console
from oriel.storage.monitoring import Overview, RunStatus, RunStatusFile, StoreRun, overview
from tests.storage.store_tables import make_record
from tests.storage.waiting import wait_until, wait_while_it_runs

ROOT = Path(__file__).resolve().parents[3]
TOPOLOGY = """
from oriel import SlidingWindows, StreamsBuilder

builder = StreamsBuilder()
windows = SlidingWindows.of_time_difference_with_no_grace(10)
builder.stream("t", "v INT").group_by_key().windowed_by(windows).count().materialize("s")
topology = builder.build()
"""


def _append(log: Path, partition: int, *times_ms: int) -> None:
    """Append a record at each time, and a line that is none."""
    with (log / "t" / f"{partition}.jsonl").open("ab") as file:
        for time_ms in times_ms:
            record = {"key": "k", "value": {"v": 1}, "timestamp_ms": time_ms}
            file.write(orjson.dumps(record) + b"\n")
        file.write(b"rubbish\n")


@contextmanager
def _running(folder: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """``oriel run`` over the log of ``folder``."""
    topology = folder / "flights.py"
    topology.write_text(TOPOLOGY)
    command = [sys.executable, "-P", "-m", "oriel", "run", str(topology)]
    command += ["--event-log", str(folder / "log"), "--data", str(folder / "data"), *options]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as run:  # fmt: skip
        try:
            yield run
        finally:
            run.kill()


def _input(seen: Overview) -> int:
    """How many records the store has read."""
    records = [store.record for store in seen.stores]
    return records[0].counters["input"] if records and records[0] else 0


@pytest.fixture(scope="module", name="said")
def _said(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Overview], list[dict[str, Any]]]:
    """Overviews after each of two pieces of the log and after the end, and the lines on stderr."""
    folder = tmp_path_factory.mktemp("run")
    log, data = folder / "log", folder / "data"
    (log / "t").mkdir(parents=True)
    _append(log, 0, 100, 200, 90)
    _append(log, 1, 50)
    seen: list[Overview] = []

    def is_read(records: int) -> bool:
        now = overview(data)
        if _input(now) < records or any(p.lag != 0 for p in now.stores[0].partitions):
            return False
        seen.append(now)
        return True

    with _running(folder, "--log-format", "json", "--trigger", "50ms") as run:
        wait_while_it_runs(run, lambda: is_read(6))
        _append(log, 1, 300)
        wait_while_it_runs(run, lambda: is_read(8))
        # To Python and Java, as from systemd.
        os.killpg(run.pid, signal.SIGTERM)
        summary, lines = run.communicate()
    assert run.returncode == 0, lines
    assert orjson.loads(summary)["stores"]["s"]["input"] == 8
    seen.append(overview(data))
    return seen, [orjson.loads(line) for line in lines.splitlines()]


Said = tuple[list[Overview], list[dict[str, Any]]]


@pytest.mark.slow
def test_a_run_says_that_it_lives_until_it_ends(said: Said) -> None:
    """With its batches and what they took."""
    first, second, ended = ((*seen.runs["flights"], seen) for seen in said[0])
    assert [alive for _, alive, _ in (first, second, ended)] == [True, True, False]
    assert set(first[0].phase_seconds) == {"plan", "compute", "commit"}
    assert first[0].batches < second[0].batches == ended[0].batches
    assert first[0].offset_unit == "bytes"
    assert first[0].maintenance_failures == 0


@pytest.mark.slow
def test_partitions_know_the_end_of_the_log_and_who_holds_windows_open(said: Said) -> None:
    """By the engine's own word, which follows the clocks."""
    (first, *_), (second, *_) = (seen.stores for seen in said[0][:2])
    assert [p.holds_windows_open for p in first.partitions] == [False, True]
    assert [p.holds_windows_open for p in second.partitions] == [True, False]
    assert all(p.log_end == p.offset > 0 for p in second.partitions)
    assert second.state_bytes > 0
    assert second.record is not None
    assert second.record.counters["dead_lettered"] == 3


@pytest.mark.slow
def test_each_line_is_json_for_programs(said: Said) -> None:
    """The time, the level, the event, the pipeline; a batch with the counters of its stores."""
    lines = said[1]
    assert lines[0]["message"] == "starting Spark"
    assert all({"time", "level", "event", "message"} <= set(line) for line in lines)
    assert {line["application"] for line in lines} == {"flights"}
    batch = next(line for line in lines if line["event"] == "batch")
    assert batch["stores"]["s"]["input"] >= 6
    assert batch["message"].startswith(f"batch {batch['batch']}: s ")


@pytest.fixture(name="report")
def _report(tmp_path: Path) -> Iterator[RunReport]:
    """A report whose log has ended at 7, and has lost 3 records."""
    layout = DataLayout(tmp_path)
    layout.checkpoint("flights").mkdir(parents=True)
    report = RunReport(
        layout.checkpoint("flights"), "flights", "records", lambda: {"t": {"0": 7}},
        lambda: {"t": 3},
    )  # fmt: skip
    yield report
    report.end()


def _status(data: Path) -> tuple[RunStatus, bool]:
    """What the pipeline last said, and whether it lives."""
    return overview(data).runs["flights"]


def test_a_run_that_never_held_its_checkpoint_says_nothing(
    report: RunReport, tmp_path: Path
) -> None:
    """Its end is not that of the process which holds it."""
    report.end()
    assert overview(tmp_path).runs == {}


def test_what_beats_say(report: RunReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log's end once it is known, failures of this query and of those before it."""
    monkeypatch.setattr(run_report, "_WRITE_SECONDS", 0)
    report.note_failures(2)
    report.on_batch({}, {"plan": 0.5})
    report.on_batch({}, {"plan": 0.25})

    def is_known() -> bool:
        report.beat(1)
        return _status(tmp_path)[0].log_ends == {"t": {"0": 7}}

    wait_until(is_known, "the end of the log")
    status, is_alive = _status(tmp_path)
    assert is_alive
    assert (status.maintenance_failures, status.offset_unit) == (3, "records")
    assert (status.batches, status.lost) == (2, {"t": 3})
    assert (status.phase_seconds, status.total_phase_seconds) == ({"plan": 0.25}, {"plan": 0.75})


def test_until_its_first_batch_a_run_says_what_the_one_before_it_left(
    report: RunReport, tmp_path: Path
) -> None:
    """Stores and lost offsets are as they were; the batches are its own."""
    report.beat()
    first, _ = _status(tmp_path)
    left = replace(first, started_ms=0, stores={"s": StoreRun(make_record(1), 2, 3)}, lost={"t": 1})
    RunStatusFile(DataLayout(tmp_path).checkpoint("flights")).write(replace(left, batches=9))
    report.end()
    status, _ = _status(tmp_path)
    assert (status.stores, status.lost, status.batches) == (left.stores, left.lost, 0)


def test_a_log_that_does_not_answer_is_no_reason_to_be_silent(
    report: RunReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end is not known; the run is alive."""
    monkeypatch.setattr(report._log_ends, "_ask", lambda: 1 // 0)
    report.beat()
    status, is_alive = _status(tmp_path)
    assert is_alive
    assert status.log_ends == {}


def test_a_process_that_was_suspended_leaves_its_successor_the_word(
    report: RunReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with its last word."""
    monkeypatch.setattr(run_report, "_WRITE_SECONDS", 0)
    report.beat()
    mine, _ = _status(tmp_path)
    successors = replace(mine, started_ms=mine.started_ms + 1, process=1)
    RunStatusFile(DataLayout(tmp_path).checkpoint("flights")).write(successors)
    report.beat()
    report.end()
    assert _status(tmp_path) == (successors, True)


def test_a_full_disk_does_not_end_a_run_by_its_status(
    report: RunReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing depends on that file."""

    def fails(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(RunStatusFile, "write", fails)
    report.beat()
    assert overview(tmp_path).runs == {}


def test_an_error_is_one_line_for_programs_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its message has it for people."""
    # The command sets these for its process.
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    arguments = [str(tmp_path / "none.py"), "--event-log", str(tmp_path), "--data", str(tmp_path)]
    assert main(arguments) == 1
    text = capsys.readouterr().err
    assert main([*arguments, "--log-format", "json"]) == 1
    line = orjson.loads(capsys.readouterr().err)
    assert (line["level"], line["event"], line["application"]) == ("error", "error", "none")
    assert line["message"] + "\n" == text
    set_up_console("text")
