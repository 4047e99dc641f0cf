"""Tests of the dashboard's views in Chromium, with the real service."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from axe_core_python.selenium import Axe

from oriel.storage import DataLayout, StoreKind, WindowSpec
from oriel.storage.monitoring import record_topology
from tests.app.dashboard_driver import DESKTOP, PHONE, Dashboard
from tests.app.serving import Serving, ready_service
from tests.app.test_topology import DRAWING
from tests.storage.dead_letter_tables import add_dead_letters
from tests.storage.store_tables import NONE, StoreTable, make_definition
from tests.storage.waiting import wait_for, wait_until

pytestmark = pytest.mark.browser

_MINUTE_MS = 60_000
_START_MS = 1_357_034_400_000  # 2013-01-01 10:00
_HOSTILE = "<img src=x onerror=\"document.title='owned'\">&amp;\"'"
_TUMBLING = WindowSpec(StoreKind.TUMBLING, _MINUTE_MS, 0)
_SESSIONS = WindowSpec(StoreKind.SESSION, 30 * _MINUTE_MS, _MINUTE_MS)
_SLIDING = WindowSpec(StoreKind.SLIDING, 10 * _MINUTE_MS, 0)
_VIEWS: dict[str, dict[str, object]] = {
    "overview": {},
    "windows": {"store": "departures", "key": "EWR"},
    "merged": {"store": "departures", "key": "EWR", "step": 600_000},
    "sliding": {"store": "sliding", "key": "EWR"},
    "sessions": {"store": "visits", "key": "EWR"},
    "rows": {"store": "totals", "key": "EWR"},
    "wall": {"view": "wall", "store": "departures"},
    "letters": {"view": "letters"},
    "board": {"view": "board", "chart": ["store=departures&key=EWR", "store=visits&key=EWR"]},
}


def _make_stores(data: Path) -> None:
    """Create a store of each kind. Minutes 10:12 to 10:14 are missing, and the last 5 are open."""
    record_topology(DataLayout(data), "shop", DRAWING)
    minutes = StoreTable(data, make_definition("departures", window=_TUMBLING))
    minutes.commit([
        {
            "key": "EWR", "start": _START_MS + _MINUTE_MS * i, "n": (i * 7) % 13,
            "mean": None if i == 20 else i / 3, "final": i < 25,
        }
        for i in range(30)
        if i not in {12, 13, 14}
    ])  # fmt: skip
    minutes.commit(
        [
            {"key": _HOSTILE, "start": 10, "n": 2**63 - 1, "last": _HOSTILE},
            {"key": "JFK", "start": _START_MS, "n": 3},
        ]
    )
    visits = StoreTable(data, make_definition("visits", window=_SESSIONS))
    visits.commit([{"key": "EWR", "start": s, "end": s + 90_000} for s in (0, 86_400_000)])
    sliding = StoreTable(data, make_definition("sliding", window=_SLIDING))
    rows = [(0, 1, 10), (8, 4, 18), (11, 3, 18), (15, 1, 18)]
    sliding.commit(
        [
            {"key": "EWR", "start": s * _MINUTE_MS, "n": n, "timestamp": t * _MINUTE_MS}
            for s, n, t in rows
        ]
    )
    totals = StoreTable(data, make_definition("totals", window=NONE))
    totals.commit([{"key": "EWR", "n": 41}, {"key": "JFK", "n": 7}])
    add_dead_letters(
        data, {"offset": 17_494_801, "raw": b"{broken"}, {"offset": 2, "reason": "no-key"}
    )


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Return the service with these stores. Tests add other stores and leave these unchanged."""
    data = tmp_path_factory.mktemp("serving") / "data"
    _make_stores(data)
    with ready_service(data) as made:
        yield made


