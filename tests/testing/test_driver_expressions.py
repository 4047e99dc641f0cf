"""Row-wise expressions in the test driver, which runs the pipeline's own steps in Spark."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oriel import InvalidTopology, JoinWindows, StreamsBuilder, collect_list, count, sum
from oriel.pipeline.errors import ExpressionFailed
from oriel.pipeline.language import arrow_schema
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.rows import reading
from oriel.pipeline.sources.spark_decoding import spark_event_log_decoder
from oriel.pipeline.testing.records import decoded
from oriel.testing import Counters, Record, TopologyTestDriver
from tests.testing.driver_runs import driver_of, tumbling
from tests.testing.test_driver_odd_records import BAD, COLUMNS, GOOD, TIMES

pytestmark = pytest.mark.slow

SCHEMA = "carrier STRING, delay DOUBLE, words ARRAY<STRING>, m MAP<STRING, INT>"


def flight(key: str | None, carrier: str | None, delay: float | None, time: int = 1) -> Record:
    """Return a record of the topic."""
    return Record(key, {"carrier": carrier, "delay": delay, "m": {"x": 1}}, time)


def test_a_filter_counts_and_moves_no_clock(spark: SparkSession) -> None:
    """Records whose filter is false or null count as filtered and do not advance stream time."""
    driver = driver_of(
        lambda b: (
            b.stream("t", SCHEMA)
            .filter("delay > 1 AND m['x'] = 1")
            .filter(F.col("carrier") != "DL")
            .group_by_key()
            .windowed_by(tumbling(10, 0))
            .aggregate(delays=collect_list("delay"))
            .materialize("s")
        )
    )
    driver.pipe_input("t", [flight("a", "UA", 0.0, 100), flight("a", "UA", None, 100)])
    driver.pipe_input("t", [flight("a", "DL", 5.0, 100), flight("a", "UA", 5.0, 1)])
    driver.pipe_input("t", [flight("a", "UA", 6.0, 15), flight("a", "UA", 7.0, 2)])
    driver.pipe_input(
        "t", [flight(None, "UA", 7.0), flight(None, "DL", 7.0), Record("a", None, 16)]
    )
    driver.pipe_input("t", [Record("a", {"delay": "x"}, 1)])
    assert [(w.window_start_ms, w.value["delays"]) for w in driver.window_store("s").all()] == [
        (0, [5.0]),
        (10, [6.0]),
    ]
    assert driver.counters("s") == Counters(input=10, applied=2, late=1, dropped=2, filtered=5)
    reasons = [(letter["offset"], letter["reason"]) for letter in driver.dead_letters("s")]
    assert reasons == [(6, "null-key"), (9, "wrong-type")]


def test_map_values_and_group_by_of_several(spark: SparkSession) -> None:
    """Keys can have several parts and computed columns. With a null part, the key is null."""
    driver = driver_of(
        lambda b: (
            b.stream("t", SCHEMA)
            .map_values(
                "carrier", late="delay > 10", twice=F.col("delay") * 2, at="timestamp_ms + 1"
            )
            .group_by("carrier", "late", "key")
            .aggregate(n=count(), total=sum("twice"), at=collect_list("at"))
            .materialize("s")
        )
    )
    driver.pipe_input(
        "t",
        [flight("k", "UA", 20.0), flight("k", "U|A", 2.0, 5), flight("k", "UA", 21.0, 7),
         flight("k", None, 1.0), flight("k", "UA", None)],
    )  # fmt: skip
    entries = {entry.key: entry.value for entry in driver.key_value_store("s").all()}
    assert entries == {
        "UA|true|k": {"n": 2, "total": 82.0, "at": [2, 8]},
        "U\\|A|false|k": {"n": 1, "total": 4.0, "at": [6]},
    }
    assert [letter["reason"] for letter in driver.dead_letters("s")] == ["null-key"] * 2


def test_a_step_after_a_join_is_checked(spark: SparkSession) -> None:
    """A step after a join cannot use a column that an earlier ``map_values`` removed."""

    def define(builder: StreamsBuilder) -> None:
        ours = builder.stream("left", "a STRING, n INT").filter("n > 0")
        others = builder.stream("right", "b STRING").map_values(c="upper(b)")
        (
            ours.left_join(others, JoinWindows.of_time_difference_and_grace(10, 0))
            .filter("c IS NULL OR c <> 'NO'")
            .map_values("a", pair="concat_ws('/', a, c)", doubled="n * 2")
            .group_by("a", "c IS NULL")
            .aggregate(pairs=collect_list("pair"), total=sum("doubled"))
            .materialize("s")
        )

    with pytest.raises(InvalidTopology, match=r"step group_by\(a, c IS NULL\).*`c`"):
        driver_of(define)


def test_results_of_a_join_go_through_steps(spark: SparkSession) -> None:
    """Join results pass through the steps, and filtered results are not aggregated."""

    def define(builder: StreamsBuilder) -> None:
        ours = builder.stream("left", "a STRING, n INT").filter("n > 0")
        others = builder.stream("right", "b STRING").map_values(c="upper(b)")
        (
            ours.left_join(others, JoinWindows.of_time_difference_and_grace(10, 0))
            .filter("c IS NULL OR c <> 'NO'")
            .map_values("a", "c", doubled="n * 2")
            .group_by("a", "c IS NULL")
            .aggregate(all=collect_list("c"), total=sum("doubled"))
            .materialize("s")
        )

    driver = driver_of(define)
    driver.pipe_input(
        "left", [Record("k", {"a": "x", "n": n}, time) for n, time in ((1, 5), (0, 6), (3, 50))]
    )
    driver.pipe_input("right", [Record("k", {"b": b}, 5) for b in ("yes", "no", "also")])
    driver.pipe_input("right", Record("other", {"b": "z"}, 1000))
    entries = {entry.key: entry.value for entry in driver.key_value_store("s").all()}
    assert entries == {
        "x|false": {"all": ["YES", "ALSO"], "total": 4},
        "x|true": {"all": [], "total": 6},
    }
    assert driver.counters("s").filtered == 1


def test_a_function_that_raises_after_an_expression(spark: SparkSession) -> None:
    """If a function raises after an expression, the dead letter has the record's bytes."""
    driver = driver_of(
        lambda b: (
            b.stream("t", "n INT")
            .filter("n < 9")
            .group_by_key()
            .aggregate(lambda: 0, lambda _, value, old: old + 6 // value["n"], schema="n BIGINT")
            .materialize("s")
        )
    )
    driver.pipe_input("t", [Record("k", {"n": n}, 1) for n in (1, 0, 2, 9)])
    entry = driver.key_value_store("s").get("k")
    assert entry is not None
    assert entry.value == {"n": 9}
    (letter,) = driver.dead_letters("s")
    assert letter["raw"] == b'{"key":"k","value":{"n":0},"timestamp_ms":1}'
    assert driver.counters("s") == Counters(input=4, applied=2, late=0, dropped=1, filtered=1)


def test_null_values_pass_expressions_where_a_store_takes_them(spark: SparkSession) -> None:
    """A filter evaluates null values, and the store counts the records that pass."""
    driver = driver_of(
        lambda b: (
            b.stream("t", "n INT")
            .filter("n IS NULL")
            .group_by_key()
            .windowed_by(tumbling(10, 0))
            .count()
            .materialize("s")
        )
    )
    driver.pipe_input("t", [Record("k", None, 1), Record("k", {"n": 1}, 2), Record("k", {}, 3)])
    assert driver.window_store("s").all()[0].value == {"count": 2}


@pytest.mark.parametrize("condition", ["nothing > 1", "delay >"])
def test_a_wrong_filter_is_an_error_when_the_driver_is_created(
    spark: SparkSession, condition: str
) -> None:
    """The error about an invalid filter names the store and the step."""
    with pytest.raises(InvalidTopology, match=r"store 's', step filter"):
        driver_of(
            lambda b: (
                b.stream("t", SCHEMA).filter(condition).group_by_key().count().materialize("s")
            )
        )


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            lambda s: s.filter("words[0] rlike '['"),
            """step filter("words[0] rlike '['"): fails on a record: PatternSyntaxException: Un""",
        ),
        (
            lambda s: s.filter("delay > 0").filter("if(delay > 1, raise_error('a\\nb'), true)"),
            """step filter("if(delay > 1, raise_error('a\\\\nb'), true)"): fails on a record: a""",
        ),
        (
            lambda s: s.map_values("*", x="element_at(words, 0)").group_by("x"),
            "step map_values('*', x='element_at(words, 0)'): fails on a record: The index 0 is",
        ),
        (
            lambda s: s.group_by("size(sequence(1, cast(delay AS INT), -1))"),
            "step group_by(size(sequence(1, cast(delay AS INT), -1))): fails on a record: Illegal",
        ),
    ],
    ids=["pattern", "raise_error", "index", "key"],
)
def test_an_expression_that_fails_on_a_record_is_named(
    spark: SparkSession, step: Callable[[KStream], Any], said: str
) -> None:
    """The error is one line with the store and the first failing step, whatever Java reports."""

    def define(builder: StreamsBuilder) -> None:
        done = step(builder.stream("t", SCHEMA).filter("carrier = 'UA'"))
        grouped = done.group_by_key() if isinstance(done, KStream) else done
        grouped.aggregate(n=count()).materialize("s")

    driver = driver_of(define)
    record = Record("k", {"carrier": "UA", "delay": 5.0, "words": ["a"]}, 1)
    with pytest.raises(ExpressionFailed) as caught:
        driver.pipe_input("t", record)
    assert str(caught.value).startswith(f"store 's', {said}")
    assert "\n" not in str(caught.value)


