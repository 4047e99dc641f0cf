"""The files with the output of a run: what child processes print, and traces."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oriel.pipeline.spark import LogFile
from tests.storage.waiting import wait_until

#: Writes many bytes, and a line when its input ends.
_WRITER = """
import sys
sys.stdout.write("x" * 11 * 2**20)
sys.stdout.flush()
sys.stdin.read()
print("more")
"""


def _child(log_file: LogFile, text: str) -> None:
    code = f"import sys; print({text!r}, end='', flush=True); sys.stderr.write('to stderr\\n')"
    outputs = log_file.open_outputs()
    subprocess.run([sys.executable, "-c", code], stdout=outputs, stderr=outputs, check=True)
    os.close(outputs)


def test_what_java_prints_goes_to_a_file(tmp_path: Path) -> None:
    """A line with the time precedes the output."""
    log_file = LogFile(tmp_path / "a folder", "run")
    _child(log_file, "inside\n")
    begun, *lines = log_file.outputs.read_text().splitlines()
    assert begun.startswith("---- oriel run ")
    assert lines == ["inside", "to stderr"]


def test_outputs_that_have_grown_are_put_aside(tmp_path: Path) -> None:
    """A process can still write to the file, and continues in the emptied file."""
    log_file = LogFile(tmp_path, "run")
    outputs = log_file.open_outputs()
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER], stdin=subprocess.PIPE, stdout=outputs
    )
    os.close(outputs)
    assert writer.stdin is not None
    with writer:
        wait_until(
            lambda: log_file.outputs.stat().st_size, "11 MiB of output",
            lambda size: size > 11 * 2**20, process=writer,
        )  # fmt: skip
        log_file.trim()
        assert log_file.outputs.stat().st_size == 0
        writer.stdin.close()
    assert log_file.outputs.read_text() == "more\n"
    rotated = tmp_path / "run.out.1"
    assert rotated.stat().st_size > 10 * 2**20
    log_file.trim()
    assert log_file.outputs.read_text() == "more\n"


def test_what_a_start_said_leaves_out_noise(tmp_path: Path) -> None:
    """Lines of Ivy's reports and of traces are left out, because they explain nothing."""
    log_file = LogFile(tmp_path, "run")
    assert log_file.first_output_lines() == ""
    _child(
        log_file, "\n:: loading settings\nWARNING: Using incubator\n\tat java.lang\nError: no VM\n"
    )
    assert log_file.first_output_lines() == "Error: no VM; to stderr"


def test_a_trace_is_added_to_the_log(tmp_path: Path) -> None:
    """The trace follows the lines of Spark."""
    log_file = LogFile(tmp_path, "run")
    log_file.log.write_text("Spark's line\n")
    nothing: dict[str, int] = {}
    with pytest.raises(KeyError) as failed:
        nothing["odd"]
    log_file.write_trace(failed.value)
    first, second, *trace = log_file.log.read_text().splitlines()
    assert first == "Spark's line"
    assert second.endswith(" ERROR oriel run")
    assert (trace[0], trace[-1]) == ("Traceback (most recent call last):", "KeyError: 'odd'")
