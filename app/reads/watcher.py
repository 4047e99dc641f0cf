"""Wait for the next version of a store, with one poll of the index for all waiting requests.

If each request polled the index 100 times per second, a thousand waiting requests would leave no
time for others.
"""

import asyncio
from collections.abc import Callable

from oriel.storage import StoreNotReady
from oriel.storage.index import IndexState

#: Seconds between two polls while a request waits. The tailer has the same interval.
POLL_SECONDS = 0.01

Condition = Callable[[IndexState], bool]


class VersionWatcher:
    """Wakes requests that wait for a state of one store. It polls only while a request waits."""

    def __init__(self, read_state: Callable[[], IndexState]) -> None:
        """Watch a store. ``read_state`` returns the newest state, or raises ``StoreNotReady``."""
        self._read_state = read_state
        self._waiting: dict[asyncio.Future[None], Condition] = {}
        self._seen: IndexState | None = None
        self._task: asyncio.Task[None] | None = None
        #: The number of polls.
        self.looks = 0

    async def wait(self, is_reached: Condition, seconds: float) -> None:
        """Wait until a state meets the condition, ``wake_all`` is called, or time is up."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting[waiter] = is_reached
        if self._task is None or self._task.done():
            # The last state can be old, because no request waited meanwhile.
            self._seen = None
            self._task = loop.create_task(self._poll())
        elif self._seen is not None and is_reached(self._seen) and self._has_reached(is_reached):
            waiter.set_result(None)
        timer = loop.call_later(seconds, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiting.pop(waiter, None)

    def wake_all(self) -> None:
        """Wake all waiting requests, regardless of the state."""
        for waiter in self._waiting:
            _wake(waiter)

    def _has_reached(self, is_reached: Condition) -> bool:
        # The last polled state can be older than the state that the caller knows.
        try:
            return is_reached(self._read_state())
        except StoreNotReady:
            return False

    async def _poll(self) -> None:
        while self._waiting:
            self.looks += 1
            try:
                state = self._read_state()
            except StoreNotReady:
                self._seen = None
            else:
                if state is not self._seen:
                    self._seen = state
                    for waiter, is_reached in self._waiting.items():
                        if is_reached(state):
                            _wake(waiter)
            await asyncio.sleep(POLL_SECONDS)


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
