"""Engine state between batches: versions of Arrow files in the checkpoint.

A task opens the version that the last batch left (file names, by task), reads of it what its
batch has to do with, and writes what makes the next version: ``KeyedState`` for rows of keys,
``OpenRecords`` for the records of a join of streams, ``read_share`` and ``next_segments`` for
engines whose state is records that are read whole. ``key_hashes`` say which keys lie together,
in the files and in key groups. No file is ever changed: a batch that is run again starts from the
same version, and files that no version names can be removed. What a batch writes is on average in
proportion to the batch, however large the state is.
"""

from oriel.pipeline.state.key_hashes import key_hashes
from oriel.pipeline.state.keyed_state import KeyedState, Layout
from oriel.pipeline.state.open_records import OpenRecords
from oriel.pipeline.state.segments import Version, next_segments, read_share

__all__ = [
    "KeyedState",
    "Layout",
    "OpenRecords",
    "Version",
    "key_hashes",
    "next_segments",
    "read_share",
]
