"""Updates of joined tables after all stages: functions and topics see them in apply order.

A batch has records of all tables and partitions. The slow model returns the updates of each record.
"""

import operator
from functools import partial, reduce
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oriel import StreamsBuilder, TimeWindows, Topology
from oriel.pipeline.language.tables import SourceTable
from oriel.testing import Record
from tests.models.joins import Arrived, Tree
from tests.models.table_updates import JoinedUpdate, Model, Values, tables_of
from tests.windows.join_batches import batches, random_cuts, random_logs
from tests.windows.topologies.runs import StagesRun, Written

# Spark is slow, so these tests are not in the inner loop.
pytestmark = pytest.mark.slow

TREES: dict[str, Tree] = {
    "two": ("left", 0, 1),
    "three": ("outer", ("inner", 0, 1), 2),
    "four": ("left", ("outer", 0, 1), ("inner", 2, 3)),
}
LOGS = 4


def joined(builder: StreamsBuilder, tree: Tree) -> SourceTable:
    """Return the joined tables of a tree. The first table is filtered."""
    if isinstance(tree, int):
        one = builder.table(f"t{tree}", f"v{tree} STRING")
        return one.filter("v0 IS NOT NULL") if tree == 0 else one
    how, left, right = tree
    step = "join" if how == "inner" else f"{how}_join"
    table: SourceTable = getattr(joined(builder, left), step)(joined(builder, right))
    return table


def text_of(row: Values | dict[str, Any] | None, sign: str) -> str:
    """Return the text that functions append for a call. A deleted row has no values."""
    values = [] if row is None else [str(value) for _, value in sorted(row.items()) if value]
    return f"{sign}[{','.join(values)}]"


def added(_key: str, row: dict[str, Any] | None, text: str) -> str:
    """Append an update, or a row that is added."""
    return text + text_of(row, "+")


def taken(_key: str, row: dict[str, Any], text: str) -> str:
    """Append a row that is removed."""
    return text + text_of(row, "-")


def no_merger(_key: str, left: str, right: str) -> str:
    """Fail, because no aggregates are merged."""
    raise AssertionError(left, right)


def written(builder: StreamsBuilder, tree: Tree) -> None:
    """Write the updates to a topic."""
    joined(builder, tree).to_stream().to("out")


def of_all(builder: StreamsBuilder, tree: Tree) -> None:
    """Aggregate the updates of all keys to one string. Windows also accept null values."""
    stream = joined(builder, tree).to_stream().select_key("'all'").group_by_key()
    stream.windowed_by(TimeWindows.of_size_and_grace(10**6, 10**6)).aggregate(
        str, added, no_merger, "text STRING"
    ).materialize("store")


def of_groups(builder: StreamsBuilder, tree: Tree) -> None:
    """Aggregate the changes of all keys to one string."""
    joined(builder, tree).group_by("'all'").aggregate(
        str, added, taken, no_merger, "text STRING"
    ).materialize("store")


def topology_of(define: Any) -> Topology:
    """Return the topology that `define` creates."""
    builder = StreamsBuilder()
    define(builder)
    return builder.build()


class _Batches:
    """Random logs of the tables of a tree, batch by batch, as records and for the model."""

    def __init__(self, tree: Tree, seed: int, *, wants_old: bool) -> None:
        self._random = Random(seed)
        self._sides = [
            random_logs(self._random, f"t{table}.", 0.3) for table in sorted(tables_of(tree))
        ]
        self._model = Model(tree, frozenset({0}), wants_old=wants_old)
        #: The updates of the model so far, in apply order.
        self.emitted: list[tuple[Arrived, JoinedUpdate]] = []

    def fed(self, run: StagesRun) -> StagesRun:
        """Return the run after all batches, each with one to three tasks."""
        for batch in batches(self._sides, random_cuts(self._sides, self._random)):
            taken: dict[str, dict[int, list[Record]]] = {}
            for table, records in enumerate(batch.new):
                of_topic = taken.setdefault(f"t{table}", {p: [] for p in self._sides[table]})
                for one in records:
                    value = None if one.value is None else {f"v{table}": one.value}
                    of_topic[one.partition].append(Record(one.key, value, one.time))
            run.take(taken, self._random.choice((1, 2, 3)))
            given = [(side, one) for side, records in enumerate(batch.new) for one in records]
            results = self._model.process(given)
            self.emitted += [(one, emitted) for _, one, emitted in results if emitted is not None]
        return run


@pytest.mark.parametrize("name", TREES)
def test_a_topic_has_the_updates_of_a_key_as_they_take_effect(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """The last record of a key is its row, or a tombstone."""
    topology, compared = topology_of(partial(written, tree=TREES[name])), 0
    for seed in range(LOGS):
        given = _Batches(TREES[name], seed, wants_old=False)
        run = given.fed(StagesRun(topology, tmp_path / str(seed)))
        for key in {one.key for one, _ in given.emitted}:
            assert [one for one in run.written if one.key == key] == [
                Written.of(key, emitted.time, _named(emitted.new))
                for one, emitted in given.emitted
                if one.key == key
            ], f"seed {seed}"
        compared += len(run.written)
    assert compared > 50


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("define", [of_all, of_groups])
def test_functions_are_called_as_updates_take_effect(
    spark: SparkSession, tmp_path: Path, name: str, define: Any
) -> None:
    """Calls for all partitions are in one order, so a row is added before it is removed."""
    topology, calls = topology_of(partial(define, tree=TREES[name])), 0
    for seed in range(LOGS):
        given = _Batches(TREES[name], seed, wants_old=define is of_groups)
        run = given.fed(StagesRun(topology, tmp_path / str(seed)))
        texts = [_called(emitted, changes=define is of_groups) for _, emitted in given.emitted]
        found = [row["text"] for _, row in run.rows.values()]
        assert "".join(found) == reduce(operator.add, texts, ""), f"seed {seed}"
        calls += len(texts)
    assert calls > 50


def _named(values: Values | None) -> dict[str, Any] | None:
    return None if values is None else {f"v{table}": value for table, value in values.items()}


def _called(emitted: JoinedUpdate, *, changes: bool) -> str:
    if not changes:
        return text_of(emitted.new, "+")
    parts = [(emitted.old, "-"), (emitted.new, "+")]
    return "".join(text_of(row, sign) for row, sign in parts if row is not None)
