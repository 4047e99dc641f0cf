"""Invalid records, and records without a key or a value, in the test driver."""

import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from oriel import (
    Consumed,
    IllegalArgument,
    InvalidTopology,
    Serdes,
    StreamsBuilder,
    collect_list,
    first,
    sum,
)
from oriel.aggregates import max as max_of
from oriel.pipeline.language import ValueSerde
from oriel.pipeline.windows import MAX_TIMESTAMP_MS, Windows
from oriel.testing import Counters, Record, TopologyTestDriver
from tests.testing.driver_runs import (
    driver_of,
    driver_with,
    grouped,
    hopping,
    member_times,
    pipe,
    records,
    sessions,
    sliding,
    times_driver,
    tumbling,
    windows_of,
)

KINDS: dict[str, Windows | None] = {
    "none": None,
    "tumbling": tumbling(10, 0),
    "hopping": hopping(10, 10),
    "sliding": sliding(10, 0),
    "session": sessions(10, 0),
}
TAKES_NULL = {"tumbling", "hopping", "session"}

COLUMNS = (
    "b BOOLEAN, t TINYINT, h SMALLINT, j INT, i BIGINT, f FLOAT, v DOUBLE, s STRING, "
    "a ARRAY<DOUBLE>"
)


def seen_by(value: Any, schema: str = COLUMNS) -> list[Any]:
    """Return what an aggregator receives for a record with this value.

    The list is empty if the record is a dead letter.
    """
    seen = []

    def look(_: str, found: Any, old: int) -> int:
        seen.append(found)
        return old + 1

    driver = driver_with(
        lambda s: s.aggregate(lambda: 0, look, schema="n BIGINT"), tumbling(10, 0), schema=schema
    )
    driver.pipe_input("t", Record("k", value, 1))
    assert len(seen) + driver.dropped == 1
    assert [letter["reason"] for letter in driver.dead_letters("s")] == [
        "wrong-type"
    ] * driver.dropped
    return seen


GOOD: list[tuple[str, Any, Any]] = [
    ("b", True, True),
    ("t", -128, -128),
    ("h", 32767, 32767),
    ("j", 2**31 - 1, 2**31 - 1),
    ("i", -(2**63), -(2**63)),
    ("i", np.int64(5), 5),
    ("f", 0.1, float(np.float32(0.1))),
    ("v", 1, 1.0),
    ("v", 2**60 + 1, float(2**60)),
    ("v", 2**70, float(2**70)),
    ("v", 10**308, 1e308),
    ("v", np.float32(1.5), 1.5),
    ("s", "ä\0", "ä\0"),
    ("s", 5, "5"),
    ("s", True, "true"),
    ("s", [1, None], "[1,null]"),
    ("a", [1, None, 2.5], [1.0, None, 2.5]),
    ("a", (1.0,), [1.0]),
    ("a", np.array([1.0, 2.0]), [1.0, 2.0]),
    ("a", [], []),
    ("j", None, None),
]


@pytest.mark.java
@pytest.mark.parametrize(("name", "given", "wanted"), GOOD)
def test_a_value_is_read_as_from_json_reads_it(name: str, given: Any, wanted: Any) -> None:
    """A column of each type accepts what ``from_json`` accepts, and missing columns are null."""
    (seen,) = seen_by({name: given})
    assert repr(seen[name]) == repr(wanted)
    others = {column: value for column, value in seen.items() if column != name}
    assert others == dict.fromkeys(others)
    assert len(seen) == 9


BAD: list[tuple[str, Any]] = [
    ("b", 1),
    ("b", "true"),
    ("t", 128),
    ("h", -32769),
    ("j", 2**31),
    ("i", 2**63),
    ("i", 2**70),
    ("i", 1.0),
    ("i", 1.5),
    ("i", True),
    ("i", "1"),
    ("f", True),
    ("v", True),
    ("v", "1.0"),
    ("v", 10**400),
    ("f", 1e39),
    ("a", [-(10**309)]),
    ("v", [1.0]),
    ("s", b"bytes"),
    ("a", 1.0),
    ("a", [True]),
    ("a", {"x": 1.0}),
    ("v", object()),
]


@pytest.mark.parametrize(("name", "given"), BAD)
def test_a_value_of_another_type_is_a_dead_letter(name: str, given: Any) -> None:
    """A value of another type is a dead letter: no conversion from bool, and no truncation."""
    assert seen_by({name: given}) == []


