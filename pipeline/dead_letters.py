"""Dead letters: records that a store can't use, kept with their place, reason and bytes.

Three kinds of rows become dead letters:

    a record that is bad when it is decoded or stepped     its source's topic, partition, offset
    a join's result without a key to group by              the place of the record it came from
    a record or result on which a user's function raises   the same, with the error as detail

What is bad whoever reads it (a broken line) is reported once for all stores, without a store's
name; what only one store can't use (no key for *its* grouping) names that store.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.hops import MESSAGE, RAW, PartitionNumbers
from oriel.pipeline.windows import MAX_TIMESTAMP_MS, REJECTED_SCHEMA, EngineResult, Ints, Places
from oriel.storage import KEY_BYTES_MAX
from oriel.storage.delta import DEAD_LETTER_SCHEMA


class Reason(StrEnum):
    """Why a record is a dead letter: the code in the table, part of the table's contract."""

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


#: What a code says in words: the ``detail`` of letters that have none of their own.
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

#: Between the code of a reason and its detail, on the hops of a batch.
_DETAIL = ": "

#: Reasons that hold for one store only: another one may well have use for the record.
_STORE_REASONS = pa.array([
    Reason.NULL_KEY, Reason.KEY_TOO_LONG, Reason.UNFIT_KEY, Reason.NULL_VALUE,
    Reason.FUNCTION_RAISED,
])  # fmt: skip


def with_detail(reason: str, detail: str) -> str:
    """A reason that is told in words of its own, for a row on its hops."""
    return f"{reason}{_DETAIL}{detail}"


class SourceReasons(Enum):
    """Which records a stream task reports that are invalid for all stores, like broken lines.

    The first store that reads a source reports them for all. Where a topic is read with
    several schemas, what is bad for one may be good for another, so each store reports for
    itself.
    """

    FOR_ALL = "for all"
    FOR_ITSELF = "for itself"
    NOT_REPORTED = "not reported"


@dataclass(frozen=True)
class Origin:
    """The topics whose records a join's results are made of, left first.

    A result has the place of its first record, in which of the topics ``places`` say by its first
    number. ``subtracts``: results are changes of a table, of which those that take an old row away
    are no news: the row was told of when it came.
    """

    topics: tuple[str, ...]
    places: Places
    subtracts: bool = False

    def topic_numbers(self, suborder: pa.Array | pa.ChunkedArray) -> Ints:
        """The number of each result's topic, from its ``suborder``."""
        return self.places.log_of(np.asarray(pc.fill_null(suborder, 0))[:, np.newaxis])


@dataclass(frozen=True)
class DeadLetters:
    """Makes the dead letters of one store's batch, as tables of ``DEAD_LETTER_SCHEMA``."""

    store: str
    batch: int

    def of_records(
        self,
        topic: str,
        rows: pa.Table,
        source_reasons: SourceReasons = SourceReasons.NOT_REPORTED,
    ) -> pa.Table:
        """Letters of bad records of ``topic``: partition, offset, reason, raw, perhaps detail.

        Where ``rows`` do not say what their message was, it is what the line says of itself.
        """
        # Of a bad record the reason may have its detail with it.
        told = [text.partition(_DETAIL) for text in rows["reason"].to_pylist()]
        reasons = pa.array([code for code, _, _ in told], pa.string())
        rows = rows.set_column(rows.column_names.index("reason"), "reason", reasons)
        if "detail" not in rows.column_names:
            details = [detail or REASONS[code] for code, _, detail in told]
            rows = rows.append_column("detail", pa.array(details, pa.string()))
        for_this_store = pc.is_in(reasons, _STORE_REASONS)
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

    def of_results(self, origin: Origin, rows: pa.Table) -> list[pa.Table]:
        """Letters of a join's bad results, each of the topic whose record's place it has."""
        rows = _with_message(rows)
        numbers = origin.topic_numbers(rows["suborder"])
        return [
            self.of_records(topic, rows.filter(pa.array(numbers == number)))
            for number, topic in enumerate(origin.topics)
        ]

    def of_raised(
        self,
        result: EngineResult,
        records: pa.Table,
        topics: tuple[str, ...],
        origins: tuple[Origin | None, ...],
    ) -> list[pa.Table]:
        """Letters of what a user's function raised on, altogether or in one window.

        ``records`` are those that the engine got with this batch; ``topics`` and ``origins``
        belong to the store's inputs.
        """
        letters: list[pa.Table] = []
        if not len(result.rejected) and not len(result.left_out):
            return letters
        raised = _raised(result, records)
        for input_number in np.unique(np.asarray(raised["input"])).tolist():
            rows = raised.filter(pc.equal(raised["input"], input_number))
            rows = PartitionNumbers(len(topics)).restored(rows)
            rows = rows.append_column("reason", pa.repeat(Reason.FUNCTION_RAISED.value, len(rows)))
            origin = origins[input_number]
            if origin is None:
                letters.append(self.of_records(topics[input_number], _with_message(rows)))
            else:
                letters += self.of_results(origin, rows)
        return letters


def _with_message(rows: pa.Table) -> pa.Table:
    """Rows that are no messages, with the key that they are grouped by, and their time."""
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
    """Key, time and headers of bad records, as far as they are known."""
    known = rows[MESSAGE.name] if MESSAGE.name in rows.column_names else None
    if known is None or known.null_count:
        lines = rows["raw"].to_pylist()
        messages = known.to_pylist() if known is not None else [None] * len(rows)
        told = [
            _message_of_line(line) if message is None else message
            for line, message in zip(lines, messages, strict=True)
        ]
        known = pa.array(told, MESSAGE.type)
    return {field.name: pc.struct_field(known, field.name) for field in MESSAGE.type}


def _message_of_line(line: bytes) -> dict[str, Any]:
    """Key, time and headers of an event log's line, each where the line has one that is sound."""
    try:
        told = orjson.loads(line)
    except orjson.JSONDecodeError:
        told = None
    told = told if isinstance(told, dict) else {}
    key, time_ms, headers = (told.get(name) for name in ("key", "timestamp_ms", "headers"))
    # True is an int of Python's.
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


def _raised(result: EngineResult, records: pa.Table) -> pa.Table:
    """What functions raised on, with its bytes.

    A rejected record is of this batch, so ``records`` has its bytes. One that is left out of a
    window may be older (the window came to be by a later record): the state carries its bytes.
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
