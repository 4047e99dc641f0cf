"""Updates of aggregations over several streams, merged or cogrouped, in the test driver."""

from random import Random
from typing import Any

import pytest

from oriel import JoinWindows, StreamsBuilder, collect_list, count
from oriel import max as max_of
from oriel import sum as sum_of
from oriel.testing import Counters, Record, TopologyTestDriver
from tests.campaigns import seeds
from tests.testing.driver_runs import hopping, tumbling
from tests.testing.test_driver_streams import values
from tests.testing.test_driver_updates import SCHEMA, record


@pytest.mark.java
def test_records_of_merged_streams_emit_their_rows() -> None:
    """Records of merged streams emit rows in stream-time order.

    A record is late by the stream time of its own topic.
    """
    builder = StreamsBuilder()
    merged = builder.stream("t", SCHEMA).merge(builder.stream("u", SCHEMA).filter("v > 0"))
    counts = merged.group_by("s").aggregate(n=count(), vs=collect_list("v"))
    counts.filter("n <> 2").to_stream().to("out")
    counts.join(builder.table("names", "name STRING")).materialize("named")
    windowed = merged.group_by_key().windowed_by(tumbling(10, 0)).count().to_stream()
    windowed.group_by("window_start_ms").aggregate(most=max_of("count")).materialize("s")
    with TopologyTestDriver(builder.build()) as driver:
        out = driver.create_output_topic("out")
        driver.pipe_input("names", Record("x", {"name": "ex"}, 0))
        driver.pipe_inputs([
            ("t", record(5, 1)), ("u", record(7, 2)), ("u", record(3, 3)), ("u", record(3, 0)),
            ("t", record(12, 4)), ("t", record(9, 5)), ("u", record(8, 6, "y")),
        ])  # fmt: skip
        emitted = [
            (one.key, one.value and one.value["n"], one.timestamp_ms) for one in out.read_records()
        ]
        assert emitted == [
            ("x", 1, 5), ("x", None, 7), ("x", 3, 7), ("x", 4, 12), ("x", 5, 12), ("y", 1, 8),
        ]  # fmt: skip
        found = {row.key: row.value for row in driver.key_value_store("named").all()}
        assert found == {"x": {"n": 5, "vs": [3, 1, 2, 5, 4], "name": "ex"}}
        # The record of t at 9 is late, and the record of u at 8 is not.
        assert values(driver) == {"0": {"most": 4}, "10": {"most": 1}}
        counters = driver.counters("s")
        assert (counters.input, counters.late, counters.filtered) == (7, 1, 1)


@pytest.mark.java
def test_records_of_a_cogroup_emit_the_row_of_all_its_streams() -> None:
    """A cogroup emits the row with the columns of all streams (KIP-150).

    A filter emits a deleted row once.
    """
    builder = StreamsBuilder()
    sold, back = (builder.stream(topic, SCHEMA) for topic in "tu")
    both = sold.group_by("s").cogroup(sold=count(), vs=collect_list("v"))
    both = both.cogroup(back.group_by("s"), back=count(), v=sum_of("v"))
    both.aggregate().filter("back < 2").to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        out = driver.create_output_topic("out")
        driver.pipe_inputs([
            ("t", record(5, 1)), ("u", record(7, 2)), ("u", record(3, 3)), ("t", record(12, 4)),
            ("u", record(8, 6, "y")),
        ])  # fmt: skip
        assert [(one.key, one.value, one.timestamp_ms) for one in out.read_records()] == [
            ("x", {"sold": 1, "vs": [1], "back": 0, "v": None}, 5),
            ("x", {"sold": 1, "vs": [1], "back": 1, "v": 2}, 7),
            ("x", None, 7),
            ("y", {"sold": 0, "vs": [], "back": 1, "v": 6}, 8),
        ]


