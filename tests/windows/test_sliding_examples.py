"""The numeric examples of KIP-450 and of semantics.md#2, drawn as timelines.

An example has its input as ``KEY:TIME`` in order of arrival. The value of a record is its position
in the input, so each member of a window has another value.
"""

import pytest

from tests.models.sliding import Record, expected
from tests.windows.batches import check_against_model, run_engine

Windows = dict[tuple[str, int], list[int]]


def windows_of(text: str, difference: int, grace: int, *, one_by_one: bool) -> Windows:
    """Run ``text`` with engine and model. Return (key, start) -> times of the members."""
    log: list[Record] = []
    for place, record in enumerate(text.split()):
        key, _, time = record.rpartition(":")
        log.append((key or "k", int(time), float(place)))
    cuts = [{0: 1}] * len(log) if one_by_one else [{0: len(log)}]
    run = run_engine({0: log}, difference, grace, cuts)
    check_against_model(run, expected({0: log}, difference, grace))
    return {place: [log[int(v)][1] for v in row["all"]] for place, row in run.rows.items()}


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
        {
            ("k", 0): [10],
            ("k", 4): [10, 14],
            ("k", 9): [10, 14, 19],
            ("k", 11): [14, 19],
            ("k", 15): [19],
            ("k", 16): [19, 26],
            ("k", 20): [26],
        },
    ),
    # semantics.md#2-2, example of updates: a record at an equal time updates, without a new window
    "updates with an equal time": (
        "10 10 14 15 20",
        (10, 100),
        {
            ("k", 0): [10, 10],
            ("k", 4): [10, 10, 14],
            ("k", 5): [10, 10, 14, 15],
            ("k", 10): [10, 10, 14, 15, 20],
            ("k", 11): [14, 15, 20],
            ("k", 15): [15, 20],
            ("k", 16): [20],
        },
    ),
    # 20 |=========| 30: both are in [20,30]
    "exactly the time difference apart share a window": (
        "20 30",
        (10, 0),
        {("k", 10): [20], ("k", 20): [20, 30], ("k", 21): [30]},
    ),
    # 20 |         | 31: the right window of 20 is the left window of 31
    "one more apart: right and left window are one": (
        "20 31",
        (10, 0),
        {("k", 10): [20], ("k", 21): [31]},
    ),
    # 20 |          | 32: no record is in [21,31]
    "two more apart: the right window is never created": (
        "20 32",
        (10, 0),
        {("k", 10): [20], ("k", 22): [32]},
    ),
    # semantics.md#2-3, cause 1: 95 is accepted though its left window [85,95] is closed
    "a partly late record is kept for later windows": (
        "A:100 B:95 B:101",
        (10, 0),
        {("A", 90): [100], ("B", 91): [95, 101], ("B", 96): [101]},
    ),
    # semantics.md#2-3, cause 2: [87,97] also contains 88, although it is late for other windows
    "a new right window holds every record inside": (
        "B:90 A:95 B:88 B:86",
        (10, 0),
        {
            ("B", 80): [90],
            ("A", 85): [95],
            ("B", 89): [90],
            ("B", 87): [88, 90],
        },
    ),
    # semantics.md#2-3, cause 3: [1,2] closed (stream time 3) before its defining 2 arrived
    "a window that closed before its defining record arrived is not created": (
        "B:1 A:3 B:2",
        (1, 0),
        {("B", 0): [1], ("B", 2): [2], ("A", 2): [3]},
    ),
    # semantics.md#2-3: Kafka's default retention hides 50, here results don't depend on it
    "a predecessor exactly one time difference away is found": (
        "50 53 54 51",
        (1, 3),
        {
            ("k", 49): [50],
            ("k", 50): [50, 51],
            ("k", 51): [51],
            ("k", 52): [53],
            ("k", 53): [53, 54],
            ("k", 54): [54],
        },
    ),
    # semantics.md#2-4: early records share [0,10], and their right windows are as usual
    "early records": (
        "10 3 6",
        (10, 100),
        {("k", 0): [3, 6, 10], ("k", 4): [6, 10], ("k", 7): [10]},
    ),
    "a record at time 0": ("0", (10, 0), {("k", 0): [0]}),
    "a record at exactly the time difference is not early": ("10", (10, 0), {("k", 0): [10]}),
    "time difference 0: one window per time": (
        "5 5 6",
        (0, 0),
        {("k", 5): [5, 5], ("k", 6): [6]},
    ),
    "the latest possible time": (
        "253402300799999",
        (10, 0),
        {("k", 253402300799989): [253402300799999]},
    ),
}


@pytest.mark.parametrize("one_by_one", [False, True], ids=["one batch", "batch a record"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str, *, one_by_one: bool) -> None:
    """Each example has these windows, in one batch and record by record."""
    text, (difference, grace), windows = EXAMPLES[name]
    assert windows_of(text, difference, grace, one_by_one=one_by_one) == windows


@pytest.mark.parametrize(
    ("text", "late"),
    [
        ("A:40 B:24", 1),  # 24 + 10 < 40 - 5: late
        ("A:40 B:25", 0),  # 25 + 10 = 40 - 5: accepted, its own right window is open
    ],
)
def test_lateness_begins_one_ms_after_the_last_window_closes(text: str, late: int) -> None:
    """A record is late if its time plus the time difference is below the close time."""
    log: list[Record] = []
    for record in text.split():
        key, _, time = record.partition(":")
        log.append((key, int(time), 1.0))
    assert run_engine({0: log}, 10, 5, [{0: len(log)}]).late == late


def test_the_slowest_partition_determines_final_windows() -> None:
    """A window is final once the stream time of each partition is past it, without new records."""
    logs = {0: [("a", 10, 1.0), ("b", 500, 1.0)], 1: [("c", 5, 1.0), ("c", 40, 1.0)]}
    held_back = run_engine(logs, 10, 0, [{0: 2, 1: 1}, {0: 0, 1: 1}])
    assert [row["final"] for place, row in sorted(held_back.rows.items())] == [
        True,  # a [0,10]: closed by 40 on partition 1
        False,  # b [490,500]
        True,  # c [0,10]
        False,  # c [30,40]
    ]
