"""Row-wise steps: what an expression reads, and that every row stays."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oriel import InvalidTopology, StreamsBuilder
from oriel.pipeline.language.grouped import KGroupedStream
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.lowered import lower_node
from oriel.pipeline.rows import RowSteps
from oriel.pipeline.stage_columns import StepsOutput
from tests.pipeline.rows.decoded import decoded_columns

# Spark is slow, so these tests are not in the inner loop.
pytestmark = pytest.mark.slow

SCHEMA = "v DOUBLE, w STRING"
DECODED = decoded_columns(SCHEMA)
RECORDS = (
    # partition, offset, raw, message, key, timestamp_ms, value, reason
    (0, 0, b"r0", (b"k0", 0, [("h", b"0")]), "a", 10, (2.0, "x"), None),
    (0, 1, b"r1", (b"k1", 1, [("h", b"1")]), "b", 11, (0.0, "y|z"), None),
    (0, 2, b"r2", (b"k2", 2, [("h", b"2")]), "b", 12, (None, "\\"), None),
    (0, 3, b"r3", (b"k3", 3, [("h", b"3")]), None, 13, (4.0, None), None),
    (0, 4, b"r4", (b"k4", 4, [("h", b"4")]), "d", 14, None, None),
    (0, 5, b"bad", (b"k5", 5, None), None, None, None, "not-json"),
)


def stream() -> KStream:
    """Return a stream of the test's topic in a new topology."""
    return StreamsBuilder().stream("t", SCHEMA)


def steps_of(
    records: DataFrame, grouped: KGroupedStream, *columns: str, null_values: bool = False
) -> RowSteps:
    """Return the steps of a stream into the store `s`, which reads `columns`."""
    steps = RowSteps(records, lower_node(grouped.origins[0]), "s")
    steps.select(StepsOutput(columns, null_values=null_values))
    return steps


def rows_of(spark: SparkSession, grouped: KGroupedStream, column: str = "v") -> list[Any]:
    """Run the steps over the records, and return (key, keep, reason, value) in order."""
    records = spark.createDataFrame(list(RECORDS), DECODED).coalesce(1)
    prepared = steps_of(records, grouped, column).rows(records)
    return [(row.key, row.keep, row.reason, row[column]) for row in prepared.collect()]


def test_every_row_stays_and_keeps_its_place(spark: SparkSession) -> None:
    """Without steps, every record stays. Null keys, null values and bad lines have a reason."""
    assert rows_of(spark, stream().group_by_key()) == [
        ("a", True, None, 2.0),
        ("b", True, None, 0.0),
        ("b", True, None, None),
        (None, True, "null-key", 4.0),
        ("d", True, "null-value", None),
        (None, True, "not-json", None),
    ]


def test_a_store_may_want_records_without_a_value(spark: SparkSession) -> None:
    """If a store accepts null values, such a record has `null_value` and no reason."""
    records = spark.createDataFrame(list(RECORDS), DECODED).coalesce(1)
    steps = steps_of(records, stream().group_by_key(), "v", null_values=True)
    rows = [(row.reason, row.null_value) for row in steps.rows(records).collect()]
    assert rows[2:5] == [(None, False), ("null-key", False), (None, True)]


def test_bytes_are_kept_of_bad_records_or_of_all(spark: SparkSession) -> None:
    """A store with functions keeps all bytes, because any record can still become a dead letter."""
    records = spark.createDataFrame(list(RECORDS), DECODED).coalesce(1)
    origin = lower_node(stream().group_by_key().origins[0])
    kept = {}
    for keeps_raw in (False, True):
        steps = RowSteps(records, origin, "s")
        steps.select(StepsOutput(["v"], null_values=False, keeps_raw=keeps_raw))
        kept[keeps_raw] = [row.raw and bytes(row.raw) for row in steps.rows(records).collect()]
    assert kept[False] == [None, None, None, b"r3", b"r4", b"bad"]
    assert kept[True] == [b"r0", b"r1", b"r2", b"r3", b"r4", b"bad"]


def test_messages_are_kept_of_bad_records(spark: SparkSession) -> None:
    """Records that the steps reject also keep them. A dead letter has the key of its message."""
    records = spark.createDataFrame(list(RECORDS), DECODED).coalesce(1)
    steps = RowSteps(records, lower_node(stream().group_by_key().origins[0]), "s")
    steps.select(StepsOutput(["v"], null_values=False))
    found = [row["__message"] for row in steps.rows(records).collect()]
    assert found[:3] == [None] * 3
    assert [bytes(message.key) for message in found[3:]] == [b"k3", b"k4", b"k5"]
    assert [bytes(message.headers[0].value) for message in found[3:5]] == [b"3", b"4"]


