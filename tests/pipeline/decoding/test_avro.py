"""Avro values of fastavro are decoded, and hostile bytes affect no other record."""

import json
import math
import random
import struct
from io import BytesIO
from typing import Any

import fastavro
import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form
from hypothesis import given, settings
from hypothesis import strategies as st

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import Consumed, Serdes
from tests.pipeline.decoding.messages import values_of

SCHEMA = json.dumps({
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "n", "type": "int"},
        {"name": "price", "type": "double"},
        {"name": "small", "type": "float"},
        {"name": "paid", "type": ["null", "boolean"], "default": None},
        {"name": "note", "type": ["string", "null"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "unread", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {
            "name": "address",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [{"name": "zip", "type": "string"}, {"name": "x", "type": "bytes"}],
            },
        },
        {"name": "second", "type": ["null", "Address"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
})  # fmt: skip
COLUMNS = (
    "id BIGINT, n INT, price DOUBLE, small FLOAT, paid BOOLEAN, note STRING, tags ARRAY<STRING>, "
    "counts MAP<STRING, INT>, address STRUCT<zip: STRING>, second STRUCT<zip: STRING>, "
    "state STRING, at BIGINT"
)
#: The same without a map, because Arrow does not convert the maps of fastavro.
PLAIN_COLUMNS = COLUMNS.replace("counts MAP<STRING, INT>, ", "")

_ADDRESSES = st.fixed_dictionaries({"zip": st.text(), "x": st.binary(max_size=3)})
ORDERS = st.fixed_dictionaries({
    "id": st.integers(-(2**63), 2**63 - 1),
    "n": st.integers(-(2**31), 2**31 - 1),
    "price": st.floats(allow_nan=False),
    "small": st.floats(allow_nan=False, width=32),
    "paid": st.none() | st.booleans(),
    "note": st.none() | st.text(),
    "tags": st.lists(st.text(max_size=3), max_size=4),
    "counts": st.dictionaries(st.text(max_size=3), st.integers(-9, 9), max_size=3),
    "unread": st.binary(min_size=4, max_size=4),
    "address": _ADDRESSES,
    "second": st.none() | _ADDRESSES,
    "state": st.sampled_from(["NEW", "DONE"]),
    "at": st.integers(0, 2**40),
})  # fmt: skip
ORDER = {
    "id": 1, "n": 2, "price": 1.5, "small": 0.5, "paid": True, "note": "hi", "tags": ["a", "b"],
    "counts": {"k": 1}, "unread": b"1234", "address": {"zip": "z", "x": b""}, "second": None,
    "state": "DONE", "at": 12,
}  # fmt: skip


def written(record: Any, schema: str = SCHEMA) -> bytes:
    """Return a record as fastavro encodes it."""
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema)), record)
    return stream.getvalue()


def expected(record: dict[str, Any]) -> dict[str, Any]:
    """Return the row of an order."""
    row = {name: value for name, value in record.items() if name != "unread"}
    row["counts"] = list(record["counts"].items())
    for name in ("address", "second"):
        row[name] = record[name] and {"zip": record[name]["zip"]}
    return row


@settings(deadline=None)
@given(st.lists(ORDERS, min_size=1, max_size=5))
def test_what_is_written_is_read(orders: list[dict[str, Any]]) -> None:
    """Columns are found by name, and fields without a column are ignored."""
    values = [written(order) for order in orders]
    rows = [expected(order) for order in orders]
    assert values_of(values, COLUMNS, Consumed(value_serde=Serdes.avro(SCHEMA))) == rows
    for row in rows:
        del row["counts"]
    assert values_of(values, PLAIN_COLUMNS, Consumed(value_serde=Serdes.avro(SCHEMA))) == rows


def test_hostile_bytes_harm_no_other_record() -> None:
    """A cut, changed or longer record is a dead letter or some row. Valid records stay valid."""
    chance, good = random.Random(7), written(ORDER)
    values = []
    for _ in range(3000):
        bad = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(bad) + 1)
            match chance.randrange(3):
                case 0:
                    del bad[at:]
                case 1:
                    bad[at:at] = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"[
                        : chance.randint(1, 10)
                    ]
                case 2:
                    bad[at : at + 1] = chance.randbytes(1)
        values += [bytes(bad), good]
    for columns in (COLUMNS, PLAIN_COLUMNS):
        found = values_of(values, columns, Consumed(value_serde=Serdes.avro(SCHEMA)))
        row = expected(ORDER)
        rows = [each for each in found[1::2] if isinstance(each, dict)]
        assert rows == found[1::2]
        assert [each for each in rows if each != {name: row[name] for name in each}] == []
        assert {each for each in found[::2] if isinstance(each, str)} <= {"not-avro", "wrong-type"}
        assert found[::2].count("not-avro") > 1000


