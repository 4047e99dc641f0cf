"""Poll all stores in one loop, and update their indexes in a few threads.

    poller:   due stores, one after the other: is there something to do?  -> ready
    workers:  ready -> StoreTailer.advance -> due again later

A poll is one ``stat``. After a commit, the store is due at once, if the system reports changes of
directories (``LogChanges``). In addition, a store that changed within the last seconds is polled
every 10 ms, and all others together a bounded number of times per second. If a store blocks a
thread for a long time (a mount that hangs, a long build), a substitute thread starts, up to a
maximum. So no store waits for another.
"""

import heapq
import itertools
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from oriel.storage.tailer.log_changes import LogChanges
from oriel.storage.tailer.store import StoreTailer

#: Seconds between two polls of a store that changed within the last seconds.
POLL_SECONDS = 0.01
_RECENT_SECONDS = 10.0
#: Polls per second of all other stores together.
_IDLE_POLLS_PER_SECOND = 1_000
#: Health checks per second of all stores together. Each needs about a dozen system calls.
_HEALTH_CHECKS_PER_SECOND = 100
#: Seconds without progress after which a store blocks its thread.
BLOCKED_SECONDS = 30.0
_WORKERS = 3
_WORKERS_MAX = 32
#: Seconds that stores have to finish their work when the pool ends.
_FINISH_SECONDS = 5.0


@dataclass(eq=False)
class PooledStore:
    """A store of the pool.

    Attributes:
        tailer: The store.
        is_in_progress: True while a worker has it, and on the way to and from the worker.
        is_removed: True if the thread that has it next must close it.
        due_at: The time of its next poll, in monotonic seconds.
        has_changed: True if its log has changed while it was in progress.
    """

    tailer: StoreTailer
    is_in_progress: bool = True
    is_removed: bool = False
    due_at: float = 0.0
    has_changed: bool = False


@dataclass(eq=False)
class _Thread:
    """A thread of the pool, its current store, and when it started to work on the store."""

    watched: PooledStore | None = None
    since: float = 0.0
    thread: threading.Thread = field(init=False)

    def is_held(self, now: float) -> bool:
        """Return True if a store blocks this thread. ``now`` is a monotonic time."""
        watched = self.watched
        moved_at = max(self.since, watched.tailer.moved_at) if watched is not None else now
        return now - moved_at > BLOCKED_SECONDS


