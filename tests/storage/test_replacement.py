"""Tests of replacing all rows of a table in one version while other programs write to it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from oriel.storage.delta import (
    DeltaLog,
    Table,
    TableContent,
    open_table,
    replace_rows,
    replacement,
    store_schema,
    table_rows,
    write_file,
)
from oriel.storage.delta.entries import create_entry
from tests.storage.test_table_commits import commit, opened, revisions

WIDER = {"n": pa.int64(), "mean": pa.float64()}


def content(directory: Path) -> TableContent:
    """Return content of one row of revision 1, with an additional column."""
    changes = pa.table({
        "key": ["b"], "window_start_ms": [0], "window_end_ms": [10], "n": [7], "mean": [0.5],
        "timestamp_ms": [3], "final": [True],
    })  # fmt: skip
    # The name is encoded in the log.
    file = write_file(directory, table_rows(changes, WIDER, 1), "part 100%", sync=False)
    return TableContent([file], store_schema(WIDER), {"oriel.store": "new"})


def replaced(directory: Path) -> int:
    """Replace the rows as batch 1 of ``app``, which the table already has."""
    return replace_rows(
        directory, content(directory), "app", 1, {"oriel": '{"batch": 1}'}, sync=True
    )


def test_the_rows_the_columns_and_the_properties_are_others(tmp_path: Path) -> None:
    """The replaced table has new rows and columns, and keeps its id, properties and history."""
    table = opened(tmp_path)
    for batch in range(2):
        commit(table, tmp_path, batch)
    before = DeltaTable(tmp_path)
    assert replaced(tmp_path) == 3
    after = DeltaTable(tmp_path)
    rows = after.to_pyarrow_table()
    assert rows.schema.names == store_schema(WIDER).names
    assert [(row["key"], row["n"], row["mean"]) for row in rows.to_pylist()] == [("b", 7, 0.5)]
    assert after.metadata().id == before.metadata().id
    kept = {**before.metadata().configuration, "oriel.store": "new"}
    assert after.metadata().configuration == kept
    assert len(DeltaTable(tmp_path, version=2).to_pyarrow_table()) == 2
    entry = DeltaLog(tmp_path).read(3)
    assert entry is not None
    assert entry.removes_rows
    assert len(entry.added) == 1


@pytest.mark.parametrize("is_open", [False, True])
def test_the_writer_resumes_after_its_batch(tmp_path: Path, is_open: bool) -> None:
    """The pipeline continues after the batch that the table had before."""
    table = opened(tmp_path)
    for batch in range(2):
        commit(table, tmp_path, batch)
    replaced(tmp_path)
    if not is_open:
        table = open_table(tmp_path, store_schema(WIDER), {}, sync=False)
    assert table.recorded_batch("app") == 1
    assert table.properties["oriel.store"] == "new"
    changes = pa.table({
        "key": ["c"], "window_start_ms": [0], "window_end_ms": [10], "n": [7], "mean": [0.5],
        "timestamp_ms": [3], "final": [True],
    })  # fmt: skip
    file = write_file(tmp_path, table_rows(changes, WIDER, 2), "part", sync=False)
    assert table.commit([file], "app", 2, {}) == 4
    assert revisions(tmp_path) == [1, 2]


def test_what_another_adds_meanwhile_is_replaced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another program commits first, its rows are also replaced, in the next version."""
    table = opened(tmp_path)
    commit(table, tmp_path, 0)

    def create(*given: Any, **named: Any) -> None:
        monkeypatch.setattr(replacement, "create_entry", create_entry)
        _commit_of_another(tmp_path)
        create_entry(*given, **named)

    monkeypatch.setattr(replacement, "create_entry", create)
    assert replaced(tmp_path) == 3
    assert DeltaTable(tmp_path).to_pyarrow_table()["key"].to_pylist() == ["b"]


def _commit_of_another(directory: Path) -> None:
    other: Table = opened(directory)
    commit(other, directory, 0, "another")
