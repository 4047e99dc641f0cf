"""One store's tailer: every table version arrives once, and every mishap ends in the same index.

After each step the index is compared with what a plain dict of the table's rows says.
"""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from oriel.storage import StoreNotReady
from oriel.storage.delta import DeltaLog
from oriel.storage.errors import CorruptLog
from oriel.storage.index import IndexFolder, mark_suspect
from oriel.storage.index.folder import mark_damaged
from oriel.storage.tailer.store import StoreTailer
from tests.storage.followed import Followed, check_in_this_process
from tests.storage.store_tables import Row, StoreTable, make_definition, make_record

A1: Row = {"key": "a", "start": 1}
A2: Row = {"key": "a", "start": 2}
B1: Row = {"key": "b", "start": 1}


def test_versions_are_applied_one_after_the_other(followed: Followed) -> None:
    """Rows and position of each batch arrive; the same window is replaced."""
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
    """A restart goes on where the index is."""
    followed.table.commit([A1])
    followed.catch_up()
    generation = followed.generation()
    followed.tailer.close()
    followed.table.commit([A2])
    followed.tailer = StoreTailer(DeltaLog(followed.table.path), followed.folder)
    followed.catch_up()
    assert followed.generation() == generation
    followed.assert_content(2, A1, A2)


def test_deleted_rows_leave_the_index(followed: Followed) -> None:
    """`deleted` removes the window, in a later batch and when building."""
    followed.table.commit([A1, A2])
    followed.catch_up()
    followed.table.commit([{**A1, "deleted": True}, B1])
    followed.catch_up()
    followed.assert_content(2, A2, B1)
    followed.folder.remove()
    followed.catch_up()
    followed.assert_content(2, A2, B1)


def test_the_highest_revision_wins_within_one_batch_and_when_building(followed: Followed) -> None:
    """Whatever the order of rows and files."""
    newer, older = {**A1, "n": 2, "revision": 9}, {**A1, "n": 1, "revision": 3}
    followed.catch_up()
    followed.table.commit([newer, older])
    followed.catch_up()
    followed.assert_content(1, newer)
    followed.table.commit([{**A2, "revision": 5}], make_record(1))
    followed.table.commit([{**A2, "n": 8, "revision": 4}], make_record(2))
    followed.folder.remove()
    followed.catch_up()
    followed.assert_content(3, newer, A2)


def test_compaction_changes_nothing_but_the_version(followed: Followed) -> None:
    """Position and windows stay, also when the old files are gone and the index is rebuilt."""
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
    followed.folder.remove()
    followed.catch_up()
    version = DeltaTable(followed.table.path).version()
    assert followed.assert_content(version, {**A1, "n": 5}, B1).record == make_record(1)


@pytest.mark.parametrize("content", [b"", b'{"commitInfo":{"timestamp":1,"oper'])
def test_a_torn_newest_entry_is_waited_for(followed: Followed, content: bytes) -> None:
    """The last good version is served; the entry counts once it is whole."""
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
    """After a power loss the log may lack what the index has: the log is right."""
    followed.table.commit([A1])
    followed.table.commit([A2])
    followed.catch_up()
    followed.table.entry(2).write_bytes(b"")
    followed.catch_up()
    followed.assert_content(1, A1)


def test_an_applied_entry_that_was_replaced_is_read_again(followed: Followed) -> None:
    """The writer set the torn entry aside and committed the batch again under its version."""
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
    """Another table id, versions from 0 again; noticed while following and at the start."""
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
    """The version alone can't tell: the new table has gone past it already."""
    followed.table.commit([A1])
    followed.catch_up()
    shutil.rmtree(followed.table.path)
    followed.table = StoreTable(followed.data, followed.definition)
    for start in range(4):
        followed.table.commit([{"key": "new", "start": start}])
    followed.catch_up()
    followed.assert_content(4, *({"key": "new", "start": start} for start in range(4)))


def test_a_gap_in_the_log_is_bridged_by_a_checkpoint(followed: Followed) -> None:
    """Entries cleaned up before they were read: the whole version is read instead."""
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
    """Nothing can be read beyond it; readers keep what there is."""
    followed.table.commit([A1])
    followed.catch_up()
    followed.table.commit([A2])
    followed.table.commit([B1])
    followed.table.entry(2).unlink()
    with pytest.raises(CorruptLog):
        followed.catch_up()
    followed.assert_content(1, A1)


