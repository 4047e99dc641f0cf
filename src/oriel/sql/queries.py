"""Run one ``SELECT`` statement over views of stores, in a connection that can do nothing else."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from oriel.storage import DataLayout, StorageError, UnknownStore
from oriel.storage.delta import table_directories
from oriel.tables import CurrentRows, current

#: The end of the name of the view with final rows.
_FINAL = "_final"


class InvalidQuery(StorageError):
    """The statement cannot be run. The message says why."""


class StoreQueries:
    """A connection with views of stores.

    Attributes:
        versions: The version of each store that has a view.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        versions: Mapping[str, int],
        stores: Sequence[str],
    ) -> None:
        """Use a locked connection. Call ``open_queries`` to create one.

        Args:
            connection: The connection.
            versions: The version of each store that has a view.
            stores: All stores of the data directory, for messages.
        """
        self._connection = connection
        self._stores = stores
        self.versions = versions

    def run(self, statement: str, seconds: float) -> Any:
        """Run a ``SELECT`` statement to its end, and return its rows as an Arrow table.

        Args:
            statement: The statement.
            seconds: The time limit.

        Raises:
            InvalidQuery: It is not one ``SELECT`` statement, takes too long, or DuckDB rejects it.
        """
        is_over = threading.Event()

        def end() -> None:
            is_over.set()
            self._connection.interrupt()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        try:
            _reject_other_statements(self._connection, statement)
            timer.start()
            return self._connection.sql(statement).to_arrow_table()
        except duckdb.Error as error:
            if is_over.is_set():
                message = (
                    f"the query was not done within {seconds:g} s. Add conditions, or set a longer "
                    "--timeout"
                )
                raise InvalidQuery(message) from error
            raise InvalidQuery(_message(error, self._stores)) from error
        finally:
            timer.cancel()


@contextmanager
def open_queries(data: Path, statement: str) -> Iterator[StoreQueries]:
    """Open a connection with views of the stores whose names occur in a statement.

    Each store has the view ``STORE`` with its current rows. If the store has windows, it also has
    the view ``STORE_final`` with the current rows that are final.

    Raises:
        UnknownStore: The data directory has no table.
        StorageError: A table cannot be read.
        InvalidQuery: Two stores have one name, because DuckDB ignores case.
    """
    tables = {path.name: path for path in table_directories(DataLayout(data).tables)}
    tables.pop(DataLayout(data).dead_letters.name, None)
    if not tables:
        message = f"{data} has no store. Use the --data directory of `oriel run`"
        raise UnknownStore(message)
    text = statement.casefold()
    named = {name: path for name, path in tables.items() if name.casefold() in text}
    with TemporaryDirectory(prefix="oriel-sql-") as spilled, duckdb.connect() as connection:
        rows = {name: current(path) for name, path in named.items()}
        connection.execute("SET TimeZone = 'UTC'")
        # Otherwise, a name can be a variable of this program.
        connection.execute("SET python_enable_replacements = false")
        _create_views(connection, rows)
        connection.execute("SET temp_directory = ?", [spilled])
        files = [path for each in rows.values() for path in each.files]
        connection.execute("SET allowed_paths = ?", [files])
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        versions = {name: each.version for name, each in rows.items()}
        yield StoreQueries(connection, versions, sorted(tables))


def _create_views(connection: duckdb.DuckDBPyConnection, rows: Mapping[str, CurrentRows]) -> None:
    names = [name.casefold() for name in rows]
    twice = sorted(name for name in rows if names.count(name.casefold()) > 1)
    if twice:
        message = (
            f"the stores {' and '.join(twice)} have one name in SQL, which ignores case. Read them "
            "in Python with oriel.tables.current"
        )
        raise InvalidQuery(message)
    for name, each in rows.items():
        connection.execute(f"CREATE VIEW {_quoted(name)} AS {each.sql('duckdb')}")
    for name in rows:
        columns = connection.sql(f"FROM {_quoted(name)}").columns
        # A store can have the name of another store's view. The store has precedence.
        if "final" in columns and (name + _FINAL).casefold() not in names:
            connection.execute(
                f"CREATE VIEW {_quoted(name + _FINAL)} AS FROM {_quoted(name)} WHERE final"
            )


def _reject_other_statements(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    statements = connection.extract_statements(statement)
    if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
        message = "the query must be one SELECT statement. Oriel's tables are read-only"
        raise InvalidQuery(message)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _message(error: duckdb.Error, stores: Sequence[str]) -> str:
    """Return the reason of an error, without the text of the query."""
    first, *others = str(error).partition("\n\n")[0].split("\n")
    if isinstance(error, duckdb.CatalogException) and first.startswith("Catalog Error: Table"):
        return f"{first} Stores: {', '.join(stores)}"
    return " ".join([first, *others])
