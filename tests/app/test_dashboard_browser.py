"""The dashboard in real Chromium, over the real service."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from oriel.storage import StoreKind, WindowSpec
from tests.app.serving import Serving
from tests.storage.store_tables import NONE, StoreTable, make_definition
from tests.storage.waiting import wait_until

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.browser

_HOSTILE = "<img src=x onerror=\"document.title='owned'\">&amp;\"'"


def _make_departures(data: Path, name: str = "departures") -> StoreTable:
    """A store with a plain key of 30 windows, the last 5 open, and a hostile one."""
    table = StoreTable(data, make_definition(name))
    start_ms = 1_357_034_400_000
    table.commit([
        {
            "key": "EWR", "start": start_ms + 60_000 * i, "n": (i * 7) % 13,
            "mean": None if i == 12 else i / 3, "final": i < 25,
        }
        for i in range(30)
    ])  # fmt: skip
    table.commit([{"key": _HOSTILE, "start": 10, "n": 2**63 - 1, "last": _HOSTILE}])
    return table


def _serve(data: Path) -> Serving:
    _make_departures(data)
    serving = Serving(data)
    wait_until(lambda: serving.get("/readyz").status == 200, "readiness")
    return serving


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The service over that store; tests add stores of other names, and leave this one alone."""
    made = _serve(tmp_path_factory.mktemp("serving"))
    yield made
    made.end()


@pytest.fixture
def ending(tmp_path: Path) -> Iterator[Serving]:
    """Such a service for a test that ends it."""
    made = _serve(tmp_path / "data")
    yield made
    made.end()


def _open(browser: "Chrome", serving: Serving, **choice: str) -> None:
    browser.get(f"http://127.0.0.1:{serving.port}/#{urlencode(choice)}")


