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
    flattens,
    pairing_join,
    places_of,
    sides_of,
)
from oriel.pipeline.windows import change_suborders


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
    topics = tuple(topic for side in sides_of(join) for topic in _topics_of(side))
    if isinstance(join, Subscriptions | Responses):
        return Origin(topics[:1])
    of_each_table = int(places_of(stream).names_table)
    if isinstance(join, TableChanges):
        of_each_table = len(change_suborders(0))
    # Behind an aggregation changes are updates of rows, each of which is news.
    subtracts = isinstance(join, TableChanges) and not _is_aggregated(stream)
    tables = 1 if _is_flattened(stream) else len(topics)
    return Origin(topics, of_each_table, subtracts, tables if are_updates(stream) else 0)


def _is_flattened(stream: Input | Side) -> bool:
    """Whether a step has made elements of updates, whose suborders tell of that."""
    return flattens(stream.steps) or (
        isinstance(stream.join, TableLookup) and _is_flattened(stream.join.left)
    )


def _topics_of(stream: Side) -> tuple[str, ...]:
    """The topics that its records' places can be of, in the order of ``Places.log_of``."""
    join = pairing_join(stream)
    sides = sides_of(join) if join else ()
    return tuple(t for side in sides for t in _topics_of(side)) or (stream.source.topic,)
