"""The block decoder and Spark's decoder return the same for each line, even for hostile lines."""

from operator import add
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from oriel.pipeline.decoding import BlockDecoder, event_log_decoder, kafka_decoder
from oriel.pipeline.language import arrow_schema
from oriel.pipeline.sources.spark_decoding import spark_event_log_decoder
from tests.pipeline.decoding.both_decoders import Message, decoded_log, decoded_messages, log_rows
from tests.pipeline.decoding.hostile_lines import HostileLines

#: Thousands of lines are slow, so these tests run in CI and not in the inner loop.
pytestmark = pytest.mark.slow

SCHEMAS = (
    "amount BIGINT, price DOUBLE",
    "d DOUBLE, f FLOAT, n BIGINT, i INT, h SMALLINT, s STRING, b BOOLEAN, l ARRAY<DOUBLE>",
    "o STRUCT<x: INT, s: STRING>, li ARRAY<INT>, ls ARRAY<STRUCT<a: INT, f: FLOAT>>, s STRING",
    "f FLOAT, lf ARRAY<FLOAT>",
    "s STRING, b BOOLEAN, o STRUCT<o: STRUCT<o: STRUCT<b: BOOLEAN>>>, a ARRAY<ARRAY<STRING>>",
    "p DECIMAL(10, 2), q DECIMAL(38, 38), r DECIMAL(38, 0), w DECIMAL, x DECIMAL(3, 3)",
    "d DATE, b BINARY, p DECIMAL(5, 1), s STRING",
    "l ARRAY<DATE>, lb ARRAY<BINARY>, lp ARRAY<DECIMAL(4, 2)>, f FLOAT",
    "o STRUCT<d: DATE, o: STRUCT<b: BINARY, p: DECIMAL(20, 3)>>, l ARRAY<STRUCT<d: DATE, n: INT>>",
    "m MAP<STRING, INT>, value MAP<STRING, STRING>, l ARRAY<MAP<STRING, DOUBLE>>, s STRING",
    "m MAP<STRING, MAP<STRING, ARRAY<MAP<STRING, BOOLEAN>>>>, o STRUCT<m: MAP<STRING, DATE>>",
    "l ARRAY<STRUCT<m: MAP<STRING, STRUCT<m: MAP<STRING, DECIMAL(5, 1)>>>>>, `é` MAP<STRING, INT>",
    "`ke y` INT, `a.b` DOUBLE, `é` STRING, key INT, timestamp_ms DOUBLE, value STRING",
)

KEYS = [b"a", b"", None, b"5", b"\xff", b"\xed\xa0\x80", "é".encode(), b"\0"]
TIMES_US = [-1, -1000, -999, 0, 999, None, 253402300799999999, 253402300800000000]


