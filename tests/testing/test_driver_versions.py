"""A versioned table with its versions in the test driver (KIP-889, KIP-960, KIP-968)."""

from itertools import pairwise
from random import Random

import pytest

from oriel import IllegalArgument, InvalidTopology, Serdes, StreamsBuilder
from oriel.testing import Counters, KeyValue, Record, TopologyTestDriver, VersionedValue
from tests.testing.driver_runs import driver_of


def defined(builder: StreamsBuilder) -> None:
    """Keep the versions of prices for 100 ms."""
    prices = builder.versioned_table("prices", "price INT", history_retention_ms=100)
    prices.materialize("prices", versions=True)


def piped(*records: tuple[str, int | None, int]) -> TopologyTestDriver:
    """Return a driver after these records, as key, price and time, in one batch."""
    driver = driver_of(defined)
    driver.pipe_input(
        "prices",
        [Record(key, None if n is None else {"price": n}, ms) for key, n, ms in records],
    )
    return driver


def version(price: int, from_ms: int, to_ms: int | None, key: str = "tea") -> VersionedValue:
    """Return a version of a key."""
    return VersionedValue(key, {"price": price}, from_ms, from_ms, to_ms)


def test_the_example_of_kip_960() -> None:
    """A read as of a time returns the version with the greatest time at or before it."""
    store = piped(("tea", 1, 10), ("tea", 2, 20), ("tea", 3, 30)).versioned_store("prices")
    found = [store.get_as_of("tea", at) for at in (9, 10, 19, 20, 29, 30, 10**12)]
    assert found == [
        None, version(1, 10, 20), version(1, 10, 20), version(2, 20, 30), version(2, 20, 30),
        version(3, 30, None), version(3, 30, None),
    ]  # fmt: skip
    assert store.get("tea") == KeyValue("tea", {"price": 3}, 30)


def test_the_example_of_kip_968() -> None:
    """Versions are listed if they were valid in the range, also if they started before it."""
    driver = piped(("tea", 1, 10), ("tea", 2, 20), ("tea", None, 30), ("tea", 4, 40))
    store = driver.versioned_store("prices")
    every = [version(1, 10, 20), version(2, 20, 30), version(4, 40, None)]
    assert store.versions("tea") == every
    assert store.backward_versions("tea") == every[::-1]
    assert store.versions("tea", 15, 20) == every[:2]
    assert store.versions("tea", 20, 29) == every[1:2]
    assert store.versions("tea", 30, 39) == []
    assert store.versions("tea", 41) == every[2:]
    assert store.versions("tea", None, 9) == []
    assert store.versions("tea", 20, 10) == []
    assert store.versions("none") == []


def test_a_record_out_of_order_is_inserted_between_others() -> None:
    """The version before it ends at its time, in the same batch and in a later one."""
    driver = piped(("tea", 1, 10), ("tea", 3, 30), ("tea", 2, 20))
    driver.pipe_input("prices", [Record("tea", None, 25), Record("tea", {"price": 9}, 10)])
    assert driver.versioned_store("prices").versions("tea") == [
        version(9, 10, 20), version(2, 20, 25), version(3, 30, None),
    ]  # fmt: skip


def test_a_tombstone_at_the_time_of_a_version_replaces_it() -> None:
    """The last record of a time counts: also a value after a tombstone."""
    driver = piped(("tea", 1, 10), ("tea", 2, 20), ("tea", None, 20))
    store = driver.versioned_store("prices")
    assert (store.get("tea"), store.all()) == (None, [])
    assert store.versions("tea") == [version(1, 10, 20)]
    driver.pipe_input("prices", Record("tea", {"price": 5}, 20))
    assert store.versions("tea") == [version(1, 10, 20), version(5, 20, None)]


def test_versions_older_than_the_history_are_removed() -> None:
    """The version that was valid at the start of the history stays. Older records are late."""
    driver = piped(("tea", 1, 10), ("tea", 2, 20), ("tea", 3, 50), ("cake", 7, 5))
    driver.pipe_input("prices", [Record("other", {"price": 1}, 130), Record("tea", None, 29)])
    store = driver.versioned_store("prices")
    # The history starts at 30.
    assert store.versions("tea") == [version(2, 20, 50), version(3, 50, None)]
    assert store.get("cake") == KeyValue("cake", {"price": 7}, 5)
    assert (driver.counters("prices"), driver.late) == (Counters(6, 5, 1, 0, 0), 1)


def test_a_filter_and_other_columns_change_each_version() -> None:
    """A version that does not meet the condition has no row for its time."""

    def steps(builder: StreamsBuilder) -> None:
        prices = builder.versioned_table("prices", "price INT", 100)
        positive = prices.filter("price > 0").map_values(cents="price * 100")
        positive.materialize("prices", versions=True)

    driver = driver_of(steps)
    for price, ms in ((1, 10), (-1, 20), (3, 30)):
        driver.pipe_input("prices", Record("tea", {"price": price}, ms))
    found = driver.versioned_store("prices").versions("tea")
    assert [(one.value, one.valid_from_ms, one.valid_to_ms) for one in found] == [
        ({"cents": 100}, 10, 20), ({"cents": 300}, 30, None),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_versions_do_not_depend_on_the_cut_into_batches(seed: int) -> None:
    """Random records of two partitions have the same versions in one batch and in many."""
    random = Random(seed)
    records = [
        Record(
            random.choice("ab"),
            None if random.random() < 0.3 else {"price": number},
            max(0, 3 * number + random.randint(-60, 20)),
        )
        for number in range(60)
    ]
    found = []
    for ends in ((60,), (1, 7, 20, 21, 60), tuple(range(1, 61))):
        driver = driver_of(defined)
        for begin, end in pairwise((0, *ends)):
            driver.pipe_input("prices", records[begin:end])
        store = driver.versioned_store("prices")
        found.append(([store.versions(key) for key in "ab"], store.all(), driver.late))
    assert found[0] == found[1] == found[2]


def test_the_driver_names_the_read_of_a_store_with_versions() -> None:
    """Another method of the driver is rejected, and so is a time that is not an integer."""
    driver = piped(("tea", 1, 10))
    with pytest.raises(IllegalArgument, match=r"has versions: .* versioned_store\('prices'\)"):
        driver.key_value_store("prices")
    with pytest.raises(IllegalArgument, match="from_ms"):
        driver.versioned_store("prices").versions("tea", "1")  # type: ignore[arg-type]


@pytest.mark.parametrize("column", ["valid_from_ms", "valid_to", "Deleted"])
def test_names_of_a_version_cannot_be_columns(column: str) -> None:
    """A column with the name of a field of versions is rejected before a record is read."""

    def topology(builder: StreamsBuilder) -> None:
        prices = builder.versioned_table("prices", f"{column} INT", 100)
        prices.materialize("prices", versions=True)

    with pytest.raises(InvalidTopology, match=f"'prices'.*{column}"):
        driver_of(topology)


def test_a_store_with_versions_is_not_written_to_a_topic() -> None:
    """`to` has the newest rows, so it names the two ways to write them."""
    builder = StreamsBuilder()
    prices = builder.versioned_table("prices", "price INT", 100)
    with pytest.raises(InvalidTopology, match=r"to_stream\(\)\.to\('out'\)"):
        prices.materialize("prices", Serdes.string(), versions=True).to("out")
