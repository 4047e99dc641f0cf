"""The test driver reads record time by a column and headers as columns, as the pipeline does."""

from oriel import Consumed, FieldTimestamp, Serdes, StreamsBuilder, TimeWindows, count, max
from oriel.testing import Record, TopologyTestDriver

WINDOWS = TimeWindows.of_size_and_grace(10, 0)


def test_time_by_a_column_and_headers_as_columns() -> None:
    """Windows go by the column; serdes play no part, as records are given by value."""
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
    """As the pipeline's table has it."""
    builder = StreamsBuilder()
    builder.stream("t", "v INT").group_by_key().count().materialize("s")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("t", Record("k", {"v": "x"}, 1))
        (letter,) = driver.dead_letters("s")
    assert (letter["reason"], letter["detail"]) == (
        "wrong-type", 'value.v: INT expected, not "x"',
    )  # fmt: skip
