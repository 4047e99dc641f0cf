"""Which records of dead letters were replayed, and to which offsets.

    DATA/replayed/_dead_letters.jsonl        the notes of all replays, or
    DATA/replayed/_dead_letters/<n>.jsonl    one object per note, because an object cannot be
                                             appended to

A replay notes ``[topic, partition, offset, replayed_ms, null, digest]`` for each record before it
sends the record. After the record is sent, a second line has the record's new offset as its fifth
item. Lines of earlier versions have three to five items, and no digest.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import chain
from operator import or_
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from oriel.storage.errors import CorruptLog
from oriel.storage.files import FileIdentity, current_files, digest, uri
from oriel.storage.layout import DataLayout

#: Topic and partition.
Partition = tuple[str, int]
#: Partition -> offset -> a time or another offset.
ByOffset = Mapping[Partition, Mapping[int, int]]

#: The last item of a line, the digest of the line without it.
_DIGEST = re.compile(rb',"(xxh3:[0-9a-f]{16})"\]$')
_ITEMS = 6
#: The first line of an object.
_ID = re.compile(rb'"\w+"')
#: ``replayed_ms`` of records that an earlier version replayed.
UNKNOWN_MS = 0


@dataclass(frozen=True)
class Replays:
    """The records that were replayed.

    Attributes:
        times_ms: The time of the last replay, by the offset of the replayed record.
        origins: The offset of the replayed record, by the offset that the replay wrote.
    """

    times_ms: ByOffset = field(default_factory=dict)
    origins: ByOffset = field(default_factory=dict)

    def has(self, topic: str, partition: int, offset: int) -> bool:
        """Return whether a record was replayed."""
        return offset in self.times_ms.get((topic, partition), {})

    def marks(self, letter: Mapping[str, Any]) -> dict[str, int | None]:
        """Return ``replayed_ms`` and ``repeats_offset`` of a dead letter. Each can be None.

        If the record is a replay of a replay, ``repeats_offset`` is the offset of the first record.
        """
        partition, offset = (letter["topic"], letter["partition"]), letter["offset"]
        origins, first = self.origins.get(partition, {}), offset
        while first in origins:
            first = origins[first]
        return {
            "replayed_ms": self.times_ms.get(partition, {}).get(offset),
            "repeats_offset": None if first == offset else first,
        }

    def is_replayed(self) -> pc.Expression:
        """Return the condition for dead letters whose record was replayed."""
        return _is_among(self.times_ms)

    def is_repeat(self) -> pc.Expression:
        """Return the condition for dead letters of records that a replay wrote."""
        return _is_among(self.origins)


def note_line(place: tuple[str, int, int], replayed_ms: int, sent: int | None) -> bytes:
    """Return the line that notes the record at ``place`` (topic, partition, offset)."""
    items = orjson.dumps((*place, replayed_ms, sent))
    return items[:-1] + f',"{digest(items)}"]\n'.encode()


def read_replays(layout: DataLayout) -> Replays:
    """Read the notes of a data directory.

    Raises:
        CorruptLog: A line is damaged.
    """
    path, files = layout.replayed, current_files()
    try:
        # A backup of a local directory can be restored to a bucket, or the reverse.
        directory, identity = path.with_suffix(""), files.identity(path)
        notes = [_object_lines(directory / name) for name in sorted(files.names(directory))]
        if not notes:
            return Replays() if identity is None else _file_replays(path, identity)
        of_file = [] if identity is None else _complete_lines(path)
        return _replays(chain(of_file, *notes))
    except (IsADirectoryError, ValueError, TypeError) as error:
        message = (
            f"{uri(path)} is damaged: {error}. Restore it, or delete it. Without it, `oriel "
            "dead-letters replay` sends all records again"
        )
        raise CorruptLog(message) from error


# The service reads the notes with each page of dead letters.
@lru_cache(maxsize=1)
def _file_replays(path: Path, _identity: FileIdentity) -> Replays:
    return _replays(_complete_lines(path))


def _complete_lines(path: Path) -> list[bytes]:
    # A replay can be about to write the last line.
    whole, _, torn = current_files().read(path).rpartition(b"\n")
    if torn[-3:-1] == b'"]':
        message = "the end of its last line is not what was written"
        raise ValueError(message)
    return whole.splitlines()


@lru_cache(maxsize=1024)
def _object_lines(path: Path) -> list[bytes]:
    """Return the lines of an object, which begins with its id and never changes."""
    first, *lines = current_files().read(path).splitlines() or [b""]
    if _ID.fullmatch(first) is None:
        message = f"{path.name} must begin with its id"
        raise ValueError(message)
    return lines


def _replays(lines: Iterable[bytes]) -> Replays:
    times_ms: dict[Partition, dict[int, int]] = {}
    origins: dict[Partition, dict[int, int]] = {}
    for topic, partition, offset, *others in map(_items, lines):
        replayed_ms, sent = (*others, None, None)[:2]
        times_ms.setdefault((topic, partition), {})[offset] = replayed_ms or UNKNOWN_MS
        # A replay appends, so the replayed offset is smaller unless the log was replaced. Then,
        # the offsets are of other records, and a cycle would keep ``marks`` from ending.
        if sent is not None and sent > offset:
            origins.setdefault((topic, partition), {})[sent] = offset
    return Replays(times_ms, origins)


def _items(line: bytes) -> list[Any]:
    """Parse a line.

    Raises:
        ValueError: The digest does not match the line.
    """
    items: list[Any] = orjson.loads(line)
    if len(items) >= _ITEMS:
        found = _DIGEST.search(line)
        if found is None or digest(line[: found.start()] + b"]") != found[1].decode():
            message = f"a line is not what was written ({line.decode(errors='replace')})"
            raise ValueError(message)
    return items


def _is_among(places: ByOffset) -> pc.Expression:
    """Return the condition for dead letters at one of the offsets."""
    return reduce(
        or_,
        (
            (pc.field("topic") == topic)
            & (pc.field("partition") == partition)
            & pc.field("offset").isin(pa.array(offsets, pa.int64()))
            for (topic, partition), offsets in places.items()
        ),
        pc.scalar(value=False),
    )
