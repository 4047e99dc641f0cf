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

    ``offset`` is where the store is (exclusive). ``log_end`` is where the log ended when the
    pipeline last read its end, None if that is not known. The pipeline can have read on since
    then, so ``offset`` can be greater. ``last_lag`` is how much of the log the store had not read
    at that moment, in the unit of its offsets, None if that is not known. ``lag`` is the same, but
    None if the log's end is outdated (see ``has_log_end``). ``stream_time_ms`` is the partition's
    clock, -1 before its first record. ``lag_ms`` is the distance from that clock to wall-clock time
    while ``lag`` is positive, 0 if ``lag`` is 0. It is None if ``lag`` is not known, before the
    first record, and if the clock is ahead of wall-clock time.
    ``holds_windows_open``: the store's windows wait for this partition. ``is_idle``: the partition
    is idle, and the store's windows do not wait for it.
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
    """Return the partitions of a store, by topic and number."""
    run = reported[0] if reported is not None else None
    is_known = reported is not None and has_log_end(reported, now_ms)
    of_run = run.stores[store] if run is not None else None
    # A topic that is read twice has two clocks, NAME and NAME#2; the slower one counts.
    times_ms: dict[tuple[str, str], int] = {}
    for clock, of_clock in record.stream_time_ms.items():
        for partition, time_ms in of_clock.items():
            place = clock.partition("#")[0], partition
            times_ms[place] = min(time_ms, times_ms.get(place, time_ms))
    held_by = of_run.held_by if of_run is not None else None
    held = (held_by[0].partition("#")[0], str(held_by[1])) if held_by is not None else None
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
            # A log that ends before the store's offset was truncated, or its end was read before
            # the store's last batches: nobody knows then what the store has not read.
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
                holds_windows_open=(topic, partition) == held,
                is_idle=(topic, partition) in idle,
            )


def _lag_ms(lag: int | None, now_ms: int, time_ms: int) -> int | None:
    if not lag:
        return lag
    # A clock ahead of wall-clock time says nothing about the lag, and has its own alert
    # (OrielClockAhead).
    return now_ms - time_ms if 0 <= time_ms <= now_ms else None


def has_log_end(reported: Reported, now_ms: int) -> bool:
    """Return whether the end of the log in a status is still the end of the log.

    A log grows while nobody reads its end. So the lag of a pipeline that is stopped, or whose log
    does not respond, is unknown.
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
