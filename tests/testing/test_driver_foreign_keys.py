"""Foreign-key joins in the test driver: kinds of keys, steps, and combination with key joins."""

from random import Random
from typing import Any

import pytest

from oriel import InvalidTopology, Serdes, StreamsBuilder
from oriel.pipeline.language.tables import SourceTable
from oriel.testing import KeyValue, Record, TopologyTestDriver

ORDERS, USERS = "user STRING, item INT, n INT", "name STRING"


def driver_of(builder: StreamsBuilder, table: SourceTable) -> TopologyTestDriver:
    """Return a driver of the table, materialized as ``store``."""
    table.materialize("store")
    return TopologyTestDriver(builder.build())


def rows(driver: TopologyTestDriver, *names: str) -> dict[str, tuple[Any, ...]]:
    """Return these columns of each row, and its time."""
    return {
        row.key: (*(row.value[name] for name in names), row.timestamp_ms)
        for row in driver.key_value_store("store").all()
    }


def order(key: str | None, time: int, *, user: str | None = None, item: int = 0) -> Record:
    """Return an order of one user and item."""
    return Record(key, {"user": user, "item": item, "n": time}, time)


def named(key: str, name: str | None, time: int) -> Record:
    """Return a row with a name, or its tombstone."""
    return Record(key, None if name is None else {"name": name}, time)


def test_a_row_follows_whom_it_names_in_one_batch_and_over_many() -> None:
    """A changed user updates all its orders, and an order that references another user moves."""
    builder = StreamsBuilder()
    orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
    driver = driver_of(builder, orders.join(users, foreign_key="user"))
    driver.pipe_input("users", [named("u", "ann", 1), named("v", "bob", 2)])
    driver.pipe_input("orders", [order("a", 5, user="u"), order("b", 6, user="u")])
    assert rows(driver, "name") == {"a": ("ann", 5), "b": ("ann", 6)}
    driver.pipe_input("users", named("u", "anna", 7))
    assert rows(driver, "name") == {"a": ("anna", 7), "b": ("anna", 7)}
    driver.pipe_input("orders", order("b", 8, user="v"))
    driver.pipe_input("users", named("u", "anne", 9))
    assert rows(driver, "name") == {"a": ("anne", 9), "b": ("bob", 8)}
    # The order moves to another user and back in one batch, so no other row changes.
    driver.pipe_input("orders", [order("a", 10, user="v"), order("a", 11, user="u")])
    assert rows(driver, "name", "n") == {"a": ("anne", 11, 11), "b": ("bob", 8, 8)}
    driver.pipe_input("orders", [Record("a", None, 12), order("b", 13)])
    assert rows(driver, "name") == {}
    (deletion, other) = driver.read_output("store")
    assert (deletion["key"], deletion["deleted"], deletion["timestamp_ms"]) == ("a", True, 12)
    assert (other["key"], other["deleted"], other["timestamp_ms"]) == ("b", True, 13)


def test_only_rows_that_a_batch_changes_are_written() -> None:
    """A changed order is the only one written. A changed user writes all its orders."""
    builder = StreamsBuilder()
    orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
    driver = driver_of(builder, orders.left_join(users, foreign_key="user"))
    driver.pipe_input("orders", [order("a", 1, user="u"), order("b", 2, user="u"), order("c", 3)])
    driver.pipe_input("orders", order("b", 4, user="u"))
    assert [row["key"] for row in driver.read_output("store")] == ["b"]
    driver.pipe_input("users", named("u", "ann", 5))
    assert [row["key"] for row in driver.read_output("store")] == ["a", "b"]
    driver.pipe_input("users", named("w", "nobody's", 6))
    assert driver.read_output("store") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("foreign_key", "user"),
    [
        ("item", "7"),
        (("user", "item"), "u|7"),
        (("user", "key"), "u|a"),
        ("key", "a"),
        ("upper(user)", "U"),
        ("coalesce(nullif(user, 'u'), 'nobody')", "nobody"),
        ("concat(user, '-', item % 4)", "u-3"),
    ],
    ids=str,
)
def test_keys_are_made_as_group_by_makes_them(foreign_key: Any, user: str) -> None:
    """A foreign key can use columns, the row's key and expressions. Several parts are one key."""
    builder = StreamsBuilder()
    orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
    driver = driver_of(builder, orders.join(users, foreign_key=foreign_key))
    driver.pipe_input("orders", order("a", 1, user="u", item=7))
    driver.pipe_input("users", named(user, "found", 2))
    assert rows(driver, "name", "item") == {"a": ("found", 7, 2)}


