"""Examples of joins: definitions, and the numbers of semantics.md#5 and semantics.md#6."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from oriel import IllegalArgument, JoinWindows
from oriel.pipeline.windows import (
    FOREVER_MS,
    LEFT,
    MAX_TIMESTAMP_MS,
    RIGHT,
    InputRows,
    JoinResult,
    Lineage,
    StreamJoinEngine,
    StreamTableJoinEngine,
    TableJoin,
    TableRowsEngine,
    Times,
)
from oriel.pipeline.windows.joins.inputs import RECORDS, How
from oriel.pipeline.windows.joins.stream_tables import StreamTableHow
from tests.windows.lineages import indexes_of, lineage

LEFT_VALUES = pa.schema([("l", pa.string())])
RIGHT_VALUES = pa.schema([("r", pa.string())])

#: Side, value, time. The key is always "A", and the partition is 0.
Step = tuple[int, str, int]


def test_a_time_difference_reaches_to_both_sides() -> None:
    """The difference is before and after. Each bound can be set, and the grace stays."""
    windows = JoinWindows.of_time_difference_and_grace(10, 3)
    assert (windows.before_ms, windows.after_ms, windows.grace_ms) == (10, 10, 3)
    assert windows.before(4) == JoinWindows(4, 10, 3)
    assert windows.after(0) == JoinWindows(10, 0, 3)
    assert JoinWindows.of_time_difference_with_no_grace(10) == JoinWindows(10, 10, 0)


def test_durations_are_cut_to_whole_ms() -> None:
    """A timedelta of 1,999 microseconds is one ms."""
    windows = JoinWindows.of_time_difference_with_no_grace(timedelta(microseconds=1999))
    assert windows == JoinWindows(1, 1, 0)


def test_one_bound_can_be_negative() -> None:
    """A range can be completely before or after the record, if it is not empty."""
    windows = JoinWindows.of_time_difference_with_no_grace(10)
    assert windows.before(-10) == JoinWindows(-10, 10, 0)
    assert windows.after(-4) == JoinWindows(10, -4, 0)


@pytest.mark.parametrize(
    ("difference", "grace", "said"),
    [
        (-1, 0, "Join time difference must not be negative, but it is -1 ms"),
        (0, -1, "Window grace period must not be negative"),
        (2**62, 0, "before must not exceed"),
        (1, 2**63 - 3, r"before \+ after \+ grace must not exceed"),
        (None, 0, "must be an integer number of ms"),
        (1.5, 0, "must be an integer number of ms"),
        (True, 0, "must be an integer number of ms"),
    ],
)
def test_invalid_durations_are_illegal_arguments(difference: Any, grace: Any, said: str) -> None:
    """Negative, overflowing and non-integer durations fail at definition time."""
    with pytest.raises(IllegalArgument, match=said):
        JoinWindows.of_time_difference_and_grace(difference, grace)


def test_an_empty_range_is_an_illegal_argument() -> None:
    """A negative before + after is rejected. The message explains the order of the calls."""
    windows = JoinWindows.of_time_difference_with_no_grace(10)
    said = r"must not be negative, but it is -11 \+ 10 ms. .* set the other side first"
    with pytest.raises(IllegalArgument, match=said):
        windows.before(-11)
    with pytest.raises(IllegalArgument, match="must not be negative"):
        windows.after(-11)
    with pytest.raises(IllegalArgument, match="Join window after must be an integer"):
        windows.after("1 s")  # type: ignore[arg-type]


def test_a_range_far_away_that_is_not_long_is_still_too_far() -> None:
    """Each bound has a maximum, and also the sum of both."""
    with pytest.raises(IllegalArgument, match="after must not exceed"):
        JoinWindows(-(2**62), 2**62, 0)


def stream_join(how: How, windows: JoinWindows, batches: Sequence[Sequence[Step]]) -> list[Any]:
    """Return the results (l, r, timestamp) of each batch. Each side has one key and partition."""
    engine = StreamJoinEngine(windows, how, LEFT_VALUES, RIGHT_VALUES)
    state = engine.empty_state()
    stream_times, offsets = [-1, -1], [0, 0]
    results = []
    for steps in batches:
        rows = []
        for side, value, time in steps:
            stream_times[side] = max(stream_times[side], time)
            row = {"key": "A", "timestamp_ms": time, "partition": 0, "offset": offsets[side]}
            row |= {"stream_time_ms": stream_times[side], "side": side, "lr"[side]: value}
            offsets[side] += 1
            rows.append(row)
        batch = pa.Table.from_pylist(rows, schema=engine.record_schema)
        result = engine.apply(state, batch, Times.at((stream_times[LEFT], stream_times[RIGHT])))
        state = result.state
        rows = result.results.to_pylist()
        results.append([(row["l"], row["r"], row["timestamp_ms"]) for row in rows])
    return results


def test_records_match_at_both_bounds_and_the_result_has_the_later_time() -> None:
    """For left at 100 with 10 before and 20 after, 90 and 120 match, but not 89 and 121."""
    windows = JoinWindows(10, 20, 100)
    right = [(RIGHT, str(time), time) for time in (89, 90, 100, 120, 121)]
    results = stream_join("inner", windows, [[(LEFT, "a", 100)], right])
    assert results == [[], [("a", "90", 100), ("a", "100", 100), ("a", "120", 120)]]


def test_a_range_that_lies_before_the_record_joins_records_in_time_order() -> None:
    """With after = -5 and no grace, the right record at 93 matches the left record at 100."""
    windows = JoinWindows(10, -5, 0)
    results = stream_join("outer", windows, [[(RIGHT, "b", 93)], [(LEFT, "a", 100)]])
    assert results == [[], [("a", "b", 100)]]


def test_an_unmatched_record_waits_until_nothing_can_match_it() -> None:
    """With 10, 10 and grace 5, left at 100 waits until the right stream time is above 125."""
    windows = JoinWindows.of_time_difference_and_grace(10, 5)
    steps = [[(LEFT, "a", 100)], [(RIGHT, "b", 125)], [(RIGHT, "c", 126)], [(RIGHT, "d", 500)]]
    assert stream_join("left", windows, steps) == [[], [], [("a", None, 100)], []]
    assert stream_join("inner", windows, steps) == [[], [], [], []]


def test_only_an_outer_join_emits_an_unmatched_right_record() -> None:
    """Right at 100 is emitted once the left stream time is above 120."""
    windows = JoinWindows.of_time_difference_with_no_grace(10)
    steps = [[(RIGHT, "b", 100)], [(LEFT, "a", 120)], [(LEFT, "c", 121)]]
    assert stream_join("outer", windows, steps) == [[], [], [(None, "b", 100)]]
    assert stream_join("left", windows, steps) == [[], [], []]


def test_the_last_moment_to_match_is_used() -> None:
    """The latest right record that can match finds the left record that waits for it."""
    windows = JoinWindows.of_time_difference_and_grace(10, 5)
    steps = [[(LEFT, "a", 100)], [(RIGHT, "x", 125)], [(RIGHT, "b", 110)], [(RIGHT, "y", 200)]]
    assert stream_join("left", windows, steps) == [[], [], [("a", "b", 110)], []]


def test_late_records_are_counted_and_do_not_match() -> None:
    """A right record is late if its time + before + grace is below the right stream time."""
    engine = StreamJoinEngine(JoinWindows(10, 10, 5), "outer", LEFT_VALUES, RIGHT_VALUES)
    place = {"key": "A", "partition": 0}
    rows = [
        {**place, "offset": 0, "timestamp_ms": 100, "stream_time_ms": 100, "side": LEFT},
        {**place, "offset": 0, "timestamp_ms": 105, "stream_time_ms": 120, "side": RIGHT},
        {**place, "offset": 1, "timestamp_ms": 104, "stream_time_ms": 120, "side": RIGHT},
    ]
    batch = pa.Table.from_pylist(rows, schema=engine.record_schema)
    result = engine.apply(engine.empty_state(), batch, Times.at((100, 120)))
    assert result.late == (0, 1)
    assert result.results.column("timestamp_ms").to_pylist() == [105]
    assert engine.is_late(batch).tolist() == [False, False, True]


def test_results_have_a_total_order() -> None:
    """The lineage has the log, and the record of the right row. Unmatched records have 0."""
    engine = StreamJoinEngine(JoinWindows(5, 5, 0), "outer", LEFT_VALUES, RIGHT_VALUES)
    rows = [
        {"key": key, "timestamp_ms": 100, "partition": p, "offset": o, "side": s}
        for key, p, o, s in (
            ("A", 3, 7, LEFT),
            ("A", 0, 0, RIGHT),
            ("A", 2, 9, RIGHT),
            ("B", 1, 4, LEFT),
            ("C", 5, 6, RIGHT),
        )
    ]
    batch = pa.Table.from_pylist(
        [{**row, "stream_time_ms": 100} for row in rows], schema=engine.record_schema
    )
    results = engine.apply(engine.empty_state(), batch, Times.at((200, 200))).results.to_pylist()
    found = [(r["key"], r["partition"], r["offset"], indexes_of(r["__lineage"])) for r in results]
    assert found == [
        ("A", 3, 7, (0, 0, 1)),
        ("A", 3, 7, (0, 2, 10)),
        ("B", 1, 4, (0, 0, 0)),
        ("C", 5, 6, (1, 0, 0)),
    ]


@pytest.mark.parametrize(
    ("how", "windows", "delay"),
    [
        ("inner", JoinWindows(10, 20, 3), 0),
        ("left", JoinWindows(10, 20, 3), 33),
        ("outer", JoinWindows(10, 20, 3), 33),
        ("left", JoinWindows(10, -4, 3), 9),
        ("outer", JoinWindows(10, -4, 3), 13),
    ],
)
def test_the_delay_is_the_time_that_an_unmatched_record_waits(
    how: How, windows: JoinWindows, delay: int
) -> None:
    """The delay is before + after + grace if unmatched records are emitted, otherwise 0."""
    assert StreamJoinEngine(windows, how, LEFT_VALUES, RIGHT_VALUES).delay_ms == delay


def test_the_longest_times_do_not_overflow() -> None:
    """The smallest and the largest time match with the longest range."""
    longest = 2**63 // 1000 - 2 * MAX_TIMESTAMP_MS
    results = stream_join(
        "outer",
        JoinWindows(longest // 2, longest // 2, 0),
        [[(LEFT, "a", 0), (RIGHT, "b", MAX_TIMESTAMP_MS), (LEFT, "c", MAX_TIMESTAMP_MS)]],
    )
    assert results == [[("a", "b", MAX_TIMESTAMP_MS), ("c", "b", MAX_TIMESTAMP_MS)]]


def test_results_have_any_partition_and_offset() -> None:
    """A lineage can have Kafka's greatest partition and offset."""
    engine = StreamJoinEngine(JoinWindows(5, 5, 0), "inner", LEFT_VALUES, RIGHT_VALUES)
    row = {"key": "A", "timestamp_ms": 1, "partition": 0, "offset": 0, "stream_time_ms": 1}
    greatest = {"side": RIGHT, "partition": 2**31 - 1, "offset": 2**63 - 2}
    rows = [row | {"side": LEFT}, row | greatest]
    batch = pa.Table.from_pylist(rows, schema=engine.record_schema)
    result = engine.apply(engine.empty_state(), batch, Times.at((1, 1)))
    (found,) = result.results["__lineage"].to_pylist()
    assert indexes_of(found) == (2**31 - 1, 2**63 - 1)


