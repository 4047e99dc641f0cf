"""Updates of sliding windows and sessions in the test driver: rows, steps and counters."""

from random import Random
from typing import Any

import pytest

from oriel import InvalidTopology, JoinWindows, StreamsBuilder, collect_list, count
from oriel import sum as sum_of
from oriel.pipeline.language import KStream
from oriel.pipeline.windows import Windows
from oriel.testing import Counters, Record, TopologyTestDriver
from tests.testing.driver_runs import hopping, sessions, sliding
from tests.testing.test_driver_streams import values
from tests.testing.test_driver_updates import SCHEMA, record, written


def test_a_session_is_emitted_while_it_grows() -> None:
    """Merged sessions are deleted before the update.

    A key can use the bounds of a deleted session.
    """
    builder = StreamsBuilder()
    visits = builder.stream("t", SCHEMA).group_by_key().windowed_by(sessions(10, 20)).count()
    visits.to_stream().select_key("window_start_ms").map_values("count").to("out")
    found = written(
        builder.build(),
        [record(0, 1), record(30, 1), record(15, 1)],
        [record(20, 1), record(20, 1)],
    )
    assert found == [
        ("0", {"count": 1}, 0), ("30", {"count": 1}, 30), ("15", {"count": 1}, 15),
        ("15", None, 15), ("30", None, 30), ("15", {"count": 3}, 30),
        ("15", None, 30), ("15", {"count": 4}, 30),
    ]  # fmt: skip


@pytest.mark.java
def test_updates_of_sessions_are_counted_as_elements() -> None:
    """A tombstone counts in windows after the table, and other groupings ignore it."""
    builder = StreamsBuilder()
    updates = builder.stream("t", SCHEMA).group_by_key().windowed_by(sessions(5, 0)).count()
    grouped = updates.to_stream().map_values("count", at="window_start_ms").group_by_key()
    grouped.aggregate(ats=collect_list("at"), counts=collect_list("count")).materialize("s")
    grouped.windowed_by(sessions(100, 0)).aggregate(ats=collect_list("at"), n=count()).materialize(
        "w"
    )
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("t", [record(time, 0) for time in (20, 24, 26, 12)])
        # At 12 the close time is 21, so the record is late.
        assert values(driver) == {"k": {"ats": [20, 20, 20], "counts": [1, 2, 3]}}
        assert [row.value for row in driver.session_store("w").all()] == [
            {"ats": [20, 20, 20], "n": 5}
        ]
        assert driver.counters("s") == Counters(
            input=4, applied=3, late=1, dropped=0, filtered=0,
            elements=5, elements_applied=3, elements_filtered=2,
        )  # fmt: skip


@pytest.mark.java
def test_a_filter_emits_tombstones_only_for_emitted_sessions() -> None:
    """A filter emits a tombstone only for a session that it emitted before."""
    builder = StreamsBuilder()
    visits = builder.stream("t", SCHEMA).group_by_key().windowed_by(sessions(10, 20)).count()
    visits.filter("count <> 2").to_stream().map_values("count").to("out")
    found = written(builder.build(), [record(0, 1), record(5, 1)], [record(7, 1), record(8, 1)])
    assert [(value and value["count"], time) for _, value, time in found] == [
        (1, 0), (None, 0), (3, 7), (None, 7), (4, 8),
    ]  # fmt: skip


@pytest.mark.java
def test_sessions_that_begin_together_are_two_for_a_filter() -> None:
    """A filter distinguishes two sessions with equal starts, in any batching.

    One of the sessions closes with the record that lets the other one start at the same time.
    """
    builder = StreamsBuilder()
    visits = builder.stream("t", SCHEMA).group_by_key().windowed_by(sessions(5, 0)).count()
    emitted = visits.filter("count <> 3").to_stream()
    emitted.select_key("concat(window_start_ms, '-', window_end_ms)").map_values("count").to("out")
    topology = builder.build()
    log = [record(10, 0), record(17, 0, key="x"), record(16, 0), record(11, 0), record(10, 0)]
    expected = [
        ("10-10", {"count": 1}, 10), ("17-17", {"count": 1}, 17), ("16-16", {"count": 1}, 16),
        ("16-16", None, 16), ("11-16", {"count": 2}, 16), ("11-16", None, 16),
    ]  # fmt: skip
    for cut in range(len(log) + 1):
        assert written(topology, log[:cut], log[cut:]) == expected


