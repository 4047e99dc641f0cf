"""A pipeline over a growing log, which runs in a process group that tests suspend or kill."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from deltalake import DeltaTable

from oriel.storage.delta import DeltaLog
from tests.e2e.runs_in_one_process import ROOT
from tests.storage.waiting import wait_until

TOPOLOGY = """
from oriel import SlidingWindows, StreamsBuilder, collect_list, count
builder = StreamsBuilder()
windows = SlidingWindows.of_time_difference_and_grace(10, 30)
grouped = builder.stream("t", "v LONG").group_by_key().windowed_by(windows)
grouped.aggregate(all=collect_list("v"), n=count()).materialize("s")
topology = builder.build()
"""


class Directory:
    """A growing log, and the data of the pipelines that read it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / "data"
        self.written = 0
        (root / "log" / "t").mkdir(parents=True)
        (root / "topology.py").write_text(TOPOLOGY)

    def arguments(self, data: str = "data", *, command: Sequence[str] = ("run",)) -> list[str]:
        """Return the command line of a run, or of another command on the same topology."""
        log = str(self.root / "log")
        paths = [str(self.root / "topology.py"), "--event-log", log]
        return [*command, *paths, "--data", str(self.root / data), "--cores", "1"]

    def change_topology(self, old: str, new: str) -> None:
        """Replace a part of the topology file. Running pipelines keep the old one."""
        path = self.root / "topology.py"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def append(self) -> None:
        """Append three records and an invalid line."""
        with (self.root / "log" / "t" / "0.jsonl").open("ab") as file:
            for _ in range(3):
                value, time_ms = {"v": self.written}, self.written * 4
                key = f"k{self.written % 2}"
                file.write(orjson.dumps({"key": key, "value": value, "timestamp_ms": time_ms}))
                file.write(b"\n")
                self.written += 1
            file.write(b"rubbish\n")

    def versions(self) -> int:
        """Return how many versions the store's table has."""
        return len(DeltaLog(self.data / "tables" / "s").versions())

    def run_batch(self) -> None:
        """Append records and wait until they are committed."""
        before = self.versions()
        self.append()
        wait_until(self.versions, f"a version after {before}", lambda found: found > before)

    @contextmanager
    def running(
        self,
        *program: str,
        stderr: str,
        options: tuple[str, ...] = (),
        command: Sequence[str] = ("run",),
    ) -> Iterator["subprocess.Popen[str]"]:
        """Run a pipeline in its own process group until the block ends, with errors in a file."""
        with (self.root / stderr).open("w") as errors:
            process = subprocess.Popen(
                [*program, *self.arguments(command=command), "--trigger", "20ms", *options],
                cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=errors,
                text=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def rows(data: Path) -> dict[Any, Any]:
    """Return the newest row of each window without its revision, and all dead letters."""
    found: dict[Any, Any] = {}
    for row in DeltaTable(data / "tables" / "s").to_pyarrow_table().sort_by("revision").to_pylist():
        revision = row.pop("revision")
        place = row["key"], row["window_start"]
        assert found.get(place, (-1,))[0] != revision, "a batch came twice"
        found[place] = revision, row
    dead_letters = DeltaTable(data / "tables" / "_dead_letters").to_pyarrow_table().to_pylist()
    newest = {place: row for place, (_, row) in found.items()}
    return {**newest, "letters": sorted(letter["offset"] for letter in dead_letters)}
