"""Tests of store tables that the pipeline writes: plain Delta, one crash-safe commit per batch."""

from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from oriel.storage.delta import (
    arrow_type,
    delta_type,
)
from oriel.storage.errors import CorruptLog
from tests.storage.plain_tables import (
    APPLICATION,
    START_MS,
    commit,
    entry,
    keys_and_revisions,
    opened,
)


def test_each_commit_records_application_batch_and_position(tmp_path: Path) -> None:
    """Each log entry has the transaction and the commit info, also without files."""
    table = opened(tmp_path)
    assert table.recorded_batch(APPLICATION) is None
    assert commit(table, tmp_path, 0, ("a", 0)) == 1
    assert table.commit([], APPLICATION, 1, {"oriel": "batch 1"}) == 2
    assert opened(tmp_path).recorded_batch(APPLICATION) == 1
    actions = [orjson.loads(line) for line in entry(tmp_path, 2).read_bytes().splitlines()]
    assert {"txn": {"appId": APPLICATION, "version": 1}} in actions
    assert [a["commitInfo"]["oriel"] for a in actions if "commitInfo" in a] == ["batch 1"]
    assert keys_and_revisions(tmp_path) == [("a", 0)]


@pytest.mark.parametrize(
    "torn",
    [b"", b'{"commitInfo":{}}\n{"add":{"path"', b'{"commitInfo":{"oriel_application":"app"}}\n'],
    ids=["empty", "cut in a line", "cut between lines"],
)
def test_a_torn_newest_entry_is_set_aside_and_committed_again(tmp_path: Path, torn: bytes) -> None:
    """A torn newest entry is renamed, and its batch is committed again with the same version."""
    table = opened(tmp_path)
    commit(table, tmp_path, 0, ("a", 0))
    commit(table, tmp_path, 1, ("b", 0))
    entry(tmp_path, 2).write_bytes(torn)
    table = opened(tmp_path)
    assert table.recorded_batch(APPLICATION) == 0
    assert commit(table, tmp_path, 1, ("b", 0)) == 2
    assert keys_and_revisions(tmp_path) == [("a", 0), ("b", 1)]
    assert entry(tmp_path, 2).with_suffix(".json.torn").exists()


def test_a_torn_first_entry_recreates_the_table(tmp_path: Path) -> None:
    """A table with a torn first entry is created again."""
    opened(tmp_path)
    entry(tmp_path, 0).write_bytes(b"")
    assert opened(tmp_path).version == 0


def test_two_damaged_entries_are_not_guessed_around(tmp_path: Path) -> None:
    """Two torn entries raise CorruptLog, because a power loss tears only the newest one."""
    table = opened(tmp_path)
    commit(table, tmp_path, 0, ("a", 0))
    for version in (0, 1):
        entry(tmp_path, version).write_bytes(b"")
    with pytest.raises(CorruptLog, match="two newest entries"):
        opened(tmp_path)


@pytest.mark.parametrize("key", ["a", "z", "ä\U0001f600", "x" * 200, "", "a\0b"])
def test_statistics_never_hide_a_row(tmp_path: Path, key: str) -> None:
    """Readers that skip files by key or start still find every window."""
    table = opened(tmp_path)
    commit(table, tmp_path, 0, (key, START_MS), ("m", 5))
    commit(table, tmp_path, 1, ("other", 7))
    whole = DeltaTable(tmp_path).to_pyarrow_table().filter(pa.compute.field("key") == key)
    assert DeltaTable(tmp_path).to_pyarrow_table(filters=[("key", "=", key)]).num_rows == 1
    start = whole["window_start"][0]
    by_start = DeltaTable(tmp_path).to_pyarrow_table(filters=[("window_start", "=", start)])
    assert by_start["key"].to_pylist() == [key]


def test_a_property_can_be_changed(tmp_path: Path) -> None:
    """A changed property is committed and is read when the table is opened again."""
    table = opened(tmp_path)
    table.set_property("oriel.store", '{"new": true}')
    assert opened(tmp_path).properties["oriel.store"] == '{"new": true}'
    assert commit(table, tmp_path, 0, ("a", 0)) == 2


@pytest.mark.parametrize("name", ["long", "double", "string", "boolean", "array<double>"])
def test_types_have_one_name_each(name: str) -> None:
    """Delta type names convert to Arrow types and back."""
    assert delta_type(arrow_type(name)) == name
