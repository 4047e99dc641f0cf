"""Values of records as JSON, compared with what Spark writes."""

import decimal
import re
import struct
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from oriel.pipeline.sinks.record_json import record_json
from tests.campaigns import seeds

#: As Oriel wrote output topics with Spark.
_OPTIONS = {"ignoreNullFields": "false", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
_ROWS = 300
_TYPES = (
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
    pa.decimal128(5, 2), pa.decimal128(38, 18), pa.decimal128(20, 10), pa.decimal128(10, 0),
    pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"),
    pa.duration("us"), pa.list_(pa.int32()), pa.list_(pa.list_(pa.date32())),
    pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.binary()))])),
    pa.struct([('a "x', pa.int32()), ("b", pa.list_(pa.float64())),
               ("c", pa.struct([("t", pa.timestamp("us"))]))]),
    pa.map_(pa.string(), pa.int64()), pa.map_(pa.int32(), pa.list_(pa.string())),
    pa.map_(pa.float64(), pa.bool_()), pa.map_(pa.date32(), pa.string()),
    pa.map_(pa.timestamp("us", "UTC"), pa.string()), pa.map_(pa.bool_(), pa.decimal128(5, 2)),
)  # fmt: skip
_CHARACTERS = [*'"\\/au', "u001f", *map(chr, range(32)), "\x7f", "é", "😀", "\u2028"]
_DOUBLES = [
    0.0, -0.0, 1e7, 9_999_999.0, 1e-3, 0.000_999_99, 1e15, 1e16, 1e-5, 1e-6, 1e-7, 1e23,
    float("nan"), float("inf"), -float("inf"),
]  # fmt: skip
_NUMBER = re.compile(rb"-?\d+\.\d+(?:E-?\d+)?")
#: Years -99 to 10,099, in days since 1970.
_FIRST_DAY, _LAST_DAY, _DAY_US = -755_000, 2_968_000, 86_400_000_000


def _double(random: Random) -> float:
    kind = random.randrange(4)
    if kind == 0:
        return float(struct.unpack("d", random.randbytes(8))[0])
    if kind == 1:
        digits = random.randrange(1, 10 ** random.randrange(1, 17))
        return random.choice((1, -1)) * digits * 10.0 ** random.randrange(-12, 6)
    return random.choice(_DOUBLES) if kind == 2 else random.uniform(-100, 100)


def _decimal(random: Random, of_type: pa.DataType) -> decimal.Decimal:
    digits = random.randrange(10 ** random.randrange(of_type.precision))
    with decimal.localcontext(prec=60):
        return decimal.Decimal(digits * random.choice((1, -1))).scaleb(-of_type.scale)


def _float(random: Random, _of_type: pa.DataType) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(_double(random)))


def _integer(random: Random, of_type: pa.DataType) -> int:
    bits = of_type.bit_width - 1
    return random.randrange(-(2**bits), 2**bits)


#: A test of a type, and a function that returns a value of the type.
_SCALARS: dict[Any, Callable[[Random, pa.DataType], Any]] = {
    pa.types.is_boolean: lambda random, _: random.random() < 0.5,
    pa.types.is_integer: _integer,
    pa.types.is_float32: _float,
    pa.types.is_float64: lambda random, _: _double(random),
    pa.types.is_decimal: _decimal,
    pa.types.is_string: lambda random, _: "".join(
        random.choices(_CHARACTERS, k=random.randrange(6))
    ),
    pa.types.is_binary: lambda random, _: random.randbytes(random.randrange(8)),
    pa.types.is_date: lambda random, _: random.randrange(_FIRST_DAY, _LAST_DAY),
    pa.types.is_timestamp: lambda random, _: random.randrange(
        _FIRST_DAY * _DAY_US, _LAST_DAY * _DAY_US
    ),
    pa.types.is_duration: lambda random, _: (
        random.randrange(-(10**12), 10**12) * random.choice((1, 10, 10**6))
    ),
}


def _scalar(random: Random, of_type: pa.DataType) -> Any:
    (make,) = [make for is_type, make in _SCALARS.items() if is_type(of_type)]
    return make(random, of_type)


