"""A batch of one store, computed and ready to commit: the content of its state version."""

from dataclasses import dataclass

import orjson

from oriel.storage import CommitRecord
from oriel.storage.delta import AddedFile


@dataclass(frozen=True)
class PreparedBatch:
    """One store's part of one batch, computed and ready to commit.

    ``segments`` are the state files of each task of the window engine, ``join_segments`` those
    of each task of each input's join, by the input's number. ``files`` and ``dead_letters`` are
    what the commit adds to the tables, ``changed`` the number of changed windows and
    ``open_records`` that of rows in the state.
    """

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
                int(input_number): _by_task(segments)
                for input_number, segments in fields.get("join_segments", {}).items()
            },
            files=[AddedFile(**file) for file in fields["files"]],
            dead_letters=[AddedFile(**file) for file in fields["dead_letters"]],
            changed=fields["changed"],
            open_records=fields["open_records"],
        )

    @property
    def state_files(self) -> set[str]:
        """The names of all state files that this version needs."""
        states = [self.segments, *self.join_segments.values()]
        return {name for by_task in states for names in by_task.values() for name in names}


def _by_task(segments: dict[str, list[str]]) -> dict[int, list[str]]:
    return {int(task): names for task, names in segments.items()}
