"""Decide how a read gets its value: retries, waits, problems. This module sends nothing.

``exchange`` is a generator. It yields the next step (send this request, or pause), receives the
response, and returns the value. The synchronous and the asynchronous client both run it, so they
retry by the same rules.
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
from oriel.client.protocol import RawResponse, Read, Request

T = TypeVar("T")

#: The longest time that one request waits in the service for a position (`wait_ms`).
_WAIT_MS_MAX = 10_000
_FIRST_PAUSE_S = 0.1


class Pause(NamedTuple):
    """Wait for some seconds."""

    seconds: float


class Send(NamedTuple):
    """Send a request. ``wait_s`` is added to the usual time limit."""

    request: Request
    wait_s: float


@dataclass(frozen=True)
class Retries:
    """The rules for sending a request again.

    A request is sent again if it has no response, or a response with the status code 429, 502, 503
    or 504. All reads are safe to repeat. The pause is the value of ``Retry-After``. Without this
    field, the pause is 0.1 s and doubles with each attempt. Up to a quarter is added at random, so
    that many clients do not retry at the same time. If ``Retry-After`` is longer than
    ``longest_pause_s``, the client raises the error.

    Args:
        attempts: how often a request is sent in total.
        longest_pause_s: the longest pause before a request is sent again, in seconds.

    Example:
        >>> patient = Client(url, retries=Retries(attempts=10, longest_pause_s=30))
        >>> patient.window_store("departures").latest("EWR")["departures"]
        7
        >>> patient.close()
    """

    attempts: int = 5
    longest_pause_s: float = 10.0


#: Yields the next step, receives its response (None after a pause), returns the value.
Exchange: TypeAlias = Generator[Pause | Send, RawResponse | ServiceUnreachable | None, T]


def exchange(read: Read[T], retries: Retries, random: Random) -> Exchange[T]:
    """Return the value of a read.

    Raises:
        OrielError: the service returned an error, or did not respond to any attempt.
    """
    deadline = time.monotonic() + read.wait_s
    attempt = 0
    while True:
        attempt += 1
        left_s = max(deadline - time.monotonic(), 0.0)
        send = _send(read.request, left_s)
        outcome = yield send._replace(wait_s=send.wait_s + read.work_s)
        error: OrielError
        if isinstance(outcome, ServiceUnreachable):
            error = outcome
        else:
            assert outcome is not None, "the request has no response"
            if outcome.status in {200, 304}:
                return _parsed(read, outcome)
            error = error_of(outcome)
        if isinstance(error, Problem) and error.code in read.absent_codes:
            return cast("T", None)
        left_s = deadline - time.monotonic()
        yield Pause(pause_before_retry_s(error, attempt, left_s, retries, random))


def error_of(response: RawResponse) -> OrielError:
    """Return the error of a response with another status code than 200 and 304."""
    return problem_of(response.status, response.content, _retry_after_s(response))


def pause_before_retry_s(
    error: OrielError, attempt: int, left_s: float, retries: Retries, random: Random
) -> float:
    """Return the pause after a failed attempt. Raise the error after the last attempt.

    ``left_s`` is the remaining time to wait for a position.
    """
    pause_s = _pause_s(error, attempt, left_s, retries)
    if pause_s is None:
        raise error
    return pause_s * random.uniform(1.0, 1.25)


def _parsed(read: Read[T], response: RawResponse) -> T:
    try:
        return read.parse(response)
    except (ValueError, TypeError, LookupError) as error:
        shown = response.content[:200].decode("utf-8", "replace")
        message = f"the response to {read.request.path} is not from Oriel: {shown!r}"
        raise UnexpectedAnswer(message) from error


def _send(request: Request, left_s: float) -> Send:
    if left_s <= 0 or not _has_demand(request):
        return Send(request, 0.0)
    wait_ms = min(int(left_s * 1000), _WAIT_MS_MAX)
    return Send(request.asking(wait_ms=wait_ms), wait_ms / 1000)


def _has_demand(request: Request) -> bool:
    return any(name in {"min_version", "min_offset"} for name, _ in request.query)


def _pause_s(error: OrielError, attempt: int, left_s: float, retries: Retries) -> float | None:
    """Return the shortest pause before the next attempt, None after the last attempt.

    ``left_s`` is the remaining time to wait for a position.
    """
    if isinstance(error, PositionNotReached):
        # It is not a failure. The request is sent again until the time has passed.
        return _FIRST_PAUSE_S if left_s > _FIRST_PAUSE_S else None
    retry_after_s = None
    if isinstance(error, Problem) and error.may_pass:
        retry_after_s = error.retry_after_s
    elif not isinstance(error, ServiceUnreachable):
        return None
    doubled_s = _FIRST_PAUSE_S * 2 ** min(attempt - 1, 20)
    pause_s = retry_after_s
    if pause_s is None:
        pause_s = min(doubled_s, retries.longest_pause_s)
    # The client waits for a store that is not ready as long as for a position.
    may_wait = attempt < retries.attempts or (isinstance(error, NotReady) and pause_s < left_s)
    return pause_s if may_wait and pause_s <= retries.longest_pause_s else None


def _retry_after_s(response: RawResponse) -> float | None:
    """Return the value of ``Retry-After``: seconds, or a date (RFC 9110, 10.2.3)."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max((date - datetime.now(UTC)).total_seconds(), 0.0)
