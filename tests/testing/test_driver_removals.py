"""Functions that return None: which rows they delete, and at what time (semantics.md#9)."""

from typing import Any

import pytest

from oriel.pipeline.windows import Windows
from oriel.testing import TopologyTestDriver
from tests.testing.driver_runs import (
    driver_with,
    held,
    hopping,
    pipe,
    sessions,
    tumbling,
)

#: One window of each kind that contains, and stays open for, all records from 10 to 99.
KINDS: dict[str, Windows | None] = {
    "none": None,
    "tumbling": tumbling(100, 0),
    "hopping": hopping(100, 100),
    "session": sessions(100, 0),
}


def added(_: str, value: dict[str, Any], old: str) -> str | None:
    """Append the word to the aggregate. "-" returns None."""
    return None if value["s"] == "-" else f"{old}+{value['s']}"


def merged(_: str, left: str, right: str) -> str:
    """Join two partial aggregates with a bar. The initial value is neutral."""
    return f"{left}|{right}" if left != "0" else right


def texts(windows: Windows | None) -> TopologyTestDriver:
    """Return a driver whose store concatenates the words of its records."""
    return driver_with(
        lambda s: s.aggregate(lambda: "0", added, merged, schema="text STRING"), windows
    )


@pytest.mark.parametrize("kind", ["none", "tumbling", "hopping"])
def test_a_null_result_deletes_the_row(kind: str) -> None:
    """A null result removes the row (semantics.md#9). The next record starts with its own time."""
    driver = texts(KINDS[kind])
    outputs = pipe(driver, "17=a 19=b 18=- 13=c")
    assert [(r["text"], r["deleted"]) for (r,) in outputs] == [
        ("0+a", False),
        ("0+a+b", False),
        (None, True),
        ("0+c", False),
    ]
    assert held(driver, kind) == [({"text": "0+c"}, 13)]
    assert driver.counters("s").applied == 4


@pytest.mark.parametrize("kind", ["none", "tumbling", "hopping", "session"])
def test_a_row_that_is_deleted_is_out_of_the_store(kind: str) -> None:
    """After a null result, the store has no row, in one batch or in several."""
    for one_by_one in (True, False):
        driver = texts(KINDS[kind])
        pipe(driver, "17=a 18=-", one_by_one=one_by_one)
        assert held(driver, kind) == []


#: Records -> the time of the row that the last record deletes.
REMOVALS = {
    "the row's time is the greater": ("50=a 60=b 55=-", 60),
    "the record's time is the greater": ("50=a 60=-", 60),
    "after a removal the times begin anew": ("60=a 50=- 20=b 30=-", 30),
    "an older time of the new row": ("60=a 50=- 40=b 30=-", 40),
}


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("kind", ["none", "tumbling", "hopping"])
@pytest.mark.parametrize(("given", "wanted"), REMOVALS.values(), ids=REMOVALS)
def test_a_deleted_row_has_the_time_it_would_have_had(
    kind: str, given: str, wanted: int, one_by_one: bool
) -> None:
    """A deleted row has the greater of the row's time and the record's (semantics.md#9).

    The batching does not matter.
    """
    driver = texts(KINDS[kind])
    # A row that was never emitted cannot be deleted.
    first, rest = given.split(maxsplit=1)
    outputs = [*pipe(driver, first), *pipe(driver, rest, one_by_one=one_by_one)]
    (row,) = outputs[-1]
    assert (row["text"], row["deleted"], row["timestamp_ms"]) == (None, True, wanted)


def test_a_reducer_that_returns_none_deletes_the_row_at_its_time() -> None:
    """A reducer that returns None deletes the row at its time (semantics.md#9)."""
    driver = driver_with(lambda s: s.reduce(lambda _, new: new if new["s"] != "-" else None))
    *_, (row,) = pipe(driver, "50=a 60=b 55=-")
    assert (row["s"], row["deleted"], row["timestamp_ms"]) == (None, True, 60)


@pytest.mark.parametrize("kind", ["none", "tumbling", "hopping"])
def test_a_row_of_several_partitions_is_deleted_at_the_time_of_the_last_part(kind: str) -> None:
    """A row has the greatest time of the partitions that still contribute to it.

    The row is deleted at the time of the last removal.
    """
    driver = texts(KINDS[kind])
    outputs = [
        pipe(driver, "60=a", partition=0),
        pipe(driver, "30=b", partition=1),
        pipe(driver, "10=-", partition=0),
        pipe(driver, "31=-", partition=1),
    ]
    emitted = [(r["text"], r["timestamp_ms"], r["deleted"]) for ((r,),) in outputs]
    assert emitted == [
        ("0+a", 60, False),
        ("0+a|0+b", 60, False),
        ("0+b", 30, False),
        (None, 31, True),
    ]


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_null_result_emits_no_other_session(one_by_one: bool) -> None:
    """A null result in one session does not write the key's other sessions again."""
    driver = texts(sessions(10, 1000))
    pipe(driver, "500=a 600=b 100=c", one_by_one=one_by_one)
    ((row,),) = pipe(driver, "100=-")
    assert (row["window_start_ms"], row["window_end_ms"]) == (100, 100)
    assert (row["text"], row["deleted"], row["timestamp_ms"]) == (None, True, 100)


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_session_that_is_removed_with_a_record_of_another_time(one_by_one: bool) -> None:
    """A removed session is deleted at its own end.

    A session that was never emitted stays silent.
    """
    driver = texts(sessions(10, 1000))
    pipe(driver, "100=a 500=b")
    outputs = pipe(driver, "105=- 107=-", one_by_one=one_by_one)
    emitted = [(r["window_start_ms"], r["window_end_ms"], r["timestamp_ms"]) for r in outputs[0]]
    assert emitted == [(100, 100, 100)]
    assert outputs[1:] in ([], [[]])
    assert held(driver, "session") == [({"text": "0+b"}, 500)]


def test_a_null_result_leaves_what_other_partitions_made_of_a_session() -> None:
    """A removal emits the sessions that contained the removed partial aggregate.

    They are shorter, or have the same bounds.
    """
    driver = texts(sessions(10, 1000))
    pipe(driver, "100=a 300=c 500=e")
    outputs = pipe(driver, "100=b 300=d 305=d2 310=d3", partition=1, one_by_one=False)
    assert len(outputs[0]) == 3
    ((row,),) = pipe(driver, "100=-", partition=1)
    assert (row["window_start_ms"], row["window_end_ms"]) == (100, 100)
    assert (row["text"], row["deleted"]) == ("0+a", False)
    (rows,) = pipe(driver, "305=-", partition=1)
    emitted = [(r["window_start_ms"], r["window_end_ms"], r["text"], r["deleted"]) for r in rows]
    assert emitted == [(300, 300, "0+c", False), (300, 310, None, True)]