@given(st.sampled_from(SCHEMAS), st.integers(0, 2**32))
@settings(max_examples=max(2, settings().max_examples // 8))
def test_lines_of_a_log_are_decoded_alike(spark: SparkSession, schema: str, seed: int) -> None:
    """Both decoders return the same record or the same reason for each line of a log."""
    decoder = event_log_decoder(schema)
    assert decoder is not None
    hostile = HostileLines(Random(seed))
    row_type = decoder.line_type
    decoded_log(spark, [hostile.line(row_type) for _ in range(600)], schema)


@given(st.sampled_from(SCHEMAS), st.integers(0, 2**32))
@settings(max_examples=max(1, settings().max_examples // 16))
def test_messages_are_decoded_alike(spark: SparkSession, schema: str, seed: int) -> None:
    """Both decoders agree on keys that are not UTF-8, on tombstones, and on any time."""
    decoder = kafka_decoder(schema)
    assert decoder is not None
    random = Random(seed)
    hostile = HostileLines(random)

    def message() -> Message:
        value = random.choice([None, b"null", b" null\n", b"null null", b"nul"])
        if random.random() < 0.95:
            value = hostile.line(decoder.line_type)
        key = random.choice(KEYS) if random.random() < 0.3 else b"k"
        return key, value, random.choice(TIMES_US) if random.random() < 0.2 else 1_500

    decoded_messages(spark, [message() for _ in range(600)], schema)


#: The least numbers that FLOAT and DOUBLE round to infinity.
LIMITS = {"f": 2**128 - 2**103, "d": 2**1024 - 2**970}


@st.composite
def near_limits(draw: st.DrawFn) -> tuple[str, bytes, bool]:
    """Return a column, a number near the limit of its type, and whether it is out of range."""
    column = draw(st.sampled_from(sorted(LIMITS)))
    limit = LIMITS[column]
    digits = str(limit + draw(st.integers(-3, 3)) * 10 ** draw(st.integers(0, len(str(limit)) - 2)))
    digits = digits[: draw(st.sampled_from([len(digits), 12, 17, 20]))].ljust(len(digits), "0")
    exponent = draw(st.sampled_from(["", f"e{len(digits) - 1}", f"E+000{len(digits) - 1}"]))
    text = f"{digits[0]}.{digits[1:]}{exponent}" if exponent else digits
    sign = draw(st.sampled_from(["", "-"]))
    return column, f"{sign}{text}".encode(), int(digits) >= limit


@given(st.lists(near_limits(), min_size=200, max_size=400))
@settings(max_examples=max(2, settings().max_examples // 16))
def test_numbers_near_the_limits_are_decoded_alike(
    spark: SparkSession, numbers: list[tuple[str, bytes, bool]]
) -> None:
    """A number is a dead letter exactly if its type would round it to infinity."""
    schema = "f FLOAT, d DOUBLE, lf ARRAY<FLOAT>, ld ARRAY<STRUCT<d: DOUBLE>>"
    forms = {"f": (b'"f":%s', b'"lf":[null,%s,1]'), "d": (b'"d":%s', b'"ld":[{},{"d":%s}]')}
    line = b'{"key":"a","timestamp_ms":1,"value":{%s}}'
    lines = [
        line % (forms[column][row % 2] % text) for row, (column, text, _) in enumerate(numbers)
    ]
    found = decoded_log(spark, lines, schema)
    assert [row.reason is not None for row in found] == [is_out for _, _, is_out in numbers]


def test_numbers_in_maps_are_in_range(spark: SparkSession) -> None:
    """Both decoders check the range of numbers in maps."""
    schema = "m MAP<STRING, DOUBLE>, l ARRAY<MAP<STRING, STRUCT<f: FLOAT>>>"
    values = [
        b'{"m":{"a":1,"b":1e400}}',
        b'{"l":[{"a":{"f":1e39}}]}',
        b'{"m":{"a":1e308,"b":null}}',
    ]
    rows = log_rows([b'{"key":"a","timestamp_ms":1,"value":%s}' % value for value in values])
    raw = spark.createDataFrame(pa.Table.from_batches([rows])).coalesce(1)
    by_spark = spark_event_log_decoder(schema).decode(raw).orderBy("offset").collect()
    reasons = [row.reason for row in by_spark]
    assert reasons == [
        "wrong-type: value.m: a number in the range of DOUBLE expected",
        "wrong-type: value.l.f: a number in the range of FLOAT expected",
        None,
    ]
    decoder = BlockDecoder(pa.struct(list(arrow_schema(schema))), has_envelope=True)
    numbers = [", not 1e400", ", not 1e39"]
    assert decoder.decode(rows)["reason"].to_pylist() == [*map(add, reasons, numbers), None]


NAMES = ["a", "A", "`b c`", "`d``e`", "1", "2b", "1e5", "3L", "`4`", "_", "select", "int", "key"]
TYPES = [
    "INT", "Long", "real", "DECIMAL", "dec(5)", "NUMERIC(38,9)", "DECIMAL(4,5)", "DECIMAL(39)",
    "DECIMAL()", "DATE", "binary", "BINARY(1)", "STRING", "ARRAY<INT>", "ARRAY<ARRAY<FLOAT>>",
    "BYTE", "MAP<STRING,INT>", "STRUCT<a: INT, b STRING>", "STRUCT<a INT, A INT>", "STRUCT<1: INT>",
    "STRUCT<>", "VOID", "INT NOT NULL", "DOUBLE COMMENT 'x'", "",
]  # fmt: skip


@given(st.lists(st.tuples(*map(st.sampled_from, (NAMES, [" ", ": "], TYPES))), max_size=3))
@settings(max_examples=60)
def test_a_schema_is_read_as_spark_reads_it(
    spark: SparkSession, columns: list[tuple[str, str, str]]
) -> None:
    """The block decoder reads a schema as Spark does, or leaves it to Spark."""
    schema = ", ".join(map("".join, columns))
    decoder = event_log_decoder(schema)
    if decoder is not None:
        assert from_arrow_schema(pa.schema(list(decoder.value_type))) == StructType.fromDDL(schema)


def test_limits_of_jackson_are_kept(spark: SparkSession) -> None:
    """Depth, digits, names and strings have Jackson's limits, and one more is rejected."""
    line = b'{"key":"a","timestamp_ms":1,"value":{%s}}'
    lines = [line % (b'"x":%s%s' % (b"[" * n, b"]" * n)) for n in (995, 996, 997)]
    lines += [line % (b'"d":0.%s' % (b"1" * n)) for n in (999, 1000, 1001)]
    lines += [line % (b'"%s":1' % (b"n" * n)) for n in (50_000, 50_001)]
    lines += [line % (b'"%s":1' % ("\U0001f600" * n).encode()) for n in (25_000, 25_001)]
    lines += [line % (b'"s":["%s"]' % (b"x" * n)) for n in (20_000_000, 20_000_001)]
    reasons = [row.reason for row in decoded_log(spark, lines, "d DOUBLE, s STRING")]
    no_json = "not-json"
    assert reasons == [
        None, None, no_json, None, None, no_json, None, no_json, None, no_json, None, "wrong-type",
    ]  # fmt: skip


def test_a_column_of_text_takes_other_values_as_jackson_writes_them(spark: SparkSession) -> None:
    """A string column has other values as JSON, with Java's numbers and uppercase escapes."""
    wanted = {
        "1": "1", "-0": "0", "1.50": "1.5", "-0.0": "-0.0", "1e10": "1.0E10", "1e-5": "1.0E-5",
        "0.001": "0.001", "9999999.0": "9999999.0", "1e7": "1.0E7", "12345678.5": "1.23456785E7",
        "0.00012": "1.2E-4", "5e-324": "4.9E-324", "1e400": '"Infinity"', "-1e400": '"-Infinity"',
        "123456789012345678901234567890": "123456789012345678901234567890", "true": "true",
        '{ "a" : [ 1.0, null ] , "a":{}}': '{"a":[1.0,null],"a":{}}',
        r'["\u001f\u20ac\ud83d\ude00\/\n\\u001f"]': '["\\u001F€\\uD83D\\uDE00/\\n\\\\u001f"]',
    }  # fmt: skip
    lines = [b'{"timestamp_ms":1,"value":{"s":%s}}' % text.encode() for text in wanted]
    found = [row.value.s for row in decoded_log(spark, lines, "s STRING")]
    assert found == list(wanted.values())
