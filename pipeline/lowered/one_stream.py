"""The operators of one stream or table: it is filtered, put in order, or processed."""

from dataclasses import dataclass

from oriel.pipeline.language import Processing
from oriel.pipeline.lowered.inputs import Input, Join
from oriel.pipeline.windows import Lineage, Windows


class OfOneStream(Join):
    """An operator of one stream or table, whose results have the lineage of its records."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.left,)

    @property
    def lineage(self) -> Lineage:
        return self.left.lineage


@dataclass(frozen=True)
class GraceBuffer(OfOneStream):
    """Records that wait until stream time is ``grace_ms`` later, in the order of time (KIP-923)."""

    reorders = is_buffer = True

    left: Input
    grace_ms: int

    def __str__(self) -> str:
        """Return the step as text, for ``describe``."""
        return f"buffer(grace {self.grace_ms} ms)"


@dataclass(frozen=True)
class DistinctRecords(OfOneStream):
    """The records of a stream without duplicates.

    Attributes:
        left: The stream.
        by: The columns whose values are equal in duplicates, in addition to the key.
        within_ms: How far apart the times of duplicates are at most, in milliseconds.
        grace_ms: How much older than stream time a record can be, in milliseconds.
    """

    returns_stream = True

    left: Input
    by: tuple[str, ...]
    within_ms: int
    grace_ms: int

    def __str__(self) -> str:
        times = f"within_ms={self.within_ms}, grace_ms={self.grace_ms}"
        return f"distinct({', '.join([*map(repr, self.by), times])})"

    @property
    def keeps_records(self) -> bool:
        return True


@dataclass(frozen=True)
class ExpiringRecords(OfOneStream):
    """The records of a stream or a table, and the removals of its expired keys.

    Attributes:
        left: The stream or the table.
        ttl_ms: How much older than stream time a key becomes before it is removed.
        of_table: Whether the last record of a key is its row.
    """

    reorders = expires_keys = True

    left: Input
    ttl_ms: int
    of_table: bool = False

    def __str__(self) -> str:
        """Return the step as text, for ``describe``."""
        return f"expire({'rows, ' if self.of_table else ''}ttl_ms={self.ttl_ms})"

    @property
    def lineage(self) -> Lineage:
        # The last index is 0 for a record and 1 for a removal.
        return self.left.lineage.extended()


@dataclass(frozen=True)
class ProcessedRecords(OfOneStream):
    """The rows of functions that process the records and the timers of each key.

    Attributes:
        left: The stream.
        processing: The functions.
    """

    returns_stream = reorders = True

    left: Input
    processing: Processing

    def __str__(self) -> str:
        return str(self.processing)

    @property
    def lineage(self) -> Lineage:
        # A record can have several rows.
        return self.left.lineage.extended()


@dataclass(frozen=True)
class LateRecords(OfOneStream):
    """The records of a stream that missed a window, because it was closed at their arrival.

    Attributes:
        left: The stream, with the key of its grouping.
        windows: The windows.
    """

    returns_stream = True

    left: Input
    windows: Windows

    def __str__(self) -> str:
        return f"windowed_by({self.windows!r}).late_records()"

    @property
    def keeps_records(self) -> bool:
        return True


@dataclass(frozen=True)
class VersionedRecords(OfOneStream):
    """The records of a versioned table, without records older than ``history_ms``.

    ``newest_only``: also without records that are older than the newest version of their key.
    """

    left: Input
    history_ms: int
    newest_only: bool

    def __str__(self) -> str:
        """Return the step as text, for ``describe``."""
        return f"versions({'newest, ' if self.newest_only else ''}history {self.history_ms} ms)"

    @property
    def keeps_records(self) -> bool:
        return True