@pytest.mark.java
def test_a_cogroup_is_a_table() -> None:
    """A cogroup can be joined and grouped. Its functions see their own streams' values."""
    builder = StreamsBuilder()
    left, right = builder.stream("t", SCHEMA), builder.stream("u", "w BIGINT")
    total = left.group_by_key().cogroup(lambda _, value, total: total + value["v"])
    total = total.cogroup(right.group_by_key(), lambda _, value, total: total - value["w"])
    table = total.aggregate(lambda: 0, lambda _, a, b: a + b, "total BIGINT")
    table.join(builder.table("names", "name STRING")).materialize("named")
    table.group_by("total % 2").count().materialize("parities")
    builder.stream("visits", "page STRING").left_join(table).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        out = driver.create_output_topic("out")
        driver.pipe_input("names", Record("k", {"name": "Kay"}, 0))
        driver.pipe_input("t", [record(1, 5), record(2, 4, key="l")])
        driver.pipe_input("u", [Record("k", {"w": 2}, 3), Record("m", {"w": 1}, 4)])
        driver.pipe_input("visits", [Record("k", {"page": "p"}, 9), Record("n", {"page": "p"}, 9)])
        named = {row.key: row.value for row in driver.key_value_store("named").all()}
        assert named == {"k": {"total": 3, "name": "Kay"}}
        assert values(driver, "parities") == {key: {"count": 1} for key in ("0", "1", "-1")}
        assert [one.value for one in out.read_records()] == [
            {"page": "p", "total": 3}, {"page": "p", "total": None}
        ]  # fmt: skip


@pytest.mark.java
def test_in_hopping_windows_a_flattened_record_becomes_several() -> None:
    """In hopping windows, a flattened record emits several rows and counts once."""
    builder = StreamsBuilder()
    elements = builder.stream("t", SCHEMA).flat_map_values(v="array(v, v + 1)")
    rows = elements.group_by_key().windowed_by(hopping(6, 3)).count()
    rows.filter("window_start_ms > 0").to_stream().group_by_key().aggregate(
        starts=collect_list("window_start_ms"), ns=collect_list("count")
    ).materialize("s")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("t", [record(time, 0) for time in (4, 5, 1)])
        assert values(driver) == {"k": {"starts": [3, 3, 3, 3], "ns": [1, 2, 3, 4]}}
        assert driver.counters("s") == Counters(
            input=3, applied=3, late=0, dropped=0, filtered=0, elements=4, elements_applied=4
        )


@pytest.mark.slow
@seeds(1, 2)
@pytest.mark.parametrize("how", ["none", "tumbling", "hopping", "functions"])
@pytest.mark.parametrize("several", ["merged", "cogroup"])
def test_the_last_update_of_several_streams_is_the_row(several: str, how: str, seed: int) -> None:
    """The last update equals the row of a store with the same aggregation, in any batching."""
    random = Random(seed)
    builder = StreamsBuilder()
    windows = {"tumbling": tumbling(8, 3), "hopping": hopping(8, 3, 3)}.get(how)
    elements = builder.stream("u", SCHEMA).flat_map_values("s", v="array(v, v + 1)")
    table = _aggregated(builder.stream("t", SCHEMA), elements, several, how, windows)
    table.materialize("s")
    table.to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        out = driver.create_output_topic("out")
        time = 10
        for _ in range(12):
            for topic in random.sample("tu", 2):
                time += random.randint(0, 6)
                batch = [
                    record(max(0, time + random.randint(-6, 3)), random.randrange(9), text)
                    for text in random.choices("ab", k=random.randint(0, 4))
                ]
                driver.pipe_input(topic, batch, random.randint(0, 1))
        last = {}
        for one in out.read_records():
            row = dict(one.value or {})
            start_ms = row.pop("window_start_ms", 0)
            row.pop("window_end_ms", None)
            last[one.key, start_ms] = row, one.timestamp_ms
        kept: Any = (driver.window_store("s") if windows else driver.key_value_store("s")).all()
        rows = {
            (row.key, getattr(row, "window_start_ms", 0)): (row.value, row.timestamp_ms)
            for row in kept
        }
    assert last == rows
    assert len(rows) > 1


