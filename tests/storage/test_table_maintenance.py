"""Tests of table maintenance: which checkpoints, log entries and files are deleted or kept."""

import os
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from oriel.storage import COMMIT_INFO_KEY
from oriel.storage.delta import (
    DeltaLog,
    Limits,
    MaintenanceSettings,
    TableMaintenance,
    dead_letters_name,
    open_table,
    write_file,
)
from oriel.storage.delta.file_ranges import file_ranges
from oriel.storage.delta.maintenance import cleanup
from oriel.storage.delta.maintenance.live_files import TableFiles
from oriel.storage.delta.maintenance.merging import Merge, merged_pieces
from oriel.storage.delta.retention import (
    DELETED_FILE_RETENTION,
    LOG_RETENTION,
    interval,
    log_retention_ms,
)
from tests.storage.compacted_table import TINY, CompactedTable
from tests.storage.store_tables import SLIDING, make_record

APPLICATION = "store-app"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write checkpoints every 10 versions, and list directories each time."""
    monkeypatch.setattr(cleanup, "CHECKPOINT_INTERVAL", 10)
    monkeypatch.setattr(cleanup, "_LISTING_MS", 0)


def maintenance_of(table: CompactedTable, kept_ms: int) -> TableMaintenance:
    """Return maintenance that keeps entries and removed files for this time."""
    return table.maintenance(log_retention_ms=kept_ms, deleted_file_retention_ms=kept_ms)


def grown(tmp_path: Path, batches: int) -> CompactedTable:
    """Return a table with this number of batches."""
    table = CompactedTable(tmp_path, SLIDING)
    for batch in range(batches):
        table.commit([{"key": "a", "start": batch % 5, "n": batch}])
    return table


def entries(table: CompactedTable) -> list[int]:
    """Return the versions that have an entry."""
    return DeltaLog(table.directory).versions()


def checkpoints(table: CompactedTable) -> list[int]:
    """Return the versions that have a Delta checkpoint."""
    log = table.directory / "_delta_log"
    return sorted(int(path.name[:20]) for path in log.glob("*.checkpoint.parquet"))


def finish(maintenance: TableMaintenance, batch: int, passes: int = 1) -> None:
    """Step until nothing is due, this number of times."""
    for _ in range(passes):
        while maintenance.step({"": batch}):
            pass


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_log_checkpoints_and_files_stay_few(tmp_path: Path) -> None:
    """With minimum retention, the numbers of entries, checkpoints and files stay bounded."""
    table = CompactedTable(tmp_path, SLIDING)
    maintenance = maintenance_of(table, 1)
    counts = []
    for batch in range(90):
        table.commit([{"key": "a", "start": batch % 5, "n": batch}])
        finish(maintenance, batch)
        log = len(os.listdir(table.directory / "_delta_log"))  # noqa: PTH208
        counts.append((len(entries(table)), len(checkpoints(table)), len(table.names()), log))
    assert max(count[0] for count in counts) <= 22
    assert max(count[1] for count in counts) <= 2
    assert max(count[2] for count in counts) <= 22
    assert max(count[3] for count in counts) <= 26
    versions = entries(table)
    assert versions == list(range(versions[0], versions[-1] + 1))
    table.assert_unchanged()
    # A table that is opened again has the last batch.
    again = open_table(table.directory, table.schema, table.properties, sync=False)
    assert again.recorded_batch(APPLICATION) == table.batch


@pytest.mark.usefixtures("quick")
def test_nothing_goes_before_its_time(tmp_path: Path) -> None:
    """Entries and removed files are kept for the times of the table properties."""
    table = grown(tmp_path, 30)
    before = table.names()
    finish(maintenance_of(table, 3_600_000), 29, passes=2)
    assert before < table.names()
    assert entries(table)[0] == 0
    table.assert_unchanged()


@pytest.mark.usefixtures("quick")
def test_the_last_position_stays_in_the_log(tmp_path: Path) -> None:
    """The entry of the last batch stays, although many entries without a position follow."""
    table = grown(tmp_path, 12)
    maintenance = maintenance_of(table, 1)
    finish(maintenance, 11)
    recorded = next(v for v in reversed(entries(table)) if _has_position(table, v))
    for n in range(25):
        # Commits without a position, like compactions.
        table.table.commit([], "somebody", n, {})
        finish(maintenance, 11)
    assert entries(table)[0] <= recorded
    assert _batch_of(table) == 11


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("is_restored", [False, True])
def test_the_position_that_counts_stays_in_the_log(tmp_path: Path, *, is_restored: bool) -> None:
    """The position that counts stays after a repeated older record and after a RESTORE."""
    table = grown(tmp_path, 12)
    maintenance = maintenance_of(table, 1)
    if is_restored:
        older = DeltaLog(table.directory).versions()[-4]
        counts = _batch_of(table, older)
        DeltaTable(table.directory).restore(older)
    else:
        counts = _batch_of(table)
        late = {COMMIT_INFO_KEY: make_record(8).to_json()}
        table.table.commit([], "store-app/maintenance", 20, late)
    assert 0 < counts <= 11
    for n in range(25):
        table.table.commit([], "somebody", n, {})
        # Alternate between maintenance that followed the table and new maintenance.
        finish(maintenance if n % 2 else maintenance_of(table, 1), 11)
    assert _batch_of(table) == counts


def _batch_of(table: CompactedTable, version: int | None = None) -> int:
    record = DeltaLog(table.directory).snapshot(version).record
    assert record is not None
    return record.batch


def _has_position(table: CompactedTable, version: int) -> bool:
    entry = DeltaLog(table.directory).read(version)
    return entry is not None and entry.record is not None


@pytest.mark.usefixtures("quick")
def test_entries_stay_until_a_checkpoint_is_known_to_be_on_disk(tmp_path: Path) -> None:
    """Entries before a checkpoint of another process stay, because it can be torn."""
    table = grown(tmp_path, 15)
    DeltaTable(table.directory).create_checkpoint()
    finish(maintenance_of(table, 1), 14)
    assert entries(table)[0] == 0


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("entries_max", "first"), [(16, 0), (15, 31)])
def test_entries_of_a_log_of_very_many_go_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries_max: int, first: int
) -> None:
    """Above twice the limit, entries before the newest checkpoint are deleted early."""
    monkeypatch.setattr(cleanup, "_ENTRIES_MAX", entries_max)
    monkeypatch.setattr(cleanup, "_LARGE_LOG_RETENTION_MS", -1)
    table = grown(tmp_path, 31)
    finish(table.maintenance(limits=Limits(small_files=100)), 30)
    assert entries(table)[0] == first


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    """Reserve no files for checkpoints, and delete files that are not ten seconds old."""
    del quick
    monkeypatch.setattr(cleanup, "_YOUNGEST_MS", 0)
    monkeypatch.setattr(cleanup, "_CHECKPOINT_INTERVAL_MAX", 10)
    monkeypatch.setattr(cleanup, "_OTHER_FILES", 0)
    monkeypatch.setattr(cleanup, "_LEAST_KEPT", 1)


def _files(table: CompactedTable) -> int:
    """Return the number of files of a table."""
    return sum(path.is_file() for path in table.directory.rglob("*"))


def _run(table: CompactedTable, maintenance: TableMaintenance, in_use: int | None = None) -> int:
    """Commit 100 batches with maintenance after each tenth. Return the most files after it."""
    most = 0
    for _ in range(10):
        for _ in range(10):
            table.commit([{"key": "a", "start": table.batch % 5, "n": table.batch}])
        while maintenance.step({"": table.batch}, in_use=in_use):
            pass
        most = max(most, _files(table))
    return most


@pytest.mark.usefixtures("few")
def test_a_table_has_few_files_whatever_its_retention(tmp_path: Path) -> None:
    """The oldest removed files and entries are deleted first, and readers find the newest rows."""
    table = grown(tmp_path, 1)
    limits = Limits(small_files=4)
    # Entries after a checkpoint, one batch and a merge can be in addition to the limit.
    assert _run(table, table.maintenance(limits=limits, files_max=60)) <= 60 + 10
    table.assert_unchanged()
    assert len(entries(table)) >= 20
    assert _run(table, table.maintenance(limits=limits, files_max=None)) > 200


@pytest.mark.usefixtures("few")
def test_files_that_a_tailer_reads_stay(tmp_path: Path) -> None:
    """All entries after its version stay, and all files that left the table after it."""
    table = grown(tmp_path, 31)
    snapshot = DeltaLog(table.directory).snapshot()
    maintenance = table.maintenance(limits=Limits(small_files=4), files_max=30)
    assert _run(table, maintenance, in_use=snapshot.version) > 200
    assert entries(table)[0] <= snapshot.version
    missing = [path for path in snapshot.files if not (table.directory / path).exists()]
    assert missing == []
    while maintenance.step({"": table.batch}):
        pass
    assert _files(table) <= 30 + 10 + 10


@pytest.mark.usefixtures("few")
def test_a_version_that_was_just_opened_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that is not known has at least ten seconds, whatever the number of files."""
    monkeypatch.setattr(cleanup, "_YOUNGEST_MS", 600_000)
    table = grown(tmp_path, 1)
    assert _run(table, table.maintenance(limits=Limits(small_files=4), files_max=30)) > 200


