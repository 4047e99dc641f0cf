"""From raw source rows to records: key, time and value columns, or the reason why not.

Both sources come out alike: ``partition, offset, raw, key, timestamp_ms, value, reason``.
Parsing is Spark's ``from_json`` (in the JVM, no Python per record), hardened where it is
lenient: a line is wrapped in an object with a sentinel behind it, so that text after the
closing brace (two records run together) is seen instead of being silently dropped.
"""

from collections.abc import Sequence

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


class Decoder:
    """The projection from a source's raw rows to records, built once for all batches.

    Building column expressions takes longer than planning them, so they are kept.
    """

    def __init__(self, parsed: Column, columns: Sequence[Column]) -> None:
        """Parse into a column ``_json``, then select ``columns``."""
        self._parsed = parsed
        self._columns = columns

    def decode(self, raw: DataFrame) -> DataFrame:
        """Turn raw rows into records, each with its value or the reason why not."""
        return raw.withColumn("_json", self._parsed).select(*self._columns)


def event_log_decoder(value_schema: str) -> Decoder:
    """Decode lines ``{"key": ..., "value": {...}, "timestamp_ms": ...}``."""
    text = F.col("raw").cast("string")
    record = F.col("_json.record")
    reason = _first_reason(
        (_not_utf8(text), "not-utf8"),
        (_broken(), _broken_reason(text)),
        (_no_brace_at_end(text), "not-json"),
        (_lone_surrogate(text), "not-json"),
        (_key_is_not_text(text, record["key"]), "wrong-type"),
        *_bad_time(record["timestamp_ms"]),
    )
    envelope = f"key STRING, value STRUCT<{value_schema}>, timestamp_ms BIGINT"
    fields = (record[name].alias(name) for name in ("key", "timestamp_ms", "value"))
    return Decoder(_wrapped(text, envelope), [*_place(), *fields, reason.alias("reason")])


def kafka_decoder(value_schema: str) -> Decoder:
    """Decode Kafka messages: key as text, JSON value, the message's timestamp."""
    text = F.col("raw").cast("string")
    key = F.col("key").cast("string")
    time_ms = F.unix_millis("timestamp")
    there = F.col("raw").isNotNull() & (F.trim(text) != "null")
    reason = _first_reason(
        (_not_utf8(text) | _not_utf8(key), "not-utf8"),
        (there & _broken(), _broken_reason(text)),
        (there & _no_brace_at_end(text), "not-json"),
        (there & _lone_surrogate(text), "not-json"),
        *_bad_time(time_ms),
    )
    columns = [
        *_place(),
        key.alias("key"),
        time_ms.alias("timestamp_ms"),
        F.when(there, F.col("_json.record")).alias("value"),
        reason.alias("reason"),
    ]
    return Decoder(_wrapped(text, value_schema), columns)


def _place() -> list[Column]:
    """Where the record stands, and its bytes (empty for a tombstone)."""
    raw = F.coalesce("raw", F.lit(b""))
    return [F.col("partition"), F.col("offset"), raw.alias("raw")]


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


def _no_brace_at_end(text: Column) -> Column:
    """Text behind the record that the wrapping took for further fields, like ``, "x": 1``."""
    ends = F.endswith(text, F.lit("}"))
    return F.when(ends, F.lit(False)).otherwise(~text.rlike(r"\}\s*$"))  # noqa: FBT003


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
