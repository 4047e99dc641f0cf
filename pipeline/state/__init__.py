"""Engine state between batches: versions of Arrow files in the checkpoint.

A task opens the version of the last batch (file names, by task) with ``open_state``, reads the
working set of its batch, and writes the next version. The class of an operator declares the layout:
``KeyedState`` for rows of keys and time buckets, ``OpenRecords`` for records of a stream join or a
buffer. The hash of a key (``key_hashes``) determines its order in the files and its key group.
Files never change. A batch that runs again starts from the same version, and files without a
version can be deleted. A batch writes on average in proportion to its size, for any size of the
state.
"""

from oriel.pipeline.state.hashes import key_hashes
from oriel.pipeline.state.keyed_state import KeyedState
from oriel.pipeline.state.layout import Layout
from oriel.pipeline.state.open_records import OpenRecords
from oriel.pipeline.state.operator_state import open_state
from oriel.pipeline.state.segments import (
    TaskShare,
    Version,
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
    "key_hashes",
    "named_digest",
    "open_segment",
    "open_state",
    "segment_id",
    "write_regrouped",
    "write_segment",
]
