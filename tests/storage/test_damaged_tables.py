"""Tests of damaged table files: the result is correct, or an error names a file."""

import random
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake.exceptions import TableNotFoundError

from oriel.app.reads import LogDigests
from oriel.app.reads.changes import ResetNeeded, read_changes
from oriel.storage import COMMIT_INFO_KEY, STORE_PROPERTY, WindowRange
from oriel.storage.delta import (
    DeltaLog,
    MaintenanceSettings,
    Table,
    TableMaintenance,
    add_checkpoint,
    open_table,
    open_with_files,
    store_schema,
    table_rows,
    write_file,
)
from oriel.storage.errors import CorruptLog, MissingDataFile, StorageError
from oriel.storage.index import build_generation, file_rows
from oriel.storage.index.rows import file_tables, newest_rows
from oriel.storage.table_store import ReadBudget, TableVersions, TableWindowStore
from tests.campaigns import cases
from tests.storage.store_tables import TUMBLING, make_definition, make_record

AGGREGATES = {
    "n": pa.int64(), "mean": pa.float64(), "last": pa.string(), "all": pa.list_(pa.float64()),
}  # fmt: skip
DEFINITION = make_definition(window=TUMBLING)
BATCHES = 6
#: Version 0 creates the table, so batch n is version n + 1. The checkpoint has the first three.
CHECKPOINT = 3


def opened_table(directory: Path) -> Table:
    """Open or create the table, as the pipeline does."""
    properties = {STORE_PROPERTY: DEFINITION.to_json()}
    return open_table(directory, store_schema(AGGREGATES), properties, sync=False)


def commit(directory: Path, batch: int) -> None:
    """Commit a batch of a few windows, as the pipeline does."""
    keys = [f"key-{number % 7}" for number in range(40)]
    starts = [10 * number for number in range(40)]
    changes = pa.table({
        "key": keys,
        "window_start_ms": starts,
        "window_end_ms": [start + 10 for start in starts],
        "n": [batch + number for number in range(40)],
        "mean": [batch / 7 + number for number in range(40)],
        "last": [f"text {batch} {number}" for number in range(40)],
        "all": pa.array([[float(number)] * 3 for number in range(40)]),
        "timestamp_ms": starts,
        "final": [number % 2 == 0 for number in range(40)],
    })  # fmt: skip
    rows = table_rows(changes, AGGREGATES, batch)
    table = opened_table(directory)
    file = write_file(directory, rows, f"part-{batch:012d}", sync=False, group_rows=16)
    info = {COMMIT_INFO_KEY: make_record(batch).to_json()}
    table.commit([file], DEFINITION.application, batch, info)


def built_table(directory: Path, *, without_old_entries: bool) -> Path:
    """Return a table with a checkpoint, optionally without the entries before the checkpoint."""
    for batch in range(BATCHES):
        commit(directory, batch)
        if batch + 1 == CHECKPOINT:
            add_checkpoint(directory)
    if without_old_entries:
        for version in range(CHECKPOINT):
            (directory / "_delta_log" / f"{version:020d}.json").unlink()
    return directory


def of_index(directory: Path) -> object:
    """Build an index, as the tailer does."""
    snapshot = DeltaLog(directory).snapshot()
    generation = directory / "index"
    generation.mkdir(exist_ok=True)
    state = build_generation(directory, snapshot, generation)
    tables = [
        rows
        for name in snapshot.files
        for rows in file_tables(directory / name, DEFINITION, digest=snapshot.digests.get(name))
    ]
    found = newest_rows(pa.concat_tables(tables)).to_pylist()
    return state.version, state.record, state.extent, state.definition, state.revisions, found


def followed(directory: Path) -> object:
    """Apply the entries after the checkpoint, as the tailer does."""
    log, found = DeltaLog(directory), []
    for version in range(CHECKPOINT + 1, BATCHES + 1):
        entry = log.read(version)
        if entry is None:
            # The tailer waits for the rest of a torn entry, and reports it.
            message = f"{entry_path(directory, version)} is torn"
            raise CorruptLog(message)
        rows = [
            value
            for name in entry.added
            for batch in file_rows(directory / name, DEFINITION, digest=entry.digests.get(name))
            for value in batch.values
        ]
        found.append((version, entry.record, entry.transactions, rows))
    return found


def at_a_version(directory: Path) -> object:
    """Read a version of the table, as requests with ``as_of`` do."""
    version = CHECKPOINT + 1
    store = TableVersions(directory).open(version, ReadBudget())
    assert isinstance(store, TableWindowStore)
    keys = store.keys("", 100).keys
    pages = [store.fetch(WindowRange(key, limit=100)).windows for key in keys]
    return store.state.version, store.state.record, keys, pages


