"""The files of a run's noise: what children print, and traces."""

import subprocess
import sys
from pathlib import Path

import pytest

from oriel.pipeline.spark import LogFile
from tests.storage.waiting import wait_until

#: Writes much, and a line when its input ends.
_WRITER = """
import sys
sys.stdout.write("x" * 11 * 2**20)
sys.stdout.flush()
sys.stdin.read()
print("more")
"""


def _child(text: str) -> None:
    code = f"import sys; print({text!r}, end='', flush=True); sys.stderr.write('to stderr\\n')"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_children_print_goes_to_a_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Only of those that start inside; our own lines before and after stay where they are."""
    log_file = LogFile(tmp_path / "a folder", "run")
    sys.stderr.write("before\n")
    with log_file.outputs_of_children():
        _child("inside\n")
    _child("after\n")
    sys.stderr.write("ours\n")
    begun, *lines = log_file.outputs.read_text().splitlines()
    assert begun.startswith("---- oriel run ")
    assert lines == ["inside", "to stderr"]
    assert capfd.readouterr() == ("after\n", "before\nto stderr\nours\n")


def test_a_process_still_prints_to_its_own_stderr(tmp_path: Path) -> None:
    """Only its children write to the file."""
    script = f"""
import subprocess, sys
from pathlib import Path
from oriel.pipeline.spark import LogFile

with LogFile(Path({str(tmp_path)!r}), "run").outputs_of_children():
    print("ours", file=sys.stderr)
    subprocess.run(["sh", "-c", "echo theirs >&2"], check=True)
print("after", file=sys.stderr)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert ended.stderr == "ours\nafter\n"
    assert LogFile(tmp_path, "run").of_last_start().endswith("\ntheirs\n")


def test_outputs_that_have_grown_are_put_aside(tmp_path: Path) -> None:
    """While somebody writes to them, too, who goes on in what is left."""
    log_file = LogFile(tmp_path, "run")
    with log_file.outputs_of_children():
        writer = subprocess.Popen([sys.executable, "-c", _WRITER], stdin=subprocess.PIPE)
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
    aside = tmp_path / "run.out.1"
    assert aside.stat().st_size > 10 * 2**20
    log_file.trim()
    assert log_file.outputs.read_text() == "more\n"


def test_what_a_start_said_leaves_out_noise(tmp_path: Path) -> None:
    """Lines of Ivy's reports and of traces say nothing by themselves."""
    log_file = LogFile(tmp_path, "run")
    assert log_file.first_words() == ""
    with log_file.outputs_of_children():
        _child("\n:: loading settings\nWARNING: Using incubator\n\tat java.lang\nError: no VM\n")
    assert log_file.first_words() == "Error: no VM; to stderr"


def test_a_trace_is_added_to_the_log(tmp_path: Path) -> None:
    """Behind what Spark has written."""
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