def test_the_error_of_a_python_function_has_its_trace(spark: SparkSession) -> None:
    """An exception of a Python function keeps its traceback, and a note names store and step."""

    def fail(_):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - Spark reads them
        raise KeyError("odd")  # noqa: EM101

    def refuse(_key: str | None, _value: dict[str, Any] | None, _timestamp_ms: int) -> None:
        raise KeyError("odd")  # noqa: EM101

    fails = F.udf(fail, "boolean")
    steps: dict[str, Callable[[KStream], KStream]] = {
        "filter(": lambda stream: stream.filter(fails(F.col("carrier"))),
        "peek(": lambda stream: stream.peek(refuse),
    }
    for called, step in steps.items():
        builder = StreamsBuilder()
        step(builder.stream("t", SCHEMA)).group_by_key().count().materialize("s")
        driver = TopologyTestDriver(builder.build())
        with pytest.raises(PythonException, match="KeyError: 'odd'") as caught:
            driver.pipe_input("t", flight("a", "UA", 0.0))
        (note,) = caught.value.__notes__
        assert note.startswith(f"store 's', step {called}")


def test_python_functions_may_be_any_expression(spark: SparkSession) -> None:
    """All three kinds of Python functions work in any step, also next to SQL expressions."""

    def upper(text):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - Spark reads them
        return None if text is None else text.upper()

    def is_late(delay: pd.Series) -> pd.Series:
        return delay.fillna(0) > 1

    def doubled(delay: pa.Array) -> pa.Array:
        return pc.multiply(delay, 2)

    shout = F.udf(upper, "string")
    late = F.pandas_udf(is_late, "boolean")  # type: ignore[call-overload]
    twice = F.arrow_udf(doubled, "double")  # type: ignore[call-overload]

    def define(builder: StreamsBuilder) -> None:
        flights = builder.stream("t", SCHEMA)
        flights.group_by(shout("carrier")).count().materialize("grouped")
        late_ones = flights.filter(late("delay")).map_values("carrier", d=twice("delay"))
        keyed = late_ones.select_key(shout("carrier"), F.lit("!")).group_by_key()
        keyed.aggregate(total=sum("d")).materialize("selected")

    driver = driver_of(define)
    driver.pipe_input("t", [flight("a", "ua", 2.0), flight("a", "aa", 1.0), flight("b", "ua", 3.0)])
    stores = {name: driver.key_value_store(name).all() for name in ("grouped", "selected")}
    assert {row.key: row.value for row in stores["grouped"]} == {
        "AA": {"count": 1}, "UA": {"count": 2},
    }  # fmt: skip
    assert {row.key: row.value for row in stores["selected"]} == {"UA|!": {"total": 10.0}}


