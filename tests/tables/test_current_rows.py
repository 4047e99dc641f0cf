"""Tests of ``oriel.tables.current``: its rows equal an index and a dictionary of newest rows."""

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction
from hypothesis import given, settings
from hypothesis import strategies as st

from oriel.storage import COMMIT_INFO_KEY
from oriel.storage.delta import TableContent, log, replace_rows, run_name, write_file
from oriel.storage.delta.maintenance.compaction import Run
from oriel.storage.errors import CorruptLog, StoreNotReady, VersionGone, VersionNotFound
from oriel.tables import CurrentRows, current, layers
from tests.storage.compacted_table import CompactedTable
from tests.storage.store_tables import SESSION, TUMBLING, make_record
from tests.storage.test_compaction import KINDS, batches, nothing
from tests.tables.served_rows import served

pytestmark = pytest.mark.slow


def _duckdb_rows(rows: CurrentRows) -> pa.Table:
    with duckdb.connect() as connection:
        return rows.duckdb(connection).to_arrow_table()


#: Returns the current rows by one library.
READERS: dict[str, Callable[[CurrentRows], Any]] = {
    "arrow": lambda rows: rows.arrow(),
    "duckdb": _duckdb_rows,
    "pandas": lambda rows: pa.Table.from_pandas(rows.pandas(), preserve_index=False),
    "polars": lambda rows: rows.polars().collect().to_arrow(),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), seed=st.integers(0, 2**32), small_rows=st.sampled_from([0, 2, 5, 1 << 17]))
