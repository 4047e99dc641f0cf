"""Decode raw rows to records with Spark: key, time and value, or the reason of an invalid record.

This decoder is for schemas with types that only Spark's JSON reader supports, for example
TIMESTAMP. The package ``oriel.pipeline.decoding`` decodes all other schemas without Spark. Tests
compare it with this module. Records of both sources have the columns of
``stage_columns.decoded_schema``.

Spark's ``from_json`` parses in the JVM, so Python does not run per record. But it is lenient. It
drops text after the first JSON value, accepts a number as a key, and reads half of a surrogate pair
as ``?``. Instead of a dead letter, the result would be a record that nobody wrote, or a lost record
(docs/decisions/0005). So this module adds checks:

- A line is wrapped in a list that ends with a null. This detects text after the closing brace, for
  example a second record.
- The other checks need a second parse, so they run only for suspicious lines.

If a line repeats a field, in the envelope or in the value, the last value counts. But each value
must have the type of the field, or the line has a wrong type. For the key, only the last value must
be a string, because a STRING column accepts each value. JSON does not define repeated fields, and a
search for them would cost a second parse of each valid line.

``from_json`` also reads a number that is out of the range of FLOAT or DOUBLE as infinity. JSON has
no infinity, so an infinite value is always such a number, and its record has a wrong type.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the field's name for it
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructType

from oriel.pipeline.dead_letters import Reason, with_detail
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.stage_columns import MESSAGE
from oriel.pipeline.windows import MAX_TIMESTAMP_MS

_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "_corrupt",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}

_MESSAGE = from_arrow_type(MESSAGE.type)

#: The name of the list around a line. It is unusual, because lines with this text are suspicious.
_LIST_NAME = "~line"

#: The column with the reason of a value that is out of range, null for other values.
_OUT_OF_RANGE = "_out_of_range"

#: The length of a substring that extends to the end.
_MAX_INT = 2**31 - 1

#: JSON's escape of a surrogate pair, and of either half.
_SURROGATE_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_SURROGATE = r"\\u[dD][89a-fA-F]"


class SparkDecoder:
    """Decodes raw rows of a source with column expressions.

    They are built once for all batches, because building them needs more time than planning them.
    """

    def __init__(
        self, value_schema: str, parsed: Column, value: Column, path: str, columns: Sequence[Column]
    ) -> None:
        """Parse into a column ``_json``, then select columns of it.

        Args:
            value_schema: The columns of the value in Spark DDL.
            parsed: The expression of the column ``_json``.
            value: The expression of the value, with the columns of ``value_schema``.
            path: The path of the value in details.
            columns: The expressions to select.
        """
        self._schema = value_schema
        self._parsed = parsed
        self._value = value
        self._path = path
        self._columns = columns
        #: The reason of values that are out of range. The first ``decode`` creates it.
        self._out_of_range: Column | None = None

    def decode(self, raw: DataFrame) -> DataFrame:
        """Return the record of each raw row, with its value or the reason why it is invalid.

        Raises:
            PySparkException: The schema cannot be parsed.
            InvalidTopology: The schema has a column twice, or a type that Spark reads wrongly.
        """
        if self._out_of_range is None:
            _check_schema(self._schema)
            value_type = StructType.fromDDL(self._schema)
            self._out_of_range = _first_reason(
                *(
                    (is_infinite(self._value), with_detail(Reason.WRONG_TYPE.value, detail))
                    for detail, is_infinite in _ranges(value_type, self._path)
                )
            )
        parsed = raw.withColumn("_json", self._parsed)
        return parsed.withColumn(_OUT_OF_RANGE, self._out_of_range).select(*self._columns)


def spark_reject_ahead(records: DataFrame, latest_ms: int | None) -> DataFrame:
    """Return decoded records as ``oriel.pipeline.decoding.reject_ahead`` does, with Spark."""
    if latest_ms is None:
        return records
    ahead = F.col("reason").isNull() & (F.col("timestamp_ms") > latest_ms)
    reason = F.when(ahead, Reason.TIMESTAMP_AHEAD.value).otherwise(F.col("reason"))
    cleared = {name: F.when(~ahead, F.col(name)) for name in ("key", "timestamp_ms", "value")}
    return records.withColumns({**cleared, "reason": reason})


def _check_schema(schema: str) -> None:
    """Check a schema alone, because Spark's messages about a schema within another are unclear."""
    parsed = StructType.fromDDL(schema)
    fields = parsed.fields if isinstance(parsed, StructType) else []
    names = [field.name.lower() for field in fields]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        message = (
            f"stream: the schema {schema!r} has the column {repeated[0]!r} twice (Spark ignores "
            "the case of names). Use a different name for each column"
        )
        raise InvalidTopology(message)
    if "tinyint" in parsed.simpleString():
        message = (
            f"stream: the schema {schema!r} has a TINYINT, and Spark's JSON reader reads 128 as "
            "-128. Use SMALLINT"
        )
        raise InvalidTopology(message)