def test_unknown_joins_and_common_names_are_rejected() -> None:
    """An unknown kind of join and two columns with one name fail at definition time."""
    windows = JoinWindows(5, 5, 0)
    with pytest.raises(IllegalArgument, match="one of inner, left, outer, not 'right'"):
        StreamJoinEngine(windows, "right", LEFT_VALUES, RIGHT_VALUES)  # type: ignore[arg-type]
    with pytest.raises(IllegalArgument, match="one of inner, left, not 'outer'"):
        StreamTableJoinEngine("outer", LEFT_VALUES, RIGHT_VALUES)  # type: ignore[arg-type]
    with pytest.raises(IllegalArgument, match="'l' exists twice"):
        StreamJoinEngine(windows, "left", LEFT_VALUES, LEFT_VALUES)
    with pytest.raises(IllegalArgument, match="'side' exists twice"):
        StreamTableJoinEngine("left", LEFT_VALUES, pa.schema([("side", pa.int64())]))
    with pytest.raises(IllegalArgument, match="'offset' exists twice"):
        TableRowsEngine(TableJoin("left", 0, 1), (LEFT_VALUES, pa.schema([("offset", pa.int64())])))


def table_join(how: How, steps: Sequence[tuple[int, str | None, int]]) -> list[Any]:
    """Return the update of each record: (l, r, timestamp), or the timestamp of a deletion."""
    engine = TableRowsEngine(TableJoin(how, 0, 1), (LEFT_VALUES, RIGHT_VALUES))
    state = engine.empty_state()
    updates = []
    for offset, (side, value, time) in enumerate(steps):
        row = {"key": "A", "timestamp_ms": time, "partition": 0, "offset": offset}
        row |= {"null_value": value is None, "input": side, "lr"[side]: value}
        batch = pa.Table.from_pylist([row], schema=engine.record_schema)
        result = engine.apply(state, batch, Times.closing(0, 0))
        state = result.state
        changes = result.changes.to_pylist()
        for change in changes:
            window = (change["window_start_ms"], change["window_end_ms"], change["final"])
            assert window == (0, FOREVER_MS, False)
        updates.append([
            row["timestamp_ms"] if row["deleted"] else (row["l"], row["r"], row["timestamp_ms"])
            for row in changes
        ])  # fmt: skip
    return updates


