"""Tests of files and entries that disappear while the tailer needs them."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from oriel.storage import WindowRange
from oriel.storage.delta import DeltaLog, TableSnapshot
from oriel.storage.errors import CorruptLog
from oriel.storage.index import IndexReader, IndexState, build_generation
from tests.storage.followed import Followed, rebuild
from tests.storage.other_hands import (
    append,
    clean_log,
    compact,
    live_rows,
    rewrite,
    vacuum,
)
from tests.storage.store_tables import Row, make_record
from tests.storage.written_index import window_snapshot

A1: Row = {"key": "a", "start": 1}
A2: Row = {"key": "a", "start": 2}
B1: Row = {"key": "b", "start": 1}


@pytest.mark.parametrize("restart", [False, True])
def test_a_tailer_that_was_away_catches_up_from_what_is_left(
    followed: Followed, *, restart: bool
) -> None:
    """After clean-up and vacuum of versions that it missed, a tailer reaches the last position."""
    followed.table.commit([A1])
    followed.catch_up()
    for n in range(5):
        followed.table.commit([{**A2, "n": n}])
    compact(followed.table, make_record(5))
    followed.table.commit([B1])
    if restart:
        followed.restart()
    followed.catch_up()
    assert followed.tailer.status.problem is None
    state = followed.assert_content(8, A1, {**A2, "n": 4}, B1)
    assert state.record == make_record(6)


def test_entries_older_than_the_followed_one_are_noticed(
    followed: Followed,
) -> None:
    """A tailer rebuilds if clean-up deleted the entries after its last applied entry."""
    followed.table.commit([A1])
    followed.catch_up()
    for _ in range(3):
        rewrite(followed.table, live_rows(followed.table), None)
    append(followed.table, [{**B1, "revision": 0}])
    clean_log(followed.table)
    assert [version for version in range(6) if followed.table.entry(version).exists()] == [1, 5]
    followed.catch_up()
    assert followed.assert_content(5, A1, B1).record == make_record(0)


def test_files_that_a_follower_needs_may_be_vacuumed(followed: Followed) -> None:
    """If the file of an entry was vacuumed, a tailer reads its rows from a later version."""
    followed.table.commit([A1])
    followed.catch_up()
    followed.table.commit([B1])
    rewrite(followed.table, live_rows(followed.table), None)
    vacuum(followed.table)
    followed.catch_up()
    followed.assert_content(3, A1, B1)


@pytest.mark.parametrize("restart", [False, True])
def test_a_backup_that_is_put_back_is_followed_on(followed: Followed, *, restart: bool) -> None:
    """A tailer follows a restored backup, in which other batches have the lost version numbers."""
    followed.table.commit([A1])
    followed.catch_up()
    backup = followed.data / "backup"
    shutil.copytree(followed.table.path, backup)
    followed.table.commit([{**A1, "n": 2}])
    followed.table.commit([B1])
    followed.catch_up()
    followed.assert_content(3, {**A1, "n": 2}, B1)
    shutil.rmtree(followed.table.path)
    backup.rename(followed.table.path)
    followed.table.batch = 0
    for rows in ([A2], [{**A1, "n": 3}], [A2]):
        followed.table.commit(rows)
    if restart:
        followed.restart()
    followed.catch_up()
    assert followed.assert_content(4, {**A1, "n": 3}, A2).record == make_record(3)


class _Snapshots:
    """Counts the snapshots of a tailer, and calls a function after each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, then: Callable[[int], object]) -> None:
        self.taken = 0
        snapshot = DeltaLog.snapshot

        def counted(log: DeltaLog) -> TableSnapshot:
            found = snapshot(log)
            self.taken += 1
            then(self.taken)
            return found

        monkeypatch.setattr(DeltaLog, "snapshot", counted)


