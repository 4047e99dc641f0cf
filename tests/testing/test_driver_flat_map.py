"""Streams that are flattened, in the test driver: elements of records, and what is counted."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from oriel import InvalidTopology, JoinWindows, StreamsBuilder, collect_list, count, last
from oriel import sum as sum_of
from oriel.pipeline.windows import NoWindows, Windows
from oriel.testing import Counters, Record, TopologyTestDriver
from tests.campaigns import cases
from tests.slow_tables import Logs
from tests.testing.driver_runs import driver_of, sessions, tumbling
from tests.testing.test_driver_properties import (
    FIRST_SEED,
    SCHEMA,
    Call,
    check_content,
    check_folded,
    cut,
    everything,
    finite,
    folds,
    random_topology,
)
from tests.testing.test_driver_streams import every_aggregate, values
from tests.windows.engine_runs import valued_logs
from tests.windows.test_fold_properties import KINDS as FOLDS

COLUMNS = [column.split()[0] for column in SCHEMA.split(", ")]
FIELDS = ", ".join(column.replace(" ", ": ") for column in SCHEMA.split(", "))
LINES = "user STRING, line STRING"
NO_ELEMENTS: tuple[Any, ...] = ([], None)


def words(text: str, time: int = 1, user: str = "u") -> Record:
    """A line of words."""
    return Record("k", {"user": user, "line": text}, time)


def test_words_are_counted() -> None:
    """Each is a record of its own, under its own key, beside the columns that stay."""

    def define(builder: StreamsBuilder) -> None:
        lines = builder.stream("t", LINES)
        spoken = lines.flat_map("lower(word)", "user", word="split(line, ' ')", n="length(line)")
        spoken.filter("word <> 'x'").group_by_key().aggregate(
            n=count(), users=collect_list("user"), of=last("n")
        ).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", [words("To be x to"), Record("k", {"user": "v", "line": None}, 2)])
    driver.pipe_input("t", words("be", user="w"))
    assert values(driver) == {
        "to": {"n": 2, "users": ["u", "u"], "of": 10},
        "be": {"n": 2, "users": ["u", "w"], "of": 2},
    }
    assert driver.counters("s") == Counters(
        input=3, applied=2, late=0, dropped=0, filtered=1,
        elements=5, elements_applied=4, elements_filtered=1,
    )  # fmt: skip


def test_elements_keep_their_order_and_the_records_key_and_time() -> None:
    """Their order is that of the array, whatever they are; null is an element, too."""

    def define(builder: StreamsBuilder) -> None:
        flat_stream = builder.stream("t", "ns ARRAY<INT>").flat_map_values(n="ns")
        grouped = flat_stream.map_values("n", t="timestamp_ms").group_by_key()
        grouped.windowed_by(tumbling(10, 0)).aggregate(
            n=count(), all=collect_list("n"), t=last("t")
        ).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", [Record("k", {"ns": [3, 1, None, 2]}, 7), Record("k", {"ns": []}, 99)])
    driver.pipe_input("t", Record("k", {"ns": [0]}, 6))
    (window,) = driver.window_store("s").all()
    # Within a window the time comes first; what is filtered out has moved no clock.
    assert window.value == {"n": 5, "all": [0, 3, 1, 2], "t": 7}
    assert not window.final


def test_what_has_no_value_has_no_elements() -> None:
    """Nor has a row of a table that a filter deletes; the updates are filtered out."""

    def define(builder: StreamsBuilder) -> None:
        rows = builder.table("t", LINES).filter("user = 'u'").to_stream()
        rows.flat_map("word", word="split(coalesce(line, 'x'), ' ')").group_by_key().windowed_by(
            tumbling(10, 0)
        ).count().materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", [words("a b"), words("c d", user="v"), Record("k", None, 1)])
    assert [window.key for window in driver.window_store("s").all()] == ["a", "b"]
    assert driver.counters("s") == Counters(
        input=3, applied=1, late=0, dropped=0, filtered=2, elements=2, elements_applied=2
    )


def test_a_record_has_one_dead_letter_for_its_bad_elements() -> None:
    """With its own place, key and bytes; each element is counted."""

    def define(builder: StreamsBuilder) -> None:
        builder.stream("t", LINES).flat_map(
            "nullif(word, 'x')", word="split(line, ' ')"
        ).group_by_key().count().materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", [words("a"), words("x b x"), words("x"), Record("k", None, 1)])
    assert values(driver) == {"a": {"count": 1}, "b": {"count": 1}}
    letters = [(one["offset"], one["reason"], one["key"]) for one in driver.dead_letters("s")]
    assert letters == [(1, "null-key", b"k"), (2, "null-key", b"k")]
    assert b"x b x" in driver.dead_letters("s")[0]["raw"]
    assert driver.counters("s") == Counters(
        input=4, applied=3, late=0, dropped=0, filtered=1,
        elements=5, elements_applied=2, elements_dropped=3,
    )  # fmt: skip
    assert driver.dropped == 3


def test_late_elements_are_counted_as_such() -> None:
    """Whatever the windows; their record counts as applied."""

    def define(builder: StreamsBuilder) -> None:
        spoken = builder.stream("t", LINES).flat_map("word", word="split(line, ' ')")
        keyed = spoken.group_by_key()
        keyed.windowed_by(tumbling(10, 0)).count().materialize("tumbling")
        keyed.windowed_by(sessions(5, 10)).count().materialize("sessions")

    driver = driver_of(define)
    driver.pipe_input("t", [words("a", 100), words("a b", 5), words("b", 84)])
    for store, late in (("tumbling", 3), ("sessions", 3)):
        assert driver.counters(store) == Counters(
            input=3, applied=3, late=0, dropped=0, filtered=0,
            elements=4, elements_applied=4 - late, elements_late=late,
        )  # fmt: skip
    assert driver.late == 6


def test_elements_look_a_table_up() -> None:
    """Each by its own key; those that find nothing are filtered out."""

    def define(builder: StreamsBuilder) -> None:
        orders = builder.stream("t", "items ARRAY<STRUCT<sku: STRING, n: INT>>")
        items = orders.flat_map("item.sku", item="items").map_values(n="item.n")
        items.join(builder.table("p", "price INT")).map_values(cost="n * price").group_by(
            "'all'"
        ).aggregate(total=sum_of("cost"), each=collect_list("cost")).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("p", [Record("a", {"price": 10}, 1), Record("b", {"price": 7}, 1)])
    items = [{"sku": sku, "n": n} for sku, n in (("b", 1), ("a", 2), ("?", 3), ("a", 4))]
    driver.pipe_input("t", Record("k", {"items": items}, 5))
    assert values(driver) == {"all": {"total": 67, "each": [7, 20, 40]}}
    assert driver.counters("s") == Counters(
        input=3, applied=3, late=0, dropped=0, filtered=0,
        elements=4, elements_applied=3, elements_filtered=1,
    )  # fmt: skip


def test_merged_and_cogrouped_streams_may_be_flattened() -> None:
    """Beside others that are not; each counts its own."""

    def define(builder: StreamsBuilder) -> None:
        lines = builder.stream("t", LINES).flat_map("word", word="split(line, ' ')")
        single = builder.stream("w", "word STRING").select_key("word")
        lines.merge(single).group_by_key().count().materialize("s")
        both = lines.group_by_key().cogroup(n=count())
        both.cogroup(single.group_by_key(), m=count()).aggregate().materialize("cogroup")

    driver = driver_of(define)
    driver.pipe_input("t", words("a b a"))
    driver.pipe_input("w", [Record("k", {"word": "a"}, 2)] * 2)
    assert values(driver) == {"a": {"count": 4}, "b": {"count": 1}}
    assert values(driver, "cogroup") == {"a": {"n": 2, "m": 2}, "b": {"n": 1, "m": 0}}
    for store in ("s", "cogroup"):
        assert driver.counters(store) == Counters(
            input=3, applied=3, late=0, dropped=0, filtered=0, elements=3, elements_applied=3
        )


def test_elements_and_records_as_they_are_make_one_list() -> None:
    """A record as it is has no place among elements; it stands where its own place is."""

    def define(builder: StreamsBuilder) -> None:
        spoken = builder.stream("spoken", LINES).flat_map_values(word="split(line, ' ')")
        words = spoken.merge(builder.stream("written", LINES).map_values(word="line"))
        words.group_by_key().aggregate(words=collect_list("word"), last=last("word")).materialize(
            "s"
        )

    driver = driver_of(define)
    driver.pipe_input("spoken", words("to be", 2))
    driver.pipe_input("written", [words("or", 3), words("First:", 1)])
    assert values(driver) == {"k": {"words": ["First:", "to", "be", "or"], "last": "or"}}
    driver.pipe_input("spoken", words("not to be", 5))
    found = ["First:", "to", "be", "or", "not", "to", "be"]
    assert values(driver) == {"k": {"words": found, "last": "be"}}


def test_what_cannot_be_flattened_is_refused() -> None:
    """With the way out; what Spark has to know shows when the topology is run."""
    builder = StreamsBuilder()
    lines = builder.stream("t", LINES + ", tags ARRAY<STRING>")
    flat_stream = lines.flat_map_values("user", word="split(line, ' ')")
    with pytest.raises(InvalidTopology, match=r"flattened already .*flatten\(transform"):
        flat_stream.filter("word <> ''").flat_map_values(c="split(word, '')")
    within = JoinWindows.of_time_difference_and_grace(10, 0)
    other = builder.stream("o", "x INT")
    with pytest.raises(InvalidTopology, match="can't be told apart by element"):
        lines.join(other, within).flat_map_values(word="split(line, ' ')")
    with pytest.raises(InvalidTopology, match="flat_map_values: compute a column that is an array"):
        lines.flat_map_values("user")
    with pytest.raises(InvalidTopology, match="flat_map: name at least one column or expression"):
        lines.flat_map((), word="split(line, ' ')")
    for columns, found in (({"n": "1"}, "none is"), ({"a": "tags", "b": "tags"}, "are")):
        wrong = StreamsBuilder()
        stream = wrong.stream("t", "tags ARRAY<STRING>").flat_map_values(**columns)
        stream.group_by_key().count().materialize("s")
        with pytest.raises(
            InvalidTopology, match=rf"store 's', step flat_map_values.*but .*{found}"
        ):
            TopologyTestDriver(wrong.build())
    wrong = StreamsBuilder()
    wrong.stream("t", "a INT").flat_map_values(
        x="array(rand())"
    ).group_by_key().count().materialize("s")
    with pytest.raises(InvalidTopology, match="column 'x' gives another result each time"):
        TopologyTestDriver(wrong.build())


def packed(logs: Logs, random: Random) -> tuple[Logs, Logs]:
    """Elements, and the records that hold them: some of none, the others of one to four.

    The elements of a record have its time; one without a value has columns of null.
    """
    nothing = dict.fromkeys(COLUMNS)
    elements: dict[int, list[Any]] = {}
    holders: dict[int, list[Any]] = {}
    for p, log in logs.items():
        elements[p], holders[p] = [], []
        rest = list(log)
        while rest:
            number = random.choice((0, 1, 1, 2, 4))
            run, rest, time = rest[:number], rest[number:], rest[0][1]
            held = [(key, time, value or nothing) for key, _, value in run]
            elements[p] += held
            within: Any = [{"k": key, **value} for key, _, value in held]
            # Whatever the record's key and time are, one without elements is none of a window.
            record_time = time if held else 10_000
            holders[p].append(("all", record_time, {"es": within or random.choice(NO_ELEMENTS)}))
    return elements, holders


def flat(windows: Windows, aggregate: Any, place: str = "alone") -> TopologyTestDriver:
    """A driver of the store ``s`` over the elements, made ``before`` or ``behind`` a lookup."""

    def define(builder: StreamsBuilder) -> None:
        records = builder.stream("t", f"es ARRAY<STRUCT<k: STRING, {FIELDS}>>")
        users = builder.table("u", "name STRING")
        if place == "behind":
            records = records.left_join(users)
        elements = records.flat_map("e.k", e="es")
        if place == "before":
            elements = elements.left_join(users)
        keyed = elements.map_values(**{name: f"e.{name}" for name in COLUMNS}).group_by_key()
        aggregate(
            keyed if isinstance(windows, NoWindows) else keyed.windowed_by(windows)
        ).materialize("s")

    return driver_of(define)


def content_of_elements(
    driver: TopologyTestDriver, calls: list[Call]
) -> tuple[list[str], Counters, list[str]]:
    """The content after all calls, the counters, which have to add up, and the dead letters."""
    for topic, partition, records in calls:
        driver.pipe_input(topic, records, partition)
    counters = driver.counters("s")
    assert counters.input == counters.applied + counters.filtered + counters.dropped
    assert counters.elements == (
        counters.elements_applied + counters.elements_late
        + counters.elements_dropped + counters.elements_filtered
    )  # fmt: skip
    letters = sorted(repr(letter) for letter in driver.dead_letters("s"))
    return [repr(found) for found in everything(driver)], counters, letters


@pytest.mark.slow
@cases(2, 4)
@pytest.mark.parametrize("place", ["alone", "before", "behind"])
@pytest.mark.parametrize("kind", ["time", "sliding", "session", "none"])
def test_elements_are_as_records_that_follow_each_other(kind: str, place: str, number: int) -> None:
    """Any cut gives the slow model's windows, also in front of a lookup and behind one."""
    for seed in range(FIRST_SEED, FIRST_SEED + number):
        random = Random(seed + 7)
        elements, records = packed(finite(valued_logs(seed)), random)
        case = random_topology(kind, seed, elements)
        drivers = [flat(case.windows, every_aggregate, place) for _ in range(2)]
        results = [content_of_elements(driver, cut(records, random)) for driver in drivers]
        assert results[0] == results[1], f"{kind}, seed {seed}: another cut gave another result"
        counters = results[0][1]
        wanted = case.outcome.applied, case.outcome.late
        assert (counters.elements_applied, counters.elements_late) == wanted
        assert counters.elements == sum(map(len, elements.values()))
        holders = [value["es"] for log in records.values() for _, _, value in log if value]
        assert (counters.input, counters.applied) == (len(holders), sum(map(bool, holders)))
        check_content(everything(drivers[0]), case.outcome, closed=False)


@pytest.mark.slow
@cases(3, 8)
@pytest.mark.parametrize("windows", ["time", "sliding", "session", "table"])
def test_functions_see_elements_in_their_order(windows: str, number: int) -> None:
    """Record by record and element by element; where one raises, the others count."""
    functions = FOLDS["aggregate"].functions

    def aggregate(stream: Any) -> Any:
        return stream.aggregate(
            functions.initializer, functions.aggregators[0], functions.merger, "text STRING"
        )

    for seed, case in folds("aggregate", windows, number):
        random = Random(seed + 7)
        elements, records = packed(case.logs, random)
        outcome = replace(case, logs=elements).expected()
        drivers = [flat(case.windows, aggregate) for _ in range(2)]
        results = [content_of_elements(driver, cut(records, random)) for driver in drivers]
        assert results[0] == results[1], f"{windows}, seed {seed}: the cut matters"
        counters = results[0][1]
        wanted = outcome.applied, outcome.late, len(outcome.rejected)
        assert (
            counters.elements_applied, counters.elements_late, counters.elements_dropped,
        ) == wanted  # fmt: skip
        check_folded(everything(drivers[0]), outcome, closed=False)
