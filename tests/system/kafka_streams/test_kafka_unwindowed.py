"""Aggregation without windows: Oriel's rows equal those of the real Kafka Streams 4.3.1."""

from random import Random

import pytest

from oriel.pipeline.windows import NoWindows
from tests.windows.kafka_peer import (
    Case,
    KafkaPeer,
    Place,
    Row,
    log_of,
    our_calls,
    our_rows,
    our_run,
    random_log,
    some_logs,
)

FIRST_SEED = 9_300_000


@pytest.mark.kafka
@some_logs
def test_rows_equal_kafka_streams(peer: KafkaPeer, number: int) -> None:
    """Every key's row equals Kafka's with any disorder, and only null values are dropped."""
    seeds = range(FIRST_SEED, FIRST_SEED + number)
    cases = [Case(NoWindows(), random_log(Random(seed))) for seed in seeds]
    for seed, case, kafka in zip(seeds, cases, peer.results(cases), strict=True):
        run = our_run(case, seed)
        assert our_rows(case, run) == kafka.rows == kafka.left, f"seed {seed}: {case.line}"
        assert our_calls(case, seed) == kafka.calls, f"seed {seed}: {case.line}"
        assert run.late == 0, f"seed {seed}: {case.line}"
        assert kafka.dropped == sum(value is None for _, _, value in case.log)


@pytest.mark.kafka
def test_timestamps_of_kip_259(peer: KafkaPeer) -> None:
    """Each update has the key's greatest time so far."""
    case = Case(NoWindows(), log_of("1 2 5 6 4 3 7 9"))
    kafka = peer.result(case)
    assert [e.timestamp for e in kafka.emitted] == [1, 2, 5, 6, 6, 6, 7, 9]
    assert our_rows(case, our_run(case, 0)) == kafka.rows


@pytest.mark.kafka
def test_a_record_without_a_value_does_not_exist(peer: KafkaPeer) -> None:
    """A null value is dropped before it counts or changes the timestamp (semantics.md#1-2)."""
    case = Case(NoWindows(), log_of("A:5 A:9! B:7!"))
    kafka = peer.result(case)
    row = Row(timestamp=5, number=1, total=1, members=[1])
    assert kafka.rows == our_rows(case, our_run(case, 0)) == {Place("A", 0, 0): row}
    assert kafka.dropped == 2
