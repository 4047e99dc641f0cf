"""Tests of tables after a power loss: no row is lost, hidden or duplicated."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from oriel.storage.delta import (
    DeltaLog,
    Table,
    add_checkpoint,
    open_table,
    store_schema,
    table_rows,
    write_file,
)
from oriel.storage.delta.entries import read_actions
from oriel.storage.errors import CorruptLog

AGGREGATES = {"n": pa.int64()}
END_OF_TIME_MS = 253_402_300_799_999


def opened(directory: Path) -> Table:
    """Open or create the table."""
    return open_table(directory, store_schema(AGGREGATES), {"oriel.store": "{}"}, sync=True)


def rows(batch: int, *windows: tuple[str, int, int]) -> pa.Table:
    """Return rows of windows (key, start, end)."""
    keys, starts, ends = zip(*windows, strict=True)
    changes = pa.table(
        {
            "key": pa.array(keys, pa.string()),
            "window_start_ms": pa.array(starts, pa.int64()),
            "window_end_ms": pa.array(ends, pa.int64()),
            "n": pa.array([batch] * len(keys), pa.int64()),
            "timestamp_ms": pa.array(starts, pa.int64()),
            "final": pa.array([False] * len(keys), pa.bool_()),
        }
    )
    return table_rows(changes, AGGREGATES, batch)


def commit(table: Table, directory: Path, batch: int, *, dead_letters: bool = False) -> int:
    """Commit a batch of one row with commit info, or like dead letters without it."""
    file = write_file(directory, rows(batch, ("a", batch, batch + 10)), "part", sync=True)
    info = {} if dead_letters else {"oriel": f'{{"batch": {batch}}}'}
    return table.commit([file], "app", batch, info)


def entry(directory: Path, version: int) -> Path:
    """Return the path of a version's log entry."""
    return directory / "_delta_log" / f"{version:020d}.json"


def revisions(directory: Path) -> list[int]:
    """Return the batches of the table's rows."""
    batches: list[int] = DeltaTable(directory).to_pyarrow_table()["revision"].to_pylist()
    return sorted(batches)


def cut_to_lines(number: int) -> Callable[[bytes], bytes]:
    """Return a function that keeps the first lines of an entry."""
    return lambda content: b"".join(content.splitlines(keepends=True)[:number])


def without_seal(content: bytes) -> bytes:
    """Return an entry in the format of earlier versions."""
    return re.sub(rb'"oriel_(entry|table)":"[^"]*",', b"", content, count=2)


@pytest.mark.parametrize("dead_letters", [False, True], ids=["windows", "dead letters"])
@pytest.mark.parametrize(
    "torn",
    [
        lambda _: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: b"\0" * len(content),
        lambda _: b"\xff\xfe",
        lambda _: b"\n\n",
        cut_to_lines(1),
        cut_to_lines(2),
    ],
    ids=["empty", "half", "last byte", "zeros", "not utf-8", "blank", "one line", "two lines"],
)
def test_a_batch_with_a_torn_entry_is_committed_once(
    tmp_path: Path, torn: Callable[[bytes], bytes], dead_letters: bool
) -> None:
    """A batch with a torn entry is committed again, and its rows exist once."""
    table = opened(tmp_path)
    for batch in (0, 1):
        commit(table, tmp_path, batch, dead_letters=dead_letters)
    path = entry(tmp_path, 2)
    path.write_bytes(torn(path.read_bytes()))
    table = opened(tmp_path)
    if table.recorded_batch("app") == 0:
        commit(table, tmp_path, 1, dead_letters=dead_letters)
    assert revisions(tmp_path) == [0, 1]


def test_every_cut_of_an_entry_is_torn(tmp_path: Path) -> None:
    """An entry that is cut off at any byte counts as torn."""
    commit(opened(tmp_path), tmp_path, 0)
    path = entry(tmp_path, 1)
    content = path.read_bytes()
    whole = [length for length in range(len(content) + 1) if read_actions(path, content[:length])]
    assert whole == [len(content)]


