"""Create a golden data directory with the current code: ``python -m tests.golden.make NAME``.

The pipeline runs each topology over the first half of the log, and the tailer builds the indexes.
The archive ``tests/golden/NAME.tar.xz`` contains the data directory.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from oriel.storage.layout import DataLayout
from oriel.storage.tailer import StatusFile, stores_with_tables
from tests.e2e.kafka_broker import running_broker
from tests.golden.directories import DIRECTORY, SINK, TOPOLOGIES, pack, topology, write_log
from tests.storage.waiting import wait_until

#: Delta tables record where they were created, so this place is the same on every machine.
PLACE = Path("/tmp/oriel-golden")  # noqa: S108 - see above


def main(arguments: list[str]) -> int:
    """Create the archive of the given name."""
    (name,) = arguments
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    write_log(PLACE / "log", part=2)
    with (
        chdir(PLACE),
        tempfile.TemporaryDirectory() as directory,
        running_broker(Path(directory)) as at,
    ):
        for each in (*TOPOLOGIES, SINK):
            _oriel(
                "oriel", "run", str(topology(each)), "--event-log", "log", "--data", "data",
                "--once", "--cores", "2", "--max-batch-bytes", "5000",
                *(["--publish-to", at] if each == SINK else []),
            )  # fmt: skip
        _index(Path("data"))
        # The logs of Java and Spark have paths of this machine, and nothing reads them.
        shutil.rmtree("data/logs")
        pack(Path("data"), DIRECTORY / f"{name}.tar.xz")
    return 0


def _oriel(module: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-P", "-m", module, *arguments], check=True)


def _index(data: Path) -> None:
    """Run the tailer until it follows every table."""
    layout = DataLayout(data)

    def is_followed() -> bool:
        stores = StatusFile(layout).read().stores
        return set(stores) == set(stores_with_tables(layout)) and all(
            store.state == "following" for store in stores.values()
        )

    command = [sys.executable, "-P", "-m", "oriel.storage.tailer", "--data", str(data)]
    with subprocess.Popen([*command, "--parent-pid", str(os.getpid())]) as tailer:
        wait_until(is_followed, "an index of each table", process=tailer)
        tailer.terminate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
