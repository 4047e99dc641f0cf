"""Topologies as users write them: each call of the language, with the type of its result."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, assert_type

import numpy as np

from oriel import (
    Aggregate,
    AvroSerde,
    BranchedKStream,
    CogroupedKStream,
    Consumed,
    EmitStrategy,
    FieldTimestamp,
    GlobalKTable,
    IllegalArgument,
    InvalidTopology,
    JoinWindows,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    PipelineError,
    ProcessContext,
    ProtobufSerde,
    Serde,
    Serdes,
    SessionWindows,
    SlidingWindows,
    SourceTable,
    StreamsBuilder,
    TimeWindowedKStream,
    TimeWindows,
    Topology,
    VersionedTable,
    approx_count_distinct,
    approx_quantile,
    avg,
    collect_list,
    count,
    first,
    last,
    max,
    mergeable,
    min,
    stddev,
    sum,
    until_window_closes,
)
from oriel import (
    aggregates as agg,
)

MINUTE = timedelta(minutes=1)


def serdes() -> None:
    """The formats of keys and values."""
    assert_type(Serdes.json(), Serde)
    assert_type(Serdes.string(), Serde)
    assert_type(Serdes.long(), Serde)
    assert_type(Serdes.integer(), Serde)
    assert_type(Serdes.short(), Serde)
    assert_type(Serdes.double(), Serde)
    assert_type(Serdes.float(), Serde)
    avro, protobuf = Serdes.avro(), Serdes.protobuf(Path("flight.pb"), "Flight", "registry")
    assert_type(avro, AvroSerde)
    assert_type(avro.schema, str | None)
    assert_type(avro.header, Literal["none", "registry", "single-object"])
    assert_type(Serdes.avro(Path("flight.avsc"), header="single-object"), AvroSerde)
    assert_type(Serdes.protobuf(b"descriptors", "Flight"), ProtobufSerde)
    assert_type(protobuf, ProtobufSerde)
    assert_type(protobuf.descriptors, bytes)
    assert_type(protobuf.message, str)
    assert_type(protobuf.header, Literal["none", "registry"])


def serde_names(serde: Serde, time: FieldTimestamp) -> None:
    """What a serde and a time say about themselves."""
    assert_type(
        serde.name, Literal["json", "string", "long", "integer", "short", "double", "float"]
    )
    assert_type(time.column, str)
    assert_type(time.unit, Literal["s", "ms", "us", "iso"])


def consumed() -> Consumed:
    """How a topic is read."""
    assert_type(FieldTimestamp("departed_at", "ms"), FieldTimestamp)
    flights = Consumed(
        key_serde=Serdes.long(),
        value_serde=Serdes.avro(),
        timestamp=FieldTimestamp("departed_at", "ms"),
        headers={"trace": "trace_id"},
    )
    return assert_type(flights, Consumed)


def sources(builder: StreamsBuilder) -> Topology:
    """Streams and tables of topics."""
    assert_type(StreamsBuilder(), StreamsBuilder)
    assert_type(builder.stream("flights", "carrier STRING", consumed()), KStream)
    assert_type(builder.table("airports", "name STRING"), SourceTable)
    assert_type(builder.versioned_table("prices", "price DOUBLE", MINUTE), VersionedTable)
    assert_type(builder.global_table("carriers", "name STRING"), GlobalKTable)
    return assert_type(builder.build(), Topology)


def seen(_key: str, value: Any, context: ProcessContext) -> Iterator[dict[str, int]]:
    """Rows of a record, with a state and timers."""
    assert_type(context.state, dict[str, Any] | None)
    assert_type(context.timestamp_ms, int)
    assert_type(context.stream_time_ms, int)
    assert_type(context.timers, tuple[int, ...])
    assert_type(context.set_timer(context.timestamp_ms + 60_000), None)
    assert_type(context.delete_timer(0), None)
    yield {"n": value["n"]}


def left(_key: str, context: ProcessContext) -> dict[str, int]:
    """The row of a timer."""
    assert_type(ProcessContext(5, 5, {"n": 1}, [10], earliest_timer_ms=6), ProcessContext)
    return {"n": context.timestamp_ms}


def steps(stream: KStream, other: KStream) -> KStream:
    """Row-wise steps of a stream."""
    assert_type(stream.filter("delay > 0"), KStream)
    assert_type(stream.filter_not("delay > 0"), KStream)
    assert_type(stream.merge(other), KStream)
    assert_type(stream.select_key("carrier", "origin"), KStream)
    assert_type(stream.map(("carrier", "origin"), "*", delay="delay * 60"), KStream)
    assert_type(stream.map_values("carrier", delay="delay * 60"), KStream)
    assert_type(stream.flat_map_values("carrier", word="split(line, ' ')"), KStream)
    assert_type(stream.flat_map("word", word="split(line, ' ')"), KStream)
    assert_type(stream.distinct("carrier", within_ms=MINUTE, grace_ms=5_000), KStream)
    assert_type(stream.process(seen, "n INT", state="n INT", on_timer=left), KStream)
    assert_type(stream.peek(show), KStream)
    assert_type(stream.to("delayed", headers={"carrier": "carrier"}), KStream)
    return assert_type(stream.to("delays"), KStream)


def show(key: str | None, value: dict[str, Any] | None, timestamp_ms: int) -> None:
    """Print a record."""
    print(key, value, timestamp_ms)  # noqa: T201


def branches(stream: KStream) -> KStream:
    """A stream that is divided."""
    split = stream.split()
    assert_type(stream.split(), BranchedKStream[KStream])
    assert_type(split, BranchedKStream[KStream])
    assert_type(split.branch("delay < 0", "early"), BranchedKStream[KStream])
    assert_type(split.no_default_branch(), dict[str, KStream])
    assert_type(split.default_branch("others"), dict[str, KStream])
    return split.branch("delay < 0", "early").default_branch("others")["early"]


def stream_joins(
    stream: KStream,
    other: KStream,
    airports: SourceTable,
    counts: KTable,
    prices: VersionedTable,
    carriers: GlobalKTable,
) -> None:
    """Joins of a stream with streams and with each kind of table."""
    windows = JoinWindows.of_time_difference_with_no_grace(MINUTE)
    assert_type(stream.join(other, windows), KStream)
    assert_type(stream.join(airports), KStream)
    assert_type(stream.join(counts), KStream)
    assert_type(stream.join(prices, grace_ms=MINUTE), KStream)
    assert_type(stream.join(carriers, key="carrier"), KStream)
    assert_type(stream.left_join(other, windows), KStream)
    assert_type(stream.left_join(carriers, key="carrier"), KStream)
    assert_type(stream.outer_join(other, windows), KStream)


def groupings(stream: KStream) -> None:
    """What a stream becomes."""
    assert_type(stream.group_by_key(), KGroupedStream)
    assert_type(stream.group_by("carrier", "origin"), KGroupedStream)
    assert_type(stream.to_table(), SourceTable)


def tables(table: SourceTable, other: SourceTable, counts: KTable, prices: VersionedTable) -> None:
    """Tables of topics."""
    assert_type(table.filter("name IS NOT NULL"), SourceTable)
    assert_type(table.filter_not("name IS NULL"), SourceTable)
    assert_type(table.map_values("name", city="upper(city)"), SourceTable)
    assert_type(table.join(other), SourceTable)
    assert_type(table.join(counts), SourceTable)
    assert_type(table.join(prices, foreign_key="product"), SourceTable)
    assert_type(table.left_join(other, foreign_key=("country", "city")), SourceTable)
    assert_type(table.outer_join(other), SourceTable)
    assert_type(table.group_by("city"), KGroupedTable)
    assert_type(table.to_stream(), KStream)
    assert_type(table.materialize("airports", key_serde=Serdes.string()), SourceTable)
    assert_type(table.materialize("new_airports", ttl_ms=1_000), SourceTable)
    assert_type(table.to("airports-copy"), SourceTable)


def versioned_tables(prices: VersionedTable, other: SourceTable) -> None:
    """Tables that remember what their rows were."""
    assert_type(prices.filter("price > 0"), VersionedTable)
    assert_type(prices.filter_not("price > 0"), VersionedTable)
    assert_type(prices.map_values(cents="price * 100"), VersionedTable)
    assert_type(prices.join(other), SourceTable)
    assert_type(prices.left_join(other), SourceTable)
    assert_type(prices.outer_join(other), SourceTable)
    assert_type(prices.group_by("currency"), KGroupedTable)
    assert_type(prices.to_stream(), KStream)
    assert_type(prices.materialize("prices"), SourceTable)
    assert_type(prices.materialize("price_history", versions=True), SourceTable)


def aggregations(
    grouped: KGroupedStream, others: KGroupedStream, reducer: Callable[[Any, Any], Any]
) -> None:
    """Aggregations without windows."""
    windows = TimeWindows.of_size_with_no_grace(MINUTE)
    assert_type(grouped.windowed_by(windows), TimeWindowedKStream)
    assert_type(grouped.emit(EmitStrategy.on_window_update()), KGroupedStream)
    assert_type(grouped.count(), KTable)
    assert_type(grouped.reduce(reducer), KTable)
    assert_type(grouped.aggregate(flights=count(), delay=avg("delay")), KTable)
    assert_type(grouped.aggregate(dict, aggregator, merger, "n BIGINT"), KTable)
    assert_type(grouped.cogroup(flights=count()), CogroupedKStream)
    both = grouped.cogroup(aggregator)
    assert_type(both, CogroupedKStream)
    assert_type(both.cogroup(others, aggregator), CogroupedKStream)
    assert_type(both.windowed_by(windows), CogroupedKStream)
    assert_type(both.emit(EmitStrategy.on_window_close()), CogroupedKStream)
    assert_type(both.aggregate(dict, merger, "n BIGINT"), KTable)


def aggregator(_key: str, value: dict[str, Any], aggregate: dict[str, Any]) -> dict[str, Any]:
    """Add a record."""
    return {"n": aggregate["n"] + value["n"]}


def merger(_key: str, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Merge two aggregates."""
    return {"n": left["n"] + right["n"]}


