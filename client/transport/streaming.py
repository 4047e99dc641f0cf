"""Read streams of changes, and decide when to open a lost stream again.

Like ``oriel.client.transport.exchange``, this module sends nothing, so both clients share it.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

from oriel.client.errors import OrielError, ServiceUnreachable, UnexpectedAnswer, problem_of
from oriel.client.protocol import Stream
from oriel.client.records import Change, Removed, position_of
from oriel.client.transport.exchange import Retries, pause_before_retry_s

T = TypeVar("T")

#: Seconds without a byte after which a connection counts as lost. The service sends a heartbeat
#: every 15 s.
SILENCE_S = 45.0

#: The last event of a stream whose token has expired. Its data is a problem document.
_DENIED = "denied"


class _Event(NamedTuple):
    name: str
    id: str
    data: str


class Following(Generic[T]):
    """One stream over any number of connections: its last event, and its failed attempts."""

    def __init__(self, stream: Stream[T], retries: Retries, random: Random) -> None:
        self._stream = stream
        self._retries = retries
        self._random = random
        self._attempt = 0
        self._received = b""
        #: The next request: the changes after the last event.
        self.request = stream.request

    def took(self, chunk: bytes) -> Iterator[Change[T]]:
        """Yield the changes that are complete after these bytes.

        Raises:
            OrielError: the token no longer grants access, or the stream is not from Oriel.
        """
        self._attempt = 0
        *blocks, self._received = (self._received + chunk).split(b"\n\n")
        for block in blocks:
            event = _event(block)
            if event.id:
                self.request = replace(self.request, last_event_id=event.id)
            if event.name == _DENIED:
                raise _denied(event)
            if event.name:
                yield self._change(event)

    def ended(self) -> ServiceUnreachable:
        """Return the error of a connection that ended, for example because the worker ended."""
        return ServiceUnreachable(f"the stream {self.request.path} has ended")

    def pause_s(self, error: OrielError) -> float:
        """Return the pause before the next attempt. Raise ``error`` after the last attempt.

        After each received event, the count of attempts starts again.
        """
        self._attempt += 1
        self._received = b""
        return pause_before_retry_s(error, self._attempt, 0.0, self._retries, self._random)

    def _change(self, event: _Event) -> Change[T]:
        try:
            fields = json.loads(event.data)
            items = fields.get("windows", fields.get("rows", []))
            return Change(
                items=[self._stream.item(item) for item in items],
                removed=[_removed(one) for one in fields.get("removed", [])],
                position=position_of(fields["position"]),
                reset=fields.get("reason"),
                id=event.id,
            )
        except (ValueError, TypeError, LookupError) as error:
            message = f"an event of {self.request.path} is not from Oriel: {event.data[:200]!r}"
            raise UnexpectedAnswer(message) from error


def _event(block: bytes) -> _Event:
    """Parse an event. A heartbeat has only an id, a comment has nothing."""
    lines = block.decode("utf-8", "replace").split("\n")
    fields = dict(line.partition(": ")[::2] for line in lines)
    return _Event(fields.get("event", ""), fields.get("id", ""), fields.get("data", ""))


def _denied(event: _Event) -> OrielError:
    content = event.data.encode()
    try:
        status = int(json.loads(content)["status"])
    except (ValueError, TypeError, LookupError):
        status = 401
    return problem_of(status, content, None)


def _removed(one: Any) -> Removed:
    return Removed(one["key"], one.get("window_start_ms"), one.get("window_end_ms"))
