"""Slow reference model of tumbling and hopping windows, computed from the definition.

Pure Python, record by record, without code of the engines (``tests.models.tables`` has the types).

    windows of t  s = 0, A, 2A, ... with s <= t < s + S
    open          s + S > c, where c = stream time of the record's own partition at it - G
    member        of each of its windows that is open; late, if none is
    final         s + S <= min over partitions of stream time - G
"""

from dataclasses import dataclass

from tests.models.tables import (
    Arrived,
    FunctionOutcome,
    FunctionRow,
    Functions,
    Logs,
    Outcome,
    Window,
    aggregate_by_start,
    arrivals,
    final_close,
    in_order,
)


@dataclass(frozen=True)
class Hopping:
    """Size, advance and grace. If size and advance are equal, the windows are tumbling."""

    size: int
    advance: int
    grace: int

    def starts(self, time: int) -> list[int]:
        """Return the ascending starts of all windows that contain ``time``, open or closed."""
        return [s for s in range(0, time + 1, self.advance) if s <= time < s + self.size]

    def open_starts(self, record: Arrived) -> list[int]:
        """Return the starts of the windows that accept the record."""
        return [s for s in self.starts(record.time) if s + self.size > record.close]


def expected_windows(logs: Logs, windows: Hopping) -> Outcome:
    """Return every window of ``logs``."""
    members: dict[tuple[str, int], list[Arrived]] = {}
    late = applied = 0
    for record in arrivals(logs, windows.grace):
        starts = windows.open_starts(record)
        late += not starts
        applied += bool(starts)
        for start in starts:
            members.setdefault((record.key, start), []).append(record)
    close = final_close(logs, windows.grace)
    found = {
        (key, start, start + windows.size): Window(
            in_order(records), final=start + windows.size <= close
        )
        for (key, start), records in members.items()
    }
    return Outcome(found, applied, late)


def aggregated_windows(logs: Logs, windows: Hopping, functions: Functions) -> FunctionOutcome:
    """Return the user-defined aggregate of each window."""
    arrived = arrivals(logs, windows.grace)
    starts = {id(record): windows.open_starts(record) for record in arrived}
    accepted = [record for record in arrived if starts[id(record)]]
    made = aggregate_by_start(accepted, starts, functions)
    close = final_close(logs, windows.grace)
    found = {
        (key, start, start + windows.size): FunctionRow(
            value, timestamp, final=start + windows.size <= close
        )
        for (key, start), (value, timestamp) in made.rows.items()
    }
    late = len(arrived) - len(accepted)
    applied = len(accepted) - len(made.rejected)
    return FunctionOutcome(found, applied, late, made.rejected, removals=made.removals)
