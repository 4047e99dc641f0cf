"""A sink's topic: where its records are published, and what the checkpoint knows of that.

A sink has no table. Next to its state versions are

    CHECKPOINT/state/to(<topic>)/sink.json               what it is, as a store's table says it
    CHECKPOINT/state/to(<topic>)/published-<n>.json      batch n is in the topic, and what it was

The state segments that version n names for the tasks behind the last shuffle are the records of
batch n (``SinkFiles``). They are published once the batch is decided, and then it is noted. After a
crash between the two, the same records are offered again, and a marker in Kafka shows which of them
are published (decision 0089). A batch is decided only after the one before it was published, so at
most one batch is offered again.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import orjson

from oriel.pipeline.commit.checkpoint import Checkpoint
from oriel.pipeline.commit.differences import differences_in, refuse_changes
from oriel.pipeline.commit.store_tables import LetterTable
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.language import Store, source_texts, step_texts
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
_NOTE = "published-"
#: What may not change as long as the state lives, and what messages call it.
_FIXED = {"sources": "source", "steps": "chain of steps", "joins": "chain of joins"}

#: Writes the records that a prepared batch names to their topic, from the folder of its state.
Publish = Callable[[Path, PreparedBatch], None]


@dataclass(frozen=True)
class SinkDefinition:
    """A sink as its checkpoint records it; see ``StoreDefinition``, whose fields these are."""

    topic: str
    sources: tuple[str, ...]
    steps: tuple[str, ...]
    joins: str
    key_groups: int
    generation: int = 0

    @property
    def name(self) -> str:
        """What the sink is called."""
        return sink_name(self.topic)

    @property
    def state_name(self) -> str:
        """What the state of this generation is called in a checkpoint."""
        return f"{self.name}@{self.generation}" if self.generation else self.name

    @classmethod
    def of(cls, sink: Store, key_groups: int) -> "SinkDefinition":
        """What the topology says of ``sink``."""
        return cls(
            topic=sink.publications[0].topic,
            sources=source_texts(sink),
            steps=step_texts(sink),
            joins=sink.grouped_by,
            key_groups=key_groups,
        )

    @classmethod
    def recorded(cls, checkpoint: Path, name: str) -> "SinkDefinition | None":
        """What ``checkpoint`` says of the sink ``name``, in its last generation.

        Raises:
            CheckpointError: it is damaged.
        """
        files, states = current_files(), checkpoint / "state"
        generations = [
            int(number or 0)
            for found, _, number in (state.partition("@") for state in files.names(states))
            if found == name
        ]
        for generation in sorted(generations, reverse=True):
            path = states / (f"{name}@{generation}" if generation else name) / SINK_FILE
            try:
                fields = orjson.loads(without_digest(files.read(path)))
                texts = {each: tuple(fields[each]) for each in ("sources", "steps")}
                return cls(**{**fields, **texts})
            except FileNotFoundError:
                # What a rebuild left that was killed.
                continue
            except (KeyError, TypeError, ValueError) as error:
                message = f"{path} is damaged ({error}). Restore the checkpoint from a backup"
                raise CheckpointError(message) from error
        return None

    def write(self, folder: Path, *, sync: bool) -> None:
        """Let the state in ``folder`` be the sink's: from here on this is what is recorded."""
        create_file(folder / SINK_FILE, with_digest(orjson.dumps(asdict(self))), sync=sync)


class SinkTopic(LetterTable):
    """The topic of one sink: to its batches what tables are to those of a store."""

    #: The files of its tasks.
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
        """Open what ``checkpoint`` has of the sink, making it where there is nothing.

        Raises:
            IncompatibleStore: it was made by another definition.
        """
        super().__init__(layout, checkpoint.application, defined.name, sync=sync)
        self._publish = publish
        self._sync = sync
        recorded = SinkDefinition.recorded(checkpoint.folder, defined.name)
        #: The topology's, with what the checkpoint knows best.
        self.definition = defined if recorded is None else _settled(recorded, defined)
        versions = checkpoint.versions(self.definition.state_name)
        #: Where the files are that are published.
        self.table_folder = versions.folder
        if recorded is None:
            defined.write(versions.folder, sync=sync)
        noted = _notes(versions.folder)
        # See the top: if a batch is decided, the one before it was published.
        self._recorded = max(versions.newest() - 1, *noted, -1)
        for batch in noted[:-1]:
            self._forget(batch)

    def recorded_batch(self) -> int:
        """The last batch that is published, -1 before the first."""
        return self._recorded

    def newest_record(self) -> CommitRecord | None:
        """What the last batch that is published was, None where it is not known."""
        path = self._note(self._recorded)
        try:
            return CommitRecord.from_json(without_digest(current_files().read(path)))
        except FileNotFoundError:
            return None
        except (TypeError, ValueError) as error:
            message = f"{path} is damaged ({error}). Restore the checkpoint from a backup"
            raise CheckpointError(message) from error

    def commit(self, prepared: PreparedBatch, batch: int) -> None:
        """Publish the batch's records, and note that it is done."""
        if prepared.changed:
            self._publish(self.table_folder, prepared)
        note_published(self.table_folder, prepared, sync=self._sync)
        self._forget(self._recorded)
        self._recorded = batch

    def _forget(self, batch: int) -> None:
        current_files().delete(self._note(batch))

    def _note(self, batch: int) -> Path:
        return _note_path(self.table_folder, batch)


def note_published(folder: Path, prepared: PreparedBatch, *, sync: bool) -> None:
    """Note beside the state in ``folder`` that the batch is in the topic."""
    # Never put over another: what a process notes that slept meanwhile does no harm.
    with suppress(FileExistsError):
        content = with_digest(prepared.record.to_json().encode())
        create_file(_note_path(folder, prepared.record.batch), content, sync=sync)


def _notes(folder: Path) -> list[int]:
    """The batches that are noted as published, ascending."""
    names = (name.removesuffix(".json") for name in current_files().names(folder))
    return sorted(int(name.removeprefix(_NOTE)) for name in names if name.startswith(_NOTE))


def _note_path(folder: Path, batch: int) -> Path:
    return folder / f"{_NOTE}{batch:012d}.json"


def sink_differences(recorded: SinkDefinition, defined: SinkDefinition) -> list[str]:
    """Return each difference that is refused, in words."""
    return differences_in(_FIXED, recorded, defined)


def _settled(recorded: SinkDefinition, defined: SinkDefinition) -> SinkDefinition:
    """The definition to run with; see ``differences.settled``."""
    if found := sink_differences(recorded, defined):
        refuse_changes({defined.name: found})
    return replace(defined, key_groups=recorded.key_groups, generation=recorded.generation)
