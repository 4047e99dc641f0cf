"""Filtered and mapped tables in the test driver."""

from random import Random
from typing import Any

import pytest

from oriel import InvalidTopology, StreamsBuilder, TimeWindows, count, sum
from oriel.testing import Record, TopologyTestDriver
from tests.campaigns import cases
from tests.testing.driver_runs import driver_of

Row = dict[str, Any]


def rows(driver: TopologyTestDriver, store: str = "s") -> dict[str, Row]:
    """Return the rows of a store without windows."""
    return {row.key: row.value for row in driver.key_value_store(store).all()}


def adults(builder: StreamsBuilder) -> Any:
    """Return the people of age, without their age."""
    people = builder.table("people", "name STRING, age INT")
    return people.filter("age >= 18").map_values("name", shown="coalesce(name, '?')")


@pytest.mark.java
def test_a_row_that_the_filter_does_not_want_is_deleted() -> None:
    """A filtered row is deleted, can return later, and is not deleted if it never existed.

    A null condition is not true.
    """
    driver = driver_of(lambda builder: adults(builder).materialize("s"))
    reader = driver.create_output_reader("s")
    ages = (30, 17, None, 18)
    for time_ms, age in enumerate(ages):
        driver.pipe_input("people", Record("ann", {"name": "Ann", "age": age}, time_ms))
    driver.pipe_input("people", Record("bob", {"name": "Bob", "age": 3}, 9))
    assert rows(driver) == {"ann": {"name": "Ann", "shown": "Ann"}}
    assert [row["deleted"] for row in reader.read_rows()] == [False, True, False]
    assert driver.counters("s").applied == 5


def even_and_odd(builder: StreamsBuilder) -> None:
    """Add a store of even numbers above 2, and one of odd numbers plus one."""
    table = builder.table("t", "v INT")
    table.filter("v % 2 = 0").filter("v > 2").materialize("wanted")
    table.filter_not("v % 2 = 0").map_values(w="v + 1").materialize("others")


@pytest.mark.java
@cases(3, 30)
def test_random_tables_hold_what_the_filter_wants(number: int) -> None:
    """The newest record of each key decides about its row, in any batching.

    ``filter_not`` keeps the remaining rows.
    """
    for seed in range(number):
        random, driver = Random(seed), driver_of(even_and_odd)
        newest: dict[str, tuple[int, int | None]] = {}
        for _ in range(random.randint(1, 6)):
            batch = []
            for _ in range(random.randint(1, 9)):
                key, time_ms = random.choice("abc"), random.randint(0, 20)
                value = random.choice((None, random.randint(0, 9)))
                batch.append(Record(key, None if value is None else {"v": value}, time_ms))
                # KTables use the offset order, not the times.
                newest[key] = time_ms, value
            driver.pipe_input("t", batch)
        values = {key: value for key, (_, value) in newest.items() if value is not None}
        assert rows(driver, "wanted") == {
            key: {"v": value} for key, value in values.items() if value % 2 == 0 and value > 2
        }
        assert rows(driver, "others") == {
            key: {"w": value + 1} for key, value in values.items() if value % 2
        }


@pytest.mark.java
def test_lookups_and_joins_see_the_filtered_table() -> None:
    """A filtered row does not exist for joins: no match in an inner one, nulls in a left one."""

    def define(builder: StreamsBuilder) -> None:
        table = adults(builder)
        visits = builder.stream("visits", "page STRING")
        found = visits.left_join(table).group_by("coalesce(shown, 'nobody')")
        found.count().materialize("visits")
        table.outer_join(builder.table("cities", "city STRING")).materialize("both")

    driver = driver_of(define)
    driver.pipe_inputs([
        ("people", Record("ann", {"name": "Ann", "age": 30}, 1)),
        ("visits", Record("ann", {"page": "/"}, 2)),
        ("cities", Record("ann", {"city": "Rome"}, 2)),
        ("people", Record("ann", {"name": "Ann", "age": 3}, 3)),
        ("visits", Record("ann", {"page": "/"}, 4)),
    ])  # fmt: skip
    assert rows(driver, "visits") == {"Ann": {"count": 1}, "nobody": {"count": 1}}
    assert rows(driver, "both") == {"ann": {"name": None, "shown": None, "city": "Rome"}}


@pytest.mark.java
def test_a_filtered_table_as_a_stream_has_records_without_a_value() -> None:
    """The updates of a filtered table have null values, which time windows count as in Kafka."""

    def define(builder: StreamsBuilder) -> None:
        stream = builder.table("t", "v INT").filter("v > 0").map_values(w="coalesce(v, 7)")
        grouped = stream.to_stream().group_by_key()
        grouped.windowed_by(TimeWindows.of_size_and_grace(10, 0)).aggregate(
            n=count(), total=sum("w")
        ).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", [Record("k", {"v": v}, 1) for v in (5, -1)] + [Record("k", None, 1)])
    (window,) = driver.window_store("s").all()
    assert window.value == {"n": 3, "total": 5}


def test_a_wrong_filter_of_a_table_is_an_error() -> None:
    """A condition that is not an expression, and ``map_values`` without columns, are rejected."""
    table = StreamsBuilder().table("t", "v INT")
    with pytest.raises(InvalidTopology, match="filter: an expression must be SQL text"):
        table.filter(lambda row: row)  # type: ignore[arg-type]
    with pytest.raises(InvalidTopology, match="map_values: name at least one column"):
        table.map_values()


@pytest.mark.java
@pytest.mark.parametrize("key", ["s", "reverse(s)"])
def test_the_next_steps_read_no_column_of_a_dropped_row(key: str) -> None:
    """Steps after a table's filter see null columns for a filtered row, in Arrow and in Spark.

    The expression ``reverse`` runs in Spark.
    """

    def define(builder: StreamsBuilder) -> None:
        updates = builder.table("t", "v BIGINT, s STRING").filter_not("v = 2").to_stream()
        for name, grouped in {
            "set": updates.filter("v IS NOT NULL").group_by_key(),
            "by_s": updates.group_by(key),
            "all": updates.group_by("coalesce(s, 'none')"),
        }.items():
            grouped.windowed_by(TimeWindows.of_size_with_no_grace(10)).count().materialize(name)

    driver = driver_of(define)
    driver.pipe_input("t", [Record("k", {"v": v, "s": "a"}, 1) for v in (1, 2, 3)])
    counts = {
        name: {row.key: row.value["count"] for row in driver.window_store(name).all()}
        for name in ("set", "by_s", "all")
    }
    assert counts == {"set": {"k": 2}, "by_s": {"a": 2}, "all": {"a": 2, "none": 1}}
    assert [letter["reason"] for letter in driver.dead_letters("by_s")] == ["null-key"]