@settings(max_examples=max(3, settings().max_examples // 5))
def test_each_library_returns_the_windows_of_the_index(
    kind: str, data: st.DataObject, seed: int, small_rows: int
) -> None:
    """After random batches, compactions, rebuilds and retentions, also at earlier versions."""
    chance = random.Random(seed)
    retention_ms = data.draw(st.sampled_from([None, 4]))
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as directory:
        patched.setattr(layers, "SMALL_ROWS", small_rows)
        table = CompactedTable(Path(directory), KINDS[kind], retention_ms)
        past = {}
        for rows in data.draw(batches(KINDS[kind])):
            half = len(rows) // 2
            version = table.commit(rows[:half], rows[half:])
            past[version] = table.expected()
            worker = table.compaction()
            files = [file for run in worker.runs() for file in run.files]
            chosen = chance.sample(files, chance.randint(0, len(files)))
            if chosen and chance.random() < 0.5:
                done = worker.merge([Run((file,)) for file in chosen], nothing)
                assert done.version is not None
                past[done.version] = past[version]
            elif retention_ms is None and chance.random() < 0.2:
                past[_rebuild(table)] = past[version]
        for version, expected in past.items():
            opened = current(table.directory, version=version)
            assert opened.version == version
            found = {name: served(read(opened)) for name, read in READERS.items()}
            assert found == dict.fromkeys(READERS, expected)
        assert table.by_index() == table.expected()


def _rebuild(table: CompactedTable) -> int:
    """Replace all rows by the newest ones, as ``oriel rebuild`` does, and return the version."""
    newest = [row for row in table._newest.values() if not row.get("deleted")]
    revision, part = run_name(table.batch, table.batch), table.part()
    rows = table.rows(newest)
    file = write_file(table.directory, rows, f"{part}-rebuilt", sync=False, run=revision)
    content = TableContent([file] if newest else [], table.schema, table.properties)
    info = {COMMIT_INFO_KEY: make_record(table.batch).to_json()}
    application = table.definition.application
    return replace_rows(table.directory, content, application, table.batch, info, sync=False)


def test_a_layer_whose_rows_have_expired_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction of one of two files leaves two runs to compare, and then all rows expire."""
    monkeypatch.setattr(layers, "SMALL_ROWS", 0)
    table = CompactedTable(tmp_path, TUMBLING, retention_ms=40)
    table.commit([{"key": "a", "start": 0}], [{"key": "b", "start": 0}])
    worker = table.compaction()
    (first, *_) = (file for run in worker.runs() for file in run.files)
    worker.merge([Run((first,))], nothing)
    table.commit([{"key": "a", "start": 100}], [])
    for name, read in READERS.items():
        assert (name, served(read(current(table.directory)))) == (name, table.expected())


@pytest.fixture
def table(tmp_path: Path) -> CompactedTable:
    """Return a table with two batches of sessions."""
    return _sessions(tmp_path)


def _sessions(data: Path) -> CompactedTable:
    table = CompactedTable(data, SESSION)
    table.commit([{"key": "a", "start": 1, "end": 2}, {"key": "b", "start": 1, "end": 2}])
    table.commit([
        {"key": "a", "start": 1, "end": 2, "deleted": True}, {"key": "a", "start": 1, "end": 5},
    ])  # fmt: skip
    return table


def test_any_directory_can_be_read(tmp_path: Path) -> None:
    """Quotes and wildcards in the path of the table have no meaning."""
    table = _sessions(tmp_path / "it's [a] {b} *?`c")
    for name, read in READERS.items():
        assert (name, served(read(current(table.directory)))) == (name, table.expected())


def test_a_table_without_rows_has_the_columns(tmp_path: Path) -> None:
    """Each library returns the columns of the store, also before the first batch."""
    table = CompactedTable(tmp_path, TUMBLING)
    rows = current(table.directory)
    names = ["key", "window_start", "window_end", "n", "mean", "last", "all", "timestamp", "final"]
    for read in READERS.values():
        found = read(rows)
        assert (found.column_names, found.num_rows) == (names, 0)


@pytest.mark.parametrize("small_rows", [0, 1 << 17])
@pytest.mark.parametrize("rewrite", ["append", "optimize", "delete", "int96"])
def test_rows_of_other_programs_count_as_in_the_index(
    table: CompactedTable, rewrite: str, small_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of other programs are compared with all files that can share windows."""
    monkeypatch.setattr(layers, "SMALL_ROWS", small_rows)
    monkeypatch.setenv("TZ", "America/New_York")
    worker = table.compaction()
    assert worker.merge(worker.runs(), nothing).version is not None
    delta = DeltaTable(table.directory)
    if rewrite == "optimize":
        table.commit([{"key": "b", "start": 1, "end": 2, "n": 8}])
        DeltaTable(table.directory).optimize.compact()
    elif rewrite == "delete":
        delta.delete("key = 'b'")
    elif rewrite == "append":
        table.batch = 0
        old = table.rows([{"key": "a", "start": 1, "end": 5, "n": 7}, {"key": "c", "start": 0}])
        write_deltalake(table.directory, old, mode="append")
    else:
        table.batch = 9
        _append_as_spark_does(table)
    expected = table.by_index()
    for name, read in READERS.items():
        assert (name, served(read(current(table.directory)))) == (name, expected)


def _append_as_spark_does(table: CompactedTable) -> None:
    """Append a file with times as INT96, and without a column that has no values."""
    rows = table.rows([{"key": "b", "start": 1, "end": 2, "mean": None}]).drop_columns(["mean"])
    path = table.directory / "part-of-spark.parquet"
    pq.write_table(rows, path, use_deprecated_int96_timestamps=True)
    added = AddAction(path.name, path.stat().st_size, {}, 0, data_change=True, stats="{}")
    delta = DeltaTable(table.directory)
    delta.create_write_transaction([added], "append", delta.schema())


def test_deletion_vectors_are_rejected(
    table: CompactedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table with deletion vectors is not read, because its files have deleted rows."""
    path = next(iter(table.live()))
    monkeypatch.setattr(log, "_live_row_masks", lambda _: {path: np.array([True, False])})
    with pytest.raises(CorruptLog, match="has deletion vectors, which"):
        current(table.directory).arrow()


def test_a_missing_table_or_version_is_named(table: CompactedTable) -> None:
    """The error says which directory, version or dialect to use."""
    with pytest.raises(StoreNotReady, match="Use the directory of a store"):
        current(table.data)
    with pytest.raises(VersionNotFound, match="no version 9 yet"):
        current(table.directory, version=9)
    with pytest.raises(ValueError, match="must be one of duckdb, spark"):
        current(table.directory).sql("oracle")
    worker = table.compaction()
    version = worker.merge(worker.runs(), nothing).version
    for name in table.names() - table.live():
        (table.directory / name).unlink()
    assert current(table.directory, version=version).arrow().num_rows == 2
    with pytest.raises(VersionGone, match="was cleaned up"):
        current(table.directory, version=1)


def test_only_files_that_can_share_windows_are_compared(tmp_path: Path) -> None:
    """Runs with other window starts need no join, and one run needs no window function."""
    table = CompactedTable(tmp_path, TUMBLING)
    table.commit([{"key": "a", "start": start} for start in (0, 10)])
    table.commit([{"key": "a", "start": start} for start in (20, 30)])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(layers, "SMALL_ROWS", 0)
        assert "JOIN" not in (text := current(table.directory).sql("duckdb"))
        assert "row_number" not in text
        table.commit([{"key": "a", "start": 20}])
        text = current(table.directory).sql("duckdb")
    assert text.count("ANTI JOIN") == 1
    assert "row_number" not in text
    worker = table.compaction()
    worker.merge(worker.runs(), nothing)
    text = current(table.directory).sql("duckdb")
    assert "JOIN" not in text
    assert "row_number" not in text
    assert served(current(table.directory).arrow()) == table.expected()
