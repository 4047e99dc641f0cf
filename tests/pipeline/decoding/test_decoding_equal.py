"""The block decoder and Spark's say the same of every line, however hostile."""

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from oriel.pipeline.decoding import event_log_decoder, kafka_decoder
from tests.pipeline.decoding.both_decoders import Message, decoded_log, decoded_messages
from tests.pipeline.decoding.hostile_lines import HostileLines

#: Lines by the thousand: for CI, not for the inner loop.
pytestmark = pytest.mark.slow

SCHEMAS = (
    "amount BIGINT, price DOUBLE",
    "d DOUBLE, f FLOAT, n BIGINT, i INT, h SMALLINT, s STRING, b BOOLEAN, l ARRAY<DOUBLE>",
    "o STRUCT<x: INT, s: STRING>, li ARRAY<INT>, ls ARRAY<STRUCT<a: INT, f: FLOAT>>, s STRING",
    "f FLOAT, lf ARRAY<FLOAT>",
    "s STRING, b BOOLEAN, o STRUCT<o: STRUCT<o: STRUCT<b: BOOLEAN>>>, a ARRAY<ARRAY<STRING>>",
    "`ke y` INT, `a.b` DOUBLE, `é` STRING, key INT, timestamp_ms DOUBLE, value STRING",
)

KEYS = [b"a", b"", None, b"5", b"\xff", b"\xed\xa0\x80", "é".encode(), b"\0"]
TIMES_US = [-1, -1000, -999, 0, 999, None, 253402300799999999, 253402300800000000]


@given(st.sampled_from(SCHEMAS), st.integers(0, 2**32))
@settings(max_examples=max(2, settings().max_examples // 8))
def test_lines_of_a_log_are_decoded_alike(spark: SparkSession, schema: str, seed: int) -> None:
    """Same record, or same reason."""
    decoder = event_log_decoder(schema)
    assert decoder is not None
    hostile = HostileLines(Random(seed))
    row_type = decoder.line_type
    decoded_log(spark, [hostile.line(row_type) for _ in range(600)], schema)


@given(st.sampled_from(SCHEMAS), st.integers(0, 2**32))
@settings(max_examples=max(1, settings().max_examples // 16))
def test_messages_are_decoded_alike(spark: SparkSession, schema: str, seed: int) -> None:
    """With keys that are no UTF-8 and with tombstones, and at times of all kinds."""
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


NAMES = ["a", "A", "`b c`", "`d``e`", "1", "2b", "1e5", "3L", "`4`", "_", "select", "int", "key"]
TYPES = [
    "INT", "Long", "real", "DECIMAL", "STRING", "ARRAY<INT>", "ARRAY<ARRAY<FLOAT>>", "BYTE",
    "MAP<STRING,INT>", "STRUCT<a: INT, b STRING>", "STRUCT<a INT, A INT>", "STRUCT<1: INT>",
    "STRUCT<>", "VOID", "INT NOT NULL", "DOUBLE COMMENT 'x'", "",
]  # fmt: skip


@given(st.lists(st.tuples(*map(st.sampled_from, (NAMES, [" ", ": "], TYPES))), max_size=3))
@settings(max_examples=60)
def test_a_schema_is_read_as_spark_reads_it(
    spark: SparkSession, columns: list[tuple[str, str, str]]
) -> None:
    """Or it is left to Spark."""
    schema = ", ".join(map("".join, columns))
    decoder = event_log_decoder(schema)
    if decoder is not None:
        assert from_arrow_schema(pa.schema(list(decoder.value_type))) == StructType.fromDDL(schema)


def test_limits_of_jackson_are_kept(spark: SparkSession) -> None:
    """Depth, digits, and lengths of names and texts: one more than allowed is refused."""
    line = b'{"key":"a","timestamp_ms":1,"value":{%s}}'
    lines = [line % (b'"x":%s%s' % (b"[" * n, b"]" * n)) for n in (995, 996, 997)]
    lines += [line % (b'"d":%s' % (b"1" * n)) for n in (999, 1000, 1001)]
    lines += [line % (b'"%s":1' % (b"n" * n)) for n in (50_000, 50_001)]
    lines += [line % (b'"%s":1' % ("\U0001f600" * n).encode()) for n in (25_000, 25_001)]
    lines += [line % (b'"s":["%s"]' % (b"x" * n)) for n in (20_000_000, 20_000_001)]
    reasons = [row.reason for row in decoded_log(spark, lines, "d DOUBLE, s STRING")]
    no_json = "not-json"
    assert reasons == [
        None, None, no_json, None, None, no_json, None, no_json, None, no_json, None, "wrong-type",
    ]  # fmt: skip


def test_a_column_of_text_takes_other_values_as_jackson_writes_them(spark: SparkSession) -> None:
    """Without blanks, numbers in Java's spelling, and large letters in escapes."""
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