def test_the_overview_shows_every_store(page: Dashboard) -> None:
    """The overview has kind, rows, age, stream time, counters and a chart line of each store."""
    page.open()
    page.wait_for("h1", "Overview")
    lines = ".trend polyline[points]"
    wait_until(lambda: page.texts(lines), "three lines", lambda found: len(found) >= 3)
    stores = {row[0].split(",")[0]: row for row in page.rows()}
    departures = stores["departurestumbling"]
    assert departures[0] == "departurestumbling, 1 min, grace 0 ms"
    assert departures[1] == "29"
    assert departures[2].endswith(" ago")
    assert departures[3] == "1970-01-01 00:00:01"
    assert departures[6:8] == ["0", "0"]
    assert "n, " in departures[8]
    assert stores["slidingsliding"][0].endswith("sliding, 10 min difference, grace 0 ms")
    assert stores["visitssessions"][0].endswith("sessions, 30 min gap, grace 1 min")
    assert stores["totalsno windows"][1] == "2"
    page.browser.find_element("link text", "visits").click()
    page.wait_for("h1", "visits")
    assert "store=visits" in page.browser.current_url


def test_the_page_of_a_store_shows_the_windows_of_a_key(page: Dashboard) -> None:
    """The page has the chart, the table with states, the figure, and the position."""
    page.open(store="departures", key="EWR")
    page.wait_for_windows(27)
    rows = page.rows()
    assert [row[1] for row in rows[:6]] == ["open"] * 5 + ["final"]
    assert rows[0][0] == "2013-01-01 10:29:00"
    assert page.texts(".toggles button") == ["n", "mean"]
    assert page.text(".figure") == "8 records"
    assert page.text(".now .note") == (
        "count() in the current window of EWR, 2013-01-01 10:29:00 \N{EN DASH} 10:30:00 UTC, open"
    )
    words = page.text(".words")
    assert words.startswith("Last change ")
    assert "offset" not in words
    page.browser.find_element("xpath", "//summary[.='Position and counters']").click()
    assert ["events", "0", "200", "1970-01-01 00:00:01"] in page.rows()
    assert page.browser.title == "EWR · departures · Oriel"


_COLUMNS_OF_CHART = """
    const [rows, done] = arguments;
    import("/page/parts/columns.js").then(({ pointColumns }) =>
        done(pointColumns(rows, "n", { kind: "tumbling", size_ms: 10 })));
"""


def test_a_missing_window_breaks_the_line(page: Dashboard) -> None:
    """A step ends with its window, and the line of open windows starts at the final windows."""
    page.open(store="departures", key="EWR")
    page.wait_for_windows(27)
    final = {"window_start_ms": 0, "window_end_ms": 10, "n": 1, "final": True}
    rows = [
        final,
        {**final, "window_start_ms": 30, "window_end_ms": 40, "n": 2},
        {**final, "window_start_ms": 40, "window_end_ms": 50, "n": 3, "final": False},
    ]
    instants, finals, opens, *_ = page.browser.execute_async_script(_COLUMNS_OF_CHART, rows)
    assert [round(1000 * instant) for instant in instants] == [0, 9, 20, 30, 40, 49]
    assert finals == [1, 1, None, 2, 3, None]
    assert opens == [None, None, None, None, 3, 3]


def test_hover_and_keyboard_reach_the_same_facts(page: Dashboard) -> None:
    """Pointer, arrow keys and screen readers get the same line with the facts of a window."""
    page.open(store="departures", key="EWR")
    page.wait_for_windows(27)
    page.run("document.querySelector('.chart').focus()")
    page.press("\ue012")  # left, from the newest
    page.wait_for(".readout", "n 1 records · 2013-01-01 10:28:00 ")
    facts = page.text(".readout")
    assert "10:29:00 (1 min) · open · newest record" in facts
    assert page.attribute(".chart", "aria-valuetext") == facts
    assert page.run("return document.querySelector('tr.picked').firstChild.textContent") == (
        "2013-01-01 10:28:00"
    )
    page.press("\ue011")  # home
    page.wait_for(".readout", "n 0 records · 2013-01-01 10:00:00 ")
    script = """
        const over = document.querySelector(".u-over");
        const { right, top } = over.getBoundingClientRect();
        const at = { clientX: right - 30, clientY: top + 20, bubbles: true };
        over.dispatchEvent(new MouseEvent("mouseenter", at));
        over.dispatchEvent(new MouseEvent("mousemove", at));
    """
    page.run(script)
    page.wait_for(".readout", "2013-01-01 10:2")


