"""Streams as tables (KIP-523) in the test driver (decision 0078)."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from oriel import (
    InvalidTopology,
    JoinWindows,
    StreamsBuilder,
    collect_list,
    count,
    sum,
)
from oriel.pipeline.language import KStream
from oriel.pipeline.language.tables import SourceTable
from oriel.testing import Record, TopologyTestDriver
from tests.campaigns import seeds
from tests.testing.driver_runs import driver_of, sessions, sliding

SCHEMA = "user STRING, n INT"
#: One record moves from x to y, one is deleted, and one is out of order.
LOG = [
    Record("a", {"user": "x", "n": 1}, 1),
    Record("b", {"user": "x", "n": 2}, 2),
    Record("a", {"user": "y", "n": 3}, 3),
    Record("b", None, 4),
    Record("c", {"user": "x", "n": 9}, 0),
]
#: A table's rows by their key: value and time.
Rows = dict[str | None, tuple[Any, int]]


def rows_of(driver: TopologyTestDriver, store: str = "s") -> Rows:
    """Return the rows of a store."""
    return {row.key: (row.value, row.timestamp_ms) for row in driver.key_value_store(store).all()}


def ran(
    define: Callable[[StreamsBuilder], object], *topics: tuple[str, list[Record]]
) -> tuple[Rows, list[tuple[Any, ...]]]:
    """Return the rows of ``s`` and the records of ``out``.

    The function checks that one batch and single records have the same result.
    """
    results = []
    for is_cut in (False, True):
        driver = driver_of(define)
        emitted = driver.create_output_topic("out")
        for topic, log in topics:
            for batch in [[record] for record in log] if is_cut else [log]:
                driver.pipe_input(topic, batch)
        records = [(one.key, one.value, one.timestamp_ms) for one in emitted.read_records()]
        results.append((rows_of(driver), records))
    assert results[0] == results[1]
    return results[0]


def kept(of: Callable[[KStream], SourceTable]) -> Callable[[StreamsBuilder], None]:
    """Return a definition of the stream ``t`` as table, in store ``s`` and topic ``out``."""

    def define(builder: StreamsBuilder) -> None:
        table = of(builder.stream("t", SCHEMA))
        table.materialize("s")
        table.to_stream().to("out")

    return define


@pytest.mark.java
def test_the_newest_record_is_the_row_and_one_without_a_value_deletes_it() -> None:
    """The row is the last record by arrival, not by time, and a null value deletes it (KIP-523)."""
    rows, emitted = ran(kept(lambda stream: stream.to_table()), ("t", LOG))
    assert rows == {"a": ({"user": "y", "n": 3}, 3), "c": ({"user": "x", "n": 9}, 0)}
    assert emitted == [(one.key, one.value, one.timestamp_ms) for one in LOG]


@pytest.mark.java
def test_what_a_stream_leaves_out_is_no_record_what_a_table_leaves_out_is_deleted() -> None:
    """A filter before ``to_table`` skips records, and a filter after it deletes rows."""
    before, emitted = ran(kept(lambda stream: stream.filter("n < 3").to_table()), ("t", LOG))
    assert before == {"a": ({"user": "x", "n": 1}, 1), "b": ({"user": "x", "n": 2}, 2)}
    assert [key for key, _, _ in emitted] == ["a", "b"]
    after, emitted = ran(kept(lambda stream: stream.to_table().filter("n < 3")), ("t", LOG))
    assert after == {}
    assert [(key, value and value["n"]) for key, value, _ in emitted] == [
        ("a", 1), ("b", 2), ("a", None), ("b", None), ("c", None),
    ]  # fmt: skip


@pytest.mark.java
@pytest.mark.slow
def test_a_stream_with_another_key_is_a_table_by_that_key() -> None:
    """A rekeyed stream is a table by the new key, and a filter of the table keeps that key."""
    rows, _ = ran(kept(lambda stream: stream.select_key("user").to_table()), ("t", LOG))
    assert {key: value["n"] for key, (value, _) in rows.items()} == {"x": 9, "y": 3}
    low, emitted = ran(
        kept(lambda stream: stream.select_key("user").to_table().filter("n < 9")), ("t", LOG)
    )
    assert {key: value["n"] for key, (value, _) in low.items()} == {"y": 3}
    assert emitted[-1] == ("x", None, 0)


@pytest.mark.java
def test_of_elements_the_last_one_counts() -> None:
    """The flattened records of one record are consecutive, as in Kafka, so the last one counts."""
    twice = {"n": "array(n, n + 10)"}
    rows, emitted = ran(
        kept(lambda stream: stream.flat_map_values("user", **twice).to_table()), ("t", LOG[:2])
    )
    assert {key: value["n"] for key, (value, _) in rows.items()} == {"a": 11, "b": 12}
    assert [value["n"] for _, value, _ in emitted] == [1, 11, 2, 12]


@pytest.mark.java
def test_a_table_of_a_stream_is_joined_grouped_and_looked_up() -> None:
    """A table of a stream can be on either side of a join, grouped, and joined with a stream."""

    def define(builder: StreamsBuilder) -> None:
        rows = builder.stream("t", SCHEMA).to_table()
        cities = builder.stream("cities", "city STRING").filter("city <> '-'").to_table()
        rows.left_join(cities, foreign_key="user").materialize("by_user")
        by_user = builder.stream("t", SCHEMA).select_key("user").to_table()
        cities.outer_join(by_user).materialize("by_key")
        rows.group_by("user").aggregate(rows=count(), n=sum("n")).materialize("groups")
        requests = builder.stream("requests", "q INT").left_join(by_user)
        requests.group_by_key().aggregate(n=collect_list("n")).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", LOG)
    city = [Record("x", {"city": "Rome"}, 5), Record("y", {"city": "-"}, 6)]
    driver.pipe_input("cities", city)
    driver.pipe_input("requests", [Record(key, {"q": 1}, 7) for key in ("x", "y", "z")])
    assert rows_of(driver, "by_user") == {
        "a": ({"user": "y", "n": 3, "city": None}, 3),
        "c": ({"user": "x", "n": 9, "city": "Rome"}, 5),
    }
    assert rows_of(driver, "by_key") == {
        "x": ({"city": "Rome", "user": "x", "n": 9}, 5),
        "y": ({"city": None, "user": "y", "n": 3}, 3),
    }
    assert rows_of(driver, "groups") == {
        "x": ({"rows": 1, "n": 9}, 4),
        "y": ({"rows": 1, "n": 3}, 3),
    }
    assert {key: value["n"] for key, (value, _) in rows_of(driver).items()} == {
        "x": [9], "y": [3], "z": [],
    }  # fmt: skip


@pytest.mark.java
@pytest.mark.slow
def test_sessions_are_a_table_of_those_that_there_are() -> None:
    """A table of sessions has only the current ones: a merged session's row is deleted.

    A group would keep the row.
    """

    def table(stream: KStream) -> SourceTable:
        counted = stream.group_by("user").windowed_by(sessions(3, 100)).count()
        by_window = counted.to_stream().select_key("key", "window_start_ms", "window_end_ms")
        return by_window.map_values("count").to_table()

    log = [Record("r", {"user": "u", "n": 1}, time) for time in (0, 5, 20, 3)]
    rows, _ = ran(kept(table), ("t", log[:3]))
    assert rows == {
        "u|0|0": ({"count": 1}, 0),
        "u|5|5": ({"count": 1}, 5),
        "u|20|20": ({"count": 1}, 20),
    }
    rows, emitted = ran(kept(table), ("t", log))
    assert rows == {"u|0|5": ({"count": 3}, 5), "u|20|20": ({"count": 1}, 20)}
    assert [key for key, value, _ in emitted if value is None] == ["u|0|0", "u|5|5"]
    rows, emitted = ran(kept(lambda stream: table(stream).filter("count < 3")), ("t", log))
    assert rows == {"u|20|20": ({"count": 1}, 20)}
    assert emitted[-1] == ("u|0|5", None, 5)


@pytest.mark.java
def test_updates_of_an_aggregation_of_pairs_are_a_table_under_another_key() -> None:
    """Updates of an aggregation of join results can be a table under another key.

    The last update of a key is its row.
    """

    def define(builder: StreamsBuilder) -> None:
        near = JoinWindows.of_time_difference_and_grace(5, 0)
        pairs = builder.stream("t", SCHEMA).join(builder.stream("u", "m INT"), near)
        counted = pairs.group_by("user").aggregate(n=count(), most=sum("m")).to_stream()
        table = counted.select_key("n").to_table().filter("most < 9")
        table.materialize("s")
        table.to_stream().to("out")

    right = [Record("a", {"m": 4}, time) for time in (2, 3, 6)]
    rows, emitted = ran(define, ("t", LOG[:1]), ("u", right))
    assert rows == {"1": ({"n": 1, "most": 4}, 2), "2": ({"n": 2, "most": 8}, 3)}
    assert emitted[-1] == ("3", None, 6)


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("windows", [sliding(5, 100), sessions(3, 100)], ids=["sliding", "session"])
def test_windows_of_any_kind_are_joined_as_tables(windows: Any) -> None:
    """Sliding windows and sessions are joined as tables, as the error of their join suggests."""

    def counted(builder: StreamsBuilder, topic: str) -> Any:
        return builder.stream(topic, SCHEMA).group_by_key().windowed_by(windows).count()

    builder = StreamsBuilder()
    with pytest.raises(
        InvalidTopology, match=r"select_key\('key', 'window_start_ms'.*to_table\(\)"
    ):
        counted(builder, "t").join(counted(builder, "u"))

    def define(builder: StreamsBuilder) -> None:
        left, right = (
            counted(builder, topic)
            .to_stream()
            .select_key("key", "window_start_ms", "window_end_ms")
            .map_values(**{column: "count"})
            .to_table()
            for topic, column in (("t", "n"), ("u", "m"))
        )
        joined = left.join(right)
        joined.materialize("s")
        joined.to_stream().to("out")

    left = [Record("k", {"user": "x", "n": 1}, time) for time in (10, 12)]
    rows, _ = ran(define, ("t", left), ("u", [left[0], left[1], left[1]]))
    window = "k|5|10" if windows.kind == "sliding" else "k|10|12"
    assert rows[window][0] == ({"n": 1, "m": 1} if windows.kind == "sliding" else {"n": 2, "m": 3})
    assert window != "k|10|12" or rows.keys() == {window}


@pytest.mark.parametrize(
    ("of", "way_out"),
    [
        (lambda one, other, _: one.merge(other), r"merged .* no common order.* to\(topic\)"),
        (
            lambda one, other, _: one.map_values(m="n").join(
                other, JoinWindows.of_time_difference_with_no_grace(5)
            ),
            r"results of stream-stream joins .* to\(topic\).* or keep the newest with group_by_key",
        ),
        (lambda one, _, table: one.join(table, grace_ms=5), r".* waited .* to\(topic\)"),
    ],
    ids=["merged", "pairs", "waiting"],
)
def test_streams_without_an_order_of_one_log_are_refused(
    of: Callable[[KStream, KStream, Any], KStream], way_out: str
) -> None:
    """Streams without the order of one log are rejected, and each error names the fix."""
    builder = StreamsBuilder()
    one, other = builder.stream("t", SCHEMA), builder.stream("u", SCHEMA)
    versions = builder.versioned_table("v", "city STRING", 100)
    with pytest.raises(InvalidTopology, match=rf"^to_table: {way_out}"):
        of(one, other, versions).to_table()


def test_of_a_key_from_several_partitions_the_newest_record_counts() -> None:
    """The row of a key from several partitions is the newest of their last records by time."""

    def define(builder: StreamsBuilder) -> None:
        builder.stream("t", SCHEMA).select_key("user").to_table().materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", Record("a", {"user": "x", "n": 1}, 9))
    driver.pipe_input("t", Record("b", {"user": "x", "n": 2}, 5), partition=1)
    assert rows_of(driver) == {"x": ({"user": "x", "n": 1}, 9)}


@pytest.mark.java
@seeds(1, 100)
def test_rows_follow_from_the_logs_alone(seed: int) -> None:
    """The rows depend only on the logs of the partitions, not on batching or interleaving."""
    random = Random(seed)
    logs = [
        [
            Record(
                random.choice("ab"),
                None if random.random() < 0.2 else {"user": random.choice("xyz"), "n": number},
                random.randrange(30),
            )
            for number in range(random.randrange(12))
        ]
        for _ in range(3)
    ]
    newest: dict[str, tuple[tuple[int, int], Any]] = {}
    for partition, log in enumerate(logs):
        last = {one.value["user"]: one for one in log if one.value and one.value["n"] % 4}
        for user, one in last.items():
            at = one.timestamp_ms, partition
            newest[user] = max(newest.get(user, (at, one.value)), (at, one.value), key=_time)
    expected = {user: (value, at[0]) for user, (at, value) in newest.items() if value["n"] % 3}

    def define(builder: StreamsBuilder) -> None:
        stream = builder.stream("t", SCHEMA).filter("n % 4 > 0").select_key("user")
        stream.to_table().filter("n % 3 > 0").materialize("s")

    driver = driver_of(define)
    waiting = dict(enumerate(map(list, logs)))
    while any(waiting.values()):
        partition = random.choice(list(waiting))
        taken = random.randint(1, 4)
        driver.pipe_input("t", waiting[partition][:taken], partition)
        del waiting[partition][:taken]
    assert rows_of(driver) == expected


def _time(newest: tuple[tuple[int, int], Any]) -> tuple[int, int]:
    return newest[0]
