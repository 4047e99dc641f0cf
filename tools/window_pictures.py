"""Pictures and tables of windows for docs/concepts/windows.md, as the engines compute them.

The rules are from the rules table, and ``engine_for`` computes the windows of each example. So a
picture cannot show anything that the pipeline does not do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows import (
    FOREVER_MS,
    NEVER_CLOSED_MS,
    NULL_VALUE,
    RULES,
    EmitStrategy,
    Kind,
    StreamTimes,
    Times,
    UserFunctions,
    Windows,
    close_time_ms,
    collect_list,
    engine_for,
)

#: Columns of a picture per ms. A window of one ms needs two, for both brackets.
_SCALE = 2
_LABEL = 12
_TICK_MS = 5
_VALUES = pa.schema([("name", pa.string())])

#: A changed row as an engine returns it.
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Arrival:
    """A record of an example. The picture shows its name.

    Capital names are records of another key.
    """

    name: str
    time_ms: int
    partition: int = 0

    @property
    def key(self) -> str:
        """Return the key of the record."""
        return "other" if self.name.isupper() else "key"

    def __str__(self) -> str:
        """Return the record as the page writes it."""
        return f"{self.name}@{self.time_ms}"


@dataclass
class Outcome:
    """The result of an example: rows written by each batch, late records, the store at the end."""

    written: list[list[Row]] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    store: dict[tuple[str, int, int], Row] = field(default_factory=dict)

    def rows(self, key: str = "key") -> list[Row]:
        """Return the rows of ``key`` in the store, by start."""
        return [self.store[window] for window in sorted(self.store) if window[0] == key]


def arrivals(text: str) -> list[Arrival]:
    """Read records as ``a@2 b@12/1``, where ``/1`` means partition 1."""
    records = []
    for word in text.split():
        name, _, position = word.partition("@")
        time, _, partition = position.partition("/")
        records.append(Arrival(name, int(time), int(partition or 0)))
    return records


def computed(
    windows: Windows,
    batches: Sequence[Sequence[Arrival]],
    emit: EmitStrategy | None = None,
    functions: UserFunctions | None = None,
) -> Outcome:
    """Run the engine of ``windows`` over the batches, as the pipeline does.

    The column ``names`` of a window has the names of its records, or the result of ``functions``.
    """
    aggregates = functions or {"names": collect_list("name")}
    engine = engine_for(windows, aggregates, _VALUES, emit=emit)
    clock = StreamTimes({record.partition: -1 for batch in batches for record in batch})
    state, close, offset = engine.empty_state(), NEVER_CLOSED_MS, 0
    outcome = Outcome()
    for batch in batches:
        table = _stamped(batch, clock, windows.close_delay_ms, offset)
        offset += len(batch)
        refused = engine.is_late(np.asarray(table["timestamp_ms"]), np.asarray(table["close_ms"]))
        accepted = table.filter(pa.array(~refused)).select(engine.record_schema.names)
        before, close = close, close_time_ms(clock.stream_time_ms, windows.close_delay_ms)
        result = engine.apply(state, accepted, Times.closing(before, close))
        state = result.state
        _follow(outcome, result.changes.to_pylist())
        # Only a session's engine finds records late itself, and can't say which of several.
        outcome.late += [
            record.name for record, late in zip(batch, refused, strict=True) if late or result.late
        ]
    return outcome


def _stamped(batch: Sequence[Arrival], clock: StreamTimes, delay_ms: int, offset: int) -> pa.Table:
    partition = np.array([record.partition for record in batch], dtype=np.int32)
    time = np.array([record.time_ms for record in batch], dtype=np.int64)
    return pa.table({
        "key": [record.key for record in batch],
        "timestamp_ms": time,
        "partition": partition,
        "offset": np.arange(offset, offset + len(batch)),
        "close_ms": clock.advance(partition, time) - delay_ms,
        "name": [record.name for record in batch],
        # Functions need the input: each partition is one.
        "input": pa.array(partition, pa.int8()),
        NULL_VALUE.name: pa.array([False] * len(batch)),
    })  # fmt: skip


def _follow(outcome: Outcome, changes: list[Row]) -> None:
    outcome.written.append(changes)
    for row in changes:
        window = (row["key"], row["window_start_ms"], row["window_end_ms"])
        if row["deleted"]:
            outcome.store.pop(window, None)
        else:
            outcome.store[window] = row


def one_by_one(records: Sequence[Arrival]) -> list[list[Arrival]]:
    """Return one batch per record."""
    return [[record] for record in records]


def _bounds(kind: Kind, row: Row) -> str:
    start, end = int(row["window_start_ms"]), int(row["window_end_ms"])
    if end == FOREVER_MS:
        return "all"
    return f"[{start},{end}{_bracket(kind)}"


def _bracket(kind: Kind) -> str:
    return "]" if RULES[kind].end_is_inclusive else ")"


def _described(kind: Kind, row: Row) -> str:
    """Return a row in words: its window, its records, and final, open or removed."""
    if row["deleted"]:
        return f"{_bounds(kind, row)} removed"
    ends = "final" if row["final"] else "open"
    return f"{_bounds(kind, row)} {' '.join(row['names'])} {ends}"


def _bar(kind: Kind, row: Row, until_ms: int) -> str:
    """Return a window from its start to its last ms. One ms is ``_SCALE`` columns."""
    start, end = int(row["window_start_ms"]), int(row["window_end_ms"])
    indent = " " * (start * _SCALE)
    if end == FOREVER_MS:
        return indent + "[" + "-" * ((until_ms - start) * _SCALE - 2) + ">"
    last = int(RULES[kind].last_ms(np.array([end]))[0])
    inside = "-" * ((last - start + 1) * _SCALE - 2)
    return indent + (f"<{inside}>" if row["deleted"] else f"[{inside}{_bracket(kind)}")


def _axis(until_ms: int) -> list[str]:
    numbers = "".join(
        str(time).ljust(_TICK_MS * _SCALE) for time in range(0, until_ms + 1, _TICK_MS)
    )
    tick = "|" + "." * (_TICK_MS * _SCALE - 1)
    ticks = (tick * (until_ms // _TICK_MS + 1))[: until_ms * _SCALE]
    return [f"{'time':<{_LABEL}}{numbers}".rstrip(), f"{'':<{_LABEL}}{ticks}"]


def _marks(label: str, records: Sequence[Arrival]) -> str:
    """Return the names of records at their times."""
    line = [" "] * (max(record.time_ms for record in records) * _SCALE + 1)
    for record in records:
        line[record.time_ms * _SCALE] = record.name
    return f"{label:<{_LABEL}}{''.join(line)}"


def _line(label: str, bar: str, until_ms: int, description: str) -> str:
    return f"{label:<{_LABEL}}{bar:<{until_ms * _SCALE}} {description}".rstrip()


def _fenced(lines: Sequence[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def picture(windows: Windows, text: str, until_ms: int) -> str:
    """Draw the records of an example on a time axis, and below them each window of their key."""
    records = arrivals(text)
    outcome = computed(windows, one_by_one(records))
    lines = [*_axis(until_ms), _marks("records", records)]
    lines += [
        _line("", _bar(windows.kind, row, until_ms), until_ms, _described(windows.kind, row))
        for row in outcome.rows()
    ]
    late = [record for record in records if record.name in outcome.late]
    if late:
        lines.append(_marks("late", late))
    return _fenced(lines)


def newest_picture(windows: Windows, text: str, until_ms: int) -> str:
    """Draw the records of an example, and the windows that ``latest`` and ``current`` return.

    No record of the example is late.
    """
    records = arrivals(text)
    rows = computed(windows, one_by_one(records)).rows()
    newest_ms = max(record.time_ms for record in records)
    ends = np.array([row["window_end_ms"] for row in rows])
    holding = np.flatnonzero(RULES[windows.kind].last_ms(ends) >= newest_ms)
    answers = {"latest": rows[-1], "current": rows[holding[0]]}
    lines = [*_axis(until_ms), _marks("records", records)]
    lines += [
        _line(read, _bar(windows.kind, row, until_ms), until_ms, _described(windows.kind, row))
        for read, row in answers.items()
    ]
    return _fenced(lines)


def steps(windows: Windows, text: str, until_ms: int) -> str:
    """Draw the rows that each record of an example writes, with one batch per record."""
    records = arrivals(text)
    outcome = computed(windows, one_by_one(records))
    lines = _axis(until_ms)
    for number, (record, rows) in enumerate(zip(records, outcome.written, strict=True)):
        lines.append(_marks(f"batch {number}", [record]))
        lines += [
            _line("", _bar(windows.kind, row, until_ms), until_ms, _described(windows.kind, row))
            for row in sorted(rows, key=lambda row: not row["deleted"])
        ]
        if record.name in outcome.late:
            lines.append(_line("", "", until_ms, f"{record.name} is late"))
    return _fenced(lines)


def compared(
    windows: Windows, text: str, until_ms: int, oriel: Sequence[str], kafka: Sequence[str]
) -> str:
    """Draw the records of an example, and below them the windows of Oriel and of Kafka Streams.

    Windows are written as ``rows_text`` writes them: "[0,10) a b".
    """
    records = arrivals(text)
    lines = [*_axis(until_ms), _marks("records", records)]
    for label, described in (("Oriel", oriel), ("Kafka", kafka)):
        for number, row in enumerate(described):
            start_ms, end_ms = map(int, row[1:].replace("]", ")").split(")")[0].split(","))
            bounds = {"window_start_ms": start_ms, "window_end_ms": end_ms, "deleted": False}
            bar = _bar(windows.kind, bounds, until_ms)
            lines.append(_line("" if number else label, bar, until_ms, row))
    return _fenced(lines)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of a page."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def rules_table() -> str:
    """Return the rules of all kinds as a table."""
    return table(
        ("kind", "a window starts", "contains a record at t", "closes when", "null value"),
        [
            (
                rule.kind,
                rule.starts,
                f"`{rule.holds}`" if "<=" in rule.holds and "," not in rule.holds else rule.holds,
                f"`{rule.closes}`" if "<" in rule.closes else rule.closes,
                "counts" if rule.takes_null_values else "dead letter",
            )
            for rule in RULES.values()
        ],
    )


def emit_table(windows: Windows, batches: Sequence[str]) -> str:
    """Return a table of the rows that both emit strategies write in each batch."""
    records = [arrivals(text) for text in batches]
    update, close = (
        computed(windows, records, emit).written
        for emit in (EmitStrategy.on_window_update(), EmitStrategy.on_window_close())
    )
    return table(
        ("batch", "records", "on update", "on close"),
        [
            (str(n), text, *(rows_text(windows.kind, written[n]) for written in (update, close)))
            for n, text in enumerate(batches)
        ],
    )


def rows_text(kind: Kind, rows: Sequence[Row]) -> str:
    """Return rows in words, or "nothing"."""
    return ", ".join(_described(kind, row) for row in rows) or "nothing"


def timestamps_table(times_ms: Sequence[int], kinds: Mapping[str, Windows]) -> str:
    """Return a table of the timestamps of rows after each record, for each of ``kinds``."""
    records = [Arrival(chr(ord("a") + n), time) for n, time in enumerate(times_ms)]
    rows = []
    for name, windows in kinds.items():
        batches = zip(computed(windows, one_by_one(records)).written, records, strict=True)
        rows.append([name, *(_time_of(written, record) for written, record in batches)])
    return table(["record at", *(str(time) for time in times_ms)], rows)


def _time_of(written: Sequence[Row], record: Arrival) -> str:
    """Return the timestamp of the row that contains the record."""
    rows = [row for row in written if not row["deleted"] and record.name in row["names"]]
    return ", ".join(str(row["timestamp_ms"]) for row in rows)


def cuts_table(windows: Windows, cuts: Mapping[str, Sequence[str]]) -> str:
    """Return a table of the rows at the end, for several ways to divide a log into batches."""
    rows = []
    for name, batches in cuts.items():
        outcome = computed(windows, [arrivals(text) for text in batches])
        rows.append((name, ", then ".join(batches), rows_text(windows.kind, outcome.rows())))
    return table(("order", "batches", "rows at the end"), rows)
