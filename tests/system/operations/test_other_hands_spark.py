"""Changes of a store's table by Spark: the index has the rows that Spark reads.

The tests follow the table, rebuild the index, and add the pipeline's next batch.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oriel.storage.delta import open_table, write_file
from oriel.storage.errors import CorruptLog, InvalidDefinition
from oriel.storage.position import COMMIT_INFO_KEY
from tests.storage.followed import Followed, check_in_this_process
from tests.storage.other_hands import Stored, expected
from tests.storage.store_tables import Row, make_record

#: The start of a window of the year 9999, in ms. Spark can write times that Arrow reads as ns.
YEAR_9999_MS = 253_370_764_800_000

_BATCHES: list[list[Row]] = [
    [{"key": "a", "start": 1}, {"key": "b", "start": 1}, {"key": "b", "start": YEAR_9999_MS}],
    [{"key": "a", "start": 1, "n": 2}, {"key": "a", "start": 2}],
    [{"key": "a", "start": 2, "deleted": True}, {"key": "c", "start": 3, "n": 3}],
]

_VECTORS = "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{on}')"

#: A change by Spark -> whether the pipeline can continue after it.
_HANDS: dict[str, tuple[list[str], bool]] = {
    "z-order": (["OPTIMIZE {table} ZORDER BY (key)"], True),
    "optimize and vacuum": (["OPTIMIZE {table}", "VACUUM {table} RETAIN 0 HOURS"], True),
    "vacuum": (["VACUUM {table}"], True),
    "delete a key": (["DELETE FROM {table} WHERE key = 'a'"], True),
    "delete revisions": (["DELETE FROM {table} WHERE revision > 0"], True),
    "update": (["UPDATE {table} SET n = 50 WHERE key = 'a'"], True),
    "merge": (
        [
            (
                "MERGE INTO {table} t USING (SELECT * FROM {table} WHERE key = 'b') s "
                "ON t.key = s.key AND t.window_start = s.window_start AND t.revision = s.revision "
                "WHEN MATCHED THEN UPDATE SET n = 77"
            )
        ],
        True,
    ),
    "append": (["INSERT INTO {table} SELECT * FROM {table} WHERE key = 'a'"], True),
    "append ahead": (
        [
            (
                "INSERT INTO {table} SELECT key, window_start, window_end, n + 10, mean, last, "
                "`all`, timestamp, final, deleted, revision + 4 FROM {table} WHERE key = 'a'"
            )
        ],
        True,
    ),
    "restore": (["RESTORE TABLE {table} TO VERSION AS OF 2"], True),
    "add a column": (["ALTER TABLE {table} ADD COLUMNS (note STRING)"], True),
    "deletion vectors and purge": (
        [
            _VECTORS.replace("{on}", "true"),
            "OPTIMIZE {table}",
            "DELETE FROM {table} WHERE key = 'a' AND n = 2",
            _VECTORS.replace("{on}", "false"),
            "REORG TABLE {table} APPLY (PURGE)",
        ],
        False,
    ),
}


#: For a few rows, code generation and compilation use a quarter of the whole time.
_SETTINGS = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="module")
def hands(spark: SparkSession) -> Iterator[SparkSession]:
    """Yield Spark with the tests' settings."""
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name in _SETTINGS:
        spark.conf.unset(name)


@pytest.fixture
def followed(tmp_path: Path, hands: SparkSession) -> Iterator[Followed]:
    """Yield a table of three batches that a tailer follows."""
    del hands
    table_and_tailer = Followed(tmp_path)
    with check_in_this_process():
        table_and_tailer.catch_up()
        for rows in _BATCHES:
            _commit(table_and_tailer, rows)
            table_and_tailer.catch_up()
        yield table_and_tailer
    table_and_tailer.tailer.close()


def _commit(followed: Followed, rows: list[Row]) -> None:
    """Write the pipeline's next batch."""
    table = followed.table
    table.batch += 1
    file = write_file(table.path, table.arrow(rows), "part", sync=False)
    record = {COMMIT_INFO_KEY: make_record(table.batch).to_json()}
    opened = open_table(table.path, table.schema, {}, sync=False)
    opened.commit([file], followed.definition.application, table.batch, record)


def _rows(followed: Followed, spark: SparkSession) -> list[Stored]:
    """Return all rows as Spark reads them, with times in ms."""
    frame = spark.read.format("delta").load(str(followed.table.path))
    columns = [
        f"unix_millis({field.name}) AS {field.name}" if "timestamp" in str(field.type)
        else f"`{field.name}`"
        for field in followed.table.schema
    ]  # fmt: skip
    return [row.asDict() for row in frame.selectExpr(*columns).collect()]


def _windows(followed: Followed) -> list[dict[str, Any]]:
    followed.catch_up()
    _, windows = followed.content()
    return windows


@pytest.mark.slow
@pytest.mark.parametrize("hand", _HANDS)
def test_the_index_is_what_spark_reads(followed: Followed, spark: SparkSession, hand: str) -> None:
    """The followed and the rebuilt index are right after each statement and the next batch."""
    statements, goes_on = _HANDS[hand]
    for statement in statements:
        spark.sql(statement.format(table=f"delta.`{followed.table.path}`"))
        wanted = expected(followed.table, _rows(followed, spark))
        assert _windows(followed) == wanted
        followed.directory.remove()
        assert _windows(followed) == wanted
    if not goes_on:
        with pytest.raises(CorruptLog, match="writer protocol"):
            _commit(followed, [{"key": "a", "start": 1}])
        return
    for n in (1, 2, 3):
        _commit(followed, [{"key": "a", "start": 1, "n": n}, {"key": "d", "start": n}])
        assert ("d", n) in {(row["key"], row["window_start_ms"]) for row in _windows(followed)}
    assert followed.content()[0].record == make_record(5)
    wanted = expected(followed.table, _rows(followed, spark))
    assert _windows(followed) == wanted
    followed.directory.remove()
    assert _windows(followed) == wanted


@pytest.mark.slow
def test_what_spark_made_of_the_table_and_cannot_be_read_is_said(
    followed: Followed, spark: SparkSession
) -> None:
    """After column mapping or a replaced table, the last index still returns rows."""
    _, windows = followed.content()
    table = f"delta.`{followed.table.path}`"
    spark.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"
    )
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN n TO m")
    with pytest.raises(CorruptLog, match="column mapping"):
        followed.catch_up()
    assert followed.content()[1] == windows
    spark.sql(f"CREATE OR REPLACE TABLE {table} USING delta AS SELECT 1 AS x")
    with pytest.raises(InvalidDefinition, match="Oriel did not create it"):
        followed.catch_up()
    assert followed.content()[1] == windows