@pytest.mark.java
def test_elements_that_a_function_rejects_have_places_of_their_own() -> None:
    """A rejected flattened record causes one dead letter, and the others' rows stay."""
    builder = StreamsBuilder()

    def text_of(_: str, value: dict[str, Any] | None, text: str) -> str:
        return f"{text}+{1 // (value or {})['v']}"

    elements = builder.stream("t", SCHEMA).flat_map_values(v="array(v, v - 1, v)")
    visits = elements.group_by_key().windowed_by(sessions(10, 20))
    texts = visits.aggregate(lambda: "", text_of, lambda _, a, b: a + b, "text STRING").to_stream()
    texts.group_by_key().aggregate(texts=collect_list("text")).materialize("s")
    with TopologyTestDriver(builder.build(), collect_function_errors=True) as driver:
        driver.pipe_input("t", [record(5, 1), record(6, 1)])
        assert values(driver) == {"k": {"texts": ["+1", "+1+1", "+1+1+1", "+1+1+1+1"]}}
        assert [letter["offset"] for letter in driver.dead_letters("s")] == [0, 1]
        found = driver.counters("s")
        assert found.input == found.applied + found.dropped == 2


@pytest.mark.java
def test_sessions_of_functions_are_emitted() -> None:
    """Functions over sessions emit merges and tombstones as in Kafka, and dead letters."""
    builder = StreamsBuilder()

    def text_of(_: str, value: dict[str, Any] | None, text: str) -> str | None:
        number = (value or {})["v"]
        return None if number == 0 else f"{text}+{1 // (number - 9)}"

    visits = builder.stream("t", SCHEMA).group_by_key().windowed_by(sessions(10, 20))
    visits.aggregate(
        lambda: "", text_of, lambda _, a, b: f"({a}{b})", "text STRING"
    ).to_stream().to("out")
    with TopologyTestDriver(builder.build(), collect_function_errors=True) as driver:
        out = driver.create_output_topic("out")
        driver.pipe_input("t", [record(0, 10), record(5, 8), record(6, 9), record(7, 0)])
        driver.pipe_input("t", [record(8, 10)])
        rows = [((one.value or {}).get("text"), one.timestamp_ms) for one in out.read_records()]
        assert rows == [
            ("+1", 0), (None, 0), ("(+1)+-1", 5), (None, 5), (None, 7), ("+1", 8),
        ]  # fmt: skip
        assert [letter["offset"] for letter in driver.dead_letters("to(out)")] == [2]


@pytest.mark.java
@pytest.mark.slow
def test_a_record_emits_the_sliding_windows_that_it_changes() -> None:
    """A record emits each sliding window that it changes (example of semantics.md#2-2).

    A filter on the updates sees the windows before they close.
    """
    builder = StreamsBuilder()
    windowed = builder.stream("t", SCHEMA).group_by_key().windowed_by(sliding(10, 100))
    update_stream = windowed.aggregate(vs=collect_list("v")).to_stream()
    update_stream.map_values("vs", at="window_start_ms").to("out")
    update_stream.filter("size(vs) >= 3").group_by_key().count().materialize("s")
    topology = builder.build()
    batches = [record(10, 1), record(10, 2), record(14, 3)], [record(15, 4), record(20, 5)]
    assert [(value["at"], value["vs"], time) for _, value, time in written(topology, *batches)] == [
        (0, [1], 10), (0, [1, 2], 10), (11, [3], 14), (4, [1, 2, 3], 14),
        (11, [3, 4], 15), (15, [4], 15), (5, [1, 2, 3, 4], 15),
        (15, [4, 5], 20), (11, [3, 4, 5], 20), (16, [5], 20), (10, [1, 2, 3, 4, 5], 20),
    ]  # fmt: skip
    with TopologyTestDriver(topology) as driver:
        for batch in batches:
            driver.pipe_input("t", batch)
        assert values(driver) == {"k": {"count": 4}}
        found = driver.counters("s")
        assert (found.applied, found.elements, found.elements_applied) == (5, 11, 4)


