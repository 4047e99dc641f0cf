"""Tests of drafts that a killed process left: the next process that writes there removes them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oriel.storage import replace_file


def test_drafts_of_ended_processes_are_removed(tmp_path: Path) -> None:
    """The first write into a directory removes drafts of dead processes and no other file."""
    with subprocess.Popen([sys.executable, "-c", ""]) as killed:
        pass
    left = tmp_path / f".f.json.{killed.pid}.draft"
    huge = tmp_path / f".f.json.{2**70}.draft"
    of_living = tmp_path / f".f.json.{os.getppid()}.draft"
    of_another_file = tmp_path / f".g.json.{killed.pid}.draft"
    replaced = tmp_path / f"g.json.{killed.pid}.draft"
    without_number = tmp_path / ".f.json.x.draft"
    for path in (left, huge, of_living, of_another_file, replaced, without_number):
        path.write_bytes(b"half")
    replace_file(tmp_path / "f.json", b"new", sync=False)
    assert sorted(tmp_path.iterdir()) == sorted(
        [tmp_path / "f.json", of_living, replaced, without_number]
    )


def test_a_directory_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first write into a directory lists it, so later writes cost the same at any size."""
    listed: list[Path] = []
    scandir = os.scandir

    def noted(directory: Path) -> "os._ScandirIterator[str]":
        listed.append(directory)
        return scandir(directory)

    monkeypatch.setattr(os, "scandir", noted)
    for name in ("f", "f", "g"):
        replace_file(tmp_path / name, b"new", sync=False)
    assert listed == [tmp_path]
