"""Tests of a view's content: its windows, times, request, and the parameters of its address."""

import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oriel.storage import (
    AggregateSpec,
    DataLayout,
    Drawing,
    DrawnArrow,
    DrawnNode,
    StoreKind,
    WindowSpec,
)
from oriel.storage.monitoring import StoreRun, record_topology
from tests.app.api_client import write_pipeline_status
from tests.app.dashboard_driver import Dashboard
from tests.app.serving import Serving, ready_service
from tests.storage.store_tables import Row, StoreTable, make_definition, make_record
from tests.storage.waiting import wait_for, wait_until

pytestmark = pytest.mark.browser

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_START_MS = 1_357_034_400_000  # 2013-01-01 10:00
_SLIDING = WindowSpec(StoreKind.SLIDING, 10 * _MINUTE_MS, 0)
_TUMBLING = WindowSpec(StoreKind.TUMBLING, _MINUTE_MS, 0)


def _sliding_rows(key: str, minutes: int) -> list[Row]:
    """Return the windows of one record per minute (KIP-450). n counts the records in each."""
    times = range(minutes)
    starts = {t - 10 for t in times} | {t + 1 / 60_000 for t in times[:-1]}
    rows: list[Row] = []
    for start in sorted(starts):
        inside = [t for t in times if start <= t <= start + 10]
        start_ms = _START_MS + round(start * _MINUTE_MS)
        newest_ms = _START_MS + inside[-1] * _MINUTE_MS
        rows.append({"key": key, "start": start_ms, "n": len(inside), "timestamp": newest_ms})
    return rows