def _value(random: Random, of_type: pa.DataType) -> Any:
    """Return a random value of a type."""
    if random.random() < 0.15:
        return None
    if pa.types.is_map(of_type):
        keys = {_scalar(random, of_type.key_type) for _ in range(random.randrange(4))}
        return [(key, _value(random, of_type.item_type)) for key in keys]
    if pa.types.is_list(of_type):
        return [_value(random, of_type.value_type) for _ in range(random.randrange(4))]
    if pa.types.is_struct(of_type):
        return {field.name: _value(random, field.type) for field in of_type}
    return _scalar(random, of_type)


def _read(number_type: Any, match: re.Match[bytes]) -> bytes:
    with np.errstate(over="ignore"):
        return repr(number_type(match[0].decode())).encode()


@seeds(2, 40)
def test_json_is_as_spark_writes_it(spark: SparkSession, seed: int) -> None:
    """Each byte is equal, except that Java 17 prints some doubles and floats with more digits."""
    random = Random(seed)
    columns = {
        f"c{number}": pa.array([_value(random, of_type) for _ in range(_ROWS)], of_type)
        for number, of_type in enumerate(_TYPES)
    }
    table = pa.table(columns)

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from table.to_batches()

    frame = spark.range(0, 1, 1, 1).mapInArrow(rows, from_arrow_schema(table.schema))
    written = frame.select(
        *(F.to_json(F.struct(F.col(name)), _OPTIONS).alias(name) for name in columns),
        F.to_json(F.struct(*map(F.col, columns)), _OPTIONS).alias("all"),
    ).toArrow()
    chosen = [(name, [name]) for name in columns] + [("all", list(columns))]
    for name, names in chosen:
        ours = record_json(names, [columns[each] for each in names], _ROWS).to_pylist()
        theirs = [text.encode() for text in written[name].to_pylist()]
        for mine, text in zip(ours, theirs, strict=True):
            if mine == text:
                continue
            # Both texts read back to the same number.
            assert len(mine) <= len(text), name
            read = {
                number_type: [
                    _NUMBER.sub(partial(_read, number_type), each) for each in (mine, text)
                ]
                for number_type in (float, np.float32)
            }
            is_float = pa.float32() == table.schema.field(names[0]).type or len(names) > 1
            mine_read, text_read = read[np.float32 if is_float else float]
            assert mine_read == text_read, name


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (1e10, b"1.0E10"), (1.5e-4, b"1.5E-4"), (-12.0, b"-12.0"), (123456789.5, b"1.234567895E8"),
        (2e23, b"2.0E23"), (float("nan"), b'"NaN"'), (-float("inf"), b'"-Infinity"'),
        ("\x1f\\u001f", b'"\\u001F\\\\u001f"'), (b"\x00\xff", b'"AP8="'), ([], b"[]"),
    ],
)  # fmt: skip
def test_values_have_one_form(value: Any, wanted: bytes) -> None:
    """Doubles have the fewest digits, and control characters have upper-case digits."""
    column = pa.array([value, None], pa.list_(pa.int32()) if value == [] else None)
    assert record_json(['a"b'], [column], 2).to_pylist() == [
        b'{"a\\"b":' + wanted + b"}", b'{"a\\"b":null}',
    ]  # fmt: skip


def test_slices_of_nested_columns_are_read_from_their_start() -> None:
    """A batch of a file is a slice of its columns, so slices must be correct."""
    values = [{"m": [("a", number)], "l": [number] * (number % 3)} for number in range(9)]
    of_type = pa.struct([("m", pa.map_(pa.string(), pa.int32())), ("l", pa.list_(pa.int32()))])
    column = pa.array([*values[:4], None, *values[5:]], of_type)
    texts = record_json(["v"], [column.slice(3)], 6).to_pylist()
    assert [orjson.loads(text)["v"] for text in texts] == [
        None if number == 4 else {"m": {"a": number}, "l": [number] * (number % 3)}
        for number in range(3, 9)
    ]


def test_records_without_columns_are_empty_objects() -> None:
    """A stream can drop all of its values."""
    assert record_json([], [], 2).to_pylist() == [b"{}", b"{}"]


def test_an_unknown_type_is_named() -> None:
    """Spark has no such type, so the error names it."""
    with pytest.raises(TypeError, match="values of type time64"):
        record_json(["t"], [pa.array([1], pa.time64("us"))], 1)
