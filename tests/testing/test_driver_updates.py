"""Updates of aggregations in the test driver: records, counters, dead letters, batching."""

from random import Random
from typing import Any

import pytest

from oriel import InvalidTopology, JoinWindows, StreamsBuilder, Topology, collect_list, count
from oriel import max as max_of
from oriel import sum as sum_of
from oriel.testing import Counters, Record, TopologyTestDriver
from tests.campaigns import seeds
from tests.models.aggregate_updates import Entry, Span, every_aggregate, updates
from tests.testing.driver_runs import hopping, sliding, tumbling
from tests.testing.test_driver_streams import values

SCHEMA = "v BIGINT, s STRING"


def record(time: int, value: int, text: str | None = "x", key: str = "k") -> Record:
    """Return a record of ``SCHEMA``."""
    return Record(key, {"v": value, "s": text}, time)


def written(topology: Topology, *batches: list[Record]) -> list[tuple[str | None, Any, int]]:
    """Return key, value and time of each record in ``out``."""
    with TopologyTestDriver(topology, collect_function_errors=True) as driver:
        reader = driver.create_output_topic("out")
        for batch in batches:
            driver.pipe_input("t", batch)
        return [(one.key, one.value, one.timestamp_ms) for one in reader.read_records()]


@pytest.mark.java
def test_each_record_continues_with_the_row_of_its_key() -> None:
    """Each record emits the updated row of its key, with the greatest record time (KIP-259).

    Later steps see the aggregates.
    """
    builder = StreamsBuilder()
    counts = builder.stream("t", SCHEMA).group_by("s").aggregate(n=count(), total=sum_of("v"))
    counts.to_stream().filter("n <> 2").map_values(times="n * total").to("out")
    found = written(
        builder.build(),
        [record(10, 3), record(20, 4, "y"), record(5, 5), record(7, 1), record(8, 1, None)],
        [record(6, 1, "y"), record(30, 2, "y")],
    )
    assert found == [
        ("x", {"times": 3}, 10), ("y", {"times": 4}, 20), ("x", {"times": 27}, 10),
        ("y", {"times": 21}, 30),
    ]  # fmt: skip


@pytest.mark.java
def test_windows_are_emitted_before_they_close() -> None:
    """A window emits each change before it closes, and late records emit nothing."""
    builder = StreamsBuilder()
    windowed = builder.stream("t", SCHEMA).group_by_key().windowed_by(tumbling(10, 5))
    alerts = windowed.count().filter("count >= 2").to_stream()
    alerts.select_key("'all'").group_by_key().aggregate(
        alerts=count(), starts=collect_list("window_start_ms"), most=max_of("count")
    ).materialize("s")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("t", [record(time, 0) for time in (1, 2, 12, 3, 15, 14, 9, 16)])
        assert values(driver) == {"all": {"alerts": 5, "starts": [0, 0, 10, 10, 10], "most": 4}}
        found = driver.counters("s")
        assert (found.input, found.applied, found.late, found.filtered) == (8, 5, 1, 2)


@pytest.mark.java
def test_hopping_windows_give_elements() -> None:
    """A record emits one update per hopping window, which count as flattened records."""
    builder = StreamsBuilder()
    windowed = builder.stream("t", SCHEMA).group_by_key().windowed_by(hopping(6, 3))
    windowed.count().to_stream().filter("count = 1").group_by("window_start_ms").aggregate(
        n=count()
    ).materialize("s")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("t", [record(time, 0) for time in (4, 5, 7, 1)])
        assert values(driver) == {start: {"n": 1} for start in "036"}
        assert driver.counters("s") == Counters(
            input=4, applied=3, late=1, dropped=0, filtered=0,
            elements=6, elements_applied=3, elements_filtered=3,
        )  # fmt: skip


