"""Run Oriel over a topic or an event log with the public command, and read its log."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from benchmarks.peer_runs.cases import STORE
from benchmarks.peer_runs.figures import Figures, Totals
from benchmarks.peer_runs.processes import ORIEL_COMMAND, run_to_end
from oriel.storage import COMMIT_INFO_KEY, CommitRecord


class Commit(NamedTuple):
    """A batch in the table's log: when it was committed, and all records up to it."""

    at_seconds: float
    records: int


def run_once(topology: Path, source: Sequence[str], data: Path, *, totals: bool) -> Figures:
    """Run ``oriel run --once`` in a fresh process; with ``totals`` the store is read after it."""
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
    place = ["key", "window_start", "window_end"]
    columns = [*place, "n", "s", "deleted", "revision"]
    rows: pa.Table = DeltaTable(table).to_pyarrow_table(columns=columns)
    # A window's newest row holds; `last` keeps the order with one thread only.
    newest = rows.sort_by("revision").group_by(place, use_threads=False)
    kept = newest.aggregate([("n", "last"), ("s", "last"), ("deleted", "last")])
    kept = kept.filter(pc.invert(kept["deleted_last"]))
    members, total = pc.sum(kept["n_last"]).as_py(), pc.sum(kept["s_last"]).as_py()
    return Totals(kept.num_rows, members, total)