@pytest.mark.java
def test_a_deletion_names_nothing_whatever_its_expression_makes_of_none() -> None:
    """A deleted or filtered row references nothing, even if its expression is not null."""
    builder = StreamsBuilder()
    orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
    orders = orders.filter("item > 0").map_values("item", who="coalesce(user, 'u')")
    driver = driver_of(builder, orders.left_join(users, foreign_key="who"))
    driver.pipe_input("users", named("u", "ann", 1))
    driver.pipe_input("orders", [order("a", 2, item=1), order("b", 3, item=1)])
    assert rows(driver, "name") == {"a": ("ann", 2), "b": ("ann", 3)}
    driver.pipe_input("orders", [order("a", 4, item=0), Record("b", None, 5)])
    assert rows(driver, "name") == {}
    driver.pipe_input("users", named("u", "anna", 6))
    assert driver.read_output("store") == []


@pytest.mark.slow
def test_a_filter_of_the_right_table_takes_its_rows_away() -> None:
    """A row that a filter of the right table drops is removed from the joined rows."""
    builder = StreamsBuilder()
    orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
    users = users.filter("name LIKE 'a%'").map_values(called="upper(name)")
    driver = driver_of(builder, orders.left_join(users, foreign_key="user"))
    driver.pipe_input("orders", order("a", 1, user="u"))
    driver.pipe_input("users", named("u", "ann", 2))
    assert rows(driver, "called") == {"a": ("ANN", 2)}
    driver.pipe_input("users", named("u", "bob", 3))
    assert rows(driver, "called") == {"a": (None, 3)}


@pytest.mark.java
def test_rows_name_rows_of_several_tables_and_join_others_by_key() -> None:
    """A table can have several foreign keys and join further tables by key on either side."""
    builder = StreamsBuilder()
    orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
    items = builder.table("items", "title STRING")
    paid = builder.table("paid", "amount INT")
    both = orders.join(users, foreign_key="user").left_join(items, foreign_key="item")
    driver = driver_of(builder, paid.left_join(both))
    driver.pipe_input("orders", order("a", 1, user="u", item=3))
    driver.pipe_input("items", Record("3", {"title": "tea"}, 2))
    driver.pipe_input("paid", Record("a", {"amount": 9}, 3))
    assert rows(driver, "amount", "title", "name") == {"a": (9, None, None, 3)}
    driver.pipe_input("users", named("u", "ann", 4))
    assert rows(driver, "amount", "title", "name") == {"a": (9, "tea", "ann", 4)}
    driver.pipe_input("items", Record("3", None, 5))
    assert rows(driver, "amount", "title", "name") == {"a": (9, None, "ann", 5)}


@pytest.mark.java
def test_a_table_names_rows_of_its_own() -> None:
    """A table can reference its own rows, such as the row of a superior."""
    builder = StreamsBuilder()
    staff = builder.table("staff", "name STRING, boss STRING")
    bosses = staff.map_values(boss_name="name")
    driver = driver_of(builder, staff.left_join(bosses, foreign_key="boss"))
    for key, name, boss in (("1", "ann", None), ("2", "bob", "1"), ("3", "cid", "2")):
        driver.pipe_input("staff", Record(key, {"name": name, "boss": boss}, int(key)))
    assert rows(driver, "boss_name") == {"1": (None, 1), "2": ("ann", 2), "3": ("bob", 3)}
    driver.pipe_input("staff", Record("1", {"name": "anna", "boss": "3"}, 4))
    assert rows(driver, "boss_name") == {"1": ("cid", 4), "2": ("anna", 4), "3": ("bob", 3)}


