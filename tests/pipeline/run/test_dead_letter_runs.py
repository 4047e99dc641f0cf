"""Invalid records in one run, and what happens when they are sent again."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from oriel import StreamsBuilder, Topology
from oriel.pipeline.operations.dead_letters import command as dead_letters
from oriel.storage import DataLayout
from tests.pipeline.run.topic_logs import Stores, write_topics

pytestmark = pytest.mark.slow

#: A line, and the reason, store, key and time of its dead letter.
POISON: list[tuple[bytes, str, str | None, bytes | None, int | None]] = [
    (b"\xff{", "not-utf8", None, None, None),
    (b"hello", "not-json", None, None, None),
    (b'{"key":"cut","timestamp_ms":1', "not-json", None, None, None),
    (b'{"key":"two","timestamp_ms":1}{}', "not-json", None, None, None),
    (b"[]", "wrong-type", None, None, None),
    (b'{"key":"f","value":{"v":"x"},"timestamp_ms":2}', "wrong-type", None, b"f", 2),
    (b'{"key":5,"value":{"v":1},"timestamp_ms":3}', "wrong-type", None, None, 3),
    (b'{"key":"t","value":{"v":1}}', "missing-timestamp", None, b"t", None),
    (b'{"key":"n","value":{"v":1},"timestamp_ms":-4}', "negative-timestamp", None, b"n", -4),
    (
        b'{"key":"l","value":{"v":1},"timestamp_ms":999999999999999}',
        "timestamp-too-large", None, b"l", 999_999_999_999_999,
    ),
    (b'{"key":null,"value":{"v":1},"timestamp_ms":5}', "null-key", "s", None, 5),
    (
        b'{"key":"%b","value":{"v":1},"timestamp_ms":6}' % (b"x" * 8193),
        "key-too-long", "s", b"x" * 8193, 6,
    ),
    (b'{"key":"v","value":null,"timestamp_ms":6}', "null-value", "s", b"v", 6),
    (b'{"key":"r","value":{"v":13},"timestamp_ms":7}', "function-raised", "s", b"r", 7),
]  # fmt: skip
#: The number that the function rejects.
UNLUCKY = 13
GOOD: list[Any] = [("a", 8, {"v": 1}), ("b", 9, {"v": 2}), ("drop", 9, {"v": 0})]


def refuse_13(_key: str, value: dict[str, Any], total: int) -> int:
    """Add up, and raise on one number."""
    if value["v"] == UNLUCKY:
        message = "bad luck"
        raise ValueError(message)
    return total + int(value["v"])


def add(_key: str, one: int, other: int) -> int:
    """Add the totals of two partitions."""
    return one + other


def by_function() -> Topology:
    """Return a store whose function raises on one value."""
    builder = StreamsBuilder()
    values = builder.stream("t", "v INT").filter("v > 0 OR v IS NULL").group_by_key()
    totals = values.aggregate(lambda: 0, refuse_13, add, "total BIGINT")
    totals.materialize("s")
    return builder.build()


@pytest.mark.parametrize("small_batch_bytes", [0, 2**26])
def test_each_kind_of_poison_is_counted_and_kept(
    spark: SparkSession, tmp_path: Path, small_batch_bytes: int
) -> None:
    """In Spark and in the driver, counters balance and dead letters have their record's fields."""
    write_topics(tmp_path / "log", {"t": {0: [*GOOD, *(line for line, *_ in POISON)]}})
    stores = Stores(spark, tmp_path)
    stores.run(by_function(), small_batch_bytes=small_batch_bytes)
    assert stores.counters("s") == {
        "input": len(POISON) + 3, "applied": 2, "late": 0, "dead_lettered": len(POISON),
        "filtered": 1,
    }  # fmt: skip
    table = DeltaTable(DataLayout(tmp_path / "data").dead_letters).to_pyarrow_table()
    names = ("raw", "reason", "store", "key", "timestamp_ms")
    rows = table.sort_by("offset").to_pylist()
    assert [tuple(row[name] for name in names) for row in rows] == POISON


def test_a_record_on_which_a_mended_function_raises_no_more_is_applied_when_it_is_sent_again(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A record that fails again is a dead letter again, and a further replay sends it."""
    bad = [b'{"key":"f","value":{"v":13},"timestamp_ms":2}', b"hello"]
    write_topics(tmp_path / "log", {"t": {0: [("f", 1, {"v": 7}), *bad]}})
    stores = Stores(spark, tmp_path)
    stores.run(by_function())
    assert [(row["key"], row["total"]) for row in stores.newest("s")] == [("f", 7)]
    replay = ["replay", "--data", str(tmp_path / "data"), "--event-log", str(tmp_path / "log")]
    for more in ([], ["--store", "s"]):
        assert dead_letters.main([*replay, *more]) == 0
        assert "1 records were sent" in capsys.readouterr().out
    monkeypatch.setattr(f"{__name__}.UNLUCKY", 0)
    stores.run(by_function())
    assert [(row["key"], row["total"]) for row in stores.newest("s")] == [("f", 20)]
    assert stores.counters("s") == {
        "input": 5, "applied": 2, "late": 0, "dead_lettered": 3, "filtered": 0
    }  # fmt: skip
    assert dead_letters.main([*replay, "--dry-run"]) == 0
    assert "1 records would be sent" in capsys.readouterr().out
    assert dead_letters.main(["list", "--data", str(tmp_path / "data"), "--json"]) == 0
    rows = [orjson.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert sorted(row["reason"] for row in rows) == ["function-raised", "not-json", "not-json"]
    repeated, first = [row for row in rows if row["reason"] == "not-json"]
    assert repeated["repeats_offset"] == first["offset"]
    assert (repeated["replayed_ms"], first["repeats_offset"]) == (None, None)
    assert [row["replayed_ms"] is None for row in rows].count(True) == 1
