"""Chained joins in the test driver, compared with the same joins one by one."""

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import pytest

from oriel import JoinWindows, StreamsBuilder, TimeWindows, collect_list, count, first
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.lowered import lower
from oriel.testing import Counters, KeyValue, Record, TopologyTestDriver
from tests.campaigns import cases
from tests.testing.driver_runs import driver_of, tumbling

pytestmark = pytest.mark.slow

WITHIN = JoinWindows.of_time_difference_and_grace(10, 5)
KEYS = "abc"
#: Random logs of each test.


def test_a_record_is_enriched_by_one_table_after_the_other() -> None:
    """The second table join uses a column of the first one. Each record counts once."""

    def define(builder: StreamsBuilder) -> None:
        orders = builder.stream("orders", "amount BIGINT")
        users = builder.table("users", "city STRING")
        cities = builder.table("cities", "country STRING")
        placed = orders.join(users).select_key("city").left_join(cities)
        placed.group_by("coalesce(country, '?')").aggregate(
            n=count(), amounts=collect_list("amount")
        ).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("cities", Record("rome", {"country": "it"}, 50))
    driver.pipe_input("users", [
        Record("ada", {"city": "rome"}, 5), Record("bob", {"city": "oslo"}, 6),
        Record("cy", {"city": None}, 7),
    ])  # fmt: skip
    amounts = (("ada", 1), ("bob", 2), ("nobody", 3), ("cy", 4), ("ada", 5))
    driver.pipe_input("orders", [Record(key, {"amount": n}, 10 + n) for key, n in amounts])
    assert driver.key_value_store("s").all() == [
        KeyValue("?", {"n": 1, "amounts": [2]}, 12),
        KeyValue("it", {"n": 2, "amounts": [1, 5]}, 15),
    ]
    # Rows of tables count as applied. One order has no user, and one user's city is null.
    assert driver.counters("s") == Counters(input=9, applied=7, late=0, dropped=1, filtered=1)
    dead_letters = [
        (one["topic"], one["offset"], one["reason"]) for one in driver.dead_letters("s")
    ]
    assert dead_letters == [("orders", 3, "null-key")]


def test_a_changed_chain_is_another_definition() -> None:
    """The definition of a store contains each join of the chain, in order."""

    def chain(how: str) -> Any:
        builder = StreamsBuilder()
        first = getattr(builder.stream("s", "v INT"), how)(builder.table("a", "x INT"))
        first.filter("x > 1").join(builder.table("b", "y INT")).group_by_key().count().materialize(
            "n"
        )
        return builder.build()

    assert lower(chain("join")).stores[0].grouped_by == "join(table 'a').join(table 'b'): key"
    assert (
        lower(chain("left_join")).stores[0].grouped_by
        == "left_join(table 'a').join(table 'b'): key"
    )
    described = chain("join").describe()
    assert "((stream('s')).join(table 'a') of (table('a')).filter('x > 1'))" in described
    drawn = chain("join").to_mermaid()
    assert [number for number in range(3) if f"topic{number} -->" not in drawn] == [], drawn


def test_errors_distinguish_nested_joins() -> None:
    """The definition of a store says on which side an earlier join is."""

    def grouped_by(joined: Callable[[KStream, KStream, KStream], KStream]) -> str:
        builder = StreamsBuilder()
        stream = joined(*(builder.stream(topic, f"{topic} STRING") for topic in "abc"))
        stream.group_by_key().count().materialize("n")
        return lower(builder.build()).stores[0].grouped_by

    within = "within -10 and +10 ms, grace 5 ms"
    left = grouped_by(lambda a, b, c: a.join(c, WITHIN).join(b, WITHIN))
    right = grouped_by(lambda a, b, c: a.join(b.join(c, WITHIN), WITHIN))
    assert left == f"join('c') {within}.join('b') {within}: key"
    assert right == f"(join('c') {within}).join('b') {within}: key"


Rows = list[dict[str, Any]]
#: A topic's name with one record, in arrival order.
Arrivals = list[tuple[str, Record]]


