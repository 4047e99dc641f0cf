"""The registry of checks, and how they run."""

import errno
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from oriel.pipeline.operations.verification.agreement import (
    EventLogs,
    KafkaTopics,
    TablesAndStates,
)
from oriel.pipeline.operations.verification.backups import FILES, BackupFiles
from oriel.pipeline.operations.verification.findings import RESTORE, Check, Finding, Site
from oriel.pipeline.operations.verification.indexes import Indexes
from oriel.pipeline.operations.verification.states import CheckpointFiles, ReplayedLetters, States
from oriel.pipeline.operations.verification.surplus import SurplusFiles
from oriel.pipeline.operations.verification.tables import DataFiles, DeltaLogs
from oriel.storage import DataLayout

#: Each kind of check. The first ones find why later ones would find more.
CHECKS: Sequence[Check] = (
    DeltaLogs(),
    CheckpointFiles(),
    States(),
    ReplayedLetters(),
    TablesAndStates(),
    EventLogs(),
    KafkaTopics(),
    DataFiles(),
    Indexes(),
    SurplusFiles(),
)

#: Errors of the device, which are findings. Others, such as missing rights, stop the check.
_DAMAGED = {errno.EIO, errno.ENOENT, errno.ENOTDIR, errno.EISDIR}


def confirmed(site: Site, checks: Sequence[Check] = CHECKS) -> Iterator[Finding]:
    """Yield what the checks find, each finding once a second look has confirmed it.

    Raises:
        OSError: a file cannot be read for a reason that says nothing about its content.
    """
    for check in checks:
        for subject in list(check.subjects(site)):
            found = _found(check, site, subject, None)
            if found:
                site.forget()
                again = set(_found(check, site, subject, {finding.path for finding in found}))
                yield from (finding for finding in found if finding in again)


def findings_of_backup(backup: Path) -> tuple[Site, Iterator[Finding]]:
    """Return the findings in a backup: its files against the manifest and each other."""
    site = Site(DataLayout(backup / FILES))
    checks = [BackupFiles(backup), *(check for check in CHECKS if check.of_backups)]
    return site, confirmed(site, checks)


def _found(check: Check, site: Site, subject: Path, only: Collection[Path] | None) -> list[Finding]:
    found: dict[Finding, None] = {}
    try:
        for finding in check.find(site, subject, only):
            found[finding] = None
    except OSError as error:
        if error.errno not in _DAMAGED:
            raise
        path = Path(error.filename or subject)
        found[Finding(path, f"the file cannot be read ({error.strerror})", RESTORE)] = None
    return list(found)