@pytest.mark.java
def test_an_invalid_record_is_reported_and_counted_once() -> None:
    """An invalid left record has one dead letter and counts once, although it is read twice."""
    builder = StreamsBuilder()
    orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
    joined = orders.left_join(users, foreign_key="user")
    joined.materialize("store", key_serde=Serdes.long())
    driver = TopologyTestDriver(builder.build())
    wrong = Record("2", {"item": "many"}, 4)
    long_key = order("5", 5, user="x" * 9000)
    driver.pipe_input("orders", [order("1", 1, user="u"), order(None, 2), order("no", 3, user="u"),
                                 wrong, long_key])  # fmt: skip
    driver.pipe_input("users", named("u", "ann", 6))
    assert driver.key_value_store("store").all() == [
        KeyValue("1", {"user": "u", "item": 0, "n": 1, "name": "ann"}, 6),
        KeyValue("5", {"user": "x" * 9000, "item": 0, "n": 5, "name": None}, 5),
    ]
    found = [(one["offset"], one["reason"]) for one in driver.dead_letters("store")]
    assert sorted(found) == [(1, "null-key"), (2, "unfit-key"), (3, "wrong-type")]
    counters = driver.counters("store")
    assert (counters.input, counters.applied, counters.dropped) == (6, 3, 3)
    assert counters.dropped_results == 0


@pytest.mark.java
def test_the_error_for_a_wrong_foreign_key_names_its_step() -> None:
    """The error about an unknown or duplicate column names the join step."""

    def joined(foreign_key: str, schema: str) -> TopologyTestDriver:
        builder = StreamsBuilder()
        orders, users = builder.table("orders", ORDERS), builder.table("users", schema)
        return driver_of(builder, orders.join(users, foreign_key=foreign_key))

    with pytest.raises(InvalidTopology, match=r"step join\(foreign_key=users\): .*`users`"):
        joined("users", USERS)
    with pytest.raises(
        InvalidTopology, match=r"step join\(foreign_key=count\(user\)\): the key is"
    ):
        joined("count(user)", USERS)
    with pytest.raises(InvalidTopology, match=r"column 'item' exists twice .* Rename"):
        joined("user", "item INT")


def test_it_is_described_with_what_is_read_for_it() -> None:
    """``describe`` shows the left table and the table that its foreign key references."""
    builder = StreamsBuilder()
    orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
    orders.join(users.filter("name > ''"), foreign_key=("user", "item")).materialize("store")
    found = builder.build().describe()
    assert (
        "    Input: table('orders')\n    Input: table('users').filter(\"name > ''\") "
        "named by foreign_key=user, item of table('orders')\n" in found
    )
    assert "    Rows: join of tables\n" in found


@pytest.mark.slow
def test_many_rows_of_one_foreign_key_end_as_they_are_in_any_order() -> None:
    """A thousand orders of one user have the same rows in any order of batches."""
    ends = []
    for seed in range(3):
        random = Random(seed)
        builder = StreamsBuilder()
        orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
        driver = driver_of(builder, orders.join(users, foreign_key="user"))
        waiting = {
            "orders": [order(f"o{n % 1000}", n, user="u" if n % 7 else "v") for n in range(2000)],
            "users": [named("uv"[n % 2], f"name {n}", n) for n in range(20)],
        }
        while any(waiting.values()):
            topic = random.choice([topic for topic, log in waiting.items() if log])
            size = random.choice((1, 5, 700))
            driver.pipe_input(topic, waiting[topic][:size])
            del waiting[topic][:size]
        ends.append(rows(driver, "name", "n"))
    assert len(ends[0]) == 1000
    assert ends[0] == ends[1] == ends[2]
