"""The source of each record of an output topic is one string, the same in every run."""

from functools import partial

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from oriel import JoinWindows, StreamsBuilder, TimeWindows
from oriel.pipeline.dead_letters import SourceReasons
from oriel.pipeline.language import KStream
from oriel.pipeline.lowered import lower_sink
from oriel.pipeline.plan import InputSource, StorePlans, input_sources, record_sources
from oriel.pipeline.testing.steps import steps_for
from oriel.pipeline.windows import LINEAGE
from tests.windows.lineages import lineage

WITHIN = JoinWindows.of_time_difference_and_grace(5, 0)


def rows(*records: tuple[int, ...]) -> pa.Table:
    """Return rows with these values: partition, offset, and the indexes of the lineage."""
    lineages = [lineage(*indexes) if indexes else None for _, _, *indexes in records]
    return pa.table({
        "partition": pa.array([record[0] for record in records], pa.int32()),
        "offset": pa.array([record[1] for record in records], pa.int64()),
        LINEAGE.name: pa.array(lineages, LINEAGE.type),
    })  # fmt: skip


def sources_of(stream: KStream) -> tuple[InputSource, ...]:
    """Return how the records of a stream are identified."""
    stream.to("out")
    sink = lower_sink(stream.registry.sinks[0])
    reasons = dict.fromkeys(sink.sources, SourceReasons.FOR_ALL)
    return input_sources(StorePlans(sink, partial(steps_for, store=sink.name), reasons))


def texts_of(stream: KStream, *records: tuple[int, ...]) -> list[str]:
    """Return the sources of rows of a stream."""
    texts: list[str] = record_sources(rows(*records), sources_of(stream)).to_pylist()
    return texts


@pytest.fixture(name="builder")
def _builder() -> StreamsBuilder:
    return StreamsBuilder()


@pytest.mark.slow
def test_a_record_is_identified_by_its_position(
    spark: SparkSession, builder: StreamsBuilder
) -> None:
    """A join with a table changes nothing, and a flattened record has its index at the end."""
    assert spark is not None
    stream = builder.stream("orders", "v INT").join(builder.table("users", "city STRING"))
    assert texts_of(stream, (3, 1042), (0, 7)) == ["orders/3/1042", "orders/0/7"]
    elements = StreamsBuilder().stream("orders", "v ARRAY<INT>").flat_map_values(one="v")
    assert texts_of(elements, (3, 1042, 0), (0, 7, 2)) == ["orders/3/1042/0", "orders/0/7/2"]


def test_records_of_a_source_have_no_lineage(builder: StreamsBuilder) -> None:
    """Their rows are without the column."""
    sources = sources_of(builder.stream("orders", "v INT"))
    table = rows((1, 2)).drop_columns(LINEAGE.name)
    assert record_sources(table, sources).to_pylist() == ["orders/1/2"]


def test_a_result_of_a_join_is_identified_by_both_records(builder: StreamsBuilder) -> None:
    """An unmatched record of any side is identified by itself, also after a join with a table."""
    views, clicks = builder.stream("views", "a INT"), builder.stream("clicks", "b INT")
    pairs = views.outer_join(clicks, WITHIN).left_join(builder.table("users", "city STRING"))
    found = texts_of(pairs, (0, 5, 0, 2, 10), (0, 5, 0, 0, 0), (4, 6, 1, 0, 0))
    assert found == ["views/0/5+clicks/2/9", "views/0/5", "clicks/4/6"]


