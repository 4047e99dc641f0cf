"""Effects on files that fail: no wrong row is committed, and a start afterwards goes on."""

import errno
from contextlib import suppress
from pathlib import Path

import pytest

from oriel.storage.files import FailingFiles, use_files
from tests.pipeline.commit.writers import Writer, run, tables_of, undisturbed, write_log

BATCHES = 6
#: A pipeline that fails all the time is started so often.
STARTS = 12


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Give the tables of an undisturbed run."""
    return undisturbed(tmp_path_factory.mktemp("undisturbed") / "run", BATCHES)


@pytest.mark.parametrize("when", ["before", "half", "after"])
@pytest.mark.parametrize(
    ("every", "error"), [(5, errno.EACCES), (23, errno.ENOSPC), (37, errno.EIO)]
)
def test_every_nth_effect_fails(
    tmp_path: Path, expected: dict[str, list[str]], every: int, error: int, when: str
) -> None:
    """Each row that is there at any time is right; without faults the run ends as any other."""
    write_log(tmp_path, BATCHES)
    # The tables are there: delta-rs makes them, whose files are its own.
    Writer(tmp_path).close()
    with use_files(FailingFiles(every, error, when=when)) as files:  # type: ignore[arg-type]
        for _ in range(STARTS):
            with suppress(OSError):
                run(tmp_path)
            for name, rows in tables_of(tmp_path).items():
                assert set(rows) <= set(expected[name])
                assert len(set(rows)) == len(rows)
    assert isinstance(files, FailingFiles)
    assert files.failed > 2
    run(tmp_path)
    assert tables_of(tmp_path) == expected