def updates_of(stream: KStream, windows: Windows) -> KStream:
    """Return all updates of a stream's windows, with a column ``v`` like the stream."""
    summed = stream.group_by_key().windowed_by(windows).aggregate(v=sum_of("v"), n=count())
    return summed.to_stream().map_values(v="v + n")


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize(
    "chain",
    [
        (sessions(3, 500), sessions(4, 500), sessions(5, 500)),
        (sliding(2, 500), sliding(4, 500), hopping(6, 3, 500), sessions(5, 500)),
        (sessions(3, 500), hopping(4, 2, 500), sliding(2, 500), sliding(3, 500)),
    ],
    ids=lambda chain: "-".join(windows.kind for windows in chain),
)
def test_windows_after_windows_equal_windows_of_a_topic(chain: tuple[Windows, ...]) -> None:
    """Chained windows equal windows over a topic with the updates of the windows before."""
    builder, last = StreamsBuilder(), StreamsBuilder()
    stream = builder.stream("t", SCHEMA)
    for windows in chain[:-1]:
        stream = updates_of(stream, windows)
    stream.to("between")
    updates_of(stream, chain[-1]).to("out")
    updates_of(last.stream("between", "v BIGINT"), chain[-1]).to("out")
    random = Random(7)
    log = [record(random.randrange(4 * n, 4 * n + 15), n) for n in range(9)]
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("t", log[:4])
        driver.pipe_input("t", log[4:])
        found = driver.create_output_topic("out").read_records()
        between = driver.create_output_topic("between").read_records()
    with TopologyTestDriver(last.build()) as driver:
        driver.pipe_input("between", between)
        assert found == driver.create_output_topic("out").read_records()
    assert len(found) > len(between) > len(log)


@pytest.mark.java
def test_join_results_emit_the_windows_that_they_change() -> None:
    """Each join result updates all its windows, one result after the other, also in a cogroup."""
    builder = StreamsBuilder()
    left, right = builder.stream("l", "a INT"), builder.stream("r", "b INT")
    within = JoinWindows.of_time_difference_and_grace(5, 0)
    pairs = left.join(right, within).map_values(v="a * b").group_by_key()
    summed = pairs.windowed_by(hopping(6, 3)).aggregate(v=sum_of("v")).to_stream()
    summed.map_values("v", at="window_start_ms").to("hopping")
    pairs.windowed_by(sessions(2, 9)).aggregate(v=sum_of("v")).to_stream().map_values("v").to(
        "sessions"
    )
    other = builder.stream("o", "v INT").group_by_key()
    both = pairs.cogroup(v=sum_of("v")).cogroup(other, w=sum_of("v"))
    both.windowed_by(hopping(6, 3)).aggregate().to_stream().map_values(
        "v", "w", at="window_start_ms"
    ).to("both")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("l", [Record("k", {"a": a}, a) for a in (1, 4)])
        driver.pipe_input("r", Record("k", {"b": 3}, 3))
        driver.pipe_input("o", Record("k", {"v": 7}, 5))
        driver.pipe_input("r", Record("k", {"b": 9}, 9))
        emitted = {
            name: [
                (*(record.value or {}).values(), record.timestamp_ms)
                for record in driver.create_output_topic(name).read_records()
            ]
            for name in ("hopping", "sessions", "both")
        }
    # The join results are (1, 3) at 3, (4, 3) at 4, then (4, 9) at 9.
    assert emitted["hopping"] == [
        (3, 0, 3), (3, 3, 3), (15, 0, 4), (15, 3, 4), (36, 6, 9), (36, 9, 9),
    ]  # fmt: skip
    assert emitted["sessions"] == [(3, 3), (3,), (15, 4), (36, 9)]
    assert emitted["both"] == [
        (3, None, 0, 3), (3, None, 3, 3), (15, None, 0, 4), (15, None, 3, 4),
        (15, 7, 0, 5), (15, 7, 3, 5), (36, None, 6, 9), (36, None, 9, 9),
    ]  # fmt: skip


def test_a_value_with_a_name_that_the_stage_needs_is_refused() -> None:
    """A column name that the join stage reserves is rejected when the driver is created."""
    builder = StreamsBuilder()
    sides = builder.stream("t", "side STRING").group_by_key().aggregate(all=collect_list("side"))
    sides.to_stream().to("out")
    with pytest.raises(InvalidTopology, match="'side' exists twice"):
        TopologyTestDriver(builder.build())
