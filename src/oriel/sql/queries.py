"""Run one ``SELECT`` statement over views of stores, in a connection that can do nothing else."""

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from oriel.sql.errors import InvalidQuery, QueryLimit
from oriel.sql.statements import check_statement
from oriel.storage import DataLayout, StorageError, UnknownStore
from oriel.storage.delta import table_directories
from oriel.tables import CurrentRows, current

#: The end of the name of the view with final rows.
_FINAL = "_final"
#: Types that Arrow or Python lack, or that lose digits there. For example, Arrow reads a UHUGEINT
#: as an integer with a sign.
_OTHER_TYPES = re.compile(
    r"\b(UHUGEINT|BIGNUM|BIT|INTERVAL|VARIANT|GEOMETRY|TIME WITH TIME ZONE|TIME_NS|TIMESTAMP_NS)\b"
)


class Limits(NamedTuple):
    """The limits of one query.

    Attributes:
        seconds: The time.
        rows: The number of returned rows. Further rows are cut.
        memory: The bytes of memory that DuckDB uses. Beyond it, DuckDB writes temporary files.
        temporary: The bytes of these files.
        result: The bytes of the returned rows. None: no limit.
    """

    seconds: float
    rows: int
    memory: int
    temporary: int
    result: int | None = None


class Result(NamedTuple):
    """The rows of a query.

    Attributes:
        rows: An Arrow table.
        types: DuckDB's name of the type of each column.
        is_cut: True if the query has more rows than the limit.
    """

    rows: Any
    types: list[str]
    is_cut: bool


class StoreQueries:
    """A connection with views of stores.

    Attributes:
        positions: The position of each store that has a view, as in responses of the service.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        rows: Mapping[str, CurrentRows],
        stores: Sequence[str],
        limits: Limits,
    ) -> None:
        """Use a locked connection. Call ``open_queries`` to create one.

        Args:
            connection: The connection.
            rows: The rows of each store that has a view.
            stores: All stores that can be named, for messages.
            limits: The limits of the query.
        """
        self._connection = connection
        self._stores = stores
        self._limits = limits
        self.positions = {name: rows[name].position for name in sorted(rows)}

    def run(self, statement: str) -> Result:
        """Run a ``SELECT`` statement, and return its rows up to the limit.

        If several columns have one name, the later ones have a number at the end of their names.

        Raises:
            InvalidQuery: It is not one ``SELECT`` statement, or DuckDB rejects it.
            UnknownStore: A table of the query does not exist.
            QueryLimit: The query takes too long, or needs too much memory.
        """
        is_over = threading.Event()

        def end() -> None:
            is_over.set()
            self._connection.interrupt()

        timer = threading.Timer(self._limits.seconds, end)
        timer.daemon = True
        try:
            check_statement(self._connection, statement)
            timer.start()
            return self._result(self._connection.sql(statement))
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise self._explained(error, is_late=is_over.is_set()) from error
        finally:
            timer.cancel()

    def _result(self, relation: duckdb.DuckDBPyRelation) -> Result:
        most = self._limits.rows
        # With this limit, DuckDB also adds a number to equal names of columns.
        relation = relation.limit(most + 1)
        types = list(map(str, relation.types))
        reader = _without_other_types(relation, types).to_arrow_reader()
        batches: list[Any] = []
        size = 0
        for batch in reader:
            batches.append(batch)
            size += batch.nbytes
            if self._limits.result is not None and size > self._limits.result:
                message = (
                    f"the rows of the query have more than {self._limits.result:,} bytes. Select "
                    "fewer rows or columns"
                )
                raise QueryLimit(message)
        rows = pa.Table.from_batches(batches, reader.schema)
        return Result(rows.slice(0, most), types, len(rows) > most)

    def _explained(self, error: Exception, *, is_late: bool) -> StorageError:
        """Return the error with a message for users."""
        if is_late:
            return QueryLimit(
                f"the query was not done within {self._limits.seconds:g} s. Add conditions, or "
                "select fewer rows"
            )
        # Without the text of the query.
        lines = str(error).partition("\n\n")[0].rstrip(".").split("\n")
        if isinstance(error, duckdb.OutOfMemoryException):
            # The next sentence names a setting, which is locked.
            reason = " ".join(lines).partition(" This limit was set")[0]
            return QueryLimit(f"the query needs more memory than its limit. {reason}")
        if isinstance(error, duckdb.CatalogException) and lines[0].startswith(
            "Catalog Error: Table with name"
        ):
            return UnknownStore(f"{lines[0]} Stores: {', '.join(self._stores) or 'none'}")
        return InvalidQuery(" ".join(lines))


def store_tables(data: Path) -> dict[str, Path]:
    """Return the directory of the table of each store of a data directory."""
    layout = DataLayout(data)
    tables = {path.name: path for path in table_directories(layout.tables)}
    tables.pop(layout.dead_letters.name, None)
    return tables


@contextmanager
def open_queries(
    tables: Mapping[str, Path], statement: str, limits: Limits
) -> Iterator[StoreQueries]:
    """Open a connection with views of the stores whose names occur in a statement.

    Each store has the view ``STORE`` with its current rows. If the store has windows, it also has
    the view ``STORE_final`` with the current rows that are final.

    Args:
        tables: The directory of the table of each store that the statement can read.
        statement: The statement.
        limits: The limits of the query.

    Raises:
        StorageError: A table cannot be read.
        InvalidQuery: Two stores have one name, because DuckDB ignores case.
    """
    text = statement.casefold()
    named = {name: path for name, path in tables.items() if name.casefold() in text}
    with TemporaryDirectory(prefix="oriel-sql-") as private, duckdb.connect() as connection:
        try:
            rows = {name: current(_link(path, Path(private))) for name, path in named.items()}
            connection.execute("SET TimeZone = 'UTC'")
            # Otherwise, a name can be a variable of this program.
            connection.execute("SET python_enable_replacements = false")
            _create_views(connection, rows)
            connection.execute("SET temp_directory = ?", [str(Path(private, ".temporary"))])
            connection.execute("SET secret_directory = ?", [private])
            connection.execute("SET memory_limit = ?", [f"{limits.memory}B"])
            connection.execute("SET max_temp_directory_size = ?", [f"{limits.temporary}B"])
            files = [path for each in rows.values() for path in each.files]
            connection.execute("SET allowed_paths = ?", [files])
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            yield StoreQueries(connection, rows, sorted(tables), limits)
        except StorageError as error:
            # Paths of this machine are not for the author of the statement.
            raise type(error)(str(error).replace(f"{private}/", "")) from error


def _link(table: Path, private: Path) -> Path:
    """Return a link to a table. Its path does not show where the data directory is."""
    link = private / table.name
    link.symlink_to(table.absolute(), target_is_directory=True)
    return link


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


def _without_other_types(
    relation: duckdb.DuckDBPyRelation, types: Sequence[str]
) -> duckdb.DuckDBPyRelation:
    """Return the relation with texts instead of values that Arrow or Python lack or change."""
    if not any(map(_OTHER_TYPES.search, types)):
        return relation
    columns = zip(map(_quoted, relation.columns), types, strict=True)
    return relation.project(
        ", ".join(
            f"CAST({name} AS VARCHAR) AS {name}" if _OTHER_TYPES.search(each) else name
            for name, each in columns
        )
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
