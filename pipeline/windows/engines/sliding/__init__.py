"""Sliding windows (KIP-450): both ends inclusive, aligned to the records.

In come a state of records and a batch of records; out go the records that can still matter and
each changed window's row. ``SlidingWindowEngine`` computes declarative aggregates for all keys
at once, ``SlidingFoldEngine`` calls a user's functions over each changed window's members.
Which records are members, ``WindowMembers`` knows of ``SlidingEntries``.
"""

from oriel.pipeline.windows.engines.sliding.declarative import SlidingWindowEngine
from oriel.pipeline.windows.engines.sliding.functions import SlidingFoldEngine
from oriel.pipeline.windows.engines.sliding.members import SlidingEntries, WindowMembers

__all__ = [
    "SlidingEntries",
    "SlidingFoldEngine",
    "SlidingWindowEngine",
    "WindowMembers",
]
