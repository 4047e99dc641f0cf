"""The columns of a record's row on each hop of a batch, from the source to the store.

    decoded     a source's record: its place, its bytes, and its value or the reason why not
    stepped     behind the row-wise steps: the same record with the key that it is grouped by,
                and the value columns at the top level that somebody behind it reads; or, where a
                step flattens, a row for each of its elements, of which the first is marked
    to a join   with its stream time, key group and side, for one task of a join
    joined      a join's result: like a record, with the places of both records behind it
    to windows  with its close time and key group, for one task of a store

Every stage takes its columns from here, and what a store's columns may not be called follows
from them (``HOP_COLUMNS``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows import NULL_VALUE, PARTNERS, RESULT_FIELDS, Ints
from oriel.storage.delta import LETTER_MESSAGE_FIELDS

#: Topic -> partition (as text) -> the end of the last block that was read, and its digest.
ReadBlocks = dict[str, dict[str, tuple[int, str]]]

#: The task that a row is for, from 0.
TASK = pa.field("task", pa.int32())

#: Which of a store's key groups the key belongs to: the unit in which tasks share the keys.
#: Engines carry it through their state, so that the number of tasks may change.
KEY_GROUP = pa.field("key_group", pa.int32())
#: A record's bytes, for a dead letter.
RAW = pa.field("raw", pa.binary())
#: What a message had beside its value, for a dead letter: Kafka's key, time and headers (null where
#: they were not fetched), as Spark's Kafka source and sink have them. Null in the lines of an event
#: log, which say all of it themselves, and behind the steps in good records. No value column can
#: have a name that begins like this.
MESSAGE = pa.field("__message", pa.struct(LETTER_MESSAGE_FIELDS))
#: Why the record is bad, null for a good one: a ``dead_letters.Reason``, perhaps with a detail.
REASON = pa.field("reason", pa.string())
#: Whether no filter has dropped the record. It stays in the stream until it is counted.
KEEP = pa.field("keep", pa.bool_())

#: After steps that flatten: whether the row is the first element of what they read. Null in a row
#: without elements (invalid, filtered out, or with an empty array). The stream task numbers the
#: elements by it.
FIRST_ELEMENT = pa.field("__first_element", pa.bool_())

_RESULT = {field.name: field for field in RESULT_FIELDS}
_KEY, _TIMESTAMP = _RESULT["key"], _RESULT["timestamp_ms"]
_PARTITION, _OFFSET = _RESULT["partition"], _RESULT["offset"]

#: What a join's result has beside the columns of a record: the order of results that share a
#: place, and the stream time that says how late it is.
BESIDE_RESULT = (_RESULT["suborder"], _RESULT["stream_time_ms"])
#: Everything of a join's result but the values of its sides. ``PARTNERS`` has only what is made of
#: more than two places; ``null_value`` is of updates only, which also tell that a row is gone, and
#: ``reason`` is null but for updates of functions, which may raise.
RESULT_COLUMNS = frozenset(
    field.name for field in (TASK, *RESULT_FIELDS, PARTNERS, NULL_VALUE, REASON)
)
#: A stepped record without its values.
STEPPED_FIELDS = (
    _PARTITION, _OFFSET, REASON, KEEP, NULL_VALUE, RAW, MESSAGE, _KEY, _TIMESTAMP,
)  # fmt: skip

#: Names of rows somewhere between the source and the engine, which value columns can't have.
HOP_COLUMNS = frozenset(
    {field.name for field in (*STEPPED_FIELDS, *BESIDE_RESULT, TASK, KEY_GROUP)}
    | {"close_ms", "input"}
) - {MESSAGE.name}


@dataclass(frozen=True)
class StepsOutput:
    """What is read behind the steps of an input: the value columns ``used``, and of which records.

    ``null_values``: those without a value are used, else they are dead letters; ``any_key``: those
    without a key or with a very long one, too. ``keeps_raw``: the bytes of good records are kept.
    """

    used: Sequence[str]
    null_values: bool = False
    keeps_raw: bool = False
    any_key: bool = False


def decoded_schema(value_type: pa.DataType) -> pa.Schema:
    """A source's records, decoded; ``value_type`` is a struct of the value's columns.

    ``value`` is null in a record without one, and like key and time in a bad record.
    """
    value = pa.field("value", value_type)
    return pa.schema([_PARTITION, _OFFSET, RAW, MESSAGE, _KEY, _TIMESTAMP, value, REASON])


def to_join_schema(record_schema: pa.Schema) -> pa.Schema:
    """Records for the tasks of a join; ``record_schema`` is what its engine reads."""
    return pa.schema([TASK, *record_schema])


def joined_schema(result_schema: pa.Schema) -> pa.Schema:
    """Rows of a join's tasks; ``result_schema`` is what its engine gives."""
    reason = [] if REASON.name in result_schema.names else [REASON]
    return pa.schema([TASK, *reason, *result_schema])


def to_windows_schema(record_schema: pa.Schema, *, keeps_raw: bool) -> pa.Schema:
    """Records for the tasks of a store; ``record_schema`` is what the engine reads.

    ``keeps_raw``: a record can still become a dead letter there, so its bytes go along.
    """
    raw = [RAW] if keeps_raw and RAW.name not in record_schema.names else []
    return pa.schema([TASK, *raw, *record_schema])


def joined_values(schema: pa.Schema) -> pa.Schema:
    """The value columns of a join's rows."""
    return pa.schema([field for field in schema if field.name not in RESULT_COLUMNS])


@dataclass(frozen=True)
class PartitionNumbers:
    """One number for each partition of each of a store's ``inputs``.

    Partition 0 of one topic and partition 0 of another are two partitions: each is read in
    order of its own offsets, has its own clock, and a place (partition, offset) must name one
    record. An engine knows partitions by one number, so the input's number goes into it.
    With one input a partition keeps its own number.
    """

    inputs: int

    def numbered(self, rows: pa.Table, input_number: int) -> pa.Table:
        """``rows`` of one input, with the engine's numbers for their source's partitions."""
        partition = np.asarray(rows[_PARTITION.name], np.int64)
        return _with_partitions(rows, partition * self.inputs + input_number)

    def restored(self, rows: pa.Table) -> pa.Table:
        """``rows`` with their source's partitions for the engine's numbers."""
        return _with_partitions(rows, np.asarray(rows[_PARTITION.name]) // self.inputs)

    def count_by_input(self, numbers: Ints) -> Ints:
        """How many of the engine's ``numbers`` are of each input, by the input's number."""
        return np.bincount(numbers % self.inputs, minlength=self.inputs)


def _with_partitions(rows: pa.Table, numbers: Ints) -> pa.Table:
    position = rows.column_names.index(_PARTITION.name)
    return rows.set_column(position, _PARTITION, pa.array(numbers, _PARTITION.type))
