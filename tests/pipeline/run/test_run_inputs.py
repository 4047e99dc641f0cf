"""Runs over several topics on real Spark, compared with slow models."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oriel import StreamsBuilder, count, sum
from oriel.pipeline.commit import store_batch
from oriel.pipeline.lowered import lower
from tests.models.run_inputs import Model
from tests.pipeline.run.inputs_run import Done, whole
from tests.pipeline.run.inputs_topology import RUBBISH, every_input
from tests.pipeline.run.topic_logs import Record, Stores, line, offsets, write_topics

pytestmark = pytest.mark.slow

__all__ = ["whole"]


def test_a_cogroup_counts_each_topic_by_its_own_clock(whole: Done) -> None:
    """The store has one row per key and window, with the aggregates of both topics."""
    rows, late = whole.model.cogroup()
    assert whole.stores.newest("cogroup") == rows
    assert late > 0
    # Two lines are invalid, and one record of each topic has no key.
    assert whole.stores.counters("cogroup") == {
        "input": 144, "applied": 140 - late, "late": late, "dead_lettered": 4, "filtered": 0,
    }  # fmt: skip


def test_merged_streams_are_one_with_the_clocks_of_both(whole: Done) -> None:
    """The records of one stream have new keys, also if they had no key."""
    rows, late = whole.model.merged()
    assert whole.stores.newest("merged") == rows
    assert late > 0
    assert whole.stores.counters("merged") == {
        "input": 144, "applied": 141 - late, "late": late, "dead_lettered": 3, "filtered": 0,
    }  # fmt: skip


def test_flattened_records_have_their_own_counters(whole: Done) -> None:
    """Each order has two flattened records, also without a key. A late order has two late ones."""
    rows, late = whole.model.parts()
    assert whole.stores.newest("parts") == rows
    assert late > 0
    assert whole.stores.counters("parts") == {
        "input": 83, "applied": 81, "late": 0, "dead_lettered": 2, "filtered": 0,
        "elements": 162, "elements_applied": 162 - late, "elements_late": late,
        "elements_dead_lettered": 0, "elements_filtered": 0,
    }  # fmt: skip


def test_distinct_records_equal_the_slow_model(whole: Done) -> None:
    """Late records and duplicates are counted, and the other records continue."""
    rows, late, duplicates = whole.model.distinct()
    assert whole.stores.newest("distinct") == rows
    assert late > 0
    assert duplicates > 10
    assert whole.stores.counters("distinct") == {
        "input": 83, "applied": 80 - late - duplicates, "late": late, "dead_lettered": 3,
        "filtered": duplicates,
    }  # fmt: skip


def test_processed_records_equal_the_slow_model(whole: Done) -> None:
    """Records and timers have rows, and a record on which the function raises is a dead letter."""
    rows, raised = whole.model.processed()
    assert whole.stores.newest("processed") == rows
    timers = [of for row in rows for of in row["ids"] if of.endswith(" orders")]
    assert len(timers) > 5
    assert len(raised) > 5
    failed = [letter for letter in whole.stores.dead_letters() if letter[3] == "processed"]
    of_function = [letter[:3] for letter in failed if letter[4] == "function-raised"]
    assert of_function == sorted((("orders", *place) for place in raised), key=str)
    assert whole.stores.counters("processed") == {
        "input": 83, "applied": 80 - len(raised), "late": 0, "dead_lettered": 3 + len(raised),
        "filtered": 0, "late_results": 0, "rejected_results": 0,
    }  # fmt: skip


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_windows_after_a_join_equal_the_slow_model(whole: Done, how: str) -> None:
    """Rows, including final rows, and counters equal the record-by-record join."""
    rows, model, late_results = whole.model.joined(how)
    assert rows
    assert whole.stores.newest(how) == rows
    late = len(model.left_late) + len(model.right_late)
    assert late > 0
    assert whole.stores.counters(how) == {
        "input": 144, "applied": 140 - late, "late": late, "dead_lettered": 4, "filtered": 0,
        "late_results": late_results,
        "rejected_results": 0,
    }  # fmt: skip


def test_joins_are_chained(whole: Done) -> None:
    """A table join, a new key, a stream join and another table join count each record once."""
    rows = whole.model.chained()
    assert [row for row in rows if row["names"]], f"no row has a name: {rows}"
    assert whole.stores.newest("chained") == rows
    _, model, late_results = whole.model.joined("inner")
    late = len(model.left_late) + len(model.right_late)
    # The rows of users are joined twice.
    assert whole.stores.counters("chained") == {
        "input": 176, "applied": 172 - late, "late": late, "dead_lettered": 4, "filtered": 0,
        "late_results": late_results, "rejected_results": 0, "table_records": 32,
    }  # fmt: skip


def test_pairs_join_elements(whole: Done) -> None:
    """The results of a stream join are joined with another stream, which is flattened."""
    rows, late = whole.model.joined_twice()
    assert max(row["n"] for row in rows) > 1
    assert whole.stores.newest("joined_twice") == rows
    assert late.records > 0
    assert late.elements > 0
    # Orders are read twice. The second reading filters out the record without a key.
    assert whole.stores.counters("joined_twice") == {
        "input": 227, "applied": 220 - late.records, "late": late.records, "dead_lettered": 6,
        "filtered": 1, "late_results": late.results, "rejected_results": 0,
        "elements": 160, "elements_applied": 160 - late.elements, "elements_late": late.elements,
        "elements_dead_lettered": 0, "elements_filtered": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("store", "wanted"),
    [
        ("plain", Model.plain),
        ("named", Model.named),
        ("enriched", Model.enriched),
        ("both_tables", lambda model: model.tables("outer")),
        ("common_rows", lambda model: model.tables("inner")),
        ("updated", Model.updated),
        ("by_foreign_key", Model.by_foreign_key),
        ("some_users", Model.some_users),
        ("newest_by_city", Model.newest_by_city),
        ("names", Model.names),
    ],
    ids=[
        "filter",
        "stream-table",
        "stream-global table",
        "table-table outer",
        "table-table inner",
        "updates of three tables",
        "table-table by a foreign key",
        "table filter",
        "table groups",
        "table groups by functions",
    ],
)
def test_stores_without_windows_hold_all_records(
    whole: Done, store: str, wanted: Callable[[Model], Any]
) -> None:
    """Each store has one row per key: of a filtered stream, a stream with a table, two tables."""
    rows = wanted(whole.model)
    assert len(rows) > 1
    assert whole.stores.newest(store) == rows
    whole.stores.counters(store)


def test_each_record_of_tables_joined_by_a_foreign_key_counts_once(whole: Done) -> None:
    """Left rows are also read for their foreign keys, but this is not an input of its own."""
    # Orders with two invalid lines and a record without a key, and users.
    assert whole.stores.counters("by_foreign_key") == {
        "input": 83 + 16, "applied": 80 + 16, "late": 0, "dead_lettered": 3, "filtered": 0,
        "late_results": 0, "rejected_results": 0,
    }  # fmt: skip


def test_a_record_that_a_function_raises_on_is_a_dead_letter(whole: Done) -> None:
    """The dead letter has offset, bytes and reason. It is counted and changes no window."""
    rows, raised = whole.model.folded()
    assert whole.stores.newest("folded") == rows
    assert len(raised) > 5
    failed = [
        letter
        for letter in whole.stores.dead_letters()
        if letter[3:5] == ("folded", "function-raised")
    ]
    by_place = {
        (partition, place): line(record)
        for partition, log in whole.topics["orders"].items()
        for place, record in zip(offsets(log), log, strict=True)
    }
    assert failed == sorted(
        (
            ("orders", partition, place, "folded", "function-raised", by_place[partition, place])
            for partition, place, _ in raised
        ),
        key=str,
    )
    counters = whole.stores.counters("folded")
    assert counters["input"] == 83
    # In addition to the two invalid lines and the record without a key.
    assert counters["dead_lettered"] == len(raised) + 3


def test_a_record_that_is_invalid_for_all_stores_is_one_dead_letter(whole: Done) -> None:
    """An invalid line is one dead letter, although several stores and join inputs read it."""
    dead_letters = whole.stores.dead_letters()
    rubbish = [letter for letter in dead_letters if letter[4] == "not-json"]
    assert [(letter[0], letter[1], letter[3], letter[5]) for letter in rubbish] == [
        ("orders", 0, None, RUBBISH),
        ("orders", 1, None, RUBBISH),
    ]
    keyless = [(letter[0], letter[3]) for letter in dead_letters if letter[4] == "null-key"]
    assert sorted(keyless) == [
        *(
            ("orders", name)
            for name in (
                "by_foreign_key",
                "chained",
                "cogroup",
                "distinct",
                "enriched",
                "folded",
                "inner",
                "joined_twice",
                "left",
                "named",
                "newest_by_city",
                "outer",
                "processed",
                "updated",
            )
        ),
        *(
            ("paid", name)
            for name in ("chained", "cogroup", "inner", "joined_twice", "left", "merged", "outer")
        ),
    ]
    assert len(dead_letters) == len(set(dead_letters))


def test_the_position_covers_the_topics_that_a_store_reads(whole: Done) -> None:
    """Each store has a position in each of its own topics."""
    for store in lower(every_input()).stores:
        record = whole.stores.last[store.name].record
        assert sorted(record.offsets) == sorted(store.topics)
        for topic in store.topics:
            directory = whole.stores.directory / "log" / topic
            sizes = {path.stem: path.stat().st_size for path in directory.iterdir()}
            assert record.offsets[topic] == sizes


def test_a_schema_that_only_spark_can_read_serves_several_stores(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Only Spark reads a schema with a comment, so Spark decodes the records, once for two stores.

    One store has steps, and a function in `peek` receives each record once.
    """
    seen = tmp_path / "seen"

    def note(key: str | None, value: dict[str, Any] | None, _timestamp_ms: int) -> None:
        assert value is not None
        with seen.open("a") as file:
            file.write(f"{key}{value['n']}\n")

    builder = StreamsBuilder()
    events = builder.stream("t", "n INT, m MAP<STRING, INT> COMMENT 'tags'")
    some = events.filter("m['a'] > 1").peek(note)
    some.group_by_key().aggregate(n=count()).materialize("filtered")
    events.map_values("n").group_by_key().aggregate(total=sum("n")).materialize("chosen")
    records = [("k", n, {"n": n, "m": {"a": n}}) for n in range(5)]
    write_topics(tmp_path / "log", {"t": {0: [*records, RUBBISH], 1: records}})
    stores = Stores(spark, tmp_path)
    stores.run(builder.build())
    assert [row["n"] for row in stores.newest("filtered")] == [6]
    assert [row["total"] for row in stores.newest("chosen")] == [20]
    assert stores.counters("filtered")["filtered"] == 4
    assert sorted(seen.read_text().split()) == ["k2", "k2", "k3", "k3", "k4", "k4"]
    assert len(stores.dead_letters()) == 1


