"""The maintenance thread compacts tables while batches run, after errors, and at its end."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from oriel.pipeline.commit import Maintenance
from oriel.pipeline.commit import maintenance as module
from oriel.storage.delta import Limits, MaintenanceSettings, TableMaintenance, open_table
from tests.storage.compacted_table import CompactedTable
from tests.storage.store_tables import SLIDING
from tests.storage.waiting import wait_for, wait_until

LIMITS = Limits(small_files=4)


def dead_letters(data: Path) -> TableMaintenance:
    """Return maintenance of an empty table of dead letters."""
    directory = data / "tables" / "_dead_letters"
    schema = pa.schema([pa.field("topic", pa.string(), nullable=False)])
    open_table(directory, schema, {}, sync=False)
    return TableMaintenance(directory, MaintenanceSettings(sync=False, limits=LIMITS))


def maintained(
    table: CompactedTable, limits: Limits = LIMITS, refuse: Callable[[], None] = lambda: None
) -> Maintenance:
    """Return maintenance of one store. It is not started."""
    return Maintenance(
        {"store": [table.maintenance(limits)]},
        dead_letters(table.data),
        {"store": table.batch},
        refuse,
    )


def commit(table: CompactedTable, maintenance: Maintenance, batches: int) -> None:
    """Commit `batches` batches and report each to maintenance."""
    for _ in range(batches):
        table.commit([{"key": "a", "start": table.batch % 5, "n": table.batch}])
        maintenance.batch_committed(table.batch)


def wait_for_few_files(table: CompactedTable) -> None:
    """Wait until maintenance has compacted the table."""
    most = LIMITS.small_files + module._BATCHES_BETWEEN_CHECKS
    wait_until(table.live, f"{most} files", lambda files: len(files) <= most)


def test_it_compacts_between_batches(tmp_path: Path) -> None:
    """The table is compacted after some batches, without a request."""
    table = CompactedTable(tmp_path, SLIDING)
    maintenance = maintained(table)
    maintenance.start()
    for _ in range(3):
        commit(table, maintenance, module._BATCHES_BETWEEN_CHECKS)
        wait_for_few_files(table)
    maintenance.close(finish=False)
    table.assert_unchanged()


@pytest.mark.slow
def test_an_error_is_logged_once_and_never_stops_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A failed compaction is logged once and tried again after a pause, and it leaves no files."""
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    table = CompactedTable(tmp_path, SLIDING)
    maintenance = maintained(table)

    def full(*_arguments: object, **_named: object) -> None:
        raise OSError(28, "No space left on device\nand a second line")

    with caplog.at_level(logging.WARNING), monkeypatch.context() as patched:
        patched.setattr("oriel.storage.delta.maintenance.compaction.create_entry", full)
        maintenance.start()
        for failures in range(1, 4):
            commit(table, maintenance, module._BATCHES_BETWEEN_CHECKS)
            wait_until(
                lambda: maintenance.failures, f"{failures} failures",
                lambda count, least=failures: count >= least,  # type: ignore[misc]
            )  # fmt: skip
        wait_for(set(), lambda: table.names() - table.live(), "the files that were left")
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert "store could not be compacted" in warnings[0]
    assert "No space left" in warnings[0]
    assert "\n" not in warnings[0]
    commit(table, maintenance, module._BATCHES_BETWEEN_CHECKS)
    wait_for_few_files(table)
    maintenance.close(finish=False)
    table.assert_unchanged()


def test_the_pause_has_a_limit_after_a_week_of_errors(tmp_path: Path) -> None:
    """The pause stays at its longest value, however many errors occur in a row."""
    maintenance = maintained(CompactedTable(tmp_path, SLIDING))
    table = maintenance._tables[0]
    for _ in range(2_000):
        maintenance._failed(table, OSError("No space left on device"))
    longest = module._RETRY_SECONDS_MAX
    assert longest / 2 < table.due - time.monotonic() <= longest


def test_a_large_merge_lets_small_files_pass_and_is_given_up_at_the_end(tmp_path: Path) -> None:
    """Small files are merged between two files of a large merge. A run's end stops the merge."""
    table = CompactedTable(tmp_path, SLIDING)
    limits = Limits(small_files=4, small_size=1 << 12, fan_in=2, piece_rows=100, group_rows=50)
    for batch in range(2):
        table.commit([{"key": f"k{at:04d}", "start": batch} for at in range(900)])
        worker = table.compaction(limits)
        worker.merge(worker.runs()[-1:], lambda: None)
    maintenance = maintained(table, limits)
    seen: list[int] = []
    between = maintenance._merge_small

    def noted() -> None:
        commit(table, maintenance, 1)
        between()
        seen.append(len(table.live()))
        if len(seen) == 8:
            # At the end of a run, another thread sets this.
            maintenance._stops = True

    maintenance._merge_small = noted  # type: ignore[method-assign]
    maintenance.start()
    wait_for(False, maintenance._thread.is_alive, "whether the thread lives")
    maintenance.close(finish=False)
    assert len(seen) == 8
    assert max(seen) <= 2 * (900 // 100 + 1) + limits.small_files + 1
    # The files of the unfinished merge are deleted, and small files were merged.
    assert not {
        name for name in table.names() if name.startswith("compact-000000000000-000000000001")
    }
    table.assert_unchanged()


def test_a_run_that_is_done_leaves_a_compacted_table(tmp_path: Path) -> None:
    """With `finish`, `close` does the due compactions, although the thread never ran."""
    table = CompactedTable(tmp_path, SLIDING)
    for batch in range(10):
        table.commit([{"key": "a", "start": batch}])
    maintenance = maintained(table)
    maintenance.close(finish=True)
    assert len(table.live()) == 1
    table.assert_unchanged()


def test_who_was_overtaken_changes_nothing(tmp_path: Path) -> None:
    """A process that cannot write any more is stopped before a commit or a removal."""
    table = CompactedTable(tmp_path, SLIDING)
    for batch in range(10):
        table.commit([{"key": "a", "start": batch}])
    before = table.names(), table.table.version

    def overtaken() -> None:
        raise OSError("another process took over")  # noqa: EM101

    maintenance = maintained(table, refuse=overtaken)
    maintenance.close(finish=True)
    table.table.recorded_batch("anybody")
    assert (table.names(), table.table.version) == before
    assert maintenance.failures == 1
