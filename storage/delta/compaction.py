"""Compaction: which files are rewritten together, and the commit that puts one for the other.

A *run* is what one batch or one compaction wrote; runs lie one behind the other by the batches
that their rows are of. Runs have levels by their size, each four times the one before
(``Limits.fan_in``). When the newest runs up to a level hold so many of that level, they become
one run (docs/decisions/0029, size-tiered). Only runs that are neighbours are merged.

Cost: a merge of level L takes four runs of level L, so what it writes is of level L + 1, or rows
were dropped: a row is written at most once a level, that is log4(table / 64 KiB) times, 9 times
in a table of 10 GB, and once more for each row that superseded it. At most three runs a level
and the newest small files are in the table at any time: it has at most four times the bytes of
its visible rows, and small files plus three a level plus one for each piece of
``Limits.piece_size``.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from urllib.parse import quote

from oriel.storage.definition import StoreDefinition
from oriel.storage.delta.data_files import AddedFile, file_digests, write_file
from oriel.storage.delta.entries import create_entry, sealed_entry
from oriel.storage.delta.file_ranges import FileRanges, Range, file_ranges
from oriel.storage.delta.live_files import LiveFile, TableFiles, now_ms
from oriel.storage.delta.merging import Merge, merged_pieces
from oriel.storage.delta.retention import uncommitted_ms
from oriel.storage.errors import StorageError
from oriel.storage.files import current_files, sync_folder
from oriel.storage.position import COMMIT_APPLICATION_KEY

#: What names of compacted files begin with; then come the least and the greatest revision.
COMPACTED = "compact-"
#: About what a Parquet file takes without rows.
_FILE_SIZE = 1 << 12


@dataclass(frozen=True)
class Limits:
    """When files are merged, and how large what is written gets.

    ``small_files`` files of less than ``small_size`` bytes are merged at a time; runs that are
    larger when there are ``fan_in`` of a level. A file that is written has about ``piece_rows``
    rows or ``piece_size`` bytes at most, in row groups of ``group_rows`` rows.
    """

    small_files: int = 64
    small_size: int = 1 << 16
    fan_in: int = 4
    piece_rows: int = 1 << 20
    piece_size: int = 1 << 27
    group_rows: int = 1 << 16

    def level(self, size: int) -> int:
        """The level of a run of so many bytes: 0 for a small one."""
        level = 0
        while size >= self.small_size:
            size //= self.fan_in
            level += 1
        return level


@dataclass(frozen=True)
class Run:
    """Neighbouring files that are merged or left together."""

    files: tuple[LiveFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def rows_size(self) -> int:
        """About the bytes of the rows alone, however many files they are in."""
        return max(0, self.size - _FILE_SIZE * len(self.files))

    @property
    def loose_files(self) -> int:
        """How many files the run counts as: one, if it was compacted."""
        is_compacted = self.files[0].path.startswith(COMPACTED)
        return 1 if is_compacted else len(self.files)


@dataclass(frozen=True)
class Compacted:
    """What a compaction did; ``version`` is None if another commit was in its way."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    version: int | None


