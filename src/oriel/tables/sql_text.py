"""The SQL text that selects the current rows, in the dialects of DuckDB and Spark."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from oriel.storage.delta import Range
from oriel.tables.steps import Selection, Step, Windows

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Dialect(NamedTuple):
    """What differs between the dialects.

    Attributes:
        quote: The character around a name.
        time: The name of the type of a time, which is also the first word of its literals.
        array: Returns the type of an array from the type of its items.
        types: The names of the scalar types.
        files: Returns the expression that reads Parquet files of one schema.
        cast_time: Returns the expression that casts a column to a time in UTC.
    """

    quote: str
    time: str
    array: Callable[[str], str]
    types: dict[pa.DataType, str]
    files: Callable[[Sequence[Path]], str]
    cast_time: Callable[[str], str]

    def name(self, column: str) -> str:
        """Return a quoted name."""
        return f"{self.quote}{column.replace(self.quote, self.quote * 2)}{self.quote}"

    def names(self, columns: Iterable[str]) -> str:
        """Return quoted names with commas."""
        return ", ".join(map(self.name, columns))

    def literal(self, time: int) -> str:
        """Return the literal of a time in microseconds."""
        moment = _EPOCH + timedelta(microseconds=time)
        return f"{self.time} '{moment:%Y-%m-%d %H:%M:%S.%f}+00:00'"

    def type_name(self, column_type: pa.DataType) -> str:
        """Return the name of the type of a column."""
        if pa.types.is_timestamp(column_type):
            return self.time
        if pa.types.is_list(column_type):
            return self.array(self.type_name(column_type.value_type))
        return self.types[column_type]


def _duckdb_files(paths: Sequence[Path]) -> str:
    # A bracket around a character removes its meaning in a glob.
    names = ["".join(f"[{each}]" if each in "*?[" else each for each in str(p)) for p in paths]
    texts = ", ".join("'" + name.replace("'", "''") + "'" for name in names)
    return f"read_parquet([{texts}])"


def _spark_files(paths: Sequence[Path]) -> str:
    directory = paths[0].parent
    if {path.parent for path in paths} != {directory}:
        files = " UNION ALL ".join(f"SELECT * FROM {_spark_files([path])}" for path in paths)
        return f"({files})"
    names = ",".join(_escaped(path.name) for path in paths)
    glob = f"{_escaped(str(directory))}/{{{names}}}" if len(paths) > 1 else _escaped(str(paths[0]))
    return "parquet.`" + glob.replace("`", "``") + "`"


def _escaped(path: str) -> str:
    """Return a path whose characters have no meaning in a glob of Hadoop."""
    return "".join(f"\\{each}" if each in r"\*?[]{},^" else each for each in path)


DIALECTS = {
    "duckdb": Dialect(
        quote='"',
        time="TIMESTAMPTZ",
        array=lambda items: f"{items}[]",
        types={
            pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.float64(): "DOUBLE",
            pa.bool_(): "BOOLEAN",
        },
        files=_duckdb_files,
        # DuckDB reads INT96 as a local time, which a cast would move by the zone of the session.
        cast_time=lambda column: f"make_timestamptz(epoch_us({column}))",
    ),
    "spark": Dialect(
        quote="`",
        time="TIMESTAMP",
        array=lambda items: f"ARRAY<{items}>",
        types={
            pa.string(): "STRING", pa.int64(): "BIGINT", pa.float64(): "DOUBLE",
            pa.bool_(): "BOOLEAN",
        },
        files=_spark_files,
        cast_time=lambda column: f"CAST({column} AS TIMESTAMP)",
    ),
}  # fmt: skip


def sql_text(selection: Selection, dialect: Dialect) -> str:
    """Return the query that selects the current rows."""
    if not selection.steps:
        return _no_rows(selection, dialect)
    queries = [_query(step, selection, dialect) for step in selection.steps]
    return "\nUNION ALL\n".join(queries)


def _no_rows(selection: Selection, dialect: Dialect) -> str:
    columns = [
        f"CAST(NULL AS {dialect.type_name(selection.schema.field(name).type)}) AS "
        f"{dialect.name(name)}"
        for name in selection.columns
    ]
    return f"SELECT {', '.join(columns)} WHERE false"


def _query(step: Step, selection: Selection, dialect: Dialect) -> str:
    conditions = _conditions(selection, dialect)
    source = _source(step, selection, dialect)
    columns = dialect.names(selection.columns)
    if step.repeats:
        rank = dialect.name("oriel.rank")
        source = (
            f"(SELECT *, row_number() OVER (\n"
            f"    PARTITION BY {dialect.names(selection.window)}\n"
            f"    ORDER BY {dialect.name('revision')} DESC, {dialect.name('deleted')}\n"
            f"  ) AS {rank} FROM {source} AS oriel_files{_where(conditions)})"
        )
        conditions = [f"{rank} = 1"]
    conditions = [f"NOT {dialect.name('deleted')}", *conditions]
    query = f"SELECT {columns} FROM {source} AS oriel_rows"
    if step.newer:
        # A union, because some engines read the first table of a join completely for each join.
        newer = "\n  UNION ALL\n  ".join(
            _windows(each, selection, dialect) for each in step.newer
        )  # fmt: skip
        query += (
            f"\nANTI JOIN (\n  {newer}\n) AS oriel_newer USING ({dialect.names(selection.window)})"
        )
    return query + _where(conditions)


def _source(files: Step | Windows, selection: Selection, dialect: Dialect) -> str:
    if not files.foreign:
        return dialect.files(files.paths)
    # Other programs can write other types, and files without a column that has no values.
    tables = "\n  UNION ALL\n  ".join(
        f"SELECT {_cast_columns(path, selection.schema, dialect)} FROM {dialect.files([path])}"
        for path in files.paths
    )
    return f"(\n  {tables}\n)"


def _cast_columns(path: Path, schema: pa.Schema, dialect: Dialect) -> str:
    existing = pq.read_schema(path).names
    columns = []
    for field in schema:
        name = dialect.name(field.name)
        if field.name not in existing:
            value = f"CAST(NULL AS {dialect.type_name(field.type)})"
        elif pa.types.is_timestamp(field.type):
            value = dialect.cast_time(name)
        else:
            value = f"CAST({name} AS {dialect.type_name(field.type)})"
        columns.append(f"{value} AS {name}")
    return ", ".join(columns)


def _windows(windows: Windows, selection: Selection, dialect: Dialect) -> str:
    conditions = [] if windows.starts is None else [_between(windows.starts, dialect)]
    source = _source(windows, selection, dialect)
    names = dialect.names(selection.window)
    return f"SELECT {names} FROM {source} AS oriel_files{_where(conditions)}"


def _conditions(selection: Selection, dialect: Dialect) -> list[str]:
    found = []
    if selection.earliest is not None:
        column, time = selection.earliest
        found.append(f"{dialect.name(column)} >= {dialect.literal(time)}")
    return found


def _between(starts: Range, dialect: Dialect) -> str:
    least, greatest = map(dialect.literal, starts)
    return f"{dialect.name('window_start')} BETWEEN {least} AND {greatest}"


def _where(conditions: Sequence[str]) -> str:
    return f"\nWHERE {' AND '.join(conditions)}" if conditions else ""
