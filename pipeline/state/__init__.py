"""Door of oriel.pipeline.state."""

from oriel.pipeline.state.keyed_state import KeyedState, Layout
from oriel.pipeline.state.open_records import OpenRecords
from oriel.pipeline.state.segments import Version, next_segments, read_share

__all__ = [
    "KeyedState",
    "Layout",
    "OpenRecords",
    "Version",
    "next_segments",
    "read_share",
]
