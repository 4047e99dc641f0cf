"""The test driver reads record times and headers from columns, like the pipeline."""

from typing import Any

import pytest

from oriel import Consumed, FieldTimestamp, Serdes, StreamsBuilder, TimeWindows, count, max
from oriel.pipeline.windows import IllegalArgumentType
from oriel.testing import Record, TopologyTestDriver

WINDOWS = TimeWindows.of_size_and_grace(10, 0)


def test_time_by_a_column_and_headers_as_columns() -> None:
    """Windows use the time column. Serdes have no effect, because the test passes values."""
    builder = StreamsBuilder()
    consumed = Consumed(
        value_serde=Serdes.avro(), timestamp=FieldTimestamp("at"), headers={"trace": "trace_id"}
    )
    stream = builder.stream("t", "at BIGINT", consumed).group_by("trace_id").windowed_by(WINDOWS)
    stream.aggregate(n=count(), at=max("at")).materialize("s")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input(
            "t",
            [
                Record("k", {"at": 25}, 1, {"trace": b"x"}),
                Record("k", {"at": 27}, 99, {"trace": b"x", "other": b""}),
                Record("k", {"at": 3}, 99, {"trace": b"x"}),
                Record("k", {"at": None}, 99, {"trace": b"x"}),
                Record("k", {"at": 28}, 1, {"trace": b"\xff"}),
                Record("k", {"at": 29}, 1),
            ],
        )
        (row,) = driver.read_output("s")
        assert (row["key"], row["window_start_ms"], row["n"], row["at"]) == ("x", 20, 2, 27)
        reasons = [letter["reason"] for letter in driver.dead_letters("s")]
        assert reasons == ["missing-timestamp", "null-key", "null-key"]
        assert driver.late == 1


def test_a_dead_letter_names_the_wrong_field() -> None:
    """A dead letter names the field of the wrong type, as in the pipeline's table."""
    builder = StreamsBuilder()
    builder.stream("t", "v INT").group_by_key().count().materialize("s")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("t", Record("k", {"v": "x"}, 1))
        (letter,) = driver.dead_letters("s")
    assert (letter["reason"], letter["detail"]) == (
        "wrong-type", 'value.v: INT expected, not "x"',
    )  # fmt: skip


@pytest.mark.parametrize(
    "headers", [{"h": "y"}, {"h": None}, {5: b"y"}, [("h", b"y")], [], "h"], ids=repr
)
def test_headers_that_are_no_dict_of_bytes_are_refused(headers: Any) -> None:
    """Invalid headers raise an error with the right form, and no record of the batch is read."""
    builder = StreamsBuilder()
    builder.stream("t", "v INT").to("o")
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(IllegalArgumentType) as caught:
            driver.pipe_input("t", [Record("k", {"v": 1}, 1), Record("k", {"v": 1}, 1, headers)])
        assert str(caught.value) == (
            f'headers must be a dict of names to bytes, like {{"trace": b"7f3a"}}, not {headers!r}'
        )
        assert driver.counters("to(o)").input == 0
        driver.pipe_input("t", Record("k", {"v": 1}, 1, {"h": b"y"}))
        assert driver.counters("to(o)").applied == 1


@pytest.mark.parametrize(
    ("schema", "serde", "given", "message"),
    [
        ("v STRING", Serdes.string(), "hello", r"not 'hello'.* string, .* {'v': 'hello'}$"),
        ("v BIGINT", Serdes.long(), 5, r"not 5.* long, .* \['v'\], .* {'v': 5}$"),
        ("v INT, w INT", Serdes.avro(), [1, 2], r"not \[1, 2\].* avro.* \['v', 'w'\]$"),
    ],
)
def test_a_single_value_is_given_by_its_column(
    schema: str, serde: Any, given: Any, message: str
) -> None:
    """A bare value for a value column is a mistake of the test, so the error shows the right form.

    The pipeline would read such a value, so a dead letter would be wrong. For JSON the pipeline
    dead-letters it, and so does the driver.
    """
    builder = StreamsBuilder()
    builder.stream("t", schema, Consumed(value_serde=serde)).to("o")
    builder.stream("j", schema).to("p")
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(IllegalArgumentType, match=message):
            driver.pipe_input("t", Record("k", given, 1))
        driver.pipe_input("t", [Record("k", {"v": None}, 1), Record("k", None, 1)])
        assert (driver.counters("to(o)").input, driver.dropped) == (2, 0)
        driver.pipe_input("j", Record("k", given, 1))
        assert [letter["reason"] for letter in driver.dead_letters("to(p)")] == ["wrong-type"]
