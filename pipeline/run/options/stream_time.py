"""The options of ``oriel run`` that relate stream times to wall-clock time."""

import argparse
from collections.abc import Iterator, Mapping

from oriel.pipeline.plan import (
    NO_STREAM_TIME_NOTES,
    PreparedBatch,
    StreamTimeNotes,
    WallClockLimits,
)
from oriel.storage import log_line

#: Producers with a wrong time or time zone are wrong by hours, so a bound of a day does not reject
#: their records. After a record that is a day ahead, its partition accepts current records again a
#: day later.
DEFAULT_MAX_AHEAD_MS = 86_400_000


def stream_time_settings(
    options: argparse.Namespace, last: StreamTimeNotes = NO_STREAM_TIME_NOTES
) -> WallClockLimits:
    """Read the settings from the options.

    Args:
        options: the options of ``oriel run`` or ``oriel rebuild``.
        last: for a rebuild, the notes of the pipeline's last batch. A rebuild uses the bound of
            this batch by default, so that the rebuilt store has the records of the run.
    """
    default_ms = DEFAULT_MAX_AHEAD_MS if last.now_ms < 0 else last.max_ahead_ms
    return WallClockLimits(getattr(options, "max_ahead", default_ms), options.idle_after)


def idle_lines(
    before: Mapping[str, PreparedBatch], after: Mapping[str, PreparedBatch]
) -> Iterator[str]:
    """Yield a log line for each partition that became idle, or has new records again."""
    for store, prepared in after.items():
        known = before[store].clock_notes.idle if store in before else {}
        idle = prepared.clock_notes.idle
        for name in sorted({*known, *idle}):
            were, are = set(known.get(name, ())), set(idle.get(name, ()))
            for partition in sorted(are - were):
                place = log_line("partition is idle", store=store, topic=name, partition=partition)
                yield f"{place}. Windows become final without it"
            for partition in sorted(were - are):
                event = "partition has new records"
                place = log_line(event, store=store, topic=name, partition=partition)
                yield f"{place}. Windows wait for it again"