class Compaction:
    """Compacts one table; the only one that knows its files' ranges.

    Several may work on one table, in one process or in several: what one removes under another
    makes that one's commit impossible, and its files are deleted again.
    """

    def __init__(self, files: TableFiles, limits: Limits, *, sync: bool) -> None:
        """Compact the table whose files ``files`` follows; ``sync``: files are forced to disk."""
        self._files = files
        self._limits = limits
        self._sync = sync
        self._ranges: dict[str, FileRanges] = {}

    def runs(self) -> list[Run]:
        """The table's runs, the oldest first.

        Raises:
            MissingDataFile: a file was removed by somebody else.
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
        """How many rows the table's files have."""
        return sum(ranges.rows for ranges in self._known_ranges().values())

    def due(self, *, only_small: bool = False) -> list[Run]:
        """Neighbouring runs that are to be merged; empty when none are."""
        runs = self.runs()
        levels = [self._limits.level(run.rows_size) for run in runs]
        for level in range(1 if only_small else max(levels, default=-1) + 1):
            start = max((n + 1 for n, other in enumerate(levels) if other > level), default=0)
            of_level = [n for n in range(start, len(runs)) if levels[n] == level]
            if level == 0:
                loose = sum(runs[n].loose_files for n in of_level)
                if loose >= max(2, self._limits.small_files):
                    return runs[start:]
            elif len(of_level) >= self._limits.fan_in:
                # The small ones behind them wait until they are enough.
                end = max(n for n in range(start, len(runs)) if levels[n] > 0)
                return runs[start : end + 1]
        return []

    def merge(
        self,
        runs: Sequence[Run],
        refuse: Callable[[], None],
        between: Callable[[], None] = lambda: None,
    ) -> Compacted:
        """Rewrite runs as one. ``between`` is called after each file that is written.

        ``refuse`` raises if this process may not write any more; it is asked before the commit.
        Whatever is raised, by these too, the files that were written are deleted.
        """
        files = self._files
        definition, changes = files.definition(), files.metadata_changes
        planned_at, touched_ms = files.version, now_ms()
        longest_ms = uncommitted_ms(files.properties) // 2
        taken = [file for run in runs for file in run.files]
        ranges = self._known_ranges()
        merge = self._plan(taken, definition)
        name = COMPACTED + _interval([ranges[file.path] for file in taken])
        written: list[AddedFile] = []
        try:
            for piece in merged_pieces(
                files.folder, merge, files.schema,
                rows=self._limits.piece_rows, size=self._limits.piece_size,
            ):  # fmt: skip
                part = f"{name}-{len(written):04d}"
                group_rows = self._limits.group_rows
                written.append(
                    write_file(files.folder, piece, part, sync=self._sync, group_rows=group_rows)
                )
                between()
                if now_ms() - touched_ms > longest_ms // 4:
                    # Others delete what is old and in no version: this is still being written.
                    for file in written:
                        current_files().touch(files.folder / file.path)
                    touched_ms = now_ms()
            if self._sync and written:
                sync_folder(files.folder)
            refuse()

            def is_in_the_way() -> bool:
                # A row of others may be older than a removal that was dropped here; the
                # pipeline's own are of a later batch than all that were read.
                return (
                    files.metadata_changes != changes
                    or (files.foreign_version > planned_at and merge.kind is not None)
                    or now_ms() - touched_ms > longest_ms
                )

            version = _replace(files, taken, written, is_in_the_way, sync=self._sync)
        except BaseException:
            self._delete(written)
            raise
        if version is None:
            self._delete(written)
        return Compacted(
            len(taken), len(written), sum(file.size for file in taken),
            sum(file.size for file in written), version,
        )  # fmt: skip

    def drop_expired(self, refuse: Callable[[], None]) -> int:
        """Remove files of which every row has expired, without reading them; return how many."""
        files = self._files
        definition, changes, planned_at = (
            files.definition(), files.metadata_changes, files.version,
        )  # fmt: skip
        if definition is None or definition.retention_ms is None:
            return 0
        ranges = self._known_ranges()
        earliest = self._earliest(definition)
        settled = self._settled()
        gone = {
            path
            for path, each in ranges.items()
            if each.clock is not None
            and each.clock.greatest < earliest
            and (each.revisions is None or each.revisions.greatest <= settled)
        }
        while True:
            # As with a single row: an older one of its window must not show again.
            kept = [each for path, each in ranges.items() if path not in gone]
            blocked = {
                path for path in gone if any(_may_be_older(each, ranges[path]) for each in kept)
            }
            if not blocked:
                break
            gone -= blocked
        if not gone:
            return 0
        refuse()
        taken = [files.live[path] for path in sorted(gone)]
        version = _replace(
            files,
            taken,
            [],
            lambda: files.metadata_changes != changes or files.foreign_version > planned_at,
            sync=self._sync,
        )
        return 0 if version is None else len(taken)

    def _plan(self, taken: Sequence[LiveFile], definition: StoreDefinition | None) -> Merge:
        ranges = self._known_ranges()
        paths = {file.path for file in taken}
        return Merge(
            ranges={file.path: ranges[file.path] for file in taken},
            digests=file_digests({file.path: file.tags for file in taken}),
            outside=[
                each
                for path, each in ranges.items()
                if path not in paths and any(_may_be_older(each, ranges[own]) for own in paths)
            ],
            kind=None if definition is None else definition.window.kind,
            earliest=0 if definition is None else self._earliest(definition),
            settled=self._settled(),
        )

    def _settled(self) -> int:
        """The newest revision that the pipeline has written; those of others may be ahead of it."""
        record = self._files.record
        return -1 if record is None else record.batch

    def _earliest(self, definition: StoreDefinition) -> int:
        """The least time in microseconds that is kept: what retention hides, and no more.

        The store clock is the index's (decision 0030). What is dropped does not come back when
        ``oriel clock --set`` mends a clock that a wrong record set ahead, so here it counts up to
        wall clock only.
        """
        if definition.retention_ms is None:
            return -(2**63)
        record = self._files.record
        if record is not None and record.observed_ms >= 0:
            observed = record.observed_ms * 1000
        else:
            ranges = self._known_ranges().values()
            clocks = [each.clock for each in ranges if each.clock is not None]
            observed = int(max((clock.greatest for clock in clocks), default=0))
        return min(observed, now_ms() * 1000) - (definition.retention_ms - 1) * 1000

    def _known_ranges(self) -> dict[str, FileRanges]:
        """The ranges of all live files; footers of new ones are read."""
        definition = self._files.definition()
        kind = None if definition is None else definition.window.kind
        self._ranges = {
            path: self._ranges.get(path) or file_ranges(self._files.folder / path, kind, file.tags)
            for path, file in self._files.live.items()
        }
        return self._ranges

    def _delete(self, written: Sequence[AddedFile]) -> None:
        """Delete what was written in vain.

        A commit that failed may be there all the same (its folder could not be synced), and then
        its files are the table's. If that can't be told, they are left to the clean-up.
        """
        with suppress(StorageError, OSError):
            self._files.follow()
            for file in written:
                if file.path not in self._files.live:
                    current_files().delete(self._files.folder / file.path)


