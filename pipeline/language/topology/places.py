"""The lineage of the records of a stream, and the streams with their own apply order."""

from collections.abc import Sequence
from operator import is_

from oriel.pipeline.language.topology.inputs import (
    AggregateUpdates,
    GraceBuffer,
    Input,
    Join,
    MergedStreams,
    Responses,
    Side,
    StreamJoin,
    Subscriptions,
    TableChanges,
    TableLookup,
    TableUpdates,
    VersionedRecords,
    pairing_join,
    sides_of,
)
from oriel.pipeline.language.topology.steps import Filter, flattens
from oriel.pipeline.windows import RIGHT, Places, merged_places, places_side_by_side


def has_elements(stream: Side | Input) -> bool:
    """Return whether records are flattened records, before or after a join with a table.

    Updates are also flattened records if a record can change several rows.
    """
    return pairing_join(stream) is None and places_of(stream).numbers > 0


def places_of(stream: Side | Input) -> Places:
    """Return the lineage of records. Several records can have the same position in the log."""
    places = places_in_front(stream)
    return places.flattened() if flattens(stream.steps) else places


def flattened_places(stream: Side | Input) -> Places | None:
    """Return the lineage of records before they are flattened, or None without flattening."""
    return places_in_front(stream) if flattens(stream.steps) else None


def places_in_front(stream: Side | Input) -> Places:
    """Return the lineage of the records that the steps of a stream read."""
    join = stream.join
    if isinstance(join, AggregateUpdates):
        sides = tuple(map(places_of, sides_of(join)))
        return (places_side_by_side(sides) if join.others else sides[0]).of_updates(join.windows)
    if isinstance(join, TableLookup | VersionedRecords | GraceBuffer):
        return places_of(join.left)
    if isinstance(join, StreamJoin):
        return places_of(join.left).joined(places_of(join.right))
    if isinstance(join, MergedStreams):
        return merged_places([places_of(side) for side in join.streams])
    if join is not None and _are_of_tables(join):
        # A change has an old and a new row. A new foreign key also has an old and a new one.
        places = places_side_by_side([places_of(side) for side in log_sides(join)])
        return places.of_changes() if isinstance(join, TableChanges | Subscriptions) else places
    return Places(numbers=int(join is not None))


def log_sides(join: Join) -> tuple[Side, ...]:
    """Return the inputs whose logs the results are from, in order."""
    if isinstance(join, TableUpdates) and join.by_foreign_key:
        # Responses also follow records of the left table.
        return (join.left, named_by(join))
    return sides_of(join)


def named_by(join: TableUpdates) -> Side:
    """Return the right table of a foreign-key join."""
    responses = join.tables[RIGHT].join
    assert isinstance(responses, Responses), "a foreign-key join reads responses"
    return responses.right


def _are_of_tables(join: Join) -> bool:
    """Return whether results follow each record of tables or of updates."""
    if isinstance(join, Subscriptions | Responses):
        return join.each
    return isinstance(join, TableUpdates | TableChanges | AggregateUpdates)


def is_one_stream(stream: Side | Input) -> bool:
    """Return whether records are from one stream, with one order and one stream time."""
    join = pairing_join(stream)
    return join is None or (isinstance(join, GraceBuffer) and is_one_stream(join.left))


def are_updates(stream: Side | Input) -> bool:
    """Return whether records are updates or changes of several logs, in their own apply order.

    Changes of an aggregation are included, because its rows are merged from all partitions.
    """
    join = pairing_join(stream)
    if join is None or not _are_of_tables(join):
        return False
    if isinstance(join, TableUpdates | TableChanges):
        return len(join.tables) > 1 or any(map(tells_rows, join.tables))
    return True


def has_own_order(stream: Side | Input) -> bool:
    """Return whether the apply order of records differs from their positions in the log."""
    return are_updates(stream) or isinstance(pairing_join(stream), GraceBuffer)


def share_elements(streams: Sequence[Input]) -> bool:
    """Return whether all streams are branches of the same flattened records."""
    flattened = [
        stream.steps[: max(n for n, step in enumerate(stream.steps, 1) if flattens([step]))]
        for stream in streams
        if flattens(stream.steps)
    ]
    first = streams[0]
    return len(flattened) == len(streams) and all(
        (stream.source, len(steps)) == (first.source, len(flattened[0]))
        and stream.join is first.join
        # The steps before the split are the same objects. Spark columns cannot be compared.
        and all(map(is_, steps, flattened[0]))
        for stream, steps in zip(streams, flattened, strict=True)
    )


def fan_outs_of(stream: Side | Input) -> int:
    """Return the number of nested foreign-key joins that one record can fan out through.

    A right record updates all left rows that reference it, and all rows that reference these rows.
    """
    join = stream.join
    if join is None:
        return 0
    if isinstance(join, TableUpdates) and join.by_foreign_key:
        return max(fan_outs_of(join.left), 1 + fan_outs_of(named_by(join)))
    return max(map(fan_outs_of, sides_of(join)))


def became_table(table: Side | Input) -> bool:
    """Return whether a stream became this table. Filters of a topic's table delete rows."""
    is_filtered = any(isinstance(step, Filter) and not step.of_table for step in table.steps)
    is_read = table.join is None and table.source.step == "stream"
    return is_filtered or is_read or isinstance(table.join, TableLookup)


def tells_rows(stream: Side | Input) -> bool:
    """Return whether it is the updates of an aggregation or of joined tables.

    The last update of a key in apply order is its row. Results of later joins with tables are
    included.
    """
    return isinstance(stream.join, AggregateUpdates | TableUpdates) or are_updates(stream)
