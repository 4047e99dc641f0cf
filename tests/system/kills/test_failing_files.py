"""If operations on files fail, no wrong row is committed, and a later start continues."""

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from oriel.storage.delta import Limits, MaintenanceSettings, TableMaintenance
from oriel.storage.files import use_files
from oriel.testing import FailingFiles
from tests.campaigns import full
from tests.pipeline.commit.writers import (
    Writer,
    newest_of,
    run,
    tables_of,
    undisturbed,
    write_log,
)

# The tests have hundreds of starts, so they run in CI, not during development.
pytestmark = pytest.mark.slow

BATCHES = 6
#: The number of starts with failing files.
STARTS = 12


def each_way_to_fail(often: int) -> pytest.MarkDecorator:
    """Parametrize with ways to fail: each ``every`` operations, ``when`` they happen.

    Each way has another rate. Full sizes have all rates of all ways.
    """
    rates = [(often, errno.EACCES), (23, errno.ENOSPC), (37, errno.EIO)]
    cases = [
        case
        for way, when in enumerate(("before", "half", "after"))
        for rate, (every, error) in enumerate(rates)
        for case in ([(when, every, error)] if rate == way else full(when, every, error))
    ]
    return pytest.mark.parametrize(("when", "every", "error"), cases)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of an undisturbed run."""
    directory = tmp_path_factory.mktemp("undisturbed") / "run"
    undisturbed(directory, BATCHES)
    return directory


@pytest.fixture(scope="module")
def expected(model: Path) -> dict[str, list[str]]:
    """Return the tables of an undisturbed run."""
    return tables_of(model)


@each_way_to_fail(5)
def test_every_nth_effect_fails(
    tmp_path: Path, expected: dict[str, list[str]], every: int, error: int, when: str
) -> None:
    """Each row is right at any time, and a run without failures ends like an undisturbed one."""
    write_log(tmp_path, BATCHES)
    # The tables exist already, because delta-rs creates them with its own file operations.
    Writer(tmp_path).close()
    failing = FailingFiles(every, error, when=when)  # type: ignore[arg-type]
    _start_often(tmp_path, run, failing, expected)
    assert tables_of(tmp_path) == expected


@each_way_to_fail(7)
def test_every_nth_effect_fails_with_compaction(
    tmp_path: Path, model: Path, expected: dict[str, list[str]], every: int, error: int, when: str
) -> None:
    """With compaction between batches, each row is right and no file of a table is missing."""
    write_log(tmp_path, BATCHES)
    Writer(tmp_path).close()
    failing = FailingFiles(every, error, when=when)  # type: ignore[arg-type]
    _start_often(tmp_path, _run_compacted, failing, expected)
    for name in ("first", "second"):
        assert newest_of(tmp_path, name) == newest_of(model, name)
    assert tables_of(tmp_path)["_dead_letters"] == expected["_dead_letters"]
    removed = {name: len(expected[name]) - len(rows) for name, rows in tables_of(tmp_path).items()}
    assert removed["first"] > 0
    assert removed["second"] > 0


def _start_often(
    directory: Path,
    start: Callable[[Path], None],
    failing: FailingFiles,
    expected: dict[str, list[str]],
) -> None:
    """Start repeatedly with failing files, then once without, and check that no row is wrong."""
    with use_files(failing):
        for _ in range(STARTS):
            with suppress(OSError):
                start(directory)
            for name, rows in tables_of(directory).items():
                assert set(rows) <= set(expected[name])
                assert len(set(rows)) == len(rows)
    assert failing.failed > 2
    start(directory)


def _run_compacted(directory: Path) -> None:
    """Run to the end, with all due maintenance of the tables after each batch, despite errors."""
    settings = MaintenanceSettings(limits=Limits(small_files=2), deleted_file_retention_ms=1)
    names = ("first", "second", "_dead_letters")
    upkeeps = {
        name: TableMaintenance(directory / "data" / "tables" / name, settings) for name in names
    }
    with Writer(directory) as writer:
        for _ in range(BATCHES + 1):
            writer.run(1)
            batches = {name: store.recorded_batch() for name, store in writer.stores.items()}
            for name, maintenance in upkeeps.items():
                committed = batches if name == "_dead_letters" else {"": batches[name]}
                with suppress(OSError):
                    while maintenance.step(committed):
                        pass
