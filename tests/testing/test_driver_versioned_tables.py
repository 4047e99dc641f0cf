"""Versioned tables in the test driver: rows as of a record's time, and joins with a grace."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from oriel import JoinWindows, StreamsBuilder, collect_list, count
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import KStream
from oriel.pipeline.language.tables import VersionedTable
from oriel.pipeline.windows import IllegalArgument
from oriel.testing import Counters, KeyValue, Record, TopologyTestDriver
from tests.campaigns import cases
from tests.models.joins import Arrived
from tests.testing.driver_runs import driver_of, tumbling
from tests.windows.test_versioned_tables import buffered

Written = list[tuple[str | None, Any, int]]


def price(value: int | None, time_ms: int, key: str = "tea") -> Record:
    """Return a version of a price."""
    return Record(key, None if value is None else {"price": value}, time_ms)


def order(time_ms: int, key: str = "tea") -> Record:
    """Return an order with its own time as value."""
    return Record(key, {"t": time_ms}, time_ms)


def written(driver: TopologyTestDriver, topic: str = "out") -> Written:
    """Return the records of a topic."""
    records = driver.create_output_topic(topic).read_records()
    return [(record.key, record.value, record.timestamp_ms) for record in records]


def joined(grace_ms: int | None = None, history_ms: int = 100, how: str = "join") -> Any:
    """Return a driver of orders that join prices, written to a topic."""

    def define(builder: StreamsBuilder) -> None:
        prices = builder.versioned_table("prices", "price BIGINT", history_ms)
        join = getattr(builder.stream("orders", "t BIGINT"), how)
        join(prices, grace_ms=grace_ms).map_values("price").to("out")

    return driver_of(define)


def test_a_record_finds_the_row_of_its_time() -> None:
    """A record joins the row of its own time (KIP-914).

    Before the first version and after a tombstone, the row does not exist.
    """
    driver = joined(how="left_join")
    driver.pipe_input("prices", [price(10, 10), price(30, 30), price(20, 20), price(None, 40)])
    driver.pipe_input("orders", [order(time) for time in (5, 10, 19, 20, 30, 41)])
    found = [(value and value["price"], time) for _, value, time in written(driver)]
    assert found == [(None, 5), (10, 10), (10, 19), (20, 20), (30, 30), (None, 41)]


def test_of_one_time_the_last_record_counts() -> None:
    """The last record of a time replaces the version, as in Kafka's ``put``."""
    driver = joined()
    driver.pipe_input("prices", [price(1, 10), price(2, 10)])
    driver.pipe_input("orders", [order(10)])
    assert written(driver) == [("tea", {"price": 2}, 10)]


@pytest.mark.java
def test_a_record_older_than_the_history_finds_the_newest_version_or_none() -> None:
    """A record older than the history matches only the newest version of its key (KIP-889).

    The newest version never expires.
    """
    driver = joined(history_ms=100, how="left_join")
    driver.pipe_input("prices", [price(1, 10), price(2, 20), price(7, 10, "milk")])
    driver.pipe_input("prices", [price(9, 1_000, "salt")])
    driver.pipe_input("orders", [order(15), order(25), order(899, "milk"), order(9, "milk")])
    assert [value and value["price"] for _, value, _ in written(driver)] == [None, 2, 7, None]


def test_a_version_that_is_too_late_is_counted_so() -> None:
    """A version counts as late if it is older than its partition's stream time minus the history.

    A version of exactly that time is not late.
    """

    def define(builder: StreamsBuilder) -> None:
        prices = builder.versioned_table("prices", "price BIGINT", 100)
        found = builder.stream("orders", "t BIGINT").join(prices)
        found.group_by_key().aggregate(prices=collect_list("price")).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("prices", [price(1, 500), price(2, 399), price(3, 400)])
    driver.pipe_input("orders", [order(399), order(400)])
    assert driver.key_value_store("s").get("tea") == KeyValue("tea", {"prices": [3]}, 400)
    assert driver.counters("s") == Counters(5, applied=3, late=1, dropped=0, filtered=1)


