"""A process that is suspended at any operation changes nothing after a takeover."""

from pathlib import Path

import pytest

from oriel.pipeline.errors import Fenced
from oriel.storage.files import LocalFiles, use_files
from oriel.testing import CountingFiles, HookedFiles
from tests.campaigns import full
from tests.pipeline.commit.writers import Writer, tables_of, undisturbed, write_log

#: Batches of the log, and the batches that run before the last one of the suspended process.
BATCHES, BEFORE = 6, 2


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return the tables of an undisturbed run."""
    return undisturbed(tmp_path_factory.mktemp("undisturbed") / "run", BATCHES)


def operations_of_a_batch(directory: Path) -> int:
    """Return how many operations on files a batch has."""
    write_log(directory, BATCHES)
    with Writer(directory) as writer:
        writer.run(BEFORE)
        with use_files(CountingFiles()) as files:
            writer.run(1)
    assert isinstance(files, CountingFiles)
    return len(files.operations)


def run_and_check_epoch(writer: Writer) -> None:
    """Continue, and report a successor in the same way as the pipeline."""
    try:
        writer.run()
    except Exception:
        # See PipelineRun.failure.
        writer.checkpoint.check_epoch()
        raise


@pytest.mark.slow
@pytest.mark.parametrize("every", [12, *full(1)])
@pytest.mark.parametrize(
    ("first", "ran", "restarted"),
    [(0, 0, False), (3, 1, False), (6, 3, False), (9, 3, True)],
    ids=["not yet", "same batch", "later batch", "first batch"],
)
def test_suspended_at_any_operation_a_process_changes_nothing(
    tmp_path: Path,
    expected: dict[str, list[str]],
    first: int,
    ran: int,
    restarted: bool,
    every: int,
) -> None:
    """Wherever the process stops and however far the successor is, the successor's data stays.

    Each case has another of twelve operations, so that together they have every third.
    """
    for stop in range(first % every, operations_of_a_batch(tmp_path / "counted"), every):
        directory = tmp_path / f"at-{stop}"
        write_log(directory, BATCHES)
        suspended = Writer(directory)
        suspended.run(BEFORE)
        if restarted:
            # The first batch deletes leftover files, so it lists the directory.
            suspended.close()
            suspended = Writer(directory)
        successors: list[Writer] = []
        left = [stop]

        def suspend(
            _operation: str,
            _path: Path,
            left: list[int] = left,
            successors: list[Writer] = successors,
            directory: Path = directory,
        ) -> None:
            left[0] -= 1
            if left[0] == -1:
                with use_files(LocalFiles()):
                    successors.append(Writer(directory))
                    successors[0].run(ran)

        with use_files(HookedFiles(suspend)), pytest.raises(Fenced, match=r"took over.*epoch"):
            run_and_check_epoch(suspended)
        suspended.close()
        (successor,) = successors
        successor.run()
        successor.close()
        assert tables_of(directory) == expected, f"suspended at operation {stop}"
        again = Writer(directory)
        assert again.recovery_point is not None
        assert again.recovery_point.is_done
        again.close()
