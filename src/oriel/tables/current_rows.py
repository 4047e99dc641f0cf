"""``current``: open a version of a table, and return its current rows in the form of a library."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oriel.storage.delta import LOG_DIRECTORY
from oriel.storage.errors import StoreNotReady
from oriel.storage.table_store import ReadBudget, TableVersions, VersionRows
from oriel.tables.arrow_frames import arrow_rows
from oriel.tables.sql_text import DIALECTS, duckdb_path, sql_text
from oriel.tables.steps import Selection, selection

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl


class CurrentRows:
    """The current rows of one version of a table.

    The columns are the key, the window, the aggregates, ``timestamp`` and ``final``. The rows have
    no order.

    Attributes:
        version: The version of the table.
        position: The position, as in responses of the service: ``version``, ``offsets`` and
            ``history``.
    """

    def __init__(self, rows: VersionRows) -> None:
        """Use an open version. Call ``current`` to open one."""
        self._rows = rows
        self.version = rows.state.version
        self.position: Mapping[str, Any] = {
            "version": self.version,
            "offsets": rows.state.offsets,
            "history": rows.state.place.history,
        }

    @cached_property
    def _selection(self) -> Selection:
        return selection(self._rows)

    @property
    def files(self) -> list[str]:
        """The files that a query reads, for the setting ``allowed_paths`` of DuckDB.

        If a path has characters of globs, the list also has the form that the SQL text uses.
        """
        paths = [self._rows.table / file.path for file in self._rows.files]
        return sorted({*map(str, paths), *map(duckdb_path, paths)})

    def sql(self, dialect: str) -> str:
        """Return a ``SELECT`` statement that returns the current rows.

        The statement names the files of this version. Maintenance deletes a file some time after it
        left the table, so request the text again for later queries.

        Args:
            dialect: ``duckdb`` or ``spark``.

        Raises:
            ValueError: The dialect is unknown.

        Example:
            ``connection.sql(f"SELECT sum(revenue) FROM ({rows.sql('duckdb')})")``
        """
        if dialect not in DIALECTS:
            message = f"dialect is {dialect!r}. It must be one of {', '.join(DIALECTS)}"
            raise ValueError(message)
        return sql_text(self._selection, DIALECTS[dialect])

    def duckdb(
        self, connection: "duckdb.DuckDBPyConnection | None" = None
    ) -> "duckdb.DuckDBPyRelation":
        """Return the current rows as a relation of DuckDB, which reads only needed columns.

        Args:
            connection: The connection. None: DuckDB's default connection.

        Example:
            ``rows.duckdb().aggregate("key, sum(revenue)")``
        """
        import duckdb  # noqa: PLC0415 - only this method needs it

        return (connection or duckdb.default_connection()).sql(self.sql("duckdb"))

    def polars(self) -> "pl.LazyFrame":
        """Return the current rows as a lazy frame of Polars, which reads only needed columns.

        Example:
            ``rows.polars().filter(pl.col("final")).collect()``
        """
        from oriel.tables.polars_frames import polars_rows  # noqa: PLC0415 - needs Polars

        return polars_rows(self._selection)

    def pandas(self) -> "pd.DataFrame":
        """Return the current rows as a frame of pandas.

        Example:
            ``rows.pandas().groupby("key").revenue.sum()``
        """
        return self.arrow().to_pandas()

    def arrow(self) -> Any:
        """Return the current rows as a ``pyarrow.Table``.

        Example:
            ``rows.arrow().num_rows``
        """
        return arrow_rows(self._selection)

    def spark(self, session: Any) -> Any:
        """Return the current rows as a data frame of Spark.

        Args:
            session: The ``SparkSession``. It needs no extension for Delta.

        Example:
            ``rows.spark(session).createOrReplaceTempView("revenue_by_minute")``
        """
        return session.sql(self.sql("spark"))


def current(path: str | Path, *, version: int | None = None) -> CurrentRows:
    """Open the current rows of a store's table.

    The rows are those of the index at the same version. For each window, the row with the highest
    revision counts. Removed and expired windows have no row.

    Args:
        path: The directory of the table, for example ``data/tables/revenue_by_minute``.
        version: The version. None: the newest.

    Raises:
        StoreNotReady: The directory has no table.
        VersionNotFound: The table has not reached the version.
        VersionGone: Log entries or files of the version were deleted.
        CorruptLog: The log or a file of the table is damaged or missing, or the table has deletion
            vectors.
        InvalidDefinition: The table is not a store.

    Example:
        ``tables.current("data/tables/revenue_by_minute").polars()``
    """
    table = Path(path).absolute()
    if not (table / LOG_DIRECTORY).is_dir():
        message = f"{path} has no Delta table. Use the directory of a store, DATA/tables/STORE"
        raise StoreNotReady(message)
    versions = TableVersions(table)
    return CurrentRows(
        versions.rows(versions.newest() if version is None else version, ReadBudget())
    )