def _ranges(column_type: DataType, path: str) -> Iterator[tuple[str, Callable[[Column], Column]]]:
    """Yield the detail and the test of an infinite value for each FLOAT or DOUBLE in a type."""
    if isinstance(column_type, FloatType | DoubleType):
        name = column_type.simpleString().upper()
        detail = f"{path}: a number in the range of {name} expected"
        yield detail, lambda column: F.abs(column) == math.inf
    elif isinstance(column_type, StructType):
        for field in column_type:
            inner_path = f"{path}.{field.name}" if path else field.name
            for detail, test in _ranges(field.dataType, inner_path):
                yield detail, partial(_of_field, field.name, test)
    elif isinstance(column_type, ArrayType):
        for detail, test in _ranges(column_type.elementType, path):
            yield detail, partial(F.exists, f=test)
    elif isinstance(column_type, MapType):
        for detail, test in _ranges(column_type.valueType, path):
            yield detail, partial(_of_map_values, test)


def _of_field(name: str, test: Callable[[Column], Column], column: Column) -> Column:
    return test(column[name])


def _of_map_values(test: Callable[[Column], Column], column: Column) -> Column:
    return F.exists(F.map_values(column), test)


def spark_event_log_decoder(value_schema: str) -> SparkDecoder:
    """Return the decoder of lines ``{"key": ..., "value": {...}, "timestamp_ms": ...}``."""
    text = F.col("raw").cast("string")
    record = _record()
    reason = _first_reason(
        (_not_utf8(text), Reason.NOT_UTF8.value),
        (_is_invalid(), _invalid_reason(text)),
        (_closes_the_list(text), Reason.NOT_JSON.value),
        (_control_in_base64(text, value_schema), Reason.NOT_JSON.value),
        (_lone_surrogate(text), Reason.NOT_JSON.value),
        (_key_is_not_string(text, record["key"]), Reason.WRONG_TYPE.value),
        (F.col(_OUT_OF_RANGE).isNotNull(), F.col(_OUT_OF_RANGE)),
        *_invalid_time_cases(record["timestamp_ms"]),
    )
    envelope = f"key STRING, value STRUCT<{value_schema}>, timestamp_ms BIGINT"
    fields = (record[name].alias(name) for name in ("key", "timestamp_ms", "value"))
    message = F.lit(None).cast(_MESSAGE).alias(MESSAGE.name)
    columns = [*_source_columns(), message, *fields, reason.alias("reason")]
    return SparkDecoder(value_schema, _parsed(text, envelope), record["value"], "value", columns)


