"""The rows of the dead-letter table, in batches."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from oriel.storage.dead_letters.replays import Replays
from oriel.storage.delta import DEAD_LETTER_SCHEMA, DeltaLog, has_table, open_with_files
from oriel.storage.errors import CorruptLog, ObjectStoreFailed

#: The number of dead letters in memory at a time, because their bytes can be long.
_BATCH_ROWS = 1000


@dataclass(frozen=True)
class Selection:
    """A filter for dead letters that match all given fields. All bounds are inclusive.

    Attributes:
        topic: The topic of the record.
        store: The store that could not use the record.
        reason: The reason.
        since_ms: The earliest time of the record. Records with an unknown time do not match.
        until_ms: The latest time of the record. Records with an unknown time do not match.
        partition: The partition of the record.
        from_offset: The least offset of the record.
        to_offset: The greatest offset of the record.
        replayed: True for replayed records, False for all others.
    """

    topic: str | None = None
    store: str | None = None
    reason: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    partition: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    replayed: bool | None = None

    def condition(self, known: pa.Schema, replays: Replays) -> pc.Expression:
        """Return the filter as a condition on a dataset with the columns ``known``."""
        condition = pc.scalar(value=True)
        if self.replayed is not None:
            is_replayed = replays.is_replayed()
            condition = is_replayed if self.replayed else ~is_replayed
        for name in ("topic", "store", "reason", "partition"):
            wanted = getattr(self, name)
            if wanted is not None:
                condition &= pc.field(name) == wanted
        spans = [
            ("offset", self.from_offset, self.to_offset),
            ("timestamp_ms", self.since_ms, self.until_ms),
        ]
        for name, least, greatest in spans:
            if (least is not None or greatest is not None) and name not in known.names:
                return pc.scalar(value=False)
            if least is not None:
                condition &= pc.field(name) >= least
            if greatest is not None:
                condition &= pc.field(name) <= greatest
        return condition


def has_dead_letters(directory: Path) -> bool:
    """Return whether the dead-letter table exists. The first run of a pipeline creates it."""
    return has_table(directory)


def open_dead_letters(directory: Path) -> DeltaTable:
    """Open the newest complete version of the table."""
    # A torn newest log entry is an error in delta-rs, so the version is explicit.
    newest = DeltaLog(directory).newest()
    return open_with_files(directory, None if newest is None else newest.version)


@contextmanager
def damage_as_corrupt_log(directory: Path) -> Iterator[None]:
    """Translate read errors of the table to a one-line message.

    Raises:
        CorruptLog: The log or a file of the table is missing or cannot be read.
    """
    try:
        yield
    except ObjectStoreFailed:
        raise
    except (DeltaError, OSError, pa.ArrowException) as error:
        # An error without a number is Arrow's, for a page that cannot be decoded.
        if isinstance(error, OSError) and error.errno not in {None, errno.ENOENT}:
            raise
        first_line = str(error).partition("\n")[0].rstrip(".")
        message = (
            f"the dead letters in {directory} cannot be read: {first_line}. Put the missing or "
            "damaged file back from a backup"
        )
        raise CorruptLog(message) from error


def read_dead_letters(directory: Path, wanted: Selection, replays: Replays) -> Iterator[pa.Table]:
    """Yield the dead letters of the newest version, unordered, in ``DEAD_LETTER_SCHEMA`` tables.

    Raises:
        CorruptLog: The table is damaged.
    """
    with damage_as_corrupt_log(directory):
        dataset = open_dead_letters(directory).to_pyarrow_dataset()
        yield from matching_rows(dataset, wanted.condition(dataset.schema, replays))


def matching_rows(dataset: Any, condition: pc.Expression) -> Iterator[pa.Table]:
    """Yield the rows of an open dataset that match a condition on its columns."""
    # A table of an older version lacks the last columns until a run opens it.
    names = [name for name in DEAD_LETTER_SCHEMA.names if name in dataset.schema.names]
    batches = dataset.to_batches(
        columns=names, filter=condition, batch_size=_BATCH_ROWS, batch_readahead=1,
        fragment_readahead=1,
    )  # fmt: skip
    for batch in batches:
        if batch.num_rows:
            columns = [
                batch[field.name].cast(field.type)
                if field.name in names
                else pa.nulls(batch.num_rows, field.type)
                for field in DEAD_LETTER_SCHEMA
            ]
            yield pa.table(columns, schema=DEAD_LETTER_SCHEMA)
