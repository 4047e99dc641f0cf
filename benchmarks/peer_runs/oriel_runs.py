"""Run Oriel over a topic or an event log with the public command, and read its log."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb
from deltalake import DeltaTable

from benchmarks.peer_runs.cases import STORE
from benchmarks.peer_runs.figures import Figures, Totals
from benchmarks.peer_runs.processes import ORIEL_COMMAND, run_to_end
from oriel.storage import COMMIT_INFO_KEY, CommitRecord

_MEMORY = "4GB"
# A window's newest row is valid. All values are halves, so the sum of integers is exact.
_TOTALS = """
    SELECT count(*), coalesce(sum(n), 0)::BIGINT, coalesce(sum((s * 2)::HUGEINT), 0)::HUGEINT
    FROM (
        SELECT arg_max(n, revision) n, arg_max(s, revision) s, arg_max(deleted, revision) deleted
        FROM rows GROUP BY key, window_start, window_end
    )
    WHERE NOT deleted
"""


class Commit(NamedTuple):
    """A batch in the table's log: its commit time, and the number of records up to it."""

    at_seconds: float
    records: int


def run_once(topology: Path, source: Sequence[str], data: Path, *, totals: bool) -> Figures:
    """Run ``oriel run --once`` in a new process. With ``totals``, read the store afterwards."""
    command = [*ORIEL_COMMAND, "run", str(topology), *source, "--data", str(data), "--once"]
    ended = run_to_end("oriel run", command)
    table = data / "tables" / STORE
    commits = read_commits(table)
    records, seconds = steady(commits)
    return Figures(
        cold_seconds=ended.seconds,
        first_seconds=commits[0].at_seconds - ended.started_at,
        steady_records=records,
        steady_seconds=seconds,
        totals=read_totals(table) if totals else None,
    )


def read_commits(table: Path) -> list[Commit]:
    """Return the batches of a table's log, oldest first."""
    history = [one for one in DeltaTable(table).history() if COMMIT_INFO_KEY in one]
    found = []
    for one in history:
        counters = CommitRecord.from_json(one[COMMIT_INFO_KEY]).counters
        found.append(Commit(one["timestamp"] / 1000, counters["input"]))
    return sorted(found)


def steady(commits: Sequence[Commit]) -> tuple[int, float]:
    """Return records and seconds from the commit that is nearest to half of all to the last one.

    One batch has no second half: 0 records in 0 seconds.
    """
    last = commits[-1]
    half = min(commits[:-1], key=lambda one: abs(2 * one.records - last.records), default=last)
    return last.records - half.records, last.at_seconds - half.at_seconds


def read_totals(table: Path) -> Totals:
    """Count a store's windows, and add up their counts and sums."""
    rows = DeltaTable(table).to_pyarrow_dataset()
    with duckdb.connect() as database:
        # More windows than fit into memory are grouped on disk.
        settings = {"memory_limit": _MEMORY, "temp_directory": str(table.parent)}
        for name, value in settings.items():
            database.execute(f"SET {name} = '{value}'")
        database.register("rows", rows)
        found = database.execute(_TOTALS).fetchone()
    assert found is not None
    windows, members, halves = found
    return Totals(windows, members, halves / 2)
