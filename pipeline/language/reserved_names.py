"""Names that rows have for themselves on their way to the engine."""

from collections.abc import Iterable

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.hops import RESERVED_COLUMNS

#: What rows for the stamp, and behind it, have beside the value's columns.
OF_ROWS = RESERVED_COLUMNS


#: What rows have in front of the steps beside the value's columns, for expressions to use.
SCOPE = ("key", "timestamp_ms")


def refuse_taken(step: str, names: Iterable[str]) -> None:
    """Refuse value columns that would hide the record's own (names ignore case, as in SQL).

    Raises:
        InvalidTopology: there is one; the message names the step or the source.
    """
    taken = sorted(n for n in names if n.lower() in SCOPE or n.startswith("__"))
    if taken:
        message = (
            f"{step}: the value columns {taken} have names that the pipeline needs "
            "(key, timestamp_ms, a leading __); leave them out of the schema"
        )
        raise InvalidTopology(message)


def refuse_hidden(store: str, used: Iterable[str]) -> None:
    """Refuse value columns that an aggregation reads under a name of the rows.

    Raises:
        InvalidTopology: there is one; the message says how to rename it.
    """
    # Spark does not tell names apart by case.
    taken = sorted(name for name in used if name.lower() in OF_ROWS)
    if taken:
        message = (
            f"store {store!r}: the value columns {taken} have names that the pipeline needs for "
            "its own; rename them in the topic's records, or in map_values(new_name='old_name')"
        )
        raise InvalidTopology(message)
