"""A data directory next to the golden log, and the pipelines that write it."""

from pathlib import Path
from typing import Any

from oriel.storage.delta import DeltaLog
from tests.e2e.runs_in_one_process import Ended, Runs
from tests.golden.directories import topology, write_log
from tests.system.kills.table_checks import emitted_rows, read_dead_letters

COUNTERS = ("input", "applied", "late", "dead_lettered", "filtered")


class Directory:
    """A data directory next to a log that the pipeline reads."""

    def __init__(self, directory: Path, runs: Runs) -> None:
        """Write the whole log into ``directory``, without a data directory."""
        self.directory, self.data = directory, directory / "data"
        self._runs = runs
        write_log(directory / "log")

    def run(self, name: str, *more: str, command: tuple[str, ...] = ("run",)) -> Ended:
        """Run the topology ``name`` to the end of the log."""
        paths = ["--event-log", str(self.directory / "log"), "--data", str(self.data)]
        return self._runs.oriel(*command, str(topology(name)), *paths, "--cores", "2", *more)

    @property
    def stores(self) -> list[str]:
        """Return the stores that have a table."""
        names = {path.name for path in (self.data / "tables").iterdir()}
        return sorted(name for name in names if not name.startswith("_"))

    def rows(self, store: str) -> list[dict[str, Any]]:
        """Return the newest row of each window of a store, without hidden columns."""
        newest = [
            rows[-1] for _, rows in sorted(emitted_rows(self.data / "tables" / store).items())
        ]
        hidden = {"deleted", "revision"}
        return [
            {name: value for name, value in row.items() if name not in hidden}
            for row in newest
            if not row["deleted"]
        ]

    def record(self, store: str) -> Any:
        """Return the last commit's position, stream times and counters that every format has."""
        record = DeltaLog(self.data / "tables" / store).snapshot().record
        assert record is not None
        counters = {name: record.counters[name] for name in COUNTERS}
        return record.offsets, record.stream_time_ms, record.close_ms, counters

    @property
    def dead_letters(self) -> set[Any]:
        """Return the dead letters of the stores that have a table, and those without a store."""
        dead_letters = read_dead_letters(self.data / "tables" / "_dead_letters")
        return {letter for letter in dead_letters if letter[2] in {None, *self.stores}}
