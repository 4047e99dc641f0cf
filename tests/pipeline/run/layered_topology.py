"""Stores that read final rows or updates of others: three deep, joined, merged, flattened."""

from oriel import (
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    avg,
    collect_list,
    count,
    max,
    sum,
)
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.language.windowed import TimeWindowedKStream

STORES = ("sums", "visits", "hours", "all", "spans", "merged", "named", "third", "rises", "seen",
          "standing", "grown", "slid", "both", "owned", "ranked", "paired",
          "coupled", "dated", "newest", "too_late", "late_visits")  # fmt: skip


def layered() -> Topology:
    """Return windows over windows, with steps, joins and merges between them, three stores deep.

    Some stores aggregate updates whose number does not depend on how batches are cut.
    """
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", "v BIGINT")
    closing = EmitStrategy.on_window_close()
    sums = (
        clicks.group_by_key()
        .windowed_by(TimeWindows.of_size_and_grace(100, 20))
        .emit(closing)
        .aggregate(n=count(), total=sum("v"), mean=avg("v"), values=collect_list("v"))
        .materialize("sums")
    )
    visits = (
        clicks.group_by_key()
        .windowed_by(SessionWindows.of_inactivity_gap_and_grace(60, 10))
        .emit(closing)
        .aggregate(n=count())
        .materialize("visits")
    )
    hours = (
        _tumbling(sums.to_stream().filter("n > 1"), 600, 100)
        .emit(closing)
        .aggregate(most=max("total"), windows=count(), starts=collect_list("window_start_ms"))
        .materialize("hours")
    )
    (
        sums.to_stream()
        .select_key("'all'")
        .group_by_key()
        .windowed_by(SlidingWindows.of_time_difference_and_grace(200, 0))
        .aggregate(total=sum("total"), totals=collect_list("total"))
        .materialize("all")
    )
    lengths = visits.to_stream().map_values(v="window_end_ms - window_start_ms")
    _tumbling(lengths, 500, 50).aggregate(longest=max("v"), visits=count()).materialize("spans")
    merged = _tumbling(lengths.merge(clicks), 500, 5_000)
    merged.aggregate(n=count(), total=sum("v")).materialize("merged")
    within = JoinWindows.of_time_difference_and_grace(300, 100)
    named = (
        sums.to_stream()
        .map_values("n", "total")
        .left_join(lengths.merge(clicks.filter("v > 7")), within)
        .left_join(builder.table("names", "name STRING"))
        .select_key("name")
    )
    _tumbling(named, 500, 1_000).aggregate(n=count(), total=sum("total")).materialize("named")
    third = _tumbling(hours.to_stream().select_key("windows"), 2_000, 0)
    third.aggregate(keys=count(), total=sum("most")).materialize("third")
    rises = clicks.group_by_key().aggregate(n=count(), sum=sum("v")).to_stream().group_by_key()
    rises.aggregate(updates=count(), n=max("n"), total=max("sum")).materialize("rises")
    hopping = TimeWindows.of_size_and_grace(100, 20).advance_by(40)
    seen = clicks.group_by_key().windowed_by(hopping).count().to_stream().group_by("window_end_ms")
    seen.aggregate(updates=count(), n=max("count")).materialize("seen")
    counts = clicks.group_by_key().count().left_join(builder.table("names", "name STRING"))
    standing = counts.filter("count > 5").group_by("coalesce(name, '-')")
    standing.aggregate(keys=count(), n=sum("count")).materialize("standing")
    _add_updates(builder, clicks)
    return builder.build()


def _add_updates(builder: StreamsBuilder, clicks: KStream) -> None:
    """Add windows whose last row counts, several streams, a table, and flattened join results."""
    sessions = SessionWindows.of_inactivity_gap_and_grace(60, 10)
    grown = clicks.group_by_key().windowed_by(sessions).aggregate(n=count(), sum=sum("v"))
    grown.to_stream().group_by_key().aggregate(n=max("n"), sum=max("sum")).materialize("grown")
    sliding = SlidingWindows.of_time_difference_and_grace(100, 20)
    slid = clicks.group_by_key().windowed_by(sliding).count().filter("count > 1")
    slid.to_stream().group_by("window_start_ms").aggregate(n=max("count")).materialize("slid")
    names = builder.stream("names", "name STRING").group_by_key()
    both = clicks.group_by_key().cogroup(n=count()).cogroup(names, names=count()).aggregate()
    (
        both.to_stream()
        .group_by_key()
        .aggregate(updates=count(), n=max("n"), names=max("names"))
        .materialize("both")
    )
    table = builder.table("names", "name STRING")
    table.left_join(both, foreign_key="key").materialize("owned")
    ranked = clicks.group_by_key().count().left_join(table, foreign_key="key")
    of_name = ranked.filter("count > 3").group_by("coalesce(name, '-')")
    of_name.aggregate(keys=count(), n=sum("count")).materialize("ranked")
    near = JoinWindows.of_time_difference_and_grace(20, 50)
    pairs = clicks.filter("v > 5").map_values(w="v").join(clicks, near)
    elements = pairs.flat_map_values(x="array(v, w)").flat_map_values(y="array(x, 1)")
    hopping = TimeWindows.of_size_and_grace(100, 20).advance_by(40)
    coupled = pairs.group_by_key().aggregate(n=count(), w=sum("w")).left_join(table)
    of_name = coupled.group_by("coalesce(name, '-')")
    of_name.aggregate(keys=count(), n=sum("n"), w=sum("w")).materialize("coupled")
    versions = builder.versioned_table("names", "name STRING", history_retention_ms=1_000_000)
    dated = clicks.left_join(versions, grace_ms=40).select_key("coalesce(name, '-')")
    _tumbling(dated, 100, 0).aggregate(n=count(), sum=sum("v")).materialize("dated")
    for store, windows in (("too_late", hopping), ("late_visits", sessions)):
        late = clicks.group_by_key().windowed_by(windows).late_records()
        late.group_by("concat(key, record_partition)").aggregate(
            n=count(), late_by=sum("late_by_ms"), starts=collect_list("first_missed_start_ms"),
            ends=collect_list("last_missed_end_ms"),
        ).materialize(store)  # fmt: skip
    newest = clicks.select_key("v % 7").map_values(v="v", k="key").to_table()
    lasting = grown.to_stream().select_key("sum").map_values("n").filter("n % 3 < 2").to_table()
    joined = newest.filter("v % 5 > 0").left_join(lasting).left_join(table, foreign_key="k")
    joined.materialize("newest")
    in_windows = elements.group_by_key().windowed_by(hopping).aggregate(n=count()).to_stream()
    by_start = in_windows.group_by("window_start_ms")
    by_start.aggregate(updates=count(), n=max("n")).materialize("paired")


def _tumbling(stream: KStream, size_ms: int, grace_ms: int) -> TimeWindowedKStream:
    return stream.group_by_key().windowed_by(TimeWindows.of_size_and_grace(size_ms, grace_ms))


topology = layered()
