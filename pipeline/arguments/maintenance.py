"""The arguments of ``oriel run`` for the maintenance of tables."""

import argparse
from collections.abc import Callable


def add_maintenance_options(
    parser: argparse.ArgumentParser,
    duration_ms: Callable[[str], int],
    positive: Callable[[str], int],
) -> None:
    """Add the options.

    Args:
        parser: the parser to which they are added.
        duration_ms: reads a time with its unit, in milliseconds.
        positive: reads a positive integer.
    """
    parser.add_argument(
        "--compact", choices=["auto", "off"], default="auto",
        help="compact tables and their logs while the pipeline runs (auto), or keep all files and "
        "only write Delta checkpoints (off). Default: auto",
    )  # fmt: skip
    parser.add_argument(
        "--compact-files", type=positive, metavar="N",
        help="merge small files of a table when it has this many. Default: 64",
    )  # fmt: skip
    parser.add_argument(
        "--log-retention", type=duration_ms, metavar="TIME",
        help="keep entries of the tables' logs for this time, for example 60m. It becomes the "
        "table property delta.logRetentionDuration. Default: the current property, or 1 day",
    )  # fmt: skip
    parser.add_argument(
        "--deleted-file-retention", type=duration_ms, metavar="TIME",
        help="keep files for this time after a table stopped using them, for example 60m. It "
        "becomes the table property delta.deletedFileRetentionDuration. Default: the current "
        "property, or 1 hour",
    )  # fmt: skip
    parser.add_argument(
        "--max-files", type=positive, metavar="N", default=2_000,
        help="keep about this many files per store at most. If there are more, delete removed "
        "files and log entries before their retention ends, the oldest first. Files stay for ten "
        "seconds, and until an index below --data has read them. With object storage, files stay "
        "for their retention. Default: 2000",
    )  # fmt: skip
