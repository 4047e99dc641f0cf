"""`oriel retire`: checks, metrics and alerts ignore a stopped pipeline."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from oriel import __main__ as command_line
from oriel import status_check
from oriel.pipeline.commit import Checkpoint
from oriel.pipeline.errors import KafkaUnavailable
from oriel.pipeline.operations import retire, status
from oriel.pipeline.run.reporting import run_report
from oriel.pipeline.run.reporting.run_report import RunReport
from oriel.storage import DataLayout, Offsets
from oriel.storage.monitoring import RunStatus, StoreRun, metrics_text, overview, run_status
from tests.app.api_client import write_pipeline_status
from tests.storage.store_tables import StoreTable, make_definition, make_record


@pytest.fixture(name="data")
def _data(tmp_path: Path) -> Path:
    """Return a data directory with a stopped pipeline, `flights`, and a running one, `mine`."""
    StoreTable(tmp_path, make_definition()).commit([{"key": "a", "start": 0}])
    record = make_record(1, offsets={"t": {"0": 1}}, stream_time_ms={"t": {"0": 9}})
    write_pipeline_status(tmp_path, stores={"store": StoreRun(record, 0, 0)}, has_ended=True)
    write_pipeline_status(tmp_path, "mine")
    return tmp_path


def _retire(data: Path, name: str = "flights") -> int:
    return retire.main([name, "--data", str(data)])


def _run(data: Path, name: str) -> RunStatus:
    return overview(data).runs[name][0]


def test_checks_and_metrics_ignore_a_retired_pipeline(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A check of all pipelines succeeds, and no metric is about the pipeline or its partitions."""
    arguments = ["--data", str(data), "--check"]
    assert status.main(arguments) == 1
    assert _retire(data) == 0
    assert "flights is retired" in capsys.readouterr().out
    assert status.main(arguments) == 0
    assert capsys.readouterr().out == ""
    families = text_string_to_metric_families(metrics_text(overview(data)).decode())
    samples = [sample for family in families for sample in family.samples]
    assert {"mine"} == {
        sample.labels["application"] for sample in samples if "application" in sample.labels
    }
    assert [sample for sample in samples if sample.name.startswith("oriel_partition_")] == []


def test_the_status_lists_a_retired_pipeline(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`oriel status` lists the pipeline with the time since which it is retired."""
    _retire(data, "demo/flights.py")
    capsys.readouterr()
    assert status.main(["--data", str(data)]) == 0
    assert "pipeline flights: is retired since 2" in capsys.readouterr().out
    assert [(one.state, one.problem) for one in overview(data).pipelines] == [
        ("retired", None),
        ("running", None),
    ]
    assert status.main(["--data", str(data), "--check", "--pipeline", "flights"]) == 1
    assert "Pipeline flights is retired since 2" in capsys.readouterr().out


def test_a_run_makes_it_active_again(data: Path) -> None:
    """The first heartbeat of the next run replaces the status, and keeps its stores."""
    _retire(data)
    directory = DataLayout(data).checkpoint("flights")
    report = RunReport(directory, "flights", "records", lambda: {"t": {"0": 1}}, dict)
    report.write_heartbeat()
    try:
        assert (_run(data, "flights").retired_ms, list(_run(data, "flights").stores)) == (
            0,
            ["store"],
        )
        assert overview(data).pipelines[0].state != "retired"
    finally:
        report.end()


def test_a_pipeline_that_runs_is_not_retired(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running process holds the checkpoint of its pipeline."""
    directory = DataLayout(data).checkpoint("mine")
    monkeypatch.setattr(
        retire, "Checkpoint", lambda path, sync: Checkpoint(path, sync=sync, lock_wait_s=0)
    )
    with Checkpoint(directory, sync=False):
        assert _retire(data, "mine") == 1
    assert "runs" in capsys.readouterr().err
    assert _run(data, "mine").retired_ms == 0


def test_an_unknown_pipeline_is_rejected(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the pipelines that exist, and no directory is created."""
    assert _retire(data, "flight") == 1
    assert "has no pipeline 'flight'. Its pipelines: flights, mine." in capsys.readouterr().err
    assert not DataLayout(data).checkpoint("flight").exists()


@pytest.mark.parametrize(
    ("changes", "code", "line"),
    [
        ({}, 0, ""),
        ({"problem": "It is slow."}, 0, ""),
        ({"has_ended": True}, 1, "Pipeline mine has not run since 2"),
        ({"has_ended": True, "retired_ms": 1}, 1, "Pipeline mine is retired since 1970"),
        (
            {"batch_ms": 0, "log_ends_ms": 1, "problem": "It is stuck."},
            1,
            "Pipeline mine has not reported the end of its log since",
        ),
    ],
)
def test_a_check_of_one_pipeline_ignores_the_others(
    data: Path, capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any], code: int, line: str,
) -> None:  # fmt: skip
    """`flights` has stopped. The quick check prints and returns what the full command does."""
    write_pipeline_status(data, "mine", started_ms=1, **changes)
    options = ["--data", str(data), "--check", "--pipeline=/project/mine.py"]
    assert command_line.main(["status", *options]) == code
    printed = capsys.readouterr().out
    assert printed.startswith(line)
    assert status.main(options) == code
    assert capsys.readouterr().out == printed


def test_the_quick_check_is_as_patient_as_the_full_one() -> None:
    """Both checks expect a heartbeat within the same time."""
    assert status_check.HEARTBEAT_SECONDS_MAX == run_status.HEARTBEAT_SECONDS_MAX


def test_a_check_names_a_pipeline_that_never_ran(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A check of one pipeline fails although others run."""
    assert status_check.main(["--data", str(data), "--check", "--pipeline", "orders"]) == 1
    assert capsys.readouterr().out == (
        "Pipeline orders has not run here. Start it with the same --data.\n"
    )


@pytest.mark.parametrize(("pipeline", "code"), [("mine", 0), ("flights", 1), ("orders", 1)])
def test_the_quick_check_imports_almost_nothing(
    data: Path, monkeypatch: pytest.MonkeyPatch, pipeline: str, code: int
) -> None:
    """A health check runs every few seconds, so it must not import PyArrow."""
    heavy = {name for name in sys.modules if name.startswith(("oriel.", "pyarrow", "numpy"))}
    for name in heavy - {"oriel.status_check"}:
        monkeypatch.delitem(sys.modules, name)
    assert status_check.main(["--data", str(data), "--check", "--pipeline", pipeline]) == code
    loaded = {name for name in sys.modules if name.startswith(("oriel.", "pyarrow", "numpy"))}
    assert loaded == {"oriel.status_check"}


def test_a_silent_pipeline_is_not_well(data: Path) -> None:
    """A healthy status counts only while the pipeline writes it."""
    long_ago = time.time() - 60
    os.utime(DataLayout(data).checkpoint("mine") / "status.json", (long_ago, long_ago))
    assert status_check.main(["--data", str(data), "--check", "--pipeline", "mine"]) == 1


def test_a_run_reports_its_own_problem(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status of a run has its problem, so a check only needs this file."""

    def log_ends() -> Offsets:
        raise KafkaUnavailable

    report = RunReport(DataLayout(data).checkpoint("mine"), "mine", "records", log_ends, dict)
    report._write_seconds = 0
    try:
        report.write_heartbeat()
        assert _run(data, "mine").problem is None
        later_ms = report._started_ms + 400_000
        monkeypatch.setattr(run_report, "_now_ms", lambda: later_ms)
        report.write_heartbeat()
        problem = str(_run(data, "mine").problem)
        assert problem.startswith("Pipeline mine has not reported the end of its log since 2")
    finally:
        report.end()
