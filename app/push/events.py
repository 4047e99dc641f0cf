"""The format of event streams (Server-Sent Events), and the event ids that resume a stream.

    id     =  VERSION [ . ROW ] [ - TABLE - DIGEST ]

The id ``17.256-1a2b3c4d-99aabbcc`` is the point after the first 256 rows of version 17. Without a
row, it is the point after the whole version. TABLE and DIGEST are the first digits of the table id
and of the digest of the version's log entry. They are the ``history`` of a position, and detect a
replaced table or entry. A client that knows only the version can omit them. Then, a restore before
the request is not detected.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from oriel.app.contract import EVENT_ID_PATTERN, InvalidParameter
from oriel.storage import Place

_ID = re.compile(EVENT_ID_PATTERN, re.ASCII)


class EventId(NamedTuple):
    """The point that a stream has reached.

    Attributes:
        version: The table version.
        row: The number of rows of the version that were sent, None for all rows.
        table: The first digits of the table id, "" if they are unknown.
        digest: The first digits of the log entry's digest, "" if they are unknown.
    """

    version: int
    row: int | None
    table: str
    digest: str

    def __str__(self) -> str:
        row = "" if self.row is None else f".{self.row}"
        return f"{self.version}{row}-{self.place.history}"

    @property
    def place(self) -> Place:
        """Return the version with its history."""
        return Place(self.version, self.table, self.digest)

    @classmethod
    def of(cls, version: int, table_id: str, digest: str, row: int | None = None) -> "EventId":
        """Return the id of the point after ``row`` rows of a version, or after all its rows."""
        _, table, shown = Place.of(version, table_id, digest)
        return cls(version, row, table, shown)

    @classmethod
    def read(cls, text: str) -> "EventId":
        """Parse an id that a client sent.

        Raises:
            InvalidParameter: The text is not an id.
        """
        match = _ID.fullmatch(text.strip())
        if match is None:
            message = (
                "after must be the `id` of an event of this stream, or a version, not "
                f"{text[:80]!r}"
            )
            raise InvalidParameter(message)
        row = None if match[2] is None else int(match[2])
        return cls(int(match[1]), row, match[3] or "", match[4] or "")


def event(name: str, at: EventId, data: Mapping[str, Any]) -> bytes:
    """Return one event with ``data`` as JSON, which contains no line breaks."""
    return frame(name, at, orjson.dumps(data))


def frame(name: str, at: EventId, data: bytes) -> bytes:
    """Return one event with finished data."""
    return b"event: %b\nid: %b\ndata: %b\n\n" % (name.encode(), str(at).encode(), data)


def heartbeat(at: EventId) -> bytes:
    """Return a heartbeat. A client stores the id and dispatches no event."""
    return b"id: %b\n\n" % str(at).encode()
