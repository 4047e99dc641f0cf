"""Engine state between batches: versions of Arrow files in the checkpoint.

A task opens the version that the last batch left (file names, by task), reads of it what its
batch has to do with, and writes what makes the next version: ``KeyedState`` for rows of keys
and of spans of time, ``OpenRecords`` for the records of a join of streams. ``key_hashes`` say
which keys lie together, in the files and in key groups. No file is ever changed: a batch that is
run again starts from the same version, and files that no version names can be removed. What a
batch writes is on average in proportion to the batch, however large the state is.
"""

from oriel.pipeline.state.hashes import key_hashes
from oriel.pipeline.state.keyed_state import KeyedState
from oriel.pipeline.state.layout import Layout
from oriel.pipeline.state.open_records import OpenRecords
from oriel.pipeline.state.segments import (
    TaskShare,
    Version,
    in_share,
    named_digest,
    open_segment,
    segment_id,
    write_regrouped,
    write_segment,
)

__all__ = [
    "KeyedState",
    "Layout",
    "OpenRecords",
    "TaskShare",
    "Version",
    "in_share",
    "key_hashes",
    "named_digest",
    "open_segment",
    "segment_id",
    "write_regrouped",
    "write_segment",
]
