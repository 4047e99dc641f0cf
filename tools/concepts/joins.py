"""The pictures of docs/concepts/joins.md, with the results that the test driver computes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from oriel import JoinWindows, StreamsBuilder
from oriel.testing import Record, TopologyTestDriver
from tools.concepts.rows import Bar, Mark, Row, RowPicture

#: A picture shows 40 seconds from 10:00:00 on. All its times are seconds on this axis.
SECONDS = 40
TICKS = [(second, f"10:00:{second:02}") for second in range(0, SECONDS, 10)]

Value = Mapping[str, Any] | None


class Arrival(NamedTuple):
    """A record of an example: its topic, its key, its value and its second."""

    topic: str
    key: str
    value: Value
    second: int


class Result(NamedTuple):
    """A record that a join wrote: its key, its value and its second."""

    key: str
    value: Value
    second: float


def results(builder: StreamsBuilder, arrivals: Sequence[Arrival], topic: str) -> list[Result]:
    """Return the records of an output topic after the records arrived one by one."""
    driver = TopologyTestDriver(builder.build())
    output = driver.create_output_topic(topic)
    for one in arrivals:
        value = None if one.value is None else dict(one.value)
        driver.pipe_input(one.topic, Record(one.key, value, one.second * 1_000))
    return [
        Result(str(record.key), record.value, record.timestamp_ms / 1_000)
        for record in output.read_records()
    ]


def _text(value: Value) -> str:
    """Return the values of a row, without nulls."""
    return " ".join(str(one) for one in (value or {}).values() if one is not None)


def _versions(key: str, changes: Sequence[Arrival | Result], *, is_ours: bool = True) -> list[Bar]:
    """Return a bar for each row that a key had, from its second to the next change."""
    own = [change for change in changes if change.key == key]
    ends = [*(change.second for change in own[1:]), SECONDS]
    return [
        Bar(change.second, end, _text(change.value), is_ours)
        for change, end in zip(own, ends, strict=True)
        if change.value is not None
    ]


def _of(topic: str, arrivals: Sequence[Arrival]) -> list[Arrival]:
    return [one for one in arrivals if one.topic == topic]


def _marks(records: Sequence[Arrival | Result]) -> list[Mark]:
    return [Mark(one.second, _text(one.value)) for one in records]


def _picture(name: str, title: str, description: str, rows: Sequence[Row]) -> RowPicture:
    return RowPicture(name, title, description, 0, SECONDS, TICKS, rows)


def stream_stream() -> RowPicture:
    """Return the picture of a left join of views with the clicks of the next 10 seconds."""
    arrivals = [
        Arrival("views", "ada", {"view": "v1"}, 0),
        Arrival("clicks", "ada", {"click": "c1"}, 6),
        Arrival("views", "ada", {"view": "v2"}, 20),
        Arrival("clicks", "ada", {"click": "c2"}, 35),
    ]
    builder = StreamsBuilder()
    views = builder.stream("views", schema="view STRING")
    clicks = builder.stream("clicks", schema="click STRING")
    within = JoinWindows.of_time_difference_and_grace(10_000, 0).before(0)
    views.left_join(clicks, within).to("pairs")
    ranges = [Bar(one.second, one.second + 10, is_ours=False) for one in _of("views", arrivals)]
    return _picture(
        "stream-stream-join",
        "Stream with stream",
        "A view joins each click of the next 10 seconds. A view without a click is emitted alone.",
        [
            Row("views", ranges, _marks(_of("views", arrivals)), note="bar: where a click matches"),
            Row("clicks", marks=_marks(_of("clicks", arrivals))),
            Row("results", marks=_marks(results(builder, arrivals, "pairs"))),
        ],
    )


def stream_table() -> RowPicture:
    """Return the picture of orders that join a plain table and a versioned table."""
    arrivals = [
        Arrival("prices", "tea", {"price": 3}, 0),
        Arrival("orders", "tea", {"item": "a"}, 10),
        Arrival("prices", "tea", {"price": 5}, 20),
        Arrival("orders", "tea", {"item": "b"}, 30),
        Arrival("orders", "tea", {"item": "c"}, 15),
    ]
    outputs = {}
    for kind in ("plain table", "versioned table"):
        builder = StreamsBuilder()
        orders = builder.stream("orders", schema="item STRING")
        prices = (
            builder.table("prices", schema="price INT")
            if kind == "plain table"
            else builder.versioned_table("prices", schema="price INT", history_retention_ms=60_000)
        )
        orders.join(prices).to("sold")
        outputs[kind] = results(builder, arrivals, "sold")
    return _picture(
        "stream-table-join",
        "Stream with table",
        "Each order finds a row of the table. A plain table has its newest row, a versioned "
        "table the row as of the time of the order.",
        [
            Row("prices", _versions("tea", arrivals[:1] + arrivals[2:3], is_ours=False)),
            Row("orders", marks=_marks(_of("orders", arrivals)), note="c arrives last"),
            *(Row(kind, marks=_marks(sorted(found, key=lambda one: one.second)))
              for kind, found in outputs.items()),
        ],
    )  # fmt: skip


def table_table() -> RowPicture:
    """Return the picture of prices that join the stock of the same key."""
    arrivals = [
        Arrival("prices", "tea", {"price": 3}, 0),
        Arrival("stock", "tea", {"pieces": 7}, 10),
        Arrival("prices", "tea", {"price": 5}, 20),
        Arrival("stock", "tea", None, 30),
    ]
    builder = StreamsBuilder()
    prices = builder.table("prices", schema="price INT")
    stock = builder.table("stock", schema="pieces INT")
    prices.join(stock).to_stream().to("offers")
    found = results(builder, arrivals, "offers")
    return _picture(
        "table-table-join",
        "Table with table",
        "A joined row exists while both tables have a row of the key.",
        [
            Row("prices", _versions("tea", _of("prices", arrivals), is_ours=False)),
            Row("stock", _versions("tea", _of("stock", arrivals), is_ours=False)),
            Row("joined table", _versions("tea", found), note="a tombstone deletes the row"),
        ],
    )


def foreign_key() -> RowPicture:
    """Return the picture of purchases that join the customer that they name."""
    arrivals = [
        Arrival("purchases", "1", {"customer": "ada"}, 0),
        Arrival("customers", "ada", {"city": "london"}, 5),
        Arrival("purchases", "2", {"customer": "ada"}, 12),
        Arrival("customers", "ada", {"city": "paris"}, 24),
    ]
    builder = StreamsBuilder()
    purchases = builder.table("purchases", schema="customer STRING")
    customers = builder.table("customers", schema="city STRING")
    purchases.join(customers, foreign_key="customer").to_stream().to("named")
    found = results(builder, arrivals, "named")
    left = _of("purchases", arrivals)
    return _picture(
        "foreign-key-join",
        "Foreign-key join",
        "Each purchase joins the customer that it names. A change of the customer changes the "
        "joined row of each purchase that names it.",
        [
            Row("purchase 1", _versions("1", left, is_ours=False)),
            Row("purchase 2", _versions("2", left, is_ours=False)),
            Row("customer ada", _versions("ada", _of("customers", arrivals), is_ours=False)),
            Row("joined row 1", _versions("1", found)),
            Row("joined row 2", _versions("2", found)),
        ],
    )
