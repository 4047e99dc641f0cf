"""`oriel status`: its output for people and for programs."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from oriel.pipeline.operations import status
from oriel.storage import CommitRecord, DataLayout
from oriel.storage.monitoring import STUCK_SECONDS, RunStatus, RunStatusFile, StoreRun
from oriel.storage.tailer import StatusFile, StoreStatus
from tests.storage.store_tables import StoreTable, make_definition, make_record
from tests.storage.waiting import WAIT_SECONDS

NOW_MS = time.time_ns() // 1_000_000


@pytest.fixture(name="data")
def _data(tmp_path: Path) -> Path:
    """Return a data directory with a store of two partitions. One partition lags by an hour."""
    StoreTable(tmp_path, make_definition()).commit([{"key": "a", "start": 0}])
    layout = DataLayout(tmp_path)
    layout.checkpoint("flights").mkdir(parents=True)
    record = CommitRecord(
        batch=41,
        offsets={"events": {"0": 40, "10": 4}},
        stream_time_ms={"events": {"0": NOW_MS - 2000, "10": NOW_MS - 3_600_000}},
        close_ms=NOW_MS - 3_605_000,
        counters={"input": 1234567, "applied": 1234500, "late": 60, "dead_lettered": 7},
    )
    run = RunStatus(
        application="flights",
        process=4711,
        host="here",
        started_ms=NOW_MS - 10_000,
        batch_ms=NOW_MS - 500,
        batches=42,
        phase_seconds={"plan": 0.002, "compute": 0.03, "commit": 0.01},
        total_phase_seconds={"plan": 0.1, "compute": 3.0, "commit": 1.0},
        offset_unit="bytes",
        log_ends={"events": {"0": 140}},
        stores={"store": StoreRun(record, 7, 2, ("events", 10), {"events": [0]}, 3)},
        maintenance_failures=2,
        lost={"events": 9},
        log_ends_ms=NOW_MS - 700,
    )
    RunStatusFile(layout.checkpoint("flights")).write(run)
    StatusFile(layout).write({"store": StoreStatus("failed", 1, "CorruptLog: torn")})
    return tmp_path


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the wall-clock time, because this module can be imported long before a test."""
    monkeypatch.setattr(time, "time_ns", lambda: NOW_MS * 1_000_000)


def test_a_table_says_who_runs_how_far_it_is_and_what_is_wrong(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pipelines, stores and partitions have one line each."""
    assert status.main(["--data", str(data)]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    pipeline = lines[0]
    assert pipeline.startswith("pipeline flights: runs (process 4711 on here). 42 batches")
    assert pipeline.endswith(" and took 42 ms (plan 2, compute 30, commit 10)")
    assert "could not be compacted or cleaned up 2 times" in lines[1]
    assert "topic events lost 9 offsets" in lines[2]
    store = next(line for line in lines if line.startswith("store  flights"))
    assert "1,234,567" in store
    assert store.endswith("failed at version 1: CorruptLog: torn")
    first, second = (line.split() for line in lines if line.startswith("store  events"))
    assert first[:6] == ["store", "events", "0", "40", "100", "bytes"]
    assert " ".join(first).endswith("idle, windows become final without it")
    assert second[:5] == ["store", "events", "10", "4", "-"]
    # Rounded to hours, because the machine can be slow.
    assert " ".join(second).endswith(" h keeps windows from becoming final")


def test_a_pipeline_that_ended_is_said_to(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last status of the pipeline is shown, and its lag is unknown."""
    _change(data, has_ended=True, log_ends_ms=NOW_MS - 2_112_000)
    assert status.main(["--data", str(data)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("pipeline flights: does not run. 42 batches")
    assert "unknown (100 bytes 35.2 min ago)" in text


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "is starting (process 4711 on here), no batch in the 10.0 s since its start"),
        (
            {"has_ended": True},
            "does not run. It started 10.0 s ago and stopped before its first batch",
        ),
        # All records are read, so the pipeline has nothing to do.
        (
            {"log_ends": {"events": {"0": 40, "10": 4}}},
            "runs (process 4711 on here), no batch in the 10.0 s since its start",
        ),
    ],
)
def test_a_pipeline_without_a_batch_starts_or_has_stopped(
    data: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, object], line: str
) -> None:
    """The line names no last batch, because this process has committed none."""
    _change(data, batches=0, batch_ms=NOW_MS - 10_000, phase_seconds={}, **changes)
    assert status.main(["--data", str(data)]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(f"pipeline flights: {line}")
    assert "the last" not in first


def _change(data: Path, **changes: object) -> None:
    """Change the status of the pipeline."""
    file = RunStatusFile(DataLayout(data).checkpoint("flights"))
    said = file.read()
    assert said is not None
    file.write(replace(said[0], **changes))  # type: ignore[arg-type]


def test_a_stream_without_partitions_holds_windows_open(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a stream has no line among the partitions, so a line of the store names it."""
    store = StoreRun(make_record(1), 0, 0, ("other#2", -1))
    _change(data, stores={"store": store})
    assert status.main(["--data", str(data)]) == 0
    text = capsys.readouterr().out
    assert "store store: windows stay open until other#2 has a record" in text
    assert "keeps windows from" not in text


def test_a_check_says_only_what_is_wrong(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An idle pipeline is stuck only if it has records to read. Stuck and stopped have code 1."""
    arguments = ["--data", str(data), "--check"]
    assert status.main(arguments) == 0
    long_ago_ms = NOW_MS - 1000 * STUCK_SECONDS - 1000
    _change(data, batch_ms=long_ago_ms)
    assert capsys.readouterr().out == ""
    assert status.main(arguments) == 1
    assert (
        "Pipeline flights has committed no batch for 5.0 min although 100 bytes"
        in capsys.readouterr().out
    )
    _change(data, batch_ms=long_ago_ms, log_ends={"events": {"0": 40}})
    assert status.main(arguments) == 0
    _change(data, batch_ms=long_ago_ms, has_ended=True)
    assert status.main(arguments) == 1
    assert capsys.readouterr().out.startswith("Pipeline flights has not run since 2")
    (DataLayout(data).checkpoint("flights") / "status.json").unlink()
    assert status.main(arguments) == 1
    assert "No pipeline has run here" in capsys.readouterr().out


def test_a_reader_that_ends_first_is_no_error(data: Path) -> None:
    """A closed pipe is not an error, as in `oriel status --data DATA | head -1`."""
    command = [sys.executable, "-P", "-m", "oriel", "status", "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        assert (process.communicate(timeout=WAIT_SECONDS)[1], process.returncode) == (b"", 0)


def test_programs_get_json(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON has everything that the table has, as numbers."""
    assert status.main(["--data", str(data), "--json"]) == 0
    seen = orjson.loads(capsys.readouterr().out)
    (store,) = seen["stores"]
    assert store["record"]["counters"]["late"] == 60
    assert store["partitions"][1]["holds_windows_open"] is True
    assert seen["runs"]["flights"][1] is True
    assert seen["pipelines"][0]["log_end_ms"] == NOW_MS - 700


def test_a_directory_without_tables_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped path would look like a system without stores, so it is an error."""
    assert status.main(["--data", str(tmp_path)]) == 1
    assert "has no tables" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