def windowed(windows: TimeWindowedKStream, reducer: Callable[[Any, Any], Any]) -> None:
    """Aggregations of windows."""
    assert_type(windows.emit(EmitStrategy.on_window_close()), TimeWindowedKStream)
    assert_type(windows.late_records(), KStream)
    assert_type(windows.late_to("late", headers={"partly": "partly_late"}), TimeWindowedKStream)
    assert_type(windows.count(), KTable)
    assert_type(windows.reduce(reducer), KTable)
    assert_type(windows.aggregate(flights=count()), KTable)
    assert_type(windows.aggregate(dict, aggregator, merger, "n BIGINT"), KTable)


def grouped_tables(grouped: KGroupedTable, reducer: Callable[[Any, Any], Any]) -> None:
    """Aggregations of a table's rows."""
    assert_type(grouped.count(), KTable)
    assert_type(grouped.reduce(reducer, reducer), KTable)
    assert_type(grouped.aggregate(total=sum("amount")), KTable)
    assert_type(grouped.aggregate(dict, aggregator, aggregator, merger, "n BIGINT"), KTable)


def results(table: KTable, other: KTable, airports: SourceTable) -> None:
    """What a table of aggregates can do."""
    assert_type(table.suppress(until_window_closes()), KTable)
    assert_type(table.filter("flights > 10"), KTable)
    assert_type(table.filter_not("flights > 10"), KTable)
    assert_type(table.map_values("flights", delay="delay / 60"), KTable)
    assert_type(
        table.materialize("flights", MINUTE, (Serdes.string(), Serdes.long())),
        KTable,
    )
    assert_type(table.materialize("final", final_table=True), KTable)
    assert_type(table.materialize("lately", ttl_ms=MINUTE), KTable)
    assert_type(table.to_stream(), KStream)
    assert_type(table.join(other), SourceTable | KTable)
    assert_type(table.join(airports, foreign_key="origin"), SourceTable | KTable)
    assert_type(table.left_join(other), SourceTable | KTable)
    assert_type(table.outer_join(other), SourceTable | KTable)
    assert_type(table.group_by("flights"), KGroupedTable)
    assert_type(table.to("counts", final_only=True), KTable)


