"""Updates of tables in the test driver: counts, stream times, columns, and tombstones."""

import pytest

from oriel import InvalidTopology, StreamsBuilder, TimeWindows
from oriel.testing import Record, TopologyTestDriver


def driver_of(how: str) -> TopologyTestDriver:
    """Return a driver of windows of 10 ms that count the updates of two joined tables."""
    builder = StreamsBuilder()
    prices, stock = builder.table("prices", "price INT"), builder.table("stock", "pieces INT")
    kinds = {"inner": prices.join, "left": prices.left_join, "outer": prices.outer_join}
    grouped = kinds[how](stock).to_stream().group_by_key()
    grouped.windowed_by(TimeWindows.of_size_and_grace(10, 5)).count().materialize("updates")
    return TopologyTestDriver(builder.build())


def price(value: int | None, time_ms: int, key: str = "A") -> Record:
    """Return a record of the prices. The value ``None`` is a tombstone."""
    return Record(key, None if value is None else {"price": value}, time_ms)


def pieces_of(value: int | None, time_ms: int, key: str = "A") -> Record:
    """Return a record of the stock. The value ``None`` is a tombstone."""
    return Record(key, None if value is None else {"pieces": value}, time_ms)


def counts(driver: TopologyTestDriver) -> dict[tuple[str, int], int]:
    """Return the counts by key and window start."""
    rows = driver.window_store("updates").all()
    return {(row.key, row.window_start_ms): row.value["count"] for row in rows}


@pytest.mark.java
@pytest.mark.parametrize(
    ("how", "counted"),
    [
        ("inner", {("A", 0): 1, ("A", 10): 1, ("A", 20): 2}),
        ("left", {("A", 0): 2, ("A", 10): 1, ("A", 20): 3}),
        ("outer", {("A", 0): 2, ("A", 10): 1, ("A", 20): 3, ("B", 10): 1}),
    ],
)
def test_updates_of_joined_tables_are_counted_in_windows(
    how: str, counted: dict[tuple[str, int], int]
) -> None:
    """Windows count the updates of both tables, including unmatched right rows and tombstones."""
    driver = driver_of(how)
    driver.pipe_input("prices", price(1, 6))
    driver.pipe_input("stock", [pieces_of(4, 5), pieces_of(5, 10)])
    driver.pipe_input("prices", price(2, 20))
    # The tombstone updates the row to the left row alone, with time 20, or deletes the joined row.
    driver.pipe_input("stock", [pieces_of(None, 11), pieces_of(7, 12, "B")])
    driver.pipe_input("prices", price(None, 21))
    assert counts(driver) == counted
    counters, applied = driver.counters("updates"), sum(counted.values())
    assert (counters.applied, counters.filtered) == (applied, 7 - applied)
    assert (counters.input, counters.dropped, counters.late) == (7, 0, 0)


def test_a_window_is_final_when_both_topics_are_past_it() -> None:
    """A window is final when the stream times of both topics, minus the grace, have passed its end.

    After that, an update is late.
    """
    driver = driver_of("outer")
    driver.pipe_input("prices", [price(1, 5), price(1, 100, "Z")])
    driver.pipe_input("stock", pieces_of(1, 5, "B"))
    finals = [row.final for row in driver.window_store("updates").fetch_all(0, 0)]
    assert set(finals) == {False}
    driver.pipe_input("stock", pieces_of(1, 6))
    assert counts(driver)["A", 0] == 2
    driver.pipe_input("stock", [pieces_of(1, 100, "Z"), pieces_of(1, 7)])
    finals = [row.final for row in driver.window_store("updates").fetch_all(0, 0)]
    assert set(finals) == {True}
    assert counts(driver)["A", 0] == 2


def test_an_updates_value_has_the_columns_of_both_tables() -> None:
    """Updates have the columns of both tables, and can be grouped by them."""
    builder = StreamsBuilder()
    prices = builder.table("prices", "price INT, shop STRING")
    updates = prices.left_join(builder.table("stock", "pieces INT")).to_stream()
    updates.group_by("shop").reduce(lambda _, new: new).materialize("newest")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("prices", Record("A", {"price": 1, "shop": "x"}, 3))
    driver.pipe_input("stock", pieces_of(4, 9))
    row = driver.key_value_store("newest").get("x")
    assert row is not None
    assert (row.value, row.timestamp_ms) == ({"price": 1, "shop": "x", "pieces": 4}, 9)