def test_peek_shows_each_record_once_in_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    """``peek`` calls its function once per valid, unfiltered record: with a dict or with None."""
    seen = tmp_path / "seen"

    def note(key: str | None, value: dict[str, Any] | None, timestamp_ms: int) -> None:
        with seen.open("a") as file:
            file.write(f"{key} {value} {timestamp_ms}\n")

    def define(builder: StreamsBuilder) -> None:
        stream = builder.stream("t", "v INT, w STRING").filter("v > 1 OR v IS NULL")
        peeked = stream.map_values("v", x="v + 1").peek(note).filter("x > 3 OR x IS NULL")
        peeked.group_by_key().windowed_by(tumbling(10, 0)).count().materialize("s")

    driver = driver_of(define)
    records = [Record("k", {"v": v, "w": "w"}, v) for v in (1, 2, 3)]
    driver.pipe_input("t", [*records, Record(None, None, 9), Record("k", None, 9)])
    assert sorted(seen.read_text().splitlines()) == [
        "None None 9", "k None 9", "k {'v': 2, 'x': 3} 2", "k {'v': 3, 'x': 4} 3",
    ]  # fmt: skip
    assert driver.counters("s") == Counters(input=5, applied=2, late=0, dropped=1, filtered=2)
    with pytest.raises(InvalidTopology, match="peek: the argument must be a function"):
        StreamsBuilder().stream("t", "v INT").peek("v")  # type: ignore[arg-type]


