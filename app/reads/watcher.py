"""Waiting for a store's next versions: one look at the index for all who wait.

A request that waits by itself would look a hundred times a second; a thousand of them would leave
no time for others.
"""

import asyncio
from collections.abc import Callable

from oriel.storage import StoreNotReady
from oriel.storage.index import IndexState

#: Seconds between two looks while anybody waits; the tailer's own pace.
LOOK_SECONDS = 0.01

Condition = Callable[[IndexState], bool]


class VersionWatcher:
    """Wakes those who wait for a state of one store; looks at nothing while nobody waits."""

    def __init__(self, look: Callable[[], IndexState]) -> None:
        """``look`` gives the newest state, or raises ``StoreNotReady``."""
        self._look = look
        self._waiting: dict[asyncio.Future[None], Condition] = {}
        self._seen: IndexState | None = None
        self._task: asyncio.Task[None] | None = None
        #: How often it looked.
        self.looks = 0

    async def wait(self, is_reached: Condition, seconds: float) -> None:
        """Wait until a state meets the condition, ``wake_all`` is called, or time is up."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        self._waiting[woken] = is_reached
        if self._task is None or self._task.done():
            # What was seen before nobody waited says nothing to who comes now.
            self._seen = None
            self._task = loop.create_task(self._look_around())
        elif self._seen is not None and is_reached(self._seen) and self._has_reached(is_reached):
            woken.set_result(None)
        timer = loop.call_later(seconds, _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()
            self._waiting.pop(woken, None)

    def wake_all(self) -> None:
        """Wake everybody, whatever the store's state is."""
        for woken in self._waiting:
            _wake(woken)

    def _has_reached(self, is_reached: Condition) -> bool:
        # What was seen last can be older than what the caller has seen.
        try:
            return is_reached(self._look())
        except StoreNotReady:
            return False

    async def _look_around(self) -> None:
        while self._waiting:
            self.looks += 1
            try:
                state = self._look()
            except StoreNotReady:
                self._seen = None
            else:
                if state is not self._seen:
                    self._seen = state
                    for woken, is_reached in self._waiting.items():
                        if is_reached(state):
                            _wake(woken)
            await asyncio.sleep(LOOK_SECONDS)


def _wake(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
