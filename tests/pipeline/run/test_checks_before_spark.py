"""`oriel run` and `oriel rebuild` reject these errors before Spark starts."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from oriel.pipeline import run_command as command_line
from oriel.pipeline.commit import Checkpoint
from oriel.pipeline.commit.checkpoint import checkpoint as checkpoints
from oriel.pipeline.run_command import main, rebuild

_PLAIN = """
from oriel import StreamsBuilder, TimeWindows, count

builder = StreamsBuilder()
windows = TimeWindows.of_size_and_grace(10, 5)
stream = builder.stream("t", "v INT")
stream.group_by_key().windowed_by(windows).aggregate(n=count()).materialize("s")
topology = builder.build()
"""
#: A file that can only be imported when Spark runs.
_WITH_SPARK = f"from pyspark.sql import functions as F\n{_PLAIN}"

Command = Callable[..., str]


class _NoSession:
    """A start of Java that is canceled before a session begins."""

    def __init__(self, **_: object) -> None:
        """Start no Java process."""

    def session(self, _: str) -> None:
        pytest.fail("Spark was started")

    def cancel(self) -> None:
        """Leave no process."""


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Return a function that runs a command without Spark, and returns its line on stderr."""
    monkeypatch.setattr(command_line, "SparkStart", _NoSession)
    monkeypatch.setattr(checkpoints, "LOCK_WAIT_SECONDS", 0.0)
    (tmp_path / "log" / "t").mkdir(parents=True)

    def run(text: str, *stores: str) -> str:
        path = tmp_path / "app.py"
        path.write_text(text)
        options = [str(path), "--event-log", str(tmp_path / "log"), "--data", str(tmp_path / "d")]
        called = rebuild([*stores, *options]) if stores else main([*options, "--once"])
        assert called == 1
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return run


@pytest.fixture
def running(tmp_path: Path) -> Path:
    """Return the checkpoint directory of a pipeline."""
    directory = tmp_path / "d" / "checkpoints" / "app"
    Checkpoint(directory, sync=False).close()
    return directory


@pytest.mark.parametrize("text", [_PLAIN, _WITH_SPARK])
@pytest.mark.parametrize("stores", [(), ("s",)], ids=["run", "rebuild"])
def test_a_pipeline_that_runs_is_named(
    command: Command, running: Path, text: str, stores: tuple[str, ...]
) -> None:
    """The error names the process, which must be stopped first."""
    with Checkpoint(running, sync=False):
        line = command(text, *stores)
    assert f"process {os.getpid()} on " in line
    assert line.endswith(f"runs this pipeline (it holds {running / 'lock'}). Stop it first")


@pytest.mark.usefixtures("running")
def test_all_unknown_stores_are_named(command: Command) -> None:
    """A misspelled name is rejected without a start of Spark."""
    line = command(_PLAIN, "s", "x", "y")
    assert line == "oriel rebuild: the topology has no store 'x', 'y'. Its stores: s"


@pytest.mark.parametrize("text", [_PLAIN, _WITH_SPARK])
def test_a_pipeline_that_never_ran_is_named(command: Command, text: str) -> None:
    """A rebuild needs a pipeline that has run."""
    assert "the pipeline has not run. Use `oriel run` first" in command(text, "s")


def test_an_output_topic_needs_a_cluster(command: Command) -> None:
    """The error names the option."""
    line = command(_PLAIN.replace("stream.group", "stream.to('out')\nstream.group"))
    assert "Name the cluster with --publish-to HOST:PORT" in line
