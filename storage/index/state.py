"""What an index says of itself: which table, which version of it, and how far that reaches."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import orjson

from oriel.storage.definition import StoreDefinition
from oriel.storage.errors import IndexDamaged
from oriel.storage.layout import INDEX_FORMAT
from oriel.storage.position import CommitRecord, Offsets, Place

#: The store clock before the first window (semantics.md#7).
NOTHING_OBSERVED_MS = -1


@dataclass(frozen=True)
class Extent:
    """How far the windows of an index reach.

    ``observed_ms`` is the greatest window start ever put, of sessions the greatest end ever put
    or removed: the store clock (semantics.md#7) where the pipeline does not say it. ``longest_ms``
    is the length of the longest session ever put, 0 for other windows: a session that ends at E
    or later starts at E - longest or later, so that a search by ends needn't begin at a key's
    first session.
    """

    observed_ms: int = NOTHING_OBSERVED_MS
    longest_ms: int = 0

    def joined(self, others: Iterable["Extent"]) -> "Extent":
        """The extent of all of them together."""
        every = (self, *others)
        return Extent(max(e.observed_ms for e in every), max(e.longest_ms for e in every))


@dataclass(frozen=True)
class RevisionBounds:
    """What is known of the revisions behind the windows of an index.

    No row is of a revision above ``settled``, but for windows that the database ``ahead`` lists
    with theirs; ``highest`` bounds these. The pipeline's batches settle their own revision, so
    ``ahead`` has what others wrote with a revision that the pipeline has still to come to.
    """

    settled: int = -1
    highest: int = -1

    def after(self, highest: int, batch: int | None) -> "RevisionBounds":
        """The bounds behind rows up to ``highest``, of the pipeline's ``batch`` if it is one."""
        return RevisionBounds(self.settled if batch is None else batch, max(self.highest, highest))


@dataclass(frozen=True)
class IndexState:
    """Written in the same transaction as the rows of ``version``.

    ``digest`` is that of the version's log entry ("" if it was not there), so that an entry
    that was replaced is noticed. ``record`` is the last commit of the pipeline at or before
    ``version``, None before the first or when no entry of the log says it any more. ``store`` is
    the store that owns the index ("" if nobody said), so that a swapped directory is noticed.
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
        """The store clock (semantics.md#7): the pipeline's own word, where it gives it.

        That word is a function of the source alone. What the rows at hand reach to is not: others
        add and remove rows, and compaction takes those that a clock once stood at.
        """
        if self.record is not None and self.record.observed_ms > NOTHING_OBSERVED_MS:
            return self.record.observed_ms
        return self.extent.observed_ms

    @cached_property
    def earliest_ms(self) -> int:
        """The least visible window start, of sessions the least visible end (semantics.md#7).

        That is ``observed - retention + 1``. 0 where nothing expires.
        """
        retention_ms = self.definition.retention_ms
        if retention_ms is None or not self.definition.window.kind.is_windowed:
            return 0
        return max(0, self.observed_ms - retention_ms + 1)

    @cached_property
    def place(self) -> Place:
        """The version, in the history of the table."""
        return Place.of(self.version, self.table_id, self.digest)

    @property
    def offsets(self) -> Offsets:
        """Exclusive end offset per topic and partition, empty before the first batch."""
        return {} if self.record is None else self.record.offsets

    def to_json(self) -> bytes:
        """The state as the index keeps it, with the number of its format."""
        fields = {**asdict(self), "definition": self.definition.fields(), "format": INDEX_FORMAT}
        return orjson.dumps(fields)

    @classmethod
    def from_json(cls, content: bytes | None) -> "IndexState":
        """Read back what ``to_json`` wrote.

        Raises:
            IndexDamaged: there is no state, or one of another format.
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
