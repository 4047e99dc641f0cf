"""The conditions (``where``) and the order (``order_by``) of reads of many windows or rows.

The input is the JSON of the items of a page, the store's definition, and the text of the request.
Arrow evaluates conditions and sorts, over whole columns. No code runs per item.
"""

from oriel.app.selection.candidates import first_rows, rows_after, rows_of_keys
from oriel.app.selection.columns import item_columns, item_schema
from oriel.app.selection.filters import matching_items, matching_rows, parse_condition
from oriel.app.selection.ranking import (
    OrderColumn,
    Place,
    Ranking,
    parse_order,
    ranked_columns,
)

__all__ = [
    "OrderColumn",
    "Place",
    "Ranking",
    "first_rows",
    "item_columns",
    "item_schema",
    "matching_items",
    "matching_rows",
    "parse_condition",
    "parse_order",
    "ranked_columns",
    "rows_after",
    "rows_of_keys",
]