def test_records_wait_and_go_on_in_the_order_of_time() -> None:
    """Records wait until stream time passes them by the grace, then join in time order (KIP-923).

    A record that is later than that joins immediately.
    """
    driver = joined(grace_ms=10)
    driver.pipe_input("prices", price(1, 0))
    driver.pipe_input("orders", [order(20), order(15)])
    assert written(driver) == []
    driver.pipe_input("prices", price(2, 12))
    driver.pipe_input("orders", order(25))
    assert written(driver) == [("tea", {"price": 2}, 15)]
    driver.pipe_input("orders", [order(5), order(40), order(1)])
    assert [(value, time) for _, value, time in written(driver)] == [
        ({"price": 2}, 15), ({"price": 1}, 5), ({"price": 2}, 20), ({"price": 2}, 25),
        ({"price": 1}, 1),
    ]  # fmt: skip


def test_downstream_windows_have_the_stream_time_of_forwarded_records() -> None:
    """Windows after the join see the stream time of the emitted records, so few are late."""

    def define(builder: StreamsBuilder) -> None:
        prices = builder.versioned_table("prices", "price BIGINT", 100)
        waited = builder.stream("orders", "t BIGINT").join(prices, grace_ms=50)
        windowed = waited.group_by_key().windowed_by(tumbling(10, 0))
        windowed.aggregate(times=collect_list("t")).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("prices", price(1, 0))
    driver.pipe_input("orders", [order(time) for time in (40, 12, 25, 5, 31, 88, 3, 140)])
    rows = [
        (row.window_start_ms, row.value["times"], row.final)
        for row in driver.window_store("s").all()
    ]
    # Record 3 is 85 ms late. The windows' stream time is 31, so its window is closed. Record 140
    # still waits.
    assert rows == [
        (0, [5], True), (10, [12], True), (20, [25], True), (30, [31], True), (40, [40], True),
        (80, [88], False),
    ]  # fmt: skip
    # A waiting record counts as applied, as in a stream-stream join.
    assert driver.counters("s") == Counters(
        9, applied=9, late=0, dropped=0, filtered=0, late_results=1
    )


def test_each_partition_waits_for_its_own_clock() -> None:
    """Each partition waits for its own stream time, as in Kafka, so an empty one blocks nothing."""
    driver = joined(grace_ms=10)
    driver.pipe_input("prices", price(1, 0))
    driver.pipe_input("orders", [], 1)
    driver.pipe_input("orders", [order(20), order(31)], 0)
    assert written(driver) == [("tea", {"price": 1}, 20)]


@pytest.mark.java
def test_in_all_other_places_it_is_the_table_of_newest_versions() -> None:
    """Other uses see the newest versions, and an older version changes nothing (KIP-914)."""

    def define(builder: StreamsBuilder) -> None:
        prices = builder.versioned_table("prices", "price BIGINT", 100).filter("price <> 13")
        prices.materialize("now")
        prices.group_by("price % 2").count().materialize("odd")
        prices.join(builder.table("stock", "pieces INT")).materialize("offers")
        builder.table("shelves", "item STRING").left_join(prices, foreign_key="item").materialize(
            "labels"
        )
        prices.to_stream().to("out")

    driver = driver_of(define)
    driver.pipe_input("stock", Record("tea", {"pieces": 3}, 0))
    driver.pipe_input("shelves", Record("a1", {"item": "tea"}, 0))
    driver.pipe_input("prices", [price(1, 10), price(2, 30), price(5, 20), price(13, 25)])
    assert driver.key_value_store("now").get("tea") == KeyValue("tea", {"price": 2}, 30)
    odd = {row.key: row.value["count"] for row in driver.key_value_store("odd").all()}
    assert odd == {"0": 1, "1": 0}
    offer, label = (
        driver.key_value_store("offers").get("tea"),
        driver.key_value_store("labels").get("a1"),
    )
    assert offer is not None and offer.value == {"price": 2, "pieces": 3}  # noqa: PT018
    assert label is not None and label.value == {"item": "tea", "price": 2}  # noqa: PT018
    assert written(driver) == [
        ("tea", {"price": 1}, 10), ("tea", {"price": 2}, 30), ("tea", {"price": 5}, 20),
        ("tea", None, 25),
    ]  # fmt: skip
    assert driver.counters("now") == Counters(4, applied=2, late=2, dropped=0, filtered=0)
    driver.pipe_input("prices", price(13, 40))
    assert driver.key_value_store("now").get("tea") is None


