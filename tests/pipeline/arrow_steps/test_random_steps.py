"""Arrow and Spark run the same program, for random sequences of steps."""

import random
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from oriel import Consumed, InvalidTopology, Serdes, StreamsBuilder
from oriel.pipeline.language import (
    Branches,
    Filter,
    FlatMapValues,
    MapValues,
    Step,
    ValueSerde,
    arrow_schema,
)
from oriel.pipeline.lowered import Input, LookupKey, OwnKey, lower_node
from oriel.pipeline.rows import RowSteps
from oriel.pipeline.stage_columns import StepsOutput
from tests.pipeline.arrow_steps.stepped import Row, assert_same_rows, decoded

# Spark is slow, so these tests are not in the inner loop.
pytestmark = pytest.mark.slow

SCHEMA = "n BIGINT, w STRING, l ARRAY<STRING>"
VALUES = arrow_schema(SCHEMA)
SOURCE = StreamsBuilder().stream("t", SCHEMA).group_by_key().origins[0].operation.source
ROWS: list[Row | None] = [
    {"n": n, "w": w, "l": elements}
    for n, w, elements in [
        (1, "a", ["x", None, "a"]), (-3, "b|\\", []), (None, "a", None), (7, None, ["a"]),
        (2**62, "", [None]), (0, "a", ["x"] * 3),
    ]
]  # fmt: skip


def random_steps(choice: random.Random) -> tuple[Step, ...]:
    """Return up to six steps. All rows have the columns ``n`` and ``w`` after each step."""
    steps: list[Step] = []
    has_list, can_delete = True, choice.random() < 0.3
    for _ in range(choice.randint(0, 6)):
        kind = choice.choice(("filter", "map", "key", "flat", "lookup", "branches"))
        if kind == "filter":
            condition = choice.choice(("n > 0", "w = 'a'", "key IS NOT NULL", "n % 2 = 1"))
            steps.append(
                Filter(
                    condition, choice.random() < 0.5, of_table=can_delete and choice.random() < 0.5
                )
            )
        elif kind == "map":
            columns = choice.choice(({}, {"n": "n + 1"}, {"W": "concat(w, key)", "m": "n * 2"}))
            key = choice.choice(((), (), ("w",), ("n", "key")))
            steps.append(MapValues(("*",), columns, key))
        elif kind == "key":
            steps.append(MapValues(("n", "W", *(("l",) if has_list else ())), {}, ("w",)))
        elif kind == "flat" and has_list:
            steps.append(FlatMapValues(("n", "w"), {"l": "l"}))
            has_list = False
        elif kind == "lookup":
            steps += [LookupKey("w"), Filter("n <> 7"), OwnKey()]
        elif kind == "branches":
            shared = choice.choice((MapValues(("*",), {"n": "n - 1"}, ("w",)), Filter("n < 5")))
            first, second = Filter("n > 0"), Filter("n > 0", is_negated=True)
            other = (MapValues(("*",), {}, ("key",)),) if shared.new_key else ()
            steps.append(Branches(((first, shared), (second, *other))))
    return tuple(steps)


@pytest.mark.parametrize("seed", range(24))
def test_arrow_and_spark_run_the_same_program(spark: SparkSession, seed: int) -> None:
    """Rows, keys and reasons are equal, also if a store reads only some of the columns."""
    choice = random.Random(seed)
    group_by = choice.choice(((), ("w",), ("n", "w")))
    origin = Input(SOURCE, random_steps(choice), group_by)
    records = decoded(VALUES, ROWS)
    empty = spark.createDataFrame([], from_arrow_schema(records.schema))
    steps = RowSteps(empty, origin, "s").arrow
    assert steps is not None, str(origin)
    assert_same_rows(spark, steps, origin, records)
    steps.select(StepsOutput(steps.values.names, null_values=True, any_key=True))
    rows = steps.rows(records)
    for name in steps.values.names:
        steps.select(StepsOutput([name], null_values=True, any_key=True))
        pruned: pa.Table = steps.rows(records)
        assert pruned.equals(rows.select(pruned.column_names)), f"{name} of {origin}"