def test_the_table_table_example_of_the_semantics() -> None:
    """The updates of semantics.md#5-4 are (a,b)@10, (c,b)@5, @20, and a deletion @20."""
    steps = [(LEFT, "a", 10), (RIGHT, "b", 5), (LEFT, "c", 3), (RIGHT, "d", 20), (LEFT, None, 15)]
    assert table_join("inner", steps) == [
        [],
        [("a", "b", 10)],
        [("c", "b", 5)],
        [("c", "d", 20)],
        [20],
    ]


def test_left_and_outer_joins_of_tables_have_rows_of_one_side() -> None:
    """A row without a match has its own time. The time of a deletion also counts."""
    steps = [(LEFT, "a", 10), (RIGHT, "b", 20), (RIGHT, None, 30), (LEFT, None, 40)]
    rows = [[("a", None, 10)], [("a", "b", 20)], [("a", None, 30)], [40]]
    assert table_join("left", steps) == rows
    assert table_join("outer", steps) == rows
    steps = [(RIGHT, "b", 20), (LEFT, "a", 10), (LEFT, None, 30), (RIGHT, None, 25)]
    assert table_join("left", steps) == [[], [("a", "b", 20)], [30], []]
    assert table_join("outer", steps) == [
        [(None, "b", 20)],
        [("a", "b", 20)],
        [(None, "b", 30)],
        [30],
    ]


