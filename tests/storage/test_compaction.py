"""Tests of compaction: after any rewrite, table and index return the rows of a dictionary."""

import itertools
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from oriel.storage import WindowSpec
from oriel.storage.delta import DeltaLog, Limits
from oriel.storage.delta.entries import create_entry
from oriel.storage.delta.maintenance import compaction
from oriel.storage.delta.maintenance.compaction import Run
from oriel.storage.index import IndexDirectory
from oriel.storage.tailer.store import StoreTailer
from tests.storage.compacted_table import CompactedTable
from tests.storage.followed import check_in_this_process
from tests.storage.store_tables import HOPPING, NONE, SESSION, SLIDING, Row

pytestmark = pytest.mark.slow

KINDS = {"sliding": SLIDING, "hopping": HOPPING, "session": SESSION, "none": NONE}


def nothing() -> None:
    """Do nothing: no condition stops the compaction."""


@st.composite
def batches(draw: st.DrawFn, window: WindowSpec) -> list[list[Row]]:
    """Draw batches of a few windows, with each window at most once per batch and some removals."""
    found = []
    for _ in range(draw(st.integers(1, 12))):
        rows: dict[Any, Row] = {}
        for _ in range(draw(st.integers(0, 5))):
            start = draw(st.integers(0, 12))
            row: dict[str, Any] = {
                "key": draw(st.sampled_from(["", "a", "ä", "b\0", "\U0001f600"])),
                "start": start, "n": draw(st.integers(0, 9)),
            }  # fmt: skip
            if window.kind.is_session:
                row["end"] = start + draw(st.integers(0, 6))
            if window.kind.is_session or not window.is_windowed:
                row["deleted"] = draw(st.booleans())
            rows[row["key"], window.is_windowed and start, row.get("end")] = row
        found.append(list(rows.values()))
    return found


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=max(3, settings().max_examples // 5))
def test_unknown_files_change_no_response(kind: str, data: st.DataObject, seed: int) -> None:
    """Rewriting random files between random batches does not change any row, adjacent or not."""
    chance = random.Random(seed)
    window = KINDS[kind]
    retention_ms = data.draw(st.sampled_from([None, 1, 4]))
    with tempfile.TemporaryDirectory() as directory:
        table = CompactedTable(Path(directory), window, retention_ms)
        says_clock, observed_ms = window.is_windowed and data.draw(st.booleans()), -1
        for rows in data.draw(batches(window)):
            half = len(rows) // 2
            if says_clock:
                # It can be later than all rows, if a batch created and removed a window.
                ends_ms = [row.get("end", row["start"]) for row in rows]
                observed_ms = max([observed_ms, *ends_ms]) + chance.randint(0, 1)
            table.commit(rows[:half], rows[half:], observed_ms=observed_ms)
            if chance.random() < 0.5:
                worker = table.compaction()
                files = [file for run in worker.runs() for file in run.files]
                chosen = chance.sample(files, chance.randint(0, len(files)))
                if chosen:
                    done = worker.merge([Run((file,)) for file in chosen], nothing)
                    assert done.version is not None
            if chance.random() < 0.3:
                table.compaction().drop_expired(nothing)
            assert table.by_delta() == table.expected()
        table.assert_unchanged()
        for file in table.live():
            assert (table.directory / file).exists()


@pytest.mark.parametrize("kind", ["sliding", "none"])
def test_what_is_merged_whole_has_only_visible_rows(tmp_path: Path, kind: str) -> None:
    """A table that is merged into one run has no superseded, removed or expired rows."""
    table = CompactedTable(tmp_path, KINDS[kind], None if kind == "none" else 5)
    for batch in range(20):
        table.commit([
            {"key": "a", "start": batch}, {"key": "b", "start": batch // 2},
            {"key": "gone", "start": batch // 2, "deleted": kind == "none"},
        ])  # fmt: skip
    worker = table.compaction()
    worker.merge(worker.runs(), nothing)
    assert worker.rows() == len(table.expected())
    table.assert_unchanged()


def test_a_removal_stays_while_an_older_row_may_be_elsewhere(tmp_path: Path) -> None:
    """A compaction keeps a removal while another file can have an older row of the window."""
    table = CompactedTable(tmp_path, NONE)
    table.commit([{"key": "m"}])
    table.commit([{"key": "m", "deleted": True}, {"key": "z"}])
    worker = table.compaction()
    _oldest, newest = worker.runs()
    worker.merge([newest], nothing)
    assert worker.rows() == 3
    table.assert_unchanged()
    worker.merge(worker.runs(), nothing)
    assert worker.rows() == 1
    table.assert_unchanged()


def test_an_expired_row_does_not_come_back_with_longer_retention(tmp_path: Path) -> None:
    """A compaction drops the newest row of a window with all its older rows, or not at all."""
    table = CompactedTable(tmp_path, SLIDING, 10)
    table.commit([{"key": "a", "start": 1, "n": 1}, {"key": "b", "start": 30}])
    table.commit([{"key": "a", "start": 1, "n": 2}])
    worker = table.compaction()
    assert worker.drop_expired(nothing) == 0
    worker.merge(worker.runs()[1:], nothing)
    rows = DeltaTable(table.directory).to_pyarrow_table().to_pylist()
    assert sorted(row["n"] for row in rows if row["key"] == "a") == [1, 2]


def test_the_greatest_time_stays_though_it_was_removed(tmp_path: Path) -> None:
    """An index that is built from the compacted table has the same stream time."""
    table = CompactedTable(tmp_path, SESSION, 10)
    table.commit([{"key": "a", "start": 1, "end": 5}, {"key": "b", "start": 30, "end": 40}])
    table.commit([{"key": "b", "start": 30, "end": 40, "deleted": True}])
    worker = table.compaction()
    worker.merge(worker.runs(), nothing)
    table.commit([{"key": "c", "start": 2, "end": 8}, {"key": "c", "start": 31, "end": 35}])
    worker = table.compaction()
    worker.merge(worker.runs(), nothing)
    assert [window["key"] for window in table.expected()] == ["c"]
    table.assert_unchanged()


@pytest.mark.parametrize("kind", ["sliding", "session"])
def test_what_only_a_wrong_clock_hides_stays_in_the_table(tmp_path: Path, kind: str) -> None:
    """Rows that a record of the year 9999 hides become visible when stream time is set back."""
    # The next window expires 50 s later, so a slow machine does not change the result.
    table = CompactedTable(tmp_path, KINDS[kind], 600_000)
    right_ms = time.time_ns() // 1_000_000
    far_ms = 253_402_300_799_000
    for batch in range(8):
        start_ms = right_ms - 850_000 + 100_000 * batch
        table.commit([{"key": "a", "start": start_ms}], observed_ms=start_ms + 10)
    before = table.expected()
    table.commit([{"key": "wrong", "start": far_ms}], observed_ms=far_ms)
    assert [window["key"] for window in table.expected()] == ["wrong"]
    worker = table.compaction()
    dropped = worker.drop_expired(nothing)
    worker.merge(worker.runs(), nothing)
    table.assert_unchanged()
    # Only the rows that the wall-clock time expires are dropped.
    assert 1 <= dropped <= 3
    table.commit([], observed_ms=right_ms)
    assert table.expected()[:-1] == before[-5:]
    table.assert_unchanged()


def test_rows_of_one_revision_are_decided_by_the_index(tmp_path: Path) -> None:
    """If other programs append equal revisions, a merge does not change which row counts."""
    table = CompactedTable(tmp_path, NONE)
    table.commit([{"key": "a", "n": 1}, {"key": "b", "n": 5, "deleted": True}])
    for rows in ([{"key": "a", "n": 3}], [{"key": "a", "n": 2}], [{"key": "a", "deleted": True}],
                 [{"key": "b", "n": 4}]):  # fmt: skip
        write_deltalake(table.directory, table.rows(rows), mode="append")
    before = table.by_index()
    assert [window["n"] for window in before] == [3, 4]
    worker = table.compaction()
    (run,) = worker.runs()
    for some in (run.files[1:3], run.files):
        live = [file for file in some if file.path in table.live()]
        worker.merge([Run(tuple(live))], nothing)
        assert table.by_index() == before


def test_files_that_expired_as_a_whole_go_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files in which every row has expired are found by their footers and removed in one commit."""
    table = CompactedTable(tmp_path, SLIDING, 10)
    for batch in range(30):
        table.commit([{"key": "a", "start": batch}])

    def fail(*_arguments: object, **_named: object) -> None:
        pytest.fail("rows were read")

    monkeypatch.setattr(compaction, "merged_pieces", fail)
    version = table.table.version
    assert table.compaction().drop_expired(nothing) == 20
    assert DeltaTable(table.directory).version() == version + 1
    assert len(table.live()) == 10
    table.assert_unchanged()


def test_files_are_bounded_and_each_row_is_written_few_times(tmp_path: Path) -> None:
    """The number of files and the total of written bytes stay within bounds over 300 batches."""
    table = CompactedTable(tmp_path, SLIDING)
    limits = Limits(small_files=8, small_size=1 << 12)
    maintenance = table.maintenance(limits)
    most = written = 0
    for batch in range(300):
        table.commit([{"key": f"k{batch % 7}", "start": 3 * batch + at} for at in range(3)])
        before = table.names()
        while maintenance.step({}):
            pass
        sizes = {path: (table.directory / path).stat().st_size for path in table.names()}
        written += sum(max(0, sizes[path] - 4096) for path in table.names() - before)
        most = max(most, maintenance.figures().files)
    figures = maintenance.figures()
    assert figures.rows == 900
    levels = limits.level(figures.size) + 1
    assert most <= 8 + 8 // 4 + 3 * levels
    # Bytes of rows only: once per level, and a few times while the files are small.
    assert written <= (levels + 8) * figures.size
    table.assert_unchanged()


def test_a_commit_of_others_on_the_same_files_wins(tmp_path: Path) -> None:
    """If two compactions merge the same files, the second one is abandoned."""
    table = CompactedTable(tmp_path, SLIDING)
    for batch in range(6):
        table.commit([{"key": "a", "start": batch}])
    first, second = table.compaction(), table.compaction()
    chosen = second.runs()
    assert first.merge(first.runs()[2:5], nothing).version is not None
    before = table.names()
    assert second.merge(chosen, nothing).version is None
    assert table.names() == before
    table.assert_unchanged()


def test_batches_in_between_are_no_conflict(tmp_path: Path) -> None:
    """A batch that is committed during a merge does not conflict, and its rows stay."""
    table = CompactedTable(tmp_path, SLIDING)
    for batch in range(6):
        table.commit([{"key": "a", "start": batch, "n": 1}])
    worker = table.compaction()
    committed: list[int] = []

    def between() -> None:
        committed.append(table.commit([{"key": "a", "start": 2, "n": 5}]))

    done = worker.merge(worker.runs(), nothing, between)
    assert done.version == committed[-1] + 1
    table.assert_unchanged()
    # The writer continues after the compaction's version.
    assert table.commit([{"key": "a", "start": 9}]) == done.version + 1
    table.assert_unchanged()


def test_rows_of_others_are_in_the_way(tmp_path: Path) -> None:
    """A merge that drops a removal is abandoned if another program appended rows meanwhile."""
    table = CompactedTable(tmp_path, NONE)
    table.commit([{"key": "m"}])
    table.commit([{"key": "m", "deleted": True}])
    foreign = table.rows([{"key": "m", "revision": 0}])

    def between() -> None:
        write_deltalake(table.directory, foreign, mode="append")

    table.commit([{"key": "z"}])
    worker = table.compaction()
    assert worker.merge(worker.runs(), nothing, between).version is None
    assert table.by_delta() == table.expected()


def test_rows_of_others_that_were_there_before_are_merged(tmp_path: Path) -> None:
    """Rows that another program appended before the compaction are merged."""
    table = CompactedTable(tmp_path, SLIDING)
    for batch in range(4):
        table.commit([{"key": "a", "start": batch}])
    foreign = table.rows([{"key": "b", "start": 1, "revision": 0}])
    write_deltalake(table.directory, foreign, mode="append")
    worker = table.compaction()
    before = len(table.by_delta())
    done = worker.merge(worker.runs(), nothing)
    assert done.version == DeltaTable(table.directory).version()
    assert len(table.by_delta()) == before


def test_a_commit_that_failed_after_its_entry_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If syncing fails after the entry was created, the new files belong to the table and stay."""
    table = CompactedTable(tmp_path, SLIDING)
    for batch in range(6):
        table.commit([{"key": "a", "start": batch % 3, "n": batch}])

    def unsynced(*arguments: Any, **named: Any) -> None:
        create_entry(*arguments, **named)
        raise OSError(5, "Input/output error")

    worker = table.compaction()
    with monkeypatch.context() as patched:
        patched.setattr("oriel.storage.delta.maintenance.compaction.create_entry", unsynced)
        with pytest.raises(OSError, match="Input/output"):
            worker.merge(worker.runs(), nothing)
    assert table.live()
    assert [name for name in table.live() if not name.startswith("compact-")] == []
    assert table.live() <= table.names()
    table.assert_unchanged()


class _KilledError(Exception):
    """Raised where the process is killed."""


@pytest.mark.parametrize("step", ["written", "refused", "committed"])
def test_an_end_at_any_step_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A kill at any step leaves at most unreferenced files, and the next compaction succeeds."""
    table = CompactedTable(tmp_path, SLIDING)
    for batch in range(6):
        table.commit([{"key": "a", "start": batch % 3, "n": batch}])

    def die(*_arguments: object, **_named: object) -> None:
        raise _KilledError

    with monkeypatch.context() as patched:
        # A process that is killed deletes nothing.
        patched.setattr(compaction.Compaction, "_delete", nothing_of)
        if step == "committed":

            def create(*arguments: Any, **named: Any) -> None:
                create_entry(*arguments, **named)
                die()

            patched.setattr("oriel.storage.delta.maintenance.compaction.create_entry", create)
        worker = table.compaction()
        with pytest.raises(_KilledError):
            worker.merge(
                worker.runs(), die if step == "refused" else nothing,
                die if step == "written" else nothing,
            )  # fmt: skip
    table.assert_unchanged()
    table.commit([{"key": "b", "start": 1}])
    worker = table.compaction()
    assert worker.merge(worker.runs(), nothing).version is not None
    table.assert_unchanged()


def nothing_of(*_arguments: object) -> None:
    """Ignore all arguments and do nothing."""


def test_compaction_while_a_thread_writes(tmp_path: Path) -> None:
    """While one thread commits and two threads compact, the table gets each batch exactly once."""
    table = CompactedTable(tmp_path, SLIDING)
    table.commit([{"key": "a", "start": 0}])
    done = threading.Event()
    errors: list[BaseException] = []

    def compact() -> None:
        maintenance = table.maintenance(Limits(small_files=2))
        try:
            while not done.is_set():
                maintenance.step({})
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=compact) for _ in range(2)]
    for thread in threads:
        thread.start()
    for batch in range(1, 60):
        table.commit([{"key": "a", "start": batch}, {"key": "b", "start": batch // 4, "n": batch}])
    done.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert table.table.recorded_batch(table.definition.application) == 59
    table.assert_unchanged()


def test_a_tailer_that_follows_has_nothing_to_do(tmp_path: Path) -> None:
    """A compaction advances the version of the index, which keeps its generation."""
    table = CompactedTable(tmp_path, SLIDING)
    directory = IndexDirectory(tmp_path / "index")
    with check_in_this_process():
        tailer = StoreTailer(DeltaLog(table.directory), directory)
        for batch in range(6):
            table.commit([{"key": "a", "start": batch % 3, "n": batch}])
        while tailer.step():
            pass
        generation = directory.current()
        worker = table.compaction()
        version = worker.merge(worker.runs(), nothing).version
        while tailer.step():
            pass
        assert (tailer.status.version, directory.current()) == (version, generation)
        tailer.close()


def test_a_big_file_of_one_key_is_divided_by_starts(tmp_path: Path) -> None:
    """A key with more rows than a piece is written as several files in order of the starts."""
    table = CompactedTable(tmp_path, SLIDING)
    for _ in range(2):
        table.commit([{"key": "hot", "start": start} for start in range(40)])
    limits = Limits(small_files=2, piece_rows=8, group_rows=4)
    for _ in range(2):
        worker = table.compaction(limits)
        worker.merge(worker.runs(), nothing)
    ranges = sorted(
        (row["min"]["window_start"], row["max"]["window_start"], row["num_records"])
        for row in _adds(table.directory)
    )
    assert len(ranges) >= 5
    assert [one for one in ranges if one[2] > 8] == []
    assert [pair for pair in itertools.pairwise(ranges) if pair[0][1] >= pair[1][0]] == []
    table.assert_unchanged()


def _adds(directory: Path) -> list[dict[str, Any]]:
    adds: list[dict[str, Any]] = pa.table(DeltaTable(directory).get_add_actions()).to_pylist()
    return adds


def test_what_a_compaction_wrote_is_small_and_named(tmp_path: Path) -> None:
    """The names of compacted files contain the least and the greatest batch of their rows."""
    table = CompactedTable(tmp_path, SLIDING)
    for batch in range(5):
        table.commit([{"key": key, "start": 5 - batch} for key in "ba"])
    worker = table.compaction()
    worker.merge(worker.runs()[:3], nothing)
    compacted = [name for name in table.live() if name.startswith("compact-")]
    assert compacted
    begin = "compact-000000000000-000000000002-"
    assert [name for name in compacted if not name.startswith(begin)] == []
    assert len(worker.runs()) == 3
