"""Small file systems, which tests can fill."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(directory: Path, size: int) -> Iterator[Path]:
    """Mount a file system of ``size`` bytes at a new directory, or skip the test."""
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
    if os.geteuid() or subprocess.run(mount, check=False).returncode:
        pytest.skip("only a user who may mount file systems can have a small one")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)
