"""Sessions: Oriel's rows equal those of the real Kafka Streams 4.3.1 with frozen closed sessions.

In Kafka, the store's retention decides which sessions a record can still find: the sessions that
end at ``newest end - retention + 1`` or later. With a retention of gap + grace + 1 ms, one more
than the default, these are exactly the open sessions, so a closed session is frozen. This is
Oriel's rule (decision 0009 for one partition), and the retention of every comparison here.
"""

from dataclasses import replace
from random import Random

import pytest

from oriel import SessionWindows
from tests.windows.kafka_peer import (
    Case,
    Emitted,
    KafkaPeer,
    Place,
    Record,
    Row,
    log_of,
    our_calls,
    our_rows,
    our_run,
    random_log,
    some_logs,
)

FIRST_SEED = 9_200_000


def make_case(seed: int) -> Case:
    """Return a random case."""
    random = Random(seed)
    gap, grace = random.choice((0, 1, 3, 5, 10)), random.choice((0, 1, 5, 20))
    windows = SessionWindows.of_inactivity_gap_and_grace(gap, grace)
    return Case(windows, random_walk(random, gap) if seed % 2 else random_log(random))


def random_walk(random: Random, gap: int) -> list[Record]:
    """Return records that extend open sessions downward, step by step, past closed ones."""
    log: list[Record] = []
    stream_time, time = 0, random.randint(0, 40)
    for i in range(random.choice((8, 20, 40))):
        log.append((random.choice("aab"), time, float(i + 1)))
        stream_time = max(stream_time, time)
        step = time + random.choice((-gap, -gap, 1 - gap, -1 - gap, -1, 0, 1, gap, gap + 1))
        time = max(0, random.choice((step, step, step, stream_time + random.randint(-9, 20))))
    return log


def cases_by_seed(number: int) -> dict[int, Case]:
    """Return the given number of random cases."""
    return {seed: make_case(seed) for seed in range(FIRST_SEED, FIRST_SEED + number)}


def example(text: str, gap: int, grace: int, retention_ms: int | None = None) -> Case:
    """Return a case from a string."""
    windows = SessionWindows.of_inactivity_gap_and_grace(gap, grace)
    return Case(windows, log_of(text), retention_ms=retention_ms)


@pytest.mark.kafka
@some_logs
def test_rows_and_drops_equal_kafka_streams(peer: KafkaPeer, number: int) -> None:
    """Sessions, function calls and late records equal Kafka's after its tombstones."""
    late, rescued, same_start = 0, 0, 0
    by_seed = cases_by_seed(number)
    results = peer.results(by_seed.values())
    for (seed, case), kafka in zip(by_seed.items(), results, strict=True):
        run = our_run(case, seed)
        assert our_rows(case, run) == kafka.left, f"seed {seed}: {case.line}"
        assert our_calls(case, seed) == kafka.calls, f"seed {seed}: {case.line}"
        assert run.late == kafka.dropped, f"seed {seed}: {case.line}"
        assert kafka.rows.items() <= kafka.left.items()
        late += run.late
        rescued += older_than_the_grace(case) - run.late
        same_start += len({place[:2] for place in kafka.left}) < len(kafka.left)
    assert late > number, f"seeds from {FIRST_SEED}: few records are late"
    assert rescued > number // 3, f"seeds from {FIRST_SEED}: few records touch an open session"
    assert same_start, f"seeds from {FIRST_SEED}: no two sessions of a key start together"


def older_than_the_grace(case: Case) -> int:
    """Return how many records are below their close time, and so late unless a session is open."""
    stream_time, older = -1, 0
    for _, time, _ in case.log:
        stream_time = max(stream_time, time)
        older += time < stream_time - case.windows.close_delay_ms
    return older


@pytest.mark.kafka
@some_logs
def test_final_rows_equal_what_kafka_streams_emits_on_close(peer: KafkaPeer, number: int) -> None:
    """Oriel's final sessions are the sessions that Kafka emits, each once."""
    final = 0
    cases = {seed: replace(case, emit="close") for seed, case in cases_by_seed(number).items()}
    results = peer.results(cases.values())
    for (seed, case), kafka in zip(cases.items(), results, strict=True):
        ours = our_rows(case, our_run(case, seed))
        assert ours == kafka.left, f"seed {seed}: {case.line}"
        assert len(kafka.emitted) == len(ours), f"seed {seed}: emitted twice: {case.line}"
        final += len(ours)
    assert final > number, f"seeds from {FIRST_SEED}: few sessions are final"


