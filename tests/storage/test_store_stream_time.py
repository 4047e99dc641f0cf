"""Tests of stream time in commit records: visible windows follow it, forward and back."""

from pathlib import Path

import pytest

from tests.storage.followed import Followed, check_in_this_process
from tests.storage.store_tables import TUMBLING, make_record

OLD, NEW, FAR = ("a", 100), ("b", 1000), ("bad", 10**9)


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    """Return a store with a retention of 500 ms."""
    return Followed(tmp_path, retention_ms=500, window=TUMBLING)


def row(place: tuple[str, int], revision: int) -> dict[str, object]:
    """Return the row of a window."""
    key, start = place
    return {"key": key, "start": start, "revision": revision}


def keys(followed: Followed) -> list[str]:
    """Return the keys that have a visible window."""
    return [window["key"] for window in followed.content()[1]]


def test_the_clock_of_the_newest_commit_counts(followed: Followed) -> None:
    """The stream time of the newest commit counts. Without it, the rows determine stream time."""
    with check_in_this_process():
        followed.table.commit([row(OLD, 0)], make_record(0, observed_ms=100))
        followed.catch_up()
        assert keys(followed) == ["a"]
        followed.table.commit([], make_record(1, observed_ms=1000))
        followed.catch_up()
        assert keys(followed) == []
        # A commit of another release has no stream time, so the rows determine it.
        followed.table.commit([], make_record(2))
        followed.catch_up()
        assert keys(followed) == ["a"]


def test_a_clock_that_is_set_back_brings_windows_back(followed: Followed) -> None:
    """If stream time is set back, the index is rebuilt and swept windows are visible again."""
    with check_in_this_process():
        followed.table.commit([row(OLD, 0), row(NEW, 0)], make_record(0, observed_ms=1000))
        followed.table.commit([row(FAR, 1)], make_record(1, observed_ms=FAR[1]))
        followed.catch_up()
        assert (keys(followed), followed.records()) == (["bad"], 1)
        before = followed.generation()
        followed.table.commit([], make_record(2, observed_ms=1000))
        followed.catch_up()
        assert keys(followed) == ["b", "bad"]
        assert followed.generation() != before
