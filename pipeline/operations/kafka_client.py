"""Options of Kafka's client for commands that talk to the brokers themselves."""

import argparse
from pathlib import Path


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--kafka-option`` and ``--kafka-config``, which ``client_options`` reads."""
    parser.add_argument(
        "--kafka-option", action="append", metavar="NAME=VALUE",
        help="an option of Kafka's client (repeatable)",
    )  # fmt: skip
    parser.add_argument(
        "--kafka-config", type=Path, metavar="FILE",
        help="Java properties file with options of Kafka's client",
    )  # fmt: skip
