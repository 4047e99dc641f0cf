"""The workloads of all systems: kinds of windows, and the records of a topic."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

KEYS = 1_000
PARTITIONS = 2
STORE = "peer"

#: The systems that are compared, and their titles in tables.
ORIEL, EVENT_LOG, PEER = "oriel", "oriel_event_log", "kafka_streams"
TITLES = {ORIEL: "Oriel", EVENT_LOG: "Oriel, event log", PEER: "Kafka Streams"}

#: Records of a run. A steady run has fewer if its system then still needs the seconds.
CHECK_RECORDS, COLD_RECORDS, STEADY_RECORDS = 100_000, 1_000_000, 20_000_000
STEADY_SECONDS = 60.0

_GRACE_MS = 30_000
_START_MS = 1_600_000_000_000
BLOCK = 100_000


@dataclass(frozen=True)
class Kind:
    """Windows in the words of both systems. All sizes are milliseconds.

    ``windows`` is Oriel's expression, ``peer_kind`` the program's word for the same windows.
    ``functions``: Oriel calls functions of the user, as Kafka Streams always does.
    ``peer_steady_records``: records of a steady run of Kafka Streams. Sliding windows need more
    than 60 s for fewer records than other windows.
    """

    title: str
    windows: str
    peer_kind: str
    advance_ms: int = 0
    functions: bool = False
    dense: bool = False
    length_ms: int = 10_000
    peer_steady_records: int = STEADY_RECORDS

    @property
    def peer_compared_records(self) -> int:
        """Records up to which the store of Kafka Streams still has all windows at the end.

        It deletes windows that cannot change any more (decision 0027).
        """
        return CHECK_RECORDS if self.peer_kind == "sliding" else COLD_RECORDS

    @property
    def peer_words(self) -> list[str]:
        """The windows as arguments of the Kafka Streams program."""
        return [self.peer_kind, *map(str, (self.length_ms, self.advance_ms, _GRACE_MS))]

    def topology(self, topic: str, store: str = STORE) -> str:
        """The topology's file: count and sum of ``v``."""
        return topology({store: self}, topic)


_SLIDING = f"SlidingWindows.of_time_difference_and_grace(10_000, {_GRACE_MS})"
_TUMBLING = f"TimeWindows.of_size_and_grace(10_000, {_GRACE_MS})"
_SESSIONS = f"SessionWindows.of_inactivity_gap_and_grace(10_000, {_GRACE_MS})"

KINDS = {
    "sliding": Kind("sliding 10 s", _SLIDING, "sliding", peer_steady_records=3_000_000),
    "dense": Kind(
        "sliding 10 s, dense", _SLIDING, "sliding", dense=True, peer_steady_records=600_000
    ),
    "tumbling": Kind("tumbling 10 s", _TUMBLING, "tumbling"),
    "hopping": Kind("hopping 10 s by 2 s", f"{_TUMBLING}.advance_by(2_000)", "hopping", 2_000),
    "sessions": Kind("sessions, gap 10 s", _SESSIONS, "session"),
    "functions": Kind("functions, tumbling 10 s", _TUMBLING, "tumbling", functions=True),
}

_TOPOLOGY = '''"""Readings in windows."""

from oriel import SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows, count, sum


def nothing():
    return {"n": 0, "s": 0.0}


def add(_key, reading, found):
    return {"n": found["n"] + 1, "s": found["s"] + reading["v"]}


def merge(_key, left, right):
    return {"n": left["n"] + right["n"], "s": left["s"] + right["s"]}


builder = StreamsBuilder()
'''
_FUNCTIONS = 'nothing, add, merge, "n BIGINT, s DOUBLE"'
_COLUMNS = 'n=count(), s=sum("v")'


def topology(stores: dict[str, Kind], topic: str) -> str:
    """Return the file of a topology that reads ``topic`` into some stores."""
    lines = [
        f'builder.stream("{topic}", schema="v DOUBLE").group_by_key().windowed_by({kind.windows})'
        f'.aggregate({_FUNCTIONS if kind.functions else _COLUMNS}).materialize("{store}")\n'
        for store, kind in stores.items()
    ]
    return f"{_TOPOLOGY}{''.join(lines)}topology = builder.build()\n"


class Block(NamedTuple):
    """Some records in the order of their offsets: id of the key, time, value."""

    keys: npt.NDArray[np.int64]
    times_ms: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


@dataclass(frozen=True)
class DataSet:
    """A topic with one record per key and second, or with ten (``dense``).

    A record is late by up to ``disorder_s`` seconds, evenly distributed. This is within the
    grace, so both systems accept every record and compute the same windows.
    """

    dense: bool
    disorder_s: int
    records: int

    @property
    def topic(self) -> str:
        """The topic's name."""
        # No name is a prefix of another name.
        return f"{'dense' if self.dense else 'even'}-{self.disorder_s}s-{self.records}-records"

    def blocks(self) -> Iterator[Block]:
        """Yield all records, always the same ones."""
        random = np.random.default_rng(9)
        for start in range(0, self.records, BLOCK):
            place = np.arange(start, min(start + BLOCK, self.records))
            late_ms = random.integers(0, 1_000 * self.disorder_s, len(place), endpoint=True)
            times_ms = _START_MS + place // (10 if self.dense else 1) - late_ms
            # Sums of halves are exact in any order.
            yield Block(place % KEYS, times_ms, place.astype(np.float64) * 0.5)
