"""Dead letters that are asked for, read from their table in batches, without Spark."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.dead_letters import DEAD_LETTER_SCHEMA
from oriel.pipeline.errors import ReplayRefused
from oriel.storage import DataLayout, current_files, data_folder, uri
from oriel.storage.delta import has_table, open_delta

#: So many letters are held at a time.
_BATCH_ROWS = 1000


@dataclass(frozen=True)
class Selection:
    """Which letters are meant: all for which everything that is given holds.

    ``since_ms`` is the least time of a record; one whose time is not known is not meant then.
    """

    topic: str | None = None
    store: str | None = None
    reason: str | None = None
    since_ms: int | None = None

    def condition(self, known: pa.Schema) -> pc.Expression:
        """The same for a dataset of the table, whose columns are ``known``."""
        condition = pc.scalar(value=True)
        for name in ("topic", "store", "reason"):
            wanted = getattr(self, name)
            if wanted is not None:
                condition &= pc.field(name) == wanted
        if self.since_ms is not None and "timestamp_ms" not in known.names:
            return pc.scalar(value=False)
        if self.since_ms is not None:
            condition &= pc.field("timestamp_ms") >= self.since_ms
        return condition


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a data folder and say which of its letters are meant."""
    parser.add_argument(
        "--data", type=data_folder, required=True, help="folder of tables and checkpoints"
    )
    parser.add_argument("--topic", help="only records of this topic")
    parser.add_argument("--store", help="only records that this store alone can't use")
    parser.add_argument("--reason", help="only this reason, like wrong-type")
    parser.add_argument(
        "--since", type=_time_ms, metavar="TIME",
        help="only records of this time or a later one: ms since 1970, or 2026-01-31T12:00:00Z",
    )  # fmt: skip


def selection(options: argparse.Namespace) -> Selection:
    """What the options of ``add_selection`` say."""
    return Selection(options.topic, options.store, options.reason, options.since)


def letters(data: Path, wanted: Selection) -> Iterator[pa.Table]:
    """The letters of a data folder, in no order, as tables of ``DEAD_LETTER_SCHEMA``.

    Raises:
        ReplayRefused: the folder has no dead-letter table.
    """
    folder = DataLayout(data).dead_letters
    current_files().reach(data)
    if not has_table(folder):
        message = f"{uri(data)} has no dead letters: name the folder that --data of oriel run names"
        raise ReplayRefused(message)
    return _tables(folder, wanted)


def _tables(folder: Path, wanted: Selection) -> Iterator[pa.Table]:
    dataset = open_delta(folder).to_pyarrow_dataset()
    # A table that no run has opened since it was made may lack the last columns.
    names = [name for name in DEAD_LETTER_SCHEMA.names if name in dataset.schema.names]
    batches = dataset.to_batches(
        columns=names, filter=wanted.condition(dataset.schema), batch_size=_BATCH_ROWS,
        batch_readahead=1, fragment_readahead=1,
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


def _time_ms(text: str) -> int:
    if text.isdecimal():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        message = f"{text!r} is no time: give ms since 1970, or a time like 2026-01-31T12:00:00Z"
        raise argparse.ArgumentTypeError(message) from error
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
