"""A pipeline that is killed at every step of a batch, and what it left behind."""

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

#: Of a line, about.
_RECORD_BYTES = 70
#: The least and the most bytes of a batch, and how many of the most the logs have at least.
_BYTES, _MOST_BATCHES = (8_000, 14_000), 4


@dataclass(frozen=True)
class Survivor:
    """The data folder of a pipeline that was killed and went on, and what has to be in it."""

    seed: int
    data: Path
    lines: dict[int, list[Line]]
    stores: dict[str, Expected]

    def table(self, name: str) -> Path:
        """The folder of a Delta table."""
        return self.data / "tables" / name


def killed_at_steps(folder: Path, seed: int, runs: Runs, *, all_steps: bool) -> Survivor:
    """Run the topology over random logs; kill it at steps, at some store of some batch.

    The steps are all, or one before the batch is decided, which is computed anew then, and one
    behind that, from which it is only to be written. The batches are of another size, and the tasks
    of another number, after each start. ``runs`` does the last one.
    """
    random = Random(seed)
    lines = random_logs(random)
    write_lines(folder / "log" / kinds_topology.TOPIC, lines)
    known = list(STEPS)
    chosen = known if all_steps else [random.choice(known[:2]), random.choice(known[2:])]
    steps = random.sample(chosen, len(chosen))
    batches = sorted(random.sample(range(_MOST_BATCHES), len(steps)))
    for step, batch in zip(steps, batches, strict=True):
        # Where no row in front is final yet, the store over final rows has nothing to compute.
        stores = [
            store for store in STORES if store != kinds_topology.LAYERS or step != "computing"
        ]
        place = (random.choice(stores), step, str(batch))
        told = pipeline_arguments(folder, random, sizes=_BYTES)
        killed = start("tests.system.kills.killed_at_store", *place, *told)
        assert killed.returncode == -9, f"seed {seed}: {place}: {killed.stderr[-3000:]}"
    finished = runs.run(*pipeline_arguments(folder, random, sizes=_BYTES))
    assert finished.code == 0, f"seed {seed}: {finished.told}"
    return Survivor(seed, folder / "data", lines, expected_stores(lines))


def start(module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a module of ours in a process group of its own, to its end."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
    )


def pipeline_arguments(
    folder: Path, random: Random, address: str | None = None, *,
    sizes: tuple[int, int] = (5_000, 9_000),
) -> list[str]:  # fmt: skip
    """Read everything, in batches of another size by another number of tasks each time.

    With the address of a broker its topic is read, else the event log in the folder.
    """
    size, cores = random.randint(*sizes), random.choice((1, 2, 3))
    source = ["--event-log", str(folder / "log"), "--max-batch-bytes", str(size)]
    if address is not None:
        source = ["--kafka", address, "--max-batch-records", str(size // _RECORD_BYTES)]
    paths = [str(kinds_topology.__file__), *source, "--data", str(folder / "data")]
    return [*paths, "--once", "--cores", str(cores)]
