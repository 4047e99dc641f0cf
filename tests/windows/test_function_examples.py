"""Examples of user-defined aggregators of semantics.md#4, semantics.md#5 and semantics.md#9."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from oriel import SessionWindows, SlidingWindows, TimeWindows
from oriel.pipeline.windows import (
    EmitStrategy,
    NoWindows,
    Times,
    UserFunctions,
    Windows,
    engine_for,
)
from tests.models.tables import Record
from tests.windows.engine_runs import Setup, one_by_one, run_engine

WORDS = pa.schema([("s", pa.string())])

ON_UPDATE = EmitStrategy.on_window_update()

tumbling = TimeWindows.of_size_and_grace
sessions = SessionWindows.of_inactivity_gap_and_grace


def text(key: str, value: dict[str, Any] | None, old: str) -> str | None:
    """Concatenate strings. The result of "-" is null."""
    assert value is not None
    return None if value["s"] == "-" else f"{old}+{value['s']}"


def side_by_side(_: str, left: str, right: str) -> str:
    """Concatenate two results."""
    return f"{left}+{right}"


CONCAT = UserFunctions(
    lambda: "0",
    (text,),
    side_by_side,
    types={"text": pa.string()},
    step="store 's', aggregate",
)


def folded(setup: Setup, entries: str) -> list[list[tuple[str | None, int, bool]]]:
    """Return (text, timestamp, deleted) for each batch. Each record ``TEXT@TIME`` is one batch."""
    log: list[Record] = []
    for entry in entries.split():
        value, _, time = entry.partition("@")
        log.append(("k", int(time), {"s": value}))
    run = run_engine(setup, {0: log}, one_by_one({0: log}), restart=True)
    name = next(iter(setup.engine().aggregate_types))
    return [[(r[name], r["timestamp_ms"], r["deleted"]) for r in b] for b in run.batches]


def test_the_session_merger_gets_the_initial_value_first() -> None:
    """semantics.md#4-1: also if one session is found: "0" and "0+1" become "0+0+1+2"."""
    setup = Setup(sessions(10, 100), CONCAT, WORDS)
    assert folded(setup, "1@5 2@5") == [[("0+1", 5, False)], [("0+0+1+2", 5, False)]]


def test_sessions_merge_in_order_of_their_ends() -> None:
    """semantics.md#4-1: the earlier session is first, and the new record is last."""
    setup = Setup(sessions(10, 100), CONCAT, WORDS)
    *_, last = folded(setup, "b@20 a@0 c@10")
    assert [t for t, _, deleted in last if not deleted] == ["0+0+a+0+b+c"]


@pytest.mark.parametrize("windows", [NoWindows(), tumbling(100, 0)], ids=["no window", "tumbling"])
def test_a_null_aggregate_deletes_the_row_and_its_timestamp(windows: Windows) -> None:
    """The next record starts with the initial value and its own time (semantics.md#9)."""
    batches = folded(Setup(windows, CONCAT, WORDS), "a@7 b@9 -@8 c@3")
    assert [[(t, deleted) for t, _, deleted in b] for b in batches] == [
        [("0+a", False)],
        [("0+a+b", False)],
        [(None, True)],
        [("0+c", False)],
    ]
    assert batches[-1][0][1] == 3


def test_a_removed_sliding_window_has_the_time_of_its_newest_record() -> None:
    """semantics.md#9: records before an earlier removal do not count for the time."""
    setup = Setup(SlidingWindows.of_time_difference_and_grace(10, 100), CONCAT, WORDS)
    emitted = [batch[0] for batch in folded(setup, "a@9 -@8 b@3 -@4")]
    assert emitted == [("0+a", 9, False), (None, 9, True), ("0+b", 3, False), (None, 4, True)]


def test_functions_are_called_in_order_of_arrival() -> None:
    """semantics.md#9: the order is arrival order, never time order."""
    setup = Setup(NoWindows(), CONCAT, WORDS)
    assert folded(setup, "a@9 b@1 c@5")[-1] == [("0+a+b+c", 9, False)]


def test_a_reduce_stores_the_first_value_unchanged() -> None:
    """semantics.md#9: the first value is stored, and the reducer is called for later values."""
    calls: list[tuple[str, str]] = []

    def reducer(_: str, value: dict[str, Any] | None, old: str) -> str:
        assert value is not None
        calls.append((old, value["s"]))
        return f"{old}+{value['s']}"

    fold = UserFunctions(
        None, (reducer,), side_by_side, types={"s": pa.string()}, step="store 's', reduce"
    )
    *_, last = folded(Setup(sessions(10, 100), fold, WORDS), "b@20 a@0 c@10")
    assert [t for t, _, deleted in last if not deleted] == ["a+b+c"]
    assert calls == [("a+b", "c")]


def test_emission_on_close_of_user_functions() -> None:
    """Windows of user-defined aggregators are emitted once, when they close."""
    setup = replace(Setup(tumbling(10, 0), CONCAT, WORDS), emit_final_only=True)
    assert folded(setup, "a@1 b@9 c@5 d@10") == [[], [], [], [("0+a+b+c", 9, False)]]


