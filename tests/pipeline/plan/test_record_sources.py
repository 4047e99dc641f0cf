"""Which record each record of a topic is: one text for each, the same in every run."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from oriel import JoinWindows, StreamsBuilder
from oriel.pipeline.dead_letters import SourceReasons
from oriel.pipeline.language import KStream
from oriel.pipeline.plan import InputSource, StorePlans, input_sources, record_sources
from oriel.pipeline.testing.steps import steps_for

WITHIN = JoinWindows.of_time_difference_and_grace(5, 0)


def rows(*places: tuple[int, int, int | None]) -> pa.Table:
    """Rows at these places: partition, offset, suborder."""
    partition, offset, suborder = zip(*places, strict=True)
    return pa.table({
        "partition": pa.array(partition, pa.int32()),
        "offset": pa.array(offset, pa.int64()),
        "suborder": pa.array(suborder, pa.int64()),
    })  # fmt: skip


def sources_of(stream: KStream) -> tuple[InputSource, ...]:
    """What the records of a stream are called."""
    stream.to("out")
    (sink,) = stream.registry.sinks
    reasons = dict.fromkeys(sink.sources, SourceReasons.FOR_ALL)
    return input_sources(StorePlans(sink, partial(steps_for, store=sink.name), reasons))


def told(stream: KStream, *places: tuple[int, int, int | None]) -> list[str]:
    """The texts of rows of a stream."""
    texts: list[str] = record_sources(rows(*places), sources_of(stream)).to_pylist()
    return texts


@pytest.fixture(name="builder")
def _builder() -> StreamsBuilder:
    return StreamsBuilder()


@pytest.mark.slow
def test_a_record_is_its_place(spark: SparkSession, builder: StreamsBuilder) -> None:
    """Whatever it has looked up; an element has its own place behind it."""
    assert spark is not None
    stream = builder.stream("orders", "v INT").join(builder.table("users", "city STRING"))
    assert told(stream, (3, 1042, None), (0, 7, None)) == ["orders/3/1042", "orders/0/7"]
    elements = StreamsBuilder().stream("orders", "v ARRAY<INT>").flat_map_values(one="v")
    assert told(elements, (3, 1042, 0), (0, 7, 2)) == ["orders/3/1042/0", "orders/0/7/2"]


def test_a_log_without_elements_has_no_suborder(builder: StreamsBuilder) -> None:
    """The column is not there then."""
    sources = sources_of(builder.stream("orders", "v INT"))
    table = rows((1, 2, None)).drop_columns("suborder")
    assert record_sources(table, sources).to_pylist() == ["orders/1/2"]


def test_a_pair_is_both_records(builder: StreamsBuilder) -> None:
    """One that is alone is itself, on either side, also behind a lookup."""
    views, clicks = builder.stream("views", "a INT"), builder.stream("clicks", "b INT")
    pairs = views.outer_join(clicks, WITHIN).left_join(builder.table("users", "city STRING"))
    pair = (2 << 48) + 9 + 1
    found = told(pairs, (0, 5, pair), (0, 5, 0), (4, 6, -1))
    assert found == [
        "views/0/5+clicks/2/9", "views/0/5", "clicks/4/6",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_join_of_joins_is_all_its_records(spark: SparkSession, builder: StreamsBuilder) -> None:
    """In the order of streams, without those that an outer join lacks; elements with theirs."""
    assert spark is not None
    views, clicks = builder.stream("views", "a INT"), builder.stream("clicks", "b INT")
    items = builder.stream("carts", "c ARRAY<INT>").flat_map_values(item="c")
    pairs = clicks.outer_join(items, WITHIN)
    sources = sources_of(views.outer_join(pairs, WITHIN))
    click, cart = (3 << 48) + 4 + 1, (0 << 48) + 6 + 1
    numbers = [[click, cart, 2], [cart, -1, 2], [0, 0, 0], [-1, cart, 2], [-2, -1, 2]]
    assert written(sources, (0, 9), *numbers) == [
        "views/0/9+clicks/3/4+carts/0/6/2", "views/0/9+carts/0/6/2", "views/0/9",
        "clicks/0/9+carts/0/6/2", "carts/0/9/2",
    ]  # fmt: skip


def written(
    sources: tuple[InputSource, ...], place: tuple[int, int], *numbers: list[int]
) -> list[str]:
    """The texts of rows of one place with these numbers."""
    table = rows(*((*place, None) for _ in numbers)).drop_columns("suborder")
    columns = sources[0].places.written(np.array(numbers))
    for field in sources[0].places.fields:
        table = table.append_column(field, columns[field.name])
    texts: list[str] = record_sources(table, sources).to_pylist()
    return texts


@pytest.mark.slow
def test_an_element_has_its_number_behind_what_it_is_of(builder: StreamsBuilder) -> None:
    """A pair, also within another one, an update, a change, or an element in front of a lookup."""
    views, clicks = builder.stream("views", "a INT"), builder.stream("clicks", "b INT")
    flat_pairs = views.left_join(clicks, WITHIN).flat_map_values(c="array(a, b)")
    click, cart = (3 << 48) + 4 + 1, (0 << 48) + 6 + 1
    sources = sources_of(flat_pairs)
    assert written(sources, (0, 9), [click, 0], [click, 1], [0, 1]) == [
        "views/0/9+clicks/3/4/0", "views/0/9+clicks/3/4/1", "views/0/9/1",
    ]  # fmt: skip
    builder = StreamsBuilder()
    views, clicks = builder.stream("views", "a INT"), builder.stream("clicks", "b INT")
    flat_pairs = views.left_join(clicks, WITHIN).flat_map_values(c="array(a, b)")
    joined = flat_pairs.outer_join(builder.stream("carts", "d INT"), WITHIN)
    sources = sources_of(joined.flat_map_values(e="array(c, d)"))
    assert written(sources, (0, 9), [click, 2, cart, 5], [-2, 0, 0, 5]) == [
        "views/0/9+clicks/3/4/2+carts/0/6/5", "carts/0/9/5",
    ]  # fmt: skip
    builder = StreamsBuilder()
    prices, stock = builder.table("prices", "a INT"), builder.table("stock", "b INT")
    updates = prices.join(stock).to_stream().flat_map_values(c="array(a, b)")
    assert written(sources_of(updates), (0, 9), [1, 2]) == ["stock/0/9/2"]
    builder = StreamsBuilder()
    changes = builder.table("prices", "a INT").group_by("a").count().to_stream()
    sources = sources_of(changes.flat_map_values(c="array(count)"))
    assert written(sources, (0, 9), [1, 0]) == ["prices/0/9/1/0"]
    builder = StreamsBuilder()
    elements = builder.stream("orders", "v ARRAY<ARRAY<INT>>").flat_map_values(v="v")
    looked_up = elements.join(builder.table("users", "city STRING"))
    sources = sources_of(looked_up.flat_map_values(v="v"))
    assert written(sources, (0, 9), [1, 2]) == ["orders/0/9/1/2"]


def test_an_update_is_the_record_that_made_it(builder: StreamsBuilder) -> None:
    """Of any of the tables."""
    prices, stock = builder.table("prices", "a INT"), builder.table("stock", "b INT")
    updates = prices.join(stock).left_join(builder.table("makers", "c INT")).to_stream()
    found = told(updates, (0, 9, 0), (0, 9, 1), (0, 9, 2))
    assert found == ["prices/0/9", "stock/0/9", "makers/0/9"]


def test_a_change_is_of_the_table_whose_record_made_it(builder: StreamsBuilder) -> None:
    """Of a grouped table a record may tell two groups, of joined ones it is any table's."""
    prices, stock = builder.table("prices", "a INT"), builder.table("stock", "b INT")
    of_one = prices.group_by("a").count().to_stream()
    assert told(of_one, (0, 9, 0), (0, 9, 1)) == ["prices/0/9/0", "prices/0/9/1"]
    builder = StreamsBuilder()
    prices, stock = builder.table("prices", "a INT"), builder.table("stock", "b INT")
    of_both = prices.outer_join(stock).group_by("a").count().to_stream()
    found = told(of_both, (0, 9, 0), (0, 9, 1), (0, 9, 2), (0, 9, 3))
    assert found == ["prices/0/9/0", "prices/0/9/1", "stock/0/9/2", "stock/0/9/3"]


def test_a_topic_that_is_read_twice_has_two_names(builder: StreamsBuilder) -> None:
    """Those of its clocks; the engine's partitions tell the inputs apart."""
    orders = builder.stream("orders", "v INT")
    merged = orders.merge(orders).merge(builder.stream("refunds", "v INT"))
    places = [(3 * partition + number, 4, None) for partition in (0, 7) for number in (0, 1, 2)]
    assert told(merged, *places) == [
        "orders/0/4", "orders#2/0/4", "refunds/0/4", "orders/7/4", "orders#2/7/4", "refunds/7/4",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_stream_with_itself_has_no_text_twice(
    spark: SparkSession, builder: StreamsBuilder
) -> None:
    """Records that are alone on the left and on the right are two."""
    assert spark is not None
    orders = builder.stream("orders", "v INT")
    pairs = orders.outer_join(orders.map_values(w="v"), WITHIN)
    assert told(pairs, (0, 4, 0), (0, 4, -1)) == ["orders/0/4", "orders#2/0/4"]
