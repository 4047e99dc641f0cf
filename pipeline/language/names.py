"""Which names are allowed: of topics, of stores, of value columns and of a store's columns.

Each rule has its reason in what holds the name: a folder, a Delta table, a Spark schema, or the
rows on their way to the engine, which have columns of their own.
"""

import re
from collections.abc import Iterable, Sequence

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.hops import HOP_COLUMNS
from oriel.storage import RESERVED_COLUMNS, InvalidDefinition, check_store_name

#: Kafka's rule for topics; the event log keeps it too, as topics are folders there.
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")

#: A column's name that Delta takes without column mapping.
_DELTA_COLUMN = re.compile(r"[^ ,;{}()\n\t=]+")

#: Columns of rows in front of the steps beside the value's, for expressions to use.
SCOPE = ("key", "timestamp_ms")
#: And those beside the aggregates of a row behind an aggregation with windows.
WINDOW_BOUNDS = ("window_start_ms", "window_end_ms")


def check_topic(topic: str) -> str:
    """Return ``topic`` if it is a valid topic name.

    Raises:
        InvalidTopology: the name is empty, too long, ``.`` or ``..``, or has other characters.
    """
    if callable(topic):
        message = (
            f"topic {topic!r} is a function, and topics are fixed. Call split(), and write each "
            "branch with its own to(topic)"
        )
        raise InvalidTopology(message)
    valid = isinstance(topic, str) and _TOPIC_NAME.fullmatch(topic)
    if not valid or topic in {".", ".."}:
        message = (
            f"topic name {topic!r} is not valid: use 1 to 249 letters, digits, '.', '_' or '-', "
            "and neither '.' nor '..' (Kafka's topic rule)"
        )
        raise InvalidTopology(message)
    return topic


def check_new_store(name: str, store_names: Iterable[str]) -> str:
    """Return ``name`` if it can be a store's beside ``store_names``.

    Raises:
        InvalidTopology: it is no store name, or taken.
    """
    try:
        check_store_name(name)
    except InvalidDefinition as error:
        raise InvalidTopology(str(error)) from error
    for other in store_names:
        if other.lower() == name.lower():
            # Each has a folder, and some file systems don't tell these names apart.
            and_this = "" if other == name else f" and {name!r}: they differ only in case"
            message = f"materialize: two stores are named {other!r}{and_this}"
            raise InvalidTopology(message)
    return name


def check_names(step: str, names: Sequence[str]) -> None:
    """Refuse columns that a store's table can't have; ``step`` begins the message.

    Raises:
        InvalidTopology: a name is empty, odd, taken, or there twice.
    """
    for name in names:
        if not name or not _DELTA_COLUMN.fullmatch(name):
            message = f"{step}: a Delta table can't have a column named {name!r}"
            raise InvalidTopology(message)
        # "store" and "position" stand beside the columns in an answer.
        if name.lower() in RESERVED_COLUMNS or name.lower() in {"store", "position"}:
            message = (
                f"{step}: the name {name!r} is a column of every store. Use another name, for "
                f"example map_values(my_{name}={name!r})"
            )
            raise InvalidTopology(message)
    if len({name.lower() for name in names}) != len(names):
        message = f"{step}: two names are equal or differ in case only: {sorted(names)}"
        raise InvalidTopology(message)


def refuse_taken(step: str, names: Iterable[str]) -> None:
    """Refuse value columns that would hide the record's own (names ignore case, as in SQL).

    Raises:
        InvalidTopology: there is one; the message names the step or the source.
    """
    taken = sorted(name for name in names if name.lower() in SCOPE or name.startswith("__"))
    if taken:
        message = (
            f"{step}: the value columns {taken} have names that the pipeline needs "
            "(key, timestamp_ms, a leading __). Leave them out of the schema"
        )
        raise InvalidTopology(message)


def refuse_hidden(store: str, used: Iterable[str]) -> None:
    """Refuse value columns that an aggregation reads under a name of the rows.

    Columns that are not read end with the last step, so any name will do for them.

    Raises:
        InvalidTopology: there is one; the message says how to rename it.
    """
    # Spark does not tell names apart by case.
    taken = sorted(name for name in used if name.lower() in HOP_COLUMNS)
    if taken:
        message = (
            f"store {store!r}: the value columns {taken} have names that the pipeline needs for "
            "itself. Rename them in the topic's records, or in map_values(new_name='old_name')"
        )
        raise InvalidTopology(message)
