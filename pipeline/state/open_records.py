"""The state of a join of streams: records as they came, and which of them had a partner.

A version is a list of immutable segments with records, the oldest first. Records leave by
the clocks alone, so nothing is written when they do: whoever reads knows the clocks. Which
records had a partner is one bit each, in the order of the segments; where that matters, the
last file of the list has the bits of all. So a batch writes its own records and the bits, and
it looks at the times of all records, but at their keys and values only where it has to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from oriel.pipeline.state.segments import (
    Version,
    in_share,
    own_files,
    read_segment,
    segments_kept,
    write_segment,
)
from oriel.pipeline.windows import MATCHED, Flags, Ints

_MARKS_SCHEMA = pa.schema([MATCHED])


@dataclass(frozen=True)
class OpenRecords:
    """One version of one task's state: the records of all segments, those that left too.

    ``sizes`` has the number of records in each segment of ``files``; records of tasks that are
    no more are in no segment. ``marks`` tells whether the last file has ``matched``.
    """

    folder: Path
    files: list[str]
    sizes: list[int]
    records: pa.Table
    matched: Flags
    marks: bool

    @classmethod
    def of_task(
        cls,
        folder: Path,
        segments: Mapping[int, Sequence[str]],
        place: tuple[int, int],
        schema: pa.Schema,
        *,
        marks: bool,
    ) -> "OpenRecords":
        """Open the state of a task, see ``own_files``.

        Raises:
            CheckpointError: a file is missing, or of another format or schema.
        """
        own = own_files(segments, place)
        if own is not None:
            return cls._opened(folder, own, schema, marks=marks)
        every = [cls._opened(folder, names, schema, marks=marks) for names in segments.values()]
        rows = pa.concat_tables([one.records for one in every])
        mine = in_share(rows, place)
        matched = np.concatenate([one.matched for one in every])[mine]
        return cls(folder, [], [], rows.filter(pa.array(mine)), matched, marks)

    @classmethod
    def _opened(
        cls, folder: Path, files: Sequence[str], schema: pa.Schema, *, marks: bool
    ) -> "OpenRecords":
        segments = [read_segment(folder, name, schema) for name in (files[:-1] if marks else files)]
        records = pa.concat_tables([schema.empty_table(), *segments])
        matched = np.zeros(len(records), dtype=np.bool_)
        if marks and files:
            matched = np.asarray(read_segment(folder, files[-1], _MARKS_SCHEMA)[MATCHED.name])
        return cls(folder, list(files), [len(one) for one in segments], records, matched, marks)

    def state(self, rows: Ints) -> pa.Table:
        """The records ``rows`` as the engine takes them."""
        marks = pa.array(self.matched[rows])
        return self.records.take(pa.array(rows)).append_column(MATCHED, marks)

    def replaced(
        self, rows: Ints, state: pa.Table, stays: Flags, name: str, *, sync: bool
    ) -> Version:
        """Write what makes the next version: ``state`` has the records ``rows``, then new ones.

        ``stays`` tells which of the old records have not left.
        """
        old, added = self.matched.copy(), state.slice(len(rows))
        told = np.asarray(state[MATCHED.name])
        old[rows] = told[: len(rows)]
        count = int(stays.sum()) + len(added)
        if not count:
            return Version([], 0)
        kept = segments_kept([*self.sizes, len(added)], count)
        start = sum(self.sizes[:kept])
        if not len(added) and start == len(old) and np.array_equal(old, self.matched):
            return Version(self.files, count)
        names, matched = self.files[:kept], [old[:start], told[len(rows) :]]
        added = added.drop_columns([MATCHED.name])
        if start < len(old):
            # Written anew are only those that have not left.
            later = self.records.slice(start).filter(pa.array(stays[start:]))
            added = pa.concat_tables([later, added])
            matched.insert(1, old[start:][stays[start:]])
        if len(added):
            names.append(write_segment(self.folder, added, name, sync=sync))
        if self.marks:
            bits = pa.table([np.concatenate(matched)], schema=_MARKS_SCHEMA)
            names.append(write_segment(self.folder, bits, f"{name}-matched", sync=sync))
        return Version(names, count)
