"""User-defined functions in the test driver (semantics.md#9), including functions that fail."""

from collections.abc import Callable
from typing import Any

import pytest

from oriel import IllegalArgument, InvalidTopology, JoinWindows, StreamsBuilder
from oriel.pipeline.windows import Windows
from oriel.testing import Counters, FunctionRaised, Record, TopologyTestDriver
from tests.testing.driver_runs import (
    driver_of,
    driver_with,
    grouped,
    held,
    hopping,
    pipe,
    records,
    sessions,
    sliding,
    tumbling,
    windows_of,
)

Value = dict[str, Any] | None

#: One window of each kind that contains, and stays open for, all records from 10 to 19.
KINDS: dict[str, Windows | None] = {
    "none": None,
    "tumbling": tumbling(100, 0),
    "hopping": hopping(100, 100),
    "sliding": sliding(100, 0),
    "session": sessions(100, 0),
}


def added(_: str, value: Value, old: str) -> str | None:
    """Append the word to the aggregate.

    "-" returns None, "!" raises, and "?" returns a number, which a string column rejects.
    """
    word = value["s"] if value else "null"
    if word == "!":
        message = f"no {word}"
        raise ValueError(message)
    if word == "?":
        return 5  # type: ignore[return-value]
    return None if word == "-" else f"{old}+{word}"


def merged(_: str, left: str, right: str) -> str:
    """Join two partial aggregates with a bar."""
    return f"{left}|{right}"


def texts(
    windows: Windows | None = None,
    aggregator: Callable[..., Any] = added,
    merger: Callable[..., Any] | None = merged,
) -> TopologyTestDriver:
    """Return a driver whose store concatenates the words of its records."""
    return driver_with(
        lambda s: s.aggregate(lambda: "0", aggregator, merger, schema="text STRING"), windows
    )


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("kind", ["none", "tumbling", "hopping"])
def test_functions_are_called_in_order_of_arrival(kind: str, one_by_one: bool) -> None:
    """Functions see records in arrival order, not in time order (semantics.md#9).

    The row has the greatest timestamp.
    """
    driver = texts(KINDS[kind])
    pipe(driver, "19=a 11=b 15=c", one_by_one=one_by_one)
    assert held(driver, kind) == [({"text": "0+a+b+c"}, 19)]


@pytest.mark.parametrize("one_by_one", [True, False])
def test_the_merger_of_sessions_gets_the_initial_value_first(one_by_one: bool) -> None:
    """Sessions merge by their ends, starting with the initial value (semantics.md#4-1)."""
    driver = texts(sessions(10, 100))
    pipe(driver, "20=b 0=a 10=c", one_by_one=one_by_one)
    assert held(driver, "session") == [({"text": "0|0+a|0+b+c"}, 20)]


def test_updates_of_sliding_windows() -> None:
    """A batch writes every changed sliding window once (semantics.md#2-1, difference 10)."""
    outputs = pipe(texts(sliding(10, 100)), "10=1 10=2 14=3 15=4 20=5")
    rows = [{(r["window_start_ms"], r["text"]) for r in batch} for batch in outputs]
    assert rows == [
        {(0, "0+1")},
        {(0, "0+1+2")},
        {(11, "0+3"), (4, "0+1+2+3")},
        {(11, "0+3+4"), (15, "0+4"), (5, "0+1+2+3+4")},
        {(15, "0+4+5"), (11, "0+3+4+5"), (16, "0+5"), (10, "0+1+2+3+4+5")},
    ]


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", ["!", "?"], ids=["raises", "wrong type"])
def test_a_function_that_fails_makes_a_dead_letter(kind: str, bad: str, one_by_one: bool) -> None:
    """The dead letter names store, step and error. The other records aggregate as without it."""
    driver = texts(KINDS[kind])
    pipe(driver, f"10=a 11={bad} 12=b", one_by_one=one_by_one)
    assert ({"text": "0+a+b"} if kind != "session" else {"text": "0|0+a+b"}, 12) in held(
        driver, kind
    )
    counters = driver.counters("s")
    assert (counters.input, counters.applied, counters.dropped) == (3, 2, 1)
    assert (driver.dropped, driver.late) == (1, 0)
    (letter,) = driver.dead_letters("s")
    assert (letter["topic"], letter["partition"], letter["offset"]) == ("t", 0, 1)
    assert (letter["store"], letter["reason"]) == ("s", "function-raised")
    error = "ValueError: no !" if bad == "!" else "TypeError: text: 5 is not of type string"
    assert letter["detail"] == f"store 's', aggregate: {error}"
    assert (
        letter["raw"] == b'{"key":"k","value":{"t":11,"s":"%s"},"timestamp_ms":11}' % bad.encode()
    )


