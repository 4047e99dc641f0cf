"""Stores that keep partial aggregates in real runs: windows of 10 ms merge to windows of 60 ms."""

from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from oriel import StreamsBuilder, TimeWindows, Topology
from oriel import aggregates as agg
from oriel.app.server import Service
from oriel.pipeline.operations import compact, verify
from oriel.sql.queries import Limits, open_queries
from oriel.storage import PARTIALS_COLUMN, DataLayout, IncompatibleStore
from oriel.tables import current
from tests.app.api_client import ApiClient, index_store
from tests.pipeline.run.topic_logs import Stores, random_times, write_topics

pytestmark = pytest.mark.slow

GRACE_MS = 10_000
STORES = ("clicks", "both", "items")


def topology(*, mergeable: bool = True) -> Topology:
    """Return each store twice: with windows of 10 ms that can be merged, and with 60 ms."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", "v DOUBLE, i INT, s STRING, a ARRAY<DOUBLE>")
    # The columns have the names of the other stream, and other types.
    orders = builder.stream("orders", "v BIGINT, s STRING").group_by_key()
    flattened = clicks.flat_map_values(item="a").group_by_key()
    for size_ms, suffix in ((10, ""), (60, "_long")):
        windows = TimeWindows.of_size_and_grace(size_ms, GRACE_MS)
        is_short = mergeable and size_ms == 10
        clicks.group_by_key().windowed_by(windows).aggregate(
            n=agg.count(), mean=agg.avg("v"), whole_mean=agg.avg("i"), total=agg.sum("v"),
            spread=agg.stddev("v"), whole_spread=agg.stddev("i"), least=agg.min("s"),
            names=agg.approx_count_distinct("s", lg_k=8), middle=agg.approx_quantile("v", 0.5),
            high=agg.approx_quantile("i", 0.9), newest=agg.last("s"),
        ).materialize(f"clicks{suffix}", final_table=is_short, mergeable=is_short)  # fmt: skip
        clicks.group_by_key().cogroup(
            clicks=agg.count(), mean=agg.avg("v"), first=agg.first("s")
        ).cogroup(orders, orders=agg.count("v"), whole_mean=agg.avg("v")).windowed_by(
            windows
        ).aggregate().materialize(f"both{suffix}", mergeable=is_short)
        flattened.windowed_by(windows).aggregate(
            first=agg.first("item"), last=agg.last("item"), mean=agg.avg("item")
        ).materialize(f"items{suffix}", mergeable=is_short)
    return builder.build()


def write_log(directory: Path, seed: int, first_ms: int = 0) -> None:
    """Append random records of two topics, from a time on."""
    random = Random(seed)
    doubles = (0.1, 1e16, -1e16, 1.0, 5e-324, -0.0, 3.7, None)

    def click() -> dict[str, Any]:
        items = [random.random() for _ in range(random.randrange(4))]
        return {"v": random.choice(doubles), "i": random.choice((2**31 - 1, -7, 3, None)),
                "s": random.choice("abcdefgé"), "a": items}  # fmt: skip

    def order() -> dict[str, Any]:
        return {"v": random.choice((2**63 - 1, -5, 8)), "s": "x"}

    topics = {
        topic: {
            partition: [
                (random.choice("abc"), first_ms + time_ms, value())
                for time_ms in random_times(random, 100, 1_000)
            ]
            for partition in (0, 1)
        }
        for topic, value in (("clicks", click), ("orders", order))
    }
    write_topics(directory / "log", topics)


class Reads:
    """The service of the tables of runs."""

    def __init__(self, stores: Stores) -> None:
        self.layout = DataLayout(stores.directory / "data")
        for name in STORES:
            for suffix in ("", "_long"):
                index_store(self.layout, name + suffix)
        self.service = Service(self.layout.root)
        self.client = ApiClient(self.service)

    def windows(self, target: str) -> list[Any]:
        """Return the windows of a response."""
        response = self.client.get(f"/v1/stores/{target}")
        assert response.status == 200, response.body
        assert response.json["next_cursor"] is None
        return list(response.json["windows"])

    def assert_equal(self) -> None:
        """Ranges of 60 ms equal the windows of 60 ms, also as of the version of the table."""
        for name in STORES:
            wanted = self.windows(f"{name}_long/all?limit=10000")
            merged = self.windows(f"{name}/mergedAll?step_ms=60&limit=10000")
            assert merged == wanted != []
            version = DeltaTable(self.layout.table(name)).version()
            target = f"{name}/mergedAll?step_ms=60&limit=10000&as_of_version={version}"
            assert self.windows(target) == wanted
        self.service.catalog.close()


def assert_hidden(stores: Stores) -> None:
    """Only the table of the store has the column, and tools that read current rows omit it."""
    data = stores.directory / "data"
    with_partials = DeltaTable(data / "tables" / "clicks").to_pyarrow_table()
    assert with_partials[PARTIALS_COLUMN].null_count == 0
    rows = current(data / "tables" / "clicks")
    names = [n for n in with_partials.column_names if n not in {"deleted", "revision"}]
    names.remove(PARTIALS_COLUMN)
    assert rows.arrow().column_names == rows.duckdb().columns == names
    assert rows.polars().collect_schema().names() == names
    statement = "SELECT * FROM clicks"
    limits = Limits(seconds=60, rows=1_000, memory=2**28, temporary=2**28)
    with open_queries({"clicks": data / "tables" / "clicks"}, statement, limits) as queries:
        assert queries.run(statement).rows.column_names == names
    final = DeltaTable(data / "final" / "clicks").to_pyarrow_table()
    assert final.column_names == [*(n for n in names if n != "final"), "revision"]
    assert verify.main(["--data", str(data)]) == 0


def test_merged_windows_equal_longer_windows(spark: SparkSession, tmp_path: Path) -> None:
    """All aggregates are equal over any batches, also after a compaction and a new index."""
    write_log(tmp_path, 1)
    stores = Stores(spark, tmp_path)
    stores.run(topology(), batch_bytes=6_000)
    reads = Reads(stores)
    reads.assert_equal()
    write_log(tmp_path, 2, 1_000)
    # The records before this one become final.
    last = ("z", 60_000, None)
    write_topics(tmp_path / "log", {t: {0: [last], 1: [last]} for t in ("clicks", "orders")})
    stores.run(topology(), batch_bytes=6_000)
    reads = Reads(stores)
    reads.assert_equal()
    for name in STORES:
        data = str(reads.layout.root)
        assert compact.main([name, "--data", data, "--all"]) == 0
    Reads(stores).assert_equal()
    assert_hidden(stores)


def test_the_option_needs_a_rebuild(spark: SparkSession, tmp_path: Path) -> None:
    """A changed option is rejected with the command, and a rebuild sets or removes it."""
    write_log(tmp_path, 3)
    stores = Stores(spark, tmp_path)
    stores.run(topology(mergeable=False))
    for name in STORES:
        with pytest.raises(
            IncompatibleStore,
            match=r"(?s)mergeable aggregates was none.*mean = avg of double.*rebuild",
        ):
            stores.run(topology())
        text = DataLayout(tmp_path / "data").table(name) / "_delta_log"
        assert "partials" not in (text / f"{0:020d}.json").read_text()
    for name in STORES:
        stores.rebuild(topology(), name)
    write_log(tmp_path, 4, 1_000)
    stores.run(topology())
    Reads(stores).assert_equal()
    with pytest.raises(
        IncompatibleStore, match=r"(?s)mean = avg of double.*says none.*oriel rebuild"
    ):
        stores.run(topology(mergeable=False))
    stores.rebuild(topology(mergeable=False), "clicks")
    assert (
        PARTIALS_COLUMN
        not in DeltaTable(tmp_path / "data" / "tables" / "clicks").schema().to_json()
    )
    reads = Reads(stores)
    problem = reads.client.get("/v1/stores/clicks/mergedAll?step_ms=60")
    assert problem.status == 400
    assert b"mergeable=True" in problem.body
    detail = orjson.loads(reads.client.get("/v1/stores/both").body)
    assert detail["definition"]["mergeable"] == ["clicks", "mean", "first", "orders", "whole_mean"]
    reads.service.catalog.close()
