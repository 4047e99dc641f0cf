"""The pictures of the concept pages.

The test driver computes the results that they show. Each picture is one SVG file per theme in
docs/pictures/. A test compares the committed files with ``files()``.
"""

from pathlib import Path

from oriel import StreamsBuilder, TimeWindows
from oriel import aggregates as agg
from oriel.testing import Record, TopologyTestDriver
from tools.concepts import joins
from tools.concepts.rows import Bar, Mark, Row, RowPicture, files_of

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"

#: The examples count windows of one minute. Times are seconds after 10:00:00.
_MINUTE, _GRACE = 60, 10
_MINUTES = [(second, f"10:0{second // 60}:{second % 60:02}") for second in range(0, 91, 30)]


def files() -> dict[Path, str]:
    """Return each file with its content."""
    return {PICTURES / name: content for name, content in files_of(pictures()).items()}


def pictures() -> list[RowPicture]:
    """Return every picture of the concept pages."""
    return [
        time(),
        streams_tables_stores(),
        joins.stream_stream(),
        joins.stream_table(),
        joins.table_table(),
        joins.foreign_key(),
        positions(),
        recovery(),
    ]


def _clock(second: int) -> str:
    return f"10:{second // 60:02}:{second % 60:02}"


def time() -> RowPicture:
    """Return the picture of event time, stream time, grace, and late records."""
    records = {
        0: [("a", 20), ("b", 55), ("c", 65), ("d", 40), ("e", 70), ("f", 50)],
        1: [("g", 30), ("h", 75)],
    }
    builder = StreamsBuilder()
    (
        builder.stream("orders", schema="item STRING")
        .group_by_key()
        .windowed_by(TimeWindows.of_size_and_grace(_MINUTE * 1_000, _GRACE * 1_000))
        .count()
        .materialize("orders_per_minute")
    )
    driver = TopologyTestDriver(builder.build())
    # Partition 1 exists before its first record, as a partition of a Kafka topic does.
    driver.pipe_input("orders", [], partition=1)
    rows = [Row("windows", [Bar(0, 60, "10:00 to 10:01"), Bar(60, 90, "10:01 to ...")])]
    for partition, own in records.items():
        stream_time = -1
        for name, second in own:
            late = driver.late
            driver.pipe_input("orders", Record("tea", {"item": name}, second * 1_000), partition)
            stream_time = max(stream_time, second)
            is_used = driver.late == late
            window = driver.window_store("orders_per_minute").fetch("tea", 0)
            state = "late" if not is_used else "counts"
            if window is not None and window.final:
                state += ", first window final"
            rows.append(
                Row(
                    f"partition {partition}, {_clock(second)}",
                    marks=[Mark(second, name, is_used)],
                    line=stream_time - _GRACE,
                    note=state,
                )
            )
    return RowPicture(
        "time",
        "Time",
        "Records of two partitions in the order of reading. The line in each row is the close "
        "time: stream time less the grace of 10 seconds. A record is late if its window ends at "
        "or before this line.",
        0, 90, _MINUTES, rows,
    )  # fmt: skip


def streams_tables_stores() -> RowPicture:
    """Return the picture of one topic as a stream, a table, and two stores."""
    orders = [(5, 2.5), (40, 4.0), (70, 1.0)]
    builder = StreamsBuilder()
    stream = builder.stream("orders", schema="amount DOUBLE").group_by_key()
    builder.table("orders", schema="amount DOUBLE").materialize("newest_order")
    minutes = TimeWindows.of_size_and_grace(_MINUTE * 1_000, 0)
    stream.windowed_by(minutes).aggregate(revenue=agg.sum("amount")).materialize("by_minute")
    stream.aggregate(revenue=agg.sum("amount")).materialize("in_all")
    driver = TopologyTestDriver(builder.build())
    newest: list[Bar] = []
    in_all: list[Bar] = []
    ends = [*(second for second, _ in orders[1:]), 90]
    for (second, amount), end in zip(orders, ends, strict=True):
        driver.pipe_input("orders", Record("oslo", {"amount": amount}, second * 1_000))
        for store, bars in (("newest_order", newest), ("in_all", in_all)):
            (row,) = driver.key_value_store(store).all()
            (value,) = row.value.values()
            bars.append(Bar(second, end, str(value), is_ours=store == "in_all"))
    windows = [
        Bar(one.window_start_ms // 1_000, min(one.window_end_ms // 1_000, 90),
            str(one.value["revenue"]))
        for one in driver.window_store("by_minute").fetch_all(0, 90_000)
    ]  # fmt: skip
    return RowPicture(
        "streams-tables-stores",
        "Streams, tables and stores",
        "Three records of one key as a stream, as a table, as a store of windows and as a store "
        "without windows.",
        0,
        90,
        _MINUTES,
        [
            Row("stream", marks=[Mark(at, str(amount)) for at, amount in orders],
                note="each record is an event"),
            Row("table", newest, note="the newest record is the row"),
            Row("store, 1 min windows", windows, note="one row per key and window"),
            Row("store, no windows", in_all, note="one row per key"),
        ],
    )  # fmt: skip


def positions() -> RowPicture:
    """Return the picture of table versions and the records that they include."""
    return RowPicture(
        "positions",
        "Positions",
        "Two table versions and a request that needs offset 5.",
        0,
        7,
        [(offset, str(offset)) for offset in range(7)],
        [
            Row("orders, partition 0", marks=[Mark(offset, "") for offset in range(7)],
                note="offsets 0 to 6"),
            Row("version 4", [Bar(0, 3, "offsets below 3")], note="503 or wait"),
            Row("version 5", [Bar(0, 6, "offsets below 6")], note="200"),
            Row("min_offset=orders:0:5", [Bar(0, 5, "required", is_ours=False)],
                line=5, note="every record below offset 5"),
        ],
    )  # fmt: skip


def recovery() -> RowPicture:
    """Return the picture of the steps of a batch, and how a start continues after a kill."""
    steps = ["plan", "compute", "prepare", "commit", "clean up", "next"]
    return RowPicture(
        "recovery",
        "Recovery",
        "The steps of a batch, and what the next start does if the process is killed in them.",
        0,
        6,
        [(index + 0.5, step) for index, step in enumerate(steps)],
        [
            Row("files", [Bar(1, 2, "files"), Bar(2, 3, "n.json"),
                          Bar(3, 4, "entry")]),
            Row("killed before prepared", [Bar(0, 2, "computed again", is_ours=False)],
                note="no reader sees the files"),
            Row("killed after prepared", [Bar(2, 4, "only committed", is_ours=False)],
                note="the next start commits it"),
            Row("killed after committed", [Bar(4, 6, "skipped", is_ours=False)],
                note="the table has the batch"),
        ],
    )  # fmt: skip
