"""Joins among the inputs of a store, with other streams and with rejected records."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oriel import SessionWindows, StreamsBuilder, count
from oriel.pipeline.lowered import Store
from oriel.pipeline.state import KeyedState
from oriel.pipeline.state.hashes import key_hashes
from oriel.pipeline.state.keyed_state import KeyedWorkingSet
from tests.pipeline.tasks.join_runs import JoinRun
from tests.pipeline.tasks.task_runs import one_store
from tests.pipeline.tasks.test_join_tasks import WINDOWS


def cogroup_of_join_and_stream(kind: str) -> Store:
    """Return a cogroup of a join and a stream, with sessions or with user-defined aggregators."""

    def add(_key: str, value: Any, aggregate: int) -> int:
        if "bad" in value.values():
            raise ValueError
        return aggregate + 1

    builder = StreamsBuilder()
    left, right = builder.stream("left", "l STRING"), builder.stream("right", "r STRING")
    other = builder.stream("other", "o STRING").group_by_key()
    joined_streams = left.join(right, WINDOWS).group_by_key()
    if kind == "folds":
        both = joined_streams.cogroup(add).cogroup(other, add)
        both.aggregate(lambda: 0, lambda _, one, two: one + two, "n BIGINT").materialize("s")
        return one_store(builder.build())
    sessions = SessionWindows.of_inactivity_gap_with_no_grace(0)
    both = joined_streams.cogroup(pairs=count()).cogroup(other, others=count())
    both.windowed_by(sessions).aggregate().materialize("s")
    return one_store(builder.build())


@pytest.mark.parametrize(
    ("kind", "late", "bad"), [("sessions", {"late": 1, "late_results": 2}, "x"),
    ("folds", {"dead_lettered": 1, "rejected_results": 2}, "bad")],
)  # fmt: skip
@pytest.mark.parametrize("tasks", [1, 3])
def test_records_merged_with_a_join_count_as_records(
    tmp_path: Path, kind: str, late: dict[str, int], bad: str, tasks: int
) -> None:
    """Late and invalid records count as records. Late and invalid join results count as results."""
    run = JoinRun(tmp_path, cogroup_of_join_and_stream(kind), ("l", "r", "o"))
    first = {p: [("b", 12, "x")] for p in (0, 1)}
    run.take({0: first, 1: first, 2: first}, tasks)
    run.take({0: {1: [("a", 10, bad)]}, 1: {0: [("a", 10, "y")] * 2}, 2: {1: [("a", 9, bad)]}}, 1)
    counters = {name: number for name, number in run.counters.items() if number}
    # Each of two left records with each of two right ones, and the later pairs.
    assert counters == {"input": 10, "applied": 9, **late}


def updates(how: str) -> Store:
    """Return a count of the updates of two joined tables."""
    builder = StreamsBuilder()
    left, right = builder.table("left", "l STRING"), builder.table("right", "r STRING")
    both = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[how](right)
    both.to_stream().group_by_key().aggregate(n=count()).materialize("s")
    return one_store(builder.build())


def changes(*, is_joined: bool) -> Store:
    """Return a count of the changes of one table or two. A ``JoinRun`` has no grouping steps."""
    builder = StreamsBuilder()
    table = builder.table("left", "l STRING")
    table = table.left_join(builder.table("right", "r STRING")) if is_joined else table
    table.group_by("l").aggregate(n=count(), named=count("l")).materialize("s")
    return one_store(builder.build())


def all_rows(self: KeyedState, keys: pa.ChunkedArray, *_closing: Any) -> KeyedWorkingSet:
    """Return all rows as the working set of any batch."""
    rows = self.all_rows()
    hashes = np.concatenate([key_hashes(keys), key_hashes(rows["key"])])
    return KeyedWorkingSet(np.unique(hashes), rows)


def run_random(directory: Path, store: Store, seed: int) -> JoinRun:
    """Twenty batches of changing sizes, by changing numbers of tasks."""
    random = Random(seed)
    run = JoinRun(directory, store, ("l", "r")[: len(store.topics)])
    for number in range(20):
        taken = {
            side: {
                p: [
                    (random.choice("abcdefgh"), number, random.choice(["v", "w", None]))
                    for _ in range(random.choice([0, 0, 1, 3]))
                ]
                for p in (0, 1)
            }
            for side in (0, 1)
        }
        run.take(taken, random.choice([1, 2, 2, 2, 3]))
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    "store",
    [updates("inner"), updates("left"), updates("outer"),
     changes(is_joined=False), changes(is_joined=True)],
    ids=["inner", "left", "outer", "changes", "changes of two"],
)  # fmt: skip
def test_updates_of_tables_need_the_rows_of_their_keys_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, store: Store
) -> None:
    """With all rows as the state, each batch has the same results, counts and table rows."""
    runs = []
    for name in ("needed", "all"):
        if name == "all":
            monkeypatch.setattr(KeyedState, "working_set", all_rows)
        runs.append(run_random(tmp_path / name, store, seed=3))
    one, other = runs
    assert len(one.results) > 30
    assert sorted(map(str, one.results)) == sorted(map(str, other.results))
    assert one.counters == other.counters
