"""The Parquet files of a Delta table, which tasks write with statistics for data skipping.

A file is not a part of the table before a commit names it. The commit has digests of the file and
of its footer, and each page of the file has a checksum. Readers compare them, so that no row is
read that was not written.
"""

import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from oriel.storage.delta.entries import recovery_hint
from oriel.storage.errors import CorruptLog, MissingDataFile, ObjectStoreFailed
from oriel.storage.files import FileIdentity, current_files, digest, file_digest, is_object

#: Tags of an ``add`` action: the digest of the file, and of its footer with the 8 bytes after it.
DIGEST_TAG, FOOTER_TAG = "oriel.digest", "oriel.footer"
#: A tag of an ``add`` action: the run of the file. All files of a run together have each window at
#: most once. Files of other programs and of earlier versions do not have it (decision 0105).
RUN_TAG = "oriel.run"

#: The number of leading columns with statistics: key, window start and window end, which readers
#: filter by. In a store without windows, the aggregates are directly after the key. They can be
#: lists, for which Delta does not have statistics, so only the key has them.
_STATISTICS_COLUMNS = 3
_STATISTICS_COLUMNS_WITHOUT_WINDOWS = 1


#: Objects up to this size are read in one request, and kept in memory while they are open.
_OBJECT_BYTES = 16 << 20
_VERIFIED_MAX = 10_000


@dataclass(frozen=True)
class AddedFile:
    """A Parquet file that a task wrote, and that is not yet a part of the table.

    Attributes:
        path: The path relative to the table.
        size: The size in bytes.
        rows: The number of rows.
        stats: Delta's statistics as JSON.
        modified_ms: When it was written, in ms since 1970.
        tags: Its digests. Files of earlier versions do not have them.
    """

    path: str
    size: int
    rows: int
    stats: str
    modified_ms: int
    tags: Mapping[str, str] = field(default_factory=dict)

    def to_action(self, *, data_change: bool = True) -> dict[str, Any]:
        """Return the Delta add action.

        Args:
            data_change: True for new rows, False for rows that were already in the table.
        """
        add = {
            "path": quote(self.path),
            "partitionValues": {},
            "size": self.size,
            "modificationTime": self.modified_ms,
            "dataChange": data_change,
            "stats": self.stats,
        }
        return {"add": {**add, "tags": dict(self.tags)} if self.tags else add}


def write_file(
    directory: Path,
    rows: pa.Table,
    name: str,
    *,
    sync: bool,
    group_rows: int | None = None,
    run: str | None = None,
) -> AddedFile:
    """Write rows as one Parquet file to the directory of a table.

    The file name has a unique suffix, so a repeated attempt never overwrites a file that another
    attempt has committed.

    Args:
        directory: The directory of the table.
        rows: The rows.
        name: The first part of the file name.
        sync: True to force the content to disk. The committer syncs the directory once for all
            files.
        group_rows: The number of rows per row group, which readers can skip. None: a million.
        run: The run of the file, from ``run_name``. None: the file does not have one.
    """
    path = directory / f"{name}-{uuid.uuid4()}.parquet"
    # Strings repeat, for example a key once per window. Numbers and times rarely repeat.
    string_columns = [field.name for field in rows.schema if pa.types.is_string(field.type)]

    content = pa.BufferOutputStream()
    pq.write_table(
        rows, content, row_group_size=group_rows, compression="zstd", compression_level=1,
        use_dictionary=string_columns, write_page_checksum=True,
    )  # fmt: skip
    encoded = content.getvalue()
    expected_digest = current_files().write(path, lambda sink: sink.write(encoded), sync=sync)
    # Digests of the bytes in memory, not of the bytes that are on disk.
    tags = {DIGEST_TAG: digest(encoded), FOOTER_TAG: digest(_footer(encoded))}
    if run is not None:
        tags[RUN_TAG] = run
    return AddedFile(
        path.name,
        expected_digest.size,
        len(rows),
        _statistics(rows),
        expected_digest.modified_ms,
        tags,
    )


def run_name(least: int, greatest: int, *, is_unique: bool = False) -> str:
    """Return the name of a run, for its tag.

    Args:
        least: The least revision of its rows.
        greatest: The greatest revision of its rows.
        is_unique: True to add a random suffix, because other runs can have the same revisions. The
            files of a batch do not need it, because no two batches have one revision.
    """
    name = f"{least}-{greatest}"
    return f"{name}-{uuid.uuid4().hex[:12]}" if is_unique else name


def run_revisions(name: str) -> tuple[int, int]:
    """Return the least and the greatest revision of a run, from its name."""
    least, greatest = name.split("-")[:2]
    return int(least), int(greatest)


def file_digests(tags: Mapping[str, Mapping[str, str] | None]) -> dict[str, str]:
    """Return the digests of files from their tags, by path, without files that do not have one."""
    return {
        path: file_tags[DIGEST_TAG]
        for path, file_tags in tags.items()
        if file_tags and DIGEST_TAG in file_tags
    }


def _footer(content: pa.Buffer) -> pa.Buffer:
    return content[-footer_bytes(content[-8:].to_pybytes(), content.size) :]


