"""Strings and numbers as values and keys, record time, and headers as columns."""

import json
import pickle
import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel.pipeline.decoding import event_log_decoder, kafka_decoder
from oriel.pipeline.language import Consumed, FieldTimestamp, Serde, Serdes
from tests.pipeline.decoding.both_decoders import log_rows
from tests.pipeline.decoding.messages import decoded, raw_rows, values_of

NUMBERS = [
    (Serdes.long(), "BIGINT", ">q", -(2**63), 2**63 - 1),
    (Serdes.integer(), "INT", ">i", -(2**31), 2**31 - 1),
    (Serdes.short(), "SMALLINT", ">h", -(2**15), 2**15 - 1),
    (Serdes.double(), "DOUBLE", ">d", -1.5, 1e300),
    (Serdes.float(), "FLOAT", ">f", -1.5, 0.25),
]


@pytest.mark.parametrize(("serde", "column", "code", "least", "greatest"), NUMBERS)
def test_numbers_of_kafkas_serializers(
    serde: Serde, column: str, code: str, least: float, greatest: float
) -> None:
    """Numbers are big-endian. Only the record with a wrong number of bytes is a dead letter."""
    values = [struct.pack(code, least), None, b"", struct.pack(code, greatest), b"1", b"123456789"]
    found = values_of(values, f"v {column}", Consumed(value_serde=serde))
    assert found == [
        {"v": least}, None, "wrong-type", {"v": greatest}, "wrong-type", "wrong-type",
    ]  # fmt: skip


def test_text_values() -> None:
    """The value is the column. An empty string is a value, and a null value is a tombstone."""
    values = ["ä/b".encode(), b"", None, b"\xff", b"null"]
    found = values_of(values, "line STRING", Consumed(value_serde=Serdes.string()))
    assert found == [{"line": "ä/b"}, {"line": ""}, None, "not-utf8", {"line": "null"}]


def test_integer_keys_are_decimal_texts() -> None:
    """A key of a wrong length is a dead letter, and a null key stays null."""
    keys = [struct.pack(">q", -12), None, b"12", struct.pack(">q", 2**62)]
    rows = raw_rows([b"{}"] * 4, keys=keys)
    found = decoded(rows, "v INT", Consumed(key_serde=Serdes.long()))
    assert [row["key"] for row in found] == ["-12", None, None, str(2**62)]
    assert [row["reason"] for row in found] == [None, None, "wrong-type", None]
    assert found[2]["detail"] == "the serde long needs 8 bytes, not 2"


JSON_KEYS: list[tuple[bytes, str | None, str | None]] = [
    (b'{"b": 1, "a": [1.0, "\\u00e4"]}', '{"a":[1.0,"ä"],"b":1}', None),
    (b' "plain" ', "plain", None),
    (b"null", None, None),
    (b"12345678901234567890", "12345678901234567890", None),
    (b"true", "true", None),
    (b"NaN", None, "not-json"),
    (b"1e999", None, "wrong-type"),
    (b'{"a":[-1e400]}', None, "wrong-type"),
    (b'"\\ud800"', None, "not-json"),
    (b"{", None, "not-json"),
    (b"[" * 100_000, None, "not-json"),
    (b'"\xff"', None, "not-utf8"),
]


def test_json_keys_have_one_spelling() -> None:
    """Names are sorted and blanks removed, so equal keys have one row."""
    rows = raw_rows([b"{}"] * len(JSON_KEYS), keys=[key for key, _, _ in JSON_KEYS])
    found = decoded(rows, "v INT", Consumed(key_serde=Serdes.json()))
    assert [(row["key"], row["reason"]) for row in found] == [
        (text, reason) for _, text, reason in JSON_KEYS
    ]
    details = [row["detail"] for row in found if row["reason"] == "wrong-type"]
    expected = "key: a number in the range of DOUBLE expected, not"
    assert details == [f"{expected} 1e999", f"{expected} -1e400"]


def test_record_time_by_a_column_of_numbers() -> None:
    """Times are converted from their unit and rounded down. An invalid time is a dead letter."""
    cases: list[tuple[Any, str, int | str]] = [
        (3, "s", 3000), (3, "ms", 3), (3999, "us", 3), (-1, "us", "negative-timestamp"),
        (None, "ms", "missing-timestamp"), (2**62, "s", "timestamp-too-large"),
        (-(2**62), "s", "negative-timestamp"), (253402300800, "s", "timestamp-too-large"),
    ]  # fmt: skip
    for value, unit, expected in cases:
        consumed = Consumed(timestamp=FieldTimestamp("at", unit))  # type: ignore[arg-type]
        (found,) = decoded(raw_rows([json.dumps({"at": value}).encode()]), "at BIGINT", consumed)
        assert (found["reason"] or found["timestamp_ms"]) == expected


