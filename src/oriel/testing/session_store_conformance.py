"""Tests of every ``ReadOnlySessionStore``. The test class of an implementation inherits them.

Reads by start are those of a window store, so the suite includes the suite of window stores. Most
tests use these sessions of key "a". One session contains two others, and two have the same start:

    0    5    10   15   20   25   30   35   40
    |=========[0,20]====|
         |=[5,12]=|
              |[10,10]
                             |====[25,35]===|
                             |===========[25,40]==|
"""

from collections.abc import Callable, Iterable
from typing import Any

import orjson
import pytest

from oriel.storage import LATEST_MS, SessionRange, WindowId, WindowPage, WindowRange
from oriel.storage.contracts import ReadOnlySessionStore
from oriel.testing.scan_conformance import ODD_KEYS
from oriel.testing.store_models import Put, put
from oriel.testing.window_store_conformance import WindowStoreConformance

#: Creates a store with these puts and this retention.
MakeSessionStore = Callable[[Iterable[Put], int | None], ReadOnlySessionStore]

Spans = list[tuple[int, int]]

SPANS: Spans = [(0, 20), (5, 12), (10, 10), (25, 35), (25, 40)]


def session(key: str, start_ms: int, end_ms: int) -> Put:
    """Return a session whose value has its key and times."""
    return put(key, start_ms, end_ms - start_ms)


def spans(sessions: Iterable[bytes]) -> Spans:
    """Return start and end of sessions in their order."""
    windows = [orjson.loads(window) for window in sessions]
    return [(window["window_start_ms"], window["window_end_ms"]) for window in windows]


SESSIONS = (*(session("a", *span) for span in SPANS), session("ab", 11, 13))


