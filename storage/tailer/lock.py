"""Run one tailer per data directory and index format. If none runs, require verifications."""

import logging
import os
from contextlib import suppress
from pathlib import Path

from filelock import lock_descriptor

from oriel.storage.index import IndexDirectory, block_reads_until_verified
from oriel.storage.layout import INDEX_FORMAT, DataLayout
from oriel.storage.shards import ALL_KEYS, Shard
from oriel.storage.tailer.tables import stores_with_indexes

logger = logging.getLogger(__name__)

LOCK_FILE = f".tailer-format-{INDEX_FORMAT}.lock"


def acquire_lock(data: Path, shard: Shard = ALL_KEYS, *, wait: bool) -> int | None:
    """Become the only tailer of a data directory. The lock lasts as long as the process.

    Returns:
        The file descriptor of the lock, or None if another tailer has it and ``wait`` is False.
    """
    data.mkdir(parents=True, exist_ok=True)
    name = LOCK_FILE if shard.is_all else f"{LOCK_FILE}-{shard.number}-of-{shard.count}"
    descriptor = os.open(data / name, os.O_RDWR | os.O_CREAT, 0o644)
    if not lock_descriptor(descriptor, blocking=False):
        if not wait:
            os.close(descriptor)
            return None
        logger.info("another tailer serves %s. Waiting until it ends", data)
        lock_descriptor(descriptor)
    return descriptor


def require_verifications(layout: DataLayout) -> None:
    """Let readers of each index wait until a tailer has verified it, unless a tailer runs."""
    stores = stores_with_indexes(layout)
    if not stores:
        return
    with suppress(OSError):
        lock = acquire_lock(layout.index_root or layout.root, layout.shard, wait=False)
        if lock is None:
            # The running tailer verified the indexes when it started.
            return
        for name in stores:
            if (generation := IndexDirectory(layout.index(name)).current()) is not None:
                block_reads_until_verified(generation)
        os.close(lock)
