"""Headers of messages as columns."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.decoding.values import valid_strings


def header_columns(headers: pa.ListArray, names: Iterable[str]) -> list[pa.StringArray]:
    """Return one column for each of ``names``.

    If a header is repeated, the last one counts, like Kafka's ``lastHeader``. A header is null if
    it is missing or is not UTF-8. The record stays valid, because other programs often write the
    headers.

    Args:
        headers: The headers of each message, as lists of key and value.
        names: The names of the headers.
    """
    rows = np.asarray(pc.list_parent_indices(headers))
    flat = pc.list_flatten(headers)
    keys, values = pc.struct_field(flat, "key"), pc.struct_field(flat, "value")
    columns = []
    for name in names:
        found = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(keys, name), False)))  # noqa: FBT003
        indexes = np.full(len(headers), -1)
        # If an index is repeated, numpy assigns the last value.
        indexes[rows[found]] = found
        columns.append(valid_strings(values.take(pa.array(indexes, mask=indexes < 0))))
    return columns
