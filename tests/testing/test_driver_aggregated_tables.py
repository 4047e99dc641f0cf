"""Aggregations as tables, and steps after joined tables, in the test driver (decision 0071)."""

from random import Random
from typing import Any

import pytest

from oriel import InvalidTopology, JoinWindows, StreamsBuilder, Topology, collect_list, count, last
from oriel import sum as sum_of
from oriel.pipeline.language import KStream
from oriel.pipeline.language.tables import KTable
from oriel.testing import Record, TopologyTestDriver
from tests.campaigns import seeds
from tests.testing.driver_runs import tumbling
from tests.testing.test_driver_streams import values

ORDERS, USERS = "user STRING, cost BIGINT", "city STRING"


def order(time: int, user: str, cost: int) -> Record:
    """Return an order with a key of its own."""
    return Record(f"order-{time}", {"user": user, "cost": cost}, time)


def user(time: int, name: str, city: str | None) -> Record:
    """Return a user's row, or its tombstone."""
    return Record(name, None if city is None else {"city": city}, time)


def spent(builder: StreamsBuilder) -> Any:
    """Return the number of each user's orders and their total cost."""
    orders = builder.stream("orders", ORDERS).group_by("user")
    return orders.aggregate(n=count(), cost=sum_of("cost"))


def run(topology: Topology, *batches: tuple[str, list[Record]]) -> TopologyTestDriver:
    """Return a driver that has processed these batches of topics."""
    driver = TopologyTestDriver(topology)
    for topic, records in batches:
        driver.pipe_input(topic, records)
    return driver


def emitted(driver: TopologyTestDriver, topic: str) -> list[tuple[str | None, Any, int]]:
    """Return key, value and time of each record that the driver wrote to a topic."""
    records = driver.create_output_topic(topic).read_records()
    return [(one.key, one.value, one.timestamp_ms) for one in records]


@pytest.mark.java
@pytest.mark.parametrize("is_left", [False, True])
def test_an_aggregation_stands_on_either_side_of_a_join(*, is_left: bool) -> None:
    """A join with an aggregation, on either side, has the newest row of each key."""
    builder = StreamsBuilder()
    users = builder.table("users", USERS)
    joined = spent(builder).outer_join(users) if is_left else users.outer_join(spent(builder))
    joined.materialize("s")
    driver = run(builder.build(), ("orders", [order(10, "u", 5)]), ("users", [user(3, "u", "x")]))
    driver.pipe_input("orders", [order(7, "u", 2), order(8, "v", 1)], 1)
    driver.pipe_input("users", [user(4, "w", "y")])
    assert values(driver) == {
        "u": {"city": "x", "n": 2, "cost": 7},
        "v": {"city": None, "n": 1, "cost": 1},
        "w": {"city": "y", "n": None, "cost": None},
    }
    driver.pipe_input("users", [user(5, "u", None)])
    assert values(driver)["u"] == {"city": None, "n": 2, "cost": 7}
    counters = driver.counters("s")
    assert (counters.input, counters.applied) == (6, 6)


@pytest.mark.java
def test_groups_of_an_aggregation_follow_its_rows() -> None:
    """A row of several partitions leaves its group when the grouped column changes."""
    builder = StreamsBuilder()
    spent(builder).group_by("n").aggregate(users=count(), cost=sum_of("cost")).materialize("s")

    def added(_key: str, row: dict[str, Any], text: str) -> str:
        return f"{text}+{row['cost']}"

    def taken(_key: str, row: dict[str, Any], text: str) -> str:
        assert f"+{row['cost']}" in text, "what is taken away was added before"
        return text.replace(f"+{row['cost']}", "", 1)

    texts = spent(builder).group_by("n").aggregate(lambda: "", added, taken, schema="t STRING")
    texts.materialize("texts")
    driver = run(
        builder.build(), ("orders", [order(1, "u", 5), order(2, "v", 3), order(3, "u", 1)])
    )
    driver.pipe_input("orders", [order(1, "v", 4), order(2, "w", 8)], 1)
    assert values(driver) == {
        "1": {"users": 1, "cost": 8}, "2": {"users": 2, "cost": 13},
    }  # fmt: skip
    rows = {row.key: row.value["t"] for row in driver.key_value_store("texts").all()}
    assert rows == {"1": "+8", "2": "+6+7"}


