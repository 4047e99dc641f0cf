"""Headers of messages as columns."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.decoding.values import valid_texts


def header_columns(headers: pa.ListArray, names: Iterable[str]) -> list[pa.StringArray]:
    """A column for each of ``names``, of the headers of messages: lists of key and value.

    Of a header that is repeated the last one counts, like Kafka's ``lastHeader``. A header that is
    missing is null; so is one that is no UTF-8 text, as headers are often of other programs, and
    the record itself is good.
    """
    rows = np.asarray(pc.list_parent_indices(headers))
    flat = pc.list_flatten(headers)
    keys, values = pc.struct_field(flat, "key"), pc.struct_field(flat, "value")
    columns = []
    for name in names:
        found = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(keys, name), False)))  # noqa: FBT003
        places = np.full(len(headers), -1)
        # Of repeated indices numpy assigns the last.
        places[rows[found]] = found
        columns.append(valid_texts(values.take(pa.array(places, mask=places < 0))))
    return columns