def arrivals(random: Random, topics: dict[str, str]) -> Arrivals:
    """Return records of topics with one value column each. Tables can have tombstones."""
    found: Arrivals = []
    times = dict.fromkeys(topics, 0)
    for number in range(45):
        topic = random.choice([*topics, *[name for name in topics if name.startswith("s")] * 2])
        times[topic] += random.choice((0, 1, 3, 12))
        time = max(0, times[topic] - random.choice((0, 0, 2, 9)))
        value = {topics[topic]: f"{topic}{number}"}
        is_deleted = topic.startswith("t") and random.random() < 0.2
        found.append((topic, Record(random.choice(KEYS), None if is_deleted else value, time)))
    return found


def pieces(log: Arrivals, random: Random | None) -> Iterator[tuple[str, list[Record]]]:
    """Yield batches of one topic: single records, or a random number of adjacent records."""
    batch: tuple[str, list[Record]] | None = None
    for topic, record in log:
        if batch is None or random is None or batch[0] != topic or random.random() < 0.3:
            if batch is not None:
                yield batch
            batch = topic, []
        batch[1].append(record)
    if batch is not None:
        yield batch


class Table:
    """The current rows of a table: the last record of each key."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._rows: dict[str, Any] = {}

    def put(self, record: Record) -> None:
        """Apply a record of the table."""
        assert record.key is not None
        self._rows[record.key] = None if record.value is None else record.value[self._column]

    def looked_up(self, record: Record, *, inner: bool) -> Iterable[Record]:
        """Yield the record with the row of its key.

        An inner join without a match yields nothing.
        """
        assert record.key is not None
        row = self._rows.get(record.key)
        if row is not None or not inner:
            yield Record(
                record.key, {**(record.value or {}), self._column: row}, record.timestamp_ms
            )


def held(driver: TopologyTestDriver) -> list[tuple[Any, ...]]:
    """Return the windows of store ``s``."""
    return [
        (one.key, one.window_start_ms, one.timestamp_ms, one.final, one.value)
        for one in driver.window_store("s").all()
    ]


def grouped(stream: KStream, columns: str) -> None:
    """Add a store that collects each column of the stream.

    Its steps need no Spark.
    """
    texts = stream.map_values(**{name: f"coalesce({name}, '-')" for name in columns})
    lists = {name: collect_list(name) for name in columns}
    windowed = texts.group_by_key().windowed_by(tumbling(20, 4))
    windowed.aggregate(None, None, None, None, **lists).materialize("s")


def chain_of_lookups(builder: StreamsBuilder) -> None:
    """Add two table joins with a filter between them."""
    first = builder.stream("s0", "v STRING").join(builder.table("t0", "x STRING"))
    second = first.filter("x > 't02'").left_join(builder.table("t1", "y STRING"))
    grouped(second, "vxy")


@cases(1, 4)
def test_a_chain_of_lookups_is_one_lookup_after_the_other(number: int) -> None:
    """A chain of table joins equals one join after the other, in any batching.

    Only records that pass all joins advance the stream time of the windows.
    """
    schema = "v STRING, x STRING, y STRING"
    for seed in range(number):
        log = arrivals(Random(seed), {"s0": "v", "t0": "x", "t1": "y"})
        plain = driver_of(lambda builder: grouped(builder.stream("s", schema), "vxy"))
        tables = {"t0": Table("x"), "t1": Table("y")}
        for topic, record in log:
            if topic in tables:
                tables[topic].put(record)
                continue
            for found in tables["t0"].looked_up(record, inner=True):
                assert found.value is not None
                if found.value["x"] > "t02":
                    plain.pipe_input("s", list(tables["t1"].looked_up(found, inner=False)))
        for cut in (None, Random(seed)):
            driver = driver_of(chain_of_lookups)
            for topic, records in pieces(log, cut):
                driver.pipe_input(topic, records)
            assert held(driver) == held(plain), f"seed {seed}"
            ours, theirs = driver.counters("s"), plain.counters("s")
            of_tables = sum(topic in tables for topic, _ in log)
            assert (ours.applied, ours.late) == (theirs.applied + of_tables, theirs.late)


Chain = Callable[[KStream, KStream, Any, Any], KStream]
#: Stream joins with table joins before and after them. The same tables are also joined first.
CHAINS: dict[str, Chain] = {
    "in front of both sides": lambda left, right, x, y: (
        left.left_join(x).join(right.left_join(y), WITHIN)
    ),
    "in front, outer": lambda left, right, x, y: (
        left.join(x).outer_join(right.join(y), WITHIN)
    ),
}  # fmt: skip


@cases(1, 4)
@pytest.mark.parametrize("chain", CHAINS)
def test_streams_join_after_lookups(chain: str, number: int) -> None:
    """Stream joins of enriched streams equal joins of topics with the enriched records.

    Join results, late results and unmatched records are the same.
    """
    inner = chain != "in front of both sides"

    def define(builder: StreamsBuilder) -> None:
        left, right = builder.stream("s0", "v STRING"), builder.stream("s1", "w STRING")
        tables = builder.table("t0", "x STRING"), builder.table("t1", "y STRING")
        grouped(CHAINS[chain](left, right, *tables), "vxwy")

    def define_plain(builder: StreamsBuilder) -> None:
        left = builder.stream("p0", "v STRING, x STRING")
        right = builder.stream("p1", "w STRING, y STRING")
        joined = left.outer_join(right, WITHIN) if inner else left.join(right, WITHIN)
        grouped(joined, "vxwy")

    for seed in range(number):
        log = arrivals(Random(seed), {"s0": "v", "s1": "w", "t0": "x", "t1": "y"})
        plain = driver_of(define_plain)
        tables = {"t0": Table("x"), "t1": Table("y")}
        for topic, record in log:
            if topic in tables:
                tables[topic].put(record)
            else:
                found = tables[f"t{topic[1]}"].looked_up(record, inner=inner)
                plain.pipe_input(f"p{topic[1]}", list(found))
        for cut in (None, Random(seed)):
            driver = driver_of(define)
            for topic, records in pieces(log, cut):
                driver.pipe_input(topic, records)
            assert held(driver) == held(plain), f"seed {seed}"
            assert driver.counters("s").late_results == plain.counters("s").late_results


@cases(1, 4)
@pytest.mark.parametrize("how", ["join", "left_join", "outer_join"])
def test_pairs_of_streams_look_a_table_up(how: str, number: int) -> None:
    """Join results and unmatched records join an unchanging table by their key."""

    def define(builder: StreamsBuilder, *, looks_up: bool) -> None:
        left, right = builder.stream("s0", "v STRING"), builder.stream("s1", "w STRING")
        pairs = getattr(left, how)(right, WITHIN)
        if looks_up:
            pairs = pairs.left_join(builder.table("t0", "x STRING"))
            pairs = pairs.filter("x IS NOT NULL").map_values("v", "w")
        grouped(pairs, "vw")

    for seed in range(number):
        log = arrivals(Random(seed), {"s0": "v", "s1": "w"})
        looked_up = driver_of(lambda builder: define(builder, looks_up=True))
        plain = driver_of(lambda builder: define(builder, looks_up=False))
        # The last key has no row.
        looked_up.pipe_input("t0", [Record(key, {"x": "row"}, 1) for key in KEYS[:2]])
        for topic, records in pieces(log, Random(seed)):
            looked_up.pipe_input(topic, records)
            plain.pipe_input(topic, records)
        assert held(looked_up) == [one for one in held(plain) if one[0] in KEYS[:2]]
        ours, theirs = looked_up.counters("s"), plain.counters("s")
        # Join results are not records, so filtered ones do not count.
        assert (ours.applied - 2, ours.late, ours.filtered) == (
            theirs.applied, theirs.late, theirs.filtered,
        )  # fmt: skip


def test_updates_of_two_tables_look_a_third_one_up() -> None:
    """Each update of two joined tables uses the third table's row at that moment."""

    def define(builder: StreamsBuilder) -> None:
        left, right = builder.table("t0", "x STRING"), builder.table("t1", "y STRING")
        updates = left.join(right).to_stream().left_join(builder.table("t2", "z STRING"))
        texts = updates.map_values(texts="concat_ws('/', x, y, z)").group_by_key()
        texts.aggregate(all=collect_list("texts")).materialize("s")

    driver = driver_of(define)
    for topic, column, value in (
        ("t0", "x", "x1"), ("t1", "y", "y1"), ("t2", "z", "z1"), ("t0", "x", "x2"),
    ):  # fmt: skip
        driver.pipe_input(topic, Record("k", {column: value}, 1))
    assert driver.key_value_store("s").get("k") == KeyValue("k", {"all": ["x1/y1", "x2/y1/z1"]}, 1)
    driver.pipe_input("t2", Record("k", None, 2))
    driver.pipe_input("t1", Record("k", {"y": "y2"}, 3))
    found = driver.key_value_store("s").get("k")
    assert found is not None
    assert found.value["all"][-1] == "x2/y2"