def test_keys_are_searched_as_one_types(page: Dashboard) -> None:
    """Typing lists matching keys, and selecting one changes the chart and the address."""
    page.open(store="departures", key="EWR")
    page.wait_for_windows(27)
    page.type_key("J")
    wait_for(["JFK"], lambda: page.texts("[role=option]"), "the offered keys")
    assert page.attribute(".chart", "data-windows") == "27"
    page.press("\ue015", "\ue007")  # down, enter
    page.wait_for_windows(1)
    assert "key=JFK" in page.browser.current_url
    page.type_key("Q")
    page.wait_for("#key-offered", "No keys with the prefix “Q”")
    page.press("\ue00c")  # escape
    assert page.run("return document.getElementById('key').value") == "JFK"
    page.browser.back()
    page.wait_for_windows(27)


def test_keys_that_are_numbers_are_all_offered(page: Dashboard) -> None:
    """Numeric keys are all offered in their order, and typed digits select one."""
    store = StoreTable(page.serving.data, make_definition("numbers", key_type="long"))
    store.commit([{"key": key, "start": 10} for key in ("-7", "9", "10")])
    page.serving.wait_until_ready("numbers")
    page.open(store="numbers", key="9")
    page.wait_for_windows(1)
    page.type_key("1")
    wait_for(["-7", "9", "10"], lambda: page.texts("[role=option]"), "the offered keys")
    page.press("0", "\ue007")  # enter
    page.wait_for_address("key=10")
    page.wait_for("h2", "10")


def test_a_key_without_windows_says_so(page: Dashboard) -> None:
    """A key without windows has a message instead of an empty chart or an alert."""
    page.open(store="departures", key="nobody")
    page.wait_for(".empty", "The key “nobody” has no windows.")
    assert page.texts(".chart") == []
    assert page.text("#problem") == ""


def test_text_from_the_store_stays_text(page: Dashboard) -> None:
    """Keys and values never become markup, and 64-bit integers keep all digits."""
    page.open(store="departures", key=_HOSTILE)
    page.wait_for("h2", _HOSTILE)
    (row,) = page.rows()
    assert _HOSTILE in row
    assert f"{2**63 - 1:,}" in row
    assert page.browser.title.startswith("<img src=x")
    assert page.run("return document.querySelectorAll('main img').length") == 0


def test_every_choice_is_a_link(page: Dashboard) -> None:
    """Aggregate, range and times are read from the address and written to it."""
    page.open(store="departures", key="EWR", aggregate="mean", range="all")
    page.wait_for_windows(27)
    assert page.texts(".toggles [aria-pressed=true]") == ["mean"]
    assert page.run("return document.getElementById('range').value") == "all"
    page.press_button("n")
    page.wait_for_address("aggregate=n&aggregate=mean")
    from_ms = _START_MS + 15 * _MINUTE_MS
    page.open(store="departures", key="EWR", **{"from": from_ms, "to": from_ms + 4 * _MINUTE_MS})
    page.wait_for_windows(5)
    assert f"from_ms={from_ms}" in page.text(".share code")


def test_times_are_in_utc_or_local(page: Dashboard) -> None:
    """The page remembers the choice between UTC and local time."""
    page.browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    page.open(store="departures", key="EWR")
    page.wait_for("td.time", "2013-01-01 10:29:00")
    page.browser.find_element("id", "zone").click()
    page.wait_for("td.time", "2013-01-01 15:59:00")
    assert "(local time)" in page.text("th")
    page.open(store="departures", key="EWR")
    page.wait_for("td.time", "2013-01-01 15:59:00")
    page.browser.find_element("id", "zone").click()
    page.wait_for("td.time", "2013-01-01 10:29:00")


