"""Expressions in Arrow equal Spark's, to the last bit. Spark runs all other expressions."""

import pickle
import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from oriel import StreamsBuilder
from oriel.pipeline.language.grouped import KGroupedStream
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.lowered import lower_node
from oriel.pipeline.windows import NULL_VALUE
from oriel.storage.expressions import FUNCTIONS
from tests.pipeline.arrow_steps.expressions import (
    CONDITIONS,
    EXPRESSIONS,
    SCHEMA,
    TEXTS,
    VALUES,
    hostile_rows,
)
from tests.pipeline.arrow_steps.stepped import (
    assert_same_rows,
    checked_steps,
    decoded,
    differences,
    joined,
)

# Spark is slow, so these tests are not in the inner loop.
pytestmark = pytest.mark.slow

#: A Spark job has a high fixed cost, so each job computes many expressions.
IN_ONE_JOB = 25
RECORDS = decoded(VALUES, hostile_rows(300, seed=9))


def stream(schema: str = SCHEMA) -> KStream:
    """Return a stream of the test's topic in a new topology."""
    return StreamsBuilder().stream("t", schema)


@given(
    st.lists(EXPRESSIONS, min_size=IN_ONE_JOB, max_size=IN_ONE_JOB),
    CONDITIONS,
    st.lists(TEXTS, min_size=1, max_size=2),
)
# No shrinking: each attempt is a Spark job, and the message already names the expression.
@settings(
    max_examples=max(2, settings().max_examples // 8),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
def test_any_expression_gives_what_spark_gives(
    spark: SparkSession, expressions: list[str], condition: str, key: list[str]
) -> None:
    """Arrow equals Spark in any step, for nulls, NaN, infinities, extreme numbers, odd strings."""
    computed = {f"x{number}": one for number, one in enumerate(expressions)}
    grouped = stream().map_values("*", **computed).filter(condition).group_by(*key)
    row_steps, steps = checked_steps(spark, lower_node(grouped.origins[0]), RECORDS, list(computed))
    # A constant expression can be -0.0, which only Spark supports.
    assume(steps is not None)
    assert steps is not None
    wanted = row_steps.rows(spark.createDataFrame(RECORDS).coalesce(1)).toArrow()
    different = differences(steps.rows(RECORDS), wanted)
    assert not different, [computed.get(name, name) for name in different]


#: Expressions that use each function of the table at least once.
IN_THE_TABLE = (
    "abs(i) + n - b * 2 / v", "i div 2", "i % 3", "pmod(i, 3)", "floor(v)", "ceil(v)", "-v",
    "CAST(v AS INT)", "v < 1 AND NOT v <= 2", "v > 1 OR v >= 2 OR v = 3 OR v <> 4", "v <=> x",
    "i IN (1, 2, NULL)", "i BETWEEN 1 AND j", "v IS NULL", "v IS NOT NULL", "isnan(v)",
    "if(t, v, x)", "CASE WHEN t THEN v ELSE x END", "coalesce(v, x)", "nullif(v, x)", "nvl(i, 0)",
    "greatest(v, f, i)", "least(v, x)", "s.d.z", "length(w)", "w || y", "concat_ws('-', w, y)",
    "left(w, 2)", "substring(w, 2)", "replace(w, 'a', 'b')", "trim(w)", "ltrim(w)", "rtrim(w)",
    "w LIKE 'a%'", "w LIKE '%a'", "w LIKE '%a%'", "w LIKE 'a'", "contains(w, 'a')",
    "startswith(w, 'a')", "endswith(w, 'a')", "split(w, 'a')", "array(v, x)",
    "slice(split(w, 'a'), 2, 1)", "d >= '2024-01-01'", "d <=> e", "CAST(d AS STRING)", "p > 5",
    "p BETWEEN 1 AND q", "p IN (1, 2.5)", "coalesce(p, 0)", "CAST(p AS DOUBLE)",
    "CAST(r AS STRING)", "g < h", "h = X'FF'", "s IS NULL", "s.d IS NOT NULL", "array(d, e)",
    "IF(t, p, q)",
)  # fmt: skip


def test_the_whole_table_is_run_by_arrow(spark: SparkSession) -> None:
    """Arrow runs every expression of the list, and the list uses each function of the table."""
    computed = {f"x{number}": one for number, one in enumerate(IN_THE_TABLE)}
    origin = lower_node(stream().map_values("w", "i", **computed).group_by("w", "i").origins[0])
    for expression in IN_THE_TABLE:
        single = lower_node(stream().map_values(x=expression).group_by_key().origins[0])
        assert checked_steps(spark, single, RECORDS, [])[1] is not None, expression
    steps = checked_steps(spark, origin, RECORDS, list(computed))[1]
    assert steps is not None
    assert set(re.findall(r"function='(\w+)'", repr(steps.program))) == set(FUNCTIONS)


STEPS = [
    # A step computes a column from the old column of this name, and the next step reads it.
    stream()
    .map_values("w", v="v * 2")
    .map_values("*", n="v + 1", b="n * 2")
    .group_by("w", "v > 2"),
    stream().filter("v > 1").filter("i IS NOT NULL").map_values(x="1 / v", w="w").group_by_key(),
    stream().filter("false").group_by("'all'"),
    stream().map_values(x="CAST(i AS DOUBLE) = CAST(CAST(i AS FLOAT) AS DOUBLE)").group_by_key(),
    stream().map_values(x="CAST(CASE WHEN t THEN -2.5F ELSE i END AS DOUBLE)").group_by_key(),
    stream().map_values(x="greatest(v, CASE i WHEN s.d.z THEN -2.5F ELSE i END)").group_by_key(),
    stream().map_values("V", w="'x'", key_length="length(key)").group_by("key", "timestamp_ms"),
    stream().map_values("s", z="s.d.z").filter("z = z").group_by("s.a"),
    stream()
    .select_key("w", "i")
    .filter_not("key = '|0'")
    .map("concat(key, '!')", "*", k="key")
    .group_by_key(),
    stream()
    .filter("i > 0")
    .flat_map(("key", "part"), "i", part="split(w, 'a')", n="i + 1")
    .filter("part <> ''")
    .group_by("part"),
    stream().flat_map_values("*", w="split(w, ' ')").group_by("i"),
    stream()
    .filter("i > 0")
    .flat_map_values("w", v="array(v, x, -1)")
    .filter("v < 9")
    .group_by("w"),
    # Flattened records are flattened again around a filter. Some have no elements.
    stream()
    .flat_map_values("v", "i", w="split(w, 'a')")
    .filter("w <> ''")
    .flat_map_values("v", w="CASE WHEN i > 0 THEN array(w, concat(w, '!'), 'z') END", y="v + 1")
    .flat_map_values("w", v="array(v, y)")
    .group_by("w"),
    StreamsBuilder()
    .table("t", SCHEMA)
    .filter("i > 1")
    .to_stream()
    .flat_map_values("i", w="split(w, 'a')", n="i + 1")
    .group_by("w"),
    StreamsBuilder()
    .table("t", SCHEMA)
    .filter("i > 1")
    .map_values("w", x="coalesce(j, 1)")
    .filter_not("w = ''")
    .to_stream()
    .group_by_key(),
]


@pytest.mark.parametrize("grouped", STEPS, ids=lambda grouped: str(grouped.origins[0].steps))
def test_steps_follow_each_other_as_sparks_do(spark: SparkSession, grouped: KGroupedStream) -> None:
    """Steps equal Spark's steps. Computed columns of invalid and filtered records are null."""
    origin = lower_node(grouped.origins[0])
    steps = checked_steps(spark, origin, RECORDS, [])[1]
    assert steps is not None
    assert_same_rows(spark, pickle.loads(pickle.dumps(steps)), origin, RECORDS)  # noqa: S301


def test_texts_are_split_as_sparks_are(spark: SparkSession) -> None:
    """`split` with a literal separator equals Spark's, also if the string repeats or lacks it."""
    separators = ("a", "b", "ab", "aa", " ", "é", "😀", "A", "\u0301", "\0", "/", "a b")
    split = {f"x{n}": f"split(w, '{separator}')" for n, separator in enumerate(separators)}
    origin = lower_node(stream().map_values(**split).group_by_key().origins[0])
    row_steps, steps = checked_steps(spark, origin, RECORDS, list(split))
    assert steps is not None
    wanted = row_steps.rows(spark.createDataFrame(RECORDS).coalesce(1)).toArrow()
    assert not differences(steps.rows(RECORDS), wanted)


def test_arrays_are_made_and_sliced_as_sparks_are(spark: SparkSession) -> None:
    """Arrays of columns and constants have Spark's values and types, with and without nulls."""
    arrays = [
        "array(v, x)", "array(i, v)", "array(i, j, n)", "array(w, y, 'a', NULL)", "array(t)",
        "array(coalesce(i, 0), 1)", "array(1, i + n, CAST(NULL AS INT))",
        "slice(split(w, 'a'), 1, 2)", "slice(array(w, y), 2, 3)", "slice(array(i, j), 3, 1)",
        "slice(array(v, x), 1, 0)", "if(t, array(v, x), NULL)",
        "CASE WHEN i > 0 THEN split(w, 'a') WHEN t THEN array(y) END",
    ]  # fmt: skip
    computed = {f"x{number}": one for number, one in enumerate(arrays)}
    origin = lower_node(stream().map_values(**computed).group_by("'all'").origins[0])
    row_steps, steps = checked_steps(spark, origin, RECORDS, list(computed))
    assert steps is not None
    wanted = row_steps.rows(spark.createDataFrame(RECORDS).coalesce(1)).toArrow()
    made = steps.rows(RECORDS)
    assert not differences(made, wanted)
    assert [made[name].type for name in computed] == [steps.values.field(n).type for n in computed]


def test_a_deleted_row_has_no_value(spark: SparkSession) -> None:
    """A deleted row has null in each column that steps after a join compute, also for constants."""
    rows = joined(VALUES, hostile_rows(40, seed=5))
    is_tombstone = pa.array([place % 3 == 0 for place in range(len(rows))])
    rows = rows.append_column(NULL_VALUE, is_tombstone)
    grouped = stream().map_values(x="1", w="coalesce(w, 'none')").group_by_key()
    row_steps, steps = checked_steps(spark, lower_node(grouped.origins[0]), rows, ["x", "w"])
    assert steps is not None
    for results in (steps.rows(rows), row_steps.rows(spark.createDataFrame(rows)).toArrow()):
        tombstones = results.filter(results["null_value"])
        assert len(tombstones) > 10
        assert tombstones["x"].null_count == tombstones["w"].null_count == len(tombstones)
        assert results.filter(pc.and_(pc.invert(results["null_value"]), results["keep"]))["x"][
            0
        ].as_py()


def test_results_of_a_join_go_through_expressions(spark: SparkSession) -> None:
    """Steps neither read nor flatten rows with a reason."""
    rows = joined(VALUES, hostile_rows(40, seed=4))
    stepped = stream().filter("i < j").map_values("w", x="v + x")
    for grouped in (
        stepped.group_by("w"),
        stepped.flat_map_values("w", a="array(x, 1)").group_by("w"),
    ):
        steps = checked_steps(spark, lower_node(grouped.origins[0]), rows, [])[1]
        assert steps is not None
        assert_same_rows(spark, steps, lower_node(grouped.origins[0]), rows)


@pytest.mark.parametrize(
    "expression",
    [
        "upper(w)",  # Java's and Arrow's Unicode differ
        "CAST(v AS STRING)",  # 1.0E10
        "CAST(w AS INT)",  # Spark cuts blanks, signs and fractions from it
        "b * 1.5",  # decimal
        "p + q",
        "-p",
        "CAST(p AS BIGINT)",
        "CAST(q AS DECIMAL(10, 2))",
        "CAST(i AS DECIMAL(10, 2))",
        "CAST(w AS DATE)",
        "CAST(h AS STRING)",
        "year(d)",
        "d + 1",
        "try_add(i, j)",
        "try_divide(v, x)",
        "w LIKE 'a_'",
        "w RLIKE 'a'",
        "trim('a', w)",
        "startswith(w, y)",
        "substring(w, -1)",
        "substring(w, i, 1)",
        "CAST(X'FF' AS STRING)",
        "w = CAST(X'FF' AS STRING)",
        "w COLLATE UTF8_LCASE = 'a'",
        "s = s",
        "raise_error(w)",
        "NULL",
        "__offset",
        "v * -0.0D",
        "split(w, '')",
        "split(w, '|')",
        "split(w, 'a', 1)",
        "split(w, y)",
    ],
)
def test_what_is_not_known_to_be_equal_is_sparks(spark: SparkSession, expression: str) -> None:
    """Spark runs each expression for which Arrow can differ, also within another expression."""
    for text in (expression, f"CASE WHEN t THEN {expression} END"):
        origin = lower_node(stream().map_values(x=text).group_by_key().origins[0])
        assert checked_steps(spark, origin, RECORDS, [])[1] is None


@pytest.mark.parametrize("expression", ["i + j", "-i", "CAST(v AS INT)", "abs(i)", "v / x"])
def test_ansi_mode_is_sparks(spark: SparkSession, expression: str) -> None:
    """In ANSI mode, Spark raises errors where Arrow wraps, so Spark runs the expression."""
    origin = lower_node(stream().map_values(x=expression).group_by_key().origins[0])
    spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        assert checked_steps(spark, origin, RECORDS, ["x"])[1] is None
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "false")
    assert checked_steps(spark, origin, RECORDS, ["x"])[1] is not None
