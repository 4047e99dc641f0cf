"""Style, types and imports: the results of ruff, mypy and import-linter for the whole project."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.project import ROOT

_MODULE = (sys.executable, "-P", "-m")
_CHECKS = {
    "ruff": (*_MODULE, "ruff", "check", "."),
    "ruff format": (*_MODULE, "ruff", "format", "--check", "."),
    "mypy": (
        *_MODULE, "mypy", "--strict",
        "-p", "oriel", "-p", "tools", "-p", "benchmarks", "-p", "tests",
    ),
    # It is not a module that Python can run.
    "import-linter": (
        str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("check", _CHECKS)
def test_a_check_finds_nothing(check: str) -> None:
    """The whole project passes the check, and the message has its findings."""
    done = subprocess.run(
        _CHECKS[check],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": "src"},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, f"{check}:\n{done.stdout}{done.stderr}"
