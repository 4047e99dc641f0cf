"""Select dead letters, and read them from their table in batches, without Spark."""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from oriel.pipeline.arguments import add_data_option
from oriel.pipeline.errors import ReplayRejected
from oriel.storage import DataLayout, current_files, uri
from oriel.storage.dead_letters import Replays, Selection, has_dead_letters
from oriel.storage.dead_letters import read_dead_letters as read_from_table


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that select dead letters of a data directory."""
    add_data_option(parser, "read the dead letters of this data directory")
    parser.set_defaults(replayed=None)
    parser.add_argument("--topic", metavar="TOPIC", help="select only records of this topic")
    parser.add_argument(
        "--store", metavar="STORE", help="select only records that this store alone cannot use"
    )
    parser.add_argument(
        "--reason", metavar="REASON", help="select only this reason, for example wrong-type"
    )
    parser.add_argument(
        "--since", type=_time_ms, metavar="TIME",
        help="select only records of this time or later, for example 2026-01-31T12:00:00Z or ms "
        "since 1970. Records without a known time are left out",
    )  # fmt: skip


def selection(options: argparse.Namespace) -> Selection:
    """Return the selection that the options of ``add_selection`` describe."""
    return Selection(
        options.topic, options.store, options.reason, options.since, replayed=options.replayed
    )


def read_dead_letters(data: Path, wanted: Selection, replays: Replays) -> Iterator[pa.Table]:
    """Yield the dead letters of a data directory, unordered, as ``DEAD_LETTER_SCHEMA`` tables.

    Raises:
        ReplayRejected: The directory has no dead-letter table.
    """
    directory = DataLayout(data).dead_letters
    current_files().reach(data)
    if not has_dead_letters(directory):
        message = f"{uri(data)} has no dead letters. Pass the --data directory of oriel run"
        raise ReplayRejected(message)
    return read_from_table(directory, wanted, replays)


def _time_ms(text: str) -> int:
    if text.isdecimal():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        message = (
            f"{text!r} is not a time. Write ms since 1970, or a time like 2026-01-31T12:00:00Z"
        )
        raise argparse.ArgumentTypeError(message) from error
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
