"""The alert of KIP-450: a device whose final count of heartbeats in a window is below a threshold.

An open window can still get more records, so only final windows are written. ``examples.webhook``
sends an alert for each window with fewer than ``LEAST_BEATS``.
"""

from datetime import timedelta

from oriel import SlidingWindows, StreamsBuilder, until_window_closes
from oriel import aggregates as agg

#: A device sends a heartbeat once per minute, so five minutes have five or six heartbeats.
WINDOW = timedelta(minutes=5)
GRACE = timedelta(minutes=1)
LEAST_BEATS = 4

STORE = "beats_in_five_minutes"

builder = StreamsBuilder()
(
    builder.stream("heartbeats", schema="battery DOUBLE")
    .group_by_key()
    .windowed_by(SlidingWindows.of_time_difference_and_grace(WINDOW, GRACE))
    .aggregate(beats=agg.count(), battery=agg.min("battery"))
    .suppress(until_window_closes())
    .materialize(STORE)
)
topology = builder.build()
