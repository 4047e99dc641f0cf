"""Flattened streams in the test driver: flattened records and their counters."""

import pytest

from oriel import InvalidTopology, JoinWindows, StreamsBuilder, collect_list, count, last
from oriel import sum as sum_of
from oriel.testing import Counters, Record, TopologyTestDriver
from tests.testing.driver_runs import driver_of, sessions, tumbling
from tests.testing.test_driver_streams import values

LINES = "user STRING, line STRING"


def words(text: str, time: int = 1, user: str = "u") -> Record:
    """Return a line of words."""
    return Record("k", {"user": user, "line": text}, time)


@pytest.mark.java
def test_words_are_counted() -> None:
    """Each word becomes a record with its own key and the kept columns."""

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


@pytest.mark.java
def test_elements_keep_their_order_and_the_records_key_and_time() -> None:
    """Flattened records keep the array's order, including nulls, and the record's key and time."""

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
    # Members are sorted by time first. The filtered record has not advanced the stream time.
    assert window.value == {"n": 5, "all": [0, 3, 1, 2], "t": 7}
    assert not window.final


@pytest.mark.java
def test_what_has_no_value_has_no_elements() -> None:
    """Null values and filtered table rows have no flattened records, and count as filtered."""

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


@pytest.mark.java
def test_a_record_has_one_dead_letter_for_its_bad_elements() -> None:
    """A record has one dead letter for all its invalid flattened records, and all count.

    The dead letter has the offset, key and bytes of the record.
    """

    def define(builder: StreamsBuilder) -> None:
        builder.stream("t", LINES).flat_map(
            "nullif(word, 'x')", word="split(line, ' ')"
        ).group_by_key().count().materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", [words("a"), words("x b x"), words("x"), Record("k", None, 1)])
    assert values(driver) == {"a": {"count": 1}, "b": {"count": 1}}
    dead_letters = [(one["offset"], one["reason"], one["key"]) for one in driver.dead_letters("s")]
    assert dead_letters == [(1, "null-key", b"k"), (2, "null-key", b"k")]
    assert b"x b x" in driver.dead_letters("s")[0]["raw"]
    assert driver.counters("s") == Counters(
        input=4, applied=3, late=0, dropped=0, filtered=1,
        elements=5, elements_applied=2, elements_dropped=3,
    )  # fmt: skip
    assert driver.dropped == 3


@pytest.mark.java
def test_late_elements_are_counted_as_such() -> None:
    """Late flattened records count as late in any windows, and their record counts as applied."""

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


@pytest.mark.java
def test_elements_look_a_table_up() -> None:
    """Each flattened record joins a table by its own key. Unmatched ones are filtered out."""

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


@pytest.mark.java
def test_merged_and_cogrouped_streams_may_be_flattened() -> None:
    """Flattened and plain streams can be merged and cogrouped, and each counts its own records."""

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


@pytest.mark.java
def test_elements_and_records_as_they_are_make_one_list() -> None:
    """A list sorts flattened records and plain records together, by time and source offset."""

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


@pytest.mark.java
def test_what_cannot_be_flattened_is_refused() -> None:
    """The error about a stream that cannot be flattened names the fix.

    Some errors need Spark, so they occur when the topology runs.
    """
    builder = StreamsBuilder()
    lines = builder.stream("t", LINES + ", tags ARRAY<STRING>")
    with pytest.raises(InvalidTopology, match="flat_map_values: compute an array column"):
        lines.flat_map_values("user")
    with pytest.raises(InvalidTopology, match="flat_map: name at least one column or expression"):
        lines.flat_map((), word="split(line, ' ')")
    for columns, found in (({"n": "1"}, "no column is"), ({"a": "tags", "b": "tags"}, "are")):
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
    with pytest.raises(InvalidTopology, match="column 'x' is not deterministic"):
        TopologyTestDriver(wrong.build())


@pytest.mark.java
@pytest.mark.slow
def test_elements_are_flattened_again() -> None:
    """A flattened record can be flattened again. The order inside the record is kept.

    A flattened record with an empty or null array is filtered out.
    """

    def define(builder: StreamsBuilder) -> None:
        sentences = builder.stream("t", LINES).flat_map_values(sentence="split(line, ';')")
        spoken = sentences.filter("sentence <> 'no'").flat_map_values(word="split(sentence, ' ')")
        spoken.filter("word <> ''").to("words")
        spoken.group_by_key().aggregate(n=count(), all=collect_list("word")).materialize("s")
        empty = "CASE WHEN sentence <> 'no' THEN split(sentence, ' ') END"
        none = sentences.flat_map_values(word=empty)
        none.group_by_key().aggregate(n=count(), all=collect_list("word")).materialize("none")

    driver = driver_of(define)
    driver.pipe_input("t", [words("b a;no;c"), words("no;no"), Record("k", {"line": None}, 3)])
    for store in ("s", "none"):
        assert values(driver, store) == {"k": {"n": 3, "all": ["b", "a", "c"]}}
        assert driver.counters(store) == Counters(
            input=3, applied=2, late=0, dropped=0, filtered=1,
            elements=6, elements_applied=3, elements_filtered=3,
        )  # fmt: skip
    records = driver.create_output_topic("words").read_records()
    assert records == [Record("k", {"word": word}, 1) for word in ("b", "a", "c")]


