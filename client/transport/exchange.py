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
from typing import NamedTuple, TypeAlias, TypeVar, cast

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


#: Gives out what is to be done, is sent what came of it (of a pause None), returns the value.
Exchange: TypeAlias = Generator[Pause | Send, Answer | ServiceUnreachable | None, T]


def exchange(read: Read[T], retries: Retries, random: Random) -> Exchange[T]:
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
            assert came is not None, "the request has no response"
            if came.status in {200, 304}:
                return _parsed(read, came)
            error = error_of(came)
        if isinstance(error, Problem) and error.code in read.absent_codes:
            return cast("T", None)
        left_s = deadline - time.monotonic()
        yield Pause(pause_before_retry_s(error, attempt, left_s, retries, random))


def error_of(answer: Answer) -> OrielError:
    """The error that an answer other than 200 and 304 is."""
    return problem_of(answer.status, answer.content, _retry_after_s(answer))


def pause_before_retry_s(
    error: OrielError, attempt: int, left_s: float, retries: Retries, random: Random
) -> float:
    """How long to wait after this failed attempt; raises the error where it is the last one.

    ``left_s`` is what is left of the time to wait for a position.
    """
    pause_s = _pause_s(error, attempt, left_s, retries)
    if pause_s is None:
        raise error
    return pause_s * random.uniform(1.0, 1.25)


def _parsed(read: Read[T], answer: Answer) -> T:
    try:
        return read.parse(answer)
    except (ValueError, TypeError, LookupError) as error:
        shown = answer.content[:200].decode("utf-8", "replace")
        message = f"the response to {read.request.path} does not come from Oriel: {shown!r}"
        raise UnexpectedAnswer(message) from error


def _send(request: Request, left_s: float) -> Send:
    if left_s <= 0 or not _has_demand(request):
        return Send(request, 0.0)
    wait_ms = min(int(left_s * 1000), _WAIT_MS_MAX)
    return Send(request.asking(wait_ms=wait_ms), wait_ms / 1000)


def _has_demand(request: Request) -> bool:
    return any(name in {"min_version", "min_offset"} for name, _ in request.query)


def _pause_s(error: OrielError, attempt: int, left_s: float, retries: Retries) -> float | None:
    """The least pause before the next attempt; None where there is to be none.

    ``left_s`` is what is left of the time to wait for a position.
    """
    if isinstance(error, PositionNotReached):
        # No failure: it is asked again, however often, until that time has passed.
        return _FIRST_PAUSE_S if left_s > _FIRST_PAUSE_S else None
    asked_s = None
    if isinstance(error, Problem) and error.may_pass:
        asked_s = error.retry_after_s
    elif not isinstance(error, ServiceUnreachable):
        return None
    doubled_s = _FIRST_PAUSE_S * 2 ** min(attempt - 1, 20)
    pause_s = min(doubled_s, retries.longest_pause_s) if asked_s is None else asked_s
    # A store that is being made ready is waited for as long as a position.
    may_wait = attempt < retries.attempts or (isinstance(error, NotReady) and pause_s < left_s)
    return pause_s if may_wait and pause_s <= retries.longest_pause_s else None


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