def test_record_time_by_a_column_of_text() -> None:
    """An ISO 8601 string needs a zone and an existing day. Other records are unaffected."""
    texts = {
        "1970-01-01T00:00:01Z": 1000,
        "1970-01-01 01:00:00.0019+01:00": 1,
        "1970-01-02T00:00:00.123456789-0000": 86_400_123,
        "2024-02-29T00:00:00Z": 1_709_164_800_000,
        "2023-02-29T00:00:00Z": "invalid-timestamp",
        "1970-01-01T00:00:01": "invalid-timestamp",
        "1970-01-01": "invalid-timestamp",
        "yesterday": "invalid-timestamp",
        "": "invalid-timestamp",
        "1969-12-31T23:59:59.9999Z": "negative-timestamp",
    }
    values = [json.dumps({"at": text}).encode() for text in texts]
    consumed = Consumed(timestamp=FieldTimestamp("at", "iso"))
    found = decoded(raw_rows(values), "at STRING", consumed)
    assert [row["reason"] or row["timestamp_ms"] for row in found] == list(texts.values())
    (detail,) = (row["detail"] for row in found if b"yesterday" in row["raw"])
    assert detail == 'at: a time like 2026-03-01T12:00:00Z expected, not "yesterday"'
    log = event_log_decoder("at STRING", consumed)
    assert log is not None
    lines = [b'{"key":"k","value":%b}' % value for value in values]
    for row, message in zip(log.decode(log_rows(lines)).to_pylist(), found, strict=True):
        names = ("key", "timestamp_ms", "value")
        assert [row[name] for name in names] == [message[name] for name in names]
        assert (row["reason"] or "").partition(": ")[0] == (message["reason"] or "")


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)),  # noqa: DTZ001 - given its zone
    st.integers(-1439, 1439),
)
def test_any_iso_time_is_pythons(moment: datetime, offset_minutes: int) -> None:
    """An ISO time in any zone has the milliseconds that Python reads."""
    sign, minutes = "-" if offset_minutes < 0 else "+", abs(offset_minutes)
    text = f"{moment.isoformat(timespec='microseconds')}{sign}{minutes // 60:02}:{minutes % 60:02}"
    consumed = Consumed(timestamp=FieldTimestamp("at", "iso"))
    (found,) = decoded(raw_rows([json.dumps({"at": text}).encode()]), "at STRING", consumed)
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    assert found["timestamp_ms"] == since // timedelta(milliseconds=1)


def test_a_tombstone_has_its_messages_time() -> None:
    """A tombstone has no time column, so it has the time of its message and deletes its row."""
    consumed = Consumed(timestamp=FieldTimestamp("at"))
    found = decoded(raw_rows([None, b"null"], times_us=[5000, 6000]), "at BIGINT", consumed)
    assert [(row["timestamp_ms"], row["value"], row["reason"]) for row in found] == [
        (5, None, None), (6, None, None),
    ]  # fmt: skip


def test_ingestion_time_is_the_batchs() -> None:
    """The time `ingestion` is the time of the batch, also if the message has no time."""
    rows = raw_rows([b"{}"], times_us=[None])
    (found,) = decoded(rows, "v INT", Consumed(timestamp="ingestion"))
    assert (found["timestamp_ms"], found["reason"]) == (7, None)


def test_headers_are_columns() -> None:
    """The last of repeated headers counts. Missing headers and invalid strings are null."""
    headers = [
        [("a", b"1"), ("b", b"x"), ("a", b"2")],
        None,
        [("a", b"\xff")],
        [("A", b"1"), ("b", None)],
        [],
        [("b", "ä".encode())],
    ]
    rows = raw_rows([b'{"v": 1}'] * 5 + [None], headers=headers)
    consumed = Consumed(headers={"a": "first", "b": "second"})
    for count in (1, 50):  # line by line, and by blocks
        batch = rows if count == 1 else _repeated(rows, count)
        values = [row["value"] for row in decoded(batch, "v INT", consumed)][-6:]
        assert values == [
            {"v": 1, "first": "2", "second": "x"},
            {"v": 1, "first": None, "second": None},
            {"v": 1, "first": None, "second": None},
            {"v": 1, "first": None, "second": None},
            {"v": 1, "first": None, "second": None},
            None,
        ]


def _repeated(rows: Any, count: int) -> Any:
    return rows.take([*range(6)] * count)


def test_an_event_log_has_headers_and_times_of_columns() -> None:
    """Headers are an object of the line. With a time column, the line needs no `timestamp_ms`."""
    consumed = Consumed(timestamp=FieldTimestamp("at"), headers={"trace": "trace_id"})
    decoder = event_log_decoder("at BIGINT", consumed)
    assert decoder is not None
    lines = [
        b'{"key":"k","value":{"at":5},"headers":{"trace":"t","other":1}}',
        b'{"key":"k","value":{"at":6},"timestamp_ms":1}',
        b'{"key":"k","value":null,"timestamp_ms":1}',
        b'{"key":"k","value":{"at":null},"timestamp_ms":1,"headers":null}',
        b'{"key":"k","value":{"at":7},"headers":[]}',
    ]
    expected = [
        (5, {"at": 5, "trace_id": "t"}, None),
        (6, {"at": 6, "trace_id": None}, None),
        (1, None, None),
        (None, None, "missing-timestamp: the time column at is missing or null"),
        (None, None, "wrong-type: headers: STRUCT<trace: STRING> expected, not a list"),
    ]
    for batch in (log_rows(lines), log_rows(lines * 30)):
        found = decoder.decode(batch).to_pylist()[-len(lines) :]
        assert [(row["timestamp_ms"], row["value"], row["reason"]) for row in found] == expected


@pytest.mark.parametrize(
    "consumed",
    [
        Consumed(value_serde=Serdes.json(), headers={"h": "c"}),
        Consumed(key_serde=Serdes.integer(), timestamp=FieldTimestamp("v")),
    ],
)
def test_a_decoder_can_be_sent_to_tasks(consumed: Consumed) -> None:
    """A pickled decoder is equal to the original."""
    decoder = kafka_decoder("v BIGINT", consumed)
    assert pickle.loads(pickle.dumps(decoder)) == decoder  # noqa: S301 - our own


def test_maps_are_read_together_with_headers() -> None:
    """Types that Arrow's JSON reader lacks are read line by line, also with headers."""
    rows = raw_rows([b'{"m":{"a":1}}', b'{"m":1}'], headers=[[("h", b"1")], None])
    found = decoded(rows, "m MAP<STRING, INT>", Consumed(headers={"h": "h"}))
    assert [row["reason"] or row["value"] for row in found] == [
        {"m": [("a", 1)], "h": "1"}, "wrong-type",
    ]  # fmt: skip
