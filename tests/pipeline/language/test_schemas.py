"""Schemas in Spark's DDL, parsed without Spark: what is accepted, and what is rejected."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from oriel import InvalidTopology
from oriel.pipeline.language import arrow_schema

_SCALARS = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "byte": pa.int8(),
    "SMALLINT": pa.int16(),
    "short": pa.int16(),
    "INT": pa.int32(),
    "integer": pa.int32(),
    "BIGINT": pa.int64(),
    "Long": pa.int64(),
    "FLOAT": pa.float32(),
    "real": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "DATE": pa.date32(),
    "BINARY": pa.binary(),
    "DECIMAL": pa.decimal128(10, 0),
    "dec(5)": pa.decimal128(5, 0),
    "NUMERIC ( 05 , 1 )": pa.decimal128(5, 1),
    "DECIMAL(38, 38)": pa.decimal128(38, 38),
}


@pytest.mark.parametrize(("ddl", "found"), _SCALARS.items())
def test_every_scalar_type_is_known_in_any_case(ddl: str, found: pa.DataType) -> None:
    """Spark's names of a type and their aliases are one Arrow type."""
    for text in (f"v {ddl}", f"  v\t{ddl.lower()}\n", f"v: {ddl.upper()}"):
        assert arrow_schema(text) == pa.schema([("v", found)])


@pytest.mark.parametrize(
    ("ddl", "wanted"),
    [
        ("a INT, b STRING", [("a", pa.int32()), ("b", pa.string())]),
        ("v ARRAY<DOUBLE>", [("v", pa.list_(pa.float64()))]),
        ("v array < array<int> >", [("v", pa.list_(pa.list_(pa.int32())))]),
        ("v MAP<STRING, BIGINT>", [("v", pa.map_(pa.string(), pa.int64()))]),
        (
            "v STRUCT<a: INT, b: ARRAY<STRING>>, w INT",
            [
                ("v", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
                ("w", pa.int32()),
            ],
        ),
        ("`a b` INT", [("a b", pa.int32())]),
        ("`tick``s` INT", [("tick`s", pa.int32())]),
        ("1st INT", [("1st", pa.int32())]),
    ],
)
def test_columns_come_out_in_order(ddl: str, wanted: list[tuple[str, pa.DataType]]) -> None:
    """Quoted and unquoted names and nested types are read as they are written."""
    assert arrow_schema(ddl) == pa.schema(wanted)


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("", "the end is missing"),
        (" ", "the end is missing"),
        ("v", "the end is missing"),
        ("v INT,", "the end is missing"),
        ("v ARRAY", "the end is missing"),
        ("v ARRAY<INT", "the end is missing"),
        ("v ARRAY INT", "'<' was expected, not 'INT'"),
        ("v MAP<STRING>", "',' was expected, not '>'"),
        ("v INT NOT NULL", "'NOT' was not expected. Write a column as a name and a type, one of"),
        ("v INT NOT NULL", "STRUCT<name: ...>, MAP<..., ...>"),
        ("v INT w INT", "'w' was not expected"),
        (", v INT", "the name of a column was expected"),
        ("v INT,, w INT", "the name of a column was expected"),
        (
            "v NUMBER",
            "the type NUMBER is not supported. Write a column as a name and a type, one of",
        ),
        ("v DECIMAL()", "a number was expected, not ')'"),
        ("v DECIMAL(5", "the end is missing"),
        ("v DECIMAL(5 1)", "')' was expected, not '1'"),
        ("v DECIMAL(a)", "a number was expected, not 'a'"),
        ("v DECIMAL(5, -1)", "'-1)' is not valid"),
        ("v DECIMAL(39, 1)", "DECIMAL(39, 1) is not valid. The precision must be from 1 to 38"),
        ("v DECIMAL(4, 5)", "DECIMAL(4, 5) is not valid"),
        ("v DECIMAL(0)", "DECIMAL(0, 0) is not valid"),
        ("v INT(5)", "'(' was not expected"),
        ("v TIMESTAMP", "the type TIMESTAMP is not supported"),
        ("v INT; DROP", "'; DROP' is not valid"),
        ("v INT, v STRING", "two columns have the same name"),
        ("v INT, V STRING", "two columns have the same name"),
    ],
)
def test_what_is_no_schema_is_refused(ddl: str, said: str) -> None:
    """The message quotes the schema and says what is wrong with it."""
    with pytest.raises(InvalidTopology) as caught:
        arrow_schema(ddl)
    assert str(caught.value).startswith(f"schema {ddl!r}: ")
    assert said in str(caught.value)


_SCALAR = st.sampled_from([
    "BOOLEAN", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "SMALLINT", "DATE", "BINARY",
    "DECIMAL", "DEC(7)", "NUMERIC(38, 9)",
])  # fmt: skip
_TYPE = st.recursive(
    _SCALAR,
    lambda inner: st.one_of(
        inner.map(lambda one: f"ARRAY<{one}>"),
        inner.map(lambda one: f"STRUCT<a: {one}, b: {one}>"),
        inner.map(lambda one: f"MAP<STRING, {one}>"),
    ),
    max_leaves=3,
)


@given(st.text(max_size=30))
def test_any_text_is_a_schema_or_refused(text: str) -> None:
    """Any string is a schema, or an `InvalidTopology` that quotes it."""
    try:
        assert len(arrow_schema(text)) > 0
    except InvalidTopology as error:
        assert repr(text) in str(error)  # noqa: PT017 - no error is also right


@pytest.mark.slow
def test_spark_reads_the_same(spark: SparkSession) -> None:
    """Names, types and their order equal Spark's."""

    @given(st.lists(_TYPE, min_size=1, max_size=4))
    def check(types: list[str]) -> None:
        ddl = ", ".join(f"c{place} {found}" for place, found in enumerate(types))
        spark_schema = to_arrow_schema(_struct(ddl))
        ours = arrow_schema(ddl)
        assert ours.names == spark_schema.names
        assert [str(f.type) for f in ours] == [
            str(f.type).replace("element:", "item:").replace(" ('entries')", "")
            for f in spark_schema
        ]

    check()


def _struct(ddl: str) -> StructType:
    found = StructType.fromDDL(ddl)
    assert isinstance(found, StructType)
    return found
