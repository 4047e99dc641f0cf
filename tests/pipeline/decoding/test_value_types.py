"""DECIMAL, DATE and BINARY values: which notations are valid, and which values they have."""

from base64 import b64encode
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from oriel.pipeline.decoding import BlockDecoder, event_log_decoder
from tests.pipeline.decoding.both_decoders import decoded_log, log_rows
from tests.pipeline.decoding.test_blocks import SLOW_WAY

LINE = b'{"key":"a","timestamp_ms":1,"value":{"v":%s}}'

#: The number of days since 1970 of 2024-01-01.
NEW_YEAR = 19_723

DECIMALS = {
    "1": "1.00", "-0": "0.00", "0.005": "0.01", "-0.005": "-0.01", "0.0049": "0.00",
    "25e-1": "2.50", "99999999.994": "99999999.99", "99999999.995": None, "100000000": None,
    "1e7": "10000000.00", "1e8": None, "1e-5000": "0.00", "0e2147483647": "0.00",
    "0e2147483648": None, "0e-2147483647": "0.00", "0.0e-2147483647": None, "1e-600000000": None,
    '"1,234.5"': "1234.50", '"+1"': "1.00", '".5"': "0.50", '"5."': "5.00", '"1E-3"': "0.00",
    '"1e+-1"': None, '"٣"': "3.00", '" 1"': None, '""': None, '"."': None, '"NaN"': None,
    "true": None,
}  # fmt: skip

DATES = {
    "2024-01-01": NEW_YEAR, "2024-1-1": NEW_YEAR, "2024-1": NEW_YEAR, "2024": NEW_YEAR,
    "2024-01-01T12:00Z": NEW_YEAR, " 2024-01-01\\n": NEW_YEAR, "+2024-01-01": NEW_YEAR,
    "GMT2024-01-01": NEW_YEAR, "2024-01-01x": None, "2024-01T": None, "2024/01/01": None,
    "2023-02-29": None, "1500-02-29": None, "2024-13-01": None, "now": None, "": None,
    "0000-01-01": -719_528, "1582-10-10": -141_432, "5881580-07-11": 2**31 - 1,
    "5881580-07-12": None, "-5877641-06-23": -(2**31), "-5877641-06-22": None,
    # Days since 1970. The Julian calendar, which applies before 1582, has another date.
    "0": 0, "123": 123, "12345678": 12_345_678, "-00141427": -141_427, "-00141428": -141_438,
    "-00719164": -719_162, "-2147483648": -2_147_439_564, "2147483648": None, "5 ": None,
}  # fmt: skip

BINARY = {
    "": b"", "YQ==": b"a", "YR==": b"a", "YQ==YWJj": b"aabc", " YWJj\\nYWJj ": b"abcabc",
    "YQ\\u003d=": b"a", "\\/\\/\\/\\/": b"\xff\xff\xff", "YQ": None, "YW Jj": None, "-_-_": None,
    "====": None, "YWJj=": None, "é": None,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column_type", "values"),
    [
        ("DECIMAL(10, 2)", DECIMALS),
        ("DATE", {f'"{text}"': days for text, days in DATES.items()} | {"19723": None}),
        ("BINARY", {f'"{text}"': content for text, content in BINARY.items()} | {"1": None}),
    ],
)
def test_a_notation_has_the_value_of_spark(
    spark: SparkSession, column_type: str, values: dict[str, object]
) -> None:
    """Both decoders return this value, or reject the record because of its type."""
    rows = decoded_log(spark, [LINE % text.encode() for text in values], f"v {column_type}")
    found = {
        text: None if row.reason else str(row.value.v) if "DECIMAL" in column_type else row.value.v
        for text, row in zip(values, rows, strict=True)
    }
    assert found == values
    assert {row.reason for row in rows} == {None, "wrong-type"}


MAPS = {
    "{}": [], "null": None, '{"a":1,"a":null}': [("a", 1), ("a", None)], '{"":1}': [("", 1)],
    '{ "a" : 1 , "b":\n2 }': [("a", 1), ("b", 2)], r'{"\u0061\"":1}': [('a"', 1)],
}  # fmt: skip
NO_MAPS = (
    "[]", "[null]", '[{"key":"a","value":1}]', "{null}", "{null:1}", '{"a"}', '{"a":}', '{"a":1,}',
    '{"a":1:2}', '{"a":1,"b"}', "{{}:1}", "{1:2}", '{"a":1]', '{"a" 1}', "{,}", '{"a":1.5}', "{:1}",
    '{"a":{}}', '"x"', "1",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["v", r"\u0076"])
@pytest.mark.parametrize("item_type", ["INT", "MAP<STRING, INT>"])
def test_an_object_is_a_map(spark: SparkSession, name: str, item_type: str) -> None:
    """Both decoders return the pairs of an object in order, and reject everything else."""
    nested = item_type != "INT"
    texts = [f'{{"k":{text}}}' if nested else text for text in (*MAPS, *NO_MAPS)]
    named = LINE.replace(b'"v"', f'"{name}"'.encode())
    schema = f"v MAP<STRING, {item_type}>"
    rows = decoded_log(spark, [named % text.encode() for text in texts], schema)
    expected = [[("k", pairs)] if nested else pairs for pairs in MAPS.values()]
    assert [row.value.v for row in rows[: len(MAPS)]] == expected
    assert {row.reason for row in rows[len(MAPS) :]} == {"wrong-type", "not-json"}


