"""Sliding windows: Oriel's rows equal those of Kafka Streams 4.3.1 if all records are in time."""

from dataclasses import replace
from random import Random

import pytest

from oriel import SlidingWindows
from tests.campaigns import cases
from tests.models.sliding import expected
from tests.windows.kafka_peer import (
    Case,
    KafkaPeer,
    Place,
    Row,
    Rows,
    log_of,
    our_calls,
    our_rows,
    our_run,
    random_log,
    some_logs,
)

FIRST_SEED = 9_000_000


def make_case(seed: int) -> Case:
    """Return a random case. Kafka cannot run a time difference of 0."""
    random = Random(seed)
    difference, grace = random.choice((1, 2, 3, 5, 10)), random.choice((0, 1, 5, 20))
    windows = SlidingWindows.of_time_difference_and_grace(difference, grace)
    return Case(windows, random_log(random))


def cases_by_seed(number: int) -> dict[int, Case]:
    """Return the given number of random cases."""
    return {seed: make_case(seed) for seed in range(FIRST_SEED, FIRST_SEED + number)}


def example(text: str, difference: int, grace: int) -> Case:
    """Return a case from a string."""
    windows = SlidingWindows.of_time_difference_and_grace(difference, grace)
    return Case(windows, log_of(text))


def is_in_time(case: Case) -> bool:
    """Return whether each accepted record arrived while its own left window was open."""
    difference, grace = case.windows.length_ms, case.windows.grace_ms
    stream_time = -1
    for _, time, value in case.log:
        if value is None:
            continue
        stream_time = max(stream_time, time)
        close = stream_time - grace
        if time + difference >= close > max(time, difference):
            return False
    return True


@pytest.mark.kafka
@cases(66, 600)
def test_rows_equal_kafka_streams_where_records_came_in_time(peer: KafkaPeer, number: int) -> None:
    """Rows are equal if all records are in time. Otherwise, Kafka never has more than Oriel."""
    in_time, different = 0, 0
    cases = cases_by_seed(number)
    results = peer.results(cases.values())
    for (seed, case), kafka in zip(cases.items(), results, strict=True):
        ours = our_rows(case, our_run(case, seed))
        assert ours == model_rows(case), f"seed {seed}: engine and model differ: {case.line}"
        if is_in_time(case):
            in_time += len(case.log) >= 5
            assert kafka.rows == ours, f"seed {seed}: Kafka differs: {case.line}"
            assert our_calls(case, seed) == kafka.calls, f"seed {seed}: {case.line}"
        else:
            different += kafka.rows != ours
            check_kafka_knows_no_more(seed, case, kafka.rows, ours)
    assert in_time >= number // 4, f"seeds from {FIRST_SEED}: few cases compare whole results"
    assert different >= number // 60, f"seeds from {FIRST_SEED}: few cases lose records in Kafka"


def check_kafka_knows_no_more(seed: int, case: Case, kafka: Rows, ours: Rows) -> None:
    """Check that Kafka has no further window, and no further record within a window's bounds."""
    assert set(kafka) <= set(ours), f"seed {seed}: Kafka has more windows"
    time_of = {int(value): time for _, time, value in case.log if value is not None}
    for place, row in kafka.items():
        our_row = ours[place]
        inside = {p for p in row.members if place.start <= time_of[p] <= place.end}
        assert inside <= set(our_row.members), f"seed {seed}: Kafka has more in {place}"
        assert row.timestamp <= our_row.timestamp, f"seed {seed}: Kafka is later in {place}"


def model_rows(case: Case) -> Rows:
    """Return the rows of the slow model."""
    log = [record for record in case.log if record[2] is not None]
    outcome = expected({0: log}, case.windows.length_ms, case.windows.grace_ms)
    rows: Rows = {}
    for (key, start), window in outcome.windows.items():
        members = sorted(map(int, window.values))
        row = Row(window.timestamp, len(members), sum(members), members)
        rows[Place(key, start, window.end)] = row
    return rows


@pytest.mark.kafka
@some_logs
def test_final_rows_equal_what_kafka_streams_emits_on_close(peer: KafkaPeer, number: int) -> None:
    """Oriel's final rows are the rows that Kafka emits, each once, if all records are in time."""
    final = 0
    random_cases = cases_by_seed(2 * number).items()
    in_time = {seed: case for seed, case in random_cases if is_in_time(case)}
    cases = {s: replace(c, emit="close") for s, c in list(in_time.items())[:number]}
    assert len(cases) == number
    results = peer.results(cases.values())
    for (seed, case), kafka in zip(cases.items(), results, strict=True):
        ours = our_rows(case, our_run(case, seed))
        assert ours == kafka.left, f"seed {seed}: {case.line}"
        assert len(kafka.emitted) == len(ours), f"seed {seed}: emitted twice: {case.line}"
        final += len(ours)
    assert final > number, f"seeds from {FIRST_SEED}: few windows are final"


