"""``oriel dead-letters``: list dead letters, or send their records to their topics again."""

import argparse
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from oriel.pipeline.arguments import add_client_options
from oriel.pipeline.operations.dead_letters.selection import (
    add_selection,
    read_dead_letters,
    selection,
)
from oriel.pipeline.operations.messages import EXPECTED, print_error
from oriel.pipeline.spark import log_directory
from oriel.storage import DataLayout
from oriel.storage.dead_letters import UNKNOWN_MS, Selection, read_replays
from oriel.storage.delta import DEAD_LETTER_SCHEMA

#: The maximum number of characters of a value that a line shows.
_SHOWN = 60
_NEWEST_FIRST = [
    ("revision", "descending"), ("topic", "ascending"), ("partition", "ascending"),
    ("offset", "descending"),
]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """List dead letters, or send their records again.

    Returns:
        The exit code: 0 on success, 1 after an error, which is one line on stderr.
    """
    options = _parser().parse_args(arguments)
    try:
        if options.command == "list":
            _list(options.data, selection(options), options.limit, as_json=options.json)
        else:
            _replay(options)
    except EXPECTED as error:
        print_error("dead-letters", error)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="oriel dead-letters",
        description="List records that could not be used, or send them to their topic again.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser(
        "list", help="list the newest dead letters, and count them by reason",
        description="List the newest records that the pipeline could not use, and count all dead "
        "letters by reason.",
    )  # fmt: skip
    add_selection(listing)
    listing.add_argument("--limit", type=_positive, default=20, metavar="N",
                         help="list at most this many. All are counted. Default: 20")  # fmt: skip
    listing.add_argument("--not-replayed", dest="replayed", action="store_const", const=False,
                         help="select only dead letters whose record was not replayed")  # fmt: skip
    listing.add_argument("--json", action="store_true",
                         help="print one JSON object per line. Bytes that are not UTF-8 are "
                         "escaped")  # fmt: skip
    sending = commands.add_parser(
        "replay",
        help="send the records again",
        description="Send the records of dead letters to their topics and partitions again, each "
        "record once. A record that still cannot be used becomes a dead letter again. A record "
        "whose windows are final is late.",
    )
    add_selection(sending)
    target = sending.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--event-log", type=Path, metavar="ROOT", help="append the records to this event log"
    )
    target.add_argument(
        "--kafka", metavar="HOST:PORT",
        help="send the records to this Kafka cluster, with key, time and headers. Needs Java",
    )  # fmt: skip
    add_client_options(sending)
    sending.add_argument(
        "--limit", type=_positive, metavar="N", help="send at most this many records. Default: all"
    )
    sending.add_argument(
        "--dry-run",
        action="store_true",
        help="send nothing, and print how many records would be sent",
    )
    sending.add_argument(
        "--again", action="store_true", help="also send records that the command already sent"
    )
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        message = f"{text!r} is not an integer from 1"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _list(data: Path, wanted: Selection, limit: int, *, as_json: bool) -> None:
    counts: Counter[str] = Counter()
    replays, repeats = read_replays(DataLayout(data)), 0
    is_repeat = replays.is_repeat()
    newest = DEAD_LETTER_SCHEMA.empty_table()
    for table in read_dead_letters(data, wanted, replays):
        counts.update(table["reason"].to_pylist())
        repeats += table.filter(is_repeat).num_rows
        # Only the newest dead letters are in memory, so the table can have any size.
        newest = pa.concat_tables([newest, table]).sort_by(_NEWEST_FIRST)[:limit].combine_chunks()
    rows = [row | replays.marks(row) for row in newest.to_pylist()]
    if as_json:
        for row in rows:
            print(orjson.dumps({name: _plain(value) for name, value in row.items()}).decode())
        return
    for row in rows:
        location = f"{row['topic']}/{row['partition']} at {row['offset']}"
        key = "-" if row["key"] is None else _shortened(row["key"])
        store = f" (store {row['store']})" if row["store"] else ""
        print(f"{location}  {_time(row['timestamp_ms'])}  key {key}")
        print(f"    {row['reason']}{store}: {row['detail']}")
        print(f"    {_shortened(row['raw'])}")
        if row["repeats_offset"] is not None:
            print(f"    repeats the dead letter at {row['repeats_offset']}")
        if row["replayed_ms"] is not None:
            is_known = row["replayed_ms"] != UNKNOWN_MS
            print(f"    replayed {_time(row['replayed_ms'] if is_known else None)}")
    for reason, count in counts.most_common():
        print(f"{count:>12,}  {reason}")
    print(f"{counts.total():>12,}  in total, {len(rows):,} shown")
    if repeats:
        print(f"{repeats:>12,}  repeat another dead letter, because a replayed record failed again")


def _replay(options: argparse.Namespace) -> None:
    """Send the records again, and print the number of records that were sent and left out."""
    # The ``list`` subcommand does not need Spark's packages.
    from oriel.pipeline.operations.dead_letters.replay import EventLogTarget, KafkaTarget, replay  # noqa: PLC0415
    from oriel.pipeline.sources import client_options  # noqa: PLC0415

    target: EventLogTarget | KafkaTarget
    if options.event_log:
        target = EventLogTarget(options.event_log)
    else:
        client = client_options(options.kafka_option or (), options.kafka_config)
        target = KafkaTarget(options.kafka, client, log_directory(options.data))
    done = replay(
        options.data, selection(options), None if options.dry_run else target,
        limit=options.limit, again=options.again,
    )  # fmt: skip
    reasons = {
        "belong to a record that was sent before (--again sends it again)": done.known,
        "failed in one store, but other stores have them (select it with --store)": (
            done.of_single_stores
        ),
        "have no bytes (a null value, or the result of a join)": done.without_bytes,
    }
    lines = [f"{done.sent:,} records {'would be' if options.dry_run else 'were'} sent"]
    lines += [
        f"{count:,} dead letters left out: they {text}" for text, count in reasons.items() if count
    ]
    if done.sent:
        lines.append(
            "records that still cannot be used become dead letters again, and records that are "
            "too old are late"
        )
    print("\n".join(lines))


def _time(time_ms: int | None) -> str:
    if time_ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"


def _shortened(content: bytes) -> str:
    # A terminal would interpret control characters.
    text = content[: 4 * _SHOWN].decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(content):,} bytes)"


def _plain(value: Any) -> Any:
    """Return a value that JSON supports. Bytes that are not UTF-8 become escapes in a string."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, list):
        return [{name: _plain(part) for name, part in item.items()} for item in value]
    return value
