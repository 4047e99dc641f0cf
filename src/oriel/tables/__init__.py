"""The current rows of a store's table, for DuckDB, Polars, pandas and Spark.

A table has a row for each update of a window. ``current`` returns a view with the newest row of
each window, as the index of the service has it. It compares only the files that can share windows.
So it needs neither a service nor an index, and no window function over all rows (decision 0105).

    from oriel import tables

    rows = tables.current("data/tables/revenue_by_minute")
    rows.pandas()

Each library is imported by the method that uses it.
"""

from oriel.tables.current_rows import CurrentRows, current

__all__ = ["CurrentRows", "current"]
