"""Stores of the operations since state format 3, and integer keys (definition 4)."""

from oriel import EmitStrategy, Serdes, StreamsBuilder, TimeWindows, avg, count, sum

TUMBLING = TimeWindows.of_size_and_grace(40, 60)

builder = StreamsBuilder()
orders = builder.stream(
    "orders", schema="amount DOUBLE, item STRING, pieces BIGINT, tags ARRAY<STRING>"
)
users = builder.table("users", schema="city STRING, friend STRING")
prices = builder.table("prices", schema="price DOUBLE")
history = builder.versioned_table("prices", schema="price DOUBLE", history_retention_ms=10_000)
counted = orders.group_by_key().count()

orders.group_by("pieces").count().materialize("by_pieces", key_serde=Serdes.long())
orders.flat_map_values("pieces", tag="tags").group_by("tag").aggregate(
    n=count(), pieces=sum("pieces")
).materialize("tags")
counted.to_stream().group_by_key().aggregate(n=count(), total=sum("count")).materialize("updates")
(
    orders.group_by_key()
    .windowed_by(TUMBLING)
    .emit(EmitStrategy.on_window_close())
    .aggregate(n=count())
    .materialize("finished")
    .to_stream()
    .group_by("n")
    .count()
    .materialize("windows_by_size")
)
users.left_join(prices, foreign_key="friend").materialize("friends_prices")
users.group_by("city").count().materialize("users_by_city")
orders.join(history, grace_ms=80).group_by_key().aggregate(
    n=count(), mean=avg("price")
).materialize("priced")
orders.select_key("item").map_values("amount").to_table().materialize("newest_amounts")
topology = builder.build()
