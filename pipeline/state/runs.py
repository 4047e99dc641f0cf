"""Runs, the segments of a keyed state in order of age, and how few of them a batch merges.

A version is a list of *runs*, the oldest first; a run is one segment or several that share the
hashes out among them, ascending. What each batch writes is a run. So that there are never many,
runs are merged: the newest ones, as far back as they outweigh what is before them, or all, when
most of what is stored does not count (``segments_kept``).

A merge of many rows would hold up the batch that makes it. It is cut into slices, equal shares of
all hashes, and a batch makes one of them at most: as many rows are merged on average as
``SLICE_BATCHES`` times those that batches add. The slices are a run of their own, the merge's
*output*, which stands right behind its *inputs*. Up to where the merge has got, the output counts
and the inputs don't; from there on it is the other way round. After the last slice the inputs are
gone.

The last segment of a version, the one that its batch wrote, has the list of runs and the merge
that is under way in its metadata.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from oriel.pipeline.state.segments import segment_id, segments_kept
from oriel.pipeline.windows import Ints, Ranges

#: A slice has about so many rows at least, and so many times those that the batch adds.
SLICE_ROWS = 1 << 16
SLICE_BATCHES = 4
#: A merge has no more slices than this: each is one more file to open.
MAX_SLICES = 32

_LEAST_HASH, _LAST_HASH = -(2**63), 2**63 - 1
_HASHES = 2**64


@dataclass(frozen=True)
class Segment:
    """A mapped segment; ``covered`` has the hash and the columns of the state.

    From ``leave_ms`` on no row of it is needed. ``due_ms``, ascending, and ``due_hash`` are the
    index of what is due.
    """

    name: str
    leave_ms: int
    covered: pa.Table
    hashes: Ints
    due_ms: Ints
    due_hash: Ints

    def covered_from(self, from_hash: int, until_hash: int | None = None) -> pa.Table:
        """What it covers from one hash on, up to another one; without copying it."""
        low = np.searchsorted(self.hashes, from_hash)
        length = len(self.hashes) - low
        if until_hash is not None and until_hash <= _LAST_HASH:
            length = np.searchsorted(self.hashes, until_hash) - low
        return self.covered.slice(low, length)

    def hashes_within(self, low: Ints, high: Ints) -> Ints:
        """Its hashes from each of ``low`` to that of ``high``, both included."""
        begin, last = np.searchsorted(self.hashes, low), np.searchsorted(self.hashes, high, "right")
        hashes: Ints = self.hashes[Ranges(begin, last).rows()[1]]
        return hashes


#: Segments that share the hashes out among them, ascending.
Run = list[Segment]


@dataclass(frozen=True)
class Merge:
    """A merge under way of ``inputs`` runs from ``first`` on; ``done`` of ``slices`` are made.

    The inputs have ``rows``; ``added`` came to the state since the merge began.
    """

    first: int
    inputs: int
    slices: int
    rows: int
    added: int = 0
    done: int = 0

    @property
    def is_due(self) -> bool:
        """Whether as many rows were added as the slices so far are paid with."""
        return self.done * self.rows <= self.added * SLICE_BATCHES * self.slices

    @property
    def end(self) -> int:
        """The number of the first run behind the inputs."""
        return self.first + self.inputs

    @property
    def from_hash(self) -> int:
        """The least hash of which the inputs count."""
        return _LEAST_HASH + self.done * _HASHES // self.slices

    @property
    def until_hash(self) -> int:
        """The first hash behind the next slice; for the last slice it is behind all."""
        return replace(self, done=self.done + 1).from_hash


@dataclass(frozen=True)
class Runs:
    """What a version consists of: runs, the oldest first, a merge under way and its output."""

    runs: list[Run]
    merge: Merge | None = None
    output: Run | None = None

    @classmethod
    def of_version(cls, segments: Sequence[Segment], text: bytes) -> "Runs":
        """Read what ``to_bytes`` gave to the last of ``segments``."""
        by_id = {segment_id(segment.name): segment for segment in segments}
        fields = json.loads(text)

        def run_of(names: Sequence[str]) -> Run:
            return [by_id[segment_id(name)] for name in names]

        merge = Merge(**fields["merge"]) if fields["merge"] else None
        runs = [*map(run_of, fields["runs"]), [segments[-1]]]
        return cls(runs, merge, run_of(fields["output"]))

    def to_bytes(self) -> bytes:
        """All of it but the last segment, in which it is going to be."""
        fields = {
            "runs": [[segment.name for segment in run] for run in self.runs],
            "output": [segment.name for segment in self.output or ()],
            "merge": vars(self.merge) if self.merge else None,
        }
        return json.dumps(fields).encode()

    @property
    def names(self) -> list[str]:
        """The files of all segments, by age."""
        return [segment.name for run, _ in self.by_age for segment in run]

    @property
    def by_age(self) -> list[tuple[Run, int]]:
        """Each run, the oldest first, with the least hash of which it counts."""
        merge = self.merge
        if merge is None:
            return [(run, _LEAST_HASH) for run in self.runs]
        return [
            *((run, _LEAST_HASH) for run in self.runs[: merge.first]),
            *((run, merge.from_hash) for run in self.runs[merge.first : merge.end]),
            (self.output or [], _LEAST_HASH),
            *((run, _LEAST_HASH) for run in self.runs[merge.end :]),
        ]

    def without_left(self, close_ms: int) -> "Runs":
        """The runs without segments of which no row is needed at this close time."""

        def needed(run: Run) -> Run:
            return [segment for segment in run if segment.leave_ms >= close_ms]

        runs = [needed(run) for run in self.runs]
        if self.merge is None:
            return Runs([run for run in runs if run])
        # The merge goes by numbers of runs: an empty one keeps its place until the merge ends.
        return Runs(runs, self.merge, needed(self.output or []))

    def kept(self, added: int, count: int) -> tuple[int, int]:
        """How many runs stay when one of ``added`` rows comes, and in how many slices others merge.

        ``count`` rows count in the new version. Inputs of a merge under way stay. 0 slices: all
        stay.
        """
        begin = 0 if self.merge is None else self.merge.end
        sizes = [sum(len(segment.hashes) for segment in run) for run in self.runs[begin:]]
        sizes.append(added)
        kept = segments_kept(sizes, count if self.merge is None else sum(sizes))
        slice_rows = max(SLICE_ROWS, SLICE_BATCHES * added)
        if self.merge is not None:
            # There is one merge in slices at a time. What came meanwhile is merged at once, as
            # far back as it is no more than a slice of that one.
            slice_rows = max(slice_rows, self.merge.rows // self.merge.slices)
            while kept < len(sizes) - 1 and sum(sizes[kept:]) > slice_rows:
                kept += 1
        if kept == len(sizes) - 1:
            return len(self.runs), 0
        slices = -(-sum(sizes[kept:]) // slice_rows)
        return begin + kept, min(max(slices, 1), MAX_SLICES)

    def merging(self, first: int, slices: int) -> "Runs":
        """The same at the beginning of a merge of the runs from ``first`` on."""
        rows = sum(len(segment.hashes) for run in self.runs[first:] for segment in run)
        return Runs(self.runs, Merge(first, len(self.runs) - first, slices, rows))

    def with_added(self, added: int) -> "Runs":
        """The same after ``added`` rows more."""
        if self.merge is None:
            return self
        merge = replace(self.merge, added=self.merge.added + added)
        return Runs(self.runs, merge, self.output)

    def with_slice(self, slice_: Run) -> "Runs":
        """The same after one more slice of the merge, which has no rows or is one segment."""
        assert self.merge is not None
        merge = replace(self.merge, done=self.merge.done + 1)
        output = [*(self.output or []), *slice_]
        if merge.done < merge.slices:
            return Runs(self.runs, merge, output)
        runs = [*self.runs[: merge.first], output, *self.runs[merge.end :]]
        return Runs([run for run in runs if run])
