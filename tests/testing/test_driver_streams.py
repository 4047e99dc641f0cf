"""Merging, branching and rekeying of streams in the test driver."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from oriel import (
    InvalidTopology,
    JoinWindows,
    Serdes,
    StreamsBuilder,
    collect_list,
    count,
    sum,
)
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.windows import NoWindows, Windows
from oriel.testing import Counters, KeyValue, Record, TopologyTestDriver
from tests.campaigns import cases
from tests.testing.driver_runs import driver_of
from tests.testing.test_driver_properties import (
    FIRST_SEED,
    SCHEMA,
    after,
    check_content,
    check_function_rows,
    cut,
    everything,
    folds,
    random_topology,
)
from tests.windows.engine_runs import AGGREGATES
from tests.windows.test_function_properties import KINDS as FUNCTION_KINDS


def topic_of(partition: int) -> str:
    """Return the topic, one of two, for a partition of a random log."""
    return f"t{partition % 2}"


def merged(schema: str, aggregate: Any, windows: Windows) -> TopologyTestDriver:
    """Return a driver of one store ``s`` over both topics."""

    def define(builder: StreamsBuilder) -> None:
        both = builder.stream("t0", schema).merge(builder.stream("t1", schema))
        keyed = both.group_by_key()
        aggregate(
            keyed if isinstance(windows, NoWindows) else keyed.windowed_by(windows)
        ).materialize("s")

    return driver_of(define)


def every_aggregate(stream: Any) -> Any:
    """Return all declarative aggregates."""
    return stream.aggregate(None, None, None, None, **AGGREGATES)


@pytest.mark.slow
@cases(1, 8)
@pytest.mark.parametrize("kind", ["time", "sliding", "session", "none"])
def test_partitions_of_merged_topics_are_as_those_of_one(kind: str, number: int) -> None:
    """Partitions of merged topics behave like partitions of one topic, as in the slow model.

    The batching does not matter.
    """
    for seed in range(FIRST_SEED, FIRST_SEED + number):
        case, random = random_topology(kind, seed), Random(seed + 5)
        drivers = [merged(SCHEMA, every_aggregate, case.windows) for _ in range(2)]
        results = [after(driver, cut(case.logs, random, topic_of)) for driver in drivers]
        assert results[0] == results[1], f"{kind}, seed {seed}: another cut gave another result"
        counters = results[0][1]
        assert (counters.applied, counters.late) == (case.outcome.applied, case.outcome.late)
        check_content(everything(drivers[0]), case.outcome, closed=False)


@pytest.mark.slow
@cases(1, 8)
@pytest.mark.parametrize("windows", ["time", "sliding", "session", "table"])
def test_functions_are_called_by_partition_of_merged_topics(windows: str, number: int) -> None:
    """Functions are called in order within a partition, and partitions are merged in order."""
    functions = FUNCTION_KINDS["aggregate"].functions

    def aggregate(stream: Any) -> Any:
        return stream.aggregate(
            functions.initializer, functions.aggregators[0], functions.merger, "text STRING"
        )

    for seed, case in folds("aggregate", windows, number):
        driver = merged("s STRING", aggregate, case.windows)
        after(driver, cut(case.logs, Random(seed), topic_of))
        check_function_rows(everything(driver), case.expected(), closed=False)


def values(driver: TopologyTestDriver, store: str = "s") -> dict[str, dict[str, Any]]:
    """Return the rows of a store without windows."""
    return {row.key: row.value for row in driver.key_value_store(store).all()}


def test_merged_streams_need_the_same_columns() -> None:
    """Merged streams need the same columns in any order.

    The error names both schemas and the fix.
    """
    builder = StreamsBuilder()
    left, right = builder.stream("l", "a INT, b STRING"), builder.stream("r", "b STRING, a INT")
    left.merge(right).group_by_key().aggregate(n=sum("a"), all=collect_list("b")).materialize("s")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("l", Record("k", {"a": 1, "b": "x"}, 1))
    driver.pipe_input("r", Record("k", {"a": 2, "b": "y"}, 2))
    assert values(driver) == {"k": {"n": 3, "all": ["x", "y"]}}
    builder = StreamsBuilder()
    other = builder.stream("l", "a INT").merge(builder.stream("r", "a BIGINT"))
    other.group_by_key().count().materialize("s")
    with pytest.raises(InvalidTopology, match=r"store 's', merge: .*\(a int32\) and \(a int64\)"):
        TopologyTestDriver(builder.build())
    with pytest.raises(InvalidTopology, match="different builders"):
        left.merge(builder.stream("x", "a INT"))
    with pytest.raises(InvalidTopology, match="merge: other must be a stream"):
        left.merge(builder.table("x", "a INT"))  # type: ignore[arg-type]


def test_a_cogroup_takes_merged_streams() -> None:
    """Merged streams are one stream of a cogroup. Streams can have equal column names."""

    def define(builder: StreamsBuilder) -> None:
        clicks, taps, sales = (builder.stream(topic, "v INT") for topic in ("c", "t", "s"))
        both = clicks.merge(taps).group_by_key().cogroup(n=count(), seen=sum("v"))
        both.cogroup(sales.group_by_key(), m=count(), sold=sum("v")).aggregate().materialize("s")

    driver = driver_of(define)
    for topic, value in (("c", 1), ("t", 2), ("s", 40), ("t", 4)):
        driver.pipe_input(topic, Record("k", {"v": value}, 1))
    assert values(driver) == {"k": {"n": 3, "seen": 7, "m": 1, "sold": 40}}


@pytest.mark.java
def test_each_record_goes_to_the_first_branch_that_fits() -> None:
    """A record belongs to the first branch whose condition is true. A null condition is not true.

    Without a default branch, the remaining records are filtered out.
    """

    def define(builder: StreamsBuilder) -> None:
        events = builder.stream("t", "v INT")
        split = events.split().branch("v < 0", "negative").branch("v < 10")
        branches = split.default_branch("others")
        assert list(branches) == ["negative", "2", "others"]
        assert list(split.no_default_branch()) == ["negative", "2"]
        for name, stream in branches.items():
            stream.group_by_key().aggregate(all=collect_list("v")).materialize(f"is_{name}")

    driver = driver_of(define)
    driver.pipe_input("t", [Record("k", {"v": v}, 1) for v in (5, -1, None, 10, 0, -7)])
    assert values(driver, "is_negative") == {"k": {"all": [-1, -7]}}
    assert values(driver, "is_2") == {"k": {"all": [5, 0]}}
    # Collected lists omit nulls, but the record counts.
    assert values(driver, "is_others") == {"k": {"all": [10]}}
    assert driver.counters("is_others") == Counters(
        input=6, applied=2, late=0, dropped=0, filtered=4
    )


def test_branches_have_names_of_their_own() -> None:
    """Branch names are unique, including the default branch and numbered names."""
    split = StreamsBuilder().stream("t", "v INT").split().branch("v < 0", "0")
    with pytest.raises(InvalidTopology, match="two branches have the name '0'"):
        split.default_branch()
    with pytest.raises(InvalidTopology, match="two branches have the name '0'"):
        split.branch("v < 1", "0")
    with pytest.raises(InvalidTopology, match="branch: an expression must be SQL text"):
        split.branch(lambda value: value < 0)  # type: ignore[arg-type]


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("key", [("city",), ("city", "id"), ("upper(city)", "id + 1")])
def test_selecting_a_key_is_grouping_by_it(key: tuple[str, ...]) -> None:
    """Selecting a key has the same keys and dead letters as grouping by it, also with a pipe."""

    def define(builder: StreamsBuilder) -> None:
        events = builder.stream("t", "city STRING, id INT")
        events.select_key(*key).group_by_key().count().materialize("selected")
        events.group_by(*key).count().materialize("grouped")

    driver = driver_of(define)
    cities = ("x", "a|b", "a\\", None, "x", "")
    driver.pipe_input(
        "t", [Record("k", {"city": city, "id": n % 2}, n) for n, city in enumerate(cities)]
    )
    assert values(driver, "selected") == values(driver, "grouped") != {}
    assert driver.counters("selected") == driver.counters("grouped")
    dead_letters = [driver.dead_letters(store) for store in ("selected", "grouped")]
    assert [[letter["reason"] for letter in one] for one in dead_letters] == [["null-key"]] * 2


@pytest.mark.java
def test_the_next_steps_read_the_new_key() -> None:
    """Steps after ``map`` see the new key. The expressions of ``map`` see the old key and value."""

    def define(builder: StreamsBuilder) -> None:
        events = builder.stream("t", "v INT")
        mapped = events.map(("concat(key, '!')", "v"), old="key", v="v + 1")
        mapped.filter("key <> 'b!|2'").select_key("concat(key, ';', v)").group_by("key").aggregate(
            old=collect_list("old")
        ).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", [Record("a", {"v": 1}, 1), Record("b", {"v": 2}, 2)])
    assert values(driver) == {"a!|1;2": {"old": ["a"]}}


def test_a_key_that_only_names_a_column_needs_no_spark() -> None:
    """A key of plain columns needs no Spark, and a missing argument is rejected."""
    builder = StreamsBuilder()
    events = builder.stream("t", "city STRING, id INT")
    events.select_key("city").map_values("id").group_by_key().count().materialize("s")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("t", Record("k", {"city": "x", "id": 1}, 1))
    assert driver.key_value_store("s").all() == [KeyValue("x", {"count": 1}, 1)]
    with pytest.raises(InvalidTopology, match="select_key: name at least one column"):
        events.select_key()
    with pytest.raises(InvalidTopology, match="map: name at least one column after the key"):
        events.map("city")


within = JoinWindows.of_time_difference_and_grace(10, 100)


def joined_ids(joined: KStream) -> None:
    """Add a store of join results."""
    pairs = joined.map_values(pair="concat(a, '/', coalesce(b, '-'))").group_by_key()
    pairs.aggregate(all=collect_list("pair")).materialize("s")


@pytest.mark.java
def test_joins_after_a_new_key_and_merged_streams() -> None:
    """A join after rekeying uses the new key, and records of all merged streams match."""

    def define(builder: StreamsBuilder) -> None:
        left = builder.stream("l0", "a STRING, k STRING").select_key("k")
        left = left.merge(builder.stream("l1", "a STRING, k STRING"))
        right = builder.stream("r0", "b STRING").merge(builder.stream("r1", "b STRING"))
        joined_ids(left.join(right, within))

    driver = driver_of(define)
    driver.pipe_input("l0", Record("other", {"a": "l0", "k": "x"}, 100))
    driver.pipe_input("r0", Record("x", {"b": "r0"}, 105))
    driver.pipe_input("l1", Record("x", {"a": "l1", "k": ""}, 110))
    driver.pipe_input("r1", [Record("x", {"b": "r1"}, 120), Record("other", {"b": "no"}, 100)])
    assert sorted(values(driver)["x"]["all"]) == ["l0/r0", "l1/r0", "l1/r1"]


@pytest.mark.java
def test_merged_streams_look_a_table_up() -> None:
    """Merged streams can join a table, and a record without a match appears once."""

    def define(builder: StreamsBuilder) -> None:
        both = builder.stream("l0", "a STRING").merge(builder.stream("l1", "a STRING"))
        joined_ids(both.left_join(builder.table("r", "b STRING")))

    driver = driver_of(define)
    driver.pipe_input("r", Record("x", {"b": "row"}, 1))
    driver.pipe_input("l0", [Record("x", {"a": "l0"}, 2), Record("y", {"a": "l0"}, 2)])
    driver.pipe_input("l1", Record("x", {"a": "l1"}, 3))
    assert values(driver) == {"x": {"all": ["l0/row", "l1/row"]}, "y": {"all": ["l0/-"]}}


@pytest.mark.java
def test_without_a_partner_in_any_of_merged_streams_a_record_is_alone_once() -> None:
    """An unmatched record of a join with merged streams appears once.

    Matches can be in any of the merged streams. A late record counts as a record.
    """

    def define(builder: StreamsBuilder) -> None:
        left, one, two = (builder.stream(topic, "a STRING") for topic in ("l", "r0", "r1"))
        joined_ids(left.left_join(one.merge(two).map_values(b="a"), within))

    driver = driver_of(define)
    driver.pipe_input("l", [Record(key, {"a": "l"}, 100) for key in "xyz"])
    driver.pipe_input("r0", [Record("x", {"a": "r0"}, 105), Record(None, {"a": "no key"}, 105)])
    driver.pipe_input("r1", [Record("y", {"a": "r1"}, 105), Record("x", {"a": "r1"}, 105)])
    # The other stream can still have a match.
    driver.pipe_input("r0", Record("w", {"a": "later"}, 10_000))
    assert "z" not in values(driver)
    driver.pipe_input("r1", [Record("w", {"a": "later"}, 10_000), Record("z", {"a": "late"}, 105)])
    alone = {"x": {"all": ["l/r0", "l/r1"]}, "y": {"all": ["l/r1"]}, "z": {"all": ["l/-"]}}
    assert values(driver) == alone
    assert driver.counters("s") == Counters(input=10, applied=8, late=1, dropped=1, filtered=0)
    dead_letters = [
        (one["topic"], one["offset"], one["reason"]) for one in driver.dead_letters("s")
    ]
    assert dead_letters == [("r0", 1, "null-key")]


@pytest.mark.java
def test_bad_pairs_of_merged_streams_name_the_record_that_is_there() -> None:
    """A dead letter of an unmatched result names its record, whichever stream that is in."""

    def define(builder: StreamsBuilder) -> None:
        l0, l1 = (builder.stream(topic, "a STRING, none STRING") for topic in ("l0", "l1"))
        r0, r1 = (builder.stream(topic, "a STRING") for topic in ("r0", "r1"))
        rights = r0.map_values(b="a").merge(r1.join(r0.map_values(c="a"), within).map_values(b="c"))
        pairs = l0.merge(l1).outer_join(rights, within)
        pairs.select_key("none").group_by_key().count().materialize("s")

    driver = driver_of(define)
    driver.pipe_input("l1", [Record("w", {"a": "l1"}, 10_000), Record("x", {"a": "l1"}, 9_995)])
    driver.pipe_input("r1", [Record("y", {"a": "r1"}, 9_995), Record("w", {"a": "r1"}, 99_999)])
    driver.pipe_input("r0", [Record("y", {"a": "r0"}, 9_995), Record("w", {"a": "r0"}, 99_999)])
    driver.pipe_input("l0", [Record("w", {"a": "l0"}, 99_999)])
    driver.pipe_input("l1", [Record("w", {"a": "l1"}, 99_999)])
    dead_letters = Counter((one["topic"], one["offset"]) for one in driver.dead_letters("s"))
    # Both records of l1 are unmatched, and so is y, as record of r0 and as join result. For w, each
    # left record matches each right one.
    assert dead_letters == {("l1", 0): 1, ("l1", 1): 1, ("r0", 0): 1, ("r1", 0): 1, ("l0", 0): 2,
                       ("l1", 2): 2}  # fmt: skip
    assert {one["reason"] for one in driver.dead_letters("s")} == {"null-key"}


@pytest.mark.java
def test_a_key_that_was_selected_has_the_stores_type() -> None:
    """Selected columns can be a typed composite key of a grouping, also after a join."""

    def define(builder: StreamsBuilder) -> None:
        events = builder.stream("t", "city STRING, n INT").select_key("city", "n")
        typed = (Serdes.string(), Serdes.long())
        events.group_by_key().count().materialize("s", key_serde=typed)
        joined = events.left_join(builder.table("u", "x STRING")).group_by_key()
        joined.count().materialize("joined", key_serde=typed)

    driver = driver_of(define)
    driver.pipe_input("t", [Record("k", {"city": "a|b", "n": n}, 1) for n in (10, 9, 10)])
    for store in ("s", "joined"):
        assert values(driver, store) == {'["a|b",9]': {"count": 1}, '["a|b",10]': {"count": 2}}
        assert [row.key for row in driver.key_value_store(store).all()] == [
            '["a|b",9]', '["a|b",10]',
        ]  # fmt: skip
