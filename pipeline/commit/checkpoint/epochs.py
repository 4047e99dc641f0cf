"""Decide which process can write: each start creates an epoch, and the greatest epoch counts.

    CHECKPOINT/epochs/<n>.json    the process of epoch n, its host, and its start time

A process creates an epoch by creating its file. If several processes try at once, only one process
succeeds. This needs no lock, so it works on any shared file system. Before each effect, a process
checks that the next epoch does not exist. It can be suspended between this check and the effect for
any time. So each effect must also be harmless if it is late (decision 0031).
"""

import os
import socket
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from oriel.pipeline.errors import Fenced
from oriel.storage import current_files

#: The number of epochs whose files stay. A process without its file is fenced.
EPOCHS_KEPT = 10


class Epoch:
    """The epoch of this process."""

    def __init__(self, directory: Path, *, sync: bool) -> None:
        """Create the next epoch. Processes of all earlier epochs are then fenced."""
        self._directory = directory
        files = current_files()
        files.make_directory(directory, sync=sync)
        content = orjson.dumps(
            {
                "process": os.getpid(),
                "host": socket.gethostname(),
                # Process ids can be equal on two hosts with the same name.
                "id": uuid.uuid4().hex,
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
            }
        )
        while True:
            epochs = self._taken()
            self.number = max(epochs, default=0) + 1
            try:
                files.create(self._path(self.number), content, sync=sync)
                break
            except FileExistsError:
                # Another process started at the same time. This process becomes the later one.
                continue
        for number in epochs:
            # The newest file is never deleted, so numbers only increase.
            if number <= self.number - EPOCHS_KEPT:
                files.delete(self._path(number))

    def check(self) -> None:
        """Check that no other process has created a later epoch. This looks up two file names.

        Raises:
            Fenced: another process has taken over. The message names the process and the time.
        """
        files = current_files()
        # Epochs are created one by one, so a later epoch implies the next one. Its file can be
        # deleted after ten more starts, but then the file of this process is deleted also.
        if files.exists(self._path(self.number)) and not files.exists(self._path(self.number + 1)):
            return
        newest = max(self._taken(), default=0)
        try:
            epoch: dict[str, Any] = orjson.loads(files.read(self._path(newest)))
            owner = f"process {epoch['process']} on {epoch['host']}"
            successor = f"{owner} took over this pipeline at {epoch['started']}"
        except (OSError, ValueError, KeyError, TypeError):
            # Without syncs, a power loss can leave the name without the content.
            successor = "another process took over this pipeline"
        message = (
            f"{successor} (epoch {newest}): this process (epoch {self.number}) was replaced and "
            "has stopped. Tables and state belong to its successor. You do not need to do anything"
        )
        raise Fenced(message)

    def _taken(self) -> list[int]:
        names = (Path(name) for name in current_files().names(self._directory))
        return [int(p.stem) for p in names if p.suffix == ".json" and p.stem.isdecimal()]

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:012d}.json"
