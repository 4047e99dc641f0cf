"""Late records in real runs: their record ids, restarts, and batches in Spark or in the driver."""

from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

from oriel import SessionWindows, StreamsBuilder, TimeWindows, Topology
from oriel.pipeline.windows import Windows
from tests.pipeline.run.topic_logs import Stores, write_topics

pytestmark = pytest.mark.slow

_SIZE_MS, _GAP_MS = 20, 7


def _topology() -> Topology:
    """Store each late record of tumbling windows and of sessions by its record id."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", "v BIGINT").group_by_key()
    definitions: dict[str, Windows] = {
        "hours": TimeWindows.of_size_with_no_grace(_SIZE_MS),
        "visits": SessionWindows.of_inactivity_gap_with_no_grace(_GAP_MS),
    }
    for store, windows in definitions.items():
        windowed = clicks.windowed_by(windows)
        windowed.count().materialize(store)
        late = windowed.late_records().select_key("record_partition", "record_offset")
        late.to_table().materialize(f"late_{store}")
    return builder.build()


@pytest.mark.parametrize("small_batch_bytes", [0, 2**26], ids=["Spark", "this process"])
def test_each_late_record_has_one_row_with_its_record_id(
    spark: SparkSession, tmp_path: Path, small_batch_bytes: int
) -> None:
    """The number of rows is the counter of late records, and each row finds its line in the log."""
    random = Random(5)
    stores = Stores(spark, tmp_path)
    for part in range(2):
        log: dict[int, list[Any]] = {
            partition: [
                (random.choice("ab"), 3 * n + random.randint(0, 60), {"v": n})
                for n in range(100 * part, 100 * part + 100)
            ]
            for partition in (0, 1)
        }
        write_topics(tmp_path / "log", {"clicks": log})
        stores.run(_topology(), batch_bytes=3_000, small_batch_bytes=small_batch_bytes)
    for store in ("hours", "visits"):
        rows = stores.newest(f"late_{store}")
        late = stores.counters(store)["late"]
        assert late > 20
        assert stores.counters(f"late_{store}") == {
            "input": 400, "applied": late, "late": 0, "dead_lettered": 0, "filtered": 400 - late,
        }  # fmt: skip
        assert len(rows) == late
        for row in rows:
            assert row["record_topic"] == "clicks"
            path = tmp_path / "log" / "clicks" / f"{row['record_partition']}.jsonl"
            line = orjson.loads(path.read_bytes()[row["record_offset"] :].split(b"\n")[0])
            assert line["value"]["v"] == row["v"]
            at = line["timestamp_ms"]
            start = at // _SIZE_MS * _SIZE_MS if store == "hours" else at
            assert (row["timestamp"], row["first_missed_start_ms"]) == (at, start)
            end = start + (_SIZE_MS if store == "hours" else 0)
            assert row["last_missed_end_ms"] == end