@pytest.mark.java
def test_a_table_of_one_topic_gives_its_records() -> None:
    """The updates of one topic's table are its records. A record without a key is filtered out."""
    builder = StreamsBuilder()
    updates = builder.table("prices", "price INT").to_stream()
    updates.group_by("price % 2").count().materialize("all")
    driver = TopologyTestDriver(builder.build())
    no_key = Record(None, {"price": 3}, 5)
    driver.pipe_input("prices", [price(1, 3), price(3, 2), no_key, price(None, 4)])
    rows = driver.key_value_store("all").all()
    assert [(row.key, row.value) for row in rows] == [("1", {"count": 2})]
    assert [letter["reason"] for letter in driver.dead_letters("all")] == ["null-value"]
    assert driver.counters("all").filtered == 1


@pytest.mark.java
def test_tombstones_are_emitted_only_for_existing_rows() -> None:
    """A topic and functions receive tombstones.

    A consumer that cannot use them filters them out.
    """
    builder = StreamsBuilder()
    prices, stock = builder.table("prices", "price INT"), builder.table("stock", "pieces INT")
    updates = prices.join(stock).to_stream()
    updates.to("offers")
    updates.group_by_key().count().materialize("all")
    updates.group_by("price").windowed_by(TimeWindows.of_size_with_no_grace(10)).count(
    ).materialize("by_price")  # fmt: skip
    looked_up = updates.left_join(builder.table("shops", "shop STRING")).group_by_key()
    looked_up.windowed_by(TimeWindows.of_size_with_no_grace(10)).aggregate(
        list, lambda _, row, seen: [*seen, row["pieces"]], schema="seen ARRAY<BIGINT>"
    ).materialize("seen")
    updates.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).aggregate(
        list, lambda _, row, seen: [*seen, row and row["pieces"]], schema="seen ARRAY<BIGINT>"
    ).materialize("seen_by_all")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("prices", price(1, 3))
    driver.pipe_input("stock", [pieces_of(4, 5), pieces_of(None, 6)])
    written = driver.create_output_topic("offers").read_records()
    assert [(one.key, one.value, one.timestamp_ms) for one in written] == [
        ("A", {"price": 1, "pieces": 4}, 5),
        ("A", None, 6),
    ]
    assert [row.value for row in driver.key_value_store("all").all()] == [{"count": 1}]
    assert [row.key for row in driver.window_store("by_price").all()] == ["1"]
    assert [row.value for row in driver.window_store("seen").all()] == [{"seen": [4]}]
    assert [row.value for row in driver.window_store("seen_by_all").all()] == [{"seen": [4, None]}]
    for store in ("all", "by_price", "seen", "seen_by_all"):
        assert driver.dead_letters(store) == []
        assert (driver.counters(store).applied, driver.counters(store).dropped_results) == (2, 0)


def test_the_error_for_an_impossible_join_has_a_solution() -> None:
    """The error about a duplicate column names the fix."""
    builder = StreamsBuilder()
    left, right = builder.table("a", "v INT"), builder.table("b", "v INT")
    updates = left.outer_join(right).to_stream()
    step = r"outer_join\(table 'b'\).to_stream\(\)"
    updates.group_by_key().count().materialize("s")
    with pytest.raises(InvalidTopology, match=rf"'s', {step}: column 'v' .*Rename it .*map"):
        TopologyTestDriver(builder.build())


def test_updates_are_merged_with_records_of_streams() -> None:
    """Updates can be merged into a topic or cogrouped with records of streams.

    Each stream keeps its own order.
    """
    builder = StreamsBuilder()
    prices, stock = builder.table("prices", "price INT"), builder.table("stock", "pieces INT")
    updates = prices.left_join(stock).to_stream()
    orders = builder.stream("orders", "price INT, pieces INT")
    updates.merge(orders).to("all")

    def texts(_key: str, row: dict[str, int | None] | None, text: str) -> str:
        return f"{text} gone" if row is None else f"{text} {row['price']}:{row['pieces']}"

    both = orders.group_by_key().cogroup(texts).cogroup(updates.group_by_key(), texts)
    both.aggregate(str, merger=lambda _, one, two: f"{one} |{two}", schema="t STRING").materialize(
        "texts"
    )
    driver = TopologyTestDriver(builder.build())
    # The tables have different partitions, but the function still aggregates their updates
    # together.
    driver.pipe_input("prices", [price(1, 6), price(2, 7)], partition=1)
    driver.pipe_input("stock", [pieces_of(4, 5), pieces_of(None, 8)])
    driver.pipe_input("orders", Record("A", {"price": 9, "pieces": 9}, 6))
    driver.pipe_input("prices", price(None, 9), partition=1)
    row = driver.key_value_store("texts").get("A")
    assert row is not None
    assert row.value == {"t": " 9:9 | 1:None 2:None 2:4 2:None"}
    values = [one.value for one in driver.create_output_topic("all").read_records()]
    assert values == [
        {"price": 1, "pieces": None},
        {"price": 2, "pieces": None},
        {"price": 2, "pieces": 4},
        {"price": 2, "pieces": None},
        {"price": 9, "pieces": 9},
        None,
    ]
