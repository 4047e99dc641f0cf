"""Maintain one table in steps of bounded size: compaction, Delta checkpoints and clean-up."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from oriel.storage.delta.cleanup import Cleanup, Committed
from oriel.storage.delta.compaction import Compacted, Compaction, Limits, Run
from oriel.storage.delta.live_files import TableFiles
from oriel.storage.delta.retention import DELETED_FILE_RETENTION, LOG_RETENTION, interval
from oriel.storage.delta.table import existing_table


def _nothing() -> None:
    """Do nothing. This is the default of the callbacks."""


@dataclass(frozen=True)
class UpkeepSettings:
    """The settings of the maintenance of a table.

    Attributes:
        compacts: False to only write checkpoints, and keep all files and entries.
        sync: True to force files to disk before anything refers to them.
        limits: When files are merged.
        log_retention_ms: The table property for log entries. None: unchanged.
        deleted_file_retention_ms: The table property for removed files. None: unchanged.
    """

    compacts: bool = True
    sync: bool = True
    limits: Limits = field(default_factory=Limits)
    log_retention_ms: int | None = None
    deleted_file_retention_ms: int | None = None


class TableFigures(NamedTuple):
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


class TableUpkeep:
    """Keeps one table small. One thread uses it, while other threads and processes write."""

    def __init__(self, folder: Path, settings: UpkeepSettings) -> None:
        self.folder = folder
        self._settings = settings
        self._files: TableFiles | None = None
        self._compaction: Compaction | None = None
        self._cleanup: Cleanup | None = None
        #: The live files when nothing was due. Files are checked again when enough are new.
        self._settled: set[str] | None = None

    def figures(self) -> TableFigures:
        """Return the size of the table at its newest version."""
        files, compaction, _cleanup = self._opened()
        sizes = [file.size for file in files.live.values()]
        return TableFigures(len(sizes), sum(sizes), compaction.rows(), len(files.entries))

    def step(
        self,
        committed: Committed,
        refuse: Callable[[], None] = _nothing,
        between: Callable[[], None] = _nothing,
        *,
        size_most: int | None = None,
    ) -> bool:
        """Do the next piece of work.

        Args:
            committed: The last committed batch of each store.
            refuse: Raises an error if this process must not write any more.
            between: Called after each file of a large merge.
            size_most: The maximum bytes of a merge. Larger merges are left for another time.

        Returns:
            False if nothing was due.

        Raises:
            StorageError, OSError: the step failed. Its incomplete output is removed, and the next
                step tries again.
        """
        _files, compaction, cleanup = self._opened()
        try:
            if self._settings.compacts and self._compact(compaction, refuse, between, size_most):
                return True
        except BaseException:
            # A file that another process removed can be the cause, so the table is read again.
            self._files = None
            raise
        if cleanup.checkpoint(refuse):
            return True
        if self._settings.compacts:
            cleanup.clean_log(refuse)
            cleanup.remove_files(committed, refuse)
        return False

    def merge_small(self, refuse: Callable[[], None] = _nothing) -> None:
        """Merge small files if there are enough. This is the fast part of ``step``."""
        _files, compaction, _cleanup = self._opened()
        if self._settings.compacts and self._has_news():
            runs = compaction.due(only_small=True)
            if runs:
                compaction.merge(runs, refuse)

    def compact_all(
        self,
        committed: Committed,
        refuse: Callable[[], None] = _nothing,
        between: Callable[[], None] = _nothing,
    ) -> Compacted | None:
        """Merge all files into one run and clean up.

        Args:
            committed: The last committed batch of each store.
            refuse: Raises an error if this process must not write any more.
            between: Called after each written file.

        Returns:
            The result of the merge, or None if there was nothing to merge.
        """
        _files, compaction, cleanup = self._opened()
        compaction.drop_expired(refuse)
        runs: list[Run] = compaction.runs()
        done = compaction.merge(runs, refuse, between) if runs else None
        cleanup.checkpoint(refuse, at_once=True)
        cleanup.clean_log(refuse)
        cleanup.remove_files(committed, refuse)
        return done

    def _compact(
        self,
        compaction: Compaction,
        refuse: Callable[[], None],
        between: Callable[[], None],
        size_most: int | None,
    ) -> bool:
        if not self._has_news():
            return False
        if compaction.drop_expired(refuse):
            return True
        runs = compaction.due()
        is_small = size_most is None or sum(run.size for run in runs) <= size_most
        if runs and is_small:
            return compaction.merge(runs, refuse, between).version is not None
        assert self._files is not None
        self._settled = set(self._files.live)
        return False

    def _has_news(self) -> bool:
        """Return True at the start, and when enough files are new since nothing was due."""
        assert self._files is not None
        if self._settled is None:
            return True
        news = len(self._files.live.keys() - self._settled)
        return news >= max(1, self._settings.limits.small_files // 4)

    def _opened(self) -> tuple[TableFiles, Compaction, Cleanup]:
        settings = self._settings
        if self._files is None or self._compaction is None or self._cleanup is None:
            self._keep_properties()
            self._files = TableFiles(self.folder)
            self._compaction = Compaction(self._files, settings.limits, sync=settings.sync)
            self._cleanup = Cleanup(self._files, sync=settings.sync)
            self._settled = None
        self._files.follow()
        return self._files, self._compaction, self._cleanup

    def _keep_properties(self) -> None:
        """Set the table properties of the settings."""
        settings = self._settings
        asked = {
            LOG_RETENTION: settings.log_retention_ms,
            DELETED_FILE_RETENTION: settings.deleted_file_retention_ms,
        }
        for name, time_ms in asked.items():
            if time_ms is None:
                continue
            table = existing_table(self.folder, sync=settings.sync)
            if table.properties.get(name) != interval(time_ms):
                table.set_property(name, interval(time_ms))
