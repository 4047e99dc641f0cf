"""Only sliding windows, because the language of the first formats has no others."""

from typing import Any

from oriel import SlidingWindows, StreamsBuilder, avg, collect_list, count, max, sum

builder = StreamsBuilder()
orders = builder.stream("orders", schema="amount DOUBLE, item STRING, pieces BIGINT")
windows = SlidingWindows.of_time_difference_and_grace(40, 60)
columns: dict[str, Any] = {
    "n": count(), "total": sum("amount"), "mean": avg("amount"), "most": max("item"),
    "items": collect_list("item"),
}  # fmt: skip
orders.filter("amount > -100").group_by_key().windowed_by(windows).aggregate(**columns).materialize(
    "sliding"
)
topology = builder.build()
