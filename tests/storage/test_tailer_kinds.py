"""Tests of indexes of every store kind: sessions, time windows and one row per key."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from oriel.storage import WindowSpec
from oriel.storage.index import IndexReader, KeyValueSnapshot
from tests.storage.followed import Followed, check_in_this_process
from tests.storage.store_tables import HOPPING, NONE, SESSION, TUMBLING, Row, make_record


def _rebuild(followed: Followed) -> None:
    """Delete the index and build it from the table."""
    followed.directory.remove()
    followed.catch_up()


def _session(start: int, end: int, **other: object) -> Row:
    return {"key": "a", "start": start, "end": end, **other}


@pytest.mark.parametrize("window", [TUMBLING, HOPPING])
def test_time_windows_are_followed_and_rebuilt(tmp_path: Path, window: WindowSpec) -> None:
    """Tumbling and hopping windows are followed, rebuilt and expired by their start."""
    followed = Followed(tmp_path, retention_ms=20, window=window)
    followed.table.commit([{"key": "a", "start": start} for start in (0, 10, 20)])
    followed.catch_up()
    visible: list[Row] = [{"key": "a", "start": start} for start in (10, 20)]
    followed.assert_content(1, *visible)
    _rebuild(followed)
    followed.assert_content(1, *visible)
    followed.tailer.close()


def test_a_session_that_grows_replaces_the_ones_it_merged(tmp_path: Path) -> None:
    """A merged session replaces its parts in one version, also after a rebuild."""
    followed = Followed(tmp_path, window=SESSION)
    followed.table.commit([_session(0, 5), _session(20, 25)])
    followed.catch_up()
    merged = _session(0, 25, n=3)
    followed.table.commit([
        _session(0, 5, deleted=True), _session(20, 25, deleted=True), merged
    ])  # fmt: skip
    followed.catch_up()
    followed.assert_content(2, merged)
    _rebuild(followed)
    followed.assert_content(2, merged)
    followed.tailer.close()


def test_a_removed_session_may_come_back(tmp_path: Path) -> None:
    """A session that is removed and created again has its last row, also after a rebuild."""
    followed = Followed(tmp_path, window=SESSION)
    for n, deleted in ((1, False), (2, True), (3, False), (4, True), (5, False)):
        followed.table.commit([_session(0, 5, n=n, deleted=deleted), _session(n, n)])
        followed.catch_up()
    points = [_session(n, n) for n in range(1, 6)]
    followed.assert_content(5, _session(0, 5, n=5), *points)
    DeltaTable(followed.table.path).optimize.compact()
    followed.catch_up()
    _rebuild(followed)
    followed.assert_content(6, _session(0, 5, n=5), *points)
    followed.tailer.close()


def test_sessions_expire_by_their_end(tmp_path: Path) -> None:
    """A long session expires after a short one inside it. A sweep and a rebuild agree."""
    followed = Followed(tmp_path, retention_ms=100, window=SESSION)
    followed.table.commit([_session(0, 150), _session(20, 40), _session(30, 90), _session(60, 100)])
    followed.catch_up()
    followed.table.commit([{"key": "b", "start": 170, "end": 180}])
    followed.catch_up()
    visible = [_session(0, 150), _session(30, 90), _session(60, 100), {
        "key": "b", "start": 170, "end": 180
    }]  # fmt: skip
    state = followed.assert_content(2, *visible)
    assert (state.extent.observed_ms, state.extent.longest_ms, state.earliest_ms) == (180, 150, 81)
    assert followed.records() == 4
    _rebuild(followed)
    assert followed.assert_content(2, *visible).extent == state.extent
    assert followed.records() == 4
    followed.tailer.close()


def test_a_removed_session_moves_the_clock(tmp_path: Path) -> None:
    """The greatest end of any session counts, also of a removed one (semantics.md#7)."""
    followed = Followed(tmp_path, retention_ms=50, window=SESSION)
    followed.table.commit([_session(0, 10), _session(40, 80)])
    followed.table.commit([_session(40, 80, deleted=True)])
    followed.catch_up()
    followed.assert_content(2)
    _rebuild(followed)
    followed.assert_content(2)
    followed.tailer.close()


def test_a_store_without_windows_has_one_row_a_key(tmp_path: Path) -> None:
    """A store without windows has the newest row of each key, and no row expires."""
    followed = Followed(tmp_path, retention_ms=1, window=NONE)
    followed.table.commit([{"key": "a", "n": 1, "timestamp": 7}, {"key": "b"}])
    followed.catch_up()
    followed.assert_content(1, {"key": "a", "n": 1, "timestamp": 7}, {"key": "b"})
    followed.table.commit([{"key": "a", "n": 2, "timestamp": 10**9}, {"key": "b", "deleted": True}])
    followed.catch_up()
    newer: Row = {"key": "a", "n": 2, "timestamp": 10**9}
    followed.assert_content(2, newer)
    followed.table.commit([{"key": "b", "n": 9}])
    followed.catch_up()
    followed.assert_content(3, newer, {"key": "b", "n": 9})
    _rebuild(followed)
    state = followed.assert_content(3, newer, {"key": "b", "n": 9})
    assert state.earliest_ms == 0
    reader = IndexReader(followed.directory)
    followed.tailer.close()
    with reader.snapshot() as snapshot:
        assert isinstance(snapshot, KeyValueSnapshot)
        assert snapshot.get("a") is not None
        assert snapshot.get("c") is None
    reader.close()


_SPANS = st.tuples(st.sampled_from("ab"), st.integers(0, 4), st.integers(0, 4))
_ROWS = st.builds(
    lambda span, n, deleted: {
        "key": span[0], "start": span[1], "end": span[1] + span[2], "n": n, "deleted": deleted,
    },
    _SPANS, st.integers(0, 99), st.booleans(),
)  # fmt: skip
_BATCHES = st.lists(
    st.lists(_ROWS, max_size=6, unique_by=lambda row: (row["key"], row["start"], row["end"])),
    max_size=5,
)


@settings(max_examples=settings().max_examples // 3)
@given(_BATCHES, st.lists(st.sampled_from(["follow", "restart", "rebuild", "compact"]), max_size=5))
def test_any_history_of_sessions_ends_in_the_same_index(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Row]], events: list[str]
) -> None:
    """After any order of follow, restart, rebuild and compaction, the index has the last rows."""
    followed = Followed(tmp_path_factory.mktemp("sessions"), window=SESSION)
    last: dict[tuple[str, int, int], Row] = {}
    with check_in_this_process():
        for number, batch in enumerate(batches):
            followed.table.commit(batch, make_record(number))
            last.update({(row["key"], row["start"], row["end"]): row for row in batch})
            event = events[number] if number < len(events) else "follow"
            if event == "restart":
                followed.restart()
            elif event == "rebuild":
                followed.directory.remove()
            elif event == "compact":
                DeltaTable(followed.table.path).optimize.compact()
            followed.catch_up()
        followed.catch_up()
    version = DeltaTable(followed.table.path).version()
    followed.assert_content(version, *(row for row in last.values() if not row["deleted"]))
    followed.tailer.close()