@pytest.mark.java
def test_rows_of_windows_are_grouped_as_a_table_by_key_and_window() -> None:
    """If a windowed row changes its group, its old value is subtracted from the old group.

    The table of windowed rows is created as the error message suggests.
    """
    builder = StreamsBuilder()
    views = builder.stream("views", "industry STRING").group_by_key().windowed_by(tumbling(10, 100))
    counted = views.aggregate(n=count(), industry=last("industry"))
    message = r"create a table of its rows: .*to_stream\(\)\.select_key\('key', 'window_start_ms'\)"
    with pytest.raises(InvalidTopology, match=message):
        counted.group_by("industry")
    rows = counted.to_stream().select_key("key", "window_start_ms")
    table = rows.map_values("n", of="industry", start="window_start_ms").to_table()
    table.group_by("of", "start").aggregate(total=sum_of("n")).materialize("s")
    views_of = [("a", "toys", 1), ("b", "toys", 2), ("a", "toys", 3), ("a", "food", 5)]
    log = [Record(key, {"industry": of}, at) for key, of, at in (*views_of, ("a", "toys", 12))]
    rows_of = [values(run(builder.build(), ("views", log)))]
    rows_of.append(values(run(builder.build(), *(("views", [record]) for record in log))))
    totals = {"toys|0": {"total": 1}, "food|0": {"total": 3}, "toys|10": {"total": 1}}
    assert rows_of == [totals, totals]


