"""Structs and maps in the arguments and results of functions, and in what a test reads."""

import warnings
from collections.abc import Callable
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from oriel import SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows
from oriel.pipeline.language.grouped import KGroupedStream
from oriel.pipeline.language.tables import KTable
from oriel.pipeline.language.windowed import TimeWindowedKStream
from oriel.pipeline.windows import Windows, python_rows, python_values
from oriel.testing import Record, TopologyTestDriver
from tests.testing.driver_runs import driver_with

ORDERS = "id INT, address STRUCT<city: STRING>, parts MAP<STRING, INT>, a ARRAY<MAP<STRING, INT>>"

KINDS: dict[str, Windows | None] = {
    "none": None,
    "tumbling": TimeWindows.of_size_and_grace(10, 0),
    "hopping": TimeWindows.of_size_and_grace(10, 0).advance_by(10),
    "sliding": SlidingWindows.of_time_difference_and_grace(10, 0),
    "session": SessionWindows.of_inactivity_gap_and_grace(10, 0),
}


def order(number: int) -> dict[str, Any]:
    """Return a value of ``ORDERS``."""
    parts = {"tea": number, "cup": None}
    return {"id": number, "address": {"city": f"c{number}"}, "parts": parts, "a": [parts, {}, None]}


def updated(
    aggregated: Callable[[KGroupedStream | TimeWindowedKStream], KTable],
    values: list[Any],
    windows: Windows | None = None,
    schema: str = ORDERS,
) -> tuple[list[Any], TopologyTestDriver]:
    """Return the updates of key ``k`` that a topic receives, in two batches, and the driver."""
    builder = StreamsBuilder()
    grouped = builder.stream("orders", schema).group_by_key()
    stream = grouped if windows is None else grouped.windowed_by(windows)
    aggregated(stream).to_stream().to("o")
    driver = TopologyTestDriver(builder.build(), collect_function_errors=True)
    written = driver.create_output_topic("o")
    for value in values:
        driver.pipe_input("orders", Record("k", value, 0))
    return [record.value for record in written.read_records()], driver


