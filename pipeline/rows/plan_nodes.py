"""What nodes of Spark's analysed plans say: types, constants, children."""

from collections.abc import Sequence
from math import copysign
from typing import Any

import pyarrow as pa

#: Spark's types, of which a function in Arrow may have arguments.
TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
}
INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
FRACTIONS = frozenset({"float", "double"})
NUMBERS = INTEGERS | FRACTIONS
TEXT = frozenset({"string"})
BOOLEAN = frozenset({"boolean"})
SCALARS = frozenset(TYPES)


class NotInArrow(Exception):
    """An expression that Arrow does not run as Spark does."""


def arrow_type(spark_type: Any) -> pa.DataType:
    """The type of values, or of arrays of them.

    Raises:
        NotInArrow: it is another one.
    """
    name = spark_type.simpleString()
    if spark_type.typeName() == "array":
        element = arrow_type(spark_type.elementType())
        return pa.list_(pa.field("element", element, nullable=spark_type.containsNull()))
    if name not in TYPES:
        raise NotInArrow(name)
    return TYPES[name]


def value_of(literal: Any) -> Any:
    """The value of a literal as Python's.

    Raises:
        NotInArrow: it is -0.0, or a text of bytes that are none.
    """
    value = literal.value()
    if isinstance(value, float) and value == 0 and copysign(1, value) < 0:
        # To Spark -0.0 and 0.0 are one literal, and which it puts in follows from all that a
        # step computes.
        raise NotInArrow("-0.0")  # noqa: EM101 - never shown
    if value is None or literal.dataType().simpleString() not in TEXT:
        return value
    if not value.isValid():
        raise NotInArrow("bytes")  # noqa: EM101 - never shown
    return value.toString()


def constants(node: Any, children: Sequence[Any] | None = None) -> list[Any]:
    """The values of all children but the first, or of these.

    Raises:
        NotInArrow: one is not constant, or null.
    """
    values = []
    for child in items(node.children())[1:] if children is None else children:
        if child.getClass().getSimpleName() != "Literal" or child.value() is None:
            raise NotInArrow(node.sql())
        values.append(value_of(child))
    return values


def items(sequence: Any) -> list[Any]:
    """A list of the JVM's as Python's."""
    return [sequence.apply(index) for index in range(sequence.size())]
