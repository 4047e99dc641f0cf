"""Units, the (key, partition) pairs, and their sessions between tables and objects."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Ints, heads
from oriel.pipeline.windows.engines.sessions.session_machine import Arrival, OpenSession
from oriel.pipeline.windows.records import arrival_keys

#: Columns of a partition session beside its key and what its aggregates keep.
SESSION_FIELDS = (
    pa.field("partition", pa.int32()),
    pa.field("window_start_ms", pa.int64()),
    pa.field("window_end_ms", pa.int64()),
    pa.field("reach_ms", pa.int64()),
)


@dataclass(frozen=True)
class Units:
    """The (key, partition) pairs that occur: key code and partition of each unit's number."""

    code: Ints
    partition: Ints


def units_of(codes: list[Ints], state: pa.Table, batch: pa.Table) -> tuple[Ints, Ints, Units]:
    """Number the (key, partition) pairs of state and batch."""
    code = np.concatenate(codes)
    partition = np.concatenate([np.asarray(state["partition"]), np.asarray(batch["partition"])])
    distinct, place = np.unique(partition, return_inverse=True)
    pair = code * max(len(distinct), 1) + place
    units, number = np.unique(pair, return_inverse=True)
    known = Units(units // max(len(distinct), 1), distinct[units % max(len(distinct), 1)])
    return number[: len(state)], number[len(state) :], known


def open_sessions(near: pa.Table, unit: Ints, rows: Ints) -> dict[int, list[OpenSession]]:
    """The chosen state rows as sessions of their units."""
    found: dict[int, list[OpenSession]] = {}
    names = ("window_start_ms", "window_end_ms", "reach_ms")
    columns = (np.asarray(near[name])[rows].tolist() for name in names)
    for number, row, start, end, reach in zip(
        unit[rows].tolist(), rows.tolist(), *columns, strict=True
    ):
        found.setdefault(number, []).append(OpenSession(start, end, reach, [row]))
    return found


def arrivals_by_unit(
    batch: pa.Table, unit: Ints, rows: Ints
) -> Iterator[tuple[int, Iterator[Arrival]]]:
    """The chosen records of each unit in offset order."""
    rows = rows[np.lexsort((*(key[rows] for key in arrival_keys(batch)), unit[rows]))]
    time, close = np.asarray(batch["timestamp_ms"]), np.asarray(batch["close_ms"])
    begin = np.flatnonzero(heads(unit[rows]))
    for part in np.split(rows, begin[1:]) if len(rows) else []:
        numbers = (part.tolist(), time[part].tolist(), close[part].tolist())
        yield int(unit[part[0]]), (Arrival(*n) for n in zip(*numbers, strict=True))


def session_table(made: list[tuple[int, OpenSession]]) -> pa.Table:
    """Sessions of the machine, with the number of their unit, as a ``bounds_table``."""
    unit, start, end, reach = (
        np.array(numbers, dtype=np.int64)
        for numbers in (
            [unit for unit, _ in made],
            [session.start for _, session in made],
            [session.end for _, session in made],
            [session.reach for _, session in made],
        )
    )
    return bounds_table(unit, start, end, reach)


def bounds_table(unit: Ints, start: Ints, end: Ints, reach: Ints) -> pa.Table:
    """Sessions as a table: the number of their unit, bounds, how they reach down."""
    names = ("unit", "window_start_ms", "window_end_ms", "reach_ms")
    return pa.table(dict(zip(names, (unit, start, end, reach), strict=True)))