def test_a_null_aggregate_of_one_partition_keeps_the_other_partitions() -> None:
    """A session of two partitions becomes the session of the remaining partition."""
    #   partition 0:  a@15 ...... -@16 (null: its session is removed)
    #   partition 1:       b@18
    logs: dict[int, list[Record]] = {
        0: [("k", 15, {"s": "a"}), ("k", 16, {"s": "-"})],
        1: [("k", 18, {"s": "b"})],
    }
    setup = Setup(sessions(10, 100), CONCAT, WORDS)
    run = run_engine(setup, logs, [{0: 1, 1: 1}, {0: 1}], restart=True)
    changes = [
        [(r["window_start_ms"], r["window_end_ms"], r["text"], r["deleted"]) for r in batch]
        for batch in run.batches
    ]
    assert changes == [
        [(15, 18, "0+a+0+b", False)],
        [(15, 18, None, True), (18, 18, "0+b", False)],
    ]


def test_a_null_aggregate_of_one_partition_changes_a_window_of_several() -> None:
    """A tumbling window keeps the partial aggregate of the other partition. It is not deleted."""
    logs: dict[int, list[Record]] = {
        0: [("k", 9, {"s": "a"}), ("k", 7, {"s": "-"})],
        1: [("k", 3, {"s": "b"})],
    }
    run = run_engine(Setup(tumbling(10, 0), CONCAT, WORDS), logs, [{0: 1, 1: 1}, {0: 1}])
    changes = [[(r["text"], r["timestamp_ms"], r["deleted"]) for r in b] for b in run.batches]
    assert changes == [[("0+a+0+b", 9, False)], [("0+b", 3, False)]]


def test_sessions_of_several_partitions_merge_by_end_then_start_then_partition() -> None:
    """The merger is called in the order of decision 0009, with all three criteria."""
    #   partition 0:        c@5 d@12
    #   partition 1:   a@3      b@12
    #   partition 2:        e@5 f@12
    #   partition 3:   g@2
    logs: dict[int, list[Record]] = {
        p: [("k", time, {"s": text}) for text, time in entries]
        for p, entries in enumerate(
            ([("c", 5), ("d", 12)], [("a", 3), ("b", 12)], [("e", 5), ("f", 12)], [("g", 2)])
        )
    }
    reduce = replace(CONCAT, initializer=None, types={"s": pa.string()})
    setup = Setup(sessions(10, 100), reduce, WORDS)
    for cuts in (one_by_one(logs), list(reversed(one_by_one(logs)))):
        (row,) = run_engine(setup, logs, cuts, restart=True).rows.values()
        assert row["s"] == "g+a+b+c+d+e+f"


@pytest.mark.parametrize("windows", [tumbling(10, 0), sessions(5, 0)], ids=["tumbling", "session"])
def test_emission_on_close_does_not_emit_a_null(windows: Windows) -> None:
    """A window that becomes null in the batch that closes it is not emitted."""
    log: list[Record] = [("k", 1, {"s": "a"}), ("k", 2, {"s": "-"}), ("k", 90, {"s": "b"})]
    setup = replace(Setup(windows, CONCAT, WORDS), emit_final_only=True)
    assert run_engine(setup, {0: log}, [{0: 1}, {0: 2}]).batches == [[], []]


def longest_two(key: str, value: dict[str, Any] | None, old: str) -> str:
    """Concatenate up to two values. Raise an error for a third value."""
    result = text(key, value, old)
    if result is None or result.count("+") > 2:
        message = f"no value after {old}"
        raise ValueError(message)
    return result


#: A cogroup of two streams in order of arrival: partition 0 and partition 1.
TWO_STREAMS = replace(CONCAT, aggregators=(longest_two, longest_two), merger=None)


def left_out(
    batches: list[list[tuple[int, int, int, str]]],
    fold: UserFunctions,
    emit: EmitStrategy = ON_UPDATE,
) -> list[list[tuple[int, str]]]:
    """Return the dead letters (offset, detail) of each batch of (partition, offset, time, text)."""
    windows = SlidingWindows.of_time_difference_and_grace(10, 100)
    engine = engine_for(windows, fold, WORDS, emit=emit)
    state, dead_letters = engine.empty_state(), []
    for number, batch in enumerate(batches):
        rows = [
            {
                "key": "k", "timestamp_ms": time, "partition": partition, "offset": offset,
                "close_ms": 0, "input": partition % len(fold.aggregators), "null_value": False,
                "s": word,
            }
            for partition, offset, time, word in batch
        ]  # fmt: skip
        last = number == len(batches) - 1
        close = 1000 if last else 0
        records = pa.Table.from_pylist(rows, schema=engine.record_schema)
        result = engine.apply(state, records, Times.closing(0, close))
        assert not len(result.rejected)
        state = result.state
        dead_letters.append([(row["offset"], row["detail"]) for row in result.left_out.to_pylist()])
    return dead_letters


