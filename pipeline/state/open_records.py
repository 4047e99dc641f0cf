"""The state of stream joins and buffers: records in the order of arrival, and which have a match.

A version is a list of immutable segments of records, the oldest first. Records expire by stream
time alone. So nothing is written when they expire, because the reader knows the stream times
(``StreamJoinEngine.stays``). Each record has one bit for its match, in the order of the segments.
If the operator needs these bits, the last file of the list has the bits of all records. Bits are
stored apart from their records because they change. A join result can mark a record of any age, and
a bit for each record costs far less than new segments. So a batch writes its own records and the
bits. It reads the times of all records, but it reads keys and values only if it needs them
(``StreamJoinEngine.concerned``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from oriel.pipeline.state.segments import (
    TaskShare,
    Version,
    is_in_share,
    own_files,
    read_segment,
    unmerged_segments,
    write_segment,
)
from oriel.pipeline.windows import MATCHED, Flags, Ints

_MATCHES_SCHEMA = pa.schema([MATCHED])


@dataclass(frozen=True)
class OpenRecords:
    """One version of one task's state: the records of all segments, including expired ones.

    Attributes:
        directory: The directory of the state.
        files: The files of the version, the oldest first. Empty after a change of the number of
            tasks. The next version then has all records of the task.
        sizes: The number of records in each segment of ``files``.
        records: The records of all segments.
        matched: A flag for each record, true if it has a match.
        marks: True if the last file has the flags.
    """

    directory: Path
    files: list[str]
    sizes: list[int]
    records: pa.Table
    matched: Flags
    marks: bool

    @classmethod
    def of_task(
        cls,
        directory: Path,
        segments: Mapping[int, Sequence[str]],
        share: TaskShare,
        schema: pa.Schema,
        *,
        marks: bool,
    ) -> "OpenRecords":
        """Open the state of a task.

        Args:
            directory: The directory of the state.
            segments: Task -> its files after the last batch.
            share: The key groups of the task.
            schema: The columns of records, without ``matched``.
            marks: True if ``matched`` is in a file of its own (``StreamJoinEngine.keeps_matches``).

        Raises:
            CheckpointError: A file is missing, or has another format or schema.
        """
        own = own_files(segments, share)
        if own is not None:
            return cls._opened(directory, own, schema, marks=marks)
        states = [cls._opened(directory, names, schema, marks=marks) for names in segments.values()]
        records = pa.concat_tables([state.records for state in states])
        # This reads the state of all tasks, once after a change of their number. The next version
        # has all open records of the task in one new segment, because ``files`` and ``sizes`` are
        # empty.
        of_task = is_in_share(records, share)
        matched = np.concatenate([state.matched for state in states])[of_task]
        return cls(directory, [], [], records.filter(pa.array(of_task)), matched, marks)

    @classmethod
    def _opened(
        cls, directory: Path, files: Sequence[str], schema: pa.Schema, *, marks: bool
    ) -> "OpenRecords":
        segments = [
            read_segment(directory, name, schema) for name in (files[:-1] if marks else files)
        ]
        records = pa.concat_tables([schema.empty_table(), *segments])
        matched = np.zeros(len(records), dtype=np.bool_)
        # The last file has one bit per record of all segments, also of expired records, in the same
        # order.
        if marks and files:
            matched = np.asarray(read_segment(directory, files[-1], _MATCHES_SCHEMA)[MATCHED.name])
        sizes = [len(segment) for segment in segments]
        return cls(directory, list(files), sizes, records, matched, marks)

    def state(self, rows: Ints) -> pa.Table:
        """Return the records ``rows``, with the columns that the engine reads."""
        marks = pa.array(self.matched[rows])
        return self.records.take(pa.array(rows)).append_column(MATCHED, marks)

    def replaced(
        self, rows: Ints, state: pa.Table, is_open: Flags, name: str, *, sync: bool
    ) -> Version:
        """Write the next version.

        Args:
            rows: The indexes of the old records that ``state`` begins with. They can have their
                first match in this batch. All other records are unchanged.
            state: The old records ``rows``, then the new records.
            is_open: A flag for each old record, true if it has not expired.
            name: The beginning of the names of files.
            sync: True if files are synced.
        """
        added = state.slice(len(rows))
        # The array can be the mapped file of the old version, which must not change, because the
        # batch can run again.
        matched = self.matched.copy()
        matched[rows], matched_of_added = np.split(np.asarray(state[MATCHED.name]), [len(rows)])
        # Expired records stay in their segments until they are the majority.
        count = int(is_open.sum()) + len(added)
        if not count:
            return Version([], 0)
        # ``kept`` is at most the number of segments. So ``files[:kept]`` never has the old file of
        # the bits, which is the last one.
        kept = unmerged_segments([*self.sizes, len(added)], count)
        rewritten_from = sum(self.sizes[:kept])
        rewrites = rewritten_from < len(matched)
        # Nothing has changed except time, so the next version names the same files. ``stays`` of
        # the operator finds the expired records at each read.
        if not len(added) and not rewrites and np.array_equal(matched, self.matched):
            return Version(self.files, count)
        # Rewritten segments have only the records that have not expired. The bits are filtered in
        # the same way, so they are again in the order of the segments.
        open_ = is_open[rewritten_from:]
        rewritten = self.records.slice(rewritten_from).filter(pa.array(open_))
        bits = [matched[:rewritten_from], matched[rewritten_from:][open_], matched_of_added]
        added = added.drop_columns([MATCHED.name])
        segment = pa.concat_tables([rewritten, added]) if rewrites else added
        names = self.files[:kept]
        if len(segment):
            names.append(write_segment(self.directory, segment, name, sync=sync))
        if self.marks:
            table = pa.table([np.concatenate(bits)], schema=_MATCHES_SCHEMA)
            names.append(write_segment(self.directory, table, f"{name}-matched", sync=sync))
        return Version(names, count)
