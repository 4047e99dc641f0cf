"""A stream that is written to a Kafka topic."""

from oriel import StreamsBuilder

builder = StreamsBuilder()
orders = builder.stream("orders", schema="amount DOUBLE, item STRING, pieces BIGINT")
orders.filter("amount > 0").map_values("item", "pieces").to("sold")
topology = builder.build()