@pytest.mark.usefixtures("quick")
def test_removed_files_of_an_earlier_run_go_with_their_time(tmp_path: Path) -> None:
    """A later run deletes files that an earlier run removed from the table, after their time."""
    table = grown(tmp_path, 12)
    worker = table.compaction()
    worker.merge(worker.runs(), lambda: None)
    before = table.names()
    assert len(before) > len(table.live())
    finish(maintenance_of(table, 3_600_000), 11)
    assert before <= table.names()
    for name in table.names():
        os.utime(table.directory / name, (1, 1))
    finish(maintenance_of(table, 1), 12)
    assert table.names() == table.live()


@pytest.mark.usefixtures("quick")
def test_files_that_a_batch_may_still_commit_stay(tmp_path: Path) -> None:
    """Files of batches that can still be committed stay at any age, and orphans are deleted."""
    table = grown(tmp_path, 5)
    rows = table.rows([{"key": "z", "start": 1}])

    def left(name: str) -> str:
        path = table.directory / write_file(table.directory, rows, name, sync=False).path
        os.utime(path, (1, 1))
        return path.name

    orphans = {left(table.part(batch=2)), left("compact-000000000000-000000000002-0000")}
    waiting = {left(table.part(batch=4)), left(table.part(batch=5))}
    foreign = {left("part-00000"), left("mine")}
    young = write_file(table.directory, rows, table.part(batch=1), sync=False).path
    finish(maintenance_of(table, 1), 4)
    assert not orphans & table.names()
    assert waiting | foreign | {young} <= table.names()
    # The batch of a waiting file can be prepared, so the file is kept for its commit.
    table.assert_unchanged()


