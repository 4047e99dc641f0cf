"""Blocks of lines: the result of a line does not depend on the other lines."""

import pickle
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oriel.pipeline.decoding import BlockDecoder, event_log_decoder, kafka_decoder
from oriel.pipeline.decoding.json_lines.lines import decode_line
from oriel.pipeline.language import arrow_schema
from tests.pipeline.decoding.both_decoders import (
    Message,
    alone,
    log_rows,
    message_rows,
    plain_rows,
)
from tests.pipeline.decoding.hostile_lines import HostileLines

#: The function for single lines, as the block decoder imports it.
SLOW_WAY = "oriel.pipeline.decoding.blocks.decode_line"

SCHEMA = (
    "d DOUBLE, n BIGINT, i INT, s STRING, b BOOLEAN, l ARRAY<INT>, o STRUCT<x: SMALLINT, f: FLOAT>"
)
OTHER_TYPES = (
    "p DECIMAL(10, 2), d DATE, b BINARY, m MAP<STRING, INT>, l ARRAY<MAP<STRING, DECIMAL(4, 2)>>"
)
GOOD = b'{"key":"k%d","value":{"d":1.5,"n":3,"s":"text","l":[1,2],"o":{"x":1}},"timestamp_ms":%d}'
BAD = {
    "cut off": (GOOD % (1, 1))[:-9],
    "no JSON": (GOOD % (1, 1)).replace(b":3", b":"),
    "rubbish": b"rubbish",
    "empty": b"",
    "doubled": GOOD % (1, 1) * 2,
    "key": (GOOD % (1, 1)).replace(b'"k1"', b"5"),
    "text": (GOOD % (1, 1)).replace(b"1.5", b'"1.5"'),
    "fraction": (GOOD % (1, 1)).replace(b":3", b":3.5"),
    "in a list": (GOOD % (1, 1)).replace(b"[1,2]", b"[1,2.5]"),
    "in an object": (GOOD % (1, 1)).replace(b'"x":1', b'"x":32768'),
    "NaN": (GOOD % (1, 1)).replace(b"1.5", b"NaN"),
    "NUL": (GOOD % (1, 1)).replace(b"text", b"te\0xt"),
    "no UTF-8": (GOOD % (1, 1)).replace(b"text", b"te\xffxt"),
}


def log_decoder(schema: str = SCHEMA) -> BlockDecoder:
    """Return the decoder of an event log."""
    decoder = event_log_decoder(schema)
    assert decoder is not None
    return decoder


@pytest.mark.slow
@given(
    st.sampled_from((SCHEMA, OTHER_TYPES)),
    st.integers(0, 2**32),
    st.integers(0, 150),
    st.sampled_from([0.0, 0.02, 0.05, 0.5, 1.0]),
)
@settings(max_examples=40)
def test_a_block_is_decoded_like_each_of_its_lines(
    schema: str, seed: int, count: int, hostile: float
) -> None:
    """A block of any lines has the same rows as its lines, decoded one by one."""
    random, decoder = Random(seed), log_decoder(schema)
    lines = HostileLines(random)
    rows = log_rows([
        lines.line(decoder.line_type) if random.random() < hostile else GOOD % (n, n)
        for n in range(count)
    ])  # fmt: skip
    assert repr(plain_rows(decoder.decode(rows))) == repr(alone(decoder, rows))


@pytest.mark.slow
@given(st.integers(0, 2**32), st.lists(st.integers(0, 300), max_size=4))
@settings(max_examples=10)
def test_a_batch_is_decoded_like_its_parts(seed: int, cuts: list[int]) -> None:
    """A batch has the same rows as its slices, which share its buffers."""
    decoder, lines = log_decoder(), HostileLines(Random(seed))
    rows = log_rows([lines.line(decoder.line_type) for _ in range(300)])
    ends = sorted([0, *cuts, 300])
    parts = [decoder.decode(rows[start:end]) for start, end in pairwise(ends)]
    assert repr(pa.concat_tables(parts).to_pylist()) == repr(decoder.decode(rows).to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*BAD, "all"])
