"""A partition's clock set back by hand, as a step of its own between two batches (decision 0032).

    CHECKPOINT/state/<store>/clock-<n>.json    what ``oriel clock --set`` made of version n's clocks

Version n itself stays as it was decided. Whoever loads it gets it mended, so the next batch begins
with the mended clocks; the file stays, as a record of what was done.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import orjson

from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.plan import NO_PARTITION, PreparedBatch
from oriel.storage import Offsets, current_files, replace_file, with_digest, without_digest


@dataclass(frozen=True)
class Mend:
    """What replaces the clocks of a version; ``acts`` says in words what was done, oldest first."""

    stream_time_ms: Offsets
    close_ms: int
    observed_ms: int
    acts: list[str]

    def applied(self, prepared: PreparedBatch) -> PreparedBatch:
        """The version with these clocks."""
        record = replace(
            prepared.record,
            stream_time_ms=self.stream_time_ms,
            close_ms=self.close_ms,
            observed_ms=self.observed_ms,
        )
        held_by = _held_by(prepared, self.stream_time_ms)
        notes = replace(prepared.clock_notes, mended=self.acts, held_by=held_by)
        return replace(prepared, record=record, clock_notes=notes)

    def write(self, folder: Path, batch: int) -> None:
        """Put it beside version ``batch`` in ``folder``, on disk when this returns."""
        replace_file(_path(folder, batch), with_digest(orjson.dumps(asdict(self))), sync=True)


def mended(folder: Path, batch: int, prepared: PreparedBatch) -> PreparedBatch:
    """Version ``batch`` in ``folder`` with the clocks that were set since it was decided.

    Raises:
        CheckpointError: The file of these clocks is damaged.
    """
    path = _path(folder, batch)
    try:
        content = without_digest(current_files().read(path))
        return Mend(**orjson.loads(content)).applied(prepared)
    except FileNotFoundError:
        return prepared
    except (TypeError, ValueError) as error:
        message = (
            f"{path} is damaged ({error}). Restore the file from a backup, or remove it and set "
            "the clock again with `oriel clock --set`"
        )
        raise CheckpointError(message) from error


def _held_by(prepared: PreparedBatch, clocks: Offsets) -> tuple[str, int] | None:
    """Return the clock and partition that keep windows open by these clocks.

    Each clock closes windows with a delay of its own, which a version does not say. So None, if
    it can be a partition of one clock or of another: the next batch knows.
    """
    notes, before = prepared.clock_notes, prepared.record.stream_time_ms
    moved = [
        (name, int(partition))
        for name, partitions in clocks.items()
        for partition, time_ms in partitions.items()
        if time_ms < before[name][partition] and int(partition) not in notes.idle.get(name, ())
    ]
    if notes.held_by is None or notes.held_by[1] == NO_PARTITION:
        return notes.held_by
    if [name for name, _ in moved if name != notes.held_by[0]]:
        return None
    return min([notes.held_by, *moved], key=lambda one: clocks[one[0]][str(one[1])])


def _path(folder: Path, batch: int) -> Path:
    return folder / f"clock-{batch:012d}.json"