@pytest.mark.usefixtures("quick")
def test_dead_letters_are_merged_as_they_are(tmp_path: Path) -> None:
    """Merging dead letters drops no row, and files of other pipelines stay."""
    schema = pa.schema([
        pa.field("topic", pa.string(), nullable=False), pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()), pa.field("raw", pa.binary()),
    ])  # fmt: skip
    table = open_table(tmp_path, schema, {}, sync=False)
    for batch in range(12):
        rows = pa.table([["t"] * 3, [0] * 3, [batch] * 3, [b"x"] * 3], schema=schema)
        file = write_file(tmp_path, rows, f"dead-s-{batch:012d}", sync=False)
        table.commit([file], "app/s", batch, {})
    rows = pa.table([["t"], [0], [99], [b"y"]], schema=schema)
    # A file name has only the first part of a long name, which other names can share.
    sinks = [f"to({'x' * 200}-{number})" for number in range(2)]
    mine, of_sink, shared, other = (
        write_file(tmp_path, rows, dead_letters_name(store, batch), sync=False).path
        for store, batch in (("s", 3), (sinks[0], 3), (sinks[1], 7), ("other", 3))
    )
    for path in (mine, of_sink, shared, other):
        os.utime(tmp_path / path, (1, 1))
    limits = Limits(small_files=4, piece_rows=10)
    maintenance = TableMaintenance(
        tmp_path,
        MaintenanceSettings(
            sync=False, limits=limits, log_retention_ms=1, deleted_file_retention_ms=1
        ),
    )
    for _ in range(2):
        while maintenance.step({"s": 12, sinks[0]: 12, sinks[1]: 5}):
            pass
    assert not (tmp_path / mine).exists()
    assert not (tmp_path / of_sink).exists()
    # One of the two sinks can still commit it.
    assert (tmp_path / shared).exists()
    assert (tmp_path / other).exists()
    assert maintenance.figures().files < 12
    # Entries of dead letters have no position, so all old entries are deleted.
    assert DeltaLog(tmp_path).versions()[0] > 0
    offsets = DeltaTable(tmp_path).to_pyarrow_table()["offset"].to_pylist()
    assert sorted(offsets) == [batch for batch in range(12) for _ in range(3)]
    assert table.recorded_batch("app/s") == 11


