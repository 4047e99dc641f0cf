"""The partitions of a store, and their lag."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from oriel.storage.monitoring.run_status import RunStatus
from oriel.storage.position import CommitRecord

#: Age from which the last known end of the log is outdated. A pipeline reads the end at least
#: every 10 s while the log responds, and writes it to its status within 4 s.
LOG_END_SECONDS_MAX = 20

#: The last status of a pipeline, and whether the pipeline is alive.
Reported = tuple[RunStatus, bool]


@dataclass(frozen=True)
class PartitionOverview:
    """One partition as one store reads it.

    Attributes:
        topic: The topic.
        partition: The number of the partition.
        offset: The offset after the last record that the store has read.
        log_end: The end of the log when the pipeline last read it, None if it is not known. The
            store can have read more since then, so ``offset`` can be greater.
        lag: ``last_lag``, but None if the end of the log is outdated (see ``is_log_end_current``).
        last_lag: The unread part of the log when the pipeline last read its end, in the unit of
            the offsets, None if it is not known.
        stream_time_ms: The stream time of the partition, -1 before its first record.
        lag_ms: The distance from stream time to wall-clock time while ``lag`` is positive, 0 if
            ``lag`` is 0. None if ``lag`` is not known, before the first record, and if stream
            time is ahead of wall-clock time.
        holds_windows_open: True if this partition keeps the store's windows from becoming final.
        is_idle: True if the partition is idle, so that windows become final without it.
    """

    topic: str
    partition: str
    offset: int
    log_end: int | None
    lag: int | None
    last_lag: int | None
    stream_time_ms: int
    lag_ms: int | None
    holds_windows_open: bool
    is_idle: bool


def partition_overviews(
    store: str, record: CommitRecord, reported: Reported | None, now_ms: int
) -> Iterator[PartitionOverview]:
    """Yield the partitions of a store, ordered by topic and number."""
    run = reported[0] if reported is not None else None
    is_known = reported is not None and is_log_end_current(reported, now_ms)
    of_run = run.stores[store] if run is not None else None
    # A topic that is read twice has two stream times, NAME and NAME#2. The slower one counts.
    times_ms: dict[tuple[str, str], int] = {}
    for clock, of_stream in record.stream_time_ms.items():
        for partition, time_ms in of_stream.items():
            place = clock.partition("#")[0], partition
            times_ms[place] = min(time_ms, times_ms.get(place, time_ms))
    held_by = of_run.held_by if of_run is not None else None
    delaying = (held_by[0].partition("#")[0], str(held_by[1])) if held_by is not None else None
    idle = {
        (clock.partition("#")[0], str(partition))
        for clock, partitions in (of_run.idle.items() if of_run is not None else ())
        for partition in partitions
    }
    ends = run.log_ends if run is not None else {}
    lags = run.lags.get(store, {}) if run is not None else {}
    for topic, offsets in sorted(record.offsets.items()):
        for partition in sorted(offsets, key=int):
            time_ms = times_ms.get((topic, partition), -1)
            log_end = ends.get(topic, {}).get(partition)
            lag = lags.get(topic, {}).get(partition)
            if lag is None and log_end is not None:
                # No batch since the start, or the status of an older version.
                lag = log_end - offsets[partition]
            # If the log ends before the store's offset, it was truncated, or its end was read
            # before the store's last batches. In both cases, the lag is unknown.
            last_lag = lag if lag is not None and lag >= 0 else None
            lag = last_lag if is_known else None
            yield PartitionOverview(
                topic=topic,
                partition=partition,
                offset=offsets[partition],
                log_end=log_end,
                lag=lag,
                last_lag=last_lag,
                stream_time_ms=time_ms,
                lag_ms=_lag_ms(lag, now_ms, time_ms),
                holds_windows_open=(topic, partition) == delaying,
                is_idle=(topic, partition) in idle,
            )


def _lag_ms(lag: int | None, now_ms: int, time_ms: int) -> int | None:
    if not lag:
        return lag
    # Stream time ahead of wall-clock time says nothing about the lag. It has its own alert,
    # OrielClockAhead.
    return now_ms - time_ms if 0 <= time_ms <= now_ms else None


def is_log_end_current(reported: Reported, now_ms: int) -> bool:
    """Return whether the end of the log in a status is still the end of the log.

    A log grows without a report of its new end if the pipeline is stopped or its log does not
    respond. Then, the lag is unknown.
    """
    run, is_alive = reported
    return is_alive and now_ms - run.log_ends_ms <= 1000 * LOG_END_SECONDS_MAX


def total_lag(partitions: Iterable[PartitionOverview]) -> tuple[int | None, int | None]:
    """Add up the lags of different partitions, and find their greatest lag in time.

    Returns:
        The lag, None if a lag is unknown or there is no partition, and the lag in ms.
    """
    lags = [(one.lag, one.lag_ms) for one in partitions]
    known = [lag for lag, _ in lags if lag is not None]
    if not lags or len(known) < len(lags):
        return None, None
    waiting_ms = [lag_ms for lag, lag_ms in lags if lag]
    known_ms = [lag_ms for lag_ms in waiting_ms if lag_ms is not None]
    return sum(known), max(known_ms, default=None if waiting_ms else 0)