def test_a_function_that_raises_makes_a_dead_letter() -> None:
    """If a function raises, the store that reads the updates has the dead letter.

    A tombstone counts as filtered.
    """

    def added(_key: str, value: dict[str, Any], total: int) -> int | None:
        return None if value["v"] == 0 else total + 10 // (value["v"] - 5)

    builder = StreamsBuilder()
    totals = builder.stream("t", SCHEMA).group_by_key().aggregate(lambda: 0, added, schema="n INT")
    totals.to_stream().group_by_key().aggregate(all=collect_list("n")).materialize("s")
    with TopologyTestDriver(builder.build(), collect_function_errors=True) as driver:
        driver.pipe_input("t", [record(1, 6), record(2, 5), record(3, 0), record(4, 7)])
        assert values(driver) == {"k": {"all": [10, 5]}}
        (letter,) = driver.dead_letters("s")
        assert (letter["offset"], letter["reason"]) == (1, "function-raised")
        assert "ZeroDivisionError" in letter["detail"]
        counters = driver.counters("s")
        assert (counters.applied, counters.dropped, counters.filtered) == (2, 1, 1)


@pytest.mark.java
def test_functions_over_sliding_windows_emit_each_row() -> None:
    """A function over sliding windows emits each changed and new window, in Kafka's order."""

    def added(_key: str, value: dict[str, Any], text: str) -> str:
        if value["s"] == "bad":
            raise ValueError(value)
        return f"{text}{value['s']}"

    builder = StreamsBuilder()
    windowed = builder.stream("t", SCHEMA).group_by_key().windowed_by(sliding(10, 100))
    texts = windowed.aggregate(str, added, schema="text STRING").filter("text <> 'ab'")
    texts.to_stream().select_key("window_start_ms").map_values("text").to("out")
    emitted = written(
        builder.build(),
        [record(20, 0, "a"), record(25, 0, "bad"), record(21, 0, "b")],
        [record(31, 0, "c"), record(12, 0, "d")],
    )
    assert emitted == [
        ("10", {"text": "a"}, 20),
        # [11, 21] has "ab" from the start, and [21, 31] has b.
        ("21", {"text": "b"}, 21),
        ("21", {"text": "bc"}, 31), ("22", {"text": "c"}, 31),
        ("11", {"text": "abd"}, 21), ("10", {"text": "ad"}, 20), ("2", {"text": "d"}, 12),
    ]  # fmt: skip
    with TopologyTestDriver(builder.build(), collect_function_errors=True) as driver:
        driver.pipe_input("t", [record(20, 0, "a"), record(25, 0, "bad"), record(-1, 0, "a")])
        (letter,) = (each for each in driver.dead_letters("to(out)") if each["offset"] == 1)
        assert letter["reason"] == "function-raised"


def test_rows_of_grouped_tables_are_emitted() -> None:
    """A row that changes its group emits an update of both groups, a row that stays emits one.

    This is the behavior of Kafka.
    """
    builder = StreamsBuilder()
    groups = builder.table("t", SCHEMA).group_by("s")
    groups.aggregate(n=count(), total=sum_of("v")).to_stream().to("out")

    def added(_key: str, row: dict[str, Any], text: str) -> str:
        return f"{text}+{row['v']}"

    def taken(_key: str, row: dict[str, Any], text: str) -> str | None:
        left = text.replace(f"+{row['v']}", "", 1)
        return left or None

    groups.aggregate(lambda: "", added, taken, schema="t STRING").to_stream().to("texts")
    with TopologyTestDriver(builder.build()) as driver:
        out, texts = driver.create_output_topic("out"), driver.create_output_topic("texts")
        driver.pipe_input(
            "t",
            [
                record(10, 1), record(20, 2, "y", "l"), record(5, 3), record(7, 4, "y"),
                Record("k", None, 8), Record("l", None, 9),
            ],
        )  # fmt: skip
        rows = [(one.key, one.value, one.timestamp_ms) for one in out.read_records()]
        emitted = [(one.key, one.value, one.timestamp_ms) for one in texts.read_records()]
    assert rows == [
        ("x", {"n": 1, "total": 1}, 10), ("y", {"n": 1, "total": 2}, 20),
        ("x", {"n": 1, "total": 3}, 10),
        ("x", {"n": 0, "total": None}, 10), ("y", {"n": 2, "total": 6}, 20),
        ("y", {"n": 1, "total": 2}, 20), ("y", {"n": 0, "total": None}, 20),
    ]  # fmt: skip
    assert emitted == [
        ("x", {"t": "+1"}, 10), ("y", {"t": "+2"}, 20), ("x", {"t": "+3"}, 10),
        ("x", None, 10), ("y", {"t": "+2+4"}, 20), ("y", {"t": "+2"}, 20), ("y", None, 20),
    ]  # fmt: skip


