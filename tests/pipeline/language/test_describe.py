"""Topologies as text and as drawings."""

from collections.abc import Callable

import pytest

from oriel import (
    EmitStrategy,
    JoinWindows,
    ProcessContext,
    Serdes,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    count,
    sum,
)


@pytest.fixture(scope="module")
def topology() -> Topology:
    """Return a topology with a store of each kind."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", "city STRING, amount DOUBLE").filter('city <> "x"')
    web = builder.stream("web", "city STRING, amount DOUBLE")
    sliding = SlidingWindows.of_time_difference_and_grace(10, 5)
    revenue = orders.merge(web).group_by("city").windowed_by(sliding)
    revenue.emit(EmitStrategy.on_window_close()).aggregate(
        n=count(), revenue=sum("amount")
    ).materialize("revenue", retention_ms=100).to("out", final_only=True)
    paid = builder.stream("paid", "ms BIGINT").map_values("ms")
    both = orders.left_join(paid, JoinWindows.of_time_difference_and_grace(5, 0))
    hour = TimeWindows.of_size_and_grace(60, 0)
    both.group_by_key().windowed_by(hour).count().materialize("both", key_serde=Serdes.long())
    users = builder.table("users", "name STRING")
    users.filter("name IS NOT NULL").outer_join(builder.table("cities", "c INT")).materialize("u")
    builder.table("users", "name STRING").materialize("names")
    kept = web.group_by_key().reduce(lambda one, _: one)
    kept.filter("amount > 1").map_values("*", more="amount + 1").materialize("newest")
    return builder.build()


def test_it_is_described_store_by_store(topology: Topology) -> None:
    """The text has inputs as they are written, windows, rows and sinks."""
    assert (
        topology.describe()
        == """\
Topology
  Store: revenue (SlidingWindows(time_difference_ms=10, grace_ms=5), window-close, retention_ms=100)
    Input: stream('orders').filter('city <> "x"').group_by(city)
    Input: stream('web').group_by(city)
    Rows: n=count(), revenue=sum(amount)
    Sink: topic 'out', final rows only
  Store: both (TimeWindows(size_ms=60, grace_ms=0, advance_ms=60), keys: long)
    Input: (stream('orders').filter('city <> "x"')).left_join('paid') of \
(stream('paid').map_values('ms')).group_by_key()
    Rows: count=count()
  Store: u (no windows)
    Input: table('users').filter('name IS NOT NULL')
    Input: table('cities')
    Rows: outer_join of tables
  Store: names (no windows)
    Input: table('users')
    Rows: of the table
  Store: newest (no windows)
    Input: stream('web').group_by_key()
    Rows: reduce(functions)
    Steps: filter('amount > 1').map_values('*', more='amount + 1')
"""
    )


def test_it_is_drawn_from_topics_to_stores_and_sinks(topology: Topology) -> None:
    """Each topic is drawn once, each reading is an arrow with its steps, and quotes are escaped."""
    lines = topology.to_mermaid().splitlines()
    assert lines[0] == "flowchart LR"
    assert '    topic0[("orders")]' in lines
    steps = "filter('amount > 1')<br>map_values('*', more='amount + 1')"
    assert f'    store4["newest<br>no windows<br>{steps}"]' in lines
    filtered = "filter('city &lt;> &quot;x&quot;')"
    assert f'    topic0 -->|"{filtered}<br>group_by(city)"| store0' in lines
    assert f'    topic0 -->|"{filtered}"| join0' in lines
    assert '    topic1 -->|"group_by(city)"| store0' in lines
    assert """    join0(["left_join('paid')"])""" in lines
    assert """    topic2 -->|"map_values('ms')"| join0""" in lines
    assert "    join0 --> store1" in lines
    assert {'    sink0_0[("out")]', "    store0 --> sink0_0"} <= set(lines)
    assert len(lines) == len(set(lines)) == 1 + 5 + 5 + 8 + 2 + 2


def test_topics_of_streams_are_described_and_drawn_after_the_stores() -> None:
    """Output topics follow the stores, with their inputs and without a grouping."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", "v INT").filter("v > 1").to("large")
    orders.join(builder.table("users", "city STRING")).merge(
        builder.stream("more", "v INT, city STRING")
    ).to("enriched")
    orders.group_by_key().count().materialize("counted")
    topology = builder.build()
    described = topology.describe()
    assert described.endswith("""\
    Rows: count=count()
  Sink: topic 'large'
    Input: stream('orders').filter('v > 1')
  Sink: topic 'enriched'
    Input: (stream('orders').filter('v > 1')).join(table 'users') of (table('users'))
    Input: stream('more')
""")
    lines = topology.to_mermaid().splitlines()
    assert '    sink0[("large")]' in lines
    assert "    topic0 -->|\"filter('v > 1')\"| sink0" in lines
    assert '    sink1[("enriched")]' in lines
    assert "    topic2 --> sink1" in lines