@pytest.mark.parametrize("value", [5, "x", True, [], [("v", 1.0)], {"v"}])
def test_a_value_that_is_no_mapping_is_a_dead_letter(value: Any) -> None:
    """A record's value is a JSON object or null, so any other value is a dead letter."""
    assert seen_by(value) == []


def test_a_value_may_be_any_mapping_and_is_copied() -> None:
    """A value can be any mapping. A later change of the mapping has no effect."""
    value = {"v": 1.0}
    (seen,) = seen_by(MappingProxyType(value), "v DOUBLE")
    assert seen == {"v": 1.0}


def test_structs_and_maps_are_read_inside() -> None:
    """The fields of a struct and the entries of a map are checked by name and type."""
    schema = "r STRUCT<x: INT, y: STRING>, m MAP<STRING, INT>"
    (seen,) = seen_by({"r": {"x": 1}, "m": {"k": 1, "l": None}}, schema)
    assert seen == {"r": {"x": 1, "y": None}, "m": {"k": 1, "l": None}}
    assert seen_by({"r": {"x": "1"}}, schema) == []
    assert seen_by({"m": {"k": "1"}}, schema) == []


def test_decimals_dates_and_bytes_are_read_as_python_has_them() -> None:
    """A column accepts Python's values and the values of JSON, and no other type accepts them."""
    schema = "p DECIMAL(4, 1), d DATE, b BINARY, l ARRAY<DATE>, s STRING"
    day = date(2024, 2, 29)
    expected = {"p": Decimal("1.5"), "d": day, "b": b"a\xff", "l": [day, None], "s": None}
    assert seen_by(expected, schema) == [expected]
    text = day.isoformat()
    given = {"p": 1.45, "d": text, "b": "Yf8=", "l": [text, None]}
    assert seen_by(given, schema) == [expected]
    wrong = ({"p": Decimal(1000)}, {"s": day}, {"s": b""}, {"s": Decimal(1)}, {"d": b""})
    for value in (*wrong, {"d": datetime(2024, 1, 1)}, {"p": Decimal("NaN")}, {"b": day}):  # noqa: DTZ001
        assert seen_by(value, schema) == [], value


def test_functions_return_decimals_dates_and_bytes() -> None:
    """A reduce keeps Python's values. A decimal must fit the type of its column."""
    schema = "p DECIMAL(4, 1), d DATE, b BINARY"
    builder = StreamsBuilder()
    stream = builder.stream("t", schema).group_by_key()
    stream.reduce(lambda kept, new: {**new, "p": kept["p"] + new["p"]}).to_stream().to("o")
    driver = TopologyTestDriver(builder.build(), collect_function_errors=True)
    written = driver.create_output_topic("o")
    value = {"p": Decimal("450.5"), "d": date(2024, 2, 29), "b": b"\xff"}
    for _ in range(3):
        driver.pipe_input("t", Record("k", value, 0))
    twice = {**value, "p": Decimal("901.0")}
    assert [record.value for record in written.read_records()] == [value, twice]
    assert [each["reason"] for each in driver.dead_letters("to(o)")] == ["function-raised"]


UNKNOWN: list[tuple[Any, str]] = [
    (
        {"amuont": 1.0},
        "topic 't': a record has 'amuont', .* Did you mean 'amount'\\? The .* amount, ",
    ),
    ({"amount": 1.0, "Amount": 2.0}, "has 'Amount', .* Did you mean 'amount'"),
    ({"other": 1}, "has 'other', which the schema does not have. The schema has amount, r, l, m$"),
    ({5: 1}, "has 5, which"),
    ({"r": {"y": 1}}, "topic 't', column 'r': a record has 'y', .* The schema has x$"),
    ({"l": [None, {"x": 1}, {"xx": 1}]}, "topic 't', column 'l': .*'xx'.* Did you mean 'x'"),
    ({"m": {"any": {"z": 1}}}, "topic 't', column 'm': a record has 'z'"),
]


