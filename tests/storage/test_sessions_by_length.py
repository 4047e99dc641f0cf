"""Tests of searches for sessions by end: they read few records, however long other sessions are."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oriel.storage import SessionRange
from oriel.storage.index import IndexDirectory, IndexReader, SessionSnapshot, checksums
from oriel.storage.index.lengths import length_key, length_keys, longest_ms
from oriel.storage.key_codec import record_key
from oriel.storage.key_types import TEXT
from oriel.testing.session_store_conformance import session
from oriel.testing.store_models import Put
from tests.storage.followed import Followed
from tests.storage.store_tables import SESSION
from tests.storage.written_index import write_index

_SESSIONS = 5_000
_GIANT_MS = 10**12


def _short(key: str) -> Iterable[Put]:
    return (session(key, 10 * at, 10 * at + at % 8) for at in range(_SESSIONS))


class Reads:
    """Counts the records that an index reads, by their checksum checks."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.records = 0
        for module in ("reading.sessions", "reading.pages", "lengths"):
            patched.setattr(f"oriel.storage.index.{module}.check", self._check)
        patched.setattr("oriel.storage.index.reading.pages.check_values", self._check_values)

    def _check(self, records: Iterable[checksums.Record]) -> None:
        listed = list(records)
        self.records += len(listed)
        checksums.check(listed)

    def _check_values(self, values: Sequence[bytes]) -> None:
        self.records += len(values)
        checksums.check_values(values)


def _found(directory: IndexDirectory, session_range: SessionRange) -> list[list[bytes]]:
    reader = IndexReader(directory)
    with reader.snapshot() as snapshot:
        assert isinstance(snapshot, SessionSnapshot)
        both = [
            snapshot.find_sessions(session_range).windows,
            snapshot.backward_find_sessions(session_range).windows[::-1],
        ]
    reader.close()
    return both


@pytest.mark.parametrize(
    "giants",
    [[session("b", 0, _GIANT_MS)], [session("a", 1, _GIANT_MS), session("a", 2, _GIANT_MS + 5)]],
    ids=["of another key", "of the key"],
)
def test_a_giant_session_makes_no_search_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, giants: list[Put]
) -> None:
    """A search reads few records although another session is very long, in either direction."""
    directory = IndexDirectory(tmp_path / "store")
    puts = [*_short("a"), *giants]
    write_index(directory, puts, None, SESSION)
    middle = 10 * (_SESSIONS // 2)
    session_range = SessionRange("a", middle, middle + 40)
    expected = [
        p.value
        for p in sorted(puts, key=lambda p: (p.start_ms, p.end_ms))
        if p.key == "a" and p.end_ms >= middle and p.start_ms <= middle + 40
    ]
    reads = Reads(monkeypatch)
    assert _found(directory, session_range) == [expected, expected]
    assert reads.records < 120


def test_classes_of_length_hold_what_they_say() -> None:
    """Scalar and vectorized length keys are equal, and no session is longer than its class."""
    chooser = random.Random(3)
    edges = [2**n + d for n in range(1, 62) for d in (-1, 0, 1)]
    lengths = [0, *edges, *(chooser.randrange(2**62) for _ in range(200))]
    keys = [
        record_key(key, 5, 5 + length, TEXT)
        for key in ("", "a\x00", "k" * 600)
        for length in lengths
    ]
    whole = length_keys(keys)
    assert whole == [length_key(key) for key in keys]
    for key, length in zip(whole, np.tile(lengths, 3).tolist(), strict=True):
        assert length <= longest_ms(key[-17] - 2)


def test_removed_sessions_leave_the_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search finds neither merged nor expired sessions, after following and after a rebuild."""
    followed = Followed(tmp_path, retention_ms=100, window=SESSION)
    long: dict[str, Any] = {"key": "a", "start": 0, "end": 400}
    short = [{"key": "a", "start": start, "end": start + 5} for start in (0, 20, 360)]
    followed.table.commit([long, *short])
    followed.catch_up()
    followed.table.commit([{**long, "deleted": True}, {"key": "a", "start": 390, "end": 395}])
    followed.catch_up()
    for _ in ("followed", "built anew"):
        followed.tailer.close()
        reads = Reads(monkeypatch)
        found, backward = _found(followed.directory, SessionRange("a", 390, 1000))
        assert (len(found), found) == (1, backward)
        assert reads.records < 20
        followed.directory.remove()
        followed.catch_up()
    followed.tailer.close()