def _may_be_older(other: FileRanges, ranges: FileRanges) -> bool:
    """Whether ``other`` may have an older row of a window that is in the file of ``ranges``."""
    if other.revisions is None or ranges.revisions is None:
        return False
    is_older = other.revisions.least < ranges.revisions.greatest
    return bool(is_older and other.may_share_windows(ranges))


def _revisions_of_run(path: str, revisions: Range) -> tuple[int, int]:
    """By what a file is ordered: its revisions, of compacted ones those of the whole run."""
    if path.startswith(COMPACTED):
        least, _, rest = path.removeprefix(COMPACTED).partition("-")
        greatest = rest.partition("-")[0]
        if least.isdecimal() and greatest.isdecimal():
            return int(greatest), int(least)
    return revisions.greatest, revisions.least


def _interval(ranges: Sequence[FileRanges]) -> str:
    """The revisions of a run, for the names of its files."""
    revisions = [each.revisions for each in ranges if each.revisions is not None]
    least = min((each.least for each in revisions), default=0)
    greatest = max((each.greatest for each in revisions), default=0)
    return f"{least:012d}-{greatest:012d}"


def _replace(
    files: TableFiles,
    removed: Sequence[LiveFile],
    added: Sequence[AddedFile],
    is_in_the_way: Callable[[], bool],
    *,
    sync: bool,
) -> int | None:
    """Commit that ``added`` stands for ``removed``; None if another commit was in the way.

    It changes no answer, and ``dataChange`` says so: each window's row of its highest revision
    is there before and after it, unless retention hides it or it says that the window is gone.
    So who follows the table has nothing to read, and streams from the table aren't disturbed.
    """
    definition = files.definition()
    owner = "oriel" if definition is None else definition.application
    application = f"{owner}/maintenance"
    log, version = files.log, files.version
    while True:
        files.follow()
        if is_in_the_way() or any(file.path not in files.live for file in removed):
            return None
        if not all(current_files().exists(files.folder / file.path) for file in added):
            return None
        version = files.version + 1
        actions = _actions(removed, added, application, version)
        content = sealed_entry(actions, version, files.table_id)
        try:
            create_entry(log, version, content, sync=sync)
        except FileExistsError:
            # Batches that only append are no conflict: none of their rows is touched.
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
        # The last line, as of every entry of ours (see read_actions); the version rises.
        {"txn": {"appId": application, "version": version}},
    ]
