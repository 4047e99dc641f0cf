"""The dashboard during events: commits, restarts, many keys, tokens, pauses."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from oriel.app.guards.token import main as make_token
from oriel.storage import AggregateSpec, StoreKind, WindowSpec
from tests.app.dashboard_driver import Dashboard
from tests.app.serving import Serving
from tests.ports import reserved_port
from tests.storage.store_tables import NONE, StoreTable, make_definition
from tests.storage.waiting import wait_for, wait_until

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.browser

_MINUTE_MS = 60_000
_START_MS = 1_357_034_400_000  # 2013-01-01 10:00
_TUMBLING = WindowSpec(StoreKind.TUMBLING, _MINUTE_MS, 0)


def _make(data: Path, name: str, windows: int = 30) -> StoreTable:
    table = StoreTable(data, make_definition(name, window=_TUMBLING))
    table.commit(
        [{"key": "EWR", "start": _START_MS + _MINUTE_MS * i, "n": i} for i in range(windows)]
    )
    return table


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Yield a service to which each test adds its own store."""
    made = Serving(tmp_path_factory.mktemp("live") / "data")
    yield made
    made.end()


def _open(page: Dashboard, store: str, windows: int = 30) -> None:
    page.serving.wait_until_ready(store)
    page.open(store=store, key="EWR")
    page.wait_for_windows(windows)
    page.wait_for("#state", "live")


def test_a_commit_appears_by_itself(page: Dashboard) -> None:
    """After a new, changed or removed window, the page reads only possibly changed windows."""
    table = _make(page.serving.data, "followed")
    _open(page, "followed")
    table.commit([{"key": "EWR", "start": _START_MS + _MINUTE_MS * 30, "n": 99}])
    page.wait_for(".figure", "99 records")
    assert page.attribute(".chart", "data-windows") == "31"
    table.commit(
        [
            {"key": "EWR", "start": _START_MS + _MINUTE_MS * 30, "n": 98},
            {"key": "EWR", "start": _START_MS, "deleted": True},
            {"key": "JFK", "start": _START_MS, "n": 1},
        ]
    )
    page.wait_for(".figure", "98 records")
    page.wait_for_windows(30)
    assert page.rows()[0][0] == "2013-01-01 10:30:00"
    reads = page.run(
        "return performance.getEntriesByType('resource').map((e) => e.name)"
        ".filter((name) => name.includes('backwardFetch'))"
    )
    assert len(reads) == 3
    assert f"from_ms={_START_MS + _MINUTE_MS * 29 + 1}&" in reads[1]
    assert f"from_ms={_START_MS}&" in reads[2]