def two_at_most(_: str, value: Value, old: list[str]) -> list[str]:
    """Append the word, or raise if there are already two."""
    assert value is not None
    if len(old) > 1:
        message = f"no {value['s']} behind {old}"
        raise ValueError(message)
    return [*old, value["s"]]


@pytest.mark.parametrize("closed", [False, True], ids=["on update", "on close"])
@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_record_that_a_sliding_window_leaves_out_is_a_dead_letter(
    one_by_one: bool, closed: bool
) -> None:
    """The record is applied. Each window without it has a dead letter with the record's bytes."""
    driver = driver_with(
        lambda s: s.aggregate(list, two_at_most, schema="words ARRAY<STRING>"),
        sliding(10, 0),
        closed=closed,
    )
    pipe(driver, "10=a 11=b 12=c 20=d 99=e", one_by_one=one_by_one)
    error = "store 's', aggregate: ValueError: no"
    c = b'{"key":"k","value":{"t":12,"s":"c"},"timestamp_ms":12}'
    d = b'{"key":"k","value":{"t":20,"s":"d"},"timestamp_ms":20}'
    dead_letters = [(x["offset"], x["raw"], x["detail"]) for x in driver.dead_letters("s")]
    assert sorted(dead_letters) == [
        (2, c, f"left out of the window [10, 20]: {error} c behind ['a', 'b']"),
        (2, c, f"left out of the window [2, 12]: {error} c behind ['a', 'b']"),
        (3, d, f"left out of the window [10, 20]: {error} d behind ['a', 'b']"),
        (3, d, f"left out of the window [11, 21]: {error} d behind ['b', 'c']"),
    ]
    assert driver.counters("s") == Counters(input=5, applied=5, late=0, dropped=0, filtered=0)
    held_there = {row.window_start_ms: row.value["words"] for row in windows_of(driver, "sliding")}
    assert held_there[12] == ["c", "d"]


def test_join_results_that_are_left_out_are_dead_letters() -> None:
    """A later result of an earlier left record can push existing members out of a window."""

    def define(builder: StreamsBuilder) -> None:
        left, right = builder.stream("l", "s STRING"), builder.stream("r", "n STRING")
        joined = left.join(right, JoinWindows.of_time_difference_and_grace(10, 0)).group_by_key()
        folded = joined.windowed_by(sliding(10, 0)).aggregate(
            list, two_at_most, schema="words ARRAY<STRING>"
        )
        folded.materialize("s")

    driver = driver_of(define)
    driver.pipe_input("l", [Record("k", {"s": "a"}, 5), Record("k", {"s": "b"}, 5)])
    found = []
    for name in "xy":
        driver.pipe_input("r", Record("k", {"n": name}, 5))
        found.append([(x["topic"], x["offset"]) for x in driver.dead_letters("s")])
    assert found == [[], [("l", 1), ("l", 1)]]
    assert driver.dropped == 0
    assert windows_of(driver, "sliding")[0].value == {"words": ["a", "a"]}


