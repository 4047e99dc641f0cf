"""Effects on files that fail: no wrong row is committed, and a start afterwards goes on."""

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from oriel.storage.delta import Limits, TableUpkeep, UpkeepSettings
from oriel.storage.files import FailingFiles, use_files
from tests.campaigns import full
from tests.pipeline.commit.writers import (
    Writer,
    newest_of,
    run,
    tables_of,
    undisturbed,
    write_log,
)

# Hundreds of starts: too long for the inner loop.
pytestmark = pytest.mark.slow

BATCHES = 6
#: A pipeline that fails all the time is started so often.
STARTS = 12


def each_way_to_fail(often: int) -> pytest.MarkDecorator:
    """Fail each ``every`` effects ``when`` they happen: each way at another rate, in full all."""
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
    """Give the folder of an undisturbed run."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    undisturbed(folder, BATCHES)
    return folder


@pytest.fixture(scope="module")
def expected(model: Path) -> dict[str, list[str]]:
    """Give the tables of an undisturbed run."""
    return tables_of(model)


@each_way_to_fail(5)
def test_every_nth_effect_fails(
    tmp_path: Path, expected: dict[str, list[str]], every: int, error: int, when: str
) -> None:
    """Each row that is there at any time is right; without faults the run ends as any other."""
    write_log(tmp_path, BATCHES)
    # The tables are there: delta-rs makes them, whose files are its own.
    Writer(tmp_path).close()
    failing = FailingFiles(every, error, when=when)  # type: ignore[arg-type]
    _start_often(tmp_path, run, failing, expected)
    assert tables_of(tmp_path) == expected


@each_way_to_fail(7)
def test_every_nth_effect_fails_with_compaction(
    tmp_path: Path, model: Path, expected: dict[str, list[str]], every: int, error: int, when: str
) -> None:
    """Tables that are compacted between batches: each row is right, no file of theirs is gone."""
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
    folder: Path,
    start: Callable[[Path], None],
    failing: FailingFiles,
    expected: dict[str, list[str]],
) -> None:
    """Start with files that fail, again and again, and then once without: no wrong row is there."""
    with use_files(failing):
        for _ in range(STARTS):
            with suppress(OSError):
                start(folder)
            for name, rows in tables_of(folder).items():
                assert set(rows) <= set(expected[name])
                assert len(set(rows)) == len(rows)
    assert failing.failed > 2
    start(folder)


def _run_compacted(folder: Path) -> None:
    """Run to the end; behind each batch all that is due is done for its tables, errors or not."""
    settings = UpkeepSettings(limits=Limits(small_files=2), deleted_file_retention_ms=1)
    names = ("first", "second", "_dead_letters")
    upkeeps = {name: TableUpkeep(folder / "data" / "tables" / name, settings) for name in names}
    with Writer(folder) as writer:
        for _ in range(BATCHES + 1):
            writer.run(1)
            batches = {name: store.recorded_batch() for name, store in writer.stores.items()}
            for name, upkeep in upkeeps.items():
                committed = batches if name == "_dead_letters" else {"": batches[name]}
                with suppress(OSError):
                    while upkeep.step(committed):
                        pass
