"""Revenue by city: each order is joined with the row of its customer, which has the city."""

from datetime import timedelta

from oriel import StreamsBuilder, TimeWindows
from oriel import aggregates as agg

builder = StreamsBuilder()
customers = builder.table("customers", schema="city STRING, since INT")
orders = builder.stream("orders", schema="item STRING, amount DOUBLE")
(
    # The key of both is the customer. An order of an unknown customer is left out.
    orders.join(customers)
    .group_by("city")
    .windowed_by(TimeWindows.of_size_and_grace(timedelta(hours=1), timedelta(minutes=10)))
    .aggregate(orders=agg.count(), revenue=agg.sum("amount"), largest=agg.max("amount"))
    .materialize("revenue_by_city")
)
# Also store the table, so that the service can return its rows.
customers.materialize("customers")
topology = builder.build()
