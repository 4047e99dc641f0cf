"""The examples' topologies, over a few records whose windows can be counted by hand."""

from typing import Any

from examples import alert, clicks, orders
from oriel.testing import Record, TopologyTestDriver

MINUTE_MS = 60_000


def _at(minute: float, key: str, value: dict[str, Any]) -> Record:
    return Record(key, value, timestamp_ms=round(minute * MINUTE_MS))


def test_a_visit_ends_with_half_an_hour_of_silence() -> None:
    """Clicks of a user within the gap are one session, with its first and last page."""
    driver = TopologyTestDriver(clicks.topology)
    visits = [(0, "/", 80), (29, "/tea", 900), (58, "/pay", 70), (120, "/", 10)]
    driver.pipe_input(
        "clicks", [_at(minute, "ann", {"page": page, "ms": ms}) for minute, page, ms in visits]
    )
    first, second = driver.session_store("visits").fetch("ann")
    assert first.value == {
        "clicks": 3, "entry": "/", "exit": "/pay", "pages": 3, "slowest_ms": 900,
    }  # fmt: skip
    assert (first.window_end_ms, second.window_start_ms) == (58 * MINUTE_MS, 120 * MINUTE_MS)


def test_an_alert_waits_for_the_final_count() -> None:
    """A window is written when it is final, and not before."""
    driver = TopologyTestDriver(alert.topology)
    beat = {"battery": 50.0}
    driver.pipe_input("heartbeats", [_at(minute, "d", beat) for minute in range(20, 28)])
    driver.pipe_input("heartbeats", _at(40, "d", beat))
    # Windows that end at a heartbeat. The window that ends at minute 40 is open.
    assert _ends_and_beats(driver) == {
        20: 1, 21: 2, 22: 3, 23: 4, 24: 5, 25: 6, 26: 6, 27: 6,
    }  # fmt: skip
    driver.pipe_input("heartbeats", [_at(40.5, "d", beat), _at(50, "d", beat)])
    assert _ends_and_beats(driver)[40] == 1


def _ends_and_beats(driver: TopologyTestDriver) -> dict[int, int]:
    """Beats of each window that ends at a full minute, by that minute."""
    windows = driver.window_store(alert.STORE).fetch_all(0, 60 * MINUTE_MS)
    assert windows
    assert [window for window in windows if not window.final] == []
    return {
        window.window_end_ms // MINUTE_MS: window.value["beats"]
        for window in windows
        if window.window_end_ms % MINUTE_MS == 0
    }


def test_an_order_counts_for_the_city_of_its_customer() -> None:
    """An order of an unknown customer is left out. A changed city counts for later orders."""
    driver = TopologyTestDriver(orders.topology)
    driver.pipe_input("customers", _at(0, "c1", {"city": "Oslo", "since": 2020}))
    tea = {"item": "tea", "amount": 2.5}
    driver.pipe_input("orders", [_at(1, "c1", tea), _at(2, "c2", tea)])
    driver.pipe_input("customers", _at(3, "c1", {"city": "Lima", "since": 2020}))
    driver.pipe_input("orders", _at(4, "c1", tea))
    windows = driver.window_store("revenue_by_city")
    for city in ("Lima", "Oslo"):
        window = windows.fetch(city, 0)
        assert window is not None
        assert window.value == {"orders": 1, "revenue": 2.5, "largest": 2.5}
    assert driver.counters("revenue_by_city").filtered == 1
    (customer,) = driver.key_value_store("customers").all()
    assert customer.value["city"] == "Lima"
