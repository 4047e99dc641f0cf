"""A topology with every kind of input, and random records for it."""

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

from oriel import (
    JoinWindows,
    ProcessContext,
    StreamsBuilder,
    TimeWindows,
    Topology,
    collect_list,
    count,
    sum,
)
from tests.models.joins import Span
from tests.pipeline.run.topic_logs import Record, random_times

SIZE_MS, GRACE_MS = 20, 30
WINDOWS = TimeWindows.of_size_and_grace(SIZE_MS, GRACE_MS)
SPAN = Span(before=5, after=8, grace=4)
WITHIN = (
    JoinWindows.of_time_difference_and_grace(0, SPAN.grace).after(SPAN.after).before(SPAN.before)
)
#: How long each join keeps its windows open, in addition to their grace.
JOIN_DELAYS = {
    "inner": 0,
    "left": SPAN.after + SPAN.before + SPAN.grace,
    "outer": SPAN.after + SPAN.before + SPAN.grace,
}

ORDERS, PAID = "id STRING, city STRING, amount BIGINT", "pid STRING, paid BIGINT"
UNLUCKY = 13
#: The times of duplicates are at most this far apart.
WITHIN_MS = 25
RUBBISH = b'{"key": rubbish'
KEYS = "abcde"
#: A store whose rows depend on how batches cut the topics.
CUT = {"updated"}
#: The user that an order references, by its amount.
NAMED = {7: "a", UNLUCKY: "b", 40: "none"}
Row = dict[str, Any]


def start() -> str:
    """Return the aggregate without orders."""
    return ""


def append(_key: str, value: Any, aggregate: str) -> str:
    """Append an order, or raise on one amount."""
    if value["amount"] == UNLUCKY:
        message = f"{value['id']} is unlucky"
        raise ValueError(message)
    return f"{aggregate},{value['id']}"


def with_row(_key: str, value: Any, aggregate: str) -> str:
    """Append an update."""
    return f"{aggregate},{value['row']}"


def with_name(_key: str, value: Any, aggregate: str) -> str:
    """Add a user."""
    return f"{aggregate}+{value['name']}"


def without_name(_key: str, value: Any, aggregate: str) -> str:
    """Subtract a user."""
    return f"{aggregate}-{value['name']}"


def visited(_key: str, value: Any, context: ProcessContext) -> Iterator[Row]:
    """Emit an order, and set a timer instead of the timers before. Raise on one amount."""
    n = context.state["n"] if context.state else 0
    context.state = {"n": n + 1}
    yield {"id": value["id"]}
    for time_ms in context.timers:
        context.delete_timer(time_ms)
    context.set_timer(context.timestamp_ms + WITHIN_MS)
    if value["amount"] == UNLUCKY:
        message = f"{value['id']} is unlucky"
        raise ValueError(message)


def left(_key: str, context: ProcessContext) -> Row:
    """Emit the number of orders of a visit."""
    n = context.state["n"] if context.state else 0
    context.state = None
    return {"id": f"{n} orders"}


def put_together(_key: str, left: str, right: str) -> str:
    """Concatenate the orders of two partitions."""
    return f"{left};{right}"


