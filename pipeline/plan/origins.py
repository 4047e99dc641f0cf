"""Whose places the records of a stream have that are results of a join."""

from oriel.pipeline.dead_letters import Origin
from oriel.pipeline.language import (
    AggregateUpdates,
    Input,
    Responses,
    Side,
    Subscriptions,
    TableChanges,
    TableLookup,
    are_updates,
    has_own_order,
    log_sides,
    pairing_join,
    places_of,
)
from oriel.pipeline.windows import NO_NUMBERS


def _is_aggregated(stream: Input | Side) -> bool:
    """Whether its records are updates of an aggregation, whatever these looked up."""
    join = stream.join
    return isinstance(join, AggregateUpdates) or (
        isinstance(join, TableLookup) and _is_aggregated(join.left)
    )


def origin_of(stream: Input | Side) -> Origin | None:
    """Whose places a stream's records have that are a join's results."""
    join = pairing_join(stream)
    if join is None:
        return None
    topics = tuple(topic for side in log_sides(join) for topic in _topics_of(side))
    if isinstance(join, Subscriptions | Responses) and not join.each:
        return Origin(topics[:1], NO_NUMBERS)
    # Behind an aggregation changes are updates of rows, each of which is news.
    subtracts = isinstance(join, TableChanges) and not _is_aggregated(stream)
    return Origin(topics, places_of(stream), subtracts)


def effect_logs(stream: Input | Side) -> int:
    """Of how many logs records are that take effect in an order of their own; of others 0.

    By stream time, and of joined tables by log: which one is in a record's place. Of what has
    waited it is the turn.
    """
    origin = origin_of(stream)
    if origin is not None and are_updates(stream):
        return len(origin.topics)
    return int(_is_aggregated(stream) or has_own_order(stream))


def _topics_of(stream: Side) -> tuple[str, ...]:
    """The topics that its records' places can be of, in the order of ``Places.log_of``."""
    join = pairing_join(stream)
    sides = log_sides(join) if join else ()
    return tuple(t for side in sides for t in _topics_of(side)) or (stream.source.topic,)
