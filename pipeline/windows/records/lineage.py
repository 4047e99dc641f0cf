"""The lineage of rows: what distinguishes the rows of one source record, and their order.

A row is identified by its source record (partition, offset) and its lineage. Records of a source
have no lineage. A lineage is a sequence of indexes with 8 bytes each, the most significant byte
first. So the order of the bytes is the order of the rows, and a lineage can have any length:

    flattened record                lineage of the record, index of the element
    row that a record changes       lineage of the record, index of the row
    row of process                  lineage of the last record of its key, index of the row
    old or new row of an update     lineage of the update, 0 or 1
    record of several logs          index of the log, lineage in this log
    result of a stream join         lineage of the left record, partition and offset + 1 of the
                                    right record, lineage of the right record

An unmatched record of a stream join has 0 instead of the indexes of the missing record. A log is
one input topic. If the source records of a stream are from several logs, the first index of each
lineage is the log. It replaces the log of an input.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Ints
from oriel.pipeline.windows.definitions import Windows

#: The lineage of a row. Null for a record of a source. No value column has such a name.
LINEAGE = pa.field("__lineage", pa.binary())

#: The bytes of an index. An offset of Kafka has up to 63 bits. No index is negative, because the
#: bytes of a negative number would follow the bytes of all positive numbers.
_INDEX_BYTES = 8
#: The greatest offset in a binary array of Arrow, which has offsets of 32 bits.
_END = 2**31 - 1
#: The indexes of the right record of a stream join: its partition, and its offset + 1.
_RECORD_INDEXES = 2


@dataclass(frozen=True)
class Lineage:
    """The form of the lineages of a stream or a table.

    Attributes:
        length: The greatest number of indexes. 0: the rows have no lineage.
        logs: The number of logs that source records are from.
    """

    length: int = 0
    logs: int = 1

    @property
    def fields(self) -> list[pa.Field]:
        """The column of lineages, if the rows have any."""
        return [LINEAGE] if self.length else []

    @property
    def has_log(self) -> bool:
        """Whether each lineage begins with the index of a log."""
        return self.logs > 1

    @property
    def length_in_log(self) -> int:
        """The greatest number of indexes without the log."""
        return self.length - self.has_log

    def extended(self) -> "Lineage":
        """Return the form with one more index at the end."""
        return replace(self, length=self.length + 1)

    def of_updates(self, windows: Windows) -> "Lineage":
        """Return the form for the rows of ``windows`` that each record changes."""
        return self.extended() if windows.rule.changes_several else self

    def joined(self, right: "Lineage", *, has_left: bool) -> "Lineage":
        """Return the form for results of a stream join with ``right``.

        ``has_left``: each result has a left record, as in inner and left joins.
        """
        # In an outer join, the source record of a result can be a right record.
        logs = self.logs if has_left else self.logs + right.logs
        return Lineage(self.joined_length_in_log(right) + (logs > 1), logs)

    def joined_length_in_log(self, right: "Lineage") -> int:
        """Return ``length_in_log`` of results of a stream join with ``right``."""
        return self.length_in_log + _RECORD_INDEXES + right.length

    def log_of(self, rows: pa.Table) -> Ints:
        """Return the index of the log of each row, from 0."""
        if not self.has_log:
            return np.zeros(len(rows), dtype=np.int64)
        return indexes(rows[LINEAGE.name], 1)[:, 0]

    def in_log(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the lineage of each row without the log. Empty for a row without a lineage."""
        if LINEAGE.name not in rows.column_names:
            return pa.chunked_array([pa.repeat(pa.scalar(b"", LINEAGE.type), len(rows))])
        lineages = pc.fill_null(rows[LINEAGE.name], b"")
        # Without an explicit end, PyArrow 26 computes a negative size for its buffer.
        return pc.binary_slice(lineages, _INDEX_BYTES, _END) if self.has_log else lineages

    def read(self, rows: pa.Table) -> Ints:
        """Return the indexes of ``rows`` by [row, index], with 0 after the end of a lineage."""
        if not self.length:
            return np.zeros((len(rows), 0), dtype=np.int64)
        return indexes(rows[LINEAGE.name], self.length)


def lineage_fields(inputs: Iterable[Lineage]) -> list[pa.Field]:
    """Return the column of lineages, if the rows of any input have one."""
    return [LINEAGE] if any(each.length for each in inputs) else []


def merged_lineage(inputs: Sequence[Lineage]) -> Lineage:
    """Return the form for rows of several inputs. Rows of one input keep their lineage."""
    if len(inputs) == 1:
        return inputs[0]
    # Each lineage begins with a log, and the logs of an input follow the logs of the previous
    # input. So the log of an input is replaced, and does not add an index.
    longest = max(each.length_in_log for each in inputs)
    return Lineage(1 + longest, sum(each.logs for each in inputs))


def joined_lineages(
    forms: tuple[Lineage, Lineage],
    lineages: tuple[Ints, Ints],
    right_record: tuple[Ints, Ints],
    missing: tuple[Flags, Flags],
    *,
    has_left: bool,
) -> pa.Array:
    """Return the lineages of results of a stream join, in the form ``Lineage.joined``.

    Args:
        forms: The forms of the left and of the right lineages.
        lineages: The indexes of the left and of the right row of each result, by [result, index].
        right_record: The partition and the offset of each right row.
        missing: Which results have no left row, and which have no right row. Their values in
            ``lineages`` and ``right_record`` are not used.
        has_left: True if each result of the join has a left row.
    """
    (left, right), (of_left, of_right), (no_left, no_right) = forms, lineages, missing
    partition, offset = right_record
    # An unmatched right record is itself the source record of its result.
    no_record = no_left | no_right
    # 0 is reserved for a missing right record, and the first offset of a partition is 0.
    record = np.column_stack([partition, offset + 1])
    columns = [
        np.where(no_left[:, np.newaxis], 0, of_left[:, left.has_log :]),
        np.where(no_record[:, np.newaxis], 0, record),
        np.where(no_right[:, np.newaxis], 0, of_right),
    ]
    if left.joined(right, has_left=has_left).has_log:
        # The logs of the right input follow the logs of the left input, so each log has an index of
        # its own.
        log = of_left[:, 0] if left.has_log else 0
        log_of_right = of_right[:, 0] if right.has_log else 0
        columns.insert(0, np.where(no_left, left.logs + log_of_right, log)[:, np.newaxis])
    return encoded(np.hstack(columns))


