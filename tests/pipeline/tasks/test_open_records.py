"""The number of rows in the state of a store, in batches without records of its topics."""

from pathlib import Path

from oriel import JoinWindows, StreamsBuilder, Topology
from oriel.pipeline.plan import PreparedBatch
from oriel.testing import Record
from tests.windows.topologies.runs import StagesRun


def _two_joins() -> Topology:
    """Return a topology whose store counts the results of two joins of streams."""
    builder = StreamsBuilder()
    a, b, c, d = (builder.stream(topic, f"{topic} BIGINT") for topic in "abcd")
    windows = JoinWindows.of_time_difference_and_grace(1_000, 0)
    left = a.join(b, windows).map_values(n="a + b")
    right = c.join(d, windows).map_values(n="c + d")
    left.merge(right).group_by_key().count().materialize("s")
    return builder.build()


def _prepared(run: StagesRun) -> PreparedBatch:
    """Return the last batch of the only store."""
    (store,) = run._stores
    assert store._previous is not None
    return store._previous


def _records(topic: str, count: int) -> dict[str, dict[int, list[Record]]]:
    return {topic: {0: [Record(f"k{n}", {topic: n}, 1) for n in range(count)]}}


def test_a_batch_without_records_keeps_the_number_of_rows(tmp_path: Path) -> None:
    """A join or a store without a task has the state of the previous batch, and its rows."""
    run = StagesRun(_two_joins(), tmp_path)
    run.take(_records("a", 3), tasks=1)
    assert _prepared(run).open_records == 3
    # Only the second join runs.
    run.take(_records("c", 5), tasks=1)
    assert _prepared(run).open_records == 3 + 5
    run.take({}, tasks=1)
    assert _prepared(run).open_records == 3 + 5
    run.take(_records("d", 2), tasks=1)
    # Two rows of the join, and two groups of the store.
    assert _prepared(run).open_records == 3 + 5 + 2 + 2
    assert _prepared(run).join_open_records == {0: 3, 1: 5 + 2}


def test_a_batch_of_an_earlier_version_has_no_rows_of_joins(tmp_path: Path) -> None:
    """It has only the sum. The next batch with records counts each state again."""
    run = StagesRun(_two_joins(), tmp_path)
    run.take(_records("a", 3), tasks=1)
    text = _prepared(run).to_json().replace(b',"join_open_records":{"0":3}', b"")
    run._stores[0]._previous = PreparedBatch.from_json(text)
    run.take({}, tasks=1)
    assert _prepared(run).open_records == 3
    run.take(_records("a", 1), tasks=1)
    assert _prepared(run).open_records == 3 + 1
