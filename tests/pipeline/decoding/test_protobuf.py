"""Values of Google's Protobuf library are decoded, and hostile bytes affect no other record."""

import math
import random
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import Consumed, Serdes
from tests.pipeline.decoding.messages import values_of


def _file() -> FileDescriptorProto:
    """Return the file that protoc would describe for a message `shop.Order`."""
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Other")
    order = file.message_type.add(name="Order")
    state = order.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="DONE", number=1)
    line = order.nested_type.add(name="Line")
    line.field.add(name="sku", number=1, type=Field.TYPE_STRING, label=1)
    counts = order.nested_type.add(name="CountsEntry")
    counts.options.map_entry = True
    counts.field.add(name="key", number=1, type=Field.TYPE_STRING, label=1)
    counts.field.add(name="value", number=2, type=Field.TYPE_INT32, label=1)
    order.oneof_decl.add(name="_note")
    fields: tuple[tuple[str, Any, int, dict[str, Any]], ...] = (
        ("id", Field.TYPE_INT64, 1, {}),
        ("price", Field.TYPE_DOUBLE, 1, {}),
        ("note", Field.TYPE_STRING, 1, {"oneof_index": 0, "proto3_optional": True}),
        ("big", Field.TYPE_UINT64, 1, {}),
        ("tags", Field.TYPE_STRING, 3, {}),
        ("state", Field.TYPE_ENUM, 1, {"type_name": ".shop.Order.State"}),
        ("line", Field.TYPE_MESSAGE, 1, {"type_name": ".shop.Order.Line"}),
        ("lines", Field.TYPE_MESSAGE, 3, {"type_name": ".shop.Order.Line"}),
        ("counts", Field.TYPE_MESSAGE, 3, {"type_name": ".shop.Order.CountsEntry"}),
        ("paid", Field.TYPE_BOOL, 1, {}),
        ("hash", Field.TYPE_BYTES, 1, {}),
    )
    for number, (name, kind, label, more) in enumerate(fields, start=1):
        order.field.add(name=name, number=number, type=kind, label=label, **more)
    return file


DESCRIPTORS = FileDescriptorSet(file=[_file()]).SerializeToString()
_POOL = DescriptorPool()
_POOL.Add(_file())
ORDER: Any = GetMessageClass(_POOL.FindMessageTypeByName("shop.Order"))
COLUMNS = (
    "id BIGINT, price DOUBLE, note STRING, big BIGINT, tags ARRAY<STRING>, state STRING, "
    "line STRUCT<sku: STRING>, lines ARRAY<STRUCT<sku: STRING>>, counts MAP<STRING, BIGINT>, "
    "paid BOOLEAN"
)
PLAIN = Consumed(value_serde=Serdes.protobuf(DESCRIPTORS, "shop.Order"))
WITH_HEADER = Consumed(value_serde=Serdes.protobuf(DESCRIPTORS, "shop.Order", header="registry"))

EMPTY: dict[str, Any] = {
    "id": 0, "price": 0.0, "note": None, "big": 0, "tags": [], "state": "NEW", "line": None,
    "lines": [], "counts": [], "paid": False,
}  # fmt: skip


def test_what_is_written_is_read() -> None:
    """A missing field with presence is null, and any other missing field has its default."""
    order = ORDER(
        id=-5, price=1.5, note="", big=7, tags=["a", "ä"], state=1, counts={"b": 2, "a": 1},
        paid=True, hash=b"\xff",
    )  # fmt: skip
    order.line.sku = "x"
    order.lines.add(sku="y")
    order.lines.add()
    found = values_of([order.SerializeToString(), b"", None], COLUMNS, PLAIN)
    assert found == [
        {
            "id": -5, "price": 1.5, "note": "", "big": 7, "tags": ["a", "ä"], "state": "DONE",
            "line": {"sku": "x"}, "lines": [{"sku": "y"}, {"sku": ""}],
            "counts": [("a", 1), ("b", 2)], "paid": True,
        },
        EMPTY,
        None,
    ]  # fmt: skip


