"""The state of a join of streams: records as they came, and which of them had a partner.

A version is a list of immutable segments with records, the oldest first. Records leave by
the clocks alone, so nothing is written when they do: whoever reads knows the clocks
(``StreamJoinEngine.stays``). Which records had a partner is one bit each, in the order of the
segments; where that matters, the last file of the list has the bits of all. Bits are apart from
their records because they change: a pair marks a record of any age, and to write a bit for each
record costs far less than to write segments again. So a batch writes its own records and the
bits, and it looks at the times of all records, but at their keys and values only where it has
to (``StreamJoinEngine.concerned``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from oriel.pipeline.state.segments import (
    TaskShare,
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

    ``sizes`` has the number of records in each segment of ``files``. After a change of the number
    of tasks there are none, and the next version has all of the task's records. ``matched`` has
    a bit for each record; ``marks`` tells whether the last file has these bits.
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
        share: TaskShare,
        schema: pa.Schema,
        *,
        marks: bool,
    ) -> "OpenRecords":
        """Open the state of a task; ``segments`` has the files of each task of the last batch.

        ``schema`` is of records without ``matched``; ``marks`` tells whether the version has it
        in a file of its own, as ``StreamJoinEngine.keeps_matches`` says.

        Raises:
            CheckpointError: a file is missing, or of another format or schema.
        """
        own = own_files(segments, share)
        if own is not None:
            return cls._opened(folder, own, schema, marks=marks)
        states = [cls._opened(folder, names, schema, marks=marks) for names in segments.values()]
        records = pa.concat_tables([state.records for state in states])
        of_task = in_share(records, share)
        matched = np.concatenate([state.matched for state in states])[of_task]
        return cls(folder, [], [], records.filter(pa.array(of_task)), matched, marks)

    @classmethod
    def _opened(
        cls, folder: Path, files: Sequence[str], schema: pa.Schema, *, marks: bool
    ) -> "OpenRecords":
        segments = [read_segment(folder, name, schema) for name in (files[:-1] if marks else files)]
        records = pa.concat_tables([schema.empty_table(), *segments])
        matched = np.zeros(len(records), dtype=np.bool_)
        if marks and files:
            matched = np.asarray(read_segment(folder, files[-1], _MARKS_SCHEMA)[MATCHED.name])
        sizes = [len(segment) for segment in segments]
        return cls(folder, list(files), sizes, records, matched, marks)

    def state(self, rows: Ints) -> pa.Table:
        """The records ``rows`` as the engine takes them."""
        marks = pa.array(self.matched[rows])
        return self.records.take(pa.array(rows)).append_column(MATCHED, marks)

    def replaced(
        self, rows: Ints, state: pa.Table, stays: Flags, name: str, *, sync: bool
    ) -> Version:
        """Write what makes the next version: ``state`` has the records ``rows``, then new ones.

        ``stays`` has a flag for each old record: whether it has not left. Those in ``rows`` may
        have had their first partner in this batch, all others are as they were.
        """
        added = state.slice(len(rows))
        matched = self.matched.copy()
        matched[rows], matched_of_added = np.split(np.asarray(state[MATCHED.name]), [len(rows)])
        # Records that have left stay in their segments until they are the majority there.
        count = int(stays.sum()) + len(added)
        if not count:
            return Version([], 0)
        kept = segments_kept([*self.sizes, len(added)], count)
        rewritten_from = sum(self.sizes[:kept])
        rewrites = rewritten_from < len(matched)
        if not len(added) and not rewrites and np.array_equal(matched, self.matched):
            return Version(self.files, count)
        # Of the segments that are rewritten, only the records that have not left. The bits go
        # the same way, so that they are in the order of the segments again.
        open_ = stays[rewritten_from:]
        rewritten = self.records.slice(rewritten_from).filter(pa.array(open_))
        bits = [matched[:rewritten_from], matched[rewritten_from:][open_], matched_of_added]
        added = added.drop_columns([MATCHED.name])
        segment = pa.concat_tables([rewritten, added]) if rewrites else added
        names = self.files[:kept]
        if len(segment):
            names.append(write_segment(self.folder, segment, name, sync=sync))
        if self.marks:
            table = pa.table([np.concatenate(bits)], schema=_MARKS_SCHEMA)
            names.append(write_segment(self.folder, table, f"{name}-matched", sync=sync))
        return Version(names, count)