def test_sessions_are_bars_over_time(page: Dashboard) -> None:
    """Sessions are shown as bars with start and end."""
    page.open(store="visits", key="EWR")
    page.wait_for_windows(2)
    assert page.texts("th")[0] == "session start (UTC)"
    first = page.rows()[0]
    assert (first[0], first[-2]) == ("1970-01-02 00:00:00", "1970-01-02 00:01:30")
    assert (
        "2 sessions of EWR, 1970-01-01 00:00:00 \N{EN DASH} 1970-01-02 00:01:30 UTC"
        in page.texts("h2")
    )


def test_the_timeline_shows_how_sliding_windows_overlap(page: Dashboard) -> None:
    """The timeline is closed at first, and has one bar per window of the chart."""
    page.open(store="sliding", key="EWR", later=1)
    page.wait_for_windows(4)
    assert page.text(".figure") == "4 records"
    script = "return [...document.querySelectorAll('rect')].map((bar) => bar.getAttribute(%r))"
    assert not page.run("return document.querySelector('rect').checkVisibility()")
    page.browser.find_element("xpath", "//summary[.='How these windows overlap']").click()
    assert page.run("return document.querySelector('rect').checkVisibility()")
    assert [float(x) for x in page.run(script % "x")] == [0, 320, 440, 600]
    assert {float(width) for width in page.run(script % "width")} == {400}
    assert set(page.run(script % "class")) == {"open"}


def test_a_store_without_windows_shows_its_rows(page: Dashboard) -> None:
    """The page has the row of the key and rows of keys with a prefix, and updates them."""
    totals = StoreTable(page.serving.data, make_definition("counts", window=NONE))
    totals.commit([{"key": "EWR", "n": 41}, {"key": "JFK", "n": 7}])
    page.serving.wait_until_ready("counts")
    page.open(store="counts", key="EWR")
    page.wait_for(".values", "41 records")
    assert [row[:2] for row in page.rows()] == [["EWR", "41"], ["JFK", "7"]]
    totals.commit([{"key": "EWR", "n": 42}])
    page.wait_for(".values", "42 records")
    page.browser.find_element("id", "prefix").send_keys("J")
    wait_for(["JFK"], lambda: [row[0] for row in page.rows()], "the rows")


def test_ranges_follow_the_store(page: Dashboard) -> None:
    """A changed window changes its range, and a new window can begin a range."""
    table = StoreTable(page.serving.data, make_definition("lanes", window=_TUMBLING))
    table.commit([{"key": "EWR", "start": _START_MS + i * _MINUTE_MS, "n": 5} for i in range(8)])
    page.serving.wait_until_ready("lanes")
    page.open(store="lanes", key="EWR", step=10 * _MINUTE_MS)
    wait_for(["40"], lambda: [row[2] for row in page.rows()], "the range of eight windows")
    table.commit([{"key": "EWR", "start": _START_MS + i * _MINUTE_MS, "n": 7} for i in (2, 9)])
    wait_for(["49"], lambda: [row[2] for row in page.rows()], "the changed range")
    table.commit([{"key": "EWR", "start": _START_MS + 11 * _MINUTE_MS, "n": 1}])
    wait_for(["1", "49"], lambda: [row[2] for row in page.rows()], "a new range")
    table.commit([{"key": "EWR", "start": _START_MS + 11 * _MINUTE_MS, "deleted": True}])
    wait_for(["49"], lambda: [row[2] for row in page.rows()], "the range without the new window")


