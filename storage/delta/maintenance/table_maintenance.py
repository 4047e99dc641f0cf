"""Maintain one table in steps of bounded size: compaction, Delta checkpoints and clean-up."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from oriel.storage.delta.maintenance.cleanup import Cleanup, Committed
from oriel.storage.delta.maintenance.compaction import Compacted, Compaction, Limits, Run
from oriel.storage.delta.maintenance.live_files import TableFiles
from oriel.storage.delta.retention import DELETED_FILE_RETENTION, LOG_RETENTION, interval
from oriel.storage.delta.table import existing_table


def _do_nothing() -> None:
    """Do nothing. This is the default of the callbacks."""


@dataclass(frozen=True)
class MaintenanceSettings:
    """The settings of the maintenance of a table.

    Attributes:
        compacts: False to only write checkpoints, and keep all files and entries.
        sync: True to force files to disk before anything refers to them.
        limits: When files are merged.
        files_max: The number of files of a table above which removed files and log entries are
            deleted before their retention ends. None: they stay for their retention.
        log_retention_ms: The table property for log entries. None: unchanged.
        deleted_file_retention_ms: The table property for removed files. None: unchanged.
    """

    compacts: bool = True
    sync: bool = True
    limits: Limits = field(default_factory=Limits)
    files_max: int | None = 2_000
    log_retention_ms: int | None = None
    deleted_file_retention_ms: int | None = None


class TableSize(NamedTuple):
    """The size of a table.

    Attributes:
        files: The number of live files.
        size: The bytes of the live files.
        rows: The rows of the live files.
        log_entries: The entries of the log.
    """

    files: int
    size: int
    rows: int
    log_entries: int


class TableMaintenance:
    """Keeps one table small. One thread uses it, while other threads and processes write."""

    def __init__(self, directory: Path, settings: MaintenanceSettings) -> None:
        self.directory = directory
        self._settings = settings
        self._files: TableFiles | None = None
        self._compaction: Compaction | None = None
        self._cleanup: Cleanup | None = None
        #: The live files when nothing was due. Files are checked again when enough are new.
        self._settled: set[str] | None = None

    def figures(self) -> TableSize:
        """Return the size of the table at its newest version."""
        files, compaction, _cleanup = self._opened()
        sizes = [file.size for file in files.live.values()]
        return TableSize(len(sizes), sum(sizes), compaction.rows(), len(files.entries))

    def step(
        self,
        committed: Committed,
        check_may_write: Callable[[], None] = _do_nothing,
        after_file: Callable[[], None] = _do_nothing,
        *,
        merge_bytes_max: int | None = None,
        in_use: int | None = None,
    ) -> bool:
        """Do the next piece of work.

        Args:
            committed: The last committed batch of each store.
            check_may_write: Raises an error if this process must not write any more.
            after_file: Called after each file of a large merge.
            merge_bytes_max: The maximum bytes of a merge. Larger merges are left for another time.
            in_use: The oldest version that a tailer reads. None: no tailer is known.

        Returns:
            False if nothing was due.

        Raises:
            StorageError, OSError: the step failed. Its incomplete output is removed, and the next
                step tries again.
        """
        _files, compaction, cleanup = self._opened()
        try:
            if self._settings.compacts and self._compact(
                compaction, check_may_write, after_file, merge_bytes_max
            ):
                return True
        except BaseException:
            # A file that another process removed can be the cause, so the table is read again.
            self._files = None
            raise
        if cleanup.checkpoint(check_may_write):
            return True
        if self._settings.compacts:
            cleanup.clean_log(check_may_write, in_use)
            cleanup.remove_files(committed, check_may_write, in_use)
        return False

    def merge_small(self, check_may_write: Callable[[], None] = _do_nothing) -> None:
        """Merge small files if there are enough. This is the fast part of ``step``."""
        _files, compaction, _cleanup = self._opened()
        if self._settings.compacts and self._has_enough_new_files():
            runs = compaction.due(only_small=True)
            if runs:
                compaction.merge(runs, check_may_write)

    def compact_all(
        self,
        committed: Committed,
        check_may_write: Callable[[], None] = _do_nothing,
        after_file: Callable[[], None] = _do_nothing,
    ) -> Compacted | None:
        """Merge all files into one run and clean up.

        Args:
            committed: The last committed batch of each store.
            check_may_write: Raises an error if this process must not write any more.
            after_file: Called after each written file.

        Returns:
            The result of the merge, or None if there was nothing to merge.
        """
        _files, compaction, cleanup = self._opened()
        compaction.drop_expired(check_may_write)
        runs: list[Run] = compaction.runs()
        done = compaction.merge(runs, check_may_write, after_file) if runs else None
        cleanup.checkpoint(check_may_write, at_once=True)
        # A tailer can read any version, so only files whose retention has ended are deleted.
        cleanup.clean_log(check_may_write, in_use=0)
        cleanup.remove_files(committed, check_may_write, in_use=0)
        return done

    def _compact(
        self,
        compaction: Compaction,
        check_may_write: Callable[[], None],
        after_file: Callable[[], None],
        merge_bytes_max: int | None,
    ) -> bool:
        if not self._has_enough_new_files():
            return False
        if compaction.drop_expired(check_may_write):
            return True
        runs = compaction.due()
        is_small = merge_bytes_max is None or sum(run.size for run in runs) <= merge_bytes_max
        if runs and is_small:
            return compaction.merge(runs, check_may_write, after_file).version is not None
        assert self._files is not None
        self._settled = set(self._files.live)
        return False

    def _has_enough_new_files(self) -> bool:
        """Return True at the start, and when enough files are new since nothing was due."""
        assert self._files is not None
        if self._settled is None:
            return True
        news = len(self._files.live.keys() - self._settled)
        return news >= max(1, self._settings.limits.small_files // 4)

    def _opened(self) -> tuple[TableFiles, Compaction, Cleanup]:
        settings = self._settings
        if self._files is None or self._compaction is None or self._cleanup is None:
            self._set_properties()
            self._files = TableFiles(self.directory)
            self._compaction = Compaction(self._files, settings.limits, sync=settings.sync)
            self._cleanup = Cleanup(self._files, sync=settings.sync, files_max=settings.files_max)
            self._settled = None
        self._files.follow()
        return self._files, self._compaction, self._cleanup

    def _set_properties(self) -> None:
        """Set the table properties of the settings."""
        settings = self._settings
        wanted_properties = {
            LOG_RETENTION: settings.log_retention_ms,
            DELETED_FILE_RETENTION: settings.deleted_file_retention_ms,
        }
        for name, time_ms in wanted_properties.items():
            if time_ms is None:
                continue
            table = existing_table(self.directory, sync=settings.sync)
            if table.properties.get(name) != interval(time_ms):
                table.set_property(name, interval(time_ms))
