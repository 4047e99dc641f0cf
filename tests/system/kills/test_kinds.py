"""End to end, by kind of store: after all kills, HTTP returns the rows of the model."""

from collections.abc import Iterator
from itertools import product

import httpx
import pytest

from oriel.demo import serving
from tests.e2e.event_logs import ALL_KEYS, TWICE
from tests.system.kills.expected_rows import STORES, Expected, Json, kind_of
from tests.system.kills.killed_runs import Survivor
from tests.system.kills.kinds_topology import FRONT, LAYERS, PEAKS, RISES, TOPIC, TOTALS
from tests.system.kills.store_reads import StoreReads
from tests.system.kills.table_checks import emitted_rows

pytestmark = pytest.mark.e2e

WINDOWED = [store for store in STORES if kind_of(store) != "none"]
SESSIONS = [store for store in STORES if kind_of(store) == "session"]
BY_START = ("fetch", "backwardFetch", "latest", "window/300")
BY_END = ("findSessions", "backwardFindSessions", "session/300/300")
WRONG_KIND = (400, "wrong-store-kind")


@pytest.fixture(scope="module")
def client(killed: Survivor) -> Iterator[httpx.Client]:
    """Serve the data of the killed pipeline."""
    with serving(killed.data) as made:
        yield made


@pytest.fixture
def expected(survivor: Survivor, store: str) -> Expected:
    """Return the expected content of the test's store."""
    return survivor.stores[store]


@pytest.fixture
def reads(client: httpx.Client, store: str) -> StoreReads:
    """Return the reads of the test's store."""
    return StoreReads(client, store)


@pytest.mark.parametrize("store", STORES)
def test_counters_account_for_every_line(
    survivor: Survivor, expected: Expected, reads: StoreReads
) -> None:
    """Input = applied + late + dead-lettered + filtered, exactly, up to the end of the log.

    The same holds for the updates of sessions. How many tombstones they have depends on the batches
    of the partitions.
    """
    details = reads.details()
    counters = details["counters"]
    elements = {name: counters.pop(name) for name in list(counters) if name.startswith("elements")}
    assert bool(elements) == (expected.name == PEAKS)
    assert 2 * elements.get("elements", 0) == sum(elements.values())
    assert counters == expected.counters
    assert counters["input"] == sum(counters[name] for name in counters if name != "input")
    ends = {str(p): log[-1].offset + len(log[-1].raw) + 1 for p, log in survivor.lines.items()}
    rows = {f"store {FRONT}": {"0": counters["input"]}} if expected.name == LAYERS else {}
    assert details["position"]["offsets"] == {TOPIC: ends, **rows}
    assert details["definition"]["window"]["kind"] == expected.kind
    assert reads.keys() == sorted({key for key, _, _ in expected.rows}, key=str.encode)