def test_windows_wait_for_the_joins_after_a_lookup() -> None:
    """A window stays open for an enriched record that a later join emits as unmatched."""

    def define(builder: StreamsBuilder) -> None:
        left, right = builder.stream("s0", "v STRING"), builder.stream("s1", "w STRING")
        joined = left.left_join(builder.table("t0", "x STRING")).left_join(right, WITHIN)
        windowed = joined.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10))
        windowed.aggregate(all=collect_list("v")).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("s0", Record("k", {"v": "alone"}, 5))
    driver.pipe_input("s1", Record("other", {"w": "x"}, 31))
    driver.pipe_input("s0", Record("other", {"v": "y"}, 31))
    assert [(one.key, one.value["all"], one.final) for one in driver.window_store("s").all()] == [
        ("k", ["alone"], False), ("other", ["y"], False),
    ]  # fmt: skip


def test_a_record_waits_for_what_a_join_in_front_holds_back() -> None:
    """A record waits for a match that an earlier join still holds back, up to 25 ms."""

    def define(builder: StreamsBuilder) -> None:
        a, b, c = (builder.stream(topic, f"{topic} STRING") for topic in "abc")
        texts = c.left_join(a.left_join(b, WITHIN), WITHIN).map_values(
            texts="concat_ws('+', c, a, b)"
        )
        texts.group_by_key().aggregate(all=collect_list("texts")).materialize("s")

    def pipe(driver: TopologyTestDriver, topic: str, key: str, time_ms: int) -> Any:
        driver.pipe_input(topic, Record(key, {topic: f"{topic}{time_ms}"}, time_ms))
        found = driver.key_value_store("s").get("k")
        return None if found is None else (found.value["all"], found.timestamp_ms)

    driver = driver_of(define)
    assert pipe(driver, "c", "k", 50) is None
    assert pipe(driver, "a", "k", 60) is None
    # A record of b can match a60 until stream time 85: 10 ms apart, and 15 ms late.
    assert pipe(driver, "b", "x", 85) is None
    assert pipe(driver, "b", "x", 86) == (["c50+a60"], 60)
    # An unmatched record is emitted up to 25 ms later, and c's match can be 10 ms later than c.
    driver = driver_of(define)
    assert pipe(driver, "c", "k", 50) is None
    assert pipe(driver, "a", "x", 100) is None
    assert pipe(driver, "b", "x", 85) is None
    assert pipe(driver, "b", "x", 86) == (["c50"], 50)


