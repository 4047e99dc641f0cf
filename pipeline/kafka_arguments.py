"""The arguments with which commands accept options of Kafka's client."""

import argparse
from pathlib import Path


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--kafka-option`` and ``--kafka-config``, which ``client_options`` reads."""
    parser.add_argument(
        "--kafka-option", action="append", metavar="NAME=VALUE",
        help="an option of Kafka's client, like security.protocol=SASL_SSL (repeatable)",
    )  # fmt: skip
    parser.add_argument(
        "--kafka-config", type=Path, metavar="FILE",
        help="Java properties file with options of Kafka's client",
    )  # fmt: skip