def time_windows(windows: TimeWindows) -> None:
    """Tumbling and hopping windows."""
    assert_type(TimeWindows.of_size_and_grace(60_000, MINUTE), TimeWindows)
    assert_type(TimeWindows.of_size_with_no_grace(MINUTE), TimeWindows)
    assert_type(windows.advance_by(10_000), TimeWindows)
    assert_type(windows.size_ms, int)
    assert_type(windows.advance_ms, int)
    assert_type(windows.grace_ms, int)


def sliding_windows(windows: SlidingWindows) -> None:
    """Windows of records at most a time apart."""
    assert_type(SlidingWindows.of_time_difference_and_grace(60_000, MINUTE), SlidingWindows)
    assert_type(SlidingWindows.of_time_difference_with_no_grace(MINUTE), SlidingWindows)
    assert_type(windows.time_difference_ms, int)
    assert_type(windows.grace_ms, int)


def session_windows(windows: SessionWindows) -> None:
    """Windows of records without a gap."""
    assert_type(SessionWindows.of_inactivity_gap_and_grace(60_000, MINUTE), SessionWindows)
    assert_type(SessionWindows.of_inactivity_gap_with_no_grace(MINUTE), SessionWindows)
    assert_type(windows.inactivity_gap_ms, int)
    assert_type(windows.grace_ms, int)