def test_a_function_is_called_by_its_own_name() -> None:
    """The name of a function does not contain the place of its definition."""
    builder = StreamsBuilder()

    def note(key: object, value: object, timestamp_ms: int) -> None: ...

    builder.stream("a", "v INT").peek(note).to("b")
    topology = builder.build()
    assert "stream('a').peek(note)" in topology.describe()
    assert '-->|"peek(note)"|' in topology.to_mermaid()


def described(define: Callable[[StreamsBuilder], object]) -> str:
    """Return a topology as text and as a drawing."""
    builder = StreamsBuilder()
    define(builder)
    topology = builder.build()
    return topology.describe() + topology.to_mermaid()


def global_lookup(builder: StreamsBuilder) -> None:
    """Join a global table by a key of its own."""
    builder.stream("t", "v INT").join(builder.global_table("g", "w INT"), key="v").to("x")


def versioned_lookup(builder: StreamsBuilder) -> None:
    """Join a versioned table. Records are buffered for it."""
    rates = builder.versioned_table("g", "w INT", 100)
    builder.stream("t", "v INT").join(rates, grace_ms=10).to("x")


def distinct(builder: StreamsBuilder) -> None:
    """Drop duplicates."""
    builder.stream("t", "v INT").distinct("v", within_ms=10).filter("v > 1").to("x")


def late(builder: StreamsBuilder) -> None:
    """Write late records to a topic."""
    windows = TimeWindows.of_size_with_no_grace(5)
    builder.stream("t", "v INT").group_by("v").windowed_by(windows).late_to("x")


def processed(builder: StreamsBuilder) -> None:
    """Process records with a state and timers."""

    def seen(_key: str, _value: object, _context: ProcessContext) -> None: ...

    def left(_key: str, _context: ProcessContext) -> None: ...

    stream = builder.stream("t", "v INT").process(seen, "n INT", state="m INT", on_timer=left)
    stream.filter("n > 1").to("x")


def foreign_key(builder: StreamsBuilder) -> None:
    """Join tables by a foreign key, write the updates to a topic and materialize the rows."""
    named = builder.table("t", "v INT").join(builder.table("g", "w INT"), foreign_key="v")
    named.filter("w > 1").to_stream().to("x")
    named.materialize("kept")


def grouped_rows(builder: StreamsBuilder) -> None:
    """Group the rows of an aggregation again."""
    counted = builder.stream("t", "v INT").group_by("v").count()
    counted.group_by("count").count().materialize("x")


def functions(builder: StreamsBuilder) -> None:
    """Aggregate with functions that are defined inside another function."""
    grouped = builder.stream("t", "v INT").group_by("v")
    grouped.aggregate(lambda: 0, lambda _k, _v, kept: kept + 1, schema="n INT").to_stream().to("x")


@pytest.mark.parametrize(
    ("define", "texts"),
    [
        (global_lookup, ["Input: (stream('t')).join(table 'g', key=v) of (global_table('g'))\n"]),
        (versioned_lookup, ["(stream('t')).join(table 'g', history 100 ms, grace 10 ms) of ("]),
        (
            distinct,
            ["(stream('t')).distinct('v', within_ms=10, grace_ms=10).filter('v > 1')\n"],
        ),
        (
            late,
            [
                "(stream('t').group_by(v)).windowed_by(TimeWindows(size_ms=5, ",
                "advance_ms=5)).late_records()\n",
            ],
        ),
        (
            processed,
            ["process(seen, schema='n INT', state='m INT', on_timer=left).filter('n > 1')\n"],
        ),
        (
            foreign_key,
            [
                "(table('t')).join(table 'g', foreign_key=v).filter('w > 1').to_stream() of (",
                "Input: table('t')\n    Input: table('g') named by foreign_key=v of table('t')\n",
                '(["named by foreign_key=v"])',
            ],
        ),
        (grouped_rows, ["(stream('t').group_by(v)).aggregate(count=count()).group_by(count)\n"]),
        (functions, ["aggregate(initializer <lambda>, aggregator <lambda>, schema n INT)"]),
    ],
)
def test_internal_calls_are_not_described(
    define: Callable[[StreamsBuilder], object], texts: list[str]
) -> None:
    """The text and the drawing have calls as they are written, without internal steps."""
    words = described(define)
    assert [text for text in texts if text not in words] == [], words
    hidden = (
        "lookup_key", "own_key", "\uffff", "subscriptions", "changes()", "buffer", "locals>",
        "NOT NULL", "with_foreign_key",
    )  # fmt: skip
    assert [word for word in hidden if word in words] == [], words


