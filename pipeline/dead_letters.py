"""Dead letters: records that a store cannot use, with their record id, reason and bytes.

Three kinds of rows become dead letters:

    a record that is invalid when it is decoded or stepped   its topic, partition and offset
    a join result without a key to group by                  the record id of its source record
    a record or result on which a user's function raises     the same, with the error as detail

A record that is invalid for all stores, such as a broken line, is reported once, without the name
of a store. If only one store cannot use a record, for example without a key for its grouping, the
dead letter names this store.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.stage_columns import MESSAGE, RAW, PartitionIndexes
from oriel.pipeline.windows import MAX_TIMESTAMP_MS, REJECTED_SCHEMA, EngineResult, Ints, Lineage
from oriel.storage import KEY_BYTES_MAX
from oriel.storage.delta import DEAD_LETTER_SCHEMA


class Reason(StrEnum):
    """The reason of a dead letter. The codes are part of the contract of the dead-letter table."""

    NOT_UTF8 = "not-utf8"
    NOT_JSON = "not-json"
    WRONG_TYPE = "wrong-type"
    MISSING_TIMESTAMP = "missing-timestamp"
    NEGATIVE_TIMESTAMP = "negative-timestamp"
    TIMESTAMP_TOO_LARGE = "timestamp-too-large"
    TIMESTAMP_AHEAD = "timestamp-ahead"
    INVALID_TIMESTAMP = "invalid-timestamp"
    NOT_AVRO = "not-avro"
    NOT_PROTOBUF = "not-protobuf"
    UNKNOWN_SCHEMA = "unknown-schema"
    NULL_KEY = "null-key"
    KEY_TOO_LONG = "key-too-long"
    UNFIT_KEY = "unfit-key"
    NULL_VALUE = "null-value"
    FUNCTION_RAISED = "function-raised"


#: Code -> the ``detail`` of dead letters without a detail of their own.
REASONS: dict[str, str] = {
    Reason.NOT_UTF8: "the bytes are not UTF-8",
    Reason.NOT_JSON: "the line is not one JSON object",
    Reason.WRONG_TYPE: "a field does not have the type that the schema or the envelope says",
    Reason.MISSING_TIMESTAMP: "timestamp_ms is missing or null",
    Reason.NEGATIVE_TIMESTAMP: "timestamp_ms is negative",
    Reason.TIMESTAMP_TOO_LARGE: (
        f"timestamp_ms is above {MAX_TIMESTAMP_MS}, the end of the year 9999"
    ),
    Reason.TIMESTAMP_AHEAD: (
        "timestamp_ms is further ahead of wall-clock time than --max-ahead allows"
    ),
    Reason.INVALID_TIMESTAMP: "the time column is not a time in ISO 8601 with a zone",
    Reason.NOT_AVRO: "the value is not one Avro record of its schema, or has no header",
    Reason.NOT_PROTOBUF: "the value is not one Protobuf message, or has no header",
    Reason.UNKNOWN_SCHEMA: "the schema registry has no schema with the id in the value",
    Reason.NULL_KEY: "the key, or a column that it is computed from, is missing or null",
    Reason.KEY_TOO_LONG: (
        f"the key has more than {KEY_BYTES_MAX} bytes of UTF-8, so no query can name it"
    ),
    Reason.UNFIT_KEY: "the key does not have the type of the store's keys",
    Reason.NULL_VALUE: "the value is missing or null, and this store cannot hold null values",
    Reason.FUNCTION_RAISED: "a function of the topology raised on the record",
}

#: Separates code and detail in the column ``reason`` of rows between stages.
_DETAIL = ": "

#: Reasons that apply to one store. Another store can possibly use the record.
_REASONS_OF_ONE_STORE = pa.array([
    Reason.NULL_KEY, Reason.KEY_TOO_LONG, Reason.UNFIT_KEY, Reason.NULL_VALUE,
    Reason.FUNCTION_RAISED,
])  # fmt: skip


def with_detail(reason: str, detail: str) -> str:
    """Return a reason with its own detail, for the column ``reason`` of rows between stages."""
    return f"{reason}{_DETAIL}{detail}"


class SourceReasons(Enum):
    """Which records a stream task reports that are invalid for all stores, like broken lines.

    The first store that reads a source reports them for all stores. If a topic is read with several
    schemas, a record can be invalid for one and valid for another. Then each store reports for
    itself.
    """

    FOR_ALL = "for all"
    FOR_ITSELF = "for itself"
    NOT_REPORTED = "not reported"


@dataclass(frozen=True)
class RecordTopics:
    """The topics of the records of join results.

    Attributes:
        topics: The topics, first the left one. Each is one log of ``lineage``.
        lineage: The form of the lineages of the results.
        has_old_rows: True for changes of a table. An old row has no dead letter, because it had one
            when it was the new row.
    """

    topics: tuple[str, ...]
    lineage: Lineage
    has_old_rows: bool = False

    def topic_indexes(self, rows: pa.Table) -> Ints:
        """Return the index of the topic of each result."""
        return self.lineage.log_of(rows)


@dataclass(frozen=True)
class DeadLetters:
    """Creates the dead letters of a store and batch, as tables of ``DEAD_LETTER_SCHEMA``."""

    store: str
    batch: int

    def of_records(
        self, topic: str, rows: pa.Table, source_reasons: SourceReasons = SourceReasons.NOT_REPORTED
    ) -> pa.Table:
        """Return the dead letters of invalid records.

        Args:
            topic: The topic of the records.
            rows: The records with partition, offset, reason and raw, and optionally with detail and
                message. Without a message, the line in ``raw`` provides key, time and headers.
            source_reasons: Which records are reported that are invalid for all stores.
        """
        # The reason can contain a detail.
        parts = [text.partition(_DETAIL) for text in rows["reason"].to_pylist()]
        reasons = pa.array([code for code, _, _ in parts], pa.string())
        rows = rows.set_column(rows.column_names.index("reason"), "reason", reasons)
        if "detail" not in rows.column_names:
            details = [detail or REASONS[code] for code, _, detail in parts]
            rows = rows.append_column("detail", pa.array(details, pa.string()))
        for_this_store = pc.is_in(reasons, _REASONS_OF_ONE_STORE)
        if source_reasons is SourceReasons.NOT_REPORTED:
            rows = rows.filter(for_this_store)
            for_this_store = for_this_store.filter(for_this_store)
        if source_reasons is SourceReasons.FOR_ITSELF:
            for_this_store = pa.repeat(pa.scalar(value=True), len(rows))
        store = pc.if_else(for_this_store, pa.scalar(self.store), pa.scalar(None, pa.string()))
        columns = {
            "topic": pa.repeat(topic, len(rows)),
            "partition": rows["partition"],
            "offset": rows["offset"],
            "store": store,
            "reason": rows["reason"],
            "detail": rows["detail"],
            "raw": rows["raw"],
            "revision": pa.repeat(pa.scalar(self.batch, pa.int64()), len(rows)),
            **_messages(rows),
        }
        return pa.table(columns, schema=DEAD_LETTER_SCHEMA)

    def of_results(self, origin: RecordTopics, rows: pa.Table) -> list[pa.Table]:
        """Return the dead letters of invalid join results, with the topics of their records."""
        rows = _with_message(rows)
        numbers = origin.topic_indexes(rows)
        return [
            self.of_records(topic, rows.filter(pa.array(numbers == number)))
            for number, topic in enumerate(origin.topics)
        ]

    def of_raised(
        self,
        result: EngineResult,
        records: pa.Table,
        topics: tuple[str, ...],
        origins: tuple[RecordTopics | None, ...],
    ) -> list[pa.Table]:
        """Return the dead letters of records on which a user's function raised.

        Args:
            result: The result of the engine. A function raised in all windows of a rejected record,
                and in one window of a record that is left out.
            records: The records that the engine received in the batch.
            topics: The topic of each input of the store.
            origins: The topics of the records of each input, if it is a join. Otherwise None.
        """
        dead_letters: list[pa.Table] = []
        if not len(result.rejected) and not len(result.left_out):
            return dead_letters
        raised = _raised_records(result, records)
        for input_number in np.unique(np.asarray(raised["input"])).tolist():
            rows = raised.filter(pc.equal(raised["input"], input_number))
            rows = PartitionIndexes(len(topics)).restored(rows)
            rows = rows.append_column("reason", pa.repeat(Reason.FUNCTION_RAISED.value, len(rows)))
            origin = origins[input_number]
            if origin is None:
                dead_letters.append(self.of_records(topics[input_number], _with_message(rows)))
            else:
                dead_letters += self.of_results(origin, rows)
        return dead_letters


def _with_message(rows: pa.Table) -> pa.Table:
    """Return rows with a message of their own key and time, instead of a message of the source."""
    columns = [rows["key"].cast(pa.binary()), rows["timestamp_ms"], None]
    messages = pa.StructArray.from_arrays(
        [
            pa.nulls(len(rows), field.type) if column is None else column.combine_chunks()
            for field, column in zip(MESSAGE.type, columns, strict=True)
        ],
        fields=list(MESSAGE.type),
    )
    if MESSAGE.name in rows.column_names:
        rows = rows.drop_columns([MESSAGE.name])
    return rows.append_column(MESSAGE, messages)


def _messages(rows: pa.Table) -> dict[str, pa.ChunkedArray | pa.Array]:
    """Return key, time and headers of invalid records. Unknown values are null."""
    known = rows[MESSAGE.name] if MESSAGE.name in rows.column_names else None
    if known is None or known.null_count:
        lines = rows["raw"].to_pylist()
        messages = known.to_pylist() if known is not None else [None] * len(rows)
        messages = [
            _message_of_line(line) if message is None else message
            for line, message in zip(lines, messages, strict=True)
        ]
        known = pa.array(messages, MESSAGE.type)
    return {field.name: pc.struct_field(known, field.name) for field in MESSAGE.type}


def _message_of_line(line: bytes) -> dict[str, Any]:
    """Return key, time and headers of a line of an event log. Missing and invalid ones are null."""
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        fields = None
    fields = fields if isinstance(fields, dict) else {}
    key, time_ms, headers = (fields.get(name) for name in ("key", "timestamp_ms", "headers"))
    # In Python, ``True`` is an ``int``, but not a time.
    has_time = type(time_ms) is int and abs(time_ms) < 2**63
    return {
        "key": key.encode() if isinstance(key, str) else None,
        "timestamp_ms": time_ms if has_time else None,
        "headers": [
            {"key": name, "value": text.encode()}
            for name, text in headers.items()
            if isinstance(text, str)
        ]
        if isinstance(headers, dict)
        else None,
    }


def _raised_records(result: EngineResult, records: pa.Table) -> pa.Table:
    """Return the records on which functions raised, with their bytes.

    A rejected record is in the batch, so ``records`` has its bytes. A record that is left out of
    one window can be older, if a later record creates the window. The state has its bytes.
    """
    schema = pa.schema([*REJECTED_SCHEMA, RAW])
    raised = [schema.empty_table()]
    if len(result.rejected):
        identity = ["partition", "offset", "input"]
        raw = records.group_by(identity, use_threads=False).aggregate([(RAW.name, "first")])
        raw = raw.rename_columns({f"{RAW.name}_first": RAW.name})
        raised.append(result.rejected.join(raw, identity).select(schema.names))
    if len(result.left_out):
        raised.append(result.left_out.select(schema.names))
    return pa.concat_tables(raised)