def test_pairs_that_come_late_to_the_next_join_are_counted_as_results() -> None:
    """Join results that are late for the next join count as late results, not as late records.

    Their stream time is the greater one of both records.
    """

    def define(builder: StreamsBuilder) -> None:
        a, b, c = (builder.stream(topic, f"{topic} STRING") for topic in "abc")
        patient = JoinWindows.of_time_difference_and_grace(10, 100)
        a.join(b, patient).left_join(c, WITHIN).group_by_key().count().materialize("s")

    driver = driver_of(define)
    driver.pipe_input("a", [Record("k", {"a": "x"}, time_ms) for time_ms in (0, 5)])
    driver.pipe_input("b", [Record(key, {"b": "y"}, ms) for key, ms in (("x", 16), ("k", 0))])
    # The stream time of (a0, b0) and (a5, b0) is 16. Only the second is within difference and
    # grace.
    assert (driver.counters("s").late, driver.counters("s").late_results) == (0, 1)
    assert driver.counters("s").applied == 4


@pytest.mark.parametrize("emits_updates", [False, True])
def test_results_of_joins_are_in_the_order_of_all_their_places(*, emits_updates: bool) -> None:
    """Results with equal time and first record are sorted by all their source positions.

    The order in which the joins emit them does not matter.
    """

    def define(builder: StreamsBuilder) -> None:
        a, b, c = (builder.stream(topic, f"{topic} STRING") for topic in "abc")
        texts = (
            a.outer_join(b, WITHIN)
            .outer_join(c, WITHIN)
            .map_values(texts="concat(coalesce(a, '-'), coalesce(b, '-'), coalesce(c, '-'))")
        )
        windowed = texts.group_by_key().windowed_by(tumbling(10, 100))
        table = windowed.aggregate(
            None, None, None, None, all=collect_list("texts"), first=first("texts")
        )
        table.to_stream().map_values("all", "first").to("out")
        if not emits_updates:
            table.materialize("s")

    driver = driver_of(define)
    updates = driver.create_output_topic("out")
    # The second record of c is in a later partition, and is piped first.
    for topic, number in (("c", 2), ("b", 1), ("a", 1), ("c", 1), ("b", 2)):
        partition = number - 1 if topic == "c" else 0
        driver.pipe_input(topic, Record("k", {topic: str(number)}, 5), partition)
    rows = updates.read_records() if emits_updates else driver.window_store("s").all()
    assert rows[-1].value == {"all": ["111", "112", "121", "122"], "first": "111"}


