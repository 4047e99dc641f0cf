"""Tables of the language: of topics, of aggregations, joined, versioned, global and grouped.

The input is what a user calls, such as ``table.join(other)``. The output is the inputs and stores
of the topology that the calls describe.
"""

from oriel.pipeline.language.tables.global_tables import GlobalKTable
from oriel.pipeline.language.tables.grouped_tables import KGroupedTable
from oriel.pipeline.language.tables.ktables import KTable, until_window_closes
from oriel.pipeline.language.tables.source_tables import SourceTable
from oriel.pipeline.language.tables.versioned_tables import VersionedTable

__all__ = [
    "GlobalKTable",
    "KGroupedTable",
    "KTable",
    "SourceTable",
    "VersionedTable",
    "until_window_closes",
]
