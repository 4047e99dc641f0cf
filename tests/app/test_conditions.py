"""Conditions of ``where``: their values, and the errors of invalid texts."""

import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from oriel.app.contract import InvalidParameter
from oriel.app.selection import item_columns, item_schema, parse_condition
from oriel.app.selection.filters import matching_rows
from tests.app.selections import random_condition, random_rows
from tests.storage.store_tables import NONE, make_definition

ROWS = pa.table({
    "n": pa.array([1, -7, None, 2**63 - 1], pa.int64()),
    "x": pa.array([0.5, None, -2.5, 2.0], pa.float64()),
    "s": pa.array(["ab", "it's", None, "é%_"], pa.string()),
    "b": pa.array([True, False, None, True], pa.bool_()),
    "l": pa.array([[1], [], None, [2]], pa.list_(pa.int64())),
})  # fmt: skip


def matches(text: str) -> list[int]:
    """Return the indexes of the rows that meet a condition."""
    return matching_rows(ROWS, parse_condition(text, ROWS.schema)).nonzero()[0].tolist()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("n > 0", [0, 3]),
        ("n >= 1 and not b", []),
        ("b", [0, 3]),
        ("NOT b", [1]),
        ("b IS NOT TRUE", [1, 2]),
        ("n IS NULL OR x IS NULL", [1, 2]),
        ("n <=> NULL", [2]),
        ("n = 1.0", [0]),
        ("n + 1 < 0", [1, 3]),  # the greatest integer wraps
        ("n / 2 = 0.5", [0]),
        ("n DIV 2 = -3", [1]),
        ("n % 4 = -3", [1]),
        ("n / 0 IS NULL", [0, 1, 2, 3]),
        ("abs(n) = 7", [1]),
        ("-n = 7", [1]),
        ("n = -9223372036854775808", []),
        ("ceil(x) = 1 OR floor(x) = -3", [0, 2]),
        ("greatest(n, 0) = 0", [1, 2]),
        ("coalesce(n, 5) = 5", [2]),
        ("if(n > 0, x, 1) = 1", [1, 2]),
        ("CAST(x AS BIGINT) = -2", [2]),
        ("s = 'it\\'s'", [1]),
        ("s LIKE 'a%'", [0]),
        ("s LIKE '%\\'s'", [1]),
        ("s LIKE '%t%'", [1]),
        ("s NOT LIKE 'ab'", [1, 3]),
        ("s LIKE '%\\\\%\\\\_'", [3]),
        ("s LIKE '%'", [0, 1, 3]),
        ("s IN ('ab', 'x')", [0]),
        ("s NOT IN ('ab', NULL)", []),
        ("length(s) = 3", [3]),
        ("substring(s, 2, 1) = 't'", [1]),
        ("concat(s, '!') = 'ab!' OR s || '?' = 'ab?'", [0]),
        ("startswith(s, 'é') OR contains(s, 'b')", [0, 3]),
        ("n BETWEEN -7 AND 1", [0, 1]),
        ("l IS NULL", [2]),
        ("1 = 1", [0, 1, 2, 3]),
        ("NULL", []),
        ("`n` = 1 -- a comment", [0]),
    ],
)
def test_a_condition_selects_rows(text: str, wanted: list[int]) -> None:
    """A condition selects the rows for which it is true, and not the ones where it is null."""
    assert matches(text) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a condition"),
        ("n >", "near"),
        ("n > 1; DROP TABLE x", "is not possible"),
        ("select 1", "is not possible"),
        ("n IN (SELECT n FROM t)", "is not possible"),
        ("count(*) > 1", "is not possible"),
        ("m > 1", "'m' does not exist. Use one of: n, x, s, b, l"),
        ("t.n > 1", "does not exist"),
        ("n", "the condition must be a boolean, but it is a number"),
        ("n = 'a'", "a number and a string"),
        ("l = l", "a list"),
        ("s LIKE 'a%b'", "at the begin or the end"),
        ("s LIKE 'a_'", "LIKE with _"),
        ("s LIKE s", "in quotes"),
        ("s + 1 = 2", "a number and a string"),
        ("n = 9223372036854775808", "not a 64-bit integer"),
        ("CAST(s AS BIGINT) = 1", "is not possible"),
        ("s LIKE 'x' ESCAPE '!'", "is not possible"),
        ("n = :p", "is not possible"),
        ("rand() > 0.5", "is not possible"),
        ("n > current_timestamp", "is not possible"),
        ("s = 'open", "not a condition"),
        ("(" * 5000, "at most 4000"),
        ("(" * 900 + "b" + ")" * 900, "more levels"),
        (" AND ".join(["b"] * 300), "more levels"),
    ],
)
def test_an_invalid_text_names_the_problem(text: str, message: str) -> None:
    """The error names the parameter, the problem and an example."""
    with pytest.raises(InvalidParameter, match=r"where: .*For example") as raised:
        parse_condition(text, ROWS.schema)
    assert message in str(raised.value)


def test_a_long_key_is_a_number() -> None:
    """A key of the type ``long`` has the type of the topology, and other keys are strings."""
    definition = make_definition(key_type="long")
    rows = item_columns(
        [b'{"key":"7","n":1,"final":true}', b'{"key":"-1","n":2,"final":false}'], definition
    )
    condition = parse_condition("key < 0", item_schema(definition))
    assert matching_rows(rows, condition).tolist() == [False, True]
    with pytest.raises(InvalidParameter, match="a number and a string"):
        parse_condition("key < 0", item_schema(make_definition()))


def test_a_store_without_windows_has_no_times() -> None:
    """Only the fields of its items are columns."""
    with pytest.raises(InvalidParameter, match="'window_start_ms' does not exist"):
        parse_condition("window_start_ms > 0", item_schema(make_definition(window=NONE)))


@pytest.mark.slow
def test_spark_selects_the_same_rows(spark: SparkSession) -> None:
    """Random conditions select the rows that Spark selects for the same text."""
    choice = random.Random(7)
    rows = random_rows(choice, 60, 20)
    columns = pa.table({
        "row": pa.array(range(len(rows)), pa.int64()),
        **{
            name: pa.array([row[name] for row in rows], column_type)
            for name, column_type in (
                ("key", pa.string()), ("n", pa.int64()), ("mean", pa.float64()),
                ("last", pa.string()),
            )
        },
    })  # fmt: skip
    texts = [random_condition(choice, 3)[0] for _ in range(150)]
    texts += ["last = 'it''s'", "n DIV 2 = 0", "n % 2 = 1", "greatest(n, mean) > 1"]
    texts += ["substring(last, 2) = 'b'", "length(last) > 1", "ceil(mean) = 1", "mean / n > 0"]
    frame = spark.createDataFrame(columns.to_pandas(types_mapper=None).astype(object).where(
        lambda table: table.notna(), None
    ), "row BIGINT, key STRING, n BIGINT, mean DOUBLE, last STRING")  # fmt: skip
    chosen = frame.selectExpr("row", *(f"({text}) AS c{i}" for i, text in enumerate(texts)))
    by_spark = chosen.collect()
    for index, text in enumerate(texts):
        wanted = sorted(row["row"] for row in by_spark if row[f"c{index}"])
        found = matching_rows(columns, parse_condition(text, columns.schema)).nonzero()[0].tolist()
        assert found == wanted, text