def _make_stores(data: Path) -> None:
    """Create sliding windows of an hour, and minutes with two recent keys and one old key."""
    sliding = StoreTable(data, make_definition("orders", window=_SLIDING))
    sliding.commit([*_sliding_rows("EWR", 61), *_sliding_rows("JFK", 31)])
    minutes = StoreTable(data, make_definition("minutes", window=_TUMBLING))
    minutes.commit([
        *({"key": key, "start": _START_MS + i * _MINUTE_MS, "n": 50 + i, "mean": i / 7}
          for key in ("EWR", "JFK") for i in range(60)),
        {"key": "OLD", "start": _START_MS - 21 * _HOUR_MS, "n": 7},
        {"key": "INF", "start": _START_MS, "mean": math.inf},
    ])  # fmt: skip
    gaps = StoreTable(data, make_definition("gaps", window=_TUMBLING))
    gaps.commit([
        *({"key": "EWR", "start": _START_MS + i * _MINUTE_MS} for i in (0, 1, 8, 9)),
        *({"key": "JFK", "start": _START_MS + i * _MINUTE_MS} for i in range(10)),
    ])  # fmt: skip
    mean = AggregateSpec("mean", "avg(v)", "double")
    averages = make_definition("averages", window=_TUMBLING)
    averages = replace(averages, aggregates=(mean,))
    StoreTable(data, averages).commit([{"key": "EWR", "start": _START_MS, "mean": 0.5}])
    many = StoreTable(data, make_definition("many", window=_TUMBLING))
    many.commit([
        {"key": "EWR", "start": _START_MS + i * _MINUTE_MS, "n": 1, "mean": float(i % 2 * 100)}
        for i in range(12_000)
    ])  # fmt: skip


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Return the service with these stores, which no test changes."""
    data = tmp_path_factory.mktemp("views") / "data"
    _make_stores(data)
    with ready_service(data) as made:
        yield made


_NEWEST_MS = _START_MS + _HOUR_MS


def _requested(page: Dashboard) -> list[tuple[str, int, int]]:
    """Return the windows that the request on the page returns."""
    windows = []
    for url in re.findall(r"'([^']+)'", page.text(".share code")):
        body = page.serving.get(url.removeprefix(page.address.rstrip("/"))).json
        windows += [(w["key"], w["window_start_ms"], w["window_end_ms"]) for w in body["windows"]]
    return windows


def test_the_chart_and_the_table_end_at_the_current_window(page: Dashboard) -> None:
    """Windows after the current one contain fewer records, and are shown on request."""
    page.open(store="orders", key="EWR")
    page.wait_for_windows(100)
    assert page.text(".figure") == "11 records"
    assert page.windows()[0] == ("EWR", _NEWEST_MS - 10 * _MINUTE_MS, _NEWEST_MS)
    assert page.drawn()[-1] == page.windows()[0]
    assert page.axis()[1] < _NEWEST_MS + _MINUTE_MS
    page.browser.find_element("xpath", "//summary[starts-with(., 'Times')]").click()
    page.browser.find_element("id", "later").click()
    page.wait_for_address("later=1")
    wait_until(page.drawn, "later windows", lambda drawn: drawn[-1][2] > _NEWEST_MS)


def test_a_drawn_range_contains_the_windows_that_it_covers(page: Dashboard) -> None:
    """Chart and request use the end of a sliding window, and one button shows the full range."""
    page.open(store="orders", key="EWR", range="all")
    page.wait_for_windows(111)
    first, last = page.axis()
    page.drag(0.25, 0.75)
    page.wait_for_address("from=")
    found = re.search(r"from=(\d+)&to=(\d+)", page.browser.current_url)
    assert found is not None
    from_ms, to_ms = int(found[1]), int(found[2])
    assert abs(from_ms - (first + 0.25 * (last - first))) < _MINUTE_MS
    ends = {end for _, _, end in wait_until(page.drawn, "fewer windows", lambda w: len(w) < 111)}
    times = {_START_MS + t * _MINUTE_MS for t in range(61)}
    assert {end for end in ends if end in times} == {t for t in times if from_ms <= t <= to_ms}
    assert [end for end in ends if not from_ms <= end <= to_ms] == []
    assert _requested(page) == page.windows()
    page.press_button("Full range")
    page.wait_for_windows(111)
    page.press_button("Back")
    wait_for(len(ends), lambda: len(page.drawn()), "the windows of the drawn range")


def test_the_last_hour_ends_at_the_current_window(page: Dashboard) -> None:
    """A range of time ends at the current window and has the length of its name."""
    page.open(store="orders", key="EWR", range="last-900000")
    page.wait_for(".share code", "from_ms")
    ends = [end for _, _, end in page.drawn()]
    assert (min(ends), max(ends)) == (_NEWEST_MS - 900_000, _NEWEST_MS)
    assert page.text("#range") != ""
    page.press_button("Zoom out")
    page.wait_for_address("from=")
    wait_until(page.drawn, "older windows", lambda drawn: drawn[0][2] == _NEWEST_MS - 1_800_000)


def test_the_title_and_the_request_are_those_of_the_shown_windows(page: Dashboard) -> None:
    """The title has number and times of the windows, and the request returns exactly these."""
    page.open(store="orders", key="EWR")
    page.wait_for_windows(100)
    assert _requested(page) == page.windows()
    assert "100 windows of EWR, 2013-01-01 10:0" in page.text("h2")
    assert page.text("h2").endswith(" \N{EN DASH} 11:00:00 UTC")
    to_ms = _START_MS + 20 * _MINUTE_MS
    page.open(store="orders", key="EWR", **{"from": to_ms - 3 * _MINUTE_MS, "to": to_ms})
    page.wait_for_windows(7)
    assert _requested(page) == page.windows()
    assert "7 windows of EWR, 2013-01-01 10:07:00 \N{EN DASH} 10:20:00 UTC" in page.text("h2")


def test_a_step_merges_the_windows_of_the_chart(page: Dashboard) -> None:
    """The chart, the table and the request have ranges of the chosen step."""
    page.open(store="minutes", key=["EWR", "JFK"])
    page.wait_for_windows(120)
    options = "return [...document.getElementById('step').options].map((e) => e.textContent)"
    assert page.run(options) == ["Each window", "10 min", "1 h", "6 h", "1 d"]
    assert "mean" in page.texts("th")
    page.choose("step", "600000")
    page.wait_for_address("step=600000")
    page.wait_for_windows(12)
    minutes = [10 * _MINUTE_MS * i for i in range(6)]
    spans = [(_START_MS + at, _START_MS + at + 10 * _MINUTE_MS) for at in minutes]
    assert page.drawn() == [(key, *span) for key in ("EWR", "JFK") for span in spans]
    assert sorted(_requested(page)) == sorted(page.windows()) == sorted(page.drawn())
    # The sum of 100 to 109. An average cannot be merged.
    assert page.rows()[0][3] == f"{sum(range(100, 110)):,}"
    assert not {"mean", "last"} & {*page.texts("th"), *page.texts(".toggles button")}
    assert page.text(".share code").count("step_ms=600000") == 2
    assert "12 merged windows of EWR, JFK, 2013-01-01 10:00:00 \N{EN DASH} 11:00:00" in page.text(
        "h2"
    )
    assert page.text(".figure") == "109 records"
    # The axis starts at the first range, although the newest 100 steps start earlier.
    assert page.axis()[0] > _START_MS - _MINUTE_MS
    assert page.console() == []
    page.choose("step", "")
    page.wait_for_windows(120)
    assert "step" not in page.browser.current_url


def test_a_step_has_the_newest_ranges_in_the_range_of_the_chart(page: Dashboard) -> None:
    """A number of windows is a number of steps, and bounds select ranges by their start."""
    page.open(store="many", key="EWR", step=600_000)
    page.wait_for_windows(100)
    last_ms = _START_MS + 12_000 * _MINUTE_MS
    assert page.drawn()[-1] == ("EWR", last_ms - 600_000, last_ms)
    assert page.drawn()[0] == ("EWR", last_ms - 60_000_000, last_ms - 59_400_000)
    page.open(store="many", key="EWR", step=3_600_000, range="last-21600000", compare=3_600_000)
    page.wait_for_windows(6)
    page.wait_for(".series", "1 h earlier")
    page.open(store="many", key="EWR", step=90_000)
    page.wait_for("#problem", "step_ms must be a multiple of 60000")
    assert ["400 (Bad Request)" in error for error in page.console()] == [True]


@pytest.mark.parametrize("store", ["orders", "averages"])
def test_a_store_that_cannot_be_merged_has_no_step(page: Dashboard, store: str) -> None:
    """The page offers no step, and shows the windows also if the address has a step."""
    page.open(store=store, key="EWR", step=600_000)
    page.wait_for(".figure", "11" if store == "orders" else "0.5")
    assert not page.run("return document.getElementById('step').checkVisibility()")
    assert "step_ms" not in page.text(".share code")


def test_a_board_shows_ranges(page: Dashboard) -> None:
    """A chart of a board has the step of its address."""
    chart = f"store=minutes&key=EWR&step={10 * _MINUTE_MS}&aggregate=mean&aggregate=n"
    page.open(view="board", chart=[chart])
    page.wait_for_windows(6)
    assert "windows merged to 10 min" in page.text(".board .note")


def test_several_keys_and_aggregates_share_a_chart(page: Dashboard) -> None:
    """Each series has a color and a name, the table has all keys, and each key can be removed."""
    page.open(store="orders", key=["EWR", "JFK"], aggregate=["n", "mean"])
    page.wait_for(".series", "JFK · mean")
    assert page.texts(".series li span") == ["EWR · n", "EWR · mean", "JFK · n", "JFK · mean"]
    assert {key for key, _, _ in page.windows()} == {"EWR", "JFK"}
    assert sorted(_requested(page)) == sorted(page.windows())
    newest = {key: end for key, _, end in page.drawn()}
    assert newest == {"EWR": _NEWEST_MS, "JFK": _NEWEST_MS - 30 * _MINUTE_MS}
    page.run("document.querySelector('[aria-label=\"Remove EWR\"]').click()")
    page.wait_for_address("key=JFK&aggregate=n&aggregate=mean")
    wait_for({"JFK"}, lambda: {key for key, _, _ in page.windows()}, "the keys of the table")
    page.browser.find_element("id", "add-key").click()
    page.wait_for("#add-key-offered", "EWR")
    page.press("E", "W", "R", "\ue007")  # enter
    page.wait_for_address("key=JFK&key=EWR")


def test_a_gap_of_one_key_stays_a_gap_next_to_another_key(page: Dashboard) -> None:
    """A line has no value at the times of another key between its own two windows."""
    page.open(store="gaps", key=["EWR", "JFK"])
    page.wait_for_windows(14)
    script = """
        const { data } = document.querySelector(".chart").plot;
        const at = data[0].findIndex((seconds) => seconds >= arguments[0] / 1000);
        return [data[2].slice(at, at + 5), data[6].slice(at, at + 5)];
    """
    one, other = page.run(script, _START_MS + 3 * _MINUTE_MS)
    assert [value for value in one if value is not None] == []
    assert [value for value in other if value is not None] != []


def test_times_are_typed(page: Dashboard) -> None:
    """From and To are in the chosen zone, and select windows by the time of the chart."""
    page.open(store="orders", key="EWR")
    page.wait_for_windows(100)
    page.browser.find_element("xpath", "//summary[starts-with(., 'Times')]").click()
    for box, text in (("from", "2013-01-01T10:17"), ("to", "2013-01-01T10:20")):
        page.run("document.getElementById(arguments[0]).value = arguments[1]", box, text)
    page.press_button("Apply")
    page.wait_for_windows(7)
    page.wait_for_address(f"from={_START_MS + 17 * _MINUTE_MS}&to={_START_MS + 20 * _MINUTE_MS}")
    page.run("document.querySelector('[aria-label=Earlier]').click()")
    page.wait_for_address(f"to={_START_MS + 17 * _MINUTE_MS}")


def test_an_earlier_range_and_a_threshold_are_drawn(page: Dashboard) -> None:
    """An earlier range has the same time axis, and the value axis contains the threshold."""
    page.open(store="orders", key="EWR", range="last-900000", compare=900_000, threshold=40)
    page.wait_for(".series", "15 min earlier")
    script = (
        "const { plot } = document.querySelector('.chart');"
        "return [plot.data.length, plot.scales['y records'].max,"
        " plot.data[5].filter((y) => y !== undefined && y !== null).length]"
    )
    columns, greatest, _ = page.run(script)
    assert columns == 1 + 2 * 4
    assert greatest > 40
    first, last = page.axis()
    assert last - first < 1.1 * 900_000


def test_units_and_decimals_are_chosen(page: Dashboard) -> None:
    """The address has the units and decimals, which the figure, the table and the facts use."""
    page.open(store="minutes", key="EWR", aggregate="mean")
    page.wait_for(".figure", "8.429")
    page.browser.find_element("xpath", "//summary[starts-with(., 'Times')]").click()
    script = """
        const [unit, decimals] = document.querySelectorAll(".formats input, .formats select");
        unit.value = "min";
        decimals.value = "1";
        unit.dispatchEvent(new Event("change", { bubbles: true }));
    """
    page.run(script)
    page.wait_for(".figure", "8.4 min")
    assert "format=mean%3A1%3Amin" in page.browser.current_url
    wait_for("8.4", lambda: page.rows()[0][3], "the mean in the table")


def test_the_value_axis_starts_at_zero_unless_it_is_fitted(page: Dashboard) -> None:
    """The value axis starts at 0 unless it is fitted to the values."""
    scale = "return document.querySelector('.chart').plot.scales['y records'].min"
    page.open(store="minutes", key="EWR")
    page.wait_for_windows(60)
    assert page.run(scale) == 0
    page.open(store="minutes", key="EWR", axis="fit")
    page.wait_for_windows(60)
    assert page.run(scale) > 40


def test_more_windows_than_pixels_are_drawn_as_their_mean(page: Dashboard) -> None:
    """Windows of one pixel are drawn as their mean, in a band from the least to the greatest."""
    page.open(store="many", key="EWR", aggregate="mean", range="all")
    page.wait_for_windows(12_000)
    script = """
        const [, final, open, least, greatest] = document.querySelector(".chart").plot.data;
        return [[...final, ...open], least, greatest].map((values) =>
            values.filter((value) => value !== null && value !== undefined));
    """
    means, least, greatest = page.run(script)
    assert 100 < len(means) < 1_300
    assert [mean for mean in means if not 40 < mean < 60] == []
    assert set(least) == {0}
    assert set(greatest) == {100}
    assert "mean of several windows" in page.text(".legend .mean")
    assert page.text("h2").startswith("12,000 windows of EWR")
    assert "The request returns 10,000 windows." in page.text("section[aria-label=Windows] .note")


def test_a_value_that_json_does_not_have_is_explained(page: Dashboard) -> None:
    """The table shows a dash for infinity, and explains it."""
    page.open(store="minutes", key="INF", aggregate="mean")
    page.wait_for("section[aria-label=Windows] .note", "null, NaN or infinite")
    assert page.rows()[0][3] == "\N{EN DASH}"


def test_an_unknown_store_is_no_lost_connection(page: Dashboard) -> None:
    """The state and the message say that the store does not exist."""
    page.open(store="nothing")
    page.wait_for("#problem", "nothing")
    assert page.text("#state") == "problem"
    assert [line for line in page.console() if "404" not in line] == []


def test_the_wall_lists_stale_windows_separately(page: Dashboard) -> None:
    """Only current windows are ranked, and each tile has the time of its window."""
    page.open(view="wall", store="minutes")
    page.wait_for(".stale h2", "2 stale windows")
    assert page.texts(".head ~ .tiles .name") == ["EWR", "JFK"]
    assert page.texts(".head ~ .tiles .when") == ["to 11:00:00"] * 2
    assert page.texts(".stale .name") == ["INF", "OLD"]
    assert page.texts(".stale .when") == ["01-01 10:01", "12-31 13:01"]
    page.choose("sort", "age")
    page.wait_for_address("sort=age")
    assert "The newest window ends at 2013-01-01 11:00:00 UTC." in page.text(".words")


def test_a_board_is_several_charts_in_one_link(page: Dashboard) -> None:
    """Charts are added from stores, moved and removed, and the link contains the whole board."""
    page.open(store="orders", key="EWR", range="last-900000")
    page.wait_for(".figure", "11 records")
    page.press_button("Add to board")
    page.wait_for(".board h2", "orders · EWR")
    page.open(store="minutes", key="JFK", aggregate="mean")
    page.wait_for(".figure", "8.429")
    page.press_button("Add to board")
    page.wait_for(".board h2", "minutes · JFK")
    page.browser.find_element("id", "title").send_keys("Both airports")
    page.wait_for("h1", "Both airports")
    url = page.browser.current_url
    page.browser.get("about:blank")
    page.browser.get(url)
    wait_for(["11 records", "8.429"], lambda: page.texts(".figure"), "the figures of the board")
    assert page.text("h1") == "Both airports"
    page.run("document.querySelectorAll('[aria-label=\"Move the chart up\"]')[1].click()")
    wait_for(["8.429", "11 records"], lambda: page.texts(".figure"), "the moved charts")
    page.run("document.querySelector('[aria-label=\"Remove the chart\"]').click()")
    wait_for(["11 records"], lambda: page.texts(".figure"), "the remaining chart")
    page.press_button("New board")
    page.wait_for(".empty", "This board has no chart.")
    page.open(view="board", chart="store=nothing&key=EWR")
    page.wait_for(".problem", "nothing")
    assert [line for line in page.console() if "404" not in line] == []


def test_stores_are_searched_by_name(page: Dashboard) -> None:
    """The overview shows the stores whose name contains the text."""
    page.open()
    page.wait_for(".stores", "orders")
    page.browser.find_element("id", "search").send_keys("MIN")
    wait_for(["minutes"], lambda: page.texts(".stores tbody a"), "the found stores")
    page.wait_for_address("search=MIN")
    page.browser.find_element("id", "search").send_keys("x")
    page.wait_for(".empty", "No store has “MINx” in its name.")


def test_the_topology_is_drawn_when_it_is_opened(page: Dashboard) -> None:
    """The overview draws boxes in columns. Without a topology, it shows what to do."""
    page.open()
    page.wait_for("#topology summary", "Topology")
    page.browser.find_element("css selector", "#topology summary").click()
    page.wait_for("#topology .note", "Start a pipeline")
    nodes = (
        DrawnNode("topic0", "topic", "orders"),
        DrawnNode("topic1", "topic", "users"),
        DrawnNode("store0", "store", "by_user", ("no windows",)),
        DrawnNode("join0", "join", "join(table 'users')"),
    )
    arrows = (
        DrawnArrow("topic0", "join0", ("filter('price > 1000000000000 AND city')",)),
        DrawnArrow("topic1", "join0"),
        DrawnArrow("join0", "store0"),
    )
    layout = DataLayout(page.serving.data)
    record_topology(layout, "shop", Drawing(nodes, arrows))
    summary = page.browser.find_element("css selector", "#topology summary")
    summary.click()
    summary.click()
    page.wait_for("#topology figcaption", "shop")
    assert page.texts(".topology .name tspan") == [
        "orders", "users", "by_user", "no windows", "join(table 'users')",
    ]  # fmt: skip
    assert page.text(".topology .step tspan") == "filter('price > 1000000000000…"
    left = (
        "return [...document.querySelectorAll('.topology rect')].map((e) => +e.getAttribute('x'))"
    )
    topic, other, store, join = page.run(left)
    assert topic == other < join < store
    shutil.rmtree(layout.topologies)
    assert [line for line in page.console() if "404" not in line] == []


def test_a_stopped_pipeline_is_shown_on_every_view(page: Dashboard) -> None:
    """The overview has state, lag and age of the log end, and other views have a message."""
    run = StoreRun(make_record(0), 12, 2, ("events", 0), {}, 0)
    reported = {"stores": {"minutes": run}, "log_ends": {"events": {"0": 142}}}
    write_pipeline_status(page.serving.data, "clicks", **reported, records_per_second=7.5)
    page.open()
    page.wait_for(".pipelines", "running")
    (pipeline,) = [row for row in page.rows() if row[0].startswith("clicks")]
    assert re.fullmatch(r"42 records, log end read \d+ s ago", pipeline[2])
    assert (pipeline[1], pipeline[3]) == ("running", "7.5")
    (minutes,) = [row for row in page.rows() if row[0].startswith("minutes")]
    assert minutes[4:6] == ["12", "events 0, at 1970-01-01 00:00:00"]
    page.open(store="minutes", key="EWR")
    page.wait_for("#state", "live")
    assert page.text("#pipelines") == ""
    write_pipeline_status(page.serving.data, "clicks", **reported, started_ms=1, log_ends_ms=1)
    page.wait_for("#state", "log unavailable")
    assert "Check that it can read its log." in page.text("#pipelines")
    write_pipeline_status(page.serving.data, "clicks", **reported, has_ended=True)
    page.wait_for("#state", "pipeline stopped")
    assert "Windows do not change. Pipeline clicks has not run since" in page.text("#pipelines")
    assert "Start it with the same --data." in page.text("#pipelines")
    page.open(store="orders", key="EWR")
    page.wait_for("#state", "live")
    page.open()
    page.wait_for(".pipelines", "stopped")
    (pipeline,) = [row for row in page.rows() if row[0].startswith("clicks")]
    assert pipeline[2].startswith("unknown, log end read ")
    write_pipeline_status(page.serving.data, "clicks", **reported, has_ended=True, retired_ms=1)
    page.wait_for(".pipelines", "retired")
    page.open(store="minutes", key="EWR")
    page.wait_for("#state", "live")
    assert page.text("#pipelines") == ""
