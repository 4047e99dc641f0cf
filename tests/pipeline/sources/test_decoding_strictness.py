"""Decoding is strict where `from_json` is lenient."""

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from oriel.pipeline.sources.spark_decoding import spark_event_log_decoder
from tests.pipeline.decoding.both_decoders import decoded_log, decoded_messages

#: Thousands of odd lines are slow, so these tests run in CI and not in the inner loop.
pytestmark = pytest.mark.slow

SCHEMA = "d DOUBLE, n BIGINT, s STRING, b BOOLEAN, l ARRAY<DOUBLE>, o STRUCT<x: INT>"
GOOD = b'{"key":"a","timestamp_ms":1,"value":{}}'

#: Pieces of lines that try to escape from the list into which decoding wraps a line.
PIECES = [
    GOOD, b"{", b"}", b"[", b"]", b",", b":", b" ", b'"', b"\\", b"1", b"null", b"{}", b"[]",
    b'"~line"', b'"\\u007eline"', b'],"~line":[', b',null],"~line":[', b",null]}", b',null],"x":[',
    b',"~line":', b'null],"~line":[null,', b',null ] ,"\\u007Eline":[', b'"x":1',
]  # fmt: skip


def decoded(spark: SparkSession, lines: list[bytes]) -> list[Row]:
    """Decode ``lines`` as one partition of an event log."""
    return decoded_log(spark, lines, SCHEMA)


def reasons(spark: SparkSession, lines: list[bytes]) -> dict[bytes, str | None]:
    """Return the reason of each line."""
    return {bytes(row.raw): row.reason for row in decoded(spark, lines)}


def value(text: bytes) -> bytes:
    """Return a line with this value."""
    return b'{"key":"a","timestamp_ms":1,"value":%s}' % text


def test_text_after_a_record_never_becomes_part_of_it(spark: SparkSession) -> None:
    """Any text after the closing brace spoils the line, even if it fits Oriel's own wrapping."""
    tails = [
        b',"x":1',
        b',"end":1',
        b"," + GOOD,
        b'},"x":{}',
        b"]",
        b"],[",
        b"\x00",
        b",",
        b",null",
        b" // x",
        b',"~line":' + GOOD,
        b'],"~line":[' + GOOD,
        b',null],"x":[{}',
        b',null],"~line":[' + GOOD,
        b'],"\\u007eline":[' + GOOD,
        b",null]}",
        b",null]} {",
        b", null\t ] } anything",
    ]
    lines = [GOOD + tail for tail in tails]
    # The same text before the record, because the last field of a name would be read.
    lines += [b'null],"~line":[' + GOOD, b'],"~line":[' + GOOD, b"{}," + GOOD, b"null," + GOOD]
    assert reasons(spark, lines) == dict.fromkeys(lines, "not-json")


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=7), min_size=200, max_size=400))
@settings(max_examples=4)
def test_a_line_is_read_only_if_it_is_json_by_itself(
    spark: SparkSession, pieces: list[list[bytes]]
) -> None:
    """A line is `not-json` exactly if a JSON parser rejects it."""
    lines = [b"".join(some) for some in pieces]
    lines += [GOOD + line for line in lines]
    for row in decoded(spark, lines):
        try:
            orjson.loads(bytes(row.raw))
        except orjson.JSONDecodeError:
            assert row.reason == "not-json", row.raw
        else:
            assert row.reason != "not-json", row.raw


def test_a_number_as_key_is_seen_wherever_it_hides(spark: SparkSession) -> None:
    """A key that is not a string has a wrong type, although the line repeats other fields."""
    lines = [
        b'{"key" : 5,"timestamp_ms":1,"value":{}}',
        b'{"k\\u0065y":5,"timestamp_ms":1,"value":{}}',
        b'{"timestamp_ms":1,"key":[1],"value":{}}',
        b'{"timestamp_ms":1,"key":-1e400,"value":{}}',
        b'{"timestamp_ms":1,"key":5,"x":{"a":1,"a":2},"value":{}}',
        b'{"timestamp_ms":1,"key":{"a":1,"a":2},"value":{}}',
        b'{"key":"a","key":5,"timestamp_ms":1,"value":{}}',
        b'{"key":"5","key":5,"timestamp_ms":1,"value":{}}',
        b'{"key":"true","timestamp_ms":1,"value":{},"k\\u0065y":true}',
    ]
    assert reasons(spark, lines) == dict.fromkeys(lines, "wrong-type")