def test_dead_letters_of_joined_results_name_the_topic_of_their_place() -> None:
    """A dead letter of a join result names the topic of the result's first record."""

    def define(builder: StreamsBuilder) -> None:
        a, b = (builder.stream(topic, f"{topic} STRING") for topic in "ab")
        x, y = builder.table("x", "x STRING"), builder.table("y", "y STRING")
        pairs = a.outer_join(b, WITHIN).outer_join(x.outer_join(y).to_stream(), WITHIN)
        pairs.group_by("CASE WHEN key = 'k' THEN NULL ELSE key END").count().materialize("s")

    driver = driver_of(define)
    for place, topic in enumerate("abxy"):
        driver.pipe_input(topic, Record("k", {topic: topic}, 100 * place))
    for topic in "abxy":
        driver.pipe_input(topic, Record("z", {topic: "end"}, 1000))
    dead_letters = {(one["topic"], one["offset"]) for one in driver.dead_letters("s")}
    assert dead_letters == {("a", 0), ("b", 0), ("x", 0), ("y", 0)}
    assert driver.counters("s").dropped_results == 4


def test_elements_and_global_tables_stand_within_chains() -> None:
    """A chain can flatten a record, and its flattened records can join several tables."""

    def define(builder: StreamsBuilder) -> None:
        carts = builder.stream("carts", "items ARRAY<STRING>")
        users = builder.table("users", "city STRING")
        makers = builder.global_table("makers", "maker STRING")
        colours = builder.global_table("colours", "colour STRING")
        items = carts.join(users).flat_map_values("city", item="items")
        known = items.join(makers, key="item").left_join(colours, key="maker")
        known.group_by_key().windowed_by(tumbling(20, 4)).aggregate(
            n=count(), all=collect_list("item"), colours=collect_list("colour")
        ).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("users", Record("ada", {"city": "rome"}, 1))
    driver.pipe_input("makers", [Record(item, {"maker": f"m{item}"}, 2) for item in "ab"])
    driver.pipe_input("colours", Record("ma", {"colour": "red"}, 3))
    carts = (
        ("ada", "abx", 10), ("bob", "a", 90), ("ada", "", 11), ("ada", "b", 30), ("ada", "ax", 5),
    )  # fmt: skip
    driver.pipe_input(
        "carts", [Record(key, {"items": list(items)}, time) for key, items, time in carts]
    )
    rows = driver.window_store("s").all()
    assert [(one.key, one.window_start_ms, one.value) for one in rows] == [
        ("ada", 0, {"n": 2, "all": ["a", "b"], "colours": ["red"]}),
        ("ada", 20, {"n": 1, "all": ["b"], "colours": []}),
    ]  # fmt: skip
    found = driver.counters("s")
    # Bob's cart has no user, and one cart is empty. The other three are flattened.
    assert (found.input, found.applied, found.filtered) == (9, 7, 2)
    assert (found.elements, found.elements_applied) == (6, 3)
    assert (found.elements_filtered, found.elements_late) == (2, 1)
