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

#: So many letters are held at a time: their bytes may be long.
_BATCH_ROWS = 1000


@dataclass(frozen=True)
class Selection:
    """Which letters are meant: all for which everything that is given holds.

    ``since_ms`` and ``until_ms`` bound a record's time; one whose time is not known is not meant
    then. All bounds are inclusive. ``replayed``: only letters whose record was replayed, or only
    the others.
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
        """The same for a dataset of the table, whose columns are ``known``."""
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


def has_letters(folder: Path) -> bool:
    """Whether the dead-letter table is there; a folder that had no run has none."""
    return has_table(folder)


def open_letters(folder: Path) -> DeltaTable:
    """The newest whole version of the table."""
    # A torn newest entry is an error to delta-rs, so it is told which version to read.
    newest = DeltaLog(folder).newest()
    return open_with_files(folder, None if newest is None else newest.version)


@contextmanager
def damage_told(folder: Path) -> Iterator[None]:
    """Tell in one line what is wrong with the table.

    Raises:
        CorruptLog: its log or a file of it can't be read, or is not there.
    """
    try:
        yield
    except ObjectStoreFailed:
        raise
    except (DeltaError, OSError, pa.ArrowException) as error:
        # Arrow's word for a page that can't be decoded; the system's errors have a number.
        if isinstance(error, OSError) and error.errno not in {None, errno.ENOENT}:
            raise
        first_line = str(error).partition("\n")[0].rstrip(".")
        message = (
            f"the dead letters in {folder} cannot be read: {first_line}. Put the missing or "
            "damaged file back from a backup"
        )
        raise CorruptLog(message) from error


def letters(folder: Path, wanted: Selection, replays: Replays) -> Iterator[pa.Table]:
    """The letters of the newest version, in no order, as tables of ``DEAD_LETTER_SCHEMA``.

    Raises:
        CorruptLog: the table is damaged.
    """
    with damage_told(folder):
        dataset = open_letters(folder).to_pyarrow_dataset()
        yield from letters_of(dataset, wanted.condition(dataset.schema, replays))


def letters_of(dataset: Any, condition: pc.Expression) -> Iterator[pa.Table]:
    """The same of a dataset that is open, for a condition on its columns."""
    # A table that no run has opened since it was made may lack the last columns.
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
