"""Grouped tables in the test driver: Kafka's examples, times, dead letters, and errors."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from oriel import (
    InvalidTopology,
    Serdes,
    StreamsBuilder,
    approx_quantile,
    avg,
    collect_list,
    count,
    first,
    last,
    max,
    min,
    stddev,
    sum,
)
from oriel.pipeline.language.tables import KGroupedTable
from oriel.testing import Counters, Record, TopologyTestDriver
from tests.testing.driver_runs import driver_of

SCHEMA = "g STRING, n BIGINT, d DOUBLE"


def grouped(builder: StreamsBuilder, by: str = "g") -> KGroupedTable:
    """Return the topic ``t`` as a grouped table."""
    return builder.table("t", SCHEMA).group_by(by)


def put(key: str | None, group: str | None, number: int | None, time_ms: int) -> Record:
    """Return a record with a row."""
    double = None if number is None else number / 10
    return Record(key, {"g": group, "n": number, "d": double}, time_ms)


def deletion(key: str, time_ms: int) -> Record:
    """Return a tombstone."""
    return Record(key, None, time_ms)


def held(driver: TopologyTestDriver, store: str = "s") -> dict[str, Any]:
    """Return the rows and times of a store. A row with one column is that value."""
    return {
        row.key: (next(iter(row.value.values())) if len(row.value) == 1 else row.value,
                  row.timestamp_ms)
        for row in driver.key_value_store(store).all()
    }  # fmt: skip


def text_of(value: dict[str, Any]) -> str:
    """Return a row as the examples write it."""
    return str(value["n"])


def started() -> str:
    """Return the aggregate of a group without rows."""
    return "0"


def with_row(_key: str, value: dict[str, Any], text: str) -> str:
    """Append the added row, so that the aggregate shows the call."""
    return f"{text}+{text_of(value)}"


def without_row(_key: str, value: dict[str, Any], text: str) -> str:
    """Append the subtracted row, so that the aggregate shows the call."""
    return f"{text}-{text_of(value)}"


def put_together(_key: str, left: str, right: str) -> str:
    """Return both aggregates in parentheses, so that the result shows the call."""
    return f"({left})({right})"


def with_calls(table: KGroupedTable) -> Any:
    """Return the aggregation whose functions record their calls."""
    return table.aggregate(started, with_row, without_row, put_together, "text STRING")


def test_an_update_subtracts_the_old_row_and_adds_the_new_one() -> None:
    """An update subtracts the old row, then adds the new one (KTableAggregateTest, testAggBasic).

    Its time is the greatest (KIP-259).
    """
    driver = driver_of(lambda builder: with_calls(grouped(builder, "key")).materialize("s"))
    piped = [
        ("A", 1, 10, "0+1", 10), ("B", 2, 15, "0+2", 15), ("A", 3, 20, "0+1-1+3", 20),
        ("B", 4, 18, "0+2-2+4", 18), ("C", 5, 5, "0+5", 5), ("D", 6, 25, "0+6", 25),
        ("B", 7, 15, "0+2-2+4-4+7", 18), ("C", 8, 10, "0+5-5+8", 10),
    ]  # fmt: skip
    for key, number, time_ms, text, row_ms in piped:
        driver.pipe_input("t", put(key, "any", number, time_ms))
        (row,) = driver.read_output("s")
        assert (row["key"], row["text"], row["timestamp_ms"]) == (key, text, row_ms)


def test_a_row_that_changes_its_group_is_two_updates() -> None:
    """A row that changes its group updates the old group first (testAggRepartition).

    A tombstone only subtracts. The example is in KTableAggregateTest.
    """
    driver = driver_of(lambda builder: with_calls(grouped(builder)).materialize("s"))
    piped: list[tuple[Record, dict[str, Any]]] = [
        (put("A", "1", 1, 10), {"1": ("0+1", 10)}),
        (deletion("A", 15), {"1": ("0+1-1", 15)}),
        (put("A", "1", 1, 12), {"1": ("0+1-1+1", 15)}),
        (put("B", "2", 2, 20), {"2": ("0+2", 20)}),
        (put(None, "3", 3, 25), {}),
        (put("B", "4", 4, 23), {"2": ("0+2-2", 23), "4": ("0+4", 23)}),
        (put("B", "7", 7, 22), {"4": ("0+4-4", 23), "7": ("0+7", 22)}),
    ]
    for record, changed in piped:
        driver.pipe_input("t", record)
        rows = driver.read_output("s")
        assert {row["key"]: (row["text"], row["timestamp_ms"]) for row in rows} == changed


def test_a_group_without_members_keeps_its_row_and_counts_0() -> None:
    """A group without members keeps its row with a count of 0 (KTableAggregateTest, testCount)."""
    driver = driver_of(lambda builder: grouped(builder).count().materialize("s"))
    reader = driver.create_output_reader("s")
    colours = [("A", "green", 10), ("B", "green", 9), ("A", "blue", 12), ("C", "yellow", 15),
               ("D", "green", 11)]  # fmt: skip
    for key, colour, time_ms in colours:
        driver.pipe_input("t", put(key, colour, 1, time_ms))
    assert [(row["key"], row["count"], row["timestamp_ms"]) for row in reader.read_rows()] == [
        ("green", 1, 10), ("green", 2, 10), ("blue", 1, 12), ("green", 1, 12), ("yellow", 1, 15),
        ("green", 2, 12),
    ]  # fmt: skip
    driver.pipe_input("t", [deletion("A", 30), deletion("B", 1), put("D", "yellow", 1, 40)])
    assert held(driver) == {"green": (0, 40), "blue": (0, 30), "yellow": (2, 40)}


def test_sums_and_means_are_those_of_the_rows_that_are_there() -> None:
    """Sums and means cover the current rows.

    They are null without values, which are not counted.
    """

    def define(builder: StreamsBuilder) -> None:
        grouped(builder).aggregate(
            rows=count(), numbers=count("n"), n=sum("n"), mean=avg("n"), d=sum("d"), mid=avg("d")
        ).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", [put("A", "x", 1, 1), put("B", "x", 4, 2), put("C", "x", None, 3)])
    sums = {"rows": 3, "numbers": 2, "n": 5, "mean": 2.5, "d": 0.5, "mid": 0.25}
    assert held(driver) == {"x": (sums, 3)}
    driver.pipe_input("t", [deletion("A", 4), deletion("B", 4)])
    nothing = {"rows": 1, "numbers": 0, "n": None, "mean": None, "d": None, "mid": None}
    assert held(driver) == {"x": (nothing, 4)}


def test_retracted_values_do_not_change_sums() -> None:
    """Deleted rows leave no rounding error in sums, and no overflowed integer."""

    def define(builder: StreamsBuilder) -> None:
        grouped(builder).aggregate(
            d=sum("d"), n=sum("n"), mean=avg("n"), dev=stddev("n"), dev_d=stddev("d")
        ).materialize("s")

    driver = driver_of(define)
    huge, least = 2**63 - 1, -(2**63)
    rows = [(0.1, 3), (1e300, huge), (1e-300, huge), (-1e300, least), (0.2, least), (0.3, 5)]
    for number, (double, whole) in enumerate(rows):
        driver.pipe_input("t", Record(f"k{number}", {"g": "x", "d": double, "n": whole}, 1))
    driver.pipe_input("t", [deletion(f"k{number}", 2) for number in (4, 2, 1, 3)])
    fresh = driver_of(define)
    for key, (double, whole) in (("A", rows[0]), ("B", rows[-1])):
        fresh.pipe_input("t", Record(key, {"g": "x", "d": double, "n": whole}, 2))
    assert held(driver) == held(fresh)
    assert held(driver)["x"][0]["dev"] == math.sqrt(2)


@pytest.mark.java
def test_reduce_begins_with_the_first_row() -> None:
    """A reduce begins with the first row.

    It can remove the group's row, and the next one starts over.
    """

    def plus(kept: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        return {**kept, "n": kept["n"] + new["n"]}

    def minus(kept: dict[str, Any], old: dict[str, Any]) -> dict[str, Any] | None:
        return {**kept, "n": kept["n"] - old["n"]} if kept["n"] > old["n"] else None

    driver = driver_of(lambda builder: grouped(builder).reduce(plus, minus).materialize("s"))

    def numbers() -> dict[str, tuple[int, int]]:
        return {key: (row["n"], time_ms) for key, (row, time_ms) in held(driver).items()}

    driver.pipe_input("t", [put("A", "x", 5, 10), put("B", "x", 7, 20)])
    assert numbers() == {"x": (12, 20)}
    driver.pipe_input("t", put("A", "x", 6, 5))
    assert numbers() == {"x": (13, 20)}
    driver.pipe_input("t", [deletion("B", 30), deletion("A", 31)])
    assert numbers() == {}
    assert driver.read_output("s")[-1]["deleted"]
    driver.pipe_input("t", put("A", "x", 2, 7))
    assert numbers() == {"x": (2, 7)}


def test_an_update_whose_subtractor_removes_the_row_keeps_its_time() -> None:
    """If the subtractor removes the row in an update, the adder starts over and the time is kept.

    Both calls belong to one update, as in Kafka.
    """

    def removed(_key: str, _value: Any, _text: str) -> None:
        return None

    def define(builder: StreamsBuilder) -> None:
        grouped(builder).aggregate(started, with_row, removed, None, "t STRING").materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", [put("A", "x", 1, 50), put("A", "x", 2, 5)])
    assert held(driver) == {"x": ("0+2", 50)}
    driver.pipe_input("t", deletion("A", 60))
    driver.pipe_input("t", put("A", "x", 3, 5))
    assert held(driver) == {"x": ("0+3", 5)}


@pytest.mark.java
def test_a_filtered_table_loses_rows_and_a_mapped_one_changes_them() -> None:
    """A row that no longer passes the filter is subtracted, as if it were deleted."""

    def define(builder: StreamsBuilder) -> None:
        table = builder.table("t", SCHEMA).filter("n > 0").map_values(h="upper(g)", m="n * 2")
        table.group_by("h").aggregate(rows=count(), m=sum("m")).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", [put("A", "x", 1, 1), put("B", "x", 2, 2), put("C", "y", -1, 3)])
    assert held(driver) == {"X": ({"rows": 2, "m": 6}, 2)}
    driver.pipe_input("t", [put("A", "x", -1, 4), put("C", "y", 5, 5)])
    assert held(driver) == {"X": ({"rows": 1, "m": 4}, 4), "Y": ({"rows": 1, "m": 10}, 5)}
    assert driver.counters("s").filtered == 1, "of a row that never was nothing changes"


def test_a_row_without_a_group_is_one_dead_letter() -> None:
    """A row without a group is one dead letter when it is added, and none when it is removed."""
    driver = driver_of(lambda builder: grouped(builder).count().materialize("s"))
    driver.pipe_input("t", [put("A", None, 1, 1), put("A", "x", 2, 2), put("A", None, 3, 3)])
    assert held(driver) == {"x": (0, 3)}
    dead_letters = driver.dead_letters("s")
    assert [(one["topic"], one["offset"], one["reason"]) for one in dead_letters] == [
        ("t", 0, "null-key"), ("t", 2, "null-key"),
    ]  # fmt: skip
    assert driver.counters("s") == Counters(
        input=3, applied=3, late=0, dropped=0, filtered=0, dropped_results=2
    )


def test_a_function_that_raises_leaves_the_group_as_it_was() -> None:
    """A function that raises leaves the group unchanged and the record's other group updated.

    The dead letter names the step.
    """

    def unlucky(key: str, value: dict[str, Any], text: str) -> str:
        if value["n"] == 13:
            message = "unlucky"
            raise ValueError(message)
        return without_row(key, value, text)

    def define(builder: StreamsBuilder) -> None:
        grouped(builder).aggregate(started, with_row, unlucky, None, "t STRING").materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", [put("A", "x", 13, 1), put("A", "y", 2, 2)])
    assert held(driver) == {"x": ("0+13", 1), "y": ("0+2", 2)}
    (letter,) = driver.dead_letters("s")
    assert (letter["offset"], letter["reason"]) == (1, "function-raised")
    assert letter["detail"] == "store 's', aggregate: ValueError: unlucky"


@pytest.mark.parametrize("emits_updates", [False, True])
@pytest.mark.parametrize("raises_in", ["adder", "subtractor"])
def test_a_function_that_raises_undoes_the_whole_update_of_a_group(
    raises_in: str, emits_updates: bool
) -> None:
    """An update within a group is one change, so it has both calls or none.

    ``KTableAggregate`` of Kafka Streams calls both before it writes the group.
    """

    def raising(name: str, function: Callable[..., str]) -> Callable[..., str]:
        def called(key: str, value: dict[str, Any], text: str) -> str:
            if name == raises_in and value["n"] == 13:
                message = "unlucky"
                raise ValueError(message)
            return function(key, value, text)

        return called

    def define(builder: StreamsBuilder) -> None:
        functions = raising("adder", with_row), raising("subtractor", without_row)
        table = grouped(builder).aggregate(started, *functions, None, "t STRING")
        (table.to_stream().to_table() if emits_updates else table).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", [put("A", "x", 5, 1), put("B", "x", 7, 2)])
    assert held(driver) == {"x": ("0+5+7", 2)}
    driver.pipe_input("t", [put("B", "x", 8, 3), put("A", "x", 13, 4), put("B", "x", 9, 5)])
    updated = "0+5+7-7+8"
    if raises_in == "adder":
        assert held(driver) == {"x": (f"{updated}-8+9", 5)}
        offsets = [3]
        # The row is subtracted although its adder raised.
        driver.pipe_input("t", put("A", "x", 1, 6))
        assert held(driver) == {"x": (f"{updated}-8+9-13+1", 6)}
    else:
        assert held(driver) == {"x": (f"{updated}-5+13-8+9", 5)}
        offsets = [5]
        driver.pipe_input("t", [put("A", "x", 1, 6), put("B", "x", 2, 7)])
        assert held(driver) == {"x": (f"{updated}-5+13-8+9-9+2", 7)}
    assert [(one["offset"], one["detail"]) for one in driver.dead_letters("s")] == [
        (offset, "store 's', aggregate: ValueError: unlucky") for offset in offsets
    ]
    assert driver.counters("s").dropped_results == 1


def test_a_group_that_an_update_would_have_created_does_not_exist() -> None:
    """If the subtractor deletes the row of a group and the adder raises, the row stays."""

    def removed(_key: str, _value: Any, _text: str) -> None:
        return None

    def unlucky(key: str, value: dict[str, Any], text: str) -> str:
        if value["n"] == 13:
            message = "unlucky"
            raise ValueError(message)
        return with_row(key, value, text)

    def define(builder: StreamsBuilder) -> None:
        grouped(builder).aggregate(started, unlucky, removed, None, "t STRING").materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", [put("A", "x", 1, 1), put("A", "x", 13, 2), put("C", "y", 13, 3)])
    assert held(driver) == {"x": ("0+1", 1)}
    driver.pipe_input("t", put("A", "x", 2, 5))
    assert held(driver) == {"x": ("0+2", 5)}


def test_groups_of_several_partitions_need_a_merger() -> None:
    """Functions over several partitions need a merger, and the error says how to pass it.

    A reduce merges with its adder.
    """

    def define(builder: StreamsBuilder) -> None:
        grouped(builder).aggregate(started, with_row, without_row, None, "t STRING").materialize(
            "s"
        )

    driver = driver_of(define)
    driver.pipe_input("t", put("A", "x", 1, 1), partition=0)
    with pytest.raises(Exception, match=r"several partitions.*Pass merger= to the aggregation"):
        driver.pipe_input("t", put("B", "x", 1, 1), partition=1)

    def plus(kept: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        return {**kept, "n": kept["n"] + new["n"]}

    def minus(kept: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
        return {**kept, "n": kept["n"] - old["n"]}

    driver = driver_of(lambda builder: grouped(builder).reduce(plus, minus).materialize("s"))
    for partition in (0, 1):
        driver.pipe_input("t", put(f"k{partition}", "x", 5, 1), partition=partition)
    driver.pipe_input("t", put("k1", "x", 7, 1), partition=1)
    assert held(driver)["x"][0]["n"] == 12


@pytest.mark.java
def test_groups_have_typed_keys() -> None:
    """Groups can have typed and composite keys."""

    def define(builder: StreamsBuilder) -> None:
        table = builder.table("t", SCHEMA)
        table.group_by("n").count().materialize("s", key_serde=Serdes.long())
        both = table.group_by("g", "n").count()
        both.materialize("both", key_serde=(Serdes.string(), Serdes.long()))

    driver = driver_of(define)
    driver.pipe_input("t", [put("A", "x", 10, 1), put("B", "x", 9, 1), put("A", "x", 9, 2)])
    assert [(row.key, row.value["count"]) for row in driver.key_value_store("s").all()] == [
        ("9", 2), ("10", 0),
    ]  # fmt: skip
    assert [row.key for row in driver.key_value_store("both").all()] == ['["x",9]', '["x",10]']


@pytest.mark.parametrize(
    "aggregate",
    [min("n"), max("n"), first("n"), last("n"), collect_list("n"), approx_quantile("n", 0.5)],
    ids=str,
)  # fmt: skip
def test_what_can_not_be_subtracted_is_refused(aggregate: Any) -> None:
    """Aggregates that cannot subtract are rejected, with the reason and the fix."""
    table = grouped(StreamsBuilder())
    with pytest.raises(InvalidTopology, match=r"a deleted row cannot be subtracted.*adder"):
        table.aggregate(n=count(), other=aggregate)


def test_wrong_arguments_are_errors() -> None:
    """Missing functions, a wrong function and an invalid expression are rejected with a message."""
    builder = StreamsBuilder()
    table = builder.table("t", SCHEMA)
    by_g = table.group_by("g")
    with pytest.raises(InvalidTopology, match="pass adder and subtractor"):
        by_g.aggregate(started, with_row, schema="t STRING")
    with pytest.raises(InvalidTopology, match="either functions with a schema or named aggregates"):
        by_g.aggregate(started, with_row, without_row, None, "t STRING", n=count())
    with pytest.raises(InvalidTopology, match="schema must name"):
        by_g.aggregate(started, with_row, without_row)
    with pytest.raises(InvalidTopology, match=r"reduce: the .* must be .* not 'x'"):
        by_g.reduce(lambda kept, _: kept, "x")  # type: ignore[arg-type]
    with pytest.raises(InvalidTopology, match="name at least one column"):
        table.group_by()
    with pytest.raises(InvalidTopology, match="an expression must be SQL text"):
        table.group_by(started)  # type: ignore[arg-type]
    with pytest.raises(InvalidTopology, match=r"timestamp_ms .*map_values\('\*', t="):
        table.group_by("cast(Timestamp_ms / 1000 AS BIGINT)")


def test_a_grouped_table_is_described() -> None:
    """The description and the diagram distinguish a grouped table from its update stream."""

    def define(builder: StreamsBuilder) -> None:
        table = builder.table("t", SCHEMA)
        table.filter("n > 0").group_by("g").count().materialize("rows")
        table.to_stream().group_by("g").count().materialize("updates")
        table.join(builder.table("u", "m INT")).group_by("g").count().materialize("both")

    builder = StreamsBuilder()
    define(builder)
    topology = builder.build()
    words = topology.describe()
    assert "Input: table('t').filter('n > 0').group_by(g)" in words
    assert "Input: table('t').to_stream().group_by(g)" in words
    assert "Input: (table('t')).join(table 'u') of (table('u')).group_by(g)" in words
    drawing = topology.to_mermaid()
    assert """topic0 -->|"filter('n > 0')<br>group_by(g)"| store0""" in drawing
    assert """topic0 -->|"to_stream()<br>group_by(g)"| store1""" in drawing
    assert """join0(["join(table 'u')"])\n""" in drawing
    joined = "    topic0 --> join0\n    topic1 --> join0\n"
    assert f"""{joined}    join0 -->|"group_by(g)"| store2""" in drawing
