"""The command that starts Spark's workers on this machine."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from oriel.pipeline.spark.python import local_python


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/a b/pyspark.zip:/a b/py4j-0.10-src.zip:/of/the user:/other", "/of/the user:/other"),
        ("/of/the user:/other", "/of/the user:/other"),
    ],
)
def test_it_is_this_python_without_the_zips(tmp_path: Path, given: str, kept: str) -> None:
    """Other entries of the path stay, and arguments are passed on unchanged."""
    directory = tmp_path / "scratch folder"
    directory.mkdir()
    script = "import os, sys; print(os.environ['PYTHONPATH'], sys.prefix, *sys.argv[1:], sep='|')"
    command = [local_python(directory), "-c", script, "an argument", ""]
    environment = {**os.environ, "PYTHONPATH": given}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout == f"{kept}|{sys.prefix}|an argument|\n"


def test_without_pyspark_among_the_packages_the_zips_are_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver can have pyspark from Spark's own directory. The path stays unchanged then."""
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(tmp_path))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert local_python(tmp_path) == sys.executable


def test_where_nothing_may_be_executed_it_is_this_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporary directories can be mounted without the right to execute files."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert local_python(tmp_path) == sys.executable