def test_dead_letters_of_late_errors_have_their_grouping_key_and_time() -> None:
    """A function that raises after a join, and a join result without a key, are dead-lettered."""

    def define(builder: StreamsBuilder) -> None:
        left, right = builder.stream("l", "s STRING"), builder.stream("r", "n STRING")
        joined = left.join(right, JoinWindows.of_time_difference_and_grace(10, 0)).group_by("n")
        joined.aggregate(lambda: 1 // 0, added, merged, schema="text STRING").materialize("s")

    driver = driver_of(define)
    driver.pipe_input("l", Record("k", {"s": "a"}, 5))
    driver.pipe_input("r", Record("k", {"n": None}, 7))
    driver.pipe_input("r", Record("k", {"n": "x"}, 8))
    names = ("reason", "key", "timestamp_ms", "headers", "raw")
    assert [tuple(letter[name] for name in names) for letter in driver.dead_letters("s")] == [
        ("null-key", None, 7, None, b""),
        ("function-raised", b"x", 8, None, b""),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_an_initializer_that_raises_makes_dead_letters(kind: str) -> None:
    """If the initializer raises, every record is dead-lettered."""
    driver = driver_with(
        lambda s: s.aggregate(lambda: 1 // 0, added, merged, schema="text STRING"), KINDS[kind]
    )
    pipe(driver, "10=a 11=b", one_by_one=False)
    assert held(driver, kind) == []
    assert driver.dropped == 2
    assert "ZeroDivisionError" in driver.dead_letters("s")[0]["detail"]


@pytest.mark.java
def test_a_merger_that_raises_in_a_session_makes_a_dead_letter() -> None:
    """If the merger raises, the record that joins the sessions is rejected, and they stay."""

    def never(_: str, left: str, right: str) -> str:
        if "b" in right:
            raise KeyError(right)
        return f"{left}|{right}"

    driver = texts(sessions(5, 100), merger=never)
    pipe(driver, "10=a 20=b 15=c")
    assert [(row.window_start_ms, row.window_end_ms) for row in windows_of(driver, "session")] == [
        (10, 10),
        (20, 20),
    ]
    assert driver.dead_letters("s")[0]["offset"] == 2


@pytest.mark.parametrize("kind", KINDS)
def test_an_aggregator_that_changes_its_aggregate_harms_nothing(kind: str) -> None:
    """Functions receive copies, so windows that share records do not share lists."""

    def appended(_: str, value: Value, old: list[str]) -> list[str]:
        assert value is not None
        old.append(value["s"])
        return old

    def extended(_: str, left: list[str], right: list[str]) -> list[str]:
        left += right
        return left

    shared: list[str] = []
    driver = driver_with(
        lambda s: s.aggregate(lambda: shared, appended, extended, schema="words ARRAY<STRING>"),
        KINDS[kind],
    )
    pipe(driver, "10=a 12=b 11=c", one_by_one=False)
    pipe(driver, "13=d")
    assert shared == []
    assert ({"words": ["a", "b", "c", "d"]}, 13) in held(driver, kind)
    if kind == "sliding":
        assert ({"words": ["d"]}, 13) in held(driver, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_several_columns_are_a_dict(kind: str) -> None:
    """Functions receive and return a dict. A dict without a column causes a dead letter."""

    def counted(_: str, value: Value, old: dict[str, Any]) -> dict[str, Any]:
        assert value is not None
        if value["s"] == "less":
            return {"n": 1}
        return {"n": old["n"] + 1, "mean": float(value["t"])}

    def summed(_: str, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        return {"n": left["n"] + right["n"], "mean": right["mean"]}

    driver = driver_with(
        lambda s: s.aggregate(
            lambda: {"n": 0, "mean": None}, counted, summed, schema="n BIGINT, mean DOUBLE"
        ),
        KINDS[kind],
    )
    pipe(driver, "10=a 11=less 12=b")
    assert ({"n": 2, "mean": 12.0}, 12) in held(driver, kind)
    assert "TypeError" in driver.dead_letters("s")[0]["detail"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_reduce_keeps_the_first_value_as_it_is(kind: str) -> None:
    """The reducer is called from the second record on, with whole values (semantics.md#9)."""
    calls = []

    def later(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        calls.append((old["s"], new["s"]))
        return {"t": old["t"] + new["t"], "s": old["s"] + new["s"]}

    driver = driver_with(lambda s: s.reduce(later), KINDS[kind])
    pipe(driver, "10=a")
    assert not calls
    pipe(driver, "12=b 11=c", one_by_one=False)
    assert ({"t": 33, "s": "abc"}, 12) in held(driver, kind)
    assert ("a", "b") in calls


def test_a_reducer_that_raises_makes_a_dead_letter() -> None:
    """The dead letter names the step ``reduce``."""
    driver = driver_with(lambda s: s.reduce(lambda old, _: old["nothing"]))
    pipe(driver, "10=a 11=b")
    (letter,) = driver.dead_letters("s")
    assert letter["detail"] == "store 's', reduce: KeyError: 'nothing'"


@pytest.mark.parametrize("kind", ["none", "tumbling", "hopping", "sliding"])
def test_partitions_need_a_merger(kind: str) -> None:
    """The merger receives the lower partition as its left argument.

    Without a merger, the error says what to do.
    """
    driver = texts(KINDS[kind])
    pipe(driver, "12=b", partition=1)
    pipe(driver, "11=a", partition=0)
    wanted = {"text": "0+a|0+b"}
    assert wanted in [value for value, _ in held(driver, kind)]
    driver = texts(KINDS[kind], merger=None)
    pipe(driver, "12=b", partition=1)
    with pytest.raises(IllegalArgument, match=r"key 'k' are in several partitions.*Pass merger="):
        pipe(driver, "11=a", partition=0)


def test_a_reduce_merges_partitions_by_itself() -> None:
    """The reducer also merges the aggregates of partitions."""
    driver = driver_with(lambda s: s.reduce(lambda old, new: {**new, "t": old["t"] + new["t"]}))
    pipe(driver, "1 2", partition=2)
    pipe(driver, "4", partition=0)
    entry = driver.key_value_store("s").get("k")
    assert entry is not None
    assert (entry.value["t"], entry.timestamp_ms) == (7, 4)


def test_sessions_without_a_merger_are_refused_at_once() -> None:
    """The topology is rejected before any record is processed."""
    with pytest.raises(InvalidTopology, match="sessions merge, so pass merger="):
        texts(sessions(1, 0), merger=None)


@pytest.mark.parametrize("kind", ["tumbling", "hopping", "session"])
def test_an_aggregator_gets_none_for_a_record_without_a_value(kind: str) -> None:
    """Time windows and sessions aggregate records with a null value (semantics.md#1-2)."""
    driver = texts(KINDS[kind])
    driver.pipe_input("t", [*records("10=a"), Record("k", None, 11)])
    text = "0|0+a+null" if kind == "session" else "0+a+null"
    assert held(driver, kind) == [({"text": text}, 11)]


def _raising(error: Exception) -> Callable[..., Any]:
    """Return a function that raises ``error``."""

    def function(*_: Any) -> Any:
        raise error

    return function


class Mute(Exception):
    """An error without a message, because its ``__str__`` raises."""

    def __str__(self) -> str:
        raise KeyError


ODD_ERRORS: dict[str, tuple[Callable[..., Any], str]] = {
    "half a surrogate pair returned": (lambda *_: "\ud83d", r"ValueError: text: '\ud83d' has half"),
    "half a surrogate pair said": (_raising(ValueError("\ud83d!")), r"ValueError: \ud83d!"),
    "several lines": (_raising(ValueError("a\n  b\r\nc")), "ValueError: a b c"),
    "mute": (_raising(Mute()), "tests.testing.test_driver_functions.Mute: <exception str()"),
    "endless": (_raising(ValueError("x" * 10_000)), "ValueError: xxx"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("odd", ODD_ERRORS)
def test_odd_errors_of_functions_make_dead_letters(kind: str, odd: str) -> None:
    """Any return value or exception causes one short line, and other records are applied."""
    function, found = ODD_ERRORS[odd]
    driver = texts(KINDS[kind], lambda k, v, a: function() if v["s"] == "!" else added(k, v, a))
    pipe(driver, "10=a 11=! 12=b")
    (letter,) = driver.dead_letters("s")
    assert letter["detail"].startswith(f"store 's', aggregate: {found}")
    assert len(letter["detail"]) < 1_200
    assert "\n" not in letter["detail"]
    assert ({"text": "0+a+b"} if kind != "session" else {"text": "0|0+a+b"}, 12) in held(
        driver, kind
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_that_raises_is_an_error_of_the_test(kind: str) -> None:
    """The error names the first record. The batch is processed as in a run."""
    builder = StreamsBuilder()
    grouped_stream: Any = grouped(builder)
    windows = KINDS[kind]
    stream = grouped_stream if windows is None else grouped_stream.windowed_by(windows)
    stream.aggregate(lambda: "0", added, merged, schema="text STRING").materialize("s")
    driver = TopologyTestDriver(builder.build())
    pipe(driver, "10=a")
    batch = [("t", record) for record in records("11=b 12=! 13=? 14=c")]
    with pytest.raises(
        FunctionRaised,
        match=r"^topic 't', partition 0, offset 2: store 's', aggregate: ValueError: no ! \(2 dead "
        r"letters in this batch\). .* collect_function_errors=True$",
    ):
        driver.pipe_inputs([*batch, ("t", batch[0][1], 1)])
    assert [letter["offset"] for letter in driver.dead_letters("s")] == [2, 3]
    assert driver.counters("s") == Counters(input=5, applied=3, late=0, dropped=2, filtered=0)
    pipe(driver, "15=d")
    assert driver.counters("s").applied == 4


@pytest.mark.java
@pytest.mark.parametrize("windows", [None, tumbling(10, 0), sliding(10, 0), sessions(10, 0)])
@pytest.mark.parametrize("is_store", [False, True], ids=["to", "materialize"])
def test_a_reduce_after_windows_says_how_to_rename_their_bounds(
    windows: Windows | None, is_store: bool
) -> None:
    """A reduce rejects values with the columns of window bounds, and the error says how to rename.

    With the columns renamed as in the error, the values are kept.
    """

    def define(builder: StreamsBuilder, *renaming: dict[str, str]) -> None:
        counts = grouped(builder).windowed_by(tumbling(10, 0)).count().to_stream()
        for columns in renaming:
            counts = counts.map_values("count", **columns)
        again: Any = counts.group_by_key()
        if windows is not None:
            again = again.windowed_by(windows)
        table = again.reduce(lambda _, new: new)
        if is_store:
            table.materialize("s")
        else:
            table.to_stream().to("o")

    with pytest.raises(InvalidTopology) as caught:
        driver_of(define)
    store = "s" if is_store else "to(o)"
    assert str(caught.value) == (
        f"store {store!r}, reduce: the records have the columns "
        "['window_end_ms', 'window_start_ms'], and an aggregation needs these names for "
        "its windows. Leave them out before the grouping, or rename them: "
        "map_values('count', of_window_start_ms='window_start_ms', "
        "of_window_end_ms='window_end_ms')"
    )
    renamed = {"of_window_start_ms": "window_start_ms", "of_window_end_ms": "window_end_ms"}
    driver = driver_of(lambda builder: define(builder, renamed))
    driver.pipe_input("t", records("1 2"))
    assert driver.dropped == 0
    if not is_store:
        value = driver.create_output_topic("o").read_records()[-1].value
        assert value is not None
        assert (value["count"], value["of_window_end_ms"]) == (2, 10)
