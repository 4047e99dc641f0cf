"""A store for each kind of windows and join that state of format 3 has had from its start."""

from typing import Any

from oriel import (
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    approx_count_distinct,
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

SLIDING = SlidingWindows.of_time_difference_and_grace(40, 60)
TUMBLING = TimeWindows.of_size_and_grace(40, 60)
HOPPING = TUMBLING.advance_by(20)
SESSIONS = SessionWindows.of_inactivity_gap_and_grace(15, 60)
JOINED = JoinWindows.of_time_difference_and_grace(30, 60)
AGGREGATES: dict[str, Any] = {
    "n": count(), "total": sum("amount"), "pieces": sum("pieces"), "mean": avg("amount"),
    "least": min("amount"), "most": max("item"), "oldest": first("item"), "newest": last("item"),
    "spread": stddev("amount"), "items": collect_list("item"),
    "different": approx_count_distinct("item"), "median": approx_quantile("amount", 0.5),
}  # fmt: skip


def begin() -> dict[str, Any]:
    """Return the aggregate without records."""
    return {"text": "", "n": 0}


def add(key: str, value: dict[str, Any] | None, old: dict[str, Any]) -> dict[str, Any]:
    """Append the record's item."""
    item = "-" if value is None else value["item"]
    return {"text": f"{old['text']}+{item}", "n": old["n"] + 1}


def merge(key: str, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Return both aggregates, with the boundary between them visible."""
    return {"text": f"({left['text']}|{right['text']})", "n": left["n"] + right["n"]}


TEXTS = "text STRING, n BIGINT"

builder = StreamsBuilder()
orders = builder.stream("orders", schema="amount DOUBLE, item STRING, pieces BIGINT")
payments = builder.stream("payments", schema="method STRING")
users = builder.table("users", schema="city STRING")
prices = builder.table("prices", schema="price DOUBLE")
by_key = orders.group_by_key()

by_key.windowed_by(SLIDING).aggregate(**AGGREGATES).materialize("sliding")
by_key.windowed_by(HOPPING).aggregate(**AGGREGATES).materialize("hopping")
by_key.windowed_by(SESSIONS).aggregate(**AGGREGATES).materialize("sessions")
by_key.aggregate(**AGGREGATES).materialize("totals")
(
    by_key.windowed_by(TUMBLING)
    .emit(EmitStrategy.on_window_close())
    .aggregate(n=count())
    .materialize("closed")
)
by_key.windowed_by(SLIDING).aggregate(begin, add, merge, schema=TEXTS).materialize("sliding_texts")
by_key.windowed_by(SESSIONS).aggregate(begin, add, merge, schema=TEXTS).materialize("session_texts")
(
    by_key.cogroup(orders=count(), sold=max("amount"))
    .cogroup(payments.group_by_key(), paid=count())
    .windowed_by(TUMBLING)
    .aggregate()
    .materialize("trade")
)
orders.join(payments, JOINED).group_by("method").windowed_by(TUMBLING).count().materialize("paid")
(
    orders.outer_join(payments, JOINED)
    .group_by_key()
    .windowed_by(TUMBLING)
    .aggregate(n=count(), paid=count("method"))
    .materialize("paid_or_not")
)
orders.left_join(users).group_by("city").count().materialize("by_city")
users.left_join(prices).materialize("offers")
topology = builder.build()
