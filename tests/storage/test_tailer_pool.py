"""Tests of the store pool: a store that hangs delays no other, and idle stores cost little."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from oriel.storage.tailer import StoreStatus
from oriel.storage.tailer import pool as pools
from oriel.storage.tailer.pool import StorePool
from oriel.storage.tailer.process import Tailer
from tests.storage.waiting import wait_for, wait_until


class FakeStore:
    """Replaces a store's tailer: counts calls, and can hang until it is released."""

    def __init__(self, *, has_work: bool = True, hangs_in: str = "") -> None:
        """Create a fake store.

        Args:
            has_work: The result of each ``poll``.
            hangs_in: ``poll`` or ``step`` to hang there.
        """
        self.polls = self.steps = self.closed = 0
        self.moved_at = self.changed_at = 0.0
        self.status = StoreStatus("following", 7)
        self.waiting_since: float | None = None
        self.local_log: Path | None = None
        self.let_go = threading.Event()
        self._has_work = has_work
        self._hangs_in = hangs_in
        self._at_work = threading.Lock()

    def spread(self, around_seconds: float, stores: int) -> None:
        """Do nothing."""

    def poll(self) -> bool:
        """Count the call."""
        with self._alone():
            self.polls += 1
            if self._hangs_in == "poll":
                self.let_go.wait()
            return self._has_work

    def advance(self) -> float:
        """Count the call."""
        with self._alone():
            self.steps += 1
            if self._hangs_in == "step":
                self.let_go.wait()
            return 0.0

    def close(self) -> None:
        """Count the call."""
        self.closed += 1

    def _alone(self) -> threading.Lock:
        assert not self._at_work.locked(), "two threads are at one store"
        return self._at_work


@pytest.fixture
def pool() -> Iterator[StorePool]:
    """Return a pool without stores that a thread supervises."""
    made, stop = StorePool(), threading.Event()

    def supervise() -> None:
        while not stop.wait(0.005):
            made.supervise()

    thread = threading.Thread(target=supervise)
    thread.start()
    yield made
    for watched in list(made.stores.values()):
        watched.tailer.let_go.set()  # type: ignore[attr-defined]
    stop.set()
    thread.join()
    made.end()


def _add(pool: StorePool, name: str, store: FakeStore) -> FakeStore:
    pool.add(name, store)  # type: ignore[arg-type]
    return store


@pytest.mark.parametrize("where", ["poll", "step"])
def test_stores_that_hang_hold_no_other(
    pool: StorePool, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Hanging stores, more than the threads, are reported as held and later followed again."""
    monkeypatch.setattr(pools, "BLOCKED_SECONDS", 0.05)
    hanging = [_add(pool, f"bad{n}", FakeStore(hangs_in=where)) for n in range(6)]
    good = _add(pool, "good", FakeStore())
    wait_until(lambda: [one.polls for one in hanging], "a poll of each of them", min)
    wait_for(
        set(map(id, hanging)), lambda: {id(one.tailer) for one in pool.held()}, "the held stores"
    )
    steps = good.steps
    wait_until(lambda: good.steps, f"more steps than {steps + 5}", lambda n: n > steps + 5)
    for one in hanging:
        one.let_go.set()
    counts = [one.steps for one in hanging]
    wait_until(
        lambda: [one.steps - count for one, count in zip(hanging, counts, strict=True)],
        "two new steps of each", lambda steps: min(steps) > 1,
    )  # fmt: skip
    wait_for([], lambda: list(pool.held()), "the held stores")


def test_a_store_that_is_removed_is_closed(pool: StorePool) -> None:
    """A removed store is closed once and never polled again."""
    store = _add(pool, "store", FakeStore(has_work=False))
    wait_until(lambda: store.polls, "a poll")
    pool.remove("store")
    wait_for(1, lambda: store.closed, "how often its files were closed")
    polls = store.polls
    other = _add(pool, "other", FakeStore(has_work=False))
    wait_until(lambda: other.polls, "four polls", lambda polls: polls > 3)
    assert (store.polls, store.closed) == (polls, 1)


def test_the_end_closes_all() -> None:
    """The end of the pool closes all stores that no thread uses."""
    pool = StorePool()
    stores = [_add(pool, f"store{n}", FakeStore(has_work=False)) for n in range(5)]
    pool.supervise()
    wait_until(lambda: [one.polls for one in stores], "a poll of each of them", min)
    pool.end()
    assert [one.closed for one in stores] == [1] * 5


def test_a_store_with_a_lag_or_blocked_is_reported(tmp_path: Path) -> None:
    """A store is stale above the bound or blocked if held, unless it has its own problem."""
    tailer, store = Tailer(tmp_path, stale_seconds=60), FakeStore()

    def current_status(*, is_held: bool = False) -> StoreStatus:
        return tailer._store_status(store, is_blocked=is_held)  # type: ignore[arg-type]

    assert current_status() == store.status
    for lag_s, state in ((30, "following"), (90, "stale"), (-90, "following")):
        store.waiting_since = time.time() - lag_s
        assert (current_status().state, current_status().version) == (state, 7)
    assert current_status(is_held=True).state == "blocked"
    store.waiting_since = time.time() - 90
    store.status = StoreStatus("following", 7, "version 8 is torn")
    assert current_status() == store.status
    tailer.end()
