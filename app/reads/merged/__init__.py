"""Merge the tumbling windows of a key to longer ranges while they are read.

In the API, the reads are ``merged`` and ``mergedOfKeys``. Their function ``merged_windows`` reads
the windows of a store step by step. It returns ranges as finished JSON with the fields of a window.
``item_definition`` has the fields of the items of any read.

``mergeable_aggregates`` lists the aggregates that the ranges of a store can have.
"""

from oriel.app.reads.merged.ranges import mergeable_aggregates
from oriel.app.reads.merged.read import is_merged, item_definition, merged_windows

__all__ = ["is_merged", "item_definition", "mergeable_aggregates", "merged_windows"]