def spark_kafka_decoder(value_schema: str) -> SparkDecoder:
    """Return the decoder of Kafka messages with string keys, JSON values and message times.

    A message with a null value, or with the JSON value ``null``, is a tombstone. Its value is null.
    """
    text = F.col("raw").cast("string")
    key = F.col("key").cast("string")
    time_ms = F.unix_millis("timestamp")
    # JSON's null, with or without blanks around it.
    is_object = F.startswith(text, F.lit("{"))
    is_null = _only_where(~is_object, text.rlike(r"^[ \t\r\n]*null[ \t\r\n]*\z"))
    has_value = F.col("raw").isNotNull() & ~is_null
    reason = _first_reason(
        (_not_utf8(text) | _not_utf8(key), Reason.NOT_UTF8.value),
        (has_value & _is_invalid(), _invalid_reason(text)),
        (has_value & _closes_the_list(text), Reason.NOT_JSON.value),
        (has_value & _control_in_base64(text, value_schema), Reason.NOT_JSON.value),
        (has_value & _lone_surrogate(text), Reason.NOT_JSON.value),
        (F.col(_OUT_OF_RANGE).isNotNull(), F.col(_OUT_OF_RANGE)),
        *_invalid_time_cases(time_ms),
    )
    columns = [
        *_source_columns(),
        F.struct("key", time_ms, F.lit(None)).cast(_MESSAGE).alias(MESSAGE.name),
        key.alias("key"),
        time_ms.alias("timestamp_ms"),
        F.when(has_value, _record()).alias("value"),
        reason.alias("reason"),
    ]
    return SparkDecoder(value_schema, _parsed(text, value_schema), _record(), "", columns)


def _source_columns() -> list[Column]:
    """Return the partition, the offset and the record's bytes, which are empty for a null value."""
    raw = F.coalesce("raw", F.lit(b""))
    return [F.col("partition"), F.col("offset"), raw.alias("raw")]


def _parsed(text: Column, schema: str) -> Column:
    """Parse ``{"~line": [TEXT, null]}``. The record is the first of two items.

    A parser that reads the whole list also reads the whole text. If text follows the record, the
    list has another item, or it is not JSON. The only other possibility is a text that closes the
    list itself. Then it contains a null or the name of the list, so it is suspicious (see
    ``_closes_the_list``).
    """
    schema_with_list = f"`{_LIST_NAME}` ARRAY<STRUCT<{schema}>>, _corrupt STRING"
    in_list = F.concat(F.lit(f'{{"{_LIST_NAME}":['), text, F.lit(",null]}"))
    return F.from_json(in_list, schema_with_list, _OPTIONS)


def _items() -> Column:
    return F.col("_json")[_LIST_NAME]


def _record() -> Column:
    return F.get(_items(), F.lit(0))


def _not_utf8(text: Column) -> Column:
    # Spark's test fails on null, and the key of a message can be null.
    return ~F.is_valid_utf8(F.coalesce(text, F.lit("")))


def _is_invalid() -> Column:
    parsed = F.col("_json")
    return (
        parsed.isNull()
        | parsed["_corrupt"].isNotNull()
        | (F.size(_items()) != 2)  # the record and the null
        | _record().isNull()
        | F.get(_items(), F.lit(1)).isNotNull()
    )


def _invalid_reason(text: Column) -> Column:
    """Return the reason of an invalid line: it is not JSON, or JSON of a wrong type."""
    in_list = F.concat(F.lit("["), text, F.lit("]"))
    one_value = _is_json(in_list) & _is_json(text)
    return F.when(one_value, Reason.WRONG_TYPE.value).otherwise(Reason.NOT_JSON.value)


def _closes_the_list(text: Column) -> Column:
    """Return whether a text closes the list around it, like ``{...}], "~line": [{...}``.

    Such a text has to end the list with a null, or to begin another list with the same name. Only
    lines that can have one of the two are parsed again.
    """
    ends = F.contains(text, F.lit("null")) & text.rlike(r"null\s*\]")
    another = F.contains(text, F.lit(_LIST_NAME)) | F.contains(text, F.lit("\\u00"))
    suspicious = F.contains(text, F.lit("]")) & (ends | another)
    return _only_where(suspicious, ~_is_json(text))


