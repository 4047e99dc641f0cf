"""A pipeline that is killed at every step of a batch, and its results."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.e2e.event_logs import Line, random_logs, write_lines
from tests.e2e.runs_in_one_process import ROOT, Runs
from tests.system.kills import kinds_topology
from tests.system.kills.expected_rows import STORES, Expected, expected_stores
from tests.system.kills.killed_run import STEPS

#: The approximate size of a line.
_RECORD_BYTES = 70
#: The least and the most bytes of a batch, and a lower bound for the number of largest batches.
_BYTES, _MOST_BATCHES = (8_000, 14_000), 4


@dataclass(frozen=True)
class Survivor:
    """The data directory of a pipeline that was killed and resumed, and its expected content."""

    seed: int
    data: Path
    lines: dict[int, list[Line]]
    stores: dict[str, Expected]

    def table(self, name: str) -> Path:
        """Return the directory of a Delta table."""
        return self.data / "tables" / name


def killed_at_steps(directory: Path, seed: int, runs: Runs, *, all_steps: bool) -> Survivor:
    """Run the topology over random logs, and kill it at steps, at random stores and batches.

    With ``all_steps``, the steps are all. Otherwise, one is before the batch is prepared, so it is
    computed again. The other is after that, so the resumed run only writes the batch. After each
    start, the batch size and the number of tasks differ. The process ``runs`` executes the last
    start.
    """
    random = Random(seed)
    lines = random_logs(random)
    write_lines(directory / "log" / kinds_topology.TOPIC, lines)
    known = list(STEPS)
    chosen = known if all_steps else [random.choice(known[:2]), random.choice(known[2:])]
    steps = random.sample(chosen, len(chosen))
    batches = sorted(random.sample(range(_MOST_BATCHES), len(steps)))
    for step, batch in zip(steps, batches, strict=True):
        # If the first store has no final rows yet, the store over its final rows computes nothing.
        stores = [
            store for store in STORES if store != kinds_topology.LAYERS or step != "computing"
        ]
        place = (random.choice(stores), step, str(batch))
        arguments = pipeline_arguments(directory, random, sizes=_BYTES)
        killed = start("tests.system.kills.killed_at_store", *place, *arguments)
        assert killed.returncode == -9, f"seed {seed}: {place}: {killed.stderr[-3000:]}"
    finished = runs.run(*pipeline_arguments(directory, random, sizes=_BYTES))
    assert finished.code == 0, f"seed {seed}: {finished.errors}"
    return Survivor(seed, directory / "data", lines, expected_stores(lines))


def start(module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a test module in its own process group, to its end."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
    )


def pipeline_arguments(
    directory: Path, random: Random, address: str | None = None, *,
    sizes: tuple[int, int] = (5_000, 9_000),
) -> list[str]:  # fmt: skip
    """Return arguments to read everything, with random batch sizes and numbers of tasks.

    With the address of a broker, the run reads its topic. Otherwise, it reads the event log of the
    directory.
    """
    size, cores = random.randint(*sizes), random.choice((1, 2, 3))
    source = ["--event-log", str(directory / "log"), "--max-batch-bytes", str(size)]
    if address is not None:
        source = ["--kafka", address, "--max-batch-records", str(size // _RECORD_BYTES)]
    paths = [str(kinds_topology.__file__), *source, "--data", str(directory / "data")]
    return [*paths, "--once", "--cores", str(cores)]