@pytest.mark.parametrize("small_batch_bytes", [0, 2**26], ids=["Spark", "this process"])
def test_a_topic_that_is_read_with_two_schemas_reaches_both_stores(
    spark: SparkSession, tmp_path: Path, small_batch_bytes: int
) -> None:
    """Each source decodes all records of a partition, and its store counts them."""
    builder = StreamsBuilder()
    numbers = builder.stream("t", "n INT").group_by_key()
    numbers.aggregate(total=sum("n")).materialize("numbers")
    texts = builder.stream("t", "s STRING").group_by_key()
    texts.aggregate(n=count()).materialize("texts")
    records = [(f"k{n % 2}", n, {"n": n, "s": str(n)}) for n in range(6)]
    write_topics(tmp_path / "log", {"t": {0: records, 1: records[:4]}})
    stores = Stores(spark, tmp_path)
    stores.run(builder.build(), small_batch_bytes=small_batch_bytes)
    assert [(row["key"], row["total"]) for row in stores.newest("numbers")] == [
        ("k0", 8),
        ("k1", 13),
    ]
    assert [(row["key"], row["n"]) for row in stores.newest("texts")] == [("k0", 5), ("k1", 5)]


def test_a_small_state_runs_in_one_task(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Spark job or a larger state has all tasks. Later small batches continue in one task."""
    builder = StreamsBuilder()
    builder.stream("t", "n INT").group_by_key().aggregate(total=sum("n")).materialize("s")
    topology, stores = builder.build(), Stores(spark, tmp_path)
    records: list[Record | bytes] = [(f"k{n}", n, {"n": n}) for n in range(20)]
    monkeypatch.setattr(store_batch, "ONE_TASK_BATCHES", 1)

    def tasks_after(small_batch_bytes: int) -> int:
        write_topics(tmp_path / "log", {"t": {0: records}})
        stores.run(topology, small_batch_bytes=small_batch_bytes)
        return len(stores.last["s"].segments)

    assert tasks_after(2**26) == 1
    assert tasks_after(0) == 2
    assert tasks_after(2**26) == 2
    monkeypatch.setattr(store_batch, "ONE_TASK_BATCHES", 0)
    assert tasks_after(2**26) == 1
    monkeypatch.setattr(store_batch, "ONE_TASK_ROWS", 19)
    assert tasks_after(2**26) == 2
    assert [(row["key"], row["total"]) for row in stores.newest("s")] == sorted(
        (f"k{n}", 5 * n) for n in range(20)
    )