def test_the_wall_shows_the_current_window_of_every_key(page: Dashboard) -> None:
    """The wall has a tile per key, sorted by value or change, that links to the key."""
    wall = StoreTable(page.serving.data, make_definition("gates", window=_TUMBLING))
    wall.commit([{"key": f"gate {i}", "start": _START_MS, "n": i} for i in range(5)])
    page.serving.wait_until_ready("gates")
    page.open(view="wall", store="gates")
    wait_until(lambda: page.texts(".tiles a"), "five tiles", lambda tiles: len(tiles) == 5)
    assert page.texts(".tiles .name") == [f"gate {i}" for i in (4, 3, 2, 1, 0)]
    page.run("const box = document.getElementById('sort'); box.value = 'change';"
             "box.dispatchEvent(new Event('change'))")  # fmt: skip
    page.wait_for_address("sort=change")
    wall.commit([{"key": "gate 2", "start": _START_MS, "n": 9}])
    wait_for(["▲ 7"], lambda: page.texts(".tiles .change")[:1], "the first change")
    assert page.texts(".tiles .name")[0] == "gate 2"
    page.run("document.querySelector('.tiles a').focus()")
    page.wait_for(".readout", "gate 2: 9 records, 2013-01-01 10:00:00")
    page.browser.find_element("css selector", ".tiles a").click()
    page.wait_for("h2", "1 window of gate 2")


def test_the_wall_shows_selected_keys(page: Dashboard) -> None:
    """A condition and a number of highest keys select tiles, and an invalid condition is named."""
    ranked = StoreTable(page.serving.data, make_definition("ranked", window=_TUMBLING))
    ranked.commit([{"key": f"key {n}", "start": _START_MS, "n": n} for n in range(30)])
    page.serving.wait_until_ready("ranked")
    page.open(view="wall", store="ranked")
    wait_for(30, lambda: len(page.texts(".tiles .name")), "all tiles")
    page.choose("top", "10")
    page.wait_for_address("top=10")
    highest = [f"key {number}" for number in range(29, 19, -1)]
    wait_for(highest, lambda: page.texts(".tiles .name"), "the highest keys")
    condition = page.browser.find_element("id", "where")
    condition.send_keys("n < 5 AND key <> 'key 3'\n")
    page.wait_for_address("where=")
    lowest = ["key 4", "key 2", "key 1", "key 0"]
    wait_for(lowest, lambda: page.texts(".tiles .name"), "the selected keys")
    ranked.commit([{"key": "key 4", "start": _START_MS, "n": 99}])
    wait_for(lowest[1:], lambda: page.texts(".tiles .name"), "the keys after the update")
    condition.clear()
    condition.send_keys("n >\n")
    page.wait_for("#problem", "where")
    assert [line for line in page.console() if "400" not in line] == []
    condition.clear()
    condition.send_keys("n > 1000\n")
    page.wait_for(".words", "The condition selects no keys")


def _dead_letters(page: Dashboard) -> list[list[str]]:
    """Return reason, record id, detail and record of each listed dead letter."""
    script = (
        "return [...document.querySelectorAll('.letters summary')]"
        ".map((summary) => [...summary.children].map((part) => part.textContent))"
    )
    return [list(parts) for parts in page.run(script)]


def test_dead_letters_are_listed_by_reason(page: Dashboard) -> None:
    """Each dead letter has its reason, record id and record, and opens with the keyboard."""
    page.open(view="letters")
    page.wait_for(".reasons", "not-json 1")
    assert _dead_letters(page)[0] == ["not-json", "t 0 17,494,801", "it is so", "{broken"]
    page.browser.find_element("link text", "no-key 1").click()
    wait_until(lambda: _dead_letters(page), "one dead letter", lambda found: len(found) == 1)
    page.run("document.querySelector('.letters summary').focus()")
    page.press("\ue007")  # enter
    page.wait_for(".fields", "topic t, partition 0, offset 2")
    assert "Reasonno-key" in page.text(".fields")
    assert page.text(".letters pre") == "2"


