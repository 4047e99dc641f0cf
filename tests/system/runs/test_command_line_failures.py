"""Each failure of a run on the command line is one clear line, in whatever layer it occurs."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oriel.pipeline.run import topology_run
from oriel.pipeline.run_command import main
from oriel.pipeline.spark import SparkStart
from tests.e2e.runs_in_one_process import after_start

# The tests run Spark, so they run in CI, not during development.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
TOPOLOGY = """
from oriel import SlidingWindows, StreamsBuilder, count

builder = StreamsBuilder()
windows = SlidingWindows.of_time_difference_with_no_grace(10)
stream = builder.stream('t', 'v INT')
stream.group_by_key().windowed_by(windows).aggregate(n=count()).materialize('s')
topology = builder.build()
"""
LINE = b'{"key": "a", "value": {"v": 1}, "timestamp_ms": 1}\n'


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a log with one valid line."""
    directory = tmp_path / "log" / "t"
    directory.mkdir(parents=True)
    (directory / "0.jsonl").write_bytes(LINE)
    return directory


@pytest.fixture
def command(
    spark: SparkSession,
    tmp_path: Path,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Callable[[str], str]:
    """Return a function that runs a topology's source to its failure and returns the error line."""
    monkeypatch.setattr(SparkStart, "session", lambda *_: spark)
    monkeypatch.setattr(topology_run, "stop_on_signal", threading.Event)

    def run(text: str) -> str:
        path = tmp_path / "topology.py"
        path.write_text(text)
        arguments = [str(path), "--event-log", str(log.parent), "--once", "--no-sync"]
        assert main([*arguments, "--data", str(tmp_path / "data")]) == 1
        lines = after_start(capfd.readouterr().err)
        assert len(lines) == 1, lines[:10]
        assert lines[0].startswith("oriel run: ")
        return lines[0] + "\n"

    return run


def _odd_name(log: Path) -> None:
    (log / "01.jsonl").touch()


def _directory_for_file(log: Path) -> None:
    (log / "1.jsonl").mkdir()


def _huge_partition(log: Path) -> None:
    (log / "9999999999.jsonl").write_bytes(LINE)


def _no_directory(log: Path) -> None:
    shutil.rmtree(log.parent)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_odd_name, "must be named by its partition number"),
        (_directory_for_file, "1.jsonl"),
        (_huge_partition, "9999999999.jsonl"),
        (_no_directory, "is not a directory. Name the directory that has a"),
    ],
)
def test_an_error_of_a_directory_is_one_line(
    command: Callable[[str], str], log: Path, harm: Callable[[Path], None], said: str
) -> None:
    """Errors of the source are Oriel's messages, not Java stack traces."""
    harm(log)
    assert said in command(TOPOLOGY)


@pytest.mark.parametrize("schema", ["v NOPE", "v INT, V INT", "v INT,", "struct<"])
def test_a_schema_that_is_none_is_one_line(command: Callable[[str], str], schema: str) -> None:
    """The message about invalid Spark DDL names the stream."""
    message = command(TOPOLOGY.replace("v INT", schema))
    assert message.startswith("oriel run: stream")
    assert repr(schema) in message


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (""".filter("v > 0").filter("key rlike '['")""", """step filter("key rlike '['"): fails"""),
        (""".filter("v = 1 and raise_error('x\\ny') is null")""", "fails on a record: x. "),
        (".join(b.stream('u', 'w INT').filter('abs(w) = -1'), w5).filter(\"key rlike '['\")",
         """step filter("key rlike '['"): fails on a record: PatternSyntaxException"""),
        (".filter(\"key rlike '['\").join(b.stream('u', 'w INT'), w5)",
         """step filter("key rlike '['"): fails on a record: PatternSyntaxException"""),
    ],
    ids=["pattern", "raise_error", "behind a join", "before a join"],
)  # fmt: skip
def test_an_expression_that_fails_on_a_record_is_one_line(
    command: Callable[[str], str], log: Path, steps: str, said: str
) -> None:
    """The message names store and step, without Java stack traces."""
    (log.parent / "u").mkdir()
    (log.parent / "u" / "0.jsonl").write_bytes(LINE.replace(b"v", b"w"))
    text = TOPOLOGY.replace("StreamsBuilder,", "JoinWindows, StreamsBuilder,")
    text = text.replace(
        "stream = b",
        "b = builder\nw5 = JoinWindows.of_time_difference_with_no_grace(5)\nstream = b",
    )
    text = text.replace("'v INT')", f"'v INT'){steps}")
    message = command(text)
    assert message.startswith("oriel run: store 's', step ")
    assert said in message


