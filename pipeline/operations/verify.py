"""``oriel verify``: check every file of a data directory or of a backup.

The pipeline and the service can run meanwhile. The command writes no files, except for the log of
Java with ``--kafka``.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from oriel.pipeline.arguments import add_client_options
from oriel.pipeline.operations.messages import EXPECTED, print_error
from oriel.pipeline.operations.verification import (
    Finding,
    Site,
    confirmed,
    findings_of_backup,
    has_kafka_record,
)
from oriel.storage import (
    DataLayout,
    StorageError,
    absolute,
    current_files,
    parse_data_directory,
    uri,
)

if TYPE_CHECKING:
    from oriel.pipeline.sources import TopicLog

#: Exit codes.
_NOTHING, _DAMAGED, _NOT_VERIFIED = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Print each finding and a summary.

    Returns:
        The exit code: 0 if nothing is damaged, 1 if a file is damaged, 2 if the check failed. After
        an invalid option, the process also exits with 2.
    """
    parser = argparse.ArgumentParser(
        prog="oriel verify",
        description="Check every file of a data directory or of a backup. A pipeline and a "
        "service can run meanwhile.",
    )
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument(
        "--data", type=parse_data_directory, metavar="DIR", help="check this data directory"
    )
    place.add_argument(
        "--backup", type=Path, metavar="BACKUP", help="check this backup of oriel backup"
    )
    parser.add_argument(
        "--index", type=Path, metavar="DIR",
        help="check the indexes of oriel serve in this directory. Default: DATA/index",
    )  # fmt: skip
    parser.add_argument(
        "--event-log", type=Path, metavar="ROOT",
        help="also compare the offsets of the checkpoints with this event log",
    )  # fmt: skip
    parser.add_argument(
        "--kafka", metavar="HOST:PORT",
        help="also compare the offsets of the checkpoints with this Kafka cluster. Needs Java",
    )  # fmt: skip
    add_client_options(parser)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object per line, the summary last"
    )
    options = parser.parse_args(arguments)
    if options.kafka is None and (options.kafka_option or options.kafka_config):
        parser.error("--kafka-option and --kafka-config need --kafka")
    if options.kafka is not None and options.data is None:
        parser.error("--kafka needs --data")
    try:
        site, found = _checked(options)
        return _print(site, found, as_json=options.json)
    except EXPECTED as error:
        print_error("verify", error)
        return _NOT_VERIFIED


def _checked(options: argparse.Namespace) -> tuple[Site, Iterator[Finding]]:
    if options.backup is not None:
        return findings_of_backup(options.backup)
    data = absolute(options.data)
    current_files().reach(data)
    if not current_files().is_directory(data / "tables"):
        message = f"{uri(data)}: it has no tables. Pass the --data directory of oriel run"
        raise StorageError(message)
    if options.event_log is not None and not options.event_log.is_dir():
        message = f"{options.event_log} is not a directory. Pass the --event-log of oriel run"
        raise StorageError(message)
    site = Site(DataLayout(data, options.index), options.event_log)
    if options.kafka is not None:
        if not any(map(has_kafka_record, site.checkpoints)):
            message = f"{uri(data)}: its pipelines do not read Kafka. Omit --kafka"
            raise StorageError(message)
        site.fetch_topic = _topics(options)
    return site, confirmed(site)


def _topics(options: argparse.Namespace) -> "Callable[[str], TopicLog | None]":
    # A check without Kafka needs neither Spark nor Java.
    from oriel.pipeline.operations.brokers import brokers_for  # noqa: PLC0415
    from oriel.pipeline.sources import MissingTopic, client_options  # noqa: PLC0415
    from oriel.pipeline.spark import log_directory  # noqa: PLC0415

    client = client_options(options.kafka_option or (), options.kafka_config)
    brokers = brokers_for("verify", options.kafka, client, log_directory(options.data))

    def topic_of(topic: str) -> "TopicLog | None":
        try:
            return brokers.topics([topic])[topic]
        except MissingTopic:
            return None

    return topic_of


def _print(site: Site, found: Iterator[Finding], *, as_json: bool) -> int:
    damaged = surplus = 0
    for finding in found:
        damaged += finding.is_damage
        surplus += not finding.is_damage
        # The progress line does not end with a newline.
        site.clear_progress()
        print(orjson.dumps(finding.fields()).decode() if as_json else str(finding), flush=True)
    site.clear_progress()
    counts = {"damaged": damaged, "surplus": surplus, "files": site.files, "bytes": site.bytes}
    if as_json:
        print(orjson.dumps({"summary": counts}).decode())
    else:
        print(
            f"{damaged:,} damaged, {surplus:,} surplus. "
            f"{site.files:,} files with {site.bytes:,} bytes were checked."
        )
    return _DAMAGED if damaged else _NOTHING
