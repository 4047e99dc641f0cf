"""Protobuf values of one message type, which Google's library reads with its descriptor.

A column has the value of the field with the same name. If a message lacks the field, the column is
null. A field without presence has its default instead, for example a number or a string of proto3
without ``optional``. Enums are names in STRING columns and numbers in integer columns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.decoding.row_errors import RowErrors, WrongType
from oriel.pipeline.decoding.values import as_float, struct_rows
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import ProtobufSerde

#: Converts a message, or a value of a field, to a value for a column of Arrow.
Getter = Callable[[Any], Any]

#: Confluent's header begins with a zero byte and the schema's id in four bytes. The indexes of the
#: message type in its file follow: their count and each index, as zigzag varints. The first message
#: type can have a single 0 instead.
_ID_END = 5

_Field = FieldDescriptor
_INTEGERS = {
    _Field.CPPTYPE_INT32,
    _Field.CPPTYPE_INT64,
    _Field.CPPTYPE_UINT32,
    _Field.CPPTYPE_UINT64,
}
_FLOATS = {_Field.CPPTYPE_FLOAT, _Field.CPPTYPE_DOUBLE}


@dataclass(frozen=True)
class ProtobufReader:
    """Reads Protobuf values as rows of ``row_type``.

    Attributes:
        serde: The serde of the values, with the descriptors and the name of the message type.
        row_type: The type of the rows.
    """

    serde: ProtobufSerde
    row_type: pa.StructType

    def __post_init__(self) -> None:
        """Check the descriptors before any record arrives.

        Raises:
            InvalidTopology: The descriptors cannot be read or have no such message, or a column
                does not fit.
        """
        self._row_getter()

    def read(self, values: pa.BinaryArray, row_errors: RowErrors) -> pa.StructArray:
        message_class, get_row = _message_class(self.serde), self._row_getter()
        header = _header(message_class.DESCRIPTOR) if self.serde.header == "registry" else None
        rows: list[dict[str, Any] | None] = []
        is_invalid = np.zeros(len(values), np.bool_)
        for index, value in enumerate(values.to_pylist()):
            row = None
            if value is not None:
                try:
                    row = get_row(message_class.FromString(_body(value, header)))
                except DecodeError:
                    is_invalid[index] = True
                except WrongType as error:
                    row_errors.set_one(index, Reason.WRONG_TYPE, error.detail)
            rows.append(row)
        row_errors.set(is_invalid, Reason.NOT_PROTOBUF)
        return struct_rows(rows, self.row_type, row_errors)

    def _row_getter(self) -> Getter:
        descriptor = _message_class(self.serde).DESCRIPTOR
        return _row_getter(descriptor, self.row_type, "")


@lru_cache(maxsize=64)
def _message_class(serde: ProtobufSerde) -> Any:
    pool = DescriptorPool()
    try:
        # In the set, a file follows the files that it imports.
        for file in FileDescriptorSet.FromString(serde.descriptors).file:
            pool.Add(file)
        return GetMessageClass(pool.FindMessageTypeByName(serde.message))
    except (DecodeError, TypeError, KeyError) as error:
        message = (
            f"the Protobuf descriptors have no message {serde.message!r} that can be read. Write "
            "them with protoc --include_imports --descriptor_set_out=FILE, and name the message "
            "with its package"
        )
        raise InvalidTopology(message) from error


def _row_getter(descriptor: Descriptor, row_type: pa.StructType, path: str) -> Getter:
    """Return the function that converts a message to a row of ``row_type``."""
    getters = [
        (field.name, _field_getter(descriptor, field, f"{path}{field.name}")) for field in row_type
    ]

    def get(message: Any) -> dict[str, Any]:
        return {name: getter(message) for name, getter in getters}

    return get


def _field_getter(descriptor: Descriptor, column: pa.Field, path: str) -> Getter:
    field = descriptor.fields_by_name.get(column.name)
    if field is None:
        message = f"the Protobuf message {descriptor.full_name} has no field for the column {path}"
        raise InvalidTopology(message)
    name = column.name
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if not pa.types.is_map(column.type):
            raise _misfit(field, path)
        entry = field.message_type.fields_by_name
        key = _converter(entry["key"], column.type.key_type, path)
        item = _converter(entry["value"], column.type.item_type, path)
        # The library loses the order of the message. With sorted entries, a row is deterministic.
        return lambda message: [
            (key(k), item(v)) for k, v in sorted(getattr(message, name).items(), key=itemgetter(0))
        ]
    if field.is_repeated:
        if not pa.types.is_list(column.type):
            raise _misfit(field, path)
        convert = _converter(field, column.type.value_type, path)
        return lambda message: [convert(item) for item in getattr(message, name)]
    convert = _converter(field, column.type, path)
    if field.has_presence:
        return lambda m: convert(getattr(m, name)) if m.HasField(name) else None
    return lambda message: convert(getattr(message, name))


def _converter(field: FieldDescriptor, column_type: pa.DataType, path: str) -> Getter:
    """Return the function that converts one value of ``field`` to a value of the column."""
    types, kind = pa.types, field.cpp_type
    if field.message_type is not None and types.is_struct(column_type):
        return _row_getter(field.message_type, column_type, f"{path}.")
    if field.enum_type is not None and types.is_string(column_type):
        names = {index: value.name for index, value in field.enum_type.values_by_number.items()}
        return lambda index: names.get(index, str(index))
    fits = (
        (types.is_string(column_type) and field.type == _Field.TYPE_STRING)
        or (types.is_boolean(column_type) and kind == _Field.CPPTYPE_BOOL)
        or (types.is_integer(column_type) and (kind in _INTEGERS or field.enum_type is not None))
    )
    if fits:
        return _unchanged
    if types.is_floating(column_type) and kind in _INTEGERS | _FLOATS:
        return partial(_as_float, column_type, path)
    raise _misfit(field, path)


def _as_float(column_type: pa.DataType, path: str, value: float) -> float:
    try:
        return as_float(value, column_type)
    except WrongType as error:
        error.path.append(path)
        raise


def _unchanged(value: Any) -> Any:
    return value


def _misfit(field: FieldDescriptor, path: str) -> InvalidTopology:
    return InvalidTopology(
        f"the column {path} does not have the type of the Protobuf field {field.full_name}"
    )


def _header(descriptor: Descriptor) -> tuple[bytes, ...]:
    """Return the possible bytes of the message's indexes, which follow the schema's id."""
    indexes: list[int] = []
    while descriptor is not None:
        outer = descriptor.containing_type
        siblings = outer.nested_types if outer else descriptor.file.message_types_by_name.values()
        indexes.insert(0, [each.full_name for each in siblings].index(descriptor.full_name))
        descriptor = outer
    encoded = bytearray()
    for index in (len(indexes), *indexes):
        rest = index << 1  # Zigzag. Seven bits per byte follow.
        while rest > 0x7F:
            encoded.append(rest & 0x7F | 0x80)
            rest >>= 7
        encoded.append(rest)
    return (b"\x00", bytes(encoded)) if indexes == [0] else (bytes(encoded),)


def _body(value: bytes, headers: tuple[bytes, ...] | None) -> bytes:
    """Return the message in a value, without Confluent's header.

    ``headers`` are the valid indexes (see ``_header``). None: the value has no header.
    """
    if headers is None:
        return value
    rest = value[_ID_END:]
    for header in headers:
        if value[:1] == b"\x00" and len(value) >= _ID_END and rest.startswith(header):
            return rest[len(header) :]
    message = "the header of a schema registry is missing, or belongs to another message"
    raise DecodeError(message)