def test_values_out_of_range_and_unknown_enums() -> None:
    """A number above the signed 64-bit range has a wrong type. An unknown enum is its number."""
    values = [ORDER(big=2**63).SerializeToString(), ORDER(state=9).SerializeToString()]
    assert values_of(values, "big BIGINT", PLAIN) == ["wrong-type", {"big": 0}]
    assert values_of(values, "state STRING", PLAIN) == [{"state": "NEW"}, {"state": "9"}]
    assert values_of(values, "state INT", PLAIN) == [{"state": 0}, {"state": 9}]
    values = [ORDER(price=price).SerializeToString() for price in (1e39, -math.inf)]
    assert values_of(values, "price FLOAT", PLAIN) == ["wrong-type", {"price": -math.inf}]


def test_hostile_bytes_harm_no_other_record() -> None:
    """A cut or changed message is a dead letter or some row. Valid messages stay valid."""
    chance = random.Random(11)
    order = ORDER(id=5, price=1.5, note="n", tags=["a"], counts={"a": 1}, big=3)
    good = order.SerializeToString()
    (row,) = values_of([good], COLUMNS, PLAIN)
    values = []
    for _ in range(3000):
        bad = bytearray(good)
        at = chance.randrange(len(bad))
        bad[at : at + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 2))
        values += [bytes(bad), good]
    found = values_of(values, COLUMNS, PLAIN)
    assert found[1::2] == [row] * 3000
    assert {each for each in found if isinstance(each, str)} == {"not-protobuf"}


def test_a_registrys_header_names_the_message() -> None:
    """The index in the header must be the index of this message. The schema id is ignored."""
    good = ORDER(id=5).SerializeToString()
    headers = {
        b"\x00\x00\x00\x00\x09\x02\x02": {"id": 5},  # one index, 1: the second message
        b"\x00\x00\x00\x00\x09\x00": "not-protobuf",  # short form of the first message
        b"\x00\x00\x00\x00\x09\x02\x00": "not-protobuf",
        b"\x01\x00\x00\x00\x09\x02\x02": "not-protobuf",
        b"\x00\x00": "not-protobuf",
        b"": "not-protobuf",
    }
    found = values_of([header + good for header in headers], "id BIGINT", WITH_HEADER)
    assert found == list(headers.values())
    nested = Consumed(
        value_serde=Serdes.protobuf(DESCRIPTORS, "shop.Order.Line", header="registry")
    )
    line = ORDER.Line(sku="s").SerializeToString()
    assert values_of([b"\0\0\0\0\x09\x04\x02\x00" + line], "sku STRING", nested) == [{"sku": "s"}]
    first = Consumed(value_serde=Serdes.protobuf(DESCRIPTORS, "shop.Other", header="registry"))
    with pytest.raises(InvalidTopology, match="no field for the column id"):
        values_of([], "id INT", first)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("nope INT", "no field for the column nope"),
        ("line STRUCT<nope: INT>", r"no field for the column line\.nope"),
        ("id STRING", "column id does not have the type of the Protobuf field shop.Order.id"),
        ("price BIGINT", "column price does not have the type"),
        ("tags STRING", "column tags does not have the type"),
        ("counts ARRAY<STRING>", "column counts does not have the type"),
        ("hash STRING", "column hash does not have the type"),
    ],
)
def test_columns_that_do_not_fit_are_refused(schema: str, message: str) -> None:
    """The descriptor has all types, so columns are checked before any record."""
    with pytest.raises(InvalidTopology, match=message):
        values_of([], schema, PLAIN)


@pytest.mark.parametrize(
    ("descriptors", "message"),
    [(b"\xff", "shop.Order"), (DESCRIPTORS, "Order"), (b"", "shop.Order")],
)
def test_descriptors_that_can_not_be_used_are_refused(descriptors: bytes, message: str) -> None:
    """The error says how protoc writes descriptors."""
    serde = Serdes.protobuf(descriptors, message)
    with pytest.raises(InvalidTopology, match="--include_imports"):
        values_of([], "id BIGINT", Consumed(value_serde=serde))
