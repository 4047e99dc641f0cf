"""Changes of Delta logs that the operating system reports, so that a commit wakes the tailer.

Linux reports them (inotify) for file systems of this machine, also if the writer is in another
container. It reports nothing for writers of other machines, and the number of watched directories
is limited. So the tailer also polls all logs.
"""

import sys
import time
from pathlib import Path
from typing import Generic, TypeVar

if sys.platform == "linux":
    from inotify_simple import INotify, flags  # type: ignore[import-untyped]

Store = TypeVar("Store")

#: The maximum number of logs that a process watches. Linux allows 8,192 watches or more per user.
_LOGS_MAX = 4_096


class LogChanges(Generic[Store]):
    """Waits, and returns the stores whose logs have changed. One thread at a time can use it."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._stores: dict[int, Store] = {}
        self._watches: dict[Store, int] = {}
        self._inotify: INotify | None = None
        if sys.platform == "linux":
            try:
                self._inotify = INotify()
            except OSError:
                # A user has a limited number of instances.
                return

    def watch(self, store: Store, log: Path) -> None:
        """Watch the directory of a log from now on, if the system can."""
        if self._inotify is None or store in self._watches or len(self._watches) >= _LOGS_MAX:
            return
        wanted = flags.CREATE | flags.MOVED_TO | flags.CLOSE_WRITE | flags.MOVE_SELF
        try:
            watch = self._inotify.add_watch(log, wanted | flags.ONLYDIR)
        except OSError:
            return
        self._stores[watch], self._watches[store] = store, watch

    def forget(self, store: Store) -> None:
        """Stop watching the log of a store."""
        watch = self._watches.pop(store, None)
        if watch is None or self._inotify is None:
            return
        self._stores.pop(watch, None)
        try:
            self._inotify.rm_watch(watch)
        except OSError:
            # The directory was deleted, and its watch with it.
            return

    def wait(self, seconds: float) -> set[Store]:
        """Wait at most this long for changes, and return the stores that have changed."""
        if self._inotify is None:
            time.sleep(seconds)
            return set()
        events = list(self._inotify.read(timeout=max(1, round(1000 * seconds))))
        changed: set[Store] = set()
        for event in events:
            store = self._stores.get(event.wd)
            if store is None:
                continue
            if event.mask & (flags.IGNORED | flags.MOVE_SELF):
                # The directory was deleted or moved. Another one can be at its path.
                self.forget(store)
            if event.name.endswith(".json") or not event.name:
                changed.add(store)
        return changed

    def close(self) -> None:
        """Stop watching all logs."""
        if self._inotify is not None:
            self._inotify.close()