@pytest.mark.java
def test_pairs_are_flattened() -> None:
    """A flattened join result has the positions of both records. An empty one is filtered out."""
    within = JoinWindows.of_time_difference_and_grace(10, 0)

    def define(builder: StreamsBuilder) -> None:
        lines, tags = builder.stream("t", LINES), builder.stream("o", "tag STRING")
        pairs = lines.left_join(tags, within)
        spoken = pairs.flat_map("word", "tag", word="split(nullif(line, ''), ' ')")
        spoken.to("words")
        keyed = spoken.group_by("nullif(word, 'x')")
        keyed.windowed_by(tumbling(10, 0)).aggregate(all=collect_list("tag")).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", [words("a x b x", 5), words("", 5)])
    driver.pipe_input("o", [Record("k", {"tag": "p"}, 4), Record("k", {"tag": "q"}, 6)])
    driver.pipe_input("o", Record("k", {"tag": "far"}, 100))
    driver.pipe_input("t", words("c", 100))
    found = {one.key: one.value["all"] for one in driver.window_store("s").all()}
    assert found == {"a": ["p", "q"], "b": ["p", "q"], "c": ["far"]}
    # Both join results of the record have two invalid flattened records. The record has one dead
    # letter, and each flattened record counts.
    dead_letters = [
        (one["topic"], one["offset"], one["reason"]) for one in driver.dead_letters("s")
    ]
    assert dead_letters == [("t", 0, "null-key")]
    assert driver.counters("s").dropped_results == 4
    records = driver.create_output_topic("words").read_records()
    assert [record.key for record in records] == ["a", "x", "b", "x", "a", "x", "b", "x", "c"]


@pytest.mark.java
def test_updates_of_tables_are_flattened() -> None:
    """Flattened updates keep their apply order. A deleted row has no flattened records."""

    def define(builder: StreamsBuilder) -> None:
        users = builder.table("u", "name STRING").join(builder.table("t", "tags STRING"))
        tagged = users.to_stream().flat_map("tag", "name", tag="split(tags, ' ')")
        tagged.to("out")
        counts = tagged.group_by_key().aggregate(n=count(), all=collect_list("name"))
        counts.to_stream().filter("n > 1").to("twice")
        counts.materialize("s")

    driver = driver_of(define)
    driver.pipe_input("u", Record("k", {"name": "n"}, 1))
    driver.pipe_input("t", [Record("k", {"tags": "a b"}, 2), Record("k", {"tags": "b a a"}, 3)])
    driver.pipe_input("u", Record("k", {"name": "m"}, 4))
    driver.pipe_input("t", [Record("k", None, 5), Record("k", {"tags": "c"}, 6)])
    assert values(driver) == {
        "a": {"n": 5, "all": ["n", "n", "n", "m", "m"]},
        "b": {"n": 3, "all": ["n", "n", "m"]},
        "c": {"n": 1, "all": ["m"]},
    }
    records = driver.create_output_topic("out").read_records()
    assert [record.key for record in records] == ["a", "b", "b", "a", "a", "b", "a", "a", "c"]
    records = driver.create_output_topic("twice").read_records()
    assert [(record.key, record.value["n"]) for record in records if record.value] == [
        ("b", 2), ("a", 2), ("a", 3), ("b", 3), ("a", 4), ("a", 5),
    ]  # fmt: skip


@pytest.mark.java
@pytest.mark.slow
def test_branches_of_elements_are_written_in_the_order_of_the_elements() -> None:
    """Merged branches of a flattened stream keep the order of the array.

    If branches flatten on their own, each branch's records of one line stay together.
    """

    def define(builder: StreamsBuilder) -> None:
        spoken = builder.stream("t", LINES).flat_map_values(word="split(line, ' ')")
        branches = spoken.split().branch("word > 'm'", "late").default_branch("early")
        branches["late"].merge(branches["early"].map_values(word="upper(word)")).to("out")
        halves = builder.stream("t", LINES).split().branch("user = 'u'", "u").default_branch("v")
        of_u = halves["u"].flat_map_values(word="split(line, ' ')")
        of_u.merge(builder.stream("t", LINES).flat_map_values(word="split(line, ' ')")).to("twice")

    driver = driver_of(define)
    driver.pipe_input("t", [words("x a z b"), words("c y", 2)])
    records = driver.create_output_topic("out").read_records()
    assert [record.value["word"] for record in records if record.value] == [*"xAzBCy"]
    records = driver.create_output_topic("twice").read_records()
    assert [record.value["word"] for record in records if record.value] == [*"xazbxazbcycy"]
