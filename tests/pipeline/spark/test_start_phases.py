"""The lines about Spark's start."""

import io
import os
import re
import time
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from pyspark import SparkContext

from oriel.pipeline.spark import LogFile, StartPhases
from tests.storage.waiting import wait_until

#: What Ivy writes to the output of Java.
_RESOLVES = ":: resolving dependencies :: org.apache.spark#spark-submit-parent-1;1.0"
_FOUND = "\tfound org.example#{};1.0 in central"
_DOWNLOADS = "downloading https://repository.example/{}-1.0.jar ..."


def test_each_phase_of_a_start_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A phase is printed when it begins, with the seconds since the run began."""
    monkeypatch.setattr(SparkContext, "_gateway", None)
    log = LogFile(tmp_path, "run")
    phases = StartPhases(time.monotonic(), log)

    outputs = log.open_outputs()

    def java_writes(*lines: str) -> None:
        os.write(outputs, "".join(f"{line}\n" for line in lines).encode())

    with redirect_stderr(io.StringIO()) as errors:

        def wait_for_phase(phase: str) -> None:
            wait_until(
                errors.getvalue, phase, lambda text: f'starting Spark: phase="{phase}" ' in text
            )

        with phases.watched():
            wait_for_phase("starting Java")
            java_writes("WARNING: Using incubator modules", _RESOLVES)
            wait_for_phase("resolving packages")
            java_writes(*map(_FOUND.format, "ab"), *map(_DOWNLOADS.format, "ab"))
            wait_for_phase("downloading 2 packages")
            java_writes(_FOUND.format("c"), _DOWNLOADS.format("c"))
            monkeypatch.setattr(SparkContext, "_gateway", object())
            wait_for_phase("creating the session")
        phases.end()
    os.close(outputs)
    *begun, ended = errors.getvalue().splitlines()
    assert len(begun) == 4
    assert [line for line in begun if not re.search(r" seconds=\d+\.\d$", line)] == []
    assert re.fullmatch(r"Spark is ready: seconds=\d+\.\d", ended)


def test_a_session_that_is_built_at_once_has_its_phase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java runs already, so it is not started."""
    monkeypatch.setattr(SparkContext, "_gateway", object())
    phases = StartPhases(time.monotonic(), LogFile(tmp_path, "run"))
    with redirect_stderr(io.StringIO()) as errors, phases.watched():
        pass
    (line,) = errors.getvalue().splitlines()
    assert line.startswith('starting Spark: phase="creating the session" seconds=')