def test_a_rebuild_whose_files_are_vacuumed_takes_a_newer_snapshot(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If files are vacuumed during a rebuild, it uses a newer snapshot and succeeds."""
    followed.table.commit([A1])
    followed.table.commit([B1])
    snapshots = _Snapshots(
        monkeypatch, lambda taken: compact(followed.table) if taken == 1 else None
    )
    followed.catch_up()
    assert snapshots.taken == 2
    followed.assert_content(3, A1, B1)
    assert followed.tailer.status.problem is None


def test_a_rebuild_gives_up_after_five_snapshots(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rebuild fails after five snapshots, and the old index stays."""
    followed.table.commit([A1])
    followed.catch_up()
    before = followed.generations()
    with monkeypatch.context() as patched:
        snapshots = _Snapshots(patched, lambda _: compact(followed.table))
        with pytest.raises(CorruptLog, match="data files that do not exist"):
            rebuild(followed.tailer)
    assert snapshots.taken == 5
    assert followed.generations() == before
    followed.catch_up()
    followed.assert_content(6, A1)


@pytest.mark.parametrize("when", ["followed", "built"])
def test_a_file_deleted_by_hand_is_named_once_a_try(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """A missing file is named by one snapshot, and the tailer continues when it is fixed."""
    followed.table.commit([A1])
    followed.catch_up()
    followed.table.commit([B1])
    if when == "built":
        DeltaTable(followed.table.path).delete("key = 'c'")
    file = max(followed.table.path.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    content = file.read_bytes()
    file.unlink()
    with monkeypatch.context() as patched:
        snapshots = _Snapshots(patched, lambda _: None)
        with pytest.raises(CorruptLog, match=rf"names 1 data files.*{file.name}.*backup.*repair"):
            followed.catch_up()
    assert snapshots.taken == 1
    followed.assert_content(1, A1)
    file.write_bytes(content)
    followed.catch_up()
    followed.assert_content(DeltaTable(followed.table.path).version(), A1, B1)
    file.unlink()
    DeltaTable(followed.table.path).repair()
    followed.catch_up()
    followed.assert_content(DeltaTable(followed.table.path).version(), A1)


def test_a_repeated_failure_is_logged_once_and_retried_with_growing_delays(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    """A repeated failure is logged once and retried after pauses of 1 to 30 seconds."""
    followed.table.commit([A1])
    followed.catch_up()
    followed.table.commit([B1])
    for file in followed.table.path.glob("*.parquet"):
        file.unlink()
    with caplog.at_level(logging.INFO, "oriel.storage.tailer"):
        pauses = [followed.tailer.advance() for _ in range(8)]
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert followed.tailer.status.state == "failed"
    assert "data files that do not exist" in (followed.tailer.status.problem or "")
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    reasons = [record for record in caplog.records if "building" in record.message]
    assert (len(errors), len(reasons)) == (1, 1)
    assert errors[0].exc_info is None
    caplog.clear()
    followed.table.entry(0).unlink()
    followed.table.entry(1).unlink()
    assert followed.tailer.advance() == 1


def test_the_old_index_serves_reads_while_the_new_one_is_built(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Existing and new readers use the old index until the new one is published."""
    followed.table.commit([A1])
    followed.catch_up()
    DeltaTable(followed.table.path).delete("key = 'a'")
    append(followed.table, [{**B1, "revision": 0}])
    followed.tailer.close()
    reader = IndexReader(followed.directory)

    def read() -> list[str]:
        reader._pointer_seen_at = 0.0
        with window_snapshot(reader) as snapshot:
            return [key for key in "ab" if snapshot.fetch(WindowRange(key)).windows]

    seen = [read()]

    def watched(table: Path, snapshot: TableSnapshot, generation: Path, *more: Any) -> IndexState:
        seen.append(read())
        state = build_generation(table, snapshot, generation, *more)
        # A new reader before the publication.
        reader.close()
        seen.append(read())
        return state

    monkeypatch.setattr("oriel.storage.tailer.store.build_generation", watched)
    rebuild(followed.tailer)
    followed.tailer.close()
    assert [*seen, read()] == [["a"], ["a"], ["a"], ["b"]]
    reader.close()


_REMOVED = {
    "no revision": lambda rows: rows.set_column(
        rows.column_names.index("revision"), "revision", pa.nulls(len(rows), pa.int64())
    ),
    "no Parquet": None,
}


@pytest.mark.parametrize("problem", _REMOVED)
def test_files_that_are_no_rows_of_the_store_are_named(followed: Followed, problem: str) -> None:
    """A file with invalid rows is named in one line, and the old index stays in use."""
    followed.table.commit([A1])
    followed.catch_up()
    append(followed.table, [{**B1, "revision": 7}])
    file = max(followed.table.path.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    _spoil(file, _REMOVED[problem])
    with pytest.raises(
        CorruptLog, match=rf"{file.name} cannot be read as rows of the store"
    ) as raised:
        followed.catch_up()
    assert "\n" not in str(raised.value)
    followed.assert_content(1, A1)
    DeltaTable(followed.table.path).restore(1)
    followed.catch_up()
    followed.assert_content(3, A1)


def _spoil(file: Path, change: Any) -> None:
    if change is None:
        file.write_bytes(b"rubbish")
    else:
        pq.write_table(change(pq.read_table(file)), file)


def test_an_error_of_the_system_is_no_damage(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a file cannot be read because of permissions, the tailer retries and does not rebuild."""
    followed.table.commit([A1])
    followed.catch_up()
    before = followed.generations()
    followed.table.commit([B1])

    def refuse(*_: object, **_named: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("oriel.storage.tailer.store.file_rows", refuse)
        with pytest.raises(PermissionError):
            followed.catch_up()
    followed.catch_up()
    followed.assert_content(2, A1, B1)
    assert followed.generations() == before