@pytest.mark.parametrize(("value", "message"), UNKNOWN)
def test_a_column_that_the_schema_does_not_have_is_an_error(value: Any, message: str) -> None:
    """The message suggests the nearest column, and no record of the batch is processed."""
    schema = (
        "amount DOUBLE, r STRUCT<x: INT>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<x: INT>>"
    )
    driver = driver_with(lambda s: s.count(), schema=schema)
    with pytest.raises(IllegalArgument, match=message):
        driver.pipe_input("t", [Record("k", {"amount": 1.0}, 1), Record("k", value, 1)])
    assert driver.counters("s").input == 0


def test_a_column_of_one_of_a_topics_schemas_is_known() -> None:
    """A column is known if one of the topic's schemas has it."""
    builder = StreamsBuilder()
    for store, schema in (("s", "a INT, r STRUCT<x: INT>"), ("u", "b INT, r STRUCT<y: INT>")):
        builder.stream("t", schema).group_by_key().count().materialize(store)
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("t", Record("k", {"a": 1, "b": 2, "r": {"x": 3, "y": 4}}, 1))
    assert (driver.counters("s").applied, driver.counters("u").applied) == (1, 1)
    with pytest.raises(IllegalArgument, match=r"'c', which .* The schema has a, r, b$"):
        driver.pipe_input("t", Record("k", {"c": 1}, 1))


@pytest.mark.parametrize("given", [math.nan, math.inf, -math.inf, np.float64("nan"), "\ud800"])
def test_what_json_can_not_hold_is_a_dead_letter(given: Any) -> None:
    """NaN, infinity and an unpaired surrogate are dead letters, as JSON cannot contain them."""
    driver = driver_with(lambda s: s.count(), tumbling(10, 0), schema="v STRING")
    driver.pipe_input("t", Record("k", {"v": given}, 1))
    (letter,) = driver.dead_letters("s")
    assert (letter["reason"], driver.dropped) == ("not-json", 1)


def test_formats_that_have_such_numbers_take_them() -> None:
    """Kafka's floating-point serdes and Avro accept NaN and infinity in a column of the value."""
    serdes: dict[ValueSerde, str] = {
        Serdes.double(): "value DOUBLE",
        Serdes.float(): "value FLOAT",
        Serdes.avro(): "value DOUBLE, other STRING",
    }
    for serde, schema in serdes.items():
        builder = StreamsBuilder()
        stream = builder.stream("t", schema, Consumed(value_serde=serde))
        stream.group_by_key().aggregate(most=max_of("value")).materialize("s")
        driver = TopologyTestDriver(builder.build())
        given = (("n", 1.5), ("n", math.nan), ("i", -math.inf), ("j", np.float32("inf")))
        driver.pipe_input("t", [Record(key, {"value": value}, 1) for key, value in given])
        assert driver.dropped == 0
        kept = {row.key: row.value["most"] for row in driver.key_value_store("s").all()}
        assert math.isnan(kept.pop("n"))
        assert kept == {"i": -math.inf, "j": math.inf}


@pytest.mark.java
def test_steps_leave_a_record_without_a_value_as_it_is() -> None:
    """A step leaves a null value as it is, but Kafka Streams calls the mapper with null."""
    builder = StreamsBuilder()
    stream = builder.stream("t", "s STRING")
    made = {
        "values": stream.map_values(s="coalesce(s, 'none')"),
        "map": stream.map("upper(key)", s="'none'"),
        "key": stream.select_key("concat(key, coalesce(s, ''))"),
        "filtered": stream.filter("s IS NULL"),
    }
    for name, each in made.items():
        each.to(name)
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("t", Record("k", None, 1))
    for name in made:
        key = "K" if name == "map" else "k"
        assert driver.create_output_topic(name).read_record() == Record(key, None, 1)


