"""The arguments of ``oriel run`` that relate stream times to wall-clock time."""

import argparse
from collections.abc import Callable


def add_stream_time_options(
    parser: argparse.ArgumentParser, duration_ms: Callable[[str], int]
) -> None:
    """Add the options. ``duration_ms`` reads a time with its unit."""

    def duration_or_off(text: str) -> int | None:
        return None if text == "off" else duration_ms(text)

    parser.add_argument(
        "--max-ahead", type=duration_or_off, default=argparse.SUPPRESS, metavar="TIME|off",
        help="reject records whose time is further ahead of wall-clock time. They become dead "
        "letters. 'off' accepts all times. Default: 1d, for oriel rebuild the bound of the last "
        "batch",
    )  # fmt: skip
    parser.add_argument(
        "--idle-after", type=duration_or_off, metavar="TIME|off",
        help="treat a partition without new records for this time as idle, so that windows become "
        "final without it. Default: off",
    )  # fmt: skip