def test_an_invalid_map_among_valid_lines_is_found() -> None:
    """If a block is otherwise valid, Arrow also rejects a line with an invalid map."""
    decoder = event_log_decoder("v MAP<STRING, INT>")
    assert decoder is not None
    good = [LINE % text.encode() for text in MAPS] * 10
    for text in NO_MAPS:
        lines = [*good, LINE % text.encode(), *good]
        reasons = decoder.decode(log_rows(lines))["reason"]
        assert reasons.is_valid().to_pylist() == [n == len(good) for n in range(len(lines))], text


@pytest.mark.slow
def test_a_control_character_in_base64_is_not_json(spark: SparkSession) -> None:
    """Jackson ignores a tab between groups of a text in Base64, but a line with it is not JSON."""
    lines = [
        LINE % text for text in (b'"YWJj\tYWJj"', b'"\x1fYWJj"', b'"YWJj\\tYWJj"', b'"YWJj"\t')
    ]
    reasons = [row.reason for row in decoded_log(spark, lines, "v BINARY")]
    assert reasons == ["not-json", "not-json", None, None]


@pytest.mark.parametrize(
    ("column_type", "usual"),
    [
        ("DECIMAL(10, 2)", {"12.5": Decimal("12.50"), "0.30000000000000004": Decimal("0.30")}),
        ("DECIMAL(38, 18)", {'"1.5"': Decimal("1.5"), "-7": Decimal(-7), "null": None}),
        ("DATE", {'"1582-10-10"': date(1582, 10, 10), '"2024-02-29T00:00Z"': date(2024, 2, 29)}),
        ("BINARY", {'"YQ=="': b"a", '"YWI="': b"ab", '"YWJj"': b"abc", '""': b"", "null": None}),
        (
            "MAP<STRING, DATE>",
            {'{"é":"2024-01-01","key":null}': [("é", date(2024, 1, 1)), ("key", None)]},
        ),
        (
            "MAP<STRING, MAP<STRING, INT>>",
            {
                '{"a":{"b":1,"b":2},"":{},"c":null}': [
                    ("a", [("b", 1), ("b", 2)]),
                    ("", []),
                    ("c", None),
                ],
                "{ }": [],
                "null": None,
            },
        ),
        (
            "ARRAY<STRUCT<v: MAP<STRING, STRING>>>",
            {'[{"v":{"a":"{\\n:,"}},{},null]': [{"v": [("a", "{\n:,")]}, {"v": None}, None]},
        ),
        ("STRUCT<a: ARRAY<DATE>>", {'{"a":["2024-01-01",null]}': {"a": [date(2024, 1, 1), None]}}),
    ],
)
def test_usual_values_are_read_in_blocks(
    column_type: str, usual: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines with usual notations are not parsed one by one."""
    monkeypatch.delattr(SLOW_WAY)
    decoder = event_log_decoder(f"v {column_type}")
    assert decoder is not None
    found = decoder.decode(log_rows([LINE % text.encode() for text in usual] * 50)).to_pylist()
    assert [row["value"]["v"] for row in found] == [*usual.values()] * 50


def test_any_bytes_are_decoded() -> None:
    """Bytes of any length and value are equal to their Base64, next to nulls and other lines."""
    contents = [
        bytes(range(256))[start : start + length] for start in (0, 99) for length in range(40)
    ]
    texts = [b"null", *(b'"%b"' % b64encode(content) for content in contents), b'" YQ=="', b'"x"']
    decoder = event_log_decoder("v BINARY")
    assert decoder is not None
    found = decoder.decode(log_rows([LINE % text for text in texts])).to_pylist()
    assert [row["value"] and row["value"]["v"] for row in found] == [None, *contents, b"a", None]


def test_a_map_without_string_keys_fits_no_object() -> None:
    """If the test driver reads such a map, each object is invalid, and null is valid."""
    row_type = pa.struct([("v", pa.map_(pa.int32(), pa.int32()))])
    decoder = BlockDecoder(row_type, has_envelope=True)
    found = decoder.decode(log_rows([LINE % text for text in (b'{"1":1}', b"{}", b"null")] * 40))
    wrong = "wrong-type: value.v: MAP<INT, INT> expected, not an object"
    assert found["reason"].to_pylist() == [wrong, wrong, None] * 40


def test_a_wrong_value_is_named() -> None:
    """The reason has the type as the schema writes it."""
    decoder = event_log_decoder("v STRUCT<d: DATE, b: BINARY, p: DECIMAL(4, 1)>")
    assert decoder is not None
    values = (b'{"d":"x"}', b'{"b":"x"}', b'{"p":1000}')
    reasons = decoder.decode(log_rows([LINE % value for value in values]))["reason"].to_pylist()
    assert reasons == [
        'wrong-type: value.v.d: DATE expected, not "x"',
        'wrong-type: value.v.b: BINARY expected, not "x"',
        "wrong-type: value.v.p: DECIMAL(4, 1) expected, not 1000",
    ]
