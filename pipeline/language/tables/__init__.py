"""The tables of the language, with the steps that a user calls, such as ``table.join(other)``.

A table is a topic, an aggregation or a join of tables, or a versioned, global or grouped table. The
steps create the inputs and stores of the topology.
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