def test_filter_marks_rows_and_null_is_not_true(spark: SparkSession) -> None:
    """A filtered row is neither kept nor a dead letter. A null condition filters a row."""
    kept = [row[1] for row in rows_of(spark, stream().filter("v > 1").group_by_key())]
    assert kept == [True, False, False, True, False, False]
    reasons = [row[2] for row in rows_of(spark, stream().filter("v > 1").group_by_key())]
    assert reasons == [None, None, None, "null-key", None, "not-json"]


def test_map_values_replaces_or_extends_the_value(spark: SparkSession) -> None:
    """Columns are computed from the old value, the key and the time. `*` keeps the others."""
    computed = stream().map_values(v="v * 2 + timestamp_ms", w="key || w").group_by_key()
    assert [row[3] for row in rows_of(spark, computed)][:2] == [14.0, 11.0]
    kept = stream().map_values("*", v=F.col("v") + 1).group_by_key()
    assert [row[3] for row in rows_of(spark, kept, "w")][:2] == ["x", "y|z"]


def test_a_step_is_not_evaluated_for_deleted_rows(spark: SparkSession) -> None:
    """An expression that would fail on a filtered row does not fail the batch."""
    guarded = stream().filter("v > 1").map_values(v="IF(v > 1, v, raise_error('seen'))")
    assert rows_of(spark, guarded.group_by_key())[0][3] == 2.0


def test_group_by_joins_columns_without_ambiguity(spark: SparkSession) -> None:
    """Bars and backslashes in a component are escaped. A null component is a null key."""
    rows = rows_of(spark, stream().group_by("w", "CAST(v AS INT)"))
    assert [row[0] for row in rows][:4] == ["x|2", "y\\|z|0", None, None]
    assert [row[2] for row in rows][2:4] == ["null-key", "null-key"]


def test_a_key_may_have_8192_bytes(spark: SparkSession) -> None:
    """A longer key cannot be queried, so it is a dead letter. The limit counts bytes."""
    rows = rows_of(spark, stream().group_by("repeat(left(w, 1), 8192)"))
    assert [(row[2], len(row[0])) for row in rows[:2]] == [(None, 8192)] * 2
    rows = rows_of(spark, stream().group_by("repeat('é', 4096) || left(w, 1)"))
    assert [row[2] for row in rows[:2]] == ["key-too-long"] * 2


@pytest.mark.parametrize(
    ("grouped", "step"),
    [
        (stream().filter("nope > 1").group_by_key(), "filter('nope > 1')"),
        (stream().map_values(x="v +").group_by_key(), "map_values(x='v +')"),
        (stream().map_values("nope").group_by_key(), "map_values('nope')"),
        (stream().group_by("nope"), "group_by(nope)"),
    ],
)
def test_a_step_that_does_not_fit_is_named(
    spark: SparkSession, grouped: KGroupedStream, step: str
) -> None:
    """An unknown column or invalid SQL is one message with the store and the step."""
    with pytest.raises(InvalidTopology) as caught:
        rows_of(spark, grouped)
    assert str(caught.value).startswith(f"store 's', step {step}: ")


def test_value_columns_may_not_hide_the_record(spark: SparkSession) -> None:
    """A schema with a column named `key` is rejected, with the solution."""
    records = spark.createDataFrame([], decoded_columns("key: STRING"))
    grouped = StreamsBuilder().stream("t", "key STRING").group_by_key()
    with pytest.raises(InvalidTopology, match="Leave them out of the schema"):
        RowSteps(records, lower_node(grouped.origins[0]), "s")


@given(st.lists(st.text(alphabet="ab|\\", max_size=4), min_size=2, max_size=3, unique=True))
def test_composite_keys_can_be_taken_apart(parts: list[str]) -> None:
    """The documented escape is unambiguous, so distinct components have distinct keys."""
    joined = "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in parts)
    taken: list[str] = []
    current, escaped = "", False
    for character in joined:
        if escaped or character not in "\\|":
            current, escaped = current + character, False
        elif character == "\\":
            escaped = True
        else:
            taken, current = [*taken, current], ""
    assert [*taken, current] == parts


def test_columns_are_carried_along_untouched(spark: SparkSession) -> None:
    """Steps cannot read, remove or rename these columns."""
    records = spark.createDataFrame(list(RECORDS), DECODED).coalesce(1)
    records = records.withColumn("message", F.concat(F.lit("m"), "offset"))
    grouped = stream().filter("v > 1").map_values(message="v").group_by("message")
    steps = steps_of(records, grouped)
    plain = steps.rows(records).collect()
    carried = steps.rows(records, ["message"]).collect()
    assert [row.message for row in carried] == [f"m{place}" for place in range(6)]
    assert [row[:-1] for row in carried] == [tuple(row) for row in plain]