def footer_bytes(end: bytes, size: int) -> int:
    """Return the length of a footer plus its last 8 bytes, from these 8 bytes, at most ``size``."""
    return min(int.from_bytes(end[:4], "little") + 8, size)


def statistics_columns(schema: pa.Schema) -> int:
    """Return how many leading columns of a table with this schema have statistics."""
    key_alone = schema.names[0] == "key" and "window_start" not in schema.names
    return _STATISTICS_COLUMNS_WITHOUT_WINDOWS if key_alone else _STATISTICS_COLUMNS


def _statistics(rows: pa.Table) -> str:
    """Return Delta's file statistics: row count, and minimum and maximum of the leading columns.

    Bounds are not shortened, however long a key is. Either all leading columns have bounds or no
    column has them. A reader that finds one column without bounds can skip the file (delta-rs
    does).
    """
    least, greatest, nulls = {}, {}, {}
    try:
        for name in rows.column_names[: statistics_columns(rows.schema)]:
            bounds = pc.min_max(rows.column(name))
            least[name] = _statistics_value(bounds["min"])
            greatest[name] = _statistics_value(bounds["max"])
            nulls[name] = rows.column(name).null_count
    except OverflowError:
        # A window ends after the year 9999, which the statistics cannot represent.
        return orjson.dumps({"numRecords": len(rows)}).decode()
    statistics = {
        "numRecords": len(rows), "minValues": least, "maxValues": greatest, "nullCount": nulls,
    }  # fmt: skip
    return orjson.dumps(statistics).decode()


def _statistics_value(bound: pa.Scalar) -> object:
    """Return a time as in Delta's statistics (UTC, ms), or any other value unchanged.

    Raises:
        OverflowError: the time is after the year 9999.
    """
    value = bound.as_py()
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    return value


class _Verified:
    """The last files that this process has verified."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[Path, FileIdentity | None, str], None] = OrderedDict()
        self._lock = threading.Lock()

    def has(self, file: tuple[Path, FileIdentity | None, str]) -> bool:
        with self._lock:
            return file in self._files

    def add(self, file: tuple[Path, FileIdentity | None, str]) -> None:
        with self._lock:
            self._files[file] = None
            if len(self._files) > _VERIFIED_MAX:
                self._files.popitem(last=False)


_verified = _Verified()


def open_data_file(
    path: Path, expected_digest: str | None, *, verify_once: bool = False
) -> pa.NativeFile:
    """Open a data file after its content was compared with its digest.

    Args:
        path: The file.
        expected_digest: The digest. None: the file was written by another tool or an earlier
            version, and is not compared.
        verify_once: True to compare the file only the first time that this process opens it. Use it
            to read parts of the file, whose pages have checksums.

    Raises:
        CorruptLog: the file is not the file that was written.
        MissingDataFile: it does not exist.
    """
    if expected_digest is None:
        return _open(path)
    key = (path, current_files().identity(path) if verify_once else None, expected_digest)
    source = _open(path)
    if verify_once and _verified.has(key):
        return source
    try:
        if is_object(path) and source.size() <= _OBJECT_BYTES:
            source = pa.BufferReader(source.read())
        is_right = file_digest(source) == expected_digest
    except BaseException:
        source.close()
        raise
    if not is_right:
        source.close()
        raise _damaged(path)
    source.seek(0)
    if verify_once:
        _verified.add(key)
    return source


def open_footer(path: Path, tags: Mapping[str, str]) -> pa.NativeFile:
    """Open a data file after its footer was compared with its digest, without reading rows.

    Raises:
        CorruptLog: the footer is not the footer that was written.
        MissingDataFile: the file does not exist.
    """
    source = _open(path)
    expected_digest = tags.get(FOOTER_TAG)
    if expected_digest is not None:
        size = source.size()
        source.seek(max(0, size - 8))
        source.seek(size - footer_bytes(source.read(8), size))
        if digest(source.read()) != expected_digest:
            source.close()
            raise _damaged(path)
        source.seek(0)
    return source


def _open(path: Path) -> pa.NativeFile:
    try:
        return current_files().open(path)
    except FileNotFoundError as error:
        raise missing_file(path) from error
    except IsADirectoryError as error:
        raise _damaged(path, "it is a directory") from error


@contextmanager
def translate_damage(path: Path) -> Iterator[None]:
    """Translate Arrow's errors about the content of a data file, and name the file and a solution.

    Raises:
        CorruptLog: the file cannot be decoded. Damage of a file with a digest is found earlier.
    """
    try:
        yield
    except ObjectStoreFailed:
        raise
    except (pa.ArrowException, OSError) as error:
        # Arrow raises an OSError without a number if a page can't be decoded. System errors have
        # one.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _damaged(path, str(error).partition("\n")[0].rstrip(".")) from error


def _damaged(path: Path, reason: str = "its content is not what was written") -> CorruptLog:
    return CorruptLog(f"{path}: the data file is damaged: {reason}. {recovery_hint(path.parent)}")


def missing_file(path: Path) -> MissingDataFile:
    """Return the error for a missing data file, with a solution."""
    return MissingDataFile(f"{path}: the data file is missing. {recovery_hint(path.parent)}")
