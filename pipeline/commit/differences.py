"""Compare the definition of a store in the topology with the definition in its table.

After a changed definition over the same state, the rows would match neither the old topology nor
the new one. So a change is rejected, with each difference. The retention can change, because
results do not depend on it. The number of key groups and the generation are always those of the
table.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from oriel.pipeline.lowered import Store, function_texts, source_texts, step_texts
from oriel.pipeline.plan import aggregate_calls
from oriel.pipeline.windows import KeptAggregate, TimeWindows
from oriel.storage import (
    AggregateSpec,
    ForeignCheckpoint,
    IncompatibleStore,
    PartialsSpec,
    StoreDefinition,
    StoreKind,
    WindowSpec,
    is_sink_name,
)
from oriel.storage.delta import delta_type

#: What cannot change as long as the content of a table exists, and what messages call it.
FIXED_FIELDS = {
    "topic": "topic",
    "sources": "source",
    "steps": "chain of steps",
    "grouped_by": "grouping",
    "key_type": "type of keys",
    "window": "window",
    "aggregates": "aggregation",
    "functions": "set of functions",
    "emit": "emission",
    "partials": "set of mergeable aggregates",
}
#: For these fields, the table overrides the topology and the command line.
_RECORDED_FIELDS = ("key_groups", "generation")


def store_definition(
    store: Store,
    aggregates: Mapping[str, Any],
    application: str,
    key_groups: int,
    *,
    kept: Sequence[KeptAggregate] = (),
) -> StoreDefinition:
    """Return the definition of ``store`` for its table.

    Args:
        store: The store.
        aggregates: The Arrow type of each column.
        application: The id under which the pipeline commits.
        key_groups: The number of key groups.
        kept: The aggregates whose partial aggregates the rows keep.
    """
    calls, other = aggregate_calls(store), store.aggregation.computed_by(len(store.inputs))
    windows = store.windows
    return StoreDefinition(
        name=store.name,
        topic=", ".join(store.topics),
        grouped_by=store.grouped_by,
        window=WindowSpec(
            StoreKind(windows.kind),
            windows.length_ms,
            windows.grace_ms,
            # The advance of tumbling windows is their size, so only hopping windows record it.
            cast("TimeWindows", windows).advance_ms if windows.kind == "hopping" else None,
        ),
        aggregates=tuple(
            AggregateSpec(
                name,
                # A function, or a row of joined tables, computes several columns together. Each
                # column then has the text of the whole aggregation.
                calls.get(name, other),
                delta_type(column_type),
            )
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
        partials=tuple(
            PartialsSpec(**{
                **each._asdict(), "type": None if each.type is None else delta_type(each.type),
            })
            for each in kept
        ),
    )  # fmt: skip


def settled(recorded: StoreDefinition, defined: StoreDefinition) -> StoreDefinition:
    """Return the definition to run with: ``defined`` with key groups and generation of the table.

    The key groups must be those of the state. With another number, a task would not find the state
    of its keys (``oriel rescale`` changes both).

    Raises:
        ForeignCheckpoint: the table belongs to another application.
        IncompatibleStore: the definitions differ. The message has each difference.
    """
    # A table of another application can have the same definition, so its owner is compared first.
    refuse_foreign(recorded, defined)
    if found := differences(recorded, defined):
        refuse_differences({defined.name: found})
    return with_recorded_values(recorded, defined)


def refuse_differences(
    changes: Mapping[str, Sequence[str]], readers: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Reject a topology that changes stores or sinks, in one line per store or sink.

    Args:
        changes: The differences, by store or sink.
        readers: The stores and sinks of each topic whose schema or decoding changes.

    Raises:
        IncompatibleStore: ``changes`` is not empty.
    """
    if not changes:
        return
    lines = [
        f"{name if is_sink_name(name) else f'store {name!r}'}: {', and '.join(found)}"
        for name, found in changes.items()
    ]
    # The keys of a dictionary are ordered and distinct. A store that changes itself, and whose
    # topic changes also, is named once.
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


def with_recorded_values(recorded: StoreDefinition, defined: StoreDefinition) -> StoreDefinition:
    """Return ``defined`` with the key groups and the generation of the table."""
    return replace(defined, **{name: getattr(recorded, name) for name in _RECORDED_FIELDS})


def refuse_foreign(recorded: StoreDefinition, defined: StoreDefinition) -> None:
    """Check that the table belongs to the application that opens it.

    Raises:
        ForeignCheckpoint: it belongs to another application.
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
    """Return the differences that are rejected, as strings for messages.

    A field that an older format of the definition lacks is not a difference.
    """
    return differences_in(FIXED_FIELDS, recorded, defined)


def differences_in(titles: Mapping[str, str], recorded: object, defined: object) -> list[str]:
    """Return the differences in the fields of ``titles``, as strings for messages."""
    found = []
    for name, title in titles.items():
        before, now = getattr(recorded, name), getattr(defined, name)
        if before is not None and before != now:
            found.append(
                f"its {title} was {_displayed(before)}, but the topology says {_displayed(now)}"
            )
    return found


def _displayed(value: Any) -> str:
    if not isinstance(value, tuple):
        return str(value)
    return "; ".join(map(str, value)) or "none"