@pytest.mark.slow
def test_a_join_of_joins_is_identified_by_all_records(
    spark: SparkSession, builder: StreamsBuilder
) -> None:
    """The records are in the order of streams, without the missing records of an outer join."""
    assert spark is not None
    views, clicks = builder.stream("views", "a INT"), builder.stream("clicks", "b INT")
    items = builder.stream("carts", "c ARRAY<INT>").flat_map_values(item="c")
    joined = views.outer_join(clicks.outer_join(items, WITHIN), WITHIN)
    found = texts_of(
        joined,
        # The log, the record of the right result, and its lineage: log, cart record, element.
        (0, 9, 0, 3, 5, 0, 0, 7, 2),
        (0, 9, 0, 0, 7, 1, 0, 0, 2),
        (0, 9, 0, 0, 0, 0, 0, 0, 0),
        (0, 9, 1, 0, 0, 0, 0, 7, 2),
        (0, 9, 2, 0, 0, 1, 0, 0, 2),
    )
    assert found == [
        "views/0/9+clicks/3/4+carts/0/6/2", "views/0/9+carts/0/6/2", "views/0/9",
        "clicks/0/9+carts/0/6/2", "carts/0/9/2",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_flattened_record_has_its_index_at_the_end(builder: StreamsBuilder) -> None:
    """This holds for join results, updates, changes, and flattened records before a join."""
    views, clicks = builder.stream("views", "a INT"), builder.stream("clicks", "b INT")
    flat_pairs = views.left_join(clicks, WITHIN).flat_map_values(c="array(a, b)")
    assert texts_of(flat_pairs, (0, 9, 3, 5, 0), (0, 9, 3, 5, 1), (0, 9, 0, 0, 1)) == [
        "views/0/9+clicks/3/4/0", "views/0/9+clicks/3/4/1", "views/0/9/1",
    ]  # fmt: skip
    builder = StreamsBuilder()
    views, clicks = builder.stream("views", "a INT"), builder.stream("clicks", "b INT")
    flat_pairs = views.left_join(clicks, WITHIN).flat_map_values(c="array(a, b)")
    joined = flat_pairs.outer_join(builder.stream("carts", "d INT"), WITHIN)
    flat = joined.flat_map_values(e="array(c, d)")
    assert texts_of(flat, (0, 9, 0, 3, 5, 2, 0, 7, 5), (0, 9, 1, 0, 0, 0, 0, 0, 5)) == [
        "views/0/9+clicks/3/4/2+carts/0/6/5", "carts/0/9/5",
    ]  # fmt: skip
    builder = StreamsBuilder()
    prices, stock = builder.table("prices", "a INT"), builder.table("stock", "b INT")
    updates = prices.join(stock).to_stream().flat_map_values(c="array(a, b)")
    assert texts_of(updates, (0, 9, 1, 2)) == ["stock/0/9/2"]
    builder = StreamsBuilder()
    changes = builder.table("prices", "a INT").group_by("a").count().to_stream()
    assert texts_of(changes.flat_map_values(c="array(count)"), (0, 9, 1, 0)) == ["prices/0/9/1/0"]
    builder = StreamsBuilder()
    elements = builder.stream("orders", "v ARRAY<ARRAY<INT>>").flat_map_values(v="v")
    looked_up = elements.join(builder.table("users", "city STRING"))
    assert texts_of(looked_up.flat_map_values(v="v"), (0, 9, 1, 2)) == ["orders/0/9/1/2"]


def test_an_update_is_identified_by_its_record(builder: StreamsBuilder) -> None:
    """The record is of any of the tables."""
    prices, stock = builder.table("prices", "a INT"), builder.table("stock", "b INT")
    updates = prices.join(stock).left_join(builder.table("makers", "c INT")).to_stream()
    found = texts_of(updates, (0, 9, 0), (0, 9, 1), (0, 9, 2))
    assert found == ["prices/0/9", "stock/0/9", "makers/0/9"]


def test_a_change_is_identified_by_its_record_and_row(builder: StreamsBuilder) -> None:
    """A record of a grouped table has an old and a new row, also if tables are joined."""
    prices = builder.table("prices", "a INT")
    of_one = prices.group_by("a").count().to_stream()
    assert texts_of(of_one, (0, 9, 0), (0, 9, 1)) == ["prices/0/9/0", "prices/0/9/1"]
    builder = StreamsBuilder()
    prices, stock = builder.table("prices", "a INT"), builder.table("stock", "b INT")
    of_both = prices.outer_join(stock).group_by("a").count().to_stream()
    found = texts_of(of_both, (0, 9, 0, 0), (0, 9, 0, 1), (0, 9, 1, 0), (0, 9, 1, 1))
    assert found == ["prices/0/9/0", "prices/0/9/1", "stock/0/9/0", "stock/0/9/1"]


def test_an_update_by_a_foreign_key_has_the_index_of_the_row(builder: StreamsBuilder) -> None:
    """A left record has one row, and a right record has a row per subscriber."""
    orders, users = builder.table("orders", "user STRING"), builder.table("users", "city STRING")
    updates = orders.join(users, foreign_key="user").to_stream()
    found = texts_of(updates, (0, 9, 0), (2, 9, 1, 0), (2, 9, 1, 7))
    assert found == ["orders/0/9", "users/2/9/0", "users/2/9/7"]


def test_a_topic_that_is_read_twice_has_two_names(builder: StreamsBuilder) -> None:
    """The names are those of its stream times. The operator's partitions contain the input."""
    orders = builder.stream("orders", "v INT")
    merged = orders.merge(orders).merge(builder.stream("refunds", "v INT"))
    places = [(3 * partition + number, 4) for partition in (0, 7) for number in (0, 1, 2)]
    assert texts_of(merged, *places) == [
        "orders/0/4", "orders#2/0/4", "refunds/0/4", "orders/7/4", "orders#2/7/4", "refunds/7/4",
    ]  # fmt: skip


def test_distinct_and_late_records_have_the_source_of_their_record(builder: StreamsBuilder) -> None:
    """The stream time of their own has another name, which no source contains."""
    orders = builder.stream("orders", "v INT")
    late = orders.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(5)).late_records()
    distinct = StreamsBuilder().stream("orders", "v INT").distinct(within_ms=5)
    for stream in (late, distinct):
        assert texts_of(stream, (3, 1042)) == ["orders/3/1042"]


@pytest.mark.slow
def test_a_stream_joined_with_itself_has_different_sources(
    spark: SparkSession, builder: StreamsBuilder
) -> None:
    """Unmatched records on the left and on the right have two names."""
    assert spark is not None
    orders = builder.stream("orders", "v INT")
    pairs = orders.outer_join(orders.map_values(w="v"), WITHIN)
    assert texts_of(pairs, (0, 4, 0, 0, 0), (0, 4, 1, 0, 0)) == ["orders/0/4", "orders#2/0/4"]