def layered(span: Span) -> Topology:
    """Return a topology with updates of windows, and an aggregation over the updates."""
    builder = StreamsBuilder()
    grouped: Any = builder.stream("t", "v BIGINT").group_by_key()
    if span.size_ms is not None:
        grouped = grouped.windowed_by(hopping(span.size_ms, span.advance_ms, span.grace_ms))
    rows = grouped.aggregate(n=count(), total=sum_of("v"), least=max_of("v")).to_stream()
    rows.to("out")
    rows.map_values("n").group_by("n").count().to_stream().to("counts")
    return builder.build()


@pytest.mark.slow
@seeds(1, 6)
@pytest.mark.parametrize("span", [Span(), Span(5, 5, 2), Span(6, 2, 1)], ids=str)
def test_any_cut_writes_the_same_records(span: Span, seed: int) -> None:
    """Any batching writes the updates of the model, also for an aggregation of the updates."""
    random = Random(seed)
    log = [
        Entry(random.choice("ab"), random.randrange(9), max(0, place + random.randint(-6, 6)))
        for place in range(40)
    ]
    records = [Record(key, {"v": value}, time) for key, value, time in log]
    found = []
    for most in (1, 7, 40):
        with TopologyTestDriver(layered(span)) as driver:
            topics = [driver.create_output_topic(name) for name in ("out", "counts")]
            for low in range(0, len(records), most):
                driver.pipe_input("t", records[low : low + most])
            found.append([topic.read_records() for topic in topics])
    rows, counts = found[0]
    assert found[1] == found[2] == found[0]
    model = [
        (each.key, each.row["n"], each.row["total"], each.timestamp_ms)
        for each in updates(log, span, every_aggregate)
        if each.row
    ]
    emitted = [(one.key, one.value or {}, one.timestamp_ms) for one in rows]
    assert [(key, row["n"], row["total"], time) for key, row, time in emitted] == model
    seen: dict[str, int] = {}
    for one, (_, number, *_) in zip(counts, model, strict=True):
        key = str(number)
        seen[key] = seen.get(key, 0) + 1
        assert (one.key, one.value) == (key, {"count": seen[key]})


@pytest.mark.java
def test_updates_join_streams_and_tables_like_any_records() -> None:
    """Updates of an aggregation join streams and tables like other records."""
    builder = StreamsBuilder()
    totals = builder.stream("t", SCHEMA).group_by("s").aggregate(total=sum_of("v")).to_stream()
    others = builder.stream("u", "w BIGINT")
    named = totals.join(builder.table("names", "name STRING"))
    joined = named.join(others, JoinWindows.of_time_difference_and_grace(5, 0))
    joined.map_values("name", pair="total * 1000 + w").group_by("name").aggregate(
        pairs=collect_list("pair")
    ).materialize("s")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("names", Record("x", {"name": "ex"}, 0))
        driver.pipe_input("t", [record(10, 3), record(11, 9, "y"), record(12, 4)])
        driver.pipe_input("u", [Record("x", {"w": 1}, 8), Record("x", {"w": 2}, 16)])
        assert values(driver) == {"ex": {"pairs": [3001, 7001, 7002]}}


def totals_of(builder: StreamsBuilder) -> Any:
    """Return the number of each user's orders and their total cost."""
    orders = builder.stream("orders", "user STRING, cost BIGINT")
    return orders.group_by("user").aggregate(n=count(), cost=sum_of("cost"))


def order(time: int, user: str, cost: int) -> Record:
    """Return an order with a key of its own."""
    return Record(f"order-{time}", {"user": user, "cost": cost}, time)