def test_a_dead_letter_opens_on_a_phone(page: Dashboard) -> None:
    """The reason is visible on a phone, and a tap shows the whole record."""
    page.open(view="letters")
    page.look(PHONE)
    page.wait_for(".reasons", "not-json 1")
    summary = page.browser.find_element("css selector", ".letters summary")
    edges = "const e = arguments[0].querySelector('strong').getBoundingClientRect();"
    assert page.run(f"{edges} return e.left >= 0 && e.right <= innerWidth", summary)
    summary.click()
    page.wait_for(".fields", "offset 17,494,801")
    assert page.text(".letters pre") == "{broken"


@pytest.mark.parametrize(
    ("window", "emit", "text"),
    [
        (WindowSpec(StoreKind.TUMBLING, 10_000, 0), "window-update", "tumbling, 10 s, grace 0 ms"),
        (
            WindowSpec(StoreKind.HOPPING, 86_400_000, 1_500, 3_600_000),
            "window-close",
            "hopping, 1 d every 1 h, grace 1,500 ms",
        ),
    ],
)
def test_it_says_what_the_windows_are(
    page: Dashboard, window: WindowSpec, emit: str, text: str
) -> None:
    """The page shows kind and parameters of the windows, and if only final rows are written."""
    store = f"other_{window.kind}"
    definition = replace(make_definition(store, window=window), emit=emit)
    StoreTable(page.serving.data, definition).commit([{"key": "EWR", "start": 0}])
    page.serving.wait_until_ready(store)
    page.open(store=store, key="EWR")
    page.wait_for(".title", text)
    assert ("The store has final windows only." in page.text(".words")) == (emit == "window-close")


def test_nothing_comes_from_elsewhere(page: Dashboard) -> None:
    """The page loads all its files from this service."""
    page.open(store="departures", key="EWR")
    page.wait_for_windows(27)
    names = page.run("return performance.getEntries().map((e) => e.name)")
    loaded = [name for name in names if "://" in name]
    assert loaded
    assert [name for name in loaded if not name.startswith(page.address)] == []


def _state(view: str) -> str:
    """Return how the page gets updates of a view. Two views have no stream."""
    return "every 2 s" if view in {"overview", "letters"} else "live"


@pytest.mark.parametrize("view", _VIEWS)
def test_everybody_can_use_it(page: Dashboard, view: str) -> None:
    """Axe finds no violation in any size and theme, and no text is smaller than 12 px."""
    page.open(**_VIEWS[view])
    wait_until(lambda: page.text("#view"), "the view")
    page.wait_for("#state", _state(view))
    for size in (DESKTOP, PHONE):
        for theme in ("light", "dark"):
            page.look(size, theme)
            page.run("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
            violations = Axe().run(page.browser)["violations"]
            found = [
                (v["id"], [(n["html"][:200], n["failureSummary"]) for n in v["nodes"]])
                for v in violations
            ]
            assert found == [], (size, theme)
        script = (
            "return [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility()"
            " && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())"
            " && parseFloat(getComputedStyle(e).fontSize) < 12 && !e.matches('.state'))"
            ".map((e) => e.outerHTML)"
        )
        assert page.run(script) == []
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), size


_REACHABLE = """
    const [selector] = arguments;
    return [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility())
        .map((e) => e.id || e.textContent.trim().slice(0, 40) || e.className);
"""
_REACHED = """
    const e = document.activeElement;
    return e.id || e.textContent.trim().slice(0, 40) || e.className;
"""


@pytest.mark.parametrize("view", ["overview", "merged", "sliding", "rows", "letters", "board"])
def test_the_keyboard_alone_reaches_everything(page: Dashboard, view: str) -> None:
    """The Tab key focuses each link, button, input, chart and table in their order."""
    page.open(**_VIEWS[view])
    page.wait_for("#state", _state(view))
    there = page.run(
        _REACHABLE, "a[href], button:not(:disabled), input, select, summary, [tabindex='0']"
    )
    reached = []
    for _ in there:
        page.press("\ue004")  # tab
        reached.append(page.run(_REACHED))
    assert reached == there
