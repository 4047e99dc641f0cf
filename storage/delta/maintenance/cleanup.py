"""Delete old log entries, old checkpoints and unused files of a table.

Nothing is deleted that a reader or a writer can still need:

- An entry stays for ``delta.logRetentionDuration``. In a log of more than 10,000 entries, it stays
  for ``delta.deletedFileRetentionDuration``. In a log of more than 20,000, it stays for ten
  minutes.

- An entry after the newest Delta checkpoint, or after the last position of the pipeline, always
  stays. The oldest entries are deleted first, so the rest does not have gaps. A checkpoint is
  forced to disk before it replaces an entry.

- A file that left the table stays for ``delta.deletedFileRetentionDuration``.

- If a table has more than ``files_max`` files, the oldest entries and removed files are deleted
  sooner. They stay for ten seconds, and while a tailer can still need them (``in_use``).

- A file that was never in the table stays that long, and until the table is past its batch. A batch
  that is prepared or in progress can commit the file, even if its process was suspended. Files with
  foreign names are never deleted.

Removed files and old entries are remembered. Directories are listed at the start and once per hour.
"""

import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

from oriel.storage.delta.entries import entry_content, entry_name, read_actions
from oriel.storage.delta.log import file_in_table
from oriel.storage.delta.maintenance.compaction import COMPACTED
from oriel.storage.delta.maintenance.live_files import LOG_NAME, TableFiles, last_checkpoint, now_ms
from oriel.storage.delta.opening import digest_path
from oriel.storage.delta.retention import (
    deleted_file_retention_ms,
    log_retention_ms,
    uncommitted_ms,
)
from oriel.storage.delta.table import CHECKPOINT_INTERVAL, add_checkpoint
from oriel.storage.files import current_files, sync_directory, sync_file

#: In a log with more entries, entries stay for a shorter time, because readers list the whole log.
_ENTRIES_MAX = 10_000
#: How long entries stay in a log with more than twice this number. 20 batches per second write
#: 12,000 entries in this time. A tailer with an older version rebuilds its index.
_LARGE_LOG_RETENTION_MS = 600_000
#: A checkpoint of n files is written every n / 20 versions, so it costs 20 rows per version. It is
#: written after 500 versions at the latest, because only older entries can be deleted.
_ROWS_PER_VERSION, _CHECKPOINT_INTERVAL_MAX = 20, 500
#: A reader has at least this time for the files of a version that it has just opened.
_YOUNGEST_MS = 10_000
#: Files in addition to data files and log entries: checkpoints, files of merges and batches in
#: progress, and state.
_OTHER_FILES = 200
#: The least number of entries and of removed files that stay for their retention.
_LEAST_KEPT = 100
#: Time between two listings of the table's directory.
_LISTING_MS = 3_600_000

#: The name of a file of a batch: a file of a task, or dead letters of a store.
_BATCH_FILE = re.compile(r"(?:part|dead-(?P<store>.+))-(?P<batch>\d{12})-.*\.parquet")
#: The greatest length of the store or sink in a file name. The name of a topic can be longer than a
#: file name can be.
_STORE_CHARACTERS = 128

#: Store ("" for the rows of the table itself) -> its last committed batch.
Committed = Mapping[str, int]