def test_steps_after_a_join_or_an_aggregation_are_drawn() -> None:
    """A join is one node for all steps that follow it. HTML in labels is escaped."""
    builder = StreamsBuilder()
    counted = builder.stream("a", "v INT").group_by_key().count().to_stream()
    counted.filter("count > 3").select_key("count").to("large")
    cities = builder.table("t", "city STRING")
    found = builder.stream("a", "v INT").join(cities)
    found.filter("v <city").group_by("v").count().materialize("s")
    found.map_values("v").to("found")
    cities.group_by("city").count().to_stream().to("cities")
    drawing = builder.build().to_mermaid()
    assert (
        drawing
        == """\
flowchart LR
    topic0[("a")]
    topic1[("t")]
    store0["s<br>no windows"]
    sink0[("large")]
    sink1[("found")]
    sink2[("cities")]
    join0(["join(table 't')"])
    join1(["aggregate(count=count()).to_stream()"])
    join2(["aggregate(count=count()).to_stream()"])
    topic0 --> join0
    topic1 --> join0
    join0 -->|"filter('v &lt;city')<br>group_by(v)"| store0
    topic0 --> join1
    join1 -->|"filter('count > 3')<br>select_key(count)"| sink0
    join0 -->|"map_values('v')"| sink1
    topic1 -->|"group_by(city)"| join2
    join2 --> sink2
"""
    )


_KEPT = "stream('a').filter('v > 1').select_key(v).to_table().filter('v < 9').map_values('v')"
_FOUND = "(stream('a').filter('v > 1').select_key(v)).join(table 't') of (table('t'))"
_COUNTED = (
    "(stream('a').filter('v > 1').select_key(v).group_by_key())"
    ".aggregate(count=count()).to_stream()"
)
_TABLES_OF_STREAMS = (
    _KEPT,
    f"{_FOUND}.to_table().group_by(city)",
    f"{_COUNTED}.select_key(count).to_table().filter('count > 2')",
    "table('t').to_stream().filter(\"city > 'x'\").to_table()",
)


def test_to_table_is_described() -> None:
    """The text and the drawing have `to_table()` at its place between the steps."""
    builder = StreamsBuilder()
    stream = builder.stream("a", "v INT").filter("v > 1").select_key("v")
    stream.to_table().filter("v < 9").map_values("v").materialize("kept")
    found = stream.join(builder.table("t", "city STRING"))
    found.to_table().group_by("city").count().materialize("grouped")
    counted = stream.group_by_key().count().to_stream().select_key("count").to_table()
    counted.filter("count > 2").materialize("counted")
    builder.table("t", "city STRING").to_stream().filter("city > 'x'").to_table().materialize("x")
    topology = builder.build()
    inputs = [line for line in topology.describe().splitlines() if "Input" in line]
    assert inputs == [f"    Input: {text}" for text in _TABLES_OF_STREAMS]
    assert 'join0 -->|"to_table()<br>group_by(city)"| store1' in topology.to_mermaid()
    assert "select_key(count)<br>to_table()<br>filter('count > 2')" in topology.to_mermaid()


def test_calls_that_equal_an_internal_step_are_written() -> None:
    """A call of the user is written, although another call adds a step with the same text."""
    builder = StreamsBuilder()
    stream = builder.stream("a", "v INT")
    has_key = "key IS NOT NULL"
    counted = stream.select_key("v").group_by_key().count().to_stream().filter(has_key).to_table()
    counted.filter(has_key).materialize("counted")
    found = stream.filter("(v) IS NOT NULL").join(builder.global_table("g", "w INT"), key="v")
    found.group_by_key().count().materialize("found")
    inputs = [line for line in builder.build().describe().splitlines() if "Input" in line]
    counts = "(stream('a').select_key(v).group_by_key()).aggregate(count=count())"
    matches = "(stream('a').filter('(v) IS NOT NULL')).join(table 'g', key=v)"
    assert inputs == [
        f"    Input: {counts}.to_stream().filter('{has_key}').to_table().filter('{has_key}')",
        f"    Input: {matches} of (global_table('g')).group_by_key()",
    ]
