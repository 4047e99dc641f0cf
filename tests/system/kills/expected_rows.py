"""The expected content of kinds_topology.py's stores, from the slow models.

Rows have the form of the API's responses, so all kinds share one JSON.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.e2e.event_logs import Line
from tests.models import sliding
from tests.models.sessions import aggregated_sessions, expected_sessions
from tests.models.tables import Functions, Outcome, Place, Record, table_rows
from tests.models.time_windows import Hopping, expected_windows
from tests.system.kills.kinds_topology import (
    ADVANCE_MS,
    FRONT,
    GAP_MS,
    GRACE_MS,
    LAYER_MS,
    LAYERS,
    LENGTH_MS,
    PEAKS,
    RISES,
    SKIPPED,
    STRATEGIES,
    TEXTS,
    TOTALS,
    WINDOWS,
    begun,
    concatenated,
    merged,
)

Lines = Mapping[int, Sequence[Line]]
#: A row or window as the API returns it.
Json = dict[str, Any]
#: Partition, offset, store (None: invalid for all), reason, raw bytes.
Letter = tuple[int, int, str | None, str, bytes]

STORES = (
    *(f"{kind}_{emit}" for kind in WINDOWS for emit in STRATEGIES), LAYERS, TOTALS, RISES, PEAKS,
    TEXTS,
)  # fmt: skip
_TAKE_NO_NULLS = ("sliding", "none")


@dataclass(frozen=True)
class Expected:
    """The expected content of one store.

    Attributes:
        name: The name of the store.
        kind: The kind of its windows, or ``none``.
        rows: The rows by key, start and end. Without windows, start and end are 0.
        counters: The counters.
        dead_letters: The dead letters of only this store.
    """

    name: str
    kind: str
    rows: dict[Place, Json]
    counters: dict[str, int]
    dead_letters: set[Letter]

    @property
    def is_windowed(self) -> bool:
        """Return whether the rows are of windows."""
        return self.kind != "none"

    @property
    def has_final_only(self) -> bool:
        """Return whether rows are written when their window closes."""
        return self.name.endswith("_close")

    def of_key(self, key: str) -> list[Json]:
        """Return the rows of a key, sorted by start, then by end."""
        return [self.rows[place] for place in sorted(self.rows) if place[0] == key]


@dataclass(frozen=True)
class _Model:
    """A slow model's rows, its late count, and the records on which a function raised."""

    rows: dict[Place, Json]
    late: int
    raised: set[tuple[int, int]]


def kind_of(store: str) -> str:
    """Return the kind of a store, by its name."""
    kinds = dict.fromkeys((TOTALS, RISES, PEAKS), "none") | {TEXTS: "session", LAYERS: "tumbling"}
    return kinds.get(store) or store.partition("_")[0]


def expected_stores(lines: Lines, *, grace_ms: int = GRACE_MS) -> dict[str, Expected]:
    """Return the expected content of every store.

    A wrong ``grace_ms`` shows that the checks detect differences.
    """
    return {store: _expected(store, lines, grace_ms) for store in STORES}


def bad_for_all(lines: Lines) -> set[Letter]:
    """Return the dead letters of records that are invalid for all stores."""
    return {
        (p, line.offset, None, line.reason, line.raw)
        for p, log in lines.items()
        for line in log
        if line.reason is not None and line.reason != "null-key"
    }


def _expected(store: str, lines: Lines, grace_ms: int) -> Expected:
    kind = kind_of(store)
    if store == LAYERS:
        return _layers(_expected(FRONT, lines, grace_ms))
    reasons = {p: [_reason(store, line) for line in log] for p, log in lines.items()}
    taken = {
        p: [line for line, reason in zip(log, reasons[p], strict=True) if reason is None]
        for p, log in lines.items()
    }
    logs = {p: [line.record for line in log if line.record] for p, log in taken.items()}
    model = _model(store, logs, grace_ms)
    dead_letters: set[Letter] = {
        (p, line.offset, store, reason, line.raw)
        for p, log in lines.items()
        for line, reason in zip(log, reasons[p], strict=True)
        if reason in {"null-key", "null-value"}
    }
    raised = [(p, taken[p][place]) for p, place in model.raised]
    dead_letters |= {(p, line.offset, store, "function-raised", line.raw) for p, line in raised}
    everything = [reason for of_store in reasons.values() for reason in of_store]
    filtered = everything.count("filtered")
    dead = sum(reason is not None for reason in everything) - filtered
    counters = {
        "input": len(everything),
        "applied": everything.count(None) - model.late - len(raised),
        "late": model.late,
        "dead_lettered": dead + len(raised),
        "filtered": filtered,
    }
    rows = model.rows
    if store.endswith("_close"):
        rows = {place: row for place, row in rows.items() if row["final"]}
    return Expected(store, kind, rows, counters, dead_letters)


def _layers(front: Expected) -> Expected:
    """Return windows over another store's rows: one partition in the order of their ends."""
    in_order = sorted(front.rows, key=lambda place: (place[2], place[0].encode()))
    rows = [front.rows[place] for place in in_order]
    records = [(row["key"], row["timestamp_ms"], {"v": row["total"]}) for row in rows]
    model = _windows(expected_windows({0: records}, Hopping(LAYER_MS, LAYER_MS, 0)))
    counters = {
        "input": len(rows), "applied": len(rows) - model.late, "late": model.late,
        "dead_lettered": 0, "filtered": 0,
    }  # fmt: skip
    return Expected(LAYERS, "tumbling", model.rows, counters, set())


