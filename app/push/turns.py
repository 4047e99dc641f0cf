"""The share of the event loop that the work of all streams of a worker gets."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

#: Seconds of stream work in one turn of the event loop. A request needs up to five turns, so
#: streams delay it by at most about 25 ms.
TURN_SECONDS = 0.005
#: Steps in one turn. Each step wakes a stream, and the stream sends its event in the next turn.
TURN_STEPS = 64


class Turns:
    """Runs the steps of all streams in their order, for a bounded time per event loop turn."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Start without steps. ``clock`` returns seconds."""
        self._clock = clock
        self._steps: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()

    async def run(self, step: Callable[[], Result]) -> Result:
        """Run a step when it is its turn, and return what it returns."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        self._steps.append((step, done))
        if len(self._steps) == 1:
            loop.call_soon(self._turn)
        return await done

    def _turn(self) -> None:
        """Run steps until the time is up. The loop serves everything else before the next turn."""
        ends = self._clock() + TURN_SECONDS
        try:
            for _ in range(min(len(self._steps), TURN_STEPS)):
                step, done = self._steps.popleft()
                _finish(step, done)
                if self._clock() >= ends:
                    break
        finally:
            if self._steps:
                asyncio.get_running_loop().call_soon(self._turn)


def _finish(step: Callable[[], Any], done: "asyncio.Future[Any]") -> None:
    if done.done():
        # The client left.
        return
    try:
        done.set_result(step())
    finally:
        # After an error in a step, its stream must not wait forever. The loop logs the error.
        done.cancel()
