"""Merge the tumbling windows of a key to longer ranges while they are read.

``merged_windows`` is the function of the reads ``merged`` and ``mergedOfKeys``. It reads windows
with ``fetch`` of a store, step by step, and returns ranges as finished JSON with the fields of a
window.
"""

from oriel.app.reads.merged.read import merged_windows

__all__ = ["merged_windows"]