class _Schedule:
    """The stores of a poller, by the time at which they are due."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, PooledStore]] = []
        self._numbers = itertools.count()

    def put(self, watched: PooledStore, at: float) -> None:
        """Poll a store at this time, and not at the time that was set before."""
        watched.due_at = at
        heapq.heappush(self._due, (at, next(self._numbers), watched))

    def next(self, now: float) -> PooledStore | None:
        """Remove and return a store that is due."""
        while self._due and self._due[0][0] <= now:
            at, _, watched = heapq.heappop(self._due)
            if at == watched.due_at and not watched.is_in_progress:
                return watched
        return None

    def pause(self, now: float) -> float:
        """Return the seconds until a store is due, at most ``POLL_SECONDS``."""
        pause = self._due[0][0] - now if self._due else POLL_SECONDS
        return min(max(pause, 0.001), POLL_SECONDS)


class StorePool:
    """The followed stores by name, and the threads that follow them."""

    def __init__(self) -> None:
        self.stores: dict[str, PooledStore] = {}
        #: The stores that are not closed yet, including removed ones.
        self._open: set[PooledStore] = set()
        self._stop = threading.Event()
        self._returned: queue.SimpleQueue[tuple[float, PooledStore]] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[PooledStore | None] = queue.SimpleQueue()
        self._hand_over = threading.Lock()
        self._changes: LogChanges[PooledStore] = LogChanges()
        self._poller: _Thread | None = None
        #: The poller, and earlier pollers that are still blocked.
        self._pollers: list[_Thread] = []
        self._workers: list[_Thread] = []

    def add(self, name: str, tailer: StoreTailer) -> None:
        """Follow another store."""
        watched = self.stores[name] = PooledStore(tailer)
        self._open.add(watched)
        self._returned.put((0.0, watched))

    def remove(self, name: str) -> None:
        """Stop following a store. Its files are closed when no thread uses it."""
        self.stores.pop(name).is_removed = True

    def supervise(self) -> None:
        """Start the threads, and substitutes for blocked threads."""
        now = time.monotonic()
        health_check_seconds = len(self.stores) / _HEALTH_CHECKS_PER_SECOND
        for watched in list(self.stores.values()):
            watched.tailer.spread(health_check_seconds, len(self.stores))
        is_held = self._poller is None or self._poller.is_held(now)
        if is_held and len(self._pollers) < _WORKERS_MAX:
            with self._hand_over:
                if self._poller is not None and self._poller.watched is not None:
                    # The blocked poller returns the store when it finds that it was replaced.
                    self._poller.watched.is_in_progress = True
                self._poller = _Thread()
                self._pollers.append(self._poller)
            self._start(self._poller, self._poll)
        free = sum(not worker.is_held(now) for worker in list(self._workers))
        for _ in range(min(_WORKERS - free, _WORKERS_MAX - len(self._workers))):
            worker = _Thread()
            self._workers.append(worker)
            self._start(worker, self._work)

    def held(self) -> set[PooledStore]:
        """Return the stores that have blocked a thread for a long time."""
        now = time.monotonic()
        threads = [*self._workers, *self._pollers]
        return {one.watched for one in threads if one.watched is not None and one.is_held(now)}

    def end(self) -> None:
        """End all threads and close all stores, except stores that do not end in time."""
        self._stop.set()
        for _ in self._workers:
            self._ready.put(None)
        deadline = time.monotonic() + _FINISH_SECONDS
        threads = [*self._workers, *self._pollers]
        for one in threads:
            one.thread.join(max(0.0, deadline - time.monotonic()))
        still_working = {one.watched for one in threads}
        for watched in self._open.difference(still_working):
            watched.tailer.close()
        self._open.clear()
        if not any(one.thread.is_alive() for one in self._pollers):
            self._changes.close()

    def _start(self, one: _Thread, target: Callable[[_Thread], None]) -> None:
        name = f"tailer-{target.__name__}"
        one.thread = threading.Thread(target=target, args=(one,), name=name, daemon=True)
        one.thread.start()

    def _poll(self, thread: _Thread) -> None:
        schedule = _Schedule()
        for watched in list(self._open):
            if not watched.is_in_progress:
                schedule.put(watched, 0.0)
        while not self._stop.is_set() and self._poller is thread:
            while not self._returned.empty():
                at, watched = self._returned.get()
                watched.is_in_progress = False
                schedule.put(watched, 0.0 if watched.has_changed else at)
                watched.has_changed = False
            now = time.monotonic()
            while (due := schedule.next(now)) is not None:
                has_work = self._poll_store(due, thread)
                if has_work is None:
                    self._returned.put((now, due))
                    return
                if has_work:
                    self._ready.put(due)
                else:
                    schedule.put(due, now + self._pause(due))
            for watched in self._changes.wait(schedule.pause(now)):
                watched.has_changed = watched.is_in_progress
                if not watched.is_in_progress:
                    schedule.put(watched, 0.0)

    def _poll_store(self, watched: PooledStore, thread: _Thread) -> bool | None:
        """Return True if a store has something to do, or None if another poller has taken over."""
        thread.since, thread.watched = time.monotonic(), watched
        has_work = watched.is_removed or _has_work(watched.tailer)
        with self._hand_over:
            thread.watched = None
            if self._poller is not thread:
                self._pollers.remove(thread)
                return None
            watched.is_in_progress = has_work
        if watched.is_removed:
            self._changes.forget(watched)
        elif (log := watched.tailer.local_log) is not None:
            self._changes.watch(watched, log)
        return has_work

    def _pause(self, watched: PooledStore) -> float:
        if time.monotonic() - watched.tailer.changed_at < _RECENT_SECONDS:
            return POLL_SECONDS
        return max(POLL_SECONDS, len(self.stores) / _IDLE_POLLS_PER_SECOND)

    def _work(self, thread: _Thread) -> None:
        while not self._stop.is_set():
            watched = self._ready.get()
            if watched is None:
                break
            thread.since, thread.watched = time.monotonic(), watched
            try:
                if watched.is_removed:
                    watched.tailer.close()
                    self._open.discard(watched)
                    continue
                pause = watched.tailer.advance()
            finally:
                thread.watched = None
            self._returned.put((time.monotonic() + pause, watched))
            now = time.monotonic()
            if sum(not worker.is_held(now) for worker in list(self._workers)) > _WORKERS:
                # A worker that was blocked continues, so one worker is superfluous.
                break
        self._workers.remove(thread)


def _has_work(tailer: StoreTailer) -> bool:
    try:
        return tailer.poll()
    except OSError:
        # The step fails with the same error, and logs it.
        return True
