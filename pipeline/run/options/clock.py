"""The options of ``oriel run`` by which wall clock protects the clocks of partitions."""

import argparse
from collections.abc import Callable, Iterator, Mapping

from oriel.pipeline.plan import ClockSettings, PreparedBatch

#: Generous, as clocks of producers and time zones go wrong by hours, and it still saves a store:
#: behind a record that is a day ahead its partition takes records again a day later.
DEFAULT_MAX_AHEAD_MS = 86_400_000


def add_clock_options(parser: argparse.ArgumentParser, duration_ms: Callable[[str], int]) -> None:
    """Add the options; ``duration_ms`` reads a time with its unit."""

    def duration_or_off(text: str) -> int | None:
        return None if text == "off" else duration_ms(text)

    parser.add_argument(
        "--max-ahead", type=duration_or_off, default=argparse.SUPPRESS, metavar="TIME|off",
        help="records further ahead of wall clock are dead letters (default 1d; with --once off)",
    )  # fmt: skip
    parser.add_argument(
        "--idle-after", type=duration_or_off, metavar="TIME|off",
        help="a partition that is silent for longer holds no windows open (default off)",
    )  # fmt: skip


def clock_settings(options: argparse.Namespace) -> ClockSettings:
    """What the options say; a run with ``--once`` is a replay, whose times may be any.

    A store that is computed anew is protected as it was when it was computed first.
    """
    is_replay = options.once and options.store is None
    default_ms = None if is_replay else DEFAULT_MAX_AHEAD_MS
    return ClockSettings(getattr(options, "max_ahead", default_ms), options.idle_after)


def idle_lines(
    before: Mapping[str, PreparedBatch], after: Mapping[str, PreparedBatch]
) -> Iterator[str]:
    """A line for each partition that a store began to leave out, or waits for again."""
    for store, prepared in after.items():
        known = before[store].clock_notes.idle if store in before else {}
        idle = prepared.clock_notes.idle
        for name in sorted({*known, *idle}):
            were, are = set(known.get(name, ())), set(idle.get(name, ()))
            for partition in sorted(are - were):
                yield f"store {store!r}: {name} {partition} is silent, windows close without it"
            for partition in sorted(were - are):
                yield f"store {store!r}: {name} {partition} speaks again, windows wait for it"
