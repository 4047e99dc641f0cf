"""Style and types: the results of ruff and mypy for the whole project."""

import subprocess
import sys

import pytest

from tests.tidy.project import ROOT

_CHECKS = {
    "ruff": ("ruff", "check", "."),
    "ruff format": ("ruff", "format", "--check", "."),
    "mypy": ("mypy", "--strict", "-p", "oriel", "-p", "tools", "-p", "benchmarks", "-p", "tests"),
}


@pytest.mark.slow
@pytest.mark.parametrize("check", _CHECKS)
def test_a_check_finds_nothing(check: str) -> None:
    """The whole project passes the check, and the message has its findings."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", *_CHECKS[check]],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, f"{check}:\n{done.stdout}{done.stderr}"
