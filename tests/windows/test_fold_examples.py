"""The examples of semantics sections 4, 5 and 9 with the user's own functions."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from pipeline.windows.definitions import NoWindows, SessionWindows, TimeWindows, Windows
from pipeline.windows.folds import Fold
from tests.slow_tables import Record
from tests.windows.engine_runs import Setup, one_by_one, run_engine

WORDS = pa.schema([("s", pa.string())])

tumbling = TimeWindows.of_size_and_grace
sessions = SessionWindows.of_inactivity_gap_and_grace


def text(key: str, value: dict[str, Any] | None, old: str) -> str | None:
    """Concatenate; "-" gives null."""
    assert value is not None
    return None if value["s"] == "-" else f"{old}+{value['s']}"


def side_by_side(_: str, left: str, right: str) -> str:
    """Concatenate two results."""
    return f"{left}+{right}"


CONCAT = Fold(
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
    found = run_engine(setup, {0: log}, one_by_one({0: log}), restart=True)
    name = next(iter(setup.engine().aggregate_types))
    return [[(r[name], r["timestamp_ms"], r["deleted"]) for r in b] for b in found.batches]


def test_the_session_merger_gets_the_initial_value_first() -> None:
    """Section 4, step 3: also for one session that is found: "0" then "0+1" gives "0+0+1+2"."""
    setup = Setup(sessions(10, 100), CONCAT, WORDS)
    assert folded(setup, "1@5 2@5") == [[("0+1", 5, False)], [("0+0+1+2", 5, False)]]


def test_sessions_merge_in_order_of_their_ends() -> None:
    """Section 4, step 3: the earlier session comes first, the new record last."""
    setup = Setup(sessions(10, 100), CONCAT, WORDS)
    *_, last = folded(setup, "b@20 a@0 c@10")
    assert [t for t, _, deleted in last if not deleted] == ["0+0+a+0+b+c"]


@pytest.mark.parametrize("windows", [NoWindows(), tumbling(100, 0)], ids=["no window", "tumbling"])
def test_a_null_aggregate_deletes_the_row_and_its_timestamp(windows: Windows) -> None:
    """Sections 5 and 9: the next record starts afresh, with the initial value and its own time."""
    batches = folded(Setup(windows, CONCAT, WORDS), "a@7 b@9 -@8 c@3")
    assert [[(t, deleted) for t, _, deleted in b] for b in batches] == [
        [("0+a", False)],
        [("0+a+b", False)],
        [(None, True)],
        [("0+c", False)],
    ]
    assert batches[-1][0][1] == 3


def test_functions_are_called_in_order_of_arrival() -> None:
    """Section 9: the order is arrival order, never time order."""
    setup = Setup(NoWindows(), CONCAT, WORDS)
    assert folded(setup, "a@9 b@1 c@5")[-1] == [("0+a+b+c", 9, False)]


def test_a_reduce_takes_the_first_value_as_it_is() -> None:
    """Section 9: the first value is stored, the reducer is called for the next ones only."""
    calls: list[tuple[str, str]] = []

    def reducer(_: str, value: dict[str, Any] | None, old: str) -> str:
        assert value is not None
        calls.append((old, value["s"]))
        return f"{old}+{value['s']}"

    fold = Fold(None, (reducer,), side_by_side, types={"s": pa.string()}, step="store 's', reduce")
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
    found = run_engine(setup, logs, [{0: 1, 1: 1}, {0: 1}], restart=True)
    changes = [
        [(r["window_start_ms"], r["window_end_ms"], r["text"], r["deleted"]) for r in batch]
        for batch in found.batches
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
    found = run_engine(Setup(tumbling(10, 0), CONCAT, WORDS), logs, [{0: 1, 1: 1}, {0: 1}])
    changes = [[(r["text"], r["timestamp_ms"], r["deleted"]) for r in b] for b in found.batches]
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
