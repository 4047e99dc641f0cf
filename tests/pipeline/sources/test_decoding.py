"""Decoding: which lines are records, and for what reason another line is not a record."""

import pytest
from pyspark.sql import SparkSession

from oriel.pipeline.dead_letters import REASONS
from tests.pipeline.decoding.both_decoders import decoded_log, decoded_messages

# Spark is slow, so these tests are not in the inner loop.
pytestmark = pytest.mark.slow

SCHEMA = "d DOUBLE, n BIGINT, s STRING"

GOOD = {
    b'{"key":"a","timestamp_ms":1,"value":{"d":1.5,"n":3,"s":"x"}}': ("a", 1, (1.5, 3, "x")),
    b'{"value":{"d":1,"s":null},"extra":[{}],"timestamp_ms":0,"key":"a"}': (
        "a",
        0,
        (1.0, None, None),
    ),
    b' {"key": "a\\u0000\\ud83d\\ude00/", "timestamp_ms": 1, "value": {}} \r': (
        "a\0\U0001f600/",
        1,
        (None, None, None),
    ),
    b'{"key": "5", "timestamp_ms": 1, "value": {"n": 9007199254740993}}': (
        "5",
        1,
        (None, 9007199254740993, None),
    ),
    b'{"timestamp_ms":1,"key":"true","value":{}}': ("true", 1, (None, None, None)),
    b'{"timestamp_ms":1,"key":"","value":{}}': ("", 1, (None, None, None)),
    b'{"key":null,"timestamp_ms":1,"value":{}}': (None, 1, (None, None, None)),
    b'{"timestamp_ms":253402300799999,"value":null}': (None, 253402300799999, None),
}

BAD = {
    b"nope": "not-json",
    b"": "not-json",
    b"   ": "not-json",
    b'{"key":"a","timestamp_ms":1,"value":{}} trailing': "not-json",
    b'{"key":"a","timestamp_ms":1,"value":{}}{"key":"b","timestamp_ms":2,"value":{}}': "not-json",
    b'{"key":"a","timestamp_ms":1,"value":{}}}': "not-json",
    b'{"key":"a","timestamp_ms":1,"value":{}},"x":1': "not-json",
    b'{"key":"a","timestamp_ms":1,"value":{"d":1}': "not-json",
    b"{'key':'a','timestamp_ms':1,'value':{}}": "not-json",
    b'{"key":"a","timestamp_ms":1,"value":{"d":NaN}}': "not-json",
    b'{"key":"\\ud800","timestamp_ms":1,"value":{}}': "not-json",
    b'\xef\xbb\xbf{"key":"bom","timestamp_ms":1,"value":{}}': "not-json",
    b'{"key":"a\xff","timestamp_ms":1,"value":{}}': "not-utf8",
    b"null": "wrong-type",
    b"[1]": "wrong-type",
    b'"text"': "wrong-type",
    b'[{"key":"a","timestamp_ms":1,"value":{}}]': "wrong-type",
    b'{"key":"a","timestamp_ms":"1","value":{}}': "wrong-type",
    b'{"key":"a","timestamp_ms":1.5,"value":{}}': "wrong-type",
    b'{"key":"a","timestamp_ms":99999999999999999999,"value":{}}': "wrong-type",
    b'{"key":"a","timestamp_ms":1,"value":{"d":"x"}}': "wrong-type",
    b'{"key":"a","timestamp_ms":1,"value":{"n":1.5}}': "wrong-type",
    b'{"key":"a","timestamp_ms":1,"value":{"n":9223372036854775808}}': "wrong-type",
    b'{"key":"a","timestamp_ms":1,"value":[1]}': "wrong-type",
    b'{"key":"a","timestamp_ms":1,"value":5}': "wrong-type",
    b'{"key":5,"timestamp_ms":1,"value":{}}': "wrong-type",
    b'{"key":{"x":1},"timestamp_ms":1,"value":{}}': "wrong-type",
    b'{"key":true,"timestamp_ms":1,"value":{}}': "wrong-type",
    b'{"key":"a","value":{}}': "missing-timestamp",
    b'{"key":"a","timestamp_ms":null,"value":{}}': "missing-timestamp",
    b'{"key":"a","timestamp_ms":-1,"value":{}}': "negative-timestamp",
    b'{"key":"a","timestamp_ms":253402300800000,"value":{}}': "timestamp-too-large",
}


def test_good_lines_become_records(spark: SparkSession) -> None:
    """Key, time and value are decoded exactly, and extra fields are ignored."""
    for row, wanted in zip(decoded_log(spark, list(GOOD), SCHEMA), GOOD.values(), strict=True):
        value = None if row.value is None else tuple(row.value)
        assert (row.key, row.timestamp_ms, value, row.reason) == (*wanted, None), bytes(row.raw)


def test_bad_lines_keep_their_bytes_and_get_a_reason(spark: SparkSession) -> None:
    """Each kind of invalid line has its reason and keeps its bytes."""
    rows = decoded_log(spark, list(BAD), SCHEMA)
    assert {bytes(row.raw): row.reason.partition(": ")[0] for row in rows} == BAD
    later = {
        "null-key", "key-too-long", "unfit-key", "null-value", "function-raised", "timestamp-ahead",
    }  # fmt: skip
    of_other_formats = {"not-avro", "not-protobuf", "unknown-schema", "invalid-timestamp"}
    assert set(BAD.values()) | later | of_other_formats == set(REASONS)


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        (b"a", b'{"d": 1}', ("a", (1.0, None, None), None)),
        (None, b'{"d": 1}', (None, (1.0, None, None), None)),
        (b"a", None, ("a", None, None)),
        (b"a", b" null ", ("a", None, None)),
        (b"a", b"", ("a", None, "not-json")),
        (b"a", b'{"d": 1} x', ("a", (1.0, None, None), "not-json")),
        (b"\xff", b'{"d": 1}', ("\ufffd", (1.0, None, None), "not-utf8")),
        (b"a", b'{"n": "x"}', ("a", (None, None, None), "wrong-type")),
    ],
)
def test_kafka_messages_follow_the_same_rules(
    spark: SparkSession,
    key: bytes | None,
    value: bytes | None,
    wanted: tuple[str | None, tuple[object, ...] | None, str | None],
) -> None:
    """Keys, JSON values, tombstones and invalid values of a topic are decoded like a log's."""
    (row,) = decoded_messages(spark, [(key, value, 1_234_567)], SCHEMA)
    assert row.timestamp_ms == 1234
    assert bytes(row.raw) == (value or b"")
    assert row.reason == wanted[2]
    if wanted[2] is None:
        assert (row.key, None if row.value is None else tuple(row.value)) == wanted[:2]
