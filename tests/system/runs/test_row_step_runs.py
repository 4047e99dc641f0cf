"""Steps after an aggregation in real runs: restarts, tables, rebuilds, messages."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from oriel import EmitStrategy, StreamsBuilder, TimeWindows, Topology, count, sum
from oriel.pipeline.language import Publication
from oriel.pipeline.sinks import row_messages
from oriel.pipeline.sources import EventLog
from oriel.storage import IncompatibleStore, StoreDefinition
from oriel.storage.definition import STORE_PROPERTY
from oriel.storage.index import table_batches
from tests.pipeline.run.rebuilt_stores import Bench, newest_rows

pytestmark = pytest.mark.slow

#: Keys whose sums alternately pass the filter.
KEYS = "abcdef"
HALVES = [
    [(key, time + place, time) for time in times for place, key in enumerate(KEYS)]
    for times in (range(0, 30, 2), range(30, 70, 2))
]
WINDOWS = TimeWindows.of_size_and_grace(10, 5)


def topology(condition: str = "total % 3 = 0") -> Topology:
    """Return an aggregation with and without steps: live, final rows only, and unwindowed."""
    builder = StreamsBuilder()
    grouped = builder.stream("t", "v INT").group_by_key()
    windowed = grouped.windowed_by(WINDOWS)
    closing = windowed.emit(EmitStrategy.on_window_close())
    for name, stream in (("live", windowed), ("closed", closing), ("ever", grouped)):
        table = stream.aggregate(n=count(), total=sum("v"))
        table.materialize(f"{name}_whole")
        steps = table.filter(condition).map_values("n", mean="total / n", what="concat(key, '!')")
        steps.materialize(name)
    return builder.build()


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    """Return a bench without records."""
    return Bench(spark, tmp_path)


def _passing(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that pass the steps."""
    return [
        {
            **{name: value for name, value in row.items() if name != "total"},
            "mean": row["total"] / row["n"],
            "what": f"{row['key']}!",
        }
        for row in rows
        if row["total"] % 3 == 0
    ]


@pytest.mark.parametrize("small_batch_bytes", [0, 2**26], ids=["spark", "driver"])
def test_a_run_with_restarts_has_the_rows_that_pass(bench: Bench, small_batch_bytes: int) -> None:
    """Runs with restarts have the passing rows, in Spark jobs and in the driver.

    The batches are small and large.
    """
    for number, half in enumerate(HALVES):
        bench.append("t", 0, *half)
        bench.append("t", 1, *half[::3])
        batch_bytes = (2_000, 5_000)[number]
        bench.run(
            topology(),
            log=EventLog(bench.log, batch_bytes, small_batch_bytes=small_batch_bytes),
        )
        for name in ("live", "closed", "ever"):
            rows = bench.newest(name)
            assert rows == _passing(bench.newest(f"{name}_whole")) != []
    removed = {name: sum_of_removed(bench, name) for name in ("live", "closed", "ever")}
    assert removed["closed"] == 0 < min(removed["live"], removed["ever"])


def sum_of_removed(bench: Bench, store: str) -> int:
    """Return how many rows of a store's table are deletions."""
    table = DeltaTable(bench.settings.data / "tables" / store).to_pyarrow_table()
    return len(table.filter(table["deleted"]))


def test_a_table_says_what_its_columns_are(bench: Bench) -> None:
    """The definition has the steps, and each column's expression and type."""
    bench.append("t", 0, *HALVES[0])
    bench.run(topology())
    table = DeltaTable(bench.settings.data / "tables" / "live")
    definition = StoreDefinition.from_json(table.metadata().configuration[STORE_PROPERTY])
    assert [str(aggregate) for aggregate in definition.aggregates] == [
        "n = count() long",
        "mean = total / n double",
        "what = concat(key, '!') string",
    ]
    what = "what=\"concat(key, '!')\""
    assert definition.steps == (
        "t",
        f"rows.filter('total % 3 = 0').map_values('n', mean='total / n', {what})",
    )
    assert {field.name for field in table.schema().fields} == {
        "key", "window_start", "window_end", "n", "mean", "what", "timestamp", "final", "deleted",
        "revision",
    }  # fmt: skip


def test_other_steps_are_refused_and_a_rebuild_brings_them(bench: Bench) -> None:
    """A rebuild with another filter restores earlier filtered rows from the state."""
    bench.append("t", 0, *HALVES[0])
    bench.run(topology())
    other = topology("n >= 3 OR key = 'b'")
    with pytest.raises(
        IncompatibleStore,
        match=r"(?s)chain of steps was t; rows.filter\('total % 3 = 0'\).*\"n >= 3 .*oriel rebuild",
    ):
        bench.run(other)
    for store in ("live", "closed", "ever"):
        bench.run(other, store)
    bench.append("t", 0, *HALVES[1])
    bench.assert_as_fresh(other, "live", "closed", "ever")


def test_a_row_that_left_is_a_message_without_a_value(bench: Bench) -> None:
    """A removed row is a tombstone, like Kafka's. A store of final rows does not send it."""
    bench.append("t", 0, *HALVES[0])
    bench.run(topology(), log=EventLog(bench.log, 600))
    directory = bench.settings.data / "tables" / "live"
    table = DeltaTable(directory)
    definition = StoreDefinition.from_json(table.metadata().configuration[STORE_PROPERTY])
    files = map(Path, table.file_uris())
    rows = pa.concat_tables([batch for file in files for batch in table_batches(file, definition)])
    sent = row_messages(rows.combine_chunks(), Publication("out"), definition)
    without = [value is None for chunk in sent for value in chunk.values]
    assert Counter(without) == Counter(rows["deleted"].to_pylist())
    assert True in without
    sent = row_messages(rows, Publication("out", final_only=True), definition)
    final = [value for chunk in sent for value in chunk.values]
    assert None not in final
    assert 0 < len(final) == sum_of_final(newest_rows(directory))


def sum_of_final(rows: list[dict[str, Any]]) -> int:
    """Return how many windows are final."""
    return len([row for row in rows if row["final"]])
