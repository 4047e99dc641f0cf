"""The output topic of a sink: how records are published, and the sink's files in the checkpoint.

A sink does not have a table. Next to its state versions are

    CHECKPOINT/state/to(<topic>)/sink.json               its definition, as the table of a store has
    CHECKPOINT/state/to(<topic>)/published-<n>.json      batch n is published, and its commit record

The records of batch n are the state segments that version n names for the tasks after the last
exchange (``SinkFiles``). They are published after the batch is prepared, and this is noted in a
file. After a crash between the two, the next start publishes the batch again, except for records
that the topic already has according to a marker in Kafka (decision 0089). A batch is prepared only
after the previous batch is published, so at most one batch is published again.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import orjson

from oriel.pipeline.commit.checkpoint import Checkpoint
from oriel.pipeline.commit.differences import differences_in, refuse_differences
from oriel.pipeline.commit.store_tables import DeadLetterTable
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.lowered import Store, source_texts, step_texts
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.tasks import SinkFiles
from oriel.storage import (
    CommitRecord,
    DataLayout,
    create_file,
    current_files,
    sink_name,
    with_digest,
    without_digest,
)

SINK_FILE = "sink.json"
_PUBLISHED_PREFIX = "published-"
#: What cannot change as long as the state exists, and what messages call it.
_FIXED = {"sources": "source", "steps": "chain of steps", "joins": "chain of joins"}

#: Writes the records of a prepared batch to the topic, from the directory of the sink's state.
Publish = Callable[[Path, PreparedBatch], None]


@dataclass(frozen=True)
class SinkDefinition:
    """The definition of a sink in its checkpoint, as ``StoreDefinition`` in the table of a store.

    Attributes:
        topic: The output topic.
        sources: The sources, as strings.
        steps: The row-wise steps, as strings.
        joins: The chain of joins, as one string.
        key_groups: The number of key groups.
        generation: The generation of the state.
    """

    topic: str
    sources: tuple[str, ...]
    steps: tuple[str, ...]
    joins: str
    key_groups: int
    generation: int = 0

    @property
    def name(self) -> str:
        """The name of the sink."""
        return sink_name(self.topic)

    @property
    def state_name(self) -> str:
        """The name of the directory with the state of this generation."""
        return f"{self.name}@{self.generation}" if self.generation else self.name

    @classmethod
    def of(cls, sink: Store, key_groups: int) -> "SinkDefinition":
        """Return the definition of ``sink`` in the topology."""
        return cls(
            topic=sink.publications[0].topic,
            sources=source_texts(sink),
            steps=step_texts(sink),
            joins=sink.grouped_by,
            key_groups=key_groups,
        )

    @classmethod
    def recorded(cls, checkpoint: Path, name: str) -> "SinkDefinition | None":
        """Return the newest definition of sink ``name`` in ``checkpoint``, None for a new sink.

        Raises:
            CheckpointError: the file of the definition is damaged.
        """
        files, states = current_files(), checkpoint / "state"
        generations = [
            int(number or 0)
            for found, _, number in (state.partition("@") for state in files.names(states))
            if found == name
        ]
        # The greatest generation with a definition is valid. To write ``sink.json`` is the switch
        # of a sink, as the commit of the table is for a store.
        for generation in sorted(generations, reverse=True):
            path = states / (f"{name}@{generation}" if generation else name) / SINK_FILE
            try:
                fields = orjson.loads(without_digest(files.read(path)))
                # JSON has only lists. They would never be equal to the tuples of the topology.
                strings = {each: tuple(fields[each]) for each in ("sources", "steps")}
                return cls(**{**fields, **strings})
            except FileNotFoundError:
                # A rebuild was killed before it wrote the definition.
                continue
            except (KeyError, TypeError, ValueError) as error:
                message = f"{path} is damaged ({error}). Restore the checkpoint from a backup"
                raise CheckpointError(message) from error
        return None

    def write(self, directory: Path, *, sync: bool) -> None:
        """Write the definition to ``directory``. The state in this directory is then valid."""
        create_file(directory / SINK_FILE, with_digest(orjson.dumps(asdict(self))), sync=sync)


class SinkTopic(DeadLetterTable):
    """The output topic of one sink. Its batches use it as those of a store use ``StoreTables``."""

    #: The class with which the tasks of the sink read and write files.
    task_files = SinkFiles

    def __init__(
        self,
        layout: DataLayout,
        checkpoint: Checkpoint,
        defined: SinkDefinition,
        publish: Publish,
        *,
        sync: bool,
    ) -> None:
        """Open the state of the sink in ``checkpoint``. Create it if it does not exist.

        Raises:
            IncompatibleStore: the state has another definition.
        """
        super().__init__(layout, checkpoint.application, defined.name, sync=sync)
        self._publish = publish
        self._sync = sync
        recorded = SinkDefinition.recorded(checkpoint.directory, defined.name)
        #: The definition of the topology, with the key groups and generation of the checkpoint.
        self.definition = defined if recorded is None else _reconciled(recorded, defined)
        versions = checkpoint.versions(self.definition.state_name)
        #: The directory of the files that are published.
        self.table_directory = versions.directory
        # The definition precedes the first version. So a directory with versions and without a
        # definition is from a rebuild that was killed.
        if recorded is None:
            defined.write(versions.directory, sync=sync)
        # The batches that are noted as published, in ascending order.
        names = (name.removesuffix(".json") for name in current_files().names(versions.directory))
        noted = sorted(
            int(name.removeprefix(_PUBLISHED_PREFIX))
            for name in names
            if name.startswith(_PUBLISHED_PREFIX)
        )
        # A batch is prepared only after the previous batch is published (see the module's
        # docstring).
        self._recorded = max(versions.newest() - 1, *noted, -1)
        # A crash in ``commit``, after the new note and before the deletion of the old one, leaves
        # two notes.
        for batch in noted[:-1]:
            self._forget(batch)

    def recorded_batch(self) -> int:
        """Return the last batch that is published, -1 before the first."""
        return self._recorded

    def newest_record(self) -> CommitRecord | None:
        """Return the commit record of the last batch that is published, None if it is unknown.

        Raises:
            CheckpointError: the file of the record is damaged.
        """
        path = self._published_path(self._recorded)
        try:
            return CommitRecord.from_json(without_digest(current_files().read(path)))
        except FileNotFoundError:
            return None
        except (TypeError, ValueError) as error:
            message = f"{path} is damaged ({error}). Restore the checkpoint from a backup"
            raise CheckpointError(message) from error

    def commit(self, prepared: PreparedBatch, batch: int) -> None:
        """Publish the records of the batch, and note that they are published."""
        # A batch without records needs no transaction. The note alone moves the position.
        if prepared.changed:
            self._publish(self.table_directory, prepared)
        # A crash before this line leaves published records without a note. The next start publishes
        # the batch again, and skips the messages that the marker in Kafka counts.
        mark_published(self.table_directory, prepared, sync=self._sync)
        self._forget(self._recorded)
        self._recorded = batch

    def _forget(self, batch: int) -> None:
        current_files().delete(self._published_path(batch))

    def _published_path(self, batch: int) -> Path:
        return _published_path_in(self.table_directory, batch)


def mark_published(directory: Path, prepared: PreparedBatch, *, sync: bool) -> None:
    """Note in the directory ``directory`` of the state that the batch is published."""
    # A file is never replaced, so a note of a process that was suspended does no harm.
    with suppress(FileExistsError):
        content = with_digest(prepared.record.to_json().encode())
        create_file(_published_path_in(directory, prepared.record.batch), content, sync=sync)


def _published_path_in(directory: Path, batch: int) -> Path:
    return directory / f"{_PUBLISHED_PREFIX}{batch:012d}.json"


def sink_differences(recorded: SinkDefinition, defined: SinkDefinition) -> list[str]:
    """Return the differences that are rejected, as strings for messages."""
    return differences_in(_FIXED, recorded, defined)


def _reconciled(recorded: SinkDefinition, defined: SinkDefinition) -> SinkDefinition:
    """Return the definition to run with. See ``differences.settled``."""
    if found := sink_differences(recorded, defined):
        refuse_differences({defined.name: found})
    return replace(defined, key_groups=recorded.key_groups, generation=recorded.generation)
