"""A batch of one store, computed and ready to commit."""

from dataclasses import dataclass

import orjson

from oriel.storage import CommitRecord
from oriel.storage.delta import AddedFile


@dataclass(frozen=True)
class PreparedBatch:
    """One store's part of one batch, computed and ready to commit."""

    record: CommitRecord
    segments: dict[int, list[str]]
    join_segments: dict[int, dict[int, list[str]]]
    files: list[AddedFile]
    dead_letters: list[AddedFile]
    changed: int
    open_records: int

    def to_json(self) -> bytes:
        """The content of ``<n>.json``."""
        return orjson.dumps(self, option=orjson.OPT_NON_STR_KEYS)

    @classmethod
    def from_json(cls, text: bytes) -> "PreparedBatch":
        """Read back what ``to_json`` wrote."""
        fields = orjson.loads(text)
        return cls(
            record=CommitRecord(**fields["record"]),
            segments=_by_task(fields["segments"]),
            join_segments={
                int(place): _by_task(segments)
                for place, segments in fields.get("join_segments", {}).items()
            },
            files=[AddedFile(**file) for file in fields["files"]],
            dead_letters=[AddedFile(**file) for file in fields["dead_letters"]],
            changed=fields["changed"],
            open_records=fields["open_records"],
        )

    @property
    def state_files(self) -> set[str]:
        """The names of all state files that this version needs."""
        everything = [self.segments, *self.join_segments.values()]
        return {name for by_task in everything for names in by_task.values() for name in names}


def _by_task(segments: dict[str, list[str]]) -> dict[int, list[str]]:
    return {int(task): names for task, names in segments.items()}
