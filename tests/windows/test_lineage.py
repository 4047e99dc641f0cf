"""Lineages: their form, their encoding, and the order of their bytes."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from oriel import SessionWindows, TimeWindows
from oriel.pipeline.windows import LINEAGE, Lineage, are_retractions, extended_by, merged_lineage
from oriel.pipeline.windows.records import (
    arrival_keys,
    encoded,
    indexes,
    joined_lineages,
    update_keys,
    with_log,
)
from tests.windows.lineages import indexes_of, lineage

RECORD, ELEMENT = Lineage(), Lineage(1)
UPDATE = merged_lineage([RECORD, RECORD])
PAIR = RECORD.joined(RECORD, has_left=True)
OUTER = RECORD.joined(RECORD, has_left=False)


def rows_of(lineages: list[bytes | None]) -> pa.Table:
    """Rows of one source record with these lineages."""
    zero = np.zeros(len(lineages), dtype=np.int64)
    return pa.table({LINEAGE.name: pa.array(lineages, LINEAGE.type), "partition": zero,
        "offset": zero})  # fmt: skip


def test_a_plain_stream_has_no_lineage() -> None:
    """Batches and state of a plain stream do not have the lineage column."""
    assert (RECORD.fields, ELEMENT.fields) == ([], [LINEAGE])
    assert merged_lineage([RECORD]) == RECORD


def test_each_operation_appends_its_indexes() -> None:
    """The log is first, and only streams with several logs have it."""
    hopping = TimeWindows.of_size_with_no_grace(4).advance_by(2)
    assert RECORD.of_updates(TimeWindows.of_size_with_no_grace(4)) == RECORD
    assert RECORD.of_updates(hopping) == ELEMENT == RECORD.extended()
    assert ELEMENT.of_updates(SessionWindows.of_inactivity_gap_with_no_grace(5)) == Lineage(2)
    assert Lineage(1, logs=2) == UPDATE
    assert (Lineage(2), Lineage(3, logs=2)) == (PAIR, OUTER)
    assert ELEMENT.joined(ELEMENT, has_left=True) == Lineage(4)
    assert OUTER.joined(OUTER, has_left=False) == Lineage(1 + 2 + 2 + 3, logs=4)
    assert OUTER.joined(PAIR, has_left=True) == Lineage(1 + 2 + 2 + 2, logs=2)
    assert merged_lineage([ELEMENT, OUTER]) == Lineage(1 + 2, logs=3)


@pytest.mark.parametrize("width", [1, 4])
def test_lineages_of_2_gib_are_rejected(width: int) -> None:
    """Arrow has offsets of 32 bits, which would become negative. The message has a solution."""
    # All rows are one row in memory.
    rows = np.broadcast_to(np.zeros((1, width), dtype=np.int64), (2**28 // width, width))
    with pytest.raises(OverflowError, match=r"2147483648 bytes.*Set a smaller --max-batch-bytes"):
        encoded(rows)


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_bytes_is_the_order_of_indexes(seed: int) -> None:
    """For lineages of any length, in slices and chunks. A row without a lineage is first."""
    random = Random(seed)
    choices = (0, 1, 2, 255, 256, 2**48, 2**62)
    lengths = (random.choice((0, 1, 2, 3)) for _ in range(300))
    expected = [tuple(random.choice(choices) for _ in range(length)) for length in lengths]
    table = rows_of([lineage(*row) if row else None for row in expected])
    pieces = pa.concat_tables([table.slice(7, 11), table.slice(100)])
    for rows, wanted in ((table, expected), (pieces, expected[7:18] + expected[100:])):
        found = indexes(rows[LINEAGE.name], 3)
        assert found.tolist() == [[*row, 0, 0, 0][:3] for row in wanted]
        order = np.lexsort(arrival_keys(rows))
        padded = [(*row, 0, 0, 0)[:3] for row in wanted]
        assert [padded[row] for row in order] == sorted(padded)
        in_bytes = sorted(wanted, key=lambda row: lineage(*row))
        assert in_bytes == sorted(wanted)


def test_lineages_are_extended_at_the_end_and_begin_with_the_log() -> None:
    """A row without a lineage has the new index alone."""
    rows = rows_of([None, lineage(3), lineage(4, 5)])
    extended = extended_by(rows[LINEAGE.name], np.array([7, 8, 9]))
    assert [indexes_of(one) for one in extended.to_pylist()] == [(7,), (3, 8), (4, 5, 9)]
    assert extended_by(None, np.array([7])).to_pylist() == [lineage(7)]
    logs = with_log(np.array([1, 0, 2]), RECORD.in_log(rows))
    assert [indexes_of(one) for one in logs.to_pylist()] == [(1,), (0, 3), (2, 4, 5)]
    assert UPDATE.log_of(rows_of(logs.to_pylist())).tolist() == [1, 0, 2]
    of_log = UPDATE.in_log(rows_of(logs.to_pylist()))
    assert of_log.to_pylist() == [b"", lineage(3), lineage(4, 5)]


def test_no_rows_have_no_indexes() -> None:
    """A batch without records has no indexes."""
    for form in (RECORD, PAIR, OUTER):
        rows = pa.schema(form.fields).empty_table()
        assert form.read(rows).shape == (0, form.length)
        assert len(form.in_log(rows)) == 0
    assert encoded(np.zeros((0, 2), dtype=np.int64)).to_pylist() == []


def test_the_results_of_a_join_have_the_record_of_the_right_row() -> None:
    """An unmatched row has 0 instead, and the log of its own record."""
    nobody = np.array([False, False, False])
    left, right = np.array([[7], [0], [5]]), np.array([[1, 9], [0, 9], [0, 0]])
    record = np.array([3, 3, 3]), np.array([4, 4, 4])
    sides = (ELEMENT, UPDATE.extended())
    missing = np.array([False, True, False]), np.array([False, False, True])
    joined = joined_lineages(sides, (left, right), record, missing, has_left=False)
    assert [indexes_of(one) for one in joined.to_pylist()] == [
        (0, 7, 3, 5, 1, 9), (1, 0, 0, 0, 0, 9), (0, 5, 0, 0, 0, 0),
    ]  # fmt: skip
    joined = joined_lineages(sides, (left, right), record, (nobody, nobody), has_left=True)
    assert [indexes_of(one) for one in joined.to_pylist()] == [
        (7, 3, 5, 1, 9), (0, 3, 5, 0, 9), (5, 3, 5, 0, 0),
    ]  # fmt: skip
    # The logs of a left input with several logs are the first ones.
    logs = np.array([[1], [0], [1]])
    sides = (UPDATE, RECORD)
    missing = np.array([False, True, False]), nobody
    joined = joined_lineages(sides, (logs, logs[:, :0]), record, missing, has_left=False)
    assert [indexes_of(one)[0] for one in joined.to_pylist()] == [1, 2, 1]


def test_the_old_and_the_new_row_of_an_update_differ_in_the_last_index() -> None:
    """All other indexes are those of the update."""
    changes = rows_of([lineage(0), lineage(1), lineage(2, 0), lineage(3, 1)])
    assert are_retractions(changes).tolist() == [True, False, True, False]
    first, *_ = update_keys(changes)
    assert first.tolist() == [0, 0, 2, 3]