def test_additional_and_missing_bytes_of_a_record_are_errors() -> None:
    """An incomplete record, or bytes after one, is a dead letter. A null value is a tombstone."""
    good = written(ORDER)
    values = [good + b"\0", good[:-1], b"", None]
    found = values_of(values, "id BIGINT", Consumed(value_serde=Serdes.avro(SCHEMA)))
    assert found == ["not-avro", "not-avro", "not-avro", None]


@pytest.mark.parametrize(
    ("written_as", "value", "column", "read"),
    [
        ("int", 5, "BIGINT", 5),
        ("int", 5, "DOUBLE", 5.0),
        ("long", 2**60 + 1, "DOUBLE", float(2**60 + 1)),
        ("float", 0.5, "DOUBLE", 0.5),
        ("double", 0.1, "FLOAT", struct.unpack("f", struct.pack("f", 0.1))[0]),
        ("double", math.inf, "FLOAT", math.inf),
        ("double", -1e39, "FLOAT", "wrong-type"),
        ("double", 2.0**128 - 2.0**103, "FLOAT", "wrong-type"),
        ("double", 3.4028235677973362e38, "FLOAT", 2.0**128 - 2.0**104),
        ("long", 5, "INT", 5),
        ("long", 2**31, "INT", "wrong-type"),
        ("int", 2**15, "SMALLINT", "wrong-type"),
        ("double", 1.0, "BIGINT", "wrong-type"),
        ("string", "1", "BIGINT", "wrong-type"),
        ("long", 1, "STRING", "wrong-type"),
        ("boolean", True, "BIGINT", "wrong-type"),
        ("bytes", "ä".encode(), "STRING", "ä"),
        ("bytes", b"\xff", "STRING", "wrong-type"),
        (["null", "long", "string"], "text", "BIGINT", "wrong-type"),
        (["null", "long", "string"], 3, "BIGINT", 3),
    ],
)
def test_a_value_fits_its_column_or_is_of_a_wrong_type(
    written_as: Any, value: Any, column: str, read: Any
) -> None:
    """Numbers are widened or checked against the range of the column. UTF-8 bytes are a string."""
    schema = json.dumps({
        "type": "record", "name": "r", "fields": [{"name": "v", "type": written_as}],
    })  # fmt: skip
    serde = Serdes.avro(schema)
    (found,) = values_of(
        [written({"v": value}, schema)], f"v {column}", Consumed(value_serde=serde)
    )
    assert found == (read if read == "wrong-type" else {"v": read})


def test_single_objects_begin_with_their_schemas_fingerprint() -> None:
    """An object of another schema, or without a header, is a dead letter."""
    canonical = to_parsing_canonical_form(json.loads(SCHEMA))
    header = b"\xc3\x01" + bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))
    good = written(ORDER)
    other = header[:-1] + bytes([header[-1] ^ 1])
    serde = Serdes.avro(SCHEMA, header="single-object")
    found = values_of(
        [header + good, good, other + good, b"\xc3"], "n INT", Consumed(value_serde=serde)
    )
    assert found == [{"n": 2}, "not-avro", "not-avro", "not-avro"]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "JSONDecodeError"),
        ('"long"', "not the schema of a record"),
        ('{"type":"record","name":"r","fields":[{"name":"v","type":"nope"}]}', "nope"),
        (
            '{"type":"record","name":"r","fields":[{"name":"v","type":["null","r"]}]}',
            "contains itself",
        ),
        (
            """{"type":"record","name":"r","fields":[
            {"name":"v","type":{"type":"array","items":"null"}}]}""",
            "can have zero bytes",
        ),
        ('{"type":"record","name":"r","fields":[]}', r"no fields for the columns \['v'\]"),
    ],
)
def test_a_schema_that_can_not_be_used_is_refused(schema: str, message: str) -> None:
    """The error is raised before any record. Some schemas would let a few bytes use all memory."""
    with pytest.raises(InvalidTopology, match=message):
        values_of([], "v INT", Consumed(value_serde=Serdes.avro(schema)))


def test_headers_and_schemas_have_to_fit_together() -> None:
    """The header `registry` names the schema, and any other header needs a schema."""
    with pytest.raises(InvalidTopology, match="does not fit"):
        Serdes.avro(SCHEMA, header="registry")
    with pytest.raises(InvalidTopology, match="does not fit"):
        Serdes.avro(header="single-object")
