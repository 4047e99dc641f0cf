"""Remove indexes of other versions of the program, once no such version uses them.

Each format has its own directory (``oriel.storage.layout``), in which the tailer of that format
renews its heartbeat. Two versions can run on one data directory for a while, for example in a
rolling restart or a downgrade. So the indexes of a format are deleted if its tailer has not
renewed its heartbeat for ``IDLE_SECONDS``. Before format 4, indexes and heartbeat were next to the
directories of formats.
"""

import logging
import shutil
import time
from pathlib import Path

from oriel.storage.layout import DataLayout
from oriel.storage.tailer.status import STATUS_FILE

logger = logging.getLogger(__name__)

#: Seconds without a heartbeat after which a format counts as unused: one day.
IDLE_SECONDS = 86_400.0
_FORMAT = "_format-"


def remove_other_formats(layout: DataLayout) -> list[Path]:
    """Delete indexes of unused formats. Return the deleted directories."""
    removed = []
    try:
        directories = [path for path in layout.index_formats.iterdir() if path.is_dir()]
    except OSError:
        return []
    for directory in directories:
        is_format = directory.name.startswith(_FORMAT)
        if directory == layout.indexes or not (is_format or (directory / "CURRENT").exists()):
            continue
        heartbeat = (directory if is_format else layout.index_formats) / STATUS_FILE
        if _is_idle(heartbeat if heartbeat.exists() else directory):
            logger.info("unused indexes of another version deleted: directory=%s", directory)
            shutil.rmtree(directory, ignore_errors=True)
            removed.append(directory)
    return removed


def _is_idle(path: Path) -> bool:
    try:
        # A time in the future counts as recent, so the directory stays.
        return time.time() - path.stat().st_mtime > IDLE_SECONDS
    except OSError:
        return False
