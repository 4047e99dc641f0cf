"""Numbers that tell results of joins of streams apart: written as columns, read back, in order."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from oriel import SessionWindows, TimeWindows
from oriel.pipeline.windows import Places, merged_places, places_side_by_side
from oriel.pipeline.windows.joins.places import joined_numbers, numbered_places, place_numbers
from oriel.pipeline.windows.records import arrival_keys

RECORD, ELEMENT = Places(), Places(1)
UPDATE = Places(1, 2, of_tables=2)
PAIR = RECORD.joined(RECORD)
SESSIONS = SessionWindows.of_inactivity_gap_with_no_grace(5)


def columns_of(places: Places, numbers: list[list[int]]) -> pa.Table:
    """Rows of equal partition and offset."""
    array = np.array(numbers, dtype=np.int64).reshape(len(numbers), places.numbers)
    table = pa.table(places.written(array), schema=pa.schema(places.fields))
    none = np.zeros(len(table), dtype=np.int64)
    return table.append_column("partition", pa.array(none)).append_column("offset", pa.array(none))


def test_joins_number_the_places_of_all_but_the_first() -> None:
    """In the order of streams: elements and updates have one number more."""
    assert (PAIR.numbers, PAIR.logs) == (1, 2)
    assert (PAIR.joined(PAIR).numbers, PAIR.joined(PAIR).logs) == (3, 4)
    assert (ELEMENT.joined(ELEMENT).numbers, ELEMENT.joined(ELEMENT).logs) == (3, 2)
    assert UPDATE.joined(RECORD) == Places(2, 3, of_tables=2, of_pairs=True)
    assert RECORD.joined(UPDATE) == Places(2, 3, of_pairs=True)
    assert [len(one.fields) for one in (RECORD, PAIR, PAIR.joined(PAIR))] == [0, 1, 2]


def test_numbers_of_elements_and_rows_stand_behind_those_of_what_they_are_of() -> None:
    """But in the first number, where there is room: not in a place, nor in front of others."""
    hopping, many = TimeWindows.of_size_with_no_grace(4).advance_by(2), SESSIONS
    assert RECORD.of_updates(TimeWindows.of_size_with_no_grace(4)) == RECORD
    assert RECORD.of_updates(hopping) == ELEMENT == RECORD.flattened()
    assert ELEMENT.of_updates(hopping) == ELEMENT
    assert (PAIR.of_updates(hopping).numbers, PAIR.flattened().numbers) == (2, 2)
    assert ELEMENT.flattened().of_updates(many).numbers == 3
    twice = RECORD.of_updates(many).of_updates(many)
    assert (twice.numbers, twice.of_updates(hopping).numbers) == (1, 1)
    assert twice.of_updates(many).numbers == 2
    assert places_side_by_side([UPDATE, twice]).of_updates(many).numbers == 2
    assert places_side_by_side([ELEMENT, UPDATE]) == Places(1, 3, of_tables=3)
    assert places_side_by_side([ELEMENT, PAIR]) == merged_places([ELEMENT, PAIR])


@pytest.mark.parametrize("count", [1, 2, 4])
def test_columns_are_read_back_and_are_in_the_order_of_numbers(count: int) -> None:
    """Also negative numbers, slices, chunks, and rows of streams that have fewer numbers."""
    random, places = Random(count), Places(count)
    numbers = [
        [random.choice((-3, -1, 0, 1, 2**48, 2**62)) for _ in range(count)] for _ in range(300)
    ]
    table = columns_of(places, numbers)
    assert places.read(table).tolist() == numbers
    pieces = pa.concat_tables([table.slice(7, 11), table.slice(100)])
    assert places.read(pieces).tolist() == numbers[7:18] + numbers[100:]
    order = np.lexsort(arrival_keys(table))
    assert [numbers[row] for row in order] == sorted(numbers)
    other = columns_of(Places(count + 1), [[5] * (count + 1)])
    mixed = pa.concat_tables([table, other], promote_options="default")
    assert places.read(mixed)[:300].tolist() == numbers


def test_no_rows_have_no_numbers() -> None:
    """As in a batch without records."""
    for places in (RECORD, PAIR, PAIR.joined(PAIR)):
        assert places.read(pa.schema(places.fields).empty_table()).shape == (0, places.numbers)


def test_a_missing_left_row_is_told_by_the_log_of_the_right_one() -> None:
    """The first number is then what no left row has; the right row's own numbers follow."""
    sides = (PAIR, PAIR)
    left, right = np.array([[7], [0], [0]]), np.array([[9], [9], [-1]])
    missing = np.array([False, True, True]), np.array([False, False, False])
    joined = joined_numbers(sides, (left, right), np.array([4, 4, 4]), missing)
    assert joined.tolist() == [[7, 4, 9], [-2, 0, 9], [-3, 0, -1]]
    assert PAIR.joined(PAIR).log_of(joined).tolist() == [0, 2, 3]
    of_updates = joined_numbers((RECORD, UPDATE), (left[:, :0], np.array([[0], [1], [1]])),
        np.array([4, 4, 4]), (np.array([True, True, False]), missing[1]))  # fmt: skip
    assert of_updates.tolist() == [[-1, 0], [-2, 1], [4, 1]]


def test_places_are_numbers_in_their_order() -> None:
    """And come back from these."""
    partition, offset = np.array([0, 0, 1, 2**15 - 2]), np.array([0, 2**48 - 2, 0, 2**48 - 2])
    numbers = place_numbers(partition, offset)
    assert np.diff(numbers).min() > 0
    assert numbers[0] > 0
    assert [one.tolist() for one in numbered_places(numbers)] == [
        partition.tolist(), offset.tolist(),
    ]  # fmt: skip
