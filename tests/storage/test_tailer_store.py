"""Tests of one store's tailer: each version is applied once, and every failure recovers.

After each step, the index is compared with a plain dict of the table's rows.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from oriel.storage import StoreNotReady, index
from oriel.storage.delta import DeltaLog
from oriel.storage.errors import CorruptLog
from oriel.storage.index import IndexDirectory, request_verification
from oriel.storage.index.directory import mark_damaged
from oriel.storage.tailer import store
from oriel.storage.tailer.store import Following, Opening, Rebuilding, State, StoreTailer
from tests.storage.followed import Followed, check_health_next, check_in_this_process
from tests.storage.store_tables import Row, StoreTable, make_definition, make_record

A1: Row = {"key": "a", "start": 1}
A2: Row = {"key": "a", "start": 2}
B1: Row = {"key": "b", "start": 1}


def test_versions_are_applied_one_after_the_other(followed: Followed) -> None:
    """Rows and position of each batch are applied in order, and a window's row is replaced."""
    followed.catch_up()
    followed.table.commit([A1, B1])
    followed.catch_up()
    state = followed.assert_content(1, A1, B1)
    assert state.record == make_record(0)
    newer = {**A1, "n": 7, "final": True}
    followed.table.commit([newer, A2])
    followed.table.commit()
    followed.catch_up()
    state = followed.assert_content(3, newer, A2, B1)
    assert state.record == make_record(2)
    assert followed.tailer.status.version == 3
    assert followed.tailer.status.state == "following"


def test_an_index_is_opened_again_without_building_it(followed: Followed) -> None:
    """A restarted tailer continues with the existing index."""
    followed.table.commit([A1])
    followed.catch_up()
    generation = followed.generation()
    followed.tailer.close()
    followed.table.commit([A2])
    followed.tailer = StoreTailer(DeltaLog(followed.table.path), followed.directory)
    followed.catch_up()
    assert followed.generation() == generation
    followed.assert_content(2, A1, A2)


def test_each_step_returns_the_next_state(followed: Followed) -> None:
    """A tailer opens, rebuilds and follows, and opens again after `close` and after a failure."""
    tailer = followed.tailer

    def states(steps: int) -> list[type[State]]:
        return [type(tailer._state) for _ in range(steps) if tailer.step()]

    assert type(tailer._state) is Opening
    assert states(2) == [Rebuilding, Following]
    followed.catch_up()
    mark_damaged(followed.generation(), "a reader found a wrong checksum")
    check_health_next(tailer)
    assert states(2) == [Rebuilding, Following]
    tailer.close()
    assert type(tailer._state) is Opening
    assert states(1) == [Following]
    followed.table.commit([A1])
    for file in followed.table.path.glob("*.parquet"):
        file.unlink()
    assert tailer.advance() == 1.0
    assert (type(tailer._state), tailer.status.state) == (Opening, "failed")
    assert (tailer.waiting_since, tailer.poll()) == (None, True)