def join_windows(windows: JoinWindows) -> None:
    """How far apart the records of a join are."""
    assert_type(JoinWindows.of_time_difference_and_grace(60_000, MINUTE), JoinWindows)
    assert_type(JoinWindows.of_time_difference_with_no_grace(MINUTE), JoinWindows)
    assert_type(windows.before(MINUTE), JoinWindows)
    assert_type(windows.after(0), JoinWindows)
    assert_type(windows.before_ms, int)
    assert_type(windows.after_ms, int)
    assert_type(windows.grace_ms, int)


def emit_strategies(strategy: EmitStrategy) -> None:
    """When rows are written."""
    assert_type(EmitStrategy.on_window_update(), EmitStrategy)
    assert_type(EmitStrategy.on_window_close(), EmitStrategy)
    assert_type(until_window_closes(), EmitStrategy)
    assert_type(strategy.is_on_close, bool)


def built_in_aggregates(aggregate: Aggregate) -> None:
    """Declarative aggregates."""
    assert_type(aggregate.arguments, tuple[float, ...])
    assert_type(aggregate.has_lineage, bool)
    assert_type(count(), Aggregate)
    assert_type(count("delay"), Aggregate)
    assert_type(sum("delay"), Aggregate)
    assert_type(min("delay"), Aggregate)
    assert_type(max("delay"), Aggregate)
    assert_type(avg("delay"), Aggregate)
    assert_type(stddev("delay"), Aggregate)
    assert_type(first("delay"), Aggregate)
    assert_type(last("delay"), Aggregate)
    assert_type(collect_list("delay"), Aggregate)
    assert_type(approx_count_distinct("carrier", lg_k=14), Aggregate)
    assert_type(approx_quantile("delay", 0.99), Aggregate)
    assert_type(
        mergeable("largest", "delay", lift=np.abs, merge=np.maximum, result=np.sqrt), Aggregate
    )
    assert_type(agg.max("delay"), Aggregate)
    assert_type(aggregate.call, str)
    assert_type(aggregate.name, str)
    assert_type(aggregate.column, str | None)


def topology_as_data(topology: Topology) -> None:
    """What a topology says about itself."""
    assert_type(topology.describe(), str)
    assert_type(topology.explain(), str)
    assert_type(topology.to_mermaid(), str)
    assert_type(topology.topics, tuple[str, ...])
    assert_type([store.name for store in topology.stores], list[str])


def errors(builder: StreamsBuilder) -> None:
    """What a topology can raise."""
    try:
        builder.build()
    except InvalidTopology as error:
        assert_type(error, InvalidTopology)
    except IllegalArgument as error:
        assert_type(error, IllegalArgument)
    except PipelineError as error:
        assert_type(error, PipelineError)
