"""Sorted runs of a keyed state, and how few of their rows a batch merges.

A version is a list of *runs*, the oldest first. A run is one segment, or several segments that
divide the hashes into ascending ranges. Each batch writes a run. If a version has more than
``MAX_SEGMENTS`` runs, the oldest run that is not larger than all newer runs together is merged with
all newer runs. If most stored rows are not visible, all runs are merged (``unmerged_segments``).

A merge of many rows would delay its batch. So it is cut into slices, which are equal shares of all
hashes, and a batch runs at most one slice. On average, ``SLICE_BATCHES`` rows are merged for each
row that batches add. The slices are a run, the *output* of the merge, directly after its *inputs*.
For hashes that are already merged, the output is visible. For all other hashes, the inputs are
visible. After the last slice, the inputs are dropped.

The metadata of the last segment of a version, which its batch wrote, has the list of runs and the
running merge.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from oriel.pipeline.state.segments import segment_id, unmerged_segments
from oriel.pipeline.windows import Ints, Ranges

#: The least number of rows of a slice, and the least multiple of the rows that the batch adds. Both
#: are approximate.
SLICE_ROWS = 1 << 16
SLICE_BATCHES = 4
#: The greatest number of slices of a merge. Each slice is one more file to open.
MAX_SLICES = 32

#: Hashes are int64. The bounds of slices are integers of Python, because the bound after the last
#: slice, 2**63, does not fit into int64.
_LEAST_HASH, _LAST_HASH = -(2**63), 2**63 - 1
_HASHES = 2**64


@dataclass(frozen=True)
class Segment:
    """A mapped segment.

    Attributes:
        name: The file.
        leave_ms: The close time after which no row of the segment is needed.
        rows_by_hash: The rows, sorted by hash. The first column is the hash. The other columns are
            the columns of the state.
        hashes: The hash of each row, ascending.
        due_ms: When a row is due, ascending. With ``expiring_hash``, it is an index of rows that
            expire.
        expiring_hash: The hash of the row of each ``due_ms``.
    """

    name: str
    leave_ms: int
    rows_by_hash: pa.Table
    hashes: Ints
    due_ms: Ints
    expiring_hash: Ints

    def rows_from_hash(self, from_hash: int, until_hash: int | None = None) -> pa.Table:
        """Return the rows from one hash up to another one, which is excluded, without a copy."""
        low = np.searchsorted(self.hashes, from_hash)
        length = len(self.hashes) - low
        if until_hash is not None and until_hash <= _LAST_HASH:
            length = np.searchsorted(self.hashes, until_hash) - low
        return self.rows_by_hash.slice(low, length)

    def hashes_within(self, low: Ints, high: Ints) -> Ints:
        """Return the hashes in the ranges from ``low`` to ``high``, both included."""
        begin, last = np.searchsorted(self.hashes, low), np.searchsorted(self.hashes, high, "right")
        hashes: Ints = self.hashes[Ranges(begin, last).rows()[1]]
        return hashes


#: Segments that divide the hashes into ascending ranges.
Run = list[Segment]


@dataclass(frozen=True)
class Merge:
    """A running merge.

    Attributes:
        first: The index of the first input.
        inputs: The number of inputs.
        slices: The number of slices.
        rows: The number of rows of the inputs.
        added: The number of rows that batches have added since the merge began.
        done: The number of slices that are merged.
    """

    first: int
    inputs: int
    slices: int
    rows: int
    added: int = 0
    done: int = 0

    @property
    def is_due(self) -> bool:
        """Whether enough rows were added to pay for the slices so far (amortized merge)."""
        # ``rows * done / slices`` rows are merged so far, and each added row pays for
        # ``SLICE_BATCHES`` rows. The multiplied form has no rounding. With ``done`` 0, the first
        # slice is due at once.
        return self.done * self.rows <= self.added * SLICE_BATCHES * self.slices

    @property
    def end(self) -> int:
        """The index of the first run after the inputs."""
        return self.first + self.inputs

    @property
    def from_hash(self) -> int:
        """The least hash for which the inputs are visible."""
        # Hashes are mixed, so equal shares of the hashes have about equally many rows.
        return _LEAST_HASH + self.done * _HASHES // self.slices

    @property
    def until_hash(self) -> int:
        """The first hash after the next slice. For the last slice, it is after all hashes."""
        return replace(self, done=self.done + 1).from_hash


@dataclass(frozen=True)
class Runs:
    """The runs of a version, with a running merge.

    Attributes:
        runs: The runs, the oldest first.
        merge: The running merge. None: no merge is running.
        output: The output of the running merge.
    """

    runs: list[Run]
    merge: Merge | None = None
    output: Run | None = None

    @classmethod
    def of_version(cls, segments: Sequence[Segment], text: bytes) -> "Runs":
        """Decode the result of ``to_bytes``, which is in the metadata of the last segment."""
        # The list of runs can have other digests than the files. A rescale writes each segment
        # again, and keeps its id and the lists in the metadata of other segments.
        by_id = {segment_id(segment.name): segment for segment in segments}
        fields = json.loads(text)

        def run_of(names: Sequence[str]) -> Run:
            return [by_id[segment_id(name)] for name in names]

        merge = Merge(**fields["merge"]) if fields["merge"] else None
        runs = [*map(run_of, fields["runs"]), [segments[-1]]]
        return cls(runs, merge, run_of(fields["output"]))

    def to_bytes(self) -> bytes:
        """Encode the runs without the last segment, whose metadata will have the result."""
        fields = {
            "runs": [[segment.name for segment in run] for run in self.runs],
            "output": [segment.name for segment in self.output or ()],
            "merge": vars(self.merge) if self.merge else None,
        }
        return json.dumps(fields).encode()

    @property
    def names(self) -> list[str]:
        """The files of all segments, the oldest first."""
        return [segment.name for run, _ in self.by_age for segment in run]

    @property
    def by_age(self) -> list[tuple[Run, int]]:
        """Each run, the oldest first, with the least hash for which it is visible."""
        merge = self.merge
        if merge is None:
            return [(run, _LEAST_HASH) for run in self.runs]
        return [
            *((run, _LEAST_HASH) for run in self.runs[: merge.first]),
            *((run, merge.from_hash) for run in self.runs[merge.first : merge.end]),
            # The output is newer than its inputs and older than all runs after them. It has no rows
            # from ``from_hash`` on, so the inputs are visible there.
            (self.output or [], _LEAST_HASH),
            *((run, _LEAST_HASH) for run in self.runs[merge.end :]),
        ]

    def without_expired(self, close_ms: int) -> "Runs":
        """Return the runs without segments whose rows have all expired at this close time."""

        def needed(run: Run) -> Run:
            return [segment for segment in run if segment.leave_ms >= close_ms]

        runs = [needed(run) for run in self.runs]
        if self.merge is None:
            return Runs([run for run in runs if run])
        # A merge refers to runs by their indexes, so an empty run keeps its index until the merge
        # ends.
        return Runs(runs, self.merge, needed(self.output or []))

    def kept(self, added: int, count: int) -> tuple[int, int]:
        """Return how many runs stay, and the number of slices into which the others are merged.

        If the number of slices is 0, all runs stay. The inputs of a running merge also stay.

        Args:
            added: The number of rows in the run of the batch.
            count: The number of visible rows in the next version.
        """
        begin = 0 if self.merge is None else self.merge.end
        sizes = [sum(len(segment.hashes) for segment in run) for run in self.runs[begin:]]
        sizes.append(added)
        # While a merge runs, the number of visible rows in the runs after it is not known. With the
        # sum of all rows, only the rule about the number of segments applies.
        kept = unmerged_segments(sizes, count if self.merge is None else sum(sizes))
        slice_rows = max(SLICE_ROWS, SLICE_BATCHES * added)
        if self.merge is not None:
            # Only one merge has slices at a time. Newer runs are merged in one batch, as far back
            # as they have at most as many rows as one slice of that merge.
            slice_rows = max(slice_rows, self.merge.rows // self.merge.slices)
            while kept < len(sizes) - 1 and sum(sizes[kept:]) > slice_rows:
                kept += 1
        if kept == len(sizes) - 1:
            return len(self.runs), 0
        slices = -(-sum(sizes[kept:]) // slice_rows)
        return begin + kept, min(max(slices, 1), MAX_SLICES)

    def with_merge(self, first: int, slices: int) -> "Runs":
        """Return the runs at the beginning of a merge of the runs from index ``first``."""
        rows = sum(len(segment.hashes) for run in self.runs[first:] for segment in run)
        return Runs(self.runs, Merge(first, len(self.runs) - first, slices, rows))

    def with_added(self, added: int) -> "Runs":
        """Return the runs after a batch has added rows."""
        if self.merge is None:
            return self
        merge = replace(self.merge, added=self.merge.added + added)
        return Runs(self.runs, merge, self.output)

    def with_slice(self, slice_: Run) -> "Runs":
        """Return the runs after one more slice of the merge, which is empty or one segment."""
        assert self.merge is not None
        merge = replace(self.merge, done=self.merge.done + 1)
        output = [*(self.output or []), *slice_]
        if merge.done < merge.slices:
            return Runs(self.runs, merge, output)
        runs = [*self.runs[: merge.first], output, *self.runs[merge.end :]]
        return Runs([run for run in runs if run])
