"""Check that versions in requests are in the history of a store, with the log of its table."""

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path

from oriel.app.contract import InvalidParameter, ReadValues, version_of_cursor
from oriel.storage import HistoryLost, Place, is_object
from oriel.storage.delta import DeltaLog
from oriel.storage.files import FileIdentity
from oriel.storage.index import IndexState

#: The number of cached digests. Clients that follow a store need the newest ones.
_CACHE_MAX = 4096
#: Seconds for which an object is assumed to be unchanged, because each check needs a request.
_OBJECT_SECONDS = 1.0

#: The version in the entity tag of a page with a cursor.
_VERSION_OF_TAG = re.compile(rb"\+(\d{1,18})-([0-9a-f]{1,8})-([0-9a-f]{1,8})")
#: The most tags of one request whose versions are checked.
_TAGS_MAX = 8


class LogDigests:
    """The digests of log entries. Each is read once while its file is unchanged.

    Instances are thread-safe.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Path, int], tuple[FileIdentity, str]] = {}

    def digest(self, log: DeltaLog, version: int) -> str:
        """Return the digest of a version's entry, "" if the log does not have it."""
        identity = log.identity(version)
        if identity is None:
            return ""
        kept = self.kept(log, version, identity)
        if kept is None:
            entry = log.read(version)
            kept = "" if entry is None else entry.digest
            self.keep(log, version, identity, kept)
        return kept

    def kept(self, log: DeltaLog, version: int, identity: FileIdentity) -> str | None:
        """Return the cached digest of an entry, None if its file has changed since the read."""
        cached_identity, digest = self._kept.get((log.table, version), (None, ""))
        return digest if cached_identity == identity else None

    def keep(self, log: DeltaLog, version: int, identity: FileIdentity, digest: str) -> None:
        """Cache a digest. The caller must determine ``identity`` before it reads the entry."""
        if len(self._kept) >= _CACHE_MAX:
            self._kept.clear()
        # A torn entry is written again, perhaps within the resolution of the file's time.
        if digest:
            self._kept[log.table, version] = identity, digest


class StoreHistory:
    """The current history of one store in its log. Only the event loop uses it."""

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self._is_remote = is_object(log.table)
        self._digests = LogDigests()
        self._seen: dict[int, tuple[float, str]] = {}

    async def digest(self, version: int) -> str:
        """Return the digest of a version's log entry, "" if the log does not have it."""
        if self._is_remote:
            return await self._remote_digest(version)
        identity = self._log.identity(version)
        kept = None if identity is None else self._digests.kept(self._log, version, identity)
        if identity is None or kept is not None:
            return kept or ""
        # An entry can be long, so a thread reads it.
        return await asyncio.to_thread(self._digests.digest, self._log, version)

    async def lost_reason(self, place: Place, state: IndexState) -> str | None:
        """Return why a version is not in the store's history, None if it is.

        ``state`` is the version of the index, which can be older than ``place``.
        """
        if place == state.place:
            return None
        if place.table != state.place.table:
            return "the table was replaced by another"
        logged = state.digest
        if place.version != state.version:
            logged = await self.digest(place.version)
        if logged:
            if Place.of(place.version, state.table_id, logged) == place:
                return None
            return f"version {place.version} was replaced by another"
        return f"version {place.version} is not in the log of the table"

    async def refuse_lost(self, query: ReadValues, state: IndexState) -> None:
        """Reject a request with a version or cursor of a lost history.

        Raises:
            HistoryLost: The log shows that the version is not in the store's history.
            InvalidParameter: The request has a history without its version.
        """
        for place in _versions_of_request(query, state):
            reason = await self.lost_reason(place, state)
            if reason is not None:
                message = (
                    f"store {self._log.table.name!r}: {reason}, so the request belongs to a lost "
                    "history. Read the store again from the start, without cursor and history "
                    f"(it is at version {state.version})."
                )
                raise HistoryLost(message)

    async def known_tags(self, tags: bytes, state: IndexState) -> list[bytes]:
        """Return the versions in entity tags of pages that are in the store's history."""
        known = []
        for match in list(_VERSION_OF_TAG.finditer(tags))[:_TAGS_MAX]:
            place = Place(int(match[1]), match[2].decode(), match[3].decode())
            if await self.lost_reason(place, state) is None:
                known.append(match[0])
        return known

    async def has(self, state: IndexState) -> bool:
        """Return whether the log has the version of an index.

        If the index does not have the digest of the log entry, the result is True.
        """
        return not state.digest or await self.digest(state.version) == state.digest

    async def _remote_digest(self, version: int) -> str:
        now = time.monotonic()
        seen_at, digest = self._seen.get(version, (-_OBJECT_SECONDS, ""))
        if now - seen_at < _OBJECT_SECONDS:
            return digest
        digest = await asyncio.to_thread(self._digests.digest, self._log, version)
        if len(self._seen) >= _CACHE_MAX:
            self._seen.clear()
        self._seen[version] = now, digest
        return digest


def _versions_of_request(query: ReadValues, state: IndexState) -> Iterator[Place]:
    """Yield the versions of a request, with their history."""
    cursor = query.get("cursor")
    if cursor is not None:
        place = version_of_cursor(cursor, state.table_id)
        if place is not None:
            yield place
    history = query["history"]
    if history is None:
        return
    # The default of min_version is -1.
    named = query.get("min_version"), query.get("as_of_version"), query.get("since_version")
    versions = [version for version in named if version is not None and version >= 0]
    if not versions:
        message = "history must be sent with min_version, as_of_version or since_version."
        raise InvalidParameter(message)
    for version in versions:
        place = Place.read(version, history)
        if place is not None:
            yield place