def test_bad_lines_alone_are_read_slowly(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one line in a hundred is invalid, only the invalid lines are decoded one by one."""
    slow = 0

    def counted(line: bytes, row_type: pa.StructType, text_field: str | None) -> object:
        nonlocal slow
        slow += 1
        return decode_line(line, row_type, text_field)

    monkeypatch.setattr(SLOW_WAY, counted)
    bad = [BAD[kind]] if kind in BAD else list(BAD.values())
    lines = [GOOD % (n, n) for n in range(20_000)]
    lines[50::100] = (bad * 200)[:200]
    found = log_decoder().decode(log_rows(lines))
    assert found.num_rows == 20_000
    assert found["reason"].is_valid().to_numpy().nonzero()[0].tolist() == list(
        range(50, 20_000, 100)
    )
    assert found["key"].to_pylist()[:50] == [f"k{n}" for n in range(50)]
    assert slow == 200


@pytest.mark.parametrize(
    "text", ["Info", "NaN", "-0", "a\x7fé", "\U0001f600", "{}", "}{", "[" * 990]
)
def test_texts_that_only_look_odd_are_read_fast(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content of a string never causes the slow decoding of single lines."""
    monkeypatch.delattr(SLOW_WAY)
    lines = [(GOOD % (n, n)).replace(b"text", text.encode()) + b" \r" for n in range(100)]
    found = log_decoder().decode(log_rows(lines)).to_pylist()
    assert [row["value"]["s"] for row in found] == [text] * 100


def test_empty_lines_and_two_records_on_one_never_make_up_for_each_other() -> None:
    """Arrow's reader counts three rows here, as many as lines, and both lines are still invalid."""
    good = GOOD % (1, 1)
    for lines in ([b"", good * 2, good], [good * 2, b" ", good], [good[:9], good[9:] + good, good]):
        many = [*lines, *[good] * 60]
        reasons = log_decoder().decode(log_rows(many))["reason"].to_pylist()
        assert reasons == ["not-json", "not-json", *[None] * 61]


def test_a_long_text_without_an_end_is_looked_at_once() -> None:
    """A long line with an unfinished string is invalid, and the time is linear in its length."""
    line = b"[" * 200 + b'"' + b'\\"' * 200_000
    for end in (b"", b"\\"):
        found = log_decoder().decode(log_rows([line + end]))
        assert found["reason"].to_pylist() == ["not-json"]


def test_a_batch_may_be_empty() -> None:
    """An empty batch has the same columns as any other batch."""
    decoder = log_decoder()
    assert decoder.decode(log_rows([])).schema == decoder.schema
    assert decoder.decode(log_rows([GOOD % (1, 1)])).schema == decoder.schema
    assert decoder.decode(log_rows([GOOD % (1, 1)] * 99)).schema == decoder.schema


def test_a_decoder_can_be_sent_to_a_task() -> None:
    """A pickled decoder is equal to the original."""
    for decoder in (log_decoder(), kafka_decoder(SCHEMA)):
        assert pickle.loads(pickle.dumps(decoder)) == decoder  # noqa: S301 - our own


@pytest.mark.parametrize("count", [1, 60])
def test_messages_have_their_key_and_time(count: int) -> None:
    """Tombstones are valid records, and an invalid key or time has a reason."""
    messages: dict[Message, tuple[object, ...]] = {
        (b"k", b'{"n": 1}', 1999): ("k", 1, 1, None),
        (None, b'{"n": 1}', 0): (None, 0, 1, None),
        (b"k", None, 1000): ("k", 1, None, None),
        (b"k", b"\tnull ", 1000): ("k", 1, None, None),
        (b"k", b"", 1000): (None, None, None, "not-json"),
        (b"\xff", b'{"n": 1}', 1000): (None, None, None, "not-utf8"),
        (b"\xff", None, 1000): (None, None, None, "not-utf8"),
        (b"\xff", b"x", 1000): (None, None, None, "not-utf8"),
        (b"k", b'{"n": 1}', None): (None, None, None, "missing-timestamp"),
        (b"k", None, -1): (None, None, None, "negative-timestamp"),
        (b"k", b'{"n": 1}', 253402300800000000): (None, None, None, "timestamp-too-large"),
        (b"k", b'{"n": "1"}', -1): (None, None, None, 'wrong-type: n: BIGINT expected, not "1"'),
    }
    decoder = kafka_decoder("n BIGINT")
    assert decoder is not None
    found = decoder.decode(message_rows(list(messages) * count)).to_pylist()
    assert [
        (row["key"], row["timestamp_ms"], row["value"] and row["value"]["n"], row["reason"])
        for row in found
    ] == list(messages.values()) * count
    assert [row["raw"] for row in found] == [raw or b"" for _, raw, _ in messages] * count


@pytest.mark.parametrize(
    "schema",
    [
        "v NOPE", "", "v TINYINT", "l ARRAY<TINYINT>", "m MAP<INT, INT>", "m MAP<STRING, TINYINT>",
        "v DECIMAL(39, 2)",
        "t TIMESTAMP", "b BINARY(2)", "a INT, A INT", "o STRUCT<a INT, A INT>",
        "v INT NOT NULL", "1 INT",
    ],
)  # fmt: skip
def test_other_types_are_left_to_spark(schema: str) -> None:
    """Invalid schemas are also left to Spark, because Spark's decoder names the error."""
    assert event_log_decoder(schema) is None
    assert kafka_decoder(schema) is None


def test_a_wrong_field_is_named() -> None:
    """The reason has the path, the type and the clipped value, in a block and for single lines."""
    schema = "n INT, a STRUCT<zip: ARRAY<DOUBLE>>, b BOOLEAN, m MAP<STRING, INT>"
    decoder = BlockDecoder(pa.struct(list(arrow_schema(schema))), has_envelope=True)
    values = {
        '{"n":2147483648}': "value.n: INT expected, not 2147483648",
        '{"n":1.0}': "value.n: INT expected, not 1.0",
        '{"a":{"zip":[1,"x"]}}': 'value.a.zip: DOUBLE expected, not "x"',
        '{"a":[]}': "value.a: STRUCT<zip: ARRAY<DOUBLE>> expected, not a list",
        '{"b":"' + "t" * 99 + '"}': f'value.b: BOOLEAN expected, not "{"t" * 59}...',
        '{"m":{"k":{}}}': "value.m: INT expected, not an object",
        "5": (
            "value: STRUCT<n: INT, a: STRUCT<zip: ARRAY<DOUBLE>>, b: BOOLEAN, m:... expected, not 5"
        ),
    }
    lines = [b'{"key":"k","timestamp_ms":1,"value":%b}' % value.encode() for value in values]
    expected = [f"wrong-type: {detail}" for detail in values.values()]
    lines += [b'{"key":5,"timestamp_ms":1,"value":{}}', b'{"timestamp_ms":true}', b"[]"]
    expected += [
        "wrong-type: key: STRING expected, not a value that is not a string",
        "wrong-type: timestamp_ms: BIGINT expected, not true",
        (
            "wrong-type: the whole value: "
            "STRUCT<key: STRING, timestamp_ms: BIGINT, value: STRUCT<n: I... expected, not a list"
        ),
    ]
    assert decoder.decode(log_rows(lines))["reason"].to_pylist() == expected
    among = decoder.decode(log_rows([GOOD % (n, n) for n in range(99)] + lines))
    assert among["reason"].to_pylist()[-len(lines) :] == expected
