"""Cut the logs of two inputs into batches, for tests of joins."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from tests.models.joins import Arrived, Logs, Record, arrivals

#: The logs of the left and of the right input.
Sides = tuple[Logs, Logs]
#: One batch: the number of records of each (side, partition).
Cut = dict[tuple[int, int], int]


@dataclass(frozen=True)
class Batch:
    """One batch: the logs of each input up to its end, and its new records."""

    so_far: Any
    new: tuple[list[Arrived], ...]


def random_logs(random: Random, name: str, deletions: float) -> Logs:
    """Return logs for rare branches: few keys, small times, disorder, some partitions."""
    return {p: _log(random, f"{name}{p}", deletions) for p in range(random.choice((1, 1, 2, 3)))}


def _log(random: Random, name: str, deletions: float) -> list[Record]:
    keys = ["a", "b", "ä/ \0"][: random.randint(1, 3)]
    drift = random.choice((0.0, 0.5, 2.0))
    spread = random.choice((0, 2, 8, 20))
    start = random.choice((0, 0, 5, 30))
    log: list[Record] = []
    for i in range(random.choice((0, 1, 4, 10, 20))):
        time = max(0, round(start + drift * i + random.randint(-spread, spread)))
        if random.random() < 0.03:
            time += 60
        value = None if random.random() < deletions else f"{name}.{i}"
        log.append((random.choice(keys), time, value))
    return log


def random_cuts(sides: Sequence[Logs], random: Random) -> list[Cut]:
    """Return random batches: any interleaving of sides and partitions, also empty batches."""
    left = _lengths(sides)
    cuts: list[Cut] = []
    while any(left.values()):
        most = random.choice((1, 3, 10))
        cut = {place: random.randint(0, min(most, n)) for place, n in left.items()}
        for place, n in cut.items():
            left[place] -= n
        cuts.append(cut)
    return cuts


def whole(sides: Sequence[Logs]) -> list[Cut]:
    """Return one batch with all records."""
    return [_lengths(sides)]


def _lengths(sides: Sequence[Logs]) -> Cut:
    return {(side, p): len(log) for side, logs in enumerate(sides) for p, log in logs.items()}


def batches(sides: Sequence[Logs], cuts: Sequence[Cut]) -> Iterator[Batch]:
    """Yield the batches of the logs."""
    position = dict.fromkeys(_lengths(sides), 0)
    for cut in cuts:
        before = dict(position)
        for place, taken in cut.items():
            position[place] += taken
        numbers = range(len(sides))
        so_far = tuple(_prefix(sides, position, side) for side in numbers)
        yield Batch(so_far, tuple(_new(so_far, before, side) for side in numbers))
    whole = {(side, partition): len(sides[side][partition]) for side, partition in position}
    assert position == whole, "the batches must contain all records of the logs"


def _prefix(sides: Sequence[Logs], position: Cut, side: int) -> Logs:
    return {p: log[: position[side, p]] for p, log in sides[side].items()}


def _new(so_far: Sequence[Logs], before: Cut, side: int) -> list[Arrived]:
    return [r for r in arrivals(so_far[side]) if r.offset >= before[side, r.partition]]


def to_table(schema: pa.Schema, records: Sequence[Arrived], column: str, **more: Any) -> pa.Table:
    """Return records as a batch with their values in ``column``, and only columns of ``schema``."""
    rows = [
        {
            "key": record.key,
            "timestamp_ms": record.time,
            "partition": record.partition,
            "offset": record.offset,
            "stream_time_ms": record.stream_time,
            "null_value": record.value is None,
            "key_group": len(record.key),
            column: record.value,
            **more,
        }
        for record in records
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def stream_times_of(logs: Logs, so_far: Logs) -> tuple[int, ...]:
    """Return the stream time of each partition: -1 before its first record."""
    return tuple(max((time for _, time, _ in so_far[p]), default=-1) for p in sorted(logs))


def saved_and_loaded(state: pa.Table) -> pa.Table:
    """Write the state as an Arrow file and read it."""
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, state.schema) as writer:
        writer.write_table(state)
    return pa.ipc.open_file(sink.getvalue()).read_all()