def right_records(
    forms: tuple[Lineage, Lineage], in_log: Ints
) -> tuple[tuple[Ints, Ints], Ints, Ints]:
    """Return the right record of each result of a stream join, from ``joined_lineages``.

    Args:
        forms: The forms of the left and of the right lineages.
        in_log: The indexes of the results without the log, by [result, index].

    Returns:
        Partition and offset (-1 without a right record), log, and the indexes in this log.
    """
    left, right = forms
    start = left.length_in_log
    of_right = in_log[:, start + _RECORD_INDEXES :]
    log = of_right[:, 0] if right.has_log else np.zeros(len(in_log), dtype=np.int64)
    record = in_log[:, start], in_log[:, start + 1] - 1
    return record, log, of_right[:, right.has_log :]


def encoded(rows: Ints) -> pa.Array:
    """Return the lineages with these indexes, by [row, index].

    Raises:
        OverflowError: The lineages have 2 GiB or more, for example 2**26 lineages of 4 indexes.
    """
    length, width = rows.shape
    size = length * width * _INDEX_BYTES
    # Larger offsets wrap. Arrow only notices this if the last offset becomes negative.
    if size > _END:
        message = (
            f"the lineages of {length} rows have {size} bytes, but one column can have at most "
            f"{_END}. Set a smaller --max-batch-bytes"
        )
        raise OverflowError(message)
    ends = np.arange(length + 1, dtype=np.int32) * np.int32(width * _INDEX_BYTES)
    data = np.ascontiguousarray(rows).astype(">i8").tobytes()
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(LINEAGE.type, length, buffers)


def indexes(lineages: pa.Array | pa.ChunkedArray, length: int) -> Ints:
    """Return the first ``length`` indexes of each lineage by [row, index], 0 after its end."""
    lineages = pc.fill_null(lineages, b"")
    if isinstance(lineages, pa.ChunkedArray):
        lineages = lineages.combine_chunks()
    found = np.zeros((len(lineages), length), dtype=np.int64)
    _, ends, data = lineages.buffers()
    if not len(lineages) or data is None:
        return found
    # A slice has the buffers of the whole array, so its bytes begin at ``bounds[0]``.
    first = lineages.offset
    bounds = np.frombuffer(ends, np.int32)[first : first + len(lineages) + 1].astype(np.int64)
    values = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]].view(">i8")
    # Each lineage is a multiple of 8 bytes, so the bytes of all lineages are one array of integers,
    # and no lineage becomes a Python object.
    sizes = np.diff(bounds) // _INDEX_BYTES
    row = np.repeat(np.arange(len(lineages)), sizes)
    index = np.arange(len(values)) - np.repeat((bounds[:-1] - bounds[0]) // _INDEX_BYTES, sizes)
    is_read = index < length
    found[row[is_read], index[is_read]] = values[is_read]
    return found


def extended_by(lineages: pa.Array | pa.ChunkedArray | None, index: Ints) -> pa.ChunkedArray:
    """Return lineages with one more index at the end. None: the rows have no lineage yet."""
    last = pa.chunked_array([encoded(index[:, np.newaxis])])
    if lineages is None:
        return last
    return pc.binary_join_element_wise(pc.fill_null(lineages, b""), last, b"")


def with_log(log: Ints, lineages: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return lineages that begin with the index of a log, from lineages in this log."""
    return pc.binary_join_element_wise(encoded(log[:, np.newaxis]), lineages, b"")


def lineage_keys(lineages: pa.Array | pa.ChunkedArray) -> tuple[Ints, ...]:
    """Return sort keys of lineages, with the most significant key last as for ``lexsort``."""
    longest = pc.max(pc.binary_length(lineages)).as_py() or 0
    keys = indexes(lineages, longest // _INDEX_BYTES).T[::-1]
    # An index that is equal in all rows, for example the log, does not order them.
    return tuple(np.ascontiguousarray(key) for key in keys if (key != key[0]).any())


def are_retractions(changes: pa.Table) -> Flags:
    """Return which changes of a table delete an old row. The others add a new row.

    The last index of the lineage is 0 for an old row and 1 for a new row.
    """
    # The most significant byte is first, so the last byte distinguishes 0 and 1.
    last = pc.binary_slice(changes[LINEAGE.name], -1)
    return np.asarray(pc.equal(last, pa.scalar(b"\0", last.type)))


def update_lineages(changes: pa.Table) -> pa.ChunkedArray:
    """Return the lineage that the old and the new row of one update share."""
    return pc.binary_slice(changes[LINEAGE.name], 0, -_INDEX_BYTES)


def update_keys(changes: pa.Table) -> tuple[Ints, ...]:
    """Return integers that are equal for the old and the new row of one update, only for these."""
    record = (np.asarray(changes[name]) for name in ("partition", "offset"))
    return (*lineage_keys(update_lineages(changes)), *record)