def _reason(store: str, line: Line) -> str | None:
    """Return why a store skips a line's record, or None if it does not."""
    if line.record is None:
        return line.reason
    value = line.record[2]
    if store == TEXTS and value is not None and value["word"] == SKIPPED:
        return "filtered"
    # The store reads the updates of sessions, which include records with a null value.
    takes_nulls = store == PEAKS or kind_of(store) not in _TAKE_NO_NULLS
    return "null-value" if value is None and not takes_nulls else None


def _model(store: str, logs: dict[int, list[Record]], grace_ms: int) -> _Model:
    if store == TEXTS:
        return _texts(logs, grace_ms)
    if store == PEAKS:
        return _peaks(expected_sessions(logs, GAP_MS, grace_ms))
    kind = kind_of(store)
    if kind == "none":
        outcome = table_rows(logs)
        if store == RISES:
            rises = (
                (key, len(w.members), w.timestamp) for (key, _, _), w in outcome.windows.items()
            )
            return _Model({(key, 0, 0): _rise(key, n, time) for key, n, time in rises}, 0, set())
        rows = {(key, 0, 0): _row(key, w.values("v"), len(w.members), w.timestamp)
                for (key, _, _), w in outcome.windows.items()}  # fmt: skip
        return _Model(rows, 0, set())
    if kind == "sliding":
        return _sliding(logs, grace_ms)
    return _windows(_outcome(kind, logs, grace_ms))


def _outcome(kind: str, logs: dict[int, list[Record]], grace_ms: int) -> Outcome:
    if kind == "session":
        return expected_sessions(logs, GAP_MS, grace_ms)
    advance = ADVANCE_MS if kind == "hopping" else LENGTH_MS
    return expected_windows(logs, Hopping(LENGTH_MS, advance, grace_ms))


def _windows(outcome: Outcome) -> _Model:
    rows = {
        place: _row(place[0], w.values("v"), len(w.members), w.timestamp, place, final=w.final)
        for place, w in outcome.windows.items()
    }
    return _Model(rows, outcome.late, set())


def _peaks(sessions: Outcome) -> _Model:
    """Return the most records that a session of each key had. A session's time is its end."""
    most: dict[str, int] = {}
    newest_ms: dict[str, int] = {}
    for (key, _, end_ms), session in sessions.windows.items():
        most[key] = max(most.get(key, 0), len(session.members))
        newest_ms[key] = max(newest_ms.get(key, 0), end_ms)
    rows = {
        (key, 0, 0): _framed(key, {"most": number}, newest_ms[key], None, final=False)
        for key, number in most.items()
    }
    return _Model(rows, sessions.late, set())


def _sliding(logs: dict[int, list[Record]], grace_ms: int) -> _Model:
    """Adapt logs and windows to the sliding model, which has numbers and no window ends."""
    numbers = {
        p: [(key, time, value["v"] if value else None) for key, time, value in log]
        for p, log in logs.items()
    }
    outcome = sliding.expected(numbers, LENGTH_MS, grace_ms)
    rows = {}
    for (key, start), w in outcome.windows.items():
        place = key, start, w.end
        rows[place] = _row(key, w.values, len(w.members), w.timestamp, place, final=w.final)
    return _Model(rows, outcome.late, set())


def _texts(logs: dict[int, list[Record]], grace_ms: int) -> _Model:
    functions = Functions(begun, (concatenated,), merged)
    outcome = aggregated_sessions(logs, GAP_MS, grace_ms, functions)
    rows = {
        place: _framed(place[0], row.value, row.timestamp, place, final=row.final)
        for place, row in outcome.rows.items()
    }
    return _Model(rows, outcome.late, outcome.rejected)


def _row(
    key: str,
    values: list[float],
    members: int,
    timestamp: int,
    place: Place | None = None,
    *,
    final: bool = False,
) -> Json:
    """Return the row of the declarative aggregates over a window's members and their values."""
    total = math.fsum(values) if values else None
    columns = {
        "n": members,
        "total": total,
        "mean": None if total is None else total / len(values),
        "least": min(values, default=None),
        "most": max(values, default=None),
        "all": values,
    }
    return _framed(key, columns, timestamp, place, final=final)


def _rise(key: str, records: int, timestamp: int) -> Json:
    """Return the row over a key's updates, which count the records so far."""
    columns = {"n": records, "total": records * (records + 1) // 2, "most": records}
    return _framed(key, columns, timestamp, None, final=False)


def _framed(key: str, columns: Json, timestamp: int, place: Place | None, *, final: bool) -> Json:
    """Return the JSON of one window, or of one row without a ``place``."""
    if place is None:
        return {"key": key, **columns, "timestamp_ms": timestamp}
    bounds = {"window_start_ms": place[1], "window_end_ms": place[2]}
    return {"key": key, **bounds, **columns, "timestamp_ms": timestamp, "final": final}
