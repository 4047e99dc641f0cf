"""Whose places the records of a stream have that are results of a join."""

from oriel.pipeline.dead_letters import Origin
from oriel.pipeline.language import Input
from oriel.pipeline.windows import NO_NUMBERS


def origin_of(stream: Input) -> Origin | None:
    """Whose places a stream's records have that are a join's results."""
    join = stream.creating_join
    if join is None:
        return None
    topics = tuple(topic for side in join.log_inputs for topic in _topics_of(side))
    if join.is_between_tables and not join.follows_each_record:
        return Origin(topics[:1], NO_NUMBERS)
    # Behind an aggregation changes are updates of rows, each of which is news.
    subtracts = join.are_changes and not stream.is_aggregated
    return Origin(topics, stream.places, subtracts)


def effect_logs(stream: Input) -> int:
    """Of how many logs records are that take effect in an order of their own; of others 0.

    By stream time, and of joined tables by log: which one is in a record's place. Of what has
    waited it is the turn.
    """
    origin = origin_of(stream)
    if origin is not None and stream.are_updates:
        return len(origin.topics)
    return int(stream.is_aggregated or stream.has_apply_order)


def _topics_of(stream: Input) -> tuple[str, ...]:
    """The topics that its records' places can be of, in the order of ``Places.log_of``."""
    join = stream.creating_join
    sides = join.log_inputs if join else ()
    return tuple(t for side in sides for t in _topics_of(side)) or (stream.source.topic,)