def test_the_error_for_an_unknown_column_of_map_values_names_the_step(spark: SparkSession) -> None:
    """The error about an unknown column of ``map_values`` names the step."""
    with pytest.raises(InvalidTopology, match=r"store 's', step map_values.*`nothing`"):
        driver_of(
            lambda b: (
                b.stream("t", SCHEMA).map_values("nothing").group_by_key().count().materialize("s")
            )
        )


def test_records_are_read_as_the_pipeline_reads_their_json(spark: SparkSession) -> None:
    """The driver returns the same values and reasons for odd records as the event log's decoder."""
    values = [(name, given) for name, given, _ in GOOD if not hasattr(given, "dtype")]
    # Spark formats doubles as strings in its own way.
    values += [(name, given) for name, given in BAD if not isinstance(given, bytes)]
    # The pipeline rejects TINYINT, because Spark's parser reads it wrongly.
    values = [(name, given) for name, given in values if name != "t"]
    columns = COLUMNS.replace("t TINYINT, ", "")
    given = [Record("k", {n: g}, 1) for n, g in values if type(g) is not object]
    given += [Record("k", {}, time) for time, _ in TIMES]
    others: list[Any] = [None, {}, 5, "x", True, []]
    given += [Record("k", value, 1) for value in others]
    ours = decoded(given, arrow_schema(columns), 0, 0)
    lines = ours.select(["partition", "offset", "raw"])
    theirs = (
        spark_event_log_decoder(columns).decode(spark.createDataFrame(lines).coalesce(1)).toArrow()
    )
    for mine, read, record in zip(ours.to_pylist(), theirs.to_pylist(), given, strict=True):
        # For a number out of range, Spark knows only the field.
        codes = [(each["reason"] or "").partition(": ")[0] for each in (mine, read)]
        assert codes[0] == codes[1], record
        if mine["reason"] is None:
            assert (mine["key"], mine["timestamp_ms"]) == (read["key"], read["timestamp_ms"])
            assert repr(mine["value"]) == repr(read["value"]), record


def test_a_process_reads_the_same_steps_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second driver does not analyze the same steps again. Each uses its own columns."""

    def driver(column: str) -> TopologyTestDriver:
        builder = StreamsBuilder()
        events = builder.stream("t", "a INT, b INT").filter("a > 0").map_values("a", c="a + b")
        events.group_by_key().aggregate(total=sum(column)).materialize("s")
        return TopologyTestDriver(builder.build())

    first = driver("a")
    monkeypatch.setattr(reading, "RowSteps", None)
    second = driver("c")
    for one, total in ((first, 3), (second, 33)):
        one.pipe_input("t", [Record("k", {"a": a, "b": 10 * a}, 0) for a in (1, -5, 2)])
        assert [row.value for row in one.key_value_store("s").all()] == [{"total": total}]


def test_a_function_that_is_registered_again_is_read_again(spark: SparkSession) -> None:
    """If a function is registered again, a step with the same SQL is analyzed again."""

    def found() -> dict[str, Any]:
        builder = StreamsBuilder()
        events = builder.stream("t", "a INT").map_values(b="registered_anew(a)").group_by_key()
        events.aggregate(all=collect_list("b")).materialize("s")
        with TopologyTestDriver(builder.build()) as driver:
            driver.pipe_input("t", [Record("k", {"a": 3}, 0)])
            (row,) = driver.key_value_store("s").all()
            return dict(row.value)

    spark.udf.register("registered_anew", lambda a: a + 1, "int")
    assert found() == {"all": [4]}
    spark.udf.register("registered_anew", lambda a: f"-{a}-", "string")
    assert found() == {"all": ["-3-"]}
