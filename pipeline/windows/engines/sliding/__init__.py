"""The engines of sliding windows (KIP-450), which records define, with inclusive ends.

The input is a state of records and a batch of records. The output is the records that can still
affect a window, and the row of each changed window. The class ``SlidingWindowEngine`` computes
named aggregates for all keys together. The class ``SlidingFunctionEngine`` calls functions of a
user over the members of each changed window. The class ``WindowMembers`` finds the members in
``SlidingEntries``.
"""

from oriel.pipeline.windows.engines.sliding.declarative import SlidingWindowEngine
from oriel.pipeline.windows.engines.sliding.functions import SlidingFunctionEngine
from oriel.pipeline.windows.engines.sliding.members import SlidingEntries, WindowMembers

__all__ = ["SlidingEntries", "SlidingFunctionEngine", "SlidingWindowEngine", "WindowMembers"]
