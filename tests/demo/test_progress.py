"""What the demo says while the pipeline catches up."""

import io
import sys
from pathlib import Path

import pytest

from oriel.demo import progress as progress_module
from oriel.demo.progress import Progress, say
from oriel.storage import CommitRecord


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        """A person looks."""
        return True


class _Run:
    """A pipeline's commits, one after the other, and a clock."""

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
    """Counted from the first batch on; a line is printed only when there is news."""
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
    """The line is the last one that the pipeline has printed."""
    monkeypatch.setattr(progress_module, "last_commit", lambda _: None)
    output = tmp_path / "pipeline.log"
    output.touch()
    progress = Progress(Path(), "t", {"0": 1000}, output=output)
    for line in (
        "",
        "starting Spark: starting Java (after 0.1 s)\n",
        "Spark is ready after 9.8 s\n",
    ):
        with output.open("a") as file:
            file.write(line)
        progress.report()
        progress.report()
    assert capsys.readouterr().err.splitlines() == [
        "demo: pipeline 0 %, starting Spark",
        "demo: pipeline 0 %, starting Spark: starting Java (after 0.1 s)",
        "demo: pipeline 0 %, Spark is ready after 9.8 s",
    ]


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """It moves in its line; what is said meanwhile takes its place, and it goes on below."""
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    run = _Run(monkeypatch)
    run.report(1, 500, 5)
    say("the first answer")
    run.report(2, 1000, 10)
    clear = "\x1b[K"
    assert terminal.getvalue() == (
        f"\rdemo: [{'#' * 15}{'.' * 15}] 50 %, 5 records{clear}"
        f"\r{clear}demo: the first answer\n"
        f"\rdemo: [{'#' * 30}] 100 %, 10 records, 5 per second, 0 s left{clear}\n"
    )