# semantics.md#2: input, (time difference, grace), start -> positions of the members
EXAMPLES = {
    # time      10   14    19     26
    # [0,10]    a|
    # [4,14]    a----b|
    # [9,19]    a----b-----c|
    # [11,21]        b-----c .|
    # [15,25]              c     .|
    # [16,26]              c------d|
    # [20,30]                     d   |
    "KIP-450 figure 1: seven windows for four records": (
        "10 14 19 26",
        (10, 100),
        {0: [1], 4: [1, 2], 9: [1, 2, 3], 11: [2, 3], 15: [3], 16: [3, 4], 20: [4]},
    ),
    "updates with an equal time": (
        "10 10 14 15 20",
        (10, 100),
        {
            0: [1, 2],
            4: [1, 2, 3],
            5: [1, 2, 3, 4],
            10: [1, 2, 3, 4, 5],
            11: [3, 4, 5],
            15: [4, 5],
            16: [5],
        },
    ),
    "exactly the time difference apart": ("20 30", (10, 0), {10: [1], 20: [1, 2], 21: [2]}),
    "one ms more apart": ("20 31", (10, 0), {10: [1], 21: [2]}),
    "two ms more apart": ("20 32", (10, 0), {10: [1], 22: [2]}),
    "early records share one window": (
        "10 3 6",
        (10, 100),
        {0: [1, 2, 3], 4: [1, 3], 7: [1]},
    ),
    "a predecessor exactly the time difference away": (
        "50 53 54 51",
        (1, 3),
        {49: [1], 50: [1, 4], 51: [4], 52: [2], 53: [2, 3], 54: [3]},
    ),
    "a record without a value does not exist": ("10 40! 11", (10, 0), {0: [1], 1: [1, 3], 11: [3]}),
}


@pytest.mark.kafka
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(peer: KafkaPeer, name: str) -> None:
    """In each example of semantics.md#2, Kafka and Oriel have equal rows."""
    text, (difference, grace), members = EXAMPLES[name]
    case = example(text, difference, grace)
    kafka = peer.result(case)
    assert {place.start: row.members for place, row in kafka.rows.items()} == members
    assert our_rows(case, our_run(case, 0)) == kafka.rows


@pytest.mark.kafka
def test_each_update_is_emitted_in_kafkas_order(peer: KafkaPeer) -> None:
    """The emissions of semantics.md#2-1 are in Kafka's order."""
    kafka = peer.result(example("10 10 14 15 20", 10, 100))
    assert [f"[{e.place.start},{e.place.end}]={e.calls}" for e in kafka.emitted] == [
        "[0,10]=0+1",
        "[0,10]=0+1+2",
        "[11,21]=0+3",
        "[4,14]=0+1+2+3",
        "[11,21]=0+3+4",
        "[15,25]=0+4",
        "[5,15]=0+1+2+3+4",
        "[15,25]=0+4+5",
        "[11,21]=0+3+4+5",
        "[16,26]=0+5",
        "[10,20]=0+1+2+3+4+5",
    ]


# semantics.md#2-3: input, (time difference, grace), Kafka's windows of B, Oriel's
PARTLY_LATE = {
    "accepted, but written nowhere": (
        "A:100 B:95 B:101",
        (10, 0),
        {91: [3]},
        {91: [2, 3], 96: [3]},
    ),
    "a new window copies a frozen one": (
        "B:90 A:95 B:88 B:86",
        (10, 0),
        {80: [1], 87: [1], 89: [1]},
        {80: [1], 87: [1, 3], 89: [1]},
    ),
    "a closed window is made by neither": (
        "B:1 A:3 B:2",
        (1, 0),
        {0: [1], 2: [3]},
        {0: [1], 2: [3]},
    ),
}


@pytest.mark.kafka
@pytest.mark.parametrize("name", PARTLY_LATE)
def test_partly_late_records(peer: KafkaPeer, name: str) -> None:
    """In Oriel, an open window contains all accepted records. In Kafka, it can lack some."""
    text, (difference, grace), theirs, ours = PARTLY_LATE[name]
    case = example(text, difference, grace)
    rows_of_both = (peer.result(case).rows, our_rows(case, our_run(case, 0)))
    members = [
        {p.start: r.members for p, r in rows.items() if p.key == "B"} for rows in rows_of_both
    ]
    assert members == [theirs, ours]


@pytest.mark.kafka
def test_kafka_copies_a_partly_late_record_into_a_window_it_lies_before(peer: KafkaPeer) -> None:
    """Kafka's window [2, 6] contains a record of time 1, which is outside the bounds."""
    case = example("a:0 c:5 a:1 a:2 a:1", 4, 0)
    place = Place("a", 2, 6)
    assert peer.result(case).rows[place] == Row(timestamp=2, number=2, total=7, members=[3, 4])
    ours = our_rows(case, our_run(case, 0))
    assert ours[place] == Row(timestamp=2, number=1, total=4, members=[4])


@pytest.mark.kafka
def test_suppress_emits_an_open_window_as_final(peer: KafkaPeer) -> None:
    """With grace 5, ``suppress`` emits [0,10] at 15, and again after a late 10.

    Therefore, ``suppress`` is not compared.
    """
    case = replace(example("10 15 10", 10, 5), emit="suppress")
    calls = [e.calls for e in peer.result(case).emitted if e.place.start == 0]
    assert calls == ["0+1", "0+1+3"]