KEYS = ("tea", "milk")


def _kept(prices: VersionedTable, _: StreamsBuilder) -> None:
    prices.materialize("s")


def _counted_again(prices: VersionedTable, _: StreamsBuilder) -> None:
    prices.group_by("price % 2").aggregate(n=count()).materialize("s")


def _streamed(prices: VersionedTable, _: StreamsBuilder) -> None:
    updates = prices.to_stream().filter("price % 3 = 0").group_by_key()
    updates.aggregate(n=count(), prices=collect_list("price")).materialize("s")


def _streamed_to_windows(prices: VersionedTable, _: StreamsBuilder) -> None:
    updates = prices.to_stream().filter("price % 3 = 0").group_by_key()
    updates.windowed_by(tumbling(10, 5_000)).count().materialize("s")


def _joined_rows(prices: VersionedTable, builder: StreamsBuilder) -> None:
    updates = prices.join(builder.table("stock", "pieces INT")).to_stream()
    updates.group_by_key().aggregate(prices=collect_list("price")).materialize("s")


def _named_rows(prices: VersionedTable, builder: StreamsBuilder) -> None:
    stock = builder.table("stock", "pieces INT").map_values("pieces", id="'tea'")
    updates = prices.join(stock, foreign_key="'milk'").to_stream()
    updates.group_by_key().aggregate(prices=collect_list("price")).materialize("s")


def _looked_up_prices(prices: VersionedTable, builder: StreamsBuilder) -> None:
    found = builder.stream("orders", "t BIGINT").join(prices)
    found.group_by_key().aggregate(prices=collect_list("price")).materialize("s")