def test_the_version_of_a_build_is_in_the_status(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maintenance keeps the files of this version, and the entries that follow it."""
    followed.table.commit([A1])
    build, seen = index.build_generation, []

    def noting(*arguments: Any) -> Any:
        seen.append(followed.tailer.status)
        return build(*arguments)

    monkeypatch.setattr(store, "build_generation", noting)
    followed.catch_up()
    (status,) = seen
    assert (status.state, status.version, status.builds) == ("building", None, 1)
    assert (followed.tailer.status.version, followed.tailer.status.builds) == (1, None)


def test_deleted_rows_leave_the_index(followed: Followed) -> None:
    """`deleted` removes the window when the tailer follows a batch and in a rebuild."""
    followed.table.commit([A1, A2])
    followed.catch_up()
    followed.table.commit([{**A1, "deleted": True}, B1])
    followed.catch_up()
    followed.assert_content(2, A2, B1)
    followed.directory.remove()
    followed.catch_up()
    followed.assert_content(2, A2, B1)


def test_the_highest_revision_wins_within_one_batch_and_when_building(followed: Followed) -> None:
    """The row with the highest revision counts, in any order of rows and files."""
    newer, older = {**A1, "n": 2, "revision": 9}, {**A1, "n": 1, "revision": 3}
    followed.catch_up()
    followed.table.commit([newer, older])
    followed.catch_up()
    followed.assert_content(1, newer)
    followed.table.commit([{**A2, "revision": 5}], make_record(1))
    followed.table.commit([{**A2, "n": 8, "revision": 4}], make_record(2))
    followed.directory.remove()
    followed.catch_up()
    followed.assert_content(3, newer, A2)


def test_compaction_changes_nothing_but_the_version(followed: Followed) -> None:
    """A compaction only changes the version, also after a vacuum and a rebuild."""
    followed.table.commit([A1])
    followed.table.commit([{**A1, "n": 5}, B1])
    followed.catch_up()
    generation = followed.generation()
    DeltaTable(followed.table.path).optimize.compact()
    followed.catch_up()
    state = followed.assert_content(3, {**A1, "n": 5}, B1)
    assert state.record == make_record(1)
    assert followed.generation() == generation
    DeltaTable(followed.table.path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    followed.directory.remove()
    followed.catch_up()
    version = DeltaTable(followed.table.path).version()
    assert followed.assert_content(version, {**A1, "n": 5}, B1).record == make_record(1)


@pytest.mark.parametrize("content", [b"", b'{"commitInfo":{"timestamp":1,"oper'])
def test_a_torn_newest_entry_is_waited_for(followed: Followed, content: bytes) -> None:
    """A torn entry is ignored until it is complete, and the version before it is served."""
    followed.table.commit([A1])
    followed.catch_up()
    followed.table.commit([A2])
    whole = followed.table.entry(2).read_bytes()
    followed.table.entry(2).write_bytes(content)
    followed.catch_up()
    assert followed.tailer.status.problem is None
    followed.assert_content(1, A1)
    followed.table.entry(2).write_bytes(whole)
    followed.catch_up()
    followed.assert_content(2, A1, A2)


def test_an_applied_entry_that_turns_out_torn_is_taken_back(followed: Followed) -> None:
    """If an applied entry is torn after a power loss, the index follows the log back."""
    followed.table.commit([A1])
    followed.table.commit([A2])
    followed.catch_up()
    followed.table.entry(2).write_bytes(b"")
    followed.catch_up()
    followed.assert_content(1, A1)


def test_an_applied_entry_that_was_replaced_is_read_again(followed: Followed) -> None:
    """An applied entry that the writer replaced is read again."""
    followed.table.commit([A1])
    followed.table.commit([A2])
    followed.catch_up()
    followed.table.entry(2).rename(followed.table.entry(2).with_suffix(".json.torn"))
    followed.table.batch -= 1
    followed.table.commit([B1])
    followed.catch_up()
    followed.assert_content(2, A1, B1)


@pytest.mark.parametrize("restart", [False, True])
def test_a_replaced_table_replaces_the_index(followed: Followed, restart: bool) -> None:
    """A table with another id replaces the index, while following and after a restart."""
    followed.table.commit([A1])
    followed.table.commit([A2])
    followed.catch_up()
    if restart:
        followed.restart()
    shutil.rmtree(followed.table.path)
    followed.table = StoreTable(followed.data, followed.definition)
    followed.table.commit([B1])
    followed.catch_up()
    followed.assert_content(1, B1)


def test_a_longer_table_in_its_place_replaces_the_index_too(followed: Followed) -> None:
    """A replaced table with more versions than the old one also replaces the index."""
    followed.table.commit([A1])
    followed.catch_up()
    shutil.rmtree(followed.table.path)
    followed.table = StoreTable(followed.data, followed.definition)
    for start in range(4):
        followed.table.commit([{"key": "new", "start": start}])
    followed.catch_up()
    followed.assert_content(4, *({"key": "new", "start": start} for start in range(4)))


def test_a_gap_in_the_log_is_bridged_by_a_checkpoint(followed: Followed) -> None:
    """If unread entries were deleted after a checkpoint, the whole version is read."""
    followed.table.commit([A1])
    followed.catch_up()
    followed.table.commit([A2])
    followed.table.commit([B1])
    DeltaTable(followed.table.path).create_checkpoint()
    for version in range(3):
        followed.table.entry(version).unlink()
    followed.catch_up()
    followed.assert_content(3, A1, A2, B1)


def test_a_hole_in_the_log_fails_and_leaves_the_last_version(followed: Followed) -> None:
    """A gap in the log without a checkpoint raises CorruptLog, and the last version stays."""
    followed.table.commit([A1])
    followed.catch_up()
    followed.table.commit([A2])
    followed.table.commit([B1])
    followed.table.entry(2).unlink()
    with pytest.raises(CorruptLog):
        followed.catch_up()
    followed.assert_content(1, A1)


def test_rows_of_other_writers_cause_a_rebuild(followed: Followed) -> None:
    """After an append or a delete by another program, the index follows the revisions."""
    followed.table.commit([{**A1, "revision": 5}])
    followed.catch_up()
    write_deltalake(
        followed.table.path,
        followed.table.arrow([{**A1, "n": 99, "revision": 4}, {**B1, "revision": 0}]),
        mode="append",
    )
    followed.catch_up()
    followed.assert_content(2, A1, B1)
    DeltaTable(followed.table.path).delete("key = 'b'")
    followed.catch_up()
    assert followed.assert_content(3, A1).record == make_record(0)


def test_a_batch_that_goes_backwards_causes_a_rebuild(followed: Followed) -> None:
    """After a batch with a lower number, the index still follows the revisions."""
    followed.table.commit([{**A1, "n": 1, "revision": 7}], make_record(7))
    followed.catch_up()
    followed.table.commit([{**A1, "n": 2, "revision": 3}], make_record(3))
    followed.catch_up()
    followed.assert_content(2, {**A1, "n": 1})


def test_a_changed_definition_causes_a_rebuild(followed: Followed) -> None:
    """After a change of the definition, the index has the new definition."""
    followed.table.commit([A1])
    followed.catch_up()
    changed = make_definition(retention_ms=50)
    DeltaTable(followed.table.path).alter.set_table_properties(
        {"oriel.store": changed.to_json()}, raise_if_not_exists=False
    )
    followed.catch_up()
    assert followed.assert_content(2, A1).definition == changed


def test_a_deleted_index_is_rebuilt(followed: Followed) -> None:
    """A deleted index is rebuilt while the tailer follows, without a restart."""
    followed.table.commit([A1])
    followed.catch_up()
    shutil.rmtree(followed.directory.path)
    followed.catch_up()
    followed.assert_content(1, A1)


@pytest.mark.slow
@pytest.mark.parametrize("mishap", ["cut off", "marked", "garbled", "garbled and suspect"])
def test_a_damaged_index_is_rebuilt(followed: Followed, mishap: str) -> None:
    """A damaged index is rebuilt while the tailer follows, or when it is opened next."""
    followed.table.commit([A1, B1])
    followed.catch_up()
    damaged = followed.generation()
    data_file = damaged / "data.mdb"
    if mishap == "cut off":
        with data_file.open("r+b") as file:
            file.truncate(3 * 4096)
    elif mishap == "marked":
        mark_damaged(damaged, "a reader met a bad page")
    elif mishap == "garbled":
        followed.tailer.close()
        data_file.write_bytes(data_file.read_bytes()[:8192] + b"\x17" * 40_000)
        followed.tailer = StoreTailer(DeltaLog(followed.table.path), followed.directory)
    else:
        content = data_file.read_bytes()
        data_file.write_bytes(content.replace(b'{"key"', b'?"key"'))
        request_verification(damaged, "worker 0 crashed")
    followed.catch_up()
    assert followed.generation() != damaged
    assert not damaged.exists()
    followed.assert_content(1, A1, B1)


@pytest.mark.slow
def test_a_suspect_index_that_is_intact_stays(followed: Followed) -> None:
    """An intact index that is suspect is verified and not rebuilt."""
    followed.table.commit([A1])
    followed.catch_up()
    generation = followed.generation()
    request_verification(generation, "worker 0 crashed")
    followed.catch_up()
    assert followed.generation() == generation
    assert not (generation / "SUSPECT").exists()


def test_what_a_dead_tailer_left_unfinished_is_removed(followed: Followed) -> None:
    """A generation that a killed tailer did not publish is deleted."""
    followed.table.commit([A1])
    followed.catch_up()
    followed.tailer.close()
    unfinished = followed.directory.new_generation()
    followed.tailer = StoreTailer(DeltaLog(followed.table.path), followed.directory)
    followed.catch_up()
    assert not unfinished.exists()
    followed.assert_content(1, A1)


def test_expired_windows_are_deleted_in_the_background(tmp_path: Path) -> None:
    """Expired windows are invisible at once, and the next sweep deletes them."""
    followed = Followed(tmp_path, retention_ms=100)
    followed.table.commit([{"key": key, "start": start} for key in "ab" for start in (0, 50)])
    followed.catch_up()
    followed.table.commit([{"key": "b", "start": 140}])
    followed.catch_up()
    visible: list[Row] = [{"key": k, "start": s} for k, s in [("a", 50), ("b", 50), ("b", 140)]]
    followed.assert_content(2, *visible)
    assert followed.records() == 3
    followed.directory.remove()
    followed.catch_up()
    followed.assert_content(2, *visible)
    assert followed.records() == 3
    followed.tailer.close()


def test_no_table_yet_is_not_ready(tmp_path: Path) -> None:
    """Without a table, a step raises StoreNotReady."""
    tailer = StoreTailer(
        DeltaLog(tmp_path / "tables" / "store"), IndexDirectory(tmp_path / "index")
    )
    assert tailer.step()
    with pytest.raises(StoreNotReady):
        tailer.step()


_ROWS = st.builds(
    lambda key, start, n, deleted: {"key": key, "start": start, "n": n, "deleted": deleted},
    st.sampled_from(["a", "b", "", "a\x00"]), st.integers(0, 5), st.integers(0, 99), st.booleans(),
)  # fmt: skip
_BATCHES = st.lists(
    st.lists(_ROWS, max_size=6, unique_by=lambda row: (row["key"], row["start"])), max_size=5
)


@pytest.mark.slow
@given(_BATCHES, st.lists(st.sampled_from(["follow", "restart", "delete", "compact"]), max_size=5))
def test_any_history_ends_in_the_same_index(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Row]], events: list[str]
) -> None:
    """After any order of follow, restart, rebuild and compaction, the index has the last rows."""
    followed = Followed(tmp_path_factory.mktemp("history"))
    windows: dict[tuple[str, int], Row] = {}
    with check_in_this_process():
        for number, batch in enumerate(batches):
            followed.table.commit(batch)
            windows.update({(row["key"], row["start"]): row for row in batch})
            _happen(followed, events[number] if number < len(events) else "follow")
        followed.catch_up()
    version = DeltaTable(followed.table.path).version()
    followed.assert_content(version, *(row for row in windows.values() if not row["deleted"]))
    followed.tailer.close()


def _happen(followed: Followed, event: str) -> None:
    if event == "restart":
        followed.restart()
    elif event == "delete":
        followed.directory.remove()
    elif event == "compact":
        DeltaTable(followed.table.path).optimize.compact()
    followed.catch_up()
