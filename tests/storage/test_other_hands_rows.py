"""Tests of rows from other programs, and of position and stream time after them.

Changes by Spark are in ``test_other_hands_spark.py``, deleted files in
``test_other_hands_files.py``, and any sequences in ``test_other_hands_history.py``.
"""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.schema import Field, PrimitiveType

from oriel.storage import COMMIT_INFO_KEY
from oriel.storage.delta import open_table, write_file
from oriel.storage.errors import CorruptLog
from tests.storage.followed import Followed
from tests.storage.other_hands import append, expected, live_rows, rewrite
from tests.storage.store_tables import Row, make_record

A1: Row = {"key": "a", "start": 1}
A2: Row = {"key": "a", "start": 2}
B1: Row = {"key": "b", "start": 1}

#: The start of a window of the year 9999, in ms.
YEAR_9999_MS = 253_370_764_800_000


def test_rewrites_of_any_size_are_skipped_without_a_look_at_their_files(
    followed: Followed,
) -> None:
    """A tailer follows rewrites by any program without reading files or rebuilding."""
    followed.table.commit([A1])
    followed.table.commit([B1])
    followed.catch_up()
    before = followed.generations()
    # The first one repeats an old position, because a batch was committed before it.
    for record in (make_record(0), make_record(1), None):
        rewrite(followed.table, live_rows(followed.table), record)
    for file in followed.table.path.glob("*.parquet"):
        file.rename(file.with_suffix(".away"))
    followed.catch_up()
    assert followed.assert_content(5, A1, B1).record == make_record(1)
    assert followed.generations() == before
    for file in followed.table.path.glob("*.away"):
        file.rename(file.with_suffix(".parquet"))
    followed.directory.remove()
    followed.catch_up()
    assert followed.assert_content(5, A1, B1).record == make_record(1)


def test_rows_ahead_of_the_pipeline_count_until_it_comes_to_them(followed: Followed) -> None:
    """Foreign rows with later revisions count, without a rebuild, until a batch reaches them."""
    followed.table.commit([A1, A2, B1])
    followed.catch_up()
    before = followed.generations()
    append(followed.table, [
        {**A1, "n": 70, "revision": 2}, {**A2, "deleted": True, "revision": 2}
    ])  # fmt: skip
    contents = [[{**A1, "n": 70}, B1]]
    for n in (1, 2, 3):
        followed.table.commit([{**A1, "n": n}, {**A2, "n": n}])
    # Batch 1 is below revision 2. Batch 2 is equal: the greater JSON counts, and a window counts
    # before its removal.
    contents += [
        [{**A1, "n": 70}, B1],
        [{**A1, "n": 70}, {**A2, "n": 2}, B1],
        [{**A1, "n": 3}, {**A2, "n": 3}, B1],
    ]
    for version, content in enumerate(contents, start=2):
        assert followed.tailer.step()
        followed.assert_content(version, *content)
        followed.tailer.step()
    assert followed.generations() == before
    followed.directory.remove()
    followed.catch_up()
    followed.assert_content(5, *contents[-1])


def test_a_row_of_the_year_9999_that_others_append_hides_nothing(tmp_path: Path) -> None:
    """Foreign rows do not advance stream time, unless no commit record has one (old tables)."""
    far = {"key": "z", "start": YEAR_9999_MS, "revision": 0}
    for observed_ms, visible in ((7, 2), (-1, 1)):
        followed = Followed(tmp_path / str(observed_ms), retention_ms=100)
        followed.table.commit([A1], make_record(0, observed_ms=observed_ms))
        followed.catch_up()
        append(followed.table, [far])
        for _ in ("followed", "built"):
            followed.catch_up()
            _, windows = followed.content()
            assert len(windows) == visible
            followed.directory.remove()
        followed.tailer.close()


