"""``oriel sql``: query the stores of a data directory with SQL.

Input: a ``SELECT`` statement, and the tables of the stores. Output: rows, and the version that each
table has. DuckDB runs the statement over views of the current rows (``oriel.tables``), and cannot
read other files.
"""

from oriel.sql.command import main

__all__ = ["main"]
