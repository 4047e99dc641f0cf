"""Updates of foreign-key joins in the test driver, as input of streams, groups and tables."""

from typing import Any

import pytest

from oriel import (
    InvalidTopology,
    JoinWindows,
    StreamsBuilder,
    TimeWindows,
    collect_list,
    count,
)
from oriel.pipeline.language.tables import KTable, SourceTable
from oriel.pipeline.lowered import lower
from oriel.testing import Record, TopologyTestDriver

ORDERS, USERS = "user STRING, n INT", "name STRING"


def order(key: str, time: int, user: str | None, number: int = 0) -> Record:
    """Return an order of a user."""
    return Record(key, {"user": user, "n": number}, time)


def named(key: str, name: str | None, time: int) -> Record:
    """Return a user with a name, or its tombstone."""
    return Record(key, None if name is None else {"name": name}, time)


def emitted(
    table: SourceTable | KTable, builder: StreamsBuilder, *piped: tuple[str, Any]
) -> list[Any]:
    """Return key, time and name of each update in arrival order. None means a deleted row."""
    table.to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    for topic, records in piped:
        driver.pipe_input(topic, records)
    return [
        (record.key, record.timestamp_ms, record.value and record.value["name"])
        for record in driver.create_output_topic("out").read_records()
    ]


#: The walkthrough of KIP-213, and what its four instructions emit. The tests have the updates of an
#: inner and a left join.
LOG = [
    ("orders", order("1", 1, "u")),
    ("users", named("u", "ann", 5)),
    ("orders", order("2", 3, "u")),
    ("users", named("u", "anna", 4)),
    ("orders", order("1", 7, "v")),
    ("orders", order("1", 8, "v", 1)),
    ("orders", order("2", 2, None)),
    ("users", named("v", "bob", 9)),
    ("users", named("v", None, 6)),
    ("orders", Record("1", None, 10)),
    ("orders", Record("1", None, 11)),
]


@pytest.mark.java
def test_an_inner_join_emits_the_updates_of_kafka_streams() -> None:
    """An inner join emits the updates of Kafka Streams.

    The log has new, changed and deleted rows, rows with another reference, and with no reference.
    """
    builder = StreamsBuilder()
    orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
    assert emitted(orders.join(users, foreign_key="user"), builder, *LOG) == [
        ("1", 5, "ann"),
        ("2", 5, "ann"),
        ("1", 4, "anna"), ("2", 4, "anna"),
        ("1", 7, None),
        # Order 1 references a user that still does not exist, so nothing is emitted. Order 2 had a
        # user with time 4.
        ("2", 4, None),
        ("1", 9, "bob"),
        ("1", 6, None),
        ("1", 10, None),
    ]  # fmt: skip


@pytest.mark.java
def test_a_left_join_emits_every_row() -> None:
    """A left join emits every row, also without a user, and the deletion of a row."""
    builder = StreamsBuilder()
    orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
    joined = orders.left_join(users, foreign_key="user").map_values(
        name="concat(cast(n AS STRING), coalesce(name, ''))"
    )
    assert emitted(joined, builder, *LOG) == [
        ("1", 1, "0"), ("1", 5, "0ann"), ("2", 5, "0ann"),
        ("1", 4, "0anna"), ("2", 4, "0anna"),
        ("1", 7, "0"), ("1", 8, "1"), ("2", 2, "0"),
        ("1", 9, "1bob"), ("1", 6, "1"), ("1", 10, None),
    ]  # fmt: skip


