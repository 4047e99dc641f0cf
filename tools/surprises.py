"""Write docs/reference/kafka-streams-differences.md: drawn differences from Kafka Streams.

    python -m tools.surprises

What is drawn of our windows is what the engines compute, where an engine alone can say it. What
is drawn of Kafka's stands here; a test asks Kafka Streams itself (``EXAMPLES``, ``TOLD``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, Literal

import pyarrow as pa

from oriel.pipeline.windows import (
    EmitStrategy,
    Fold,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    Windows,
)
from tools.window_pictures import arrivals, compared, computed, one_by_one, rows_text, table

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "kafka-streams-differences.md"


@dataclass(frozen=True)
class Example:
    """Records of one topic and partition, and what Kafka Streams makes of them.

    ``kafka`` has the windows at the end; with ``emit`` it has, for each record, the windows that
    come out, or "nothing". ``retention_ms`` is that of Kafka's store.
    """

    windows: Windows
    records: str
    kafka: Sequence[str]
    retention_ms: int
    emit: Literal["update", "close", "suppress"] = "update"


_SESSION = SessionWindows.of_inactivity_gap_with_no_grace(10)
EXAMPLES = {
    "session": Example(_SESSION, "a@0 b@11 c@5", ["[0,11] a c b"], 1_000_000),
    "session, default": Example(_SESSION, "a@0 b@11 c@5", ["[0,0] a", "[5,11] c b"], 10),
    "partly late": Example(
        SlidingWindows.of_time_difference_with_no_grace(10),
        "A@30 a@25 b@31",
        ["[21,31] b"],
        1_000_000,
    ),
    "close": Example(
        TimeWindows.of_size_with_no_grace(10),
        "a@1 b@25 c@37",
        ["nothing", "nothing", "[20,30) b"],
        10,
        "close",
    ),
    "suppress": Example(
        SlidingWindows.of_time_difference_and_grace(10, 5),
        "a@10 b@15 c@10 d@16",
        ["nothing", "[0,10] a", "[0,10] a c", "nothing"],
        25,
        "suppress",
    ),
}

#: What Kafka makes of the others, by the names of the peer program; values in their order.
TOLD = {
    "removed": ["[0,10] a", "[10,20] a c", "[11,21] c"],
    "cogroup": ["[0,10] b", "[2,12] b a", "[11,21] a"],
    "merge, a first": ["[20,30) a"],
    "merge, b first": ["[0,10) b", "[20,30) a"],
    "join, a first": [],
    "join, by turns": ["a b@5"],
}


def page() -> str:
    """The whole page."""
    return _TEXT.substitute(
        session=_drawn("session", 12),
        partly_late=_drawn("partly late", 37),
        removed=_folded("removed", "a@10 x@15 c@20", 27),
        cogroup=_folded("cogroup", "b@10/1 a@12", 22),
        close=_written("close"),
        suppress=_written("suppress"),
        merge=_merged(),
        join=table(
            ("read", "Kafka Streams", "here"),
            [
                ("a@0 b@5 a@20", *_cells(TOLD["join, by turns"]), "a b@5"),
                ("a@0 a@20 b@5", *_cells(TOLD["join, a first"]), "a b@5"),
            ],
        ),
    )


def _drawn(name: str, until_ms: int) -> str:
    """The windows of an example here, as the engine computes them, and in Kafka."""
    example = EXAMPLES[name]
    outcome = computed(example.windows, one_by_one(arrivals(example.records)))
    here = [rows_text(example.windows.kind, [row]) for row in outcome.rows()]
    return compared(example.windows, example.records, until_ms, here, example.kafka)


def _folded(name: str, records: str, until_ms: int) -> str:
    """Sliding windows of functions that add the names, one for each of two inputs."""
    windows = SlidingWindows.of_time_difference_and_grace(10, 100)
    functions = Fold(str, (_add, _add), None, {"names": pa.string()}, "the page")
    outcome = computed(windows, one_by_one(arrivals(records)), functions=functions)
    here = [rows_text(windows.kind, [row]) for row in outcome.rows()]
    return compared(windows, records, until_ms, here, TOLD[name])


def _add(_key: str, value: Any, names: str) -> str | None:
    return None if value["name"] == "x" else names + value["name"]


def _written(name: str) -> str:
    """What comes out at each record of an example, here and in Kafka."""
    example = EXAMPLES[name]
    records = one_by_one(arrivals(example.records))
    written = computed(example.windows, records, EmitStrategy.on_window_close()).written
    here = [rows_text(example.windows.kind, rows) for rows in written]
    rows = zip(example.records.split(), example.kafka, here, strict=True)
    return table(("record", "Kafka Streams", "here"), list(rows))


def _merged() -> str:
    """Both orders of two topics' records: each topic is a partition with a clock of its own."""
    windows = TimeWindows.of_size_with_no_grace(10)
    rows = []
    for name, records in (("a first", "a@20 b@5/1"), ("b first", "b@5/1 a@20")):
        outcome = computed(windows, one_by_one(arrivals(records)))
        here = rows_text(windows.kind, outcome.rows())
        rows.append((f"{name}: {records.replace('/1', '')}", *_cells(TOLD[f"merge, {name}"]), here))
    return table(("read", "Kafka Streams", "here"), rows)


