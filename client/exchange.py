"""The way from a read to its value: retries, waits, problems. It sends nothing itself.

``exchange`` is a generator: it gives out what is to be done (send this request, pause), is sent
what came of it, and returns the value. The synchronous and the asynchronous client both drive it,
so that there is one story of what is tried again and when.
"""

import time
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import NamedTuple, TypeVar, cast

from oriel.client.errors import (
    NotReady,
    OrielError,
    PositionNotReached,
    Problem,
    ServiceUnreachable,
    UnexpectedAnswer,
    problem_of,
)
from oriel.client.protocol import Answer, Read, Request

T = TypeVar("T")

#: The longest that one request may wait in the service for a position (`wait_ms`).
_WAIT_MS_MAX = 10_000
_FIRST_PAUSE_S = 0.1


class Pause(NamedTuple):
    """Do nothing for a while."""

    seconds: float


class Send(NamedTuple):
    """Send a request; ``wait_s`` is how long the service may take longer than it usually does."""

    request: Request
    wait_s: float


@dataclass(frozen=True)
class Retries:
    """How often a request is sent in all, and the longest pause before it is sent again.

    Sent again is what the service or a proxy may answer later (429, 502, 503, 504), and what got
    no answer: all reads are safe to repeat. A pause is what ``Retry-After`` says or, without it,
    0.1 s that double each time; up to a quarter is added by chance, so that many clients don't come
    back at once. A service that asks for more than ``longest_pause_s`` is not asked again.
    """

    attempts: int = 5
    longest_pause_s: float = 10.0


def exchange(
    read: Read[T], retries: Retries, random: Random
) -> Generator[Pause | Send, Answer | ServiceUnreachable | None, T]:
    """Take a read to its value.

    Raises:
        OrielError: the service says no, or gave no answer after all attempts.
    """
    deadline = time.monotonic() + read.wait_s
    attempt = 0
    while True:
        attempt += 1
        left_s = max(deadline - time.monotonic(), 0.0)
        came = yield _send(read.request, left_s)
        error: OrielError
        if isinstance(came, ServiceUnreachable):
            error = came
        else:
            assert came is not None, "a request has an answer"
            if came.status in {200, 304}:
                return _parsed(read, came)
            error = problem_of(came.status, came.content, _retry_after_s(came))
        if isinstance(error, Problem) and error.code in read.absent_codes:
            return cast("T", None)
        pause_s = _pause_s(error, attempt, retries, random)
        if isinstance(error, PositionNotReached | NotReady) and time.monotonic() < deadline:
            # Waiting for a position is no failure; it ends with the time that was given.
            attempt = 0
            pause_s = min(pause_s or _FIRST_PAUSE_S, deadline - time.monotonic())
        elif pause_s is None or attempt >= retries.attempts:
            raise error
        yield Pause(max(pause_s, 0.0))


def _parsed(read: Read[T], answer: Answer) -> T:
    try:
        return read.parse(answer)
    except (ValueError, TypeError, LookupError) as error:
        shown = answer.content[:200].decode("utf-8", "replace")
        message = f"the answer to {read.request.path} is none of Oriel: {shown!r}"
        raise UnexpectedAnswer(message) from error


def _send(request: Request, left_s: float) -> Send:
    if left_s <= 0 or not _has_demand(request):
        return Send(request, 0.0)
    wait_ms = min(int(left_s * 1000), _WAIT_MS_MAX)
    return Send(request.asking(wait_ms=wait_ms), wait_ms / 1000)


def _has_demand(request: Request) -> bool:
    return any(name in {"min_version", "min_offset"} for name, _ in request.query)


def _pause_s(error: OrielError, attempt: int, retries: Retries, random: Random) -> float | None:
    """How long to pause before the next attempt; None where another is of no use."""
    asked_s = None
    if isinstance(error, Problem):
        # How long to wait for a position is the caller's to say, with `wait_s`.
        if not error.may_pass or isinstance(error, PositionNotReached):
            return None
        asked_s = error.retry_after_s
    elif not isinstance(error, ServiceUnreachable):
        return None
    if asked_s is not None and asked_s > retries.longest_pause_s:
        return None
    pause_s = _FIRST_PAUSE_S * 2 ** (attempt - 1) if asked_s is None else asked_s
    return min(pause_s, retries.longest_pause_s) * random.uniform(1.0, 1.25)


def _retry_after_s(answer: Answer) -> float | None:
    """What ``Retry-After`` says: seconds, or a date (RFC 9110, 10.2.3)."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max((date - datetime.now(UTC)).total_seconds(), 0.0)
