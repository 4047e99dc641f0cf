"""The checks of ``oriel verify``, one class per kind of check.

A finding is reported only if a second check confirms it. While a pipeline runs, a newer batch,
compaction or cleanup can remove a file after the log was read and before the file is read.
"""

from oriel.pipeline.operations.verification.agreement import has_kafka_record
from oriel.pipeline.operations.verification.backups import (
    FILES,
    MANIFEST,
    BackupFiles,
    read_manifest,
    sha256_of,
)
from oriel.pipeline.operations.verification.findings import (
    Check,
    Finding,
    Site,
    first_line,
    rebuild,
)
from oriel.pipeline.operations.verification.registry import CHECKS, confirmed, findings_of_backup

__all__ = [
    "CHECKS",
    "FILES",
    "MANIFEST",
    "BackupFiles",
    "Check",
    "Finding",
    "Site",
    "confirmed",
    "findings_of_backup",
    "first_line",
    "has_kafka_record",
    "read_manifest",
    "rebuild",
    "sha256_of",
]