def test_a_clock_that_is_set_back_brings_windows_back(tmp_path: Path) -> None:
    """Setting stream time back shows hidden windows again, even those swept from the index."""
    followed = Followed(tmp_path, retention_ms=100)
    followed.table.commit([A1, {"key": "b", "start": 5000}], make_record(0, observed_ms=5000))
    followed.catch_up()
    followed.assert_content(1, {"key": "b", "start": 5000})
    assert followed.records() == 1
    followed.table.commit([], make_record(1, observed_ms=90))
    followed.catch_up()
    followed.assert_content(2, A1, {"key": "b", "start": 5000})
    followed.tailer.close()


def test_a_position_that_no_entry_says_any_more_is_unknown_until_the_next_batch(
    followed: Followed,
) -> None:
    """Without an entry that has the position, it is unknown until the next batch is applied."""
    for n in range(3):
        followed.table.commit([{**A1, "n": n}])
    rewrite(followed.table, live_rows(followed.table), None)
    DeltaTable(followed.table.path).create_checkpoint()
    for version in range(4):
        followed.table.entry(version).unlink()
    followed.catch_up()
    state = followed.assert_content(4, {**A1, "n": 2})
    assert (state.record, state.revisions.settled) == (None, 2)
    before = followed.generations()
    followed.table.commit([{**A1, "n": 9}])
    followed.catch_up()
    assert followed.assert_content(5, {**A1, "n": 9}).record == make_record(3)
    assert followed.generations() == before


def test_a_restored_version_has_the_position_of_then(followed: Followed) -> None:
    """A restored version has its own position, and the next batch follows it."""
    followed.table.commit([A1])
    followed.table.commit([{**A1, "n": 8}, B1])
    followed.catch_up()
    DeltaTable(followed.table.path).restore(1)
    followed.catch_up()
    assert followed.assert_content(3, A1).record == make_record(0)
    followed.directory.remove()
    followed.catch_up()
    assert followed.assert_content(3, A1).record == make_record(0)
    followed.table.commit([A2])
    followed.catch_up()
    assert followed.assert_content(4, A1, A2).record == make_record(2)


def test_a_column_that_is_added_is_no_concern_of_the_index(followed: Followed) -> None:
    """A tailer follows an added column, and reads foreign rows without it."""
    followed.table.commit([A1])
    followed.catch_up()
    before = followed.generations()
    followed.table.batch = 1
    delta = DeltaTable(followed.table.path)
    delta.alter.add_columns([Field("note", PrimitiveType("string"))])
    file = write_file(followed.table.path, followed.table.arrow([B1]), "part", sync=False)
    record = {COMMIT_INFO_KEY: make_record(1).to_json()}
    table = open_table(followed.table.path, followed.table.schema, {}, sync=False)
    table.commit([file], followed.definition.application, 1, record)
    noted = followed.table.arrow([{**A2, "revision": 50}])
    write_deltalake(
        followed.table.path, noted.append_column("note", pa.array(["x"])), mode="append"
    )
    followed.catch_up()
    followed.assert_content(4, A1, A2, B1)
    assert followed.generations() == before


def test_a_table_with_column_mapping_is_refused(followed: Followed) -> None:
    """A table with column mapping is rejected with a solution."""
    followed.table.commit([A1])
    followed.catch_up()
    DeltaTable(followed.table.path).alter.set_table_properties(
        {"delta.userNote": "x"}, raise_if_not_exists=False
    )
    entry = followed.table.entry(2)
    entry.write_bytes(
        entry.read_bytes().replace(b'"delta.userNote":"x"', b'"delta.columnMapping.mode":"name"')
    )
    with pytest.raises(CorruptLog, match=r"column mapping.*Set delta\.columnMapping\.mode"):
        followed.catch_up()
    followed.assert_content(1, A1)


def test_the_rule_of_the_model_is_the_rule(followed: Followed) -> None:
    """The reference implementation returns the expected rows of a fixed example."""
    followed.table.commit([{**A1, "n": 5}, {**B1, "deleted": True}])
    append(followed.table, [
        {**A1, "n": 6, "revision": 0}, {**A1, "n": 7, "revision": -1}, {**B1, "revision": 0},
    ])  # fmt: skip
    windows = expected(followed.table, live_rows(followed.table))
    assert [(w["key"], w["n"]) for w in windows] == [("a", 6), ("b", 1)]
