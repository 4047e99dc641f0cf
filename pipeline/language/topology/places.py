"""How the records of a stream are told apart, and which of them take effect in an own order."""

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
    """Whether its records are elements of records, flattened in front of a lookup or behind it.

    The rows that a record has changed are such, too, where these may be several.
    """
    return pairing_join(stream) is None and places_of(stream).numbers > 0


def places_of(stream: Side | Input) -> Places:
    """How its records are told apart, of which several can have one place in the log."""
    places = places_in_front(stream)
    return places.flattened() if flattens(stream.steps) else places


def flattened_places(stream: Side | Input) -> Places | None:
    """How records are told apart that a stream's own steps flatten; None: they flatten none."""
    return places_in_front(stream) if flattens(stream.steps) else None


def places_in_front(stream: Side | Input) -> Places:
    """How the records are told apart that a stream's own steps read."""
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
        # Of a change the old row, and the new one; so of a row that names another key.
        places = places_side_by_side([places_of(side) for side in log_sides(join)])
        return places.of_changes() if isinstance(join, TableChanges | Subscriptions) else places
    return Places(numbers=int(join is not None))


def log_sides(join: Join) -> tuple[Side, ...]:
    """The sides of whose logs results are, one behind the other."""
    if isinstance(join, TableUpdates) and join.by_foreign_key:
        # Responses are of the left table's logs, too.
        return (join.left, named_by(join))
    return sides_of(join)


def named_by(join: TableUpdates) -> Side:
    """The table whose rows those of another one name."""
    responses = join.tables[RIGHT].join
    assert isinstance(responses, Responses), "what a join by a foreign key reads"
    return responses.right


def _are_of_tables(join: Join) -> bool:
    """Whether results follow each record of tables, or of one that tells rows."""
    if isinstance(join, Subscriptions | Responses):
        return join.each
    return isinstance(join, TableUpdates | TableChanges | AggregateUpdates)


def is_one_stream(stream: Side | Input) -> bool:
    """Whether its records are those of one stream, which have an order and a clock."""
    join = pairing_join(stream)
    return join is None or (isinstance(join, GraceBuffer) and is_one_stream(join.left))


def are_updates(stream: Side | Input) -> bool:
    """Whether a stream's records are updates of several logs or their changes, in an own order.

    The changes of an aggregation are such, too: a row of it is one of all partitions.
    """
    join = pairing_join(stream)
    if join is None or not _are_of_tables(join):
        return False
    if isinstance(join, TableUpdates | TableChanges):
        return len(join.tables) > 1 or any(map(tells_rows, join.tables))
    return True


def has_own_order(stream: Side | Input) -> bool:
    """Whether its records take effect in another order than that of their places."""
    return are_updates(stream) or isinstance(pairing_join(stream), GraceBuffer)


def share_elements(streams: Sequence[Input]) -> bool:
    """Whether the records of all are elements of the same records, flattened before they part."""
    flattened = [
        stream.steps[: max(n for n, step in enumerate(stream.steps, 1) if flattens([step]))]
        for stream in streams
        if flattens(stream.steps)
    ]
    first = streams[0]
    return len(flattened) == len(streams) and all(
        (stream.source, len(steps)) == (first.source, len(flattened[0]))
        and stream.join is first.join
        # Branches have the very steps in front of them: a column can't be compared.
        and all(map(is_, steps, flattened[0]))
        for stream, steps in zip(streams, flattened, strict=True)
    )


def fan_outs_of(stream: Side | Input) -> int:
    """By how many joins by a foreign key one record comes to be any number of rows.

    A right record is told to all who name its key, and if these are named, to all who name theirs.
    """
    join = stream.join
    if join is None:
        return 0
    if isinstance(join, TableUpdates) and join.by_foreign_key:
        return max(fan_outs_of(join.left), 1 + fan_outs_of(named_by(join)))
    return max(map(fan_outs_of, sides_of(join)))


def became_table(table: Side | Input) -> bool:
    """Whether a table is a stream's: a topic's is read as one, and its filters delete rows."""
    is_filtered = any(isinstance(step, Filter) and not step.of_table for step in table.steps)
    is_read = table.join is None and table.source.step == "stream"
    return is_filtered or is_read or isinstance(table.join, TableLookup)


def tells_rows(stream: Side | Input) -> bool:
    """Whether it is a table whose rows come as updates: of an aggregation, or of joined tables.

    Of these the last one of a key is its row, in the order in which they take effect. What looked
    up rows behind is such, too.
    """
    return isinstance(stream.join, AggregateUpdates | TableUpdates) or are_updates(stream)
