"""From raw source rows to records: key, time and value columns, or the reason why not.

Both sources come out alike: ``partition, offset, raw, key, timestamp_ms, value, reason``.
Parsing is Spark's ``from_json`` (in the JVM, no Python per record), hardened where it is
lenient: a line is wrapped in an object with a sentinel behind it, so that text after the
closing brace (two records run together) is seen instead of being silently dropped.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the field's name for it

from pipeline.windows import MAX_TIMESTAMP_MS

#: Why a record is a dead letter, by code; the codes are part of the table's contract.
REASONS = {
    "not-utf8": "the bytes are not UTF-8",
    "not-json": "the line is not one JSON object",
    "wrong-type": "a field does not have the type that the schema or the envelope says",
    "missing-timestamp": "timestamp_ms is missing or null",
    "negative-timestamp": "timestamp_ms is negative",
    "timestamp-too-large": f"timestamp_ms is above {MAX_TIMESTAMP_MS}, the end of the year 9999",
    "null-key": "the key to group by is missing or null",
    "null-value": "the value is missing or null, which a sliding window can't hold",
}

_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "_corrupt",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}

#: Texts with which a key that is no JSON string can begin: numbers, objects, true ...
_NOT_A_STRING = "^[-0-9{\\[tf]"


def decode_event_log(lines: DataFrame, value_schema: str) -> DataFrame:
    """Decode lines ``{"key": ..., "value": {...}, "timestamp_ms": ...}``."""
    envelope = f"key STRING, value STRUCT<{value_schema}>, timestamp_ms BIGINT"
    text = F.col("raw").cast("string")
    parsed = lines.withColumn("_json", _wrapped(text, envelope))
    record = F.col("_json.record")
    return parsed.select(
        "partition",
        "offset",
        "raw",
        record["key"].alias("key"),
        record["timestamp_ms"].alias("timestamp_ms"),
        record["value"].alias("value"),
        _first_reason(
            (_not_utf8(text), "not-utf8"),
            (_broken(), _broken_reason(text)),
            (_lone_surrogate(text), "not-json"),
            (_key_is_not_text(text, record["key"]), "wrong-type"),
            *_bad_time(record["timestamp_ms"]),
        ).alias("reason"),
    )


def decode_kafka(messages: DataFrame, value_schema: str) -> DataFrame:
    """Decode Kafka messages: key as text, JSON value, the message's timestamp."""
    text = F.col("value").cast("string")
    key = F.col("key").cast("string")
    parsed = messages.withColumn("_json", _wrapped(text, value_schema)).withColumn(
        "_time", F.unix_millis("timestamp")
    )
    there = F.col("value").isNotNull() & (F.trim(text) != "null")
    return parsed.select(
        "partition",
        "offset",
        F.coalesce("value", F.lit(b"")).alias("raw"),
        key.alias("key"),
        F.col("_time").alias("timestamp_ms"),
        F.when(there, F.col("_json.record")).alias("value"),
        _first_reason(
            (_not_utf8(text) | _not_utf8(key), "not-utf8"),
            (there & _broken(), _broken_reason(text)),
            (there & _lone_surrogate(text), "not-json"),
            *_bad_time(F.col("_time")),
        ).alias("reason"),
    )


def _wrapped(text: Column, schema: str) -> Column:
    """Parse ``{"record": TEXT, "end": 1}``: anything after TEXT's own end spoils the sentinel."""
    wrapped = F.concat(F.lit('{"record":'), text, F.lit(',"end":1}'))
    whole = f"record STRUCT<{schema}>, end INT, _corrupt STRING"
    return F.from_json(wrapped, whole, _OPTIONS)


def _not_utf8(text: Column) -> Column:
    # Spark's test fails on null.
    return ~F.is_valid_utf8(F.coalesce(text, F.lit("")))


def _broken() -> Column:
    parsed = F.col("_json")
    return (
        parsed.isNull()
        | parsed["_corrupt"].isNotNull()
        | parsed["end"].isNull()
        | parsed["record"].isNull()
    )


def _broken_reason(text: Column) -> Column:
    """Tell a line that is no JSON from JSON of a wrong type; looked at for bad lines only."""
    wrapped = F.concat(F.lit('{"record":'), text, F.lit(',"end":1}'))
    parsed = F.try_parse_json(wrapped)
    ends = F.try_variant_get(parsed, "$.end", "int").isNotNull()
    return F.when(parsed.isNotNull() & ends, "wrong-type").otherwise("not-json")


def _lone_surrogate(text: Column) -> Column:
    """Half of a surrogate pair, which no UTF-8 text can hold (it would be read as '?')."""
    suspicious = F.contains(text, F.lit("\\ud")) | F.contains(text, F.lit("\\uD"))
    return F.when(suspicious, F.try_parse_json(text).isNull()).otherwise(F.lit(False))  # noqa: FBT003


def _key_is_not_text(text: Column, key: Column) -> Column:
    """Whether the key is a number, boolean, object or list, which from_json would turn to text.

    Only a key that looks like one and a line that doesn't begin with a text key are
    looked at closely: that second parse is slow.
    """
    begins = F.startswith(text, F.lit('{"key":"')) | F.startswith(text, F.lit('{"key": "'))
    suspicious = ~begins & key.rlike(_NOT_A_STRING)
    kind = F.schema_of_variant(F.try_variant_get(F.try_parse_json(text), "$.key", "variant"))
    return F.when(suspicious, F.coalesce(kind != "STRING", F.lit(False))).otherwise(F.lit(False))  # noqa: FBT003


def _bad_time(timestamp_ms: Column) -> list[tuple[Column, str | Column]]:
    return [
        (timestamp_ms.isNull(), "missing-timestamp"),
        (timestamp_ms < 0, "negative-timestamp"),
        (timestamp_ms > MAX_TIMESTAMP_MS, "timestamp-too-large"),
    ]


def _first_reason(*cases: tuple[Column, str | Column]) -> Column:
    """Return the reason of the first case that holds; null for a good record."""
    reason = F.lit(None).cast("string")
    for holds, code in reversed(cases):
        value = F.lit(code) if isinstance(code, str) else code
        reason = F.when(holds, value).otherwise(reason)
    return reason