def _control_in_base64(text: Column, schema: str) -> Column:
    """Return whether a string has a control character that is not escaped.

    JSON forbids it, but Jackson ignores it between the groups of a text in Base64.
    """
    suspicious = F.lit("binary" in schema.lower()) & text.rlike(r"[\x00-\x1f]")
    return _only_where(suspicious, ~_is_json(text))


def _is_json(text: Column) -> Column:
    """Return whether a text that is valid JSON within a list is one JSON value.

    After a value, a list allows only ``,`` and a value, and an object allows only ``,`` and a name
    with ``:``. So in a text that is valid within both, nothing follows the value.
    """
    wrapped = F.concat(F.lit('{"":'), text, F.lit(',"end":1}'))
    return F.from_json(wrapped, "end INT", _OPTIONS)["end"].isNotNull()


def _lone_surrogate(text: Column) -> Column:
    """Return whether a text has half of a surrogate pair, which Spark would read as '?'."""
    surrogate = F.contains(text, F.lit("\\ud")) | F.contains(text, F.lit("\\uD"))
    suspicious = F.contains(text, F.lit("\\")) & surrogate
    # An escaped backslash does not begin an escape.
    escapes = F.replace(text, F.lit("\\\\"), F.lit("__"))
    lone = F.regexp_replace(escapes, _SURROGATE_PAIR, "_").rlike(_SURROGATE)
    return _only_where(suspicious, lone)


def _key_is_not_string(text: Column, key: Column) -> Column:
    """Return whether the key is not a JSON string, although ``from_json`` returns it as a string.

    It is then a number, boolean, object or list. The second parse is slow, so it runs only for keys
    that look like one. It does not run if the line begins with a string key and has no other key.
    """
    # A number begins with - or a digit. In the order of strings, it is between "-" and ":".
    number = (key >= "-") & (key < ":")
    nested = F.startswith(key, F.lit("{")) | F.startswith(key, F.lit("["))
    # Jackson writes a number out of the range of a double as "Infinity", with the quotes.
    infinite = F.startswith(key, F.lit('"'))
    looks_like_other_type = number | nested | infinite | (key == "true") | (key == "false")
    begins = F.startswith(text, F.lit('{"key":"')) | F.startswith(text, F.lit('{"key": "'))
    # The line after {" of the first key. Another key would count instead, and can have escapes.
    rest = F.substring("raw", 3, _MAX_INT).cast("string")
    another = F.contains(rest, F.lit('"key"')) | F.contains(rest, F.lit("\\u00"))
    suspicious = looks_like_other_type & (~begins | another)
    variant = F.from_json(text, "key VARIANT", _OPTIONS)["key"]
    json_type = F.coalesce(F.schema_of_variant(variant), F.lit("unknown"))
    return _only_where(suspicious, json_type != "STRING")


def _only_where(suspicious: Column, check: Column) -> Column:
    """Return ``check`` for suspicious lines, and false for others, because ``check`` is slow."""
    return F.when(suspicious, check).otherwise(F.lit(False))  # noqa: FBT003


def _invalid_time_cases(timestamp_ms: Column) -> list[tuple[Column, str | Column]]:
    return [
        (timestamp_ms.isNull(), Reason.MISSING_TIMESTAMP.value),
        (timestamp_ms < 0, Reason.NEGATIVE_TIMESTAMP.value),
        (timestamp_ms > MAX_TIMESTAMP_MS, Reason.TIMESTAMP_TOO_LARGE.value),
    ]


def _first_reason(*cases: tuple[Column, str | Column]) -> Column:
    """Return the reason of the first case that is true, or null for a valid record."""
    reason = F.lit(None).cast("string")
    for holds, code in reversed(cases):
        value = F.lit(code) if isinstance(code, str) else code
        reason = F.when(holds, value).otherwise(reason)
    return reason
