"""Stores over stores in the test driver: a slow model, any batching, and what is rejected."""

import builtins
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel import (
    EmitStrategy,
    InvalidTopology,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    collect_list,
    count,
    sum,
    until_window_closes,
)
from oriel.pipeline.lowered import lower
from oriel.testing import Record, TopologyTestDriver

INNER_MS, INNER_GRACE_MS = 5, 2
OUTER_MS, OUTER_GRACE_MS = 8, 3

#: Key, time, value.
Entry = tuple[str, int, int]
logs = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.integers(-9, 9)), max_size=30
)


def layers(key: str) -> Topology:
    """Return tumbling windows over tumbling windows whose rows have the key ``key``."""
    builder = StreamsBuilder()
    inner = (
        builder.stream("t", "v BIGINT")
        .group_by_key()
        .windowed_by(TimeWindows.of_size_and_grace(INNER_MS, INNER_GRACE_MS))
        .emit(EmitStrategy.on_window_close())
        .aggregate(n=count(), total=sum("v"))
        .materialize("inner")
    )
    (
        inner.to_stream()
        .select_key(key)
        .group_by_key()
        .windowed_by(TimeWindows.of_size_and_grace(OUTER_MS, OUTER_GRACE_MS))
        .aggregate(rows=count(), total=sum("total"), starts=collect_list("window_start_ms"))
        .materialize("outer")
    )
    return builder.build()


def closed(log: Sequence[Entry], size_ms: int, grace_ms: int) -> list[tuple[str, int, int, int]]:
    """Return the closed tumbling windows by Kafka's definition, record by record.

    Each is key, start, greatest time and sum. If one record closes several windows, they are sorted
    by end, then by key.
    """
    windows: dict[tuple[int, str], tuple[int, int]] = {}
    stream_time, done, order = -1, set(), []
    for key, time, value in log:
        stream_time = max(stream_time, time)
        start = time - time % size_ms
        if start + size_ms > stream_time - grace_ms:
            latest, total = windows.get((start, key), (0, 0))
            windows[start, key] = (max(latest, time), total + value)
        for (first, owner), (latest, total) in sorted(windows.items()):
            if first + size_ms <= stream_time - grace_ms and (first, owner) not in done:
                done.add((first, owner))
                order.append((owner, first, latest, total))
    return order


def layered_by_hand(log: Sequence[Entry], *, one_key: bool) -> dict[tuple[str, int], list[int]]:
    """Return the starts of the rows in each window of the outer store, by key and start."""
    found: dict[tuple[str, int], list[int]] = {}
    stream_time = -1
    for key, start, latest, _ in closed(log, INNER_MS, INNER_GRACE_MS):
        stream_time = max(stream_time, latest)
        outer = latest - latest % OUTER_MS
        if outer + OUTER_MS > stream_time - OUTER_GRACE_MS:
            found.setdefault(("all" if one_key else key, outer), []).append(start)
    return found


@pytest.mark.java
@given(logs, st.booleans(), st.lists(st.integers(1, 5), max_size=10))
def test_layers_are_what_a_slow_model_says(
    log: list[Entry], one_key: bool, cuts: list[int]
) -> None:
    """The outer store matches a slow model that processes one record at a time, in any batching."""
    with TopologyTestDriver(layers("'all'" if one_key else "key")) as driver:
        left = [Record(key, {"v": value}, time) for key, time, value in log]
        for size in cuts:
            driver.pipe_input("t", left[:size])
            left = left[size:]
        driver.pipe_input("t", left)
        rows = driver.window_store("outer").all()
        found = {(row.key, row.window_start_ms): row.value["starts"] for row in rows}
        expected = layered_by_hand(log, one_key=one_key)
        assert found.keys() == expected.keys()
        for place, starts in expected.items():
            assert sorted(found[place]) == sorted(starts)
        closed_in_front = closed(log, INNER_MS, INNER_GRACE_MS)
        counters = driver.counters("outer")
        assert counters.input == len(closed_in_front)
        assert counters.applied == builtins.sum(map(len, expected.values()))


@pytest.mark.java
def test_rows_without_a_key_are_dead_letters_of_their_store() -> None:
    """The dead letters have the offsets of the rows in the inner store."""
    with TopologyTestDriver(layers("CASE WHEN n > 1 THEN key END")) as driver:
        driver.pipe_input("t", [Record("a", {"v": 1}, time) for time in (0, 1, 6, 20, 40)])
        assert driver.dead_letters("outer") == [
            {
                "topic": "store inner", "partition": 0, "offset": offset, "store": "outer",
                "reason": "null-key",
                "detail": "the key, or a column that it is computed from, is missing or null",
                "raw": b"", "key": b"a", "timestamp_ms": time, "headers": None,
            }
            for offset, time in ((1, 6), (2, 20))
        ]  # fmt: skip


@pytest.mark.java
def test_final_rows_are_written_to_a_topic_and_steps_stand_in_front() -> None:
    """Final rows can be filtered and mapped before a store or topic.

    Filtered rows are not written.
    """
    builder = StreamsBuilder()
    busy = (
        builder.stream("t", "v BIGINT")
        .group_by_key()
        .windowed_by(TimeWindows.of_size_and_grace(5, 0))
        .count()
        .suppress(until_window_closes())
        .filter("count > 1")
        .map_values(clicks="count", doubled="count * 2")
        .materialize("busy")
    )
    busy.to_stream().to("busy-rows")
    topology = builder.build()
    assert lower(topology).levels == (("busy",), ("to(busy-rows)",))
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("t", [Record("a", {"v": 1}, time) for time in (0, 1, 6, 10, 12, 14, 30)])
        written = driver.create_output_topic("busy-rows").read_records()
        assert [(record.value, record.timestamp_ms) for record in written] == [
            ({"clicks": 2, "doubled": 4, "window_start_ms": 0, "window_end_ms": 5}, 1),
            ({"clicks": 3, "doubled": 6, "window_start_ms": 10, "window_end_ms": 15}, 14),
        ]


def test_what_has_no_final_rows_is_refused_with_the_way_out() -> None:
    """The error about a table without a store says to call ``materialize``."""
    builder = StreamsBuilder()
    grouped = builder.stream("t", "v BIGINT").group_by_key()
    windowed = grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(5, 0))
    with pytest.raises(InvalidTopology, match=r"the table needs a store\. Call materialize first"):
        windowed.count().suppress(until_window_closes()).to_stream()
    final = windowed.count().suppress(until_window_closes()).materialize("final")
    assert str(final.to_stream().origins[0].operation.source) == "store('final').to_stream()"


def test_a_topology_with_layers_is_described_and_drawn() -> None:
    """The description and the diagram show for each store the topics or stores that it reads."""
    topology = layers("key")
    assert lower(topology).levels == (("inner",), ("outer",))
    assert "Input: store('inner').to_stream().select_key(key).group_by_key()" in topology.describe()
    assert '    store0 -->|"select_key(key)"| store1' in topology.to_mermaid()
    assert topology.topics == ("t",)
    assert lower(topology).readers_of("inner") == ["outer"]
