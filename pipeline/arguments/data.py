"""The data directory as an argument of a command."""

import argparse

from oriel.storage import parse_data_directory


def add_data_option(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Add ``--data``, without which the command fails. ``help_text`` is its text in ``--help``."""
    parser.add_argument(
        "--data", type=parse_data_directory, required=True, metavar="DIR", help=help_text
    )
