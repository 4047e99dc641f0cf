"""The topics of the source records of join results."""

from oriel.pipeline.dead_letters import RecordTopics
from oriel.pipeline.lowered import Input
from oriel.pipeline.windows import Lineage


def record_topics_of(stream: Input) -> RecordTopics | None:
    """Return the topics of a stream of join results, or None for records of a source."""
    join = stream.creating_join
    if join is None:
        return None
    topics = tuple(topic for side in join.log_inputs for topic in _topics_of(side))
    if join.is_between_tables and not join.follows_each_record:
        return RecordTopics(topics[:1], Lineage())
    # After an aggregation, each change is an update of a row, and each update is new.
    subtracts = join.are_changes and not stream.is_aggregated
    return RecordTopics(topics, stream.lineage, subtracts)


def apply_order_logs(stream: Input) -> int:
    """Return the number of logs of records with an apply order, or 0 without an apply order.

    The apply order is the stream time and, for joined tables, the log. The stream time of a record
    after a buffer is its turn (``GraceBufferEngine``).
    """
    origin = record_topics_of(stream)
    if origin is not None and stream.are_updates:
        return len(origin.topics)
    return int(stream.is_aggregated or stream.has_apply_order)


def _topics_of(stream: Input) -> tuple[str, ...]:
    """Return the topics of the source records, in the order of ``Lineage.log_of``."""
    join = stream.creating_join
    sides = join.log_inputs if join else ()
    # An input without a creating join is one log, the topic of its source.
    return tuple(t for side in sides for t in _topics_of(side)) or (stream.source.topic,)
