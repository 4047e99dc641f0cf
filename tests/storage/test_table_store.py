"""Tests of table versions that are read without an index: correct results from few reads."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from oriel.storage import SessionRange, WindowRange
from oriel.storage.errors import (
    CorruptLog,
    StoreNotReady,
    TableReadTimeout,
    TableReadTooLarge,
    VersionGone,
    VersionNotFound,
)
from oriel.storage.index import IndexReader
from oriel.storage.table_store import (
    ReadBudget,
    TableSessionStore,
    TableStore,
    TableVersions,
    TableWindowStore,
)
from oriel.storage.table_store.store import table_store
from oriel.storage.table_store.version_rows import version_rows
from tests.campaigns import full
from tests.storage.followed import Followed, check_in_this_process
from tests.storage.other_hands import append, compact, rewrite
from tests.storage.store_tables import (
    NONE,
    SESSION,
    SLIDING,
    TUMBLING,
    Row,
    StoreTable,
    make_definition,
)


def opened(table: StoreTable, version: int | None = None) -> Any:
    """Return the store of a version, by default of the newest, with a large read budget."""
    versions = TableVersions(table.path)
    return versions.open(versions.newest() if version is None else version, ReadBudget())


def random_rows(chance: random.Random, count: int) -> list[Row]:
    """Return rows with few keys and windows, so that they overlap. Some are deleted."""
    rows = {}
    for _ in range(count):
        start = chance.randrange(0, 40)
        end = start + chance.choice((5, 10, 25))
        key = chance.choice(("a", "a\x00", "b", "", "é" * 300))
        rows[key, start, end] = {
            "key": key, "start": start, "end": end, "n": chance.randrange(9),
            "mean": chance.choice((1.5, None, float("nan"))), "deleted": chance.random() < 0.2,
        }  # fmt: skip
    return list(rows.values())


def every_result(store: Any) -> list[Any]:
    """Return the results of all reads of a store of any kind."""
    keys = store.keys("", 100).keys
    if hasattr(store, "get"):
        return [keys, [store.get(key) for key in (*keys, "none")]]
    results: list[Any] = [sorted(keys)]
    for key in sorted((*keys, "none")):
        ranges = [WindowRange(key, 0, 99, 1000), WindowRange(key, 7, 23, 3)]
        results += [store.fetch(r) for r in ranges] + [store.backward_fetch(r) for r in ranges]
        results += [store.latest(key), store.fetch_window(key, 11), store.earliest_ms]
        if hasattr(store, "find_sessions"):
            found = SessionRange(key, 12, 30, 4)
            results += [store.find_sessions(found), store.backward_find_sessions(found)]
    return results


@pytest.mark.slow
@pytest.mark.parametrize(
    ("window", "retention_ms"),
    [
        *((window, None) for window in (SLIDING, NONE)),
        *((window, 20) for window in (TUMBLING, SESSION)),
        *(
            case
            for window, retention_ms in ((TUMBLING, None), (SESSION, None), (SLIDING, 20))
            for case in full(window, retention_ms)
        ),
    ],
    ids=str,
)
def test_each_version_reads_as_its_index_did(
    tmp_path: Path, window: Any, retention_ms: int | None
) -> None:
    """Each version returns the same JSON bytes as the index that followed it."""
    chance = random.Random(f"{window.kind} {retention_ms}")
    then: list[list[Any]] = []
    with check_in_this_process():
        followed = Followed(tmp_path, retention_ms, window)
        for step in range(8):
            if step == 5:
                append(followed.table, [{**random_rows(chance, 1)[0], "revision": 3}])
            elif step == 6:
                rows = DeltaTable(followed.table.path).to_pyarrow_table().to_pylist()
                rewrite(followed.table, _in_ms(rows), None)
            else:
                followed.table.commit(_of_kind(random_rows(chance, 15), window))
            followed.catch_up()
            followed.tailer.close()
            reader = IndexReader(followed.directory)
            with reader.snapshot() as snapshot:
                then.append(every_result(snapshot))
            reader.close()
    versions = TableVersions(followed.table.path)
    for version, results in enumerate(then, 1):
        assert every_result(versions.open(version, ReadBudget())) == results, version


def _of_kind(rows: list[Row], window: Any) -> list[Row]:
    """Return one row per key for a store without windows, and all rows for others."""
    return list({row["key"]: row for row in rows}.values()) if window is NONE else rows


def _in_ms(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: int(v.timestamp() * 1000) if hasattr(v, "timestamp") else v for name, v in r.items()}
        for r in rows
    ]


def _spoil_all_but(table: StoreTable, kept: str) -> None:
    """Damage all other data files, so that reading another file fails."""
    for path in table.path.glob("*.parquet"):
        if path.name != kept:
            path.write_bytes(b"no Parquet")


def _file_of(table: StoreTable, version: int) -> str:
    (name,) = TableVersions(table.path)._log.read(version).added  # type: ignore[union-attr]
    return name


def test_only_files_that_can_have_the_windows_are_opened(tmp_path: Path) -> None:
    """A read only opens files whose keys and starts can include the windows."""
    table = StoreTable(tmp_path, make_definition())
    table.commit([{"key": "a", "start": 10}, {"key": "c", "start": 20}])
    table.commit([{"key": "x", "start": 10}, {"key": "z", "start": 20}])
    table.commit([{"key": "a", "start": 100}, {"key": "c", "start": 200}])
    store = opened(table)
    _spoil_all_but(table, _file_of(table, 1))
    assert len(store.fetch(WindowRange("a", 0, 99)).windows) == 1
    assert store.fetch_window("c", 20) is not None
    assert store.fetch(WindowRange("d", 0, 99)).windows == []
    with pytest.raises(CorruptLog, match="cannot be read as rows of the store"):
        store.fetch(WindowRange("a"))
    with pytest.raises(CorruptLog):
        store.latest("y")


def test_only_row_groups_that_can_have_the_key_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read of one key reads one of a hundred row groups."""
    table = StoreTable(tmp_path, make_definition())
    rows = table.arrow([{"key": f"k{i:03}", "start": i} for i in range(1000)])
    write_deltalake(table.path, rows, mode="append")
    pq.write_table(rows, table.path / _file_of(table, 1), row_group_size=10)
    read: list[Any] = []
    iter_batches = pq.ParquetFile.iter_batches

    def counted(file: Any, size: int, groups: Any, columns: Any) -> Any:
        read.append(groups)
        return iter_batches(file, size, groups, columns)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    store = opened(table)
    assert store.latest("k500") is not None
    assert store.fetch(WindowRange("k509x")).windows == []
    assert store.keys("k70", 99).keys == [f"k70{i}" for i in range(10)]
    assert read == [[50], [], [70], [70], [70]]


