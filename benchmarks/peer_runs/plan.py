"""The runs of a benchmark in their order, their records, and the time and disk that they need."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.peer_runs.cases import (
    CHECK_RECORDS,
    COLD_RECORDS,
    EVENT_LOG,
    KINDS,
    ORIEL,
    PEER,
    STEADY_RECORDS,
    DataSet,
)

CHECK, COLD, STEADY, LATENCY = "check", "cold", "steady", "latency"
#: ``CHECK`` belongs to the rates.
CHOSEN_PARTS = (COLD, STEADY, LATENCY)
LATENCY_SECONDS = 60.0
RATES = (10, 1_000, 10_000)
STORES = (1, 5)

#: What is assumed until a run of the same case has ended.
_START_SECONDS, _SERVICE_SECONDS = 10.0, 40.0
_WRITTEN_PER_SECOND = 250_000.0
_RECORDS_PER_SECOND = {ORIEL: 300_000.0, EVENT_LOG: 700_000.0, PEER: 600_000.0}
_PEER_PER_SECOND = {
    "sliding": 33_000.0,
    "dense": 6_000.0,
    "hopping": 160_000.0,
    "sessions": 140_000.0,
}

#: Bytes per record: of the topic and the log, and of tables, state and changelogs of one run.
_DATA_SET_BYTES, _RUN_BYTES = 150, 400


class RateCase(NamedTuple):
    """All records of a topic as fast as possible. ``kind`` is a key of ``KINDS``."""

    part: str
    kind: str
    disorder_s: int


class LatencyCase(NamedTuple):
    """Records at an even pace into some stores."""

    records_per_second: int
    stores: int


Case = RateCase | LatencyCase


class Run(NamedTuple):
    """One process of one system. ``repeat`` counts from 0."""

    case: Case
    system: str
    repeat: int


def planned(options: argparse.Namespace) -> list[Run]:
    """Return all runs in their order.

    The systems run in turn. Cases over the same topic follow each other, so the topic can be
    deleted after the last one.
    """
    runs = []
    for case in _cases(options):
        repeats = 1 if isinstance(case, RateCase) and case.part == CHECK else options.repeat
        runs += [
            Run(case, system, repeat)
            for repeat in range(repeats)
            for system in options.systems
            # The program of Kafka Streams has one store.
            if not (isinstance(case, LatencyCase) and case.stores > 1 and system == PEER)
        ]
    return runs


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    for disorder_s in options.disorder:
        for dense in (False, True):
            kinds = [kind for kind in options.kinds if KINDS[kind].dense == dense]
            for part in (CHECK, COLD, STEADY):
                for kind in kinds:
                    case = RateCase(part, kind, disorder_s)
                    needed = part in options.parts if part != CHECK else _checked(kind, options)
                    if needed:
                        yield case
    if LATENCY in options.parts:
        for rate in options.rates:
            for stores in options.stores:
                yield LatencyCase(rate, stores)


def _checked(kind: str, options: argparse.Namespace) -> bool:
    """Return True if no other case is small enough to compare the stores with Kafka Streams."""
    runs_rates = COLD in options.parts or STEADY in options.parts
    smallest = min(COLD_RECORDS, options.records)
    too_many = smallest > KINDS[kind].peer_compared_records
    return options.check and runs_rates and PEER in options.systems and too_many


def data_set(run: Run, most_records: int) -> DataSet:
    """Return the records of a run of a ``RateCase``, at most ``most_records``."""
    case = run.case
    assert isinstance(case, RateCase)
    kind = KINDS[case.kind]
    steady = kind.peer_steady_records if run.system == PEER else STEADY_RECORDS
    records = {CHECK: CHECK_RECORDS, COLD: COLD_RECORDS, STEADY: steady}[case.part]
    return DataSet(kind.dense, case.disorder_s, min(records, most_records))


def data_sets(runs: Sequence[Run], most_records: int) -> set[DataSet]:
    """Return the different data sets of some runs."""
    return {data_set(run, most_records) for run in runs if isinstance(run.case, RateCase)}


def needed_bytes(runs: Sequence[Run], most_records: int) -> int:
    """Return the disk space for the largest data sets that exist together, and one run."""
    largest: dict[tuple[bool, int], int] = {}
    sets = data_sets(runs, most_records)
    for data in sets:
        group = (data.dense, data.disorder_s)
        largest[group] = largest.get(group, 0) + data.records * _DATA_SET_BYTES
    most = max((data.records for data in sets), default=0)
    return max(largest.values(), default=0) + most * _RUN_BYTES


def remaining_seconds(
    runs: Sequence[Run], done: Mapping[Run, float], most_records: int, latency_seconds: float
) -> float:
    """Return the expected duration of the runs that are not done.

    ``done`` has the seconds of finished runs. A run needs as long as an earlier one of its case
    and system. Without one, the rate of a quiet machine is assumed, and corrected by how much
    longer the finished runs needed.
    """
    known: dict[tuple[Case, str], list[float]] = {}
    for run, seconds in done.items():
        known.setdefault((run.case, run.system), []).append(seconds)
    assumed = sum(_assumed_seconds(run, most_records, latency_seconds) for run in done)
    correction = sum(done.values()) / assumed if done else 1.0
    waiting = [run for run in runs if run not in done]
    seconds = 0.0
    for run in waiting:
        if earlier := known.get((run.case, run.system)):
            seconds += sum(earlier) / len(earlier)
        else:
            seconds += correction * _assumed_seconds(run, most_records, latency_seconds)
    written = sum(data.records for data in data_sets(waiting, most_records))
    return seconds + written / _WRITTEN_PER_SECOND


def _assumed_seconds(run: Run, most_records: int, latency_seconds: float) -> float:
    if isinstance(run.case, LatencyCase):
        return latency_seconds + _SERVICE_SECONDS
    records = data_set(run, most_records).records
    return _START_SECONDS + records / _assumed_rate(run.case, run.system)


def _assumed_rate(case: RateCase, system: str) -> float:
    default = _RECORDS_PER_SECOND[system]
    return _PEER_PER_SECOND.get(case.kind, default) if system == PEER else default