@pytest.mark.java
def test_groups_of_joined_rows_are_subtracted_from_and_added_to() -> None:
    """If a user's name changes, all its orders move to the group of the new name."""
    builder = StreamsBuilder()
    orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
    by_name = orders.join(users, foreign_key="user").group_by("name")
    by_name.aggregate(orders=count()).materialize("by_name")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("users", [named("u", "ann", 1), named("v", "bob", 2)])
    driver.pipe_input("orders", [order("1", 3, "u"), order("2", 4, "u"), order("3", 5, "v")])
    rows = {row.key: row.value["orders"] for row in driver.key_value_store("by_name").all()}
    assert rows == {"ann": 2, "bob": 1}
    driver.pipe_input("users", named("u", "bob", 6))
    driver.pipe_input("orders", [order("3", 7, "nobody"), order("2", 8, "u", 1)])
    rows = {row.key: row.value["orders"] for row in driver.key_value_store("by_name").all()}
    assert rows == {"ann": 0, "bob": 2}


@pytest.mark.java
def test_many_updates_of_one_record_have_an_order_in_windows() -> None:
    """The updates of one user are in the order of the orders' keys.

    A filter emits a deleted row once.
    """
    builder = StreamsBuilder()
    orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
    joined = orders.join(users, foreign_key="user").filter("name <> 'nobody'")
    updates = joined.to_stream().map_values("*", order="key").group_by("1")
    windowed = updates.windowed_by(TimeWindows.of_size_and_grace(10, 0))
    windowed.aggregate(None, keys=collect_list("order"), n=count()).materialize("windows")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("orders", [order(key, 1, "u") for key in ("b", "ä", "a", "c")])
    driver.pipe_input("users", named("u", "ann", 2))
    driver.pipe_input("users", named("u", "nobody", 3))
    driver.pipe_input("users", named("u", "nobody", 4))
    (row,) = driver.window_store("windows").all()
    # Deleted rows are counted, and their columns are null.
    assert (row.value["keys"], row.value["n"]) == (["a", "b", "c", "ä"], 8)
    assert row.timestamp_ms == 3


@pytest.mark.java
def test_a_stream_looks_joined_rows_up_and_tables_join_them() -> None:
    """A stream and a table can join the rows of a foreign-key join."""
    builder = StreamsBuilder()
    orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
    joined = orders.left_join(users, foreign_key="user")
    requests = builder.stream("requests", "q STRING").left_join(joined)
    requests.map_values("q", "name").to("responses")
    paid = builder.table("paid", "paid INT")
    paid.left_join(joined.filter("n > 0")).materialize("paid")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("users", named("u", "ann", 1))
    driver.pipe_input("orders", [order("1", 2, "u", 1), order("2", 3, None, 0)])
    driver.pipe_input("requests", [Record(key, {"q": "?"}, 4) for key in "123"])
    responses = driver.create_output_topic("responses").read_records()
    assert [record.value and record.value["name"] for record in responses] == ["ann", None, None]
    driver.pipe_input("paid", [Record(key, {"paid": 5}, 5) for key in "12"])
    rows = driver.key_value_store("paid").all()
    assert [(row.key, row.value["name"], row.timestamp_ms) for row in rows] == [
        ("1", "ann", 5), ("2", None, 5),
    ]  # fmt: skip


@pytest.mark.java
def test_rows_of_any_table_name_rows_of_any_table() -> None:
    """Aggregations and joined tables can be on either side of a foreign-key join."""
    builder = StreamsBuilder()
    tags = builder.stream("tags", "tag STRING").group_by("tag").aggregate(tags=count())
    orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
    cities = builder.table("cities", "city STRING, of STRING")
    tags.left_join(users, foreign_key="key").materialize("tags")
    both = users.left_join(builder.table("notes", "note STRING"))
    orders.join(both, foreign_key="user").materialize("notes")
    cities.outer_join(orders).left_join(users, foreign_key="coalesce(of, user)").materialize("any")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("users", [named("u", "ann", 1), named("v", "bob", 2)])
    driver.pipe_input("notes", Record("u", {"note": "late"}, 3))
    driver.pipe_input("tags", [Record("x", {"tag": tag}, 4) for tag in "uvu"])
    driver.pipe_input("orders", [order("1", 5, "u"), order("2", 6, "v")])
    driver.pipe_input("cities", Record("1", {"city": "london", "of": "v"}, 7))

    def rows(store: str, *names: str) -> dict[str, tuple[Any, ...]]:
        found = driver.key_value_store(store).all()
        return {row.key: tuple(row.value[name] for name in names) for row in found}

    assert rows("tags", "tags", "name") == {"u": (2, "ann"), "v": (1, "bob")}
    assert rows("notes", "name", "note") == {"1": ("ann", "late"), "2": ("bob", None)}
    assert rows("any", "city", "name") == {"1": ("london", "bob"), "2": (None, "bob")}
    assert [driver.counters(store).dropped for store in ("tags", "notes", "any")] == [0, 0, 0]