def test_a_text_that_looks_like_a_number_is_a_key(spark: SparkSession) -> None:
    """String keys are valid with any content, although the line repeats other fields."""
    keys = ["5", "-1", "1e3", "true", "false", "{}", "[1]", "null"]
    wholes = ['{"key":"%s","timestamp_ms":1}', '{"x":{"a":1,"a":2},"timestamp_ms":1,"key":"%s"}']
    wholes += ['{"key":"%s","timestamp_ms":1,"value":{"key":7}}', '{"timestamp_ms":1,"key": "%s"}']
    lines = [(whole % key).encode() for whole in wholes for key in keys]
    rows = decoded(spark, lines)
    assert [(row.reason, row.key) for row in rows] == [(None, key) for key in keys] * len(wholes)


def test_every_type_but_text_is_exact(spark: SparkSession) -> None:
    """Strings, numbers, booleans, lists and objects are never converted into each other."""
    bad = [
        b'{"d":"NaN"}', b'{"d":""}', b'{"d":true}', b'{"n":true}', b'{"n":1.0}', b'{"n":1e3}',
        b'{"b":"true"}', b'{"b":1}', b'{"l":[1,null,"x"]}', b'{"l":1}', b'{"l":{}}', b'{"o":5}',
        b'{"o":{"x":"y"}}', b'{"o":[]}', b'""', b'"{}"',
    ]  # fmt: skip
    lines = [value(text) for text in bad]
    assert reasons(spark, lines) == dict.fromkeys(lines, "wrong-type")
    good = [b'{"d":1e308}', b'{"d":-0.0}', b'{"l":[]}', b'{"l":[1,null ]}', b"{}"]
    good += [b'{"o":{"x":null,"y":[]}}', b'{"l":[1,null],"s":"~line","o":{"y":[{}, null]}}']
    assert set(reasons(spark, [value(text) for text in good]).values()) == {None}


def test_a_number_out_of_range_is_a_wrong_type(spark: SparkSession) -> None:
    """A number that FLOAT or DOUBLE rounds to infinity is a dead letter that names the field."""
    schema = "d DOUBLE, l ARRAY<DOUBLE>, o STRUCT<f: FLOAT>, n ARRAY<STRUCT<d: DOUBLE>>"
    wrong = {
        b'{"d":1e400}': "d: a number in the range of DOUBLE expected",
        b'{"d":-1e400,"o":{"f":1e39}}': "d: a number in the range of DOUBLE expected",
        b'{"d":1,"d":2e308}': "d: a number in the range of DOUBLE expected",
        b'{"l":[1,null,1e309]}': "l: a number in the range of DOUBLE expected",
        b'{"o":{"f":3.4028236e38}}': "o.f: a number in the range of FLOAT expected",
        b'{"n":[null,{},{"d":1e999}]}': "n.d: a number in the range of DOUBLE expected",
    }
    lines = [value(text) for text in wrong]
    # Spark and Arrow only see the last value of a repeated field.
    good = [b'{"d":1e400,"d":1}', b'{"o":{"f":1e39},"o":null}', b'{"other":1e400}', b'{"d":1e-400}']
    found = decoded_log(spark, [*lines, *map(value, good)], schema)
    reasons_of_good = [row.reason for row in found[len(lines) :]]
    assert [row.reason for row in found[: len(lines)]] == [
        f"wrong-type: value.{detail}" for detail in wrong.values()
    ]
    assert reasons_of_good == [None] * len(good)
    messages = [(b"k", text, 1_000_000) for text in (*wrong, *good)]
    assert [row.reason for row in decoded_messages(spark, messages, schema)] == [
        *(f"wrong-type: {detail}" for detail in wrong.values()),
        *reasons_of_good,
    ]


