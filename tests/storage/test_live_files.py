"""Tests of live files: following the log finds the same state as opening the table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from oriel.storage.delta import add_checkpoint
from oriel.storage.delta.maintenance.live_files import TableFiles
from oriel.storage.errors import CorruptLog
from tests.storage.other_hands import clean_log
from tests.storage.store_tables import StoreTable, make_definition

Change = Callable[[StoreTable], None]


@pytest.fixture
def table(tmp_path: Path) -> StoreTable:
    """Return a table with three batches."""
    made = StoreTable(tmp_path, make_definition("store"))
    for start in (1, 2, 3):
        made.commit([{"key": "a", "start": start}])
    return made


def _known(files: TableFiles) -> dict[str, Any]:
    """Return the state that compaction and clean-up use."""
    return {
        "version": files.version,
        "live": {path: file.size for path, file in files.live.items()},
        "properties": files.properties,
        "schema": files.schema,
        "recorded": files.recorded,
    }


def _add_column(table: StoreTable) -> None:
    field = Field("later", PrimitiveType("long"), nullable=True)
    DeltaTable(table.path).alter.add_columns([field])


def _set_property(table: StoreTable) -> None:
    DeltaTable(table.path).alter.set_table_properties({"delta.appendOnly": "false"})


def _restore(table: StoreTable) -> None:
    DeltaTable(table.path).restore(2)


def _delete(table: StoreTable) -> None:
    DeltaTable(table.path).delete("window_start < '1970-01-01T00:00:00.003Z'")


def _append(table: StoreTable) -> None:
    rows = DeltaTable(table.path).to_pyarrow_table().slice(0, 1)
    write_deltalake(str(table.path), pa.table(rows), mode="append")


def _commit(table: StoreTable) -> None:
    table.commit([{"key": "b", "start": 1}])


def _clean(table: StoreTable) -> None:
    for _ in range(3):
        _commit(table)
    clean_log(table)


@pytest.mark.parametrize(
    "changes",
    [
        (_add_column,), (_set_property,), (_restore,), (_delete,), (_append,), (_commit,),
        (_clean,), (_restore, _commit), (_clean, _add_column), (_append, _restore),
    ],
    ids=lambda changes: " ".join(change.__name__.strip("_") for change in changes),
)  # fmt: skip
def test_following_finds_what_opening_finds(table: StoreTable, changes: tuple[Change, ...]) -> None:
    """A follower has the state of the newest version, for any writer and with deleted entries."""
    follower = TableFiles(table.path)
    for change in changes:
        change(table)
    follower.follow()
    assert _known(follower) == _known(TableFiles(table.path))


def test_a_torn_entry_is_waited_for(table: StoreTable) -> None:
    """A torn entry is ignored until its writer writes it again."""
    follower = TableFiles(table.path)
    before = _known(follower)
    torn = table.entry(follower.version + 1)
    torn.write_bytes(b'{"add": {"pa')
    follower.follow()
    assert _known(follower) == before
    torn.unlink()
    _commit(table)
    follower.follow()
    assert follower.version == before["version"] + 1
    assert len(follower.live) == len(before["live"]) + 1


def test_a_table_that_stores_must_not_use_is_refused(table: StoreTable) -> None:
    """A follower rejects a table when another program raises its protocol version."""
    follower = TableFiles(table.path)
    protocol = {"minReaderVersion": 9, "minWriterVersion": 9}
    line = orjson.dumps({"protocol": protocol})
    table.entry(follower.version + 1).write_bytes(line + b"\n")
    with pytest.raises(CorruptLog, match="9"):
        follower.follow()


def test_only_the_newest_batch_counts_as_the_position(table: StoreTable) -> None:
    """A repeated record of an older batch does not change the position."""
    follower = TableFiles(table.path)
    add_checkpoint(table.path, follower.version)
    newest = follower.recorded
    assert newest is not None
    entry = table.entry(1).read_bytes()
    lines = [line for line in entry.splitlines() if b'"commitInfo"' in line]
    table.entry(follower.version + 1).write_bytes(b"\n".join(lines) + b"\n")
    follower.follow()
    assert follower.version == newest.version + 1
    assert follower.recorded == newest