class Cleanup:
    """Deletes old entries, checkpoints and files of one table."""

    def __init__(self, files: TableFiles, *, sync: bool, files_max: int | None) -> None:
        """Clean up the table that ``files`` follows.

        Args:
            files: The files of the table.
            sync: True to force checkpoints to disk.
            files_max: The number of files above which files are deleted before their retention
                ends. None: files stay for their retention.
        """
        self._files = files
        self._sync = sync
        self._files_max = files_max
        #: When files left the table that were deleted sooner. Checkpoints contain them for the
        #: whole retention (``remove`` actions).
        self._deleted_sooner: deque[int] = deque()
        #: The newest checkpoint that this process has synced. Earlier checkpoints are not trusted.
        self._checkpoint = -1
        #: Names of checkpoints -> their versions. None before the first listing.
        self._checkpoints: dict[str, int] | None = None
        self._listed_ms = 0

    def checkpoint(self, check_may_write: Callable[[], None], *, at_once: bool = False) -> bool:
        """Write a Delta checkpoint if one is due.

        Args:
            check_may_write: Raises an error if this process must not write any more.
            at_once: True to write one even if it is not due, unless the newest version has one.

        Returns:
            True if a checkpoint was written.
        """
        files = self._files
        pointer_version = last_checkpoint(files.log)
        # A damaged pointer may name a version that does not exist.
        newest = max(self._checkpoint, pointer_version if pointer_version <= files.version else -1)
        rows = len(files.live) + len(files.removed) + len(self._deleted_sooner)
        interval = max(
            CHECKPOINT_INTERVAL, min(rows // _ROWS_PER_VERSION, _CHECKPOINT_INTERVAL_MAX)
        )
        if files.version - newest < (1 if at_once else interval):
            return False
        check_may_write()
        # The version is explicit, because a listing during a write can have gaps.
        version = files.version
        add_checkpoint(files.directory, version)
        if self._sync:
            for name in current_files().names(files.log):
                if fnmatch(name, f"{version:020d}.checkpoint*"):
                    sync_file(files.log / name)
            sync_file(files.log / "_last_checkpoint")
            sync_directory(files.log)
        self._checkpoint = version
        self._remove_old_checkpoints()
        return True

    def clean_log(self, check_may_write: Callable[[], None], in_use: int | None = None) -> int:
        """Delete log entries that are old enough.

        Only entries before a checkpoint of this process are deleted, because it is known to be on
        disk.

        Args:
            check_may_write: Raises an error if this process must not write any more.
            in_use: The oldest version that a tailer reads, or None.

        Returns:
            The number of deleted entries.
        """
        files = self._files
        kept_ms = log_retention_ms(files.properties)
        if len(files.entries) > _ENTRIES_MAX:
            kept_ms = min(kept_ms, deleted_file_retention_ms(files.properties))
        if len(files.entries) > 2 * _ENTRIES_MAX:
            kept_ms = min(kept_ms, _LARGE_LOG_RETENTION_MS)
        first_needed = self._checkpoint
        if files.recorded is not None:
            first_needed = min(first_needed, files.recorded.version)
        before_ms, sooner_ms = now_ms() - kept_ms, self._sooner_ms(in_use)
        removed = 0
        while files.entries:
            version, written_ms = files.entries[0]
            is_surplus = (
                len(files.entries) > self._kept_max
                and written_ms < sooner_ms
                and (in_use is None or version < in_use)
            )
            if version >= first_needed or not (written_ms < before_ms or is_surplus):
                break
            if not removed:
                check_may_write()
            for name in (entry_name(version), f"{version:020d}.crc"):
                current_files().delete(files.log / name)
            files.entries.popleft()
            removed += 1
        return removed

    def remove_files(
        self,
        committed: Committed,
        check_may_write: Callable[[], None],
        in_use: int | None = None,
    ) -> int:
        """Delete files that left the table long enough ago. Once per hour, also find unused files.

        Args:
            committed: The last committed batch of each store.
            check_may_write: Raises an error if this process must not write any more.
            in_use: The oldest version that a tailer reads, or None.

        Returns:
            The number of deleted files.
        """
        files = self._files
        before_ms = now_ms() - deleted_file_retention_ms(files.properties)
        while self._deleted_sooner and self._deleted_sooner[0] < before_ms:
            self._deleted_sooner.popleft()
        expired = [path for path, removed_ms in files.removed.items() if removed_ms < before_ms]
        expired += self._surplus_files(before_ms, self._sooner_ms(in_use))
        if now_ms() - self._listed_ms >= _LISTING_MS:
            if not self._listed_ms:
                files.removed = {**self._removed_since(before_ms), **files.removed}
            self._listed_ms = now_ms()
            expired += [path for path in self._unused_files(committed) if path not in expired]
        if expired:
            check_may_write()
        for path in expired:
            # Other programs can write any path. Only files directly in the table's directory are
            # deleted.
            if Path(path).name == path:
                current_files().delete(files.directory / path)
            files.removed.pop(path, None)
        return len(expired)

    def _remove_old_checkpoints(self) -> None:
        """Delete all checkpoints except the two newest.

        A reader that has just read the pointer to the previous checkpoint still finds it.
        """
        log = self._files.log
        if self._checkpoints is None:
            found = map(LOG_NAME.fullmatch, current_files().names(log))
            self._checkpoints = {match[0]: int(match[1]) for match in found if match and match[3]}
        name = f"{self._checkpoint:020d}.checkpoint.parquet"
        self._checkpoints[name] = self._checkpoint
        newest = sorted(set(self._checkpoints.values()))[-2:]
        for name, version in list(self._checkpoints.items()):
            if version not in newest:
                current_files().delete(log / name)
                current_files().delete(digest_path(log, version))
                del self._checkpoints[name]

    def _removed_since(self, since_ms: int) -> dict[str, int]:
        """Read which files recent entries removed, and when. This is done once after a start."""
        files = self._files
        removed: dict[str, int] = {}
        for version, written_ms in reversed(files.entries):
            if written_ms < since_ms:
                break
            entry = files.log / entry_name(version)
            for action in read_actions(entry, entry_content(entry)) or []:
                path = file_in_table(action["remove"]["path"]) if "remove" in action else None
                if path is not None and path not in files.live:
                    removed.setdefault(path, written_ms)
        return removed

    @property
    def _kept_max(self) -> int:
        """The number of entries, and the number of removed files, that stay for their retention."""
        if self._files_max is None:
            return sys.maxsize
        others = len(self._files.live) + _CHECKPOINT_INTERVAL_MAX + _OTHER_FILES
        return max((self._files_max - others) // 2, _LEAST_KEPT)

    def _sooner_ms(self, in_use: int | None) -> int:
        """Return the time up to which no reader needs removed files and entries any more."""
        now = now_ms()
        if in_use is None:
            return now - _YOUNGEST_MS
        used_since_ms = next(
            (written_ms for version, written_ms in self._files.entries if version >= in_use), now
        )
        # A foreign program sets the time of a removal before it commits it.
        return min(now, used_since_ms) - _YOUNGEST_MS

    def _surplus_files(self, before_ms: int, sooner_ms: int) -> list[str]:
        """Return the oldest removed files above the limit. Expired files are not among them."""
        removed = sorted(
            (removed_ms, path)
            for path, removed_ms in self._files.removed.items()
            if removed_ms >= before_ms
        )
        surplus = [
            (removed_ms, path)
            for removed_ms, path in removed[: max(0, len(removed) - self._kept_max)]
            if removed_ms < sooner_ms
        ]
        self._deleted_sooner.extend(removed_ms for removed_ms, _path in surplus)
        return [path for _removed_ms, path in surplus]

    def _unused_files(self, committed: Committed) -> Iterator[str]:
        """Yield Oriel's files that no version needs and no batch will commit."""
        files = self._files
        before_ms = now_ms() - uncommitted_ms(files.properties)
        for file in current_files().listed(files.directory):
            path = file.name
            if (
                path in files.live
                or path in files.removed
                or not _cannot_be_committed(path, committed)
            ):
                continue
            if file.modified_ms < before_ms:
                yield path


def _cannot_be_committed(path: str, committed: Committed) -> bool:
    """Return True if a file that is not in the table cannot enter it any more."""
    if path.startswith(COMPACTED) and path.endswith(".parquet"):
        # A compaction ends after half the time for which such a file is kept.
        return True
    match = _BATCH_FILE.fullmatch(path)
    if match is None:
        return False
    store = match["store"] or ""
    batches = (each for name, each in committed.items() if name[:_STORE_CHARACTERS] == store)
    # Several names can begin in the same way. The file is unused if each has a later batch.
    return int(match["batch"]) < min(batches, default=-1)


def dead_letters_name(store: str, batch: int) -> str:
    """Return the beginning of the names of files with the dead letters of a batch."""
    return f"dead-{store[:_STORE_CHARACTERS]}-{batch:012d}"