class SessionStoreConformance(WindowStoreConformance):
    """Tests that a session store behaves as Kafka Streams' read-only store.

    Inherit the suite in a test class with a fixture ``make_store``. It returns a function that
    creates a store from puts and a retention in ms.

    Example:
        >>> import pytest
        >>> class TestMyStore(SessionStoreConformance):
        ...     @pytest.fixture
        ...     def make_store(self):
        ...         return ModelSessionStore  # Replace it by your store.
    """

    @pytest.mark.parametrize(
        ("earliest_end_ms", "latest_start_ms", "expected"),
        [
            (0, LATEST_MS, SPANS),
            (-(2**63), LATEST_MS, SPANS),
            (10, 10, [(0, 20), (5, 12), (10, 10)]),
            (12, 12, [(0, 20), (5, 12)]),
            (13, 13, [(0, 20)]),
            (20, 20, [(0, 20)]),
            (21, 24, []),
            (21, 25, [(25, 35), (25, 40)]),
            (36, LATEST_MS, [(25, 40)]),
            (40, LATEST_MS, [(25, 40)]),
            (41, LATEST_MS, []),
            (0, 4, [(0, 20)]),
            (0, 0, [(0, 20)]),
            (0, -1, []),
            (0, -(2**63), []),
            (LATEST_MS, LATEST_MS, []),
            (30, 5, []),
        ],
    )
    def test_sessions_are_found_by_end_and_start(
        self,
        make_store: MakeSessionStore,
        earliest_end_ms: int,
        latest_start_ms: int,
        expected: Spans,
    ) -> None:
        """The result has the sessions with end >= earliest end and start <= latest start."""
        store = make_store(SESSIONS, None)
        session_range = SessionRange("a", earliest_end_ms, latest_start_ms)
        assert spans(store.find_sessions(session_range).windows) == expected
        assert spans(store.backward_find_sessions(session_range).windows) == expected[::-1]

    @pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
    def test_pages_of_sessions_join_to_all_of_them(
        self, make_store: MakeSessionStore, limit: int
    ) -> None:
        """All pages together have each session once, also sessions with the same start."""
        store = make_store(SESSIONS, None)
        for read, expected in (
            (store.find_sessions, [span for span in SPANS if span[1] >= 12]),
            (store.backward_find_sessions, [span for span in SPANS[::-1] if span[1] >= 12]),
        ):
            joined: Spans = []
            after: WindowId | None = None
            for _ in SPANS:
                page = read(SessionRange("a", 12, limit=limit, after=after))
                joined += spans(page.windows)
                after = page.next_after
                if after is None:
                    break
                assert len(page.windows) == limit
            assert joined == expected

    def test_many_short_sessions_around_a_long_one(self, make_store: MakeSessionStore) -> None:
        """The search continues after many sessions that do not match."""
        short = [session("k", start, start + 1) for start in range(0, 2000, 2)]
        store = make_store([*short, session("k", 1, 3000), session("l", 5, 9)], None)
        session_range = SessionRange("k", 1990)
        expected = [(1, 3000), *((start, start + 1) for start in range(1990, 2000, 2))]
        assert spans(store.find_sessions(session_range).windows) == expected
        assert spans(store.backward_find_sessions(session_range).windows) == expected[::-1]
        last = store.backward_find_sessions(session_range._replace(limit=5))
        assert last.next_after == (1990, 1991)
        rest = store.backward_find_sessions(session_range._replace(limit=5, after=last.next_after))
        assert (spans(rest.windows), rest.next_after) == ([(1, 3000)], None)

    def test_one_session_needs_its_exact_start_and_end(self, make_store: MakeSessionStore) -> None:
        """Other times find no session, also negative times."""
        store = make_store(SESSIONS, None)
        for span in SPANS:
            assert store.fetch_session("a", *span) == session("a", *span).value
        for span in ((0, 19), (1, 20), (25, 36), (-1, 20), (-2, -1), (0, LATEST_MS)):
            assert store.fetch_session("a", *span) is None
        assert store.fetch_session("b", 0, 20) is None

    def test_equal_starts_are_apart(self, make_store: MakeSessionStore) -> None:
        """``latest`` reads the last session, and ``fetch_window`` reads the first, by end."""
        store = make_store(SESSIONS, None)
        assert store.latest("a") == session("a", 25, 40).value
        assert store.fetch_window("a", 25) == session("a", 25, 35).value
        assert spans(store.fetch(WindowRange("a", 25, 25)).windows) == [(25, 35), (25, 40)]

    def test_current_ends_at_the_newest_record_of_that_key(self, make_store: Any) -> None:
        """``current`` reads the session that ends last, also if another session started later."""
        spans_of = {"a": [(0, 100), (50, 60)], "b": [(0, 9), (3, 9), (5, 7)], "c": [(4, 4)]}
        puts = [session(key, *span) for key, of_key in spans_of.items() for span in of_key]
        store = make_store(puts, None)
        newest = [store.current(key) for key in spans_of]
        assert spans(one for one in newest if one) == [(0, 100), (3, 9), (4, 4)]
        assert store.current("") is None

    def test_an_unknown_key_has_no_sessions(self, make_store: MakeSessionStore) -> None:
        """The results are empty, also if the store has similar keys."""
        store = make_store(SESSIONS, None)
        for key in ("", "A", "aa", "b", "a\x00"):
            assert store.find_sessions(SessionRange(key)) == WindowPage([], None)
            assert store.backward_find_sessions(SessionRange(key)) == WindowPage([], None)

    def test_odd_keys_have_their_own_sessions(self, make_store: MakeSessionStore) -> None:
        """A key can have any bytes."""
        store = make_store([session(key, i, i + 3) for i, key in enumerate(ODD_KEYS)], None)
        for i, key in enumerate(ODD_KEYS):
            assert spans(store.find_sessions(SessionRange(key, i + 3, i)).windows) == [(i, i + 3)]
            assert store.fetch_session(key, i, i + 3) == session(key, i, i + 3).value

    @pytest.mark.parametrize(
        ("retention_ms", "visible"),
        [
            (1, [(25, 40)]),
            (6, [(25, 35), (25, 40)]),
            (21, [(0, 20), (25, 35), (25, 40)]),
            (29, [(0, 20), (5, 12), (25, 35), (25, 40)]),
            (31, SPANS),
        ],
    )
    def test_retention_counts_by_end(
        self, make_store: MakeSessionStore, retention_ms: int, visible: Spans
    ) -> None:
        """Each read returns sessions with end >= greatest end - retention + 1 (semantics.md#7)."""
        store = make_store(SESSIONS, retention_ms)
        assert store.earliest_ms == max(0, 40 - retention_ms + 1)
        for window_range in (WindowRange("a"), WindowRange("a", limit=len(visible))):
            assert spans(store.fetch(window_range).windows) == visible
            assert spans(store.backward_fetch(window_range).windows) == visible[::-1]
        assert spans(store.find_sessions(SessionRange("a")).windows) == visible
        assert spans(store.backward_find_sessions(SessionRange("a")).windows) == visible[::-1]
        for span in SPANS:
            assert (store.fetch_session("a", *span) is not None) == (span in visible)
        assert store.latest("a") == session("a", 25, 40).value
        assert store.keys("", 9).keys == (["a", "ab"] if retention_ms >= 28 else ["a"])

    def test_the_latest_session_may_have_expired_before_another(
        self, make_store: MakeSessionStore
    ) -> None:
        """A long session is visible for longer than a short session that started later."""
        puts = [session("a", 0, 100), session("a", 50, 60), session("b", 105, 110)]
        store = make_store(puts, 20)
        assert store.latest("a") == puts[0].value
        assert store.fetch_window("a", 50) is None
        assert store.keys("", 9).keys == ["a", "b"]