def test_monstrous_lines_are_dead_letters_and_no_errors(spark: SparkSession) -> None:
    """Depth, long numbers and odd encodings never stop the batch."""
    lines = [
        b"[" * 100_000,
        value(b'{"x":%s%s}' % (b"[" * 5000, b"]" * 5000)),
        value(b'{"n":%s}' % (b"1" * 2000)),
        GOOD.decode().encode("utf-16-be"),
        b'{"key":"a\\',
        b'{"key":"a\tb","timestamp_ms":1,"value":{}}',
        b'{"key":"a","timestamp_ms":01,"value":{}}',
    ]
    assert set(reasons(spark, lines).values()) == {"not-json"}
    encoded = [b'{"key":"\xed\xa0\x80"}', b'{"key":"\xc0\x80"}', GOOD.decode().encode("utf-16")]
    assert set(reasons(spark, encoded).values()) == {"not-utf8"}


def test_only_a_surrogate_without_its_other_half_is_refused(spark: SparkSession) -> None:
    """Surrogate pairs, escaped backslashes and repeated fields are valid."""
    good = [b"\\ud83d\\ude00", b"\\uD83D\\uDE00" * 2, b"\\\\ud800", b"\\\\\\\\uD800", b"\\ud7ff"]
    lone = [
        b"\\ud800",
        b"\\uDC00",
        b"\\ude00\\ud83d",
        b"\\\\\\ud800",
        b"\\ud83d\\ud83d\\ude00\\ude00",
    ]
    line = b'{"key":"%s","timestamp_ms":1,"x":{"a":1,"a":2}}'
    assert set(reasons(spark, [line % text for text in good]).values()) == {None}
    assert set(reasons(spark, [line % text for text in lone]).values()) == {"not-json"}


def test_a_repeated_field_counts_the_last_time(spark: SparkSession) -> None:
    """JSON does not define this, so this test fixes the rule that the module states."""
    row, wrong, value_row = decoded(
        spark,
        [
            b'{"key":"a","timestamp_ms":1,"key":"b","timestamp_ms":2,"value":{}}',
            b'{"key":"a","timestamp_ms":"x","timestamp_ms":2,"value":{}}',
            b'{"timestamp_ms":1,"value":{"n":1},"value":{"d":0.5,"d":1}}',
        ],
    )
    assert (row.reason, row.key, row.timestamp_ms) == (None, "b", 2)
    assert wrong.reason == "wrong-type"
    assert (value_row.reason, value_row.value.n, value_row.value.d) == (None, None, 1.0)


def test_names_are_case_sensitive(spark: SparkSession) -> None:
    """`KEY` and `key` are different fields, and so are `D` and `d`."""
    (row,) = decoded(spark, [b'{"KEY":"a","timestamp_ms":1,"value":{"D":1.5}}'])
    assert (row.reason, row.key, row.value.d) == (None, None, None)


def test_a_null_message_is_a_tombstone_with_any_blanks(spark: SparkSession) -> None:
    """A Kafka message with the text `null` is a tombstone. Similar texts are invalid."""
    tombstones = [None, b"null", b"null\n", b"\r\n null\t"]
    bad = {b"null null": "not-json", b"\x0bnull": "not-json", b"null,null": "not-json"}
    messages = [(b"k", text, 1_000_000) for text in [*tombstones, *bad]]
    found = decoded_messages(spark, messages, SCHEMA)
    assert [row.reason for row in found] == [None] * len(tombstones) + [*bad.values()]
    assert [row.value for row in found[: len(tombstones)]] == [None] * len(tombstones)


def test_a_schema_that_is_none_is_named_by_itself(spark: SparkSession) -> None:
    """Spark's error is about the user's schema, not about the schema that decoding derives."""
    raw = spark.createDataFrame([], "partition INT, offset BIGINT, raw BINARY")
    with pytest.raises(PySparkException, match="NOPE"):
        spark_event_log_decoder("v NOPE").decode(raw)
    assert spark_event_log_decoder("").decode(raw).columns[-1] == "reason"


@given(st.data())
@settings(max_examples=5)
def test_any_key_and_text_come_through(spark: SparkSession, data: st.DataObject) -> None:
    """Any string of a JSON writer is decoded exactly, escaped or not."""
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    pairs = data.draw(st.lists(st.tuples(text, text), min_size=1, max_size=40))
    lines = [orjson.dumps({"timestamp_ms": 1, "key": key, "value": {"s": s}}) for key, s in pairs]
    assert [(r.reason, r.key, r.value.s) for r in decoded(spark, lines)] == [
        (None, key, s) for key, s in pairs
    ]
