"""The wheel of the checkout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.tidy.project import ROOT

ROOMS = ("app", "client", "demo", "pipeline", "storage")


def build_wheel(directory: Path) -> Path:
    """Build the wheel from a copy of the checkout below ``directory``, without a network."""
    checkout = directory / "checkout"
    checkout.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    for name in ("src", "docs", *ROOMS):
        leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, checkout / name, symlinks=True, ignore=leave_out)
    run_elsewhere([
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps",
        "--disable-pip-version-check", "--wheel-dir", str(directory), str(checkout),
    ])  # fmt: skip
    (wheel,) = directory.glob("*.whl")
    return wheel


def run_elsewhere(
    command: list[str], python_path: Path | None = None, code: int = 0, timeout: float = 120
) -> "subprocess.CompletedProcess[str]":
    """Run a command in ``/``, so that Python does not import ``oriel`` from the checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if python_path is not None:
        environment["PYTHONPATH"] = str(python_path)
    ended = subprocess.run(
        command, cwd="/", env=environment, capture_output=True, text=True, check=False,
        timeout=timeout,
    )  # fmt: skip
    assert ended.returncode == code, ended.stderr
    return ended