@pytest.mark.java
def test_elements_and_changes_have_places_of_their_own() -> None:
    """If one record causes several updates, each update is emitted and grouped."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", "line STRING")
    words = lines.flat_map_values(word="split(line, ' ')").group_by("word").count()
    kinds = builder.table("kinds", "kind STRING")
    words.left_join(kinds).to_stream().to("out")
    words.group_by("count").aggregate(words=count()).materialize("s")
    groups = builder.table("users", USERS).group_by("city").count()
    groups.map_values(people="count").join(kinds).to_stream().to("cities")
    driver = run(
        builder.build(),
        ("kinds", [Record(key, {"kind": key.upper()}, 0) for key in "ab"]),
        ("lines", [Record(None, {"line": "a b a"}, 5)]),
        ("users", [user(1, "u", "a"), user(2, "v", "a"), user(3, "u", "b")]),
    )
    assert emitted(driver, "out") == [
        ("a", {"count": 1, "kind": "A"}, 5), ("b", {"count": 1, "kind": "B"}, 5),
        ("a", {"count": 2, "kind": "A"}, 5),
    ]  # fmt: skip
    assert values(driver) == {"1": {"words": 1}, "2": {"words": 1}}
    assert emitted(driver, "cities") == [
        ("a", {"people": 1, "kind": "A"}, 1), ("a", {"people": 2, "kind": "A"}, 2),
        ("a", {"people": 1, "kind": "A"}, 3), ("b", {"people": 1, "kind": "B"}, 3),
    ]  # fmt: skip


@pytest.mark.java
def test_a_filter_emits_one_tombstone_per_row() -> None:
    """A filter on an aggregation, windowed aggregation or join emits one tombstone per removed row.

    A window over the emitted rows counts that tombstone once (decision 0071).
    """
    builder = StreamsBuilder()
    totals = spent(builder).filter("cost > 0").map_values("cost")
    totals.to_stream().to("totals")
    totals.to_stream().group_by_key().windowed_by(tumbling(100, 0)).count().materialize("s")
    windowed = builder.stream("orders", ORDERS).group_by("user").windowed_by(tumbling(10, 100))
    windowed.aggregate(cost=sum_of("cost")).filter("cost > 0").to_stream().to("windows")
    joined = builder.table("users", USERS).join(spent(builder)).filter("cost > 0")
    joined.to_stream().map_values("cost").to("joined")
    driver = run(builder.build(), ("users", [user(0, "u", "x")]))
    readers = [driver.create_output_topic(name) for name in ("totals", "windows", "joined")]
    costs = (-1, 3, -5, -1, 9)
    for cut in ((0, 1, 2, 3, 4), (5,)):
        driver.pipe_input("orders", [order(n, "u", (*costs, 1)[n]) for n in cut])
    rows, of_windows, of_joined = (
        [(one.value and one.value["cost"], one.timestamp_ms) for one in reader.read_records()]
        for reader in readers
    )
    assert rows == of_windows == of_joined == [(2, 1), (None, 2), (5, 4), (6, 5)]
    assert [row.value for row in driver.window_store("s").all()] == [{"count": 4}]


@pytest.mark.java
def test_a_record_with_a_function_error_passes_the_next_steps() -> None:
    """A record on which a function raises is dead-lettered, although steps follow the aggregation.

    A step can replace a column by one with the same name and another type.
    """

    def added(_key: str, value: dict[str, Any], total: int) -> int:
        return total + 10 // int(value["cost"])

    builder = StreamsBuilder()
    totals = (
        builder.stream("orders", ORDERS)
        .group_by("user")
        .aggregate(lambda: 0, added, schema="total BIGINT")
    )
    filtered_totals = (
        totals.filter("total < 8").map_values(total="CAST(total AS STRING)").to_stream()
    )
    filtered_totals.to("out")
    driver = TopologyTestDriver(builder.build(), collect_function_errors=True)
    out = driver.create_output_topic("out")
    driver.pipe_input("orders", [order(n, "u", cost) for n, cost in enumerate((5, 0, 2, 0, 1))])
    assert [(one.value, one.timestamp_ms) for one in out.read_records()] == [
        ({"total": "2"}, 0), ({"total": "7"}, 2), (None, 4),
    ]  # fmt: skip
    assert [letter["offset"] for letter in driver.dead_letters("to(out)")] == [1, 3]


@pytest.mark.java
def test_joined_tables_are_tables_again() -> None:
    """A joined table can be filtered, mapped, joined again, grouped, and joined with a stream."""
    builder = StreamsBuilder()
    a, b, c = (builder.table(topic, f"{topic} BIGINT") for topic in "abc")
    both = a.join(b).filter("a + b > 10").map_values(total="a + b")
    both.left_join(c).materialize("s")
    both.group_by("total").count().materialize("by_total")
    builder.stream("t", "v BIGINT").join(both).to("out")
    driver = run(
        builder.build(),
        *(
            (topic, [Record(key, {topic: n}, 1) for key, n in (("k", 5), ("l", 7))])
            for topic in "ab"
        ),
        ("c", [Record("k", {"c": 1}, 2), Record("l", {"c": 2}, 2)]),
        ("t", [Record(key, {"v": 1}, 3) for key in "kl"]),
    )
    assert values(driver) == {"l": {"total": 14, "c": 2}}
    assert emitted(driver, "out") == [("l", {"v": 1, "total": 14}, 3)]
    driver.pipe_input("a", [Record("k", {"a": 9}, 4), Record("l", None, 5)])
    assert values(driver) == {"k": {"total": 14, "c": 1}}
    groups = {row.key: row.value["count"] for row in driver.key_value_store("by_total").all()}
    assert groups == {"14": 1}


@pytest.mark.java
def test_rows_name_aggregations_by_a_foreign_key() -> None:
    """A foreign key can reference an aggregation of flattened records.

    Each flattened record counts, and a left join without a match has nulls.
    """
    builder = StreamsBuilder()
    tags = builder.stream("posts", "tags STRING").flat_map_values(tag="split(tags, ' ')")
    users = builder.table("users", USERS)
    users.left_join(tags.group_by("tag").count(), foreign_key="city").materialize("s")
    driver = run(
        builder.build(),
        ("users", [user(1, "u", "x"), user(2, "v", "y"), user(3, "w", "z")]),
        ("posts", [Record(None, {"tags": "x y x"}, 4), Record(None, {"tags": "y"}, 5)]),
    )
    counts = {key: row["count"] for key, row in values(driver).items()}
    assert counts == {"u": 2, "v": 2, "w": None}
    counters = driver.counters("s")
    assert (counters.input, counters.applied, counters.elements_applied) == (5, 5, 4)


@pytest.mark.slow
@seeds(1, 4)
def test_any_cut_gives_the_same_rows(seed: int) -> None:
    """Joined, filtered and grouped tables have the same rows, however the topics are batched."""
    random = Random(seed)
    builder = StreamsBuilder()
    joined = spent(builder).outer_join(builder.table("users", USERS))
    joined.filter("cost > 5 OR cost IS NULL").materialize("s")
    joined.group_by("coalesce(city, '-')").aggregate(users=count(), n=sum_of("n")).materialize("g")
    cost_updates = joined.to_stream().group_by_key()
    cost_updates.aggregate(costs=collect_list("cost")).materialize("emitted")
    topology = builder.build()
    names = "abcd"
    topics = {
        "users": [
            user(time, random.choice(names), random.choice(("x", "y", None))) for time in range(20)
        ],
        "orders": [order(time, random.choice(names), random.randint(-3, 6)) for time in range(30)],
    }
    found = []
    for most in (1, 7, 100):
        batches = [
            (topic, records[low : low + most])
            for topic, records in topics.items()
            for low in range(0, len(records), most)
        ]
        driver = run(topology, *batches)
        found.append([driver.key_value_store(name).all() for name in ("s", "g", "emitted")])
    assert found[0] == found[1] == found[2]
    assert [] not in found[0]


@pytest.mark.java
def test_the_error_for_a_missing_table_has_a_solution() -> None:
    """A join or grouping of windowed tables, or with a step that Arrow cannot run, is rejected."""
    builder = StreamsBuilder()
    users, orders = builder.table("users", USERS), builder.stream("orders", ORDERS)
    windowed = orders.group_by_key().windowed_by(tumbling(5, 0)).count()
    for step in ("join", "left_join", "outer_join"):
        with pytest.raises(InvalidTopology, match=rf"{step}: a windowed table joins only"):
            getattr(users, step)(windowed)
    with pytest.raises(InvalidTopology, match=r"group_by: a windowed table .* group its"):
        windowed.group_by("count")
    builder = StreamsBuilder()
    rounded = builder.stream("orders", ORDERS).group_by("user").count().filter("round(count) > 1")
    rounded.join(builder.table("users", USERS)).materialize("s")
    with pytest.raises(InvalidTopology, match=r"step filter.*: Arrow cannot run this expression"):
        TopologyTestDriver(builder.build())


PAIRS_OF = "v BIGINT", "w BIGINT"


def near(builder: StreamsBuilder) -> KStream:
    """Return the join of two topics."""
    left, right = (
        builder.stream(topic, schema) for topic, schema in zip("ab", PAIRS_OF, strict=True)
    )
    return left.join(right, JoinWindows.of_time_difference_and_grace(8, 50))


def counted(stream: KStream) -> KTable:
    """Return the number of records of each key, and their sum."""
    return stream.group_by_key().aggregate(n=count(), total=sum_of("w"))


@pytest.mark.java
def test_joined_rows_of_pairs_are_kept_and_filtered() -> None:
    """A table of stream join results can be joined, stored and filtered."""
    builder = StreamsBuilder()
    joined = counted(near(builder)).join(builder.table("users", USERS))
    joined.materialize("s")
    joined.filter("n > 2").to_stream().group_by_key().count().materialize("emitted")
    driver = run(
        builder.build(),
        ("users", [user(1, "k", "x")]),
        ("a", [Record("k", {"v": 1}, 1), Record("k", {"v": 2}, 2)]),
        ("b", [Record("k", {"w": 1}, 1), Record("k", {"w": 2}, 3)]),
    )
    assert values(driver) == {"k": {"n": 4, "total": 6, "city": "x"}}
    assert values(driver, "emitted") == {"k": {"count": 2}}
