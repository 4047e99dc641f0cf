"""Options of ``oriel run`` about keeping tables small."""

import argparse
from collections.abc import Callable

from oriel.storage.delta import Limits, UpkeepSettings


def add_upkeep_options(
    parser: argparse.ArgumentParser,
    duration_ms: Callable[[str], int],
    positive: Callable[[str], int],
) -> None:
    """Add the options to a command line that reads durations and counts with these functions."""
    parser.add_argument(
        "--compact", choices=["auto", "off"], default="auto",
        help="keep tables and their logs small beside the stream (auto), or leave all files (off)",
    )  # fmt: skip
    parser.add_argument(
        "--compact-files", type=positive, default=Limits.small_files, metavar="N",
        help=f"how many small files of a table are merged at a time (default {Limits.small_files})",
    )  # fmt: skip
    parser.add_argument(
        "--log-retention", type=duration_ms, metavar="TIME",
        help="how long entries of the tables' logs are kept, like 60m (default: 1 day)",
    )  # fmt: skip
    parser.add_argument(
        "--deleted-file-retention", type=duration_ms, metavar="TIME",
        help="how long files are kept after they left a table, like 60m (default: 1 hour)",
    )  # fmt: skip


def upkeep_settings(options: argparse.Namespace) -> UpkeepSettings:
    """The settings that a command line asks for."""
    return UpkeepSettings(
        compacts=options.compact == "auto",
        limits=Limits(small_files=options.compact_files),
        log_retention_ms=options.log_retention,
        deleted_file_retention_ms=options.deleted_file_retention,
    )
