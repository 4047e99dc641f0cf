"""A partition's clock set back by hand, as a step of its own between two batches (decision 0032).

    CHECKPOINT/state/<store>/clock-<n>.json    what ``oriel clock --set`` made of version n's clocks

Version n itself stays as it was decided. Whoever loads it gets it mended, so the next batch begins
with the mended clocks; the file stays, as a record of what was done.
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import orjson

from oriel.pipeline.plan import PreparedBatch
from oriel.storage import Offsets, current_files, replace_file


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
        notes = replace(prepared.clock_notes, mended=self.acts)
        return replace(prepared, record=record, clock_notes=notes)

    def write(self, folder: Path, batch: int) -> None:
        """Put it beside version ``batch`` in ``folder``, on disk when this returns."""
        replace_file(_path(folder, batch), orjson.dumps(asdict(self)), sync=True)


def mended(folder: Path, batch: int, prepared: PreparedBatch) -> PreparedBatch:
    """Version ``batch`` in ``folder`` with the clocks that were set since it was decided."""
    try:
        content = current_files().read(_path(folder, batch))
    except FileNotFoundError:
        return prepared
    return Mend(**orjson.loads(content)).applied(prepared)


def _path(folder: Path, batch: int) -> Path:
    return folder / f"clock-{batch:012d}.json"
