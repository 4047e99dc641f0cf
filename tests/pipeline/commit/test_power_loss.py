"""A start repairs files that a power loss has damaged, or reports an error."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from oriel.pipeline.commit import StoreTables
from oriel.pipeline.errors import CheckpointError, PipelineError
from oriel.storage import ForeignCheckpoint, StorageError
from oriel.storage.delta import add_checkpoint
from oriel.storage.errors import CorruptLog
from oriel.storage.files import use_files
from oriel.testing import CountingFiles, ForgettingFiles
from tests.campaigns import full
from tests.pipeline.commit.writers import Writer, run, tables_of, undisturbed, write_log

# Hundreds of starts are slow, so these tests are not in the inner loop.
pytestmark = pytest.mark.slow

#: Batches of the log, and batches before the power loss.
BATCHES, BEFORE = 6, 4

Tables = dict[str, list[str]]
Torn = Literal["missing", "empty", "cut"]
TORN: tuple[Torn, ...] = ("missing", "empty", "cut")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Return the tables of an undisturbed run."""
    return undisturbed(tmp_path_factory.mktemp("undisturbed") / "run", BATCHES)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Return runs that ended after a batch (False), and between the commits of a batch (True)."""
    directories = {}
    for during in (False, True):
        directory = directories[during] = tmp_path_factory.mktemp("interrupted")
        write_log(directory, BATCHES)
        run(directory, BEFORE)
        if during:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(StoreTables, "commit_dead_letters", _cut_off)
                with pytest.raises(KeyboardInterrupt):
                    run(directory, 1)
        # A further start creates Spark's directory with the newest entries.
        Writer(directory).close()
        add_checkpoint(directory / "data" / "tables" / "first", 1)
    return directories


def tear(path: Path, torn: Torn) -> None:
    """Leave of a file what a power loss can leave."""
    if torn == "missing":
        path.unlink()
    else:
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2] if torn == "cut" else b"")


def newest(pattern: str, number: int) -> Callable[[Path], list[Path]]:
    """Return a function that finds the newest files of a pattern."""
    return lambda data: sorted(data.glob(pattern))[-number:]


APP = "checkpoints/app"
STATE = [f"{APP}/state/{store}/*.json" for store in ("first", "second")]
LOGS = [f"tables/{store}/_delta_log/*.json" for store in ("first", "second", "_dead_letters")]
EPOCHS = f"{APP}/epochs/*.json"

#: The damaged files, then the error if they are missing, and the error if they are empty or cut.
#: None if the start repairs them.
ErrorText = tuple[type[Exception], str] | None
DAMAGED: dict[str, tuple[Callable[[Path], list[Path]], ErrorText, ErrorText]] = {
    "the newest version of a store": (newest(STATE[0], 1), None, None),
    "the newest version of the last store": (newest(STATE[1], 1), None, None),
    "the version before the newest": (lambda data: newest(STATE[0], 2)(data)[:1], None, None),
    "all versions of a store": (
        newest(STATE[0], 5),
        (ForeignCheckpoint, "do not belong together|has no state version"),
        (CheckpointError, "is damaged .*Restore the checkpoint"),
    ),
    "the newest log entry": (newest(LOGS[0], 1), None, None),
    "the newest log entry of the last store": (newest(LOGS[1], 1), None, None),
    "the newest log entry of dead letters": (newest(LOGS[2], 1), None, None),
    "five log entries": (
        newest(LOGS[0], 5),
        (ForeignCheckpoint, "do not belong together"),
        (CorruptLog, "two newest entries .* are damaged.*[Rr]estore"),
    ),
    "the newest epoch": (newest(EPOCHS, 1), None, None),
    "all epochs": (newest(EPOCHS, 5), None, None),
    "the application": (
        newest(f"{APP}/application.json", 1),
        (CheckpointError, r"no application\.json.*Restore it or use another directory"),
        (CheckpointError, r"application\.json is damaged.*Restore it.* or write"),
    ),
    "the hint of the last checkpoint": (newest("tables/first/_delta_log/_last*", 1), None, None),
    "the last checkpoint": (newest("tables/first/_delta_log/*.parquet", 1), None, None),
    "Spark's offsets": (newest(f"{APP}/spark/*/offsets/*", 5), None, None),
    "Spark's commits": (newest(f"{APP}/spark/*/commits/*", 5), None, None),
    "Spark's metadata": (newest(f"{APP}/spark/*/metadata", 5), None, None),
}


#: Between two commits of a batch, these are not the newest files. They were synced before it began.
SYNCED_BEFORE = {"the newest version of the last store", "the newest log entry of the last store"}


@pytest.mark.parametrize("torn", TORN)
@pytest.mark.parametrize(
    ("damaged", "during"),
    [
        pytest.param(damaged, during, id=f"{damaged} {when}")
        for damaged in DAMAGED
        for during, when in ((False, "after a batch"), (True, "between two commits"))
        if not (during and damaged in SYNCED_BEFORE)
    ],
)
def test_each_deciding_file_is_repaired_or_named(
    tmp_path: Path,
    expected: Tables,
    interrupted: dict[bool, Path],
    damaged: str,
    torn: Torn,
    during: bool,
) -> None:
    """A start repairs the file without loss or duplicates, or reports an error of one line."""
    files, if_missing, if_torn = DAMAGED[damaged]
    shutil.copytree(interrupted[during], tmp_path, dirs_exist_ok=True)
    paths = files(tmp_path / "data")
    for path in paths:
        tear(path, torn)
    problem = if_missing if torn == "missing" else if_torn
    if problem is None:
        run(tmp_path)
        assert tables_of(tmp_path) == expected
        return
    error, text = problem
    with pytest.raises((PipelineError, StorageError)) as found:
        run(tmp_path)
    assert isinstance(found.value, error)
    assert re.search(text, str(found.value))
    assert "\n" not in str(found.value)


def _cut_off(*_arguments: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("every", [13, *full(1)])
def test_power_is_lost_at_any_operation(tmp_path: Path, expected: Tables, every: int) -> None:
    """The next start restores the content that was not synced at that moment."""
    write_log(tmp_path / "counted", BATCHES)
    with use_files(CountingFiles()) as counting:
        run(tmp_path / "counted", 2)
    assert isinstance(counting, CountingFiles)
    lost = 0
    for stop in range(0, len(counting.operations), every):
        directory = tmp_path / f"at-{stop}"
        write_log(directory, BATCHES)
        disk = PowerLost(stop)
        with use_files(disk), pytest.raises(KeyboardInterrupt):
            run(directory)
        lost += len(disk.lose_power())
        run(directory)
        assert tables_of(directory) == expected, f"power lost at operation {stop}"
    assert lost


class PowerLost(ForgettingFiles):
    """A disk that loses power before the operation with index `stop`."""

    def __init__(self, stop: int) -> None:
        super().__init__()
        self._left = stop

    def before(self, operation: str, path: Path) -> None:
        """Count the operation, and stop at the power loss."""
        super().before(operation, path)
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt
