"""Check tables: each entry and Delta checkpoint of the log, and each data file."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from oriel.pipeline.operations.verification.findings import (
    RESTORE,
    Check,
    Finding,
    Site,
    first_line,
    rebuild,
)
from oriel.pipeline.operations.verification.table_views import Expected
from oriel.storage import current_files
from oriel.storage.delta import LOG_DIRECTORY
from oriel.storage.files import file_digest


class DeltaLogs(Check):
    """Check each entry and each Delta checkpoint of each table."""

    def subjects(self, site: Site) -> Iterable[Path]:
        return site.tables

    def find(self, site: Site, subject: Path, _only: Collection[Path] | None) -> Iterator[Finding]:
        view = site.table(subject)
        for path, problem, is_replaceable in view.problems:
            action = rebuild(subject.name)
            if path.name == LOG_DIRECTORY:
                action = f"Delete the directory {subject}, or restore it from a backup"
            elif is_replaceable and "checkpoint" in path.name:
                action = "Delete it: the entries of the log replace it"
            elif is_replaceable:
                action = "Start the pipeline: it commits the batch again"
            yield Finding(path, problem, action)
        site.count(0)


class DataFiles(Check):
    """Check each data file that a version of a table refers to."""

    def subjects(self, site: Site) -> Iterable[Path]:
        return site.tables

    def find(self, site: Site, subject: Path, only: Collection[Path] | None) -> Iterator[Finding]:
        view = site.table(subject)
        for names, is_live in ((view.live, True), (view.removed, False)):
            for name, expected in names.items():
                path = subject / name
                if only is not None and path not in only:
                    continue
                problem = _problem(site, path, expected, is_live=is_live)
                if problem is not None:
                    action = rebuild(subject.name) if is_live else f"{RESTORE}, or delete it"
                    yield Finding(path, problem, action)


def _problem(site: Site, path: Path, expected: Expected, *, is_live: bool) -> str | None:
    """Return the problem of a data file, or None."""
    try:
        with current_files().open(path) as file:
            size = file.size()
            site.count(size)
            if expected.size is not None and size != expected.size:
                return f"the data file has {size:,} bytes, the log says {expected.size:,}"
            if expected.digest is None:
                # Files of earlier versions and of other tools have no digest, so Parquet reads
                # them and verifies the checksums of their pages.
                for _ in pq.ParquetFile(file, page_checksum_verification=True).iter_batches():
                    pass
            elif (digest := file_digest(file)) != expected.digest:
                return f"the data file has the digest {digest}, the log says {expected.digest}"
    except FileNotFoundError:
        # Cleanup removes files of earlier versions.
        return "the data file is missing" if is_live else None
    except (OSError, ValueError, pa.ArrowException) as error:
        return f"the data file cannot be read ({first_line(error)})"
    return None
