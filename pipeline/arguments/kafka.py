"""The arguments of ``oriel run`` for Kafka."""

import argparse
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal, get_args

from oriel.pipeline.arguments.client import add_client_options

#: ``auto`` is ``client`` (librdkafka) if it has all options, and otherwise ``spark``.
ReaderName = Literal["auto", "client", "spark"]
#: The start of a new checkpoint: the first records, the end, or the first records at or after a
#: time (ms since 1970).
Start = Literal["earliest", "latest"] | int

#: Options for Kafka only, as attributes of the parsed options.
_ONLY_KAFKA = ("kafka_option", "kafka_config", "start", "on_data_loss", "max_batch_records",
               "kafka_wait", "kafka_reader")  # fmt: skip
#: The options of the client, which also writes.
_CLIENT = ("kafka_option", "kafka_config")

DEFAULT_RECORDS = 500_000


def add_kafka_arguments(
    parser: argparse.ArgumentParser,
    positive: Callable[[str], int],
    duration_ms: Callable[[str], int],
) -> None:
    """Add the options. ``positive`` and ``duration_ms`` read integers and times."""
    add_client_options(parser)
    parser.add_argument(
        "--start", type=_topic_start, action="append", metavar="[TOPIC=]WHERE",
        help="start a new checkpoint here: earliest, latest, or a time as 2026-01-31T12:00:00Z or "
        "in ms since 1970. With TOPIC=, only for this topic. Can be repeated. Default: earliest",
    )  # fmt: skip
    parser.add_argument(
        "--on-data-loss", choices=("fail", "continue"),
        help="if Kafka deleted records before the pipeline read them, stop with an error (fail), "
        "or count them and continue. Default: fail",
    )  # fmt: skip
    parser.add_argument(
        "--max-batch-records", type=positive, metavar="N",
        help="read at most this many records of a topic per batch. Default: "
        f"{DEFAULT_RECORDS}",
    )  # fmt: skip
    parser.add_argument(
        "--kafka-reader", choices=get_args(ReaderName),
        help="read Kafka with librdkafka (client), with Spark's connector (spark), or with "
        "librdkafka if it has all options that are set (auto). Default: auto",
    )  # fmt: skip
    parser.add_argument(
        "--kafka-wait", type=duration_ms, metavar="TIME",
        help="wait this long for Kafka at the start. Default: 30s",
    )  # fmt: skip


def check_kafka_arguments(
    parser: argparse.ArgumentParser, options: argparse.Namespace
) -> argparse.Namespace:
    """Return ``options``. End the process if an event log has options of Kafka."""
    for name in _ONLY_KAFKA:
        if name in _CLIENT and options.publish_to:
            continue
        if not options.kafka and getattr(options, name) is not None:
            parser.error(f"--{name.replace('_', '-')} needs --kafka")
    return options


def _topic_start(text: str) -> tuple[str | None, Start]:
    topic, equals, where = text.partition("=")
    return (topic, _start(where)) if equals else (None, _start(text))


def _start(text: str) -> Start:
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    # A year alone would be a second or two after 1970.
    if re.fullmatch(r"[0-9]{5,18}", text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        message = (
            f"{text!r} is not a start. Use earliest, latest, a time like 2026-01-31T12:00:00Z, "
            "or ms since 1970"
        )
        raise argparse.ArgumentTypeError(message) from error
    in_utc = time if time.tzinfo else time.replace(tzinfo=UTC)
    return max(0, round(in_utc.timestamp() * 1000))
