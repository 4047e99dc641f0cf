"""Tests of ``oriel.tables.current``: its rows equal an index and a dictionary of newest rows."""

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oriel.storage.delta.maintenance.compaction import Run
from oriel.tables import CurrentRows, current, layers
from tests.storage.compacted_table import CompactedTable
from tests.storage.test_compaction import KINDS, batches, nothing

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


def served(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows as objects of the API, in the order of ``CompactedTable.expected``."""
    columns: dict[str, Any] = {}
    for name in rows.column_names:
        column = rows[name]
        if pa.types.is_timestamp(column.type):
            micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
            columns[f"{name}_ms"] = pc.divide(micros, 1000)
        else:
            columns[name] = column
    return sorted(
        pa.table(columns).to_pylist(),
        key=lambda row: (row["key"].encode(), row.get("window_start_ms"), row.get("window_end_ms")),
    )


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), seed=st.integers(0, 2**32), small_rows=st.sampled_from([0, 2, 5, 1 << 17]))
@settings(max_examples=max(3, settings().max_examples // 5))
def test_each_library_returns_the_windows_of_the_index(
    kind: str, data: st.DataObject, seed: int, small_rows: int
) -> None:
    """After random batches, compactions and retentions, at the newest and at earlier versions."""
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
        for version, expected in past.items():
            opened = current(table.directory, version=version)
            assert opened.version == version
            found = {name: served(read(opened)) for name, read in READERS.items()}
            assert found == dict.fromkeys(READERS, expected)
        assert table.by_index() == table.expected()