def test_reader_and_writer_agree_on_what_is_torn(tmp_path: Path) -> None:
    """An entry with blank lines does not count as torn, for the tailer and for the writer."""
    commit(opened(tmp_path), tmp_path, 0)
    path = entry(tmp_path, 1)
    path.write_bytes(without_seal(path.read_bytes()).replace(b"\n", b"\n\n"))
    assert DeltaLog(tmp_path).read(1) is not None
    assert opened(tmp_path).recorded_batch("app") == 0
    assert path.exists()


def test_every_entry_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first entry, the entry of a property and the entry of a batch are synced."""
    synced: set[int] = set()
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    table = opened(tmp_path)
    table.set_property("oriel.store", '{"new": true}')
    table.commit([], "app", 0, {})
    entries = {entry(tmp_path, version).stat().st_ino for version in (0, 1, 2)}
    assert synced >= {*entries, (tmp_path / "_delta_log").stat().st_ino}


def test_a_lost_first_entry_is_a_clear_error(tmp_path: Path) -> None:
    """An empty first entry before others raises CorruptLog instead of a library error."""
    commit(opened(tmp_path), tmp_path, 0)
    entry(tmp_path, 0).write_bytes(b"")
    with pytest.raises(CorruptLog):
        opened(tmp_path)


def test_a_gap_in_the_log_is_a_clear_error(tmp_path: Path) -> None:
    """A missing entry between others raises CorruptLog instead of a library error."""
    table = opened(tmp_path)
    for batch in range(3):
        commit(table, tmp_path, batch)
    entry(tmp_path, 2).unlink()
    with pytest.raises(CorruptLog):
        opened(tmp_path)


@pytest.mark.parametrize("length", [0, 200], ids=["empty", "torn"])
def test_a_torn_checkpoint_does_not_stop_the_writer(tmp_path: Path, length: int) -> None:
    """A torn checkpoint does not stop the writer, because the log still has all entries."""
    table = opened(tmp_path)
    for batch in range(3):
        commit(table, tmp_path, batch)
    add_checkpoint(tmp_path)
    (parquet,) = (tmp_path / "_delta_log").glob("*.parquet")
    parquet.write_bytes(parquet.read_bytes()[:length])
    table = opened(tmp_path)
    assert table.recorded_batch("app") == 2
    commit(table, tmp_path, 3)
    assert revisions(tmp_path) == [0, 1, 2, 3]


@pytest.mark.parametrize("text", [b"", b'{"version":'], ids=["empty", "half"])
def test_a_torn_hint_of_the_last_checkpoint_is_no_obstacle(tmp_path: Path, text: bytes) -> None:
    """A torn ``_last_checkpoint`` does not stop the writer, because it is only a hint."""
    table = opened(tmp_path)
    for batch in range(2):
        commit(table, tmp_path, batch)
    add_checkpoint(tmp_path)
    (tmp_path / "_delta_log" / "_last_checkpoint").write_bytes(text)
    assert opened(tmp_path).recorded_batch("app") == 1


def test_windows_may_end_after_the_last_year(tmp_path: Path) -> None:
    """A window can end after the greatest time of a record, and its row is kept."""
    table = opened(tmp_path)
    late = rows(0, ("a", END_OF_TIME_MS - 4, END_OF_TIME_MS + 6), ("b", 5, 15))
    table.commit([write_file(tmp_path, late, "part", sync=True)], "app", 0, {})
    assert DeltaTable(tmp_path).to_pyarrow_table(filters=[("key", "=", "a")]).num_rows == 1


def test_two_applications_append_to_one_table(tmp_path: Path) -> None:
    """If two pipelines append to one table, each finds its own last batch."""
    first, second = opened(tmp_path), opened(tmp_path)
    for batch in range(3):
        commit(first, tmp_path, batch)
        second.commit([], "other", batch + 10, {})
    assert first.recorded_batch("app") == 2
    assert second.recorded_batch("other") == 12
    assert first.recorded_batch("nobody") is None
    assert revisions(tmp_path) == [0, 1, 2]
