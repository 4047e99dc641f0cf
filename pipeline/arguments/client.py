"""The arguments with which commands accept options of Kafka's client."""

import argparse
from pathlib import Path


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--kafka-option`` and ``--kafka-config``, which ``client_options`` reads."""
    parser.add_argument(
        "--kafka-option", action="append", metavar="NAME=VALUE",
        help="set an option of Kafka's client, for example security.protocol=SASL_SSL. Can be "
        "repeated",
    )  # fmt: skip
    parser.add_argument(
        "--kafka-config", type=Path, metavar="FILE",
        help="read options of Kafka's client from this Java properties file. Use it for secrets",
    )  # fmt: skip
