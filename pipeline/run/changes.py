"""Find all changes of a topology to its existing stores and sinks, and report them together.

Each rebuild reads the whole log, and each start of Spark costs seconds. So one error names every
store that must be rebuilt, and `oriel rebuild` computes several.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from oriel.pipeline.commit import (
    Checkpoint,
    SinkDefinition,
    differences,
    refuse_differences,
    sink_differences,
)
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import Topology
from oriel.pipeline.lowered import LoweredTopology, Store
from oriel.pipeline.run.publishing import check_publications
from oriel.storage import DataLayout, StoreDefinition
from oriel.storage.delta import DeltaLog, has_table


class Change(NamedTuple):
    """The changes to a store or a sink.

    Attributes:
        differences: The differences of the definitions, as strings for messages.
        topics: The topics whose schema or decoding changes.
    """

    differences: Sequence[str]
    topics: Sequence[str]


#: A store or sink of the topology, and its definition in the topology.
Defined = tuple[Store, StoreDefinition | SinkDefinition]


def check_topology(
    topology: Topology, publish_options: Mapping[str, str] | None, rebuild: Sequence[str]
) -> None:
    """Reject a run or a rebuild that cannot succeed, by the topology alone.

    Raises:
        InvalidTopology: a store to rebuild does not exist, or no cluster to publish to is named.
        InvalidKafkaOption: the client that publishes does not have an option.
    """
    names = [unit.name for unit in topology.units]
    unknown = [name for name in rebuild if name not in names]
    if unknown:
        message = (
            f"the topology has no store {', '.join(map(repr, unknown))}. Its stores: "
            f"{', '.join(names)}"
        )
        raise InvalidTopology(message)
    writing = topology.sinks if rebuild else topology.units
    written = [unit for unit in writing if not rebuild or unit.name in rebuild]
    check_publications(written, publish_options)


def changes(
    layout: DataLayout, checkpoint: Checkpoint, definitions: Iterable[Defined]
) -> dict[str, Change]:
    """Return the changes to each store or sink that a topology changes."""
    return {
        unit.name: change
        for unit, defined in definitions
        if (change := _change(layout, checkpoint, unit, defined)).differences
    }


def refuse_changes(changed: Mapping[str, Change], topology: LoweredTopology) -> None:
    """Reject a topology that changes stores.

    Raises:
        IncompatibleStore: a store changes. The message names each store and each difference.
    """
    topics = dict.fromkeys(topic for change in changed.values() for topic in change.topics)
    readers = {
        topic: [unit.name for unit in topology.units if topic in unit.topics] for topic in topics
    }
    refuse_differences({name: change.differences for name, change in changed.items()}, readers)


def _change(
    layout: DataLayout,
    checkpoint: Checkpoint,
    unit: Store,
    defined: StoreDefinition | SinkDefinition,
) -> Change:
    recorded: StoreDefinition | SinkDefinition | None = None
    if isinstance(defined, SinkDefinition):
        recorded = SinkDefinition.recorded(checkpoint.directory, unit.name)
        found = sink_differences(recorded, defined) if recorded is not None else []
    elif has_table(table := layout.table(unit.name)):
        recorded = DeltaLog(table).snapshot().definition
        # A table of another application is rejected when it is opened.
        is_own = recorded.application == defined.application
        found = differences(recorded, defined) if is_own else []
    if recorded is None:
        return Change([], [])
    # The topics that the store has read with another schema or decoding. The string of a source
    # starts with the topic.
    before, now = recorded.sources or (), defined.sources or ()
    topics = [
        source.topic
        for source, text in zip(unit.sources, now, strict=True)
        if text not in before and [each for each in before if each.startswith(f"{source.topic} (")]
    ]
    return Change(found, topics)
