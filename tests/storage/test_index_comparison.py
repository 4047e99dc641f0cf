"""Tests of the daily comparison of an index with its table."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from oriel.storage import Shard, StoreNotReady, WindowSpec
from oriel.storage.delta import DeltaLog
from oriel.storage.index import (
    IndexRows,
    IndexWriter,
    comparison,
    damage,
    index_differences,
    raise_findings,
    start_comparison,
)
from oriel.storage.index.lengths import length_keys
from oriel.storage.key_codec import record_key
from oriel.storage.shards import ALL_KEYS
from oriel.storage.tailer.scrub import COMPARE_SECONDS, EVERY_SECONDS, Scrub
from oriel.storage.tailer.store import StoreTailer
from tests.storage.followed import Followed
from tests.storage.store_tables import NONE, SESSION, SLIDING, TUMBLING, Row
from tests.storage.test_index_full_disk import small_disk
from tests.storage.test_index_scrub import Scrubbed, scrubbed
from tests.storage.waiting import process_runs, wait_for

__all__ = ["scrubbed", "small_disk"]

_KEY, _START = "key 7", 7


def _record_key(store: Followed) -> bytes:
    end = _START + store.definition.window.size_ms
    return record_key(_KEY, _START, end, store.definition.keys)


def _apply(store: Followed, key: bytes, value: bytes, *, deleted: bool = False) -> None:
    """Write one record with valid checksums, as a tailer with a defect would."""
    store.tailer.close()
    writer = IndexWriter(store.generation())
    state = writer.state()
    rows = IndexRows([key], [value], np.array([deleted]), np.zeros(1, np.int64), state.extent)
    writer.apply([rows], state)
    writer.close()


def _change(store: Followed) -> None:
    _apply(store, _record_key(store), b'{"key":"key 7","n":2}')


def _remove(store: Followed) -> None:
    _apply(store, _record_key(store), b"", deleted=True)


def _add(store: Followed) -> None:
    _apply(store, record_key(_KEY, 9_000, 9_010, store.definition.keys), b'{"key":"key 7"}')


_DEFECTS = [
    (_change, "0 rows are missing, 0 are surplus, 1 are different", "window 7 to 17"),
    (_remove, "1 rows are missing, 0 are surplus, 0 are different", "window 7 to 17"),
    (_add, "0 rows are missing, 1 are surplus, 0 are different", "window 9000 to 9010"),
]


def _differences(store: Followed, shard: Shard = ALL_KEYS) -> list[str]:
    store.tailer.close()
    return list(index_differences(store.generation(), store.table.path, shard))


def _compare(scrubbed: Scrubbed) -> None:
    """Start a comparison and wait until it ends."""
    scrubbed.wall_seconds += COMPARE_SECONDS
    scrubbed.seconds += EVERY_SECONDS
    assert scrubbed.is_looking()
    assert scrubbed.scrub._look is not None
    assert scrubbed.scrub._look.is_comparison
    wait_for(False, scrubbed.is_looking, "the end of the comparison")


@pytest.mark.slow
@pytest.mark.parametrize(("defect", "counts", "window"), _DEFECTS)
def test_a_sound_index_with_a_wrong_row_is_rebuilt(
    scrubbed: Scrubbed,
    caplog: pytest.LogCaptureFixture,
    defect: Callable[[Followed], None],
    counts: str,
    window: str,
) -> None:
    """The index is withdrawn and rebuilt, and one log line has the counts and an example."""
    defect(scrubbed)
    scrubbed.catch_up()
    generation = scrubbed.generation()
    scrubbed.look()
    assert damage(generation) is None
    _compare(scrubbed)
    (line,) = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert f"version 1 of the table: {counts}, for example key 'key 7', {window}." in line
    assert damage(generation) is not None
    scrubbed.catch_up()
    assert scrubbed.generation() != generation
    assert scrubbed.tailer.status.damaged == 1
    assert _differences(scrubbed) == []


@pytest.mark.slow
def test_an_intact_index_stays_while_batches_are_committed(scrubbed: Scrubbed) -> None:
    """An index is compared with the table version that it had, although new versions follow."""
    generation = scrubbed.generation()
    compared = start_comparison(generation, scrubbed.table.path, ALL_KEYS)
    batches = 0
    while compared.poll() is None:
        scrubbed.table.commit([{"key": "b", "start": n} for n in range(50)])
        scrubbed.catch_up()
        batches += 1
    raise_findings(generation, compared.returncode, *compared.communicate(), is_comparison=True)
    assert batches > 1


@pytest.mark.slow
def test_comparisons_are_a_day_apart(scrubbed: Scrubbed) -> None:
    """Comparisons are a day apart, also after a restart, and the first one is within a day."""
    compared_at = scrubbed.directory.compared_at()
    assert compared_at is not None
    assert -COMPARE_SECONDS <= compared_at <= 0
    _compare(scrubbed)
    assert scrubbed.directory.compared_at() == scrubbed.wall_seconds
    scrubbed.wall_seconds += COMPARE_SECONDS - 1
    scrubbed.scrub = Scrub(lambda: scrubbed.seconds, lambda: scrubbed.wall_seconds)
    assert not scrubbed.is_looking()
    scrubbed.wall_seconds += 1
    assert scrubbed.is_looking()


@pytest.mark.slow
def test_comparisons_and_looks_take_turns(scrubbed: Scrubbed) -> None:
    """A due comparison does not delay the next verification."""
    _compare(scrubbed)
    scrubbed.wall_seconds += COMPARE_SECONDS
    scrubbed.seconds += EVERY_SECONDS
    assert scrubbed.is_looking()
    assert scrubbed.scrub._look is not None
    assert not scrubbed.scrub._look.is_comparison


@pytest.mark.slow
def test_a_comparison_that_fails_is_repeated(
    scrubbed: Scrubbed, caplog: pytest.LogCaptureFixture
) -> None:
    """A comparison that lacks a file is repeated an hour later, and the index stays in use."""
    (data_file,) = scrubbed.table.path.glob("*.parquet")
    data_file.rename(data_file.with_suffix(".away"))
    generation = scrubbed.generation()
    _compare(scrubbed)
    (line,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert "cannot be compared with its table" in line
    assert f"{data_file}: the data file is missing" in line
    assert scrubbed.generation() == generation
    assert damage(generation) is None
    data_file.with_suffix(".away").rename(data_file)
    scrubbed.look()
    scrubbed.wall_seconds += 3_600
    scrubbed.seconds += EVERY_SECONDS
    assert scrubbed.is_looking()
    assert scrubbed.scrub._look is not None
    assert scrubbed.scrub._look.is_comparison


@pytest.mark.slow
def test_a_full_disk_is_no_reason_to_skip_it(small_disk: Path) -> None:
    """A comparison works on a full disk, because it writes no file."""
    store = Scrubbed(small_disk)
    _remove(store)
    files = sorted(small_disk.rglob("*"))
    with suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    compared = start_comparison(store.generation(), store.table.path, ALL_KEYS)
    output, _ = compared.communicate()
    assert "1 rows are missing" in output
    (small_disk / "filler").unlink()
    assert sorted(small_disk.rglob("*")) == files


_COMPARING = """
import sys
from pathlib import Path
from oriel.storage.index import start_comparison
from oriel.storage.shards import ALL_KEYS
compared = start_comparison(Path(sys.argv[1]), Path(sys.argv[2]), ALL_KEYS)
print(compared.pid, flush=True)
compared.wait()
"""


@pytest.mark.slow
def test_a_tailer_that_is_killed_leaves_no_comparison(scrubbed: Scrubbed) -> None:
    """If the tailer is killed, its comparison ends and leaves no file."""
    scrubbed.tailer.close()
    # A process that reads a FIFO without a writer blocks forever.
    entry = scrubbed.table.entry(1)
    entry.unlink()
    os.mkfifo(entry)
    files = sorted(scrubbed.data.rglob("*"))
    arguments = map(str, (scrubbed.generation(), scrubbed.table.path))
    command = [sys.executable, "-c", _COMPARING, *arguments]
    tailer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert tailer.stdout is not None
    pid = int(tailer.stdout.readline())
    try:
        wait_for(19, lambda: os.getpriority(os.PRIO_PROCESS, pid), "the priority")
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"
        tailer.send_signal(signal.SIGKILL)
        tailer.communicate()
        wait_for(False, lambda: process_runs(pid), "whether the comparison runs")
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert sorted(scrubbed.data.rglob("*")) == files


def test_a_crash_of_a_comparison_is_no_finding(tmp_path: Path) -> None:
    """A crashed comparison does not mark the index, because the table can be the cause."""
    with pytest.raises(StoreNotReady, match="cannot be compared with its table"):
        raise_findings(tmp_path / "generation", -signal.SIGSEGV, "", "", is_comparison=True)


@pytest.fixture(params=[SLIDING, TUMBLING, SESSION, NONE], ids=lambda one: str(one.kind))
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Followed]:
    """Return a store of each kind with an index that has followed removed and expired rows."""
    window: WindowSpec = request.param
    store = Followed(tmp_path, retention_ms=50, window=window)
    rows: list[Row] = [{"key": f"k{n % 3}", "start": n, "end": n + 10} for n in range(40)]
    store.table.commit(rows)
    store.catch_up()
    store.table.commit([{**row, "deleted": n % 2 == 0, "n": 7} for n, row in enumerate(rows)])
    store.table.commit([{"key": "k1", "start": 75, "end": 85}, {"key": "ü" * 400, "start": 70}])
    store.catch_up()
    yield store
    store.tailer.close()


def test_an_index_of_each_kind_equals_its_table(kind: Followed) -> None:
    """An index equals its table with and without expired records, and after an empty batch."""
    assert _differences(kind) == []
    kind.catch_up()
    kind.table.commit()
    kind.catch_up()
    assert _differences(kind) == []


@pytest.mark.parametrize("size", [1, 3, 30])
def test_many_rows_are_compared_part_by_part(
    kind: Followed, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Each difference is counted once, however small the parts are."""
    monkeypatch.setattr(comparison, "_PART_WINDOWS", size)
    assert _differences(kind) == []
    for number in range(3):
        key = record_key(f"new {number}", 80, 90, kind.definition.keys)
        if not kind.definition.window.is_windowed:
            key = record_key(f"new {number}", 0, 0, kind.definition.keys)
        _apply(kind, key, b"{}")
    (problem,) = _differences(kind)
    assert "0 rows are missing, 3 are surplus, 0 are different, for example key 'new " in problem


