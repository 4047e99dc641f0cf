"""``filter``, ``filter_not`` and ``map_values`` after an aggregation, in the test driver.

tests/windows/topologies has the comparison with the results of Kafka Streams' own tables.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

from oriel import (
    EmitStrategy,
    InvalidTopology,
    Serdes,
    StreamsBuilder,
    collect_list,
    count,
    max,
    sum,
    until_window_closes,
)
from oriel.pipeline.language.tables import KTable
from oriel.pipeline.windows import Windows
from oriel.testing import KeyValue, Record, TopologyTestDriver, WindowedValue
from tests.campaigns import cases
from tests.testing.driver_runs import driver_of, grouped, hopping, sessions, sliding, tumbling

WINDOWS: Mapping[str, Windows] = {
    "tumbling": tumbling(10, 6),
    "hopping": hopping(12, 5, 6),
    "sliding": sliding(8, 6),
    "sessions": sessions(4, 6),
}
STRATEGIES = {
    "update": EmitStrategy.on_window_update(),
    "close": EmitStrategy.on_window_close(),
}


def driver_of_table(
    of: Callable[[KTable], KTable], windows: Windows | None = None, **aggregates: Any
) -> TopologyTestDriver:
    """Return a driver of one store ``s`` with the table that ``of`` derives from an aggregation."""

    def define(builder: StreamsBuilder) -> None:
        stream = grouped(builder)
        made = aggregates or {"n": count(), "total": sum("t")}
        windowed = stream if windows is None else stream.windowed_by(windows)
        of(windowed.aggregate(**made)).materialize("s")

    return driver_of(define)


def piped(driver: TopologyTestDriver, *records: tuple[str, int | None, int]) -> None:
    """Pipe records (key, ``t``, time) in one batch each."""
    for key, number, time_ms in records:
        driver.pipe_input("t", Record(key, {"t": number}, time_ms))


def last_batch(driver: TopologyTestDriver) -> list[tuple[Any, ...]]:
    """Return key, window start, ``n``, final and deleted of each row of the last batch."""
    return [
        tuple(row.get(name) for name in ("key", "window_start_ms", "n", "final", "deleted"))
        for row in driver.read_output("s")
    ]


@pytest.mark.slow
@cases(2, 25)
@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("emit", STRATEGIES)
def test_rows_are_those_of_the_whole_aggregation_that_pass(
    kind: str, emit: str, number: int
) -> None:
    """The filtered store equals the passing rows of the aggregation, and deletes none twice.

    The logs and batches are random.
    """
    builder = StreamsBuilder()
    windowed = grouped(builder).windowed_by(WINDOWS[kind]).emit(STRATEGIES[emit])
    whole: dict[str, Any] = {"n": count(), "total": sum("t"), "all": collect_list("t")}
    windowed.aggregate(**whole).materialize("whole")
    (
        windowed.aggregate(**whole)
        .filter("n > 1 AND window_end_ms % 7 <> 3")
        .map_values("n", "all", twice="total * 2", behind="timestamp_ms - window_start_ms")
        .filter_not("twice % 5 = 0 OR key = 'c'")
        .materialize("s")
    )
    topology = builder.build()
    left = 0
    for seed in range(number):
        random = Random(seed)
        driver = TopologyTestDriver(topology)
        there: dict[tuple[str, int, int], dict[str, Any]] = {}
        time_ms = 20
        for _ in range(random.choice((3, 12))):
            records = []
            for _ in range(random.choice((1, 1, 5))):
                time_ms += random.choice((0, 1, 3, 9))
                at_ms = time_ms - random.choice((0, 0, 2, 7))
                records.append(Record(random.choice("abc"), {"t": random.randint(-9, 9)}, at_ms))
            driver.pipe_input("t", records, partition=random.choice((0, 0, 1)))
            for row in driver.read_output("s"):
                place = row["key"], row["window_start_ms"], row["window_end_ms"]
                if row["deleted"]:
                    left += 1
                    assert there.pop(place)
                    assert row["n"] is row["twice"] is row["all"] is None
                    assert row["final"] is False
                else:
                    there[place] = row
        rows = _rows(driver, "s", kind)
        assert rows == _passing(_rows(driver, "whole", kind))
        assert rows == {
            place: ({name: row[name] for name in ("n", "all", "twice", "behind")}, row["final"])
            for place, row in there.items()
        }
    # With emission on close, final rows are never removed. On update, rows are removed.
    assert (left > 0) == (emit == "update")


def _rows(driver: TopologyTestDriver, store: str, kind: str) -> dict[tuple[str, int, int], Any]:
    is_session = kind == "sessions"
    rows = driver.session_store(store) if is_session else driver.window_store(store)
    content: list[WindowedValue] = rows.all()
    return {
        (row.key, row.window_start_ms, row.window_end_ms): (
            (row.value if store == "s" else row.value | {"timestamp_ms": row.timestamp_ms}),
            row.final,
        )
        for row in content
    }


def _passing(whole: Mapping[tuple[str, int, int], Any]) -> dict[tuple[str, int, int], Any]:
    """Return the rows that pass the steps."""
    left = {}
    for (key, start_ms, end_ms), (value, final) in whole.items():
        twice = value["total"] * 2
        if value["n"] > 1 and end_ms % 7 != 3 and twice % 5 and key != "c":
            made = {
                "n": value["n"],
                "all": value["all"],
                "twice": twice,
                "behind": value["timestamp_ms"] - start_ms,
            }
            left[key, start_ms, end_ms] = made, final
    return left


@pytest.mark.java
def test_a_row_leaves_and_comes_back() -> None:
    """A filter without windows keeps the whole state, so a row that passes again is complete."""
    driver = driver_of_table(lambda table: table.filter("total > 3"))
    piped(driver, ("a", 5, 1), ("a", -4, 2), ("a", -1, 3), ("a", 9, 4))
    assert [
        (row["n"], row["total"], row["timestamp_ms"], row["deleted"])
        for row in driver.create_output_reader("s").read_rows()
    ] == [(1, 5, 1, False), (None, None, 2, True), (4, 9, 4, False)]
    assert driver.key_value_store("s").all() == [KeyValue("a", {"n": 4, "total": 9}, 4)]


@pytest.mark.java
def test_final_rows_are_written_once_or_not_at_all() -> None:
    """A row that passes the filter also has a final row. A row that never passes is not emitted."""
    driver = driver_of_table(lambda table: table.filter("n > 1"), tumbling(10, 0))
    piped(driver, ("a", 1, 0), ("b", 1, 1), ("a", 1, 2))
    assert last_batch(driver) == [("a", 0, 2, False, False)]
    piped(driver, ("c", 1, 10))
    assert last_batch(driver) == [("a", 0, 2, True, False)]
    assert driver.counters("s").applied == 4


@pytest.mark.java
@pytest.mark.parametrize(
    "of",
    [
        lambda table: table.suppress(until_window_closes()).filter("n > 1"),
        lambda table: table.filter("n > 1").suppress(until_window_closes()),
        lambda table: table.filter("n > 1").map_values("n").suppress(until_window_closes()),
    ],
    ids=["in front", "behind", "behind two"],
)
def test_suppress_is_before_or_after_steps(of: Callable[[KTable], KTable]) -> None:
    """``suppress`` works before or after steps, and emits the final rows that pass."""
    driver = driver_of_table(of, tumbling(10, 0))
    piped(driver, ("a", 1, 0), ("b", 1, 1), ("a", 1, 2))
    assert last_batch(driver) == []
    piped(driver, ("c", 1, 10))
    assert last_batch(driver) == [("a", 0, 2, True, False)]


@pytest.mark.java
def test_a_session_that_another_takes_in_is_removed_as_ever() -> None:
    """A merged session is removed, even if the new session does not pass the filter."""
    driver = driver_of_table(lambda table: table.filter("n < 3"), sessions(5, 20))
    piped(driver, ("a", 1, 10), ("a", 1, 20))
    assert last_batch(driver) == [("a", 20, 1, False, False)]
    piped(driver, ("a", 1, 15))
    assert last_batch(driver) == [("a", 10, None, False, True), ("a", 20, None, False, True)]
    assert driver.session_store("s").all() == []


@pytest.mark.java
def test_retention_counts_windows_that_a_filter_leaves_out() -> None:
    """Filtered windows also count for retention, so it does not depend on the steps."""
    builder = StreamsBuilder()
    windowed = grouped(builder).windowed_by(tumbling(10, 0))
    windowed.count().filter("key = 'a'").materialize("s", retention_ms=30)
    driver = TopologyTestDriver(builder.build())
    piped(driver, ("a", 1, 0), ("a", 1, 20), ("b", 1, 30))
    assert [row.window_start_ms for row in driver.window_store("s").all()] == [20]


@pytest.mark.java
def test_steps_follow_each_other() -> None:
    """Chained steps keep, change and drop columns. A later step can reuse a name."""
    driver = driver_of_table(
        lambda table: (
            table.map_values("*", mean="total / n")
            .filter("mean >= 1")
            .map_values("mean", total="CAST(n AS STRING)", big="n > 1")
            .map_values("*", total="concat(key, ':', total)")
        )
    )
    piped(driver, ("a", 1, 1), ("a", 2, 2), ("b", 0, 3))
    assert driver.key_value_store("s").all() == [
        KeyValue("a", {"mean": 1.5, "big": True, "total": "a:2"}, 2)
    ]


def test_columns_without_expressions_are_chosen_without_spark() -> None:
    """Selecting columns without expressions needs no Spark."""
    driver = driver_of_table(lambda table: table.map_values("total"))
    piped(driver, ("a", 1, 1))
    assert driver.key_value_store("s").all() == [KeyValue("a", {"total": 1}, 1)]


@pytest.mark.java
def test_constants_nulls_and_narrow_types() -> None:
    """Columns keep their narrow types, null is not true, and a constant fills each row."""
    driver = driver_of_table(
        lambda table: table.filter_not("most = 7").map_values(
            one="1", small="CAST(n AS TINYINT)", half="CAST(n / 2 AS FLOAT)", most="most"
        ),
        n=count(),
        most=max("t"),
    )
    piped(driver, ("a", None, 1), ("b", 7, 2), ("c", 8, 3))
    assert driver.key_value_store("s").all() == [
        KeyValue("a", {"one": 1, "small": 1, "half": 0.5, "most": None}, 1),
        KeyValue("c", {"one": 1, "small": 1, "half": 0.5, "most": 8}, 3),
    ]


@pytest.mark.java
def test_rows_of_functions() -> None:
    """A row that a function removes stays removed, even if a step maps null to a value."""

    def add(_: str, value: dict[str, Any], text: str) -> str | None:
        return None if value["t"] == 0 else f"{text}{value['t']}"

    builder = StreamsBuilder()
    made = grouped(builder).aggregate(lambda: "", add, schema="text STRING")
    made.map_values(shown="coalesce(text, 'none')").filter("shown <> '12'").materialize("s")
    kept = grouped(builder).reduce(lambda _, new: new)
    kept.filter("t > 1").map_values("t").materialize("newest")
    driver = TopologyTestDriver(builder.build())
    piped(driver, ("a", 1, 1), ("a", 2, 2), ("a", 3, 3), ("a", 0, 4))
    rows = driver.create_output_reader("s").read_rows()
    assert [row["shown"] for row in rows] == ["1", None, "123", None]
    assert driver.key_value_store("s").all() == []
    rows = driver.create_output_reader("newest").read_rows()
    assert [row["t"] for row in rows] == [2, 3, None]


@pytest.mark.java
def test_rows_of_a_cogroup() -> None:
    """Steps after a cogroup can use the columns of all streams."""
    builder = StreamsBuilder()
    first, second = grouped(builder), grouped(builder, "u")
    both = first.cogroup(n=count()).cogroup(second, m=count()).windowed_by(tumbling(10, 0))
    both.aggregate().filter("n > 0 AND m > 0").map_values(all="n + m").materialize("s")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("t", [Record("a", {"t": 1}, 1), Record("b", {"t": 1}, 1)])
    driver.pipe_input("u", [Record("a", {"t": 1}, 2)])
    assert [(row["key"], row["all"]) for row in driver.read_output("s")] == [("a", 2)]


@pytest.mark.java
def test_groups_of_a_table_that_are_empty_can_be_left_out() -> None:
    """A filter removes an empty group, whose row otherwise stays (like HAVING)."""
    builder = StreamsBuilder()
    users = builder.table("t", "country STRING")
    users.group_by("country").count().filter("count > 0").materialize("s")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("t", Record("ada", {"country": "fr"}, 1))
    driver.pipe_input("t", Record("ada", {"country": "uk"}, 2))
    assert driver.key_value_store("s").all() == [KeyValue("uk", {"count": 1}, 2)]


@pytest.mark.java
def test_typed_keys_are_texts_to_a_step() -> None:
    """A typed key is a string in the expressions of a step."""
    builder = StreamsBuilder()
    table = builder.stream("t", "t BIGINT").group_by("t").count()
    table.filter("key <> '7'").materialize("s", key_serde=Serdes.long())
    driver = TopologyTestDriver(builder.build())
    piped(driver, ("a", 7, 1), ("a", 8, 1), ("a", 10, 1))
    assert [row.key for row in driver.key_value_store("s").all()] == ["8", "10"]


@pytest.mark.java
def test_one_aggregation_may_have_several_stores() -> None:
    """One aggregation can have several stores with their own steps."""
    builder = StreamsBuilder()
    counts = grouped(builder).count()
    counts.materialize("whole")
    counts.filter("count > 1").materialize("s")
    counts.filter_not("count > 1").map_values(c="count").materialize("few")
    driver = TopologyTestDriver(builder.build())
    piped(driver, ("a", 1, 1), ("b", 1, 1), ("a", 1, 2))
    stores = {name: driver.key_value_store(name).all() for name in ("whole", "s", "few")}
    assert {name: [row.key for row in rows] for name, rows in stores.items()} == {
        "whole": ["a", "b"],
        "s": ["a"],
        "few": ["b"],
    }


REFUSED: Mapping[str, tuple[Callable[[KTable], KTable], str]] = {
    "an unknown column": (
        lambda t: t.filter("t > 1"),
        r"store 's', step filter\('t > 1'\): .*`t` cannot be resolved",
    ),
    "a window's time without windows": (
        lambda t: t.filter("window_start_ms > 1"),
        r"step filter\('window_start_ms > 1'\): .* cannot be resolved",
    ),
    "a column that a step has left out": (
        lambda t: t.map_values("n").filter("total > 1"),
        r"step filter\('total > 1'\): .* cannot be resolved",
    ),
    "no SQL": (lambda t: t.filter("n >"), r"store 's', step filter\('n >'\): "),
    "chance": (lambda t: t.filter("rand() < 0.5"), "is not deterministic"),
    "the clock": (lambda t: t.map_values(now="unix_millis(now())"), "is not deterministic"),
    "an aggregate": (lambda t: t.filter("n > avg(n)"), "is not row-wise"),
    "what Spark alone runs": (
        lambda t: t.map_values("*", r="n + 1").filter("round(r / 3, 2) > 1").map_values("n"),
        r"store 's', step filter\('round\(r / 3, 2\) > 1'\): Arrow cannot run this expression",
    ),
    "a decimal": (
        lambda t: t.map_values(x="n * 1.5"),
        r"step map_values\(x='n \* 1.5'\): Arrow cannot run .* 1\.5D",
    ),
    "a struct": (lambda t: t.map_values(x="struct(n)"), "Arrow cannot run this expression"),
}


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("what", REFUSED)
def test_steps_that_do_not_fit_are_refused(what: str) -> None:
    """The error about an invalid step occurs when the topology runs, and names store and step."""
    of, message = REFUSED[what]
    with pytest.raises(InvalidTopology, match=message):
        driver_of_table(of)


REFUSED_AT_ONCE: Mapping[str, tuple[Callable[[KTable], KTable], str]] = {
    "a function": (
        lambda t: t.filter(lambda row: row),  # type: ignore[arg-type]
        "filter: an expression must be SQL text or a Spark Column",
    ),
    "a function, negated": (
        lambda t: t.filter_not(lambda row: row),  # type: ignore[arg-type]
        "filter_not: an expression must be SQL text or a Spark Column",
    ),
    "no column": (lambda t: t.map_values(), "map_values: name at least one column"),
    "the name of a window's time": (
        lambda t: t.map_values(window_start_ms="1"),
        "map_values: the name 'window_start_ms' is a column of every store",
    ),
    "the key as a column": (
        lambda t: t.map_values("key"),
        "'key' is not a column of the value. Keep it under another name",
    ),
    "a name that no table has": (
        lambda t: t.map_values(**{"a b": "1"}),
        "a Delta table cannot have a column named 'a b'",
    ),
}


@pytest.mark.parametrize("what", REFUSED_AT_ONCE)
def test_arguments_that_do_not_fit_are_refused(what: str) -> None:
    """Invalid arguments are rejected in the call that has them."""
    of, message = REFUSED_AT_ONCE[what]
    with pytest.raises(InvalidTopology, match=message):
        of(grouped(StreamsBuilder()).count())


def test_steps_without_a_store_are_refused() -> None:
    """The message about a missing store names the aggregation with its steps."""
    builder = StreamsBuilder()
    counts = grouped(builder).count()
    counts.materialize("whole")
    counts.filter("count > 1")
    with pytest.raises(
        InvalidTopology, match=r"count=count\(\)\)\.filter\('count > 1'\)\. Add \.materialize"
    ):
        builder.build()
