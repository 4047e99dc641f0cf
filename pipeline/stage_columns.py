"""The columns of a record between the stages of a batch, from the source to the store.

    decoded     a record of a source: its record id, its bytes, and its value or the reason why it
                is invalid
    stepped     after the row-wise steps: the same record with its key, and the value columns that
                a downstream operator reads. If a step flattens, one row per flattened record. The
                first one is marked
    to a join   with stream time, key group and side, for one task of a join
    joined      a result of a join: like a record, with its lineage and stream time
    to windows  with close time and key group, for one task of a store

Every stage has its columns from here. They are also the names that columns of a store cannot have
(``STAGE_COLUMNS``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows import LINEAGE, NULL_VALUE, RESULT_FIELDS, Ints
from oriel.storage.delta import DEAD_LETTER_MESSAGE_FIELDS

#: Topic -> partition (as a string) -> the end of the last block that was read, and its digest.
ReadBlocks = dict[str, dict[str, tuple[int, str]]]

#: The task that a row is for, from 0.
TASK = pa.field("task", pa.int32())

#: The key group of the key. A task has whole key groups. Operators keep it in their state, so that
#: the number of tasks can change.
KEY_GROUP = pa.field("key_group", pa.int32())
#: A record's bytes, for a dead letter.
RAW = pa.field("raw", pa.binary())
#: The rest of a message, for a dead letter: Kafka's key, time and headers as in Spark's Kafka
#: source, or null if they were not read. Null for lines of an event log, which contain them, and
#: for valid records after the steps. No value column has such a name.
MESSAGE = pa.field("__message", pa.struct(DEAD_LETTER_MESSAGE_FIELDS))
#: Why the record is invalid: a ``dead_letters.Reason``, optionally with a detail. Null if valid.
REASON = pa.field("reason", pa.string())
#: False if a filter dropped the record, which stays in the stream until it is counted.
KEEP = pa.field("keep", pa.bool_())

#: After steps that flatten: True for the first flattened record of a record. Null for a record
#: without elements (invalid, filtered out, or with an empty array).
FIRST_ELEMENT = pa.field("__first_element", pa.bool_())

_RESULT = {field.name: field for field in RESULT_FIELDS}
_KEY, _TIMESTAMP = _RESULT["key"], _RESULT["timestamp_ms"]
_PARTITION, _OFFSET = _RESULT["partition"], _RESULT["offset"]

#: The columns of a join result in addition to the columns of a record: the lineage, and the stream
#: time that decides how late it is.
RESULT_EXTRA_FIELDS = (LINEAGE, _RESULT["stream_time_ms"])
#: All columns of a join result except the values. Only updates have ``null_value``, which is True
#: for a deleted row. Only updates of functions, which can raise, have a ``reason``.
RESULT_COLUMNS = frozenset(field.name for field in (TASK, *RESULT_FIELDS, NULL_VALUE, REASON))
#: A stepped record without its values.
STEPPED_FIELDS = (
    _PARTITION, _OFFSET, REASON, KEEP, NULL_VALUE, RAW, MESSAGE, _KEY, _TIMESTAMP,
)  # fmt: skip

#: Names of columns between the source and the operator, which value columns cannot have.
STAGE_COLUMNS = frozenset(
    {field.name for field in (*STEPPED_FIELDS, *RESULT_EXTRA_FIELDS, TASK, KEY_GROUP)}
    | {"close_ms", "input"}
) - {MESSAGE.name, LINEAGE.name}


@dataclass(frozen=True)
class StepsOutput:
    """The columns and records that the next operator reads after the steps of an input.

    Attributes:
        used: The value columns.
        null_values: True if records with a null value are used. Otherwise they are dead letters.
        keeps_raw: True if the bytes of valid records are kept.
        any_key: True if records without a key, or with a very long key, are used.
    """

    used: Sequence[str]
    null_values: bool = False
    keeps_raw: bool = False
    any_key: bool = False


def decoded_schema(value_type: pa.DataType) -> pa.Schema:
    """Return the columns of decoded records. ``value_type`` is a struct of the value columns.

    In an invalid record, key, time and value are null.
    """
    value = pa.field("value", value_type)
    return pa.schema([_PARTITION, _OFFSET, RAW, MESSAGE, _KEY, _TIMESTAMP, value, REASON])


def to_join_schema(record_schema: pa.Schema) -> pa.Schema:
    """Return the columns of records for a join that reads ``record_schema``."""
    return pa.schema([TASK, *record_schema])


def joined_schema(result_schema: pa.Schema) -> pa.Schema:
    """Return the columns of results of a join with ``result_schema``."""
    reason = [] if REASON.name in result_schema.names else [REASON]
    return pa.schema([TASK, *reason, *result_schema])


def to_windows_schema(record_schema: pa.Schema, *, keeps_raw: bool) -> pa.Schema:
    """Return the columns of records for a store whose operator reads ``record_schema``.

    ``keeps_raw``: a record can become a dead letter there, so its bytes are sent.
    """
    raw = [RAW] if keeps_raw and RAW.name not in record_schema.names else []
    return pa.schema([TASK, *raw, *record_schema])


def joined_values(schema: pa.Schema) -> pa.Schema:
    """Return the value columns of results of a join."""
    return pa.schema([field for field in schema if field.name not in RESULT_COLUMNS])


@dataclass(frozen=True)
class PartitionIndexes:
    """One index for each partition of each of a store's ``inputs``.

    Partition 0 of one topic and partition 0 of another topic are two partitions with their own
    offsets and stream times, and (partition, offset) must identify one record. An operator has one
    index per partition, so this index contains the input. With one input, a partition keeps its
    own index.
    """

    inputs: int

    def numbered(self, rows: pa.Table, input_index: int) -> pa.Table:
        """Return ``rows`` of one input with the operator's indexes of partitions."""
        partition = np.asarray(rows[_PARTITION.name], np.int64)
        return _with_partitions(rows, partition * self.inputs + input_index)

    def restored(self, rows: pa.Table) -> pa.Table:
        """Return ``rows`` with the partitions of their source."""
        return _with_partitions(rows, np.asarray(rows[_PARTITION.name]) // self.inputs)

    def count_by_input(self, indexes: Ints) -> Ints:
        """Return how many of the operator's indexes each input has."""
        return np.bincount(indexes % self.inputs, minlength=self.inputs)


def _with_partitions(rows: pa.Table, indexes: Ints) -> pa.Table:
    position = rows.column_names.index(_PARTITION.name)
    return rows.set_column(position, _PARTITION, pa.array(indexes, _PARTITION.type))
