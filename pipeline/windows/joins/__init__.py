"""Door of oriel.pipeline.windows.joins."""

from oriel.pipeline.windows.joins.sides import (
    RESULT_FIELDS,
    SIDE,
    SIDE_FIELDS,
    How,
    check_how,
    joined_values,
)
from oriel.pipeline.windows.joins.streams import (
    MATCHED,
    RIGHT_ALONE,
    Clocks,
    StreamJoinEngine,
    refuse_large_places,
)
from oriel.pipeline.windows.joins.table_rows import TableRowsEngine
from oriel.pipeline.windows.joins.tables import TableJoinEngine
from oriel.pipeline.windows.joins.updates import TableUpdatesEngine

__all__ = [
    "MATCHED",
    "RESULT_FIELDS",
    "RIGHT_ALONE",
    "SIDE",
    "SIDE_FIELDS",
    "Clocks",
    "How",
    "StreamJoinEngine",
    "TableJoinEngine",
    "TableRowsEngine",
    "TableUpdatesEngine",
    "check_how",
    "joined_values",
    "refuse_large_places",
]