def of_changes(directory: Path) -> object:
    """Read what each version changed, as the streams do."""
    log = DeltaLog(directory)
    try:
        return [
            (changes.version, changes.record, changes.windows)
            for version in range(CHECKPOINT + 1, BATCHES + 1)
            for changes in [read_changes(log, DEFINITION, version, LogDigests())]
        ]
    except ResetNeeded as error:
        # A client would read the store again, from the index.
        message = f"{directory}: {error}"
        raise CorruptLog(message) from error


def compacted(directory: Path) -> object:
    """Compact the table, which keeps only the row of the newest revision of each window."""
    maintenance = TableMaintenance(directory, MaintenanceSettings(sync=False))
    maintenance.compact_all({})
    return rows_of(directory)


def committed(directory: Path) -> object:
    """Open the table as the pipeline does, and commit the next batch."""
    table = opened_table(directory)
    recorded = table.recorded_batch(DEFINITION.application)
    commit(directory, BATCHES)
    definition = table.properties[STORE_PROPERTY]
    return recorded, definition, rows_of(directory)


def rows_of(directory: Path) -> object:
    """Return all rows of a table, sorted, and its newest commit record."""
    rows = open_with_files(directory).to_pyarrow_table()
    order = [(name, "ascending") for name in ("key", "window_start", "revision")]
    record = DeltaLog(directory).newest_record()
    return rows.sort_by(order).to_pylist(), record


READERS: dict[str, Callable[[Path], object]] = {
    reader.__name__: reader
    for reader in (of_index, followed, at_a_version, of_changes, compacted, committed)
}


def entry_path(directory: Path, version: int) -> Path:
    """Return the path of a version's log entry."""
    return directory / "_delta_log" / f"{version:020d}.json"


def flipped(content: bytes, chance: random.Random) -> bytes:
    """Return the content with one flipped bit."""
    damaged = bytearray(content)
    damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def cut_off(content: bytes, chance: random.Random) -> bytes:
    """Return the content up to a random multiple of seven bytes."""
    return content[: chance.randrange(0, len(content), 7)]


def with_zeros(content: bytes, chance: random.Random) -> bytes:
    """Return the content with one page of zeros."""
    start = chance.randrange(0, len(content), 4096)
    page = content[start : start + 4096]
    return content[:start] + bytes(len(page)) + content[start + 4096 :]


KINDS = {
    "data": "*.parquet",
    "entries": "_delta_log/*.json",
    "checkpoints": "_delta_log/*checkpoint*",
}


class Campaign:
    """A table, the result of each reader for it, and damaged copies of it."""

    def __init__(self, directory: Path, *, without_old_entries: bool) -> None:
        self.directory = directory
        self.table = built_table(directory / "whole", without_old_entries=without_old_entries)
        self.right = {name: self.result(name, self.copy()) for name in READERS}
        # The results without the newest batch, which a power loss can undo.
        before = self.copy()
        entry_path(before, BATCHES).unlink()
        self.before = {
            name: self.result(name, self.copied(before))
            for name in READERS
            if name not in {"followed", "of_changes"}
        }

    def copy(self) -> Path:
        """Return a copy of the table."""
        return self.copied(self.table)

    def copied(self, table: Path) -> Path:
        """Return a copy of this table at a unique path."""
        target = self.directory / f"{uuid.uuid4()}"
        shutil.copytree(table, target)
        return target

    def result(self, reader: str, table: Path) -> object:
        """Return the result of a reader, or its error if the reader is allowed to raise it."""
        try:
            return READERS[reader](table)
        except (StorageError, TableNotFoundError) as error:
            return error

    def check(self, reader: str, table: Path, *, is_torn: bool) -> None:
        """Check that a damaged table has the correct result or an error with its path."""
        result = self.result(reader, table)
        if isinstance(result, StorageError):
            assert str(table) in str(result), result
        elif not is_torn or result != self.before.get(reader):
            assert result == self.right[reader]
        shutil.rmtree(table)


