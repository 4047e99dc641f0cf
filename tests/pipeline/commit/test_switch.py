"""The switch of a store to its next generation: the order of writes, and what is removed."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from oriel.pipeline.commit import (
    Checkpoint,
    Replacement,
    StoreTables,
    as_committed_batch,
    remove_old_generations,
    removed_stores,
)
from oriel.pipeline.plan import PreparedBatch
from oriel.storage import CommitRecord, DataLayout
from oriel.storage.delta import DEAD_LETTER_SCHEMA, DeltaLog, open_table, store_schema, write_file
from tests.storage.store_tables import make_definition

DEFINITION = replace(make_definition("s"), aggregates=())
SCHEMA = store_schema({})


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Checkpoint]:
    """Yield a checkpoint in a data directory."""
    with Checkpoint(DataLayout(tmp_path).checkpoint("app"), sync=True) as made:
        yield made


def computed(directory: Path) -> PreparedBatch:
    """Return the result of a rebuild: a prepared batch with one state file."""
    directory.mkdir()
    (directory / "0.arrow").write_bytes(b"state")
    record = CommitRecord(batch=2, offsets={"events": {"0": 9}}, stream_time_ms={}, close_ms=0)
    return PreparedBatch(record, {0: ["0.arrow"]}, {}, [], [], changed=0, open_records=1)


def test_state_is_on_disk_before_the_table_names_it(
    tmp_path: Path, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state files, their directory and its name are synced before the log entry."""
    layout = DataLayout(tmp_path)
    replacement = Replacement(layout, checkpoint, DEFINITION, SCHEMA, sync=True)
    prepared = as_committed_batch(computed(tmp_path / "scratch"), 7)
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append(str(path.relative_to(tmp_path)))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    replacement.add_state(tmp_path / "scratch", prepared)
    state = "checkpoints/app/state"
    assert {state, f"{state}/s@1", f"{state}/s@1/0.arrow"} <= set(synced)
    assert DeltaLog(layout.table("s")).snapshot().definition.generation == 0
    replacement.switch_to([], prepared)
    assert synced[-1] == "tables/s/_delta_log"
    snapshot = DeltaLog(layout.table("s")).snapshot()
    assert snapshot.definition == replacement.definition == replace(DEFINITION, generation=1)
    assert snapshot.record == prepared.record
    assert replacement.versions.load(7) == prepared
    assert DeltaTable(layout.table("s")).transaction_version(DEFINITION.application) == 7


def test_what_a_killed_rebuild_left_is_no_part_of_the_next(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    """The next generation starts empty."""
    left = checkpoint.versions("s@1").directory / "000000000001.json"
    left.write_bytes(b"{}")
    replacement = Replacement(DataLayout(tmp_path), checkpoint, DEFINITION, SCHEMA, sync=False)
    assert not list(replacement.versions.directory.iterdir())


def test_earlier_generations_go_later_ones_stay(tmp_path: Path, checkpoint: Checkpoint) -> None:
    """Only this store's earlier generations are removed. A later one can belong to a successor."""
    layout = DataLayout(tmp_path)
    layout.rebuild("s").mkdir(parents=True)
    names = ["s", "s@1", "s@2", "s@3", "other", "other@1"]
    directories = {name: checkpoint.versions(name).directory for name in names}
    remove_old_generations(layout, checkpoint, replace(DEFINITION, generation=2))
    assert [name for name, path in directories.items() if path.is_dir()] == names[2:]
    assert not layout.rebuild("s").exists()
    assert removed_stores(checkpoint, ["s"]) == ["other"]


def test_dead_letters_that_are_there_are_not_added_again(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    """A dead letter is added once per position, store and reason, also if it has no store."""

    def write_dead_letters(directory: Path, *places: tuple[int, str | None]) -> None:
        table = open_table(directory, DEAD_LETTER_SCHEMA, {}, sync=False)
        rows = [
            {"topic": "t", "partition": 0, "offset": offset, "store": store, "reason": "r",
             "detail": "", "raw": b"", "revision": 1}
            for offset, store in places
        ]  # fmt: skip
        file = write_file(
            directory, pa.Table.from_pylist(rows, DEAD_LETTER_SCHEMA), "d", sync=False
        )
        table.commit([file], "app", 0, {})

    layout = DataLayout(tmp_path)
    write_dead_letters(layout.dead_letters, (1, None), (2, "s"), (3, "other"))
    write_dead_letters(tmp_path / "scratch", (1, None), (2, "s"), (3, "s"), (4, None))
    for _again in range(2):
        replacement = Replacement(layout, checkpoint, DEFINITION, SCHEMA, sync=False)
        replacement.add_dead_letters(tmp_path / "scratch", 7)
    found = DeltaTable(layout.dead_letters).to_pyarrow_table().sort_by("offset").to_pylist()
    added = [(row["offset"], row["store"]) for row in found if row["revision"] == 7]
    assert (len(found), sorted(added, key=str)) == (5, [(3, "s"), (4, None)])
    # Further rebuilds find more dead letters, and each rebuild adds its own.
    for rebuild in range(1, 4):
        write_dead_letters(tmp_path / f"scratch-{rebuild}", (4, None), (4 + rebuild, "s"))
        replacement.add_dead_letters(tmp_path / f"scratch-{rebuild}", 7 + rebuild)
    found = DeltaTable(layout.dead_letters).to_pyarrow_table().to_pylist()
    added = [(row["offset"], row["revision"]) for row in found if row["revision"] > 7]
    assert sorted(added) == [(5, 8), (6, 9), (7, 10)]


@pytest.mark.parametrize(("before_ms", "after_ms"), [(1_000, 2_000), (2_000, 1_000), (None, 9)])
def test_the_table_has_the_newest_definition(
    tmp_path: Path, before_ms: int | None, after_ms: int | None
) -> None:
    """A start writes a changed retention to the table, because the service reads it there."""
    layout = DataLayout(tmp_path)
    for retention_ms in (before_ms, after_ms, after_ms):
        definition = replace(DEFINITION, retention_ms=retention_ms)
        tables = StoreTables(layout, definition, {}, sync=False)
        assert tables.definition == definition
        assert DeltaLog(layout.table("s")).snapshot().definition == definition
    # A start without a change commits nothing.
    assert DeltaLog(layout.table("s")).versions() == [0, 1]
