"""Stores with numeric and composite keys, in the test driver."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oriel import (
    IllegalArgument,
    InvalidTopology,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    count,
)
from oriel.testing import Record, TopologyTestDriver

WINDOWS = TimeWindows.of_size_and_grace(10, 0)
TEXT_AND_LONG = (Serdes.string(), Serdes.long())


def by_number(builder: StreamsBuilder) -> None:
    """Add a store of rows and a store of windows, with numeric record keys."""
    grouped = builder.stream("t", "v BIGINT").group_by_key()
    grouped.count().materialize("rows", key_serde=Serdes.long())
    grouped.windowed_by(WINDOWS).count().materialize("windows", key_serde=Serdes.long())


def records(*keys: str | None) -> list[Record]:
    """Return one record per key."""
    return [Record(key, {"v": 1}, 1) for key in keys]


def test_numbers_come_in_their_order_and_other_keys_are_dead_letters() -> None:
    """Numeric keys are in numeric order in all reads, and other keys are dead letters.

    Each store counts its own dead letters.
    """
    builder = StreamsBuilder()
    by_number(builder)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("t", records("10", "9", "abc", "-1", "007", None, "9223372036854775807"))
        expected = ["-1", "9", "10", "9223372036854775807"]
        rows, windows = driver.key_value_store("rows"), driver.window_store("windows")
        assert [row.key for row in rows.all()] == expected
        assert [row.key for row in rows.reverse_all()] == expected[::-1]
        assert [row.key for row in rows.range("-1", "9")] == ["-1", "9"]
        assert [window.key for window in windows.fetch_range("9", None, 0, 99)] == expected[1:]
        assert rows.get("9") is not None
        assert rows.range("10", "9") == []
        for store in ("rows", "windows"):
            reasons = [letter["reason"] for letter in driver.dead_letters(store)]
            assert sorted(reasons) == ["null-key", "unfit-key", "unfit-key"]
            assert driver.counters(store).dropped == 3
        for read in (rows.get, rows.prefix_scan, lambda key: rows.range(key, None)):
            with pytest.raises(IllegalArgument, match="64-bit integers"):
                read("007")


def test_json_keys_are_composites_as_they_are() -> None:
    """JSON keys are composite keys. A prefix consists of whole components."""
    builder = StreamsBuilder()
    visits = builder.stream("t", "v BIGINT").group_by_key()
    sessions = visits.windowed_by(SessionWindows.of_inactivity_gap_and_grace(5, 0))
    sessions.count().materialize("visits", key_serde=TEXT_AND_LONG)
    visits.count().materialize("rows", key_serde=TEXT_AND_LONG)
    with TopologyTestDriver(builder.build()) as driver:
        keys = ['["b",1]', '["a",10]', '["a",9]', '["ab",0]', '["a"]', '["a", 9]']
        driver.pipe_input("t", records(*keys))
        expected = ['["a",9]', '["a",10]', '["ab",0]', '["b",1]']
        assert [session.key for session in driver.session_store("visits").all()] == expected
        rows = driver.key_value_store("rows")
        assert [row.key for row in rows.prefix_scan('["a",')] == expected[:2]
        reasons = [letter["reason"] for letter in driver.dead_letters("rows")]
        assert reasons == ["unfit-key"] * 2
        with pytest.raises(IllegalArgument, match="of whole components"):
            rows.prefix_scan('["a')


def test_a_table_has_typed_keys() -> None:
    """A tombstone removes the row with the numeric key."""
    builder = StreamsBuilder()
    builder.table("t", "v BIGINT").materialize("rows", key_serde=Serdes.long())
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("t", [*records("10", "9", "x"), Record("10", None, 2)])
        assert [row.key for row in driver.key_value_store("rows").all()] == ["9"]


@pytest.mark.java
@pytest.mark.slow
@settings(max_examples=20)
@given(
    st.lists(st.sampled_from(["1", "10", "9", "-1", "x", "01", "", None]), max_size=8),
    st.lists(st.integers(0, 8), max_size=3),
)
def test_any_cut_has_the_same_rows_and_dead_letters(
    keys: list[str | None], cuts: list[int]
) -> None:
    """Any batching has the same rows and dead letters."""
    contents = []
    for ends in ([0, len(keys)], sorted([0, *cuts, len(keys)])):
        builder = StreamsBuilder()
        by_number(builder)
        with TopologyTestDriver(builder.build()) as driver:
            for begin, end in pairwise(min(end, len(keys)) for end in ends):
                driver.pipe_input("t", records(*keys[begin:end]))
            rows = driver.key_value_store("rows").all()
            contents.append((rows, driver.dead_letters("rows"), driver.counters("rows")))
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("group_by", "key_serde", "message"),
    [
        ((), Serdes.json(), "Serdes.string.., Serdes.long"),
        ((), (), "Serdes.string.., Serdes.long"),
        ((), (Serdes.double(),), "tuple of such serdes"),
        ((), "long", "tuple of such serdes"),
        (("v", "w"), Serdes.long(), "Pass a tuple of 2 serdes"),
        (("v", "w"), (Serdes.long(),), "Pass a tuple of 2 serdes"),
    ],
)
def test_serdes_that_do_not_fit_are_refused(
    group_by: tuple[str, ...],
    key_serde: object,
    message: str,
) -> None:
    """A wrong serde is rejected by ``materialize``, and a later call can pass a right one.

    The error names the store.
    """
    stream = StreamsBuilder().stream("t", "v BIGINT, w STRING")
    grouped = stream.group_by(*group_by) if group_by else stream.group_by_key()
    table = grouped.aggregate(n=count())
    with pytest.raises(InvalidTopology, match=rf"'s'.*{message}"):
        table.materialize("s", key_serde=key_serde)  # type: ignore[arg-type]
    table.materialize("s", key_serde=Serdes.string())


@pytest.mark.java
def test_results_of_a_join_have_typed_keys() -> None:
    """A join result whose key does not fit the serde is a dead letter of the store."""
    builder = StreamsBuilder()
    names = builder.table("names", "name STRING")
    visits = builder.stream("visits", "v BIGINT").join(names)
    by_name = visits.group_by("name", "v").aggregate(n=count())
    by_name.materialize("by_name", key_serde=TEXT_AND_LONG)
    visits.group_by_key().count().materialize("by_key", key_serde=Serdes.long())
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("names", [Record(key, {"name": "a|b"}, 1) for key in ("10", "9", "x")])
        driver.pipe_input("visits", [Record(key, {"v": 7}, 2) for key in ("10", "9", "x", "10")])
        (row,) = driver.key_value_store("by_name").all()
        assert (row.key, row.value) == ('["a|b",7]', {"n": 4})
        assert [row.key for row in driver.key_value_store("by_key").all()] == ["9", "10"]
        assert [letter["reason"] for letter in driver.dead_letters("by_key")] == ["unfit-key"]