@pytest.fixture(params=[False, True], ids=["all entries", "checkpoint needed"], scope="module")
def campaign(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Return a campaign, with all log entries or without the entries before the checkpoint."""
    return Campaign(tmp_path_factory.mktemp("damage"), without_old_entries=request.param)


@cases(20, 600)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", [flipped, cut_off, with_zeros])
def test_damage_is_named_or_has_no_effect(
    campaign: Campaign, kind: str, damage: Callable[[bytes, random.Random], bytes], number: int
) -> None:
    """Damage to a file has no effect on the result, or it raises an error that names the table."""
    count = number if damage is flipped else number // 4
    for seed in range(count):
        chance = random.Random(f"{kind} {damage.__name__} {seed}")
        table = campaign.copy()
        path = chance.choice(sorted(table.glob(KINDS[kind])))
        path.write_bytes(damage(path.read_bytes(), chance))
        # Only a power loss cuts the newest entry, whose batch is committed again.
        is_torn = path == entry_path(table, BATCHES) and damage is not flipped
        reader = chance.choice(list(READERS))
        campaign.check(reader, table, is_torn=is_torn)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["data", "entries"])
def test_files_in_each_others_place_are_named(campaign: Campaign, kind: str, reader: str) -> None:
    """If a file has the content of another file, its reader raises an error or is not affected."""
    other = campaign.directory / "other"
    if not other.exists():
        built_table(other, without_old_entries=False)
    for theirs, place in ((campaign.table, -2), (other, -1)):
        table = campaign.copy()
        found = sorted(theirs.glob(KINDS[kind]))
        max(table.glob(KINDS[kind])).write_bytes(found[place].read_bytes())
        campaign.check(reader, table, is_torn=False)


@pytest.mark.parametrize("reader", READERS)
def test_a_directory_in_the_place_of_a_file_is_named(campaign: Campaign, reader: str) -> None:
    """If a directory replaces a file, readers raise an error that names it or are not affected."""
    # Readers that write checkpoints raise the system's error, which names the file.
    kinds = KINDS.keys() - ({"checkpoints"} if reader in {"compacted", "committed"} else set())
    for kind in sorted(kinds):
        for path in sorted(campaign.table.glob(KINDS[kind])):
            table = campaign.copy()
            damaged = table / path.relative_to(campaign.table)
            damaged.unlink()
            damaged.mkdir()
            campaign.check(reader, table, is_torn=False)


def test_a_torn_newest_entry_does_not_keep_compaction_busy(campaign: Campaign) -> None:
    """A compaction is abandoned if the next version has a torn entry."""
    table = campaign.copy()
    entry = entry_path(table, BATCHES)
    entry.write_bytes(entry.read_bytes()[:300])
    assert compacted_version(table) is None


def compacted_version(directory: Path) -> int | None:
    """Compact a table and return the new version, or None if the commit was abandoned."""
    done = TableMaintenance(directory, MaintenanceSettings(sync=False)).compact_all({})
    assert done is not None
    return done.version


def test_an_entry_of_another_table_is_named_although_a_checkpoint_has_its_files(
    campaign: Campaign,
) -> None:
    """An entry of another table is rejected, because it is read for the position."""
    table, other = campaign.copy(), campaign.directory / "foreign"
    built_table(other, without_old_entries=False)
    add_checkpoint(table)
    entry_path(table, BATCHES).write_bytes(entry_path(other, BATCHES).read_bytes())
    with pytest.raises(CorruptLog, match="it belongs to another table") as refused:
        DeltaLog(table).snapshot()
    assert str(entry_path(table, BATCHES)) in str(refused.value)
    shutil.rmtree(other)


def opened_version(directory: Path) -> object:
    """Open the newest version of a table."""
    return TableVersions(directory).open(BATCHES, ReadBudget(60))


@pytest.mark.parametrize("reader", READERS)
def test_a_missing_checkpoint_is_named_or_not_needed(campaign: Campaign, reader: str) -> None:
    """A missing checkpoint that the pointer names is reported by name."""
    table = campaign.copy()
    checkpoint = table / "_delta_log" / f"{CHECKPOINT:020d}.checkpoint.parquet"
    checkpoint.unlink()
    with pytest.raises(CorruptLog, match=f"{checkpoint}: the Delta checkpoint is missing. Restart"):
        open_with_files(table)
    campaign.check(reader, table, is_torn=False)


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("store", "from a backup, or rebuild the store from its topics with `oriel rebuild store`"),
        ("_dead_letters", "Put the file back from a backup"),
    ],
)
def test_a_missing_data_file_is_named_with_what_replaces_it(
    campaign: Campaign, name: str, action: str
) -> None:
    """The error for a missing data file proposes a rebuild, except for dead letters."""
    table = campaign.copy().rename(campaign.directory / name)
    path = max(table.glob("*.parquet"))
    path.unlink()
    for read in (open_with_files, compacted_version, of_index, opened_version):
        with pytest.raises(MissingDataFile) as refused:
            read(table)
        assert str(refused.value).startswith(f"{path}: the data file is missing. ")
        assert str(refused.value).endswith(action)
    shutil.rmtree(table)
