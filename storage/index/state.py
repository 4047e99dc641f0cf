"""The state of an index: its table, the table version, and the extent of its windows."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import orjson

from oriel.storage.definition import StoreDefinition
from oriel.storage.errors import IndexDamaged
from oriel.storage.layout import INDEX_FORMAT
from oriel.storage.position import CommitRecord, Offsets, Place

#: The stream time of a store before its first window (semantics.md#7).
NOTHING_OBSERVED_MS = -1


@dataclass(frozen=True)
class Extent:
    """How far the windows of an index reach.

    Attributes:
        observed_ms: The greatest window start that was ever written. For sessions, the greatest end
            that was ever written or removed. If no commit record has the store's stream time, it is
            this value (semantics.md#7).
        longest_ms: The length of the longest session that was ever written. For other windows, it
            is 0. A session that ends at E or later starts at E - ``longest_ms`` or later. So a
            search by end does not need to start at the first session of a key.
    """

    observed_ms: int = NOTHING_OBSERVED_MS
    longest_ms: int = 0

    def joined(self, others: Iterable["Extent"]) -> "Extent":
        """Return the extent of this and all other extents together."""
        every = (self, *others)
        return Extent(max(e.observed_ms for e in every), max(e.longest_ms for e in every))


@dataclass(frozen=True)
class RevisionBounds:
    """Bounds of the revisions of the windows of an index.

    A batch of the pipeline sets ``settled`` to its own revision. Other programs can write rows with
    a revision that the pipeline has not reached yet. The database ``ahead`` lists their windows.

    Attributes:
        settled: No window has a higher revision, except windows in ``ahead``.
        highest: No window in ``ahead`` has a higher revision.
    """

    settled: int = -1
    highest: int = -1

    def after(self, highest: int, batch: int | None) -> "RevisionBounds":
        """Return the bounds after rows were applied.

        Args:
            highest: The highest revision of the rows.
            batch: The batch of the pipeline, or None if another program wrote the rows.
        """
        return RevisionBounds(self.settled if batch is None else batch, max(self.highest, highest))


@dataclass(frozen=True)
class IndexState:
    """The state of an index. It is written in the same transaction as the rows of its version.

    Attributes:
        table_id: The id of the table.
        version: The table version that the index has.
        digest: The digest of the version's log entry, or "" if the entry did not exist. A different
            digest shows that the entry was replaced.
        definition: The definition of the store.
        record: The last commit record of the pipeline at or before ``version``. It is None before
            the first commit, or if no entry of the log has it any more.
        extent: How far the windows reach.
        revisions: Bounds of the revisions.
        store: The store that the index belongs to, or "" if unknown. It shows whether directories
            of indexes were swapped.
    """

    table_id: str
    version: int
    digest: str
    definition: StoreDefinition
    record: CommitRecord | None
    extent: Extent = Extent()
    revisions: RevisionBounds = RevisionBounds()
    store: str = ""

    @property
    def observed_ms(self) -> int:
        """The store's stream time (semantics.md#7), from the commit record if it has one.

        The value of the commit record depends only on the source. The extent of the rows does not,
        because other programs add and remove rows, and compaction drops rows.
        """
        if self.record is not None and self.record.observed_ms > NOTHING_OBSERVED_MS:
            return self.record.observed_ms
        return self.extent.observed_ms

    @cached_property
    def earliest_ms(self) -> int:
        """The least visible window start, or for sessions the least visible end (semantics.md#7).

        It is ``observed - retention + 1``, and at least 0. If nothing expires, it is 0.
        """
        retention_ms = self.definition.retention_ms
        if retention_ms is None or not self.definition.window.kind.is_windowed:
            return 0
        return max(0, self.observed_ms - retention_ms + 1)

    @cached_property
    def place(self) -> Place:
        """The version in the history of the table."""
        return Place.of(self.version, self.table_id, self.digest)

    @property
    def offsets(self) -> Offsets:
        """The exclusive end offset per topic and partition. It is empty before the first batch."""
        return {} if self.record is None else self.record.offsets

    def to_json(self) -> bytes:
        """Serialize the state with the number of the index format."""
        fields = {**asdict(self), "definition": self.definition.fields(), "format": INDEX_FORMAT}
        return orjson.dumps(fields)

    @classmethod
    def from_json(cls, content: bytes | None) -> "IndexState":
        """Parse a state that ``to_json`` wrote.

        Raises:
            IndexDamaged: the state is missing or invalid, or it has another format.
        """
        try:
            fields: dict[str, Any] = orjson.loads(content or b"")
            if fields.pop("format") != INDEX_FORMAT:
                message = "the index has another format. The service rebuilds it"
                raise IndexDamaged(message)
            record = fields["record"]
            fields["record"] = None if record is None else CommitRecord(**record)
            fields["extent"] = Extent(**fields["extent"])
            fields["revisions"] = RevisionBounds(**fields["revisions"])
            fields["definition"] = StoreDefinition.from_json(orjson.dumps(fields["definition"]))
            return cls(**fields)
        except (KeyError, TypeError, ValueError) as error:
            message = f"the state of the index cannot be read ({error}). The service rebuilds it"
            raise IndexDamaged(message) from error