USES = [
    _kept, _counted_again, _streamed, _streamed_to_windows, _joined_rows, _named_rows,
    _looked_up_prices,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
@cases(1, 80)
def test_which_versions_are_too_late_is_the_same_in_any_cut(
    use: Callable[[VersionedTable, StreamsBuilder], None], number: int
) -> None:
    """The same versions are late in any batching, because lateness uses the topic partition's time.

    Filters before or after the table do not matter.
    """
    for seed in range(number):
        random = Random(f"{use.__name__} {seed}")
        log = [
            price(random.choice((None, 1, 2, 3, 4, 6)), max(0, place * 2 + random.randint(-20, 20)),
                  random.choice(KEYS))
            for place in range(30)
        ]  # fmt: skip
        found = [_used(use, log, cut) for cut in (len(log), 1, random.randint(2, 9))]
        assert found[0] == found[1] == found[2], (seed, found)


def _used(
    use: Callable[[VersionedTable, StreamsBuilder], None], log: Sequence[Record], cut: int
) -> tuple[list[Any], int]:
    """Return the final content of a store, and how many versions were late."""
    builder = StreamsBuilder()
    use(builder.versioned_table("prices", "price BIGINT", 5).filter("price <> 4"), builder)
    topology = builder.build()
    driver = TopologyTestDriver(topology)
    if "stock" in topology.topics:
        driver.pipe_input("stock", [Record(key, {"pieces": 1}, 0) for key in KEYS])
    for first in range(0, len(log), cut):
        driver.pipe_input("prices", log[first : first + cut])
    if "orders" in topology.topics:
        driver.pipe_input("orders", [order(time, key) for time in range(80) for key in KEYS])
    kind = topology.stores[-1].windows.kind
    store = driver.key_value_store("s") if kind == "none" else driver.window_store("s")
    return list(store.all()), driver.counters("s").late


def _plain(builder: StreamsBuilder) -> KStream:
    return builder.stream("a", "t BIGINT")


def _merged(builder: StreamsBuilder) -> KStream:
    return _plain(builder).merge(builder.stream("b", "t BIGINT"))


def _pairs(builder: StreamsBuilder) -> KStream:
    within = JoinWindows.of_time_difference_and_grace(5, 1_000)
    other = builder.stream("b", "t BIGINT").map_values(u="t")
    return _plain(builder).join(other, within)


def _alone(builder: StreamsBuilder) -> KStream:
    within = JoinWindows.of_time_difference_and_grace(5, 20)
    other = builder.stream("b", "t BIGINT").map_values(u="t")
    return _plain(builder).left_join(other, within)


def _elements(builder: StreamsBuilder) -> KStream:
    return _plain(builder).flat_map_values(t="array(t, t + 1)")


def _counted(builder: StreamsBuilder) -> KStream:
    return _plain(builder).group_by_key().aggregate(t=count()).to_stream()


def _looked_up(builder: StreamsBuilder) -> KStream:
    return _plain(builder).left_join(builder.table("prices", "price BIGINT").map_values(p="price"))


STREAMS = [_plain, _merged, _pairs, _alone, _elements, _counted, _looked_up]


@pytest.mark.slow
@pytest.mark.parametrize("stream_of", STREAMS)
@cases(1, 60)
def test_a_grace_changes_no_row_if_the_table_is_there(
    stream_of: Callable[[StreamsBuilder], KStream], number: int
) -> None:
    """If the table is complete, a grace changes no row, for any stream and batching."""
    for seed in range(number):
        random = Random(f"{stream_of.__name__} {seed}")
        grace_ms = random.choice((0, 3, 20, 100))
        # Records of a topic stay in order.
        log = [
            (
                random.choice("ab"),
                random.choice(("tea", "milk")),
                max(0, place + random.randint(-15, 15)),
            )
            for place in range(40)
        ]
        closing = [(topic, "salt", time) for time in (2_000, 4_000) for topic in "ab"]
        found = [
            _joined_windows(stream_of, grace, [*log, *closing], cut)
            for grace, cut in ((None, 1000), (grace_ms, 1000), (grace_ms, random.randint(1, 9)))
        ]
        assert found[0] == found[1] == found[2], (seed, grace_ms, found)


def _joined_windows(
    stream_of: Callable[[StreamsBuilder], KStream],
    grace_ms: int | None,
    log: Sequence[tuple[str, str, int]],
    cut: int,
) -> list[Any]:
    """Return the windows after the join for the keys that match."""
    builder = StreamsBuilder()
    versions = builder.versioned_table("prices", "price BIGINT", 10_000)
    windowed = stream_of(builder).left_join(versions, grace_ms=grace_ms).group_by_key()
    windowed.windowed_by(tumbling(10, 5_000)).aggregate(
        n=count(), times=collect_list("t"), prices=collect_list("price")
    ).materialize("s")
    topology = builder.build()
    driver = TopologyTestDriver(topology)
    for topic in topology.topics:
        driver.pipe_input(topic, [])
    driver.pipe_input(
        "prices", [price(time, time, key) for time in range(0, 50, 7) for key in ("tea", "milk")]
    )
    records = [(topic, order(time, key)) for topic, key, time in log if topic in topology.topics]
    for first in range(0, len(records), cut):
        driver.pipe_inputs(records[first : first + cut])
    rows = [row for row in driver.window_store("s").all() if row.key != "salt"]
    return [
        (
            row.key,
            row.window_start_ms,
            row.value["n"],
            sorted(row.value["times"]),
            sorted(value for value in row.value["prices"]),
        )
        for row in rows
    ]


@pytest.mark.slow
@cases(1, 20)
def test_what_waited_takes_effect_in_the_order_in_which_it_went_on(number: int) -> None:
    """Waiting records apply in the order in which they are emitted, in any batching."""

    def noted(_key: str, value: dict[str, Any], kept: list[int]) -> list[int]:
        return [*kept, value["t"]]

    def both(_key: str, left: list[int], right: list[int]) -> list[int]:
        return [*left, *right]

    def define(builder: StreamsBuilder) -> None:
        prices = builder.versioned_table("prices", "price BIGINT", 1_000)
        waited = (
            builder.stream("orders", "t BIGINT").left_join(prices, grace_ms=12).select_key("'k'")
        )
        waited.to("out")
        grouped = waited.group_by_key()
        grouped.aggregate(list, noted, both, "times ARRAY<BIGINT>").materialize("all")
        windowed = grouped.windowed_by(tumbling(20, 1_000))
        windowed.aggregate(list, noted, both, "times ARRAY<BIGINT>").materialize("s")
        found = windowed.aggregate(list, noted, both, "times ARRAY<BIGINT>").to_stream()
        found.map_values(last="element_at(times, -1)").to("found")

    for seed in range(number):
        random = Random(seed)
        times = [max(0, place + random.randint(-20, 20)) for place in range(60)]
        records = [Arrived("k", time, 0, place, None, max(times[: place + 1]))
                   for place, time in enumerate(times)]  # fmt: skip
        expected = [record.time for record in buffered(records, 12)]
        for most in (5, 60):
            driver, first = driver_of(define), 0
            while first < len(times):
                taken = random.randint(1, most) if most < len(times) else most
                driver.pipe_input("orders", [order(time) for time in times[first : first + taken]])
                first += taken
            (row,) = driver.key_value_store("all").all()
            assert row.value["times"] == expected, seed
            assert [time for _, _, time in written(driver)] == expected, seed
            found = [value and value["last"] for _, value, _ in written(driver, "found")]
            assert found == expected, seed
            for window in driver.window_store("s").all():
                within = range(window.window_start_ms, window.window_end_ms)
                assert window.value["times"] == [time for time in expected if time in within], seed


def test_a_function_error_after_a_grace_buffer_is_a_dead_letter() -> None:
    """The dead letter of a record that waited has its original offset."""

    def raising(_key: str, value: dict[str, Any], _kept: int) -> int:
        return 1 // int(value["t"] - 20)

    def define(builder: StreamsBuilder) -> None:
        prices = builder.versioned_table("prices", "price BIGINT", 100)
        waited = builder.stream("orders", "t BIGINT").left_join(prices, grace_ms=5)
        waited.group_by_key().aggregate(int, raising, None, "n BIGINT").materialize("s")

    driver = driver_of(define)
    driver.pipe_input("orders", [order(20), order(30), order(40)])
    (letter,) = driver.dead_letters("s")
    assert (letter["topic"], letter["offset"]) == ("orders", 0)
    assert letter["reason"] == "function-raised"
    assert driver.counters("s").applied == 3


@pytest.mark.parametrize(
    ("define", "found"),
    [
        (lambda b: b.stream("a", "v INT").join(b.table("b", "w INT"), grace_ms=1),
         "only a versioned table accepts grace_ms="),
        (lambda b: b.stream("a", "v INT").join(b.versioned_table("b", "w INT", 5), grace_ms=6),
         "grace_ms must be at most the history retention"),
        (lambda b: b.stream("a", "v INT").join(b.versioned_table("b", "w INT", 5), grace_ms=-1),
         "join: grace_ms must not be negative"),
        (lambda b: b.versioned_table("b", "w INT", -1),
         "history_retention_ms must not be negative"),
        (lambda b: b.stream("a", "v INT").outer_join(b.versioned_table("b", "w INT", 5)),
         "a stream joins a table as of the record's time. Use join"),
        (lambda b: b.versioned_table("b", "w INT", 5).join(b.stream("a", "v INT").filter("v > 1")),
         r"not with <KStream stream\('a'\).filter\('v > 1'\)>\. Join the table"),
    ],
)  # fmt: skip
def test_what_is_refused_says_so(define: Callable[[StreamsBuilder], object], found: str) -> None:
    """Each error names the fix."""
    with pytest.raises(InvalidTopology, match=found):
        define(StreamsBuilder())


def test_a_history_is_a_number_of_ms() -> None:
    """A history is an integer number of ms or a timedelta."""
    with pytest.raises(IllegalArgument, match="must be an integer number of ms or a timedelta"):
        StreamsBuilder().versioned_table("b", "w INT", "5")  # type: ignore[arg-type]
