"""Random views of random stores: chart, table and request have the same windows, also live.

A model in this file computes the expected windows from the rows that the test wrote.
"""

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from oriel.storage import StoreKind, WindowSpec
from tests.app.dashboard_driver import Dashboard
from tests.app.serving import Serving, ready_service
from tests.storage.store_tables import Row, StoreTable, make_definition
from tests.storage.waiting import wait_for, wait_until

pytestmark = pytest.mark.browser

_START_MS = 1_357_034_400_000  # 2013-01-01 10:00
_MINUTE_MS = 60_000
_SIZE_MS = 10 * _MINUTE_MS
_ADVANCE_MS = 3 * _MINUTE_MS
_KEYS = ("EWR", "JFK")
_VIEWS_PER_TEST = 25
_SPECS = {
    "tumbling": WindowSpec(StoreKind.TUMBLING, _SIZE_MS, 0),
    "hopping": WindowSpec(StoreKind.HOPPING, _SIZE_MS, 0, _ADVANCE_MS),
    "sliding": WindowSpec(StoreKind.SLIDING, _SIZE_MS, 0),
    "session": WindowSpec(StoreKind.SESSION, _SIZE_MS, 0),
}
_Window = tuple[str, int, int]


def _spans(kind: str, times: Sequence[int]) -> list[tuple[int, int]]:
    """Return start and end of every window that contains one of the sorted, distinct times."""
    if kind == "session":
        spans: list[tuple[int, int]] = []
        for t in times:
            if spans and t - spans[-1][1] <= _SIZE_MS:
                spans[-1] = (spans[-1][0], t)
            else:
                spans.append((t, t))
        return spans
    if kind == "sliding":
        starts = {t - _SIZE_MS for t in times} | {t + 1 for t in times}
        held = [s for s in starts if any(s <= t <= s + _SIZE_MS for t in times)]
    else:
        step = _SIZE_MS if kind == "tumbling" else _ADVANCE_MS
        held = [s for t in times for s in range(t // step * step, t - _SIZE_MS, -step)]
    return [(s, s + _SIZE_MS) for s in sorted(set(held))]


def _rows(kind: str, key: str, times: Sequence[int]) -> list[Row]:
    rows: list[Row] = []
    for start, end in _spans(kind, times):
        is_in = [t for t in times if start <= t and (t < end or (t == end and kind[0] == "s"))]
        rows.append({
            "key": key, "start": start, "end": end, "n": len(is_in), "timestamp": is_in[-1],
            "final": end < _START_MS + 60 * _MINUTE_MS,
        })  # fmt: skip
    return rows


Stores = dict[str, dict[str, list[Row]]]


def _make_stores(data: Path, numbers: random.Random) -> Stores:
    stores: Stores = {}
    for kind, window in _SPECS.items():
        table = StoreTable(data, make_definition(kind, window=window))
        stores[kind] = {}
        for key in _KEYS:
            count = numbers.choice((3, 40, 150))
            offsets = numbers.sample(range(120 * _MINUTE_MS), count)
            # Some times equal the start or the end of a window.
            edges = [t // _MINUTE_MS * _MINUTE_MS for t in offsets[::3]]
            times = sorted({_START_MS + t for t in (*offsets, *edges)})
            stores[kind][key] = _rows(kind, key, times)
        table.commit([row for rows in stores[kind].values() for row in rows])
    return stores


Made = tuple[Serving, Stores]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """Yield a service over random stores of each kind, and the rows of each store and key."""
    data = tmp_path_factory.mktemp("agree") / "data"
    stores = _make_stores(data, random.Random(31))
    with ready_service(data) as serving:
        yield serving, stores


@pytest.fixture
def serving(made: Made) -> Serving:
    """Return the service of the page."""
    return made[0]


def _drawn_at(kind: str, row: Row) -> int:
    """Return the time of a window in the chart: the end if windows overlap, otherwise the start."""
    return int(row["end"] if kind in {"sliding", "hopping"} else row["start"])


def _current(kind: str, rows: Sequence[Row]) -> Row:
    newest_ms = max(row["timestamp"] for row in rows)
    if kind == "sliding":
        return next(row for row in rows if row["end"] == newest_ms)
    if kind == "session":
        return max(rows, key=lambda row: int(row["end"]))
    return next(row for row in rows if row["start"] <= newest_ms < row["end"])


def _expected(kind: str, rows: Sequence[Row], choice: dict[str, Any]) -> list[_Window]:
    """Return the windows of one key in a view, the oldest first."""
    current = _current(kind, rows)
    name, _, amount = str(choice.get("range", "newest-100")).partition("-")
    from_ms, to_ms = choice.get("from"), choice.get("to")
    has_times = from_ms is not None or to_ms is not None

    def is_in(row: Row) -> bool:
        if kind == "session":
            first, last, now = row["end"], row["start"], current["end"]
        else:
            first = last = _drawn_at(kind, row)
            now = _drawn_at(kind, current)
            if "later" not in choice and last > now:
                return False
        if not has_times:
            return name != "last" or bool(first >= now - int(amount))
        return (from_ms is None or first >= from_ms) and (to_ms is None or last <= to_ms)

    found = [row for row in rows if is_in(row)]
    if not has_times and name == "newest":
        found = found[-int(amount) :]
    return [(row["key"], row["start"], row["end"]) for row in found]


def _random_choice(numbers: random.Random) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "store": numbers.choice(list(_SPECS)),
        "key": numbers.sample(_KEYS, numbers.choice((1, 1, 2))),
        "aggregate": numbers.choice((["n"], ["mean"], ["n", "mean"])),
    }
    times = sorted(_START_MS + numbers.randrange(-20, 140) * _MINUTE_MS for _ in range(2))
    match numbers.randrange(4):
        case 0:
            choice["range"] = numbers.choice(("newest-7", "newest-100", "newest-1000", "all"))
        case 1:
            choice["range"] = f"last-{numbers.randrange(1, 150) * _MINUTE_MS}"
        case 2:
            choice |= {"from": times[0], "to": times[1]}
        case _:
            choice |= numbers.choice(({"from": times[0]}, {"to": times[1]}))
    if numbers.random() < 0.25:
        choice["later"] = 1
    return choice


def _requested(page: Dashboard) -> list[_Window]:
    """Return the windows that the request on the page returns."""
    windows: list[_Window] = []
    for url in re.findall(r"'([^']+)'", page.text(".share code")):
        body = page.serving.get(url.removeprefix(page.address.rstrip("/"))).json
        assert body["next_cursor"] is None or "limit=7" in url or "limit=100" in url
        windows += [(w["key"], w["window_start_ms"], w["window_end_ms"]) for w in body["windows"]]
    return windows


#: The rows of the table, undefined before the page shows a view.
_ITEMS = "document.querySelector('section[aria-label=Windows] .scroll')?.items"


def _go(page: Dashboard, choice: dict[str, Any]) -> None:
    """Show another view in the same page."""
    forget = f"if ({_ITEMS} !== undefined) {_ITEMS.replace('?', '')} = undefined;"
    page.run(f"{forget} location.hash = arguments[0]", urlencode(choice, doseq=True))


def _check(page: Dashboard, rows_of: dict[str, list[Row]], choice: dict[str, Any]) -> None:
    kind = choice["store"]
    expected = [w for key in choice["key"] for w in _expected(kind, rows_of[key], choice)]
    wait_until(lambda: page.run(f"return {_ITEMS} !== undefined"), f"the windows of {choice}")
    assert sorted(page.windows()) == sorted(expected), choice
    assert sorted(_requested(page)) == sorted(expected), choice
    assert page.drawn() == expected, choice
    if page.drawn() and "later" not in choice:
        currents = [_current(kind, rows_of[key]) for key in choice["key"]]
        last_ms = max(
            int(row["end"]) if kind in {"session", "tumbling"} else _drawn_at(kind, row)
            for row in currents
        )
        first, last = page.axis()
        assert last <= last_ms + max(500, 0.011 * (last - first)) + 1, choice
    if expected:
        assert page.text("section[aria-label=Windows] h2").startswith(f"{len(expected):,} ")


@pytest.mark.parametrize("seed", range(8))
def test_chart_table_and_request_agree(page: Dashboard, made: Made, seed: int) -> None:
    """Chart, table and request agree in random views, and in selected ranges of the chart."""
    _, stores = made
    numbers = random.Random(seed)
    page.open()
    for number in range(_VIEWS_PER_TEST):
        choice = _random_choice(numbers)
        rows_of = stores[choice["store"]]
        _go(page, choice)
        _check(page, rows_of, choice)
        if number % 3 or not page.drawn():
            continue
        before = page.browser.current_url
        page.run(f"{_ITEMS.replace('?', '')} = undefined")
        page.drag(*sorted((numbers.uniform(0.02, 0.48), numbers.uniform(0.52, 0.98))))
        url = wait_until(
            lambda: page.browser.current_url,
            "a drawn range",
            lambda url: url != before,  # noqa: B023
        )
        bounds = {name: int(ms) for name, ms in re.findall(r"(from|to)=(\d+)", url)}
        kept = {name: content for name, content in choice.items()
                if name not in {"range", "from", "to"}}  # fmt: skip
        _check(page, rows_of, {**kept, **bounds})


def _values(page: Dashboard) -> list[tuple[str, int, int, int, bool]]:
    script = (
        f"return {_ITEMS}.map((w) => [w.key, w.window_start_ms, w.window_end_ms, w.n, w.final])"
    )
    return sorted((key, start, end, n, final) for key, start, end, n, final in page.run(script))


@pytest.mark.parametrize("kind", _SPECS)
@pytest.mark.parametrize("bounds", [
    {"range": "newest-7"}, {"range": f"last-{30 * _MINUTE_MS}"}, {"range": "all"},
    {"range": "newest-100", "later": 1},
    {"from": _START_MS + 20 * _MINUTE_MS, "to": _START_MS + 90 * _MINUTE_MS},
])  # fmt: skip
def test_a_view_follows_every_commit(
    page: Dashboard, made: Made, kind: str, bounds: dict[str, Any]
) -> None:
    """After new, late and merging records, the page has the same windows as a new page."""
    serving, _ = made
    numbers = random.Random(f"{kind} {bounds}")
    name = f"{kind}_{len(list(serving.data.glob('tables/*')))}"
    table = StoreTable(serving.data, make_definition(name, window=_SPECS[kind]))
    times: dict[str, list[int]] = {key: [_START_MS + 1, _START_MS + 2] for key in _KEYS}
    rows_of = {key: _rows(kind, key, times[key]) for key in _KEYS}
    table.commit([row for rows in rows_of.values() for row in rows])
    serving.wait_until_ready(name)
    choice = {"key": list(_KEYS), **bounds}
    page.open(store=name, **choice)
    page.wait_for("#state", "live")
    for number in range(12):
        changed: list[Row] = []
        for key in numbers.sample(_KEYS, numbers.choice((1, 2))):
            newest_ms = times[key][-1]
            new = [newest_ms + numbers.randrange(12 * _MINUTE_MS) for _ in range(3)]
            if number % 3 == 2:
                new.append(numbers.randrange(_START_MS, newest_ms + 1))
            times[key] = sorted({*times[key], *new})
            before = {(row["start"], row["end"]): row for row in rows_of[key]}
            rows_of[key] = _rows(kind, key, times[key])
            now = {(row["start"], row["end"]): row for row in rows_of[key]}
            changed += [row for span, row in now.items() if before.get(span) != row]
            changed += [
                {"key": key, "start": span[0], "end": span[1], "deleted": True}
                for span in before if span not in now
            ]  # fmt: skip
        table.commit(changed)
        n_of = {
            (row["key"], row["start"], row["end"]): (row["n"], row["final"])
            for rows in rows_of.values() for row in rows
        }  # fmt: skip
        expected = sorted(
            (*window, *n_of[window])
            for key in _KEYS for window in _expected(kind, rows_of[key], choice)
        )  # fmt: skip
        wait_for(expected, lambda: _values(page), f"the windows after commit {number}")
