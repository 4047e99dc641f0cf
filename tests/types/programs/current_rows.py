"""Current rows of a table, in the form of each library."""

from pathlib import Path
from typing import Any, assert_type

import duckdb
import pandas as pd
import polars as pl

from oriel import tables
from oriel.tables import CurrentRows, current

rows = tables.current("data/tables/orders")
assert_type(rows, CurrentRows)
assert_type(current(Path("data/tables/orders"), version=3), CurrentRows)
assert_type(rows.version, int)
assert_type(rows.sql("duckdb"), str)
assert_type(rows.duckdb(), duckdb.DuckDBPyRelation)
assert_type(rows.polars(), pl.LazyFrame)
assert_type(rows.pandas(), pd.DataFrame)
assert_type(rows.arrow(), Any)
assert_type(rows.spark(object()), Any)
