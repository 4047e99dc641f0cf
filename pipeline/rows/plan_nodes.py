"""Readers of nodes in Spark's analyzed plans: types, constants and children."""

from collections.abc import Sequence
from decimal import Decimal
from math import copysign
from typing import Any

import pyarrow as pa

#: Spark type -> Arrow type, for all types that arguments of an Arrow function can have.
TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "binary": pa.binary(),
}
INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
FRACTIONS = frozenset({"float", "double"})
NUMBERS = INTEGERS | FRACTIONS
TEXT = frozenset({"string"})
BOOLEAN = frozenset({"boolean"})
#: All types whose values can be compared. ``decimal`` has any precision and scale.
SCALARS = frozenset({*TYPES, "decimal"})


class NotInArrow(Exception):
    """An expression for which Arrow does not return the same results as Spark."""


def base_type(spark_type: Any) -> str:
    """Return the name of a type, without the precision and scale of a decimal."""
    name: str = spark_type.simpleString()
    return "decimal" if name.startswith("decimal(") else name


def arrow_type(spark_type: Any) -> pa.DataType:
    """Return the Arrow type for a Spark type or for an array of such a type.

    Raises:
        NotInArrow: The type, or the type of the elements of an array, is not in ``SCALARS``.
    """
    name = base_type(spark_type)
    if name == "decimal":
        return pa.decimal128(spark_type.precision(), spark_type.scale())
    if spark_type.typeName() == "array":
        element = arrow_type(spark_type.elementType())
        return pa.list_(pa.field("element", element, nullable=spark_type.containsNull()))
    if name not in TYPES:
        raise NotInArrow(name)
    return TYPES[name]


def value_of(literal: Any) -> Any:
    """Return the value of a literal as a Python object.

    Raises:
        NotInArrow: The value is -0.0, or a string whose bytes are not valid UTF-8.
    """
    value = literal.value()
    if isinstance(value, float) and value == 0 and copysign(1, value) < 0:
        # Spark treats -0.0 and 0.0 as one literal. All expressions of a step together determine
        # which one it uses.
        raise NotInArrow("-0.0")  # noqa: EM101 - never shown
    kind = base_type(literal.dataType())
    if value is not None and kind == "decimal":
        return Decimal(value.toString())
    if value is None or kind not in TEXT:
        return value
    if not value.isValid():
        raise NotInArrow("bytes")  # noqa: EM101 - never shown
    return value.toString()


def constants(node: Any, children: Sequence[Any] | None = None) -> list[Any]:
    """Return the values of ``children``, by default of all children of a node except the first.

    Raises:
        NotInArrow: A child is not constant, or it is null.
    """
    values = []
    for child in items(node.children())[1:] if children is None else children:
        if child.getClass().getSimpleName() != "Literal" or child.value() is None:
            raise NotInArrow(node.sql())
        values.append(value_of(child))
    return values


def items(sequence: Any) -> list[Any]:
    """Return a sequence of the JVM as a Python list."""
    return [sequence.apply(index) for index in range(sequence.size())]