def test_each_record_counts_once_and_has_one_dead_letter() -> None:
    """Each record counts once and has one dead letter, although the left table is read twice."""
    builder = StreamsBuilder()
    users = builder.table("users", USERS)
    spent = builder.stream("paid", "user STRING").group_by("user").count()
    spent.join(users, foreign_key="key").materialize("store")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("paid", [Record("1", {"user": user}, 1) for user in ("u", "v", "u")])
    driver.pipe_input("paid", [Record("1", {"user": None}, 2), Record("1", {"user": "w"}, 3)])
    driver.pipe_input("users", [named("u", "ann", 4), named("w", "cid", 5)])
    counters = driver.counters("store")
    # The payments have no user yet.
    assert (counters.input, counters.applied, counters.filtered) == (7, 2, 4)
    assert counters.dropped == 1
    dead_letters = [(one["offset"], one["reason"]) for one in driver.dead_letters("store")]
    assert dead_letters == [(3, "null-key")]
    assert [row.key for row in driver.key_value_store("store").all()] == ["u", "w"]


@pytest.mark.slow
def test_cuts_of_one_topic_do_not_matter() -> None:
    """The batching of one topic between the other's records does not change the updates."""
    orders = [order(str(n % 5), n, "uv"[n % 2], n) for n in range(40)]
    users = [named("uv"[n % 2], f"n{n}", n) for n in range(12)]
    found = []
    for most in (1, 3, 100):
        builder = StreamsBuilder()
        joined = builder.table("orders", ORDERS).join(
            builder.table("users", USERS), foreign_key="user"
        )
        piped = [
            (topic, records[low : low + most])
            for topic, records in (("users", users[:6]), ("orders", orders), ("users", users[6:]))
            for low in range(0, len(records), most)
        ]
        found.append(emitted(joined, builder, *piped))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 40


def test_rows_of_join_results_are_joined_by_a_foreign_key() -> None:
    """The lineage of their updates has both records of a result."""
    builder = StreamsBuilder()
    a, b = builder.stream("a", "a BIGINT"), builder.stream("b", "b BIGINT")
    pairs = a.join(b, JoinWindows.of_time_difference_and_grace(10, 0))
    counts = pairs.group_by_key().count().map_values("*", user="'u'")
    joined = counts.join(builder.table("users", USERS), foreign_key="user")
    found = emitted(
        joined,
        builder,
        ("users", [named("u", "Ada", 1)]),
        ("a", [Record("k", {"a": 1}, 2), Record("l", {"a": 2}, 3)]),
        ("b", [Record("k", {"b": 1}, 4), Record("k", {"b": 2}, 5)]),
        ("users", [named("u", "Bea", 6)]),
        ("b", [Record("l", {"b": 1}, 7)]),
    )
    assert found == [("k", 4, "Ada"), ("k", 5, "Ada"), ("k", 6, "Bea"), ("l", 7, "Bea")]