def _cells(results: Sequence[str]) -> tuple[str]:
    return ("; ".join(results) or "nothing",)


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


_TEXT = Template('''\
# What surprises users of Kafka Streams

For records that come while their windows are open, results equal those of Kafka Streams. This page
has the other cases. Written by `python -m tools.surprises`; do not edit it by hand. What stands
under "Kafka" is what release 4.3.1 answers, which a test asks; what stands under "here" is what the
engines compute and the blocks of code assert.

In the pictures a letter is a record at its time, in the order of arrival: `a` came first. A capital
letter has another key, but moves the clock. [Windows](../concepts/windows.md)
draws the rules themselves.

```python
from oriel import (
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    until_window_closes,
)
from oriel import aggregates as agg
from oriel.testing import Record, TopologyTestDriver


def records(text):
    """Records of words NAME@TIME; capital letters have another key."""
    words = (word.split("@") for word in text.split())
    return [
        Record("other" if name.isupper() else "key", {"name": name}, int(time_ms))
        for name, time_ms in words
    ]


def names(windows):
    """What is in each window: its bounds, and the names."""
    return {(one.window_start_ms, one.window_end_ms): one.value["names"] for one in windows}
```

## A closed session is frozen

Gap 10, no grace. `b` is 11 after `a`, so it closes the session of `a`. `c` lies within the gap of
both.

$session

Kafka merges all three if the store's retention is long, and then takes back a session that it may
have emitted as final. With the default retention it does not find the closed session, and gives
[0,0] and [5,11], as here. Here a closed session never changes, whatever the retention
([0009](../decisions/0009-merge-sessions-of-partitions-that-were-open-for-each-other.md)).
So Kafka's own test of merging, with a gap of five minutes, ends with two sessions:

```python
builder = StreamsBuilder()
(
    builder.stream("visits", schema="name STRING")
    .group_by_key()
    .windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(300_000))
    .aggregate(names=agg.collect_list("name"))
    .materialize("visits")
)
driver = TopologyTestDriver(builder.build())
driver.pipe_input("visits", records("a@0 b@300001 c@150000"))
assert names(driver.session_store("visits").all()) == {
    (0, 0): ["a"],
    (150_000, 300_001): ["c", "b"],
}
assert driver.late == 0
```

Who wants them merged takes a gap or a grace that is longer.

## A record that is late for some windows is kept for the others

Sliding windows, time difference 10, no grace. `A` moves the clock to 30. The window that ends at
`a` is closed by then, but windows that begin before `a` and end behind 30 are open.

$partly_late

Kafka accepts `a`, finds no window to put it into, and has forgotten it when `b` makes one. Here a
window that is open holds every accepted record inside its bounds.

```python
builder = StreamsBuilder()
(
    builder.stream("orders", schema="name STRING")
    .group_by_key()
    .windowed_by(SlidingWindows.of_time_difference_with_no_grace(10))
    .aggregate(names=agg.collect_list("name"))
    .materialize("orders")
)
driver = TopologyTestDriver(builder.build())
driver.pipe_input("orders", records("A@30 a@25 b@31"))
assert names(driver.window_store("orders").fetch("key", 0, 100)) == {
    (21, 31): ["a", "b"],
    (26, 36): ["b"],
}
```

## Removed aggregates in sliding windows

A function that returns None removes the row. Sliding windows, time difference 10; the aggregator
returns None for `x` and else adds the name.

$removed

Kafka keeps nothing of a record that left no row. So `c` builds [10,20] on what was there before `x`
came, and the window that begins behind `x`, [16,26], is never made. Here each window is the fold of
all its records: `a`, then `x`, which removes it, then `c`.

```python
def add(key, value, path):
    return None if value["name"] == "x" else path + value["name"]


builder = StreamsBuilder()
(
    builder.stream("orders", schema="name STRING")
    .group_by_key()
    .windowed_by(SlidingWindows.of_time_difference_and_grace(10, 100))
    .aggregate(str, add, schema="names STRING")
    .materialize("orders")
)
driver = TopologyTestDriver(builder.build())
for record in records("a@10 x@15 c@20"):
    driver.pipe_input("orders", record)
assert names(driver.window_store("orders").all()) == {
    (0, 10): "a",
    (10, 20): "c",
    (11, 21): "c",
    (16, 26): "c",
}
```

## The order of a cogroup's functions in sliding windows

Sliding windows, time difference 10. The first stream has `a`, the second `b`; each function adds
the name. `b` came first.

$cogroup

Kafka calls the functions in the order in which it reads the records, which between two topics is no
certain one. Here the records of the first stream are always folded first, so that the result is the
same each time. Of other windows with functions and no merger the order is that of the batches.
Declarative aggregates do not depend on it.

```python
builder = StreamsBuilder()
first = builder.stream("first", schema="name STRING").group_by_key()
second = builder.stream("second", schema="name STRING").group_by_key()
(
    first.cogroup(add)
    .cogroup(second, add)
    .windowed_by(SlidingWindows.of_time_difference_and_grace(10, 100))
    .aggregate(str, schema="names STRING")
    .materialize("both")
)
driver = TopologyTestDriver(builder.build())
driver.pipe_input("second", records("b@10"))
driver.pipe_input("first", records("a@12"))
assert names(driver.window_store("both").all()) == {(0, 10): "b", (2, 12): "ab", (11, 21): "a"}
```

## Emission on close loses nothing

Tumbling windows of 10, no grace, `EmitStrategy.on_window_close()`. What comes out at each record:

$close

When time jumps, Kafka looks for closed windows in a store whose retention has just hidden them:
[0,10) never comes. A longer retention helps there. Here final rows come from the state, which no
retention touches.

```python
builder = StreamsBuilder()
(
    builder.stream("orders", schema="name STRING")
    .group_by_key()
    .windowed_by(TimeWindows.of_size_with_no_grace(10))
    .emit(EmitStrategy.on_window_close())
    .aggregate(names=agg.collect_list("name"))
    .materialize("closed", retention_ms=10)
)
driver = TopologyTestDriver(builder.build())
reader = driver.create_output_reader("closed")
for record in records("a@1 b@25 c@37"):
    driver.pipe_input("orders", record)
assert [(row["window_start_ms"], row["names"]) for row in reader.read_rows()] == [
    (0, ["a"]),
    (20, ["b"]),
]
```

## Suppress is final

Sliding windows, time difference 10, grace 5, `suppress` until the window closes. What comes out at
each record:

$suppress

A sliding window and a session hold records at their end, so [0,10] takes records until stream time
is above 15. Kafka's `suppress` lets it go at 15: a millisecond early, so `c` still changes it, and
it comes a second time. Here it is the same as `on_window_close`, and a window comes once.

```python
builder = StreamsBuilder()
(
    builder.stream("orders", schema="name STRING")
    .group_by_key()
    .windowed_by(SlidingWindows.of_time_difference_and_grace(10, 5))
    .aggregate(names=agg.collect_list("name"))
    .suppress(until_window_closes())
    .materialize("final")
)
driver = TopologyTestDriver(builder.build())
reader = driver.create_output_reader("final")
driver.pipe_input("orders", records("a@10 b@15 c@10"))
assert reader.is_empty
driver.pipe_input("orders", records("d@16"))
assert [(row["window_start_ms"], row["names"]) for row in reader.read_rows()] == [(0, ["a", "c"])]
```

## Merged streams keep their clocks

Two topics, each with one partition, merged; tumbling windows of 10, no grace. `a` is of one topic,
`b` of the other.

$merge

Kafka has one clock for both, so whether `b` is late depends on which topic it reads first. Here a
record is late by its own partition only, in whatever order they are read
([0059](../decisions/0059-keep-one-stream-time-per-merged-stream.md)). A window is final when both
have passed it.

```python
for order in (("a@20", "b@5"), ("b@5", "a@20")):
    builder = StreamsBuilder()
    a = builder.stream("a", schema="name STRING")
    b = builder.stream("b", schema="name STRING")
    (
        a.merge(b)
        .group_by_key()
        .windowed_by(TimeWindows.of_size_with_no_grace(10))
        .aggregate(names=agg.collect_list("name"))
        .materialize("merged")
    )
    driver = TopologyTestDriver(builder.build())
    for record in order:
        driver.pipe_input(record[0], records(record))
    store = driver.window_store("merged")
    assert names(store.all()) == {(0, 10): ["b"], (20, 30): ["a"]}
    assert driver.late == 0
    assert [window for window in store.all() if window.final] == []
```

## Joins of streams do not depend on interleaving

Two streams joined within 10, no grace. `a` are records of the left topic, `b` of the right one.

$join

Kafka has one clock for both sides: if it reads the second `a` first, `b` is late and pairs with
nothing. Here `b` is late by its own partition only, and pairs with what it fits to
([0012](../decisions/0012-join-independently-of-the-interleaving-of-topics.md)).
A record without a partner comes out of a `left_join` when the other side's clock has passed it,
which can be later than in Kafka.

```python
first, second = Record("key", {"name": "a"}, 0), Record("key", {"name": "a"}, 20)
between = Record("key", {"other": "b"}, 5)
for order in (
    [("left", first), ("right", between), ("left", second)],
    [("left", first), ("left", second), ("right", between)],
):
    builder = StreamsBuilder()
    left = builder.stream("left", schema="name STRING")
    right = builder.stream("right", schema="other STRING")
    pairs = left.join(right, JoinWindows.of_time_difference_with_no_grace(10))
    pairs.group_by_key().count().materialize("pairs")
    driver = TopologyTestDriver(builder.build())
    reader = driver.create_output_reader(pairs)
    driver.pipe_inputs(order)
    assert reader.read_records() == [Record("key", {"name": "a", "other": "b"}, 5)]
    assert driver.late == 0
```
''')


if __name__ == "__main__":
    write()