@pytest.mark.parametrize("kind", ["string_view", "large_string"])
def test_files_of_other_writers_are_read_and_skipped_alike(tmp_path: Path, kind: str) -> None:
    """Files with other Arrow string types are read, as rewrites by delta-rs have them."""
    table = StoreTable(tmp_path, make_definition())
    table.commit([{"key": "a", "start": 1}, {"key": "b", "start": 2}])
    path = table.path / _file_of(table, 1)
    rows = pq.read_table(path)
    types = {name: getattr(pa, kind)() for name in ("key", "last")}
    fields = [field.with_type(types.get(field.name, field.type)) for field in rows.schema]
    pq.write_table(rows.cast(pa.schema(fields)), path, row_group_size=1)
    store = opened(table)
    assert store.keys("", 9).keys == ["a", "b"]
    assert store.latest("b") is not None
    assert store.fetch_window("a", 2) is None


def test_a_version_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several opens of a version read the log once, until its entry changes."""
    table = StoreTable(tmp_path, make_definition())
    table.commit([{"key": "a", "start": 10}])
    versions = TableVersions(table.path)
    read: list[int | None] = []
    snapshot = type(versions._log).snapshot

    def counted(log: Any, version: int | None = None) -> Any:
        read.append(version)
        return snapshot(log, version)

    monkeypatch.setattr(type(versions._log), "snapshot", counted)
    for _ in range(3):
        assert versions.open(1, ReadBudget()).state.version == 1
    assert read == [1]
    table.entry(1).write_bytes(table.entry(1).read_bytes() + b"\n")
    assert versions.open(1, ReadBudget()).state.version == 1
    assert read == [1, 1]


def test_a_read_holds_no_more_than_it_may(tmp_path: Path) -> None:
    """A read that exceeds the byte budget raises an error with a solution."""
    table = StoreTable(tmp_path, make_definition())
    table.commit([{"key": "a", "start": s, "last": "x" * 1000} for s in range(2000)])
    store = TableVersions(table.path).open(1, ReadBudget(bytes_max=1 << 20))
    assert isinstance(store, TableWindowStore)
    assert len(store.fetch(WindowRange("a", 0, 99)).windows) == 100
    with pytest.raises(TableReadTooLarge, match=r"more than 1 MiB of rows\. Narrow"):
        store.fetch(WindowRange("a"))


def test_a_read_ends_with_its_time(tmp_path: Path) -> None:
    """A read that exceeds the time budget ends between two pieces."""
    table = StoreTable(tmp_path, make_definition())
    table.commit([{"key": "a", "start": 1}])
    store = TableVersions(table.path).open(1, ReadBudget(-1.0))
    assert isinstance(store, TableStore)
    with pytest.raises(TableReadTimeout, match="Narrow the bounds"):
        store.keys("", 1)


def test_a_store_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    """A missing table, an unknown or deleted version and a gap in the log raise their errors."""
    with pytest.raises(StoreNotReady, match="has no entry yet"):
        TableVersions(tmp_path / "none").newest()
    table = StoreTable(tmp_path, make_definition())
    for batch in range(4):
        table.commit([{"key": "a", "start": batch}])
    versions = TableVersions(table.path)
    with pytest.raises(VersionNotFound, match=r"no version 5 yet\. It is at version 4"):
        versions.open(5, ReadBudget())
    compact(table)
    with pytest.raises(VersionGone, match="Request a version from 5 to 5"):
        versions.open(1, ReadBudget())
    assert len(opened(table).fetch(WindowRange("a")).windows) == 4
    for path in table.log.glob("*checkpoint*"):
        path.unlink()
    with pytest.raises(CorruptLog, match="Restore the table"):
        versions.open(5, ReadBudget())


def test_a_torn_newest_entry_is_not_there_yet(tmp_path: Path) -> None:
    """If the newest entry is torn, the version before it is the newest."""
    table = StoreTable(tmp_path, make_definition())
    table.commit([{"key": "a", "start": 1}])
    table.entry(2).write_bytes(b'{"commitInfo":{"time')
    versions = TableVersions(table.path)
    assert versions.newest() == 1
    assert len(opened(table).fetch(WindowRange("a")).windows) == 1
    with pytest.raises(VersionNotFound):
        versions.open(2, ReadBudget())


def test_keys_of_removed_and_expired_windows_are_passed_over(tmp_path: Path) -> None:
    """Keys without a visible window are skipped, however many precede the next visible one."""
    table = StoreTable(tmp_path, make_definition(retention_ms=10))
    table.commit([{"key": f"k{i:02}", "start": 1 if i % 10 else 99} for i in range(50)])
    table.commit([{"key": "k10", "start": 99, "deleted": True}])
    store = opened(table)
    assert store.keys("", 2) == (["k00", "k20"], "k20")
    assert store.keys("", 9, "k20") == (["k30", "k40"], None)
    assert store.keys("k1", 9) == ([], None)


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("\ud7ff", ["\ud7ffa"]),
        ("\U0010ffff", ["\U0010ffff", "\U0010ffffz"]),
        ("a\U0010ffff", ["a\U0010ffffb"]),
        ("a", ["a\U0010ffffb"]),
        ("\x00", ["\x00"]),
    ],
)
def test_prefixes_at_the_ends_of_the_code_points(
    tmp_path: Path, prefix: str, expected: list[str]
) -> None:
    """A prefix at a limit of the code points finds exactly its keys."""
    table = StoreTable(tmp_path, make_definition())
    keys = ["\ud7ffa", "\U0010ffff", "\U0010ffffz", "a\U0010ffffb", "b", "\x00", "\ue000"]
    table.commit([{"key": key, "start": 1} for key in keys])
    assert opened(table).keys(prefix, 10).keys == expected


def test_times_beyond_every_row(tmp_path: Path) -> None:
    """Bounds that do not fit into microseconds include or exclude the correct windows."""
    table = StoreTable(tmp_path, make_definition(window=SESSION))
    table.commit([{"key": "a", "start": 1, "end": 2}])
    store = opened(table)
    assert isinstance(store, TableSessionStore)
    assert len(store.fetch(WindowRange("a", -(2**63), 2**63 - 1)).windows) == 1
    assert store.fetch(WindowRange("a", 2**62, 2**63 - 1)).windows == []
    assert store.find_sessions(SessionRange("a", 2**63 - 1)).windows == []
    assert store.find_sessions(SessionRange("a", 0, -(2**63))).windows == []
    assert store.fetch_session("a", -(2**63), 2**63 - 1) is None


def test_rows_without_a_revision_are_refused(tmp_path: Path) -> None:
    """Rows without a revision are rejected, because it is undefined which row counts."""
    table = StoreTable(tmp_path, make_definition())
    table.commit([{"key": "a", "start": 1}])
    path = table.path / _file_of(table, 1)
    rows = pq.read_table(path)
    at = rows.column_names.index("revision")
    field = rows.schema.field(at).with_nullable(nullable=True)
    pq.write_table(rows.set_column(at, field, pa.nulls(1, pa.int64())), path)
    with pytest.raises(CorruptLog, match="must have a value in the column revision"):
        opened(table).latest("a")


def test_rows_that_a_deletion_vector_leaves_out_are_not_read(tmp_path: Path) -> None:
    """Rows that a deletion vector removes are not read."""
    table = StoreTable(tmp_path, make_definition())
    table.commit([{"key": "a", "start": 1}, {"key": "a", "start": 2}])
    table.commit([{"key": "a", "start": 3}])
    store = opened(table)
    snapshot = replace(
        TableVersions(table.path)._log.snapshot(),
        kept={_file_of(table, 1): np.array([True, False])},
    )
    masked = table_store(version_rows(table.path, snapshot, store.state), ReadBudget())
    assert isinstance(masked, TableWindowStore)
    assert len(masked.fetch(WindowRange("a")).windows) == 2
    assert masked.fetch_window("a", 2) is None
    assert masked.keys("", 9).keys == ["a"]


def test_a_version_whose_position_was_cleaned_up_is_unavailable(tmp_path: Path) -> None:
    """A version without a position raises VersionGone, because its stream time is unknown."""
    table = StoreTable(tmp_path, make_definition(retention_ms=10))
    table.commit([{"key": "a", "start": 1}])
    table.commit([{"key": "a", "start": 2}])
    append(table, [{"key": "a", "start": 3, "revision": 9}])
    DeltaTable(table.path).create_checkpoint()
    assert opened(table).state.record is not None
    for version in (1, 2):
        table.entry(version).unlink()
    with pytest.raises(VersionGone, match="no longer has the position of version 3"):
        opened(table)
