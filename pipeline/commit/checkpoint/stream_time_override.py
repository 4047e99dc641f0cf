"""Stream times that an operator sets back, as a step between two batches (decision 0032).

    CHECKPOINT/state/<store>/clock-<n>.json    version n's stream times after ``oriel clock --set``

The prepared version n never changes. Each reader of the version uses the stream times of this file
instead, so the next batch starts with them. The file stays as a record of the change.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import orjson

from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.plan import NO_PARTITION, PreparedBatch
from oriel.storage import Offsets, current_files, replace_file, with_digest, without_digest


@dataclass(frozen=True)
class StreamTimeOverride:
    """The values that override the stream times of a version.

    Attributes:
        stream_time_ms: The stream time of each partition, by stream.
        close_ms: The close time of the store.
        observed_ms: The greatest start of a window, or end of a session, for retention.
        acts: A description of each change by ``oriel clock --set``, the oldest first.
    """

    stream_time_ms: Offsets
    close_ms: int
    observed_ms: int
    acts: list[str]

    def applied(self, prepared: PreparedBatch) -> PreparedBatch:
        """Return the version with these values."""
        # Offsets and counters stay, so the next batch reads the same records as without the
        # override.
        record = replace(
            prepared.record,
            stream_time_ms=self.stream_time_ms,
            close_ms=self.close_ms,
            observed_ms=self.observed_ms,
        )
        held_by = _waits_for(prepared, self.stream_time_ms)
        notes = replace(prepared.clock_notes, mended=self.acts, held_by=held_by)
        return replace(prepared, record=record, clock_notes=notes)

    def write(self, directory: Path, batch: int) -> None:
        """Write the values next to version ``batch`` in ``directory``, and sync the file."""
        # Always synced, also with `--no-sync`. No later step would repeat a change that the
        # operator has requested.
        replace_file(_path(directory, batch), with_digest(orjson.dumps(asdict(self))), sync=True)


def with_override(directory: Path, batch: int, prepared: PreparedBatch) -> PreparedBatch:
    """Return version ``batch`` with the stream times that were set after it was prepared.

    Raises:
        CheckpointError: the file with these stream times is damaged.
    """
    path = _path(directory, batch)
    try:
        content = without_digest(current_files().read(path))
        return StreamTimeOverride(**orjson.loads(content)).applied(prepared)
    except FileNotFoundError:
        # Most versions have no override. Then its cost is one look-up of a file name per read.
        return prepared
    except (TypeError, ValueError) as error:
        message = (
            f"{path} is damaged ({error}). Restore the file from a backup, or remove it and set "
            "the clock again with `oriel clock --set`"
        )
        raise CheckpointError(message) from error


def _waits_for(prepared: PreparedBatch, stream_times_ms: Offsets) -> tuple[str, int] | None:
    """Return the stream and partition that keep windows from becoming final.

    Each stream closes windows with its own delay, which a version does not contain. If a partition
    of another stream was set back, the result is therefore None until the next batch.
    """
    notes, before = prepared.clock_notes, prepared.record.stream_time_ms
    # Windows do not wait for an idle partition, so it cannot keep them open at any stream time.
    set_back = [
        (name, int(partition))
        for name, partitions in stream_times_ms.items()
        for partition, time_ms in partitions.items()
        if time_ms < before[name][partition] and int(partition) not in notes.idle.get(name, ())
    ]
    # If a stream has no partition, all windows wait for it, whatever the stream times of the others
    # are. If no window waits for a partition, a stream time that is set back does not change that.
    if notes.held_by is None or notes.held_by[1] == NO_PARTITION:
        return notes.held_by
    if [name for name, _ in set_back if name != notes.held_by[0]]:
        return None
    # All entries are now of one stream, which has one delay. So their stream times have the order
    # of their close times.
    return min([notes.held_by, *set_back], key=lambda one: stream_times_ms[one[0]][str(one[1])])


def _path(directory: Path, batch: int) -> Path:
    return directory / f"clock-{batch:012d}.json"
