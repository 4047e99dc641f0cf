"""Names and keys in row-wise steps: reserved names are rejected, and keys stay distinct."""

import itertools
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oriel import InvalidTopology, StreamsBuilder
from oriel.pipeline.language import reject_internal_names
from oriel.pipeline.language.grouped import KGroupedStream
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.lowered import lower_node
from oriel.pipeline.rows import RowSteps
from oriel.pipeline.stage_columns import STAGE_COLUMNS, StepsOutput
from tests.pipeline.rows.decoded import decoded_columns

# Spark is slow, so these tests are not in the inner loop.
pytestmark = pytest.mark.slow

SCHEMA = "v DOUBLE, w STRING"


def stream(schema: str = SCHEMA) -> KStream:
    """Return a stream of the test's topic in a new topology."""
    return StreamsBuilder().stream("t", schema)


def rows_of(spark: SparkSession, grouped: KGroupedStream, values: list[Any]) -> list[Any]:
    """Run the steps over records with these values, and return the rows in order."""
    schema = decoded_columns(grouped.origins[0].operation.source.schema)
    records = spark.createDataFrame(
        [(0, place, b"", None, "k", 1, value, None) for place, value in enumerate(values)], schema
    ).coalesce(1)
    steps = RowSteps(records, lower_node(grouped.origins[0]), "s")
    steps.select(StepsOutput(["v"], null_values=False))
    return steps.rows(records).collect()


def test_different_parts_make_different_keys(spark: SparkSession) -> None:
    """All pairs of strings with bars and backslashes have distinct composite keys."""
    texts = ["".join(t) for n in range(3) for t in itertools.product("a|\\", repeat=n)]
    pairs = list(itertools.product(texts, repeat=2))
    schema = "v STRING, w STRING"
    rows = rows_of(spark, stream(schema).group_by("v", "w"), pairs)
    assert len({row.key for row in rows}) == len(pairs)
    escaped = [
        "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in pair) for pair in pairs
    ]
    assert [row.key for row in rows] == escaped


def test_one_part_is_not_escaped(spark: SparkSession) -> None:
    """A single column is the key unchanged, as Spark's string."""
    rows = rows_of(spark, stream().group_by("w"), [(1.0, "a|b\\"), (1.0, "")])
    assert [row.key for row in rows] == ["a|b\\", ""]
    numbers = rows_of(spark, stream().group_by("v"), [(1.0, "x"), (None, "x")])
    assert [(row.key, row.reason) for row in numbers] == [("1.0", None), (None, "null-key")]


def test_steps_apply_in_the_order_in_which_they_are_written(spark: SparkSession) -> None:
    """A filter reads the columns of the steps before it, and not of the steps after it."""
    steps = stream().map_values("w", v="v + 1").filter("v > 2").map_values(v="v * 10", w="w")
    rows = rows_of(spark, steps.group_by("w"), [(1.0, "a"), (2.0, "b"), (None, "c")])
    assert [(row.keep, row.v, row.key) for row in rows] == [
        (False, None, None),
        (True, 30.0, "b"),
        (False, None, None),
    ]


@pytest.mark.parametrize(
    ("grouped", "name"),
    [
        (stream("Key STRING").group_by_key(), "Key"),
        (stream("v DOUBLE, TIMESTAMP_MS BIGINT").group_by_key(), "TIMESTAMP_MS"),
        (stream().map_values("*", key="upper(w)").group_by_key(), "key"),
        (stream().map_values("*", KEY="upper(w)").group_by_key(), "KEY"),
        (stream().map_values("*", timestamp_ms="1").group_by_key(), "timestamp_ms"),
        (stream().map_values("*", __keep="true").group_by_key(), "__keep"),
    ],
    ids=["schema", "schema time", "map key", "map KEY", "map time", "map __keep"],
)
def test_no_value_column_hides_the_record(
    spark: SparkSession, grouped: KGroupedStream, name: str
) -> None:
    """Names that the pipeline needs are rejected in any case, in schemas and in steps."""
    with pytest.raises(InvalidTopology, match=f"{name}.*names that the pipeline needs"):
        rows_of(spark, grouped, [])


@pytest.mark.parametrize("name", sorted(STAGE_COLUMNS - {"key", "timestamp_ms"}))
def test_a_value_column_with_a_name_of_the_rows_can_be_renamed(
    spark: SparkSession, name: str
) -> None:
    """It is rejected only if an aggregation reads it. The message has the solution."""
    schema = decoded_columns(f"{name}: STRING")
    records = spark.createDataFrame([(0, 0, b"", None, "k", 1, ("x",), None)], schema)
    grouped = stream(f"{name} STRING").group_by_key()
    with pytest.raises(InvalidTopology, match=rf"store 's'.*{name}.*Rename them .*map_values"):
        reject_internal_names(
            "s", RowSteps(records, lower_node(grouped.origins[0]), "s").values.names
        )
    renamed = stream(f"{name} STRING").map_values(other=name).group_by_key()
    steps = RowSteps(records, lower_node(renamed.origins[0]), "s")
    steps.select(StepsOutput(["other"], null_values=False))
    assert [row.other for row in steps.rows(records).collect()] == ["x"]


def test_a_python_function_in_a_step_reads_the_same_in_every_run(spark: SparkSession) -> None:
    """A store's table has its grouping, so the grouping must not contain a memory address."""

    def grouped() -> KGroupedStream:
        shout = F.udf(str.upper)
        return stream("w STRING").filter(shout("w") != "X").group_by(shout(F.col("w")), "w")

    one = grouped()
    # Created at another line, with other objects.
    other = grouped()
    assert lower_node(one.origins[0]).grouping == lower_node(other.origins[0]).grouping
    assert str(one.origins[0].steps[0]) == str(other.origins[0].steps[0])
    assert lower_node(one.origins[0]).grouping == "Column<'upper(w)'>, w"
    for text in (lower_node(one.origins[0]).grouping, str(one.origins[0].steps[0])):
        assert "Origin" not in text
        assert "@" not in text


def test_what_a_python_function_is_given_is_written_as_in_sql(spark: SparkSession) -> None:
    """People read them in errors and in the description of a topology."""
    assert spark is not None
    shout = F.udf(str.upper)
    step = lower_node(
        stream("s STRUCT<a: STRING>, w STRING").map_values(x=shout("s.a", F.lit(3))).origins[0]
    )
    assert str(step.steps[0]) == "map_values(x=Column<'upper(s.a, 3)'>)"
