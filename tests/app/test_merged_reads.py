"""Tests of merged windows over HTTP, against plain lists."""

import ctypes
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import orjson
import pytest

from oriel import StreamsBuilder, TimeWindows
from oriel import aggregates as agg
from oriel.app.contract import MediaType
from oriel.app.reads import pages
from oriel.app.reads.merged import read as merged_read
from oriel.storage import AggregateSpec, StoreDefinition, WindowSpec
from oriel.testing import Record, TopologyTestDriver
from tests.app.api_client import ApiResponse, Served, served
from tests.app.problem_shape import assert_problem
from tests.app.selections import ordered, random_order
from tests.storage.followed import check_in_this_process
from tests.storage.store_tables import (
    HOPPING,
    NONE,
    SESSION,
    SLIDING,
    TUMBLING,
    make_definition,
    make_record,
)

ROOT = "/v1/stores/store"
#: Windows of the test stores have 10 ms.
SIZE_MS = TUMBLING.size_ms
KEYS = ("a", "a/b", "é", "")
AGGREGATES = (
    AggregateSpec("n", "count()", "long"),
    AggregateSpec("whole", "sum(w)", "long"),
    AggregateSpec("total", "t1, t2: sum(v)", "double"),
    AggregateSpec("low", "min(v)", "double"),
    AggregateSpec("high", "max(w)", "long"),
    AggregateSpec("first", "min(s)", "string"),
    AggregateSpec("any", "max(b)", "boolean"),
)
_VALUES: Mapping[str, Sequence[Any]] = {
    "n": (0, 1, 7, 2**62),
    "whole": (2**63 - 1, -(2**63), 2**62, 1, 0, -5, None),
    "total": (0.1, 1e16, 1.0, -1e16, 1e308, -1e308, 1.7e308, 5e-324, -0.0, -0.1, None),
    "low": (-1.5, 0.0, 1e300, 5e-324, None),
    "high": (2**63 - 1, -(2**63), 0, 3, None),
    "first": ("a", "é", "z", "\U0001f600", "\uffff", "", None),
    "any": (True, False, None),
}

Item = dict[str, Any]


def definition_of(aggregates: Sequence[AggregateSpec], **changes: Any) -> StoreDefinition:
    """Return a definition of tumbling windows with these aggregates."""
    return replace(make_definition(window=TUMBLING, **changes), aggregates=tuple(aggregates))


def random_rows(choice: random.Random, count: int) -> list[Item]:
    """Return windows of random keys, starts and values."""
    rows = {}
    for _ in range(count):
        key, start = choice.choice(KEYS), SIZE_MS * choice.randrange(80)
        rows[key, start] = {
            "key": key,
            "start": start,
            "final": start < 300 or choice.random() < 0.5,
            "timestamp": start + choice.randrange(SIZE_MS),
            **{name: choice.choice(values) for name, values in _VALUES.items()},
        }
    return list(rows.values())


def expected_ranges(
    rows: Sequence[Item], key: str, step_ms: int, close_ms: int, earliest_ms: int = 0
) -> list[Item]:
    """Return the ranges of a key by the rules, from a list of windows."""
    ranges = []
    for start in range(0, 10_000, step_ms):
        end = start + step_ms
        inside = [row for row in rows if row["key"] == key and start <= row["start"] < end]
        if not inside or start < earliest_ms:
            continue
        ranges.append({
            "key": key,
            "window_start_ms": start,
            "window_end_ms": end,
            **{each.name: _merged(each, [row[each.name] for row in inside]) for each in AGGREGATES},
            "timestamp_ms": max(row["timestamp"] for row in inside),
            "final": end <= close_ms and False not in [row["final"] for row in inside],
        })  # fmt: skip
    return ranges