@pytest.mark.usefixtures("quick")
def test_a_batch_costs_no_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first step, a step does not list directories."""
    monkeypatch.setattr(cleanup, "_LISTING_MS", 3_600_000)
    monkeypatch.setattr(cleanup, "CHECKPOINT_INTERVAL", 1_000)
    table = grown(tmp_path, 20)
    maintenance = maintenance_of(table, 3_600_000)
    finish(maintenance, 19)

    def fail(*_arguments: object) -> None:
        pytest.fail("a folder was listed")

    with monkeypatch.context() as patch:
        for name in ("listdir", "scandir"):
            patch.setattr(os, name, fail)
        for batch in range(20, 60):
            table.commit([{"key": "a", "start": batch % 5, "n": batch}])
            finish(maintenance, batch)


def test_off_leaves_all_files_and_still_writes_checkpoints(tmp_path: Path) -> None:
    """With compaction off, checkpoints are written, and files are neither merged nor deleted."""
    table = grown(tmp_path, 101)
    before = table.names()
    finish(table.maintenance(compacts=False, deleted_file_retention_ms=1), 100, passes=2)
    assert table.names() == before == table.live()
    assert len(checkpoints(table)) == 1


def test_a_damaged_pointer_does_not_stop_checkpoints(tmp_path: Path) -> None:
    """A pointer to a checkpoint of a nonexistent version does not prevent new checkpoints."""
    table = grown(tmp_path, 101)
    pointer = table.directory / "_delta_log" / "_last_checkpoint"
    pointer.write_bytes(b'{"version":900000,"size":1}')
    finish(table.maintenance(compacts=False), 100)
    assert checkpoints(table) == [entries(table)[-1]]


def test_a_writer_that_may_not_write_any_more_removes_nothing(tmp_path: Path) -> None:
    """After another process started, the step raises an error and removes no file."""
    table = grown(tmp_path, 12)
    before = table.names()

    def overtaken() -> None:
        message = "another process took over"
        raise PermissionError(message)

    maintenance = maintenance_of(table, 1)
    with pytest.raises(PermissionError, match="took over"):
        maintenance.step({"": 11}, overtaken)
    assert table.names() == before
    assert table.live() == before


def test_a_writer_that_may_not_write_any_more_removes_no_entry(tmp_path: Path) -> None:
    """A clean-up checks once, before it deletes its first entry, that it is allowed to write."""
    table = grown(tmp_path, 12)
    DeltaTable(table.directory).alter.set_table_properties({LOG_RETENTION: interval(1)})
    clean = cleanup.Cleanup(TableFiles(table.directory), sync=False, files_max=None)
    assert clean.checkpoint(lambda: None, at_once=True)
    before = entries(table)

    def overtaken() -> None:
        message = "another process took over"
        raise PermissionError(message)

    with pytest.raises(PermissionError, match="took over"):
        clean.clean_log(overtaken)
    assert entries(table) == before
    checks: list[int] = []
    removed = clean.clean_log(lambda: checks.append(len(entries(table))))
    assert removed > 1
    assert checks == [len(before)]
    assert entries(table) == before[removed:]


@pytest.mark.parametrize("name", [LOG_RETENTION, DELETED_FILE_RETENTION])
def test_each_time_can_be_set_alone(tmp_path: Path, name: str) -> None:
    """The table gets the property that is set, and keeps the other one."""
    table = grown(tmp_path, 1)
    before = DeltaTable(table.directory).metadata().configuration
    times = {"log_retention_ms": LOG_RETENTION, "deleted_file_retention_ms": DELETED_FILE_RETENTION}
    settings: dict[str, Any] = {each: 7_000 for each, of in times.items() if of == name}
    finish(table.maintenance(**settings), 0)
    after = DeltaTable(table.directory).metadata().configuration
    assert after == {**before, name: interval(7_000)}


def test_small_files_are_merged_when_there_are_enough(tmp_path: Path) -> None:
    """Exactly `small_files` small files are merged, and a merged file is also a small file."""
    table = CompactedTable(tmp_path, SLIDING)
    for batch in range(TINY.small_files):
        assert table.compaction().due() == []
        table.commit([{"key": "a", "start": batch}])
    compaction = table.compaction()
    due = compaction.due()
    assert sum(len(run.files) for run in due) == TINY.small_files
    assert compaction.merge(due, lambda: None).version is not None
    for batch in range(TINY.small_files - 1):
        assert table.compaction().due() == []
        table.commit([{"key": "b", "start": batch}])
    assert len(table.compaction().due()) == TINY.small_files


@pytest.mark.parametrize(("rows", "sizes"), [(5, [6, 6]), (6, [6, 6]), (7, [9, 3]), (99, [12])])
def test_dead_letters_are_merged_in_pieces(tmp_path: Path, rows: int, sizes: list[int]) -> None:
    """A piece ends with the row group that fills it."""
    schema = pa.schema([pa.field("offset", pa.int64())])
    files = [
        write_file(tmp_path, pa.table([[batch] * 3], schema=schema), f"dead-{batch}", sync=False)
        for batch in range(4)
    ]
    ranges = {file.path: file_ranges(tmp_path / file.path, None) for file in files}
    merge = Merge(ranges, (), kind=None, earliest=0, settled=0)
    pieces = list(merged_pieces(tmp_path, merge, schema, rows=rows, size=2**30))
    assert [len(piece) for piece in pieces] == sizes
    offsets = pa.concat_tables(pieces)["offset"].to_pylist()
    assert offsets == [batch for batch in range(4) for _ in range(3)]


@pytest.mark.parametrize(
    ("text", "kept_ms"),
    [
        ("interval 1 days", 86_400_000), ("interval 36 hours", 129_600_000),
        ("INTERVAL 5 MINUTES", 300_000), ("2 weeks", 1_209_600_000),
        ("interval 1 day 2 hours", 30 * 86_400_000),
    ],
)  # fmt: skip
def test_durations_of_delta_are_read(text: str, kept_ms: int) -> None:
    """Delta intervals are parsed, and an unknown format keeps entries for 30 days."""
    assert log_retention_ms({"delta.logRetentionDuration": text}) == kept_ms


@pytest.mark.parametrize("time_ms", [1, 999, 1000, 90_000, 3_600_000, 604_800_000])
def test_durations_are_written_as_they_are_read(time_ms: int) -> None:
    """Intervals round-trip in Delta's units, and a table without the property has a default."""
    assert log_retention_ms({"delta.logRetentionDuration": interval(time_ms)}) == time_ms
    assert log_retention_ms({}) == 86_400_000


def test_new_tables_say_how_long_things_are_kept(tmp_path: Path) -> None:
    """New tables have Delta's retention properties, so other programs also respect them."""
    table = CompactedTable(tmp_path, SLIDING)
    configuration = DeltaTable(table.directory).metadata().configuration
    assert configuration["delta.logRetentionDuration"] == "interval 1 days"
    assert configuration["delta.deletedFileRetentionDuration"] == "interval 1 hours"
    entry = (table.directory / "_delta_log" / f"{0:020d}.json").read_bytes()
    assert entry
    assert [line for line in entry.splitlines() if not orjson.loads(line)] == []