def plain(values: list[Any]) -> list[Any]:
    """Return values without the columns of their windows."""
    return [
        {name: item for name, item in value.items() if not name.startswith("window_")}
        for value in values
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_reduce_keeps_structs_and_maps(kind: str) -> None:
    """A reduce keeps structs and maps of the first value and of the reducer's results."""

    def merged(kept: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        kept["parts"]["n"] = len(kept["parts"])
        kept["a"].append(new["a"][0])
        return {**new, "parts": kept["parts"], "a": kept["a"]}

    values, driver = updated(lambda s: s.reduce(merged), [order(1), order(2)], KINDS[kind])
    assert driver.dead_letters("to(o)") == []
    tea = {"tea": 1, "cup": None}
    kept = {"parts": {**tea, "n": 2}, "a": [tea, {}, None, {"tea": 2, "cup": None}]}
    # A session that grows replaces its row. If its bounds change, the old row is deleted first.
    assert plain(values) == [order(1), {**order(2), **kept}]


def test_the_best_ads_are_an_array_of_structs() -> None:
    """An aggregate can be an array of structs, as in the top N of Kafka's examples."""

    def ranked(_: str, value: Any, top: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted([*top, value], key=lambda ad: -ad["clicks"])[:2]

    ads = [{"ad": ad, "clicks": clicks} for ad, clicks in (("x", 1), ("y", 3), ("z", 2))]
    values, driver = updated(
        lambda s: s.aggregate(list, ranked, schema="top ARRAY<STRUCT<ad: STRING, clicks: BIGINT>>"),
        ads,
        schema="ad STRING, clicks BIGINT",
    )
    assert driver.dropped == 0
    assert values[-1] == {"top": [ads[1], ads[2]]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_map_is_counted_up(kind: str) -> None:
    """Functions receive a map as a dict that they can change."""

    def counted(_: str, value: Any, counts: dict[str, int]) -> dict[str, int]:
        counts[value["word"]] = counts.get(value["word"], 0) + 1
        return counts

    def merged(_: str, left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
        return {w: left.get(w, 0) + right.get(w, 0) for w in sorted({*left, *right})}

    # One word equals the name of the column.
    values, driver = updated(
        lambda s: s.aggregate(dict, counted, merged, schema="m MAP<STRING, BIGINT>"),
        [{"word": word} for word in ("m", "b", "m")],
        KINDS[kind],
        schema="word STRING",
    )
    assert driver.dropped == 0
    assert plain(values) == [{"m": {"m": 1}}, {"m": {"m": 1, "b": 1}}, {"m": {"m": 2, "b": 1}}]


class _Word(StrEnum):
    TEA = "tea"


class _Number(IntEnum):
    ONE = 1


class _Single(float):
    pass


#: Columns, and what a function returns for them.
CONVERTED: list[tuple[str, Any]] = [
    ("x ARRAY<FLOAT>", [0.1, np.float32(0.1), 1e39, 1]),
    ("x STRUCT<y: FLOAT>", {"y": 0.1}),
    ("x MAP<STRING, FLOAT>", {"y": 0.1}),
    ("x MAP<FLOAT, INT>", {0.1: 1, float(np.float32(0.1)): 2}),
    ("x FLOAT", 0.1),
    ("x FLOAT", _Single(0.5)),
    ("x DOUBLE", _Single(0.1)),
    ("x STRING", _Word.TEA),
    ("x ARRAY<STRING>", [_Word.TEA]),
    ("x MAP<STRING, INT>", {_Word.TEA: _Number.ONE}),
    ("x BIGINT", _Number.ONE),
]


@pytest.mark.parametrize(("column", "returned"), CONVERTED)
def test_the_next_call_receives_the_same_aggregate_in_each_batch(
    column: str, returned: Any
) -> None:
    """A function sees the same values and types, whether a batch ends before its call or not."""

    def shown(_key: str, _value: Any, old: dict[str, Any]) -> dict[str, Any]:
        return {"x": returned, "seen": f"{old['seen']} {_with_types(old['x'])}"}

    def outputs(batches: list[list[Record]]) -> list[Any]:
        builder = StreamsBuilder()
        grouped = builder.stream("t", "n INT").group_by_key()
        table = grouped.aggregate(
            lambda: {"x": None, "seen": ""}, shown, schema=f"{column}, seen STRING"
        )
        table.to_stream().to("o")
        driver = TopologyTestDriver(builder.build())
        written = driver.create_output_topic("o")
        for batch in batches:
            driver.pipe_input("t", batch)
        return written.read_records()

    piped = [Record("k", {"n": 1}, time) for time in range(3)]
    assert outputs([piped]) == outputs([[record] for record in piped])


def _with_types(value: Any) -> str:
    """Return a value as text, with the types of all of its parts."""
    if isinstance(value, dict):
        return str([(_with_types(name), _with_types(item)) for name, item in value.items()])
    if isinstance(value, list):
        return str([_with_types(item) for item in value])
    return f"{type(value).__name__} {value!r}"


def test_a_table_of_structs_is_added_and_subtracted() -> None:
    """Adders and subtractors receive the same dicts."""
    builder = StreamsBuilder()
    users = builder.table("users", "city STRING, tags MAP<STRING, INT>")

    def added(_: str, row: Any, tags: Any) -> Any:
        return {**tags, **row["tags"]}

    def subtracted(_: str, row: Any, tags: Any) -> Any:
        return {tag: n for tag, n in tags.items() if tag not in row["tags"]}

    grouped = users.group_by("city")
    table = grouped.aggregate(dict, added, subtracted, schema="tags MAP<STRING, INT>")
    table.to_stream().to("o")
    driver = TopologyTestDriver(builder.build())
    written = driver.create_output_topic("o")
    for key, tag in (("a", "x"), ("b", "y"), ("a", "z")):
        driver.pipe_input("users", Record(key, {"city": "c", "tags": {tag: 1}}, 0))
    assert driver.dropped == 0
    assert written.read_records()[-1].value == {"tags": {"y": 1, "z": 1}}


WRONG: list[tuple[str, Any, str]] = [
    (
        "top ARRAY<STRUCT<ad: STRING, n: INT>>",
        [{"ad": "x", "n": "many"}],
        "TypeError: top[0].n: 'many' is not of type int32",
    ),
    (
        "s STRUCT<a: INT>",
        {"a": 1, "n": 1},
        "TypeError: s: {'a': 1, 'n': 1} is not of type struct<a: int32>, which has no field 'n'",
    ),
    ("m MAP<STRING, BOOLEAN>", {"x": 1}, "TypeError: m['x']: 1 is not of type bool"),
    ("n ARRAY<INT>", [2**31], "ValueError: n[0]: 2147483648 does not fit into 32 bits"),
    (
        "n ARRAY<DOUBLE>",
        [1.0, 10**310],
        f"ValueError: n[1]: 1{'0' * 310} does not fit into the type double",
    ),
    (
        "s ARRAY<STRING>",
        ["\ud800"],
        "ValueError: s[0]: '\\ud800' has half a surrogate pair, which UTF-8 cannot encode",
    ),
]


@pytest.mark.parametrize(("schema", "returned", "message"), WRONG)
def test_the_error_for_a_wrong_field_has_its_path(schema: str, returned: Any, message: str) -> None:
    """The dead letter names the field of the wrong type inside the value."""
    values, driver = updated(
        lambda s: s.aggregate(lambda: None, lambda *_: returned, schema=schema), [order(1)]
    )
    assert values == []
    (letter,) = driver.dead_letters("to(o)")
    assert (letter["reason"], letter["detail"].partition("aggregate: ")[2]) == (
        "function-raised",
        message,
    )


def test_a_map_is_read_as_it_was_piped() -> None:
    """A map read from a topic or stream equals the piped one, also in structs, arrays and maps."""
    nested = "s STRUCT<m: MAP<STRING, INT>, n: INT>, d MAP<STRING, ARRAY<MAP<STRING, STRING>>>"
    builder = StreamsBuilder()
    stream = builder.stream("t", f"{ORDERS}, {nested}")
    stream.to("o")
    driver = TopologyTestDriver(builder.build())
    written, reader = driver.create_output_topic("o"), driver.create_output_reader(stream)
    full = {**order(1), "s": {"m": {"x": 1}, "n": 2}, "d": {"k": [{"a": "b"}, None], "l": None}}
    piped = [Record("k", full, 1), Record("k", dict.fromkeys(full), 2), Record("k", None, 3)]
    driver.pipe_input("t", piped)
    assert written.read_records() == piped
    assert reader.read_records() == piped


def test_of_a_key_that_a_map_has_twice_the_last_one_counts() -> None:
    """If a map repeats a key, the last value counts, without a Python warning.

    JSON can repeat a name, and pytest can turn a warning into an error.
    """
    map_type = pa.map_(pa.string(), pa.int32())
    twice = pa.array([[("a", 1), ("b", 2), ("a", 3)], [], None], map_type)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert python_values(twice) == [{"a": 3, "b": 2}, {}, None]
    rows = pa.table({"m": twice, "n": [1, 2, 3]})
    assert python_rows(rows)[0] == {"m": {"a": 3, "b": 2}, "n": 1}


def test_a_map_with_keys_that_python_can_not_hash_is_pairs() -> None:
    """A map with keys that Python cannot hash is a list of pairs."""
    map_type = pa.map_(pa.struct([("a", pa.int32())]), pa.map_(pa.string(), pa.int32()))
    column = pa.array([[({"a": 1}, {"x": 2})]], map_type)
    assert python_values(column) == [[({"a": 1}, {"x": 2})]]


@pytest.mark.parametrize("kind", KINDS)
def test_aggregators_see_maps_as_dicts(kind: str) -> None:
    """Aggregators receive maps as dicts, also in stores, which emit only final rows."""
    seen: list[Any] = []

    def look(_: str, value: Any, old: int) -> int:
        seen.append(value)
        return old + 1

    driver = driver_with(
        lambda s: s.aggregate(lambda: 0, look, lambda _k, a, b: a + b, schema="n BIGINT"),
        KINDS[kind],
        schema=ORDERS,
    )
    driver.pipe_input("t", Record("k", order(1), 0))
    assert seen[-1] == order(1)


@pytest.mark.slow
def test_peek_shows_maps_as_dicts(spark: SparkSession, tmp_path: Path) -> None:
    """``peek`` receives maps as dicts."""
    seen = tmp_path / "seen"
    builder = StreamsBuilder()
    shown = builder.stream("t", ORDERS).peek(lambda _k, value, _t: seen.write_text(repr(value)))
    shown.to("o")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("t", Record("k", order(1), 0))
    assert seen.read_text() == repr(order(1))