def _texts(browser: "Chrome", selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
    return list(browser.execute_script(script, selector))


def _rows(browser: "Chrome") -> int:
    return len(_texts(browser, "tbody tr"))


def _facts(browser: "Chrome") -> dict[str, str]:
    return dict(zip(_texts(browser, "dt"), _texts(browser, "dd"), strict=True))


def _alert(browser: "Chrome") -> str:
    script = "const p = document.getElementById('problem'); return p.hidden ? '' : p.textContent"
    return str(browser.execute_script(script))


def test_it_shows_the_windows_of_a_key(browser: "Chrome", serving: Serving, tmp_path: Path) -> None:
    """Table with final and open marks, a line for each numeric aggregate, position, counters."""
    browser.set_window_size(1200, 1000)
    _open(browser, serving, store="departures", key="EWR")
    wait_until(lambda: _rows(browser) == 30, "30 rows")
    assert _texts(browser, ".mark") == ["open"] * 5 + ["final"] * 25
    assert _texts(browser, "#charts h2") == ["n", "mean"]
    assert len(_texts(browser, "[data-chart=n] .dot")) == 30
    assert len(_texts(browser, "[data-chart=mean] .dot")) == 29
    facts = _facts(browser)
    assert facts["Table version"] == "2"
    assert facts["Includes records below"] == "events:0:200"
    assert facts["Applied"] == "200"
    assert "2013-01-01 10:29:00" in _texts(browser, "tbody tr")[0]
    assert _alert(browser) == ""
    assert browser.save_screenshot(str(tmp_path / "dashboard.png"))


def test_it_follows_new_versions(browser: "Chrome", serving: Serving) -> None:
    """A commit appears without a reload."""
    table = _make_departures(serving.data, "followed")
    _open(browser, serving, store="followed", key="EWR")
    wait_until(lambda: _rows(browser) == 30, "30 rows")
    table.commit([{"key": "EWR", "start": 1_357_034_400_000 + 60_000 * 30}])
    wait_until(lambda: _rows(browser) == 31, "31 rows")
    assert _texts(browser, "dd")[0] == "3"


def test_text_from_the_store_stays_text(browser: "Chrome", serving: Serving) -> None:
    """Neither key nor value becomes markup; 64-bit integers keep all digits."""
    _open(browser, serving, store="departures", key=_HOSTILE)
    wait_until(lambda: _rows(browser) == 1, "one row")
    row = _texts(browser, "tbody td")
    assert _HOSTILE in row
    assert str(2**63 - 1) in row
    assert browser.title == "Oriel"
    assert _texts(browser, "img") == []


def test_it_begins_with_the_first_store_and_key_and_lets_you_pick(
    browser: "Chrome", serving: Serving
) -> None:
    """No choice in the address: the first ones; typing another key shows that one."""
    _open(browser, serving)
    wait_until(lambda: _rows(browser) == 1, "the first key's row")
    box = browser.find_element("id", "key")
    assert box.get_property("value") == _HOSTILE
    box.clear()
    box.send_keys("EWR")
    wait_until(lambda: _rows(browser) == 30, "30 rows")
    assert "key=EWR" in browser.current_url


def test_errors_are_shown_kindly(browser: "Chrome", ending: Serving) -> None:
    """A key without windows says so; a service that is gone says so and keeps what was there."""
    _open(browser, ending, store="departures", key="JFK")
    wait_until(lambda: "JFK" in "".join(_texts(browser, "#empty")), "the note")
    _open(browser, ending, store="departures", key="EWR")
    browser.refresh()
    wait_until(lambda: _rows(browser) == 30, "30 rows")
    ending.end()
    wait_until(lambda: "can't be reached" in _alert(browser), "the alert")
    assert _rows(browser) == 30


def test_it_shows_sessions_with_start_and_end(browser: "Chrome", serving: Serving) -> None:
    """The store's kind and parameters in words, sessions newest first."""
    window = WindowSpec(StoreKind.SESSION, 1_800_000, 60_000)
    visits = StoreTable(serving.data, make_definition("visits", window=window))
    visits.commit([{"key": "EWR", "start": s, "end": s + 90_000} for s in (0, 86_400_000)])
    _open(browser, serving, store="visits", key="EWR")
    wait_until(lambda: _rows(browser) == 2, "2 rows")
    assert _facts(browser)["Windows"] == "sessions, 30 min gap, grace 1 min"
    heads = _texts(browser, "thead th")
    assert heads[:2] == ["session start (UTC)", "session end (UTC)"]
    row = _texts(browser, "tbody tr:first-child td")
    assert row[:2] == ["1970-01-02 00:00:00", "1970-01-02 00:01:30"]
    assert _texts(browser, "#caption") == ["Newest 2 sessions of EWR"]
    assert len(_texts(browser, "[data-chart=n] .dot")) == 2


def test_the_value_is_that_of_the_window_that_ends_at_the_newest_record(
    browser: "Chrome", serving: Serving
) -> None:
    """Not of the one with the greatest start, which lacks what came before that record."""
    store = StoreTable(serving.data, make_definition("newest"))
    rows = [(0, 1, 10), (8, 4, 18), (11, 3, 18), (15, 1, 18)]
    store.commit([{"key": "EWR", "start": s, "n": n, "timestamp": t} for s, n, t in rows])
    _open(browser, serving, store="newest", key="EWR")
    wait_until(lambda: _rows(browser) == 4, "4 rows")
    (value,) = _texts(browser, "[data-chart=n] .value")
    assert value.startswith("4 current")


def test_it_shows_the_row_of_a_store_without_windows(browser: "Chrome", serving: Serving) -> None:
    """Values without lines and without window columns; it follows, and says when there is none."""
    totals = StoreTable(serving.data, make_definition("totals", window=NONE))
    totals.commit([{"key": "EWR", "n": 41}])
    _open(browser, serving, store="totals", key="EWR")
    wait_until(lambda: _rows(browser) == 1, "the row")
    facts = _facts(browser)
    assert facts["Windows"] == "none, one row a key"
    assert "Final before" not in facts
    assert _texts(browser, "thead th") == ["n", "mean", "last", "all", "newest record (UTC)"]
    assert _texts(browser, "[data-chart=n] .value") == ["41"]
    assert _texts(browser, "#charts svg") == []
    totals.commit([{"key": "EWR", "n": 42}])
    wait_until(lambda: _texts(browser, "[data-chart=n] .value") == ["42"], "the new value")
    totals.commit([{"key": "EWR", "deleted": True}])
    wait_until(lambda: "no rows" in "".join(_texts(browser, "#empty")), "the note")
    assert _alert(browser) == ""


@pytest.mark.parametrize(
    ("window", "emit", "text"),
    [
        (WindowSpec(StoreKind.TUMBLING, 10_000, 0), "window-update", "tumbling, 10 s, grace 0 ms"),
        (
            WindowSpec(StoreKind.HOPPING, 86_400_000, 1_500, 3_600_000),
            "window-close",
            "hopping, 1 d every 1 h, grace 1500 ms",
        ),
        (
            WindowSpec(StoreKind.SLIDING, 7_200_000, 1),
            "window-update",
            "sliding, 2 h difference, grace 1 ms",
        ),
    ],
)
def test_it_says_what_the_windows_are(
    browser: "Chrome", serving: Serving, window: WindowSpec, emit: str, text: str
) -> None:
    """Kind and parameters in words, and whether only final rows are written."""
    store = f"other_{window.kind}"
    definition = replace(make_definition(store, window=window), emit=emit)
    StoreTable(serving.data, definition).commit([{"key": "EWR", "start": 0}])
    _open(browser, serving, store=store, key="EWR")
    wait_until(lambda: _rows(browser) == 1, "the row")
    facts = _facts(browser)
    assert facts["Windows"] == text
    assert facts.get("Rows") == ("only when final" if emit == "window-close" else None)


def test_nothing_comes_from_elsewhere(browser: "Chrome", serving: Serving) -> None:
    """All that the page loads is from this service, and the console is clean."""
    _open(browser, serving, store="departures", key="EWR")
    wait_until(lambda: _rows(browser) == 30, "30 rows")
    loaded = browser.execute_script("return performance.getEntries().map((e) => e.name)")
    origin = f"http://127.0.0.1:{serving.port}/"
    assert all(name.startswith(origin) for name in loaded if "://" in name)
    console = browser.get_log("browser")  # type: ignore[no-untyped-call]
    assert [entry for entry in console if entry["level"] == "SEVERE"] == []


def test_keys_that_are_numbers_are_typed_whole(browser: "Chrome", serving: Serving) -> None:
    """What is no number yet is told; the keys that there are stay offered."""
    table = StoreTable(serving.data, make_definition("numbers", key_type="long"))
    table.commit([{"key": key, "start": 10} for key in ("-7", "9", "10")])
    _open(browser, serving, store="numbers", key="9")
    wait_until(lambda: _rows(browser) == 1, "one row")
    box = browser.find_element("id", "key")
    box.clear()
    box.send_keys("-")
    wait_until(lambda: "64-bit integers" in _alert(browser), "what keys look like")
    box.send_keys("7")
    wait_until(lambda: _alert(browser) == "" and _rows(browser) == 1, "the row of -7")
    offered = "return [...document.querySelectorAll('#keys option')].map((e) => e.value)"
    assert list(browser.execute_script(offered)) == ["-7", "9", "10"]
