"""The demo's topology: departures and delays of New York's airports in 2013.

A record is a flight. Its key is the origin airport, and its time is the scheduled departure. The
record arrives when the flight departs. So a delayed flight is out of order. If its delay is greater
than window and grace together, it is late.
"""

from oriel import SlidingWindows, StreamsBuilder
from oriel import aggregates as agg

MINUTE_MS = 60 * 1000

builder = StreamsBuilder()

departed = builder.stream(
    "flights",
    schema="carrier STRING, flight INT, tailnum STRING, dest STRING, "
    "dep_delay DOUBLE, distance INT",
    # A cancelled flight has no delay, because it did not depart.
).filter("dep_delay IS NOT NULL")

half_an_hour = SlidingWindows.of_time_difference_and_grace(30 * MINUTE_MS, 120 * MINUTE_MS)

(
    departed.group_by_key()
    .windowed_by(half_an_hour)
    .aggregate(
        departures=agg.count(), mean_delay=agg.avg("dep_delay"), worst_delay=agg.max("dep_delay")
    )
    .materialize("departures_by_origin")
)

(
    departed.group_by("carrier")
    .windowed_by(half_an_hour)
    .aggregate(
        departures=agg.count(), mean_delay=agg.avg("dep_delay"), worst_delay=agg.max("dep_delay")
    )
    .materialize("departures_by_carrier")
)

topology = builder.build()