def _aggregated(one: Any, other: Any, several: str, how: str, windows: Any) -> Any:
    """Return the aggregation of two streams, with aggregates or functions."""

    def added(_: str, value: Any, text: str) -> str:
        return f"{text}+{value['v']}"

    def taken(_: str, value: Any, text: str) -> str:
        return f"{text}-{value['v']}"

    functions = str, lambda _, a, b: a + b, "x STRING"
    grouped: Any = one.merge(other).group_by("s")
    if several == "cogroup" and how == "functions":
        return (
            one.group_by("s")
            .cogroup(added)
            .cogroup(other.group_by("s"), taken)
            .aggregate(*functions)
        )
    if several == "cogroup":
        grouped = one.group_by("s").cogroup(n=count(), all=collect_list("v"))
        grouped = grouped.cogroup(other.group_by("s"), most=max_of("v"), others=collect_list("v"))
        return (grouped.windowed_by(windows) if windows else grouped).aggregate()
    if how == "functions":
        initializer, merger, schema = functions
        return grouped.aggregate(initializer, added, merger, schema)
    grouped = grouped.windowed_by(windows) if windows else grouped
    return grouped.aggregate(n=count(), total=sum_of("v"), all=collect_list("v"))


@pytest.mark.java
def test_join_results_emit_rows_of_several_streams() -> None:
    """Join results emit rows of merged and cogrouped aggregations.

    A function that raises on a join result has the record's dead letter.
    """
    builder = StreamsBuilder()
    one, other = (builder.stream(topic, SCHEMA) for topic in "tu")
    windows = JoinWindows.of_time_difference_and_grace(5, 0)
    pairs = one.join(other.map_values(w="v"), windows).map_values("v", "w")
    merged = pairs.map_values("v").merge(one.map_values("v")).group_by_key()
    merged.aggregate(n=count(), vs=collect_list("v")).to_stream().to("merged")
    both = pairs.group_by_key().cogroup(n=count()).cogroup(other.group_by_key(), m=count())
    both.windowed_by(hopping(6, 3)).aggregate().to_stream().to("both")

    def divided(_: str, value: dict[str, int], total: int) -> int:
        return total + 6 // value["w"]

    quotients = pairs.group_by_key().windowed_by(hopping(6, 3))
    quotients.aggregate(lambda: 0, divided, None, "total BIGINT").to_stream().to("quotients")
    with TopologyTestDriver(builder.build(), collect_function_errors=True) as driver:
        driver.pipe_input("t", [record(1, 7), record(4, 8)])
        driver.pipe_input("u", [record(2, 3), record(5, 0)])
        emitted = {
            topic: [
                tuple((one.value or {}).values())
                for one in driver.create_output_topic(topic).read_records()
            ]
            for topic in ("merged", "both", "quotients")
        }
        dead_letters = [
            (letter["topic"], letter["offset"], letter["reason"])
            for letter in driver.dead_letters("to(quotients)")
        ]
    # The join results are (7, 3) at 2, (8, 3) at 4, (7, 0) and (8, 0) at 5, by stream time, then by
    # source offset.
    assert emitted["merged"] == [
        (1, [7]), (2, [7, 8]), (3, [7, 7, 8]), (4, [7, 7, 8, 8]), (5, [7, 7, 8, 8, 7]),
        (6, [7, 7, 8, 8, 7, 8]),
    ]  # fmt: skip
    assert emitted["both"][-2:] == [(4, 2, 0, 6), (3, 1, 3, 9)]
    assert emitted["quotients"] == [(2, 0, 6), (4, 0, 6), (2, 3, 9)]
    assert dead_letters == [("t", 0, "function-raised"), ("t", 1, "function-raised")]