FAILING = """
from pyspark.sql import functions as F
from oriel.pipeline.errors import EventLogError

def fail(v):
    raise {error}

fails = F.udf(fail, 'boolean')
"""


def failing_by(error: str) -> str:
    """Return a topology with a function that raises ``error``."""
    by_function = TOPOLOGY.replace("'v INT')", "'v INT').filter(fails(F.col('v')))")
    return FAILING.format(error=error) + by_function


def test_an_error_of_ours_in_a_task_is_one_line(command: Callable[[str], str]) -> None:
    """The message of Oriel's own errors is unchanged, without a traceback."""
    assert command(failing_by("EventLogError('from a task')")) == "oriel run: from a task\n"


def test_another_error_in_a_task_is_one_line(command: Callable[[str], str], tmp_path: Path) -> None:
    """The message names the step and the log with the stack traces."""
    message = command(failing_by("KeyError('odd')"))
    assert message.startswith("oriel run: store 's', step filter(")
    trace = tmp_path / "data" / "logs" / "topology.log"
    assert message.endswith(f": KeyError: 'odd' (see the stack trace in {trace})\n")
    # The log of the session has Java's traces (test_session.py).
    assert "Traceback" in trace.read_text()


@pytest.mark.parametrize("has_java", [True, False])
def test_java_that_does_not_start_is_one_line(tmp_path: Path, log: Path, has_java: bool) -> None:
    """The message says what to install, or what Java printed and which file has all of it."""
    (tmp_path / "topology.py").write_text(TOPOLOGY)
    java = tmp_path / "home" / "bin" / "java"
    if has_java:
        java.parent.mkdir(parents=True)
        java.write_text("#!/bin/sh\necho 'no room for Java' >&2\nexit 1\n")
        java.chmod(0o755)
    arguments = ["--event-log", str(log.parent), "--data", str(tmp_path / "data"), "--once"]
    ended = subprocess.run(
        [sys.executable, "-m", "oriel", "run", str(tmp_path / "topology.py"), *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"JAVA_HOME": str(tmp_path / "home")},
    )  # fmt: skip
    assert ended.returncode == 1
    (message,) = after_start(ended.stderr)
    if has_java:
        assert ended.stderr.startswith('starting Spark\nstarting Spark: phase="starting Java" ')
        assert message.startswith("oriel run: Java did not start: ")
        assert "no room for Java" in message
        assert str(tmp_path / "data" / "logs" / "topology.out") in message
    else:
        assert message == (
            f"oriel run: Spark needs Java 17 or 21, and JAVA_HOME is {tmp_path}/home, which has no "
            "bin/java. Install it (Debian: apt-get install openjdk-17-jre-headless) or set "
            "JAVA_HOME"
        )
        assert not (tmp_path / "data").exists()


def test_a_rejected_topology_leaves_no_data_directory(tmp_path: Path, log: Path) -> None:
    """Spark finds the mistake and has already written its logs."""
    (tmp_path / "topology.py").write_text(TOPOLOGY.replace("v INT", "v NOPE"))
    arguments = ["--event-log", str(log.parent), "--data", str(tmp_path / "data"), "--once"]
    ended = subprocess.run(
        [sys.executable, "-m", "oriel", "run", str(tmp_path / "topology.py"), *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "'v NOPE'" in ended.stderr
    assert not (tmp_path / "data").exists()
