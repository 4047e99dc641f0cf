"""Output of the demo while the pipeline reads the log."""

from pathlib import Path

import pytest

from oriel.demo import progress as progress_module
from oriel.demo.progress import Progress
from oriel.storage import CommitRecord


class _Run:
    """Successive commits of a pipeline, and a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commit: CommitRecord | None = None
        self.seconds = 0.0
        monkeypatch.setattr(progress_module, "last_commit", lambda _: self.commit)
        self.progress = Progress(Path(), "t", {"0": 1000, "1": 1000}, lambda: self.seconds)

    def report(self, seconds: float, offset: int, records: int) -> bool:
        """Commit up to an offset in both partitions, and report."""
        self.seconds = seconds
        offsets = {"t": {"0": offset, "1": offset}}
        self.commit = CommitRecord(0, offsets, {}, close_ms=0, counters={"input": records})
        return self.progress.report()


def test_lines_have_rate_and_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rate starts at the first batch. A line is printed only if something has changed."""
    run = _Run(monkeypatch)
    assert not run.progress.report()
    assert not run.report(10, 100, 10)
    assert not run.report(12, 100, 10)
    assert not run.report(20, 550, 55)
    assert run.report(30, 1000, 100)
    assert capsys.readouterr().err.splitlines() == [
        "demo: pipeline 0 %, starting Spark",
        "demo: pipeline 10 %, 10 records",
        "demo: pipeline 55 %, 55 records, 4 per second, 10 s left",
        "demo: pipeline 100 %, 100 records, 4 per second, 0 s left",
    ]


def test_each_phase_of_the_start_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The demo prints the last line of the pipeline."""
    monkeypatch.setattr(progress_module, "last_commit", lambda _: None)
    output = tmp_path / "pipeline.log"
    output.touch()
    progress = Progress(Path(), "t", {"0": 1000}, output=output)
    for line in (
        "",
        'starting Spark: phase="starting Java" seconds=0.1\n',
        "Spark is ready: seconds=9.8\n",
    ):
        with output.open("a") as file:
            file.write(line)
        progress.report()
        progress.report()
    assert capsys.readouterr().err.splitlines() == [
        "demo: pipeline 0 %, starting Spark",
        'demo: pipeline 0 %, starting Spark: phase="starting Java" seconds=0.1',
        "demo: pipeline 0 %, Spark is ready: seconds=9.8",
    ]
