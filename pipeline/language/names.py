"""The rules for the names of topics, stores, value columns and columns of a store.

A name must be valid for a directory, a Delta table or a Spark schema, and must not equal a column
that the pipeline adds to its rows.
"""

import re
from collections.abc import Iterable, Sequence

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.stage_columns import STAGE_COLUMNS
from oriel.storage import RESERVED_COLUMNS, InvalidDefinition, check_store_name

#: Kafka's rule for topics. In an event log, a topic is a directory, and the same rule applies.
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")

#: A column name that Delta accepts without column mapping.
_DELTA_COLUMN = re.compile(r"[^ ,;{}()\n\t=]+")

#: The headers of each message of a record.
OWN_HEADERS = ("source", "timestamp_ms")
#: Columns that expressions can read in addition to the columns of the value.
SCOPE_COLUMNS = ("key", "timestamp_ms")
#: Further columns that expressions can read after an aggregation with windows.
WINDOW_BOUNDS = ("window_start_ms", "window_end_ms")


def check_topic(topic: str) -> str:
    """Return a topic if its name is valid.

    Raises:
        InvalidTopology: The name is not a string of 1 to 249 valid characters, or is ``.`` or
            ``..``.
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
            f"topic name {topic!r} is not valid: use 1 to 249 characters of a-z, A-Z, 0-9, '.', "
            "'_' and '-', and neither '.' nor '..' (Kafka's topic rule)"
        )
        raise InvalidTopology(message)
    return topic


def check_new_store(name: str, store_names: Iterable[str]) -> str:
    """Return the name of a new store if it is valid and differs from the other names.

    Raises:
        InvalidTopology: The name is invalid, or another store has it.
    """
    try:
        check_store_name(name)
    except InvalidDefinition as error:
        raise InvalidTopology(str(error)) from error
    for other in store_names:
        if other.lower() == name.lower():
            # The name of a store is the name of a directory, and some file systems ignore case.
            and_this = "" if other == name else f" and {name!r}: they differ only in case"
            message = f"materialize: two stores are named {other!r}{and_this}"
            raise InvalidTopology(message)
    return name


def check_names(step: str, names: Sequence[str]) -> None:
    """Reject names that columns of a store cannot have. The message starts with ``step``.

    Raises:
        InvalidTopology: A name is empty, invalid or reserved, or two names are equal.
    """
    for name in names:
        if not name or not _DELTA_COLUMN.fullmatch(name):
            message = f"{step}: a Delta table cannot have a column named {name!r}. Use another name"
            raise InvalidTopology(message)
        # A response also has the fields "store" and "position".
        if name.lower() in RESERVED_COLUMNS or name.lower() in {"store", "position"}:
            message = (
                f"{step}: the name {name!r} is a column of every store. Use another name, for "
                f"example map_values(my_{name}={name!r})"
            )
            raise InvalidTopology(message)
    if len({name.lower() for name in names}) != len(names):
        message = f"{step}: two names are equal or differ in case only: {sorted(names)}"
        raise InvalidTopology(message)


def reject_scope_names(step: str, names: Iterable[str]) -> None:
    """Reject value columns named ``key`` or ``timestamp_ms`` in any case, or with a leading ``__``.

    Raises:
        InvalidTopology: A column has such a name. The message starts with ``step``.
    """
    taken = sorted(name for name in names if name.lower() in SCOPE_COLUMNS or name.startswith("__"))
    if taken:
        message = (
            f"{step}: the value columns {taken} have names that the pipeline needs "
            "(key, timestamp_ms, a leading __). Leave them out of the schema"
        )
        raise InvalidTopology(message)


def reject_internal_names(store: str, used: Iterable[str]) -> None:
    """Reject value columns that an aggregation reads, if the pipeline adds a column of that name.

    Columns that are not read are dropped after the last step, so they can have any name.

    Raises:
        InvalidTopology: A column has such a name. The message describes how to rename it.
    """
    # Spark ignores the case of names.
    taken = sorted(name for name in used if name.lower() in STAGE_COLUMNS)
    if taken:
        message = (
            f"store {store!r}: the value columns {taken} have names that the pipeline needs for "
            "itself. Rename them in the topic's records, or in map_values(new_name='old_name')"
        )
        raise InvalidTopology(message)
