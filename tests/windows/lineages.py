"""Lineages as tuples of indexes."""

from collections.abc import Mapping
from typing import Any

from oriel.pipeline.windows import LINEAGE

#: The order of indexes in the bytes, written without the engine.
_BYTES = 8


def lineage(*indexes: int) -> bytes:
    """Return the bytes of a lineage with these indexes."""
    return b"".join(index.to_bytes(_BYTES, "big") for index in indexes)


def indexes_of(value: bytes | None) -> tuple[int, ...]:
    """Return the indexes of a lineage, without any for a row without a lineage."""
    value = value or b""
    return tuple(
        int.from_bytes(value[begin : begin + _BYTES], "big")
        for begin in range(0, len(value), _BYTES)
    )


def values_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values of a row, with the indexes of its lineage."""
    return tuple(
        indexes_of(value) if name == LINEAGE.name else value for name, value in row.items()
    )
