"""Why a record is a dead letter."""

from oriel.pipeline.windows import MAX_TIMESTAMP_MS

#: Why a record is a dead letter, by code; the codes are part of the table's contract.
REASONS = {
    "not-utf8": "the bytes are not UTF-8",
    "not-json": "the line is not one JSON object",
    "wrong-type": "a field does not have the type that the schema or the envelope says",
    "missing-timestamp": "timestamp_ms is missing or null",
    "negative-timestamp": "timestamp_ms is negative",
    "timestamp-too-large": f"timestamp_ms is above {MAX_TIMESTAMP_MS}, the end of the year 9999",
    "null-key": "the key to group by is missing or null",
    "null-value": "the value is missing or null, which this store can't hold",
    "function-raised": "a function of the topology raised on the record",
}
