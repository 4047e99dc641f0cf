"""The registry of checks, and the functions that run them."""

import errno
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from oriel.pipeline.operations.verification.agreement import EventLogs, KafkaTopics, TablesAndStates
from oriel.pipeline.operations.verification.backups import FILES, BackupFiles
from oriel.pipeline.operations.verification.findings import RESTORE, Check, Finding, Site
from oriel.pipeline.operations.verification.indexes import Indexes
from oriel.pipeline.operations.verification.states import CheckpointFiles, ReplayMarks, States
from oriel.pipeline.operations.verification.surplus import SurplusFiles
from oriel.pipeline.operations.verification.tables import DataFiles, DeltaLogs
from oriel.storage import DataLayout

#: Each kind of check, in the order of running. Later checks skip problems that an earlier check
#: reports.
CHECKS: Sequence[Check] = (
    DeltaLogs(),
    CheckpointFiles(),
    States(),
    ReplayMarks(),
    TablesAndStates(),
    EventLogs(),
    KafkaTopics(),
    DataFiles(),
    Indexes(),
    SurplusFiles(),
)

#: The numbers of errors that become findings. Others, such as missing permissions, stop the check.
_DAMAGED = {errno.EIO, errno.ENOENT, errno.ENOTDIR, errno.EISDIR}


def confirmed(site: Site, checks: Sequence[Check] = CHECKS) -> Iterator[Finding]:
    """Yield the findings that a second run of the same check confirms.

    Args:
        site: The data directory.
        checks: The checks to run, in their order.

    Raises:
        OSError: A file cannot be read for a reason other than damage, for example permissions.
    """
    for check in checks:
        for subject in list(check.subjects(site)):
            found = _found(check, site, subject, None)
            if found:
                site.forget()
                again = set(_found(check, site, subject, {finding.path for finding in found}))
                yield from (finding for finding in found if finding in again)


def findings_of_backup(backup: Path) -> tuple[Site, Iterator[Finding]]:
    """Return the site of a backup, and its findings.

    The files are compared with the manifest, and with each other by the checks of data directories.
    """
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
