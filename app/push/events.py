"""The wire form of event streams (Server-Sent Events), and the ids by which they are resumed.

    id     =  VERSION [ . ROW ] [ - TABLE - DIGEST ]

``17.256-1a2b3c4d-99aabbcc`` is behind row 256 of version 17; without a row, behind all of the
version. The first digits of the table's id and of the digest of the version's log entry tell a
table or an entry that was replaced: they are the ``history`` of a position. A client that knows the
version only can leave them out, and then a restore before the request is not noticed.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from oriel.app.contract import EVENT_ID_PATTERN, InvalidParameter
from oriel.storage import Place

_ID = re.compile(EVENT_ID_PATTERN, re.ASCII)


class EventId(NamedTuple):
    """How far a stream has come.

    ``row`` is how many rows of the version were sent, None for all of them. ``table`` and
    ``digest`` are "" where they are not known.
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
        """The version, in its history."""
        return Place(self.version, self.table, self.digest)

    @classmethod
    def of(cls, version: int, table_id: str, digest: str, row: int | None = None) -> "EventId":
        """The id behind a row, or behind all, of a version."""
        _, table, shown = Place.of(version, table_id, digest)
        return cls(version, row, table, shown)

    @classmethod
    def read(cls, text: str) -> "EventId":
        """Read an id that a client sends.

        Raises:
            InvalidParameter: it is none.
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
    """One event; ``data`` is JSON, which has no line breaks."""
    return frame(name, at, orjson.dumps(data))


def frame(name: str, at: EventId, data: bytes) -> bytes:
    """One event with finished data."""
    return b"event: %b\nid: %b\ndata: %b\n\n" % (name.encode(), str(at).encode(), data)


def heartbeat(at: EventId) -> bytes:
    """Keep a silent connection alive; clients take the id and see no event."""
    return b"id: %b\n\n" % str(at).encode()
