"""Visits of users: a session ends after half an hour without a click."""

from datetime import timedelta

from oriel import SessionWindows, StreamsBuilder
from oriel import aggregates as agg

GAP = timedelta(minutes=30)
GRACE = timedelta(minutes=5)

builder = StreamsBuilder()
(
    builder.stream("clicks", schema="page STRING, ms BIGINT")
    .group_by_key()
    .windowed_by(SessionWindows.of_inactivity_gap_and_grace(GAP, GRACE))
    .aggregate(
        clicks=agg.count(),
        entry=agg.first("page"),
        exit=agg.last("page"),
        pages=agg.approx_count_distinct("page"),
        slowest_ms=agg.max("ms"),
    )
    .materialize("visits")
)
topology = builder.build()
