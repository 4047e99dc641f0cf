"""Topologies that only Spark can check: each mistake is one message before anything is created."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oriel import InvalidTopology, JoinWindows, StreamsBuilder, TimeWindows, count, sum
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.run import PipelineRun, RunSettings
from oriel.pipeline.sources import EventLog

# Spark is slow, so these tests are not in the inner loop.
pytestmark = pytest.mark.slow

WINDOWS = TimeWindows.of_size_with_no_grace(10)
WITHIN = JoinWindows.of_time_difference_with_no_grace(5)


def refused(spark: SparkSession, directory: Path, builder: StreamsBuilder) -> str:
    """Return the message with which a topology is rejected, and check that nothing was created."""
    settings = RunSettings(directory / "data", "app", trigger_ms=None, tasks=2, sync=False)
    with pytest.raises(InvalidTopology) as caught:
        PipelineRun.recover(spark, builder.build(), EventLog(directory / "log"), settings)
    assert not (directory / "data").exists()
    return str(caught.value)


def count_all(stream: KStream) -> None:
    """Materialize the counts of a stream."""
    stream.group_by_key().windowed_by(WINDOWS).count().materialize("s")


def join(builder: StreamsBuilder, left: str = "v INT", right: str = "w INT") -> KStream:
    """Return two joined streams."""
    return builder.stream("t", left).join(builder.stream("u", right), WITHIN)


def steps_of_a_side(builder: StreamsBuilder) -> None:
    """Filter by a column of the other input before a join."""
    filtered = builder.stream("t", "v INT").filter("w > 1")
    count_all(filtered.join(builder.stream("u", "w INT"), WITHIN))


def aggregate_of_the_other(builder: StreamsBuilder) -> None:
    """Aggregate a column of the other stream in a cogroup."""
    first = builder.stream("t", "v INT").group_by_key().cogroup(n=count())
    second = builder.stream("u", "w INT").group_by_key()
    first.cogroup(second, total=sum("v")).aggregate().materialize("s")


def table_of_dates(builder: StreamsBuilder) -> None:
    """Materialize a table with a type that no store can hold."""
    builder.table("t", "v INT, day DATE").materialize("s")


def reduced_structs(builder: StreamsBuilder) -> None:
    """Reduce a value with a type that no store can hold."""
    stream = builder.stream("t", "v STRUCT<a: INT>").group_by_key()
    stream.reduce(lambda kept, _: kept).materialize("s")


def joined_tables(builder: StreamsBuilder) -> None:
    """Join two tables with equal column names."""
    builder.table("t", "v INT").join(builder.table("u", "v INT")).materialize("s")


def looked_up(builder: StreamsBuilder) -> None:
    """Join a stream and a table with equal column names."""
    count_all(builder.stream("t", "v INT").join(builder.table("u", "v INT")))


#: What is wrong -> how it is built, and what the message says: store, step, error.
MISTAKES: dict[str, tuple[Callable[[StreamsBuilder], Any], tuple[str, ...]]] = {
    "filter before a join": (
        steps_of_a_side,
        ("store 's', step filter('w > 1'): ", "`w`"),
    ),
    "filter behind a join": (
        lambda b: count_all(join(b).filter("x > 1")),
        ("store 's', step filter('x > 1'): ", "`x`"),
    ),
    "map_values behind a join": (
        lambda b: count_all(join(b).map_values("v", y="w + x")),
        ("store 's', step map_values('v', y='w + x'): ", "`x`"),
    ),
    "group_by behind a join": (
        lambda b: join(b).group_by("x").windowed_by(WINDOWS).aggregate(n=count()).materialize("s"),
        ("store 's', step group_by(x): ", "`x`"),
    ),
    "an aggregate behind a join": (
        lambda b: join(b).group_by_key().aggregate(n=sum("x")).materialize("s"),
        ("store 's', aggregate: sum(x): no column 'x'. The columns are ['v', 'w']",),
    ),
    "an aggregate of the other stream of a cogroup": (
        aggregate_of_the_other,
        ("store 's', aggregate: sum(v): no column 'v'. The columns are ['w']",),
    ),
    "sides with equal columns": (
        lambda b: count_all(join(b, "v INT", "v INT")),
        ("store 's', join('u'): column 'v' exists twice", "with map_values(other=...)"),
    ),
    "a stream and a table with equal columns": (
        looked_up,
        ("store 's', join(table 'u'): column 'v' exists twice", "map_values"),
    ),
    "tables with equal columns": (
        joined_tables,
        ("store 's', ", "column 'v' exists twice"),
    ),
    "a table of a type that no store can hold": (
        table_of_dates,
        ("store 's', column 'day': a store cannot hold date32",),
    ),
    "a value of a type that no store can hold": (
        reduced_structs,
        ("store 's', column 'v': a store cannot hold struct<a: int32>",),
    ),
    "a schema with one name twice": (
        lambda b: count_all(b.stream("t", "v INT, V INT")),
        ("stream: the schema 'v INT, V INT' has the column 'v' twice",),
    ),
    "a schema of an unknown type": (
        lambda b: b.table("t", "v NUMBER").materialize("s"),
        ("table('t'): the schema 'v NUMBER' is not valid: ", 'Unsupported data type "NUMBER"'),
    ),
    "a schema that is none": (
        lambda b: b.table("t", "v INT,").materialize("s"),
        ("table('t'): the schema 'v INT,' is not valid: ", "Syntax error at or near"),
    ),
    "a schema with a type that does not go on": (
        lambda b: count_all(b.stream("t", "at TIMESTAMP")),
        ("store 's', stream('t'): column 'at' cannot have the type TIMESTAMP. ", "unix_millis"),
    ),
    "a side of a join that is not row-wise": (
        lambda b: count_all(
            b.stream("t", "v INT").join(b.stream("u", "w INT").filter("sum(w) > 1"), WITHIN)
        ),
        ("store 's', step filter('sum(w) > 1'): the condition is not row-wise",),
    ),
    "random numbers behind a join": (
        lambda b: count_all(join(b).map_values("*", x="rand()")),
        ("store 's', step map_values('*', x='rand()'): column 'x' is not deterministic",),
    ),
    "a time behind a join": (
        lambda b: count_all(join(b).map_values(t="timestamp_millis(timestamp_ms)")),
        ("store 's', step map_values(t='timestamp_millis(timestamp_ms)'): column 't' cannot have",),
    ),
}


@pytest.mark.parametrize(("build", "said"), MISTAKES.values(), ids=MISTAKES)
def test_what_does_not_fit_is_named(
    spark: SparkSession,
    tmp_path: Path,
    build: Callable[[StreamsBuilder], Any],
    said: tuple[str, ...],
) -> None:
    """The message is one line that begins with store and step and contains the error."""
    builder = StreamsBuilder()
    build(builder)
    message = refused(spark, tmp_path, builder)
    assert message.startswith(said[0])
    assert [part for part in said if part not in message] == [], message
    assert "\n" not in message


def test_a_name_of_the_rows_is_refused_before_anything_is_made(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Otherwise, the table would reject the same store after its column is renamed."""
    builder = StreamsBuilder()
    grouped = builder.stream("t", "reason BIGINT").group_by_key()
    grouped.aggregate(n=sum("reason")).materialize("s")
    assert "map_values" in refused(spark, tmp_path, builder)


def test_equal_columns_of_a_join_can_be_renamed(spark: SparkSession, tmp_path: Path) -> None:
    """The solution in the message works."""
    builder = StreamsBuilder()
    left = builder.stream("t", "v INT").map_values(mine="v")
    count_all(left.join(builder.stream("u", "v INT"), WITHIN))
    settings = RunSettings(tmp_path / "data", "app", trigger_ms=None, tasks=2, sync=False)
    PipelineRun.recover(spark, builder.build(), EventLog(tmp_path / "log"), settings).close()
