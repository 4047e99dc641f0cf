"""Compaction: select the files to rewrite together, and commit the replacement.

A *run* is the output of one batch or of one compaction. Runs are ordered by the batches of their
rows, and have a level by their size. Each level is four times the previous one (``Limits.fan_in``).
If the newest runs, up to a level, include four runs of that level, they are merged into one run
(docs/decisions/0029, size-tiered). Only neighboring runs are merged.

A merge at level L reads four runs of level L. Its result has level L + 1, unless rows were dropped.
Without dropped rows, a row is written at most once per level: log4(table / 64 KiB) times, for
example 9 times in a table of 10 GB.

A table has at most three runs per level and the newest small files. So it has at most four times
the bytes of its visible rows. Its number of files is at most the small files, plus three per level,
plus one for each piece of ``Limits.piece_size``.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any
from urllib.parse import quote

from oriel.storage.definition import StoreDefinition
from oriel.storage.delta.data_files import (
    RUN_TAG,
    AddedFile,
    file_digests,
    run_name,
    write_file,
)
from oriel.storage.delta.entries import create_entry, sealed_entry
from oriel.storage.delta.file_ranges import FileRanges, Range, file_ranges
from oriel.storage.delta.maintenance.live_files import LiveFile, TableFiles, now_ms
from oriel.storage.delta.maintenance.merging import Merge, has_windows_once, merged_pieces
from oriel.storage.delta.retention import uncommitted_ms
from oriel.storage.errors import StorageError
from oriel.storage.files import current_files, sync_directory
from oriel.storage.position import COMMIT_APPLICATION_KEY

#: The first part of the names of compacted files. The least and the greatest revision follow.
COMPACTED = "compact-"
#: The approximate size of a Parquet file without rows.
_FILE_SIZE = 1 << 12


@dataclass(frozen=True)
class Limits:
    """When files are merged, and the size of the written files.

    Attributes:
        small_files: The number of small files that are merged together.
        small_size: Files with fewer bytes are small.
        fan_in: The number of runs of one level that are merged, and the factor between levels.
        piece_rows: The approximate maximum of rows in a written file.
        piece_size: The approximate maximum of bytes in a written file.
        group_rows: The number of rows of a row group.
    """

    small_files: int = 64
    small_size: int = 1 << 16
    fan_in: int = 4
    piece_rows: int = 1 << 20
    piece_size: int = 1 << 27
    group_rows: int = 1 << 16

    def level(self, size: int) -> int:
        """Return the level of a run with this number of bytes. A small run has level 0."""
        level = 0
        while size >= self.small_size:
            size //= self.fan_in
            level += 1
        return level


@dataclass(frozen=True)
class Run:
    """Neighboring files that are merged or left together."""

    files: tuple[LiveFile, ...]

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def rows_size(self) -> int:
        """The approximate bytes of the rows, without the fixed size of each file."""
        return max(0, self.size - _FILE_SIZE * len(self.files))

    @property
    def counted_files(self) -> int:
        """The number of files that the run counts as. A compacted run counts as one file."""
        is_compacted = self.files[0].path.startswith(COMPACTED)
        return 1 if is_compacted else len(self.files)


@dataclass(frozen=True)
class Compacted:
    """The result of a compaction.

    Attributes:
        files_before: The number of merged files.
        files_after: The number of written files.
        bytes_before: The bytes of the merged files.
        bytes_after: The bytes of the written files.
        version: The version of the commit. None if it conflicted with another commit.
    """

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    version: int | None


class Compaction:
    """Compacts one table, and caches the ranges of its files.

    Several compactions can work on one table, in one process or in several. If another one removes
    the merged files first, the commit is abandoned, and the written files are deleted.
    """

    def __init__(self, files: TableFiles, limits: Limits, *, sync: bool) -> None:
        """Compact a table.

        Args:
            files: The files of the table.
            limits: When files are merged.
            sync: True to force the written files to disk.
        """
        self._files = files
        self._limits = limits
        self._sync = sync
        self._ranges: dict[str, FileRanges] = {}

    def runs(self) -> list[Run]:
        """Return the runs of the table, oldest first.

        Raises:
            MissingDataFile: another process removed a file.
        """
        ranges = self._known_ranges()
        live = self._files.live.values()

        def age(file: LiveFile) -> tuple[Any, ...]:
            revisions = ranges[file.path].revisions
            if revisions is None:
                return (-1, -1, file.modified_ms, file.path)
            return (*_revisions_of_run(file.path, revisions), 0, "")

        ordered = sorted(live, key=lambda file: (age(file), file.path))
        return [Run(tuple(run)) for _age, run in groupby(ordered, age)]

    def rows(self) -> int:
        """Return the number of rows in the files of the table."""
        return sum(ranges.rows for ranges in self._known_ranges().values())

    def due(self, *, only_small: bool = False) -> list[Run]:
        """Return the neighboring runs to merge next, or an empty list."""
        runs = self.runs()
        levels = [self._limits.level(run.rows_size) for run in runs]
        for level in range(1 if only_small else max(levels, default=-1) + 1):
            start = max((n + 1 for n, other in enumerate(levels) if other > level), default=0)
            of_level = [n for n in range(start, len(runs)) if levels[n] == level]
            if level == 0:
                file_count = sum(runs[n].counted_files for n in of_level)
                if file_count >= max(2, self._limits.small_files):
                    return runs[start:]
            elif len(of_level) >= self._limits.fan_in:
                # Small runs after them wait until there are enough.
                end = max(n for n in range(start, len(runs)) if levels[n] > 0)
                return runs[start : end + 1]
        return []

    def merge(
        self,
        runs: Sequence[Run],
        check_may_write: Callable[[], None],
        after_file: Callable[[], None] = lambda: None,
    ) -> Compacted:
        """Rewrite runs as one run. If an error is raised, the written files are deleted.

        Args:
            runs: The runs.
            check_may_write: Raises an error if this process must not write any more. It is called
                before the commit.
            after_file: Called after each written file.

        Returns:
            The result.
        """
        files = self._files
        definition, changes = files.definition(), files.metadata_changes
        planned_version, last_touch_ms = files.version, now_ms()
        duration_max_ms = uncommitted_ms(files.properties) // 2
        merged_files = [file for run in runs for file in run.files]
        ranges = self._known_ranges()
        merge = self._plan(merged_files, definition)
        least, greatest = _revisions([ranges[file.path] for file in merged_files])
        name = f"{COMPACTED}{least:012d}-{greatest:012d}"
        written: list[AddedFile] = []
        is_run = merge.kind is not None
        try:
            for piece in merged_pieces(
                files.directory, merge, files.schema,
                rows=self._limits.piece_rows, size=self._limits.piece_size,
            ):  # fmt: skip
                part = f"{name}-{len(written):04d}"
                group_rows = self._limits.group_rows
                written.append(
                    write_file(files.directory, piece, part, sync=self._sync, group_rows=group_rows)
                )
                is_run = is_run and has_windows_once(piece)
                after_file()
                if now_ms() - last_touch_ms > duration_max_ms // 4:
                    # Other processes delete old files that no version has. These are still being
                    # written.
                    for file in written:
                        current_files().touch(files.directory / file.path)
                    last_touch_ms = now_ms()
            if self._sync and written:
                sync_directory(files.directory)
            check_may_write()
            if is_run:
                run = run_name(least, greatest, is_unique=True)
                written = [replace(file, tags={**file.tags, RUN_TAG: run}) for file in written]

            def conflicts() -> bool:
                # A row of another program can be older than a removal that was dropped here. Rows
                # of the pipeline have a later batch than all rows that were read.
                return (
                    files.metadata_changes != changes
                    or (files.newest_foreign_version > planned_version and merge.kind is not None)
                    or now_ms() - last_touch_ms > duration_max_ms
                )

            version = _commit_replacement(files, merged_files, written, conflicts, sync=self._sync)
        except BaseException:
            self._delete(written)
            raise
        if version is None:
            self._delete(written)
        return Compacted(
            len(merged_files), len(written), sum(file.size for file in merged_files),
            sum(file.size for file in written), version,
        )  # fmt: skip

    def drop_expired(self, check_may_write: Callable[[], None]) -> int:
        """Remove files in which every row has expired, without reading them.

        Args:
            check_may_write: Raises an error if this process must not write any more.

        Returns:
            The number of removed files.
        """
        files = self._files
        definition, changes, planned_version = (
            files.definition(), files.metadata_changes, files.version,
        )  # fmt: skip
        if definition is None or definition.retention_ms is None:
            return 0
        ranges = self._known_ranges()
        earliest = self._earliest(definition)
        settled = self._settled()
        expired = {
            path
            for path, each in ranges.items()
            if each.clock is not None
            and each.clock.greatest < earliest
            and (each.revisions is None or each.revisions.greatest <= settled)
        }
        while True:
            # As for single rows, an older row of the window must not become visible again.
            kept = [each for path, each in ranges.items() if path not in expired]
            blocked = {
                path
                for path in expired
                if any(_can_have_older_rows(each, ranges[path]) for each in kept)
            }
            if not blocked:
                break
            expired -= blocked
        if not expired:
            return 0
        check_may_write()
        merged_files = [files.live[path] for path in sorted(expired)]
        version = _commit_replacement(
            files,
            merged_files,
            [],
            lambda: (
                files.metadata_changes != changes or files.newest_foreign_version > planned_version
            ),
            sync=self._sync,
        )
        return 0 if version is None else len(merged_files)

    def _plan(self, merged_files: Sequence[LiveFile], definition: StoreDefinition | None) -> Merge:
        ranges = self._known_ranges()
        paths = {file.path for file in merged_files}
        return Merge(
            ranges={file.path: ranges[file.path] for file in merged_files},
            digests=file_digests({file.path: file.tags for file in merged_files}),
            outside=[
                each
                for path, each in ranges.items()
                if path not in paths
                and any(_can_have_older_rows(each, ranges[own]) for own in paths)
            ],
            kind=None if definition is None else definition.window.kind,
            earliest=0 if definition is None else self._earliest(definition),
            settled=self._settled(),
        )

    def _settled(self) -> int:
        """Return the newest revision of the pipeline. Other programs can write higher ones."""
        record = self._files.record
        return -1 if record is None else record.batch

    def _earliest(self, definition: StoreDefinition) -> int:
        """Return the least time that stays, in microseconds. Retention hides all earlier rows.

        The stream time is the index's (decision 0030), but at most the wall-clock time. If a wrong
        record moved it ahead, ``oriel clock --set`` shows hidden rows again, but not dropped ones.
        """
        if definition.retention_ms is None:
            return -(2**63)
        record = self._files.record
        if record is not None and record.observed_ms >= 0:
            observed = record.observed_ms * 1000
        else:
            ranges = self._known_ranges().values()
            greatest = (each.clock.greatest for each in ranges if each.clock is not None)
            observed = int(max(greatest, default=0))
        return min(observed, now_ms() * 1000) - (definition.retention_ms - 1) * 1000

    def _known_ranges(self) -> dict[str, FileRanges]:
        """Return the ranges of all live files. Read the footers of new ones."""
        definition = self._files.definition()
        kind = None if definition is None else definition.window.kind
        self._ranges = {
            path: self._ranges.get(path)
            or file_ranges(self._files.directory / path, kind, file.tags)
            for path, file in self._files.live.items()
        }
        return self._ranges

    def _delete(self, written: Sequence[AddedFile]) -> None:
        """Delete the written files of a failed compaction.

        A failed commit can still exist, if its directory could not be synced. Then the files belong
        to the table. If this is unknown, the clean-up deletes them later.
        """
        with suppress(StorageError, OSError):
            self._files.follow()
            for file in written:
                if file.path not in self._files.live:
                    current_files().delete(self._files.directory / file.path)


def _can_have_older_rows(other: FileRanges, ranges: FileRanges) -> bool:
    """Return True if ``other`` can have an older row of a window in the file of ``ranges``."""
    if other.revisions is None or ranges.revisions is None:
        return False
    is_older = other.revisions.least < ranges.revisions.greatest
    return bool(is_older and other.can_share_windows(ranges))


def _revisions_of_run(path: str, revisions: Range) -> tuple[int, int]:
    """Return the revisions that order a file. A compacted file has the revisions of its run."""
    if path.startswith(COMPACTED):
        least, _, rest = path.removeprefix(COMPACTED).partition("-")
        greatest = rest.partition("-")[0]
        if least.isdecimal() and greatest.isdecimal():
            return int(greatest), int(least)
    return revisions.greatest, revisions.least


def _revisions(ranges: Sequence[FileRanges]) -> Range:
    """Return the revisions of a run."""
    revisions = [each.revisions for each in ranges if each.revisions is not None]
    return Range(
        min((each.least for each in revisions), default=0),
        max((each.greatest for each in revisions), default=0),
    )


def _commit_replacement(
    files: TableFiles,
    removed: Sequence[LiveFile],
    added: Sequence[AddedFile],
    conflicts: Callable[[], bool],
    *,
    sync: bool,
) -> int | None:
    """Commit that ``added`` replaces ``removed``. Return None if another commit conflicts.

    The commit does not change results, so ``dataChange`` is false. Each window keeps its row with
    the highest revision, unless retention hides the row or it is a removal. So followers of the
    table have nothing to read, and streams from the table are not disturbed.
    """
    definition = files.definition()
    owner = "oriel" if definition is None else definition.application
    application = f"{owner}/maintenance"
    log, version = files.log, files.version
    while True:
        files.follow()
        if conflicts() or any(file.path not in files.live for file in removed):
            return None
        if not all(current_files().exists(files.directory / file.path) for file in added):
            return None
        version = files.version + 1
        actions = _actions(removed, added, application, version)
        content = sealed_entry(actions, version, files.table_id)
        try:
            create_entry(log, version, content, sync=sync)
        except FileExistsError:
            # Batches only append, so they do not conflict.
            files.follow()
            if files.version < version:
                # The entry is torn: the pipeline writes it again when it starts.
                return None
            continue
        files.follow()
        return version


def _actions(
    removed: Sequence[LiveFile], added: Sequence[AddedFile], application: str, version: int
) -> list[dict[str, Any]]:
    commit_info = {
        "timestamp": now_ms(),
        "operation": "OPTIMIZE",
        "operationParameters": {"predicate": "[]"},
        "operationMetrics": {
            "numRemovedFiles": str(len(removed)), "numAddedFiles": str(len(added)),
        },
        "isBlindAppend": False,
        "engineInfo": "oriel",
        COMMIT_APPLICATION_KEY: application,
    }  # fmt: skip
    removes = [
        {
            "remove": {
                "path": quote(file.path),
                "deletionTimestamp": now_ms(),
                "dataChange": False,
                "extendedFileMetadata": True,
                "partitionValues": {},
                "size": file.size,
            }
        }
        for file in removed
    ]
    return [
        {"commitInfo": commit_info},
        *removes,
        *(file.to_action(data_change=False) for file in added),
        # This is the last line of every entry of Oriel (see read_actions). The version increases.
        {"txn": {"appId": application, "version": version}},
    ]
