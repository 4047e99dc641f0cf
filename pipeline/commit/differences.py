"""What a topology says of a store, against what its table remembers.

A changed definition over the same state would give rows that neither the old topology nor the new
one gives. So it is refused, with each difference. What can change without that: the retention,
which has no influence on results, and what only counts where the store lives (key groups,
application, generation), which the table knows best.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from oriel.pipeline.language import (
    Functions,
    Store,
    TableRows,
    function_texts,
    source_texts,
    step_texts,
)
from oriel.pipeline.plan import aggregate_calls
from oriel.pipeline.windows import TimeWindows
from oriel.storage import (
    AggregateSpec,
    ForeignCheckpoint,
    IncompatibleStore,
    StoreDefinition,
    StoreKind,
    WindowSpec,
    is_sink_name,
)
from oriel.storage.delta import delta_type

#: What may not change as long as a table's content lives, and what messages call it.
FIXED = {
    "topic": "topic",
    "sources": "source",
    "steps": "chain of steps",
    "grouped_by": "grouping",
    "key_type": "type of keys",
    "window": "window",
    "aggregates": "aggregation",
    "functions": "set of functions",
    "emit": "emission",
}
#: What the table knows best, whatever a topology or a command line says.
_OF_TABLE = ("key_groups", "generation")


def define(
    store: Store, aggregates: Mapping[str, Any], application: str, key_groups: int
) -> StoreDefinition:
    """Return what the table will say about ``store``; ``aggregates`` are columns' Arrow types."""
    calls = aggregate_calls(store)
    windows = store.windows
    advance_ms = windows.advance_ms if isinstance(windows, TimeWindows) else None
    return StoreDefinition(
        name=store.name,
        topic=", ".join(store.topics),
        grouped_by=store.grouped_by,
        window=WindowSpec(
            StoreKind(windows.kind),
            windows.length_ms,
            windows.grace_ms,
            advance_ms if windows.kind == "hopping" else None,
        ),
        aggregates=tuple(
            AggregateSpec(name, calls.get(name, _made_by(store)), delta_type(column_type))
            for name, column_type in aggregates.items()
        ),
        key_groups=key_groups,
        retention_ms=store.retention_ms,
        application=application,
        emit=store.emit.name,
        sources=source_texts(store),
        steps=step_texts(store),
        functions=function_texts(store),
        key_type=store.key_type.name,
    )


def settled(recorded: StoreDefinition, defined: StoreDefinition) -> StoreDefinition:
    """Return the definition to run with: ``defined``, with what the table knows best.

    Key groups are those of the state: another number of them would look for a key's state with
    another task (``oriel rescale`` changes both).

    Raises:
        ForeignCheckpoint: the table belongs to another application.
        IncompatibleStore: the topology says something else; the message has each difference.
    """
    refuse_foreign(recorded, defined)
    if found := differences(recorded, defined):
        refuse_changes({defined.name: found})
    return as_table_knows(recorded, defined)


def refuse_changes(
    changes: Mapping[str, Sequence[str]], readers: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Refuse a topology that changes stores or sinks, in a line for each of them.

    ``changes`` has the differences by name, ``readers`` the stores and sinks of each topic whose
    schema or decoding changes.

    Raises:
        IncompatibleStore: there is a change.
    """
    if not changes:
        return
    lines = [
        f"{name if is_sink_name(name) else f'store {name!r}'}: {', and '.join(found)}"
        for name, found in changes.items()
    ]
    names = dict.fromkeys(changes)
    for topic, stores in (readers or {}).items():
        names |= dict.fromkeys(stores)
        lines.append(
            f"topic {topic!r}: its schema or decoding changes, so every store of the topic must be "
            f"rebuilt: {', '.join(stores)}"
        )
    command = f"`oriel rebuild {' '.join(map(shlex.quote, names))} TOPOLOGY.py`"
    action = (
        "Run the topology as it was, or use other names for changed stores and output topics. To "
        f"compute them again from the topics, use {command} with the options of `oriel run`"
    )
    raise IncompatibleStore("\n".join(lines) + f".{' ' if len(lines) == 1 else chr(10)}{action}")


def as_table_knows(recorded: StoreDefinition, defined: StoreDefinition) -> StoreDefinition:
    """``defined`` with the key groups and the generation of the table."""
    return replace(defined, **{name: getattr(recorded, name) for name in _OF_TABLE})


def refuse_foreign(recorded: StoreDefinition, defined: StoreDefinition) -> None:
    """Go on only with a table of the same application.

    Raises:
        ForeignCheckpoint: it belongs to another one.
    """
    if recorded.application != defined.application:
        message = (
            f"store {defined.name!r}: the table belongs to application {recorded.application}, "
            f"but the checkpoint belongs to {defined.application}. A new checkpoint over an old "
            "table would repeat records. Run the pipeline that wrote the table (--name), restore "
            "its checkpoint, or use an empty data directory"
        )
        raise ForeignCheckpoint(message)


def differences(recorded: StoreDefinition, defined: StoreDefinition) -> list[str]:
    """Each difference that is refused, in words; what an older format doesn't say is none."""
    return differences_in(FIXED, recorded, defined)


def differences_in(titles: Mapping[str, str], recorded: object, defined: object) -> list[str]:
    """Each difference in the fields that have ``titles``."""
    found = []
    for name, title in titles.items():
        before, now = getattr(recorded, name), getattr(defined, name)
        if before is not None and before != now:
            found.append(
                f"its {title} was {_written(before)}, but the topology says {_written(now)}"
            )
    return found


def _made_by(store: Store) -> str:
    """How columns that no declarative aggregate makes come about, for people."""
    if isinstance(store.aggregation, Functions):
        return store.aggregation.step
    if isinstance(store.aggregation, TableRows) and len(store.inputs) > 1:
        return f"{store.aggregation.how} join of tables"
    return "the table's own column"


def _written(value: Any) -> str:
    if not isinstance(value, tuple):
        return str(value)
    return "; ".join(map(str, value)) or "none"
