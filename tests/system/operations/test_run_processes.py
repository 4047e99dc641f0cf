"""``oriel run`` in its own process: how it ends, and what it prints at its end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import orjson
import psutil  # type: ignore[import-untyped]
import pytest

from tests.e2e.runs_in_one_process import after_start
from tests.pipeline.run.test_command_line import TOPOLOGY
from tests.storage.waiting import wait_until
from tests.system.runs.test_command_line_failures import LINE, failing_by
from tests.tidy.project import ROOT


def test_a_cluster_that_is_none_is_one_line(tmp_path: Path) -> None:
    """For an invalid cluster, Spark reports a Java error, and the last line is Oriel's."""
    (tmp_path / "topology.py").write_text(TOPOLOGY)
    (tmp_path / "log").mkdir()
    command = [sys.executable, "-m", "oriel", "run", str(tmp_path / "topology.py")]
    command += ["--event-log", str(tmp_path / "log"), "--data", str(tmp_path / "data")]
    command += ["--once", "--master", "nowhere", "--conf", "spark.driver.host=127.0.0.1"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    text = ended.stderr.splitlines()[-1]
    assert text.startswith("oriel run: no session on the cluster nowhere: "), ended.stderr
    assert "Check --master" in text


@contextmanager
def _committed(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Yield a run in its own session that has committed its first batch."""
    (tmp_path / "topology.py").write_text(TOPOLOGY)
    log = tmp_path / "log" / "t"
    log.mkdir(parents=True)
    (log / "0.jsonl").write_text('{"key": "a", "value": {}, "timestamp_ms": 1}\n')
    data = tmp_path / "data"
    command = [sys.executable, "-m", "oriel", "run", str(tmp_path / "topology.py")]
    command += ["--event-log", str(tmp_path / "log"), "--data", str(data)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as run:  # fmt: skip
        committed = data / "tables" / "s" / "_delta_log" / f"{1:020d}.json"
        wait_until(committed.exists, "the first version of the table", process=run)
        yield run


@pytest.mark.parametrize("to", ["Python", "Python and Java"])
def test_a_run_that_receives_a_stop_signal_ends_with_success(tmp_path: Path, to: str) -> None:
    """After SIGTERM, a run prints its summary on stdout and exits with 0.

    This also holds if all processes of the run receive the signal, as from systemd.
    """
    with _committed(tmp_path) as run:
        (run.send_signal if to == "Python" else partial(os.killpg, run.pid))(signal.SIGTERM)
        text, errors = run.communicate()
    assert run.returncode == 0, errors
    assert "Traceback" not in errors
    counters = orjson.loads(text.splitlines()[-1])["stores"]["s"]
    assert (counters["input"], counters["applied"]) == (1, 1)


def test_a_run_whose_java_is_killed_says_so(tmp_path: Path) -> None:
    """If Java is killed, for example without free memory, the run prints one line with the fix."""
    with _committed(tmp_path) as run:
        (java,) = (child for child in psutil.Process(run.pid).children() if "java" in child.name())
        java.kill()
        _, errors = run.communicate()
    assert run.returncode == 1
    assert errors.splitlines()[-1].startswith("oriel run: Java has ended: ")
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("error", "ours"), [("EventLogError('from a task')", True), ("KeyError('odd')", False)]
)
def test_an_error_in_a_task_of_a_process_is_one_line(
    tmp_path: Path, error: str, ours: bool
) -> None:
    """A separate process also prints one line, although Spark writes to the same outputs."""
    (tmp_path / "topology.py").write_text(failing_by(error))
    log = tmp_path / "log" / "t"
    log.mkdir(parents=True)
    (log / "0.jsonl").write_bytes(LINE)
    arguments = ["--event-log", str(log.parent), "--data", str(tmp_path / "data"), "--once"]
    ended = subprocess.run(
        [sys.executable, "-m", "oriel", "run", str(tmp_path / "topology.py"), *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (1, "")
    (text,) = after_start(ended.stderr)
    begun = [line.partition(" seconds=")[0] for line in ended.stderr.splitlines()]
    assert begun[:3] == [
        "starting Spark", 'starting Spark: phase="starting Java"',
        'starting Spark: phase="creating the session"',
    ]  # fmt: skip
    trace = tmp_path / "data" / "logs" / "topology.log"
    if ours:
        assert text == "oriel run: from a task"
    else:
        assert text.startswith("oriel run: store 's', step filter(")
        assert text.endswith(f": KeyError: 'odd' (see the stack trace in {trace})")
        assert "\tat org.apache.spark" in trace.read_text()
