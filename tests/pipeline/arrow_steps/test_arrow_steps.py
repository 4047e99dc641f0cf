"""Arrow's row-wise steps return the same rows as Spark's."""

import pickle
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from oriel import InvalidTopology, Serdes, StreamsBuilder
from oriel.pipeline.arrow_steps import selecting_steps
from oriel.pipeline.language import arrow_schema
from oriel.pipeline.language.arguments import checked_key_type
from oriel.pipeline.language.formats import StoreKeySerde
from oriel.pipeline.language.grouped import KGroupedStream
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.lowered import Input, lower_node
from oriel.pipeline.stage_columns import StepsOutput, joined_schema
from oriel.pipeline.windows import RESULT_FIELDS
from tests.pipeline.arrow_steps.stepped import (
    Row,
    assert_same_rows,
    checked_steps,
    decoded,
    joined,
)

SCHEMA = "v DOUBLE, w STRING, n SMALLINT, s STRUCT<a: INT>, l ARRAY<STRING>"
VALUES = arrow_schema(SCHEMA)
ROWS: list[Row | None] = [
    {"v": 1.5, "w": "a|b\\", "n": -3, "s": {"a": 1}, "l": ["x", None]},
    {"v": None, "w": None, "n": None, "s": None, "l": None},
    {"v": 2.0, "w": "", "n": 0, "s": {"a": None}, "l": []},
]


def stream(schema: str = SCHEMA) -> KStream:
    """Return a stream of the test's topic in a new topology."""
    return StreamsBuilder().stream("t", schema)


def with_typed_keys(grouped: KGroupedStream, serde: StoreKeySerde) -> Input:
    """Return the grouped stream with the keys of a store with ``key_serde``."""
    key_type = checked_key_type("s", grouped.origins, serde)
    return replace(lower_node(grouped.origins[0]), key_type=key_type)


PLAIN = [
    stream().group_by_key(),
    stream().group_by("w"),
    stream().map_values("n", "v").group_by("n"),
    stream().map_values("*").map_values("w", "*", "w").group_by("timestamp_ms"),
    stream().map_values("l", "s").group_by("key"),
]


@pytest.mark.slow
@pytest.mark.parametrize("grouped", PLAIN)
def test_steps_that_choose_columns_need_no_spark(spark: SparkSession, grouped: object) -> None:
    """Steps that only choose columns equal Spark's, also for invalid records and after pickling."""
    origin = lower_node(grouped.origins[0])  # type: ignore[attr-defined]
    steps = selecting_steps(origin, origin.source)
    assert steps is not None
    sent = pickle.loads(pickle.dumps(steps))  # noqa: S301
    assert_same_rows(spark, sent, origin, decoded(VALUES, ROWS))


_TYPED_ROWS: list[Row | None] = [
    {"w": w, "n": n}
    for w in ("a|b\\", "", 'é\n\x00"', "7", "-0", "007", '["a",1]', '["a", 1]', "\\|", None)
    for n in (-3, 0, None)
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grouped", "serde"),
    [
        (stream().group_by_key(), Serdes.long()),
        (stream().group_by("w"), Serdes.long()),
        (stream().group_by("n"), Serdes.long()),
        (stream().group_by("w"), (Serdes.string(), Serdes.long())),
        (stream().group_by("w", "n"), (Serdes.string(), Serdes.long())),
        (stream().filter("n < 1").group_by("n", "w"), (Serdes.long(), Serdes.string())),
        (stream().group_by("n", "w", "key"), (Serdes.string(),) * 3),
        (stream().group_by("w", "n"), (Serdes.long(), Serdes.long())),
        (stream().group_by("repeat('|', 4090)", "n"), (Serdes.string(), Serdes.long())),
        (stream().group_by("repeat('é', 4095)", "n"), (Serdes.string(), Serdes.long())),
    ],
)
def test_typed_keys_are_those_of_spark(
    spark: SparkSession, grouped: KGroupedStream, serde: StoreKeySerde
) -> None:
    """Arrow and Spark reject the same values for the same reasons. Valid keys fit their type."""
    origin = with_typed_keys(grouped, serde)
    records = decoded(VALUES, _TYPED_ROWS)
    _, steps = checked_steps(spark, origin, records, [])
    assert steps is not None
    assert_same_rows(spark, pickle.loads(pickle.dumps(steps)), origin, records)  # noqa: S301
    steps.select(StepsOutput([], null_values=True))
    rows = steps.rows(records)
    good = rows.filter(pc.and_(pc.is_null(rows["reason"]), rows["keep"]))
    assert False not in origin.key_type.fitting(good["key"].combine_chunks()).to_pylist()


