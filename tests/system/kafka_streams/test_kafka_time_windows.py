"""Tumbling and hopping windows: Oriel's rows equal those of the real Kafka Streams 4.3.1."""

from dataclasses import replace
from random import Random

import pytest

from oriel import TimeWindows
from tests.windows.kafka_peer import (
    Case,
    Emit,
    KafkaPeer,
    Place,
    log_of,
    our_calls,
    our_rows,
    our_run,
    random_log,
    some_logs,
)

FIRST_SEED = 9_100_000


def make_case(seed: int) -> Case:
    """Return a random case with tumbling or hopping windows.

    Mostly, the advance does not divide the size.
    """
    random = Random(seed)
    size = random.choice((1, 3, 5, 10, 12))
    windows = TimeWindows.of_size_and_grace(size, random.choice((0, 1, 5, 20)))
    advance = random.choice((size, random.randint(1, size)))
    return Case(windows.advance_by(advance), random_log(random))


def cases_by_seed(number: int) -> dict[int, Case]:
    """Return the given number of random cases."""
    return {seed: make_case(seed) for seed in range(FIRST_SEED, FIRST_SEED + number)}


@pytest.mark.kafka
@some_logs
def test_rows_and_drops_equal_kafka_streams(peer: KafkaPeer, number: int) -> None:
    """Rows, function calls and the drops of tumbling windows equal Kafka's."""
    late = 0
    cases = cases_by_seed(number)
    results = peer.results(cases.values())
    for (seed, case), kafka in zip(cases.items(), results, strict=True):
        run = our_run(case, seed)
        assert our_rows(case, run) == kafka.rows == kafka.left, f"seed {seed}: {case.line}"
        assert our_calls(case, seed) == kafka.calls, f"seed {seed}: {case.line}"
        # Kafka counts a drop for each closed window that contains the record.
        if case.windows.kind == "tumbling":
            assert run.late == kafka.dropped, f"seed {seed}: {case.line}"
            late += run.late
    assert late > number, f"seeds from {FIRST_SEED}: few records are late"


@pytest.mark.kafka
@some_logs
@pytest.mark.parametrize("emit", ["close", "suppress"])
def test_final_rows_equal_what_kafka_streams_emits(
    peer: KafkaPeer, emit: Emit, number: int
) -> None:
    """Oriel's final rows are Kafka's rows on window close and with ``suppress``, each once."""
    final = 0
    cases = {seed: replace(case, emit=emit) for seed, case in cases_by_seed(number).items()}
    results = peer.results(cases.values())
    for (seed, case), kafka in zip(cases.items(), results, strict=True):
        ours = our_rows(case, our_run(replace(case, emit="close"), seed))
        assert ours == kafka.left, f"seed {seed}: {case.line}"
        assert len(kafka.emitted) == len(ours), f"seed {seed}: emitted twice: {case.line}"
        final += len(ours)
    assert final > number, f"seeds from {FIRST_SEED}: few windows are final"


# semantics.md#3: input, (size, advance, grace), (key, start) -> positions of the members, drops
EXAMPLES = {
    #          |10        22|
    #               |15        27|
    #                    |20        32|
    #                     21
    "a record lies in every window that reaches over it": (
        "21",
        (12, 5, 0),
        {("k", 10): [1], ("k", 15): [1], ("k", 20): [1]},
        0,
    ),
    "no window starts below 0": ("0", (12, 5, 0), {("k", 0): [1]}, 0),
    "a record at the end is in the next window": (
        "9 10",
        (10, 10, 0),
        {("k", 0): [1], ("k", 10): [2]},
        0,
    ),
    # stream time 14: [0,10) is open, as 0 + 10 > 14 - 5, and at 15 it is closed
    "the last ms of the grace": ("14 3", (10, 10, 5), {("k", 10): [1], ("k", 0): [2]}, 0),
    "the first ms after the grace": ("15 3", (10, 10, 5), {("k", 10): [1]}, 1),
    # stream time 100: [5,15) is open, [0,10) is not
    "a record that is partly late": (
        "100 5",
        (10, 5, 90),
        {("k", 95): [1], ("k", 100): [1], ("k", 5): [2]},
        1,
    ),
    "a record without a value is counted": ("1 2! 3", (10, 10, 0), {("k", 0): [1, 3]}, 0),
}


@pytest.mark.kafka
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(peer: KafkaPeer, name: str) -> None:
    """In each example of semantics.md#3, Kafka and Oriel have equal rows."""
    text, (size, advance, grace), members, dropped = EXAMPLES[name]
    windows = TimeWindows.of_size_and_grace(size, grace).advance_by(advance)
    case = Case(windows, log_of(text))
    kafka = peer.result(case)
    assert {(p.key, p.start): row.members for p, row in kafka.rows.items()} == members
    assert {place.end - place.start for place in kafka.rows} == {size}
    assert our_rows(case, our_run(case, 0)) == kafka.rows
    assert kafka.dropped == dropped


@pytest.mark.kafka
def test_a_null_value_counts_and_adds_nothing(peer: KafkaPeer) -> None:
    """Kafka calls the aggregator with null, so the count grows, but not the sum and the members."""
    case = Case(TimeWindows.of_size_and_grace(10, 0), log_of("1 2! 7!"))
    row = peer.result(case).rows[Place("k", 0, 10)]
    assert (row.number, row.total, row.timestamp) == (3, 1, 7)


@pytest.mark.kafka
@pytest.mark.parametrize("emit", ["close", "suppress"])
def test_emission_on_close_is_in_the_order_of_starts_then_keys(peer: KafkaPeer, emit: Emit) -> None:
    """In semantics.md#3's example, A:10 emits [0,10) of A and B, and A:3 is dropped."""
    windows = TimeWindows.of_size_and_grace(10, 0)
    case = Case(windows, log_of("B:1 A:2 A:9 A:10 A:3 A:25"), emit=emit)
    kafka = peer.result(case)
    assert [(e.place.key, e.place.start, e.timestamp, e.calls) for e in kafka.emitted] == [
        ("A", 0, 9, "0+2+3"),
        ("B", 0, 1, "0+1"),
        ("A", 10, 10, "0+4"),
    ]
    assert kafka.dropped == 1


@pytest.mark.kafka
def test_kafka_loses_final_rows_with_its_default_retention(peer: KafkaPeer) -> None:
    """With its default retention, Kafka emits only [20, 30) of 1, 25, 37.

    Therefore, the comparison uses a long retention.
    """
    windows = TimeWindows.of_size_and_grace(10, 0)
    short = Case(windows, log_of("1 25 37"), emit="close", retention_ms=10)
    assert [e.place.start for e in peer.result(short).emitted] == [20]
    ample = replace(short, retention_ms=None)
    assert [e.place.start for e in peer.result(ample).emitted] == [0, 20]
    assert sorted(place.start for place in our_rows(ample, our_run(ample, 0))) == [0, 20]


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("size", "timestamps"),
    [(5, [1, 2, 5, 6, 4, 4, 7, 9]), (10, [1, 2, 5, 6, 6, 6, 7, 9])],
)
def test_timestamps_of_kip_259(peer: KafkaPeer, size: int, timestamps: list[int]) -> None:
    """Each update has its window's greatest time, not the time of the record."""
    windows = TimeWindows.of_size_and_grace(size, 100)
    case = Case(windows, log_of("1 2 5 6 4 3 7 9"))
    kafka = peer.result(case)
    assert [e.timestamp for e in kafka.emitted] == timestamps
    assert our_rows(case, our_run(case, 0)) == kafka.rows