# semantics.md#4: input, (gap, grace), (key, start, end) -> positions of the members, drops
EXAMPLES = {
    "exactly the gap apart": ("0 10", (10, 0), {("k", 0, 10): [1, 2]}, 0),
    "one ms more than the gap apart": (
        "0 11",
        (10, 0),
        {("k", 0, 0): [1], ("k", 11, 11): [2]},
        0,
    ),
    # 0 ..... 15 .. 20 ....... 30, where 10 closes the last hole
    "a record joins what lies on both sides": (
        "0 30 15 20 10",
        (10, 20),
        {("k", 0, 30): [1, 2, 3, 4, 5]},
        0,
    ),
    # B:28 sets the close time to 18, and each record of A extends an open session downward
    "old records that touch an open session": (
        "A:20 B:28 A:17 A:11 A:7",
        (10, 0),
        {("A", 7, 20): [1, 3, 4, 5], ("B", 28, 28): [2]},
        0,
    ),
    # c = 10 - 0 - 10 = 0: the session [0,0] is still open
    "a session that ends at the close time is open": (
        "A:0 B:10 A:10",
        (10, 0),
        {("A", 0, 10): [1, 3], ("B", 10, 10): [2]},
        0,
    ),
    # c = 5: [0,0] is closed, so A:8 starts a new session
    "a closed session is frozen": (
        "A:0 B:15 A:8",
        (10, 0),
        {("A", 0, 0): [1], ("A", 8, 8): [3], ("B", 15, 15): [2]},
        0,
    ),
    # c = 20, so [5,7] is closed, and 20, 10 and 5 extend the session of 30
    "two sessions of one key with the same start": (
        "5 7 30 20 10 5",
        (10, 0),
        {("k", 5, 7): [1, 2], ("k", 5, 30): [3, 4, 5, 6]},
        0,
    ),
    "a late record": ("A:0 B:15 A:4", (10, 0), {("A", 0, 0): [1], ("B", 15, 15): [2]}, 1),
    "a gap of 0 joins equal times": (
        "5 5 6 5",
        (0, 1),
        {("k", 5, 5): [1, 2, 4], ("k", 6, 6): [3]},
        0,
    ),
    "a record without a value is in the session": ("0 5! 9", (10, 0), {("k", 0, 9): [1, 3]}, 0),
}


@pytest.mark.kafka
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(peer: KafkaPeer, name: str) -> None:
    """In each example of semantics.md#4, Kafka and Oriel have equal rows."""
    text, (gap, grace), members, dropped = EXAMPLES[name]
    case = example(text, gap, grace)
    kafka = peer.result(case)
    assert {place: row.members for place, row in kafka.left.items()} == members
    assert our_rows(case, our_run(case, 0)) == kafka.left
    assert kafka.dropped == dropped
    assert [one for one in kafka.left.items() if one[1].timestamp != one[0].end] == []


@pytest.mark.kafka
def test_the_default_retention_hides_open_sessions(peer: KafkaPeer) -> None:
    """With a retention of gap + grace, Kafka does not find some open sessions.

    Therefore, the comparison adds one ms.
    """
    default = example("A:0 B:10 A:10", 10, 0, retention_ms=10)
    assert Place("A", 0, 10) not in peer.result(default).left
    hull = example("0 30 15 20 10", 10, 20, retention_ms=30)
    assert sorted(peer.result(hull).left) == [("k", 0, 0), ("k", 10, 30)]


@pytest.mark.kafka
def test_a_longer_retention_reopens_closed_sessions(peer: KafkaPeer) -> None:
    """With a longer retention, Kafka changes a session that it has emitted as final.

    Therefore, the comparison adds only one ms.
    """
    case = example("A:0 B:15 A:8 B:50", 10, 0, retention_ms=100)
    assert Place("A", 0, 8) in peer.result(case).left
    final = peer.result(replace(case, emit="close"))
    assert [place for place, *_ in final.emitted] == [("A", 0, 0), ("A", 0, 8), ("B", 15, 15)]
    frozen = replace(case, retention_ms=None)
    assert sorted(our_rows(frozen, our_run(frozen, 0)))[:2] == [("A", 0, 0), ("A", 8, 8)]


@pytest.mark.kafka
def test_merged_sessions_are_removed_before_the_new_session_is_emitted(peer: KafkaPeer) -> None:
    """Tombstones have their own ends (semantics.md#4-4).

    A merge begins with the initial value.
    """
    kafka = peer.result(example("0 30 15 20 10", 10, 20, retention_ms=30))
    assert kafka.emitted == [
        Emitted(Place("k", 0, 0), 0, "0+1"),
        Emitted(Place("k", 30, 30), 30, "0+2"),
        Emitted(Place("k", 15, 15), 15, "0+3"),
        Emitted(Place("k", 15, 15), 15, None),
        Emitted(Place("k", 30, 30), 30, None),
        Emitted(Place("k", 15, 30), 30, "0+0+3+0+2+4"),
        Emitted(Place("k", 15, 30), 30, None),
        Emitted(Place("k", 10, 30), 30, "0+0+0+3+0+2+4+5"),
    ]


@pytest.mark.kafka
def test_kafka_loses_final_sessions_over_a_long_silence(peer: KafkaPeer) -> None:
    """Kafka's store drops whole segments of a minute before it looks for closed sessions."""
    case = replace(example("0 70000 200000", 10, 0), emit="close")
    assert peer.result(case).emitted == []
    assert sorted(our_rows(case, our_run(case, 0))) == [("k", 0, 0), ("k", 70000, 70000)]


@pytest.mark.kafka
def test_suppress_emits_an_open_session_as_final(peer: KafkaPeer) -> None:
    """``suppress`` emits one ms early: it emits [0,0], which is still open, as final.

    Therefore, ``suppress`` is not compared.
    """
    case = replace(example("A:0 B:10 A:10 B:50", 10, 0), emit="suppress")
    emitted = [e.place for e in peer.result(case).emitted if e.place.key == "A"]
    assert emitted == [("A", 0, 0), ("A", 0, 10)]
    case = replace(case, emit="close")
    kafka = peer.result(case)
    assert kafka.left == our_rows(case, our_run(case, 0))
    assert kafka.left[Place("A", 0, 10)] == Row(timestamp=10, number=2, total=4, members=[1, 3])
