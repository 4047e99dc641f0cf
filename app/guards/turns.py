"""Limit the share of the event loop for long work, the steps of reads and of event streams."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

#: Seconds of work in one iteration of the event loop. A request needs up to five iterations, so
#: this work delays it by at most about 25 ms.
TURN_SECONDS = 0.005
#: While work in progress waits, one in this many steps begins new work.
_NEW_WORK_EVERY = 4

_Step = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Turns:
    """Runs at most ``steps`` steps per iteration of the event loop, for a bounded time, in order.

    First steps have their own queue, because work in progress holds memory and has priority.
    """

    def __init__(self, steps: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._steps = steps
        self._clock = clock
        self._first: deque[_Step] = deque()
        self._later: deque[_Step] = deque()
        self._later_in_turn = 0

    @property
    def waiting(self) -> int:
        """Return the number of first steps that wait."""
        return len(self._first)

    async def begin(self) -> None:
        """Wait until new work can begin. The caller then does its first part itself."""
        await self._run(lambda: None, self._first)

    async def run(self, step: Callable[[], Result]) -> Result:
        """Run a step when it is its turn, and return its result."""
        return await self._run(step, self._later)

    async def _run(self, step: Callable[[], Result], queue: deque[_Step]) -> Result:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        queue.append((step, done))
        if len(self._first) + len(self._later) == 1:
            loop.call_soon(self._turn)
        return await done

    def _turn(self) -> None:
        """Run steps until the time is up. The loop runs everything else before the next turn."""
        ends = self._clock() + TURN_SECONDS
        try:
            for _ in range(min(len(self._first) + len(self._later), self._steps)):
                step, done = self._next()
                _finish(step, done)
                if self._clock() >= ends:
                    break
        finally:
            if self._first or self._later:
                asyncio.get_running_loop().call_soon(self._turn)

    def _next(self) -> _Step:
        is_first = not self._later or (self._first and self._later_in_turn >= _NEW_WORK_EVERY - 1)
        self._later_in_turn = 0 if is_first else self._later_in_turn + 1
        return (self._first if is_first else self._later).popleft()


def _finish(step: Callable[[], Any], done: "asyncio.Future[Any]") -> None:
    if done.done():
        # The client has disconnected.
        return
    try:
        done.set_result(step())
    except Exception as error:  # noqa: BLE001 - the reader that waits for the step gets it
        done.set_exception(error)
