"""Stores with typed keys, from an event log to the index, in Spark."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

from oriel import Serdes, StreamsBuilder, TimeWindows, Topology, count
from oriel.storage import DataLayout, IncompatibleStore, ScanRange
from oriel.storage.delta import DeltaLog
from oriel.storage.index import IndexDirectory, IndexReader
from oriel.storage.tailer.store import StoreTailer
from tests.pipeline.run.rebuilt_stores import Bench
from tests.pipeline.run.topic_logs import Record, Stores, write_topics

pytestmark = pytest.mark.slow

TEXT_AND_LONG = (Serdes.string(), Serdes.long())
#: Key, city and car of each record.
TRIPS: list[tuple[str, str | None, int | None]] = [
    ("10", "a|b", 10), ("9", "a|b", 9), ("-3", 'q"', 0), ("abc", "a", -1), ("007", "a", None),
    ("9", "é\\", 2**63 - 1), ("9223372036854775808", None, 1), ("256", "a", 256), ("1", "", 7),
]  # fmt: skip
#: The expected keys, in order.
BY_CAR = ["-3", "1", "9", "10", "256"]
BY_CITY = [
    '["",7]', '["a",-1]', '["a",256]', '["a|b",9]', '["a|b",10]', '["é\\\\",9223372036854775807]',
    '["q\\"",0]',
]  # fmt: skip


def by_car_and_city(key_serde: Any = Serdes.long()) -> Topology:  # noqa: B008 - frozen
    """Return a store that Arrow computes, and a store whose key needs Spark."""
    builder = StreamsBuilder()
    trips = builder.stream("trips", "city STRING, car BIGINT")
    trips.group_by_key().count().materialize("by_car", key_serde=key_serde)
    grouped = trips.group_by("reverse(reverse(city))", "car")
    windows = grouped.windowed_by(TimeWindows.of_size_and_grace(1000, 0))
    windows.aggregate(trips=count()).materialize("by_city", key_serde=TEXT_AND_LONG)
    return builder.build()


def indexed_keys(data: Path, store: str) -> list[str]:
    """Return the keys of an index that the tailer built from the table, in index order."""
    layout = DataLayout(data)
    directory = IndexDirectory(layout.index(store))
    tailer = StoreTailer(DeltaLog(layout.table(store)), directory)
    while tailer.step():
        pass
    tailer.close()
    reader = IndexReader(directory)
    with reader.snapshot() as snapshot:
        keys = [orjson.loads(entry)["key"] for entry in snapshot.scan(ScanRange()).entries]
        assert snapshot.keys("", 100).keys == list(dict.fromkeys(keys))
    reader.close()
    return keys


@pytest.mark.parametrize("small_batch_bytes", [0, 2**26])
def test_any_cut_gives_the_same_stores_in_the_order_of_their_keys(
    spark: SparkSession, tmp_path: Path, small_batch_bytes: int
) -> None:
    """Any batching has the same stores in key order, as Spark jobs and in the driver.

    Records whose key does not fit are dead letters with their bytes.
    """
    records: list[Record | bytes] = [
        (key, at, {"city": city, "car": car}) for at, (key, city, car) in enumerate(TRIPS)
    ]
    found = []
    for name, batch_bytes in (("whole", 2**26), ("cut", 200)):
        stores = Stores(spark, tmp_path / name)
        write_topics(tmp_path / name / "log", {"trips": {0: records}})
        stores.run(by_car_and_city(), batch_bytes=batch_bytes, small_batch_bytes=small_batch_bytes)
        assert indexed_keys(tmp_path / name / "data", "by_car") == BY_CAR
        assert indexed_keys(tmp_path / name / "data", "by_city") == sorted_by_value(BY_CITY)
        dead_letters = stores.dead_letters()
        assert [(store, reason) for _, _, _, store, reason, _ in dead_letters] == [
            ("by_car", "unfit-key"), ("by_car", "unfit-key"), ("by_city", "null-key"),
            ("by_car", "unfit-key"), ("by_city", "null-key"),
        ]  # fmt: skip
        assert [letter for letter in dead_letters if not letter[-1]] == []
        found.append((stores.newest("by_car"), stores.newest("by_city"), dead_letters))
        assert stores.counters("by_car")["applied"] == len(TRIPS) - 3
    assert found[0] == found[1]


def sorted_by_value(keys: list[str]) -> list[str]:
    """Return composite keys sorted by their first different component, strings by UTF-8 bytes."""

    def value(key: str) -> tuple[bytes, int]:
        city, car = orjson.loads(key)
        return city.encode(), car

    return sorted(keys, key=value)


def test_another_type_of_keys_is_refused_over_the_same_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Another key type for an existing table is rejected, and the table does not change."""
    write_topics(tmp_path / "log", {"trips": {0: [("7", 1, {"city": "a", "car": 1})]}})
    stores = Stores(spark, tmp_path)
    stores.run(by_car_and_city())
    with pytest.raises(
        IncompatibleStore, match="type of keys was long, but the topology says text"
    ) as refused:
        stores.run(by_car_and_city(None))
    assert "oriel rebuild by_car" in str(refused.value)
    stores.run(by_car_and_city())
    assert [row["key"] for row in stores.newest("by_car")] == ["7"]


def test_a_rebuild_brings_another_type_and_its_order(spark: SparkSession, tmp_path: Path) -> None:
    """After a rebuild with another key type, keys that do not fit are dead letters.

    The index follows the new order.
    """

    def by_key(key_serde: Any) -> Topology:
        builder = StreamsBuilder()
        grouped = builder.stream("t", "v INT").group_by_key()
        grouped.count().materialize("s", key_serde=key_serde)
        return builder.build()

    bench = Bench(spark, tmp_path)
    bench.append("t", 0, ("10", 1, 1), ("9", 1, 2), ("x", 1, 3))
    bench.run(by_key(None))
    assert indexed_keys(bench.settings.data, "s") == ["10", "9", "x"]
    bench.run(by_key(Serdes.long()), "s")
    assert indexed_keys(bench.settings.data, "s") == ["9", "10"]
    bench.append("t", 0, ("-1", 1, 4))
    last = bench.run(by_key(Serdes.long()))
    assert indexed_keys(bench.settings.data, "s") == ["-1", "9", "10"]
    assert last["s"].record.counters["dead_lettered"] == 1