def _merged(aggregate: AggregateSpec, values: Sequence[Any]) -> Any:
    values = [value for value in values if value is not None]
    if not values:
        return None
    if "min" in aggregate.function:
        return min(values, key=_ordered)
    if "max" in aggregate.function:
        return max(values, key=_ordered)
    if aggregate.type == "long":
        return ctypes.c_int64(sum(values)).value
    exact = sum(map(Fraction, values), Fraction())
    # The doubles from 2**1024 - 2**970 on are rounded to infinity, which JSON does not have.
    return None if abs(exact) >= 2**1024 - 2**970 else exact.numerator / exact.denominator


def _ordered(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def ranges_of(response: ApiResponse) -> list[Any]:
    """Return the ranges of a response."""
    assert response.status == 200, response.body
    return list(response.json["windows"])


def all_pages(store: Served, target: str, body: bytes | None = None) -> list[Any]:
    """Return the ranges of all pages of a read with a query."""
    found, cursor = [], ""
    while True:
        response = store.get(target + cursor) if body is None else store.post(target + cursor, body)
        found += ranges_of(response)
        if response.json["next_cursor"] is None:
            return found
        cursor = f"&cursor={response.json['next_cursor']}"


class Model:
    """A served store, and the windows that it has."""

    def __init__(self, store: Served, rows: Sequence[Item], close_ms: int) -> None:
        self.store = store
        self.rows = rows
        self.close_ms = close_ms

    def check_random_read(self, choice: random.Random) -> None:
        """Compare a random read with the list."""
        keys = choice.sample((*KEYS, "none"), k=choice.randint(1, 5))
        step_ms = SIZE_MS * choice.choice((1, 2, 3, 6, 10, 100))
        from_ms, to_ms = choice.choice(((0, 10_000), (choice.randint(-99, 900), 700)))
        query: Item = {"step_ms": step_ms, "limit": choice.choice((3, 20, 10_000)),
                 "from_ms": from_ms, "to_ms": to_ms}  # fmt: skip
        is_final = choice.choice((None, None, True, False))
        columns = choice.choice((None, ("n",), ("any", "total"), tuple(_VALUES)))
        if is_final is not None:
            query["final"] = str(is_final).lower()
        if columns is not None:
            query["columns"] = ",".join(columns)
        wanted = [
            _chosen(item, columns)
            for key in keys
            for item in expected_ranges(self.rows, key, step_ms, self.close_ms)
            if from_ms <= item["window_start_ms"] <= to_ms and is_final in {None, item["final"]}
        ]
        conditions = [c for c in _CONDITIONS if c[0] in {"key", *(columns or _VALUES)}]
        holds: Callable[[Item], bool] = bool
        if choice.random() < 0.4:
            _, query["where"], holds = choice.choice(conditions)
            wanted = [item for item in wanted if holds(item)]
        order = []
        if choice.random() < 0.3:
            order = random_order(choice, ("key", "timestamp_ms", *(columns or _VALUES)))
            texts = ["-" * is_descending + name for name, is_descending in order]
            query["order_by"] = ",".join(texts)
        target, body = f"mergedOfKeys?{urlencode(query)}", orjson.dumps(keys)
        expected = ordered(wanted, order) if order else wanted
        assert all_pages(self.store, f"{ROOT}/{target}", body) == expected, (target, keys)
        self._check_all_keys(choice, dict(query), holds, order)
        target = f"merged/{quote(keys[0], safe='')}?{urlencode(query)}"
        wanted = [item for item in wanted if item["key"] == keys[0]]
        expected = ordered(wanted, order) if order else wanted
        assert all_pages(self.store, f"{ROOT}/{target}") == expected, target

    def _check_all_keys(
        self,
        choice: random.Random,
        query: Item,
        holds: Callable[[Item], bool],
        order: Sequence[tuple[str, bool]],
    ) -> None:
        """Compare the same read of all keys in a range with the list."""
        columns = query["columns"].split(",") if "columns" in query else None
        bounds = choice.choice(({}, {"prefix": "a"}, {"key_from": "a"}, {"key_to": "a/b"}))
        wanted = [
            _chosen(item, columns)
            for key in sorted(KEYS, key=str.encode)
            if key.startswith(bounds.get("prefix", ""))
            and key >= bounds.get("key_from", "")
            and key <= bounds.get("key_to", "é")
            for item in expected_ranges(self.rows, key, query["step_ms"], self.close_ms)
            if query["from_ms"] <= item["window_start_ms"] <= query["to_ms"]
            and query.get("final") in {None, str(item["final"]).lower()}
        ]
        wanted = [item for item in wanted if holds(item)]
        target = f"{ROOT}/mergedAll?{urlencode(query | bounds)}"
        assert all_pages(self.store, target) == (ordered(wanted, order) if order else wanted), (
            target
        )


#: A column, a condition about it, and the function that says the same.
_CONDITIONS: Sequence[tuple[str, str, Callable[[Item], bool]]] = (
    ("key", "key LIKE 'a%'", lambda item: item["key"].startswith("a")),
    ("key", "window_start_ms >= 200", lambda item: item["window_start_ms"] >= 200),
    ("n", "n > 7", lambda item: item["n"] > 7),
    ("total", "total IS NULL", lambda item: item["total"] is None),
    ("first", "first = 'a'", lambda item: item["first"] == "a"),
)


def _chosen(item: Item, columns: Sequence[str] | None) -> Item:
    left_out = set() if columns is None else _VALUES.keys() - set(columns)
    return {name: value for name, value in item.items() if name not in left_out}


@contextmanager
def served_ranges(data: Path, choice: random.Random, count: int = 300) -> Iterator[Model]:
    """Yield a store with at most ``count`` random windows, for reads only."""
    close_ms, rows = 400, random_rows(choice, count)
    made = Served(data, definition_of(AGGREGATES))
    made.table.commit(rows, make_record(0, close_ms=close_ms))
    made.index()
    yield Model(made, rows, close_ms)
    made.service.catalog.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """Return a store with random windows, for reads only."""
    with served_ranges(tmp_path_factory.mktemp("merged"), random.Random(11)) as made:
        yield made


@pytest.mark.parametrize("seed", range(24))
def test_random_ranges_equal_a_list(model: Model, seed: int) -> None:
    """Ranges of random steps, bounds, columns and pages are those of a plain list."""
    model.check_random_read(random.Random(seed))


@pytest.mark.parametrize("step", [1, 7])
def test_short_steps_change_nothing(
    model: Model, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Ranges with more windows than a step reads have the same values."""
    monkeypatch.setattr(pages, "_FIRST_STEP", step)
    monkeypatch.setattr(pages, "_STEP", step)
    monkeypatch.setattr(merged_read, "_STEP", 5)
    for seed in range(100, 104):
        model.check_random_read(random.Random(seed))


def test_pages_with_few_bytes_or_records_continue(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page ends with the range that reaches its bytes, or before a range that it cannot end."""
    monkeypatch.setattr(pages, "PAGE_BYTES_MAX", 300)
    monkeypatch.setattr(merged_read, "PAGE_BYTES_MAX", 300)
    monkeypatch.setattr(pages, "SCAN_RECORDS_MAX", 120)
    monkeypatch.setattr(pages, "_FIRST_STEP", 8)
    monkeypatch.setattr(pages, "_STEP", 8)
    for seed in range(200, 204):
        model.check_random_read(random.Random(seed))


def test_the_last_hour_by_minute_is_one_request(tmp_path: Path) -> None:
    """Windows of ten seconds merge to minutes, in every format, with the position."""
    second = 1000
    spec = WindowSpec(TUMBLING.kind, 10 * second, 0)
    definition = replace(definition_of(AGGREGATES[:1]), window=spec)
    made = Served(tmp_path, definition)
    rows = [{"key": "a", "start": at * second, "n": 1} for at in range(0, 3_700, 10)]
    made.commit(*rows)
    target = f"{ROOT}/merged/a?step_ms=60000&from_ms=60000&to_ms=3659999&limit=60"
    response = made.get(target)
    assert [item["n"] for item in ranges_of(response)] == [6] * 60
    assert response.json["position"]["version"] == 1
    for media in MediaType:
        formatted = made.get(target, [("Accept", media)])
        assert formatted.status == 200
        assert formatted.headers["content-type"].startswith(media)
        assert media is MediaType.JSON or formatted.headers["oriel-items"] == "60"
    lines = made.get(f"{target}&times=iso", [("Accept", "text/csv")]).body.splitlines()
    assert lines[0] == b'"key","window_start","window_end","n","timestamp","final"'
    assert lines[1].startswith(b'"a","1970-01-01T00:01:00.000Z","1970-01-01T00:02:00.000Z",6,')
    tag = response.headers["etag"]
    assert made.get(target, [("If-None-Match", tag)]).status == 304
    made.service.catalog.close()


def test_a_range_is_final_if_no_window_can_be_added(tmp_path: Path) -> None:
    """Final windows are not enough: the last window of the range must also be closed."""
    made = Served(tmp_path, definition_of(AGGREGATES[:1]))
    made.table.commit(
        [{"key": "a", "start": start, "final": start < 40} for start in (0, 20, 40)],
        make_record(0, close_ms=39),
    )
    made.index()
    target = f"{ROOT}/merged/a?step_ms=20"
    assert [item["final"] for item in ranges_of(made.get(target))] == [True, False, False]
    made.table.commit([], make_record(1, close_ms=40))
    made.index()
    assert [item["final"] for item in ranges_of(made.get(target))] == [True, True, False]
    assert [item["window_start_ms"] for item in ranges_of(made.get(f"{target}&final=true"))] == [
        0, 20,
    ]  # fmt: skip
    made.service.catalog.close()


def test_a_range_expires_with_its_first_windows(tmp_path: Path) -> None:
    """A range whose first windows have expired is left out."""
    made = Served(tmp_path, definition_of(AGGREGATES[:1], retention_ms=35))
    rows = [{"key": "a", "start": start} for start in range(0, 60, 10)]
    made.table.commit(rows, make_record(0, observed_ms=50))
    made.index()
    # Windows from 16 on are visible.
    for step_ms, starts in ((10, [20, 30, 40, 50]), (20, [20, 40]), (30, [30]), (60, [])):
        found = ranges_of(made.get(f"{ROOT}/merged/a?step_ms={step_ms}"))
        assert [item["window_start_ms"] for item in found] == starts
    made.service.catalog.close()


def test_ranges_as_of_a_version(tmp_path: Path) -> None:
    """An earlier version of the table has its own ranges."""
    made = Served(tmp_path, definition_of(AGGREGATES[:1]))
    with check_in_this_process():
        made.commit({"key": "a", "start": 0, "n": 1}, {"key": "a", "start": 10, "n": 2})
        made.commit({"key": "a", "start": 10, "n": 5}, {"key": "a", "start": 20, "n": 7})
        for version, counts in ((0, []), (1, [3]), (2, [6, 7])):
            target = f"?step_ms=20&as_of_version={version}"
            found = ranges_of(made.get(f"{ROOT}/merged/a{target}"))
            assert [item["n"] for item in found] == counts
            found = ranges_of(made.post(f"{ROOT}/mergedOfKeys{target}", b'["a", "b"]'))
            assert [item["n"] for item in found] == counts
            found = all_pages(made, f"{ROOT}/mergedAll{target}&limit=1")
            assert [item["n"] for item in found] == counts
    made.service.catalog.close()


def test_a_commit_in_a_long_range_does_not_mix_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that a commit ends has whole ranges, and the next page has the other ones."""
    monkeypatch.setattr(pages, "_FIRST_STEP", 3)
    monkeypatch.setattr(pages, "_STEP", 3)
    made = Served(tmp_path, definition_of(AGGREGATES[:1]))
    made.commit(*({"key": "a", "start": start, "n": 1} for start in range(0, 120, 10)))
    steps = made.service.gate.steps
    run, turns = steps.run, list[Callable[[], Any]]()

    async def commit_in_between(step: Callable[[], Any]) -> Any:
        turns.append(step)
        if len(turns) == 3:
            made.commit(*({"key": "a", "start": start, "n": 9} for start in range(0, 120, 10)))
        return await run(step)

    view = made.service.catalog.view("store")
    with monkeypatch.context() as patch:
        patch.setattr(steps, "run", commit_in_between)
        first = made.get(f"{ROOT}/merged/a?step_ms=60").json
    # The commit removed it from the catalog, and a process can open an index only once.
    view.close()
    # Three steps have read nine windows of the first version.
    assert ([item["n"] for item in first["windows"]], len(turns)) == ([6], 3)
    rest = made.get(f"{ROOT}/merged/a?step_ms=60&cursor={first['next_cursor']}").json
    assert [item["n"] for item in rest["windows"]] == [54]
    assert rest["position"]["version"] == first["position"]["version"] + 1
    made.service.catalog.close()


@pytest.mark.parametrize(
    ("key", "listed", "unfit"), [("7", 7, "x"), ("-3", "-3", "1.5")], ids=["7", "-3"]
)
def test_keys_have_the_type_of_the_store(
    tmp_path: Path, key: str, listed: object, unfit: str
) -> None:
    """Keys that are numbers are found as strings and as values, and others are rejected."""
    made = Served(tmp_path, definition_of(AGGREGATES[:1], key_type="long"))
    made.commit(*({"key": key, "start": start, "n": 1} for start in (0, 10)))
    found = ranges_of(made.get(f"{ROOT}/merged/{key}?step_ms=20"))
    assert [(item["key"], item["n"]) for item in found] == [(key, 2)]
    body = orjson.dumps([listed])
    assert ranges_of(made.post(f"{ROOT}/mergedOfKeys?step_ms=20", body)) == found
    assert_problem(made.get(f"{ROOT}/merged/{unfit}"), 400, "unfit-key")
    assert_problem(made.post(f"{ROOT}/mergedOfKeys", orjson.dumps([unfit])), 400, "unfit-key")
    made.service.catalog.close()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("columns=n&step_ms=15", ("multiple of 10", "step_ms=20")),
        ("columns=n&step_ms=3", ("multiple of 10", "step_ms=10")),
        ("columns=n&step_ms=100010", ("at most 100000", "10,000 windows")),
        ("step_ms=0", ("step_ms must be an integer",)),
        ("step_ms=x", ("step_ms must be an integer",)),
        ("columns=n,x", ("column 'x' does not exist",)),
        ("columns=mean", ("mean = avg(v) cannot be merged", "Send columns=n.")),
        ("", ("mean = avg(v) cannot be merged", "Send columns=n.")),
    ],
)
def test_requests_that_cannot_be_exact_are_rejected(
    tmp_path: Path, query: str, words: Sequence[str]
) -> None:
    """A step that divides windows, and aggregates that cannot be merged, name the solution."""
    with served(tmp_path, window=TUMBLING) as made:
        made.commit({"key": "a", "start": 10})
        response = made.get(f"{ROOT}/merged/a?{query}")
        assert_problem(response, 400, "invalid-parameter", *words)
        response = made.post(f"{ROOT}/mergedOfKeys?{query}", b'["a"]')
        assert_problem(response, 400, "invalid-parameter", *words)


@pytest.mark.parametrize("window", [HOPPING, SLIDING, SESSION, NONE], ids=lambda one: one.kind)
def test_other_kinds_of_stores_are_rejected(tmp_path: Path, window: WindowSpec) -> None:
    """Windows that overlap, sessions and rows cannot be merged. The problem has a solution."""
    with served(tmp_path, window=window) as made:
        made.commit({"key": "a", "start": 10})
        words = {
            NONE: ("it has no windows", "get"),
            SESSION: ("session windows", "Add a store with tumbling windows", "findSessions"),
        }.get(window, (f"{window.kind} windows", "Add a store with tumbling windows", "fetch"))
        for response in (
            made.get(f"{ROOT}/merged/a?columns=n"),
            made.post(f"{ROOT}/mergedOfKeys?columns=n", b'["a"]'),
            made.get(f"{ROOT}/mergedAll?columns=n"),
        ):
            assert_problem(response, 400, "wrong-store-kind", *words)


def test_a_store_with_no_mergeable_aggregate_names_what_to_add(tmp_path: Path) -> None:
    """Without an aggregate that can be merged, the problem says which to add."""
    made = Served(tmp_path, definition_of([AggregateSpec("mean", "avg(v)", "double")]))
    made.commit({"key": "a", "start": 10})
    response = made.get(f"{ROOT}/merged/a")
    assert_problem(response, 400, "invalid-parameter", "materialize the store with mergeable=True")
    made.service.catalog.close()


def test_the_greatest_ranges_of_listed_keys(model: Model) -> None:
    """An order with ``top`` returns the first ranges of all listed keys in one page."""
    body = orjson.dumps(KEYS)
    target = f"{ROOT}/mergedOfKeys?step_ms=100&columns=n"
    items = all_pages(model.store, target, body)
    top = model.store.post(f"{target}&order_by=-n&top=3", body)
    assert ranges_of(top) == ordered(items, [("n", True)])[:3]
    assert top.json["next_cursor"] is None
    response = model.store.post(f"{target}&order_by=-total", body)
    assert_problem(response, 400, "invalid-parameter", "'total' does not exist")
    response = model.store.get(f"{ROOT}/merged/a?columns=n&where=total%20%3E%201")
    assert_problem(response, 400, "invalid-parameter", "total")


def test_ranges_equal_the_windows_of_a_store_with_longer_windows(tmp_path: Path) -> None:
    """Ranges of the engine's windows are the engine's windows of the step, with equal values."""
    choice, step_ms = random.Random(3), 6 * SIZE_MS
    schema = "w BIGINT, v DOUBLE, s STRING, b BOOLEAN"
    builder = StreamsBuilder()
    for name, size_ms in (("short", SIZE_MS), ("long", step_ms)):
        windows = TimeWindows.of_size_and_grace(size_ms, 10_000)
        builder.stream("t", schema).group_by_key().windowed_by(windows).aggregate(
            n=agg.count(), whole=agg.sum("w"), total=agg.sum("v"), low=agg.min("v"),
            high=agg.max("w"), first=agg.min("s"), any=agg.max("b"),
        ).materialize(name)  # fmt: skip
    driver = TopologyTestDriver(builder.build())
    # All sums are exact without rounding.
    values = {"w": (2**63 - 1, -(2**63), 3, None), "v": (0.25, -8.5, 1e6, None),
              "s": ("é", "z", "\U0001f600", "\uffff", None), "b": (True, False, None)}  # fmt: skip
    records = [
        Record("a", {name: choice.choice(of) for name, of in values.items()}, choice.randrange(900))
        for _ in range(200)
    ]
    driver.pipe_input("t", records)
    short, long = (driver.window_store(name).all() for name in ("short", "long"))
    made = Served(tmp_path, definition_of(AGGREGATES))
    made.commit(*({"key": w.key, "start": w.window_start_ms, "timestamp": w.timestamp_ms, **w.value}
                  for w in short))  # fmt: skip
    assert ranges_of(made.get(f"{ROOT}/merged/a?step_ms={step_ms}")) == [
        {
            "key": "a", "window_start_ms": w.window_start_ms, "window_end_ms": w.window_end_ms,
            "timestamp_ms": w.timestamp_ms, "final": False, **w.value,
        }
        for w in long
    ]  # fmt: skip
    made.service.catalog.close()


def test_a_cursor_belongs_to_its_step(model: Model) -> None:
    """A cursor of another step or key is rejected."""
    cursor = model.store.get(f"{ROOT}/merged/a?step_ms=20&limit=1").json["next_cursor"]
    for target in ("merged/a?step_ms=30", "merged/é?step_ms=20", "fetch/a?limit=1"):
        response = model.store.get(f"{ROOT}/{quote(target, safe='/?=&')}&cursor={cursor}")
        assert_problem(response, 400, "invalid-cursor", "another request")
