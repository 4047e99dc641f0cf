"""Revenue by city: each order finds its customer's row in a table, which says the city."""

from datetime import timedelta

from oriel import StreamsBuilder, TimeWindows
from oriel import aggregates as agg

builder = StreamsBuilder()
customers = builder.table("customers", schema="city STRING, since INT")
orders = builder.stream("orders", schema="item STRING, amount DOUBLE")
(
    # Both have the customer's number as their key. An order without a customer is left out.
    orders.join(customers)
    .group_by("city")
    .windowed_by(TimeWindows.of_size_and_grace(timedelta(hours=1), timedelta(minutes=10)))
    .aggregate(orders=agg.count(), revenue=agg.sum("amount"), largest=agg.max("amount"))
    .materialize("revenue_by_city")
)
# The table itself can be asked, too.
customers.materialize("customers")
topology = builder.build()
