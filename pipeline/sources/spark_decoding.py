"""From raw source rows to records by Spark: key, time and value columns, or the reason why not.

For schemas with types that only Spark reads as Spark does; for all others the room
``oriel.pipeline.decoding`` does the same without it, and is tested against this module.

Both sources come out alike: ``partition, offset, raw, key, timestamp_ms, value, reason``.
Parsing is Spark's ``from_json`` (in the JVM, no Python per record). By itself it is lenient: it
drops what follows the first JSON value, takes a number for a key, and reads half of a surrogate
pair as ``?``. Each of these would make a record that nobody wrote, or lose one, where a dead letter
is due (docs/decisions/0005). So it is hardened: a line is wrapped in a list with a null behind it,
so that text after the closing brace (two records run together) is seen; the rest is looked for in
those few lines only that look suspicious, since it takes a second parse.

Where a line repeats a field, the last one counts, in the envelope and in the value; but
each of them must have its type, else the line is of a wrong type (of the key, the last one only:
a column of text takes every value). JSON leaves repeated fields open, and looking for them would
cost every good line a second parse.

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
from oriel.pipeline.hops import MESSAGE
from oriel.pipeline.windows import MAX_TIMESTAMP_MS

_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "_corrupt",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}

_MESSAGE = from_arrow_type(MESSAGE.type)

#: Name of the list around a line. An odd one: a line that holds this text is suspicious.
_AROUND = "~line"

#: The column with the reason of a value that is out of range, null for other values.
_OUT_OF_RANGE = "_out_of_range"

#: As the length of a substring: to the end.
_MAX_INT = 2**31 - 1

#: The escapes of JSON: a high surrogate with its low one, and any of the two.
_SURROGATE_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_SURROGATE = r"\\u[dD][89a-fA-F]"


class SparkDecoder:
    """The projection from a source's raw rows to records, built once for all batches.

    Building column expressions takes longer than planning them, so they are kept.
    """

    def __init__(
        self, value_schema: str, parsed: Column, value: Column, path: str, columns: Sequence[Column]
    ) -> None:
        """Parse into a column ``_json``, then select ``columns``.

        ``value`` has the columns of ``value_schema``. Details name its fields with ``path``.
        """
        self._schema = value_schema
        self._parsed = parsed
        self._value = value
        self._path = path
        self._columns = columns
        #: The reason of values that are out of range, made by the first ``decode``.
        self._out_of_range: Column | None = None

    def decode(self, raw: DataFrame) -> DataFrame:
        """Turn raw rows into records, each with its value or the reason why not.

        Raises:
            PySparkException: the schema can't be read.
            InvalidTopology: the schema has a column twice, or a type that Spark reads wrongly.
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


def spark_refuse_ahead(records: DataFrame, latest_ms: int | None) -> DataFrame:
    """What ``oriel.pipeline.decoding.refuse_ahead`` does, for records that Spark decodes."""
    if latest_ms is None:
        return records
    ahead = F.col("reason").isNull() & (F.col("timestamp_ms") > latest_ms)
    reason = F.when(ahead, Reason.TIMESTAMP_AHEAD.value).otherwise(F.col("reason"))
    meaning = {name: F.when(~ahead, F.col(name)) for name in ("key", "timestamp_ms", "value")}
    return records.withColumns({**meaning, "reason": reason})


