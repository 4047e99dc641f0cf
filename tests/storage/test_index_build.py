"""Tests of building an index from sorted runs on disk: the result equals a build in memory."""

import random
from pathlib import Path
from typing import Any

import pytest

from oriel.storage import WindowSpec
from oriel.storage.index import build
from tests.storage.followed import Followed
from tests.storage.store_tables import NONE, SESSION, SLIDING, Row


def _fill(followed: Followed, chooser: random.Random) -> list[Row]:
    """Commit rows of few windows in many files, and return the remaining windows."""
    left: dict[tuple[str, int], Row] = {}
    keys = ["", "a", "a\x00", "ab", "k" * 600, *(f"key {n}" for n in range(20))]
    for batch in range(12):
        rows: dict[tuple[str, int], Row] = {}
        for _ in range(40):
            key, start = chooser.choice(keys), chooser.randrange(6)
            windowed = followed.definition.window.is_windowed
            place = key, start if windowed else 0
            is_deleted = chooser.random() < 0.2
            rows[place] = {"key": key, "start": start, "n": batch, "deleted": is_deleted}
        followed.table.commit(list(rows.values()))
        left |= rows
    return [row for row in left.values() if not row["deleted"]]


@pytest.mark.slow
@pytest.mark.parametrize("window", [SLIDING, SESSION, NONE], ids=["sliding", "session", "none"])
@pytest.mark.parametrize("seed", range(3))
def test_runs_on_disk_are_merged_to_the_same_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: WindowSpec, seed: int
) -> None:
    """Small runs on disk are merged to the correct index, and the runs are deleted."""
    followed = Followed(tmp_path, window=window)
    left = _fill(followed, random.Random(seed))
    monkeypatch.setattr(build, "_RUN_BYTES", 1 << (11 + seed))
    monkeypatch.setattr(build, "_BLOCK_ROWS", 7)
    spilled: list[Any] = []
    spill = build._Runs._spill

    def counted(runs: Any) -> None:
        spilled.append(1)
        spill(runs)

    monkeypatch.setattr(build._Runs, "_spill", counted)
    followed.catch_up()
    assert len(spilled) > 2
    followed.assert_content(12, *left)
    assert not list(followed.directory.path.rglob("runs"))
    followed.tailer.close()


def test_rows_come_in_the_order_of_their_keys_once(tmp_path: Path) -> None:
    """A build appends the rows in key order, because LMDB would skip a row out of order."""
    followed = Followed(tmp_path)
    left = _fill(followed, random.Random(9))
    followed.catch_up()
    assert followed.records() == len(left)
    followed.tailer.close()