TIMES: list[tuple[Any, str]] = [
    (None, "missing-timestamp"),
    (True, "wrong-type"),
    (1.0, "wrong-type"),
    ("1", "wrong-type"),
    (2**63, "wrong-type"),
    (-(2**70), "wrong-type"),
    (-1, "negative-timestamp"),
    (MAX_TIMESTAMP_MS + 1, "timestamp-too-large"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("time", "reason"), TIMES)
def test_a_wrong_time_is_a_dead_letter_and_moves_no_clock(
    kind: str, time: Any, reason: str
) -> None:
    """A wrong time is invalid for every store, so the dead letter names no store.

    The record does not advance the stream time.
    """
    driver = times_driver(KINDS[kind])
    driver.pipe_input("t", [Record("k", {"t": 1}, time), *records("1")])
    (letter,) = driver.dead_letters("s")
    assert (letter["reason"], letter["store"], letter["offset"]) == (reason, None, 0)
    assert driver.counters("s") == Counters(input=2, applied=1, late=0, dropped=1, filtered=0)


def test_the_last_ms_of_the_year_9999_is_a_time() -> None:
    """The last millisecond of the year 9999 is accepted. ``TIMES`` has the next one."""
    driver = times_driver()
    driver.pipe_input("t", Record("k", {"t": 1}, MAX_TIMESTAMP_MS))
    assert driver.counters("s").applied == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_without_a_key_is_dropped_and_moves_no_clock(kind: str) -> None:
    """A record without a key is dropped (semantics.md#1-2).

    It does not advance the stream time, so an older record is not late (semantics.md#1-1).
    """
    driver = times_driver(KINDS[kind])
    pipe(driver, "*:100 5")
    assert driver.counters("s") == Counters(input=2, applied=1, late=0, dropped=1, filtered=0)
    (letter,) = driver.dead_letters("s")
    assert (letter["reason"], letter["store"]) == ("null-key", "s")
    assert letter["raw"] == b'{"key":null,"value":{"t":100,"s":null},"timestamp_ms":100}'


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_without_a_value(kind: str) -> None:
    """A null value counts in time windows and sessions (semantics.md#1-2).

    It also advances their stream time.
    """
    driver = times_driver(KINDS[kind])
    driver.pipe_input("t", [Record("k", None, 100), *records("5")])
    if kind in TAKES_NULL:
        assert driver.counters("s") == Counters(input=2, applied=1, late=1, dropped=0, filtered=0)
        (window,) = windows_of(driver, kind)
        assert window.value == {"n": 1, "times": []}
        return
    assert driver.counters("s") == Counters(input=2, applied=1, late=0, dropped=1, filtered=0)
    (letter,) = driver.dead_letters("s")
    assert (letter["reason"], letter["store"]) == ("null-value", "s")
    if kind == "sliding":
        assert member_times(windows_of(driver, kind)) == {("k", 0, 10): [5]}


def test_a_value_of_nulls_is_a_value() -> None:
    """The value ``{}`` is accepted everywhere, because only ``None`` is a null value."""
    driver = times_driver()
    driver.pipe_input("t", Record("k", {}, 1))
    entry = driver.key_value_store("s").get("k")
    assert entry is not None
    assert entry.value == {"n": 1, "times": []}


@pytest.mark.parametrize("key", ["", "ä/ \0", "😀", "a|b"])
def test_any_text_is_a_key(key: str) -> None:
    """Any string is a valid key, including the empty string."""
    driver = times_driver()
    driver.pipe_input("t", Record(key, {"t": 1}, 1))
    assert [entry.key for entry in driver.key_value_store("s").all()] == [key]


def test_half_a_surrogate_pair_is_no_key() -> None:
    """A key with an unpaired surrogate is a dead letter, as JSON cannot contain it."""
    driver = times_driver()
    driver.pipe_input("t", Record("\udfff", {"t": 1}, 1))
    (letter,) = driver.dead_letters("s")
    assert letter["reason"] == "not-json"
    assert letter["raw"].startswith(b'{"key":"\\udfff"')


@pytest.mark.parametrize("given", [("k", {}, 1), {"key": "k"}, None, Record(5, {}, 1)])  # type: ignore[arg-type]
def test_what_is_no_record_is_refused_and_changes_nothing(given: Any) -> None:
    """A value that is not a ``Record`` raises an error before any record of the batch is read."""
    driver = times_driver()
    with pytest.raises(TypeError, match="a record must be Record"):
        driver.pipe_input("t", [*records("1"), given])
    pipe(driver, "2")
    assert driver.counters("s").input == 1
    driver.pipe_input("t", Record(None, {}, 3))
    assert [letter["offset"] for letter in driver.dead_letters("s")] == [1]


@pytest.mark.parametrize("partition", [-1, 2**31, 2**40, 1.0, True, None])
def test_what_is_no_partition_is_refused(partition: Any) -> None:
    """A partition is an integer of 31 bits. Any other value is rejected and changes nothing."""
    driver = times_driver()
    with pytest.raises(IllegalArgument, match=rf"from 0 to 2147483647, not {partition!r}$"):
        driver.pipe_input("t", records("1"), partition)
    assert driver.counters("s").input == 0
    driver.pipe_input("t", records("1"), 2**31 - 1)
    assert driver.counters("s").applied == 1


def test_a_builder_is_no_topology() -> None:
    """Passing a builder raises an error that says to call ``build()``."""
    builder = StreamsBuilder()
    builder.stream("t", "v INT").group_by_key().count().materialize("s")
    with pytest.raises(IllegalArgument, match=r"^TopologyTestDriver: .* builder\.build\(\), not <"):
        TopologyTestDriver(builder)  # type: ignore[arg-type]


SCHEMAS_OF: dict[str, Callable[[StreamsBuilder], object]] = {
    "stream('in')": lambda b: b.stream("in", "a FOO").group_by_key().count().materialize("s"),
    "table('in')": lambda b: b.table("in", "a FOO").materialize("s"),
    "table('u')": lambda b: (
        b.stream("in", "v INT").join(b.table("u", "a FOO")).group_by_key().count().materialize("s")
    ),
    "table('w')": lambda b: (
        b.table("u", "v INT")
        .join(b.table("w", "a FOO"))
        .to_stream()
        .group_by_key()
        .count()
        .materialize("s")
    ),
    "stream('x')": lambda b: (
        b.stream("x", "a FOO").join(b.table("u", "v INT")).group_by_key().count().materialize("s")
    ),
}


@pytest.mark.parametrize("place", SCHEMAS_OF)
def test_the_error_for_an_invalid_schema_names_its_stream(place: str) -> None:
    """The message begins with the step that has the invalid schema."""
    with pytest.raises(InvalidTopology) as caught:
        driver_of(SCHEMAS_OF[place])
    assert str(caught.value).startswith(f"{place}: schema 'a FOO': the type FOO is not supported")


def test_bad_records_count_in_every_store_of_the_topic() -> None:
    """Two stores over one topic have separate counters and dead letters."""

    def define(builder: Any) -> None:
        grouped(builder).count().materialize("all")
        grouped(builder).windowed_by(tumbling(10, 0)).count().materialize("windows")

    driver: TopologyTestDriver = driver_of(define)
    driver.pipe_input("t", [Record("k", None, 50), Record("k", {"t": True}, 1), *records("1")])
    assert driver.counters("all") == Counters(input=3, applied=1, late=0, dropped=2, filtered=0)
    assert driver.counters("windows") == Counters(input=3, applied=1, late=1, dropped=1, filtered=0)
    assert (driver.late, driver.dropped) == (1, 3)
    assert [x["reason"] for x in driver.dead_letters("all")] == ["null-value", "wrong-type"]
    assert [x["reason"] for x in driver.dead_letters("windows")] == ["wrong-type"]


def test_columns_may_be_named_like_the_drivers_own() -> None:
    """A topic's columns can have names that the driver uses, and a store can group by them."""
    schema = "reason STRING, raw STRING, value DOUBLE"
    driver = driver_of(
        lambda b: (
            b.stream("t", schema)
            .group_by("reason")
            .aggregate(total=sum("value"), all=collect_list("value"))
            .materialize("s")
        )
    )
    driver.pipe_input("t", Record("k", {"reason": "p", "raw": "r", "value": 1.5}, 1))
    (entry,) = driver.key_value_store("s").all()
    assert (entry.key, entry.value) == ("p", {"total": 1.5, "all": [1.5]})


@pytest.mark.parametrize("name", ["reason", "offset", "partition", "raw", "close_ms"])
def test_an_aggregated_column_may_not_hide_the_record(name: str) -> None:
    """The error names the aggregated column and says how to rename it."""
    with pytest.raises(InvalidTopology, match=rf"store 's'.*\['{name}'\].*map_values"):
        driver_with(lambda s: s.aggregate(one=first(name)), schema=f"{name} BIGINT")


@pytest.mark.parametrize("name", ["key", "Timestamp_ms", "__x"])
def test_a_topic_may_not_have_columns_that_hide_the_record(name: str) -> None:
    """Reserved column names are rejected as in the pipeline, without Java."""
    with pytest.raises(InvalidTopology, match=f"{name}.*names that the pipeline needs"):
        driver_with(lambda s: s.count(), schema=f"{name} BIGINT")
