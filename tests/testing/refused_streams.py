"""Streams whose records are not those of a topic in the order of its log."""

from oriel import JoinWindows, KStream, StreamsBuilder


def joined_pair(builder: StreamsBuilder) -> KStream:
    """Return the results of a join of two streams."""
    within = JoinWindows.of_time_difference_with_no_grace(5)
    return builder.stream("a", "x INT").join(builder.stream("b", "y INT"), within)


def updates(builder: StreamsBuilder) -> KStream:
    """Return the updates of an aggregation."""
    return builder.stream("a", "x INT").group_by_key().count().to_stream()