def test_a_changed_current_window_needs_no_request(page: Dashboard) -> None:
    """The stream has new values of the newest windows of each key, and new windows."""
    sums = AggregateSpec("n", "sum(v)", "long"), AggregateSpec("last", "last(s)", "string")
    definition = replace(make_definition("streamed", window=_TUMBLING), aggregates=sums)
    table = StoreTable(page.serving.data, definition)
    starts = [_START_MS + _MINUTE_MS * i for i in range(30)]
    table.commit([{"key": "EWR", "start": start, "n": 1} for start in starts])
    _open(page, "streamed")
    for start, n in ((starts[-1], 5), (starts[-1], 7), (starts[-1] + 3 * _MINUTE_MS, 9)):
        table.commit([{"key": "EWR", "start": start, "n": n, "last": f"last {n}"}])
        page.wait_for(".figure", str(n))
    page.wait_for_windows(31)
    assert [row[2:4] for row in page.rows()[:3]] == [["9", "last 9"], ["7", "last 7"], ["1", "x"]]
    reads = (
        "return performance.getEntriesByType('resource').map((e) => e.name)"
        ".filter((name) => name.includes('backwardFetch'))"
    )
    assert len(page.run(reads)) == 1
    # An older window is read again, and a removed one is left out.
    table.commit([{"key": "EWR", "start": starts[0], "n": 40}])
    wait_for(2, lambda: len(page.run(reads)), "the request")
    table.commit([{"key": "EWR", "start": starts[-1] + 3 * _MINUTE_MS, "deleted": True}])
    page.wait_for(".figure", "7")
    page.wait_for_windows(30)
    # Facts of all keys follow later.
    page.run("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    page.wait_for(".counters", "Table version6")


def test_what_is_selected_survives_an_update(page: Dashboard) -> None:
    """Selected text, the selected window and the focus do not change with an update."""
    table = _make(page.serving.data, "selected")
    _open(page, "selected")
    page.run("document.querySelector('.chart').focus()")
    page.press("\ue012")  # left
    page.wait_for(".readout", "10:28:00")
    page.run("getSelection().selectAllChildren(document.querySelector('tbody td.number'))")
    selected = page.run("return String(getSelection())")
    table.commit([{"key": "EWR", "start": _START_MS + _MINUTE_MS * 30, "n": 99}])
    page.wait_for(".figure", "99 records")
    assert page.run("return String(getSelection())") == selected == "29"
    assert "10:28:00" in page.text(".readout")
    assert page.run("return document.activeElement.className") == "chart"


def test_a_pause_keeps_what_is_shown(page: Dashboard) -> None:
    """A paused page does not change, and shows all events when it resumes."""
    table = _make(page.serving.data, "paused")
    _open(page, "paused")
    page.browser.find_element("id", "pause").click()
    page.wait_for("#state", "paused")
    version = table.commit([{"key": "EWR", "start": _START_MS + _MINUTE_MS * 30, "n": 99}])
    described = "/v1/stores/paused"
    wait_for(
        version, lambda: page.serving.get(described).json["position"]["version"], "the version"
    )
    assert page.text(".figure") == "29 records"
    page.browser.find_element("id", "pause").click()
    page.wait_for(".figure", "99 records")


def test_it_finds_a_key_among_100_000(page: Dashboard) -> None:
    """The search lists keys with the prefix, and the page follows the chosen key."""
    table = StoreTable(page.serving.data, make_definition("many", window=_TUMBLING))
    table.commit([{"key": f"sensor {i:06}", "start": _START_MS, "n": 1} for i in range(100_000)])
    page.serving.wait_until_ready("many")
    page.open(store="many")
    page.wait_for("h2", "sensor 000000")
    page.type_key("sensor 09876")
    offered = [f"sensor 09876{i}" for i in range(10)]
    wait_for(offered, lambda: page.texts("[role=option]"), "the offered keys")
    page.press("\ue015", "\ue015", "\ue007")  # down, down, enter
    page.wait_for("h2", "1 window of sensor 098761")
    page.wait_for("#state", "live")
    table.commit([{"key": "sensor 098761", "start": _START_MS + _MINUTE_MS, "n": 7}])
    page.wait_for(".figure", "7 records")


def test_the_table_has_all_windows_of_the_chart(page: Dashboard) -> None:
    """Only the rows in view are elements, and a scroll reaches the oldest window."""
    _make(page.serving.data, "long", windows=700)
    _open(page, "long", windows=100)
    page.choose("range", "all")
    page.wait_for_windows(700)
    scroll = (
        "const box = document.querySelector('section[aria-label=Windows] .scroll');"
        "box.scrollTop = box.scrollHeight"
    )

    def last_row() -> str:
        page.run(scroll)
        return page.rows()[-1][0]

    wait_for("2013-01-01 10:00:00", last_row, "the last row")
    assert len(page.rows()) < 60
    assert page.text("h2").startswith(
        "700 windows of EWR, 2013-01-01 10:00:00 \N{EN DASH} 21:40:00 UTC"
    )


@contextmanager
def _blocked(page: Dashboard, address: str) -> Iterator[None]:
    """Block the requests of the page whose address matches."""
    page.browser.execute_cdp_cmd("Network.enable", {})
    page.browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": [address]})
    try:
        yield
    finally:
        page.browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})


def test_it_asks_where_there_is_no_stream(page: Dashboard) -> None:
    """The page polls if a proxy blocks event streams."""
    table = _make(page.serving.data, "asked")
    page.serving.wait_until_ready("asked")
    with _blocked(page, "*/watch?*"):
        page.open(store="asked", key="EWR")
        page.wait_for("#state", "polling every 2 s")
        table.commit([{"key": "EWR", "start": _START_MS + _MINUTE_MS * 30, "n": 99}])
        page.wait_for(".figure", "99 records")
    assert [line for line in page.console() if "ERR_BLOCKED_BY_CLIENT" not in line] == []


def test_a_change_that_could_not_be_taken_is_made_up_for(page: Dashboard) -> None:
    """If a read after a change fails, the page repeats it, as the stream reports it once."""
    table = _make(page.serving.data, "failed")
    _open(page, "failed")
    with _blocked(page, "*/v1/stores/failed"):
        table.commit([{"key": "EWR", "start": _START_MS + _MINUTE_MS * 30, "n": 99}])
        page.wait_for("#problem", "can't be reached")
        assert page.attribute(".chart", "data-windows") == "30"
    page.wait_for(".figure", "99 records")
    page.wait_for_windows(31)
    wait_for("", lambda: page.text("#problem"), "the problem")
    assert [line for line in page.console() if "ERR_BLOCKED_BY_CLIENT" not in line] == []