def _check_schema(schema: str) -> None:
    """Look at a schema by itself: Spark's messages are unclear about one within another."""
    parsed = StructType.fromDDL(schema)
    fields = parsed.fields if isinstance(parsed, StructType) else []
    names = [field.name.lower() for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = (
            f"stream: the schema {schema!r} has the column {twice[0]!r} twice (Spark ignores "
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
    """For each FLOAT or DOUBLE in a type, the detail and the test of an infinite value."""
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
    """Decode lines ``{"key": ..., "value": {...}, "timestamp_ms": ...}``."""
    text = F.col("raw").cast("string")
    record = _record()
    reason = _first_reason(
        (_not_utf8(text), Reason.NOT_UTF8.value),
        (_broken(), _broken_reason(text)),
        (_closes_the_list(text), Reason.NOT_JSON.value),
        (_lone_surrogate(text), Reason.NOT_JSON.value),
        (_key_is_not_text(text, record["key"]), Reason.WRONG_TYPE.value),
        (F.col(_OUT_OF_RANGE).isNotNull(), F.col(_OUT_OF_RANGE)),
        *_bad_time(record["timestamp_ms"]),
    )
    envelope = f"key STRING, value STRUCT<{value_schema}>, timestamp_ms BIGINT"
    fields = (record[name].alias(name) for name in ("key", "timestamp_ms", "value"))
    message = F.lit(None).cast(_MESSAGE).alias(MESSAGE.name)
    columns = [*_source_columns(), message, *fields, reason.alias("reason")]
    return SparkDecoder(value_schema, _parsed(text, envelope), record["value"], "value", columns)


def spark_kafka_decoder(value_schema: str) -> SparkDecoder:
    """Decode Kafka messages: key as text, JSON value, the message's timestamp.

    A message without a value, or whose text is ``null``, is a tombstone: its value is null.
    """
    text = F.col("raw").cast("string")
    key = F.col("key").cast("string")
    time_ms = F.unix_millis("timestamp")
    has_value = F.col("raw").isNotNull() & ~_is_null(text)
    reason = _first_reason(
        (_not_utf8(text) | _not_utf8(key), Reason.NOT_UTF8.value),
        (has_value & _broken(), _broken_reason(text)),
        (has_value & _closes_the_list(text), Reason.NOT_JSON.value),
        (has_value & _lone_surrogate(text), Reason.NOT_JSON.value),
        (F.col(_OUT_OF_RANGE).isNotNull(), F.col(_OUT_OF_RANGE)),
        *_bad_time(time_ms),
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
    """Partition and offset, and the record's bytes (empty for a tombstone)."""
    raw = F.coalesce("raw", F.lit(b""))
    return [F.col("partition"), F.col("offset"), raw.alias("raw")]


def _parsed(text: Column, schema: str) -> Column:
    """Parse ``{"~line": [TEXT, null]}``: the record is the first of two items.

    A parser that reads the list to its end has to read the text to its end, too. Text behind the
    record is then one more item of the list, or no JSON. The only other way is text that closes
    the list itself, and for that the null is there: such text has to bring a null of its own, or
    the list's name once more, and either makes it suspicious: see ``_closes_the_list``.
    """
    around = f"`{_AROUND}` ARRAY<STRUCT<{schema}>>, _corrupt STRING"
    in_list = F.concat(F.lit(f'{{"{_AROUND}":['), text, F.lit(",null]}"))
    return F.from_json(in_list, around, _OPTIONS)


def _items() -> Column:
    return F.col("_json")[_AROUND]


def _record() -> Column:
    return F.get(_items(), F.lit(0))


def _not_utf8(text: Column) -> Column:
    # Spark's test fails on null, and the key of a message may be null.
    return ~F.is_valid_utf8(F.coalesce(text, F.lit("")))


def _is_null(text: Column) -> Column:
    """Whether the text is JSON's null, with or without blanks around it."""
    is_object = F.startswith(text, F.lit("{"))
    return _only_where(~is_object, text.rlike(r"^[ \t\r\n]*null[ \t\r\n]*\z"))


def _broken() -> Column:
    parsed = F.col("_json")
    return (
        parsed.isNull()
        | parsed["_corrupt"].isNotNull()
        | (F.size(_items()) != 2)  # the record and the null
        | _record().isNull()
        | F.get(_items(), F.lit(1)).isNotNull()
    )


def _broken_reason(text: Column) -> Column:
    """Tell a line that is no JSON from JSON of a wrong type; looked at for bad lines only."""
    in_list = F.concat(F.lit("["), text, F.lit("]"))
    one_value = _is_json(in_list) & _is_json(text)
    return F.when(one_value, Reason.WRONG_TYPE.value).otherwise(Reason.NOT_JSON.value)


def _closes_the_list(text: Column) -> Column:
    """Text that closes the list around it, like ``{...}], "~line": [{...}``.

    The list that it begins then has to end with a null, or another of the same name has to
    follow. Only lines with one of these are looked at closely.
    """
    ends = F.contains(text, F.lit("null")) & text.rlike(r"null\s*\]")
    another = F.contains(text, F.lit(_AROUND)) | F.contains(text, F.lit("\\u00"))
    suspicious = F.contains(text, F.lit("]")) & (ends | another)
    return _only_where(suspicious, ~_is_json(text))


def _is_json(text: Column) -> Column:
    """Whether a text, given that it is whole JSON within a list, is one JSON value.

    Behind a value, a list lets only ``,`` and a value follow, the field of an object only
    ``,`` and a name with ``:``. What is whole within both has nothing behind it.
    """
    wrapped = F.concat(F.lit('{"":'), text, F.lit(',"end":1}'))
    return F.from_json(wrapped, "end INT", _OPTIONS)["end"].isNotNull()


def _lone_surrogate(text: Column) -> Column:
    """Half of a surrogate pair, which no UTF-8 text can hold (it would be read as '?')."""
    surrogate = F.contains(text, F.lit("\\ud")) | F.contains(text, F.lit("\\uD"))
    suspicious = F.contains(text, F.lit("\\")) & surrogate
    # Backslashes that are escaped themselves begin no escape.
    escapes = F.replace(text, F.lit("\\\\"), F.lit("__"))
    lone = F.regexp_replace(escapes, _SURROGATE_PAIR, "_").rlike(_SURROGATE)
    return _only_where(suspicious, lone)


def _key_is_not_text(text: Column, key: Column) -> Column:
    """Whether the key is a number, boolean, object or list, which from_json would turn to text.

    Only a key that looks like one is looked at closely, and not if the line begins with a
    text key and has no other: that second parse is slow.
    """
    # A number begins with - or a digit; these are between "-" and ":" in the order of texts.
    number = (key >= "-") & (key < ":")
    nested = F.startswith(key, F.lit("{")) | F.startswith(key, F.lit("["))
    # Jackson writes a number that is too large for a double as "Infinity", with the quotes.
    infinite = F.startswith(key, F.lit('"'))
    may_be_no_text = number | nested | infinite | (key == "true") | (key == "false")
    begins = F.startswith(text, F.lit('{"key":"')) | F.startswith(text, F.lit('{"key": "'))
    # Behind {" of the first key. Another key, which would count instead, may have escapes.
    rest = F.substring("raw", 3, _MAX_INT).cast("string")
    another = F.contains(rest, F.lit('"key"')) | F.contains(rest, F.lit("\\u00"))
    suspicious = may_be_no_text & (~begins | another)
    variant = F.from_json(text, "key VARIANT", _OPTIONS)["key"]
    json_type = F.coalesce(F.schema_of_variant(variant), F.lit("unknown"))
    return _only_where(suspicious, json_type != "STRING")


def _only_where(suspicious: Column, fault: Column) -> Column:
    """``fault``, which is slow to find out, and false where the line is not suspicious."""
    return F.when(suspicious, fault).otherwise(F.lit(False))  # noqa: FBT003


def _bad_time(timestamp_ms: Column) -> list[tuple[Column, str | Column]]:
    return [
        (timestamp_ms.isNull(), Reason.MISSING_TIMESTAMP.value),
        (timestamp_ms < 0, Reason.NEGATIVE_TIMESTAMP.value),
        (timestamp_ms > MAX_TIMESTAMP_MS, Reason.TIMESTAMP_TOO_LARGE.value),
    ]


def _first_reason(*cases: tuple[Column, str | Column]) -> Column:
    """Return the reason of the first case that holds; null for a good record."""
    reason = F.lit(None).cast("string")
    for holds, code in reversed(cases):
        value = F.lit(code) if isinstance(code, str) else code
        reason = F.when(holds, value).otherwise(reason)
    return reason