def every_input(*, only_spark_knows: bool = False) -> Topology:
    """Return a topology with cogroup, all joins and functions, mostly over the topic `orders`.

    Args:
        only_spark_knows: Use expressions with the same meaning whose functions Arrow does not
            have (decision 0021).
    """

    def text(expression: str) -> str:
        return f"reverse(reverse({expression}))" if only_spark_knows else expression

    builder = StreamsBuilder()
    orders, paid = builder.stream("orders", ORDERS), builder.stream("paid", PAID)
    users = builder.table("users", "name STRING")
    many = "array_contains(array(amount > 5), true)" if only_spark_knows else "amount > 5"
    orders.filter(many).group_by(text("city")).aggregate(
        n=count(), ids=collect_list("id")
    ).materialize("plain")
    both = orders.group_by_key().cogroup(n=count(), ids=collect_list("id"))
    both = both.cogroup(paid.group_by_key(), m=count(), total=sum("paid")).windowed_by(WINDOWS)
    both.aggregate().materialize("cogroup")
    merged = orders.map(text("city"), "id", "amount")
    merged = merged.merge(paid.map_values(id="pid", amount="paid"))
    merged.group_by_key().windowed_by(WINDOWS).aggregate(
        n=count(), ids=collect_list("id"), total=sum("amount")
    ).materialize("merged")
    parts = orders.flat_map(text("part"), "id", part="split(concat(city, '/', id), '/')")
    parts.group_by_key().windowed_by(WINDOWS).aggregate(
        n=count(), ids=collect_list("id")
    ).materialize("parts")
    everywhere = builder.global_table("users", "name STRING")
    enriched = orders.left_join(everywhere, key=text("CASE WHEN amount > 5 THEN key END"))
    twice = text("concat(id, '/', id)")
    enriched = enriched.flat_map_values("name", id=f"split({twice}, '/')").map_values(
        "id", name=text("coalesce(name, '?')")
    )
    enriched.group_by_key().aggregate(
        n=count(), ids=collect_list("id"), names=collect_list("name")
    ).materialize("enriched")
    for how, made in (
        ("inner", orders.join(paid, WITHIN)),
        ("left", orders.left_join(paid, WITHIN)),
        ("outer", orders.outer_join(paid, WITHIN)),
    ):
        by_city = made.group_by(text("coalesce(city, 'nowhere')")).windowed_by(WINDOWS)
        by_city.aggregate(n=count(), ids=collect_list("id"), pids=collect_list("pid")).materialize(
            how
        )
    named = orders.left_join(users).group_by(text("coalesce(name, '?')"))
    named.aggregate(n=count(), ids=collect_list("id")).materialize("named")
    orders.map_values("id", city=text("city")).distinct(
        "city", within_ms=WITHIN_MS
    ).group_by_key().aggregate(n=count(), ids=collect_list("id")).materialize("distinct")
    processed = orders.process(visited, "id STRING", state="n INT", on_timer=left)
    processed.group_by_key().aggregate(n=count(), ids=collect_list("id")).materialize("processed")
    looked_up = orders.left_join(users).select_key(text("key")).join(paid, WITHIN)
    looked_up = looked_up.left_join(users.map_values(alias=text("name")))
    looked_up.group_by(text("city")).windowed_by(WINDOWS).aggregate(
        n=count(), ids=collect_list("id"), pids=collect_list("pid"), names=collect_list("name"),
        aliases=collect_list("alias"),
    ).materialize("chained")  # fmt: skip
    with_key = orders.filter(text("key") + " IS NOT NULL")
    items = with_key.flat_map_values(item="split(concat(city, '/', id), '/')")
    twice_joined = orders.join(paid, WITHIN).join(items, WITHIN)
    twice_joined.group_by(text("item")).windowed_by(WINDOWS).aggregate(
        n=count(), ids=collect_list("id"), pids=collect_list("pid")
    ).materialize("joined_twice")
    folded = orders.group_by_key().windowed_by(WINDOWS)
    folded.aggregate(start, append, put_together, "s STRING").materialize("folded")
    _tables(builder, text, many)
    return builder.build()


def _tables(builder: StreamsBuilder, text: Callable[[str], str], many: str) -> None:
    """Add stores of tables, also of orders, as in `every_input`."""
    users, accounts = (
        builder.table("users", "name STRING"), builder.table("accounts", "balance STRING"),
    )  # fmt: skip
    users.outer_join(accounts).materialize("both_tables")
    users.join(accounts).materialize("common_rows")
    updates = users.outer_join(accounts).left_join(builder.table("orders", ORDERS)).to_stream()
    named = text("concat_ws('+', coalesce(name, '-'), coalesce(balance, '-'), coalesce(id, '-'))")
    updates.map_values(row=named).group_by_key().aggregate(
        start, with_row, put_together, "s STRING"
    ).materialize("updated")
    users.filter(text("name") + " LIKE 'u0%'").materialize("some_users")
    newest = builder.table("orders", ORDERS)
    cases = " ".join(f"WHEN amount = {amount} THEN '{user}'" for amount, user in NAMED.items())
    newest.left_join(users, foreign_key=text(f"CASE {cases} END")).materialize("by_foreign_key")
    bought = newest.filter(many).group_by(text("city"))
    bought.aggregate(n=count(), total=sum("amount")).materialize("newest_by_city")
    ending = users.group_by("CASE WHEN name LIKE '%1' OR name LIKE '%3' THEN 'x' ELSE 'y' END")
    ending.aggregate(start, with_name, without_name, put_together, "s STRING").materialize("names")


def random_topics(seed: int) -> dict[str, dict[int, list[Record | bytes]]]:
    """Return records of all topics in two partitions each, with invalid lines and records."""
    random = Random(seed)
    topics: dict[str, dict[int, list[Record | bytes]]] = {}
    for topic, number in (("orders", 40), ("paid", 30), ("users", 8), ("accounts", 8)):
        topics[topic] = {}
        for partition in (0, 1):
            times = random_times(random, number, 200)
            topics[topic][partition] = [
                (random.choice(KEYS), time, _value(random, topic, f"{partition}-{place}"))
                for place, time in enumerate(times)
            ]
    for partition, place in ((0, 7), (1, 21)):
        topics["orders"][partition].insert(place, RUBBISH)
    topics["orders"][1].insert(30, (None, 100, {"id": "keyless", "city": "x", "amount": 9}))
    topics["paid"][0].insert(9, (None, 100, {"pid": "keyless", "paid": 9}))
    return topics


def _value(random: Random, topic: str, name: str) -> Mapping[str, Any] | None:
    amount = random.choice((3, 7, UNLUCKY, 40))
    if topic == "orders":
        return {"id": f"o{name}", "city": random.choice("xyz"), "amount": amount}
    if topic == "paid":
        return {"pid": f"p{name}", "paid": amount}
    # A row of a table, or a tombstone.
    column = "name" if topic == "users" else "balance"
    return None if random.random() < 0.2 else {column: f"{topic[0]}{name}"}