@pytest.mark.parametrize("store", WINDOWED)
def test_windows_are_read_by_their_start(expected: Expected, reads: StoreReads) -> None:
    """Reads by start return the model's windows: pages, backward, bounds, latest, single."""
    for key in ALL_KEYS:
        wanted = expected.of_key(key)
        assert reads.pages("fetch", key) == wanted
        assert reads.pages("backwardFetch", key) == wanted[::-1]
        if not wanted:
            assert reads.problem("latest", key) == (404, "window-not-found")
            continue
        assert reads.items("latest", key) == wanted[-1:]
        low, high = (wanted[len(wanted) * i // 5]["window_start_ms"] for i in (1, 4))
        inside = [one for one in wanted if low <= one["window_start_ms"] <= high]
        bounds = {"from_ms": low, "to_ms": high}
        assert reads.pages("fetch", key, **bounds) == inside
        assert reads.pages("backwardFetch", key, **bounds) == inside[::-1]
        for one in wanted[:: len(wanted) // 5 + 1]:
            start = one["window_start_ms"]
            # If two sessions have the same start, the read returns the session that ends first.
            first = next(other for other in wanted if other["window_start_ms"] == start)
            assert reads.items(f"window/{start}", key) == [first]


@pytest.mark.parametrize("store", STORES)
def test_reads_of_the_whole_store(expected: Expected, reads: StoreReads) -> None:
    """Reads of a whole store or a key range are sorted by key, start and end, or reversed."""
    keys = sorted({key for key, _, _ in expected.rows}, key=str.encode)
    wanted = [one for key in keys for one in expected.of_key(key)]
    assert reads.all_pages("all") == wanted
    backwards, ranges = ("backwardAll", "fetchRange") if expected.is_windowed else (
        "reverseAll", "range",
    )  # fmt: skip
    assert reads.all_pages(backwards) == wanted[::-1]
    middle = keys[len(keys) // 3 : 2 * len(keys) // 3 + 1]
    inside = [one for one in wanted if middle[0] <= one["key"] <= middle[-1]]
    assert reads.all_pages(ranges, key_from=middle[0], key_to=middle[-1]) == inside
    if expected.is_windowed:
        of_keys = [expected.of_key(key) for key in keys]
        assert reads.all_pages("latestAll") == [windows[-1] for windows in of_keys]
        current = [_current(expected.kind, windows) for windows in of_keys]
        assert reads.all_pages("currentAll") == current
        final = [one for one in wanted if one["final"]]
        assert reads.all_pages("all", final="true") == final


@pytest.mark.parametrize("store", SESSIONS)
def test_sessions_are_found_by_overlap(expected: Expected, reads: StoreReads) -> None:
    """Sessions are found by an earliest end and a latest start, in both directions."""
    for key in ALL_KEYS:
        wanted = expected.of_key(key)
        assert reads.pages("findSessions", key) == wanted
        assert reads.pages("backwardFindSessions", key) == wanted[::-1]
        some = wanted[:: len(wanted) // 4 + 1]
        for first, last in product(some, some):
            end, start = first["window_end_ms"], last["window_start_ms"]
            inside = [
                one
                for one in wanted
                if one["window_end_ms"] >= end and one["window_start_ms"] <= start
            ]
            bounds = {"earliest_end_ms": end, "latest_start_ms": start}
            assert reads.pages("findSessions", key, **bounds) == inside
            assert reads.pages("backwardFindSessions", key, **bounds) == inside[::-1]
        for one in wanted:
            assert reads.items(f"session/{_bounds(one)}", key) == [one]


@pytest.mark.parametrize("store", SESSIONS)
def test_two_sessions_that_begin_together_are_two(expected: Expected, reads: StoreReads) -> None:
    """Two sessions of different partitions with the same start are each read by their end."""
    ends = [one["window_end_ms"] for one in expected.of_key(TWICE) if one["window_start_ms"] == 300]
    assert ends == [300, 315]
    for end in ends:
        (found,) = reads.items(f"session/300/{end}", TWICE)
        assert found == expected.rows[TWICE, 300, end]


@pytest.mark.parametrize("store", SESSIONS)
def test_merged_and_removed_sessions_are_deleted(
    survivor: Survivor, store: str, expected: Expected, reads: StoreReads
) -> None:
    """HTTP does not return merged or removed sessions that the table once had."""
    emitted = emitted_rows(survivor.table(store))
    deleted = sorted(emitted.keys() - expected.rows.keys())
    assert bool(deleted) != expected.has_final_only
    for key, start, end in deleted:
        assert reads.problem(f"session/{start}/{end}", key) == (404, "window-not-found")


@pytest.mark.parametrize("store", [TOTALS, RISES, PEAKS])
def test_a_store_without_windows_has_a_row_a_key(expected: Expected, reads: StoreReads) -> None:
    """A row covers all records of its key, which are never late, and an unknown key is a 404."""
    for key in ALL_KEYS:
        assert reads.items("get", key) == [expected.rows[key, 0, 0]]
    assert reads.problem("get", "nobody") == (404, "row-not-found")


@pytest.mark.parametrize("store", STORES)
def test_a_read_that_does_not_fit_the_kind_is_refused(
    expected: Expected, reads: StoreReads
) -> None:
    """The problem is the same for every store and read."""
    wrong = {"none": (*BY_START, *BY_END), "session": ("get",)}
    for read in wrong.get(expected.kind, ("get", *BY_END)):
        assert reads.problem(read, ALL_KEYS[0]) == WRONG_KIND, read


def _current(kind: str, windows: list[Json]) -> Json:
    """Return the first-ending window with the newest record, or the last session."""
    if kind == "session":
        return max(windows, key=lambda one: (one["window_end_ms"], one["window_start_ms"]))
    newest_ms = max(one["timestamp_ms"] for one in windows)
    # A window that was closed at the record's arrival contains its time without the record.
    holding = (one for one in windows if one["timestamp_ms"] == newest_ms)
    return min(holding, key=lambda one: one["window_end_ms"])


def _bounds(window: Json) -> str:
    return f"{window['window_start_ms']}/{window['window_end_ms']}"