@pytest.mark.slow
def test_columns_become_the_components_of_a_key(spark: SparkSession) -> None:
    """Columns with any content become the components of a key. A null component is a null key."""
    origin = with_typed_keys(stream().group_by("w", "n"), (Serdes.string(), Serdes.long()))
    rows: list[Row | None] = [{"w": "a|b\\", "n": -3}, {"w": 'é"', "n": 7}, {"w": "a", "n": None}]
    records = decoded(VALUES, rows)
    _, steps = checked_steps(spark, origin, records, [])
    assert steps is not None
    keyed = steps.rows(records).slice(0, 3)
    assert keyed["key"].to_pylist() == ['["a|b\\\\",-3]', '["é\\"",7]', None]
    assert keyed["reason"].to_pylist() == [None, None, "null-key"]


@pytest.mark.slow
def test_results_of_a_join_pass_with_their_reports(spark: SparkSession) -> None:
    """A row that only has a reason is not a record. It keeps its position and skips all steps."""
    grouped = stream().map_values("n", "w").group_by("w")
    read = joined_schema(pa.schema([*RESULT_FIELDS, *VALUES]))
    steps = selecting_steps(lower_node(grouped.origins[0]), read)
    assert steps is not None
    rows = [row for row in ROWS if row is not None]
    assert_same_rows(spark, steps, lower_node(grouped.origins[0]), joined(VALUES, rows))


@pytest.mark.slow
def test_a_side_of_a_join_keeps_its_key(spark: SparkSession) -> None:
    """An input of a join without `group_by` keeps the key of the record."""
    side = Input(stream().group_by_key().origins[0].operation.source, (), is_grouped=False)
    steps = selecting_steps(side, side.source)
    assert steps is not None
    assert_same_rows(spark, steps, side, decoded(VALUES, ROWS))


@pytest.mark.parametrize(
    "grouped",
    [
        stream().filter("v > 1").group_by_key(),
        stream().map_values(x="v + 1").group_by_key(),
        stream().map_values("V").group_by_key(),
        stream().group_by("v"),
        stream().group_by("w", "n"),
        stream().group_by("W"),
        stream().group_by("lower(w)"),
        stream("`null` STRING").group_by("null"),
    ],
)
def test_expressions_are_sparks(grouped: object) -> None:
    """Arrow has no steps for SQL, names in another case, and keys that only Spark can format."""
    origin = lower_node(grouped.origins[0])  # type: ignore[attr-defined]
    assert selecting_steps(origin, origin.source) is None


def _branched(*, maps: bool) -> KStream:
    chosen = stream().map_values("v", "w", "n", "l")
    ways = chosen.filter("n IS NULL OR n < 5").split().branch("v > 1.7", "a").branch("w = ''")
    branches = ways.default_branch("rest")
    if not maps:
        return branches["a"].merge(branches["rest"])
    first = branches["a"].map_values("l", "n", v="v * 2", w="concat(w, 'a')")
    rest = branches["rest"].filter("n IS NOT NULL").map(("w", "n"), "*", n="cast(1 AS SMALLINT)")
    return first.select_key("key", "n").merge(rest)


@pytest.mark.slow
@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize("of_join", [False, True])
def test_branches_are_merged_as_spark_does_it(
    spark: SparkSession, *, maps: bool, of_join: bool
) -> None:
    """Each row has the key and the columns of its branch, also if a column is a list."""
    origin = lower_node(_branched(maps=maps).group_by_key().origins[0])
    rows = [row for row in ROWS if row is not None]
    records = joined(VALUES, rows) if of_join else decoded(VALUES, ROWS)
    row_steps, steps = checked_steps(spark, origin, records, ())
    assert steps is not None
    assert row_steps.values.names == (["v", "w", "l", "n"] if maps else ["v", "w", "n", "l"])
    assert_same_rows(spark, steps, origin, records)


def test_a_name_that_is_taken_is_refused() -> None:
    """Arrow's steps reject a reserved column name, as Spark's steps do."""
    origin = lower_node(stream("key STRING").group_by_key().origins[0])
    with pytest.raises(InvalidTopology, match="Leave them out of the schema"):
        selecting_steps(origin, origin.source)