def lookup(
    how: StreamTableHow, stream: Sequence[str], table: Sequence[tuple[str, int]]
) -> JoinResult:
    """Join stream records at 10 with table records of the same batch."""
    engine = StreamTableJoinEngine(how, LEFT_VALUES, RIGHT_VALUES)
    records = [
        {"key": key, "timestamp_ms": 10, "partition": 1, "offset": i, "stream_time_ms": 12}
        for i, key in enumerate(stream)
    ]
    rows = [
        {"key": key, "timestamp_ms": time, "partition": 0, "offset": i, "null_value": False}
        for i, (key, time) in enumerate(table)
    ]
    batch = [
        *({**r, "side": LEFT, "l": "a"} for r in records),
        *({**r, "side": RIGHT, "r": "b"} for r in rows),
    ]
    return engine.apply(
        engine.empty_state(),
        pa.Table.from_pylist(batch, schema=engine.record_schema),
        Times.at((12, -1)),
    )


def test_the_stream_table_example_of_the_semantics() -> None:
    """Right b@50 and then left a@10 result in (a,b)@10, because the current table is read."""
    result = lookup("inner", ["A", "Z"], [("A", 50)])
    assert result.results.to_pylist() == [
        {
            "key": "A",
            "timestamp_ms": 10,
            "partition": 1,
            "offset": 0,
            "__lineage": None,
            "stream_time_ms": 12,
            "l": "a",
            "r": "b",
        }
    ]
    assert sum(result.filtered) == 1


@pytest.mark.parametrize(
    ("rows", "newest_last"),
    [
        # The upstream stage can send the flattened records of one record in any order.
        (InputRows(Lineage(1)), [{"__lineage": lineage(n)} for n in range(3)]),
        # It sends results of two joins by the third record.
        (InputRows(Lineage(4)), [{"__lineage": lineage(0, 7, 0, n)} for n in range(3)]),
        # It sends updates of joined tables by table, because partitions have no common order.
        (
            InputRows(Lineage(1, logs=2), have_apply_order=True),
            [{"__effect": 24 + n, "__lineage": lineage(n), "partition": 1 - n} for n in range(2)],
        ),
    ],
    ids=["elements", "triples", "tables"],
)
def test_the_lookup_finds_the_last_update_of_an_aggregation(
    rows: InputRows, newest_last: list[dict[str, Any]]
) -> None:
    """The last update is the last one in apply order, for any order of arrival."""
    both = (RECORDS, replace(rows, are_table_updates=True))
    engine = StreamTableJoinEngine("left", LEFT_VALUES, RIGHT_VALUES, rows=both)
    place = {"key": "A", "timestamp_ms": 9, "partition": 0, "offset": 4, "stream_time_ms": 12}
    updates = [
        place | {"side": RIGHT, "null_value": False, "r": str(n)} | order
        for n, order in enumerate(newest_last)
    ]
    record = place | {"side": LEFT, "null_value": False, "l": "a"}
    for arrived in (updates, updates[::-1]):
        batch = pa.Table.from_pylist([*arrived, record], schema=engine.record_schema)
        result = engine.apply(engine.empty_state(), batch, Times.at((12, 12)))
        assert result.results["r"].to_pylist() == [updates[-1]["r"]]


def test_a_left_lookup_keeps_every_record() -> None:
    """Records without a table row are emitted in order, with nulls."""
    result = lookup("left", ["Z", "A", "Z"], [("A", 50)])
    assert result.results.column("r").to_pylist() == [None, "b", None]
    assert sum(result.filtered) == 0


def test_a_table_without_a_record_finds_nothing() -> None:
    """The lookup works for an empty table and for an empty stream."""
    assert lookup("left", ["A"], []).results.column("r").to_pylist() == [None]
    assert lookup("inner", ["A"], []).filtered == (1,)
    assert len(lookup("left", [], [("A", 1)]).results) == 0
