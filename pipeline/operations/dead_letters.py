"""``oriel dead-letters``: records that could not be used, shown, and sent to their topics again."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from oriel.pipeline.errors import PipelineError
from oriel.pipeline.operations.letters import add_selection, letters, selection
from oriel.pipeline.spark import log_folder
from oriel.storage import StorageError
from oriel.storage.dead_letters import Selection
from oriel.storage.delta import DEAD_LETTER_SCHEMA

#: How many characters of a value a line shows.
_SHOWN = 60
_NEWEST_FIRST = [
    ("revision", "descending"), ("topic", "ascending"), ("partition", "ascending"),
    ("offset", "descending"),
]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """List dead letters or send them again; return the process's exit code.

    0: done, 1: it can't be done, in one line on stderr.
    """
    options = _parser().parse_args(arguments)
    try:
        if options.command == "list":
            _list(options.data, selection(options), options.limit, as_json=options.json)
        else:
            _replay(options)
    except (PipelineError, StorageError, OSError) as error:
        print(f"oriel dead-letters: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="oriel dead-letters",
        description="Records that could not be used: list them, or send them to their topic again.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="newest first, with how many there are by reason")
    add_selection(listing)
    listing.add_argument("--limit", type=_positive, default=20, metavar="N",
                         help="at most so many lines (default 20); all are counted")  # fmt: skip
    listing.add_argument("--json", action="store_true", help="JSON Lines, for programs")
    sending = commands.add_parser(
        "replay",
        help="send records again",
        description="Send dead letters to their topics again, each record once. One that is as bad "
        "as before becomes a dead letter again, and one whose time is long past is late.",
    )
    add_selection(sending)
    target = sending.add_mutually_exclusive_group(required=True)
    target.add_argument("--event-log", type=Path, metavar="FOLDER", help="append to this event log")
    target.add_argument("--kafka", metavar="HOST:PORT", help="send to this Kafka cluster")
    sending.add_argument("--kafka-option", action="append", metavar="NAME=VALUE",
                         help="an option of Kafka's client (repeatable)")  # fmt: skip
    sending.add_argument("--kafka-config", type=Path, metavar="FILE",
                         help="Java properties file with options of the client")  # fmt: skip
    sending.add_argument("--limit", type=_positive, metavar="N", help="at most so many records")
    sending.add_argument("--dry-run", action="store_true", help="only say how many would be sent")
    sending.add_argument("--again", action="store_true", help="also records that were sent before")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        message = f"{text!r} is no number from 1 on"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _list(data: Path, wanted: Selection, limit: int, *, as_json: bool) -> None:
    counts: Counter[str] = Counter()
    newest = DEAD_LETTER_SCHEMA.empty_table()
    for table in letters(data, wanted):
        counts.update(table["reason"].to_pylist())
        # No more than the newest are held, whatever the table's size.
        newest = pa.concat_tables([newest, table]).sort_by(_NEWEST_FIRST)[:limit].combine_chunks()
    rows = newest.to_pylist()
    if as_json:
        for row in rows:
            print(orjson.dumps({name: _plain(value) for name, value in row.items()}).decode())
        return
    for row in rows:
        place = f"{row['topic']}/{row['partition']} at {row['offset']}"
        key = "-" if row["key"] is None else _clipped(row["key"])
        store = f" (store {row['store']})" if row["store"] else ""
        print(f"{place}  {_time(row['timestamp_ms'])}  key {key}")
        print(f"    {row['reason']}{store}: {row['detail']}")
        print(f"    {_clipped(row['raw'])}")
    for reason, count in counts.most_common():
        print(f"{count:>12,}  {reason}")
    print(f"{counts.total():>12,}  in all, {len(rows):,} of them shown")


def _replay(options: argparse.Namespace) -> None:
    """Send letters again; print what was sent, and why the rest was not."""
    # Listing needs none of Spark's packages.
    from oriel.pipeline.operations.replay import EventLogTarget, KafkaTarget, replay  # noqa: PLC0415
    from oriel.pipeline.sources import client_options  # noqa: PLC0415

    target: EventLogTarget | KafkaTarget
    if options.event_log:
        target = EventLogTarget(options.event_log)
    else:
        client = client_options(options.kafka_option or (), options.kafka_config)
        target = KafkaTarget(options.kafka, client, log_folder(options.data))
    done = replay(
        options.data, selection(options), None if options.dry_run else target,
        limit=options.limit, again=options.again,
    )  # fmt: skip
    reasons = {
        "are of a record that was sent before (--again sends it once more)": done.known,
        "are bad for one store only, and others have them: name it with --store": done.of_stores,
        "have no bytes (an empty value, or the result of a join)": done.unsendable,
    }
    lines = [f"{done.sent:,} records {'would be' if options.dry_run else 'were'} sent"]
    lines += [
        f"{count:,} letters left out: they {text}" for text, count in reasons.items() if count
    ]
    if done.sent:
        lines.append(
            "what is as bad as before becomes a dead letter again; what is of a time long past is "
            "late"
        )
    print("\n".join(lines))


def _time(time_ms: int | None) -> str:
    if time_ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"


def _clipped(content: bytes) -> str:
    # Of control characters a terminal may make anything.
    text = content[: 4 * _SHOWN].decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(content):,} bytes)"


def _plain(value: Any) -> Any:
    """Bytes as text; what is no UTF-8 in it is escaped."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, list):
        return [{name: _plain(part) for name, part in item.items()} for item in value]
    return value