def test_the_request_is_a_curl_line_and_its_response_a_file(page: Dashboard) -> None:
    """The curl line requests the visible windows, and CSV and Arrow files have the key's name."""
    _make(page.serving.data, "saved")
    _open(page, "saved")
    line = page.text(".share code")
    newest_ms = _START_MS + 29 * _MINUTE_MS
    path = f"v1/stores/saved/backwardFetch/EWR?to_ms={newest_ms}&limit=100"
    assert line == f"curl '{page.address}{path}'"
    directory = page.serving.data.with_name("downloads")
    page.browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(directory)}
    )
    for name, ending in (("Save CSV", "csv"), ("Save Arrow", "arrows")):
        page.browser.find_element("xpath", f"//button[.='{name}']").click()
        file = f"saved-EWR.{ending}"
        wait_until(lambda: {path.name for path in directory.glob("*")}, file, {file}.issubset)
    page.wait_for(".share", "Saved 30.")
    lines = (directory / "saved-EWR.csv").read_text().splitlines()
    assert len(lines) == 31
    assert lines[1].startswith('"EWR",')


def test_it_survives_a_restart_of_the_service(browser: "Chrome", tmp_path: Path) -> None:
    """The page reports an unavailable service, keeps its windows, and resumes by itself."""
    data = tmp_path / "data"
    table = _make(data, "departures")
    port = str(reserved_port())
    serving = Serving(data, "--port", port)
    serving.wait_until_ready("departures")
    page = Dashboard(browser, serving)
    _open(page, "departures")
    serving.end()
    page.wait_for("#problem", "The service can't be reached")
    assert page.attribute(".chart", "data-windows") == "30"
    table.commit([{"key": "EWR", "start": _START_MS + _MINUTE_MS * 30, "n": 99}])
    serving = Serving(data, "--port", port)
    try:
        page.wait_for(".figure", "99 records")
        page.wait_for("#state", "live")
        assert page.text("#problem") == ""
    finally:
        browser.get("about:blank")
        serving.end()
    page.console()


def test_a_service_with_tokens_asks_for_one(
    browser: "Chrome", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The token is kept for this tab and sent with all requests, and a wrong one is rejected."""
    data = tmp_path / "data"
    table = _make(data, "departures")
    tokens = tmp_path / "tokens.toml"
    make_token(["ana", "--file", str(tokens)])
    token = next(word for word in capsys.readouterr().out.split() if word.startswith("oriel_"))
    serving = Serving(data, "--tokens", str(tokens))
    page = Dashboard(browser, serving)
    try:
        page.open(store="departures", key="EWR")
        for text in ("oriel_wrong", token):
            page.wait_for("#ask h2", "requires a token")
            box = browser.find_element("id", "token-text")
            box.clear()
            box.send_keys(text, "\ue007")  # enter
        page.wait_for_windows(30)
        page.wait_for("#state", "live")
        table.commit([{"key": "EWR", "start": _START_MS + _MINUTE_MS * 30, "n": 99}])
        page.wait_for(".figure", "99 records")
        assert 'curl -H "Authorization: Bearer $ORIEL_TOKEN"' in page.text(".share code")
        assert token not in page.run("return document.documentElement.outerHTML")
        assert [line for line in page.console() if "401" not in line] == []
        browser.refresh()
        page.wait_for_windows(31)
    finally:
        page.run("sessionStorage.clear()")
        browser.get("about:blank")
        serving.end()


def test_a_token_for_some_keys_shows_these(
    browser: "Chrome", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page shows the rows and windows of the keys with the token's prefix."""
    data = tmp_path / "data"
    table = _make(data, "departures")
    totals = StoreTable(data, make_definition("totals", window=NONE))
    totals.commit([{"key": "EWR", "n": 41}, {"key": "JFK", "n": 7}])
    tokens = tmp_path / "tokens.toml"
    make_token(["ana", "--file", str(tokens), "--key-prefix", "EWR"])
    token = next(word for word in capsys.readouterr().out.split() if word.startswith("oriel_"))
    serving = Serving(data, "--tokens", str(tokens))
    page = Dashboard(browser, serving)
    try:
        page.open(store="totals", key="EWR")
        page.wait_for("#ask h2", "requires a token")
        browser.find_element("id", "token-text").send_keys(token, "\ue007")  # enter
        page.wait_for(".values", "41 records")
        assert [row[0] for row in page.rows()] == ["EWR"]
        page.console()
        page.open(store="departures", key="EWR")
        page.wait_for_windows(30)
        page.wait_for("#state", "live")
        table.commit([{"key": "EWR", "start": _START_MS + _MINUTE_MS * 30, "n": 99}])
        page.wait_for(".figure", "99 records")
        assert page.console() == []
    finally:
        page.run("sessionStorage.clear()")
        browser.get("about:blank")
        serving.end()
