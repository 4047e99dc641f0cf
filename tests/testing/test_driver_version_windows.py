"""The history of a topic as windows of 1 ms, the recipe of docs/reference/topology/tables.md."""

import random

from oriel import StreamsBuilder, TimeWindows, last
from oriel.testing import Record
from tests.campaigns import seeds
from tests.testing.driver_runs import driver_of

_HISTORY_MS = 20


def _defined(builder: StreamsBuilder) -> None:
    prices = builder.stream("prices", "price INT")
    times = TimeWindows.of_size_and_grace(1, _HISTORY_MS)
    versions = prices.group_by_key().windowed_by(times).aggregate(price=last("price"))
    versions.materialize("price_history")


def _versions(records: list[Record]) -> dict[str, dict[int, int]]:
    """Return key -> time -> price of the records that are not late, one record after another."""
    newest_ms, versions = -1, dict[str, dict[int, int]]()
    for record in records:
        assert record.key is not None
        assert record.value is not None
        newest_ms = max(newest_ms, record.timestamp_ms)
        if record.timestamp_ms >= newest_ms - _HISTORY_MS:
            versions.setdefault(record.key, {})[record.timestamp_ms] = record.value["price"]
    return versions


@seeds(30, 2_000)
def test_each_version_is_found_by_its_time(seed: int) -> None:
    """Records out of order are at their time, the last one of a time counts, and late ones do not.

    The batches do not change the versions.
    """
    chance = random.Random(seed)
    records = [
        Record(chance.choice("ab"), {"price": number}, max(0, number // 2 + chance.randint(-25, 3)))
        for number in range(chance.randint(1, 60))
    ]
    driver = driver_of(_defined)
    begin = 0
    while begin < len(records):
        end = begin + chance.randint(1, 9)
        driver.pipe_input("prices", records[begin:end])
        begin = end
    store, expected = driver.window_store("price_history"), _versions(records)
    for key in "ab":
        of_key = sorted(expected.get(key, {}).items())
        found = [(one.window_start_ms, one.value["price"]) for one in store.fetch(key, 0, 1_000)]
        assert found == of_key
        for at_ms in range(60):
            as_of = [one.value["price"] for one in store.backward_fetch(key, 0, at_ms)][:1]
            assert as_of == [price for time_ms, price in of_key if time_ms <= at_ms][-1:]
