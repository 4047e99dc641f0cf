"""What the demo prints while it works: its steps, and how far the pipeline is."""

import sys
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from oriel.storage import COMMIT_INFO_KEY, CommitRecord


def say(text: str) -> None:
    """Print one line on stderr."""
    print(f"demo: {text}", file=sys.stderr, flush=True)


def last_commit(table: Path) -> CommitRecord | None:
    """Return what the pipeline's newest commit says of itself; None before the first."""
    try:
        history = DeltaTable(table).history(limit=10)
    except TableNotFoundError:
        return None
    for commit in history:
        if COMMIT_INFO_KEY in commit:
            return CommitRecord.from_json(commit[COMMIT_INFO_KEY])
    return None


class Progress:
    """Prints how much of the event log a store includes, whenever that has grown."""

    def __init__(self, table: Path, topic: str, sizes: dict[str, int]) -> None:
        """Follow ``table`` until it includes ``sizes`` bytes of the partitions of ``topic``."""
        self._table = table
        self._topic = topic
        self._sizes = sizes
        self._printed_percent = -1

    def report(self) -> bool:
        """Print the progress since the last call; return whether all is included."""
        commit = last_commit(self._table)
        reached = commit.offsets.get(self._topic, {}) if commit else {}
        done = sum(min(reached.get(p, 0), size) for p, size in self._sizes.items())
        percent = 100 * done // max(1, sum(self._sizes.values()))
        if percent > self._printed_percent:
            self._printed_percent = percent
            detail = f", {commit.counters['input']:,} records" if commit else ", starting Spark"
            say(f"pipeline {percent} %{detail}")
        return percent == 100