@pytest.mark.java
def test_a_stream_looks_an_aggregation_up() -> None:
    """A stream joins the current rows of an aggregation over all partitions, without a store."""
    builder = StreamsBuilder()
    regulars = totals_of(builder).filter("n > 1").map_values("cost")
    visits = builder.stream("visits", "page STRING")
    visits.left_join(regulars).to("out")
    visits.join(regulars).group_by_key().count().materialize("s")
    with TopologyTestDriver(builder.build()) as driver:
        reader = driver.create_output_topic("out")

        def found(time: int) -> dict[str | None, Any]:
            driver.pipe_input("visits", [Record(user, {"page": "p"}, time) for user in "uv"])
            return {one.key: (one.value or {})["cost"] for one in reader.read_records()}

        driver.pipe_input("orders", [order(10, "u", 5), order(11, "v", 1)])
        assert found(12) == {"u": None, "v": None}
        # An older time in another partition: the last update counts, regardless of time and
        # partition.
        driver.pipe_input("orders", [order(9, "u", 7)], 1)
        assert found(13) == {"u": 12, "v": None}
        driver.pipe_input("orders", [order(2, "u", 1), order(3, "v", 1)], 0)
        assert found(14) == {"u": 13, "v": 2}
        assert values(driver) == {"u": {"count": 2}, "v": {"count": 1}}
        counters = driver.counters("s")
        assert (counters.input, counters.applied, counters.filtered) == (11, 6, 5)


@pytest.mark.java
@pytest.mark.parametrize("groups_a_table", [False, True])
def test_what_is_looked_up_is_counted_once(*, groups_a_table: bool) -> None:
    """Records of a joined aggregation count once, for flattened records and for table rows."""
    builder = StreamsBuilder()
    if groups_a_table:
        counts = builder.table("t", SCHEMA).group_by("s").count()
    else:
        elements = builder.stream("t", SCHEMA).flat_map_values("s", v="array(v, v + 1)")
        counts = elements.group_by("s").count()
    builder.stream("visits", "page STRING").join(counts).group_by_key().count().materialize("s")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("t", [record(1, 1), record(2, 2, "y"), record(3, 3)])
        driver.pipe_input("visits", [Record(key, {"page": "p"}, 4) for key in "xyz"])
        assert values(driver) == {"x": {"count": 1}, "y": {"count": 1}}
        counters = driver.counters("s")
        assert (counters.input, counters.applied, counters.filtered) == (6, 5, 1)
        elements_applied = 0 if groups_a_table else 6
        assert (counters.elements, counters.elements_applied) == (elements_applied,) * 2


def test_a_row_that_a_function_removes_is_not_found() -> None:
    """A removed row has no match until the key has a row again. A failed call keeps the row."""

    def added(_key: str, value: dict[str, Any], total: int) -> int | None:
        return None if value["cost"] == 0 else total + 10 // (value["cost"] - 5)

    builder = StreamsBuilder()
    orders = builder.stream("orders", "user STRING, cost BIGINT").group_by("user")
    totals = orders.aggregate(lambda: 0, added, schema="total BIGINT")
    builder.stream("visits", "page STRING").left_join(totals).to("out")
    with TopologyTestDriver(builder.build(), collect_function_errors=True) as driver:
        reader = driver.create_output_topic("out")
        for time, cost in enumerate((6, 5, 0, 7)):
            driver.pipe_input("orders", order(time, "u", cost))
            driver.pipe_input("visits", Record("u", {"page": "p"}, time))
        found = [(one.value or {})["total"] for one in reader.read_records()]
        assert found == [10, 10, None, 5]
        assert [letter["offset"] for letter in driver.dead_letters("to(out)")] == [1]


def test_a_window_is_no_row_of_a_key() -> None:
    """A stream cannot join a windowed table. The error suggests a join with its updates."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", "user STRING, cost BIGINT").group_by("user")
    with pytest.raises(InvalidTopology, match=r"join: a stream cannot .*\. Join .* to_stream\(\)"):
        builder.stream("visits", "page STRING").join(orders.windowed_by(tumbling(5, 0)).count())
