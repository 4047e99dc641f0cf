"""The examples of semantics.md#4, semantics.md#5 and semantics.md#9 with users' functions."""

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
    """Concatenate; "-" gives null."""
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
    """Each batch's (text, timestamp, deleted) for records ``TEXT@TIME``, a batch each."""
    log: list[Record] = []
    for entry in entries.split():
        value, _, time = entry.partition("@")
        log.append(("k", int(time), {"s": value}))
    run = run_engine(setup, {0: log}, one_by_one({0: log}), restart=True)
    name = next(iter(setup.engine().aggregate_types))
    return [[(r[name], r["timestamp_ms"], r["deleted"]) for r in b] for b in run.batches]


def test_the_session_merger_gets_the_initial_value_first() -> None:
    """semantics.md#4-1: also for one session that is found: "0" then "0+1" gives "0+0+1+2"."""
    setup = Setup(sessions(10, 100), CONCAT, WORDS)
    assert folded(setup, "1@5 2@5") == [[("0+1", 5, False)], [("0+0+1+2", 5, False)]]


def test_sessions_merge_in_order_of_their_ends() -> None:
    """semantics.md#4-1: the earlier session comes first, the new record last."""
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


def test_a_removed_sliding_window_has_the_time_it_would_have_had() -> None:
    """semantics.md#9: what came before an earlier removal doesn't count for the time."""
    setup = Setup(SlidingWindows.of_time_difference_and_grace(10, 100), CONCAT, WORDS)
    told = [batch[0] for batch in folded(setup, "a@9 -@8 b@3 -@4")]
    assert told == [("0+a", 9, False), (None, 9, True), ("0+b", 3, False), (None, 4, True)]


def test_functions_are_called_in_order_of_arrival() -> None:
    """semantics.md#9: the order is arrival order, never time order."""
    setup = Setup(NoWindows(), CONCAT, WORDS)
    assert folded(setup, "a@9 b@1 c@5")[-1] == [("0+a+b+c", 9, False)]


def test_a_reduce_takes_the_first_value_as_it_is() -> None:
    """semantics.md#9: the first value is stored, the reducer is called for the next ones only."""
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


def test_emission_on_close_of_a_fold() -> None:
    """A fold's windows are told once, when they close."""
    setup = replace(Setup(tumbling(10, 0), CONCAT, WORDS), emit_final_only=True)
    assert folded(setup, "a@1 b@9 c@5 d@10") == [[], [], [], [("0+a+b+c", 9, False)]]


def test_a_null_aggregate_of_one_partition_leaves_what_the_others_made() -> None:
    """A session joined over two partitions falls back to the part that is still there."""
    #   partition 0:  a@15 ...... -@16 (null: its session goes)
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
    """A tumbling window goes on with the other partition's part, and is not deleted."""
    logs: dict[int, list[Record]] = {
        0: [("k", 9, {"s": "a"}), ("k", 7, {"s": "-"})],
        1: [("k", 3, {"s": "b"})],
    }
    run = run_engine(Setup(tumbling(10, 0), CONCAT, WORDS), logs, [{0: 1, 1: 1}, {0: 1}])
    changes = [[(r["text"], r["timestamp_ms"], r["deleted"]) for r in b] for b in run.batches]
    assert changes == [[("0+a+0+b", 9, False)], [("0+b", 3, False)]]


def test_sessions_of_several_partitions_merge_by_end_then_start_then_partition() -> None:
    """Decision 0009's order of the merger, with all three at work."""
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
def test_emission_on_close_does_not_tell_of_a_null(windows: Windows) -> None:
    """A window that becomes null in the batch that closes it is not told at all."""
    log: list[Record] = [("k", 1, {"s": "a"}), ("k", 2, {"s": "-"}), ("k", 90, {"s": "b"})]
    setup = replace(Setup(windows, CONCAT, WORDS), emit_final_only=True)
    assert run_engine(setup, {0: log}, [{0: 1}, {0: 2}]).batches == [[], []]


def longest_two(key: str, value: dict[str, Any] | None, old: str) -> str:
    """Concatenate up to two values, and refuse a third."""
    result = text(key, value, old)
    if result is None or result.count("+") > 2:
        message = f"no more behind {old}"
        raise ValueError(message)
    return result


#: With streams folded as they come: partition 0 is one's, partition 1 the other's.
TWO_STREAMS = replace(CONCAT, aggregators=(longest_two, longest_two), merger=None)


def left_out(
    batches: list[list[tuple[int, int, int, str]]],
    fold: UserFunctions,
    emit: EmitStrategy = ON_UPDATE,
) -> list[list[tuple[int, str]]]:
    """What each batch of (partition, offset, time, text) tells: (offset, detail)."""
    windows = SlidingWindows.of_time_difference_and_grace(10, 100)
    engine = engine_for(windows, fold, WORDS, emit=emit)
    state, told = engine.empty_state(), []
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
        told.append([(row["offset"], row["detail"]) for row in result.left_out.to_pylist()])
    return told


def detail(start: int, old: str) -> str:
    """What is told of a record that came as the third of a window."""
    window = f"left out of the window [{start}, {start + 10}]"
    return f"{window}: store 's', aggregate: ValueError: no more behind {old}"


def test_a_record_is_left_out_of_each_window_that_raises_on_it() -> None:
    """It is told once of each, when window and record first meet, and stays in the others."""
    fold = replace(CONCAT, aggregators=(longest_two,))
    batches = [
        [(0, 0, 20, "a"), (0, 1, 22, "b"), (0, 2, 24, "c")],
        # The right window of 20 is there, too: [21, 31] has b and c.
        [(0, 3, 22, "d")],
        # The left window of 30 is [20, 30]; c and d are old in it, but it is a new window.
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


def test_emission_on_close_tells_of_left_out_records_when_the_window_is_final() -> None:
    """Nothing is told before, and all of it then."""
    fold = replace(CONCAT, aggregators=(longest_two,))
    batches = [[(0, 0, 20, "a"), (0, 1, 20, "b")], [(0, 2, 20, "c")], []]
    assert left_out(batches, fold) == [[], [(2, detail(10, "0+a+b"))], []]
    assert left_out(batches, fold, EmitStrategy.on_window_close()) == [
        [],
        [],
        [(2, detail(10, "0+a+b"))],
    ]


def test_old_records_that_raise_behind_newer_ones_are_told() -> None:
    """Streams that are folded into one: the first stream's record comes before the second's."""
    batches = [
        [(1, 10, 20, "x"), (1, 11, 20, "y"), (1, 12, 20, "z")],
        [(0, 0, 20, "a")],
        [(0, 1, 20, "b")],
        [],
    ]
    assert left_out(batches, TWO_STREAMS) == [
        [(12, detail(10, "0+x+y"))],
        # z was told of before.
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
    """A value that the reducer would refuse beside itself is kept where it comes first."""
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
    (told,) = left_out([[(0, 0, 20, "a"), (0, 1, 20, "a")]], fold)
    assert told == [(1, "left out of the window [10, 20]: store 's', reduce: ValueError: twice")]


@pytest.mark.parametrize("bare", [True, False])
def test_a_function_that_changes_its_aggregate_and_raises_changes_no_row(bare: bool) -> None:
    """The aggregate that a function gets is its own, with all its lists and dicts."""

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