@pytest.mark.java
def test_three_foreign_key_joins_are_allowed_and_four_are_rejected() -> None:
    """An update passes through three foreign-key joins, in key order, and a fourth is rejected."""
    builder = StreamsBuilder()
    departments = builder.table("departments", "d STRING")
    categories = builder.table("categories", "of_d STRING")
    items, orders = builder.table("items", "of_c STRING"), builder.table("orders", "of_i STRING")
    in_departments = categories.join(departments, foreign_key="of_d")
    of_items = items.join(in_departments, foreign_key="of_c")
    of_orders = orders.join(of_items, foreign_key="of_i")
    stream = of_orders.to_stream()
    stream.map_values(order="key", d="d").group_by("d").aggregate(
        orders=collect_list("order")
    ).materialize("store")
    with pytest.raises(InvalidTopology, match=r"join: at most 3 joins by a foreign k"):
        builder.table("parcels", "of_o STRING").join(of_orders, foreign_key="of_o")
    driver = TopologyTestDriver(builder.build())
    twice = [f"{n}" for n in range(2)]
    driver.pipe_input("departments", [Record("d", {"d": "old"}, 1)])
    driver.pipe_input("categories", [Record(c, {"of_d": "d"}, 2) for c in twice])
    driver.pipe_input("items", [Record(c + i, {"of_c": c}, 3) for c in twice for i in twice])
    names = [c + i + o for c in twice for i in twice for o in twice]
    driver.pipe_input("orders", [Record(name, {"of_i": name[:2]}, 4) for name in names])
    driver.pipe_input("departments", Record("d", {"d": "new"}, 5))
    rows = {row.key: row.value["orders"] for row in driver.key_value_store("store").all()}
    assert rows == {"old": names, "new": names}


@pytest.mark.java
@pytest.mark.slow
def test_a_star_reads_its_facts_once_for_each_foreign_key() -> None:
    """A star join reads the fact table once per foreign key and once for its rows."""
    builder = StreamsBuilder()
    joined = builder.table("facts", ", ".join(f"f{n} STRING" for n in range(4)))
    for number in range(4):
        dimension = builder.table(f"dimension{number}", f"d{number} STRING")
        join = joined.join if number % 2 else joined.left_join
        joined = join(dimension, foreign_key=f"f{number}")
    joined.group_by("concat(coalesce(d0, '-'), d1, coalesce(d2, '-'), d3)").count().materialize("s")
    topology = builder.build()
    (grouped,) = lower(topology).stores[0].inputs
    assert [source.topic for source in grouped.sources].count("facts") == 5
    driver = TopologyTestDriver(topology)
    facts = [{f"f{n}": key for n in range(4)} for key in ("x", "y", "x")]
    driver.pipe_input("facts", [Record(str(n), fact, 1) for n, fact in enumerate(facts)])
    for number in (1, 3, 0, 2):
        driver.pipe_input(f"dimension{number}", Record("x", {f"d{number}": "a"}, 2))
    driver.pipe_input("dimension1", [Record("y", {"d1": "b"}, 3), Record("x", {"d1": "c"}, 3)])
    driver.pipe_input("facts", Record("0", facts[1] | {"f3": "x"}, 4))
    rows = {row.key: row.value["count"] for row in driver.key_value_store("s").all()}
    assert rows == {"-a-a": 0, "aa-a": 0, "aaaa": 0, "acaa": 1, "-b-a": 1}


@pytest.mark.java
def test_a_record_has_one_dead_letter_for_all_its_rows() -> None:
    """A record has one dead letter for all its invalid rows, and each row counts."""
    builder = StreamsBuilder()
    orders, users = builder.table("orders", ORDERS), builder.table("users", USERS)
    joined = orders.join(users, foreign_key="user")
    joined.group_by("name").count().materialize("store")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("orders", [order(key, 1, "u") for key in "abc"])
    driver.pipe_input("users", [Record("u", {"name": None}, 2), Record("u", {"name": None}, 3)])
    dead_letters = [
        (one["topic"], one["offset"], one["reason"]) for one in driver.dead_letters("store")
    ]
    assert dead_letters == [("users", 0, "null-key"), ("users", 1, "null-key")]
    assert driver.counters("store").dropped_results == 6