def test_windows_of_one_revision_are_accepted(tmp_path: Path) -> None:
    """Rows of other programs with equal revisions do not count as differences."""
    store = Followed(tmp_path)
    for row in ({"n": 1}, {"n": 2}, {"deleted": True}):
        store.table.commit([{"key": "a", "start": 5, "revision": 0, **row}])
    store.catch_up()
    assert _differences(store) == []
    store.tailer.close()


def test_an_index_of_a_shard_is_compared_with_its_keys(tmp_path: Path) -> None:
    """The index of a shard is compared with the keys of the shard only."""
    store = Followed(tmp_path)
    store.table.commit([{"key": f"k{n}", "start": n} for n in range(50)])
    shard = Shard(2, 3)
    store.tailer = StoreTailer(DeltaLog(store.table.path), store.directory, shard)
    store.catch_up()
    assert _differences(store, shard) == []
    (problem,) = _differences(store, Shard(1, 3))
    assert " rows are missing" in problem


def test_a_session_that_only_its_own_search_misses_is_found(tmp_path: Path) -> None:
    """A session that is only missing in the order of lengths is found."""
    store = Followed(tmp_path, window=SESSION)
    store.table.commit([{"key": "a", "start": n, "end": n + 5} for n in range(3)])
    store.catch_up()
    store.tailer.close()
    writer = IndexWriter(store.generation())
    with writer._opened.env.begin(write=True) as txn:
        (key,) = length_keys([record_key("a", 1, 6, store.definition.keys)])
        assert txn.delete(key, db=writer._opened.lengths)
    writer.close()
    assert _differences(store) == ["the sessions by length of the index are not its sessions"]


def test_an_index_of_another_position_is_found(tmp_path: Path) -> None:
    """A wrong position is found, although the rows are equal."""
    store = Followed(tmp_path)
    store.table.commit([{"key": "a", "start": 5}])
    store.table.commit()
    store.catch_up()
    store.tailer.close()
    writer = IndexWriter(store.generation())
    state = writer.state()
    (before,) = [DeltaLog(store.table.path).snapshot(1).record]
    writer.apply([], type(state)(**{**vars(state), "record": before}))
    writer.close()
    (problem,) = _differences(store)
    assert problem.startswith("the position of the index is ")


def test_an_index_of_a_table_that_was_replaced_is_not_compared(tmp_path: Path) -> None:
    """The comparison rejects a replaced table, which the tailer detects itself."""
    store, other = Followed(tmp_path / "one"), Followed(tmp_path / "other")
    for one in (store, other):
        one.table.commit([{"key": "a", "start": 5}])
    store.catch_up()
    store.tailer.close()
    with pytest.raises(StoreNotReady, match="was replaced after version"):
        list(index_differences(store.generation(), other.table.path, ALL_KEYS))