@pytest.mark.parametrize(
    "steps",
    [
        (MapValues(("*",), {"y": "n + 1", "z": "y * 2"}),),
        (Filter("n > 0"), Filter("w = 'a'"), MapValues(("w",), {"y": "n + 1", "Z": "Y * y"})),
        (MapValues(("w",), {"n": "n + 1", "z": "n * 2"}), Filter("z > 0")),
        (MapValues(("*",), {"y": "concat(w, 'x')", "z": "concat(y, y)"}, ("w",)), Filter("z > y")),
    ],
)
def test_a_column_of_the_same_step_needs_no_spark(
    spark: SparkSession, steps: tuple[Step, ...]
) -> None:
    """A computed column can read an earlier one of its step, unless a column has this name."""
    origin = Input(SOURCE, steps)
    records = decoded(VALUES, ROWS)
    empty = spark.createDataFrame([], from_arrow_schema(records.schema))
    arrow = RowSteps(empty, origin, "s").arrow
    assert arrow is not None
    assert_same_rows(spark, arrow, origin, records)


@pytest.mark.parametrize("serde", [Serdes.json(), Serdes.avro()])
def test_columns_of_all_types_pass_through(spark: SparkSession, serde: ValueSerde) -> None:
    """Arrow runs steps that keep, rename and test maps, dates, decimals and bytes."""
    schema = "n INT, m MAP<STRING, INT>, o STRUCT<m: MAP<STRING, ARRAY<INT>>>"
    if serde == Serdes.json():
        schema += ", d DATE, p DECIMAL(10, 2), b BINARY, l ARRAY<DATE>"
    stream = StreamsBuilder().stream("t", schema, Consumed(value_serde=serde))
    steps = stream.filter("m IS NOT NULL").map_values("*", has="o IS NULL", q="o.m").filter("n > 0")
    origin = lower_node(steps.group_by("n").origins[0])
    rows: list[Row | None] = [
        {"n": n, "m": m, "o": {"m": {"k": [1, None]}}, "d": date(2024, 1, 1), "p": Decimal("1.50"),
         "b": b"\xff", "l": [None]}
        for n, m in ((1, {"a": 1}), (2, {}), (3, None), (0, {"": None}))
    ]  # fmt: skip
    records = decoded(arrow_schema(schema), rows)
    empty = spark.createDataFrame([], from_arrow_schema(records.schema))
    arrow = RowSteps(empty, origin, "s").arrow
    assert arrow is not None
    assert_same_rows(spark, arrow, origin, records)
    arrow.select(StepsOutput(arrow.values.names, null_values=True))
    assert arrow.rows(records)["q"].to_pylist()[:2] == [[("k", [1, None])]] * 2


def test_a_map_in_a_branch_keeps_a_column_of_any_type(spark: SparkSession) -> None:
    """A branch can rename a struct, which no function of Arrow has as a result."""
    source = StreamsBuilder().stream("t", "v BIGINT, s STRUCT<a: BIGINT>").group_by_key()
    first = (Filter("v > 0"), MapValues(("*",), {"t": "s"}), MapValues(("v",), {"u": "t.a"}))
    second = (Filter("v > 0", is_negated=True), MapValues(("v",), {"u": "s.a"}))
    origin = Input(source.origins[0].operation.source, (Branches((first, second)),))
    rows: list[Row | None] = [{"v": v, "s": {"a": v}} for v in (-1, 0, 1)]
    records = decoded(arrow_schema("v BIGINT, s STRUCT<a: BIGINT>"), rows)
    empty = spark.createDataFrame([], from_arrow_schema(records.schema))
    arrow = RowSteps(empty, origin, "s").arrow
    assert arrow is not None
    assert_same_rows(spark, arrow, origin, records)


def test_a_step_cannot_read_an_expression_of_an_earlier_step(spark: SparkSession) -> None:
    """The columns with which steps are checked do not exist when a batch runs."""
    origin = Input(SOURCE, (Filter("n > 0"), MapValues(("*",), {"y": "__expression_0_0"})))
    empty = spark.createDataFrame([], from_arrow_schema(decoded(VALUES, []).schema))
    with pytest.raises(InvalidTopology, match="__expression_0_0"):
        RowSteps(empty, origin, "s")