def test_rows_of_others_make_it_build_anew(followed: Followed) -> None:
    """An append without our record, or a delete: the revisions decide."""
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


def test_a_batch_that_goes_backwards_makes_it_build_anew(followed: Followed) -> None:
    """Then the order of commits is not the order of revisions."""
    followed.table.commit([{**A1, "n": 1, "revision": 7}], make_record(7))
    followed.catch_up()
    followed.table.commit([{**A1, "n": 2, "revision": 3}], make_record(3))
    followed.catch_up()
    followed.assert_content(2, {**A1, "n": 1})


def test_a_changed_definition_makes_it_build_anew(followed: Followed) -> None:
    """The new definition is served."""
    followed.table.commit([A1])
    followed.catch_up()
    changed = make_definition(retention_ms=50)
    DeltaTable(followed.table.path).alter.set_table_properties(
        {"oriel.store": changed.to_json()}, raise_if_not_exists=False
    )
    followed.catch_up()
    assert followed.assert_content(2, A1).definition == changed


def test_a_deleted_index_is_built_anew(followed: Followed) -> None:
    """While following, without a restart."""
    followed.table.commit([A1])
    followed.catch_up()
    shutil.rmtree(followed.folder.path)
    followed.catch_up()
    followed.assert_content(1, A1)


@pytest.mark.slow
@pytest.mark.parametrize("mishap", ["cut off", "marked", "garbled", "garbled and suspect"])
def test_a_damaged_index_is_built_anew(followed: Followed, mishap: str) -> None:
    """While following, or when it is opened next."""
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
        followed.tailer = StoreTailer(DeltaLog(followed.table.path), followed.folder)
    else:
        content = data_file.read_bytes()
        data_file.write_bytes(content.replace(b'{"key"', b'?"key"'))
        mark_suspect(damaged, "worker 0 crashed")
    followed.catch_up()
    assert followed.generation() != damaged
    assert not damaged.exists()
    followed.assert_content(1, A1, B1)


@pytest.mark.slow
def test_a_suspect_index_that_is_intact_stays(followed: Followed) -> None:
    """Suspicion costs a check, no rebuild."""
    followed.table.commit([A1])
    followed.catch_up()
    generation = followed.generation()
    mark_suspect(generation, "worker 0 crashed")
    followed.catch_up()
    assert followed.generation() == generation
    assert not (generation / "SUSPECT").exists()


def test_what_a_dead_tailer_left_unfinished_is_removed(followed: Followed) -> None:
    """A generation that was never published takes no space for long."""
    followed.table.commit([A1])
    followed.catch_up()
    followed.tailer.close()
    unfinished = followed.folder.new_generation()
    followed.tailer = StoreTailer(DeltaLog(followed.table.path), followed.folder)
    followed.catch_up()
    assert not unfinished.exists()
    followed.assert_content(1, A1)


def test_expired_windows_are_deleted_in_the_background(tmp_path: Path) -> None:
    """They are invisible at once, and gone after the next sweep; a rebuild leaves them out."""
    followed = Followed(tmp_path, retention_ms=100)
    followed.table.commit([{"key": key, "start": start} for key in "ab" for start in (0, 50)])
    followed.catch_up()
    followed.table.commit([{"key": "b", "start": 140}])
    followed.catch_up()
    visible: list[Row] = [{"key": k, "start": s} for k, s in [("a", 50), ("b", 50), ("b", 140)]]
    followed.assert_content(2, *visible)
    assert followed.records() == 3
    followed.folder.remove()
    followed.catch_up()
    followed.assert_content(2, *visible)
    assert followed.records() == 3
    followed.tailer.close()


def test_no_table_yet_is_not_ready(tmp_path: Path) -> None:
    """The step fails with a reason, and the next one may succeed."""
    tailer = StoreTailer(DeltaLog(tmp_path / "tables" / "store"), IndexFolder(tmp_path / "index"))
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
    """Followed, restarted, rebuilt or compacted in between: the index is the dict of last rows."""
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
        followed.folder.remove()
    elif event == "compact":
        DeltaTable(followed.table.path).optimize.compact()
    followed.catch_up()