def detail(start: int, old: str) -> str:
    """Return the detail of the dead letter for the third record of a window."""
    window = f"left out of the window [{start}, {start + 10}]"
    return f"{window}: store 's', aggregate: ValueError: no value after {old}"


def test_a_record_is_left_out_of_each_window_that_raises_on_it() -> None:
    """Each such window has one dead letter for the record. The record is in all other windows."""
    fold = replace(CONCAT, aggregators=(longest_two,))
    batches = [
        [(0, 0, 20, "a"), (0, 1, 22, "b"), (0, 2, 24, "c")],
        # The right window of 20 exists: [21, 31] has b and c.
        [(0, 3, 22, "d")],
        # The left window of 30 is [20, 30]. It is a new window, although c and d are old records.
        [(0, 4, 30, "e")],
        [],
    ]
    in_14, in_20 = detail(14, "0+a+b"), detail(20, "0+a+b")
    assert left_out(batches, fold) == [
        [(2, in_14)],
        [(3, detail(12, "0+a+b")), (3, in_14), (3, detail(21, "0+b+c"))],
        # [23, 33], the right window of 22, has only c and e.
        [(2, in_20), (3, in_20), (4, in_20), (4, detail(21, "0+b+c"))],
        [],
    ]


def test_emission_on_close_writes_dead_letters_when_the_window_is_final() -> None:
    """Dead letters of a window are written when it becomes final, and not before."""
    fold = replace(CONCAT, aggregators=(longest_two,))
    batches = [[(0, 0, 20, "a"), (0, 1, 20, "b")], [(0, 2, 20, "c")], []]
    assert left_out(batches, fold) == [[], [(2, detail(10, "0+a+b"))], []]
    assert left_out(batches, fold, EmitStrategy.on_window_close()) == [
        [],
        [],
        [(2, detail(10, "0+a+b"))],
    ]


def test_old_records_that_raise_after_a_newer_one_are_dead_letters() -> None:
    """In a cogroup, records of the first stream are before records of the second stream."""
    batches = [
        [(1, 10, 20, "x"), (1, 11, 20, "y"), (1, 12, 20, "z")],
        [(0, 0, 20, "a")],
        [(0, 1, 20, "b")],
        [],
    ]
    assert left_out(batches, TWO_STREAMS) == [
        [(12, detail(10, "0+x+y"))],
        # z already has a dead letter.
        [(11, detail(10, "0+a+x"))],
        [(10, detail(10, "0+a+b"))],
        [],
    ]
    both_at_once = [batches[0], [*batches[1], *batches[2]], []]
    assert left_out(both_at_once, TWO_STREAMS) == [
        [(12, detail(10, "0+x+y"))],
        [(10, detail(10, "0+a+b")), (11, detail(10, "0+a+b"))],
        [],
    ]


def test_a_reducer_is_not_called_for_a_first_value() -> None:
    """The reducer raises an error for two equal values, but the first value is stored."""
    calls: list[tuple[str, str]] = []

    def reducer(_: str, value: dict[str, Any] | None, old: str) -> str:
        assert value is not None
        calls.append((old, value["s"]))
        if old == value["s"]:
            message = "twice"
            raise ValueError(message)
        return f"{old}{value['s']}"

    fold = UserFunctions(None, (reducer,), None, types={"s": pa.string()}, step="store 's', reduce")
    assert left_out([[(0, 0, 20, "a")], []], fold) == [[], []]
    assert calls == []
    (dead_letters,) = left_out([[(0, 0, 20, "a"), (0, 1, 20, "a")]], fold)
    assert dead_letters == [
        (1, "left out of the window [10, 20]: store 's', reduce: ValueError: twice")
    ]


@pytest.mark.parametrize("bare", [True, False])
def test_a_function_that_changes_its_aggregate_and_raises_changes_no_row(bare: bool) -> None:
    """A function receives a copy of the aggregate, with copies of all lists and dicts."""

    def append(_: str, value: dict[str, Any] | None, all_values: Any) -> Any:
        assert value is not None
        values = all_values if bare else all_values["all"]
        values.append(value["s"])
        if not bare:
            all_values["more"] = True
        if value["s"] == "x":
            message = "unlucky"
            raise ValueError(message)
        return all_values if bare else {"all": values}

    fold = UserFunctions(
        (list if bare else lambda: {"all": []}),
        (append,),
        None,
        types={"all": pa.list_(pa.string())},
        step="store 's', aggregate",
        unwraps_single_column=bare,
    )
    engine = engine_for(tumbling(10, 100), fold, WORDS)
    rows = [
        {
            "key": "k", "timestamp_ms": 5, "partition": 0, "offset": offset, "close_ms": 0,
            "input": 0, "null_value": False, "s": word,
        }
        for offset, word in enumerate("axb")
    ]  # fmt: skip
    state, seen = engine.empty_state(), []
    for row in rows:
        result = engine.apply(
            state, pa.Table.from_pylist([row], schema=engine.record_schema), Times.closing(0, 0)
        )
        state = result.state
        seen += [changed["all"] for changed in result.changes.to_pylist()]
    assert seen == [["a"], ["a", "b"]]
